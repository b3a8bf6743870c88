//! The store on the disk. Each change takes effect as a whole or not at all.
//!
//! ```text
//! <cache>/toolkits/            <cache> is `cuda_build::internal::store::cache_dir`
//!   13.4.3-1f0c9a2e/           a toolkit: site-packages as installed, and
//!     toolkit.toml             its manifest, written before the directory gets this name
//!   .part-x7Qa2c/              a toolkit that is being written: site/, tmp/, requirements.txt
//!   .lock                      locked while a command changes the store; never deleted
//!   resolved.toml              what each release was last resolved to
//! <cache>/tools/               the same for programs
//! ```
//!
//! A toolkit is never changed: adding components creates a new directory. An installer inherits the
//! lock from the command that starts it. The system releases the lock when both have ended, even if
//! the installer outlives the command. If the lock is free, every `.part-*` directory is a leftover
//! of an interrupted command, and the next command removes it.
#![allow(
    clippy::disallowed_methods,
    reason = "the store writes files only in this module"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cuda_build::internal::{Env, Root, store};
use fs4::{FileExt, TryLockError};
use tempfile::TempDir;

use super::Progress;
use super::package::Manifest;
use super::refusal::{no_space, not_writable};
use crate::exit_code;
use crate::failure::Failure;

const PART: &str = ".part-";

/// A directory of toolkits or of programs.
#[derive(Clone, Debug)]
pub(super) struct Store {
    directory: PathBuf,
}

impl Store {
    /// The directory of this name in the cache. `open` removes leftovers, but does not create the
    /// directory.
    pub fn open(env: &Env, name: &str) -> Result<Self, Failure> {
        let failed = |message: String| Failure::new(exit_code::NO_STORE, message);
        let cache = super::cache_dir(env)?;
        if !cache.is_absolute() {
            let own = "CUDA_BUILD_CACHE_DIR";
            let variable = if env.path(own).is_some() { own } else { "HOME" };
            let value = env.path(variable).unwrap_or(cache);
            let value = value.display();
            return Err(
                failed(format!("`{variable}` ({value}) is not an absolute path"))
                    .hint(format!("set `{variable}` to an absolute path")),
            );
        }
        let store = Self {
            directory: cache.join(name),
        };
        trusted(&store.directory)?;
        if !store.leftovers().is_empty()
            && let Ok(file) = store.lock_file()
            && FileExt::try_lock(&file).is_ok()
        {
            store.remove_leftovers();
        }
        Ok(store)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The directory as messages show it: `~` is the user's home directory.
    pub fn shown(&self, env: &Env) -> String {
        let home = env.path("HOME").unwrap_or_default();
        match self.directory.strip_prefix(&home) {
            Ok(below) if home.is_absolute() => Path::new("~").join(below).display().to_string(),
            _ => self.directory.display().to_string(),
        }
    }

    /// The file that records the set to which each release was last resolved, in the format of a
    /// lock file. It may be deleted at any time.
    pub fn index(&self) -> PathBuf {
        self.directory.join("resolved.toml")
    }

    /// The manifest of a toolkit; `None` if there is no toolkit of that name.
    pub fn manifest(&self, name: &str) -> Result<Option<Manifest>, String> {
        let path = self.path(name);
        if let Some(reason) = store::distrust(&Root::system(), &path) {
            return Err(reason);
        }
        let file = path.join(store::MANIFEST);
        let failed = |reason: String| format!("{}: {reason}", file.display());
        let text = read(&file).map_err(|error| failed(error.to_string()))?;
        text.map(|text| Manifest::parse(&text).map_err(failed))
            .transpose()
    }

    /// The names of all toolkits, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names = names(&self.directory);
        names.retain(|name| !name.starts_with('.') && self.path(name).is_dir());
        names.sort();
        names
    }

    /// Waits until no other command changes the store, and locks the store. The lock is held as long as
    /// the returned file, or a copy of it in another process, is open.
    pub fn lock(&self, progress: &Progress) -> Result<File, Failure> {
        let file = self.lock_file()?;
        let failed = failed("lock", &self.directory);
        match FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress.step("Waiting", "for another `cargo cuda` that is fetching");
                FileExt::lock(&file).map_err(failed)?;
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        self.remove_leftovers();
        Ok(file)
    }

    fn lock_file(&self) -> Result<File, Failure> {
        create_directory(&self.directory)?;
        let path = self.directory.join(".lock");
        // Opened for reading too, because an installer gets this file as its standard input.
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        options.open(&path).map_err(failed("open", &path))
    }

    /// The `.part-*` directories: those in use if the lock is held, else those left behind.
    fn leftovers(&self) -> Vec<PathBuf> {
        let names = names(&self.directory).into_iter();
        let parts = names.filter(|name| name.starts_with(PART));
        parts.map(|name| self.path(&name)).collect()
    }

    /// Removes the directories that interrupted commands have left behind. The caller holds the
    /// lock. If a directory cannot be removed, the next command retries.
    fn remove_leftovers(&self) {
        for leftover in self.leftovers() {
            let _ = fs::remove_dir_all(leftover);
        }
    }

    /// The directory for archives that are being downloaded. The caller holds the lock.
    pub fn archives_dir(&self) -> Result<PathBuf, Failure> {
        let path = self.path(".archives");
        create_directory(&path)?;
        Ok(path)
    }

    /// Removes archives of interrupted downloads. The caller holds the lock.
    pub fn remove_archives(&self) {
        let _ = fs::remove_dir_all(self.path(".archives"));
    }

    /// An empty directory to write a toolkit in. The caller holds the lock.
    pub fn part(&self) -> Result<StagingDirectory, Failure> {
        let directory = tempfile::Builder::new()
            .prefix(PART)
            .tempdir_in(&self.directory)
            .map_err(failed("create a directory in", &self.directory))?;
        let part = StagingDirectory { directory };
        for directory in [part.site(), part.path("tmp")] {
            create_directory(&directory)?;
        }
        Ok(part)
    }

    /// Writes the manifest, and moves the prepared toolkit to its final path. The caller holds the lock.
    pub fn commit(
        &self,
        part: &StagingDirectory,
        name: &str,
        manifest: &Manifest,
    ) -> Result<(), Failure> {
        let site = part.site();
        let path = site.join(store::MANIFEST);
        let text = toml::to_string(manifest).map_err(io::Error::other);
        text.and_then(|text| fs::write(&path, text))
            .map_err(failed("write", &path))?;
        // Without this sync, files of the toolkit could be missing after a power cut. One `syncfs` is
        // faster than an `fsync` for each of thousands of files.
        File::open(&site)
            .and_then(|handle| Ok(rustix::fs::syncfs(&handle)?))
            .map_err(failed("sync", &site))?;
        self.put(part, name)
    }

    /// Moves what was prepared in a staging directory to its final path. The caller holds the lock.
    pub fn put(&self, part: &StagingDirectory, name: &str) -> Result<(), Failure> {
        let path = self.path(name);
        if fs::symlink_metadata(&path).is_ok() {
            // The existing directory is damaged: no caller replaces an intact one.
            self.discard(name)?;
        }
        fs::rename(part.site(), &path).map_err(failed("rename into", &path))
    }

    /// Removes a toolkit. The rename takes effect at once for readers; the files are deleted when `part`
    /// is dropped. The caller holds the lock.
    pub fn discard(&self, name: &str) -> Result<(), Failure> {
        let part = self.part()?;
        let path = self.path(name);
        fs::rename(&path, part.path("removed")).map_err(failed("remove", &path))
    }
}

/// A `.part-*` directory, in which a toolkit is prepared. Files that are still in it are removed on
/// drop.
#[derive(Debug)]
pub(super) struct StagingDirectory {
    directory: TempDir,
}

impl StagingDirectory {
    /// The directory that becomes the toolkit.
    pub fn site(&self) -> PathBuf {
        self.path("site")
    }

    /// A file or directory in the staging directory, such as `tmp`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes the `RECORD` of an archive whose files are below [`store::ARCHIVES`]. It lists itself, as in Python
    /// packages.
    pub fn record(
        &self,
        name: &str,
        version: &str,
        files: &[(PathBuf, Option<u64>)],
    ) -> Result<(), Failure> {
        let info = format!("{name}-{version}.dist-info");
        let own = format!("{info}/RECORD,,\n");
        let info = self.site().join(info);
        create_directory(&info)?;
        let line = |(path, size): &(PathBuf, Option<u64>)| {
            let size = size.map(|size| size.to_string()).unwrap_or_default();
            format!("{}/{},,{size}\n", store::ARCHIVES, path.display())
        };
        let lines: String = files.iter().map(line).chain([own]).collect();
        write(&info.join("RECORD"), &lines)
    }

    /// Removes the `.lock` file that uv leaves in its target directory.
    pub fn tidy(&self) {
        let _ = fs::remove_file(self.site().join(".lock"));
    }
}

/// Fails if another user can change the directory.
pub(super) fn trusted(directory: &Path) -> Result<(), Failure> {
    match store::distrust(&Root::system(), directory) {
        None => Ok(()),
        Some(reason) => Err(Failure::new(
            exit_code::NO_STORE,
            format!("the store is not safe to use: {reason}"),
        )
        .hint("set `CUDA_BUILD_CACHE_DIR` to a directory that only you can write")),
    }
}

/// Classifies an I/O error by what the user can do about it.
pub(super) fn failed(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    use io::ErrorKind::{
        NotADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    move |error| match error.kind() {
        StorageFull | QuotaExceeded => no_space(path.display(), error),
        PermissionDenied | ReadOnlyFilesystem | NotADirectory => {
            not_writable(path.display(), error)
        }
        _ => Failure::io(action, path)(error),
    }
}

/// Links a file or a symbolic link into `target`, or copies it if the file system has no hard links.
pub(super) fn link(source: &Path, target: &Path) -> Result<(), Failure> {
    if let Some(directory) = target.parent() {
        create_directory(directory)?;
    }
    match fs::hard_link(source, target) {
        // A target that exists is no error: several packages contain `nvidia/__init__.py`.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => match fs::read_link(source) {
            Ok(path) => std::os::unix::fs::symlink(path, target),
            Err(_) => fs::copy(source, target).map(drop),
        }
        .map_err(failed("copy to", target)),
        _ => Ok(()),
    }
}

/// Bytes of all files below `directory`.
pub(super) fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let size_of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(size_of).sum()
}

/// Bytes of all files below the directories. A file with several hard links is counted once.
pub(super) fn disk_usage(directories: &[&Path]) -> u64 {
    let mut rest: Vec<PathBuf> = directories.iter().map(|path| path.to_path_buf()).collect();
    let mut files = BTreeMap::new();
    while let Some(directory) = rest.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => rest.push(entry.path()),
                Ok(metadata) => {
                    files.insert((metadata.dev(), metadata.ino()), metadata.len());
                }
                Err(_) => {}
            }
        }
    }
    files.into_values().sum()
}

/// The size of a file; `None` if there is no such file.
pub(super) fn file_size(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.len())
}

/// Removes a file that may not exist. If that fails, the next write to the file reports it.
pub(super) fn remove_file(path: &Path) {
    let _ = fs::remove_file(path);
}

fn names(directory: &Path) -> Vec<String> {
    let names = Root::system().names(directory).into_iter();
    names.filter_map(|name| name.into_string().ok()).collect()
}

fn create_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(failed("create", path))
}

/// Writes a file in place, so no other process may read it yet.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(failed("write", path))
}

/// The text of a regular file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match Root::system().text(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => text.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::package::PackageSet;

    fn store(directory: &Path) -> Store {
        Store::open(
            &Env::from_pairs([("CUDA_BUILD_CACHE_DIR", directory)]),
            "toolkits",
        )
        .unwrap()
    }

    fn manifest() -> Manifest {
        let set = PackageSet {
            version: "13.4.3".to_owned(),
            ..PackageSet::default()
        };
        Manifest::new(set, "x86_64-linux", &[], 0)
    }

    fn entries(store: &Store) -> Vec<String> {
        let mut entries = names(&store.directory);
        entries.retain(|name| name != ".lock");
        entries.sort();
        entries
    }

    #[test]
    fn a_part_becomes_a_toolkit_or_disappears() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        let _lock = store.lock(&Progress::new()).unwrap();
        drop(store.part().unwrap());
        assert!(entries(&store).is_empty());

        let part = store.part().unwrap();
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
    fn leftovers_are_removed_if_no_command_is_at_work() {
        let directory = tempfile::tempdir().unwrap();
        let toolkits = store(directory.path());
        // A lock belongs to the open file: an installer's copy is as good as the command's.
        let lock = toolkits.lock(&Progress::new()).unwrap();
        let both = [".other", ".part-killed"];
        for name in both {
            fs::create_dir_all(toolkits.path(name)).unwrap();
        }
        let installers = lock.try_clone().unwrap();
        drop(lock);
        assert_eq!(entries(&store(directory.path())), both);
        drop(installers);
        assert_eq!(entries(&store(directory.path())), [".other"]);
    }

    #[test]
    fn a_store_that_every_user_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let toolkits = directory.path().join("toolkits");
        fs::create_dir(&toolkits).unwrap();
        fs::set_permissions(&toolkits, fs::Permissions::from_mode(0o777)).unwrap();
        let cache = [("CUDA_BUILD_CACHE_DIR", directory.path())];
        let error = Store::open(&Env::from_pairs(cache), "toolkits").unwrap_err();
        assert_eq!(error.code, exit_code::NO_STORE);
        assert!(error.message.contains("every user"), "{error}");
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
        for variable in ["CUDA_BUILD_CACHE_DIR", "HOME"] {
            let error =
                Store::open(&Env::from_pairs([(variable, "here")]), "toolkits").unwrap_err();
            let expected = format!("`{variable}` (here) is not an absolute path");
            assert_eq!(error.message, expected);
            assert_eq!(
                error.hints,
                [format!("set `{variable}` to an absolute path")]
            );
        }
        let error = Store::open(&Env::default(), "toolkits").unwrap_err();
        assert!(error.message.contains("all unset"), "{error}");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error() {
        let store = store(Path::new("/dev/null/cache"));
        let error = store.lock(&Progress::new()).unwrap_err();
        assert_eq!(error.code, exit_code::NO_STORE, "{error}");
    }
}
