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

use crate::environment::{Setting, joined};
use crate::exit_code;
use crate::failure::Failure;
use crate::{output, process};

/// The subcommand that cargo calls; not for people.
pub const NAME: &str = "run-program";

/// Names cargo's build directory in a shell that was given variables; in place of the directory
/// it says that the variable tells.
pub const BUILD_DIRECTORY: &str = "CARGO_BUILD_BUILD_DIR";

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
    Some(format!(
        "target.{triple}.runner={}",
        toml::Value::Array(words.into())
    ))
}

/// The same for the variable that stands for that configuration, which Cargo splits at blanks: so
/// the build directory is left to its own variable, and this program in a place with blanks is
/// called by its name where `PATH` has it first. `None` where it can't be called.
///
/// # Errors
/// Where the system does not tell where this program lies.
pub fn variable(triple: &str, env: &Env, root: &Root) -> Result<Option<Setting>, Failure> {
    let own = process::own_program()?;
    let name = variable_name(triple);
    let meaning = "cargo's way to start programs: with the libraries that build scripts made";
    let value =
        called(&own, env, root).map(|program| format!("{program} cuda {NAME} {BUILD_DIRECTORY}"));
    Ok(value.map(|value| Setting {
        name,
        value: value.into(),
        meaning,
    }))
}

/// The variable by which Cargo is told what starts programs of this triple.
#[must_use]
pub fn variable_name(triple: &str) -> String {
    format!(
        "CARGO_TARGET_{}_RUNNER",
        triple.to_uppercase().replace(['-', '.'], "_")
    )
}

/// How this program can be called in a text that is split at blanks.
fn called(own: &Path, env: &Env, root: &Root) -> Option<String> {
    let whole = |text: &str| !text.contains(char::is_whitespace);
    if let Some(path) = own.to_str().filter(|path| whole(path)) {
        return Some(path.to_owned());
    }
    let name = own.file_name()?.to_str().filter(|name| whole(name))?;
    let first = env
        .search_path()
        .into_iter()
        .map(|d| d.join(name))
        .find(|path| root.is_file(path))?;
    (root.resolve(&first) == root.resolve(own)).then(|| name.to_owned())
}

/// Runs a program with the libraries of this build on its loader path, in this process's place.
///
/// # Errors
/// Where it can't be started.
pub fn run(arguments: &[OsString], env: &Env, root: &Root) -> Result<u8, Failure> {
    let [build, program, rest @ ..] = arguments else {
        return Err(Failure::new(
            exit_code::USAGE,
            format!("`{NAME}` is for cargo to call"),
        ));
    };
    let build = match build == BUILD_DIRECTORY {
        true => env.peek(BUILD_DIRECTORY).unwrap_or_default(),
        false => build.as_os_str(),
    };
    let own = || {
        env.peek("LD_LIBRARY_PATH")
            .map(std::env::split_paths)
            .into_iter()
            .flatten()
    };
    let mut call = Invocation::new(program).args(rest);
    if let Some(profile) = profile(Path::new(build), own()) {
        let linked = root
            .metadata(Path::new(program))
            .and_then(|metadata| metadata.modified())
            .ok();
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
    let mut profiles = path
        .filter(|d| d.ends_with("deps"))
        .filter_map(|d| d.parent().map(Path::to_owned));
    // `debug`, or `<triple>/debug`.
    profiles.find(|profile| {
        profile
            .strip_prefix(build)
            .is_ok_and(|below| (1..=2).contains(&below.components().count()))
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
    /// is the last one before it was linked. Where all are newer, files have lost their times, as in
    /// a cache that was unpacked, and say nothing.
    fn read(root: &Root, profile: &Path, linked: Option<SystemTime>) -> Self {
        let runs = profile.join("build");
        let mut packages: BTreeMap<String, Vec<Run>> = BTreeMap::new();
        for name in root.names(&runs) {
            let directory = runs.join(&name);
            let output = root.metadata(&directory.join("output"));
            let Some(time) = output.and_then(|metadata| metadata.modified()).ok() else {
                continue;
            };
            let name = name.to_string_lossy();
            let package = name.rsplit_once('-').map_or(&*name, |(package, _)| package);
            let earlier = linked.is_none_or(|linked| time <= linked);
            packages.entry(package.to_owned()).or_default().push(Run {
                earlier,
                time,
                directory,
            });
        }
        let mut found = Self::default();
        let mut last = Vec::new();
        for (package, mut runs) in packages {
            if runs.iter().any(|run| run.earlier) {
                runs.retain(|run| run.earlier);
            }
            runs.sort_by(|a, b| b.cmp(a));
            if runs.len() > 1 && runs.iter().any(|run| !run.named(root, profile).is_empty()) {
                found.notes.push(format!(
                    "note: the build script of {package} has run for {} variants (features, versions), and which \
                     of them the program was linked with is not known; it gets the libraries of the last, {}",
                    runs.len(),
                    runs[0].directory.display()
                ));
            }
            last.extend(runs.into_iter().next());
        }
        last.sort_by(|a, b| b.cmp(a));
        for directory in last.iter().flat_map(|run| run.named(root, profile)) {
            if !found.directories.contains(&directory) {
                found.directories.push(directory);
            }
        }
        found
    }
}

/// A build script that has run, in the order of what is likely the program's.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    /// Whether before the program was linked.
    earlier: bool,
    time: SystemTime,
    directory: PathBuf,
}

impl Run {
    fn named(&self, root: &Root, profile: &Path) -> Vec<PathBuf> {
        let text = root
            .text(&self.directory.join("output"))
            .unwrap_or_default();
        let named = text.lines().filter_map(named);
        named
            .filter(|d| d.starts_with(profile) && !d.ends_with("stubs"))
            .collect()
    }
}

/// The directory of a `rustc-link-search` that may hold shared libraries.
fn named(line: &str) -> Option<PathBuf> {
    let rest = line.strip_prefix("cargo:")?;
    let value = rest
        .strip_prefix(':')
        .unwrap_or(rest)
        .strip_prefix("rustc-link-search=")?;
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
            (
                "/t/debug/deps:/b/deps:/b/debug:/b/debug/build/x-1/out/deps",
                None,
            ),
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
        assert_eq!(
            plain.as_deref(),
            Some("target.t.runner=[\"/p\", \"cuda\", \"run-program\", \"/b\"]")
        );
    }

    #[test]
    fn a_name_does_where_a_path_has_blanks_and_is_the_first() {
        let place = tempfile::tempdir().unwrap();
        let directories = ["a b", "c"].map(|name| place.path().join(name));
        let own = directories[0].join("cargo-cuda");
        output::write_if_changed(&own, b"").unwrap();
        let find = |directories: &[&PathBuf]| {
            let env = Env::from_pairs([("PATH", std::env::join_paths(directories).unwrap())]);
            called(&own, &env, &Root::system())
        };
        assert_eq!(
            called(Path::new("/p"), &Env::default(), &Root::system()).as_deref(),
            Some("/p")
        );
        assert_eq!(
            find(&[&directories[1], &directories[0]]).as_deref(),
            Some("cargo-cuda")
        );
        assert_eq!(find(&[&directories[1]]), None);
        output::write_if_changed(&directories[1].join("cargo-cuda"), b"").unwrap();
        assert_eq!(
            find(&[&directories[1], &directories[0]]),
            None,
            "another one"
        );
    }

    #[test]
    fn a_run_of_each_package_and_the_last_before_the_program() {
        let place = tempfile::tempdir().unwrap();
        let profile = place.path();
        let write = |name: &str, text: &str| {
            // So that each has a time of its own.
            std::thread::sleep(std::time::Duration::from_millis(20));
            output::write_if_changed(&profile.join(name), text.as_bytes()).unwrap();
        };
        let run = |name: &str| {
            let out = profile.join("build").join(name).join("out");
            let text = format!(
                "cargo::rustc-link-search={0}/lib\ncargo::rustc-link-search={0}/stubs\n",
                out.display()
            );
            write(&format!("build/{name}/output"), &text);
        };
        let read = || {
            let linked = Root::system()
                .metadata(&profile.join("program"))
                .unwrap()
                .modified()
                .unwrap();
            let found = Libraries::read(&Root::system(), profile, Some(linked));
            let runs = profile.join("build");
            let names = found
                .directories
                .iter()
                .map(|d| d.strip_prefix(&runs).unwrap().display().to_string());
            (names.collect::<Vec<_>>(), found.notes.len())
        };
        run("a-sys-1");
        write("program", "linked");
        run("a-sys-2");
        // Of a later build, or its time is lost.
        run("b-1");
        assert_eq!(
            read(),
            (
                vec!["a-sys-1/out/lib".to_owned(), "b-1/out/lib".to_owned()],
                0
            )
        );
        write("program", "linked again");
        assert_eq!(
            read(),
            (
                vec!["b-1/out/lib".to_owned(), "a-sys-2/out/lib".to_owned()],
                1
            )
        );
        // Who names nothing needs no note.
        write("build/c-1/output", "");
        write("build/c-2/output", "");
        write("program", "linked a third time");
        assert_eq!(read().1, 1);
    }
}
