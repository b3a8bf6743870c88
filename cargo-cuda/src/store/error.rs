//! What can go wrong with the store, the exit code of each failure, and the hint that helps.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use cuda_build::Component;

use super::ReleaseSpec;

/// Exit codes of `cargo cuda toolkit`, by what the caller can do.
pub mod exit_code {
    /// A release, name or component that is not valid or does not exist; the same as `clap`'s.
    pub const USAGE: u8 = 2;
    /// Neither uv nor a usable pip was found.
    pub const NO_INSTALLER: u8 = 20;
    /// The package index could not be reached, or did not answer.
    pub const INDEX: u8 = 21;
    /// There is no such CUDA release, or it has no such component.
    pub const NOT_RELEASED: u8 = 22;
    /// A package does not contain the component that it is named for.
    pub const NOT_IN_PACKAGE: u8 = 23;
    /// The lock file is invalid, or pins other files or versions.
    pub const LOCK: u8 = 24;
    /// No space is left.
    pub const DISK_FULL: u8 = 25;
    /// The store cannot be written or is not trusted, or no variable names its directory.
    pub const NO_STORE: u8 = 26;
    /// The installer failed for another reason.
    pub const INSTALLER: u8 = 27;
    /// An I/O error of another kind.
    pub const DISK: u8 = 28;
    /// Added to the number of the signal that ended the command, as shells do.
    pub const SIGNAL: u8 = 128;
}

/// Why a toolkit was not added, listed or removed. The store is as it was before.
///
/// `Debug` prints the same text as `Display`, and the hints.
#[non_exhaustive]
#[derive(thiserror::Error)]
pub enum StoreError {
    /// The argument is not a CUDA release.
    #[error("`{}`: {reason}", printable(text))]
    InvalidRelease {
        /// The argument.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no program to fetch with.
    #[error("no program to fetch CUDA components with{}", tried.iter().map(|line| format!("\n  tried {line}")).collect::<String>())]
    NoInstaller {
        /// Each program looked for, and the reason not to use it.
        tried: Vec<String>,
    },
    /// The index could not be reached or did not answer.
    #[error(
        "the package index could not be reached\n{}\n  command: {call}",
        indent(message)
    )]
    Index {
        /// The command.
        call: String,
        /// Its output.
        message: String,
    },
    /// There is no such CUDA release.
    #[error("CUDA {release} was never released, as far as the package index knows")]
    NeverReleased {
        /// The release.
        release: ReleaseSpec,
    },
    /// The index does not have a package.
    #[error("the package index has no `{package}`, which lists the packages of CUDA {release}")]
    IndexLacks {
        /// Its name.
        package: String,
        /// The release.
        release: ReleaseSpec,
    },
    /// No Python package contains the component for this major.
    #[error("no Python package contains `{component}` for CUDA {major}")]
    NoPackage {
        /// The component.
        component: Component,
        /// The CUDA major.
        major: u32,
    },
    /// The release exists, but not with all the components.
    #[error(
        "CUDA {release} is not available with these components\n{}",
        indent(message)
    )]
    Unresolvable {
        /// The release.
        release: ReleaseSpec,
        /// The installer's output.
        message: String,
    },
    /// The index offers no set in which all versions belong together.
    #[error(
        "the package index offers no consistent CUDA {version}: {package} does not belong to it"
    )]
    Inconsistent {
        /// The release.
        version: String,
        /// Name and version of the package that does not fit.
        package: String,
    },
    /// A package does not contain the component that it is named for.
    #[error("package {package} does not contain `{component}`: {reason}")]
    NotInPackage {
        /// The component.
        component: Component,
        /// Name and version of the package.
        package: String,
        /// What is missing.
        reason: String,
    },
    /// An installer reported success and files are missing.
    #[error("{installer} reported success, but {reason}")]
    Incomplete {
        /// The installer.
        installer: &'static str,
        /// What is missing.
        reason: String,
    },
    /// A file is not the one that was pinned.
    #[error("a file is not the one that was pinned\n{}", indent(message))]
    HashMismatch {
        /// The file, and what was found instead.
        message: String,
    },
    /// The lock file does not pin what is needed, and may not be changed.
    #[error("{} would have to change: {reason}", path.display())]
    LockOutdated {
        /// The lock file.
        path: PathBuf,
        /// What it does not pin.
        reason: String,
    },
    /// The lock file is not one that `toolkit add` writes.
    #[error("{} cannot be used: {}", path.display(), printable(reason))]
    InvalidLock {
        /// The lock file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No space is left.
    #[error("no space left for {}\n{}", path.display(), indent(message))]
    DiskFull {
        /// The place.
        path: PathBuf,
        /// The message of the system or the installer.
        message: String,
    },
    /// The store cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    NotWritable {
        /// The place.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Other users can change the store.
    #[error("the store is not safe to use: {reason}")]
    NotTrusted {
        /// The path and the reason.
        reason: String,
    },
    /// No variable names the directory of the store.
    #[error(
        "no directory for toolkits: `CUDA_BUILD_CACHE_DIR`, `XDG_CACHE_HOME` and `HOME` are all unset"
    )]
    NoCacheDirectory,
    /// The cache directory has to be the same one wherever the program runs.
    #[error("`{variable}` ({}) is not an absolute path", path.display())]
    RelativeCacheDirectory {
        /// The variable that names it.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// The installer failed.
    #[error("the installer failed\n{}\n  command: {call}", indent(message))]
    Installer {
        /// The command.
        call: String,
        /// Its output.
        message: String,
    },
    /// A signal ended the command.
    #[error("interrupted by signal {signal}; what was fetched so far has been removed")]
    Interrupted {
        /// The number of the signal.
        signal: u8,
    },
    /// There is no such toolkit in the store.
    #[error("the store has no toolkit `{}`", printable(name))]
    NotStored {
        /// The argument.
        name: String,
        /// The names of the toolkits in the store.
        stored: Vec<String>,
    },
    /// Several toolkits match the argument.
    #[error("`{name}` could be any of {}", names.join(", "))]
    Ambiguous {
        /// The argument.
        name: String,
        /// Their names.
        names: Vec<String>,
    },
    /// An I/O error.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// `write`, `rename` …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl StoreError {
    /// Sorts an I/O error by what the user can do.
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

    /// The exit code of the process, one of [`exit_code`].
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::InvalidRelease { .. } | Self::NotStored { .. } | Self::Ambiguous { .. } => {
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
            | Self::NotTrusted { .. }
            | Self::NoCacheDirectory
            | Self::RelativeCacheDirectory { .. } => exit_code::NO_STORE,
            Self::Installer { .. } | Self::Incomplete { .. } => exit_code::INSTALLER,
            Self::Interrupted { signal } => exit_code::SIGNAL.saturating_add(*signal),
            Self::Io { .. } => exit_code::DISK,
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoInstaller { .. } => {
                "install uv, or Python's pip 22.2 or newer (`apt install python3-pip`, `dnf install \
                 python3-pip`), and have it on `PATH`"
            }
            Self::Index { .. } => {
                "check the network, and the index and proxy that uv or pip are configured with; then run \
                 the same command again"
            }
            Self::NeverReleased { .. } => {
                "as Python packages there are 11.8, 12.0 to 12.6, 12.8, 12.9, and 13.0 and newer; `cargo \
                 cuda toolkit add 13` fetches the newest 13"
            }
            Self::IndexLacks { .. } => {
                "the configured index may be a partial mirror, or `no-index` may be set for pip or uv; \
                 with a minor, as in `13.4`, the components are resolved one by one"
            }
            Self::NoPackage {
                component: Component::Driver,
                ..
            } => "libcuda comes with the GPU driver; linking needs none of it to be installed",
            Self::NoPackage { .. } | Self::NotInPackage { .. } => {
                "install NVIDIA's own packages or archive and set `CUDA_HOME`, or fetch a newer CUDA"
            }
            Self::HashMismatch { .. } => {
                "if the index was changed on purpose, `--upgrade` pins its files; a lock file that pip \
                 wrote on another kind of machine pins only the files of that machine, uv's pins all"
            }
            Self::LockOutdated { .. } => "run without `--locked` and commit the lock file",
            Self::InvalidLock { .. } => {
                "restore it from version control, or delete it to resolve all versions again"
            }
            Self::DiskFull { .. } => {
                "free some space, remove toolkits (`cargo cuda toolkit list`), or set \
                 `CUDA_BUILD_CACHE_DIR` to a larger disk"
            }
            Self::NotTrusted { .. } => {
                "set `CUDA_BUILD_CACHE_DIR` to a directory that only you can write"
            }
            Self::NotWritable { .. }
            | Self::NoCacheDirectory
            | Self::RelativeCacheDirectory { .. } => {
                "set `CUDA_BUILD_CACHE_DIR` to the absolute path of a directory that you may write"
            }
            Self::Ambiguous { .. } => "give the whole name",
            Self::NotStored { stored, .. } if !stored.is_empty() => {
                return vec![format!("the store has {}", stored.join(", "))];
            }
            Self::InvalidRelease { .. }
            | Self::Unresolvable { .. }
            | Self::Inconsistent { .. }
            | Self::Incomplete { .. }
            | Self::Installer { .. }
            | Self::Interrupted { .. }
            | Self::NotStored { .. }
            | Self::Io { .. } => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

/// Text from outside, without characters that steer a terminal.
pub(super) fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => c.to_string(),
        c if c.is_control() => c.escape_unicode().to_string(),
        c => c.to_string(),
    };
    text.chars().map(shown).collect()
}

fn indent(text: &str) -> String {
    let lines = text.lines().map(|line| format!("  {}", printable(line)));
    lines.collect::<Vec<_>>().join("\n")
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut hints = self.hints().into_iter();
        hints.try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}
