//! Files that commands write below the target directory.
#![allow(
    clippy::disallowed_methods,
    reason = "commands write through this file"
)]

use std::fs;
use std::path::Path;

use fs4::FileExt;

use crate::exit_code;
use crate::failure::Failure;

/// Writes a file as a whole, and only where its content is another.
///
/// # Errors
/// What the disk says, with the path.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let failed = |error: std::io::Error| {
        Failure::new(
            exit_code::DISK,
            format!("could not write {}: {error}", path.display()),
        )
    };
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(failed)?;
    let mut builder = tempfile::Builder::new();
    // For everybody whom the umask lets: temporary files are for their owner alone.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut part = builder.tempfile_in(directory).map_err(failed)?;
    std::io::Write::write_all(&mut part, bytes).map_err(failed)?;
    part.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Makes a directory and its parents.
///
/// # Errors
/// What the disk says, with the path.
pub fn make_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| {
        Failure::new(
            exit_code::DISK,
            format!("could not create {}: {error}", path.display()),
        )
    })
}

/// The files in a directory, sorted.
///
/// # Errors
/// What the disk says, with the path.
pub fn files(directory: &Path) -> Result<Vec<std::path::PathBuf>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(
            exit_code::DISK,
            format!("could not read {}: {error}", directory.display()),
        )
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        files.push(entry.map_err(failed)?.path());
    }
    files.sort();
    Ok(files)
}

/// Begins the names of temporary directories.
const FRESH: &str = "fresh-";

/// A temporary directory, removed when dropped, and locked so that no other process removes it.
#[derive(Debug)]
pub struct FreshDirectory {
    directory: tempfile::TempDir,
    _lock: fs::File,
}

impl FreshDirectory {
    /// Makes an empty directory below `parent`, and removes those that killed processes left.
    ///
    /// # Errors
    /// I/O errors, with the path.
    pub fn below(parent: &Path) -> Result<Self, Failure> {
        let make = || {
            // Held until the new directory has its own lock.
            let parent_lock = fs::File::open(parent)?;
            FileExt::lock(&parent_lock)?;
            for entry in fs::read_dir(parent)?.flatten() {
                let is_fresh = entry.file_name().to_string_lossy().starts_with(FRESH);
                let path = entry.path();
                if is_fresh && fs::File::open(&path).is_ok_and(|f| FileExt::try_lock(&f).is_ok()) {
                    fs::remove_dir_all(&path)?;
                }
            }
            let directory = tempfile::Builder::new().prefix(FRESH).tempdir_in(parent)?;
            let lock = fs::File::open(directory.path())?;
            FileExt::lock(&lock)?;
            Ok(Self {
                directory,
                _lock: lock,
            })
        };
        make().map_err(|error: std::io::Error| {
            Failure::new(
                exit_code::DISK,
                format!(
                    "could not create a directory in {}: {error}",
                    parent.display()
                ),
            )
        })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A line about what goes on, on standard error.
pub fn say(text: &str) {
    // Nobody is there to read it when standard error is closed.
    let _ = std::io::Write::write_all(
        &mut std::io::stderr().lock(),
        format!("{text}\n").as_bytes(),
    );
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn fresh_directories_of_killed_processes_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("fresh-killed/deep")).unwrap();
        fs::create_dir(at("other")).unwrap();
        let first = FreshDirectory::below(place.path()).unwrap();
        assert!(!at("fresh-killed").exists() && at("other").exists());
        let second = FreshDirectory::below(place.path()).unwrap();
        assert!(first.path().exists(), "it is in use");
        drop((first, second));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn files_have_the_mode_of_any_others() {
        let place = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            fs::metadata(place.path().join(name))
                .unwrap()
                .permissions()
                .mode()
        };
        fs::write(place.path().join("any"), "").unwrap();
        write_if_changed(&place.path().join("ours"), b"text").unwrap();
        assert_eq!(mode("ours"), mode("any"));
    }
}
