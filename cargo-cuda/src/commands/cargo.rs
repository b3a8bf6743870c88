//! `cargo cuda build|check|run|test|bench|clippy|doc`: cargo, with one toolkit found for all of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cuda_build::command::Invocation;
use cuda_build::release::OLDEST_MAJOR;
use cuda_build::{Env, Root};

use crate::cargo_arguments::{self, profile, value_of, values_of, without_target_directory};
use crate::cargo_config;
use crate::environment::joined;
use crate::failure::Failure;
use crate::graph::Graph;
use crate::missing::Missing;
use crate::rustflags::Addition;
use crate::session::{self, Apart, Asked, Session};
use crate::workspace::{Workspace, manifest_path, profile_directory};
use crate::{output, process, runner, toolkits};

/// Runs cargo and returns its exit code.
///
/// # Errors
/// Where no toolkit is found, or cargo can't be started.
pub fn run(
    subcommand: &str,
    arguments: &[OsString],
    env: &Env,
    root: &Root,
) -> Result<u8, Failure> {
    let (before, programs) = arguments.split_at(cargo_arguments::own(subcommand, arguments));
    let (mut asked, cargos) = split(before)?;
    asked.configs = values_of(&cargos, "--config").collect();
    let env = &cargo_config::with_variables(root, env, &asked.configs);
    let workspace = Workspace::load(root, env, manifest_path(&cargos).as_deref(), &asked.configs)?;
    let workspace = workspace.at(value_of(&cargos, "--target-dir").map(PathBuf::from));
    let triple = value_of(&cargos, "--target");
    let session = Session::find(env, root, Some(&workspace), triple.as_deref(), asked)?;
    let graph = Graph::load(root, env, &workspace, session.target(), &cargos)?;
    let session = session.fitting(&graph)?;
    let runs = matches!(subcommand, "run" | "test" | "bench");
    let profile = profile(subcommand, &cargos);
    let profile = |directory: &Path| profile_directory(directory, session.built_for(), &profile);
    let mut call =
        Invocation::new(env.peek("CARGO").unwrap_or("cargo".as_ref())).args([subcommand]);
    if session.is_shared(&graph) {
        session.remember(&workspace)?;
        if !workspace
            .packages
            .iter()
            .any(|package| package.uses_cuda_build)
        {
            // Else their build scripts say so, as under plain `cargo`.
            session.warnings().for_each(|warning| output::say(&warning));
        }
        if runs {
            // After what the user has set: that may be on purpose.
            let own = env
                .peek("LD_LIBRARY_PATH")
                .map(std::env::split_paths)
                .into_iter()
                .flatten();
            let libraries = toolkits::library_directories(&session.toolkit, Some(&workspace));
            if let Some(path) = joined(own.chain(libraries)) {
                call = call.variable("LD_LIBRARY_PATH", path);
            }
        }
        // Build scripts with cuda-build do without: that there can be none is no reason to stop.
        let view = session.view();
        for setting in session.shared(view.as_ref().ok(), &workspace) {
            call = call.variable(&setting.name, setting.value);
        }
        let kept = profile(&workspace.build_directory);
        return run_cargo(&call.args(&cargos).args(programs), |since| {
            match (&view, Missing::read(root, &kept, since)) {
                (Ok(view), missing) => missing.hints(&session.toolkit, view, &graph, true),
                (Err(_), missing) if missing == Missing::default() => Vec::new(),
                (Err(reason), _) => {
                    vec![format!(
                        "the linker was not told where CUDA is: {}",
                        reason.message
                    )]
                }
            }
        });
    }
    let apart = session.apart(&graph)?;
    apart.notes.iter().for_each(|note| output::say(note));
    let directory = apart.directory.clone().unwrap_or_default();
    let mut variables = session.variables(&apart)?;
    match session.rustflags(&apart) {
        Addition::Variable(setting) => variables.push(setting),
        Addition::Config(added) => call = call.args(["--config", &added.argument()]),
        Addition::Nowhere(reason) => output::say(&format!("note: {reason}")),
    }
    session::name_own(&mut variables, apart.view.root(), env);
    for setting in variables
        .iter()
        .filter(|setting| setting.name != "LD_LIBRARY_PATH")
    {
        call = call.variable(&setting.name, &setting.value);
    }
    // Where build scripts leave libraries that belong beside the program: Cargo puts it on the
    // loader path itself only while it is also where the program is.
    let kept = profile(&directory);
    if let (true, Some(path)) = (runs, loader_path(&apart, &kept)) {
        call = call.variable("LD_LIBRARY_PATH", path);
    }
    call = if workspace.moves_build_directory() {
        let direct = runs && session.runs_directly();
        if let (true, Some(config)) = (
            direct,
            runner::config(session.target().triple(), &directory)?,
        ) {
            call = call.args(["--config", &config]);
        }
        let text = toml::Value::String(directory.to_string_lossy().into_owned());
        call.args(["--config", &format!("build.build-dir={text}")])
            .args(&cargos)
            .args(programs)
    } else {
        // The final files are in there too.
        output::say(&format!(
            "note: what is built goes to {}",
            directory.display()
        ));
        let call = call.args(without_target_directory(&cargos));
        call.args(["--target-dir".into(), directory.into_os_string()])
            .args(programs)
    };
    run_cargo(&call, |since| {
        Missing::read(root, &kept, since).hints(&session.toolkit, &apart.view, &graph, false)
    })
}

/// Runs cargo; where it fails, what may help is said after what it said itself.
fn run_cargo(call: &Invocation, hints: impl Fn(SystemTime) -> Vec<String>) -> Result<u8, Failure> {
    let since = SystemTime::now();
    let code = process::run(call)?;
    if code == CARGO_FAILED {
        hints(since)
            .iter()
            .for_each(|hint| output::say(&format!("hint: {hint}")));
    }
    Ok(code)
}

/// Cargo's exit code where a build failed.
const CARGO_FAILED: u8 = 101;

fn loader_path(apart: &Apart, profile: &Path) -> Option<OsString> {
    let own = apart
        .environment
        .get("LD_LIBRARY_PATH")
        .map(std::env::split_paths)
        .into_iter()
        .flatten();
    joined(own.chain([profile.to_owned(), profile.join("deps")]))
}

/// Separates our own options from cargo's.
///
/// # Errors
/// An option of ours without or with an unusable value.
pub fn split(arguments: &[OsString]) -> Result<(Asked, Vec<OsString>), Failure> {
    let mut own = Asked::default();
    let mut passed = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_str().unwrap_or_default();
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let mut value = || {
            let next = attached
                .clone()
                .or_else(|| rest.next()?.to_str().map(str::to_owned));
            next.filter(|text| !text.is_empty()).ok_or_else(|| {
                Failure::new(crate::exit_code::USAGE, format!("`{name}` needs a value"))
            })
        };
        match name {
            "--fetch" => own.fetch = true,
            "--capabilities" => own.capabilities = Some(value()?),
            "--major" => {
                let value = value()?;
                let major = value.parse().ok().filter(|major| *major >= OLDEST_MAJOR);
                own.major = Some(major.ok_or_else(|| {
                    let text = format!(
                        "`--major {value}`: not a CUDA major, which is {OLDEST_MAJOR} or newer"
                    );
                    Failure::new(crate::exit_code::USAGE, text)
                })?);
            }
            _ => passed.push(argument.clone()),
        }
    }
    Ok((own, passed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn own_options_are_taken_out_wherever_they_stand() {
        let (own, passed) = split(&arguments(
            "--release --major 12 -p a --fetch --capabilities=8.0,9.0",
        ))
        .unwrap();
        let capabilities = Some("8.0,9.0".to_owned());
        assert_eq!(
            own,
            Asked {
                major: Some(12),
                capabilities,
                fetch: true,
                ..Asked::default()
            }
        );
        assert_eq!(passed, arguments("--release -p a"));
    }

    #[test]
    fn bad_values_are_usage_errors() {
        for text in [
            "--major",
            "--major x",
            "--major 3",
            "--capabilities",
            "--capabilities=",
        ] {
            assert_eq!(
                split(&arguments(text)).unwrap_err().code,
                crate::exit_code::USAGE,
                "{text}"
            );
        }
    }
}
