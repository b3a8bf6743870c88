//! The files and directories that commands write.
#![allow(clippy::disallowed_methods, reason = "commands write files here")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

pub use cuda_find_core::output::{create_directory, rename};

use crate::failure::{Failure, Result};

/// Writes a whole file, unless it already has this content.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    write(path, bytes)
}

/// Writes a file as a whole or not at all, and creates its directory.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// The same for a file that `fill` writes.
pub fn write_with<T>(path: &Path, fill: impl FnOnce(&mut fs::File) -> io::Result<T>) -> Result<T> {
    let directory = parent(path);
    let write = || {
        fs::create_dir_all(directory)?;
        let mut builder = tempfile::Builder::new();
        // By default, only the owner can read a file of `tempfile`. With this mode, the umask decides,
        // as for any other file.
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut part = builder.tempfile_in(directory)?;
        let filled = fill(part.as_file_mut())?;
        // Without this, a crash of the machine could leave an empty file with the final name.
        part.as_file().sync_all()?;
        part.persist(path)?;
        Ok(filled)
    };
    write().map_err(Failure::io("write", path))
}

/// The directory of a file, which is `.` for a name without a directory.
pub fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// The name of a file, as text.
pub fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Copies a file to a new path, and returns its size.
pub fn copy(file: &Path, to: &Path) -> Result<u64> {
    create_directory(parent(to))?;
    fs::copy(file, to).map_err(Failure::io("write", to))
}

/// Fails if there is something at a path, except for an empty directory, or one whose file `marker` has this text.
pub fn check_replaceable(directory: &Path, marker: &str, has: &str) -> Result<()> {
    let is_empty = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
    let marked = fs::read_to_string(directory.join(marker)).is_ok_and(|text| text.contains(has));
    if is_empty || marked || !directory.exists() {
        return Ok(());
    }
    let directory = directory.display();
    let text = format!("this command did not write {directory}, which has no `{marker}` of it");
    Err(Failure::disk(text).hint("remove it, or name another with `--output`"))
}

/// Makes `link` a symbolic link to `target`. An existing link is replaced in one step.
pub fn link(target: &Path, link: &Path) -> Result<()> {
    if fs::read_link(link).is_ok_and(|old| old == target) {
        return Ok(());
    }
    if fs::symlink_metadata(link).is_ok_and(|metadata| !metadata.is_symlink()) {
        let text = format!("{} is not a symbolic link", link.display());
        let hint = format!("remove {}", link.display());
        return Err(Failure::disk(text).hint(hint));
    }
    let directory = parent(link);
    fs::create_dir_all(directory)
        .and_then(|()| {
            let beside = tempfile::Builder::new()
                .make_in(directory, |path| std::os::unix::fs::symlink(target, path))?;
            fs::rename(beside.path(), link)?;
            // After the rename there is no temporary file to remove.
            let _ = beside.into_temp_path().keep();
            Ok(())
        })
        .map_err(Failure::io("create", link))
}

/// Waits for the lock of `directory`, and holds it until the returned file is dropped.
pub fn lock(directory: &Path) -> Result<fs::File> {
    lock_with(directory, fs::File::try_lock, fs::File::lock)
}

/// The same for a lock that several processes may hold at once.
pub fn lock_shared(directory: &Path) -> Result<fs::File> {
    lock_with(directory, fs::File::try_lock_shared, fs::File::lock_shared)
}

/// Opens a lock file in `directory`, for reading too, because an installer gets it as its standard input. Whoever can
/// read the file can hold its lock for ever, so only those who can write in the directory can read it.
fn open_lock(directory: &Path, path: &Path) -> io::Result<fs::File> {
    let writers = fs::metadata(directory)?.mode() & 0o022;
    let mode = 0o600 | writers | writers << 1;
    let mut options = fs::File::options();
    let file = options
        .create(true)
        .append(true)
        .read(true)
        .mode(mode)
        .open(path)?;
    if file.metadata()?.mode() & 0o066 & !mode != 0 {
        // An earlier version has made it. Only its owner can change it.
        let _ = file.set_permissions(fs::Permissions::from_mode(mode));
    }
    Ok(file)
}

fn lock_with(
    directory: &Path,
    attempt: fn(&fs::File) -> Result<(), fs::TryLockError>,
    wait: fn(&fs::File) -> io::Result<()>,
) -> Result<fs::File> {
    let path = directory.join(".lock");
    let locked = || {
        fs::create_dir_all(directory)?;
        let file = open_lock(directory, &path)?;
        if let Err(fs::TryLockError::WouldBlock) = attempt(&file) {
            let text = format!(
                "waiting for another `cargo cuda` that uses {}",
                parent(directory).display()
            );
            super::status("Blocking", &text);
        }
        wait(&file)?;
        Ok(file)
    };
    loop {
        let file = locked().map_err(Failure::io("lock", &path))?;
        // `cargo clean` may have removed the directory while this process waited.
        let inode = |metadata: io::Result<fs::Metadata>| metadata.ok().map(|it| it.ino());
        if inode(file.metadata()) == inode(fs::metadata(&path)) {
            return Ok(file);
        }
    }
}

/// Whether no process holds the lock of `directory`. `false` if that cannot be found out.
pub fn is_unlocked(directory: &Path) -> bool {
    match fs::File::open(directory.join(".lock")) {
        Ok(file) => file.try_lock().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Waits until one of `count` files in `directory` can be locked, and holds it until the returned file is dropped.
/// `None` if the file system has no locks.
pub fn lock_one_of(directory: &Path, count: usize) -> Option<fs::File> {
    const INTERVAL: Duration = Duration::from_millis(20);
    fs::create_dir_all(directory).ok()?;
    let open = |number: usize| {
        let path = directory.join(format!("{number}.lock"));
        open_lock(directory, &path).ok()
    };
    let files: Vec<fs::File> = (0..count).filter_map(open).collect();
    while !files.is_empty() {
        for file in &files {
            match file.try_lock() {
                Ok(()) => return file.try_clone().ok(),
                Err(fs::TryLockError::WouldBlock) => {}
                Err(fs::TryLockError::Error(_)) => return None,
            }
        }
        thread::sleep(INTERVAL);
    }
    None
}

pub fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let paths = |entries: fs::ReadDir| entries.map(|entry| Ok(entry?.path())).collect();
    let files: io::Result<BTreeSet<PathBuf>> = fs::read_dir(directory).and_then(paths);
    let files = files.map_err(Failure::io("read", directory))?;
    Ok(Vec::from_iter(files))
}

/// Creates an empty directory in `parent`, which is removed when the returned value is dropped. A killed process leaves
/// it.
pub fn temporary_directory(parent: &Path) -> Result<tempfile::TempDir> {
    let directory = tempfile::TempDir::with_prefix_in(".cargo-cuda-", parent);
    directory.map_err(Failure::io("create a directory in", parent))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

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

    #[test]
    fn a_link_is_switched_and_a_directory_is_not() {
        let place = tempfile::tempdir().unwrap();
        let name = place.path().join("name");
        for target in ["a", "b", "b"] {
            link(Path::new(target), &name).unwrap();
            assert_eq!(fs::read_link(&name).unwrap(), Path::new(target));
        }
        assert_eq!(files(place.path()).unwrap(), [name.as_path()]);
        fs::remove_file(&name).unwrap();
        fs::create_dir(&name).unwrap();
        assert_eq!(
            link(Path::new("a"), &name).unwrap_err().code,
            crate::exit_code::DISK
        );
    }
}
