//! This program in front of rustc.
//!
//! rustc itself reads the static libraries of a library crate, and only from directories that it
//! gets with `-L`: `LIBRARY_PATH` is the linker's. A wrapper adds these directories without
//! touching the user's rustflags, of which Cargo reads one place and ignores the others. For
//! wheels it does more: see [`crate::wheel::reproducible`].
#![allow(
    clippy::disallowed_methods,
    reason = "this file runs rustc in this process's place"
)]
#![allow(
    clippy::print_stderr,
    reason = "cargo shows what a compiler says there"
)]

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use cuda_build::internal::Env;

use crate::build::Build;
use crate::cargo_config::Configured;
use crate::failure::Failure;
use crate::process;
use crate::wheel::reproducible::{self, Scope};

/// The directories in which rustc looks for libraries.
pub fn search(build: &Build) -> Vec<PathBuf> {
    let mut search = vec![build.view.lib()];
    if !build.target.is_native() {
        // A cross linker does not read LIBRARY_PATH.
        search.push(build.view.stubs());
    }
    search
}

/// The variables that put this program in front of rustc.
///
/// A wrapper of the user's own (sccache) is left in its place: the `cc` crate looks for its name.
/// Then static libraries are found only if their build script names their directory.
///
/// # Errors
/// If the path of this program is not known.
pub fn variables(
    build: &Build,
    config: &Configured,
    env: &Env,
) -> Result<Vec<(String, OsString)>, Failure> {
    let is_set = |name: &str| env.peek(name).is_some();
    let has_own = is_set("RUSTC_WRAPPER")
        || is_set("CARGO_BUILD_RUSTC_WRAPPER")
        || config
            .wrapper
            .as_ref()
            .is_some_and(|own| !own.as_os_str().is_empty());
    if has_own && build.target.is_native() {
        return Ok(Vec::new());
    }
    let program = process::own_program()?;
    let wrapper = config.wrapper.as_deref();
    Ok(reproducible::environment(
        &program,
        Scope::Search,
        &search(build),
        wrapper,
        env,
    ))
}

/// Runs rustc in place of this process if cargo has called this program as its wrapper; returns
/// `None` for any other call.
#[must_use]
pub fn run(arguments: &[OsString]) -> Option<ExitCode> {
    let env = Env::from_process();
    let current = std::env::current_dir().unwrap_or_default();
    let command = reproducible::wrapped(arguments, &env, &current)?;
    let (program, arguments) = command.split_first()?;
    let error = Command::new(program).args(arguments).exec();
    eprintln!(
        "error: could not run `{}`: {error}",
        program.to_string_lossy()
    );
    Some(ExitCode::from(101))
}
