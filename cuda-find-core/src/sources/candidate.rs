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
    /// Every step with the name that `CUDA_BUILD_SOURCES` and reports use, in the order of the variants.
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

    /// The name that `CUDA_BUILD_SOURCES` and reports use.
    pub fn id(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Whether the user named the place. If the user named any, only products are taken from other places.
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::Argument | Self::Roots | Self::Variable)
    }
}

/// The variable that names a place, or a phrase for it, to be printed in messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Label {
    /// An environment variable.
    Variable(&'static str),
    /// Anything else, as a phrase that fits into a sentence.
    Text(String),
}

impl Label {
    /// The variable's name alone, in backticks; otherwise the text.
    pub fn short(&self) -> String {
        match self {
            Self::Variable(name) => format!("`{name}`"),
            Self::Text(text) => text.clone(),
        }
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "environment variable `{name}`"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// How the files of a candidate are laid out.
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    /// A root with `bin`, `include` and `lib`.
    Roots {
        /// Further roots of the same candidate: redist archives side by side, the outputs of a Nix shell, or the other
        /// directories of a list.
        more: Vec<PathBuf>,
        /// The nvcc from which the root was derived, if it may differ from `bin/nvcc` of the root.
        nvcc: Option<PathBuf>,
    },
    /// `/usr` without a toolkit. Only products are taken from it.
    SystemProducts,
    /// A Python site-packages directory.
    SitePackages,
    /// A script in place of a Python interpreter, as pyenv and asdf install it. It is unknown which interpreter the
    /// script starts, so the site-packages are unknown too.
    PythonScript,
    /// A file with the result of an earlier search.
    ToolkitFile,
}

/// A place that may have CUDA components. It has not been read yet.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The step of the search that proposed the place.
    pub step: SearchStep,
    /// What messages call the place.
    pub label: Label,
    /// The directory or file.
    pub path: PathBuf,
    /// What is expected at `path`.
    pub layout: Layout,
}

impl Candidate {
    /// A place.
    pub fn new(
        step: SearchStep,
        label: impl Into<Label>,
        path: impl Into<PathBuf>,
        layout: Layout,
    ) -> Self {
        Self {
            step,
            label: label.into(),
            path: path.into(),
            layout,
        }
    }

    /// A single root.
    pub fn root(step: SearchStep, label: impl Into<Label>, path: impl Into<PathBuf>) -> Self {
        let (more, nvcc) = (Vec::new(), None);
        Self::new(step, label, path, Layout::Roots { more, nvcc })
    }

    /// One candidate for several roots. Each root is followed by its [`associated_roots`]. `None` if `roots` is empty.
    pub fn scattered(
        root: &Root,
        step: SearchStep,
        label: impl Into<Label>,
        roots: Vec<PathBuf>,
    ) -> Option<Self> {
        let mut all: Vec<PathBuf> = Vec::new();
        for path in roots {
            let belonging = associated_roots(root, &path);
            for path in [path].into_iter().chain(belonging) {
                if !all.contains(&path) {
                    all.push(path);
                }
            }
        }
        let mut all = all.into_iter();
        let first = all.next()?;
        let (more, nvcc) = (all.collect(), None);
        Some(Self::new(step, label, first, Layout::Roots { more, nvcc }))
    }

    /// Sets the nvcc from which the root was derived. A candidate that is not a root stays unchanged.
    pub fn with_nvcc(mut self, named: &Path) -> Self {
        if let Layout::Roots { nvcc, .. } = &mut self.layout {
            *nvcc = Some(named.to_owned());
        }
        self
    }

    /// The roots after the first.
    pub fn more_roots(&self) -> &[PathBuf] {
        match &self.layout {
            Layout::Roots { more, .. } => more,
            _ => &[],
        }
    }

    /// Every root: `path`, then [`Candidate::more_roots`].
    pub fn roots(&self) -> impl Iterator<Item = &PathBuf> + Clone {
        [&self.path].into_iter().chain(self.more_roots())
    }

    /// The nvcc from which the root was derived, if any.
    pub fn nvcc(&self) -> Option<&Path> {
        match &self.layout {
            Layout::Roots { nvcc, .. } => nvcc.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.label, self.path.display())?;
        match self.more_roots() {
            [] => {}
            [one] => write!(f, " and {}", one.display())?,
            more => write!(f, " and {} more", more.len())?,
        }
        f.write_str(")")
    }
}
