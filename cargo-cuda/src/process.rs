//! Runs other programs with this process's standard streams.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the file that starts programs"
)]

use std::process::Command;

use cuda_build::Env;
use cuda_build::command::Invocation;

use crate::exit_code;
use crate::failure::Failure;
use crate::session;

/// Runs a program to its end and returns its exit code; a signal counts as the shell has it,
/// 128 plus its number.
///
/// # Errors
/// Where it can't be started.
pub fn run(call: &Invocation) -> Result<u8, Failure> {
    let status = command(call)
        .status()
        .map_err(|error| cannot_start(call, &error))?;
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Ok(u8::try_from(128 + signal).unwrap_or(exit_code::FAILURE));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(exit_code::FAILURE))
}

/// Runs a program in this process's place and with its whole environment.
///
/// # Errors
/// Where it can't be started.
pub fn replace(call: &Invocation) -> Result<u8, Failure> {
    let mut command = Command::new(&call.program);
    command
        .args(&call.arguments)
        .envs(call.variables.iter().map(|(name, value)| (name, value)));
    #[cfg(unix)]
    let error = std::os::unix::process::CommandExt::exec(&mut command);
    #[cfg(not(unix))]
    let error = std::io::Error::from(std::io::ErrorKind::Unsupported);
    Err(cannot_start(call, &error))
}

/// What a program that answers a question printed on standard output; `None` if it fails, hangs or
/// cannot be started.
#[must_use]
pub fn output(call: &Invocation) -> Option<String> {
    let env = session::users_own(&Env::from_process());
    let finished = call.query_with(&env).ok()?;
    finished.success.then_some(finished.stdout)
}

/// This program, for cargo to call in front of rustc.
///
/// # Errors
/// Where the system does not tell.
pub fn own_program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::new(
            exit_code::FAILURE,
            format!("where this program lies is not known: {error}"),
        )
    })
}

fn command(call: &Invocation) -> Command {
    let mut command = Command::new(&call.program);
    // What a `cargo cuda` above this one has set is not the user's own.
    let process = Env::from_process();
    for (name, value) in session::restored(&process, &session::users_own(&process)) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .args(&call.arguments)
        .envs(call.variables.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &call.directory {
        command.current_dir(directory);
    }
    command
}

fn cannot_start(call: &Invocation, error: &std::io::Error) -> Failure {
    let program = call.program.display();
    Failure::new(
        exit_code::MISSING_PROGRAM,
        format!("could not run `{program}`: {error}"),
    )
}
