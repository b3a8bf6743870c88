//! NVIDIA's HPC SDK. An SDK contains several CUDA releases. For each of them, CUDA is in `cuda/<version>`, the math
//! libraries are in `math_libs/<version>`, and NCCL and NVSHMEM are in `comm_libs/<version>`.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::{Candidate, SearchStep, Sources};
use crate::env::Env;
use crate::list::sort_by_key;
use crate::root::Root;
use crate::target::Target;
use crate::version::Version;

/// Proposes the SDK whose environment module is loaded.
pub(super) fn propose_active(root: &Root, env: &Env, found: &mut Sources) {
    let candidates = if let Some(home) = env.path("NVHPC_CUDA_HOME") {
        let label = "HPC SDK (`NVHPC_CUDA_HOME`)";
        Vec::from_iter(Candidate::scattered(
            root,
            SearchStep::HpcSdk,
            label,
            vec![home],
        ))
    } else if let Some(sdk) = env.path("NVHPC_ROOT") {
        let label = "HPC SDK (`NVHPC_ROOT`)";
        match of_sdk(root, label, &sdk) {
            candidates if candidates.is_empty() => {
                vec![Candidate::root(SearchStep::HpcSdk, label, sdk)]
            }
            candidates => candidates,
        }
    } else {
        return;
    };
    found.candidates.extend(candidates);
}

/// Proposes the newest SDK in the default location, unless the environment module of an SDK is loaded.
pub(super) fn propose_default(root: &Root, target: &Target, found: &mut Sources) {
    let is_loaded = |candidate: &Candidate| {
        candidate.step == SearchStep::HpcSdk && root.is_dir(&candidate.path)
    };
    if found.candidates.iter().any(is_loaded) {
        return;
    }
    let platform = format!("/opt/nvidia/hpc_sdk/Linux_{}", target.architecture());
    if let Some(newest) = versions(root, &root.locate(&platform)).first() {
        found.candidates.extend(of_sdk(root, "HPC SDK", newest));
    }
}

/// One candidate for each CUDA release in an SDK.
fn of_sdk(root: &Root, label: &str, sdk: &Path) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for cuda in versions(root, &sdk.join("cuda")) {
        candidates.extend(Candidate::scattered(
            root,
            SearchStep::HpcSdk,
            label,
            vec![cuda],
        ));
    }
    candidates
}

/// The directories in `parent` whose name is a version, newest first.
fn versions(root: &Root, parent: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<(Version, PathBuf)> = Vec::new();
    for name in root.names(parent) {
        let path = parent.join(&name);
        let version = name.to_str().and_then(|name| name.parse().ok());
        if let Some(version) = version.filter(|_| root.is_dir(&path)) {
            versions.push((version, path));
        }
    }
    sort_by_key(&mut versions, |(version, _)| Reverse(version.clone()));
    versions.into_iter().map(|(_, path)| path).collect()
}

/// The directories of math and communication libraries that belong to `cuda`, if `cuda` is in an SDK. It is in an SDK
/// if it is `<sdk>/cuda/<version>`, an unversioned `<sdk>/cuda`, or a link to either.
pub(crate) fn companions(root: &Root, cuda: &Path) -> Vec<PathBuf> {
    let companions = companions_of(root, cuda);
    companions
        .or_else(|| companions_of(root, &root.resolve(cuda)))
        .unwrap_or_default()
}

fn companions_of(root: &Root, cuda: &Path) -> Option<Vec<PathBuf>> {
    let parent = cuda.parent()?;
    let is_cuda = |path: &Path| path.file_name().is_some_and(|name| name == "cuda");
    let (sdk, version) = match cuda.file_name() {
        Some(version) if is_cuda(parent) => (parent.parent()?, Path::new(version)),
        _ if is_cuda(cuda) => (parent, Path::new("")),
        _ => return None,
    };
    if !root.is_dir(&sdk.join("math_libs")) {
        return None;
    }
    let libraries = sdk.join("comm_libs").join(version);
    let mut companions = vec![sdk.join("math_libs").join(version)];
    companions.extend(["nccl", "nvshmem"].map(|name| libraries.join(name)));
    companions.retain(|path| root.is_dir(path));
    (!companions.is_empty()).then_some(companions)
}
