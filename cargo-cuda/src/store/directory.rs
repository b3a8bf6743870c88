//! The store on the disk. Each change takes effect as a whole or not at all.
//!
//! ```text
//! <cache>/toolkits/            <cache> is `cuda_build::internal::store::cache_dir`
//!   13.4.3-1f0c9a2e/           a toolkit: site-packages as installed, and
//!     toolkit.toml             its manifest, written before the directory gets this name
//!   .13.4.3-1f0c9a2e.4711.part/   written by process 4711: site/, tmp/, requirements.txt
//!   .locks/<name>.lock         locked while <name> is written or removed; never deleted
//!   index.toml                 the toolkit that each release was last resolved to
//! ```
//!
//! A toolkit is never changed: more components make a new directory. The system releases a lock
//! when every process that holds it has ended, also an installer that outlives this one. A
//! `.part` whose lock is free is therefore left over, and the next command removes it.
#![allow(
    clippy::disallowed_methods,
    reason = "the store writes here, and nowhere else in its code"
)]

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cuda_build::internal::{Env, Root, store};
use fs4::{FileExt, TryLockError};

use super::StoreError;
use super::lock::to_toml;
use super::package::Manifest;
use super::progress::Progress;

const PART: &str = ".part";

/// The directory that holds all toolkits.
#[derive(Clone, Debug)]
pub(super) struct Store {
    directory: PathBuf,
}

/// A lock, released when it is dropped and no other process has the file open.
#[derive(Debug)]
pub(super) struct Guard {
    file: File,
}

impl Guard {
    /// Another handle of the lock. A process that gets it holds the lock until it ends.
    pub fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Store {
    /// The store that the environment names; nothing is created yet.
    ///
    /// # Errors
    /// No variable names it, or not by an absolute path, or another user can write in it.
    pub fn locate(env: &Env) -> Result<Self, StoreError> {
        Self::beside(env, "toolkits")
    }

    /// The directory beside the toolkits for programs that commands run.
    ///
    /// # Errors
    /// As [`Store::locate`].
    pub fn tools(env: &Env) -> Result<Self, StoreError> {
        Self::beside(env, "tools")
    }

    fn beside(env: &Env, name: &str) -> Result<Self, StoreError> {
        let cache = store::cache_dir(env).ok_or(StoreError::NoCacheDirectory)?;
        if !cache.is_absolute() {
            let own = "CUDA_BUILD_CACHE_DIR";
            let variable = if env.path(own).is_some() { own } else { "HOME" };
            let path = env.path(variable).unwrap_or(cache);
            return Err(StoreError::RelativeCacheDirectory { variable, path });
        }
        let directory = cache.join(name);
        match store::distrust(&Root::system(), &directory) {
            Some(reason) => Err(StoreError::NotTrusted { reason }),
            None => Ok(Self { directory }),
        }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The manifest of a toolkit; `None` if there is no toolkit of that name.
    ///
    /// # Errors
    /// The reason that the toolkit cannot be used.
    pub fn manifest(&self, name: &str) -> Result<Option<Manifest>, String> {
        let path = self.path(name);
        if let Some(reason) = store::distrust(&Root::system(), &path) {
            return Err(reason);
        }
        let manifest = path.join(store::MANIFEST);
        match read(&manifest).map_err(|error| error.to_string())? {
            Some(text) => Manifest::parse(&text)
                .map(Some)
                .map_err(|reason| format!("{}: {reason}", manifest.display())),
            None => Ok(None),
        }
    }

    /// The names of all toolkits, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names = names(&self.directory);
        names.retain(|name| !name.starts_with('.') && self.path(name).is_dir());
        names.sort();
        names
    }

    /// Waits until no other process writes `name`, and holds the lock of it.
    pub fn lock(&self, name: &str, progress: &Progress) -> Result<Guard, StoreError> {
        let file = self.lock_file(name)?;
        let failed = |error| StoreError::io("lock", &self.directory.join(".locks"), error);
        match FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress.step(&format!(
                    "waiting for another `cargo cuda`, which is writing {name}"
                ));
                FileExt::lock(&file).map_err(failed)?;
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Guard { file })
    }

    fn lock_file(&self, name: &str) -> Result<File, StoreError> {
        let locks = self.directory.join(".locks");
        create_directory(&locks)?;
        let path = locks.join(format!("{name}.lock"));
        // Readable, because an installer gets it as its standard input.
        File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| StoreError::io("open", &path, error))
    }

    /// A fresh directory to write `name` in. The caller holds the lock of `name`.
    pub fn part(&self, name: &str) -> Result<Part, StoreError> {
        for leftover in names(&self.directory) {
            if owner(&leftover) == Some(name) {
                let _ = fs::remove_dir_all(self.directory.join(&leftover));
            }
        }
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

    /// Removes what interrupted commands left: every part whose lock is free. A part that cannot
    /// be removed is tried again by the next command.
    pub fn clean(&self) {
        for leftover in names(&self.directory) {
            let file = owner(&leftover).and_then(|name| self.lock_file(name).ok());
            if file.is_some_and(|file| FileExt::try_lock(&file).is_ok()) {
                let _ = fs::remove_dir_all(self.directory.join(&leftover));
            }
        }
    }

    /// Moves a part to its place, with its manifest. The caller holds the lock of `name`.
    pub fn commit(&self, part: &Part, name: &str, manifest: &Manifest) -> Result<(), StoreError> {
        let site = part.site();
        // After a power cut, a toolkit with a manifest has all its files.
        sync(&site)?;
        let path = site.join(store::MANIFEST);
        write_atomically(&path, &to_toml(manifest, &path)?)?;
        self.put(part, name)
    }

    /// Moves a part to its place as it is. The caller holds the lock of `name`.
    pub fn put(&self, part: &Part, name: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        if fs::symlink_metadata(&path).is_ok() {
            // It is damaged, or the caller would not replace it.
            self.discard(name)?;
        }
        fs::rename(part.site(), &path).map_err(|error| StoreError::io("rename into", &path, error))
    }

    /// Removes a toolkit: at once for its readers, then from the disk. The caller holds the lock
    /// of `name`.
    pub fn discard(&self, name: &str) -> Result<(), StoreError> {
        let part = self.part_path(name);
        let removed = part.join("removed");
        create_directory(&part)?;
        let path = self.path(name);
        fs::rename(&path, &removed).map_err(|error| StoreError::io("remove", &path, error))?;
        // A file that cannot be deleted now is deleted by the next command. The part may be one
        // that the caller is writing, so it is removed only if it is empty.
        let _ = fs::remove_dir_all(&removed).or_else(|_| fs::remove_file(&removed));
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

/// A directory that becomes a toolkit or is removed.
#[derive(Debug)]
pub(super) struct Part {
    directory: PathBuf,
}

impl Part {
    /// Becomes the toolkit.
    pub fn site(&self) -> PathBuf {
        self.directory.join("site")
    }

    /// For the installer's temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    /// Writes the requirements file.
    pub fn requirements(&self, text: &str) -> Result<PathBuf, StoreError> {
        let path = self.directory.join("requirements.txt");
        fs::write(&path, text).map_err(|error| StoreError::io("write", &path, error))?;
        Ok(path)
    }

    /// Removes what an installer leaves beside the packages: uv's lock of its target directory.
    pub fn tidy(&self) {
        let _ = fs::remove_file(self.site().join(".lock"));
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Links a file into `target`, or copies it if the file system has no hard links.
pub(super) fn link(source: &Path, target: &Path) -> Result<(), StoreError> {
    if let Some(directory) = target.parent() {
        create_directory(directory)?;
    }
    match fs::hard_link(source, target) {
        // Two packages may have one file in common (`nvidia/__init__.py`).
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(_) => fs::copy(source, target)
            .map(|_| ())
            .map_err(|error| StoreError::io("copy to", target, error)),
        Ok(()) => Ok(()),
    }
}

/// Waits until the files below `directory` are on the disk, and with them all others of its file
/// system. One call takes less time than one for each of thousands of files.
fn sync(directory: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("sync", directory, error);
    let handle = File::open(directory).map_err(failed)?;
    #[cfg(target_os = "linux")]
    return rustix::fs::syncfs(&handle).map_err(|error| failed(error.into()));
    #[cfg(not(target_os = "linux"))]
    handle.sync_all().map_err(failed)
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

fn create_directory(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(|error| StoreError::io("create", path, error))
}

/// The text of a regular file; `None` if nothing is there.
pub(super) fn read(path: &Path) -> Result<Option<String>, StoreError> {
    match Root::system().text(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        }),
    }
}

/// Replaces a file as a whole: readers see the old text or the new one.
pub(super) fn write_atomically(path: &Path, text: &str) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("write", path, error);
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        // Only the owner can read a temporary file; others have to read a lock file.
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
        // A directory without a manifest is replaced.
        fs::create_dir_all(store.path("13.4.3-a").join("old")).unwrap();
        store.commit(&part, "13.4.3-a", &manifest()).unwrap();
        drop(part);
        assert_eq!(entries(&store), ["13.4.3-a"]);
        assert!(store.manifest("13.4.3-a").unwrap().is_some());
        assert!(
            store.path("13.4.3-a").join("file").exists()
                && !store.path("13.4.3-a").join("old").exists()
        );

        store.discard("13.4.3-a").unwrap();
        assert!(entries(&store).is_empty());
    }

    #[test]
    fn only_parts_without_an_owner_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        let progress = Progress::new(Messages::Quiet);
        for name in ["13.4.3-a.1", "13.4.3-b.2", "13.4.3-c.3"] {
            fs::create_dir_all(store.directory().join(format!(".{name}.part"))).unwrap();
        }
        for name in [".part", ".x.part"] {
            fs::create_dir_all(store.directory().join(name)).unwrap();
        }
        // A lock belongs to the open file: a shared handle is as good as one of an installer.
        let busy = store.lock("13.4.3-b", &progress).unwrap();
        let shared = busy.share().unwrap();
        drop(busy);
        let _own = store.lock("13.4.3-a", &progress).unwrap();
        store.clean();
        let others = [".13.4.3-b.2.part", ".part", ".x.part"];
        assert_eq!(
            entries(&store),
            [&[".13.4.3-a.1.part"][..], &others].concat()
        );
        // The holder of the lock removes what earlier processes left of the same name.
        let part = store.part("13.4.3-a").unwrap();
        let own = format!(".13.4.3-a.{}.part", std::process::id());
        assert_eq!(entries(&store), [&[own.as_str()][..], &others].concat());
        drop((part, shared));
        store.clean();
        assert_eq!(entries(&store), [".part", ".x.part"]);
    }

    #[test]
    fn a_store_that_every_user_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let toolkits = directory.path().join("toolkits");
        fs::create_dir(&toolkits).unwrap();
        fs::set_permissions(&toolkits, fs::Permissions::from_mode(0o777)).unwrap();
        let cache = [("CUDA_BUILD_CACHE_DIR", directory.path())];
        let error = Store::locate(&Env::from_pairs(cache)).unwrap_err();
        assert_eq!(error.exit_code(), crate::store::exit_code::NO_STORE);
        assert!(error.to_string().contains("every user"), "{error}");
    }

    #[test]
    fn a_fifo_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let error = read(&fifo).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        assert_eq!(read(&directory.path().join("absent")).unwrap(), None);
    }

    #[test]
    fn a_relative_cache_directory_is_refused() {
        let error =
            Store::locate(&Env::from_pairs([("CUDA_BUILD_CACHE_DIR", "here")])).unwrap_err();
        assert!(error.to_string().contains("(here)"), "{error}");
        assert!(matches!(
            Store::locate(&Env::default()),
            Err(StoreError::NoCacheDirectory)
        ));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error() {
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
