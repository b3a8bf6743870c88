//! Decides in which order the attempts are considered, and which of them are combined.

use std::cmp::Reverse;

use super::not_found::{found_for_another_major, not_found, sets};
use super::pool::{Offer, Rule, complete, offers};
use super::request::{Request, Strength};
use super::selection::{Note, Selection};
use crate::error::{Conflict, Error};
use crate::list::sort_by_key;
use crate::probe::{Attempt, ComponentSet};
use crate::sources::{Layout, SearchStep};

/// Attempts, grouped by how their places are used.
struct Places<'a> {
    /// Places that the user named. If there are any, only products are taken from other places.
    named: Vec<&'a Attempt>,
    /// Places that a product's variable names, such as `CUDNN_PATH`.
    products: Vec<&'a Attempt>,
    /// All other places, in the order of the search.
    others: Vec<&'a Attempt>,
}

impl<'a> Places<'a> {
    fn new(attempts: &[&'a Attempt]) -> Self {
        let mut places = Self {
            named: Vec::new(),
            products: Vec::new(),
            others: Vec::new(),
        };
        for attempt in attempts {
            match attempt.candidate.step {
                step if step.is_explicit() => places.named.push(attempt),
                SearchStep::Product => places.products.push(attempt),
                _ => places.others.push(attempt),
            }
        }
        places
    }

    /// The first named place that has no component, which is an error. A place that a product's variable names is
    /// checked only if the request needs a product.
    fn empty_named_place(&self, request: &Request) -> Option<&'a Attempt> {
        let mut needs = request.needs.iter();
        let needs_product = needs.any(|need| need.is_product() && need.strength != Strength::Extra);
        let products = self.products.iter().filter(|_| needs_product);
        let mut named = self.named.iter().chain(products).copied();
        named.find(|attempt| attempt.sets.is_empty() && !self.is_below_named_root(attempt))
    }

    /// Whether this is a `site-packages` below a named prefix that is itself a toolkit's root. It may have no CUDA
    /// component.
    fn is_below_named_root(&self, attempt: &Attempt) -> bool {
        let candidate = &attempt.candidate;
        candidate.layout == Layout::SitePackages
            && self.named.iter().any(|other| {
                let above = &other.candidate;
                candidate.label == above.label
                    && candidate.path != above.path
                    && candidate.path.starts_with(&above.path)
                    && !other.sets.is_empty()
            })
    }
}

/// Chooses the components that meet a request and belong together.
///
/// # Errors
/// [`Error::InvalidSource`] if a named place has no component, [`Error::Inconsistent`] if the
/// components do not belong together, [`Error::NotFound`] if some were not found.
pub fn select(request: &Request, attempts: &[&Attempt]) -> Result<Selection, Error> {
    let places = Places::new(attempts);
    if let Some(wrong) = places.empty_named_place(request) {
        return Err(Error::InvalidSource {
            source_name: wrong.candidate.label.to_string(),
            path: wrong.candidate.path.clone(),
            reason: wrong.summary(),
            unused: places.others.into_iter().cloned().collect(),
        });
    }
    // `/usr` is on the compiler's default path even if roots are named, so products are accepted from it.
    let is_named = !places.named.is_empty();
    let is_system = |attempt: &&Attempt| attempt.candidate.layout == Layout::SystemProducts;
    let others = places.others.iter().copied();
    let (system, unused) = others.partition::<Vec<_>, _>(|other| is_named && is_system(other));
    let beside = [places.products.as_slice(), &system].concat();
    let selection = if is_named {
        select_from_named(request, &[places.named.as_slice(), &beside].concat())
    } else {
        select_by_step(request, &places)
    };
    let selection = selection.ok_or_else(|| not_found(request, &places.named, &beside, &unused))?;
    let mut conflicts = products_of_another_major(request, &selection, &places.products);
    if conflicts.is_empty() {
        conflicts = super::conflicts(&selection.chosen);
    } else if let Some(other) = reselect_with_product_major(request, attempts, &selection, &places)
    {
        return Ok(other);
    }
    if conflicts.is_empty() {
        Ok(selection)
    } else {
        Err(Error::Inconsistent { conflicts })
    }
}

/// A conflict for each needed product that is for another CUDA major than the chosen toolkit, although a product's
/// variable names its place. The user named the place, so the product is neither ignored nor taken from another place.
fn products_of_another_major(
    request: &Request,
    selection: &Selection,
    products: &[&Attempt],
) -> Vec<Conflict> {
    let mut chosen = selection.chosen.iter();
    let Some(toolkit) = chosen.find(|c| c.found.component.facts().is_part_of_toolkit()) else {
        return Vec::new();
    };
    let sets = sets(products);
    let is_for_major = |set: &ComponentSet| set.major == toolkit.found.major;
    let mut conflicts = Vec::new();
    for need in &request.needs {
        let has_product =
            |set: &&ComponentSet| is_for_major(set) && set.get(need.component).is_some();
        if need.is_product() && need.strength != Strength::Extra && !sets.iter().any(has_product) {
            conflicts.extend(found_for_another_major(need, toolkit, products));
        }
    }
    conflicts
}

/// Selects for the CUDA major of a product that a variable names, the newest major first. `None` if a major was
/// requested, or if the selection fails for each of these majors.
fn reselect_with_product_major(
    request: &Request,
    attempts: &[&Attempt],
    selection: &Selection,
    places: &Places<'_>,
) -> Option<Selection> {
    let sets = sets(&places.products);
    let mut majors: Vec<u32> = sets.iter().map(|set| set.major).collect();
    majors.retain(|major| request.major.is_none() && *major != selection.major);
    sort_by_key(&mut majors, |major| Reverse(*major));
    majors.into_iter().find_map(|major| {
        let mut request = request.clone();
        request.major = Some(major);
        select(&request, attempts).ok()
    })
}

/// Selects from named places, which may be combined. The CUDA major is that of the first toolkit for whose major the
/// places have everything that is required.
fn select_from_named(request: &Request, attempts: &[&Attempt]) -> Option<Selection> {
    let offers = offers(request, attempts);
    let toolkits: Vec<&Offer<'_>> = offers
        .iter()
        .filter(|offer| offer.set.is_toolkit())
        .collect();
    let of_major = |major: u32| {
        let offers = offers.iter().copied();
        offers.filter(move |offer| offer.set.major == major)
    };
    let (mut selection, _) = toolkits.iter().find_map(|toolkit| {
        let pool: Vec<Offer<'_>> = of_major(toolkit.set.major).collect();
        complete(request, &pool, Rule::ProductsOnly)
    })?;
    let major = selection.major;
    let others = toolkits.iter().copied();
    note_others(
        &mut selection,
        others.filter(|other| other.set.major != major),
    );
    Some(selection)
}

/// Selects from the first step of the search that has everything. If no step has everything, combines steps.
fn select_by_step(request: &Request, places: &Places<'_>) -> Option<Selection> {
    let all = offers(
        request,
        &[places.products.as_slice(), &places.others].concat(),
    );
    let is_base =
        |offer: &&Offer<'_>| offer.step() != SearchStep::Product && offer.set.is_toolkit();
    let toolkits: Vec<Offer<'_>> = all.iter().filter(is_base).copied().collect();
    let mut steps = toolkits.chunk_by(|one, other| one.step() == other.step());
    steps
        .find_map(|here| {
            let mut here = here.to_vec();
            sort_by_key(&mut here, |offer| {
                Reverse((offer.set.major, offer.set.release()))
            });
            newest_complete(request, &here, &all)
        })
        .or_else(|| select_combined(request, &toolkits, &all))
}

/// Selects the first complete toolkit in `here`, which has the toolkits of one step, newest first. Products may come
/// from any place.
fn newest_complete(request: &Request, here: &[Offer<'_>], all: &[Offer<'_>]) -> Option<Selection> {
    here.iter().find_map(|base| {
        let pool = pool(base, all, |offer| offer.set.has_product());
        let (mut selection, _) = complete(request, &pool, Rule::ProductsOnly)?;
        let others = here.iter().filter(|other| !other.is_same(base));
        note_others(&mut selection, others);
        Some(selection)
    })
}

/// Tries each toolkit in turn as a base, and takes the components that the base lacks from the others. A base of which
/// no component is used does not count.
fn select_combined(
    request: &Request,
    toolkits: &[Offer<'_>],
    all: &[Offer<'_>],
) -> Option<Selection> {
    toolkits.iter().find_map(|base| {
        let pool = pool(base, all, |_| true);
        let (mut selection, used) = complete(request, &pool, Rule::WhateverFits)?;
        if !used.contains(&0) {
            return None;
        }
        selection.note(Note::Combined {
            origins: used.iter().map(|index| pool[*index].origin()).collect(),
        });
        Some(selection)
    })
}

/// The base, then the other offers for its CUDA major that `accept` allows.
fn pool<'a>(
    base: &Offer<'a>,
    all: &[Offer<'a>],
    accept: impl Fn(&Offer<'a>) -> bool,
) -> Vec<Offer<'a>> {
    let mut pool = vec![*base];
    for offer in all {
        if !offer.is_same(base) && offer.set.major == base.set.major && accept(offer) {
            pool.push(*offer);
        }
    }
    pool
}

/// Adds a note that lists the toolkits that were found but not used, so that the user sees the choice.
fn note_others<'a>(selection: &mut Selection, others: impl Iterator<Item = &'a Offer<'a>>) {
    let mut others: Vec<String> = others
        .map(|other| format!("CUDA {}, {}", other.set.shown_release(), other.origin()))
        .collect();
    others.dedup();
    if !others.is_empty() {
        selection.note(Note::OtherToolkits(others));
    }
}
