//! The error type of this crate, and the hints for each error.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use cuda_find_core::component::Component;

/// Everything that can go wrong, with the values that a message needs.
///
/// `Debug` prints the text of `Display`, followed by [`Error::hints`]. If a build script calls `unwrap` or returns an
/// error from `main`, the user sees the `Debug` text.
#[non_exhaustive]
pub enum Error {
    /// CUDA was not found or cannot be used, a file or program could not be used, or the build script requests
    /// something that is not possible.
    Find(cuda_find_core::error::Error),
    /// A key of `[package.metadata.cuda]` has a value that cannot be used.
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The line of the key, from 1, if it is known.
        line: Option<usize>,
        /// The dotted key; empty if the file as a whole is not valid.
        key: String,
        /// What is wrong with the value.
        reason: String,
    },
    /// The toolkit does not accept the host compiler, or no host compiler was found.
    HostCompiler {
        /// A sentence with the compiler, the accepted versions and the toolkit.
        reason: String,
        /// What to do next.
        hints: Vec<String>,
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
    /// A compiler rejected its input.
    Compile {
        /// `nvcc` or `NVRTC` with its version, or the host compiler.
        tool: Box<str>,
        /// The source file.
        source_file: PathBuf,
        /// The command, ready to be pasted into a shell.
        command: Box<str>,
        /// The messages that the compiler printed.
        output: String,
        /// The compiler's exit status, if it has one.
        exit_code: Option<u8>,
        /// What to do, if that is known.
        hint: Option<Box<str>>,
        /// The errors of other files of the same build.
        others: Box<[Self]>,
    },
    /// A shared library could not be used.
    Library {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
}

impl From<cuda_find_core::error::Error> for Error {
    fn from(error: cuda_find_core::error::Error) -> Self {
        Self::Find(error)
    }
}

impl Error {
    /// Returns a function for `map_err`: `root.text(path).map_err(Error::io("read", path))`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let to_error = cuda_find_core::error::Error::io(action, path);
        move |source| Self::Find(to_error(source))
    }

    pub(crate) fn usage(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Find(cuda_find_core::error::Error::usage(reason, hint))
    }

    /// An error about the value of an environment variable.
    pub(crate) fn variable(name: &str, reason: String) -> Self {
        Self::Find(cuda_find_core::error::Error::variable(name, reason))
    }

    /// What the user can do, with the most likely fix first. There is at least one hint, except for
    /// [`Error::Compile`], whose messages are the compiler's own.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Find(error) => return error.hints(),
            Self::HostCompiler { hints, .. } => return hints.clone(),
            Self::ViewNotCreated { hint, .. } => hint.clone(),
            Self::Manifest {
                path, line, key, ..
            } => match line {
                _ if key.is_empty() => format!("correct the syntax of {}", path.display()),
                Some(line) => format!("edit line {line} of {}; {KEYS_HINT}", path.display()),
                None => format!("edit {}; {KEYS_HINT}", path.display()),
            },
            Self::ViewConflict {
                components: [first, second],
                ..
            } => format!(
                "take {first} and {second} from one place, or leave one of them out of the view"
            ),
            Self::Compile { hint, .. } => return hint.iter().map(ToString::to_string).collect(),
            Self::Library { .. } => {
                let reinstall = "install the package of this library again";
                format!("{reinstall}, or name another toolkit with `CUDA_BUILD_ROOTS`")
            }
        };
        vec![hint]
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Find(error) => error.fmt(f),
            Self::Manifest {
                path,
                line,
                key,
                reason,
            } => {
                write!(f, "{}", path.display())?;
                if let Some(line) = line {
                    write!(f, ":{line}")?;
                }
                if !key.is_empty() {
                    write!(f, ": `{key}`")?;
                }
                write!(f, ": {reason}")
            }
            Self::HostCompiler { reason, .. } => f.write_str(reason),
            Self::ViewConflict {
                path,
                components: [first, second],
                files: [one, other],
            } => {
                let (path, one, other) = (path.display(), one.display(), other.display());
                write!(
                    f,
                    "{first} and {second} have different files for the same path `{path}` of a view:\n  \
                     {first}: {one}\n  {second}: {other}"
                )
            }
            Self::ViewNotCreated { path, reason, .. } => {
                write!(f, "cannot create a view at {}: {reason}", path.display())
            }
            Self::Compile {
                tool,
                source_file,
                command,
                output,
                others,
                ..
            } => {
                let (source, output) = (source_file.display(), output.trim_end());
                write!(
                    f,
                    "{tool} could not compile {source}\n{output}\n  command: {command}"
                )?;
                others.iter().try_for_each(|other| write!(f, "\n{other}"))
            }
            Self::Library { path, reason } => {
                write!(f, "could not load {}: {reason}", path.display())
            }
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
            Self::Find(error) => error.source(),
            _ => None,
        }
    }
}

/// The place where the keys of a manifest are explained.
const KEYS_HINT: &str = concat!(
    env!("CARGO_PKG_REPOSITORY"),
    "/blob/main/docs/manifest.md explains every key"
);
