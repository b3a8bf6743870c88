//! `cargo cuda env` and `cargo cuda exec`: the variables, for a shell or for one command.

use std::ffi::OsString;

use clap::Args;
use cuda_build::command::Invocation;
use cuda_build::{Env, Root};
use serde_json::json;

use crate::environment::Setting;
use crate::failure::Failure;
use crate::graph::Graph;
use crate::rustflags::Addition;
use crate::session::{self, Asked, Session};
use crate::shell::Shell;
use crate::workspace::Workspace;
use crate::{output, process};

/// Of the JSON that `--shell json` writes.
const FORMAT_VERSION: u32 = 1;

/// Print the variables that crates and build tools look for
///
/// Plain `cargo`, editors and other build tools then find what `cargo cuda build` finds:
///   eval "$(cargo cuda env)"
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment)]
pub struct EnvArgs {
    /// Whose syntax to write
    #[arg(long, value_enum, default_value_t)]
    shell: Shell,
    #[command(flatten)]
    wish: WishArgs,
}

/// Run a program with the variables that crates and build tools look for
#[derive(Args, Clone, Debug)]
pub struct ExecArgs {
    #[command(flatten)]
    wish: WishArgs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Which toolkit.
#[derive(Args, Clone, Debug)]
struct WishArgs {
    /// The CUDA major; the newest that is found where not given
    #[arg(long, value_name = "N")]
    major: Option<u32>,
    /// Instead of the manifest's, as in 8.0,9.0,12.0+PTX
    #[arg(long, value_name = "LIST")]
    capabilities: Option<String>,
    /// The Rust triple that is built for
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Fetch a toolkit where none is found
    #[arg(long)]
    fetch: bool,
}

/// What belongs on standard output.
///
/// # Errors
/// Where no toolkit is found.
pub fn print(arguments: &EnvArgs, env: &Env, root: &Root) -> Result<String, Failure> {
    let (variables, mut notes) = variables(&arguments.wish, env, root)?;
    let (variables, left_out): (Vec<_>, Vec<_>) =
        variables.into_iter().partition(|variable| arguments.shell.can_write(&variable.value));
    notes.extend(left_out.iter().map(|variable| {
        format!("note: {} is left out: its value is not UTF-8, and such text can't hold it", variable.name)
    }));
    notes.iter().for_each(|note| output::say(note));
    if arguments.shell == Shell::Json {
        let list: Vec<_> = variables
            .iter()
            .map(|v| json!({ "name": v.name, "value": v.value.to_str(), "meaning": v.meaning }))
            .collect();
        return Ok(format!(
            "{:#}\n",
            json!({ "format_version": FORMAT_VERSION, "variables": list, "notes": notes })
        ));
    }
    let mut text = String::new();
    for variable in &variables {
        text.push_str(&format!(
            "{}\n{}\n",
            arguments.shell.comment(variable.meaning),
            arguments.shell.set(&variable.name, &variable.value)
        ));
    }
    Ok(text)
}

/// Runs the command and returns its exit code.
///
/// # Errors
/// Where no toolkit is found, or the program can't be started.
pub fn exec(arguments: &ExecArgs, env: &Env, root: &Root) -> Result<u8, Failure> {
    let (variables, notes) = variables(&arguments.wish, env, root)?;
    notes.iter().for_each(|note| output::say(note));
    let mut command = arguments.command.iter().cloned();
    let program = command.next().unwrap_or_default();
    let mut call = Invocation::new(program).args(command);
    for variable in variables {
        call = call.variable(&variable.name, variable.value);
    }
    process::run(&call)
}

fn variables(wish: &WishArgs, env: &Env, root: &Root) -> Result<(Vec<Setting>, Vec<String>), Failure> {
    let workspace = Workspace::load_optional(root, env)?;
    let asked = Asked {
        major: wish.major,
        capabilities: wish.capabilities.clone(),
        fetch: wish.fetch,
        ..Asked::default()
    };
    let session = Session::find(env, root, workspace.as_ref(), wish.target.as_deref(), asked)?;
    let graph = match &workspace {
        Some(workspace) => Graph::load(root, env, workspace, session.target(), &[])?,
        None => Graph::default(),
    };
    let session = session.fitting(&graph)?;
    let apart = session.apart(&graph)?;
    let mut variables = session.variables(&apart)?;
    let rustflags = session.rustflags(&apart);
    let mut notes = apart.notes;
    match rustflags {
        Addition::Variable(setting) => variables.push(setting),
        Addition::Config(added) => match added.variable(env) {
            Some(setting) => variables.push(setting),
            None => notes.push(
                "note: a path with spaces can't be added to rustflags by a variable: static libraries of CUDA \
                 are found by `cargo cuda build` alone"
                    .to_owned(),
            ),
        },
        Addition::Nowhere(reason) => notes.push(format!("note: {reason}")),
    }
    if let (Some(directory), Some(workspace)) = (apart.directory, &workspace)
        && env.peek("CARGO_BUILD_BUILD_DIR").is_none()
        && workspace.moves_build_directory()
    {
        let meaning = "cargo's directory for this environment: many build scripts don't say what they read";
        variables.push(Setting {
            name: "CARGO_BUILD_BUILD_DIR".to_owned(),
            value: directory.into(),
            meaning,
        });
    }
    session::name_own(&mut variables);
    Ok((variables, notes))
}
