//! Chooses, from attempts, the components that meet a request and belong together.

use std::cmp::Reverse;

use super::not_found::{found_for_another_major, not_found};
use super::request::{Need, Part, Request, Strength};
use crate::component::Component;
use crate::consistency;
use crate::error::{Conflict, Error};
use crate::found::{Attempt, ComponentSet, Found, common_release};
use crate::list::{sort_by_key, sorted_set};
use crate::sources::{CandidateKind, SearchStep};
use crate::target::Target;
use crate::toolkit::{Note, Toolkit};

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
        let of_kind = |is_of_kind: fn(SearchStep) -> bool| {
            let mut attempts = attempts.to_vec();
            attempts.retain(|attempt| is_of_kind(attempt.candidate.step));
            attempts
        };
        Self {
            named: of_kind(SearchStep::is_explicit),
            products: of_kind(|step| step == SearchStep::Product),
            others: of_kind(|step| !step.is_explicit() && step != SearchStep::Product),
        }
    }

    /// The first named place that has no component, which is an error. A place that a product's variable names is
    /// checked only if the request needs a product.
    fn empty_named_place(&self, request: &Request) -> Option<&'a Attempt> {
        let needs_product = request.needs_product(Strength::Optional);
        let products = self.products.iter().filter(|_| needs_product);
        let mut named = self.named.iter().chain(products).copied();
        named.find(|attempt| attempt.sets.is_empty() && !self.is_below_named_root(attempt))
    }

    /// Whether this is a `site-packages` below a named prefix that is itself a toolkit's root. Such a `site-packages`
    /// may be empty.
    fn is_below_named_root(&self, attempt: &Attempt) -> bool {
        let candidate = &attempt.candidate;
        candidate.kind == CandidateKind::SitePackages
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
pub fn select(request: &Request, target: &Target, attempts: &[&Attempt]) -> Result<Toolkit, Error> {
    let places = Places::new(attempts);
    if let Some(wrong) = places.empty_named_place(request) {
        let unused = places.others.iter().filter(|other| !other.sets.is_empty());
        return Err(Error::InvalidSource {
            source_name: wrong.candidate.label.clone(),
            path: wrong.candidate.path.clone(),
            reason: wrong.summary(),
            unused: unused.map(ToString::to_string).collect(),
        });
    }
    // `/usr` is on the compiler's default path even if roots are named, so products are accepted from it.
    let named = places.named.as_slice();
    let is_named = !named.is_empty();
    let is_system = |attempt: &&Attempt| attempt.candidate.kind == CandidateKind::SystemProducts;
    let others = places.others.iter().copied();
    let (system, unused) = others.partition::<Vec<_>, _>(|other| is_named && is_system(other));
    let product_places = [places.products.as_slice(), &system].concat();
    let toolkit = if is_named {
        select_from_named(request, &[named, &product_places].concat())
    } else {
        select_by_step(request, &places)
    };
    let Some(mut toolkit) = toolkit else {
        return Err(not_found(request, target, named, &product_places, &unused));
    };
    toolkit.warnings = products_of_another_version(request, &toolkit, &places.products);
    let mut conflicts = products_of_another_major(request, &toolkit, &places.products);
    if conflicts.is_empty() {
        conflicts = consistency::conflicts(toolkit.components());
    } else if request.major.is_none() {
        // Select for the CUDA major of a product that a variable names, the newest major first.
        let sets = places.products.iter().flat_map(|attempt| &attempt.sets);
        let mut majors = sorted_set(sets.map(|set| set.major));
        majors.retain(|major| *major != toolkit.version().major);
        let mut request = request.clone();
        for major in majors.into_iter().rev() {
            request.major = Some(major);
            if let Ok(other) = select(&request, target, attempts) {
                return Ok(other);
            }
        }
    }
    Error::if_inconsistent(conflicts)?;
    Ok(toolkit)
}

/// A conflict for each needed product that its variable offers only for another CUDA major. The user named the place,
/// so the product is neither ignored nor taken from another place.
fn products_of_another_major(
    request: &Request,
    toolkit: &Toolkit,
    products: &[&Attempt],
) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    let mut chosen = toolkit.components().iter();
    if let Some(part) = chosen.find(|found| found.component.facts().is_part_of_toolkit()) {
        for need in request.needs_of(part.major) {
            let mut sets = products.iter().flat_map(|attempt| &attempt.sets);
            let is_offered =
                sets.any(|it| it.major == part.major && it.get(need.component).is_some());
            if need.is_product() && need.strength != Strength::Extra && !is_offered {
                conflicts.extend(found_for_another_major(need, part, products));
            }
        }
    }
    conflicts
}

/// A warning for each needed product that its variable offers only in a version that is not accepted, and that was
/// taken from another place.
fn products_of_another_version(
    request: &Request,
    toolkit: &Toolkit,
    products: &[&Attempt],
) -> Vec<String> {
    let needs = request.needs_of(toolkit.version().major).iter();
    let warning = |need: &Need| {
        let (accepted, used) = (need.version.as_ref()?, toolkit.get(need.component)?);
        let mut sets = products.iter().flat_map(|attempt| &attempt.sets);
        let is_unfit = |it: &&Found| it.origin != used.origin && !need.is_met_by(it);
        let unfit = sets.find_map(|set| set.get(need.component).filter(is_unfit))?;
        let (used, place, origin) = (used.shown_version(), &used.origin, &unfit.origin);
        Some(format!(
            "{origin} has {unfit}, but `{accepted}` is required: {used} of {place} is used"
        ))
    };
    needs.filter_map(warning).collect()
}

/// Every set of these attempts that the request accepts.
fn accepted_sets<'a>(request: &Request, attempts: &[&'a Attempt]) -> Vec<&'a ComponentSet> {
    let sets = attempts.iter().flat_map(|attempt| &attempt.sets);
    sets.filter(|set| request.admits(set)).collect()
}

/// Selects from named places, which may be combined. Tries the toolkits' majors in order; the first with everything
/// required wins.
fn select_from_named(request: &Request, attempts: &[&Attempt]) -> Option<Toolkit> {
    let all = accepted_sets(request, attempts);
    let mut toolkits = all.iter().filter(|set| set.is_toolkit());
    let (toolkit, _) = toolkits.find_map(|base| {
        let mut pool = all.clone();
        pool.retain(|set| set.major == base.major);
        complete(request, &pool, false)
    })?;
    Some(toolkit)
}

/// Selects from the first step of the search that has everything. If no step has everything, combines steps.
fn select_by_step(request: &Request, places: &Places<'_>) -> Option<Toolkit> {
    let attempts = [places.products.as_slice(), &places.others].concat();
    let all = accepted_sets(request, &attempts);
    let is_base = |set: &&ComponentSet| set.step != SearchStep::Product && set.is_toolkit();
    let toolkits: Vec<_> = all.iter().copied().filter(is_base).collect();
    let mut steps = toolkits.chunk_by(|one, other| one.step == other.step);
    let newest_complete = |here: &[&ComponentSet]| {
        let mut here = here.to_vec();
        sort_by_key(&mut here, |set| Reverse((set.major, set.release())));
        here.iter().find_map(|base| {
            // Products may come from any place.
            let pool = pool(base, &all, ComponentSet::has_product);
            let (toolkit, _) = complete(request, &pool, false)?;
            Some(toolkit)
        })
    };
    steps
        .find_map(newest_complete)
        .or_else(|| select_combined(request, &toolkits, &all))
}

/// Tries each toolkit in turn as a base, and takes the components that the base lacks from the others. A base of which
/// no component is used does not count.
fn select_combined(
    request: &Request,
    toolkits: &[&ComponentSet],
    all: &[&ComponentSet],
) -> Option<Toolkit> {
    toolkits.iter().find_map(|base| {
        let pool = pool(base, all, |_| true);
        let (mut toolkit, used) = complete(request, &pool, true)?;
        if !used.contains(&0) {
            return None;
        }
        let origins = used.iter().map(|index| pool[*index].origin.clone());
        toolkit.note(Note::Combined(origins.collect()));
        Some(toolkit)
    })
}

/// The base, then the other sets for its CUDA major that `accept` allows.
fn pool<'a>(
    base: &'a ComponentSet,
    all: &[&'a ComponentSet],
    accept: impl Fn(&ComponentSet) -> bool,
) -> Vec<&'a ComponentSet> {
    let mut pool = all.to_vec();
    pool.retain(|set| !std::ptr::eq(*set, base) && set.major == base.major && accept(set));
    pool.insert(0, base);
    pool
}

/// Chooses a component for every need, from the first pool member that has one. Also returns the indexes of the members
/// that were used. `None` if each group of needs has a required need that is not met, or if the CUDA release is
/// unknown.
fn complete(
    request: &Request,
    pool: &[&ComponentSet],
    combines: bool,
) -> Option<(Toolkit, Vec<usize>)> {
    let first = pool.first()?;
    request.groups(first.major).into_iter().find_map(|needs| {
        let mut choice = Choice {
            pool,
            combines,
            chosen: Vec::new(),
            used: Vec::new(),
            incompatible: Vec::new(),
        };
        for need in &needs {
            if !choice.meet(need) && need.strength == Strength::Required {
                return None;
            }
        }
        if request.take_everything {
            choice.take_everything();
        }
        let mut chosen = choice.chosen;
        sort_by_key(&mut chosen, |found| found.component);
        let release = common_release(&chosen).or_else(|| first.release())?;
        let toolkit = Toolkit::new(release, first.step, chosen, choice.incompatible);
        Some((toolkit, sorted_set(choice.used)))
    })
}

/// The components chosen from a pool so far.
struct Choice<'p> {
    pool: &'p [&'p ComponentSet],
    /// Whether every component that fits is taken from any pool member. Otherwise products alone are taken from members
    /// other than the first, except if the user named the places.
    combines: bool,
    chosen: Vec<Found>,
    used: Vec<usize>,
    incompatible: Vec<Note>,
}

impl Choice<'_> {
    /// Chooses a component that meets the need, unless one was chosen before. Returns whether the
    /// need is met.
    fn meet(&mut self, need: &Need) -> bool {
        if self.chosen.iter().any(|found| need.is_met_by(found)) {
            return true;
        }
        let pool = self.pool;
        let is_named = pool[0].step.is_explicit();
        for (index, set) in in_order(need, pool) {
            let Some(found) = set.found.iter().find(|found| need.is_met_by(found)) else {
                continue;
            };
            if !self.combines && index > 0 && !is_named && !need.is_product() {
                continue;
            }
            self.chosen.push(found.clone());
            let must_fit = self.combines && index > 0;
            let mut conflicts = Vec::new();
            if must_fit || need.strength == Strength::Extra {
                conflicts = consistency::conflicts(&self.chosen);
            }
            let Some(conflict) = conflicts.into_iter().next() else {
                self.used.push(index);
                return true;
            };
            self.chosen.pop();
            let found = Box::new(found.clone());
            let note = Note::Incompatible { found, conflict };
            // An extra that does not fit is no error, so a note reports it.
            if !must_fit && !self.incompatible.contains(&note) {
                self.incompatible.push(note);
            }
        }
        false
    }

    fn take_everything(&mut self) {
        let pool = self.pool;
        let is_found = |component: &Component| pool.iter().any(|set| set.get(*component).is_some());
        for component in Component::all().filter(is_found) {
            for part in Part::ALL {
                self.meet(&Need::new(component, part, "").with(Strength::Extra));
            }
        }
    }
}

/// The sets that may meet a need, with their indexes in the pool. For a product, the places that a product's variable
/// names come first. For any other component, these places are not used.
fn in_order<'p>(
    need: &Need,
    pool: &'p [&'p ComponentSet],
) -> impl Iterator<Item = (usize, &'p ComponentSet)> {
    let is_product = need.is_product();
    let sets = pool.iter().copied().enumerate();
    let (of_variables, others): (Vec<_>, Vec<_>) =
        sets.partition(|(_, set)| set.step == SearchStep::Product);
    let of_variables = of_variables.into_iter().filter(move |_| is_product);
    of_variables.chain(others)
}
