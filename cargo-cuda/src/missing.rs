//! What a build that failed may have missed in its toolkit.

use cuda_build::component::Bundle;
use cuda_build::{Component, Toolkit};

/// What may be the reason of a build that failed: libraries that somebody may have asked the
/// linker for, and that this toolkit does not have.
#[must_use]
pub fn lacks(toolkit: &Toolkit) -> Vec<String> {
    let facts = || Component::all().map(Component::facts).filter(|facts| facts.bundle == Bundle::Toolkit);
    let absent: Vec<&str> = facts()
        .filter(|facts| !facts.libraries.is_empty() && facts.package(toolkit.version().major).is_some())
        .filter(|facts| toolkit.get(facts.component).is_none_or(|found| found.libraries.is_empty()))
        .map(|facts| facts.id)
        .collect();
    let mut hints = Vec::new();
    if !absent.is_empty() {
        hints.push(format!(
            "hint: this CUDA {} has no shared libraries of {}; if one of them is what was not found: \
             `cargo cuda toolkit add {} --components {}` with those that you need",
            toolkit.version(),
            absent.join(", "),
            toolkit.version().major,
            absent[0],
        ));
    }
    let archives: Vec<&str> = facts()
        .filter_map(|facts| Some((facts, toolkit.get(facts.component)?)))
        .filter(|(_, found)| !found.libraries.is_empty())
        .flat_map(|(facts, found)| facts.archives.iter().filter(|name| found.archive(name).is_none()))
        .filter_map(|name| name.strip_prefix("lib").unwrap_or(name).strip_suffix(".a").or(Some(name)))
        .collect();
    if !archives.is_empty() {
        hints.push(format!(
            "hint: it has no static {}: Python's packages carry hardly any. Where a crate links them \
             statically, switch on its feature for linking dynamically (`dynamic-link` or the like), or \
             name a toolkit that has them: an installation of NVIDIA's, or conda's `-static` packages",
            archives.join(", ")
        ));
    }
    hints
}
