//! Words for a search that found too little.

use super::consistency::major_conflict;
use super::{Chosen, Need, Offer, Part, Request, Selection, Strength};
use crate::component::{Bundle, Component};
use crate::error::{Conflict, Error, NotFound};
use crate::probe::{Attempt, Found, Unusable};
use crate::release::{self, NEWEST_MAJOR};
use crate::target::Target;

/// The error of a search that met not every need.
///
/// Where somebody named the places and all that is missing is there for another CUDA major, the
/// components are inconsistent rather than missing.
pub(super) fn not_found(
    request: &Request,
    named: &[&Attempt],
    products: &[&Attempt],
    others: &[&Attempt],
) -> Error {
    let searched = [if named.is_empty() { others } else { named }, products].concat();
    let searched = searched.as_slice();
    let Lacking { missing, base } = missing(request, searched);
    let mixed: Vec<Option<Conflict>> = missing
        .iter()
        .map(|need| of_another_major(request, need, base?, searched))
        .collect();
    if !named.is_empty() && !mixed.is_empty() && mixed.iter().all(Option::is_some) {
        return Error::Inconsistent {
            conflicts: mixed.into_iter().flatten().collect(),
        };
    }
    let components: Vec<Component> = missing.iter().map(|need| need.component).collect();
    let major = request.major.or(base.map(|base| base.set.major));
    let (mut causes, mut hints) = (Vec::new(), Vec::new());
    for attempt in searched {
        let about =
            |u: &&Unusable| components.contains(&u.component) && major.is_none_or(|m| m == u.major);
        let unusable = attempt.unusable.iter().filter(about);
        causes.extend(unusable.map(|u| format!("{} ({})", u.reason, attempt.candidate)));
    }
    for Conflict { reason, fix } in mixed.into_iter().flatten() {
        causes.push(reason);
        hints.push(fix);
    }
    let tried: Vec<String> = searched
        .iter()
        .map(|attempt| tried(request, &components, attempt))
        .collect();
    let unused = if named.is_empty() {
        Vec::new()
    } else {
        unused(others)
    };
    if let Some(first) = named.first() {
        hints.push(format!(
            "unset or correct {}: what is named explicitly rules out every other place",
            first.candidate.label.short()
        ));
    }
    let unlinked = |need: &Need| need.component == Component::Cudart && need.part == Part::Archive;
    if missing
        .iter()
        .any(|need| unlinked(need) && partly(request, need, searched))
    {
        hints.push(
            "`cudart = \"shared\"` in `[package.metadata.cuda]` links the shared library that is there"
                .to_owned(),
        );
    }
    hints.push(fetch_hint(request, &components, searched));
    Error::NotFound(Box::new(NotFound {
        missing: missing
            .iter()
            .map(|need| {
                let lacks = if partly(request, need, searched) {
                    format!("; what is there has no {}", part(need.part))
                } else {
                    String::new()
                };
                (need.component.to_string(), format!("{}{lacks}", need.why))
            })
            .collect(),
        causes,
        tried,
        unused,
        hints,
    }))
}

/// Whether the component is there and only the part that is needed is not.
fn partly(request: &Request, need: &Need, searched: &[&Attempt]) -> bool {
    let sets = searched
        .iter()
        .flat_map(|attempt| &attempt.sets)
        .filter(|set| request.admits(set));
    let found: Vec<&Found> = sets.filter_map(|set| set.get(need.component)).collect();
    !found.is_empty() && need.version.is_none() && !found.iter().any(|found| need.is_met_by(found))
}

fn part(part: Part) -> &'static str {
    match part {
        Part::Headers => "headers",
        Part::Shared => "shared library",
        Part::Archive => "static archives",
        Part::Tools => "programs",
    }
}

/// A missing component that is there for another CUDA major than what it is missing beside.
fn of_another_major(
    request: &Request,
    need: &Need,
    base: Offer<'_>,
    searched: &[&Attempt],
) -> Option<Conflict> {
    let wanted: Vec<&Need> = request
        .needs
        .iter()
        .chain(request.alternatives.iter().flatten())
        .collect();
    let asked = |found: &&Found| {
        wanted
            .iter()
            .any(|need| need.is_required() && need.is_met_by(found))
    };
    let beside = base
        .set
        .found
        .iter()
        .find(asked)
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
    Some(major_conflict(
        &Chosen {
            found: beside.clone(),
            origin: base.origin(),
        },
        &other,
    ))
}

fn fetch_hint(request: &Request, missing: &[Component], searched: &[&Attempt]) -> String {
    let offers = searched
        .iter()
        .flat_map(|attempt| attempt.sets.iter().map(|set| Offer { attempt, set }));
    let majors = offers
        .filter(Offer::is_of_toolkit)
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
    if !release::is_nvcc_packaged(major) && missing.contains(&Component::Nvcc) {
        return format!(
            "the wheels of CUDA {major} carry no nvcc: use NVRTC for modules, install the CUDA {major} toolkit of \
             your system or of conda, or build for CUDA {NEWEST_MAJOR}"
        );
    }
    let extra: Vec<&str> = missing
        .iter()
        .filter(|c| !c.facts().in_every_toolkit)
        .map(|c| c.id())
        .collect();
    let components = if extra.is_empty() {
        String::new()
    } else {
        format!(" --components {}", extra.join(","))
    };
    format!("{FETCH_THEM} {major}{components}`")
}

const FETCH_THEM: &str = "fetch them with `cargo cuda toolkit add";

/// The same error in the words for a machine that builds for another one, where what is found for
/// this machine, or fetched, is of no use.
pub(crate) fn built_for(target: &Target, mut error: Error) -> Error {
    if let (Error::NotFound(not_found), false) = (&mut error, target.is_native()) {
        let directory = target.directory();
        not_found.causes.push(format!(
            "it is built for `{target}`: that takes CUDA's libraries for it (`targets/{directory}` of a toolkit), \
             and those of this machine don't do"
        ));
        not_found.hints.retain(|hint| !hint.starts_with(FETCH_THEM));
        not_found.hints.push(format!(
            "name a toolkit that has `targets/{directory}` with CUDA_PATH or CUDA_BUILD_ROOTS; `cargo cuda toolkit add` \
             fetches what the machine needs that it runs on"
        ));
    }
    error
}

/// What is missing, and in which set.
struct Lacking<'a> {
    missing: Vec<Need>,
    base: Option<Offer<'a>>,
}

/// What the best place lacks, by the alternative that lacks least.
fn missing<'a>(request: &Request, searched: &[&'a Attempt]) -> Lacking<'a> {
    let offers = || {
        searched
            .iter()
            .flat_map(|attempt| attempt.sets.iter().map(|set| Offer { attempt, set }))
    };
    let admitted = offers().filter(|offer| request.admits(offer.set));
    let bases = admitted
        .filter(Offer::is_of_toolkit)
        .map(Some)
        .chain([None]);
    let lacking = bases.flat_map(|base| {
        let has = move |need: &Need| {
            let meets =
                |offer: &Offer<'_>| offer.set.found.iter().any(|found| need.is_met_by(found));
            let beside =
                |offer: &Offer<'_>| base.is_none_or(|base| base.set.major == offer.set.major);
            base.as_ref().is_some_and(meets)
                || (need.is_product() && offers().any(|offer| beside(&offer) && meets(&offer)))
        };
        let major = base
            .map(|base| base.set.major)
            .or(request.major)
            .unwrap_or(NEWEST_MAJOR);
        request
            .variants(major)
            .into_iter()
            .map(move |(_, mut needs)| {
                needs.retain(|need| need.is_required() && !has(need));
                Lacking {
                    missing: needs,
                    base,
                }
            })
    });
    // Of equals the one with compiler or runtime: the rest is taken to fit these. Then the first: the
    // earlier place, the alternative that is preferred.
    let core = |base: &Offer<'_>| {
        [Component::Nvcc, Component::Nvrtc, Component::Cudart]
            .iter()
            .any(|c| base.set.get(*c).is_some())
    };
    let least = lacking.min_by_key(|l| (l.missing.len(), !l.base.as_ref().is_some_and(core)));
    let mut least = least.unwrap_or(Lacking {
        missing: Vec::new(),
        base: None,
    });
    if least.missing.is_empty() {
        // Products and CCCL say of no release that it is there.
        let why = "nothing else tells which CUDA release is there";
        least
            .missing
            .push(Need::new(Component::Cudart, Part::Headers, why));
    }
    least
}

/// Products that the variable of their own names for another CUDA major than the chosen one: they
/// were named, so leaving them out, or taking another place's, would be no answer.
pub(super) fn wrong_products(
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
    let asked = request
        .needs
        .iter()
        .filter(|need| need.is_product() && need.strength != Strength::Extra);
    let conflicts = asked.filter_map(|need| {
        let named = products.iter().flat_map(|attempt| {
            attempt
                .sets
                .iter()
                .filter_map(move |set| Some((*attempt, set.get(need.component)?)))
        });
        let named: Vec<(&Attempt, &Found)> = named.collect();
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

fn tried(request: &Request, missing: &[Component], attempt: &Attempt) -> String {
    let mut line = format!("{}: ", attempt.candidate);
    if attempt.sets.is_empty() {
        line.push_str(&attempt.summary());
        return line;
    }
    let mut parts = Vec::new();
    for set in &attempt.sets {
        if request.admits(set) {
            let lacks: Vec<String> = missing
                .iter()
                .filter(|c| set.get(**c).is_none())
                .map(|c| format!("no `{c}`"))
                .collect();
            let has: Vec<String> = set.found.iter().map(Found::to_string).collect();
            parts.push(
                format!("{}; found {}", lacks.join(", "), has.join(", "))
                    .trim_start_matches("; ")
                    .to_owned(),
            );
        } else {
            let version = set
                .toolkit()
                .map_or_else(|| set.major.to_string(), |v| v.to_string());
            let asked = match request.major {
                Some(major) if major != set.major => format!("CUDA {major} is asked for"),
                _ => format!("`toolkit = \"{}\"` is asked for", request.toolkit),
            };
            parts.push(format!("holds CUDA {version}, but {asked}"));
        }
    }
    // What is offered for every major is there once.
    parts.dedup();
    // Those of missing components are told as causes.
    let unusable = attempt
        .unusable
        .iter()
        .filter(|u| !missing.contains(&u.component));
    parts.extend(unusable.map(|u| u.reason.clone()));
    parts.extend(attempt.remarks.iter().cloned());
    line.push_str(&parts.join("; "));
    line
}

/// What places hold that an explicit choice ruled out.
pub(super) fn unused(others: &[&Attempt]) -> Vec<String> {
    let holding = others.iter().filter(|attempt| !attempt.sets.is_empty());
    holding
        .map(|attempt| format!("{}: {}", attempt.candidate, attempt.summary()))
        .collect()
}
