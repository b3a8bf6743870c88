//! `cargo cuda env` and `cargo cuda exec`: the variables, for a shell or for one program.

use std::ffi::OsString;

use clap::Args;
use cuda_build::internal::command::Invocation;
use cuda_build::internal::{Env, Root};
use serde::Serialize;

use crate::build::{Build, Purpose, Request};
use crate::cargo_config::Configured;
use crate::environment::Setting;
use crate::failure::Failure;
use crate::options::{BuildOptions, WorkspaceOptions};
use crate::report;
use crate::shell::{self, Shell};
use crate::{output, previous, process};

/// Why a variable is removed.
const REMOVED: &str = "set by an earlier `cargo cuda env`, and not by this one";

/// Print the variables in which crates and build tools look for CUDA
///
/// Editors, makefiles and other build tools then find what `cargo cuda build` finds:
///   eval "$(cargo cuda env)"
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment)]
pub struct EnvArgs {
    /// The shell whose syntax is written
    #[arg(long, value_enum, default_value_t)]
    shell: Shell,
    /// Write JSON
    #[arg(long, conflicts_with = "shell")]
    json: bool,
    #[command(flatten)]
    build: BuildOptions,
    #[command(flatten)]
    workspace: WorkspaceOptions,
}

/// Run a program with the variables in which crates and build tools look for CUDA
#[derive(Args, Clone, Debug)]
pub struct ExecArgs {
    #[command(flatten)]
    build: BuildOptions,
    #[command(flatten)]
    workspace: WorkspaceOptions,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// The report of `env --json`.
#[derive(Serialize)]
struct Report {
    variables: Vec<Variable>,
    notes: Vec<String>,
}

/// A variable; without a value it is removed.
#[derive(Serialize)]
struct Variable {
    name: String,
    value: Option<String>,
    meaning: &'static str,
}

/// Returns the text for standard output.
///
/// # Errors
/// If no toolkit is found.
pub fn print(arguments: &EnvArgs, process: &Env, root: &Root) -> Result<String, Failure> {
    let user = previous::without_requests(process);
    let (mut settings, mut notes) = settings(&arguments.build, &arguments.workspace, &user, root)?;
    let mut removed = Vec::new();
    for (name, value) in previous::removed(process, &user) {
        let Some(name) = name.to_str() else { continue };
        match value {
            _ if settings.iter().any(|setting| setting.name == name) => {}
            Some(value) => settings.push(Setting {
                name: name.to_owned(),
                value: value.to_owned(),
                meaning: "as it was before an earlier `cargo cuda env`",
            }),
            None => removed.push(name.to_owned()),
        }
    }
    // A shell would run what a name contains besides.
    let is_name = |name: &str| shell::is_name(name);
    let refused = settings.iter().map(|setting| &setting.name).chain(&removed);
    notes.extend(
        refused
            .filter(|name| !is_name(name))
            .map(|name| format!("warning: {name:?} is not a name of a variable, and is left out")),
    );
    settings.retain(|setting| is_name(&setting.name));
    removed.retain(|name| is_name(name));
    if arguments.json {
        let mut variables = Vec::new();
        for Setting {
            name,
            value,
            meaning,
        } in settings
        {
            match value.into_string() {
                Ok(value) => variables.push(Variable {
                    name,
                    value: Some(value),
                    meaning,
                }),
                Err(_) => notes.push(format!(
                    "warning: {name} is left out: its value is not UTF-8, and JSON cannot hold it"
                )),
            }
        }
        variables.extend(removed.into_iter().map(|name| Variable {
            name,
            value: None,
            meaning: REMOVED,
        }));
        notes.iter().for_each(|note| output::say(note));
        return Ok(report::json(&Report { variables, notes }));
    }
    notes.iter().for_each(|note| output::say(note));
    let shell = arguments.shell;
    let mut text = String::new();
    for setting in &settings {
        let line = shell.set(&setting.name, &setting.value);
        text.push_str(&format!("# {}\n{line}\n", setting.meaning));
    }
    for name in &removed {
        text.push_str(&format!("# {REMOVED}\n{}\n", shell.unset(name)));
    }
    Ok(text)
}

/// Runs the program in place of this one.
///
/// # Errors
/// If no toolkit is found, or the program cannot be started.
pub fn exec(arguments: &ExecArgs, user: &Env, root: &Root) -> Result<u8, Failure> {
    let (settings, notes) = settings(&arguments.build, &arguments.workspace, user, root)?;
    notes.iter().for_each(|note| output::say(note));
    let mut command = arguments.command.iter().cloned();
    let mut call = Invocation::new(command.next().unwrap_or_default()).args(command);
    for setting in settings {
        call = call.variable(&setting.name, setting.value);
    }
    process::replace(&call, user)
}

fn settings(
    options: &BuildOptions,
    which: &WorkspaceOptions,
    user: &Env,
    root: &Root,
) -> Result<(Vec<Setting>, Vec<String>), Failure> {
    let config = Configured::here(root, user, &[]);
    let env = &options.over(config.over(user));
    let workspace = which.load(root, env)?;
    let build = Build::prepare(&Request {
        env,
        root,
        workspace: workspace.as_ref(),
        config: &config,
        triple: which.target.as_deref(),
        fetch: options.search.fetch,
        package: which.package.as_deref(),
        target_directory: None,
        purpose: Purpose::Program,
    })?;
    let mut settings = build.settings;
    // Cargo alone reads its `[env]`. Other programs get what is set there in place of a variable of
    // ours, and what configures nvcc and cuda-build.
    for (name, value) in env.variables() {
        let Some(name) = name.to_str() else { continue };
        let is_kept = build.kept.iter().any(|kept| kept == name);
        let is_about_cuda = name.starts_with("CUDA") || name.starts_with("NVCC");
        if (is_kept || is_about_cuda)
            && user.peek(name) != Some(value)
            && settings.iter().all(|setting| setting.name != name)
        {
            settings.push(Setting {
                name: name.to_owned(),
                value: value.to_owned(),
                meaning: "from `[env]` of Cargo's configuration",
            });
        }
    }
    settings.push(previous::record(&settings, user));
    Ok((settings, build.notes))
}
