//! The order in which places are considered.

use super::consistency::conflicts;
use super::not_found::{not_found, products_of_another_major};
use super::pool::{Offer, Rule, complete, offers};
use super::request::{Request, Strength};
use super::selection::{Note, Selection};
use crate::error::Error;
use crate::probe::Attempt;
use crate::sources::{Layout, Step};

/// Attempts by what their places count for.
struct Places<'a> {
    /// The user named them: then only named places count.
    named: Vec<&'a Attempt>,
    /// Variables of products.
    products: Vec<&'a Attempt>,
    /// Everything else, in the order of the search.
    others: Vec<&'a Attempt>,
}

impl<'a> Places<'a> {
    fn new(attempts: &[&'a Attempt]) -> Self {
        let (named, others) = attempts
            .iter()
            .copied()
            .partition::<Vec<_>, _>(|attempt| attempt.candidate.step.is_explicit());
        let (products, others) = others
            .into_iter()
            .partition(|attempt| attempt.candidate.step == Step::Product);
        Self {
            named,
            products,
            others,
        }
    }

    /// A place that was named and has nothing. A wrong variable of a product matters only if a product is needed.
    fn wrong(&self, request: &Request) -> Option<&'a Attempt> {
        let needs_product = request
            .needs
            .iter()
            .any(|need| need.is_product() && need.strength != Strength::Extra);
        let products = self.products.iter().filter(|_| needs_product);
        let mut named = self.named.iter().chain(products);
        named
            .find(|attempt| attempt.sets.is_empty() && !self.is_below_named_root(attempt))
            .copied()
    }

    /// Whether this is the `site-packages` below a named prefix that is itself a toolkit's root.
    fn is_below_named_root(&self, attempt: &Attempt) -> bool {
        let own = &attempt.candidate;
        own.layout == Layout::SitePackages
            && self.named.iter().any(|other| {
                let above = &other.candidate;
                own.label == above.label
                    && own.path != above.path
                    && own.path.starts_with(&above.path)
                    && !other.sets.is_empty()
            })
    }
}

/// Chooses the components that meet a request and belong together.
///
/// # Errors
/// [`Error::InvalidSource`] if a named place has nothing, [`Error::Inconsistent`] if the components do not belong
/// together, [`Error::NotFound`] if some are in no place.
pub fn select(request: &Request, attempts: &[&Attempt]) -> Result<Selection, Error> {
    let places = Places::new(attempts);
    if let Some(wrong) = places.wrong(request) {
        return Err(Error::InvalidSource {
            source_name: wrong.candidate.label.to_string(),
            path: wrong.candidate.path.clone(),
            reason: wrong.summary(),
            unused: places.others.into_iter().cloned().collect(),
        });
    }
    // `/usr` is on the compiler's default path even if roots are named, so products are accepted from it.
    let is_system = |attempt: &&Attempt| attempt.candidate.layout == Layout::SystemProducts;
    let (system, unused): (Vec<&Attempt>, Vec<&Attempt>) = places
        .others
        .iter()
        .partition(|attempt| !places.named.is_empty() && is_system(attempt));
    let beside = [places.products.as_slice(), &system].concat();
    let selection = if places.named.is_empty() {
        searched(request, &places)
    } else {
        named(request, &[places.named.as_slice(), &beside].concat())
    };
    let selection = selection.ok_or_else(|| not_found(request, &places.named, &beside, &unused))?;
    let wrong = products_of_another_major(request, &selection, &places.products);
    if !wrong.is_empty() {
        return with_the_products_major(request, attempts, &selection, &places.products)
            .ok_or(Error::Inconsistent { conflicts: wrong });
    }
    let conflicts = conflicts(&selection.chosen);
    if conflicts.is_empty() {
        Ok(selection)
    } else {
        Err(Error::Inconsistent { conflicts })
    }
}

/// A selection for the major of a product that a variable names, if no major was requested.
fn with_the_products_major(
    request: &Request,
    attempts: &[&Attempt],
    selection: &Selection,
    products: &[&Attempt],
) -> Option<Selection> {
    let mut majors: Vec<u32> = products
        .iter()
        .flat_map(|attempt| &attempt.sets)
        .map(|set| set.major)
        .filter(|major| request.major.is_none() && *major != selection.major)
        .collect();
    majors.sort_unstable_by(|a, b| b.cmp(a));
    majors.into_iter().find_map(|major| {
        let request = Request {
            major: Some(major),
            ..request.clone()
        };
        select(&request, attempts).ok()
    })
}

/// From named places, which may be combined. The first decides the major if it has what is needed.
fn named(request: &Request, attempts: &[&Attempt]) -> Option<Selection> {
    let offers = offers(request, attempts);
    let toolkits: Vec<&Offer<'_>> = offers.iter().filter(|offer| offer.is_toolkit()).collect();
    let mut majors: Vec<u32> = Vec::new();
    for offer in &toolkits {
        if !majors.contains(&offer.set.major) {
            majors.push(offer.set.major);
        }
    }
    let (mut selection, _) = majors.into_iter().find_map(|major| {
        let pool: Vec<Offer<'_>> = offers
            .iter()
            .copied()
            .filter(|offer| offer.set.major == major)
            .collect();
        complete(request, &pool, Rule::ProductsOnly)
    })?;
    let major = selection.major;
    for other in toolkits.iter().filter(|other| other.set.major != major) {
        note_other(&mut selection, other);
    }
    Some(selection)
}

/// From the first step that has everything, else combined.
fn searched(request: &Request, places: &Places<'_>) -> Option<Selection> {
    let all = offers(
        request,
        &[places.products.as_slice(), &places.others].concat(),
    );
    let is_base =
        |offer: &&Offer<'_>| offer.attempt.candidate.step != Step::Product && offer.is_toolkit();
    let toolkits: Vec<Offer<'_>> = all.iter().filter(is_base).copied().collect();
    let mut steps: Vec<Step> = toolkits
        .iter()
        .map(|offer| offer.attempt.candidate.step)
        .collect();
    steps.dedup();
    let complete_step = |step: &Step| {
        let mut here: Vec<Offer<'_>> = toolkits
            .iter()
            .copied()
            .filter(|offer| offer.attempt.candidate.step == *step)
            .collect();
        here.sort_by_key(|offer| std::cmp::Reverse((offer.set.major, offer.set.toolkit())));
        newest_complete(request, &here, &all)
    };
    steps
        .iter()
        .find_map(complete_step)
        .or_else(|| combined(request, &toolkits, &all))
}

/// The newest complete toolkit of one step. Products may come from any place.
fn newest_complete(request: &Request, here: &[Offer<'_>], all: &[Offer<'_>]) -> Option<Selection> {
    here.iter().find_map(|base| {
        let pool = pool(base, all, Offer::has_product);
        let (mut selection, _) = complete(request, &pool, Rule::ProductsOnly)?;
        for other in here.iter().filter(|other| !other.is(base)) {
            note_other(&mut selection, other);
        }
        Some(selection)
    })
}

/// Each place in turn, with what it lacks from the others.
fn combined(request: &Request, toolkits: &[Offer<'_>], all: &[Offer<'_>]) -> Option<Selection> {
    toolkits.iter().find_map(|base| {
        let pool = pool(base, all, |_| true);
        let (mut selection, used) = complete(request, &pool, Rule::WhateverFits)?;
        if !used.contains(&0) {
            return None;
        }
        selection.combined = true;
        selection.note(Note::Combined {
            origins: used.iter().map(|index| pool[*index].origin()).collect(),
        });
        Some(selection)
    })
}

/// A base, and the others of its major that are wanted.
fn pool<'a>(
    base: &Offer<'a>,
    all: &[Offer<'a>],
    wanted: impl Fn(&Offer<'a>) -> bool,
) -> Vec<Offer<'a>> {
    let others = all
        .iter()
        .filter(|offer| !offer.is(base) && offer.set.major == base.set.major && wanted(offer));
    [*base].into_iter().chain(others.copied()).collect()
}

/// A toolkit that is not used is reported, so that the choice is visible.
fn note_other(selection: &mut Selection, other: &Offer<'_>) {
    let release = other.set.toolkit();
    selection.note(Note::OtherToolkit {
        release: release.map_or_else(|| other.set.major.to_string(), |v| v.to_string()),
        origin: other.origin(),
    });
}
