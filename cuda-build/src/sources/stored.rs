//! Proposes fetched toolkits: first those that the workspace's `cuda-toolkits.lock` lists, later all of them.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::{Label, SearchStep, Sources};
use crate::config::workspace_root;
use crate::document;
use crate::env::Env;
use crate::error::Error;
use crate::list::sort_by_key;
use crate::root::Root;
use crate::store::{self, Package, StoredToolkit};
use crate::target::Target;
use crate::version::{ToolkitVersion, Version};

/// The name of the lock file, which is beside the workspace's `Cargo.toml`.
pub const LOCK_FILE: &str = "cuda-toolkits.lock";

/// The variable that names the lock file.
pub const LOCK_VARIABLE: &str = "CUDA_BUILD_LOCK";

/// The newest format of the lock file that this crate reads.
const FORMAT_VERSION: i64 = 1;

/// One toolkit of a lock file.
pub struct Locked {
    /// The lock file.
    pub file: PathBuf,
    /// The version that the lock file pins: `13.4.3`.
    pub version: Version,
    /// Its CUDA release.
    pub release: ToolkitVersion,
    /// The places of the smallest stored toolkits with the packages that the lock file lists: one for the target, and
    /// in a cross build another one for this machine. Empty if the target's has not been fetched.
    pub paths: Vec<PathBuf>,
}

/// The stored toolkits for the target's platform and, in a cross build, those for this machine, for their programs.
/// The second list has an error for each toolkit that cannot be used.
fn stored(root: &Root, env: &Env, target: &Target) -> (Vec<StoredToolkit>, Vec<Error>) {
    let (mut toolkits, mut errors) = (Vec::new(), Vec::new());
    let directory = store::toolkits_dir(env);
    let stored = directory.map(|directory| store::stored_toolkits(root, &directory));
    let is_used = |platform: &str| platform == target.directory() || target.runs_here(platform);
    for toolkit in stored.unwrap_or_default() {
        match toolkit {
            Ok(toolkit) if is_used(&toolkit.platform) => toolkits.push(toolkit),
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    (toolkits, errors)
}

/// Proposes every stored toolkit that [`stored`] returns, the newest first. Of two toolkits of the same version, the
/// toolkit with more components comes first.
pub(super) fn propose(root: &Root, env: &Env, target: &Target, found: &mut Sources) {
    let (mut toolkits, errors) = stored(root, env, target);
    found.remarks.extend(errors.iter().map(ToString::to_string));
    sort_by_key(&mut toolkits, |t| {
        (
            Reverse((t.version.clone(), t.components.len())),
            t.path.clone(),
        )
    });
    for toolkit in toolkits {
        let version = &toolkit.version;
        let label = Label::Text(format!("toolkit {version} from `cargo cuda toolkit add`"));
        found
            .candidates
            .push(toolkit.candidate(SearchStep::Stored, label));
    }
}

/// Adds every toolkit of the lock file to `found.locked`, and proposes those that have been fetched, the newest
/// first.
pub(super) fn propose_locked(
    root: &Root,
    env: &Env,
    target: &Target,
    found: &mut Sources,
) -> Result<(), Error> {
    let Some(file) = lock_file(root, env).filter(|file| root.exists(file)) else {
        return Ok(());
    };
    let text = root.text(&file).map_err(|error| error.to_string());
    let locked = text.and_then(|text| parse(&text));
    let mut locked = locked.map_err(|reason| Error::Format {
        what: "lock file",
        reason: format!("{}: {reason}", file.display()),
        hint: "restore it from version control, or delete it, and run `cargo cuda fetch`",
    })?;
    sort_by_key(&mut locked, |(version, ..)| Reverse(version.clone()));
    let (stored, _) = stored(root, env, target);
    for (version, release, packages) in locked {
        // `cargo cuda toolkit gc` removes a toolkit if a larger one has all of it.
        let for_platform = |is_target: bool| {
            let is_for = |it: &&StoredToolkit| (it.platform == target.directory()) == is_target;
            let holders = stored.iter().filter(is_for);
            let holders = holders.filter(|stored| stored.contains(&version, &packages));
            holders.min_by_key(|stored| stored.packages.len())
        };
        let mut paths = Vec::new();
        if let Some(own) = for_platform(true) {
            for toolkit in [Some(own), for_platform(false)].into_iter().flatten() {
                let label = Label::Text(format!("CUDA {version} of `{LOCK_FILE}`"));
                let candidate = toolkit.candidate(SearchStep::Locked, label);
                paths.push(candidate.path.clone());
                found.candidates.push(candidate);
            }
        }
        found.locked.push(Locked {
            file: file.clone(),
            version,
            release,
            paths,
        });
    }
    Ok(())
}

/// The path of the lock file to use, which may not exist:
/// - the file that `CUDA_BUILD_LOCK` names;
/// - otherwise the file beside the nearest `Cargo.toml` above `OUT_DIR`, because that manifest
///   belongs to the workspace that is being built;
/// - otherwise the file beside the `Cargo.toml` of the package's own workspace, unless the package is
///   a dependency from a registry, from git or from a vendor directory.
pub fn lock_file(root: &Root, env: &Env) -> Option<PathBuf> {
    if let Some(named) = env.path(LOCK_VARIABLE) {
        return Some(named);
    }
    let out = env.peek("OUT_DIR").map(Path::new);
    let mut above_out = out.iter().flat_map(|out| out.ancestors());
    if let Some(built) = above_out.find(|directory| root.is_file(&directory.join("Cargo.toml"))) {
        return Some(built.join(LOCK_FILE));
    }
    let package = Path::new(env.peek("CARGO_MANIFEST_DIR")?);
    let is_own = !is_dependency(root, env, package);
    Some(
        is_own
            .then(|| workspace_root(root, package))??
            .join(LOCK_FILE),
    )
}

/// Whether Cargo downloaded the package. If so, the package is below `CARGO_HOME`, or contains the file that
/// `cargo vendor` adds to each package.
fn is_dependency(root: &Root, env: &Env, package: &Path) -> bool {
    let cargo_home = env.peek("CARGO_HOME").map(PathBuf::from);
    let default = || Some(Path::new(env.peek("HOME")?).join(".cargo"));
    let is_below = |home: PathBuf| root.resolve(package).starts_with(root.resolve(&home));
    cargo_home.or_else(default).is_some_and(is_below)
        || root.is_file(&package.join(".cargo-checksum.json"))
}

fn parse(text: &str) -> Result<Vec<(Version, ToolkitVersion, Vec<Package>)>, String> {
    let table = document::parse(text, FORMAT_VERSION)?;
    let mut locked = Vec::new();
    for toolkit in document::tables(&table, "toolkit")? {
        let text = document::string(toolkit, "version")?;
        // `Version` keeps any text after the numbers, and messages print it. A lock file must not put other text
        // into messages, so only digits and dots are accepted.
        let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let version: Option<Version> = text.parse().ok().filter(|_| is_plain);
        let release = version.as_ref().and_then(Version::release);
        let (version, release) = version
            .zip(release)
            .ok_or_else(|| format!("`version` {text:?} is not a CUDA release"))?;
        if toolkit.get("packages").is_none() {
            return Err("`packages` is missing or not an array".to_owned());
        }
        locked.push((version, release, store::packages(toolkit)?));
    }
    Ok(locked)
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
            (
                vec![out, ("CUDA_BUILD_LOCK", "absent.lock")],
                Some("absent.lock"),
            ),
            // The built workspace has no lock file, and that of the dependency is not used.
            (
                vec![
                    ("OUT_DIR", "bare/target/out"),
                    ("CARGO_MANIFEST_DIR", "dep"),
                ],
                Some("bare/cuda-toolkits.lock"),
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
            ("", "`format_version` is missing or not a number"),
            ("format_version = 2\n", "format_version 2"),
            (
                "format_version = 1\n[[toolkit]]\n",
                "`version` is missing or not a string",
            ),
            (
                "format_version = 1\n[[toolkit]]\nversion = \"new\"\n",
                "is not a CUDA release",
            ),
            (
                "format_version = 1\n[[toolkit]]\nversion = \"13.4\\u001b[31m\"\npackages = []\n",
                "is not a CUDA release",
            ),
            (
                "format_version = 1\n[[toolkit]]\nversion = \"13.4.3\"\n",
                "`packages` is missing or not an array",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.is_empty(), "{text}");
            assert!(reason == "invalid" || error.contains(reason), "{error}");
        }
    }
}
