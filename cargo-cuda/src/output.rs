//! Files that commands write below the target directory.
#![allow(clippy::disallowed_methods, reason = "commands write through this file")]

use std::fs;
use std::path::Path;

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
        Failure::new(exit_code::DISK, format!("could not write {}: {error}", path.display()))
    };
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(failed)?;
    let mut part = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
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
        Failure::new(exit_code::DISK, format!("could not create {}: {error}", path.display()))
    })
}

/// The files in a directory, sorted.
///
/// # Errors
/// What the disk says, with the path.
pub fn files(directory: &Path) -> Result<Vec<std::path::PathBuf>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(exit_code::DISK, format!("could not read {}: {error}", directory.display()))
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        files.push(entry.map_err(failed)?.path());
    }
    files.sort();
    Ok(files)
}

/// A fresh directory below `directory`, removed when dropped.
///
/// # Errors
/// What the disk says, with the path.
pub fn temporary_directory(directory: &Path) -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new().prefix("fresh-").tempdir_in(directory).map_err(|error| {
        Failure::new(
            exit_code::DISK,
            format!("could not create a directory in {}: {error}", directory.display()),
        )
    })
}

/// What became of a build directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is empty now.
    Done,
    /// It was before.
    Nothing,
    /// A cargo works in it.
    InUse,
}

/// Removes everything in a build directory of cargo's but `kept`, unless a cargo holds one of its
/// locks. Those are held here meanwhile, and nothing is ever there by half: it is moved away first.
///
/// # Errors
/// What the disk says, with the path.
pub fn remove_all_but(directory: &Path, kept: &str) -> Result<Removal, Failure> {
    let own = files(directory)?;
    let own: Vec<_> = own.into_iter().filter(|path| path.file_name() != Some(kept.as_ref())).collect();
    if own.is_empty() {
        return Ok(Removal::Nothing);
    }
    let mut locks = Vec::new();
    for path in locks_below(directory, LOCK_DEPTH) {
        // One that is gone by now is nobody's.
        let Ok(file) = fs::File::open(&path) else { continue };
        if fs4::FileExt::try_lock(&file).is_err() {
            return Ok(Removal::InUse);
        }
        locks.push(file);
    }
    let away = temporary_directory(directory)?;
    for path in own {
        let Some(name) = path.file_name() else { continue };
        fs::rename(&path, away.path().join(name)).map_err(|error| {
            Failure::new(exit_code::DISK, format!("could not remove {}: {error}", path.display()))
        })?;
    }
    let place = away.path().to_owned();
    away.close().map_err(|error| {
        Failure::new(exit_code::DISK, format!("could not remove {}: {error}", place.display()))
    })?;
    Ok(Removal::Done)
}

/// `<triple>/<profile>` below a wheel's own directory.
const LOCK_DEPTH: usize = 3;

/// Cargo's lock files: `.cargo-lock` beside what a profile builds.
fn locks_below(directory: &Path, depth: usize) -> Vec<std::path::PathBuf> {
    let mut locks = Vec::new();
    for path in files(directory).unwrap_or_default() {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(".cargo-") && name.ends_with("lock") {
            locks.push(path);
        } else if depth > 0 && path.is_dir() && !path.is_symlink() {
            locks.extend(locks_below(&path, depth - 1));
        }
    }
    locks
}

/// A line about what goes on, on standard error.
pub fn say(text: &str) {
    // Nobody is there to read it when standard error is closed.
    let _ = std::io::Write::write_all(&mut std::io::stderr().lock(), format!("{text}\n").as_bytes());
}
