//! Which exact packages a release was resolved to: `cuda-toolkits.lock` in a workspace, for
//! everyone who builds it, and `index.toml` in the store, for this user.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::directory::{Guard, Store, read, write_atomically};
use super::package::{Package, PackageSet};
use super::progress::Progress;
use super::{ReleaseSpec, StoreError};

/// The name of the lock file.
pub const LOCK_FILE: &str = "cuda-toolkits.lock";

const FORMAT_VERSION: i64 = 1;
const HEAD: &str =
    "# Written by `cargo cuda toolkit add`; commit it. `--upgrade` resolves it again.\n";

/// The content of a lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lock {
    format_version: i64,
    #[serde(default, rename = "toolkit")]
    toolkits: Vec<Locked>,
}

/// What one release was resolved to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Locked {
    /// The release as it was given: `13`.
    request: String,
    version: String,
    packages: Vec<Package>,
}

impl Locked {
    fn set(&self) -> PackageSet {
        let mut packages = self.packages.clone();
        packages.sort();
        PackageSet {
            version: self.version.clone(),
            packages,
        }
    }

    /// A repository is not trusted to name any directory, package or version.
    fn check(&self) -> Result<(), String> {
        let request: ReleaseSpec = self
            .request
            .parse()
            .map_err(|_| format!("`request` {:?} is not a CUDA release", self.request))?;
        self.set().check()?;
        let fits = self
            .version
            .parse()
            .is_ok_and(|version| request.admits(&version));
        if fits {
            Ok(())
        } else {
            Err(format!(
                "CUDA {request} cannot mean version {}",
                self.version
            ))
        }
    }
}

impl Lock {
    /// Reads a lock file. A file that does not exist is empty.
    ///
    /// # Errors
    /// [`StoreError::InvalidLock`]. Such a file is never overwritten.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let invalid = |reason| StoreError::InvalidLock {
            path: path.to_owned(),
            reason,
        };
        let text = read(path).map_err(|error| match error {
            StoreError::Io { source, .. } => invalid(source.to_string()),
            other => other,
        })?;
        let Some(text) = text else {
            return Ok(Self {
                format_version: FORMAT_VERSION,
                toolkits: Vec::new(),
            });
        };
        Self::parse(&text).map_err(invalid)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let lock: Self =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        if lock.format_version != FORMAT_VERSION {
            return Err(format!(
                "format_version {}, this cargo-cuda reads {FORMAT_VERSION}",
                lock.format_version
            ));
        }
        lock.toolkits.iter().try_for_each(Locked::check)?;
        Ok(lock)
    }

    /// What a release was resolved to.
    pub fn find(&self, release: &ReleaseSpec) -> Option<PackageSet> {
        let request = release.to_string();
        let locked = self
            .toolkits
            .iter()
            .find(|locked| locked.request == request);
        locked.map(Locked::set)
    }

    /// Records what a release was resolved to, and writes the file if that is new.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record(
        mut self,
        release: &ReleaseSpec,
        set: &PackageSet,
        path: &Path,
    ) -> Result<(), StoreError> {
        if self.find(release).as_ref() == Some(set) {
            return Ok(());
        }
        let request = release.to_string();
        self.toolkits.retain(|locked| locked.request != request);
        self.toolkits.push(Locked {
            request,
            version: set.version.clone(),
            packages: set.packages.clone(),
        });
        self.toolkits.sort_by(|a, b| a.request.cmp(&b.request));
        write_atomically(path, &format!("{HEAD}{}", to_toml(&self, path)?))
    }
}

/// The toolkit that each release was last resolved to, so that the same request needs no
/// installer. The file may be deleted at any time.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Index {
    format_version: i64,
    #[serde(default)]
    requests: BTreeMap<String, String>,
}

impl Index {
    /// The index; empty if there is none that can be read.
    pub fn read(store: &Store) -> Self {
        let text = read(&Self::path(store)).ok().flatten();
        text.and_then(|text| toml::from_str(&text).ok())
            .filter(|index: &Self| index.format_version == FORMAT_VERSION)
            .unwrap_or(Self {
                format_version: FORMAT_VERSION,
                requests: BTreeMap::new(),
            })
    }

    /// The toolkit that `release` was resolved to.
    pub fn name(&self, release: &ReleaseSpec) -> Option<&str> {
        self.requests.get(&release.to_string()).map(String::as_str)
    }

    /// The releases that were resolved to a toolkit.
    pub fn requests(&self, name: &str) -> Vec<String> {
        let requests = self.requests.iter().filter(|(_, found)| *found == name);
        requests.map(|(request, _)| request.clone()).collect()
    }

    /// Changes the index while no other process does.
    pub fn change(
        store: &Store,
        progress: &Progress,
        change: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Result<(), StoreError> {
        let _guard = Self::guard(store, progress)?;
        let mut index = Self::read(store);
        let before = index.requests.clone();
        change(&mut index.requests);
        if index.requests == before {
            return Ok(());
        }
        let path = Self::path(store);
        write_atomically(&path, &to_toml(&index, &path)?)
    }

    /// Held while the index or a lock file is changed, so that no entry is lost.
    pub fn guard(store: &Store, progress: &Progress) -> Result<Guard, StoreError> {
        store.lock("index", progress)
    }

    fn path(store: &Store) -> PathBuf {
        store.directory().join("index.toml")
    }
}

/// The text of a file at `path`.
pub(super) fn to_toml(value: &impl Serialize, path: &Path) -> Result<String, StoreError> {
    toml::to_string(value).map_err(|error| StoreError::io("write", path, io::Error::other(error)))
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
        }
    }

    #[test]
    fn what_is_recorded_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LOCK_FILE);
        let spec = |text: &str| text.parse::<ReleaseSpec>().unwrap();
        for (request, set) in [
            ("13", set("13.4.2", "13.4.80", '1')),
            ("12", set("12.9.1", "12.9.79", '2')),
            ("13", set("13.4.3", "13.4.92", '3')),
        ] {
            let lock = Lock::read(&path).unwrap();
            lock.record(&spec(request), &set, &path).unwrap();
        }
        let lock = Lock::read(&path).unwrap();
        assert_eq!(lock.find(&spec("13")), Some(set("13.4.3", "13.4.92", '3')));
        assert_eq!(lock.find(&spec("12")), Some(set("12.9.1", "12.9.79", '2')));
        assert_eq!(lock.find(&spec("13.4")), None);
        let text = read(&path).unwrap().unwrap();
        assert!(
            text.starts_with(HEAD) && text.contains("sha256-MzMz"),
            "{text}"
        );
    }

    #[test]
    fn a_lock_that_toolkit_add_does_not_write_is_an_error() {
        let good = Lock {
            format_version: 1,
            toolkits: vec![Locked {
                request: "13".to_owned(),
                version: "13.4.3".to_owned(),
                packages: set("13.4.3", "13.4.92", '1').packages,
            }],
        };
        let good = to_toml(&good, Path::new("lock")).unwrap();
        assert!(Lock::parse(&good).is_ok());
        for (from, to) in [
            ("format_version = 1", "format_version = 2"),
            ("sha256-", "md5-"),
            ("nvidia-cuda-runtime", "--index-url=http://a"),
            ("nvidia-cuda-runtime", "six"),
            ("13.4.92", "13.4.92\\nother"),
            ("version = \"13.4.3\"", "from = \"13.4.3\""),
            ("version = \"13.4.3\"", "version = \"13.99.0\""),
            ("version = \"13.4.3\"", "version = \"13.4.3\\u001b[31m\""),
            ("version = \"13.4.3\"", "version = \"13.4.3/../../x\""),
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
