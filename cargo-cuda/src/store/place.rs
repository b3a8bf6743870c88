//! The store on the disk: where it is, and how things get into it whole or not at all.
//!
//! ```text
//! <cache>/toolkits/            <cache> by `cuda_build::store::cache_dir`
//!   13.4.3-1f0c9a2e/           a toolkit: site-packages as installed, and
//!     toolkit.toml             its manifest, written before the directory is renamed here
//!   .13.4.3-1f0c9a2e.4711.part/   being written by process 4711: site/, tmp/, requirements.txt
//!   .locks/<name>.lock         held by whoever writes or removes <name>; never deleted
//!   index.toml                 which toolkit answered which request last
//! ```
//!
//! A toolkit is never changed once it is there: more components make a new directory. The lock
//! is the system's and ends with its process, so a `.part` whose lock is free has no owner and
//! is cleaned up, whatever killed it.
#![allow(
    clippy::disallowed_methods,
    reason = "the store writes here, and nowhere else in its code"
)]

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cuda_build::{Env, store};
use fs4::{FileExt, TryLockError};

use super::StoreError;
use super::manifest::Manifest;
use super::progress::Progress;

const PART: &str = ".part";

/// The directory that holds all toolkits.
#[derive(Clone, Debug)]
pub(super) struct Store {
    directory: PathBuf,
}

/// Held while something of one name is written; released when dropped, or when the process ends.
#[derive(Debug)]
pub(super) struct Guard {
    _file: File,
}

impl Store {
    /// Where the environment says; nothing is created yet.
    ///
    /// # Errors
    /// No variable tells, or not by an absolute path.
    pub fn locate(env: &Env) -> Result<Self, StoreError> {
        let directory = store::toolkits_dir(env).ok_or(StoreError::NoCacheDirectory)?;
        if !directory.is_absolute() {
            return Err(StoreError::RelativeCacheDirectory {
                path: env.path("CUDA_BUILD_CACHE_DIR").unwrap_or(directory),
            });
        }
        Ok(Self { directory })
    }

    /// The directory beside the toolkits for programs that commands start.
    ///
    /// # Errors
    /// As [`Store::locate`].
    pub fn tools(env: &Env) -> Result<Self, StoreError> {
        let toolkits = Self::locate(env)?;
        Ok(Self {
            directory: toolkits.directory.with_file_name("tools"),
        })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The manifest of a toolkit, where it is there and of a known format.
    pub fn manifest(&self, name: &str) -> Option<Manifest> {
        let text = fs::read_to_string(self.path(name).join(store::MANIFEST)).ok()?;
        let manifest: Manifest = toml::from_str(&text).ok()?;
        (manifest.format_version == store::FORMAT_VERSION).then_some(manifest)
    }

    /// Names and manifests of all toolkits, sorted by name.
    pub fn all(&self) -> Vec<(String, Manifest)> {
        let mut all: Vec<(String, Manifest)> = names(&self.directory)
            .into_iter()
            .filter(|name| !name.starts_with('.'))
            .filter_map(|name| self.manifest(&name).map(|manifest| (name, manifest)))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Waits until no other process writes `name`.
    pub fn lock(&self, name: &str, progress: &Progress) -> Result<Guard, StoreError> {
        let file = self.lock_file(name)?;
        let failed = |error| StoreError::io("lock", &self.directory.join(".locks"), error);
        match FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress.step(&format!(
                    "waiting for another `cargo cuda` that is busy with {name}"
                ));
                FileExt::lock(&file).map_err(failed)?;
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Guard { _file: file })
    }

    fn lock_file(&self, name: &str) -> Result<File, StoreError> {
        let locks = self.directory.join(".locks");
        create_directory(&locks)?;
        let path = locks.join(format!("{name}.lock"));
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| StoreError::io("open", &path, error))
    }

    /// A fresh directory to write `name` in. The caller holds the lock of `name`.
    pub fn part(&self, name: &str) -> Result<Part, StoreError> {
        self.clean(name);
        let part = Part {
            directory: self.part_path(name),
        };
        for directory in [part.site(), part.temporary()] {
            create_directory(&directory)?;
        }
        Ok(part)
    }

    fn part_path(&self, name: &str) -> PathBuf {
        self.directory
            .join(format!(".{name}.{}{PART}", std::process::id()))
    }

    /// Deletes what killed runs left: of `held`, whose lock the caller has, and of every other
    /// name whose lock is free. What can't be deleted is tried again next time.
    fn clean(&self, held: &str) {
        for leftover in names(&self.directory) {
            let Some(name) = owner(&leftover) else {
                continue;
            };
            let other = if name == held {
                None
            } else {
                self.lock_file(name).ok()
            };
            // Held by `other` until the directory is gone.
            let free = name == held
                || other
                    .as_ref()
                    .is_some_and(|file| FileExt::try_lock(file).is_ok());
            if free {
                let _ = fs::remove_dir_all(self.directory.join(&leftover));
            }
        }
    }

    /// Puts a part in its place. The caller holds the lock of `name`.
    pub fn commit(&self, part: &Part, name: &str, manifest: &Manifest) -> Result<(), StoreError> {
        let text = toml::to_string(manifest).map_err(|error| {
            StoreError::io(
                "write",
                &part.site().join(store::MANIFEST),
                io::Error::other(error),
            )
        })?;
        write_atomically(&part.site().join(store::MANIFEST), &text)?;
        self.put(part, name)
    }

    /// Puts a part in its place as it is. The caller holds the lock of `name`.
    pub fn put(&self, part: &Part, name: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        if fs::symlink_metadata(&path).is_ok() {
            // Without a manifest, or the caller would not write it anew.
            self.discard(name)?;
        }
        fs::rename(part.site(), &path).map_err(|error| StoreError::io("rename into", &path, error))
    }

    /// Takes a toolkit away: at once for its readers, then from the disk.
    pub fn discard(&self, name: &str) -> Result<(), StoreError> {
        let part = self.part_path(name);
        let removed = part.join("removed");
        create_directory(&part)?;
        let path = self.path(name);
        fs::rename(&path, &removed).map_err(|error| StoreError::io("remove", &path, error))?;
        // What can't be deleted is no longer a toolkit; the next writer tries again. The part
        // itself may be one that the caller is still writing.
        let _ = fs::remove_dir_all(&removed);
        let _ = fs::remove_dir(&part);
        Ok(())
    }
}

/// `13.4.3-1f0c9a2e` of `.13.4.3-1f0c9a2e.4711.part`.
fn owner(name: &str) -> Option<&str> {
    let (name, process) = name
        .strip_prefix('.')?
        .strip_suffix(PART)?
        .rsplit_once('.')?;
    process
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(name)
}

/// A directory that becomes a toolkit, or disappears.
#[derive(Debug)]
pub(super) struct Part {
    directory: PathBuf,
}

impl Part {
    /// Becomes the toolkit.
    pub fn site(&self) -> PathBuf {
        self.directory.join("site")
    }

    /// For the installer.
    pub fn temporary(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    /// Writes the requirements file.
    pub fn requirements(&self, text: &str) -> Result<PathBuf, StoreError> {
        let path = self.directory.join("requirements.txt");
        fs::write(&path, text).map_err(|error| StoreError::io("write", &path, error))?;
        Ok(path)
    }

    /// What installers leave beside the packages: uv's lock of its target directory.
    pub fn tidy(&self) {
        let _ = fs::remove_file(self.site().join(".lock"));
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Bytes of all files below `directory`.
pub(super) fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

pub(super) fn create_directory(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(|error| StoreError::io("create", path, error))
}

/// The text of a file; `None` where there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, StoreError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", path, error)),
    }
}

/// Replaces a file as a whole: readers see the old text or the new.
pub(super) fn write_atomically(path: &Path, text: &str) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("write", path, error);
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        // Temporary files are private to their owner; a lock file in a workspace is not.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o644));
    }
    let mut file = builder.tempfile_in(directory).map_err(failed)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.as_file().sync_all())
        .map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Messages, PackageSet};

    fn store(directory: &Path) -> Store {
        Store::locate(&Env::from_pairs([("CUDA_BUILD_CACHE_DIR", directory)])).unwrap()
    }

    fn manifest() -> Manifest {
        Manifest::new(
            &PackageSet {
                version: "13.4.3".to_owned(),
                packages: Vec::new(),
            },
            &[],
            0,
        )
    }

    fn entries(store: &Store) -> Vec<String> {
        let mut entries = names(store.directory());
        entries.retain(|name| name != ".locks");
        entries.sort();
        entries
    }

    #[test]
    fn a_part_becomes_a_toolkit_or_disappears() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        let progress = Progress::new(Messages::Quiet);
        let _guard = store.lock("13.4.3-a", &progress).unwrap();
        drop(store.part("13.4.3-a").unwrap());
        assert!(entries(&store).is_empty());

        let part = store.part("13.4.3-a").unwrap();
        fs::write(part.site().join("file"), "new").unwrap();
        // A directory without a manifest is in the way, and no toolkit.
        fs::create_dir_all(store.path("13.4.3-a").join("old")).unwrap();
        store.commit(&part, "13.4.3-a", &manifest()).unwrap();
        drop(part);
        assert_eq!(entries(&store), ["13.4.3-a"]);
        assert_eq!(store.all().len(), 1);
        assert!(
            store.path("13.4.3-a").join("file").exists()
                && !store.path("13.4.3-a").join("old").exists()
        );

        store.discard("13.4.3-a").unwrap();
        assert!(entries(&store).is_empty());
    }

    #[test]
    fn only_parts_without_an_owner_are_cleaned() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        let progress = Progress::new(Messages::Quiet);
        for name in [
            ".13.4.3-a.1.part",
            ".13.4.3-b.2.part",
            ".13.4.3-c.3.part",
            ".part",
            ".x.part",
        ] {
            fs::create_dir_all(store.directory().join(name)).unwrap();
        }
        // flock belongs to the open file: a second handle stands for another process.
        let _busy = store.lock("13.4.3-b", &progress).unwrap();
        let _own = store.lock("13.4.3-a", &progress).unwrap();
        let part = store.part("13.4.3-a").unwrap();
        let own = part
            .directory
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let mut left = vec![
            own,
            ".13.4.3-b.2.part".to_owned(),
            ".part".to_owned(),
            ".x.part".to_owned(),
        ];
        left.sort();
        assert_eq!(entries(&store), left);
    }

    #[test]
    fn the_store_has_one_place() {
        let error =
            Store::locate(&Env::from_pairs([("CUDA_BUILD_CACHE_DIR", "here")])).unwrap_err();
        assert!(error.to_string().contains("(here)"), "{error}");
        assert!(matches!(
            Store::locate(&Env::default()),
            Err(StoreError::NoCacheDirectory)
        ));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told() {
        let store = store(Path::new("/dev/null/cache"));
        let error = store
            .lock("13.4.3-a", &Progress::new(Messages::Quiet))
            .unwrap_err();
        assert_eq!(
            error.exit_code(),
            crate::store::exit_code::NO_STORE,
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn written_files_can_be_read_by_others() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.toml");
        write_atomically(&path, "1").unwrap();
        write_atomically(&path, "2").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("2"));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o044,
            0o044
        );
    }
}
