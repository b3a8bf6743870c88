//! `cuda-toolkits.lock` at the workspace root: exact versions and hashes, for everyone who builds.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::package::{Package, PackageSet};
use super::place::{read, write_atomically};
use super::{Request, StoreError};

/// Its name.
pub const LOCK_FILE: &str = "cuda-toolkits.lock";

const FORMAT_VERSION: i64 = 1;
const HEAD: &str = "# Written by `cargo cuda toolkit add`; commit it. `--upgrade` pins anew.\n";

/// The lock file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lock {
    format_version: i64,
    #[serde(default, rename = "toolkit")]
    toolkits: Vec<Locked>,
}

/// What one request was resolved to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Locked {
    request: String,
    version: String,
    packages: Vec<Package>,
}

impl Lock {
    /// Reads the lock file; an absent one is empty.
    ///
    /// # Errors
    /// [`StoreError::InvalidLock`]: a lock that can't be understood is never overwritten.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let Some(text) = read(path)? else {
            return Ok(Self {
                format_version: FORMAT_VERSION,
                toolkits: Vec::new(),
            });
        };
        Self::parse(&text).map_err(|reason| StoreError::InvalidLock {
            path: path.to_owned(),
            reason,
        })
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
        for package in lock.toolkits.iter().flat_map(|toolkit| &toolkit.packages) {
            let plain = |text: &str| {
                !text.is_empty()
                    && text
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"-_.+!".contains(&b))
            };
            if !plain(&package.name) || !plain(&package.version) || package.hashes.is_empty() {
                return Err(format!(
                    "package `{}` is not pinned by version and hash",
                    package.name
                ));
            }
        }
        Ok(lock)
    }

    /// What a request was resolved to.
    pub fn find(&self, request: &Request) -> Option<PackageSet> {
        let request = request.to_string();
        let locked = self
            .toolkits
            .iter()
            .find(|locked| locked.request == request)?;
        let mut packages = locked.packages.clone();
        packages.sort();
        Some(PackageSet {
            version: locked.version.clone(),
            packages,
        })
    }

    /// Records what a request was resolved to, and writes the file if that is new.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn record(
        mut self,
        request: &Request,
        set: &PackageSet,
        path: &Path,
    ) -> Result<(), StoreError> {
        let before = self.clone();
        let request = request.to_string();
        self.toolkits.retain(|locked| locked.request != request);
        self.toolkits.push(Locked {
            request,
            version: set.version.clone(),
            packages: set.packages.clone(),
        });
        self.toolkits.sort_by(|a, b| a.request.cmp(&b.request));
        if self == before {
            return Ok(());
        }
        let text = self
            .text()
            .map_err(|reason| StoreError::io("write", path, std::io::Error::other(reason)))?;
        write_atomically(path, &text)
    }

    fn text(&self) -> Result<String, toml::ser::Error> {
        Ok(format!("{HEAD}{}", toml::to_string(self)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::package::tests::package;
    use super::*;

    fn set(version: &str, digit: char) -> PackageSet {
        PackageSet {
            version: version.to_owned(),
            packages: vec![package("nvidia-cuda-runtime", "13.4.92", digit)],
        }
    }

    #[test]
    fn what_is_recorded_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LOCK_FILE);
        let (thirteen, twelve): (Request, Request) = ("13".parse().unwrap(), "12".parse().unwrap());
        Lock::read(&path)
            .unwrap()
            .record(&thirteen, &set("13.4.2", '1'), &path)
            .unwrap();
        Lock::read(&path)
            .unwrap()
            .record(&twelve, &set("12.9.1", '2'), &path)
            .unwrap();
        Lock::read(&path)
            .unwrap()
            .record(&thirteen, &set("13.4.3", '3'), &path)
            .unwrap();
        let lock = Lock::read(&path).unwrap();
        assert_eq!(lock.find(&thirteen), Some(set("13.4.3", '3')));
        assert_eq!(lock.find(&twelve), Some(set("12.9.1", '2')));
        assert_eq!(lock.find(&"13.4".parse().unwrap()), None);
        let text = lock.text().unwrap();
        assert!(
            text.starts_with(HEAD) && text.contains("sha256-MzMz"),
            "{text}"
        );
    }

    #[test]
    fn a_lock_that_is_not_understood_is_an_error() {
        let good = Lock {
            format_version: 1,
            toolkits: vec![Locked {
                request: "13".to_owned(),
                version: "13.4.3".to_owned(),
                packages: set("13.4.3", '1').packages,
            }],
        };
        let good = good.text().unwrap();
        assert!(Lock::parse(&good).is_ok());
        for (from, to) in [
            ("format_version = 1", "format_version = 2"),
            ("sha256-", "md5-"),
            ("nvidia-cuda-runtime", "--index-url=http://a"),
            ("13.4.92", "13.4.92\\nother"),
            ("version = \"13.4.3\"", "from = \"13.4.3\""),
        ] {
            assert!(good.contains(from));
            assert!(Lock::parse(&good.replace(from, to)).is_err(), "{to}");
        }
        assert!(Lock::parse("<<<<<<< ours").is_err());
    }
}
