//! `cargo cuda env` and `cargo cuda exec`: the variables, for a shell or for one command.

use std::ffi::OsString;

use clap::Args;
use cuda_build::command::Invocation;
use cuda_build::{Env, Root};
use serde_json::json;

use crate::environment::Setting;
use crate::failure::Failure;
use crate::graph::Graph;
use crate::rustflags::{Addition, ENCODED};
use crate::session::{self, Asked, Session};
use crate::shell::Shell;
use crate::workspace::Workspace;
use crate::{cargo_config, output, process, runner};

/// Why a variable goes away.
const GONE: &str = "set by an earlier `cargo cuda env`, and not by this one";

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
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
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
pub fn print(arguments: &EnvArgs, process: &Env, root: &Root) -> Result<String, Failure> {
    let users = session::anew(process);
    let (mut variables, mut notes) = variables(&arguments.wish, &users, root, true)?;
    let mut gone = Vec::new();
    for (name, value) in session::restored(process, &users) {
        let Some(name) = name
            .to_str()
            .filter(|name| variables.iter().all(|new| new.name != *name))
        else {
            continue;
        };
        match value {
            Some(value) => variables.push(Setting {
                name: name.to_owned(),
                value: value.to_owned(),
                meaning: "as it was before an earlier `cargo cuda env`",
            }),
            None => gone.push(name),
        }
    }
    let (variables, left_out): (Vec<_>, Vec<_>) = variables
        .into_iter()
        .partition(|variable| arguments.shell.can_write(&variable.value));
    notes.extend(left_out.iter().map(|variable| {
        format!(
            "note: {} is left out: its value is not UTF-8, and such text can't hold it",
            variable.name
        )
    }));
    notes.iter().for_each(|note| output::say(note));
    if arguments.shell == Shell::Json {
        let set = variables
            .iter()
            .map(|v| json!({ "name": v.name, "value": v.value.to_str(), "meaning": v.meaning }));
        let unset = gone
            .iter()
            .map(|name| json!({ "name": name, "value": null, "meaning": GONE }));
        let list: Vec<_> = set.chain(unset).collect();
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
    if !gone.is_empty() {
        text.push_str(&format!("{}\n", arguments.shell.comment(GONE)));
    }
    gone.iter()
        .for_each(|name| text.push_str(&format!("{}\n", arguments.shell.unset(name))));
    Ok(text)
}

/// Where flags would have to be a text that is split at blanks.
const BLANKS: &str = "note: a path with spaces can't be added to rustflags by a variable: static libraries of \
                      CUDA are found by `cargo cuda build` alone";

/// Where `runner` would have to be such a text.
const NO_RUNNER: &str = "note: the path of `cargo cuda` has spaces, and it is not the first on PATH: libraries that \
                         build scripts leave in OUT_DIR are found by `cargo cuda run` and `test` alone";

/// Runs the command and returns its exit code.
///
/// # Errors
/// Where no toolkit is found, or the program can't be started.
pub fn exec(arguments: &ExecArgs, env: &Env, root: &Root) -> Result<u8, Failure> {
    let (variables, notes) = variables(&arguments.wish, env, root, false)?;
    notes.iter().for_each(|note| output::say(note));
    let mut command = arguments.command.iter().cloned();
    let program = command.next().unwrap_or_default();
    let mut call = Invocation::new(program).args(command);
    for variable in variables {
        call = call.variable(&variable.name, variable.value);
    }
    process::run(&call)
}

/// `users` is the user's environment. For a `shell` nothing is set that would take the effect from
/// what is set there later.
fn variables(
    wish: &WishArgs,
    users: &Env,
    root: &Root,
    shell: bool,
) -> Result<(Vec<Setting>, Vec<String>), Failure> {
    let env = &cargo_config::with_variables(root, users, &[]);
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
    // Cargo alone reads its `[env]`, and other programs are meant here as well: what is set there of
    // variables that would be ours, and what steers nvcc.
    let kept = |name: &str| apart.environment.kept.iter().any(|kept| kept.name == name);
    for (name, value) in env.variables() {
        let Some(name) = name.to_str().filter(|name| !session::is_set(users, name)) else {
            continue;
        };
        let about_cuda = name.starts_with("CUDA") || name.starts_with("NVCC");
        if kept(name) || (about_cuda && variables.iter().all(|ours| ours.name != name)) {
            variables.push(Setting {
                name: name.to_owned(),
                value: value.to_owned(),
                meaning: "as `[env]` of Cargo's configuration has it",
            });
        }
    }
    // Elsewhere nobody knows whose flags they would be added to.
    let added = match workspace.as_ref().map(|_| session.rustflags(&apart)) {
        Some(Addition::Variable(setting))
            if shell && setting.name == ENCODED && !session::is_set(env, ENCODED) =>
        {
            Err(BLANKS.to_owned())
        }
        Some(Addition::Variable(setting)) => Ok(Some(setting)),
        Some(Addition::Config(added)) => added
            .variable(env)
            .map(Some)
            .ok_or_else(|| BLANKS.to_owned()),
        Some(Addition::Nowhere(reason)) => Err(format!("note: {reason}")),
        None => Ok(None),
    };
    let mut notes = apart.notes;
    match added {
        Ok(setting) => variables.extend(setting),
        Err(note) => notes.push(note),
    }
    if let (Some(directory), Some(workspace)) = (apart.directory, &workspace)
        && env.peek("CARGO_BUILD_BUILD_DIR").is_none()
        && workspace.moves_build_directory()
    {
        let meaning =
            "cargo's directory for this environment: many build scripts don't say what they read";
        variables.push(Setting {
            name: "CARGO_BUILD_BUILD_DIR".to_owned(),
            value: directory.into(),
            meaning,
        });
        if session.runs_directly() {
            match runner::variable(session.target().triple(), env, root)? {
                Some(setting) => variables.push(setting),
                None => notes.push(NO_RUNNER.to_owned()),
            }
        }
    }
    session::name_own(&mut variables, apart.view.root(), users);
    Ok((variables, notes))
}
