//! The error type of this crate, and the hints for each error.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::component::Component;
use crate::probe::Attempt;
use crate::select::NotFound;

/// Everything that can go wrong, with the values that a message needs.
///
/// `Debug` prints the text of `Display`, followed by [`Error::hints`]. If a build script calls `unwrap`
/// or returns an error from `main`, the user sees the `Debug` text.
#[non_exhaustive]
pub enum Error {
    /// Required components were not found in any of the searched places.
    NotFound(Box<NotFound>),
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
        /// Other places, which were not used because the user named this place.
        unused: Vec<Attempt>,
    },
    /// A key of `[package.metadata.cuda]`, or a variable, has a value that cannot be used.
    Manifest {
        /// The manifest; empty for a variable.
        path: PathBuf,
        /// The line of the key, from 1, if it is known.
        line: Option<usize>,
        /// The dotted key, or the name of the variable; empty if the file as a whole is not valid.
        key: String,
        /// What is wrong with the value.
        reason: String,
    },
    /// The toolkit does not accept the host compiler, or no host compiler was found.
    HostCompiler {
        /// A sentence with the compiler, the accepted versions and the toolkit.
        reason: String,
        /// Other compilers that were found.
        tried: Vec<String>,
        /// What to do next.
        hints: Vec<String>,
    },
    /// A list of capabilities cannot be used.
    Capability {
        /// What is wrong, in a sentence.
        reason: String,
        /// What to write instead.
        hint: String,
    },
    /// CUDA has no toolkit for this target, or this crate does not support it.
    UnsupportedTarget {
        /// The Rust triple.
        triple: String,
        /// Why the target is not supported.
        reason: &'static str,
    },
    /// Two components have different files for the same path of a view.
    ViewConflict {
        /// The path in the view.
        path: PathBuf,
        /// The components.
        components: [Component; 2],
        /// The file of each component.
        files: [PathBuf; 2],
    },
    /// A view cannot be created at the path that was requested.
    ViewNotCreated {
        /// The path.
        path: PathBuf,
        /// Why the view cannot be created at this path.
        reason: String,
        /// What to do instead.
        hint: String,
    },
    /// A value cannot be passed to Cargo, because Cargo would misread it.
    Directive {
        /// What the value is for: `cargo::rerun-if-changed`, `cargo::rustc-env=NAME` …
        directive: String,
        /// The value.
        value: OsString,
        /// Why Cargo would misread it.
        reason: &'static str,
    },
    /// The build script requests something that this crate cannot do: a source file that does not
    /// exist, two modules with the same name, a feature that is off.
    Usage {
        /// What is wrong, in a sentence.
        reason: String,
        /// What to do instead.
        hint: String,
    },
    /// A compiler rejected its input.
    Compile {
        /// `nvcc` or `NVRTC` with its version, or the host compiler.
        tool: String,
        /// The source file.
        source_file: PathBuf,
        /// The command, ready to be pasted into a shell.
        command: String,
        /// The messages that the compiler printed.
        output: String,
    },
    /// A program could not be run.
    Program {
        /// The command.
        command: String,
        /// The error of the system or the program.
        reason: String,
    },
    /// A shared library could not be used.
    Library {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// A file does not have the expected content.
    Format {
        /// The expected format, such as `fat binary`.
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
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// An [`Error::Manifest`] for an environment variable.
    pub(crate) fn variable(name: &str, reason: String) -> Self {
        Self::Manifest {
            path: PathBuf::new(),
            line: None,
            key: name.to_owned(),
            reason,
        }
    }

    /// What the user can do, with the most likely fix first. There is at least one hint.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NotFound(not_found) => return not_found.hints(),
            Self::Inconsistent { conflicts } => {
                let mut fixes: Vec<String> = Vec::new();
                for conflict in conflicts {
                    if !fixes.contains(&conflict.fix) {
                        fixes.push(conflict.fix.clone());
                    }
                }
                return fixes;
            }
            Self::HostCompiler { hints, .. } => return hints.clone(),
            Self::Capability { hint, .. }
            | Self::Usage { hint, .. }
            | Self::ViewNotCreated { hint, .. } => hint.clone(),
            Self::Format { hint, .. } => (*hint).to_owned(),
            Self::Manifest { path, line, key, .. } => match line {
                _ if path.as_os_str().is_empty() => format!("correct `{key}`, or unset it"),
                _ if key.is_empty() => format!("correct the syntax of {}", path.display()),
                Some(line) => format!("edit line {line} of {}; {KEYS_HINT}", path.display()),
                None => format!("edit {}; {KEYS_HINT}", path.display()),
            },
            Self::InvalidSource {
                source_name, path, ..
            } => {
                let correct = format!("correct {source_name}, or unset it to search the usual places");
                if path.is_relative() {
                    return vec!["write an absolute path".to_owned(), correct];
                }
                correct
            }
            Self::UnsupportedTarget { .. } => {
                "build for x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu, or run plain cargo with \
                 `CUDA_BUILD_SKIP=1`, which builds the crate without CUDA"
                    .to_owned()
            }
            Self::ViewConflict { components, .. } => {
                let [first, second] = components;
                format!(
                    "take {first} and {second} from one place, or leave one of them out of the view"
                )
            }
            Self::Directive { .. } => {
                "rename or move the file or directory so that its path is UTF-8 without line breaks and without white \
                 space at its end"
                    .to_owned()
            }
            #[cfg_attr(
                not(feature = "compile"),
                expect(unused_variables, reason = "for a hint of the feature `compile`")
            )]
            Self::Compile {
                tool,
                source_file,
                output,
                ..
            } => {
                #[cfg(feature = "compile")]
                if let Some(hint) = crate::compile::module_hint(output)
                    && tool.starts_with("NVRTC")
                {
                    return vec![hint];
                }
                format!(
                    "correct {} where the messages point to; its options are set in build.rs",
                    source_file.display()
                )
            }
            Self::Program { .. } => {
                "run the command in a shell; if it fails there too, install the program again, or name another toolkit \
                 with `CUDA_BUILD_ROOTS`, or another host compiler with `NVCC_CCBIN`"
                    .to_owned()
            }
            Self::Library { .. } => {
                "install the package of this library again, or name another toolkit with `CUDA_BUILD_ROOTS`".to_owned()
            }
            Self::Io { path, source, .. } => io_hint(path, source),
        };
        vec![hint]
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(not_found) => not_found.fmt(f),
            Self::Inconsistent { conflicts } => {
                f.write_str("CUDA components that do not belong together:")?;
                let mut conflicts = conflicts.iter();
                conflicts.try_for_each(|conflict| write!(f, "\n  {}", conflict.reason))
            }
            Self::InvalidSource {
                source_name,
                path,
                reason,
                unused,
            } => {
                write!(f, "{source_name} ({}): {reason}", path.display())?;
                for attempt in unused.iter().filter(|attempt| !attempt.sets.is_empty()) {
                    let (candidate, summary) = (&attempt.candidate, attempt.summary());
                    write!(
                        f,
                        "\n  available, not used because {source_name} is set: {candidate}: {summary}"
                    )?;
                }
                Ok(())
            }
            Self::Manifest {
                path,
                line,
                key,
                reason,
            } => {
                if path.as_os_str().is_empty() {
                    return write!(f, "environment variable `{key}`: {reason}");
                }
                write!(f, "{}", path.display())?;
                if let Some(line) = line {
                    write!(f, ":{line}")?;
                }
                if !key.is_empty() {
                    write!(f, ": `{key}`")?;
                }
                write!(f, ": {reason}")
            }
            Self::HostCompiler { reason, tried, .. } => {
                f.write_str(reason)?;
                let mut tried = tried.iter();
                tried.try_for_each(|line| write!(f, "\n  also installed: {line}"))
            }
            Self::Capability { reason, .. } | Self::Usage { reason, .. } => f.write_str(reason),
            Self::UnsupportedTarget { triple, reason } => {
                write!(f, "target `{triple}` is not supported: {reason}")
            }
            Self::ViewConflict {
                path,
                components: [first, second],
                files: [one, other],
            } => {
                let (path, one, other) = (path.display(), one.display(), other.display());
                write!(
                    f,
                    "{first} and {second} have different files for the same path `{path}` of a view:"
                )?;
                write!(f, "\n  {first}: {one}\n  {second}: {other}")
            }
            Self::ViewNotCreated { path, reason, .. } => {
                write!(f, "cannot create a view at {}: {reason}", path.display())
            }
            Self::Directive {
                directive,
                value,
                reason,
            } => {
                let directive = directive.escape_debug();
                write!(
                    f,
                    "cannot pass {value:?} to Cargo as `{directive}`: {reason}"
                )
            }
            Self::Compile {
                tool,
                source_file,
                command,
                output,
            } => {
                let (source, output) = (source_file.display(), output.trim_end());
                write!(
                    f,
                    "{tool} could not compile {source}\n{output}\n  command: {command}"
                )
            }
            Self::Program { command, reason } => write!(f, "could not run `{command}`: {reason}"),
            Self::Library { path, reason } => {
                write!(f, "could not load {}: {reason}", path.display())
            }
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
        let mut hints = self.hints().into_iter();
        hints.try_for_each(|hint| write!(f, "\nhint: {hint}"))
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

/// Where the keys of a manifest are explained.
const KEYS_HINT: &str = "`docs/manifest.md` of cuda-build explains every key";

/// What the user can do about an error of the system.
pub fn io_hint(path: &Path, error: &io::Error) -> String {
    use io::ErrorKind::{
        AlreadyExists, DirectoryNotEmpty, InvalidData, InvalidInput, IsADirectory, NotADirectory,
        NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    let path = path.display();
    match error.kind() {
        StorageFull | QuotaExceeded => format!("free some space on the disk that has {path}"),
        ReadOnlyFilesystem => format!("{path} is on a read-only disk: use a directory elsewhere"),
        PermissionDenied => {
            format!(
                "check who may use it: `ls -ld {path}`, and the same for the directories above it"
            )
        }
        NotFound => format!("correct the path, or create {path}"),
        NotADirectory | AlreadyExists | IsADirectory | DirectoryNotEmpty => {
            format!("move away what is in the way at {path} or above it")
        }
        InvalidData => format!("replace {path} by a text in UTF-8 of less than 16 MiB"),
        InvalidInput => format!("replace {path} by a regular file"),
        _ => format!("check {path} and its disk, for example with `ls -l` and `df`"),
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
