//! Files with exact packages: the lock file, and the manifest of a stored toolkit.

use std::io;
use std::path::Path;

use cuda_build::{Component, ToolkitVersion, Version};
use cuda_find_core::sources::{self, LOCK_FILE, LOCK_FORMAT_VERSION, LOCK_VARIABLE};
use cuda_find_core::{env::Env, root::Root};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::package::{PackageSet, ReleaseToFetch};
use crate::failure::{Failure, Result};
use crate::output;

const HEADER: &str =
    "# Written by `cargo cuda toolkit add`; commit it. `--upgrade` resolves it again.\n";

/// The variables of a command in the workspace with this root: [`LOCK_VARIABLE`] names the workspace's lock file,
/// unless the user has named another file. The lock file need not exist.
pub fn with_lock_file(env: Env, workspace_root: Option<&Path>) -> Env {
    match workspace_root {
        Some(root) if env.peek(LOCK_VARIABLE).is_none() => {
            env.with(LOCK_VARIABLE, root.join(LOCK_FILE))
        }
        _ => env,
    }
}

/// The lock file of a command; `None` outside a workspace, unless [`LOCK_VARIABLE`] names a file.
pub(super) fn lock_file(env: &Env) -> Option<&Path> {
    env.peek(LOCK_VARIABLE).map(Path::new)
}

/// Whether a command has a lock file, which need not exist.
pub fn has_lock_file(env: &Env) -> bool {
    lock_file(env).is_some()
}

/// The text of a regular file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match Root::system().text(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => text.map(Some),
    }
}

/// Reads a file by the same rule as the search: keys that are not known are ignored, and a newer format is an error.
fn parse<T: DeserializeOwned>(text: &str, newest_format: i64) -> Result<T, String> {
    cuda_find_core::toml::parse(text, newest_format)?;
    toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
}

/// `cuda-toolkits.lock`: the exact packages to which each release was resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    format_version: i64,
    #[serde(default, rename = "toolkit")]
    toolkits: Vec<LockEntry>,
}

/// The packages to which one release was resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LockEntry {
    /// The release as it was requested: `13`.
    request: String,
    #[serde(flatten)]
    set: PackageSet,
}

impl LockEntry {
    /// Checks names and versions, because a lock file in a repository is untrusted input.
    fn check(&self) -> Result<(), String> {
        let (request, version) = (&self.request, &self.set.version);
        let Ok(release) = request.parse::<ReleaseToFetch>() else {
            return Err(format!("`request` {request:?} is not a CUDA release"));
        };
        self.set.check()?;
        match self.version() {
            Some(version) if release.admits(&version) => Ok(()),
            _ => Err(format!(
                "the request CUDA {release} does not match version {version}"
            )),
        }
    }

    fn version(&self) -> Option<Version> {
        self.set.version.parse().ok()
    }
}

impl Default for Lock {
    fn default() -> Self {
        Self {
            format_version: LOCK_FORMAT_VERSION,
            toolkits: Vec::new(),
        }
    }
}

impl Lock {
    /// Reads the lock file of a command.
    pub fn of(env: &Env) -> Result<Self> {
        lock_file(env).map_or_else(|| Ok(Self::default()), Self::read)
    }

    /// Reads a lock file. A file that does not exist reads as empty.
    pub fn read(path: &Path) -> Result<Self> {
        let lock = match read(path) {
            Ok(Some(text)) => Self::parse(&text),
            Ok(None) => Ok(Self::default()),
            Err(error) => Err(error.to_string()),
        };
        lock.map_err(|reason| {
            let reason = output::printable(&reason);
            let message = format!("{} cannot be used: {reason}", path.display());
            Failure::lock(message).hint(
                "if a newer version wrote it, update cargo-cuda; otherwise restore it from version control, or delete \
                 it to resolve all versions again",
            )
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lock: Self = parse(text, LOCK_FORMAT_VERSION)?;
        for locked in &mut lock.toolkits {
            locked.check()?;
            locked.set.packages.sort();
        }
        Ok(lock)
    }

    /// The toolkits in the file, newest version first, each with the release that was requested.
    pub fn toolkits(self) -> Vec<(ReleaseToFetch, ToolkitVersion, PackageSet)> {
        let mut toolkits = self.toolkits;
        toolkits.sort_by_key(|locked| std::cmp::Reverse(locked.version()));
        let parsed = |LockEntry { request, set }: LockEntry| {
            Some((request.parse().ok()?, set.version.parse().ok()?, set))
        };
        toolkits.into_iter().filter_map(parsed).collect()
    }

    /// The packages to which a release was resolved.
    pub(super) fn find(&self, release: &ReleaseToFetch) -> Option<&PackageSet> {
        let request = release.to_string();
        let mut toolkits = self.toolkits.iter();
        Some(&toolkits.find(|locked| locked.request == request)?.set)
    }

    /// Records the packages to which a release was resolved.
    pub(super) fn record(&mut self, release: &ReleaseToFetch, set: &PackageSet) {
        let request = release.to_string();
        self.toolkits.retain(|locked| locked.request != request);
        self.toolkits.push(LockEntry {
            request,
            set: set.clone(),
        });
        self.toolkits.sort_by(|a, b| a.request.cmp(&b.request));
    }

    /// Writes the file, unless it already has this content.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other);
        let text = text.map_err(Failure::io("write", path))?;
        output::write_if_changed(path, format!("{HEADER}{text}").as_bytes())
    }
}

/// The content of `toolkit.toml`. The search reads some of its fields as [`sources::StoredToolkit`];
/// only this crate reads the packages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    format_version: i64,
    pub platform: String,
    /// The size of all files.
    pub bytes: u64,
    /// The components that were found when the toolkit was added.
    pub components: Vec<String>,
    #[serde(flatten)]
    pub set: PackageSet,
}

impl Manifest {
    pub fn new(set: PackageSet, platform: &str, components: &[Component], bytes: u64) -> Self {
        Self {
            format_version: sources::FORMAT_VERSION,
            platform: platform.to_owned(),
            bytes,
            components: components.iter().map(ToString::to_string).collect(),
            set,
        }
    }

    /// Reads a manifest.
    pub fn parse(text: &str) -> Result<Self, String> {
        let manifest: Self = parse(text, sources::FORMAT_VERSION)?;
        manifest.set.check()?;
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::package::tests::package;
    use super::*;

    fn set(version: &str, runtime: &str, digit: char) -> PackageSet {
        let name = if version.starts_with("12") {
            "nvidia-cuda-runtime-cu12"
        } else {
            "nvidia-cuda-runtime"
        };
        PackageSet {
            version: version.to_owned(),
            packages: vec![package(name, runtime, digit)],
            ..PackageSet::default()
        }
    }

    #[test]
    fn what_is_recorded_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LOCK_FILE);
        let spec = |text: &str| text.parse::<ReleaseToFetch>().unwrap();
        for (request, set) in [
            ("13", set("13.4.2", "13.4.80", '1')),
            ("12", set("12.9.1", "12.9.79", '2')),
            ("13", set("13.4.3", "13.4.92", '3')),
        ] {
            let mut lock = Lock::read(&path).unwrap();
            lock.record(&spec(request), &set);
            lock.write(&path).unwrap();
        }
        let lock = Lock::read(&path).unwrap();
        assert_eq!(lock.find(&spec("13")), Some(&set("13.4.3", "13.4.92", '3')));
        assert_eq!(lock.find(&spec("12")), Some(&set("12.9.1", "12.9.79", '2')));
        assert_eq!(lock.find(&spec("13.4")), None);
        let text = read(&path).unwrap().unwrap();
        assert!(
            text.starts_with(HEADER) && text.contains("sha256-MzMz"),
            "{text}"
        );
    }

    #[test]
    fn a_lock_that_toolkit_add_does_not_write_is_an_error() {
        let good = Lock {
            format_version: 1,
            toolkits: vec![LockEntry {
                request: "13".to_owned(),
                set: set("13.4.3", "13.4.92", '1'),
            }],
        };
        let good = toml::to_string(&good).unwrap();
        assert!(Lock::parse(&good).is_ok());
        // A later release may add keys, which this one ignores everywhere.
        let with_keys = good
            .replace("format_version = 1", "format_version = 1\nadded = true")
            .replace("request = \"13\"", "request = \"13\"\nadded = [1]")
            .replace("name = ", "added = \"x\"\nname = ");
        assert_ne!(with_keys, good);
        assert_eq!(Lock::parse(&with_keys), Lock::parse(&good));
        for (from, to) in [
            ("format_version = 1", "format_version = 2"),
            ("sha256-", "md5-"),
            ("version = \"13.4.3\"", "from = \"13.4.3\""),
            ("request = \"13\"", "request = \"12\""),
            ("request = \"13\"", "request = \"13\\u001b[31m\""),
        ] {
            assert!(good.contains(from));
            let error = Lock::parse(&good.replace(from, to)).unwrap_err();
            assert!(!error.contains('\u{1b}'), "{to}: {error:?}");
        }
        assert!(Lock::parse("<<<<<<< ours").is_err());
    }
}
