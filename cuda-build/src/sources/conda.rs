//! The active conda environment.
//!
//! conda-forge keeps headers and libraries in `targets/<platform>` and links libraries into
//! `lib`, where every other library of the environment lies too.

use super::{Candidate, Sources, Step, python};
use crate::env::Env;
use crate::root::Root;

pub(super) fn propose(root: &Root, env: &Env, found: &mut Sources) {
    // conda-build has two environments: what is linked is in `PREFIX`, compilers are in
    // `BUILD_PREFIX`.
    let (label, prefixes) = if env.get("CONDA_BUILD").is_some() {
        (
            "conda-build (`PREFIX`, `BUILD_PREFIX`)",
            vec![env.path("PREFIX"), env.path("BUILD_PREFIX")],
        )
    } else {
        (
            "conda environment (`CONDA_PREFIX`)",
            vec![env.path("CONDA_PREFIX")],
        )
    };
    let prefixes: Vec<_> = prefixes.into_iter().flatten().collect();
    found.candidates.extend(Candidate::scattered(
        root,
        Step::Conda,
        label,
        prefixes.clone(),
    ));
    let packages = prefixes
        .iter()
        .flat_map(|prefix| python::site_packages_of(root, prefix));
    for path in packages.filter(|path| python::holds_cuda(root, path)) {
        found
            .candidates
            .push(Candidate::site_packages(Step::Conda, label, path));
    }
}
