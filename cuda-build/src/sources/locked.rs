//! The toolkits that a workspace's `cuda-toolkits.lock` names, as far as they were fetched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::{Candidate, Label, Sources, Step};
use crate::config::workspace_root;
use crate::env::Env;
use crate::error::Error;
use crate::root::Root;
use crate::store::{self, StoredToolkit};
use crate::target::Target;
use crate::version::{ToolkitVersion, Version};

/// The name of the lock file, which lies beside the workspace's `Cargo.toml`.
pub const LOCK_FILE: &str = "cuda-toolkits.lock";

/// The variable that names the lock file.
const VARIABLE: &str = "CUDA_BUILD_LOCK";

/// The newest format of the lock file that this crate reads.
const FORMAT_VERSION: i64 = 1;

/// One toolkit of a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    /// The lock file.
    pub file: PathBuf,
    /// The version of the set: `13.4.3`.
    pub version: Version,
    /// Its CUDA release.
    pub release: ToolkitVersion,
    /// The stored toolkit with exactly these packages; `None` if it has not been fetched.
    pub path: Option<PathBuf>,
}

/// Names and versions of Python packages.
type Packages = BTreeSet<(String, String)>;

pub(super) fn propose(
    root: &Root,
    env: &Env,
    target: &Target,
    found: &mut Sources,
) -> Result<(), Error> {
    let Some(file) = lock_file(root, env) else {
        return Ok(());
    };
    let invalid = |reason: String| Error::Format {
        what: "lock file",
        reason: format!("{}: {reason}", file.display()),
    };
    let text = root
        .text(&file)
        .map_err(|error| invalid(error.to_string()))?;
    let locked = parse(&text).map_err(invalid)?;
    let stored = stored(root, env, target);
    for (version, release, packages) in locked {
        let path = stored
            .iter()
            .find(|(_, known)| *known == packages)
            .map(|(path, _)| path.clone());
        found.locked.push(Locked {
            file: file.clone(),
            version,
            release,
            path,
        });
    }
    found.locked.sort_by(|a, b| b.version.cmp(&a.version));
    for locked in &found.locked {
        if let Some(path) = &locked.path {
            let label = Label::Text(format!("CUDA {} of `{LOCK_FILE}`", locked.version));
            let candidate = Candidate::site_packages(Step::Locked, label, path);
            found.candidates.push(candidate);
        }
    }
    Ok(())
}

/// The lock file that decides: the one that `CUDA_BUILD_LOCK` names; otherwise the one beside the `Cargo.toml` that
/// is nearest above `OUT_DIR`, which belongs to the workspace that is built; otherwise the one of the package's own
/// workspace, unless the package is a dependency from a registry, from git or from a vendor directory.
///
/// A variable that names a file that does not exist yet names none: `cargo cuda init` writes it beforehand.
#[must_use]
pub fn lock_file(root: &Root, env: &Env) -> Option<PathBuf> {
    if let Some(named) = env.path(VARIABLE) {
        return Some(named).filter(|path| root.exists(path));
    }
    let beside =
        |directory: &Path| Some(directory.join(LOCK_FILE)).filter(|path| root.is_file(path));
    let out = env.peek("OUT_DIR").map(PathBuf::from);
    let mut above_out = out.iter().flat_map(|out| out.ancestors());
    if let Some(built) = above_out.find(|directory| root.is_file(&directory.join("Cargo.toml"))) {
        return beside(built);
    }
    let package = PathBuf::from(env.peek("CARGO_MANIFEST_DIR")?);
    if is_dependency(root, env, &package) {
        return None;
    }
    beside(&workspace_root(root, &package)?)
}

/// Whether Cargo downloaded the package: below `CARGO_HOME`, or with the file that `cargo vendor` adds.
fn is_dependency(root: &Root, env: &Env, package: &Path) -> bool {
    let cargo_home = env
        .peek("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env.peek("HOME")?).join(".cargo")));
    let cargo_home = cargo_home.map(|home| root.resolve(&home));
    cargo_home.is_some_and(|home| root.resolve(package).starts_with(home))
        || root.is_file(&package.join(".cargo-checksum.json"))
}

/// Every stored toolkit for the platform, with its packages.
fn stored(root: &Root, env: &Env, target: &Target) -> Vec<(PathBuf, Packages)> {
    let Some(directory) = store::toolkits_dir(env) else {
        return Vec::new();
    };
    let with_packages = |toolkit: StoredToolkit| {
        let text = root.text(&toolkit.path.join(store::MANIFEST)).ok()?;
        let table = DeTable::parse(&text).ok()?.into_inner();
        Some((toolkit.path, packages(&table).ok()?))
    };
    store::stored_toolkits(root, &directory)
        .into_iter()
        .filter_map(Result::ok)
        .filter(|toolkit| toolkit.platform == target.directory())
        .filter_map(with_packages)
        .collect()
}

fn parse(text: &str) -> Result<Vec<(Version, ToolkitVersion, Packages)>, String> {
    let table = DeTable::parse(text)
        .map_err(|error| error.message().to_owned())?
        .into_inner();
    let format: i64 = table
        .get("format_version")
        .and_then(|value| value.get_ref().as_integer())
        .and_then(|number| number.as_str().parse().ok())
        .ok_or("no number `format_version`")?;
    if !(1..=FORMAT_VERSION).contains(&format) {
        return Err(format!(
            "format_version {format}, this cuda-build reads up to {FORMAT_VERSION}"
        ));
    }
    let Some(toolkits) = table.get("toolkit") else {
        return Ok(Vec::new());
    };
    let toolkits = toolkits
        .get_ref()
        .as_array()
        .ok_or("`toolkit` is no list")?;
    toolkits
        .iter()
        .map(|toolkit| {
            let toolkit = toolkit
                .get_ref()
                .as_table()
                .ok_or("`toolkit` is no table")?;
            let text = string(toolkit, "version")?;
            let wrong = || format!("`version` {text:?} is no CUDA release");
            // The text is printed, and a repository is not trusted to choose it.
            if !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
                return Err(wrong());
            }
            let version: Version = text.parse().map_err(|_| wrong())?;
            let release: ToolkitVersion = text.parse().map_err(|_| wrong())?;
            Ok((version, release, packages(toolkit)?))
        })
        .collect()
}

fn packages(table: &DeTable<'_>) -> Result<Packages, String> {
    let packages = table
        .get("packages")
        .and_then(|value| value.get_ref().as_array())
        .ok_or("no list `packages`")?;
    packages
        .iter()
        .map(|package| {
            let package = package
                .get_ref()
                .as_table()
                .ok_or("no table in `packages`")?;
            Ok((string(package, "name")?, string(package, "version")?))
        })
        .collect()
}

fn string(table: &DeTable<'_>, key: &str) -> Result<String, String> {
    table
        .get(key)
        .and_then(|value| DeValue::as_str(value.get_ref()))
        .map(str::to_owned)
        .ok_or_else(|| format!("no string `{key}`"))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests prepare real directories")]
mod tests {
    use super::*;
    use std::fs;

    fn file(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_lock_of_the_built_workspace_is_found() {
        let top = tempfile::tempdir().unwrap();
        let top = &top.path().canonicalize().unwrap();
        for path in [
            "ws/Cargo.toml",
            "dep/Cargo.toml",
            "home/registry/dep/Cargo.toml",
        ] {
            file(&top.join(path), "[package]\nname = \"p\"\n[workspace]\n");
            file(&top.join(path).with_file_name(LOCK_FILE), "");
        }
        file(&top.join("bare/Cargo.toml"), "[workspace]\n");
        file(
            &top.join("vendor/dep/Cargo.toml"),
            "[package]\nname = \"p\"\n[workspace]\n",
        );
        file(&top.join("vendor/dep/cuda-toolkits.lock"), "");
        file(&top.join("vendor/dep/.cargo-checksum.json"), "{}");
        file(&top.join("named.lock"), "");
        let found = |variables: &[(&str, &str)]| {
            let pairs = variables
                .iter()
                .map(|(name, below)| (*name, top.join(below)));
            let env = Env::from_pairs(pairs).with("CARGO_HOME", top.join("home"));
            let lock = lock_file(&Root::system(), &env)?;
            Some(lock.strip_prefix(top).unwrap().display().to_string())
        };
        let out = ("OUT_DIR", "ws/target/debug/build/p-0/out");
        for (variables, expected) in [
            // A dependency, wherever it is, is built for the workspace of `OUT_DIR`.
            (
                vec![out, ("CARGO_MANIFEST_DIR", "home/registry/dep")],
                Some("ws/cuda-toolkits.lock"),
            ),
            (
                vec![out, ("CUDA_BUILD_LOCK", "named.lock")],
                Some("named.lock"),
            ),
            (vec![out, ("CUDA_BUILD_LOCK", "absent.lock")], None),
            // The built workspace has no lock file.
            (
                vec![
                    ("OUT_DIR", "bare/target/out"),
                    ("CARGO_MANIFEST_DIR", "dep"),
                ],
                None,
            ),
            // A target directory elsewhere.
            (
                vec![("OUT_DIR", "elsewhere/out"), ("CARGO_MANIFEST_DIR", "dep")],
                Some("dep/cuda-toolkits.lock"),
            ),
            (
                vec![
                    ("OUT_DIR", "elsewhere/out"),
                    ("CARGO_MANIFEST_DIR", "home/registry/dep"),
                ],
                None,
            ),
            (
                vec![
                    ("OUT_DIR", "elsewhere/out"),
                    ("CARGO_MANIFEST_DIR", "vendor/dep"),
                ],
                None,
            ),
            (vec![], None),
        ] {
            assert_eq!(found(&variables).as_deref(), expected, "{variables:?}");
        }
    }

    #[test]
    fn broken_lock_files_are_refused() {
        for (text, reason) in [
            ("<<<<<<< HEAD\n", "invalid"),
            ("", "no number `format_version`"),
            ("format_version = 2\n", "format_version 2"),
            ("format_version = 1\n[[toolkit]]\n", "no string `version`"),
            (
                "format_version = 1\n[[toolkit]]\nversion = \"new\"\n",
                "is no CUDA release",
            ),
            (
                "format_version = 1\n[[toolkit]]\nversion = \"13.4\\u001b[31m\"\npackages = []\n",
                "is no CUDA release",
            ),
            (
                "format_version = 1\n[[toolkit]]\nversion = \"13.4.3\"\n",
                "no list `packages`",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.is_empty(), "{text}");
            assert!(reason == "invalid" || error.contains(reason), "{error}");
        }
    }
}
