//! `cargo cuda build`, `run`, `test` and the like: run cargo with one toolkit, and with a target
//! directory for this toolkit.

use std::path::{Path, PathBuf};

use cuda_find_core::{command::Invocation, env::Env, root::Root};

use crate::cargo_arguments::{CargoOptions, SplitArguments};
use crate::failure::Failure;
use crate::isolated_build::{self, Build, Purpose};
use crate::missing_components::MissingComponents;
use crate::project::{BuildOptions, Project, WorkspaceOptions, WorkspaceUse};
use crate::{output, process};

const CARGO_FAILED: u8 = 101;

/// The exit code of a program whose libraries the loader does not find.
const LOADER_FAILED: u8 = 127;

const NO_DRIVER: &str = "note: this machine has no driver of NVIDIA's, so a program that links its library, \
                         libcuda.so.1, cannot start\n\
                         hint: to run tests that need no GPU on such a machine, load the driver when it is used: \
                         enable the crate's feature for that (cudarc: `dynamic-loading`), or use libloading";

/// Runs `cargo <command> <arguments>`, and returns its exit code with what it was run with.
pub fn run(
    options: &BuildOptions,
    arguments: &SplitArguments,
    user_env: &Env,
    root: &Root,
) -> Result<(u8, Build), Failure> {
    let command = arguments.command.as_str();
    let cargo = CargoOptions::parse(&arguments.for_cargo);
    let manifest_path = match command {
        "install" => cargo
            .value("--path")
            .map(|path| Path::new(&path).join("Cargo.toml")),
        _ => cargo.value("--manifest-path").map(PathBuf::from),
    };
    let target_directory = cargo.value("--target-dir").map(PathBuf::from);
    let workspace_options = WorkspaceOptions {
        target: cargo.value("--target"),
        workspace: match (command, &manifest_path) {
            // Without `--path`, cargo installs a program that does not belong to a local workspace.
            ("install", None) => WorkspaceUse::Ignored,
            _ => WorkspaceUse::Required,
        },
        manifest_path,
        cargo,
        ..WorkspaceOptions::default()
    };
    let project = Project::open(user_env, root, options, &workspace_options)?;
    let gpus = isolated_build::gpus();
    let prepare = |project: &Project| {
        Build::prepare(project, Purpose::Cargo, &gpus, target_directory.as_deref())
    };
    let mut build = prepare(&project)?;
    build.print_notes();
    let runs_programs = ["run", "test", "bench", "nextest"].contains(&command);
    let call = |build: &Build, words: &[&str]| {
        let directory = &build.directory.path;
        let mut call = Invocation::new(user_env.peek("CARGO").unwrap_or("cargo".as_ref()))
            .args(words)
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
        call
    };
    let has = |option: &str| arguments.for_cargo.iter().any(|given| given == option);
    // With `--fetch`, the command may run twice, but a program of the user must not. So what it needs is built first.
    let builds_first: &[&str] = match command {
        "run" if project.fetch => &["build"],
        "test" | "bench" if project.fetch && !has("--no-run") && !has("--doc") => {
            &[command, "--no-run"]
        }
        _ => &[],
    };
    // The exit code and what cargo wrote to standard error; empty if a program may have started, because a copied stream
    // is not in order with standard output.
    let run = |build: &Build| -> Result<(u8, String), Failure> {
        if !builds_first.is_empty() {
            let call = call(build, builds_first);
            let (code, messages) = process::run_with_messages(&call, user_env)?;
            if code != 0 {
                return Ok((code, messages));
            }
        }
        let call = call(build, &[command]).args(arguments.for_program.iter().cloned());
        let code = match command {
            _ if runs_programs => process::run_program(&call, user_env)?,
            // A browser that `--open` starts keeps the stream.
            "doc" => process::run(&call, user_env)?,
            _ => return process::run_with_messages(&call, user_env),
        };
        Ok((code, String::new()))
    };
    let (mut code, messages) = run(&build)?;
    let mut missing = MissingComponents::default();
    if code == CARGO_FAILED {
        missing = MissingComponents::of(&build, root, &messages);
    }
    // Without messages, it is not known whether the build has failed, or a program.
    if project.fetch
        && !(messages.is_empty() || missing.components.is_empty())
        && let Some(mut workspace) = project.workspace.clone()
    {
        let guesses = &mut workspace.dependencies.guesses;
        guesses.extend_from_slice(&missing.components);
        let with_missing = prepare(&Project {
            workspace: Some(workspace),
            ..project.clone()
        })?;
        let mut added: Vec<&str> = Vec::new();
        for guess in &missing.components {
            let found = with_missing.toolkit.get(guess.component);
            added.extend(found.map(|_| guess.component.id()));
        }
        if !added.is_empty() {
            let text = format!("`cargo {command}` with {}", added.join(", "));
            output::status("Retrying", &text);
            build = with_missing;
            let retried = run(&build)?;
            code = retried.0;
            missing = MissingComponents::of(&build, root, &retried.1);
        }
    }
    let directory = &build.directory.path;
    if code == LOADER_FAILED && runs_programs && !isolated_build::has_driver() {
        output::message(NO_DRIVER);
    } else if code == CARGO_FAILED {
        for hint in missing.hints {
            output::message(&format!("hint: {hint}"));
        }
    } else if code == 0 && command == "build" {
        let current = std::env::current_dir().unwrap_or_default();
        let shown = directory.strip_prefix(current).unwrap_or(directory);
        let text = format!("{} (CUDA {})", shown.display(), build.toolkit.version());
        output::status("Result in", &text);
    }
    Ok((code, build))
}
