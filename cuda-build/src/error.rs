//! The one error of this crate, and what to do about it.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::component::{Component, UnknownComponent};
use crate::probe::Attempt;
use crate::select::NotFound;

/// Everything that can go wrong, each with the names a message needs.
///
/// `Debug` prints the same text as `Display`, because build scripts `unwrap` and return errors
/// from `main`. [`Error::hints`] says what to do next; `Debug` appends it.
#[non_exhaustive]
pub enum Error {
    /// Required components were in none of the places searched.
    NotFound(Box<NotFound>),
    /// Components were found that do not work together.
    Inconsistent {
        /// Each pair, in a sentence that names both sides.
        conflicts: Vec<Conflict>,
    },
    /// An explicitly given place is not what it has to be.
    InvalidSource {
        /// What names it, such as ``environment variable `CUDA_HOME` ``.
        source_name: String,
        /// Where it points.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// The places that were not used because this one was named.
        unused: Vec<Attempt>,
    },
    /// The manifest's `[package.metadata.cuda]` can't be used.
    Manifest {
        /// The file.
        path: PathBuf,
        /// Which key, dotted.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The toolkit does not accept the host compiler, or there is none.
    HostCompiler {
        /// What is wrong, in a sentence that names compiler, bound and toolkit.
        reason: String,
        /// Other compilers that were found, one each.
        tried: Vec<String>,
        /// What to do next.
        hints: Vec<String>,
    },
    /// A capability list can't be used.
    Capability {
        /// What is wrong, in a sentence.
        reason: String,
        /// What to write instead.
        hint: Option<String>,
    },
    /// No such component.
    UnknownComponent(UnknownComponent),
    /// CUDA has no toolkit for this target, or this crate no support.
    UnsupportedTarget {
        /// The Rust triple.
        triple: String,
    },
    /// Two components bring different files of one name into a view.
    ViewConflict {
        /// The path in the view.
        path: PathBuf,
        /// Who brings them.
        components: [Component; 2],
        /// Their files.
        files: [PathBuf; 2],
    },
    /// No view can be put there.
    ViewPlace {
        /// Where it should go.
        path: PathBuf,
        /// Why it can't.
        reason: String,
        /// What to do instead.
        hint: String,
    },
    /// A value cannot be passed to Cargo, which would read something else.
    Directive {
        /// What the value is for: `cargo::rerun-if-changed`, `cargo::rustc-env=NAME` …
        directive: String,
        /// The value.
        value: OsString,
        /// Why Cargo would read something else.
        reason: &'static str,
    },
    /// A source file to be compiled is not there.
    SourceMissing {
        /// The file.
        path: PathBuf,
    },
    /// Two modules would have the same constant in the generated source.
    DuplicateModule {
        /// The constant.
        constant: String,
        /// The sources of both.
        sources: [PathBuf; 2],
    },
    /// A compiler refused its input.
    Compile {
        /// `nvcc` or `NVRTC`, with its version.
        tool: String,
        /// The source file.
        source_file: PathBuf,
        /// What was run, pasteable where it was a program.
        command: String,
        /// The compiler's own messages.
        output: String,
    },
    /// A program could not be run.
    Program {
        /// What was run.
        command: String,
        /// What the system or the program said.
        reason: String,
    },
    /// A shared library could not be used.
    Library {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// A file that should hold device code or a toolkit does not.
    Format {
        /// What was read, such as `fat binary`.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A file operation failed.
    Io {
        /// What was being done: `write`, `create directory` …
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A variable that Cargo sets for build scripts is missing.
    NotABuildScript {
        /// Which one.
        variable: &'static str,
    },
    /// The build needs a part of this crate that its features leave out.
    FeatureOff {
        /// What needs it.
        what: String,
        /// The feature.
        feature: &'static str,
    },
}

/// Two components that do not belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The sentence that names both, with versions and places.
    pub reason: String,
    /// What to do about it.
    pub fix: String,
}

impl Error {
    /// What to do next, most likely first; empty where the message says it all.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::NotFound(not_found) => not_found.hints(),
            Self::Inconsistent { conflicts } => {
                let mut fixes: Vec<String> = conflicts.iter().map(|c| c.fix.clone()).collect();
                fixes.dedup();
                fixes
            }
            Self::InvalidSource {
                source_name, path, ..
            } => {
                let absolute = path
                    .is_relative()
                    .then(|| "write an absolute path".to_owned());
                let correct =
                    format!("correct {source_name}, or unset it to search the usual places");
                absolute.into_iter().chain([correct]).collect()
            }
            Self::HostCompiler { hints, .. } => hints.clone(),
            Self::Capability { hint, .. } => hint.iter().cloned().collect(),
            Self::UnsupportedTarget { .. } => {
                vec!["build for x86_64 or aarch64 Linux".to_owned()]
            }
            Self::ViewConflict {
                components: [first, second],
                ..
            } => vec![format!(
                "take {first} and {second} from one place, or leave one of them out of the view"
            )],
            Self::DuplicateModule { .. } => {
                vec!["give one of them another name with `Module::named`".to_owned()]
            }
            Self::ViewPlace { hint, .. } => vec![hint.clone()],
            Self::Directive { .. } => vec![
                "rename or move the file or directory so that its path has neither line breaks nor white space at the end, and is UTF-8"
                    .to_owned(),
            ],
            Self::NotABuildScript { .. } => {
                vec!["call this from build.rs, or give the values yourself".to_owned()]
            }
            Self::FeatureOff { feature, .. } => vec![format!(
                "add `features = [\"{feature}\"]` to the dependency `cuda-build` in Cargo.toml"
            )],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(not_found) => not_found.fmt(f),
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
                for attempt in unused.iter().filter(|attempt| !attempt.sets.is_empty()) {
                    write!(
                        f,
                        "\n  available, not used because {source_name} is set: {}: {}",
                        attempt.candidate,
                        attempt.summary()
                    )?;
                }
                Ok(())
            }
            Self::Manifest { path, key, reason } => {
                write!(f, "{}: `{key}`: {reason}", path.display())
            }
            Self::HostCompiler { reason, tried, .. } => {
                f.write_str(reason)?;
                tried
                    .iter()
                    .try_for_each(|line| write!(f, "\n  also installed: {line}"))
            }
            Self::Capability { reason, .. } => f.write_str(reason),
            Self::UnknownComponent(unknown) => unknown.fmt(f),
            Self::UnsupportedTarget { triple } => {
                write!(
                    f,
                    "target `{triple}` is not supported: no CUDA toolkit layout is known for it here"
                )
            }
            Self::ViewConflict {
                path,
                components: [first, second],
                files: [one, other],
            } => write!(
                f,
                "{first} and {second} have different files for `{}` of one view:\n  {first}: {}\n  {second}: {}",
                path.display(),
                one.display(),
                other.display()
            ),
            Self::ViewPlace { path, reason, .. } => {
                write!(f, "no view can be made at {}: {reason}", path.display())
            }
            Self::Directive {
                directive,
                value,
                reason,
            } => write!(
                f,
                "cannot pass {value:?} to Cargo as `{}`: {reason}",
                directive.escape_debug()
            ),
            Self::DuplicateModule {
                constant,
                sources: [first, second],
            } => write!(
                f,
                "the modules {} and {} are both named `{constant}`",
                first.display(),
                second.display()
            ),
            Self::SourceMissing { path } => {
                write!(f, "source file {} does not exist", path.display())
            }
            Self::Compile {
                tool,
                source_file,
                command,
                output,
            } => {
                write!(
                    f,
                    "{tool} could not compile {}\n{}\n  command: {command}",
                    source_file.display(),
                    output.trim_end()
                )
            }
            Self::Program { command, reason } => write!(f, "could not run `{command}`: {reason}"),
            Self::Library { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::Format { what, reason } => write!(f, "not a valid {what}: {reason}"),
            Self::Io {
                action,
                path,
                source,
            } => {
                write!(f, "could not {action} {}: {source}", path.display())
            }
            Self::NotABuildScript { variable } => {
                write!(
                    f,
                    "`{variable}` is not set: this is not running as a build script"
                )
            }
            Self::FeatureOff { what, feature } => {
                write!(f, "{what} needs the feature `{feature}` of cuda-build")
            }
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

impl From<UnknownComponent> for Error {
    fn from(unknown: UnknownComponent) -> Self {
        Self::UnknownComponent(unknown)
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
