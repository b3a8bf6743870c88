//! Words for a search that found too little.

use super::{Need, Request};
use crate::component::Component;
use crate::error::{Error, NotFound};
use crate::probe::{Attempt, Found};

/// The error of a search that met not every need.
pub(super) fn not_found(request: &Request, named: &[&Attempt], others: &[&Attempt]) -> Error {
    let searched = if named.is_empty() { others } else { named };
    let missing = missing(request, searched);
    let components: Vec<Component> = missing.iter().map(|need| need.component).collect();
    let tried: Vec<String> = searched.iter().map(|attempt| tried(request, &components, attempt)).collect();
    let unused = if named.is_empty() { Vec::new() } else { unused(others) };
    let mut hints = Vec::new();
    if let Some(first) = named.first() {
        hints.push(format!(
            "unset or correct {}: what is named explicitly rules out every other place",
            first.candidate.label.replace("environment variable ", "")
        ));
    }
    hints.push(fetch_hint(request, &components, searched));
    Error::NotFound(Box::new(NotFound {
        missing: missing.iter().map(|need| (need.component.to_string(), need.why.clone())).collect(),
        tried,
        unused,
        hints,
    }))
}

fn fetch_hint(request: &Request, missing: &[Component], searched: &[&Attempt]) -> String {
    let newest = searched.iter().flat_map(|attempt| &attempt.sets).map(|set| set.major).max();
    let major = request.major.or(newest).unwrap_or(13);
    // No wheel of CUDA 11 or 12 carries a compiler.
    if major < 13 && missing.contains(&Component::Nvcc) {
        return format!(
            "the wheels of CUDA {major} carry no nvcc: use NVRTC for modules, install the CUDA {major} toolkit of \
             your system or of conda, or build for CUDA 13"
        );
    }
    let default = [
        Component::Cudart,
        Component::Nvcc,
        Component::Nvvm,
        Component::Crt,
        Component::Nvrtc,
        Component::Cccl,
    ];
    let extra: Vec<&str> = missing.iter().filter(|c| !default.contains(c)).map(|c| c.id()).collect();
    let components =
        if extra.is_empty() { String::new() } else { format!(" --components {}", extra.join(",")) };
    format!("fetch them with `cargo cuda toolkit add {major}{components}`")
}

/// What the best place lacks, by the alternative that lacks least.
fn missing<'a>(request: &'a Request, searched: &[&Attempt]) -> Vec<&'a Need> {
    let lacking = |needs: &[&'a Need]| -> Vec<&'a Need> {
        let by_set = searched
            .iter()
            .flat_map(|attempt| &attempt.sets)
            .filter(|set| request.admits(set))
            .map(|set| {
                let met = |need: &&&Need| need.is_required() && !set.found.iter().any(|f| need.is_met_by(f));
                needs.iter().filter(met).copied().collect::<Vec<_>>()
            })
            .min_by_key(Vec::len);
        by_set.unwrap_or_else(|| needs.iter().filter(|need| need.is_required()).copied().collect())
    };
    request.variants().into_iter().map(|(_, needs)| lacking(&needs)).min_by_key(Vec::len).unwrap_or_default()
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
            let lacks: Vec<String> =
                missing.iter().filter(|c| set.get(**c).is_none()).map(|c| format!("no `{c}`")).collect();
            let has: Vec<String> = set.found.iter().map(Found::to_string).collect();
            parts.push(
                format!("{}; found {}", lacks.join(", "), has.join(", ")).trim_start_matches("; ").to_owned(),
            );
        } else {
            let version = set.toolkit().map_or_else(|| set.major.to_string(), |v| v.to_string());
            let asked = match request.major {
                Some(major) if major != set.major => format!("CUDA {major} is asked for"),
                _ => format!("`toolkit = \"{}\"` is asked for", request.toolkit),
            };
            parts.push(format!("holds CUDA {version}, but {asked}"));
        }
    }
    parts.extend(attempt.unusable.iter().map(|unusable| unusable.reason.clone()));
    parts.extend(attempt.remarks.iter().cloned());
    line.push_str(&parts.join("; "));
    line
}

/// What places hold that an explicit choice ruled out.
pub(super) fn unused(others: &[&Attempt]) -> Vec<String> {
    let holding = others.iter().filter(|attempt| !attempt.sets.is_empty());
    holding.map(|attempt| format!("{}: {}", attempt.candidate, attempt.summary())).collect()
}
