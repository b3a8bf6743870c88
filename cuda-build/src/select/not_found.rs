//! A search that found too little: what is missing, where it was searched, and what to do.

use std::fmt;

use super::consistency::major_conflict;
use super::pool::{Offer, offers};
use super::request::{Need, Part, Request, Strength};
use super::selection::{Chosen, Selection};
use crate::component::{Bundle, Component};
use crate::error::{Conflict, Error};
use crate::probe::{Attempt, Found, Set};
use crate::release::{self, NEWEST_MAJOR};
use crate::sources::Label;
use crate::target::Target;

/// A component that is missing.
#[derive(Clone, Debug)]
pub struct Missing {
    /// The component.
    pub component: Component,
    /// Why it is needed, fit for parentheses.
    pub why: String,
    /// The part that no place has, if the component itself was found.
    pub lacks: Option<Part>,
}

/// Required components that no place has, and the attempts to find them.
#[derive(Clone, Debug, Default)]
pub struct NotFound {
    /// The missing components.
    pub missing: Vec<Missing>,
    /// What was requested.
    pub request: Request,
    /// The places that were searched.
    pub searched: Vec<Attempt>,
    /// The places that were not used because the user named others.
    pub unused: Vec<Attempt>,
    /// What named the places, if the user did.
    pub named: Option<Label>,
    /// The major of the toolkit that lacks the components, or the requested one.
    pub major: Option<u32>,
    /// Missing components that were found for another CUDA major.
    pub other_major: Vec<Conflict>,
    /// The platform, if it is not the one of this machine: then components for this machine are of no use.
    pub cross: Option<Target>,
}

impl NotFound {
    /// A component that a toolkit turned out to lack.
    pub(crate) fn in_toolkit(component: Component, why: String) -> Self {
        Self {
            missing: vec![Missing {
                component,
                why,
                lacks: None,
            }],
            ..Self::default()
        }
    }

    fn is_missing(&self, component: Component) -> bool {
        self.missing
            .iter()
            .any(|missing| missing.component == component)
    }

    /// Why components that are partly present cannot be used.
    fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        for attempt in &self.searched {
            for unusable in &attempt.unusable {
                let for_major = self.major.is_none_or(|major| major == unusable.major);
                if for_major && self.is_missing(unusable.component) {
                    causes.push(format!("{} ({})", unusable.reason, attempt.candidate));
                }
            }
        }
        causes.extend(self.other_major.iter().map(|other| other.reason.clone()));
        if let Some(target) = &self.cross {
            causes.push(format!(
                "it is built for `{target}`: that takes CUDA's libraries for it (`targets/{}` of a toolkit), and those \
                 of this machine don't do",
                target.directory()
            ));
        }
        causes
    }

    /// What one attempt found, and lacks.
    fn tried(&self, attempt: &Attempt) -> String {
        if attempt.sets.is_empty() {
            return attempt.summary();
        }
        let mut parts: Vec<String> = attempt.sets.iter().map(|set| self.tried_set(set)).collect();
        // A component that fits every major is in each set.
        parts.dedup();
        // Those of missing components are causes.
        let others = attempt
            .unusable
            .iter()
            .filter(|unusable| !self.is_missing(unusable.component));
        parts.extend(others.map(|unusable| unusable.reason.clone()));
        parts.extend(attempt.remarks.iter().cloned());
        parts.join("; ")
    }

    fn tried_set(&self, set: &Set) -> String {
        let request = &self.request;
        if !request.admits(set) {
            let version = set
                .toolkit()
                .map_or_else(|| set.major.to_string(), |release| release.to_string());
            let requested = match request.major {
                Some(major) if major != set.major => format!("CUDA {major} is asked for"),
                _ => format!("`toolkit = \"{}\"` is asked for", request.toolkit),
            };
            return format!("holds CUDA {version}, but {requested}");
        }
        let lacks = self.missing.iter().map(|missing| missing.component);
        let lacks: Vec<String> = lacks
            .filter(|component| set.get(*component).is_none())
            .map(|component| format!("no `{component}`"))
            .collect();
        let has: Vec<String> = set.found.iter().map(Found::to_string).collect();
        let found = format!("found {}", has.join(", "));
        if lacks.is_empty() {
            found
        } else {
            format!("{}; {found}", lacks.join(", "))
        }
    }

    /// What to do next, most likely first.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let requested = !(self.request.needs.is_empty() && self.request.alternatives.is_empty());
        if self.searched.is_empty() && self.named.is_none() && !requested {
            return Vec::new();
        }
        let mut hints: Vec<String> = self
            .other_major
            .iter()
            .map(|other| other.fix.clone())
            .collect();
        if let Some(named) = &self.named {
            hints.push(format!(
                "unset or correct {}: what is named explicitly rules out every other place",
                named.short()
            ));
        }
        let static_runtime = |missing: &Missing| {
            missing.component == Component::Cudart && missing.lacks == Some(Part::Archive)
        };
        if self.missing.iter().any(static_runtime) {
            hints.push(
                "`cudart = \"shared\"` in `[package.metadata.cuda]` links the shared library that is there"
                    .to_owned(),
            );
        }
        hints.push(match &self.cross {
            Some(target) => format!(
                "name a toolkit that has `targets/{}` with CUDA_PATH or CUDA_BUILD_ROOTS; `cargo cuda toolkit add` \
                 fetches what the machine needs that it runs on",
                target.directory()
            ),
            None => self.how_to_get(),
        });
        hints
    }

    /// The command that fetches the missing components, or why there is none.
    fn how_to_get(&self) -> String {
        let request = &self.request;
        let attempts: Vec<&Attempt> = self.searched.iter().collect();
        let majors = offers_of_any_release(&attempts)
            .into_iter()
            .filter(Offer::is_toolkit)
            .map(|offer| offer.set.major);
        let found = majors.filter(|major| request.admits_major(*major)).max();
        let Some(major) = found.or_else(|| request.newest_major()) else {
            let toolkit = &request.toolkit;
            return match request.major {
                Some(major) => format!(
                    "CUDA {major} is asked for, `toolkit = \"{toolkit}\"` in `[package.metadata.cuda]` rules it out: \
                     change one of the two"
                ),
                None => format!(
                    "no CUDA release meets `toolkit = \"{toolkit}\"` in `[package.metadata.cuda]`"
                ),
            };
        };
        if !release::is_nvcc_packaged(major) && self.is_missing(Component::Nvcc) {
            return format!(
                "the wheels of CUDA {major} carry no nvcc: use NVRTC for modules, install the CUDA {major} toolkit of \
                 your system or of conda, or build for CUDA {NEWEST_MAJOR}"
            );
        }
        let named: Vec<&str> = self
            .missing
            .iter()
            .map(|missing| missing.component.facts())
            .filter(|facts| !facts.in_every_toolkit)
            .map(|facts| facts.id)
            .collect();
        let components = if named.is_empty() {
            String::new()
        } else {
            format!(" --components {}", named.join(","))
        };
        format!("fetch them with `cargo cuda toolkit add {major}{components}`")
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, missing) in self.missing.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            let Missing { component, why, .. } = missing;
            write!(f, "{newline}CUDA component `{component}` not found ({why}")?;
            if let Some(part) = missing.lacks {
                write!(f, "; what is there has no {}", part.plural())?;
            }
            f.write_str(")")?;
        }
        for cause in self.causes() {
            write!(f, "\n  cause: {cause}")?;
        }
        for attempt in &self.searched {
            write!(
                f,
                "\n  tried {}: {}",
                attempt.candidate,
                self.tried(attempt)
            )?;
        }
        for attempt in self
            .unused
            .iter()
            .filter(|attempt| !attempt.sets.is_empty())
        {
            let summary = attempt.summary();
            write!(
                f,
                "\n  available, not used: {}: {summary}",
                attempt.candidate
            )?;
        }
        Ok(())
    }
}

/// The error of a search that did not meet every need.
///
/// If the user named the places, and all that is missing was found for another CUDA major, the components are
/// inconsistent rather than missing.
pub(super) fn not_found(
    request: &Request,
    named: &[&Attempt],
    products: &[&Attempt],
    others: &[&Attempt],
) -> Error {
    let searched = [if named.is_empty() { others } else { named }, products].concat();
    let searched = searched.as_slice();
    let Lacking { needs, base } = lacking(request, searched);
    let other_major: Vec<Option<Conflict>> = needs
        .iter()
        .map(|need| for_another_major(request, need, base?, searched))
        .collect();
    let is_mixed = !other_major.is_empty() && other_major.iter().all(Option::is_some);
    let other_major: Vec<Conflict> = other_major.into_iter().flatten().collect();
    if !named.is_empty() && is_mixed {
        return Error::Inconsistent {
            conflicts: other_major,
        };
    }
    let owned = |attempts: &[&Attempt]| attempts.iter().map(|a| (*a).clone()).collect();
    let missing = needs.into_iter().map(|need| Missing {
        component: need.component,
        lacks: only_part_is_missing(request, &need, searched).then_some(need.part),
        why: need.why,
    });
    Error::NotFound(Box::new(NotFound {
        missing: missing.collect(),
        request: request.clone(),
        searched: owned(searched),
        unused: if named.is_empty() {
            Vec::new()
        } else {
            owned(others)
        },
        named: named.first().map(|first| first.candidate.label.clone()),
        major: request.major.or(base.map(|base| base.set.major)),
        other_major,
        cross: None,
    }))
}

/// Every set, whether its release is accepted or not.
fn offers_of_any_release<'a>(attempts: &[&'a Attempt]) -> Vec<Offer<'a>> {
    offers(&Request::default(), attempts)
}

/// Whether the component was found, and only the needed part of it is missing.
fn only_part_is_missing(request: &Request, need: &Need, searched: &[&Attempt]) -> bool {
    let sets = searched
        .iter()
        .flat_map(|attempt| &attempt.sets)
        .filter(|set| request.admits(set));
    let found: Vec<&Found> = sets.filter_map(|set| set.get(need.component)).collect();
    !found.is_empty() && need.version.is_none() && !found.iter().any(|found| need.is_met_by(found))
}

/// A missing component that was found for another CUDA major than the base.
fn for_another_major(
    request: &Request,
    need: &Need,
    base: Offer<'_>,
    searched: &[&Attempt],
) -> Option<Conflict> {
    let requested: Vec<&Need> = request
        .needs
        .iter()
        .chain(request.alternatives.iter().flatten())
        .collect();
    let is_requested = |found: &&Found| {
        requested
            .iter()
            .any(|need| need.is_required() && need.is_met_by(found))
    };
    let beside = base
        .set
        .found
        .iter()
        .find(is_requested)
        .or(base.set.found.first())?;
    let other = searched.iter().find_map(|attempt| {
        let sets = attempt
            .sets
            .iter()
            .filter(|set| set.major != base.set.major);
        let found = sets
            .flat_map(|set| &set.found)
            .find(|found| need.is_met_by(found))?;
        Some(Chosen {
            found: found.clone(),
            origin: attempt.candidate.to_string(),
        })
    })?;
    let beside = Chosen {
        found: beside.clone(),
        origin: base.origin(),
    };
    Some(major_conflict(&beside, &other))
}

/// The needs that are not met, and the toolkit beside which they are missing.
struct Lacking<'a> {
    needs: Vec<Need>,
    base: Option<Offer<'a>>,
}

/// What the best place lacks, by the alternative that lacks least.
fn lacking<'a>(request: &Request, searched: &[&'a Attempt]) -> Lacking<'a> {
    let all = offers_of_any_release(searched);
    let bases = all
        .iter()
        .filter(|offer| request.admits(offer.set) && offer.is_toolkit())
        .map(|offer| Some(*offer))
        .chain([None]);
    let candidates = bases.flat_map(|base| {
        let all = &all;
        let has = move |need: &Need| {
            let meets =
                |offer: &Offer<'_>| offer.set.found.iter().any(|found| need.is_met_by(found));
            let beside =
                |offer: &Offer<'_>| base.is_none_or(|base| base.set.major == offer.set.major);
            base.as_ref().is_some_and(meets)
                || (need.is_product() && all.iter().any(|offer| beside(offer) && meets(offer)))
        };
        let major = base.map(|base| base.set.major).or(request.major);
        request
            .groups(major.unwrap_or(NEWEST_MAJOR))
            .into_iter()
            .map(move |(_, mut needs)| {
                needs.retain(|need| need.is_required() && !has(need));
                Lacking { needs, base }
            })
    });
    // Of equals, the one with compiler or runtime, which the rest has to fit. Then the first: the earlier place, the
    // preferred alternative.
    let is_core = |base: &Offer<'_>| {
        [Component::Nvcc, Component::Nvrtc, Component::Cudart]
            .iter()
            .any(|component| base.set.get(*component).is_some())
    };
    let least = candidates.min_by_key(|lacking| {
        let is_core = lacking.base.as_ref().is_some_and(is_core);
        (lacking.needs.len(), !is_core)
    });
    let mut least = least.unwrap_or(Lacking {
        needs: Vec::new(),
        base: None,
    });
    if least.needs.is_empty() {
        // Only products and CCCL were found.
        let why = "nothing else tells which CUDA release is there";
        least
            .needs
            .push(Need::new(Component::Cudart, Part::Headers, why));
    }
    least
}

/// Products that their variables name, and that are for another CUDA major than the chosen one. The user named them,
/// so they are neither left out nor taken from another place.
pub(super) fn products_of_another_major(
    request: &Request,
    selection: &Selection,
    products: &[&Attempt],
) -> Vec<Conflict> {
    let toolkit = selection
        .chosen
        .iter()
        .find(|c| c.found.component.facts().bundle == Bundle::Toolkit);
    let Some(toolkit) = toolkit else {
        return Vec::new();
    };
    let needed = request
        .needs
        .iter()
        .filter(|need| need.is_product() && need.strength != Strength::Extra);
    let conflicts = needed.filter_map(|need| {
        let named: Vec<(&Attempt, &Found)> = products
            .iter()
            .flat_map(|attempt| attempt.sets.iter().map(move |set| (*attempt, set)))
            .filter_map(|(attempt, set)| Some((attempt, set.get(need.component)?)))
            .collect();
        let fits = named
            .iter()
            .any(|(_, found)| found.major == selection.major);
        let (attempt, other) = named.first().filter(|_| !fits)?;
        let other = Chosen {
            found: (*other).clone(),
            origin: attempt.candidate.to_string(),
        };
        Some(major_conflict(toolkit, &other))
    });
    conflicts.collect()
}
