//! Writes files atomically, nearly all of them below `OUT_DIR`.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the file that writes outputs"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::error::Error;

/// Creates a directory and its parents.
pub fn create_directory(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::io("create", path))
}

/// Writes a temporary file beside `path`, then renames it to `path`, because several processes may write the
/// same file at once.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.part", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        Error::io("write", path)(error)
    })
}

/// The bytes of a file that this crate wrote.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(Error::io("read", path))
}

/// Writes a file only if its content differs. An unchanged file keeps its modification time.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        Ok(())
    } else {
        write(path, bytes)
    }
}

pub(crate) fn is_file(path: &Path) -> bool {
    path.is_file()
}

/// Removes a directory with everything in it.
pub(crate) fn remove_directory(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Creates a directory that contains only a link to `target`. The modification time of the directory is set to
/// 1970, so that Cargo does not regard the new directory as changed.
pub fn link_in_old_directory(directory: &Path, target: &Path) -> Result<(), Error> {
    let write = || {
        fs::create_dir_all(directory)?;
        let link = directory.join("link");
        if fs::read_link(&link).ok().as_deref() != Some(target) {
            let _ = fs::remove_file(&link);
            #[cfg(unix)]
            std::os::unix::fs::symlink(target, &link)?;
        }
        fs::File::open(directory)?.set_modified(UNIX_EPOCH)
    };
    write().map_err(Error::io("write", directory))
}

/// Renames a file or a directory.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(Error::io("rename", from))
}

/// Removes a file, which has to exist.
pub(crate) fn remove_existing(path: &Path) -> Result<(), Error> {
    fs::remove_file(path).map_err(Error::io("remove", path))
}

/// Removes a file, if it exists.
pub fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_file_is_not_written() {
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
