//! Arguments for rustc that make two checkouts of a commit produce the same native module.
//!
//! Without these arguments, the native modules of two checkouts differ for three reasons (measured with cargo 1.95
//! and maturin 1.16, release and dev profile):
//!
//! - In generated code, `file!()` is a path below `OUT_DIR`. `OUT_DIR` is an absolute path that contains a hash that
//!   cargo computes. `--remap-path-prefix` replaces the path with a fixed name.
//! - Cargo's `-C metadata` of a path package outside the workspace is a hash of its absolute path,
//!   and the hash of each package includes the hashes of its dependencies and build dependencies. All mangled names
//!   and the order of functions depend on this hash, so stripping symbols is not enough. Passing a second
//!   `-C metadata` does not help either, because rustc uses both values.
//! - `file!()` in crates from a registry starts with `CARGO_HOME`.
//!
//! Therefore `cargo cuda wheel` sets `RUSTC_WRAPPER` to its own program. The wrapper adds `--remap-path-prefix` and
//! replaces the value of `-C metadata`. The user's `RUSTFLAGS` and `.cargo/config.toml` still apply. Wheels need a
//! separate target directory, because cargo does not rebuild crates when the wrapper changes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cuda_build::internal::Env;
use sha2::{Digest as _, Sha256};

/// Changes rustc's arguments so that its output does not contain the directories of this checkout. `name` is the
/// package's name, `env` has the variables that cargo sets for the package, and `current` is rustc's working
/// directory.
pub fn remap(arguments: &mut Vec<OsString>, name: &OsStr, env: &Env, current: &Path) {
    let version = env.peek("CARGO_PKG_VERSION").unwrap_or_default();
    let manifest = env.peek("CARGO_MANIFEST_DIR").unwrap_or_default();
    let cargo_home = env
        .peek("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env.peek("HOME").map(|home| Path::new(home).join(".cargo")));
    let fetched = cargo_home
        .as_ref()
        .is_some_and(|home| Path::new(manifest).starts_with(home));
    let mut prefix = |from: &OsStr, to: &str| {
        let mut argument = OsString::from("--remap-path-prefix=");
        argument.push(from);
        argument.push("=");
        argument.push(to);
        arguments.push(argument);
    };
    // rustc uses the last prefix that matches, so a longer prefix has to come after a shorter one.
    if let Some(home) = &cargo_home {
        prefix(home.as_os_str(), "/cargo");
    }
    let package = format!("/{}-{}", name.display(), version.display());
    if !fetched {
        prefix(current.as_os_str(), "/source");
        prefix(manifest, &package);
    }
    if let Some(out_dir) = env.peek("OUT_DIR") {
        prefix(out_dir, &format!("{package}/out"));
    }
    if fetched {
        return;
    }
    let identity = identity(name, version, arguments);
    for argument in arguments {
        if let Some(start) = argument.to_str().and_then(metadata_prefix) {
            *argument = format!("{start}{identity}").into();
        }
    }
}

fn metadata_prefix(argument: &str) -> Option<&'static str> {
    ["metadata=", "-Cmetadata="]
        .into_iter()
        .find(|prefix| argument.starts_with(prefix))
}

/// The replacement for cargo's hash: a digest of package, target, features and profile, but not of the package's
/// directory. If two crates of one program had the same identity, rustc would report an error.
fn identity(name: &OsStr, version: &OsStr, arguments: &[OsString]) -> String {
    const OPTIONS: [&str; 6] = [
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
        if OPTIONS.contains(&option) {
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
    use crate::rustc_wrapper::{SCOPE, wrapped};

    fn call(root: &str, manifest: &str, hash: &str, features: &[&str]) -> Vec<String> {
        let env = Env::from_pairs([
            (SCOPE, "reproducible".to_owned()),
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
}
