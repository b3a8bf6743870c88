//! The error of a search that found too little: what is missing, where it was searched, and what to do.

use super::request::{Need, Part, Request, Strength};
use crate::component::Component;
use crate::consistency::major_conflict;
use crate::error::{Conflict, Error};
use crate::found::{Attempt, ComponentSet, Found, Unusable};
use crate::list::{joined, sorted_set};
use crate::release::{self, NEWEST_MAJOR};
use crate::sources::CandidateKind;
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
    let mut seen = Vec::new();
    missing.retain(|need| {
        let part = (need.component, need.part);
        let is_new = !seen.contains(&part);
        seen.push(part);
        is_new
    });
    let chosen = base.and_then(|base| {
        let required = base.found.iter().find(|found| request.requires(found));
        required.or(base.found.first())
    });
    let other_major: Vec<Conflict> = missing
        .iter()
        .filter_map(|need| found_for_another_major(need, chosen?, &searched))
        .collect();
    if !named.is_empty() && !missing.is_empty() && other_major.len() == missing.len() {
        let conflicts = other_major;
        return Error::Inconsistent { conflicts };
    }
    let failed = Failed {
        request,
        target,
        missing,
        searched,
    };
    let mut lines = Vec::new();
    for need in &failed.missing {
        lines.push(failed.describe_need(need));
    }
    lines.extend(failed.causes(request.major.or(base.map(|base| base.major))));
    let mut hints = Vec::new();
    for Conflict { reason, fix } in other_major {
        lines.push(format!("  cause: {reason}"));
        hints.push(fix);
    }
    if failed.lacks_target_files() {
        lines.push(format!(
            "  cause: the build for `{target}` needs CUDA libraries for that platform (`targets/{}` of a toolkit); the \
             libraries of this machine cannot be used",
            target.directory()
        ));
    }
    for attempt in &failed.searched {
        // Unusable parts of missing components were printed as causes.
        let is_other = |component| attempt.sets.is_empty() || !failed.is_missing(component);
        let tried = attempt.describe(|set| failed.describe_set(set), is_other);
        lines.push(format!("  tried {}: {tried}", attempt.candidate));
    }
    if let Some(first) = named.first() {
        let unused = others.iter().filter(|attempt| !attempt.sets.is_empty());
        lines.extend(unused.map(|attempt| format!("  available, not used: {attempt}")));
        // `cargo cuda` sets `CUDA_BUILD_TOOLKIT` for build scripts, so the user cannot unset it.
        if first.candidate.kind != CandidateKind::ToolkitFile {
            let label = &first.candidate.label;
            let hint = format!("unset or correct {label}: no other place is used beside it");
            hints.push(hint);
        }
    }
    hints.push(failed.fetch_hint());
    Error::NotFound {
        missing: failed.missing.iter().map(|need| need.component).collect(),
        message: lines.join("\n"),
        hints,
    }
}

/// A search that failed.
struct Failed<'a> {
    request: &'a Request,
    target: &'a Target,
    missing: Vec<Need>,
    searched: Vec<&'a Attempt>,
}

impl Failed<'_> {
    /// The sets that the request admits.
    fn admitted(&self) -> impl Iterator<Item = &ComponentSet> {
        let sets = self.searched.iter().flat_map(|attempt| &attempt.sets);
        sets.filter(|set| self.request.admits(set))
    }

    fn is_missing(&self, component: Component) -> bool {
        self.missing.iter().any(|need| need.component == component)
    }

    /// Whether this is a cross build that lacks files for the target.
    fn lacks_target_files(&self) -> bool {
        // The files of nvcc are the same for every target.
        let of_compiler = [Component::Nvcc, Component::Nvvm, Component::Crt];
        let mut missing = self.missing.iter();
        let is_cross = !self.target.is_native() && !self.target.is_windows();
        is_cross && missing.any(|need| !of_compiler.contains(&need.component))
    }

    /// What is missing, and why it is needed.
    fn describe_need(&self, need: &Need) -> String {
        let Need { component, why, .. } = need;
        let accepted = need.version.iter();
        let version: String = accepted.map(|accepted| format!(" {accepted}")).collect();
        let mut text = format!("CUDA component `{component}`{version} not found ({why}");
        if self.lacks_only_part(need) {
            text += &format!("; it was found without {}", need.part.plural());
        }
        text + ")"
    }

    /// Why missing components of the major cannot be used, although a part of them was found.
    fn causes(&self, major: Option<u32>) -> Vec<String> {
        let mut causes = Vec::new();
        for attempt in &self.searched {
            // In a cross build, a toolkit with an nvcc for this machine is used only for its programs.
            let mut sets = attempt.sets.iter();
            if !self.target.is_native() && sets.any(|set| set.get(Component::Nvcc).is_some()) {
                continue;
            }
            let is_cause = |it: &&Unusable| {
                self.is_missing(it.component) && major.is_none_or(|major| major == it.major)
            };
            for Unusable { reason, .. } in attempt.unusable.iter().filter(is_cause) {
                causes.push(format!("  cause: {reason} ({})", attempt.candidate));
            }
        }
        causes
    }

    /// Whether the component was found, and only the needed part of it is missing.
    fn lacks_only_part(&self, need: &Need) -> bool {
        let found = self.admitted().filter_map(|set| set.get(need.component));
        let found: Vec<&Found> = found.collect();
        let is_met = found.iter().any(|found| need.is_met_by(found));
        need.version.is_none() && !found.is_empty() && !is_met
    }

    /// What a set has, and which missing components it lacks.
    fn describe_set(&self, set: &ComponentSet) -> String {
        let request = self.request;
        if !request.admits(set) {
            let requested = match request.major {
                Some(major) if major != set.major => format!("CUDA {major}"),
                _ => format!("CUDA `{}`", request.toolkit),
            };
            let release = set.shown_release();
            return format!("has CUDA {release}, but {requested} is requested");
        }
        let mut lacks: Vec<Component> = self.missing.iter().map(|need| need.component).collect();
        lacks.retain(|component| set.get(*component).is_none());
        lacks.dedup();
        let lacks = joined(
            lacks.iter().map(|component| format!("no `{component}`")),
            ", ",
        );
        let separator = if lacks.is_empty() { "" } else { "; " };
        format!("{lacks}{separator}found {set}")
    }

    /// How to get the missing components.
    fn fetch_hint(&self) -> String {
        let (request, target) = (self.request, self.target);
        let toolkits = self.admitted().filter(|set| set.is_toolkit());
        let newest_found = toolkits.map(|set| set.major).max();
        let newest = request
            .newest_major()
            .filter(|major| *major <= NEWEST_MAJOR);
        let Some(major) = newest_found.or(newest) else {
            let major = joined(request.major, "");
            return format!(
                "change the request: no release of CUDA {major} is known that meets `toolkit = \"{}\"`",
                request.toolkit
            );
        };
        let mut needs: Vec<&Need> = self.missing.iter().collect();
        if target.is_windows() {
            let ids = sorted_set(needs.iter().map(|need| need.component.id()));
            // NVIDIA's Python packages lack most import libraries.
            needs.retain(|need| need.part != Part::Import);
            let package = |need: &&Need| need.component.facts().package(major);
            let packages = sorted_set(needs.iter().filter_map(package));
            if packages.len() == ids.len() {
                return format!("run `pip install {}`", packages.join(" "));
            }
            let ids = ids.join(", ");
            return format!("install {ids} for CUDA {major} with NVIDIA's installers");
        }
        // In a cross build, missing programs come first, because they run on this machine.
        let is_program = |need: &&Need| !need.component.facts().tools.is_empty();
        let is_for_target = target.is_native() || !needs.iter().any(is_program);
        needs.retain(|need| is_for_target || is_program(need));
        if is_for_target && target.is_jetson() {
            // NVIDIA has no packages for Jetson boards.
            return format!(
                "set CUDA_PATH or CUDA_BUILD_ROOTS to a toolkit that has `targets/{}`",
                target.directory()
            );
        }
        if !release::is_nvcc_packaged(major) && self.is_missing(Component::Nvcc) {
            // The NVRTC of another platform cannot be loaded here.
            let nvrtc = target.is_native().then_some("use NVRTC for modules, ");
            let nvrtc = nvrtc.unwrap_or_default();
            let mut admitted = release::releases().filter(|it| request.admits_release(*it));
            let release = admitted.rfind(|release| release.major == major);
            let source = release.map_or_else(String::new, release::source_of_nvcc);
            return format!("{nvrtc}build for CUDA {NEWEST_MAJOR}, or for CUDA {major}{source}");
        }
        if needs.iter().any(|need| need.version.is_some()) {
            // Only the manifest has the version.
            return "run `cargo cuda fetch`".to_owned();
        }
        let (mut release, mut options) = (major.to_string(), String::new());
        let facts = needs.iter().map(|need| need.component.facts());
        let ids = sorted_set(facts.filter(|it| !it.in_every_toolkit).map(|it| it.id));
        if !ids.is_empty() {
            options += &format!(" --components {}", ids.join(","));
        }
        if is_for_target && self.lacks_target_files() {
            // The libraries of another platform have to be of the release of the nvcc that was found.
            let mut admitted = self.admitted();
            let with_nvcc = admitted.find(|set| set.get(Component::Nvcc).is_some());
            release = with_nvcc.map_or(release, ComponentSet::shown_release);
            options += &format!(" --target {target}");
        }
        format!("run `cargo cuda toolkit add {release}{options}`")
    }
}

/// The conflict with a component that was found for another CUDA major than `toolkit_part`.
pub(super) fn found_for_another_major(
    need: &Need,
    toolkit_part: &Found,
    searched: &[&Attempt],
) -> Option<Conflict> {
    let sets = searched.iter().flat_map(|attempt| &attempt.sets);
    let others = sets.filter(|set| set.major != toolkit_part.major);
    let other = others
        .flat_map(|set| &set.found)
        .find(|found| need.is_met_by(found))?;
    Some(major_conflict(toolkit_part, other))
}

/// The toolkit with the fewest unmet needs, and these needs. If the request has alternatives, only the alternative
/// with the fewest unmet needs counts.
fn closest_toolkit<'a>(
    request: &Request,
    searched: &[&'a Attempt],
) -> (Option<&'a ComponentSet>, Vec<Need>) {
    let all: Vec<&ComponentSet> = searched.iter().flat_map(|attempt| &attempt.sets).collect();
    let sets = all.iter().copied();
    let bases = sets.filter(|set| request.admits(set) && set.is_toolkit());
    let mut closest: Vec<(Option<&ComponentSet>, Vec<Need>)> = Vec::new();
    for base in bases.map(Some).chain([None]) {
        let is_met = |need: &Need| {
            let meets = |set: &ComponentSet| set.found.iter().any(|found| need.is_met_by(found));
            let is_beside = |set: &ComponentSet| {
                request.admits(set) && base.is_none_or(|base| base.major == set.major)
            };
            let mut all = all.iter();
            base.is_some_and(meets)
                || (need.is_product() && all.any(|set| is_beside(set) && meets(set)))
        };
        let major = base.map(|base| base.major).or(request.major);
        for mut needs in request.groups(major.unwrap_or(NEWEST_MAJOR)) {
            needs.retain(|need| need.strength == Strength::Required && !is_met(need));
            closest.push((base, needs));
        }
    }
    // Among equals, prefer a toolkit with compiler or runtime, because the rest has to fit them. If still equal, the
    // earlier place or the preferred alternative is taken.
    let closest = closest.into_iter().min_by_key(|(base, needs)| {
        let mut found = base.iter().flat_map(|base| &base.found);
        (needs.len(), !found.any(|found| found.component.is_core()))
    });
    let (base, mut needs) = closest.unwrap_or_default();
    if needs.is_empty() {
        // No need is unmet, but the search failed: the components that were found show no release.
        let why = "needed to determine the CUDA release";
        needs.push(Need::new(Component::Cudart, Part::Headers, why));
    }
    (base, needs)
}
