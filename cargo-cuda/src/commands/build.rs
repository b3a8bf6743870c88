//! `cargo cuda build`, `run`, `test` and the like: run cargo with one toolkit, and with a target
//! directory for this toolkit.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cuda_build::internal::command::Invocation;
use cuda_build::internal::{Env, Root};

use crate::build::{self, Build, LoaderPath, Purpose};
use crate::cargo_arguments::{Options, SplitArguments};
use crate::failure::Failure;
use crate::project::{BuildOptions, Project, WorkspaceOptions, WorkspaceUse};
use crate::rustc_wrapper::{self, Scope};
use crate::{lacking, output, process};

const CARGO_FAILED: u8 = 101;

/// The exit code of the loader if it finds a library that a program needs nowhere.
const LOADER_FAILED: u8 = 127;

/// Runs `cargo <command> <arguments>` and returns its exit code.
pub fn run(
    options: &BuildOptions,
    arguments: &SplitArguments,
    user: &Env,
    root: &Root,
) -> Result<u8, Failure> {
    let command = arguments.command.as_str();
    let cargos = arguments.cargos.as_slice();
    let cargo = Options::parse(cargos);
    let manifest_path = match command {
        "install" => cargo
            .value("--path")
            .map(|path| Path::new(&path).join("Cargo.toml")),
        _ => cargo.value("--manifest-path").map(PathBuf::from),
    };
    let which = WorkspaceOptions {
        package: None,
        target: cargo.value("--target"),
        cargo: cargo.clone(),
        workspace: match (command, &manifest_path) {
            // Without `--path`, cargo installs a program that does not belong to a local workspace.
            ("install", None) => WorkspaceUse::Ignored,
            _ => WorkspaceUse::Required,
        },
        manifest_path,
        ..WorkspaceOptions::default()
    };
    let project = Project::open(user, root, options, &which)?;
    let target_directory = cargo.value("--target-dir").map(PathBuf::from);
    let gpus = build::gpus();
    let build = Build::prepare(&project, Purpose::Cargo, &gpus, target_directory.as_deref())?;
    build.print_notes(root)?;
    let directory = &build.directory.path;
    let program = user.peek("CARGO").unwrap_or("cargo".as_ref());
    let mut call = Invocation::new(program)
        .args([command])
        .args(cargos.iter().cloned());
    if target_directory.is_none() && command != "nextest" {
        call = call.args(["--target-dir".as_ref(), directory.as_os_str()]);
    }
    if project.has_separate_build_directory() {
        let text = toml::Value::String(directory.to_string_lossy().into_owned());
        call = call.args(["--config".to_owned(), format!("build.build-dir={text}")]);
    }
    let loader = match command {
        "run" | "test" | "bench" | "nextest" => LoaderPath::Set,
        _ => LoaderPath::Unset,
    };
    call.variables = build.variables(loader, user);
    if command == "nextest" {
        // Only some nextest commands accept `--target-dir`.
        call = call.variable("CARGO_TARGET_DIR", directory);
    }
    for (name, value) in rustc_wrapper::variables(&project, &build, Scope::Search)? {
        call = call.variable(&name, value);
    }
    let call = call.args(arguments.programs.iter().cloned());
    let runs_programs = loader == LoaderPath::Set;
    let began = SystemTime::now();
    let code = match runs_programs {
        true => process::run_program(&call, user)?,
        false => process::run(&call, user)?,
    };
    if code == LOADER_FAILED && runs_programs && !build::has_driver() {
        lacking::driver_hint(root, directory)
            .iter()
            .for_each(|hint| output::message(hint));
    } else if code == CARGO_FAILED {
        for hint in lacking::hints(&build, &project, began) {
            output::message(&format!("hint: {hint}"));
        }
    } else if code == 0 && command == "build" {
        let text = format!("{} (CUDA {})", shown(directory), build.toolkit.version());
        output::status("Result in", &text);
    }
    Ok(code)
}

/// The path as a message shows it: a path below the current directory is relative.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here)
        .unwrap_or(path)
        .display()
        .to_string()
}
