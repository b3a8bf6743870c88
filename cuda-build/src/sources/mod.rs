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
mod conda;
mod default_places;
mod distribution;
mod explicit;
mod hpc_sdk;
mod locked;
mod nix;
mod python;
mod redist;
mod search_path;
mod spack;
mod stored;
mod variables;

pub use candidate::{Candidate, Label, Layout, Step};
pub(crate) use distribution::holds_product;
pub(crate) use hpc_sdk::companions;
pub use locked::{LOCK_FILE, Locked, lock_file};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::error::Error;
use crate::root::Root;
use crate::target::Target;

/// What belongs to a root by its packager's convention: the HPC SDK's `math_libs`, the `/usr` that Debian's root
/// stands for.
pub(crate) fn belonging(root: &Root, path: &Path) -> Vec<PathBuf> {
    companions(root, path)
        .into_iter()
        .chain(distribution::behind_facade(root, path))
        .collect()
}

/// Whether the name of a root is that of one of NVIDIA's packages, such as one output or archive of many. Some of
/// those hold no component.
pub(crate) fn is_package(path: &Path) -> bool {
    // Store paths are listed by a shell's hook, which lists everything that NVIDIA made.
    path.parent()
        .is_some_and(|parent| parent.ends_with("nix/store"))
        || redist::is_archive(path)
}

/// All candidates in the order of the search, and remarks about the variables.
#[derive(Clone, Debug, Default)]
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
    explicit::propose(root, env, arguments, &mut found);
    variables::propose(root, env, &mut found);
    locked::propose(root, env, target, &mut found)?;
    python::propose_active(root, env, &mut found);
    conda::propose(root, env, &mut found);
    nix::propose(root, env, &mut found);
    spack::propose(root, env, &mut found);
    hpc_sdk::propose_active(root, env, &mut found);
    stored::propose(root, env, target, &mut found);
    search_path::propose(root, env, &mut found);
    default_places::propose(root, &mut found);
    distribution::propose(root, &mut found);
    hpc_sdk::propose_default(root, target, &mut found);
    python::propose_on_path(root, env, &mut found);
    limit(env, &mut found)?;
    drop_repeated(root, &mut found.candidates);
    Ok(found)
}

/// Drops a place that an earlier step proposed too: the nvcc on `PATH` of an active environment.
fn drop_repeated(root: &Root, candidates: &mut Vec<Candidate>) {
    let mut kept: Vec<(OsString, Vec<PathBuf>, [bool; 2])> = Vec::new();
    candidates.retain(|candidate| {
        // A product's variable names a place for that product alone, even if it is the toolkit's too.
        let kind = [
            candidate.layout == Layout::SitePackages,
            candidate.step == Step::Product,
        ];
        let place = (
            root.place(&candidate.path),
            candidate.more_roots().to_vec(),
            kind,
        );
        let known = kept.contains(&place) && !candidate.step.is_explicit();
        kept.push(place);
        !known
    });
}

/// Keeps the steps that `CUDA_BUILD_SOURCES` lists. Arguments, `CUDA_BUILD_ROOTS` and the variables of products are
/// always kept.
fn limit(env: &Env, found: &mut Sources) -> Result<(), Error> {
    let Some(text) = env.text("CUDA_BUILD_SOURCES") else {
        return Ok(());
    };
    let mut wanted = Vec::new();
    for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
        let step = Step::ALL.into_iter().find(|step| step.id() == name);
        wanted.push(step.ok_or_else(|| Error::Manifest {
            path: PathBuf::from("environment"),
            key: "CUDA_BUILD_SOURCES".to_owned(),
            reason: format!(
                "`{name}` is no step of the search; known: {}",
                Step::ALL.map(Step::id).join(", ")
            ),
        })?);
    }
    if !wanted.contains(&Step::Variable) {
        found.disagreements.clear();
    }
    if !wanted.contains(&Step::Locked) {
        found.locked.clear();
    }
    found.candidates.retain(|c| {
        matches!(c.step, Step::Argument | Step::Roots | Step::Product) || wanted.contains(&c.step)
    });
    Ok(())
}

/// The candidates of directories that the user named: roots, virtual environments, site-packages. All plain roots of
/// one list are one candidate: nixpkgs lists every output of every component.
fn named(root: &Root, step: Step, label: &Label, paths: &[PathBuf]) -> Vec<Candidate> {
    let mut proposed = Vec::new();
    let mut roots = Vec::new();
    for path in paths {
        // A candidate of its own, so that it is reported.
        if !root.is_dir(path) || (path.is_relative() && step != Step::Argument) {
            proposed.push(Candidate::root(step, label.clone(), path));
            continue;
        }
        let packages: Vec<PathBuf> = [path.clone()]
            .into_iter()
            .chain(python::site_packages_of(root, path))
            .filter(|path| python::holds_cuda(root, path))
            .collect();
        let archives = redist::archives(root, path);
        let is_root = looks_like_root(root, path);
        if is_root || (packages.is_empty() && archives.is_empty()) {
            roots.push(path.clone());
        }
        roots.extend(archives);
        proposed.extend(
            packages
                .into_iter()
                .map(|path| Candidate::site_packages(step, label.clone(), path)),
        );
    }
    // Roots come first, then the packages that complete them.
    let scattered = Candidate::scattered(root, step, label.clone(), roots);
    scattered.into_iter().chain(proposed).collect()
}

/// Conda prefixes and `/usr` contain a Python, and are roots nevertheless.
fn looks_like_root(root: &Root, path: &Path) -> bool {
    ["bin/nvcc", "include/cuda.h"]
        .iter()
        .any(|file| root.is_file(&path.join(file)))
        || root.is_dir(&path.join("targets"))
}

/// Splits a list of paths at `;`, and at the platform's separator, as nixpkgs and CMake write them.
fn split_list(value: &std::ffi::OsStr) -> Vec<PathBuf> {
    let text = value.to_string_lossy();
    text.split([';', ':'])
        .filter(|part| !part.is_empty())
        .map(PathBuf::from)
        .collect()
}
