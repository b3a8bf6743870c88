//! Where CUDA may be: a list of places in the order of the search, nothing looked into yet.
//!
//! 1. explicit: the API, `CUDA_BUILD_TOOLKIT`, `CUDA_BUILD_ROOTS`
//! 2. variables: `NVCC`, `CUDACXX`, `CUDA_HOME`, `CUDA_PATH` … and products' own
//! 3. the active environment: `VIRTUAL_ENV`, `CONDA_PREFIX`, a Nix shell, Spack, the HPC SDK's module
//! 4. toolkits that `cargo cuda toolkit add` fetched
//! 5. nvcc on `PATH`
//! 6. default places: `/usr/local/cuda`, then versioned ones, newest first, then what the
//!    distribution installs, then the HPC SDK
//! 7. site-packages of the Python on `PATH`
//!
//! A place is one candidate even where it has several roots: redist archives side by side, the
//! outputs of a Nix shell, a `;`-list.

mod conda;
mod default_places;
mod distribution;
mod explicit;
mod hpc_sdk;
mod nix;
mod python;
mod redist;
mod search_path;
mod spack;
mod stored;
mod variables;

pub(crate) use distribution::holds_product;
pub(crate) use hpc_sdk::companions;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::error::Error;
use crate::root::Root;
use crate::target::Target;

/// The step of the search that proposed a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Given by the caller of this library or on a command line.
    Argument,
    /// Listed in `CUDA_BUILD_ROOTS`.
    Roots,
    /// Named by one of the variables CUDA's users set.
    Variable,
    /// Named by the variable of one product, such as `CUDNN_PATH`: counts for products alone.
    Product,
    /// The active virtual environment.
    Environment,
    /// The active conda environment.
    Conda,
    /// A Nix development shell.
    Nix,
    /// A loaded Spack environment.
    Spack,
    /// NVIDIA's HPC SDK: its loaded module, or its default place.
    HpcSdk,
    /// Fetched by `cargo cuda toolkit add`.
    Stored,
    /// nvcc on `PATH`.
    SearchPath,
    /// The administrator's `/usr/local/cuda`.
    DefaultPlace,
    /// `/usr/local/cuda-<version>`.
    VersionedPlace,
    /// Where a distribution's own packages are: `/opt/cuda`, `/usr`.
    System,
    /// The Python on `PATH`.
    Python,
}

impl Step {
    /// The name that `CUDA_BUILD_SOURCES` and reports use.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Argument => "argument",
            Self::Roots => "roots",
            Self::Variable => "variable",
            Self::Product => "product",
            Self::Environment => "environment",
            Self::Conda => "conda",
            Self::Nix => "nix",
            Self::Spack => "spack",
            Self::HpcSdk => "hpc-sdk",
            Self::Stored => "stored",
            Self::SearchPath => "path",
            Self::DefaultPlace => "default",
            Self::VersionedPlace => "versioned",
            Self::System => "system",
            Self::Python => "python",
        }
    }

    /// Whether someone named this place: then only named ones count.
    #[must_use]
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::Argument | Self::Roots | Self::Variable)
    }

    const ALL: [Self; 15] = [
        Self::Argument,
        Self::Roots,
        Self::Variable,
        Self::Product,
        Self::Environment,
        Self::Conda,
        Self::Nix,
        Self::Spack,
        Self::HpcSdk,
        Self::Stored,
        Self::SearchPath,
        Self::DefaultPlace,
        Self::VersionedPlace,
        Self::System,
        Self::Python,
    ];
}

/// A place that may hold CUDA components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which step of the search proposed it.
    pub step: Step,
    /// What named it, fit for a sentence: ``environment variable `CUDA_HOME` ``.
    pub label: String,
    /// The directory: a root, a virtual environment, or a site-packages directory.
    pub path: PathBuf,
    /// More roots of the same place, where its components have no common one.
    pub also: Vec<PathBuf>,
    /// The nvcc that proposed it, where it is not `bin/nvcc` of `path`.
    pub nvcc: Option<PathBuf>,
    /// Whether `path` is a Python site-packages directory.
    pub site_packages: bool,
    /// Whether products alone count in it: the system's directories, where whatever else of CUDA is
    /// there belongs to no toolkit.
    pub products_only: bool,
}

impl Candidate {
    /// A single root.
    pub(crate) fn root(step: Step, label: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let (label, path) = (label.into(), path.into());
        Self {
            step,
            label,
            path,
            also: Vec::new(),
            nvcc: None,
            site_packages: false,
            products_only: false,
        }
    }

    fn packages(step: Step, label: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            site_packages: true,
            ..Self::root(step, label, path)
        }
    }

    /// The roots, and what belongs to each by its packager's habit: the HPC SDK's `math_libs`,
    /// the `/usr` behind Debian's facade. `None` for no root.
    fn scattered(root: &Root, step: Step, label: &str, roots: Vec<PathBuf>) -> Option<Self> {
        let mut all: Vec<PathBuf> = Vec::new();
        for path in roots {
            let belonging = belonging(root, &path);
            for path in [path].into_iter().chain(belonging) {
                if !all.contains(&path) {
                    all.push(path);
                }
            }
        }
        let mut all = all.into_iter();
        let first = all.next()?;
        Some(Self {
            also: all.collect(),
            ..Self::root(step, label, first)
        })
    }
}

/// What belongs to a root by its packager's habit.
pub(crate) fn belonging(root: &Root, path: &Path) -> Vec<PathBuf> {
    companions(root, path)
        .into_iter()
        .chain(distribution::behind_facade(root, path))
        .collect()
}

/// Whether its name says that a root is one of NVIDIA's packages, of which some hold no component:
/// one output of many, one archive of many.
pub(crate) fn is_package(path: &Path) -> bool {
    // Nobody writes store paths by hand, and a shell's hook lists whatever NVIDIA made.
    path.parent()
        .is_some_and(|parent| parent.ends_with("nix/store"))
        || redist::is_archive(path)
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.label, self.path.display())?;
        match self.also.as_slice() {
            [] => {}
            [one] => write!(f, " and {}", one.display())?,
            more => write!(f, " and {} more", more.len())?,
        }
        f.write_str(")")
    }
}

/// All candidates in the order of the search, and remarks about the variables read on the way.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// In the order of the search.
    pub candidates: Vec<Candidate>,
    /// What is wrong with places that are therefore not among them.
    pub remarks: Vec<String>,
    /// Variables that name different things, in a sentence that names both.
    pub disagreements: Vec<String>,
}

/// Proposes every place, those given as `arguments` first.
///
/// # Errors
/// [`Error::Manifest`] where `CUDA_BUILD_SOURCES` names no step.
pub fn candidates(
    root: &Root,
    env: &Env,
    target: &Target,
    arguments: &[PathBuf],
) -> Result<Sources, Error> {
    let mut found = Sources::default();
    explicit::propose(root, env, arguments, &mut found);
    variables::propose(root, env, &mut found);
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

/// The same place by a later step says nothing new: nvcc on `PATH` of an active environment.
fn drop_repeated(root: &Root, candidates: &mut Vec<Candidate>) {
    let mut kept: Vec<(OsString, Vec<PathBuf>, [bool; 2])> = Vec::new();
    candidates.retain(|candidate| {
        // A product's variable names a place for that product alone, be it the toolkit's too.
        let kind = [candidate.site_packages, candidate.step == Step::Product];
        let place = (root.place(&candidate.path), candidate.also.clone(), kind);
        let known = kept.contains(&place) && !candidate.step.is_explicit();
        kept.push(place);
        !known
    });
}

/// Leaves the steps that `CUDA_BUILD_SOURCES` lists; arguments, `CUDA_BUILD_ROOTS` and the
/// variables of products always stay.
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
    found.candidates.retain(|c| {
        matches!(c.step, Step::Argument | Step::Roots | Step::Product) || wanted.contains(&c.step)
    });
    Ok(())
}

/// What directories that somebody named are: roots, virtual environments, site-packages. Plain
/// roots of one list are one place: nixpkgs lists every output of every component.
fn named(root: &Root, step: Step, label: &str, paths: &[PathBuf]) -> Vec<Candidate> {
    let mut proposed = Vec::new();
    let mut roots = Vec::new();
    for path in paths {
        // By itself, because among others it would go unnoticed.
        if !root.is_dir(path) || (path.is_relative() && step != Step::Argument) {
            proposed.push(Candidate::root(step, label, path));
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
                .map(|path| Candidate::packages(step, label, path)),
        );
    }
    // In the order of the list as far as one candidate can be: roots before what they lack.
    let scattered = Candidate::scattered(root, step, label, roots);
    scattered.into_iter().chain(proposed).collect()
}

/// A conda prefix and `/usr` hold a Python too, and are roots all the same.
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
