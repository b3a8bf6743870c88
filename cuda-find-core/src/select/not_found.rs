//! The error of a search that found too little: what is missing, where it was searched, and what to do.

use std::collections::BTreeSet;

use super::request::{Need, Part, Request, Strength};
use crate::component::Component;
use crate::consistency::major_conflict;
use crate::error::{Conflict, Error};
use crate::found::{Attempt, ComponentSet, Found};
use crate::release::{self, NEWEST_MAJOR};
use crate::sources::Label;
use crate::target::Target;

/// The error for a component that a step needs and the selected toolkit does not have.
pub fn missing_in_toolkit(component: Component, why: &str) -> Error {
    Error::NotFound {
        missing: vec![component],
        message: format!("CUDA component `{component}` not found ({why})"),
        hints: vec![format!(
            "add \"{component}\" to `components` in `[package.metadata.cuda]`, and run `cargo cuda fetch`"
        )],
    }
}

/// The error of a search that did not meet every need. `others` are used only if `named` is empty.
///
/// If the user named the places, and everything that is missing was found for another CUDA major, the components are
/// inconsistent rather than missing.
pub(super) fn not_found(
    request: &Request,
    target: &Target,
    named: &[&Attempt],
    product_places: &[&Attempt],
    others: &[&Attempt],
) -> Error {
    let first = if named.is_empty() { others } else { named };
    let searched = [first, product_places].concat();
    let (base, mut missing) = closest_toolkit(request, &searched);
    // A declared component can also be one that another requires.
    let mut seen = BTreeSet::new();
    missing.retain(|need| seen.insert((need.component, need.part)));
    let chosen = base.and_then(|base| {
        let required = base.found.iter().find(|found| request.requires(found));
        required.or(base.found.first())
    });
    let other_major: Vec<Conflict> = missing
        .iter()
        .filter_map(|need| found_for_another_major(need, chosen?, &searched))
        .collect();
    if !named.is_empty() && !missing.is_empty() && other_major.len() == missing.len() {
        return Error::Inconsistent {
            conflicts: other_major,
        };
    }
    let failed = Failed {
        request,
        target,
        missing,
        major: request.major.or(base.map(|base| base.major)),
        searched,
        other_major,
        named: named.first().map(|first| &first.candidate.label),
    };
    let mut lines = failed.lines();
    if !named.is_empty() {
        let found = others.iter().filter(|attempt| !attempt.sets.is_empty());
        lines.extend(found.map(|attempt| format!("  available, not used: {attempt}")));
    }
    Error::NotFound {
        missing: failed.missing.iter().map(|need| need.component).collect(),
        message: lines.join("\n"),
        hints: failed.hints(),
    }
}

/// A search that failed.
struct Failed<'a> {
    request: &'a Request,
    target: &'a Target,
    missing: Vec<Need>,
    /// The major of the toolkit that lacks the components, or the requested one.
    major: Option<u32>,
    searched: Vec<&'a Attempt>,
    /// Missing components that were found for another CUDA major.
    other_major: Vec<Conflict>,
    /// The label of the places, if the user named them.
    named: Option<&'a Label>,
}

impl Failed<'_> {
    fn sets(&self) -> impl Iterator<Item = &ComponentSet> {
        self.searched.iter().flat_map(|attempt| &attempt.sets)
    }

    fn is_missing(&self, component: Component) -> bool {
        self.missing.iter().any(|need| need.component == component)
    }

    /// Whether this is a cross build that lacks files for the target.
    fn lacks_target_files(&self) -> bool {
        let mut missing = self.missing.iter();
        let is_cross = !self.target.is_native() && !self.target.is_windows();
        is_cross && missing.any(|need| !is_of_compiler(need.component))
    }

    /// What is missing, why, and what was tried.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for need in &self.missing {
            let Need { component, why, .. } = need;
            let part = match self.lacks_only_part(need) {
                true => format!("; it was found without {}", need.part.plural()),
                false => String::new(),
            };
            let version = need.version.as_ref();
            let version = version.map_or_else(String::new, |accepted| format!(" {accepted}"));
            lines.push(format!(
                "CUDA component `{component}`{version} not found ({why}{part})"
            ));
        }
        // In a cross build, a toolkit with an nvcc for this machine is used only for its programs.
        let is_used = |attempt: &&&Attempt| {
            let mut sets = attempt.sets.iter();
            self.target.is_native() || !sets.any(|set| set.get(Component::Nvcc).is_some())
        };
        for attempt in self.searched.iter().filter(is_used) {
            for unusable in &attempt.unusable {
                let is_for_major = self.major.is_none_or(|major| major == unusable.major);
                if is_for_major && self.is_missing(unusable.component) {
                    let (reason, place) = (&unusable.reason, &attempt.candidate);
                    lines.push(format!("  cause: {reason} ({place})"));
                }
            }
        }
        let other_major = self.other_major.iter();
        lines.extend(other_major.map(|other| format!("  cause: {}", other.reason)));
        if self.lacks_target_files() {
            lines.push(format!(
                "  cause: the build for `{}` needs CUDA libraries for that platform (`targets/{}` of a toolkit); the \
                 libraries of this machine cannot be used",
                self.target,
                self.target.directory()
            ));
        }
        for attempt in &self.searched {
            // Unusable parts of missing components were printed as causes.
            let is_other = |component| attempt.sets.is_empty() || !self.is_missing(component);
            let tried = attempt.describe(|set| self.describe_set(set), is_other);
            lines.push(format!("  tried {}: {tried}", attempt.candidate));
        }
        lines
    }

    /// Whether the component was found, and only the needed part of it is missing.
    fn lacks_only_part(&self, need: &Need) -> bool {
        let sets = self.sets().filter(|set| self.request.admits(set));
        let found: Vec<&Found> = sets.filter_map(|set| set.get(need.component)).collect();
        need.version.is_none() && !found.is_empty() && !found.iter().any(|f| need.is_met_by(f))
    }

    /// What a set has, and which missing components it lacks.
    fn describe_set(&self, set: &ComponentSet) -> String {
        let request = self.request;
        if !request.admits(set) {
            let requested = match request.major {
                Some(major) if major != set.major => format!("CUDA {major}"),
                _ => format!("`toolkit = \"{}\"`", request.toolkit),
            };
            let version = set.shown_release();
            return format!("has CUDA {version}, but {requested} is requested");
        }
        let missing = self.missing.iter().map(|need| need.component);
        let lacks = missing.filter(|component| set.get(*component).is_none());
        let mut parts: Vec<String> = lacks.map(|component| format!("no `{component}`")).collect();
        parts.dedup();
        match parts.is_empty() {
            true => format!("found {set}"),
            false => format!("{}; found {set}", parts.join(", ")),
        }
    }

    /// What to do next, most likely first.
    fn hints(&self) -> Vec<String> {
        let other_major = self.other_major.iter();
        let mut hints: Vec<String> = other_major.map(|other| other.fix.clone()).collect();
        // `cargo cuda` sets `CUDA_BUILD_TOOLKIT` for build scripts, so the user cannot unset it.
        let by_cargo_cuda = Label::Variable("CUDA_BUILD_TOOLKIT");
        if let Some(named) = self.named.filter(|named| **named != by_cargo_cuda) {
            hints.push(format!(
                "unset or correct {}: while a toolkit is named explicitly, no other place is used",
                named.short()
            ));
        }
        let is_static_runtime = |need: &Need| {
            (need.component, need.part) == (Component::Cudart, Part::Archive)
                && self.lacks_only_part(need)
        };
        if self.missing.iter().any(is_static_runtime) {
            hints.push(
                "`cudart = \"shared\"` in `[package.metadata.cuda]` links the shared library, which was found"
                    .to_owned(),
            );
        }
        hints.push(self.fetch_hint());
        hints
    }

    /// How to get the missing components.
    fn fetch_hint(&self) -> String {
        let (request, target) = (self.request, self.target);
        let toolkits = self.sets().filter(|set| set.is_toolkit());
        let majors = toolkits.map(|set| set.major);
        let found = majors.filter(|major| request.admits_major(*major)).max();
        let Some(major) = found.or_else(|| request.newest_major()) else {
            let requested = request
                .major
                .map_or(String::new(), |major| format!(" {major}"));
            return format!(
                "change `toolkit = \"{}\"` in `[package.metadata.cuda]`: no release of CUDA{requested} meets it",
                request.toolkit
            );
        };
        if found.is_none() && major > NEWEST_MAJOR {
            return format!(
                "request CUDA {NEWEST_MAJOR} or older: no release of CUDA {major} is known"
            );
        }
        if target.is_windows() {
            let missing = self.missing.iter().map(|need| need.component.facts());
            let packages = missing.clone().filter_map(|facts| facts.package(major));
            let packages: Vec<&str> = packages.collect();
            let lacks_import = self.missing.iter().any(|need| need.part == Part::Import);
            let (products, parts): (Vec<_>, Vec<_>) = missing.partition(|facts| facts.is_product());
            let toolkit = "install NVIDIA's CUDA toolkit for Windows, and set `CUDA_PATH` to it";
            let mut installers = Vec::from_iter((!parts.is_empty()).then(|| toolkit.to_owned()));
            let products = products.iter().map(|facts| facts.id);
            installers
                .extend(products.map(|product| format!("install {product} for CUDA {major}")));
            let installers = installers.join(", and ");
            return match lacks_import || packages.is_empty() {
                true => installers,
                false => format!("run `pip install {}`, or {installers}", packages.join(" ")),
            };
        }
        // In a cross build, missing programs come first, because they run on this machine.
        let is_program = |need: &&Need| !need.component.facts().tools.is_empty();
        let programs: Vec<&Need> = self.missing.iter().filter(is_program).collect();
        let hint_is_for_target = target.is_native() || programs.is_empty();
        let here = match hint_is_for_target {
            true => String::new(),
            false => format!(": nvcc runs on this machine, also if the build is for {target}"),
        };
        if hint_is_for_target && target.is_jetson() {
            // NVIDIA has no packages for Jetson boards.
            return format!(
                "set CUDA_PATH or CUDA_BUILD_ROOTS to a toolkit that has `targets/{}`",
                target.directory()
            );
        }
        if !release::is_nvcc_packaged(major) && self.is_missing(Component::Nvcc) {
            // The NVRTC of another platform cannot be loaded here.
            let nvrtc = match target.is_native() {
                true => "use NVRTC for modules, ",
                false => "",
            };
            return format!(
                "no wheel of CUDA {major} has nvcc: {nvrtc}fetch NVIDIA's archives with `cargo cuda toolkit add {major} \
                 --from redist`, install the CUDA {major} toolkit of your system or of conda, or build for CUDA \
                 {NEWEST_MAJOR}{here}"
            );
        }
        let (mut release, mut option) = (major.to_string(), String::new());
        if hint_is_for_target && self.lacks_target_files() {
            // The libraries of another platform have to be of the release of the nvcc that was found.
            let mut admitted = self.sets().filter(|set| request.admits(set));
            if let Some(set) = admitted.find(|set| set.get(Component::Nvcc).is_some()) {
                release = set.shown_release();
            }
            option = format!(" --target {target}");
        }
        let needs = match hint_is_for_target {
            true => self.missing.iter().collect(),
            false => programs,
        };
        let ids = needs.iter().map(|need| need.component.facts());
        let ids: Vec<&str> = ids
            .filter(|facts| !facts.in_every_toolkit)
            .map(|facts| facts.id)
            .collect();
        let mut hint = match ids.is_empty() {
            // Only the manifest has the version.
            _ if needs.iter().any(|need| need.version.is_some()) => {
                "run `cargo cuda fetch` and commit cuda-toolkits.lock".to_owned()
            }
            true if target.is_native() => {
                format!("run `cargo cuda toolkit add {release}`, or `cargo cuda build --fetch`")
            }
            true => format!("run `cargo cuda toolkit add {release}{option}`"),
            false => format!(
                "run `cargo cuda toolkit add {release} --components {}{option}` and commit \
                 cuda-toolkits.lock",
                ids.join(",")
            ),
        };
        let may_be_jetson = major < release::JETSON_UNIFIED_SINCE;
        if hint_is_for_target && target.architecture() == "aarch64" && may_be_jetson {
            hint = format!(
                "for a Jetson board, write `jetson = true` in `[package.metadata.cuda]`; otherwise {hint}"
            );
        }
        hint + &here
    }
}

/// Whether the component belongs to nvcc, so that it is the same for every target.
fn is_of_compiler(component: Component) -> bool {
    [Component::Nvcc, Component::Nvvm, Component::Crt].contains(&component)
}

/// The conflict with a component that was found for another CUDA major than `toolkit_part`.
pub(super) fn found_for_another_major(
    need: &Need,
    toolkit_part: &Found,
    searched: &[&Attempt],
) -> Option<Conflict> {
    let sets = searched.iter().flat_map(|attempt| &attempt.sets);
    let mut others = sets
        .filter(|set| set.major != toolkit_part.major)
        .flat_map(|set| &set.found);
    let other = others.find(|found| need.is_met_by(found))?;
    Some(major_conflict(toolkit_part, other))
}

/// The toolkit with the fewest unmet needs, and these needs. If the request has alternatives, only the alternative
/// with the fewest unmet needs counts.
fn closest_toolkit<'a>(
    request: &Request,
    searched: &[&'a Attempt],
) -> (Option<&'a ComponentSet>, Vec<Need>) {
    let all: Vec<&ComponentSet> = searched.iter().flat_map(|attempt| &attempt.sets).collect();
    let bases = all
        .iter()
        .copied()
        .filter(|set| request.admits(set) && set.is_toolkit());
    let mut least: Option<(Option<&ComponentSet>, Vec<Need>)> = None;
    for base in bases.map(Some).chain([None]) {
        let has = |need: &Need| {
            let meets = |set: &ComponentSet| set.found.iter().any(|f| need.is_met_by(f));
            let is_beside = |set: &ComponentSet| base.is_none_or(|base| base.major == set.major);
            base.is_some_and(meets)
                || (need.is_product() && all.iter().any(|set| is_beside(set) && meets(set)))
        };
        // Among equals, prefer a toolkit with compiler or runtime, because the rest has to fit
        // them.
        let rank = |(base, needs): &(Option<&ComponentSet>, Vec<Need>)| {
            let is_core = base.is_some_and(|base| base.found.iter().any(|f| f.component.is_core()));
            (needs.len(), !is_core)
        };
        let major = base.map(|base| base.major).or(request.major);
        for mut needs in request.groups(major.unwrap_or(NEWEST_MAJOR)) {
            needs.retain(|need| need.strength == Strength::Required && !has(need));
            let closest = (base, needs);
            // If still equal, the earlier place or the preferred alternative is kept.
            if least
                .as_ref()
                .is_none_or(|least| rank(&closest) < rank(least))
            {
                least = Some(closest);
            }
        }
    }
    let (base, mut needs) = least.unwrap_or_default();
    if needs.is_empty() {
        // No need is unmet, but the search failed: the components that were found show no release.
        let why = "needed to determine the CUDA release";
        needs.push(Need::new(Component::Cudart, Part::Headers, why));
    }
    (base, needs)
}
