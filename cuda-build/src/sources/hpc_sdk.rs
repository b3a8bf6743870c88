//! NVIDIA's HPC SDK: CUDA in `cuda/<version>`, the mathematical libraries beside it in
//! `math_libs/<version>`, NCCL and NVSHMEM in `comm_libs/<version>`, several versions at once.

use std::path::{Path, PathBuf};

use super::{Candidate, Sources, Step};
use crate::env::Env;
use crate::root::Root;
use crate::target::Target;
use crate::version::Version;

/// What the SDK's environment module sets.
pub(super) fn propose_active(root: &Root, env: &Env, found: &mut Sources) {
    if let Some(home) = env.path("NVHPC_CUDA_HOME") {
        let label = "HPC SDK (`NVHPC_CUDA_HOME`)";
        found
            .candidates
            .extend(Candidate::scattered(root, Step::HpcSdk, label, vec![home]));
    } else if let Some(sdk) = env.path("NVHPC_ROOT") {
        let label = "HPC SDK (`NVHPC_ROOT`)";
        let before = found.candidates.len();
        push(root, label, &sdk, found);
        if found.candidates.len() == before {
            found
                .candidates
                .push(Candidate::root(Step::HpcSdk, label, sdk));
        }
    }
}

/// The newest SDK in its default place, unless a module has named one.
pub(super) fn propose_default(root: &Root, target: &Target, found: &mut Sources) {
    let loaded =
        |candidate: &Candidate| candidate.step == Step::HpcSdk && root.is_dir(&candidate.path);
    if found.candidates.iter().any(loaded) {
        return;
    }
    let machine = target.triple().split('-').next().unwrap_or_default();
    let parent = root
        .locate("/opt/nvidia/hpc_sdk")
        .join(format!("Linux_{machine}"));
    if let Some(newest) = versions(root, &parent).first() {
        push(root, "HPC SDK", newest, found);
    }
}

/// One candidate for each CUDA of an SDK.
fn push(root: &Root, label: &str, sdk: &Path, found: &mut Sources) {
    for cuda in versions(root, &sdk.join("cuda")) {
        found
            .candidates
            .extend(Candidate::scattered(root, Step::HpcSdk, label, vec![cuda]));
    }
}

/// Directories named after a version, newest first.
fn versions(root: &Root, parent: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<(Version, PathBuf)> = Vec::new();
    for name in root.names(parent) {
        let Some(version) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let path = parent.join(&name);
        if root.is_dir(&path) {
            versions.push((version, path));
        }
    }
    versions.sort_by(|a, b| b.0.cmp(&a.0));
    versions.into_iter().map(|(_, path)| path).collect()
}

/// The other halves of an SDK's `cuda/<version>`, or of its unversioned `cuda`, by whatever path it
/// is reached.
pub(crate) fn companions(root: &Root, cuda: &Path) -> Vec<PathBuf> {
    let beside = companions_of(root, cuda);
    if beside.is_empty() {
        companions_of(root, &root.resolve(cuda))
    } else {
        beside
    }
}

fn companions_of(root: &Root, cuda: &Path) -> Vec<PathBuf> {
    let Some(parent) = cuda.parent() else {
        return Vec::new();
    };
    let named = |path: &Path| path.file_name().is_some_and(|name| name == "cuda");
    let (sdk, version) = match cuda.file_name() {
        Some(version) if named(parent) => (parent.parent(), Path::new(version)),
        _ if named(cuda) => (Some(parent), Path::new("")),
        _ => return Vec::new(),
    };
    let Some(sdk) = sdk.filter(|sdk| root.is_dir(&sdk.join("math_libs"))) else {
        return Vec::new();
    };
    let libraries = sdk.join("comm_libs").join(version);
    [
        sdk.join("math_libs").join(version),
        libraries.join("nccl"),
        libraries.join("nvshmem"),
    ]
    .into_iter()
    .filter(|path| root.is_dir(path))
    .collect()
}
