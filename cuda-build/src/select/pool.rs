//! Chooses components for every need of a request from a pool of sets. A set is the components of
//! one CUDA major in one place.

use super::consistency::conflicts;
use super::request::{Need, Part, Request, Strength};
use super::selection::{Chosen, Note, Selection};
use crate::component::Component;
use crate::list::{sort_by_key, sorted_set};
use crate::probe::{Attempt, ComponentSet, Found};
use crate::sources::SearchStep;

/// A set and the attempt that found it.
#[derive(Clone, Copy)]
pub(super) struct Offer<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) set: &'a ComponentSet,
}

impl Offer<'_> {
    /// Whether both are the same set of the same attempt.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.set, other.set)
    }

    pub(super) fn step(&self) -> SearchStep {
        self.attempt.candidate.step
    }

    pub(super) fn origin(&self) -> String {
        self.attempt.candidate.to_string()
    }

    /// Where one component is. If the place has several roots, the component's evidence stands for the path of the
    /// place.
    fn origin_of(&self, found: &Found) -> String {
        let candidate = &self.attempt.candidate;
        match candidate.more_roots() {
            [] => candidate.to_string(),
            _ => format!("{} ({})", candidate.label, found.evidence),
        }
    }
}

/// Every set of these attempts that the request accepts.
pub(super) fn offers<'a>(request: &Request, attempts: &[&'a Attempt]) -> Vec<Offer<'a>> {
    let mut offers = Vec::new();
    for attempt in attempts {
        for set in &attempt.sets {
            if request.admits(set) {
                offers.push(Offer { attempt, set });
            }
        }
    }
    offers
}

/// Which components may be taken from pool members other than the first.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rule {
    /// Only products. If the user named the places, every component.
    ProductsOnly,
    /// Every component that fits the components that were chosen before it.
    WhateverFits,
}

/// Chooses a component for every need, from the first pool member that has one. Also returns the indexes of the members
/// that were used. `None` if each group of needs has a required need that is not met.
pub(super) fn complete(
    request: &Request,
    pool: &[Offer<'_>],
    rule: Rule,
) -> Option<(Selection, Vec<usize>)> {
    let first = pool.first()?;
    let major = first.set.major;
    request.groups(major).into_iter().find_map(|needs| {
        let mut choice = Choice {
            pool,
            rule,
            chosen: Vec::new(),
            used: Vec::new(),
            incompatible: Vec::new(),
        };
        for need in &needs {
            if !choice.meet(need) && need.is_required() {
                return None;
            }
        }
        if request.take_everything {
            choice.take_everything();
        }
        let Choice {
            mut chosen,
            used,
            incompatible,
            ..
        } = choice;
        sort_by_key(&mut chosen, |c| c.found.component);
        let found = chosen.iter().map(|c| c.found.clone()).collect();
        let selection = Selection {
            step: first.step(),
            major,
            release: ComponentSet { major, found }
                .release()
                .or_else(|| first.set.release()),
            chosen,
            notes: incompatible,
        };
        Some((selection, sorted_set(used)))
    })
}

/// The components chosen from a pool so far.
struct Choice<'p, 'a> {
    pool: &'p [Offer<'a>],
    rule: Rule,
    chosen: Vec<Chosen>,
    used: Vec<usize>,
    incompatible: Vec<Note>,
}

impl Choice<'_, '_> {
    /// Chooses a component that meets the need, unless one was chosen before. Returns whether the
    /// need is met.
    fn meet(&mut self, need: &Need) -> bool {
        if self.chosen.iter().any(|c| need.is_met_by(&c.found)) {
            return true;
        }
        let pool = self.pool;
        let is_named = pool[0].step().is_explicit();
        for (index, offer) in in_order(need, pool) {
            let Some(found) = offer.set.found.iter().find(|found| need.is_met_by(found)) else {
                continue;
            };
            if self.rule == Rule::ProductsOnly && index > 0 && !is_named && !need.is_product() {
                continue;
            }
            self.chosen.push(Chosen {
                found: found.clone(),
                origin: offer.origin_of(found),
            });
            let is_from_other_place = self.rule == Rule::WhateverFits && index > 0;
            if (is_from_other_place || need.strength == Strength::Extra)
                && let Some(conflict) = conflicts(&self.chosen).into_iter().next()
            {
                self.chosen.pop();
                let found = Box::new(found.clone());
                let note = Note::Incompatible { found, conflict };
                // An extra that does not fit is no error, so a note reports it.
                if !is_from_other_place && !self.incompatible.contains(&note) {
                    self.incompatible.push(note);
                }
                continue;
            }
            self.used.push(index);
            return true;
        }
        false
    }

    fn take_everything(&mut self) {
        let pool = self.pool;
        let is_found = |component: &Component| pool.iter().any(|o| o.set.get(*component).is_some());
        for component in Component::all().filter(is_found) {
            for part in Part::ALL {
                self.meet(&Need::new(component, part, "").with(Strength::Extra));
            }
        }
    }
}

/// The offers that may meet a need, with their indexes in the pool. For a product, the places that a product's variable
/// names come first. For any other component, these places are not used.
fn in_order<'p, 'a>(
    need: &Need,
    pool: &'p [Offer<'a>],
) -> impl Iterator<Item = (usize, &'p Offer<'a>)> {
    let is_product = need.is_product();
    let of_variable = |offer: &Offer<'_>| offer.step() == SearchStep::Product;
    let from_variables = pool
        .iter()
        .enumerate()
        .filter(move |(_, o)| is_product && of_variable(o));
    let others = pool
        .iter()
        .enumerate()
        .filter(move |(_, o)| !of_variable(o));
    from_variables.chain(others)
}
