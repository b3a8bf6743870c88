//! Arguments for rustc with which two checkouts of a commit give the same native module.
//!
//! The differences, measured with cargo 1.95 and maturin 1.16, release and dev profile:
//!
//! - `file!()` in generated code is below `OUT_DIR`, an absolute path whose last
//!   part carries cargo's hash. `--remap-path-prefix` gives it a fixed name.
//! - Cargo's `-C metadata` of a path package outside the workspace is a hash of its absolute path,
//!   and the hash of each package includes those of its dependencies, build dependencies too. All
//!   mangled names follow, and with them the order of functions; stripping symbols does not help,
//!   and rustc adds a second `-C metadata` instead of replacing the first.
//! - `file!()` in crates from a registry starts with `CARGO_HOME`.
//!
//! So `cargo cuda wheel` makes itself the `RUSTC_WRAPPER` (the user keeps `RUSTFLAGS` and
//! `.cargo/config.toml`) and changes only these arguments. The crates need a target directory of
//! their own, because cargo does not rebuild crates when the wrapper changes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cuda_build::internal::Env;
use sha2::{Digest as _, Sha256};

/// Set if this program is the `RUSTC_WRAPPER`: what it changes.
pub const FLAG: &str = "CARGO_CUDA_RUSTC_WRAPPER";

/// What this program changes in rustc's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only the directories in which rustc looks for libraries.
    Search,
    /// Everything that depends on the place of the build, too.
    Place,
}

impl Scope {
    fn as_str(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Place => "place",
        }
    }
}

/// The user's own wrapper, which this program calls.
pub const INNER: &str = "CARGO_CUDA_INNER_WRAPPER";

/// Directories where rustc looks for static libraries, in the form of `PATH`. They are not in
/// rustflags, because cargo hashes those, with the absolute paths, into the names of files.
pub const SEARCH: &str = "CARGO_CUDA_SEARCH";

/// Variables with which cargo calls `program` instead of rustc, and rustc also searches `search` for
/// static libraries. A wrapper of the user's (sccache), from the environment or `configured`, is
/// still called.
#[must_use]
pub fn environment(
    program: &Path,
    scope: Scope,
    search: &[PathBuf],
    configured: Option<&Path>,
    env: &Env,
) -> Vec<(String, OsString)> {
    let mut variables = vec![
        ("RUSTC_WRAPPER".to_owned(), program.as_os_str().to_owned()),
        (FLAG.to_owned(), scope.as_str().into()),
    ];
    // A list of paths cannot contain a path with a colon.
    let search = search
        .iter()
        .filter(|directory| !directory.to_string_lossy().contains(':'));
    match std::env::join_paths(search) {
        Ok(search) if !search.is_empty() => variables.push((SEARCH.to_owned(), search)),
        _ => {}
    }
    // In Cargo's order. An empty variable means no wrapper.
    let set = |wanted: &str| {
        env.variables()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value)
    };
    let inner = set("RUSTC_WRAPPER").or_else(|| set("CARGO_BUILD_RUSTC_WRAPPER"));
    let inner = inner.or(configured.map(Path::as_os_str));
    if let Some(inner) = inner.filter(|inner| *inner != program.as_os_str() && !inner.is_empty()) {
        variables.push((INNER.to_owned(), inner.to_owned()));
    }
    variables
}

/// The command to run if this program is called as a wrapper; `None` if it is called as
/// `cargo cuda …`. `arguments` do not include the program's name.
#[must_use]
pub fn wrapped(arguments: &[OsString], env: &Env, current: &Path) -> Option<Vec<OsString>> {
    env.peek(FLAG)?;
    let (compiler, arguments) = arguments
        .split_first()
        .filter(|(first, _)| *first != "cuda")?;
    let mut command: Vec<OsString> = env.peek(INNER).map(OsStr::to_owned).into_iter().collect();
    command.push(compiler.clone());
    command.extend(changed(arguments, env, current));
    Some(command)
}

/// rustc's arguments without the directories of this checkout.
fn changed(arguments: &[OsString], env: &Env, current: &Path) -> Vec<OsString> {
    let mut arguments = arguments.to_owned();
    // Cargo also queries rustc; those calls build no package.
    let (Some(name), Some(version), Some(manifest)) = (
        env.peek("CARGO_PKG_NAME"),
        env.peek("CARGO_PKG_VERSION"),
        env.peek("CARGO_MANIFEST_DIR"),
    ) else {
        return arguments;
    };
    let cargo_home = env
        .peek("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env.peek("HOME").map(|home| Path::new(home).join(".cargo")));
    let fetched = cargo_home
        .as_ref()
        .is_some_and(|home| Path::new(manifest).starts_with(home));

    // After the directories of build scripts, which take precedence.
    let search = env
        .peek(SEARCH)
        .map(std::env::split_paths)
        .into_iter()
        .flatten();
    for directory in search.filter(|directory| !directory.as_os_str().is_empty()) {
        let mut argument = OsString::from("-Lnative=");
        argument.push(directory);
        arguments.push(argument);
    }
    if env.peek(FLAG) == Some(OsStr::new(Scope::Search.as_str())) {
        return arguments;
    }
    let mut remap = |from: &OsStr, to: &str| {
        let mut argument = OsString::from("--remap-path-prefix=");
        argument.push(from);
        argument.push("=");
        argument.push(to);
        arguments.push(argument);
    };
    // rustc uses the last prefix that matches, so the longer ones come later.
    if let Some(home) = &cargo_home {
        remap(home.as_os_str(), "/cargo");
    }
    let package = format!("/{}-{}", name.to_string_lossy(), version.to_string_lossy());
    if !fetched {
        remap(current.as_os_str(), "/source");
        remap(manifest, &package);
    }
    if let Some(out_dir) = env.peek("OUT_DIR") {
        remap(out_dir, &format!("{package}/out"));
    }
    if !fetched {
        let identity = identity(name, version, &arguments);
        for argument in &mut arguments {
            if let Some(start) = argument.to_str().and_then(metadata_prefix) {
                *argument = format!("{start}{identity}").into();
            }
        }
    }
    arguments
}

fn metadata_prefix(argument: &str) -> Option<&'static str> {
    ["metadata=", "-Cmetadata="]
        .into_iter()
        .find(|prefix| argument.starts_with(prefix))
}

/// Identifies a crate as cargo's hash does, but without its directory: by package, target, features
/// and profile. If two crates of one program had the same identity, rustc would report an error.
fn identity(name: &OsStr, version: &OsStr, arguments: &[OsString]) -> String {
    const VALUES: [&str; 6] = [
        "--crate-name",
        "--crate-type",
        "--cfg",
        "--edition",
        "--target",
        "--test",
    ];
    const CODEGEN: [&str; 7] = [
        "opt-level",
        "panic",
        "lto",
        "linker-plugin-lto",
        "debuginfo",
        "debug-assertions",
        "overflow-checks",
    ];
    let mut hash = Sha256::new();
    let mut feed = |text: &OsStr| {
        hash.update(text.as_encoded_bytes());
        hash.update([0]);
    };
    feed(name);
    feed(version);
    for (index, argument) in arguments.iter().enumerate() {
        let text = argument.to_string_lossy();
        let (option, joined) = text
            .split_once('=')
            .map_or((&*text, false), |(option, _)| (option, true));
        if VALUES.contains(&option) {
            feed(argument);
            if !joined && let Some(value) = arguments.get(index + 1) {
                feed(value);
            }
        } else if CODEGEN.contains(&option.trim_start_matches("-C")) {
            feed(argument);
        }
    }
    let digest = hash.finalize();
    let first = u64::from_be_bytes(std::array::from_fn(|index| digest[index]));
    format!("{first:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    fn call(root: &str, manifest: &str, hash: &str, features: &[&str]) -> Vec<String> {
        let env = Env::from_pairs([
            (FLAG, "place".to_owned()),
            ("CARGO_PKG_NAME", "saxpy".to_owned()),
            ("CARGO_PKG_VERSION", "0.1.0".to_owned()),
            ("CARGO_MANIFEST_DIR", manifest.to_owned()),
            ("CARGO_HOME", "/home/me/.cargo".to_owned()),
            (
                "OUT_DIR",
                format!("{root}/target/release/build/saxpy-{hash}/out"),
            ),
        ]);
        let metadata = format!("metadata={hash}");
        let mut arguments = vec![
            "/bin/rustc",
            "--crate-name",
            "saxpy",
            "src/lib.rs",
            "-C",
            "opt-level=3",
            "-C",
            &metadata,
        ];
        features
            .iter()
            .for_each(|feature| arguments.extend(["--cfg", feature]));
        let arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
        let command = wrapped(&arguments, &env, Path::new(root)).unwrap();
        command
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect()
    }

    fn metadata(command: &[String]) -> &str {
        command
            .iter()
            .find(|word| word.starts_with("metadata="))
            .unwrap()
    }

    #[test]
    fn the_directory_does_not_matter() {
        let first = call("/a", "/a", "1111111111111111", &[]);
        let second = call("/tmp/b", "/tmp/b", "2222222222222222", &[]);
        assert_eq!(metadata(&first), metadata(&second));
        assert_ne!(metadata(&first), "metadata=1111111111111111");
        assert_eq!(
            first[8..],
            [
                "--remap-path-prefix=/home/me/.cargo=/cargo",
                "--remap-path-prefix=/a=/source",
                "--remap-path-prefix=/a=/saxpy-0.1.0",
                "--remap-path-prefix=/a/target/release/build/saxpy-1111111111111111/out=/saxpy-0.1.0/out",
            ]
        );
        assert_ne!(
            metadata(&first),
            metadata(&call("/a", "/a", "1111111111111111", &["feature=\"fast\""]))
        );
    }

    #[test]
    fn fetched_packages_keep_cargos_hash() {
        let manifest = "/home/me/.cargo/registry/src/index/saxpy-0.1.0";
        let command = call(manifest, manifest, "3333333333333333", &[]);
        assert_eq!(metadata(&command), "metadata=3333333333333333");
        assert!(command.contains(&"--remap-path-prefix=/home/me/.cargo=/cargo".to_owned()));
    }

    #[test]
    fn other_calls_pass_through() {
        let env = Env::from_pairs([(FLAG, "place"), (INNER, "sccache")]);
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
        let variables = environment(
            Path::new("/bin/cargo-cuda"),
            Scope::Search,
            &search,
            None,
            &Env::default(),
        );
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
    fn the_users_wrapper_stays() {
        let inner = |variables: &[(&str, &str)], configured: Option<&str>| {
            let env = Env::from_pairs(variables.iter().copied());
            let all = environment(
                Path::new("/bin/cargo-cuda"),
                Scope::Place,
                &[],
                configured.map(Path::new),
                &env,
            );
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
