//! What can go wrong with the store: messages, exit codes, hints, and what the output of an
//! installer that failed means.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use cuda_build::Component;

use super::ReleaseSpec;
use super::command::Call;

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
#[allow(missing_docs, reason = "each message explains its variant and fields")]
pub enum StoreError {
    #[error("`{}`: {reason}", printable(text))]
    InvalidRelease { text: String, reason: String },
    #[error("no program to fetch CUDA components with{}", tried.iter().map(|line| format!("\n  tried {line}")).collect::<String>())]
    NoInstaller { tried: Vec<String> },
    #[error(
        "the package index could not be reached\n{}\n  command: {call}",
        indent(message)
    )]
    Index { call: String, message: String },
    #[error("CUDA {release} was never released, as far as the package index knows")]
    NeverReleased { release: ReleaseSpec },
    #[error("the package index has no `{package}`, which lists the packages of CUDA {release}")]
    IndexLacks {
        package: String,
        release: ReleaseSpec,
    },
    #[error("no Python package contains `{component}` for CUDA {major}")]
    NoPackage { component: Component, major: u32 },
    #[error(
        "CUDA {release} is not available with these components\n{}",
        indent(message)
    )]
    Unresolvable {
        release: ReleaseSpec,
        message: String,
    },
    /// The index offers no set in which all versions belong together.
    #[error(
        "the package index offers no consistent CUDA {version}: {package} does not belong to it"
    )]
    Inconsistent { version: String, package: String },
    #[error("package {package} does not contain `{component}`: {reason}")]
    NotInPackage {
        component: Component,
        package: String,
        reason: String,
    },
    /// An installer reported success and files are missing.
    #[error("{installer} reported success, but {reason}")]
    Incomplete {
        installer: &'static str,
        reason: String,
    },
    #[error("a file is not the one that was pinned\n{}", indent(message))]
    HashMismatch { message: String },
    #[error("{} would have to change: {reason}", path.display())]
    LockOutdated { path: PathBuf, reason: String },
    #[error("{} cannot be used: {}", path.display(), printable(reason))]
    InvalidLock { path: PathBuf, reason: String },
    #[error("no space left for {}\n{}", path.display(), indent(message))]
    DiskFull { path: PathBuf, message: String },
    #[error("cannot write {}: {source}", path.display())]
    NotWritable { path: PathBuf, source: io::Error },
    #[error("the store is not safe to use: {reason}")]
    NotTrusted { reason: String },
    #[error(
        "no directory for toolkits: `CUDA_BUILD_CACHE_DIR`, `XDG_CACHE_HOME` and `HOME` are all unset"
    )]
    NoCacheDirectory,
    /// The cache directory has to be the same one wherever the program runs.
    #[error("`{variable}` ({}) is not an absolute path", path.display())]
    RelativeCacheDirectory {
        variable: &'static str,
        path: PathBuf,
    },
    #[error("the installer failed\n{}\n  command: {call}", indent(message))]
    Installer { call: String, message: String },
    #[error("interrupted by signal {signal}; what was fetched so far has been removed")]
    Interrupted { signal: u8 },
    #[error("the store has no toolkit `{}`", printable(name))]
    NotStored { name: String, stored: Vec<String> },
    #[error("`{name}` could be any of {}", names.join(", "))]
    Ambiguous { name: String, names: Vec<String> },
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
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

/// Why an installer has no answer.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The index answered, and has nothing that fits.
    NoMatch {
        /// The installer's output.
        message: String,
        /// The index does not know the name.
        unknown_name: bool,
    },
    /// Any other failure.
    Failed(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// What uv, pip and the system print if no space is left.
const FULL: &[&str] = &[
    "No space left on device",
    "os error 28)",
    "Disk quota exceeded",
    "os error 122)",
];

const NOT_WRITABLE: &[&str] = &[
    "Permission denied (os error 13)",
    "[Errno 13]",
    "os error 30)",
    "[Errno 30]",
];

const MISMATCH: &[&str] = &["Hash mismatch for", "DO NOT MATCH THE HASHES"];

/// Lower case. pip ends with "no matching distribution" after it could not connect, so these
/// phrases are searched first.
const UNREACHABLE: &[&str] = &[
    "error sending request",
    "failed to fetch",
    "tcp connect error",
    "dns error",
    "request failed after",
    "network connectivity is disabled",
    "network was disabled",
    "failed to establish a new connection",
    "connection broken by",
    "max retries exceeded",
    "read timed out",
    "connection reset by peer",
    "incompleteread",
    "name resolution",
    "certificate_verify_failed",
    "401 unauthorized",
    "403 forbidden",
    "407 proxy",
    "401 client error",
    "403 client error",
    "502 bad gateway",
    "503 service unavailable",
    "end of file before message length reached",
];

const NO_MATCH: &[&str] = &[
    "No solution found",
    "No matching distribution found",
    "ResolutionImpossible",
];

const UNKNOWN_NAME: &[&str] = &[
    "was not found in the package registry",
    "(from versions: none)",
];

/// Sorts an installer's failure by what the user can do. `place` is the directory that it wrote.
pub(super) fn refusal(call: &Call, transcript: &str, place: &Path) -> Refusal {
    let has = |words: &[&str]| words.iter().any(|word| transcript.contains(word));
    let message = summary(transcript);
    if has(FULL) {
        return Refusal::Failed(StoreError::DiskFull {
            path: place.to_owned(),
            message,
        });
    }
    if has(MISMATCH) {
        return Refusal::Failed(StoreError::HashMismatch { message });
    }
    let cut_off = |line: &str| {
        UNREACHABLE
            .iter()
            .any(|word| line.to_lowercase().contains(word))
    };
    if let Some(line) = transcript.lines().rfind(|line| cut_off(line)) {
        // pip prints the cause in a warning, before the error that follows from it.
        let known = message.lines().any(cut_off);
        let message = if known {
            message
        } else {
            format!("{}\n{message}", line.trim())
        };
        return Refusal::Failed(StoreError::Index {
            call: call.to_string(),
            message,
        });
    }
    if has(NO_MATCH) {
        return Refusal::NoMatch {
            message,
            unknown_name: has(UNKNOWN_NAME),
        };
    }
    if has(NOT_WRITABLE) {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, message);
        return Refusal::Failed(StoreError::NotWritable {
            path: place.to_owned(),
            source,
        });
    }
    Refusal::Failed(StoreError::Installer {
        call: call.to_string(),
        message,
    })
}

/// The output from the first line that is an error, or else its last lines.
fn summary(transcript: &str) -> String {
    const MOST: usize = 12;
    let lines: Vec<&str> = transcript
        .lines()
        .map(str::trim_end)
        // pip's own call stack follows.
        .take_while(|line| *line != "Exception information:")
        .filter(|line| !line.is_empty() && !is_bar(line))
        .collect();
    let start = lines
        .iter()
        .position(|line| line.starts_with("error") || line.starts_with("ERROR"))
        .unwrap_or(lines.len().saturating_sub(MOST));
    let words: Vec<&str> = lines[start..].iter().take(MOST).copied().collect();
    if words.is_empty() {
        "no output".to_owned()
    } else {
        words.join("\n")
    }
}

/// pip's progress bar.
fn is_bar(line: &str) -> bool {
    line.trim_start()
        .starts_with(['\u{2501}', '\u{2578}', '\u{257a}', '\r'])
}

#[cfg(test)]
mod tests {
    use cuda_build::internal::command::Invocation;

    use super::*;

    fn sorted(transcript: &str) -> Refusal {
        let call = Call {
            invocation: Invocation::new("uv"),
            input: Vec::new(),
        };
        refusal(&call, transcript, Path::new("/store/.13.part"))
    }

    fn code(transcript: &str) -> u8 {
        match sorted(transcript) {
            Refusal::Failed(error) => error.exit_code(),
            Refusal::NoMatch { message, .. } => panic!("no match: {message}"),
        }
    }

    // Recorded from uv 0.13 and pip 23.0; names of machines and users replaced.

    #[test]
    fn index_not_reached() {
        let uv = "error: Request failed after 3 retries in 12.1s\n  cause: Failed to fetch: http://127.0.0.1:9/simple/cuda-toolkit/\n  cause: client error (Connect)\n  cause: tcp connect error\n  cause: Connection refused (os error 111)\n";
        let pip = "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object at 0x7f84ce3f3c10>: Failed to establish a new connection: [Errno 111] Connection refused')': /simple/cuda-toolkit/\nERROR: Could not find a version that satisfies the requirement cuda-toolkit (from versions: none)\nERROR: No matching distribution found for cuda-toolkit\n";
        assert_eq!(code(uv), exit_code::INDEX);
        assert_eq!(code(pip), exit_code::INDEX);
        let Refusal::Failed(error) = sorted(pip) else {
            panic!()
        };
        assert!(error.to_string().contains("Connection refused"), "{error}");
    }

    #[test]
    fn no_space() {
        let uv = "Resolved 1 package in 35ms\nwarning: Failed to hardlink files; falling back to full copy.\nerror: Failed to install: nvidia_cuda_runtime.whl (nvidia-cuda-runtime==13.4.92)\n  cause: failed to copy file from /c/a to /s/b: No space left on device (os error 28)\n";
        let pip = "  Downloading nvidia_cuda_runtime.whl (2.5 MB)\nERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n\n     ━━━━━━━━━━━━━━━━╸                        1.0/2.5 MB 276.9 MB/s eta 0:00:01\n";
        assert_eq!(code(uv), exit_code::DISK_FULL);
        assert_eq!(code(pip), exit_code::DISK_FULL);
        let Refusal::Failed(error) = sorted(pip) else {
            panic!()
        };
        assert!(!error.to_string().contains('━'), "{error}");
    }

    #[test]
    fn other_hash() {
        let uv = "error: Failed to download `nvidia-cuda-runtime==13.4.92`\n  cause: Hash mismatch for `nvidia-cuda-runtime==13.4.92`\n\n         Expected:\n           sha256:06\n";
        let pip = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please update the hashes.\n    nvidia-cuda-runtime==13.4.92 from file:\n        Expected sha256 06\n             Got        96\n";
        assert_eq!(code(uv), exit_code::LOCK);
        assert_eq!(code(pip), exit_code::LOCK);
    }

    #[test]
    fn nothing_fits() {
        let absent = "error: No solution found when resolving dependencies\n  cause: Because nvidia-cuda-nope was not found in the package registry and you require nvidia-cuda-nope, we can conclude that your requirements are unsatisfiable.\n";
        let uv = "error: No solution found when resolving dependencies\n  cause: Because only cuda-toolkit[cudart]<=13.4.3 is available and you require cuda-toolkit[cudart]==14.*, we can conclude that your requirements are unsatisfiable.\n";
        let pip = "ERROR: Could not find a version that satisfies the requirement cuda-toolkit[cudart]==12.7.* (from versions: 11.8.0, 12.0.0, 13.4.3)\nERROR: No matching distribution found for cuda-toolkit[cudart]==12.7.*\n";
        for (text, unknown) in [(absent, true), (uv, false), (pip, false)] {
            match sorted(text) {
                Refusal::NoMatch { unknown_name, .. } => {
                    assert_eq!(unknown_name, unknown, "{text}");
                }
                Refusal::Failed(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn anything_else_keeps_its_words() {
        let Refusal::Failed(error) = sorted("error: No interpreter found\n\nended by signal 9\n")
        else {
            panic!()
        };
        assert_eq!(error.exit_code(), exit_code::INSTALLER);
        assert!(
            error.to_string().contains("No interpreter") && error.to_string().contains("signal 9")
        );
    }
}
