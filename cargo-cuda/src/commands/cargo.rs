//! `cargo cuda build|check|run|test`: cargo, with one toolkit found for all of it.

use std::ffi::OsString;

use cuda_build::command::Invocation;
use cuda_build::component::OLDEST_MAJOR;
use cuda_build::{Component, Declared, Env, Root, Toolkit, capability};

use crate::failure::Failure;
use crate::process;
use crate::toolkits::{self, Finder, Wish};
use crate::workspace::{Workspace, manifest_path};

/// Arguments of our own, taken out of those for cargo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// `--major 13`
    pub major: Option<u32>,
    /// `--capabilities 8.0,9.0`
    pub capabilities: Option<String>,
    /// `--fetch`
    pub fetch: bool,
}

/// Runs cargo and returns its exit code.
///
/// # Errors
/// Where no toolkit is found, or cargo can't be started.
pub fn run(subcommand: &str, arguments: &[OsString], env: &Env, root: &Root) -> Result<u8, Failure> {
    let (own, passed) = split(arguments)?;
    let workspace = Workspace::load(root, env, manifest_path(&passed).as_deref())?;
    let jetson = workspace.packages.iter().any(|p| p.config.jetson);
    let target = toolkits::target(value_of(&passed, "--target").as_deref(), jetson)?;
    let finder = Finder { env, root, target, workspace: Some(&workspace) };
    let toolkit = finder.find(&Wish { major: own.major, fetch: own.fetch, ..Wish::default() })?;
    if let Some(list) = &own.capabilities {
        // It is for every package alike: no reason to let the first build script find out.
        check_capabilities(list, &toolkit)?;
    }
    let file = toolkits::write_file(&toolkit, &workspace.target_directory)?;
    let mut call = Invocation::new(env.peek("CARGO").unwrap_or("cargo".as_ref()))
        .args([subcommand])
        .args(passed)
        .variable("CUDA_BUILD_TOOLKIT", file)
        .variable("CUDA_BUILD_VIEWS", toolkits::views(&workspace.target_directory));
    if let Some(capabilities) = own.capabilities {
        call = call.variable("CUDA_BUILD_CAPABILITIES", capabilities);
    }
    if matches!(subcommand, "run" | "test") {
        let packages = workspace.packages.iter();
        let declared = packages.flat_map(|p| p.config.for_major(toolkit.version().major).components);
        let linked: Vec<Component> = declared.map(|wanted| wanted.component).collect();
        // After what the user has set: that may be on purpose.
        let own_path = env.peek("LD_LIBRARY_PATH").map(std::env::split_paths);
        let directories =
            own_path.into_iter().flatten().chain(toolkits::library_directories(&toolkit, &linked));
        if let Ok(joined) = std::env::join_paths(directories) {
            call = call.variable("LD_LIBRARY_PATH", joined);
        }
    }
    process::run(&call)
}

/// Whether the toolkit can do what the command line lists; `native` is left to the build.
fn check_capabilities(list: &str, toolkit: &Toolkit) -> Result<(), Failure> {
    let declared = Declared::parse([list])?;
    if !declared.asks_for_gpu() && toolkit.version() <= capability::newest_known() {
        declared.plan(toolkit.version(), &[], None)?;
    }
    Ok(())
}

/// Separates our own options from cargo's. Everything after `--` is the program's.
///
/// # Errors
/// An option of ours without or with an unusable value.
pub fn split(arguments: &[OsString]) -> Result<(Own, Vec<OsString>), Failure> {
    let mut own = Own::default();
    let mut passed = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_str().unwrap_or_default();
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let mut value = || {
            let next = attached.clone().or_else(|| rest.next()?.to_str().map(str::to_owned));
            next.filter(|text| !text.is_empty())
                .ok_or_else(|| Failure::new(crate::exit_code::USAGE, format!("`{name}` needs a value")))
        };
        match name {
            "--" => {
                passed.push(argument.clone());
                passed.extend(rest.cloned());
                break;
            }
            "--fetch" => own.fetch = true,
            "--capabilities" => own.capabilities = Some(value()?),
            "--major" => {
                let value = value()?;
                let major = value.parse().ok().filter(|major| *major >= OLDEST_MAJOR);
                own.major = Some(major.ok_or_else(|| {
                    let text =
                        format!("`--major {value}`: not a CUDA major, which is {OLDEST_MAJOR} or newer");
                    Failure::new(crate::exit_code::USAGE, text)
                })?);
            }
            _ => passed.push(argument.clone()),
        }
    }
    Ok((own, passed))
}

/// The value of an option among cargo's arguments.
fn value_of(arguments: &[OsString], name: &str) -> Option<String> {
    let mut arguments = arguments.iter().take_while(|argument| *argument != "--");
    while let Some(argument) = arguments.next() {
        let text = argument.to_str()?;
        if text == name {
            return arguments.next()?.to_str().map(str::to_owned);
        }
        if let Some(value) = text.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            return Some(value.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn own_options_are_taken_out_wherever_they_stand() {
        let (own, passed) =
            split(&arguments("--release --major 12 -p a --fetch --capabilities=8.0,9.0 -- --major 3"))
                .unwrap();
        assert_eq!(own, Own { major: Some(12), capabilities: Some("8.0,9.0".to_owned()), fetch: true });
        assert_eq!(passed, arguments("--release -p a -- --major 3"));
    }

    #[test]
    fn bad_values_are_usage_errors() {
        for text in ["--major", "--major x", "--major 3", "--capabilities", "--capabilities="] {
            assert_eq!(split(&arguments(text)).unwrap_err().code, crate::exit_code::USAGE, "{text}");
        }
    }

    #[test]
    fn cargos_target_is_seen() {
        assert_eq!(value_of(&arguments("-r --target a -- --target b"), "--target").as_deref(), Some("a"));
        assert_eq!(value_of(&arguments("--target=c"), "--target").as_deref(), Some("c"));
        assert_eq!(value_of(&arguments("--target-dir x"), "--target"), None);
    }
}
