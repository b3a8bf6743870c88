//! A search that found too little: what is missing, where it was searched, and what to do.

use std::fmt;

use super::consistency::major_conflict;
use super::pool::{Offer, offers};
use super::request::{DECLARED, Need, Part, Request};
use super::selection::Chosen;
use crate::component::Component;
use crate::error::{Conflict, Error};
use crate::probe::{Attempt, ComponentSet, Found};
use crate::release::{self, NEWEST_MAJOR};
use crate::sources::Label;
use crate::target::{JETSON_MIX_UP, Target};

/// A component that is missing.
#[derive(Clone, Debug)]
pub struct Missing {
    /// The component.
    pub component: Component,
    /// Why it is needed, to be printed in parentheses.
    pub why: String,
    /// The part that no place has, if the component itself was found.
    pub lacks: Option<Part>,
}

/// Required components that no place has, and the attempts to find them.
#[derive(Clone, Debug, Default)]
pub struct NotFound {
    /// The missing components.
    pub missing: Vec<Missing>,
    /// What was requested; `None` if the error is about a toolkit that was already selected.
    pub request: Option<Request>,
    /// The places that were searched.
    pub searched: Vec<Attempt>,
    /// The places that were not used because the user named others.
    pub unused: Vec<Attempt>,
    /// The label of the places, if the user named them.
    pub named: Option<Label>,
    /// The major of the toolkit that lacks the components, or the requested one.
    pub major: Option<u32>,
    /// Missing components that were found for another CUDA major.
    pub other_major: Vec<Conflict>,
    /// The platform to build for; `None` if the error is about a toolkit that was already selected.
    pub target: Option<Target>,
}

impl NotFound {
    /// The error for a component that a step needs and the selected toolkit does not have.
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

    /// The target of a cross build, for which the libraries of this machine cannot be used.
    fn cross(&self) -> Option<&Target> {
        self.target.as_ref().filter(|target| !target.is_native())
    }

    fn is_missing(&self, component: Component) -> bool {
        let mut missing = self.missing.iter();
        missing.any(|missing| missing.component == component)
    }

    /// Why components that are partly present cannot be used.
    fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        // In a cross build, only programs are used of a toolkit with an nvcc that runs on this machine.
        let is_used = |attempt: &&Attempt| {
            let mut sets = attempt.sets.iter();
            self.cross().is_none() || !sets.any(|set| set.get(Component::Nvcc).is_some())
        };
        for attempt in self.searched.iter().filter(is_used) {
            let for_major = |major| self.major.is_none_or(|wanted| wanted == major);
            let unusable = attempt.unusable.iter();
            let unusable = unusable.filter(|u| for_major(u.major) && self.is_missing(u.component));
            causes.extend(unusable.map(|u| format!("{} ({})", u.reason, attempt.candidate)));
        }
        causes.extend(self.other_major.iter().map(|other| other.reason.clone()));
        let lacks_files = self.missing.iter().any(|m| !is_of_compiler(m.component));
        causes.extend(self.cross().filter(|_| lacks_files).map(|target| {
            format!(
                "the build for `{target}` needs CUDA libraries for that platform (`targets/{}` of a toolkit); the libraries \
                 of this machine cannot be used",
                target.directory()
            )
        }));
        causes
    }

    /// What a set has, and which missing components it lacks.
    fn describe_set(&self, set: &ComponentSet) -> String {
        if let Some(request) = self.request.as_ref().filter(|request| !request.admits(set)) {
            let version = set.shown_release();
            let requested = match request.major {
                Some(major) if major != set.major => format!("CUDA {major}"),
                _ => format!("`toolkit = \"{}\"`", request.toolkit),
            };
            return format!("has CUDA {version}, but {requested} is requested");
        }
        let mut parts: Vec<String> = Vec::new();
        for Missing { component, .. } in &self.missing {
            let lacks = format!("no `{component}`");
            if set.get(*component).is_none() && !parts.contains(&lacks) {
                parts.push(lacks);
            }
        }
        let found = format!("found {set}");
        if parts.is_empty() {
            return found;
        }
        format!("{}; {found}", parts.join(", "))
    }

    /// What to do next, most likely first.
    pub fn hints(&self) -> Vec<String> {
        let Some(request) = &self.request else {
            let missing = self.missing.iter();
            let declare = missing.map(|missing| {
                let id = missing.component.id();
                format!("add \"{id}\" to `components` in `[package.metadata.cuda]`, and run `cargo cuda fetch`")
            });
            return declare.collect();
        };
        let other_major = self.other_major.iter();
        let mut hints: Vec<String> = other_major.map(|other| other.fix.clone()).collect();
        // `cargo cuda` sets `CUDA_BUILD_TOOLKIT` for build scripts, so the user cannot unset it.
        let by_cargo_cuda = Label::Variable("CUDA_BUILD_TOOLKIT");
        let by_user = self.named.as_ref().filter(|named| **named != by_cargo_cuda);
        hints.extend(by_user.map(|named| {
            format!(
                "unset or correct {}: while a toolkit is named explicitly, no other place is used",
                named.short()
            )
        }));
        let remarks = self.searched.iter().flat_map(|attempt| &attempt.remarks);
        let mut mixed_up = remarks.filter(|remark| remark.ends_with(JETSON_MIX_UP));
        let target = self.target.as_ref().filter(|_| mixed_up.next().is_some());
        if let Some(target) = target {
            hints.push(target.jetson_fix().to_owned());
            return hints;
        }
        let is_static_runtime = |missing: &Missing| {
            missing.component == Component::Cudart && missing.lacks == Some(Part::Archive)
        };
        if self.missing.iter().any(is_static_runtime) {
            hints.push(
                "`cudart = \"shared\"` in `[package.metadata.cuda]` links the shared library, which was found"
                    .to_owned(),
            );
        }
        let native = self.target.as_ref().filter(|target| target.is_native());
        hints.push(match (self.cross(), native) {
            (Some(target), _) => self.cross_hint(request, target),
            (None, Some(target)) if target.is_jetson() => jetson_hint(target),
            (None, _) => self.fetch_hint(request),
        });
        hints
    }

    /// How to get nvcc for this machine and libraries for another platform. NVIDIA has no packages for Jetson boards.
    fn cross_hint(&self, request: &Request, target: &Target) -> String {
        let is_program = |missing: &&Missing| !missing.component.facts().tools.is_empty();
        let only = |missing: Vec<Missing>| Self {
            missing,
            ..self.clone()
        };
        let programs: Vec<Missing> = self.missing.iter().filter(is_program).cloned().collect();
        if !programs.is_empty() {
            let hint = only(programs).fetch_hint(request);
            let hint = hint.replace(NVRTC_INSTEAD, "");
            return format!("{hint}: nvcc runs on this machine, also if the build is for {target}");
        }
        if target.is_jetson() {
            return jetson_hint(target);
        }
        let fetch = self.fetch_hint(request);
        match target.architecture() {
            "aarch64" => format!(
                "{fetch}; for a Jetson board, write `jetson = true` in `[package.metadata.cuda]`"
            ),
            _ => fetch,
        }
    }

    /// The release of the nvcc that was found, with which the libraries of another platform have to agree.
    fn release_of_nvcc(&self, request: &Request) -> Option<String> {
        let mut sets = self.searched.iter().flat_map(|attempt| &attempt.sets);
        let set = sets.find(|set| request.admits(set) && set.get(Component::Nvcc).is_some())?;
        Some(set.shown_release())
    }

    /// The command that fetches the missing components, or why there is none.
    fn fetch_hint(&self, request: &Request) -> String {
        let mut found = None;
        for set in self.searched.iter().flat_map(|attempt| &attempt.sets) {
            if set.is_toolkit() && request.admits_major(set.major) {
                found = found.max(Some(set.major));
            }
        }
        let Some(major) = found.or_else(|| request.newest_major()) else {
            let toolkit = format!(
                "`toolkit = \"{}\"` in `[package.metadata.cuda]`",
                request.toolkit
            );
            return match request.major {
                Some(major) => format!(
                    "CUDA {major} is requested, but {toolkit} excludes it: change one of them"
                ),
                None => format!("change {toolkit}: no CUDA release meets it"),
            };
        };
        if !release::is_nvcc_packaged(major) && self.is_missing(Component::Nvcc) {
            return without_nvcc(major);
        }
        let mut named = self.missing.clone();
        named.retain(|missing| !missing.component.facts().in_every_toolkit);
        let is_for_target = |missing: &Missing| !is_of_compiler(missing.component);
        let target = self
            .cross()
            .filter(|_| self.missing.iter().any(is_for_target));
        let release = target.and_then(|_| self.release_of_nvcc(request));
        let release = release.unwrap_or_else(|| major.to_string());
        let target = target.map_or_else(String::new, |target| format!(" --target {target}"));
        let ids: Vec<&str> = named.iter().map(|missing| missing.component.id()).collect();
        if ids.is_empty() {
            return format!("fetch them with `cargo cuda toolkit add {release}{target}`");
        }
        let command = format!(
            "cargo cuda toolkit add {release} --components {}{target}",
            ids.join(",")
        );
        named.retain(|missing| missing.why != DECLARED);
        let undeclared: Vec<&str> = named.iter().map(|missing| missing.component.id()).collect();
        let declare = match undeclared.is_empty() {
            true => String::new(),
            false => format!(
                "; `components = [\"{}\"]` in `[package.metadata.cuda]` makes `cargo cuda fetch` fetch them too",
                undeclared.join("\", \"")
            ),
        };
        format!("fetch them with `{command}` and commit cuda-toolkits.lock{declare}")
    }
}

/// What to do without libraries for a Jetson board, which have no Python packages.
fn jetson_hint(target: &Target) -> String {
    format!(
        "set CUDA_PATH or CUDA_BUILD_ROOTS to a toolkit that has `targets/{}`",
        target.directory()
    )
}

/// Whether the component belongs to nvcc, so that it is the same for every target.
fn is_of_compiler(component: Component) -> bool {
    [Component::Nvcc, Component::Nvvm, Component::Crt].contains(&component)
}

/// What a cross build cannot do: the target's NVRTC cannot be loaded here.
const NVRTC_INSTEAD: &str = "use NVRTC for modules, ";

/// What to do if a build needs nvcc, and the wheels of a CUDA major have none.
pub fn without_nvcc(major: u32) -> String {
    format!(
        "no wheel of CUDA {major} has nvcc: {NVRTC_INSTEAD}fetch NVIDIA's archives with `cargo cuda toolkit \
         add {major} --from redist`, install the CUDA {major} toolkit of your system or of conda, or build for CUDA \
         {NEWEST_MAJOR}"
    )
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (
            index,
            Missing {
                component,
                why,
                lacks,
            },
        ) in self.missing.iter().enumerate()
        {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}CUDA component `{component}` not found ({why}")?;
            if let Some(part) = lacks {
                write!(f, "; it was found without {}", part.plural())?;
            }
            f.write_str(")")?;
        }
        for cause in self.causes() {
            write!(f, "\n  cause: {cause}")?;
        }
        for attempt in &self.searched {
            // Unusable parts of missing components were printed as causes.
            let is_other = |component| attempt.sets.is_empty() || !self.is_missing(component);
            let tried = attempt.describe(|set| self.describe_set(set), is_other);
            write!(f, "\n  tried {}: {tried}", attempt.candidate)?;
        }
        for attempt in self
            .unused
            .iter()
            .filter(|attempt| !attempt.sets.is_empty())
        {
            let (candidate, summary) = (&attempt.candidate, attempt.summary());
            write!(f, "\n  available, not used: {candidate}: {summary}")?;
        }
        Ok(())
    }
}

/// The error of a search that did not meet every need.
///
/// If the user named the places, and everything that is missing was found for another CUDA major, the components are
/// inconsistent rather than missing.
pub(super) fn not_found(
    request: &Request,
    named: &[&Attempt],
    products: &[&Attempt],
    others: &[&Attempt],
) -> Error {
    let searched = [if named.is_empty() { others } else { named }, products].concat();
    let (base, needs) = closest_toolkit(request, &searched);
    let beside = base.and_then(|base| {
        let is_required = |found: &&Found| request.requires(found);
        let found = base
            .set
            .found
            .iter()
            .find(is_required)
            .or(base.set.found.first())?;
        Some(Chosen {
            found: found.clone(),
            origin: base.origin(),
        })
    });
    let mut other_major: Vec<Conflict> = Vec::new();
    if let Some(beside) = &beside {
        for need in &needs {
            other_major.extend(found_for_another_major(need, beside, &searched));
        }
    }
    let is_mixed = !needs.is_empty() && other_major.len() == needs.len();
    if !named.is_empty() && is_mixed {
        return Error::Inconsistent {
            conflicts: other_major,
        };
    }
    let missing = needs.into_iter().map(|need| Missing {
        component: need.component,
        lacks: only_part_is_missing(request, &need, &searched).then_some(need.part),
        why: need.why,
    });
    let owned = |attempts: &[&Attempt]| attempts.iter().map(|a| (*a).clone()).collect();
    Error::NotFound(Box::new(NotFound {
        missing: missing.collect(),
        request: Some(request.clone()),
        searched: owned(&searched),
        unused: owned(if named.is_empty() { &[] } else { others }),
        named: named.first().map(|first| first.candidate.label.clone()),
        major: request.major.or(base.map(|base| base.set.major)),
        other_major,
        target: None,
    }))
}

/// Whether the component was found, and only the needed part of it is missing.
fn only_part_is_missing(request: &Request, need: &Need, searched: &[&Attempt]) -> bool {
    let mut sets = sets(searched);
    sets.retain(|set| request.admits(set) && set.get(need.component).is_some());
    let is_enough =
        |set: &&ComponentSet| set.get(need.component).is_some_and(|f| need.is_met_by(f));
    !sets.is_empty() && need.version.is_none() && !sets.iter().any(is_enough)
}

/// The sets of these attempts.
pub(super) fn sets<'a>(attempts: &[&'a Attempt]) -> Vec<&'a ComponentSet> {
    let mut sets = Vec::new();
    for attempt in attempts {
        sets.extend(&attempt.sets);
    }
    sets
}

/// The conflict with a component that was found for another CUDA major than `beside`.
pub(super) fn found_for_another_major(
    need: &Need,
    beside: &Chosen,
    searched: &[&Attempt],
) -> Option<Conflict> {
    searched.iter().find_map(|attempt| {
        let sets = attempt
            .sets
            .iter()
            .filter(|set| set.major != beside.found.major);
        let mut found = sets.flat_map(|set| &set.found);
        let other = Chosen {
            found: found.find(|found| need.is_met_by(found))?.clone(),
            origin: attempt.candidate.to_string(),
        };
        Some(major_conflict(beside, &other))
    })
}

/// The toolkit with the fewest unmet needs, and these needs. If the request has alternatives, only the alternative
/// with the fewest unmet needs counts.
fn closest_toolkit<'a>(
    request: &Request,
    searched: &[&'a Attempt],
) -> (Option<Offer<'a>>, Vec<Need>) {
    let all = offers(&Request::default(), searched);
    let bases = all
        .iter()
        .filter(|offer| request.admits(offer.set) && offer.set.is_toolkit());
    let mut least: Option<(Option<Offer<'_>>, Vec<Need>)> = None;
    for base in bases.map(Some).chain([None]) {
        let has = |need: &Need| {
            let meets = |offer: &Offer<'_>| offer.set.found.iter().any(|f| need.is_met_by(f));
            let is_beside = |o: &Offer<'_>| base.is_none_or(|base| base.set.major == o.set.major);
            base.is_some_and(meets)
                || (need.is_product() && all.iter().any(|offer| is_beside(offer) && meets(offer)))
        };
        // Among equals, prefer a toolkit with compiler or runtime, because the rest has to fit
        // them.
        let rank = |(base, needs): &(Option<Offer<'_>>, Vec<Need>)| {
            let is_core =
                base.is_some_and(|base| base.set.found.iter().any(|f| f.component.is_core()));
            (needs.len(), !is_core)
        };
        let major = base.map(|base| base.set.major).or(request.major);
        for mut needs in request.groups(major.unwrap_or(NEWEST_MAJOR)) {
            needs.retain(|need| need.is_required() && !has(need));
            let candidate = (base.copied(), needs);
            // If still equal, the earlier place or the preferred alternative is kept.
            if least
                .as_ref()
                .is_none_or(|least| rank(&candidate) < rank(least))
            {
                least = Some(candidate);
            }
        }
    }
    let (base, mut needs) = least.unwrap_or_default();
    if needs.is_empty() {
        // No need is unmet, but the search failed: only products and CCCL were found, which show no release.
        let why = "needed to determine the CUDA release";
        needs.push(Need::new(Component::Cudart, Part::Headers, why));
    }
    (base, needs)
}
