//! This program between cargo and a program that cargo runs.
//!
//! Cargo puts directories that build scripts name below its build directory on the loader path of
//! what it runs, as long as that directory is also where the program is. Builds apart have one of
//! their own, and which directories there are is known once the scripts have run: when cargo
//! starts the program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cuda_build::command::Invocation;
use cuda_build::{Env, Root};

use crate::exit_code;
use crate::failure::Failure;
use crate::process;

/// The subcommand that cargo calls; not for people.
pub const NAME: &str = "run-program";

/// For `cargo --config`: programs of this triple are started through this program.
///
/// # Errors
/// Where the system does not tell where this program lies.
pub fn config(triple: &str, profile: &Path) -> Result<String, Failure> {
    let own = process::own_program()?;
    let words = [own.as_os_str(), "cuda".as_ref(), NAME.as_ref(), profile.as_os_str()];
    let words = words.map(|word| toml::Value::String(word.to_string_lossy().into_owned()));
    Ok(format!("target.{triple}.runner={}", toml::Value::Array(words.into())))
}

/// Runs a program with the libraries of this build on its loader path, in this process's place.
///
/// # Errors
/// Where it can't be started.
pub fn run(arguments: &[OsString], env: &Env, root: &Root) -> Result<u8, Failure> {
    let [profile, program, rest @ ..] = arguments else {
        return Err(Failure::new(exit_code::USAGE, format!("`{NAME}` is for cargo to call")));
    };
    let own = env.peek("LD_LIBRARY_PATH").map(std::env::split_paths).into_iter().flatten();
    let all = libraries(root, Path::new(profile)).into_iter().chain(own);
    let path = std::env::join_paths(all).unwrap_or_default();
    process::replace(&Invocation::new(program).args(rest).variable("LD_LIBRARY_PATH", path))
}

/// Directories below the profile's that its build scripts named to the linker, those of the last
/// runs first. Never a stub's: it is there to link with.
fn libraries(root: &Root, profile: &Path) -> Vec<PathBuf> {
    let runs = profile.join("build");
    let outputs = root.names(&runs).into_iter().map(|name| runs.join(name).join("output"));
    let mut outputs: Vec<(Option<SystemTime>, PathBuf)> = outputs
        .filter(|path| root.is_file(path))
        .map(|path| (root.metadata(&path).and_then(|metadata| metadata.modified()).ok(), path))
        .collect();
    outputs.sort_by(|a, b| b.cmp(a));
    let mut found: Vec<PathBuf> = Vec::new();
    for (_, output) in outputs {
        let text = root.text(&output).unwrap_or_default();
        let named =
            text.lines().filter_map(named).filter(|d| d.starts_with(profile) && !d.ends_with("stubs"));
        for directory in named {
            if !found.contains(&directory) {
                found.push(directory);
            }
        }
    }
    found
}

/// The directory of a `rustc-link-search` that may hold shared libraries.
fn named(line: &str) -> Option<PathBuf> {
    let rest = line.strip_prefix("cargo:")?;
    let value = rest.strip_prefix(':').unwrap_or(rest).strip_prefix("rustc-link-search=")?;
    match value.split_once('=') {
        Some(("native" | "all", path)) => Some(path.into()),
        Some(("dependency" | "crate" | "framework", _)) => None,
        _ => Some(value.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_may_hold_shared_libraries() {
        for (line, expected) in [
            ("cargo:rustc-link-search=/t/out", Some("/t/out")),
            ("cargo::rustc-link-search=native=/t/a=b", Some("/t/a=b")),
            ("cargo:rustc-link-search=all=/t", Some("/t")),
            ("cargo::rustc-link-search=dependency=/t", None),
            ("cargo:rustc-link-lib=foo", None),
            ("rustc-link-search=/t", None),
        ] {
            assert_eq!(named(line), expected.map(PathBuf::from), "{line}");
        }
    }
}
