//! This program between cargo and a program that cargo runs.
//!
//! Cargo puts directories that build scripts name below its build directory on the loader path of
//! what it runs, as long as that directory is also where the program is. Builds apart have one of
//! their own, and which directories there are is known once the scripts have run: when cargo
//! starts the program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cuda_build::command::Invocation;
use cuda_build::{Env, Root};

use crate::environment::joined;
use crate::exit_code;
use crate::failure::Failure;
use crate::{output, process};

/// The subcommand that cargo calls; not for people.
pub const NAME: &str = "run-program";

/// For `cargo --config`: programs of this triple are started through this program, which is told
/// cargo's build directory. `None` where a path is no text: a configuration holds nothing else.
///
/// # Errors
/// Where the system does not tell where this program lies.
pub fn config(triple: &str, build: &Path) -> Result<Option<String>, Failure> {
    Ok(config_of(&process::own_program()?, triple, build))
}

fn config_of(own: &Path, triple: &str, build: &Path) -> Option<String> {
    let words = [own.to_str()?, "cuda", NAME, build.to_str()?];
    let words = words.map(|word| toml::Value::String(word.to_owned()));
    Some(format!("target.{triple}.runner={}", toml::Value::Array(words.into())))
}

/// Runs a program with the libraries of this build on its loader path, in this process's place.
///
/// # Errors
/// Where it can't be started.
pub fn run(arguments: &[OsString], env: &Env, root: &Root) -> Result<u8, Failure> {
    let [build, program, rest @ ..] = arguments else {
        return Err(Failure::new(exit_code::USAGE, format!("`{NAME}` is for cargo to call")));
    };
    let own = || env.peek("LD_LIBRARY_PATH").map(std::env::split_paths).into_iter().flatten();
    let mut call = Invocation::new(program).args(rest);
    if let Some(profile) = profile(Path::new(build), own()) {
        let linked = root.metadata(Path::new(program)).and_then(|metadata| metadata.modified()).ok();
        let Libraries { directories, notes } = Libraries::read(root, &profile, linked);
        notes.iter().for_each(|note| output::say(note));
        // Where some build scripts leave libraries by themselves, beside the program as they think.
        if let Some(path) = joined(directories.into_iter().chain([profile]).chain(own())) {
            call = call.variable("LD_LIBRARY_PATH", path);
        }
    }
    process::replace(&call)
}

/// The directory of the profile, below the build directory: cargo has put its `deps` on the loader
/// path, in front of all others of that kind. So profile and triple are the program's own, wherever
/// cargo has them from.
fn profile(build: &Path, path: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let mut profiles = path.filter(|d| d.ends_with("deps")).filter_map(|d| d.parent().map(Path::to_owned));
    // `debug`, or `<triple>/debug`.
    profiles.find(|profile| {
        profile.strip_prefix(build).is_ok_and(|below| (1..=2).contains(&below.components().count()))
    })
}

/// What the runs of build scripts named to the linker.
#[derive(Debug, Default, PartialEq, Eq)]
struct Libraries {
    directories: Vec<PathBuf>,
    notes: Vec<String>,
}

impl Libraries {
    /// Directories below the profile's, those of the last runs first. Never a stub's: it is there
    /// to link with.
    ///
    /// A package has a run for each set of features and each version, and all of them stay. One
    /// that is newer than the program is of a later build, with other features: the program's own
    /// is the last one before it was linked.
    fn read(root: &Root, profile: &Path, linked: Option<SystemTime>) -> Self {
        let runs = profile.join("build");
        let mut packages: BTreeMap<String, Vec<(Option<SystemTime>, PathBuf)>> = BTreeMap::new();
        for name in root.names(&runs) {
            let output = runs.join(&name).join("output");
            let time = root.metadata(&output).and_then(|metadata| metadata.modified()).ok();
            if time.is_some() && (linked.is_none() || time <= linked) {
                let name = name.to_string_lossy();
                let package = name.rsplit_once('-').map_or(&*name, |(package, _)| package);
                packages.entry(package.to_owned()).or_default().push((time, runs.join(&*name)));
            }
        }
        let named = |run: &Path| {
            let text = root.text(&run.join("output")).unwrap_or_default();
            let named = text.lines().filter_map(named);
            let kept = named.filter(|d| d.starts_with(profile) && !d.ends_with("stubs"));
            kept.collect::<Vec<_>>()
        };
        let mut found = Self::default();
        let mut last = Vec::new();
        for (package, mut candidates) in packages {
            candidates.sort_by(|a, b| b.cmp(a));
            if candidates.len() > 1 && candidates.iter().any(|(_, run)| !named(run).is_empty()) {
                found.notes.push(format!(
                    "note: the build script of {package} has run for {} variants (features, versions) before \
                     the program was linked; the program gets the libraries of the last one, {}",
                    candidates.len(),
                    candidates[0].1.display()
                ));
            }
            last.extend(candidates.into_iter().next());
        }
        last.sort_by(|a, b| b.cmp(a));
        for directory in last.iter().flat_map(|(_, run)| named(run)) {
            if !found.directories.contains(&directory) {
                found.directories.push(directory);
            }
        }
        found
    }
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

    #[test]
    fn the_profile_is_the_first_that_cargo_names() {
        let find = |text: &str| profile(Path::new("/b"), std::env::split_paths(text));
        for (path, expected) in [
            ("/t/debug:/b/debug/deps:/b/release/deps", Some("/b/debug")),
            (
                "/b/aarch64-unknown-linux-gnu/fast/deps:/b/debug/deps",
                Some("/b/aarch64-unknown-linux-gnu/fast"),
            ),
            ("/t/debug/deps:/b/deps:/b/debug:/b/debug/build/x-1/out/deps", None),
            ("", None),
        ] {
            assert_eq!(find(path), expected.map(PathBuf::from), "{path}");
        }
    }

    #[test]
    fn paths_that_are_no_text_have_no_runner() {
        use std::os::unix::ffi::OsStrExt as _;
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"/\xff"));
        assert_eq!(config_of(odd, "t", Path::new("/b")), None);
        assert_eq!(config_of(Path::new("/p"), "t", odd), None);
        let plain = config_of(Path::new("/p"), "t", Path::new("/b"));
        assert_eq!(plain.as_deref(), Some("target.t.runner=[\"/p\", \"cuda\", \"run-program\", \"/b\"]"));
    }
}
