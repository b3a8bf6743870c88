//! The sources of the search: each proposes candidates, in the order of the search, without reading them.
//!
//! 1. explicit: the API, `CUDA_BUILD_TOOLKIT`, `CUDA_BUILD_ROOTS`
//! 2. variables: `NVCC`, `CUDACXX`, `CUDA_HOME`, `CUDA_PATH` … and products' own
//! 3. in a workspace with `cuda-toolkits.lock`: the locked toolkit
//! 4. the active environment: `VIRTUAL_ENV`, `CONDA_PREFIX`, a Nix shell, Spack, the HPC SDK's module
//! 5. toolkits that `cargo cuda toolkit add` fetched
//! 6. nvcc on `PATH`
//! 7. default locations: `/usr/local/cuda`, then versioned ones, newest first, then what the distribution installs,
//!    then the HPC SDK
//! 8. site-packages of the Python on `PATH`
//!
//! Several roots are one candidate if they belong together: redist archives side by side, the outputs of a Nix shell,
//! a `;`-list.

mod candidate;
mod environments;
mod hpc_sdk;
mod python;
mod stored;
mod system;
mod variables;

pub use candidate::{Candidate, Label, Layout, Step};
pub(crate) use hpc_sdk::companions;
pub use stored::{LOCK_FILE, Locked, lock_file};
pub(crate) use system::holds_product;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::error::Error;
use crate::root::Root;
use crate::target::Target;

/// All candidates in the order of the search, and remarks about the variables.
#[derive(Default)]
pub struct Sources {
    /// In the order of the search.
    pub candidates: Vec<Candidate>,
    /// Why some places are not among the candidates.
    pub remarks: Vec<String>,
    /// Variables that name different things, in a sentence that names both.
    pub disagreements: Vec<String>,
    /// The toolkits of the lock file, newest first.
    pub locked: Vec<Locked>,
}

/// Proposes every place, those given as `arguments` first.
///
/// # Errors
/// [`Error::Manifest`] if `CUDA_BUILD_SOURCES` names an unknown step, [`Error::Format`] for a broken lock file.
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

/// Drops a place that an earlier step proposed too, such as an active environment whose nvcc is on
/// `PATH`.
fn drop_duplicates(root: &Root, candidates: &mut Vec<Candidate>) {
    let mut kept: Vec<(OsString, Vec<PathBuf>, [bool; 2])> = Vec::new();
    candidates.retain(|candidate| {
        // A product's variable names a place for that product only, so the toolkit may be there
        // too.
        let kind = [
            candidate.layout == Layout::SitePackages,
            candidate.step == Step::Product,
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
    let mut wanted = vec![Step::Argument, Step::Roots, Step::Product];
    for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
        let step = Step::ALL.iter().find(|(_, id)| *id == name);
        let (step, _) = step.ok_or_else(|| {
            let known = Step::ALL.map(|(_, id)| id).join(", ");
            let reason = format!("`{name}` is not a step of the search; known: {known}");
            Error::variable("CUDA_BUILD_SOURCES", reason)
        })?;
        wanted.push(*step);
    }
    if !wanted.contains(&Step::Variable) {
        found.disagreements.clear();
    }
    if !wanted.contains(&Step::Locked) {
        found.locked.clear();
    }
    found
        .candidates
        .retain(|candidate| wanted.contains(&candidate.step));
    Ok(())
}

/// The candidates of directories that the user named: roots, virtual environments, site-packages. All plain roots of
/// one list are one candidate: nixpkgs lists every output of every component.
fn named(root: &Root, step: Step, label: &Label, paths: &[PathBuf]) -> Vec<Candidate> {
    let mut proposed = Vec::new();
    let mut roots = Vec::new();
    for path in paths {
        // It cannot be used. As a candidate of its own, it is reported.
        if !root.is_dir(path) || (path.is_relative() && step != Step::Argument) {
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
    // Roots come first, then the packages that complete them.
    let scattered = Candidate::scattered(root, step, label.clone(), roots);
    scattered.into_iter().chain(proposed).collect()
}

/// Whether a directory with site-packages is a toolkit's root too, as conda prefixes and `/usr`
/// are.
fn looks_like_root(root: &Root, path: &Path) -> bool {
    let mut files = ["bin/nvcc", "include/cuda.h"].iter();
    files.any(|file| root.is_file(&path.join(file))) || root.is_dir(&path.join("targets"))
}

/// Directories outside a root that hold parts of its toolkit: the HPC SDK's `math_libs`, or `/usr`
/// for Debian's `/usr/lib/cuda`.
pub(crate) fn associated_roots(root: &Root, path: &Path) -> Vec<PathBuf> {
    let mut belonging = companions(root, path);
    belonging.extend(system::usr_of_debian_root(root, path));
    belonging
}

/// Whether this is the root of a single package of NVIDIA's: a Nix output or an archive. Some of
/// these packages contain no component.
pub(crate) fn is_package(path: &Path) -> bool {
    // The hook of a Nix shell lists every package of NVIDIA's.
    let is_store_path = path
        .parent()
        .is_some_and(|parent| parent.ends_with("nix/store"));
    is_store_path || is_archive(path)
}

/// Whether this is one of NVIDIA's redistributable archives, unpacked: one directory for each component, named
/// `cuda_cudart-linux-x86_64-13.0.96-archive`.
fn is_archive(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.ends_with("-archive"))
}

/// The first of these programs on `PATH`.
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
