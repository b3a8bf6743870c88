//! A place that a source proposes, and the step of the search that proposed it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::places::associated_roots;
use crate::root::Root;

/// One step of the search. The variants are in the order of the search, except that the default location of the HPC
/// SDK comes after [`SearchStep::System`].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum SearchStep {
    /// Given by the caller of this library or on a command line.
    Argument,
    /// Listed in `CUDA_BUILD_ROOTS`.
    Roots,
    /// Named by a common variable such as `CUDA_HOME`.
    Variable,
    /// Named by the variable of one product, such as `CUDNN_PATH`. Only products are taken from there.
    Product,
    /// The toolkit that the workspace's lock file names.
    Locked,
    /// The active virtual environment.
    Environment,
    /// The active conda environment.
    Conda,
    /// A Nix development shell.
    Nix,
    /// An active Spack environment, or packages that `spack load` loaded.
    Spack,
    /// NVIDIA's HPC SDK: the one whose environment module is loaded, or the one in the default location.
    HpcSdk,
    /// Fetched by `cargo cuda toolkit add`.
    Stored,
    /// nvcc on `PATH`.
    SearchPath,
    /// `/usr/local/cuda`, which is the administrator's choice.
    DefaultPlace,
    /// `/usr/local/cuda-<version>`.
    VersionedPlace,
    /// A distribution's own packages: `/opt/cuda`, `/usr`.
    System,
    /// The Python on `PATH`.
    Python,
}

impl SearchStep {
    /// Every step with the name that `CUDA_BUILD_SOURCES` uses.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::Argument, "argument"),
        (Self::Roots, "roots"),
        (Self::Variable, "variable"),
        (Self::Product, "product"),
        (Self::Locked, "lock"),
        (Self::Environment, "environment"),
        (Self::Conda, "conda"),
        (Self::Nix, "nix"),
        (Self::Spack, "spack"),
        (Self::HpcSdk, "hpc-sdk"),
        (Self::Stored, "stored"),
        (Self::SearchPath, "path"),
        (Self::DefaultPlace, "default"),
        (Self::VersionedPlace, "versioned"),
        (Self::System, "system"),
        (Self::Python, "python"),
    ];

    /// Whether the user named the place. If the user named any, only products are taken from other places.
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::Argument | Self::Roots | Self::Variable)
    }
}

/// What messages call a place that an environment variable names.
pub fn variable_label(name: &str) -> String {
    format!("environment variable `{name}`")
}

/// What is expected at the path of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CandidateKind {
    /// A root with `bin`, `include` and `lib`.
    Root,
    /// A directory of shared libraries, and nothing else.
    Libraries,
    /// `/usr` without a toolkit. Only products are taken from it.
    SystemProducts,
    /// A Python site-packages directory.
    SitePackages,
    /// A file with the result of an earlier search.
    ToolkitFile,
}

/// A place that may have CUDA components. It has not been read yet.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The step of the search that proposed the place.
    pub step: SearchStep,
    /// What messages call the place, as a phrase that fits into a sentence.
    pub label: String,
    /// The directory or file.
    pub path: PathBuf,
    /// What is expected at `path`.
    pub kind: CandidateKind,
    /// Further roots of the same candidate: redist archives side by side, the outputs of a Nix shell, or the other
    /// directories of a list.
    pub more_roots: Vec<PathBuf>,
    /// The nvcc from which the root was derived, if it may differ from `bin/nvcc` of the root.
    pub nvcc: Option<PathBuf>,
}

impl Candidate {
    /// A place.
    pub fn new(
        step: SearchStep,
        label: impl Into<String>,
        path: impl Into<PathBuf>,
        kind: CandidateKind,
    ) -> Self {
        Self {
            step,
            label: label.into(),
            path: path.into(),
            kind,
            more_roots: Vec::new(),
            nvcc: None,
        }
    }

    /// A single root.
    pub fn root(step: SearchStep, label: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::new(step, label, path, CandidateKind::Root)
    }

    /// One candidate for several roots. Each root is followed by its [`associated_roots`]. `None` if `roots` is empty.
    pub fn scattered(
        root: &Root,
        step: SearchStep,
        label: impl Into<String>,
        roots: Vec<PathBuf>,
    ) -> Option<Self> {
        let mut all: Vec<PathBuf> = Vec::new();
        for path in roots {
            let associated = associated_roots(root, &path);
            for path in [path].into_iter().chain(associated) {
                if !all.contains(&path) {
                    all.push(path);
                }
            }
        }
        let mut all = all.into_iter();
        let first = Self::root(step, label, all.next()?);
        Some(Self {
            more_roots: all.collect(),
            ..first
        })
    }

    /// Every root: `path`, then `more_roots`.
    pub fn roots(&self) -> impl Iterator<Item = &PathBuf> + Clone {
        [&self.path].into_iter().chain(&self.more_roots)
    }

    /// The nvcc that the user named.
    pub fn named_nvcc(&self) -> Option<&Path> {
        self.nvcc.as_deref().filter(|_| self.step.is_explicit())
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.label, self.path.display())?;
        match self.more_roots.as_slice() {
            [] => {}
            [one] => write!(f, " and {}", one.display())?,
            more => write!(f, " and {} more", more.len())?,
        }
        f.write_str(")")
    }
}
