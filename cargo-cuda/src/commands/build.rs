//! `cargo cuda build`, `run`, `test` and the like: run cargo with one toolkit, and with a target
//! directory for this toolkit.

use std::path::{Path, PathBuf};

use cuda_find::detail::{command::Invocation, env::Env, root::Root};

use crate::cargo_arguments::{CargoOptions, SplitArguments};
use crate::failure::Failure;
use crate::isolated_build::{self, Build, Purpose};
use crate::project::{BuildOptions, Project, WorkspaceOptions, WorkspaceUse};
use crate::{missing_libraries, output, process};

const CARGO_FAILED: u8 = 101;

/// The exit code of a program whose libraries the loader does not find.
const LOADER_FAILED: u8 = 127;

const NO_DRIVER: &str = "note: this machine has no driver of NVIDIA's, so a program that links its library, \
                         libcuda.so.1, cannot start\n\
                         hint: to run tests that need no GPU on such a machine, load the driver when it is used: \
                         enable the crate's feature for that (cudarc: `dynamic-loading`), or use libloading";

/// Runs `cargo <command> <arguments>` and returns its exit code.
pub fn run(
    options: &BuildOptions,
    arguments: &SplitArguments,
    user_env: &Env,
    root: &Root,
) -> Result<u8, Failure> {
    let command = arguments.command.as_str();
    let cargo = CargoOptions::parse(&arguments.for_cargo);
    let manifest_path = match command {
        "install" => cargo
            .value("--path")
            .map(|path| Path::new(&path).join("Cargo.toml")),
        _ => cargo.value("--manifest-path").map(PathBuf::from),
    };
    let workspace_options = WorkspaceOptions {
        target: cargo.value("--target"),
        workspace: match (command, &manifest_path) {
            // Without `--path`, cargo installs a program that does not belong to a local workspace.
            ("install", None) => WorkspaceUse::Ignored,
            _ => WorkspaceUse::Required,
        },
        manifest_path,
        ..WorkspaceOptions::default()
    };
    let target_directory = cargo.value("--target-dir").map(PathBuf::from);
    let workspace_options = WorkspaceOptions {
        cargo,
        ..workspace_options
    };
    let project = Project::open(user_env, root, options, &workspace_options)?;
    let gpus = isolated_build::gpus();
    let build = Build::prepare(&project, Purpose::Cargo, &gpus, target_directory.as_deref())?;
    build.print_notes();
    let directory = &build.directory.path;
    let runs_programs = ["run", "test", "bench", "nextest"].contains(&command);
    let mut call = Invocation::new(user_env.peek("CARGO").unwrap_or("cargo".as_ref()))
        .args([command])
        .args(arguments.for_cargo.iter().cloned());
    call.variables = match runs_programs {
        true => build.variables.clone(),
        false => build.variables_without_loader_path(),
    };
    call.variables.extend(build.rustflags(&project, Vec::new()));
    if command == "nextest" {
        // Only some nextest commands accept `--target-dir`.
        call = call.variable("CARGO_TARGET_DIR", directory);
    } else if target_directory.is_none() {
        call = call.args(["--target-dir".as_ref(), directory.as_os_str()]);
    }
    if project.has_separate_build_directory() {
        // The user may have set this key with `--config`, which no variable overrides.
        let path = toml::Value::from(&*directory.to_string_lossy());
        call = call.args(["--config".to_owned(), format!("build.build-dir={path}")]);
    }
    let call = call.args(arguments.for_program.iter().cloned());
    let code = match runs_programs {
        true => process::run_program(&call, user_env)?,
        false => process::run(&call, user_env)?,
    };
    if code == LOADER_FAILED && runs_programs && !isolated_build::has_driver() {
        output::message(NO_DRIVER);
    } else if code == CARGO_FAILED {
        for hint in missing_libraries::hints(&build, root) {
            output::message(&format!("hint: {hint}"));
        }
    } else if code == 0 && command == "build" {
        let current = std::env::current_dir().unwrap_or_default();
        let shown = directory.strip_prefix(current).unwrap_or(directory);
        let text = format!("{} (CUDA {})", shown.display(), build.toolkit.version());
        output::status("Result in", &text);
    }
    Ok(code)
}
