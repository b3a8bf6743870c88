//! Chooses, among what was found, the components that the caller needs and that belong together.
//! Pure: from attempts to a selection, or to the error that says why not.
//!
//! - Somebody named a place: only named places count; several of them are combined in order, and
//!   the first decides the CUDA major where it has what is needed.
//! - Nobody did: the first step of the search that holds everything wins. Of several toolkits in
//!   one step, the newest.
//! - No step holds everything: the missing components are added from later steps, where they
//!   belong to the same CUDA release, and the selection says that it is combined.

mod consistency;
mod explain;

use crate::component::{Bundle, Class, Component, EdgeKind, closure};
use crate::error::Error;
use crate::probe::{Attempt, Found, Set};
use crate::release;
use crate::sources::{Layout, Step};
use crate::version::ToolkitVersion;

pub use consistency::{capability_conflicts, conflicts};
pub(crate) use explain::built_for;

/// The part of a component that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Headers to compile with.
    Headers,
    /// The shared library to link or load.
    Shared,
    /// Static archives.
    Archive,
    /// Programs to run.
    Tools,
}

/// How much a component is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Without it nothing is chosen.
    Required,
    /// Done without where it isn't; where it is, it has to fit.
    Optional,
    /// Taken where it is and fits.
    Extra,
}

/// A component that is needed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Which one.
    pub component: Component,
    /// Which part of it.
    pub part: Part,
    /// Versions of the component that will do.
    pub version: Option<semver::VersionReq>,
    /// Fit for parentheses: `needed to compile 2 .cu files`.
    pub why: String,
    /// How much.
    pub strength: Strength,
}

impl Need {
    /// A required part.
    pub fn new(component: Component, part: Part, why: impl Into<String>) -> Self {
        Self {
            component,
            part,
            version: None,
            why: why.into(),
            strength: Strength::Required,
        }
    }

    /// The same, needed as much as `strength` says.
    #[must_use]
    pub fn with(mut self, strength: Strength) -> Self {
        self.strength = strength;
        self
    }

    /// What a library needs besides itself. A library that it names has to be there, or nothing
    /// starts; one that it opens by name is used where it is, and then it has to fit.
    fn through(&self, major: u32) -> Vec<Self> {
        if self.part != Part::Shared || self.strength == Strength::Extra {
            return Vec::new();
        }
        let run_time = closure(&[self.component], major)
            .into_iter()
            .filter(|(_, kind)| kind.is_run_time());
        run_time
            .map(|(component, kind)| {
                let strength = match kind {
                    EdgeKind::Link => self.strength,
                    EdgeKind::Load => Strength::Optional,
                    EdgeKind::LoadIfThere | EdgeKind::Build => Strength::Extra,
                };
                let why = format!("`{}` needs it", self.component);
                Self::new(component, Part::Shared, why).with(strength)
            })
            .collect()
    }

    pub(crate) fn is_product(&self) -> bool {
        self.component.facts().bundle == Bundle::Product
    }

    fn is_required(&self) -> bool {
        self.strength == Strength::Required
    }

    /// Whether `found` serves.
    #[must_use]
    pub fn is_met_by(&self, found: &Found) -> bool {
        let part = match self.part {
            Part::Headers => !found.include.is_empty(),
            Part::Shared => !found.libraries.is_empty(),
            Part::Archive => !found.archives.is_empty(),
            Part::Tools => !found.tools.is_empty(),
        };
        let version = match (&self.version, &found.version) {
            (Some(wanted), Some(version)) => wanted.matches(&semver::Version::new(
                version.part(0),
                version.part(1),
                version.part(2),
            )),
            _ => true,
        };
        found.component == self.component && part && version
    }
}

/// What the caller asks for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Needed in any case.
    pub needs: Vec<Need>,
    /// Of these groups one is needed, the first that is there: the engines that will do.
    pub alternatives: Vec<Vec<Need>>,
    /// The CUDA major, where it is fixed; otherwise the newest that is found.
    pub major: Option<u32>,
    /// CUDA releases that will do.
    pub toolkit: semver::VersionReq,
}

impl Request {
    /// Whether some release of this major would do.
    #[must_use]
    pub fn admits_major(&self, major: u32) -> bool {
        let minors = 0..100;
        self.major.is_none_or(|wanted| wanted == major)
            && minors
                .map(|minor| ToolkitVersion::new(major, minor))
                .any(|v| v.matches(&self.toolkit))
    }

    /// The major to fetch where nothing is found: the newest known that would do; `None` where
    /// major and requirement contradict each other.
    #[must_use]
    pub fn newest_major(&self) -> Option<u32> {
        release::majors()
            .rev()
            .chain(self.major)
            .find(|major| self.admits_major(*major))
    }

    fn admits(&self, set: &Set) -> bool {
        self.major.is_none_or(|major| major == set.major)
            && set
                .toolkit()
                .is_none_or(|toolkit| toolkit.matches(&self.toolkit))
    }

    /// Every group that has to be met: the needs with each alternative in turn, and what the
    /// libraries among them need in a toolkit of this major.
    fn variants(&self, major: u32) -> Vec<(Option<usize>, Vec<Need>)> {
        let group = |more: &[Need]| -> Vec<Need> {
            let own: Vec<Need> = self.needs.iter().chain(more).cloned().collect();
            let through = own
                .iter()
                .flat_map(|need| need.through(major))
                .collect::<Vec<_>>();
            // What is asked for itself comes first: it decides what the rest has to fit.
            own.into_iter().chain(through).collect()
        };
        if self.alternatives.is_empty() {
            return vec![(None, group(&[]))];
        }
        self.alternatives
            .iter()
            .enumerate()
            .map(|(index, more)| (Some(index), group(more)))
            .collect()
    }
}

/// A chosen component and the place it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// What and where.
    pub found: Found,
    /// The place's label and path, fit for a sentence.
    pub origin: String,
}

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The CUDA major of all of it.
    pub major: u32,
    /// The CUDA release of compiler and headers.
    pub toolkit: Option<ToolkitVersion>,
    /// In the order of the component table.
    pub chosen: Vec<Chosen>,
    /// Which of [`Request::alternatives`] is met.
    pub alternative: Option<usize>,
    /// Whether it comes from more than one step of the search.
    pub combined: bool,
    /// What a reader should know: other toolkits in the same place, what was combined.
    pub remarks: Vec<String>,
    /// Components that are there, that nobody asked for and that fit nothing: one sentence each, with
    /// the reason.
    pub left_out: Vec<String>,
}

impl Selection {
    /// Whether a product is needed as much as `strength` says, and was not chosen.
    pub(crate) fn lacks_product(&self, request: &Request, strength: Strength) -> bool {
        let has = |need: &Need| {
            self.chosen
                .iter()
                .any(|chosen| need.is_met_by(&chosen.found))
        };
        request
            .needs
            .iter()
            .any(|need| need.is_product() && need.strength == strength && !has(need))
    }
}

/// A set and the attempt it comes from.
#[derive(Clone, Copy)]
struct Offer<'a> {
    attempt: &'a Attempt,
    set: &'a Set,
}

impl Offer<'_> {
    /// Whether it holds more than what is offered for every major, or has a life of its own: CCCL and
    /// products say nothing of which toolkit is there.
    fn is_of_toolkit(&self) -> bool {
        let of_toolkit = |component: Component| {
            let facts = component.facts();
            facts.class != Class::OwnRange && facts.bundle != Bundle::Product
        };
        self.set
            .found
            .iter()
            .any(|found| of_toolkit(found.component))
    }

    /// Where one component is. A place of several roots says which of them.
    fn origin_of(&self, found: &Found) -> String {
        let candidate = &self.attempt.candidate;
        if candidate.more_roots().is_empty() {
            candidate.to_string()
        } else {
            format!("{} ({})", candidate.label, found.evidence)
        }
    }

    fn origin(&self) -> String {
        self.attempt.candidate.to_string()
    }
}

/// Chooses.
///
/// # Errors
/// [`Error::InvalidSource`] where a named place holds nothing, [`Error::Inconsistent`] where the
/// components do not belong together, [`Error::NotFound`] where some are nowhere.
pub fn select(request: &Request, attempts: &[Attempt]) -> Result<Selection, Error> {
    let (named, others): (Vec<&Attempt>, Vec<&Attempt>) = attempts
        .iter()
        .partition(|attempt| attempt.candidate.step.is_explicit());
    let (products, others): (Vec<&Attempt>, Vec<&Attempt>) = others
        .into_iter()
        .partition(|attempt| attempt.candidate.step == Step::Product);
    // A wrong variable of a product is nothing to a crate that uses none.
    let asked = request
        .needs
        .iter()
        .any(|need| need.is_product() && need.strength != Strength::Extra);
    let telling = named.iter().chain(products.iter().filter(|_| asked));
    // Of a prefix that is a root its site-packages say nothing, where they hold what is no component.
    let below_another = |attempt: &Attempt| {
        let above = |other: &&Attempt| {
            let (own, other_place) = (&attempt.candidate, &other.candidate);
            own.label == other_place.label
                && own.path != other_place.path
                && own.path.starts_with(&other_place.path)
        };
        attempt.candidate.layout == Layout::SitePackages
            && named
                .iter()
                .any(|other| above(other) && !other.sets.is_empty())
    };
    let mut telling = telling
        .into_iter()
        .filter(|attempt| !below_another(attempt));
    if let Some(wrong) = telling.find(|attempt| attempt.sets.is_empty()) {
        return Err(Error::InvalidSource {
            source_name: wrong.candidate.label.to_string(),
            path: wrong.candidate.path.clone(),
            reason: wrong.summary(),
            unused: explain::unused(&others),
        });
    }
    // What compilers search by themselves is there whatever was named: products alone count in it.
    let (system, unnamed): (Vec<&Attempt>, Vec<&Attempt>) =
        others.iter().copied().partition(|attempt| {
            !named.is_empty() && attempt.candidate.layout == Layout::SystemProducts
        });
    let beside = [products.as_slice(), &system].concat();
    let selection = if named.is_empty() {
        select_searched(request, &products, &others)?
    } else {
        let offers = offers(request, &[named.as_slice(), &beside].concat());
        let chosen = majors(request, &offers).into_iter().find_map(|major| {
            let pool: Vec<Offer<'_>> = offers
                .iter()
                .copied()
                .filter(|o| o.set.major == major)
                .collect();
            complete(request, &pool)
        });
        chosen.map(|(mut selection, _)| {
            let toolkits = offers.iter().filter(|offer| offer.is_of_toolkit());
            let major = selection.major;
            for other in toolkits.filter(|offer| offer.set.major != major) {
                remark_other(&mut selection, other);
            }
            selection
        })
    };
    let selection =
        selection.ok_or_else(|| explain::not_found(request, &named, &beside, &unnamed))?;
    let wrong = explain::wrong_products(request, &selection, &products);
    if !wrong.is_empty() {
        // One that is named is meant: where the major is open, it is that product's.
        let mut majors: Vec<u32> = products
            .iter()
            .flat_map(|a| &a.sets)
            .map(|set| set.major)
            .collect();
        majors.sort_unstable_by(|a, b| b.cmp(a));
        majors.retain(|major| request.major.is_none() && *major != selection.major);
        let mut other = majors.into_iter().map(|major| Request {
            major: Some(major),
            ..request.clone()
        });
        let fitting = other.find_map(|request| select(&request, attempts).ok());
        return fitting.ok_or(Error::Inconsistent { conflicts: wrong });
    }
    let conflicts = conflicts(&selection.chosen);
    if conflicts.is_empty() {
        Ok(selection)
    } else {
        Err(Error::Inconsistent { conflicts })
    }
}

fn select_searched(
    request: &Request,
    products: &[&Attempt],
    attempts: &[&Attempt],
) -> Result<Option<Selection>, Error> {
    let all = offers(request, &[products, attempts].concat());
    let is_base =
        |offer: &Offer<'_>| offer.attempt.candidate.step != Step::Product && offer.is_of_toolkit();
    let toolkits: Vec<Offer<'_>> = all.iter().copied().filter(is_base).collect();
    let mut steps: Vec<Step> = toolkits
        .iter()
        .map(|offer| offer.attempt.candidate.step)
        .collect();
    steps.dedup();
    for step in &steps {
        let mut here: Vec<Offer<'_>> = toolkits
            .iter()
            .copied()
            .filter(|offer| offer.attempt.candidate.step == *step)
            .collect();
        here.sort_by_key(|offer| std::cmp::Reverse((offer.set.major, offer.set.toolkit())));
        for offer in &here {
            let Some((mut selection, _)) = complete(request, &with_products(*offer, &all)) else {
                continue;
            };
            remark_others(&mut selection, offer, &here);
            return Ok(Some(selection));
        }
    }
    // Nothing is complete: start from each place in turn and add what it lacks from later ones.
    for base in &toolkits {
        let mut pool = vec![*base];
        pool.extend(all.iter().copied().filter(|offer| {
            !std::ptr::eq(offer.set, base.set) && offer.set.major == base.set.major
        }));
        let Some((mut selection, used)) = complete_consistent(request, &pool) else {
            continue;
        };
        if !used.contains(&0) {
            continue;
        }
        selection.combined = true;
        let from: Vec<String> = used.iter().map(|index| pool[*index].origin()).collect();
        selection
            .remarks
            .push(format!("combined from {}", from.join(" and ")));
        return Ok(Some(selection));
    }
    Ok(None)
}

/// The place itself, and all others for products, which have a life of their own.
fn with_products<'a>(base: Offer<'a>, all: &[Offer<'a>]) -> Vec<Offer<'a>> {
    let mut pool = vec![base];
    pool.extend(all.iter().copied().filter(|offer| {
        !std::ptr::eq(offer.set, base.set)
            && offer.set.major == base.set.major
            && offer
                .set
                .found
                .iter()
                .any(|found| found.component.facts().bundle == Bundle::Product)
    }));
    pool
}

fn offers<'a>(request: &Request, attempts: &[&'a Attempt]) -> Vec<Offer<'a>> {
    attempts
        .iter()
        .flat_map(|attempt| attempt.sets.iter().map(move |set| Offer { attempt, set }))
        .filter(|offer| request.admits(offer.set))
        .collect()
}

fn majors(request: &Request, offers: &[Offer<'_>]) -> Vec<u32> {
    // What is named first is meant first, whichever is newer; of the roots in one list the newest comes
    // first. Places for products must not drag the toolkit to their major, and CCCL says nothing of one.
    let mut majors: Vec<u32> = Vec::new();
    for major in offers
        .iter()
        .filter(|offer| offer.is_of_toolkit())
        .map(|offer| offer.set.major)
    {
        if !majors.contains(&major) && request.major.is_none_or(|wanted| wanted == major) {
            majors.push(major);
        }
    }
    majors
}

/// Meets every need from the pool, its first member first. The second value is the pool indexes
/// that were used.
fn complete(request: &Request, pool: &[Offer<'_>]) -> Option<(Selection, Vec<usize>)> {
    // In a pool that starts with one place, only products may come from the others.
    let single = |index: usize, need: &Need, pool: &[Offer<'_>]| {
        index == 0
            || pool[0].attempt.candidate.step.is_explicit()
            || need.component.facts().bundle == Bundle::Product
    };
    meet(request, pool, |need, index, _| single(index, need, pool))
}

/// The same, where a component from another place is taken only if it fits those already taken.
fn complete_consistent(request: &Request, pool: &[Offer<'_>]) -> Option<(Selection, Vec<usize>)> {
    meet(request, pool, |_, index, trial| {
        index == 0 || conflicts(trial).is_empty()
    })
}

fn meet(
    request: &Request,
    pool: &[Offer<'_>],
    may: impl Fn(&Need, usize, &[Chosen]) -> bool,
) -> Option<(Selection, Vec<usize>)> {
    let major = pool.first()?.set.major;
    'variants: for (alternative, needs) in request.variants(major) {
        let mut chosen: Vec<Chosen> = Vec::new();
        let mut used: Vec<usize> = Vec::new();
        let mut left_out: Vec<String> = Vec::new();
        for need in &needs {
            if chosen.iter().any(|c| need.is_met_by(&c.found)) {
                continue;
            }
            let found = in_order(need, pool).find_map(|(index, offer)| {
                let found = offer.set.found.iter().find(|found| need.is_met_by(found))?;
                let mut trial = chosen.clone();
                trial.push(Chosen {
                    found: found.clone(),
                    origin: offer.origin_of(found),
                });
                if !may(need, index, &trial) {
                    return None;
                }
                // Nobody asked for it, so it is no error; but it is there, and will be missed.
                let conflict = conflicts(&trial).into_iter().next();
                if let Some(conflict) = conflict.filter(|_| need.strength == Strength::Extra) {
                    let remark =
                        format!("{found} is left out: {}; {}", conflict.reason, conflict.fix);
                    if !left_out.contains(&remark) {
                        left_out.push(remark);
                    }
                    return None;
                }
                Some((index, trial))
            });
            match found {
                Some((index, trial)) => {
                    chosen = trial;
                    used.push(index);
                }
                None if !need.is_required() => {}
                None => continue 'variants,
            }
        }
        chosen.sort_by_key(|c| c.found.component);
        used.sort_unstable();
        used.dedup();
        let set = Set {
            major,
            found: chosen.iter().map(|c| c.found.clone()).collect(),
        };
        let toolkit = set.toolkit().or_else(|| pool[0].set.toolkit());
        let remarks = Vec::new();
        let selection = Selection {
            major,
            toolkit,
            chosen,
            alternative,
            combined: false,
            remarks,
            left_out,
        };
        return Some((selection, used));
    }
    None
}

/// The offers that a need may be met from: a product's own variable comes first for products, and
/// means nothing to anything else.
fn in_order<'a>(
    need: &'a Need,
    pool: &'a [Offer<'a>],
) -> impl Iterator<Item = (usize, &'a Offer<'a>)> {
    let own = |offer: &Offer<'_>| offer.attempt.candidate.step == Step::Product;
    let first = pool
        .iter()
        .enumerate()
        .filter(move |(_, offer)| own(offer))
        .filter(move |_| need.is_product());
    first.chain(
        pool.iter()
            .enumerate()
            .filter(move |(_, offer)| !own(offer)),
    )
}

/// Equal places are not guessed between in silence.
fn remark_others(selection: &mut Selection, chosen: &Offer<'_>, here: &[Offer<'_>]) {
    for other in here
        .iter()
        .filter(|other| !std::ptr::eq(other.set, chosen.set))
    {
        remark_other(selection, other);
    }
}

fn remark_other(selection: &mut Selection, other: &Offer<'_>) {
    let version = other
        .set
        .toolkit()
        .map_or_else(|| other.set.major.to_string(), |v| v.to_string());
    let remark = format!("CUDA {version} is also there, not used: {}", other.origin());
    if !selection.remarks.contains(&remark) {
        selection.remarks.push(remark);
    }
}

#[cfg(test)]
mod tests;
