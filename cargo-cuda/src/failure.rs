//! How a command fails: a message, hints, and an exit code.

use std::fmt;

use cuda_build::Error;

use crate::exit_code;

/// A command that failed.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What failed, and what was tried.
    pub message: String,
    /// What to do next.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure without hints.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hints: Vec::new(),
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        for hint in &self.hints {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl Failure {
    /// The exit code that fits an error of `cuda-build`.
    #[must_use]
    pub fn code_of(error: &Error) -> u8 {
        match error {
            Error::NotFound(_) => exit_code::NOT_FOUND,
            Error::Inconsistent { .. }
            | Error::ViewConflict { .. }
            | Error::HostCompiler { .. } => exit_code::INCONSISTENT,
            Error::Capability { .. } => exit_code::CAPABILITY,
            Error::UnsupportedTarget { .. } => exit_code::USAGE,
            Error::InvalidSource { .. } | Error::Manifest { .. } => exit_code::CONFIGURATION,
            Error::Io { .. } | Error::ViewPlace { .. } => exit_code::DISK,
            _ => exit_code::FAILURE,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: Self::code_of(&error),
            message: error.to_string(),
            hints: error.hints(),
        }
    }
}
