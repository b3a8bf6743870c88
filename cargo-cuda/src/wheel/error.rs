//! What can go wrong with a wheel, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use cuda_build::Component;
use cuda_build::release::{NEWEST_MAJOR, OLDEST_MAJOR};

/// Everything that can go wrong between a builder's wheel and a wheel of one CUDA major.
///
/// `Debug` prints the text of `Display` with the hints appended.
#[non_exhaustive]
pub enum WheelError {
    /// The disk said no.
    Io {
        /// What was being done: `read`, `write` …
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is not a wheel, or not one that can be rewritten.
    InvalidWheel {
        /// The wheel, or the file inside it.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A native module is no readable ELF file.
    InvalidElf {
        /// What is wrong with it.
        reason: String,
    },
    /// A wheel carries NVIDIA's libraries in itself.
    Grafted {
        /// Which files.
        files: Vec<String>,
    },
    /// A native module needs a library that belongs to another CUDA major.
    OtherMajor {
        /// Its SONAME.
        soname: String,
        /// The CUDA majors that it belongs to.
        belongs_to: Vec<u32>,
        /// The major that the wheel is made for.
        major: u32,
    },
    /// A native module needs a library that looks like NVIDIA's, and no component has it.
    UnknownLibrary {
        /// Its SONAME.
        soname: String,
    },
    /// No Python package is known that delivers a component for this major.
    NoPackage {
        /// Which one.
        component: Component,
        /// For which CUDA major.
        major: u32,
    },
    /// The version of a component is needed for a lower bound and was not given.
    NoVersion {
        /// Which one.
        component: Component,
    },
    /// Nothing is known about this CUDA major.
    UnknownMajor {
        /// Which one.
        major: u32,
    },
    /// A library does not look for CUDA where the wheel's dependencies put it.
    RunpathMismatch {
        /// The native module, as a path inside the wheel.
        module: String,
        /// The kind that is wanted: `DT_RUNPATH` or `DT_RPATH`.
        kind: &'static str,
        /// The entries that it should have.
        expected: Vec<String>,
        /// The entries that it has in `DT_RUNPATH`.
        runpath: Vec<String>,
        /// The entries that it has in `DT_RPATH`.
        rpath: Vec<String>,
    },
    /// A needed library's directory is not among those that the plan covers.
    NotCovered {
        /// The native module, as a path inside the wheel.
        module: String,
        /// What it needs.
        soname: String,
        /// The component that has it.
        component: Component,
    },
    /// The project asks for a package of another CUDA major.
    ForeignRequirement {
        /// The `Requires-Dist` line.
        requirement: String,
        /// The major that the wheel is made for.
        major: u32,
    },
    /// Python sources name their own package absolutely, which a renamed package breaks.
    AbsoluteSelfImport {
        /// The import package.
        package: String,
        /// `file:line: text`, each.
        places: Vec<String>,
    },
    /// `SOURCE_DATE_EPOCH` is no date that a wheel can hold.
    InvalidDate {
        /// Its value.
        value: String,
    },
    /// maturin could not be found.
    NoMaturin {
        /// What was tried, in order.
        tried: Vec<String>,
    },
    /// maturin is too old to be used here.
    OldMaturin {
        /// What it said of itself.
        found: String,
        /// The oldest version that can be used.
        minimum: &'static str,
    },
}

impl WheelError {
    /// What to do next, most likely first; empty where the message says it all.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let hint = |text: &str| vec![text.to_owned()];
        match self {
            Self::Grafted { .. } => hint(
                "build with `maturin build --auditwheel warn` (or `auditwheel repair --exclude`): \
                 the libraries come from NVIDIA's own packages, and the driver's from the driver",
            ),
            Self::OtherMajor { major, .. } => vec![format!(
                "build with a toolkit of CUDA {major}; a build script that caches its answer needs \
                 a target directory for each major"
            )],
            Self::UnknownLibrary { .. } => hint(
                "if it belongs to a CUDA component that is not known here, please report its name",
            ),
            Self::RunpathMismatch { .. } => hint(
                "a build script or `.cargo/config.toml` may add search paths (`-rpath`); remove them, \
                 `cargo cuda wheel` gives the linker the right ones",
            ),
            Self::NotCovered { component, .. } => {
                vec![format!(
                    "add \"{component}\" to `components` in `[package.metadata.cuda]`"
                )]
            }
            Self::ForeignRequirement { .. } => hint(
                "remove it from `[project].dependencies`: each wheel gets those of its own major",
            ),
            Self::AbsoluteSelfImport { .. } => {
                hint("use relative imports (`from . import x`), which work under any package name")
            }
            Self::InvalidDate { .. } => hint(
                "give seconds since 1970-01-01 (as `git log -1 --format=%ct` prints), or unset it",
            ),
            Self::NoMaturin { .. } => hint(
                "install it with `uv tool install maturin` or `python3 -m pip install maturin`",
            ),
            Self::OldMaturin { minimum, .. } => {
                vec![format!(
                    "upgrade it with `python3 -m pip install --upgrade 'maturin>={minimum}'`"
                )]
            }
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for WheelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io {
                action,
                path,
                source,
            } => write!(f, "could not {action} {}: {source}", path.display()),
            Self::InvalidWheel { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::InvalidElf { reason } => write!(f, "not a readable ELF library: {reason}"),
            Self::Grafted { files } => {
                f.write_str("the wheel carries copies of NVIDIA's libraries:")?;
                files.iter().try_for_each(|file| write!(f, "\n  {file}"))
            }
            Self::OtherMajor {
                soname,
                belongs_to,
                major,
            } => {
                write!(f, "the native module needs `{soname}`")?;
                for (index, other) in belongs_to.iter().enumerate() {
                    write!(
                        f,
                        "{}CUDA {other}",
                        if index == 0 { " of " } else { " or " }
                    )?;
                }
                write!(f, ", the wheel is for CUDA {major}")
            }
            Self::UnknownLibrary { soname } => {
                write!(
                    f,
                    "the native module needs `{soname}`, which no known CUDA component has"
                )
            }
            Self::NoPackage { component, major } => {
                write!(
                    f,
                    "no Python package is known that delivers `{component}` for CUDA {major}"
                )
            }
            Self::NoVersion { component } => {
                write!(
                    f,
                    "the version of `{component}` is not known, so its lower bound can't be written"
                )
            }
            Self::UnknownMajor { major } => {
                write!(
                    f,
                    "CUDA {major} is not known here: wheels are made for {OLDEST_MAJOR} to {NEWEST_MAJOR}"
                )
            }
            Self::RunpathMismatch {
                module,
                kind,
                expected,
                runpath,
                rpath,
            } => {
                write!(
                    f,
                    "{module} does not look for CUDA where its dependencies put it"
                )?;
                write!(f, "\n  wanted {kind}: {}", shown(expected))?;
                write!(f, "\n  has DT_RUNPATH: {}", shown(runpath))?;
                write!(f, "\n  has DT_RPATH: {}", shown(rpath))
            }
            Self::NotCovered {
                module,
                soname,
                component,
            } => {
                write!(
                    f,
                    "{module} needs `{soname}` of `{component}`, which the planned search path does not cover"
                )
            }
            Self::ForeignRequirement { requirement, major } => {
                write!(
                    f,
                    "the project requires `{requirement}`, the wheel is for CUDA {major}"
                )
            }
            Self::AbsoluteSelfImport { package, places } => {
                write!(
                    f,
                    "Python sources import their own package as `{package}`, which is renamed per CUDA major:"
                )?;
                places.iter().try_for_each(|place| write!(f, "\n  {place}"))
            }
            Self::InvalidDate { value } => {
                write!(
                    f,
                    "environment variable `SOURCE_DATE_EPOCH` (`{value}`) is no date between 1980 and 2107"
                )
            }
            Self::NoMaturin { tried } => {
                f.write_str("maturin not found (needed to build the wheel)")?;
                tried
                    .iter()
                    .try_for_each(|line| write!(f, "\n  tried {line}"))
            }
            Self::OldMaturin { found, minimum } => {
                write!(
                    f,
                    "{found} is too old: {minimum} is the first with `--auditwheel warn`"
                )
            }
        }
    }
}

fn shown(entries: &[String]) -> String {
    if entries.is_empty() {
        "nothing".to_owned()
    } else {
        entries.join(":")
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

impl std::error::Error for WheelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
