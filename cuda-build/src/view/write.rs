//! Writes a view into a temporary directory beside its final place and renames it, so that a view
//! is complete or absent.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the only file that writes views"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::plan::{ViewEntry, ViewPlan};
use crate::error::Error;
use cuda_find_core::cache::cache_dir;
use cuda_find_core::env::Env;
use cuda_find_core::output::{self, TemporaryDirectory};
use cuda_find_core::trust::{Distrust, Trust};

/// Makes sure that the view exists at `path`. A complete view is not touched. Returns `true` if the view was not
/// complete before.
///
/// The name of the directory contains the plan's digest, and only this crate writes in it: a damaged view is replaced.
pub(super) fn write(plan: &ViewPlan<'_>, path: &Path, env: &Env) -> Result<bool, Error> {
    let trust = Trust::from_env(env);
    let is_of_user = cache_dir(env).is_some_and(|cache| path.starts_with(cache));
    let problem = match is_of_user {
        true => trust.problem(plan.root, path),
        false => trust.problem_in_project(plan.root, path),
    };
    if let Some(Distrust { reason, remedy }) = problem {
        return Err(Error::ViewNotCreated {
            path: path.to_owned(),
            reason,
            hint: remedy,
        });
    }
    if is_complete(plan, path) {
        return Ok(false);
    }
    let parent = path.parent().unwrap_or(path);
    remove_abandoned(parent);
    let new = TemporaryDirectory::create(parent, TEMPORARY)?;
    write_entries(new.path(), plan)?;
    loop {
        // A rename replaces an empty directory, and fails if the directory has contents.
        match fs::rename(new.path(), path).map_err(|error| (error.kind(), error)) {
            Ok(()) => return Ok(true),
            Err((io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists, _)) => {}
            Err((_, error)) => return Err(Error::io("rename to", path)(error)),
        }
        // Another process may have finished the same view since.
        if is_complete(plan, path) {
            return Ok(true);
        }
        // Dropping `old` removes the directory.
        let old = TemporaryDirectory::create(parent, TEMPORARY)?;
        match fs::rename(path, old.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("move away", path)(error));
            }
            _ => {}
        }
    }
}

/// Whether every entry of the plan is in the directory. Every entry is compared, because a check of a sample would
/// often miss deleted files.
fn is_complete(plan: &ViewPlan<'_>, directory: &Path) -> bool {
    let is_link = |path: &Path, target: &Path| fs::read_link(path).is_ok_and(|to| to == target);
    let file = |path: &Path| (fs::symlink_metadata(path).ok()).filter(fs::Metadata::is_file);
    plan.entries.iter().all(|(relative, entry)| {
        let path = directory.join(relative);
        match entry {
            ViewEntry::Component(source) => is_link(&path, &source.path),
            ViewEntry::Link(target) => is_link(&path, target),
            ViewEntry::Text(text) => {
                // Reading a FIFO would block.
                file(&path).is_some_and(|file| file.len() == text.len() as u64)
                    && fs::read(&path).is_ok_and(|bytes| bytes == text.as_bytes())
            }
            ViewEntry::Stub(_) => file(&path).is_some_and(|file| file.len() > 0),
        }
    })
}

fn write_entries(directory: &Path, plan: &ViewPlan<'_>) -> Result<(), Error> {
    let mut last = PathBuf::new();
    for (relative, entry) in &plan.entries {
        let path = directory.join(relative);
        // The paths are sorted, so most are in the directory of the previous path, which exists already.
        if let Some(parent) = path.parent().filter(|parent| *parent != last) {
            output::create_private_directory(parent)?;
            parent.clone_into(&mut last);
        }
        let written = match entry {
            ViewEntry::Component(source) => symlink(&source.path, &path),
            ViewEntry::Link(target) => symlink(target, &path),
            ViewEntry::Text(text) => {
                fs::write(&path, text).and_then(|()| make_executable(text, &path))
            }
            ViewEntry::Stub(stub) => {
                stub.compile(plan.root, &path)?;
                continue;
            }
        };
        written.map_err(Error::io("write", &path))?;
    }
    // Build scripts declare this file to Cargo. A date before every build keeps the script that wrote the view from
    // running again.
    let watched = directory.join("version.json");
    let file = fs::File::options().write(true).open(&watched);
    let dated = file.and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH));
    dated.map_err(Error::io("write", &watched))
}

/// Lets everyone run a file whose text is a script.
fn make_executable(text: &str, path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if text.starts_with("#!") {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path, mode)?;
    }
    #[cfg(not(unix))]
    let _ = (text, path);
    Ok(())
}

#[cfg(unix)]
fn symlink(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    let reason = "views are supported on Linux only";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

/// The start of the name of a view that is being written.
const TEMPORARY: &str = ".cuda-build-view-";

/// Removes what builds left that were killed while they wrote a view.
fn remove_abandoned(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
        let age = output::age(&entry.path());
        if is_temporary && age.is_some_and(|age| age > Duration::from_secs(24 * 60 * 60)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
