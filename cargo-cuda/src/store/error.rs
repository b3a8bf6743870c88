//! What can go wrong with the store, what to do about it, and the exit code of each.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use cuda_build::Component;

use super::Request;

/// Exit codes of `cargo cuda toolkit`, by what the caller can do about it.
pub mod exit_code {
    /// A version, name or component that can't be read or is not there; as `clap` has it.
    pub const USAGE: u8 = 2;
    /// Neither uv nor a usable pip was found.
    pub const NO_INSTALLER: u8 = 20;
    /// The package index could not be reached, or refused to answer.
    pub const INDEX: u8 = 21;
    /// No such CUDA version, or no such component of it.
    pub const NOT_RELEASED: u8 = 22;
    /// A package was fetched and does not hold what it is named for.
    pub const NOT_IN_PACKAGE: u8 = 23;
    /// Files or versions are not the ones that the lock file pins.
    pub const LOCK: u8 = 24;
    /// No space left.
    pub const DISK_FULL: u8 = 25;
    /// The store can't be written, or no variable tells where it is.
    pub const NO_STORE: u8 = 26;
    /// The installer failed for another reason.
    pub const INSTALLER: u8 = 27;
    /// The disk failed for another reason.
    pub const DISK: u8 = 28;
}

/// Why a toolkit was not added, listed or removed. Nothing is half-written in any case.
///
/// `Debug` prints the same text as `Display`, with the hints.
#[non_exhaustive]
pub enum StoreError {
    /// What was given is no CUDA version.
    InvalidRequest {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No program to fetch with.
    NoInstaller {
        /// Each program looked for, and what came of it.
        tried: Vec<String>,
    },
    /// The index could not be reached or did not answer.
    Index {
        /// What was run.
        call: String,
        /// What it said.
        message: String,
    },
    /// There is no such CUDA.
    NeverReleased {
        /// What was asked for.
        request: Request,
    },
    /// The index does not know a package.
    IndexLacks {
        /// Its name.
        package: String,
        /// What was asked for.
        request: Request,
    },
    /// No Python package carries the component for this major.
    NoPackage {
        /// Which component.
        component: Component,
        /// CUDA major.
        major: u32,
    },
    /// The version is there, but not with everything that was asked for.
    Unresolvable {
        /// What was asked for.
        request: Request,
        /// What the installer said.
        message: String,
    },
    /// The index offers no set in which all versions belong together.
    Inconsistent {
        /// Of the set.
        version: String,
        /// The package that does not fit, with its version.
        package: String,
    },
    /// A package does not hold the component it is named for.
    NotInPackage {
        /// Which component.
        component: Component,
        /// Name and version of the package.
        package: String,
        /// What should be in it.
        missing: String,
    },
    /// A file is not the one that was pinned.
    HashMismatch {
        /// Which, and what was found instead.
        message: String,
    },
    /// The lock file does not tell what is needed, and may not be changed.
    LockOutdated {
        /// The lock file.
        path: PathBuf,
        /// What it does not tell.
        reason: String,
    },
    /// The lock file can't be read.
    InvalidLock {
        /// The lock file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No space left.
    DiskFull {
        /// Where.
        path: PathBuf,
        /// Who said so, and how.
        message: String,
    },
    /// The store can't be written.
    NotWritable {
        /// Where.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// No variable tells where the store is.
    NoCacheDirectory,
    /// `CUDA_BUILD_CACHE_DIR` has to mean the same place from every directory.
    RelativeCacheDirectory {
        /// What it holds.
        path: PathBuf,
    },
    /// The installer failed.
    Installer {
        /// What was run.
        call: String,
        /// What it said.
        message: String,
    },
    /// There is no such toolkit in the store.
    NotStored {
        /// What was asked for.
        asked: String,
        /// What is there.
        stored: Vec<String>,
    },
    /// Several toolkits answer to what was asked.
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// Their names.
        names: Vec<String>,
    },
    /// The disk said no.
    Io {
        /// What was being done: `write`, `rename` …
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl StoreError {
    /// Sorts what the system says by what the user can do about it.
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull {
                path,
                message: source.to_string(),
            },
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotADirectory => Self::NotWritable { path, source },
            _ => Self::Io {
                action,
                path,
                source,
            },
        }
    }

    /// The process's exit code, one of [`exit_code`].
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::InvalidRequest { .. } | Self::NotStored { .. } | Self::Ambiguous { .. } => {
                exit_code::USAGE
            }
            Self::NoInstaller { .. } => exit_code::NO_INSTALLER,
            Self::Index { .. } => exit_code::INDEX,
            Self::NeverReleased { .. }
            | Self::IndexLacks { .. }
            | Self::NoPackage { .. }
            | Self::Unresolvable { .. }
            | Self::Inconsistent { .. } => exit_code::NOT_RELEASED,
            Self::NotInPackage { .. } => exit_code::NOT_IN_PACKAGE,
            Self::HashMismatch { .. } | Self::LockOutdated { .. } | Self::InvalidLock { .. } => {
                exit_code::LOCK
            }
            Self::DiskFull { .. } => exit_code::DISK_FULL,
            Self::NotWritable { .. }
            | Self::NoCacheDirectory
            | Self::RelativeCacheDirectory { .. } => exit_code::NO_STORE,
            Self::Installer { .. } => exit_code::INSTALLER,
            Self::Io { .. } => exit_code::DISK,
        }
    }

    /// What to do next, most likely first.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoInstaller { .. } => {
                "install uv, or Python's pip 22.2 or newer (`apt install python3-pip`, `dnf install \
                 python3-pip`), and have it on `PATH`"
            }
            Self::Index { .. } => {
                "check the network, and the index and proxy that uv or pip are configured with; then run \
                 the same command again, nothing was half-written"
            }
            Self::NeverReleased { .. } => {
                "as Python packages there are 11.8, 12.0 to 12.6, 12.8, 12.9, and 13.0 onwards; `cargo cuda \
                 toolkit add 13` takes the newest 13"
            }
            Self::IndexLacks { .. } => {
                "the configured index may be a partial mirror; ask for a minor, as in `13.4`, to have its \
                 components resolved one by one"
            }
            Self::NoPackage {
                component: Component::Driver,
                ..
            } => "libcuda comes with the GPU driver; linking needs none of it to be installed",
            Self::NoPackage { .. } | Self::NotInPackage { .. } => {
                "install NVIDIA's own packages or archive and set `CUDA_HOME`, or ask for a newer CUDA"
            }
            Self::HashMismatch { .. } => {
                "if the index was changed on purpose, run with `--upgrade` to pin anew; a lock file that pip \
                 wrote on another kind of machine pins only that machine's files, uv's pins all"
            }
            Self::LockOutdated { .. } => "run without `--locked` and commit the lock file",
            Self::InvalidLock { .. } => "restore it from version control, or delete it to pin anew",
            Self::DiskFull { .. } => {
                "free some space, remove toolkits (`cargo cuda toolkit list`), or set \
                 `CUDA_BUILD_CACHE_DIR` to a larger disk; nothing was half-written"
            }
            Self::NotWritable { .. }
            | Self::NoCacheDirectory
            | Self::RelativeCacheDirectory { .. } => {
                "set `CUDA_BUILD_CACHE_DIR` to the absolute path of a directory that you may write"
            }
            Self::Ambiguous { .. } => "give the whole name",
            Self::NotStored { stored, .. } if !stored.is_empty() => {
                return vec![format!("the store holds {}", stored.join(", "))];
            }
            Self::InvalidRequest { .. }
            | Self::Unresolvable { .. }
            | Self::Inconsistent { .. }
            | Self::Installer { .. }
            | Self::NotStored { .. }
            | Self::Io { .. } => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidRequest { text, reason } => write!(f, "`{text}`: {reason}"),
            Self::NoInstaller { tried } => {
                f.write_str("no program to fetch CUDA components with")?;
                tried.iter().try_for_each(|line| write!(f, "\n  tried {line}"))
            }
            Self::Index { call, message } => {
                write!(f, "the package index could not be reached\n{}\n  command: {call}", indent(message))
            }
            Self::NeverReleased { request } => {
                write!(f, "CUDA {request} was never released, as far as the package index knows")
            }
            Self::IndexLacks { package, request } => {
                write!(f, "the package index has no `{package}`, which tells what belongs to CUDA {request}")
            }
            Self::NoPackage { component, major } => {
                write!(f, "no Python package carries `{component}` for CUDA {major}")
            }
            Self::Unresolvable { request, message } => {
                write!(f, "CUDA {request} can't be had with these components\n{}", indent(message))
            }
            Self::Inconsistent { version, package } => {
                write!(
                    f,
                    "the package index offers no consistent CUDA {version}: {package} does not belong to it"
                )
            }
            Self::NotInPackage { component, package, missing } => {
                write!(f, "package {package} does not hold `{component}`: it has no {missing}")
            }
            Self::HashMismatch { message } => {
                write!(f, "a file is not the one that was pinned\n{}", indent(message))
            }
            Self::LockOutdated { path, reason } => {
                write!(f, "{} would have to change: {reason}", path.display())
            }
            Self::InvalidLock { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::DiskFull { path, message } => {
                write!(f, "no space left for {}\n{}", path.display(), indent(message))
            }
            Self::NotWritable { path, source } => write!(f, "can't write {}: {source}", path.display()),
            Self::NoCacheDirectory => f.write_str(
                "no place for toolkits: `CUDA_BUILD_CACHE_DIR`, `XDG_CACHE_HOME` and `HOME` are all unset",
            ),
            Self::RelativeCacheDirectory { path } => {
                write!(f, "`CUDA_BUILD_CACHE_DIR` ({}) is not an absolute path", path.display())
            }
            Self::Installer { call, message } => {
                write!(f, "the installer failed\n{}\n  command: {call}", indent(message))
            }
            Self::NotStored { asked, .. } => write!(f, "the store has no toolkit `{asked}`"),
            Self::Ambiguous { asked, names } => {
                write!(f, "`{asked}` could be any of {}", names.join(", "))
            }
            Self::Io { action, path, source } => write!(f, "could not {action} {}: {source}", path.display()),
        }
    }
}

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        self.hints()
            .iter()
            .try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::NotWritable { source, .. } => Some(source),
            _ => None,
        }
    }
}
