//! Meeting needs from a pool of found sets.

use super::consistency::conflicts;
use super::request::{Need, Part, Request, Strength};
use super::selection::{Chosen, Note, Selection};
use crate::component::{Bundle, Class, Component};
use crate::error::Conflict;
use crate::probe::{Attempt, Found, Set};
use crate::sources::Step;

/// A set and the attempt that found it.
#[derive(Clone, Copy)]
pub(super) struct Offer<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) set: &'a Set,
    /// Its index among all offers of the selection.
    index: usize,
}

impl Offer<'_> {
    /// Whether both are the same set of the same attempt.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.index == other.index
    }

    /// Whether it has a component that shows which toolkit it is. CCCL and products fit several toolkits.
    pub(super) fn is_toolkit(&self) -> bool {
        let shows_toolkit = |component: Component| {
            let facts = component.facts();
            facts.class != Class::OwnRange && facts.bundle != Bundle::Product
        };
        self.set
            .found
            .iter()
            .any(|found| shows_toolkit(found.component))
    }

    pub(super) fn has_product(&self) -> bool {
        let is_product = |found: &Found| found.component.facts().bundle == Bundle::Product;
        self.set.found.iter().any(is_product)
    }

    pub(super) fn origin(&self) -> String {
        self.attempt.candidate.to_string()
    }

    /// Where one component is. Of a place with several roots, the path of the component is named.
    fn origin_of(&self, found: &Found) -> String {
        let candidate = &self.attempt.candidate;
        if candidate.more_roots().is_empty() {
            candidate.to_string()
        } else {
            format!("{} ({})", candidate.label, found.evidence)
        }
    }

    fn is_of_product_variable(&self) -> bool {
        self.attempt.candidate.step == Step::Product
    }
}

/// Every accepted set of these attempts.
pub(super) fn offers<'a>(request: &Request, attempts: &[&'a Attempt]) -> Vec<Offer<'a>> {
    let sets = attempts
        .iter()
        .flat_map(|attempt| attempt.sets.iter().map(move |set| (*attempt, set)));
    sets.enumerate()
        .map(|(index, (attempt, set))| Offer {
            attempt,
            set,
            index,
        })
        .filter(|offer| request.admits(offer.set))
        .collect()
}

/// What may be taken from the members of a pool after the first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Products; everything if the user named the places.
    ProductsOnly,
    /// Whatever fits the components chosen before.
    WhateverFits,
}

/// Meets every need from the pool, its first member first. The second value is the indexes of the used members.
pub(super) fn complete(
    request: &Request,
    pool: &[Offer<'_>],
    rule: Rule,
) -> Option<(Selection, Vec<usize>)> {
    let major = pool.first()?.set.major;
    for (alternative, needs) in request.groups(major) {
        let mut choice = Choice {
            pool,
            rule,
            chosen: Vec::new(),
            used: Vec::new(),
            incompatible: Vec::new(),
        };
        let unmet = |need: &Need| !choice.meet(need) && need.is_required();
        if needs.iter().any(unmet) {
            continue;
        }
        if request.take_everything {
            choice.take_everything();
        }
        return Some(choice.finish(major, alternative));
    }
    None
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
    /// Whether the need is met by a component that was chosen before, or that is chosen now.
    fn meet(&mut self, need: &Need) -> bool {
        if self.chosen.iter().any(|c| need.is_met_by(&c.found)) {
            return true;
        }
        let pool = self.pool;
        for (index, offer) in in_order(need, pool) {
            let Some(found) = offer.set.found.iter().find(|found| need.is_met_by(found)) else {
                continue;
            };
            let named = pool[0].attempt.candidate.step.is_explicit();
            if self.rule == Rule::ProductsOnly && index > 0 && !named && !need.is_product() {
                continue;
            }
            self.chosen.push(Chosen {
                found: found.clone(),
                origin: offer.origin_of(found),
            });
            let added = self.rule == Rule::WhateverFits && index > 0;
            let must_fit = added || need.strength == Strength::Extra;
            if let Some(conflict) = must_fit.then(|| self.conflict()).flatten() {
                self.chosen.pop();
                // Extras are left out without an error, so they are reported.
                if !added {
                    self.leave_out(found, conflict);
                }
                continue;
            }
            self.used.push(index);
            return true;
        }
        false
    }

    fn conflict(&self) -> Option<Conflict> {
        conflicts(&self.chosen).into_iter().next()
    }

    fn leave_out(&mut self, found: &Found, conflict: Conflict) {
        let note = Note::Incompatible {
            found: Box::new(found.clone()),
            conflict,
        };
        if !self.incompatible.contains(&note) {
            self.incompatible.push(note);
        }
    }

    fn take_everything(&mut self) {
        for component in Component::all() {
            if !self.pool.iter().any(|o| o.set.get(component).is_some()) {
                continue;
            }
            for part in Part::ALL {
                self.meet(&Need::new(component, part, "").with(Strength::Extra));
            }
        }
    }

    fn finish(mut self, major: u32, alternative: Option<usize>) -> (Selection, Vec<usize>) {
        self.chosen.sort_by_key(|c| c.found.component);
        self.used.sort_unstable();
        self.used.dedup();
        let set = Set {
            major,
            found: self.chosen.iter().map(|c| c.found.clone()).collect(),
        };
        let selection = Selection {
            step: self.pool[0].attempt.candidate.step,
            major,
            toolkit: set.toolkit().or_else(|| self.pool[0].set.toolkit()),
            chosen: self.chosen,
            alternative,
            combined: false,
            notes: self.incompatible,
        };
        (selection, self.used)
    }
}

/// The offers that may meet a need. The variable of a product comes first for products, and counts for nothing else.
fn in_order<'p, 'a>(
    need: &Need,
    pool: &'p [Offer<'a>],
) -> impl Iterator<Item = (usize, &'p Offer<'a>)> {
    let is_product = need.is_product();
    let of_variable = pool
        .iter()
        .enumerate()
        .filter(move |(_, offer)| is_product && offer.is_of_product_variable());
    let others = pool
        .iter()
        .enumerate()
        .filter(|(_, offer)| !offer.is_of_product_variable());
    of_variable.chain(others)
}
