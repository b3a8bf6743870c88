//! Runs other programs with this process's standard streams.
#![allow(clippy::disallowed_methods, reason = "this is the file that starts programs")]

use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

use crate::exit_code;
use crate::failure::Failure;

/// A program, its arguments, and variables to set on top of the inherited ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What to run.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables to set.
    pub variables: Vec<(String, OsString)>,
}

impl Call {
    /// A program without arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { program: program.as_ref().to_owned(), arguments: Vec::new(), variables: Vec::new() }
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Runs a program to its end and returns its exit code; a signal counts as the shell has it,
/// 128 plus its number.
///
/// # Errors
/// Where it can't be started.
pub fn run(call: &Call) -> Result<u8, Failure> {
    let status = call.command().status().map_err(|error| cannot_start(call, &error))?;
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Ok(u8::try_from(128 + signal).unwrap_or(exit_code::FAILURE));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(exit_code::FAILURE))
}

/// What a program printed on standard output; `None` where it failed or can't be started.
#[must_use]
pub fn output(call: &Call) -> Option<String> {
    let output = call.command().stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// This program, for cargo to call in front of rustc.
///
/// # Errors
/// Where the system does not tell.
pub fn own_program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::new(exit_code::FAILURE, format!("where this program lies is not known: {error}"))
    })
}

fn cannot_start(call: &Call, error: &std::io::Error) -> Failure {
    let program = call.program.to_string_lossy();
    Failure::new(exit_code::MISSING_PROGRAM, format!("could not run `{program}`: {error}"))
}
