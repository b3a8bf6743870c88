//! `cargo cuda env` and `cargo cuda exec`: the variables, for a shell or for one program.

use std::ffi::OsString;

use clap::Args;
use cuda_build::internal::command::Invocation;
use cuda_build::internal::{Env, Root};
use serde::{Serialize, Serializer};

use crate::build::{self, Build, Purpose};
use crate::environment::Setting;
use crate::failure::Failure;
use crate::project::{BuildOptions, Project, WorkspaceOptions};
use crate::report;
use crate::shell::{self, Shell};
use crate::{output, previous, process};

/// Print the variables in which build tools look for CUDA
#[derive(Args, Clone, Debug)]
pub struct EnvArgs {
    /// The shell whose syntax is used: bash (and zsh, sh), fish
    #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
    shell: Shell,
    /// Write JSON
    #[arg(long, conflicts_with = "shell")]
    json: bool,
    #[command(flatten)]
    build: BuildOptions,
    #[command(flatten)]
    workspace: WorkspaceOptions,
}

/// Run a program with these variables
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

#[derive(Serialize)]
struct Report {
    variables: Vec<Variable>,
    notes: Vec<String>,
}

/// A variable to set, or to unset if `value` is `None`.
#[derive(Serialize)]
struct Variable {
    name: String,
    #[serde(serialize_with = "as_text")]
    value: Option<OsString>,
    meaning: &'static str,
}

fn as_text<S: Serializer>(value: &Option<OsString>, serializer: S) -> Result<S::Ok, S::Error> {
    value
        .as_ref()
        .and_then(|v| v.to_str())
        .serialize(serializer)
}

pub fn print(arguments: &EnvArgs, process: &Env, root: &Root) -> Result<String, Failure> {
    let user = previous::without_previous_env_and_requests(process);
    let (settings, build) = settings(&arguments.build, &arguments.workspace, &user, root)?;
    let mut notes = build.notes;
    let mut variables: Vec<Variable> = settings
        .into_iter()
        .map(|setting| Variable {
            name: setting.name,
            value: Some(setting.value),
            meaning: setting.meaning,
        })
        .collect();
    for (name, value) in previous::removed(process, &user) {
        let Some(name) = name.to_str() else { continue };
        if variables.iter().all(|variable| variable.name != name) {
            variables.push(Variable {
                name: name.to_owned(),
                value: value.map(ToOwned::to_owned),
                meaning: match value {
                    Some(_) => "the value before an earlier `cargo cuda env`",
                    None => "set by an earlier `cargo cuda env`, no longer needed",
                },
            });
        }
    }
    variables.retain(|Variable { name, value, .. }| {
        // A name such as `A;rm x` contains a command, which a shell would run.
        let is_name = shell::is_name(name);
        if !is_name {
            notes.push(format!(
                "warning: {name:?} is not a valid variable name and is left out"
            ));
        }
        let is_text = value.as_ref().is_none_or(|value| value.to_str().is_some());
        if arguments.json && !is_text {
            notes.push(format!(
                "warning: {name} is left out: its value is not UTF-8, so JSON cannot contain it"
            ));
        }
        is_name && (is_text || !arguments.json)
    });
    output::messages(&notes);
    if arguments.json {
        return Ok(report::json(&Report { variables, notes }));
    }
    let line = |Variable {
                    name,
                    value,
                    meaning,
                }: &Variable| {
        let line = arguments.shell.line(name, value.as_deref());
        format!("# {meaning}\n{line}\n")
    };
    Ok(variables.iter().map(line).collect())
}

/// Replaces this process with the program.
pub fn exec(arguments: &ExecArgs, user: &Env, root: &Root) -> Result<u8, Failure> {
    let (settings, build) = settings(&arguments.build, &arguments.workspace, user, root)?;
    build.print_notes(root)?;
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
) -> Result<(Vec<Setting>, Build), Failure> {
    let project = Project::open(user, root, options, which)?;
    let build = Build::prepare(&project, Purpose::Program, &build::gpus(), None)?;
    let mut settings = build.settings.clone();
    // Only Cargo applies `[env]` of its configuration. Other programs need two kinds of its
    // variables: those that replaced a variable in `settings`, and those for nvcc and cuda-build.
    for (name, value) in project.env.variables() {
        let Some(name) = name.to_str() else { continue };
        let is_kept = build.kept.iter().any(|kept| kept == name);
        let is_about_cuda = name.starts_with("CUDA") || name.starts_with("NVCC");
        if (is_kept || is_about_cuda)
            && user.peek(name) != Some(value)
            && settings.iter().all(|setting| setting.name != name)
        {
            let meaning = "from `[env]` of Cargo's configuration";
            settings.push(Setting::new(name, value, meaning));
        }
    }
    settings.push(previous::record(&settings, user));
    Ok((settings, build))
}
