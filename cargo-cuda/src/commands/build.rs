//! `cargo cuda build`, `run`, `test` and the like: run cargo with one toolkit, in a target directory of their own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_build::diagnosis::Diagnosis;
use cuda_find_core::{command::Invocation, env::Env, root::Root};

use super::install::{self, InstalledPrograms};
use crate::cargo_arguments::{CargoOptions, SplitArguments, first_word, without};
use crate::dependencies::Guess;
use crate::diagnosis::diagnose;
use crate::failure::Result;
use crate::isolated_build::{self, IsolatedBuild, Purpose};
use crate::output::joined;
use crate::project::{BuildOptions, Project, WorkspaceOptions, WorkspaceUse};
use crate::{output, process, rustflags};

const CARGO_FAILED: u8 = 101;

/// The exit code of a program whose libraries the loader does not find.
const LOADER_FAILED: u8 = 127;

const NO_DRIVER: &str = "note: if the missing library is libcuda.so.1: it comes with NVIDIA's driver, which this \
                         machine does not have\n\
                         hint: to run tests that need no GPU on such a machine, load the driver when it is used: \
                         enable the crate's feature for that (cudarc: `dynamic-loading`), or use libloading";

/// One of cargo's commands, which may run again with more components.
struct CargoRun<'a> {
    arguments: &'a SplitArguments,
    user_env: &'a Env,
    project: &'a Project,
    cargo: &'a CargoOptions,
    /// The profile directories that the command fills with programs, libraries or documentation.
    profiles: &'a [PathBuf],
}

/// How a command of cargo has ended.
struct Ended {
    code: u8,
    /// What cargo wrote to standard error while it built; empty if the build succeeded and a program failed.
    messages: String,
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
    let installs_from_elsewhere =
        command == "install" && install::is_from_elsewhere(&arguments.for_cargo, &cargo);
    let mut of_this_call = None;
    let target_directory = match cargo.value("--target-dir") {
        Some(directory) => Some(PathBuf::from(directory)),
        None if installs_from_elsewhere => {
            let directory = of_this_call.insert(install::target_directory()?);
            Some(directory.path().to_owned())
        }
        None => None,
    };
    let arguments = &SplitArguments {
        for_cargo: without(&arguments.for_cargo, &["--target-dir"]),
        ..arguments.clone()
    };
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
        command: Some(command.to_owned()),
        cargo,
        ..WorkspaceOptions::default()
    };
    let project = Project::open(user_env, root, options, &workspace_options)?;
    let profiles = filled_directories(command, &workspace_options.cargo, &project);
    let cargo_run = CargoRun {
        arguments,
        user_env,
        project: &project,
        cargo: &workspace_options.cargo,
        profiles: &profiles,
    };
    let gpus = isolated_build::gpus();
    if installs_from_elsewhere {
        install::check_capabilities(&project, &gpus)?;
    }
    let installed = match command {
        "install" => InstalledPrograms::before(&project, &workspace_options.cargo),
        _ => None,
    };
    let prepare = |project: &Project| {
        IsolatedBuild::prepare(project, Purpose::Cargo, &gpus, target_directory.as_deref())
    };
    let mut build = prepare(&project)?;
    build.print_notes();
    build.directory.check_places(&profiles)?;
    build.enter(&project)?;
    let mut ended = cargo_run.run(&build)?;
    let diagnosed = |ended: &Ended, build: &IsolatedBuild| match ended.code {
        CARGO_FAILED => diagnose(&project, build, &ended.messages),
        _ => Diagnosis::default(),
    };
    let mut diagnosis = diagnosed(&ended, &build);
    let mut with_guesses = project.clone();
    // Each time with more components.
    while project.fetch && !diagnosis.missing.is_empty() {
        let missing = diagnosis.missing.drain(..);
        // The version of a header package has to be declared.
        let missing = missing.filter(|(component, _)| !component.facts().is_header_package());
        let missing = missing.map(|(component, reason)| Guess {
            component,
            reason,
            is_loaded: false,
        });
        let mut missing = Vec::from_iter(missing);
        with_guesses
            .needs
            .dependencies
            .guesses
            .extend_from_slice(&missing);
        let with_missing = prepare(&with_guesses)?;
        missing.retain(|guess| with_missing.toolkit.get(guess.component).is_some());
        if missing.is_empty() {
            break;
        }
        let added = joined(missing.iter().map(|guess| guess.component), ", ");
        output::status("Retrying", &format!("`cargo {command}` with {added}"));
        build = with_missing;
        build.enter(&project)?;
        ended = cargo_run.run(&build)?;
        diagnosis = diagnosed(&ended, &build);
    }
    let code = ended.code;
    if let Some(directory) = of_this_call
        && code != 0
    {
        install::keep_if_cargo_names_it(directory, &ended.messages);
    }
    if code == LOADER_FAILED && cargo_run.starts_programs() && !isolated_build::has_driver() {
        output::message(NO_DRIVER);
    } else if code == CARGO_FAILED {
        if let Some(hint) = diagnosis.hint {
            output::message(&format!("hint: {hint}"));
        }
    } else if code == 0 && command == "build" {
        let directory = &build.directory.base;
        let current = std::env::current_dir().unwrap_or_default();
        let shown = directory.strip_prefix(current).unwrap_or(directory);
        let text = format!("{} (CUDA {})", shown.display(), build.toolkit.version());
        output::status("Result in", &text);
    } else if let Some(installed) = installed.filter(|_| code == 0) {
        output::messages(&installed.notes(&project, &build));
    }
    Ok((code, build))
}

/// The profile directories in which a command leaves something for the user. `check`, `clippy` and tests do not.
fn filled_directories(command: &str, cargo: &CargoOptions, project: &Project) -> Vec<PathBuf> {
    match command {
        "build" | "run" | "rustc" => project.config.profile_directories(cargo, "dev"),
        "doc" => project.config.below_platforms(cargo, "doc"),
        _ => Vec::new(),
    }
}

/// The commands of nextest that build, and so accept cargo's options.
const BUILDING_COMMANDS_OF_NEXTEST: [&str; 6] = ["run", "r", "list", "l", "archive", "bench"];

/// With one of these options, nextest runs what was built before, and accepts no option of cargo.
const OPTIONS_OF_NEXTEST_FOR_BUILT_TESTS: [&str; 3] =
    ["--archive-file", "--binaries-metadata", "--cargo-metadata"];

/// Options of nextest about the run, which it refuses beside `--no-run`.
const OPTIONS_OF_NEXTEST_FOR_A_RUN: [&str; 5] = [
    "--fail-fast",
    "--no-fail-fast",
    "--max-fail",
    "--debugger",
    "--tracer",
];

impl CargoRun<'_> {
    fn command(&self) -> &str {
        self.arguments.command.as_str()
    }

    fn command_of_nextest(&self) -> Option<&str> {
        let is_nextest = self.command() == "nextest";
        first_word(&self.arguments.for_cargo).filter(|_| is_nextest)
    }

    /// Whether the command calls cargo to build: some commands of nextest do not.
    fn builds(&self) -> bool {
        let command = self.command_of_nextest();
        command.is_none_or(|command| BUILDING_COMMANDS_OF_NEXTEST.contains(&command))
            && !self.cargo.has(&OPTIONS_OF_NEXTEST_FOR_BUILT_TESTS)
    }

    fn starts_programs(&self) -> bool {
        let is_starting_command = match self.command() {
            "run" | "test" | "bench" => true,
            "nextest" => matches!(self.command_of_nextest(), Some("run" | "r" | "bench")),
            _ => false,
        };
        is_starting_command && !self.cargo.has(&["--no-run"])
    }

    /// Runs the command. If it starts programs of the user, these are built first by a call of their own: its messages
    /// are read, and that call alone has variables for build scripts that programs should not inherit.
    fn run(&self, build: &IsolatedBuild) -> Result<Ended> {
        if !self.starts_programs() {
            let (code, messages) = process::run_with_messages(&self.call(build), self.user_env)?;
            self.publish(build, code)?;
            return Ok(Ended { code, messages });
        }
        if let Some(building) = self.call_that_only_builds(build) {
            let (code, messages) = match self.command() {
                "nextest" => process::run_with_messages(&building, self.user_env)?,
                _ => process::run_before_program(&building, self.user_env)?,
            };
            if code != 0 {
                return Ok(Ended { code, messages });
            }
            self.publish(build, code)?;
        }
        let code = process::run_program(&self.call(build), self.user_env)?;
        // If there was a call that only builds, a program has failed.
        Ok(Ended {
            code,
            messages: String::new(),
        })
    }

    fn publish(&self, build: &IsolatedBuild, code: u8) -> Result<()> {
        match code {
            0 => build.directory.publish(self.profiles),
            _ => Ok(()),
        }
    }

    /// The call of cargo.
    fn call(&self, build: &IsolatedBuild) -> Invocation {
        let mut arguments = self.arguments.for_cargo.clone();
        let is_building = self.call_that_only_builds(build).is_some();
        let is_verbose = self.cargo.has(&["--cargo-verbose"]);
        if self.command() == "nextest" && self.starts_programs() && is_building && !is_verbose {
            // Cargo's messages were shown before. Given twice, the option hides all of them.
            arguments.extend(["--cargo-quiet", "--cargo-quiet"].map(Into::into));
        }
        let call = self.with_build(build, &[self.command()], arguments);
        call.args(self.arguments.for_program.iter().cloned())
    }

    /// For a command that starts programs of the user, the call that only builds them. `None` for documentation tests,
    /// which are compiled while they run.
    fn call_that_only_builds(&self, build: &IsolatedBuild) -> Option<Invocation> {
        let (words, option) = match self.command() {
            "run" => (&["build"][..], None),
            _ if self.cargo.has(&["--doc"]) || !self.builds() => return None,
            command @ ("test" | "bench") => (&[command, "--no-run"][..], None),
            command => (&[command][..], Some("--no-run")),
        };
        let mut arguments = without(&self.arguments.for_cargo, &["--message-format"]);
        if self.command() == "nextest" {
            arguments = without(&arguments, &OPTIONS_OF_NEXTEST_FOR_A_RUN);
        }
        arguments.extend(option.map(Into::into));
        Some(self.with_build(build, words, arguments))
    }

    /// A call of cargo whose first arguments are `words`, with everything that makes it use the build's toolkit.
    fn with_build(
        &self,
        build: &IsolatedBuild,
        words: &[&str],
        arguments: Vec<OsString>,
    ) -> Invocation {
        let directory = &build.directory.path;
        let mut call = process::cargo(self.user_env, words).args(arguments);
        call.variables.clone_from(&build.variables);
        if !self.builds() {
            return call;
        }
        let platforms = self.project.platforms(self.cargo);
        let (config, env) = (&self.project.config, &self.project.env);
        let added = rustflags::add(&build.search_flags(self.project), &platforms, config, env);
        call.variables.extend(added.variable);
        if self.project.workspace.is_none() {
            // Without a workspace, it is not known whether Cargo has this key. If not, it ignores the variable.
            let build_directory = ("CARGO_BUILD_BUILD_DIR".to_owned(), directory.into());
            call.variables.push(build_directory);
        }
        call = call.args(added.arguments);
        call.args(self.project.target_directory_arguments(directory))
    }
}
