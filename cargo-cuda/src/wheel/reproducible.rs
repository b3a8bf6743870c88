//! Why two checkouts of one commit give different native modules, and what to tell rustc so that
//! they do not.
//!
//! Measured with cargo 1.95 and maturin 1.16, release and dev profile:
//!
//! - `file!()` of what a build script generated is below `OUT_DIR`, an absolute path whose last
//!   part carries cargo's hash. `--remap-path-prefix` gives it a fixed name.
//! - Cargo's `-C metadata` of a path package outside the workspace is a hash of its absolute path,
//!   and the hash of each package includes those of its dependencies, build dependencies too. All
//!   mangled names follow, and with them the order of functions; stripping symbols does not help,
//!   and rustc adds a second `-C metadata` instead of replacing the first.
//! - Everything that `file!()` says of registry crates starts with `CARGO_HOME`.
//!
//! So `cargo cuda wheel` has itself called in front of rustc (`RUSTC_WRAPPER`, which leaves
//! `RUSTFLAGS` and `.cargo/config.toml` to the user), and changes those arguments alone. The
//! crates must be built in a target directory of their own: cargo does not rebuild what it built
//! without the wrapper.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cuda_build::Env;
use sha2::{Digest as _, Sha256};

/// Set for cargo where this program is its `RUSTC_WRAPPER`: what it changes.
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

/// The wrapper that the user had, called in between.
pub const INNER: &str = "CARGO_CUDA_INNER_WRAPPER";

/// Directories where rustc looks for static libraries, as in `PATH`. Here and not in rustflags:
/// cargo hashes those into the names of files, with the place that the directories are in.
pub const SEARCH: &str = "CARGO_CUDA_SEARCH";

/// Variables that make cargo call `program` in front of rustc, which looks for static libraries in
/// `search` too. The user's own wrapper (sccache), in the environment or `configured`, stays in use.
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
    // A name with a colon fits into no list, LIBRARY_PATH neither.
    let search = search
        .iter()
        .filter(|directory| !directory.to_string_lossy().contains(':'));
    match std::env::join_paths(search) {
        Ok(search) if !search.is_empty() => variables.push((SEARCH.to_owned(), search)),
        _ => {}
    }
    // As Cargo chooses; an empty one is how it is told to use none.
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

/// The command to run instead, where `arguments` (without the program's own name) are those of a
/// wrapper call (`rustc …`); nothing where this is `cargo cuda …` or no wrapper was asked for.
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

/// rustc's arguments without the place where the build happens to be.
fn changed(arguments: &[OsString], env: &Env, current: &Path) -> Vec<OsString> {
    let mut arguments = arguments.to_owned();
    // Cargo asks rustc about itself too; those calls build no package.
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

    // After those of build scripts, which know better.
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
    // rustc takes the last prefix that matches, so the longer ones come later.
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

/// Tells a package's crates apart as cargo's hash does, by everything but the place: what the
/// package is, which of its targets, with which features and profile. Two that come out equal in
/// one program would be an error of rustc's, not a wrong program.
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
    hash.finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
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
    fn the_place_decides_about_nothing() {
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
