//! Spack: the view of an active environment, and the prefixes that `spack load` lists.

use std::path::{Path, PathBuf};

use super::{Candidate, Sources, Step, split_list};
use crate::component::Component;
use crate::env::Env;
use crate::root::Root;

pub(super) fn propose(root: &Root, env: &Env, found: &mut Sources) {
    let mut prefixes: Vec<PathBuf> = Vec::new();
    if let Some(environment) = env.path("SPACK_ENV") {
        prefixes.push(environment.join(".spack-env/view"));
    }
    // `spack load` leaves this mark, and the prefixes where CMake looks for them.
    if env.get("SPACK_LOADED_HASHES").is_some()
        && let Some(list) = env.get("CMAKE_PREFIX_PATH")
    {
        prefixes.extend(split_list(list).into_iter().filter(|path| is_cuda(path)));
    }
    // Prefixes that do not exist are reported, after those that do.
    prefixes.sort_by_key(|path| !root.is_dir(path));
    found
        .candidates
        .extend(Candidate::scattered(root, Step::Spack, "Spack", prefixes));
}

/// `…/cuda-12.4.0-<hash>`, or with `{name}/{version}` in the layout, `…/cuda/12.4.0`.
fn is_cuda(prefix: &Path) -> bool {
    prefix
        .components()
        .rev()
        .take(2)
        .filter_map(|part| part.as_os_str().to_str())
        .any(|name| {
            let mut packages = Component::all().flat_map(|component| component.facts().spack);
            packages.any(|package| {
                name.strip_prefix(package)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            })
        })
}
