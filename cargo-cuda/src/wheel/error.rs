//! Errors about wheels, and what to do about them.

use std::fmt;
use std::io;
use std::path::PathBuf;

use cuda_build::Component;
use cuda_build::internal::release::{NEWEST_MAJOR, OLDEST_MAJOR};
use thiserror::Error;

/// Everything that can go wrong between a builder's wheel and a wheel of one CUDA major.
///
/// `Debug` prints the text of `Display` and the hints.
#[derive(Error)]
#[non_exhaustive]
pub enum WheelError {
    /// I/O error.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was being done: `read`, `write` …
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not a wheel, or not one that can be rewritten.
    #[error("{}: {reason}", path.display())]
    InvalidWheel {
        /// The wheel, or the file inside it.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A distribution must not have this name.
    #[error("{origin}: {name:?} is not a name for a Python distribution")]
    InvalidName {
        /// The name.
        name: String,
        /// Where it is written.
        origin: &'static str,
    },
    /// A native module cannot be read.
    #[error("not a readable ELF library: {reason}")]
    InvalidElf {
        /// What is wrong with it.
        reason: String,
    },
    /// The wheel contains NVIDIA's libraries.
    #[error("the wheel carries copies of NVIDIA's libraries:{}", lines("", files))]
    Grafted {
        /// Their paths in the wheel.
        files: Vec<String>,
    },
    /// A native module needs a library that belongs to another CUDA major.
    #[error(
        "the native module needs `{soname}` of {}, the wheel is for CUDA {major}",
        majors(belongs_to)
    )]
    OtherMajor {
        /// The library's SONAME.
        soname: String,
        /// The CUDA majors that it belongs to.
        belongs_to: Vec<u32>,
        /// The wheel's major.
        major: u32,
    },
    /// A native module needs a library that looks like NVIDIA's and belongs to no component.
    #[error("the native module needs `{soname}`, which no known CUDA component has")]
    UnknownLibrary {
        /// The library's SONAME.
        soname: String,
    },
    /// No Python package delivers the component for this major.
    #[error("no Python package is known that delivers `{component}` for CUDA {major}")]
    NoPackage {
        /// The component.
        component: Component,
        /// The wheel's major.
        major: u32,
    },
    /// A lower bound needs the version of a component, which is not known.
    #[error("the version of `{component}` is not known, so its lower bound can't be written")]
    NoVersion {
        /// The component.
        component: Component,
    },
    /// The packages of this CUDA major are not known.
    #[error("CUDA {major} is not known here: wheels are made for {OLDEST_MAJOR} to {NEWEST_MAJOR}")]
    UnknownMajor {
        /// The major.
        major: u32,
    },
    /// A native module does not search the directories of the wheel's dependencies.
    #[error(
        "{module} does not look for CUDA where its dependencies put it\n  wanted {kind}: {}\n  has DT_RUNPATH: {}\n  has DT_RPATH: {}",
        search_path(expected),
        search_path(runpath),
        search_path(rpath)
    )]
    RunpathMismatch {
        /// The native module's path in the wheel.
        module: String,
        /// `DT_RUNPATH` or `DT_RPATH`.
        kind: &'static str,
        /// The planned entries.
        expected: Vec<String>,
        /// The entries in `DT_RUNPATH`.
        runpath: Vec<String>,
        /// The entries in `DT_RPATH`.
        rpath: Vec<String>,
    },
    /// The planned search path lacks the directory of a library.
    #[error(
        "{module} needs `{soname}` of `{component}`, which the planned search path does not cover"
    )]
    NotCovered {
        /// The native module's path in the wheel.
        module: String,
        /// The library's SONAME.
        soname: String,
        /// The library's component.
        component: Component,
    },
    /// The project requires a package of another CUDA major.
    #[error("the project requires `{requirement}`, the wheel is for CUDA {major}")]
    ForeignRequirement {
        /// The `Requires-Dist` line.
        requirement: String,
        /// The wheel's major.
        major: u32,
    },
    /// Python sources import their own package by its absolute name, and the package is renamed.
    #[error(
        "Python sources import their own package as `{package}`, which is renamed per CUDA major:{}",
        lines("", places)
    )]
    AbsoluteSelfImport {
        /// The import package.
        package: String,
        /// Each as `file:line: text`.
        places: Vec<String>,
    },
    /// maturin was not found.
    #[error(
        "maturin not found (needed to build the wheel){}",
        lines("tried ", tried)
    )]
    NoMaturin {
        /// The attempts, in order.
        tried: Vec<String>,
    },
    /// maturin is too old.
    #[error("{found} is too old: {minimum} is the first with `--auditwheel warn`")]
    OldMaturin {
        /// What `maturin --version` printed.
        found: String,
        /// The oldest supported version.
        minimum: &'static str,
    },
}

fn lines(prefix: &str, lines: &[String]) -> String {
    let line = |text: &String| format!("\n  {prefix}{text}");
    lines.iter().map(line).collect()
}

fn majors(majors: &[u32]) -> String {
    let names: Vec<String> = majors.iter().map(|major| format!("CUDA {major}")).collect();
    names.join(" or ")
}

fn search_path(entries: &[String]) -> String {
    if entries.is_empty() {
        "nothing".to_owned()
    } else {
        entries.join(":")
    }
}

impl WheelError {
    /// What to do next, most likely first.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::InvalidName { .. } => {
                "use ASCII letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"
            }
            Self::Grafted { .. } => {
                "build with `maturin build --auditwheel warn` (or `auditwheel repair --exclude`): \
                 the libraries come from NVIDIA's own packages, and the driver's from the driver"
            }
            Self::OtherMajor { major, .. } => {
                return vec![format!(
                    "build with a toolkit of CUDA {major}; a build script that caches its result \
                     needs a target directory for each major"
                )];
            }
            Self::UnknownLibrary { .. } => {
                "if it belongs to a CUDA component that is not known here, please report its name"
            }
            Self::RunpathMismatch { .. } => {
                "a build script or `.cargo/config.toml` may add search paths (`-rpath`); remove them, \
                 `cargo cuda wheel` gives the linker the right ones"
            }
            Self::NotCovered { component, .. } => {
                return vec![format!(
                    "add \"{component}\" to `components` in `[package.metadata.cuda]`"
                )];
            }
            Self::ForeignRequirement { .. } => {
                "remove it from `[project].dependencies`: each wheel gets those of its own major"
            }
            Self::AbsoluteSelfImport { .. } => {
                "use relative imports (`from . import x`), which work under any package name"
            }
            Self::NoMaturin { .. } => {
                "install it with `uv tool install maturin` or `python3 -m pip install maturin`"
            }
            Self::OldMaturin { minimum, .. } => {
                return vec![format!(
                    "upgrade it with `python3 -m pip install --upgrade 'maturin>={minimum}'`"
                )];
            }
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

impl fmt::Debug for WheelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        self.hints()
            .iter()
            .try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}
