//! The error type of this crate, and the hints for each error.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::component::Component;
use crate::list::each_once;

/// Everything that can go wrong, with the values that a message needs.
///
/// `Debug` prints the text of `Display`, followed by [`Error::hints`]. If a build script calls `unwrap`
/// or returns an error from `main`, the user sees the `Debug` text.
#[non_exhaustive]
pub enum Error {
    /// Required components were not found in any of the searched places.
    NotFound {
        /// The missing components.
        missing: Vec<Component>,
        /// What is missing, why it is needed, and where it was searched.
        message: String,
        /// What to do next, most likely first.
        hints: Vec<String>,
    },
    /// The components that were found do not belong together.
    Inconsistent {
        /// One conflict for each pair of components that do not belong together.
        conflicts: Vec<Conflict>,
    },
    /// A place that the user named cannot be used.
    InvalidSource {
        /// The setting that names the place, such as ``environment variable `CUDA_HOME` ``.
        source_name: String,
        /// The place.
        path: PathBuf,
        /// What is wrong with the place.
        reason: String,
        /// Other places with CUDA, which were not used because the user named this place.
        unused: Vec<String>,
    },
    /// An environment variable has a value that cannot be used.
    Variable {
        /// The variable.
        name: String,
        /// What is wrong with the value.
        reason: String,
    },
    /// A list of capabilities cannot be used.
    Capability {
        /// What is wrong, in a sentence.
        reason: String,
        /// What to write instead.
        hint: String,
    },
    /// This crate does not support the target.
    UnsupportedTarget {
        /// The Rust triple.
        triple: String,
    },
    /// The caller requests something that is not possible: a component with an unknown name, a source file that does
    /// not exist, two modules with the same name, a feature that is off.
    Usage {
        /// What is wrong, in a sentence.
        reason: String,
        /// What to do instead.
        hint: String,
    },
    /// A program could not be run.
    Program {
        /// The command.
        command: String,
        /// The error of the system or the program.
        reason: String,
    },
    /// A file does not have the expected content.
    Format {
        /// The expected format, such as `lock file`.
        what: &'static str,
        /// What is wrong with the content.
        reason: String,
        /// How to get a valid file.
        hint: &'static str,
    },
    /// A file operation failed.
    Io {
        /// The operation: `write`, `create directory` …
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Two components that do not belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// A sentence that names both components, with their versions and places.
    pub reason: String,
    /// How to resolve the conflict.
    pub fix: String,
}

impl Error {
    /// Returns a function for `map_err` that makes an [`Error::Io`]:
    /// `root.text(path).map_err(Error::io("read", path))`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// An [`Error::Inconsistent`], unless there is no conflict.
    pub(crate) fn if_inconsistent(conflicts: Vec<Conflict>) -> Result<(), Self> {
        if conflicts.is_empty() {
            return Ok(());
        }
        Err(Self::Inconsistent { conflicts })
    }

    /// An [`Error::Usage`].
    pub fn usage(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage {
            reason: reason.into(),
            hint: hint.into(),
        }
    }

    /// An [`Error::Capability`].
    pub fn capability(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Capability {
            reason: reason.into(),
            hint: hint.into(),
        }
    }

    /// An [`Error::Variable`].
    pub fn variable(name: &str, reason: String) -> Self {
        Self::Variable {
            name: name.to_owned(),
            reason,
        }
    }

    /// What the user can do, with the most likely fix first. There is at least one hint.
    pub fn hints(&self) -> Vec<String> {
        let hint: &str = match self {
            Self::NotFound { hints, .. } => return hints.clone(),
            Self::Inconsistent { conflicts } => {
                return each_once(conflicts.iter().map(|it| it.fix.clone()));
            }
            Self::Capability { hint, .. } | Self::Usage { hint, .. } => hint,
            Self::Format { hint, .. } => hint,
            Self::Variable { name, .. } => &format!("correct `{name}`, or unset it"),
            Self::InvalidSource {
                source_name, path, ..
            } => {
                let absolute = if path.is_relative() {
                    " to an absolute path"
                } else {
                    ""
                };
                &format!("correct {source_name}{absolute}, or unset it to search the usual places")
            }
            Self::UnsupportedTarget { .. } => {
                "build for another target, or without CUDA: set `CUDA_BUILD_SKIP=1` and run plain cargo"
            }
            Self::Program { .. } => {
                "run the command in a shell; if it fails there too, install the program again"
            }
            Self::Io { path, source, .. } => &io_hint(path, source),
        };
        vec![hint.to_owned()]
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { message, .. } => f.write_str(message),
            Self::Inconsistent { conflicts } => {
                f.write_str("CUDA components that do not belong together:")?;
                for conflict in conflicts {
                    write!(f, "\n  {}", conflict.reason)?;
                }
                Ok(())
            }
            Self::InvalidSource {
                source_name,
                path,
                reason,
                unused,
            } => {
                write!(f, "{source_name} ({}): {reason}", path.display())?;
                for attempt in unused {
                    write!(f, "\n  available, not used: {attempt}")?;
                }
                Ok(())
            }
            Self::Variable { name, reason } => {
                write!(f, "environment variable `{name}`: {reason}")
            }
            Self::Capability { reason, .. } | Self::Usage { reason, .. } => f.write_str(reason),
            Self::UnsupportedTarget { triple } => write!(
                f,
                "target `{triple}` is not supported: only Linux with the GNU C library is, on x86-64 and 64-bit ARM, \
                 and Windows on x86-64 with Microsoft's linker (`x86_64-pc-windows-msvc`)"
            ),
            Self::Program { command, reason } => write!(f, "could not run `{command}`: {reason}"),
            Self::Format { what, reason, .. } => write!(f, "not a valid {what}: {reason}"),
            Self::Io {
                action,
                path,
                source,
            } => write!(f, "could not {action} {}: {source}", path.display()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        for hint in self.hints() {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// What the user can do about an error of the system.
pub fn io_hint(path: &Path, error: &io::Error) -> String {
    use io::ErrorKind::{
        NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    let path = path.display();
    match error.kind() {
        StorageFull | QuotaExceeded => format!("free some space on the disk that has {path}"),
        ReadOnlyFilesystem | PermissionDenied => {
            format!("check who may write to it, and to the directories above it: `ls -ld {path}`")
        }
        NotFound => format!("correct the path, or create {path}"),
        _ => format!("check what is at {path} and above it, for example with `ls -l` and `df`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fix_of_several_conflicts_is_printed_once() {
        let conflict = |fix: &str| Conflict {
            reason: String::new(),
            fix: fix.to_owned(),
        };
        let conflicts = vec![conflict("a"), conflict("b"), conflict("a")];
        assert_eq!(Error::Inconsistent { conflicts }.hints(), ["a", "b"]);
    }
}
