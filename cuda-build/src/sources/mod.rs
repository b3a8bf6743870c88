//! Where CUDA may be: a list of places in the order of the search, nothing looked into yet.
//!
//! 1. explicit: the API, `CUDA_BUILD_TOOLKIT`, `CUDA_BUILD_ROOTS`
//! 2. variables: `NVCC`, `CUDACXX`, `CUDA_HOME`, `CUDA_PATH` … and products' own
//! 3. the active environment: `VIRTUAL_ENV`
//! 4. toolkits that `cargo cuda toolkit add` fetched
//! 5. nvcc on `PATH`
//! 6. default places: `/usr/local/cuda`, then versioned ones, newest first
//! 7. site-packages of the Python on `PATH`

mod default_places;
mod explicit;
mod python;
mod search_path;
mod stored;
mod variables;

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
    /// The active virtual environment.
    Environment,
    /// Fetched by `cargo cuda toolkit add`.
    Stored,
    /// nvcc on `PATH`.
    SearchPath,
    /// The administrator's `/usr/local/cuda`.
    DefaultPlace,
    /// `/usr/local/cuda-<version>`.
    VersionedPlace,
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
            Self::Environment => "environment",
            Self::Stored => "stored",
            Self::SearchPath => "path",
            Self::DefaultPlace => "default",
            Self::VersionedPlace => "versioned",
            Self::Python => "python",
        }
    }

    /// Whether someone named this place: then only named ones count.
    #[must_use]
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::Argument | Self::Roots | Self::Variable)
    }

    const ALL: [Self; 9] = [
        Self::Argument,
        Self::Roots,
        Self::Variable,
        Self::Environment,
        Self::Stored,
        Self::SearchPath,
        Self::DefaultPlace,
        Self::VersionedPlace,
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
    /// Whether `path` is a Python site-packages directory.
    pub site_packages: bool,
}

impl Candidate {
    fn root(step: Step, label: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { step, label: label.into(), path: path.into(), site_packages: false }
    }

    fn packages(step: Step, label: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { step, label: label.into(), path: path.into(), site_packages: true }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.label, self.path.display())
    }
}

/// All candidates in the order of the search, and remarks about the variables read on the way.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// In the order of the search.
    pub candidates: Vec<Candidate>,
    /// Warnings, such as variables that disagree.
    pub remarks: Vec<String>,
}

/// Proposes every place, those given as `arguments` first.
///
/// # Errors
/// [`Error::Manifest`] where `CUDA_BUILD_SOURCES` names no step.
pub fn candidates(root: &Root, env: &Env, target: &Target, arguments: &[PathBuf]) -> Result<Sources, Error> {
    let mut found = Sources::default();
    explicit::propose(root, env, arguments, &mut found);
    variables::propose(root, env, &mut found);
    python::propose_active(root, env, &mut found);
    stored::propose(root, env, target, &mut found);
    search_path::propose(root, env, &mut found);
    default_places::propose(root, &mut found);
    python::propose_on_path(root, env, &mut found);
    limit(env, &mut found)?;
    Ok(found)
}

/// Leaves the steps that `CUDA_BUILD_SOURCES` lists; what was named explicitly always stays.
fn limit(env: &Env, found: &mut Sources) -> Result<(), Error> {
    let Some(text) = env.text("CUDA_BUILD_SOURCES") else { return Ok(()) };
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
    found.candidates.retain(|c| matches!(c.step, Step::Argument | Step::Roots) || wanted.contains(&c.step));
    Ok(())
}

/// What a directory that somebody named is: a root, a virtual environment, or site-packages.
fn named(root: &Root, step: Step, label: &str, path: &Path) -> Vec<Candidate> {
    let mut proposed = Vec::new();
    if root.is_dir(&path.join("nvidia")) {
        proposed.push(Candidate::packages(step, label, path));
    }
    proposed.extend(
        python::site_packages_of(root, path).into_iter().map(|p| Candidate::packages(step, label, p)),
    );
    if proposed.is_empty() {
        proposed.push(Candidate::root(step, label, path));
    }
    proposed
}

/// Splits a list of paths at `;`, and at the platform's separator, as nixpkgs and CMake write them.
fn split_list(value: &std::ffi::OsStr) -> Vec<PathBuf> {
    let text = value.to_string_lossy();
    text.split([';', ':']).filter(|part| !part.is_empty()).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests;
