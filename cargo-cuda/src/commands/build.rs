//! `cargo cuda build`, `run`, `test` and the like: run cargo with one toolkit, in a target directory of their own.

use std::path::{Path, PathBuf};

use cuda_build::diagnosis::Diagnosis;
use cuda_find_core::{command::Invocation, env::Env, root::Root};

use crate::cargo_arguments::{CargoOptions, SplitArguments};
use crate::dependencies::Guess;
use crate::diagnosis::diagnose;
use crate::failure::Result;
use crate::isolated_build::{self, IsolatedBuild, Purpose};
use crate::output::joined;
use crate::project::{BuildOptions, Project, WorkspaceOptions, WorkspaceUse};
use crate::{output, process};

const CARGO_FAILED: u8 = 101;

/// The exit code of a program whose libraries the loader does not find.
const LOADER_FAILED: u8 = 127;

const NO_DRIVER: &str = "note: if the missing library is libcuda.so.1: it comes with NVIDIA's driver, which this \
                         machine does not have\n\
                         hint: to run tests that need no GPU on such a machine, load the driver when it is used: \
                         enable the crate's feature for that (cudarc: `dynamic-loading`), or use libloading";

/// One of cargo's commands, which may run twice.
struct CargoRun<'a> {
    arguments: &'a SplitArguments,
    user_env: &'a Env,
    project: &'a Project,
    cargo: &'a CargoOptions,
    /// The value of `--target-dir`.
    target_directory: Option<&'a Path>,
}

/// Runs `cargo <command> <arguments>`, and returns its exit code with what it was run with.
pub fn run(
    options: &BuildOptions,
    arguments: &SplitArguments,
    user_env: &Env,
    root: &Root,
) -> Result<(u8, IsolatedBuild)> {
    let command = arguments.command.as_str();
    let cargo = CargoOptions::parse(&arguments.for_cargo);
    let target_directory = cargo.value("--target-dir").map(PathBuf::from);
    let manifest_path = match (command, cargo.value("--path")) {
        ("install", path) => path.map(|path| Path::new(&path).join("Cargo.toml")),
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
        cargo,
        ..WorkspaceOptions::default()
    };
    let project = Project::open(user_env, root, options, &workspace_options)?;
    let cargo_run = CargoRun {
        arguments,
        user_env,
        project: &project,
        cargo: &workspace_options.cargo,
        target_directory: target_directory.as_deref(),
    };
    let gpus = isolated_build::gpus();
    let prepare = |project: &Project| {
        IsolatedBuild::prepare(project, Purpose::Cargo, &gpus, target_directory.as_deref())
    };
    let mut build = prepare(&project)?;
    build.print_notes();
    let mut _lock = build.enter(&project)?;
    let (mut code, mut messages) = cargo_run.run(&build)?;
    let diagnosed = |code: u8, build: &IsolatedBuild, messages: &str| match code {
        CARGO_FAILED => diagnose(&project, build, messages),
        _ => Diagnosis::default(),
    };
    let mut diagnosis = diagnosed(code, &build, &messages);
    let mut with_guesses = project.clone();
    // Each time with more components.
    while project.fetch
        && !diagnosis.missing.is_empty()
        && let Some(workspace) = &mut with_guesses.workspace
    {
        let missing = diagnosis.missing.drain(..);
        let missing = missing.map(|(component, reason)| Guess {
            component,
            reason,
            is_loaded: false,
        });
        let mut missing = Vec::from_iter(missing);
        workspace.dependencies.guesses.extend_from_slice(&missing);
        let with_missing = prepare(&with_guesses)?;
        missing.retain(|guess| with_missing.toolkit.get(guess.component).is_some());
        if missing.is_empty() {
            break;
        }
        let added = joined(missing.iter().map(|guess| guess.component), ", ");
        output::status("Retrying", &format!("`cargo {command}` with {added}"));
        build = with_missing;
        // A toolkit with more components has another record, so `enter` would wait for this lock.
        drop(_lock);
        _lock = build.enter(&project)?;
        (code, messages) = cargo_run.run(&build)?;
        diagnosis = diagnosed(code, &build, &messages);
    }
    if code == LOADER_FAILED && cargo_run.runs_programs() && !isolated_build::has_driver() {
        output::message(NO_DRIVER);
    } else if code == CARGO_FAILED {
        if let Some(hint) = diagnosis.hint {
            output::message(&format!("hint: {hint}"));
        }
    } else if code == 0 && command == "build" {
        let directory = &build.directory.path;
        let current = std::env::current_dir().unwrap_or_default();
        let shown = directory.strip_prefix(current).unwrap_or(directory);
        let text = format!("{} (CUDA {})", shown.display(), build.toolkit.version());
        output::status("Result in", &text);
    }
    Ok((code, build))
}

impl CargoRun<'_> {
    fn runs_programs(&self) -> bool {
        ["run", "test", "bench", "nextest"].contains(&self.arguments.command.as_str())
    }

    /// Runs the command. Returns the exit code and what cargo wrote to standard error while it built.
    fn run(&self, build: &IsolatedBuild) -> Result<(u8, String)> {
        let command = self.arguments.command.as_str();
        // With `--fetch`, the command may run twice, but a program of the user must not. So what it needs is built
        // first.
        if let Some(call) = self
            .call_that_only_builds(build)
            .filter(|_| self.project.fetch)
        {
            let (code, messages) = process::run_with_messages(&call, self.user_env)?;
            if code != 0 {
                return Ok((code, messages));
            }
        }
        let call = self.call(build, &[command]);
        let call = call.args(self.arguments.for_program.iter().cloned());
        let code = match command {
            _ if self.runs_programs() => process::run_program(&call, self.user_env)?,
            // A browser that `--open` starts keeps the stream.
            "doc" => process::run(&call, self.user_env)?,
            _ => return process::run_with_messages(&call, self.user_env),
        };
        let mut messages = String::new();
        if code == CARGO_FAILED
            && let Some(call) = self.call_that_only_builds(build)
        {
            // Either the build has failed, and fails again, or the program.
            messages = call
                .query(self.user_env)
                .map_or(messages, |finished| finished.stderr);
        }
        Ok((code, messages))
    }

    /// For a command that runs programs of the user, the call that only builds them.
    fn call_that_only_builds(&self, build: &IsolatedBuild) -> Option<Invocation> {
        match self.arguments.command.as_str() {
            "run" => Some(self.call(build, &["build"])),
            command @ ("test" | "bench") if !self.cargo.has(&["--no-run", "--doc"]) => {
                Some(self.call(build, &[command, "--no-run"]))
            }
            _ => None,
        }
    }

    /// The call of cargo whose first arguments are `words`.
    fn call(&self, build: &IsolatedBuild, words: &[&str]) -> Invocation {
        let directory = &build.directory.path;
        let mut call = process::cargo(self.user_env, words);
        call = call.args(self.arguments.for_cargo.iter().cloned());
        call.variables = match self.runs_programs() {
            true => build.variables.clone(),
            false => build.variables_without_loader_path(),
        };
        call.variables
            .push(build.rustflags(self.project, Vec::new()));
        if self.arguments.command == "nextest" {
            // Only some nextest commands accept `--target-dir`.
            call = call.variable("CARGO_TARGET_DIR", directory);
        } else if self.target_directory.is_none() {
            call = call.args(["--target-dir".as_ref(), directory.as_os_str()]);
        }
        if self.project.has_separate_build_directory() {
            // The user may have set this key with `--config`, which no variable overrides.
            let path = toml::Value::from(&*directory.to_string_lossy());
            call = call.args(["--config".to_owned(), format!("build.build-dir={path}")]);
        }
        call
    }
}
