//! `cargo cuda env` and `cargo cuda exec`: the variables, for a shell or for one program.

use std::ffi::OsString;

use clap::Args;
use cuda_find_core::{command::Invocation, env::Env, root::Root};

use crate::environment;
use crate::failure::Result;
use crate::isolated_build::{self, IsolatedBuild, Purpose};
use crate::output::{self, printable};
use crate::process;
use crate::project::{BuildOptions, Project, WorkspaceOptions};

/// Print the variables in which build tools look for CUDA
#[derive(Args, Clone, Debug)]
pub struct EnvArgs {
    #[command(flatten)]
    build: BuildOptions,
    #[command(flatten)]
    workspace: WorkspaceOptions,
}

/// Run a program with the variables of `cargo cuda env`
#[derive(Args, Clone, Debug)]
pub struct ExecArgs {
    #[command(flatten)]
    build: BuildOptions,
    #[command(flatten)]
    workspace: WorkspaceOptions,
    /// The program and its arguments
    #[arg(required = true, value_name = "COMMAND")]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

pub fn print(arguments: &EnvArgs, user_env: &Env, root: &Root) -> Result<String> {
    let (settings, build) = settings(&arguments.build, &arguments.workspace, user_env, root)?;
    let mut notes = build.notes;
    let mut variables = Vec::new();
    for (name, value) in settings {
        match value.into_string() {
            Ok(value) if is_name(&name) && printable(&value) == value => variables.push((name, value)),
            _ => notes.push(format!(
                "warning: {name:?} is left out: its name is not valid in a shell, or its value is not printable UTF-8"
            )),
        }
    }
    output::messages(&notes);
    let line = |(name, value): &(String, String)| export(name, value) + "\n";
    Ok(variables.iter().map(line).collect())
}

/// Whether `name` is a valid variable name in a shell. Another name could contain commands: `X; rm -r ~; Y`.
fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// The line that sets a variable in a POSIX shell. Between single quotes, only the single quote is special.
fn export(name: &str, value: &str) -> String {
    format!("export {name}='{}'", value.replace('\'', r"'\''"))
}

/// Replaces this process with the program.
pub fn exec(arguments: &ExecArgs, user_env: &Env, root: &Root) -> Result<u8> {
    let (settings, build) = settings(&arguments.build, &arguments.workspace, user_env, root)?;
    build.print_notes();
    let mut command = arguments.command.iter().cloned();
    let mut call = Invocation::new(command.next().unwrap_or_default()).args(command);
    call.variables.extend(settings);
    process::replace(&call, user_env)
}

/// The variables to set, and the build that they come from.
fn settings(
    build_options: &BuildOptions,
    workspace_options: &WorkspaceOptions,
    user_env: &Env,
    root: &Root,
) -> Result<(Vec<environment::Variable>, IsolatedBuild)> {
    let project = Project::open(user_env, root, build_options, workspace_options)?;
    let build = IsolatedBuild::prepare(&project, Purpose::Program, &isolated_build::gpus(), None)?;
    build.enter(&project)?;
    let mut settings = build.variables.clone();
    // Only Cargo applies `[env]` of its configuration. Other programs need two kinds of variables from there: variables
    // whose value the user has set instead of that of `cargo cuda`, and variables for nvcc and cuda-build.
    for (name, value) in project.env.variables() {
        let Some(name) = name.to_str() else { continue };
        let has_users_value = build.kept.iter().any(|kept| kept == name);
        let is_about_cuda = name.starts_with("CUDA") || name.starts_with("NVCC");
        if (has_users_value || is_about_cuda)
            && user_env.peek(name) != Some(value)
            && settings.iter().all(|(set_name, _)| set_name != name)
        {
            settings.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok((settings, build))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_and_printable_values_are_exported() {
        for name in ["CUDA_HOME", "_x", "a1"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "1a",
            "CUDA_X; id; #",
            "CUDA_X\nid",
            "A-B",
            "A B",
            "Ä",
            "A=",
        ] {
            assert!(!is_name(name), "{name}");
        }
        for (text, expected) in [("a\tb\nü", true), ("a\u{1b}[0m", false), ("\u{9b}", false)] {
            assert_eq!(printable(text) == text, expected, "{text:?}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the shell is the judge")]
    fn values_survive_a_shell() {
        for value in [
            "",
            "/a b",
            "it's",
            "say \"x\" $HOME `id` $(id)",
            r"back\slash\",
            r"\'",
            "line\nbreak\n",
            "*?[a] {b,c} ~ # ; & | < > !",
            "\u{2018}ü\u{2019}\t",
        ] {
            // As in `eval "$(cargo cuda env)"`.
            let script = r#"eval "$(printf '%s\n' "$LINES_OF_ENV")"; printenv X"#;
            let lines = format!("# it's $X\n{}", export("X", value));
            for program in ["bash", "sh"] {
                let mut shell = std::process::Command::new(program);
                shell.args(["-c", script]).env("LINES_OF_ENV", &lines);
                let output = shell.env_remove("X").output().unwrap();
                let printed = String::from_utf8(output.stdout).unwrap();
                assert_eq!(printed, format!("{value}\n"), "{program}: {lines}");
            }
        }
    }
}
