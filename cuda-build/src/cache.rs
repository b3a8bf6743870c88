//! Writes files, nearly all of them below `OUT_DIR`: each whole or not at all.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the file that writes outputs"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        action,
        path,
        source,
    }
}

/// Writes a file as a whole or not at all: beside it first, then renamed.
///
/// # Errors
/// [`Error::Io`]; then there is no partial file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        failed("write", path)(error)
    })
}

/// As [`write`], for a file in a directory that several processes use at once: the directory is
/// created, and each process has a temporary file of its own.
///
/// # Errors
/// [`Error::Io`].
pub fn write_shared(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed("create", directory))?;
    }
    let mut part = path.as_os_str().to_owned();
    part.push(format!(
        ".{}-{}.part",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        failed("write", path)(error)
    })
}

/// The bytes of a file that this crate wrote.
///
/// # Errors
/// [`Error::Io`].
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(failed("read", path))
}

/// Writes a file only if its content differs, so that its time of change stays.
///
/// # Errors
/// [`Error::Io`].
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        Ok(())
    } else {
        write(path, bytes)
    }
}

/// Removes a file, if it exists.
///
/// # Errors
/// [`Error::Io`].
pub fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_is_all_or_nothing_and_leaves_the_unchanged_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        write(&path, b"1").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        write_if_changed(&path, b"1").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        let absent = directory.path().join("absent/x");
        assert!(
            write(&absent, b"1")
                .unwrap_err()
                .to_string()
                .contains("absent/x")
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
