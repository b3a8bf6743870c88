//! `cargo cuda develop`: installs the Python package into the active environment, in editable mode.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use cuda_build::internal::command::Invocation;
use cuda_build::internal::{Env, Root};

use crate::exit_code;
use crate::failure::Failure;
use crate::process;
use crate::project::SearchOptions;
use crate::wheel::backend;
use crate::wheel::build_system::BuildSystem;
use crate::wheel::source::{Choice, Source};

/// Install the Python package into the active environment, in editable mode
#[derive(Args, Clone, Debug)]
pub struct DevelopArgs {
    #[command(flatten)]
    search: SearchOptions,
    /// Arguments for uv or pip, after `--`
    #[arg(last = true)]
    passthrough: Vec<OsString>,
}

/// Replaces this process with the installer.
pub fn run(arguments: &DevelopArgs, user: &Env, root: &Root) -> Result<u8, Failure> {
    let environment = active_environment(user, root)?;
    let choice = Choice {
        build: arguments.search.clone().into(),
        ..Choice::default()
    };
    let source = Source::open(&choice, user, root)?;
    source.project.check_not_skipped()?;
    let pyproject = source.pyproject.as_ref().ok_or_else(no_backend)?;
    let directory = &pyproject.directory;
    let build_system = BuildSystem::read(root, directory);
    if build_system.backend_file(root, directory).is_none() {
        return Err(no_backend());
    }
    // The toolkit is found, or fetched, before the installer starts, because installers do not show warnings of a
    // build backend.
    source.project.finder().find()?;
    let python = environment.join("bin/python");
    let site = backend::site_packages(&python, user).ok_or_else(|| {
        let text = format!("{} did not print its site-packages", python.display());
        Failure::new(exit_code::FAILURE, text).hint(format!(
            "run `{} -m site`; if it fails, make the environment again",
            python.display()
        ))
    })?;
    let name = build_system.name().unwrap_or(&source.package.name);
    let (call, setting) = installer(&environment, name, user, root)?;
    let mut call = call.args(["--editable".as_ref(), directory.as_os_str()]);
    let mut settings = vec![format!("site-packages={}", site.display())];
    settings.extend(
        arguments
            .search
            .cuda
            .map(|release| format!("cuda={release}")),
    );
    for value in settings {
        call = call.args([setting.to_owned(), value]);
    }
    // The build backend calls the program of this name on `PATH`.
    let own = process::own_program()?;
    let own = own.parent().unwrap_or(Path::new("")).to_owned();
    let path = std::iter::once(own).chain(user.search_path());
    let path = std::env::join_paths(path).unwrap_or_default();
    let call = call
        .args(arguments.passthrough.iter().cloned())
        .variable("PATH", path);
    process::replace(&call, user)
}

/// The directory of the active environment.
fn active_environment(user: &Env, root: &Root) -> Result<PathBuf, Failure> {
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let Some(directory) = user.peek(name).filter(|value| !value.is_empty()) else {
            continue;
        };
        let directory = PathBuf::from(directory);
        if root.is_file(&directory.join("bin/python")) {
            return Ok(directory);
        }
        let text = format!(
            "`{name}` is {}, which has no `bin/python`",
            directory.display()
        );
        return Err(Failure::new(exit_code::CONFIGURATION, text).hint(format!(
            "activate an environment that exists, or unset `{name}`"
        )));
    }
    Err(Failure::new(
        exit_code::CONFIGURATION,
        "no Python environment is active: neither `VIRTUAL_ENV` nor `CONDA_PREFIX` is set",
    )
    .hint("run `python3 -m venv .venv && . .venv/bin/activate`, or activate an environment that you have"))
}

fn no_backend() -> Failure {
    Failure::new(
        exit_code::CONFIGURATION,
        "pyproject.toml names no build backend in the source tree, so an installer would not call `cargo cuda`",
    )
    .hint(
        "copy `cuda_backend.py` from a package that `cargo cuda new --template python` makes, and write below `[build-system]`:\n\
         build-backend = \"cuda_backend\"\nbackend-path = [\".\"]",
    )
}

/// The command that installs the package `name` into an environment, and its option for config settings: uv if uv has
/// made the environment, otherwise the environment's pip, otherwise uv.
fn installer(
    environment: &Path,
    name: &str,
    user: &Env,
    root: &Root,
) -> Result<(Invocation, &'static str), Failure> {
    let python = environment.join("bin/python");
    let config = root.text(&environment.join("pyvenv.cfg"));
    let is_of_uv = config.is_ok_and(|text| text.lines().any(|line| line.starts_with("uv =")));
    let pip = Invocation::new(&python).args(["-m", "pip"]);
    let has_pip = || process::output(&pip.clone().args(["--version"]), user).is_some();
    let uv = process::on_path(user, "uv");
    if let Some(uv) = uv.filter(|_| is_of_uv || !has_pip()) {
        let call = Invocation::new(uv).args(["pip", "install", "--python"]);
        // Without this, uv would not build the package again after a change of a file that `cache-keys` does not list.
        let call = call.args([
            python.as_os_str(),
            "--reinstall-package".as_ref(),
            name.as_ref(),
        ]);
        return Ok((call, "--config-setting"));
    }
    if has_pip() {
        return Ok((pip.args(["install"]), "--config-settings"));
    }
    let text = format!(
        "{} has no pip, and uv is not on `PATH`",
        environment.display()
    );
    Err(Failure::new(exit_code::NO_INSTALLER, text).hint(format!(
        "install uv, or run `{} -m ensurepip`",
        python.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_environment_nothing_is_installed() {
        let root = Root::system();
        let failed = |pairs: &[(&str, &str)]| {
            let env = Env::from_pairs(pairs.iter().copied());
            active_environment(&env, &root).unwrap_err()
        };
        for pairs in [&[][..], &[("VIRTUAL_ENV", "")]] {
            let error = failed(pairs);
            assert!(error.message.contains("no Python environment is active"));
            assert!(error.hints[0].contains("-m venv"), "{error}");
        }
        let error = failed(&[("VIRTUAL_ENV", "/removed"), ("CONDA_PREFIX", "/")]);
        assert!(error.message.contains("`VIRTUAL_ENV` is /removed"));
    }
}
