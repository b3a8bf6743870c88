//! Programs as values: shown and run from the same fields.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one file that starts programs"
)]

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::env::Env;
use crate::error::Error;

/// A program to run. `Display` can be pasted into a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The program, absolute or a name on `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables to set on top of the inherited ones.
    pub variables: Vec<(String, OsString)>,
    /// Where it runs; here where unset.
    pub directory: Option<PathBuf>,
}

/// What a program left behind.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Whether it exited with zero.
    pub success: bool,
    /// Standard output, then standard error.
    pub output: String,
}

impl Invocation {
    /// A program without arguments.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            directory: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Runs it to its end, without standard input.
    ///
    /// # Errors
    /// [`Error::Program`] where it can't be started.
    pub fn run(&self) -> Result<Finished, Error> {
        self.finish(Command::new(&self.program))
    }

    /// As [`Invocation::run`], with the variables of `env` in place of those of this process.
    ///
    /// # Errors
    /// As [`Invocation::run`].
    pub fn run_with(&self, env: &Env) -> Result<Finished, Error> {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(env.variables());
        self.finish(command)
    }

    fn finish(&self, mut command: Command) -> Result<Finished, Error> {
        command
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(n, v)| (n, v)))
            .stdin(Stdio::null());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let output = command.output().map_err(|error| Error::Program {
            command: self.to_string(),
            reason: error.to_string(),
        })?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok(Finished {
            success: output.status.success(),
            output: text,
        })
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str(&quoted(self.program.as_os_str()))?;
        self.arguments
            .iter()
            .try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// One word for a POSIX shell.
#[must_use]
pub fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// What an nvcc printed, for [`NvccAnswer::parse`](crate::probe::NvccAnswer::parse).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A dry run: version and directories.
    Whole(String),
    /// `--version`: nothing but that.
    VersionAlone(String),
}

impl Answer {
    /// The text, whichever it is.
    #[must_use]
    pub fn into_text(self) -> String {
        match self {
            Self::Whole(text) | Self::VersionAlone(text) => text,
        }
    }
}

/// Asks an nvcc, started with the variables of `env`; `None` where it can't be run.
///
/// A dry run tells version and directories in one start. It asks the host compiler for its
/// properties first; where there is none, `--version` still answers.
#[must_use]
pub fn ask_nvcc(nvcc: &Path, env: &Env) -> Option<Answer> {
    let dry = Invocation::new(nvcc)
        .args(["--dryrun", "-E", "-x", "cu", "/dev/null"])
        .run_with(env)
        .ok()?;
    if dry.success {
        return Some(Answer::Whole(dry.output));
    }
    let version = Invocation::new(nvcc)
        .args(["--version"])
        .run_with(env)
        .ok()?;
    Some(Answer::VersionAlone(version.output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_can_be_pasted() {
        let invocation = Invocation::new("/opt/my cuda/nvcc")
            .args(["-DX='1'", "a.cu", ""])
            .variable("A", "b c");
        assert_eq!(
            invocation.to_string(),
            r"A='b c' '/opt/my cuda/nvcc' '-DX='\''1'\''' a.cu ''"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Invocation::new("/nonexistent/nvcc")
            .run()
            .unwrap_err()
            .to_string();
        assert!(error.contains("/nonexistent/nvcc"), "{error}");
    }
}
