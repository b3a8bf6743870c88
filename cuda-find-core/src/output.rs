//! Writes files atomically, nearly all of them below `OUT_DIR`.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the file that writes outputs"
)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::Error;

/// Creates a directory and its parents.
pub fn create_directory(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::io("create", path))
}

/// Writes a temporary file beside `path`, then renames it to `path`, because several processes may write the
/// same file at once.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let temporary = temporary_name(path);
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        Error::io("write", path)(error)
    })
}

/// A random name beside `path`: processes of two containers that share a directory may have the same ID.
fn temporary_name(path: &Path) -> PathBuf {
    let random = RandomState::new().hash_one(std::process::id());
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{random:016x}.part"));
    name.into()
}

/// The bytes of a file that this crate wrote.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(Error::io("read", path))
}

/// Writes a file only if its content differs. An unchanged file keeps its modification time.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    write(path, bytes)
}

/// Whether this is a regular file, links followed.
pub fn is_file(path: &Path) -> bool {
    path.is_file()
}

/// Creates a directory and its missing parents. Only the user can write in them, whatever the umask is.
pub fn create_private_directory(path: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    let created = builder.create(path);
    created.map_err(Error::io("create directory", path))
}

/// A directory with a random name. On drop, it is removed, if it is still at this path.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Creates an empty directory in `parent`. Its name begins with `prefix`.
    pub fn create(parent: &Path, prefix: &str) -> Result<Self, Error> {
        // Processes of two containers that share a directory may have the same ID.
        let random = RandomState::new().hash_one(std::process::id());
        let path = parent.join(format!("{prefix}{random:016x}"));
        create_private_directory(&path)?;
        Ok(Self(path))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes a directory with everything in it.
pub fn remove_directory(path: &Path) -> Result<(), Error> {
    unless_absent(fs::remove_dir_all(path), path)
}

/// Creates a directory with a link to each of `targets`, named 0, 1, …. Its modification time is set to 1970.
///
/// If Cargo watches the directory, it ignores broken links in it. It compares times of links too. The links are written in
/// each run, so a target that appears counts as changed.
pub fn link_in_old_directory(directory: &Path, targets: &[PathBuf]) -> Result<(), Error> {
    let names = (0..targets.len()).map(|number| number.to_string().into());
    write_links(directory, names.zip(targets))
}

/// Creates a directory with a link to each of `files`, under the name of the file.
pub fn link_files(directory: &Path, files: &[PathBuf]) -> Result<(), Error> {
    let names = files.iter().filter_map(|file| file.file_name());
    write_links(directory, names.map(OsStr::to_owned).zip(files))
}

#[cfg(unix)]
fn write_links<'a>(
    directory: &Path,
    links: impl Iterator<Item = (OsString, &'a PathBuf)>,
) -> Result<(), Error> {
    remove_directory(directory)?;
    let write = || {
        fs::create_dir_all(directory)?;
        for (name, target) in links {
            std::os::unix::fs::symlink(target, directory.join(name))?;
        }
        fs::File::open(directory)?.set_modified(std::time::UNIX_EPOCH)
    };
    write().map_err(Error::io("write", directory))
}

/// On Windows, links need a privilege. Without the directory, Cargo runs the script in every build.
#[cfg(not(unix))]
fn write_links<'a>(
    _: &Path,
    _: impl Iterator<Item = (OsString, &'a PathBuf)>,
) -> Result<(), Error> {
    Ok(())
}

/// How long ago a file was written or touched; `None` if that is unknown.
pub fn age(path: &Path) -> Option<Duration> {
    fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()
}

/// Whether this user can change a file.
pub fn check_writable(path: &Path) -> Result<(), Error> {
    let file = fs::File::options().append(true).open(path);
    file.map(drop).map_err(Error::io("write", path))
}

/// Appends a line to a file that exists, in one call, because other processes append to it, too.
pub fn append_line(path: &Path, line: &str) {
    let file = fs::File::options().append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
}

/// Sets the time of a file to the present, if this user may do that.
pub fn touch(path: &Path) {
    let file = fs::File::options().append(true).open(path);
    let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
}

/// The files below a directory with their sizes; the oldest is the last.
pub fn files_by_age(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                directories.push(entry.path());
            } else if let Ok(time) = metadata.modified() {
                files.push((time, entry.path(), metadata.len()));
            }
        }
    }
    files.sort();
    let newest_first = files.into_iter().rev();
    newest_first.map(|(_, path, size)| (path, size)).collect()
}

/// The start of a file, up to and with the first line that is `last`. `None` if there is no such line.
pub fn read_head(path: &Path, last: &[u8]) -> Option<Vec<u8>> {
    let mut file = io::BufReader::new(fs::File::open(path).ok()?);
    let mut head = Vec::new();
    loop {
        let start = head.len();
        file.read_until(b'\n', &mut head).ok()?;
        match head.get(start..)? {
            [] => return None,
            line if line.strip_suffix(b"\n") == Some(last) => return Some(head),
            _ => {}
        }
    }
}

/// Removes a file, and its directory if that is empty then. Another process may do the same at the same time.
pub fn remove_with_empty_directory(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = path.parent().map(fs::remove_dir);
}

/// Renames a file or a directory.
pub fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(Error::io("rename", from))
}

/// Removes a file, if it exists.
pub fn remove(path: &Path) -> Result<(), Error> {
    unless_absent(fs::remove_file(path), path)
}

/// The error of removing `path`, unless there was nothing to remove.
fn unless_absent(removed: io::Result<()>, path: &Path) -> Result<(), Error> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::io("remove", path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_writers_share_a_temporary_file() {
        let path = Path::new("x");
        assert_ne!(temporary_name(path), temporary_name(path));
    }

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
