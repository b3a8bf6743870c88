//! Runs this program as the `RUSTC_WRAPPER`, to add `-L` directories to rustc's arguments.
//!
//! When rustc compiles a library crate, rustc itself reads the static libraries. It searches only
//! `-L` directories; `LIBRARY_PATH` affects the linker alone. The directories cannot be added as
//! rustflags, because Cargo reads rustflags from one place only and would then ignore the user's
//! rustflags. For wheels, the wrapper changes more arguments: see [`reproducible`].
#![allow(
    clippy::disallowed_methods,
    reason = "this module replaces this process with rustc"
)]

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use cuda_build::internal::{Env, compile};

use crate::build::Build;
use crate::failure::Failure;
use crate::output;
use crate::process;
use crate::project::Project;
use crate::wheel::reproducible;

/// The variable that contains the [`Scope`]. It is set only if this program is the `RUSTC_WRAPPER`.
pub const SCOPE: &str = "CARGO_CUDA_RUSTC_WRAPPER";

/// The variable that names the user's own wrapper, which this program calls.
const INNER: &str = "CARGO_CUDA_INNER_WRAPPER";

/// The variable with the directories in which rustc searches for static libraries, separated as in
/// `PATH`. Rustflags are no alternative: cargo derives file names from a hash of the rustflags, so the
/// names would depend on the absolute paths.
const SEARCH: &str = "CARGO_CUDA_SEARCH";

/// The variable that names the launcher of nvcc for build scripts.
const LAUNCHER: &str = "CUDA_BUILD_LAUNCHER";

/// What this program changes in rustc's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only adds directories in which rustc searches for libraries.
    Search,
    /// Also replaces everything that depends on the build's directory.
    Reproducible,
}

impl Scope {
    fn as_str(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Reproducible => "reproducible",
        }
    }
}

/// The variables that make this program the rustc wrapper.
///
/// There are none in a native build with `Scope::Search` if the user has a wrapper such as sccache.
/// That wrapper stays, because the `cc` crate uses sccache only if `RUSTC_WRAPPER` names it. rustc
/// then finds a static library only if a build script names its directory.
pub fn variables(
    project: &Project,
    build: &Build,
    scope: Scope,
) -> Result<Vec<(String, OsString)>, Failure> {
    let own = of_user(project);
    let mut search = vec![build.view.lib()];
    if !project.target.is_native() {
        // A cross linker does not read LIBRARY_PATH, so the stubs need an `-L` directory too.
        search.push(build.view.stubs());
    } else if scope == Scope::Search && own.is_some() {
        return Ok(Vec::new());
    }
    let mut variables = environment(&process::own_program()?, scope, &search, own);
    variables.extend(launcher(own, &project.env));
    Ok(variables)
}

/// The variable that names the user's sccache as the launcher of nvcc, unless a launcher is already
/// set. Build scripts would look for sccache in `RUSTC_WRAPPER`, but that now names this program.
fn launcher(own: Option<&OsStr>, env: &Env) -> Option<(String, OsString)> {
    let is_set = env.get_or_empty(LAUNCHER).is_some();
    let sccache = own.filter(|own| compile::is_sccache(own) && !is_set)?;
    Some((LAUNCHER.to_owned(), sccache.to_owned()))
}

/// The user's own wrapper.
pub fn of_user(project: &Project) -> Option<&OsStr> {
    own_wrapper(project.config.wrapper.as_deref(), &project.user)
}

/// The user's own wrapper, looked up in Cargo's order. An empty value means no wrapper.
fn own_wrapper<'a>(configured: Option<&'a Path>, env: &'a Env) -> Option<&'a OsStr> {
    let set = |wanted: &str| {
        env.variables()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value)
    };
    set("RUSTC_WRAPPER")
        .or_else(|| set("CARGO_BUILD_RUSTC_WRAPPER"))
        .or(configured.map(Path::as_os_str))
        .filter(|own| !own.is_empty())
}

/// The variables that make cargo call `program` instead of rustc, so that rustc also searches
/// `search` for static libraries. `program` calls `own`, the user's wrapper.
pub fn environment(
    program: &Path,
    scope: Scope,
    search: &[PathBuf],
    own: Option<&OsStr>,
) -> Vec<(String, OsString)> {
    let mut variables = vec![
        ("RUSTC_WRAPPER".to_owned(), program.into()),
        (SCOPE.to_owned(), scope.as_str().into()),
    ];
    // Colons separate the list, so a directory with a colon in its path is left out.
    let search = search
        .iter()
        .filter(|directory| !directory.to_string_lossy().contains(':'));
    match std::env::join_paths(search) {
        Ok(search) if !search.is_empty() => variables.push((SEARCH.to_owned(), search)),
        _ => {}
    }
    if let Some(own) = own.filter(|own| *own != program.as_os_str()) {
        variables.push((INNER.to_owned(), own.to_owned()));
    }
    variables
}

/// Runs rustc in place of this process if cargo has called this program as its wrapper; returns
/// `None` for any other call.
pub fn run(arguments: &[OsString]) -> Option<ExitCode> {
    let env = Env::from_process();
    let current = std::env::current_dir().unwrap_or_default();
    let command = wrapped(arguments, &env, &current)?;
    let (program, arguments) = command.split_first()?;
    let error = Command::new(program).args(arguments).exec();
    let program = program.display();
    output::message(&format!("error: could not run `{program}`: {error}"));
    Some(ExitCode::from(101))
}

/// The command to run if this program is called as a wrapper; `None` if it is called as
/// `cargo cuda …`. `arguments` do not include the program's name.
pub fn wrapped(arguments: &[OsString], env: &Env, current: &Path) -> Option<Vec<OsString>> {
    let scope = env.peek(SCOPE)?;
    if arguments.first()? == "cuda" {
        return None;
    }
    let mut command: Vec<OsString> = env.peek(INNER).map(OsStr::to_owned).into_iter().collect();
    command.extend(arguments.iter().cloned());
    // Cargo also calls rustc to query its version and configuration. Such a call builds no package, so
    // its arguments stay as they are.
    let Some(name) = env.peek("CARGO_PKG_NAME") else {
        return Some(command);
    };
    // The directories of build scripts are already in the command. They come first, so they take
    // precedence.
    let search = env.peek(SEARCH).map(std::env::split_paths);
    for directory in search.into_iter().flatten() {
        let mut argument = OsString::from("-Lnative=");
        argument.push(directory);
        command.push(argument);
    }
    if scope == Scope::Reproducible.as_str() {
        reproducible::remap(&mut command, name, env, current);
    }
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    #[test]
    fn other_calls_pass_through() {
        let env = Env::from_pairs([(SCOPE, "place"), (INNER, "sccache")]);
        let current = Path::new("/");
        assert_eq!(
            wrapped(&words(&["rustc", "-vV"]), &env, current),
            Some(words(&["sccache", "rustc", "-vV"]))
        );
        assert_eq!(wrapped(&words(&["cuda", "wheel"]), &env, current), None);
        assert_eq!(
            wrapped(&words(&["rustc", "-vV"]), &Env::default(), current),
            None
        );
    }

    #[test]
    fn directories_with_static_libraries_reach_every_package() {
        let search = ["/a b".into(), "/with:colon".into(), "/c".into()];
        let variables = environment(Path::new("/bin/cargo-cuda"), Scope::Search, &search, None);
        let package = [
            ("CARGO_PKG_NAME", "a"),
            ("CARGO_PKG_VERSION", "1.0.0"),
            ("CARGO_MANIFEST_DIR", "/m"),
        ];
        let package = package.map(|(name, value)| (name.to_owned(), value.into()));
        let env = Env::from_pairs(variables.iter().cloned().chain(package));
        let command = wrapped(&words(&["rustc", "-Lnative=/out"]), &env, Path::new("/")).unwrap();
        assert_eq!(
            command,
            words(&["rustc", "-Lnative=/out", "-Lnative=/a b", "-Lnative=/c"])
        );
        let question = Env::from_pairs(variables);
        assert_eq!(
            wrapped(&words(&["rustc", "-vV"]), &question, Path::new("/"))
                .unwrap()
                .len(),
            2
        );
    }

    #[test]
    fn sccache_stays_in_front_of_nvcc() {
        let launcher = |own: &str, env: &[(&str, &str)]| {
            let env = Env::from_pairs(env.iter().copied());
            launcher(Some(OsStr::new(own)), &env).map(|(_, value)| value)
        };
        assert_eq!(launcher("/a/sccache", &[]), Some("/a/sccache".into()));
        assert_eq!(launcher("other", &[]), None);
        for own in ["ccache", "none", ""] {
            assert_eq!(launcher("sccache", &[(LAUNCHER, own)]), None);
        }
    }

    #[test]
    fn the_users_wrapper_stays() {
        let inner = |variables: &[(&str, &str)], configured: Option<&str>| {
            let env = Env::from_pairs(variables.iter().copied());
            let own = own_wrapper(configured.map(Path::new), &env);
            let all = environment(Path::new("/bin/cargo-cuda"), Scope::Reproducible, &[], own);
            all.into_iter()
                .find(|(name, _)| name == INNER)
                .map(|(_, value)| value.into_string().unwrap())
        };
        let [by_cargo, by_build] = ["RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER"];
        assert_eq!(
            inner(&[(by_cargo, "sccache")], None).as_deref(),
            Some("sccache")
        );
        assert_eq!(
            inner(&[(by_build, "sccache")], Some("other")).as_deref(),
            Some("sccache")
        );
        assert_eq!(inner(&[], Some("/bin/own")).as_deref(), Some("/bin/own"));
        assert_eq!(inner(&[(by_cargo, "")], Some("sccache")), None);
        assert_eq!(inner(&[], Some("")), None);
        assert_eq!(
            inner(&[(by_cargo, "/bin/cargo-cuda")], None),
            None,
            "itself"
        );
    }
}
