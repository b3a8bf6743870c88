//! `cargo cuda build`, `run`, `test` and the like: cargo in a directory of its own, with one
//! toolkit for everything in it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_build::internal::command::Invocation;
use cuda_build::internal::{Env, Root};

use crate::build::{Build, Purpose, Request};
use crate::cargo_arguments::{self, Kind, Split};
use crate::cargo_config::Configured;
use crate::environment::Setting;
use crate::failure::Failure;
use crate::options::BuildOptions;
use crate::workspace::{Query, Workspace};
use crate::{lacking, output, previous, process, rustc_wrapper};

/// Cargo's exit code if a build failed.
const CARGO_FAILED: u8 = 101;

/// Runs `cargo <command> <arguments>` and returns its exit code.
///
/// # Errors
/// If no toolkit is found, or cargo cannot be started.
pub fn run(
    command: &str,
    options: &BuildOptions,
    arguments: &Split,
    user: &Env,
    root: &Root,
) -> Result<u8, Failure> {
    let kind = Kind::of(command);
    let cargos = arguments.cargos.as_slice();
    let value = |name: &str| cargo_arguments::value_of(cargos, name);
    let configs: Vec<String> = cargo_arguments::values_of(cargos, "--config").collect();
    let config = Configured::here(root, user, &configs);
    let env = &options.over(config.over(user));
    let query = Query {
        manifest: manifest(kind, cargos),
        options: cargo_arguments::metadata_options(cargos),
        features: cargo_arguments::feature_options(cargos),
    };
    // A published program is in no workspace.
    let workspace = match (kind, &query.manifest) {
        (Kind::Install, None) => None,
        _ => Some(Workspace::load(root, env, &query)?),
    };
    let triple = value("--target");
    let target_directory = value("--target-dir").map(PathBuf::from);
    let build = Build::prepare(&Request {
        env,
        root,
        workspace: workspace.as_ref(),
        config: &config,
        triple: triple.as_deref(),
        fetch: options.search.fetch,
        package: None,
        target_directory: target_directory.as_deref(),
        purpose: Purpose::Cargo,
    })?;
    build.notes.iter().for_each(|note| output::say(note));
    let directory = &build.directory.path;
    let program = env.peek("CARGO").unwrap_or("cargo".as_ref());
    let mut call = Invocation::new(program)
        .args([command])
        .args(cargos.iter().cloned());
    if target_directory.is_none() && kind != Kind::Nextest {
        call = call.args(["--target-dir".as_ref(), directory.as_os_str()]);
    }
    if workspace.is_some_and(|workspace| workspace.has_build_directory) {
        let text = toml::Value::String(directory.to_string_lossy().into_owned());
        call = call.args(["--config".to_owned(), format!("build.build-dir={text}")]);
    }
    call = call.args(arguments.programs.iter().cloned());
    for Setting { name, value, .. } in settings(&build, kind, user) {
        call = call.variable(&name, value);
    }
    if kind == Kind::Nextest {
        // Only some of its commands have the option.
        call = call.variable("CARGO_TARGET_DIR", directory);
    }
    for (name, value) in rustc_wrapper::variables(&build, &config, user)? {
        call = call.variable(&name, value);
    }
    if kind.runs_programs() {
        return process::replace(&call, user);
    }
    let code = process::run(&call, user)?;
    if code == CARGO_FAILED {
        lacking::hints(&build)
            .iter()
            .for_each(|hint| output::say(&format!("hint: {hint}")));
    } else if code == 0 && command == "build" && !cargo_arguments::is_quiet(cargos) {
        let profile = cargo_arguments::profile_directory(cargos);
        let target = build.target_name.iter();
        let place = target.fold(directory.clone(), |path, target| path.join(target));
        output::say(&format!(
            "{:>12} {} (CUDA {})",
            "Result in",
            shown(&place.join(profile)),
            build.toolkit.version()
        ));
    }
    Ok(code)
}

/// The manifest that the arguments name.
fn manifest(kind: Kind, arguments: &[OsString]) -> Option<PathBuf> {
    let named = cargo_arguments::value_of(arguments, "--manifest-path").map(PathBuf::from);
    match kind {
        Kind::Install => cargo_arguments::value_of(arguments, "--path")
            .map(|path| Path::new(&path).join("Cargo.toml")),
        _ => named,
    }
}

/// The variables for cargo. A build that runs nothing needs no loader path.
fn settings(build: &Build, kind: Kind, user: &Env) -> Vec<Setting> {
    let mut settings: Vec<Setting> = match kind.runs_programs() {
        true => build.settings.clone(),
        false => build.settings_without_loader_path().cloned().collect(),
    };
    settings.push(previous::record(&settings, user));
    settings
}

/// A path below the current directory without that directory.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here)
        .unwrap_or(path)
        .display()
        .to_string()
}
