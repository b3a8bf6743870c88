//! The sources of the search: each proposes candidates, in the order of the search, without reading them.
//!
//! 1. explicit: the API, `CUDA_BUILD_TOOLKIT`, `CUDA_BUILD_ROOTS`
//! 2. variables: `NVCC`, `CUDACXX`, `CUDA_HOME`, `CUDA_PATH` …, and those of single products, such as `CUDNN_PATH`
//! 3. in a workspace with `cuda-toolkits.lock`: the locked toolkit
//! 4. the active environment: `VIRTUAL_ENV`, `CONDA_PREFIX`, a Nix shell, Spack, the HPC SDK's module
//! 5. toolkits that `cargo cuda toolkit add` fetched
//! 6. nvcc on `PATH`
//! 7. default locations: `/usr/local/cuda`, then `/usr/local/cuda-<version>`, newest first, then the distribution's
//!    packages, then the HPC SDK
//! 8. site-packages of the Python on `PATH`
//!
//! Several roots are one candidate if they belong together: redist archives side by side, the outputs of a Nix shell,
//! or the directories that one variable lists.

mod candidate;
mod environments;
mod hpc_sdk;
mod python;
mod stored;
mod system;
mod variables;

pub use candidate::{Candidate, Label, Layout, SearchStep};
pub(crate) use hpc_sdk::companions;
pub use stored::{LOCK_FILE, LOCK_VARIABLE, Locked, lock_file};
pub(crate) use system::holds_product;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::error::Error;
use crate::root::Root;
use crate::target::Target;

/// What the sources propose: candidates, locked toolkits, and remarks to report.
#[derive(Default)]
pub struct Sources {
    /// In the order of the search.
    pub candidates: Vec<Candidate>,
    /// Reasons that some places are not among the candidates.
    pub remarks: Vec<String>,
    /// One sentence for each variable that names another toolkit or compiler than the first variable does.
    pub disagreements: Vec<String>,
    /// The toolkits of the lock file, newest first.
    pub locked: Vec<Locked>,
}

/// Proposes every place in the order of the search. The places in `arguments` come first.
///
/// # Errors
/// [`Error::Manifest`] if `CUDA_BUILD_SOURCES` names an unknown step, [`Error::Format`] if the lock file is invalid.
pub fn candidates(
    root: &Root,
    env: &Env,
    target: &Target,
    arguments: &[PathBuf],
) -> Result<Sources, Error> {
    let mut found = Sources::default();
    variables::propose(root, env, arguments, &mut found);
    stored::propose_locked(root, env, target, &mut found)?;
    python::propose_active(root, env, &mut found);
    environments::propose(root, env, &mut found);
    hpc_sdk::propose_active(root, env, &mut found);
    stored::propose(root, env, target, &mut found);
    variables::propose_on_path(root, env, &mut found);
    system::propose(root, &mut found);
    hpc_sdk::propose_default(root, target, &mut found);
    python::propose_on_path(root, env, &mut found);
    retain_listed_steps(env, &mut found)?;
    drop_duplicates(root, &mut found.candidates);
    Ok(found)
}

/// Drops a candidate if an earlier step proposed the same place, such as an active environment whose nvcc is on `PATH`.
/// A candidate of an explicit step is always kept.
fn drop_duplicates(root: &Root, candidates: &mut Vec<Candidate>) {
    let mut kept: Vec<(OsString, Vec<PathBuf>, [bool; 2])> = Vec::new();
    candidates.retain(|candidate| {
        // Candidates of different kinds are no duplicates. For example, only products are taken from the place that a
        // product's variable names, but another step may propose this place for its toolkit.
        let kind = [
            candidate.layout == Layout::SitePackages,
            candidate.step == SearchStep::Product,
        ];
        let place = root.place(&candidate.path);
        let place = (place, candidate.more_roots().to_vec(), kind);
        let is_known = kept.contains(&place) && !candidate.step.is_explicit();
        kept.push(place);
        !is_known
    });
}

/// Keeps the steps that `CUDA_BUILD_SOURCES` lists. Arguments, `CUDA_BUILD_ROOTS` and the variables of products are
/// always kept.
fn retain_listed_steps(env: &Env, found: &mut Sources) -> Result<(), Error> {
    let Some(text) = env.text("CUDA_BUILD_SOURCES") else {
        return Ok(());
    };
    let mut wanted = vec![SearchStep::Argument, SearchStep::Roots, SearchStep::Product];
    for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
        let step = SearchStep::ALL.iter().find(|(_, id)| *id == name);
        let (step, _) = step.ok_or_else(|| {
            let known = SearchStep::ALL.map(|(_, id)| id).join(", ");
            let reason = format!("`{name}` is not a step of the search; known: {known}");
            Error::variable("CUDA_BUILD_SOURCES", reason)
        })?;
        wanted.push(*step);
    }
    if !wanted.contains(&SearchStep::Variable) {
        found.disagreements.clear();
    }
    if !wanted.contains(&SearchStep::Locked) {
        found.locked.clear();
    }
    found
        .candidates
        .retain(|candidate| wanted.contains(&candidate.step));
    Ok(())
}

/// The candidates for directories that the user named: roots, virtual environments, site-packages, directories of
/// archives. All roots of a list are one candidate, because nixpkgs lists each output of each component as a root.
fn named(root: &Root, step: SearchStep, label: &Label, paths: &[PathBuf]) -> Vec<Candidate> {
    let mut proposed = Vec::new();
    let mut roots = Vec::new();
    for path in paths {
        // A path that does not exist or is relative cannot be used. It becomes a candidate of its own, so that it is
        // reported.
        if !root.is_dir(path) || (path.is_relative() && step != SearchStep::Argument) {
            proposed.push(Candidate::root(step, label.clone(), path));
            continue;
        }
        let mut packages = python::site_packages_of(root, path);
        packages.insert(0, path.clone());
        packages.retain(|path| python::has_cuda(root, path));
        let names = root.names(path).into_iter().map(|name| path.join(name));
        let archives = names.filter(|path| is_archive(path) && root.is_dir(path));
        let archives: Vec<PathBuf> = archives.collect();
        if looks_like_root(root, path) || (packages.is_empty() && archives.is_empty()) {
            roots.push(path.clone());
        }
        roots.extend(archives);
        for path in packages {
            proposed.push(Candidate::site_packages(step, label.clone(), path));
        }
    }
    // Roots come first, then the site-packages with further components.
    let scattered = Candidate::scattered(root, step, label.clone(), roots);
    scattered.into_iter().chain(proposed).collect()
}

/// Whether a directory is a toolkit's root, even if it also has site-packages or archives below it. A conda prefix and
/// `/usr` may be both.
fn looks_like_root(root: &Root, path: &Path) -> bool {
    let mut files = ["bin/nvcc", "include/cuda.h"].iter();
    files.any(|file| root.is_file(&path.join(file))) || root.is_dir(&path.join("targets"))
}

/// Directories outside a root that contain parts of the same toolkit: `math_libs` of the HPC SDK for its CUDA root, or
/// `/usr` for Debian's `/usr/lib/cuda`.
pub(crate) fn associated_roots(root: &Root, path: &Path) -> Vec<PathBuf> {
    let mut belonging = companions(root, path);
    belonging.extend(system::usr_of_debian_root(root, path));
    belonging
}

/// Whether this is the root of a single NVIDIA package: a Nix output or an archive. Some of these packages contain no
/// component, which is no error.
pub(crate) fn is_package(path: &Path) -> bool {
    // The hook of a Nix shell lists all NVIDIA packages of the shell, with or without a component.
    let is_store_path = path
        .parent()
        .is_some_and(|parent| parent.ends_with("nix/store"));
    is_store_path || is_archive(path)
}

/// Whether this is the directory of an unpacked redistributable archive. NVIDIA publishes one archive for each
/// component, such as `cuda_cudart-linux-x86_64-13.0.96-archive`.
fn is_archive(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.ends_with("-archive"))
}

/// The first file on `PATH` that has one of these names. In one directory, earlier names are preferred.
fn on_path(root: &Root, env: &Env, names: &[&Path]) -> Option<PathBuf> {
    for directory in env.search_path() {
        let mut paths = names.iter().map(|name| directory.join(name));
        if let Some(path) = paths.find(|path| root.is_file(path)) {
            return Some(path);
        }
    }
    None
}

/// Splits a list of paths at `;` (CMake) and `:` (nixpkgs).
fn split_list(value: &OsStr) -> Vec<PathBuf> {
    let text = value.to_string_lossy();
    let parts = text.split([';', ':']).filter(|part| !part.is_empty());
    parts.map(PathBuf::from).collect()
}
