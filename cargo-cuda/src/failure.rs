//! The error of a command: a message, hints, and an exit code.

use std::io;
use std::path::Path;

use cuda_build::Error;
use cuda_find_core::error::io_hint;

use crate::exit_code;

/// The result of what a command does.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
#[error("error: {message}{}", hint_lines(hints))]
pub struct Failure {
    pub code: u8,
    /// What failed, and what was tried.
    pub message: String,
    pub hints: Vec<String>,
}

impl Failure {
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hints: Vec::new(),
        }
    }

    /// A file does not have the format of a wheel.
    pub fn invalid_wheel(message: impl Into<String>) -> Self {
        Self::wheel(message)
            .hint("build or download the wheel again; if the error stays, report it to those who build the wheel")
    }

    /// An I/O error, as in `could not write dist/x.whl: No space left on device`.
    pub fn io(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let message = format!("could not {action} {}", path.display());
        let path = path.to_owned();
        move |error| {
            let hint = io_hint(&path, &error);
            Self::disk(format!("{message}: {error}")).hint(hint)
        }
    }

    /// Puts the name of the affected file before the message.
    pub fn in_file(mut self, name: &str) -> Self {
        self.message = format!("{name}: {}", self.message);
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The exit code for an error of `cuda-build`.
    pub fn exit_code_for(error: &Error) -> u8 {
        match error {
            Error::Find(error) => Self::exit_code_of_search(error),
            Error::ViewConflict { .. } | Error::HostCompiler { .. } => exit_code::INCONSISTENT,
            Error::Manifest { .. } => exit_code::CONFIGURATION,
            Error::ViewNotCreated { .. } => exit_code::DISK,
            _ => exit_code::FAILURE,
        }
    }

    /// The exit code for an error of the search.
    pub fn exit_code_of_search(error: &cuda_find_core::error::Error) -> u8 {
        use cuda_find_core::error::Error;
        match error {
            Error::NotFound { .. } => exit_code::NOT_FOUND,
            Error::Inconsistent { .. } => exit_code::INCONSISTENT,
            Error::Capability { .. } => exit_code::CAPABILITY,
            Error::UnsupportedTarget { .. } => exit_code::USAGE,
            Error::InvalidSource { .. } | Error::Variable { .. } => exit_code::CONFIGURATION,
            Error::Io { .. } => exit_code::DISK,
            _ => exit_code::FAILURE,
        }
    }
}

fn hint_lines(hints: &[String]) -> String {
    hints.iter().map(|hint| format!("\nhint: {hint}")).collect()
}

impl From<cuda_find_core::error::Error> for Failure {
    fn from(error: cuda_find_core::error::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: Self::exit_code_for(&error),
            message: error.to_string(),
            hints: error.hints(),
        }
    }
}
