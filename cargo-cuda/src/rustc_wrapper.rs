//! This program in front of rustc: see [`crate::wheel::reproducible`].
#![allow(
    clippy::disallowed_methods,
    reason = "this file runs rustc in this process's place"
)]
#![allow(
    clippy::print_stderr,
    reason = "cargo shows what a compiler says there"
)]

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use cuda_build::Env;

use crate::wheel::reproducible;

/// Runs rustc where cargo called this program as its wrapper, and returns rustc's exit code;
/// nothing where this is any other call. To be asked first in `main`.
#[must_use]
pub fn run(arguments: &[OsString]) -> Option<ExitCode> {
    let env = Env::from_process();
    let current = std::env::current_dir().unwrap_or_default();
    let command = reproducible::wrapped(arguments, &env, &current)?;
    let (program, arguments) = command.split_first()?;
    match Command::new(program).args(arguments).status() {
        Ok(status) => {
            // A compiler that a signal ended has no code.
            let code = status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(101);
            Some(ExitCode::from(code))
        }
        Err(error) => {
            eprintln!(
                "error: could not run `{}`: {error}",
                program.to_string_lossy()
            );
            Some(ExitCode::from(101))
        }
    }
}
