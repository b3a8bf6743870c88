//! `cargo cuda develop`: installs the Python package into the active environment, in editable mode.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use cuda_find_core::{command::Invocation, env::Env, root::Root};

use crate::failure::{Failure, Result};
use crate::package::metadata::{file_name_component, normalized_name};
use crate::process;
use crate::project::{SearchOptions, WorkspaceOptions};
use crate::wheel::backend;
use crate::wheel::source::WheelSource;

/// Install the Python package into the active environment, in editable mode
#[derive(Args, Clone, Debug)]
pub struct DevelopArgs {
    #[command(flatten)]
    search: SearchOptions,
    /// The package to install; by default the one in the current directory
    #[arg(long, short, value_name = "NAME")]
    package: Option<String>,
    /// The manifest of the package
    #[arg(long, value_name = "Cargo.toml")]
    manifest_path: Option<PathBuf>,
    /// Arguments for uv or pip, after `--`
    #[arg(last = true)]
    passthrough: Vec<OsString>,
}

/// Replaces this process with the installer.
pub fn run(arguments: &DevelopArgs, user_env: &Env, root: &Root) -> Result<u8> {
    let python = active_environment(user_env)?.join("bin/python");
    let site = backend::site_packages(&python, user_env).ok_or_else(|| {
        let python = python.display();
        let text = format!("{python} did not print its site-packages");
        Failure::configuration(text).hint(format!(
            "run `{python} -m site`; if it fails, make the environment again, or activate another one"
        ))
    })?;
    let options = arguments.search.clone().into();
    let which = WorkspaceOptions {
        package: arguments.package.clone(),
        manifest_path: arguments.manifest_path.clone(),
        ..WorkspaceOptions::default()
    };
    let source = WheelSource::open(&which, &options, &[], user_env, root)?;
    source.project.check_not_skipped()?;
    let mut pyproject = source.pyproject.iter();
    let pyproject = pyproject.find(|it| it.backend_file(root).is_some());
    let pyproject = pyproject.ok_or_else(no_backend)?;
    // The toolkit is found, or fetched, before the installer starts, because installers do not show warnings of a
    // build backend.
    source.project.finder().find()?;
    let name = pyproject.name().unwrap_or(&source.package.name);
    check_no_wheel(&site, name, root)?;
    let (call, setting) = installer(&python, name, user_env)?;
    let mut call = call.args(["--editable".as_ref(), pyproject.directory.as_os_str()]);
    call = call.args([setting, &format!("site-packages={}", site.display())]);
    if let Some(release) = arguments.search.cuda {
        call = call.args([setting, &format!("cuda={release}")]);
    }
    call = call.args(arguments.passthrough.iter().cloned());
    // The build backend calls `cargo-cuda` on `PATH`.
    let mut path = user_env.search_path();
    let program = std::env::current_exe().unwrap_or_default();
    path.splice(0..0, program.parent().map(PathBuf::from));
    // If this program's directory contains `:`, no `PATH` can name it.
    if let Ok(path) = std::env::join_paths(path) {
        call = call.variable("PATH", path);
    }
    process::replace(&call, user_env)
}

/// The directory of the active environment.
fn active_environment(user_env: &Env) -> Result<PathBuf> {
    let conda = user_env.peek("CONDA_PREFIX");
    let directory = user_env.peek("VIRTUAL_ENV").or(conda);
    directory.map(PathBuf::from).ok_or_else(|| {
        let text = "no Python environment is active: neither `VIRTUAL_ENV` nor `CONDA_PREFIX` is set";
        Failure::configuration(text)
            .hint("run `python3 -m venv .venv && . .venv/bin/activate`, or activate an environment that you have")
    })
}

/// Fails if the environment has the wheel of a CUDA major: its package would be imported instead of the source tree.
fn check_no_wheel(site: &Path, name: &str, root: &Root) -> Result<()> {
    let start = file_name_component(name) + "_cu";
    let mut installed = root.names(site).into_iter().filter_map(|entry| {
        let entry = entry.to_string_lossy().into_owned();
        let (distribution, _) = entry.strip_suffix(".dist-info")?.split_once('-')?;
        let major = distribution.strip_prefix(&start)?;
        let is_major = major.parse::<u32>().is_ok();
        is_major.then(|| normalized_name(distribution))
    });
    let Some(installed) = installed.next() else {
        return Ok(());
    };
    let text = format!(
        "{installed} is installed in {}, and Python would import it",
        site.display()
    );
    let hint = format!("uninstall it with pip or `uv pip uninstall {installed}`");
    Err(Failure::configuration(text).hint(hint))
}

fn no_backend() -> Failure {
    let text = "pyproject.toml names no build backend in the source tree, so an installer would not call `cargo cuda`";
    Failure::configuration(text).hint(
        "copy `cuda_backend.py` from a package that `cargo cuda new --template python` makes, and write below \
         `[build-system]`:\n\
         build-backend = \"cuda_backend\"\nbackend-path = [\".\"]",
    )
}

/// The command that installs the package `name` into an environment, and its option for config settings: the
/// environment's pip if it has one, otherwise uv.
fn installer(python: &Path, name: &str, user_env: &Env) -> Result<(Invocation, &'static str)> {
    let pip = Invocation::new(python).args(["-m", "pip"]);
    if process::stdout_of(&pip.clone().args(["--version"]), user_env).is_some() {
        return Ok((pip.args(["install"]), "--config-settings"));
    }
    let uv = process::on_path(user_env, "uv").ok_or_else(|| {
        let python = python.display();
        let text = format!("{python} has no pip, and uv is not on `PATH`");
        Failure::no_installer(text).hint(format!("install uv, or run `{python} -m ensurepip`"))
    })?;
    let call = Invocation::new(uv).args(["pip", "install", "--python"]);
    // Without this, uv would not build the package again after a change of a file that `cache-keys` does not list.
    let call = call.args([python]).args(["--reinstall-package", name]);
    Ok((call, "--config-setting"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_environment_nothing_is_installed() {
        for (pairs, expected) in [
            (&[][..], "no Python environment is active"),
            (&[("VIRTUAL_ENV", "")], "no Python environment is active"),
            (
                &[("VIRTUAL_ENV", "/removed"), ("CONDA_PREFIX", "/")],
                "/removed/bin/python did not print",
            ),
        ] {
            let arguments = DevelopArgs {
                search: SearchOptions::default(),
                package: None,
                manifest_path: None,
                passthrough: Vec::new(),
            };
            let env = Env::from_pairs(pairs.iter().copied());
            let error = run(&arguments, &env, &Root::system()).unwrap_err();
            assert!(error.message.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_wheel_of_a_major_is_not_overlaid() {
        let site = tempfile::tempdir().unwrap();
        let check = || check_no_wheel(site.path(), "My.Saxpy", &Root::system());
        for name in [
            "my_saxpy-1.0.dist-info",
            "my_saxpy_cuda-1.0.dist-info",
            "my_saxpy_cu13",
        ] {
            std::fs::create_dir(site.path().join(name)).unwrap();
        }
        assert!(check().is_ok());
        std::fs::create_dir(site.path().join("my_saxpy_cu13-1.0.dist-info")).unwrap();
        let error = check().unwrap_err();
        assert!(
            error.message.starts_with("my-saxpy-cu13 is installed in"),
            "{error}"
        );
        assert_eq!(
            error.hints,
            ["uninstall it with pip or `uv pip uninstall my-saxpy-cu13`"]
        );
    }
}
