//! What a toolkit lacks, for a build that failed: only its own messages say what it looked for.

use cuda_build::component::{Bundle, Facts};
use cuda_build::{Component, Toolkit, View};

/// What to do without static libraries.
const ARCHIVES: &str = "Python's packages don't carry them. Switch on that crate's feature for linking \
                        dynamically (`dynamic-link`, `dynamic-linking` or the like), or name a toolkit that has \
                        them with CUDA_BUILD_ROOTS or CUDA_PATH: of NVIDIA's installer, its redist archives, \
                        Debian's, or conda's with the `-static` packages";

/// One sentence for the libraries that can be added, and one for the static ones that cannot.
#[must_use]
pub fn hints(toolkit: &Toolkit, view: &View) -> Vec<String> {
    let version = toolkit.version();
    let all = Component::all().map(Component::facts);
    let known: Vec<&Facts> = all
        .filter(|facts| facts.bundle == Bundle::Toolkit && facts.package(version.major).is_some())
        .filter(|facts| !facts.libraries.is_empty() || !facts.archives.is_empty())
        .collect();
    let has_archive = |name: &str| view.contains(format!("lib/{name}"));
    let is_there = |facts: &Facts| match facts.libraries {
        // A package of static libraries alone, as culibos.
        [] => facts.archives.iter().all(|name| has_archive(name)),
        _ => toolkit
            .get(facts.component)
            .is_some_and(|found| !found.libraries.is_empty()),
    };
    let (there, absent): (Vec<&Facts>, Vec<&Facts>) =
        known.into_iter().partition(|facts| is_there(facts));
    let mut hints = Vec::new();
    if let Some(first) = absent.first() {
        hints.push(format!(
            "if the build looked for a library: this CUDA {version} has no {}; \
             `cargo cuda toolkit add {} --components {}` adds those that are named",
            joined(absent.iter().map(|facts| facts.id)),
            version.major,
            first.id,
        ));
    }
    let archives = there.iter().flat_map(|facts| facts.archives);
    let archives: Vec<&str> = archives
        .copied()
        .filter(|name| !has_archive(name))
        .map(|name| name.trim_start_matches("lib").trim_end_matches(".a"))
        .collect();
    if !archives.is_empty() {
        hints.push(format!(
            "if it looked for static libraries: this CUDA {version} has no static {}; {ARCHIVES}",
            joined(archives)
        ));
    }
    hints
}

fn joined<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}
