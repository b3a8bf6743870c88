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
use cuda_find_core::{cache, output};

/// Makes sure that the view exists at `path`. A complete view is not touched. Returns `true` if the view was not
/// complete before.
///
/// If the user named the path, anything else in the directory is an error. If not, the name of the directory contains
/// the plan's digest, and only this crate writes in it: a damaged view is replaced.
pub(super) fn write(plan: &ViewPlan<'_>, path: &Path, named_by_user: bool) -> Result<bool, Error> {
    // If the user named a link, the view is written where the link points.
    let path = &plan.root.resolve(path);
    let refused = |reason: &str| {
        Err(Error::ViewNotCreated {
            path: path.clone(),
            reason: reason.to_owned(),
            hint: format!("name another directory, or remove {}", path.display()),
        })
    };
    if path.file_name().is_none() {
        return refused("it is the root of the file system, or ends with `..`");
    }
    // The user chose where to create a new view, so its parent directory is not checked.
    if plan.root.exists(path) || !named_by_user {
        if let Some(reason) = cache::distrust(plan.root, path) {
            return refused(&reason);
        }
    }
    if is_complete(plan, path) {
        return Ok(false);
    }
    let other_content = "it contains something other than this view";
    let can_be_replaced = match fs::read_dir(path) {
        Ok(mut entries) => !named_by_user || entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if !can_be_replaced {
        return refused(other_content);
    }
    create_directories(path.parent().unwrap_or(Path::new("/")))?;
    let new = Temporary::beside(path);
    write_entries(&new.0, plan, named_by_user)?;
    loop {
        // A rename replaces an empty directory, and fails if the directory has contents.
        match fs::rename(&new.0, path).map_err(|error| (error.kind(), error)) {
            Ok(()) => return Ok(true),
            Err((io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists, _)) => {}
            Err((_, error)) => return Err(Error::io("rename to", path)(error)),
        }
        // Another process may have finished the same view since.
        if is_complete(plan, path) {
            return Ok(true);
        } else if named_by_user {
            return refused(other_content);
        }
        // Dropping `old` removes the directory.
        let old = Temporary::beside(path);
        match fs::rename(path, &old.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("move away", path)(error));
            }
            _ => {}
        }
    }
}

/// Whether every entry of the plan is in the directory. Every entry is compared, because a check of a sample would
/// often miss deleted files. Of copies, only size and date are compared, because reading them could take minutes.
fn is_complete(plan: &ViewPlan<'_>, directory: &Path) -> bool {
    let is_link = |path: &Path, target: &Path| fs::read_link(path).is_ok_and(|to| to == target);
    let file = |path: &Path| (fs::symlink_metadata(path).ok()).filter(fs::Metadata::is_file);
    plan.entries.iter().all(|(relative, entry)| {
        let path = directory.join(relative);
        match entry {
            ViewEntry::Component(source) if plan.copy => {
                let facts = |file: fs::Metadata| Some((file.len(), file.modified().ok()?));
                let source = fs::metadata(&source.path).ok().and_then(facts);
                source.is_some() && file(&path).and_then(facts) == source
            }
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

/// Creates a directory and its missing parents. Only the user can write in them, whatever the umask is.
fn create_directories(path: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    let created = builder.create(path);
    created.map_err(Error::io("create directory", path))
}

fn write_entries(directory: &Path, plan: &ViewPlan<'_>, named_by_user: bool) -> Result<(), Error> {
    create_directories(directory)?;
    let mut last = PathBuf::new();
    for (relative, entry) in &plan.entries {
        let path = directory.join(relative);
        // The paths are sorted, so most are in the directory of the previous path, which exists already.
        if let Some(parent) = path.parent().filter(|parent| *parent != last) {
            create_directories(parent)?;
            parent.clone_into(&mut last);
        }
        let written = match entry {
            ViewEntry::Component(source) if plan.copy => copy(&source.path, &path),
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
    if named_by_user {
        return Ok(());
    }
    // Build scripts declare this file to Cargo. A date before every build keeps the script that wrote the view from
    // running again. At a path that the user chose, the real date lets Cargo notice that another view was written
    // there.
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

/// Copies a file with its date, because `is_complete` compares the dates.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    // The copy may be read-only, and its owner may still set the date.
    fs::File::open(to)?.set_modified(fs::metadata(from)?.modified()?)
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

/// The path of a directory. On drop, the directory is removed, if it is still at this path.
struct Temporary(PathBuf);

impl Temporary {
    /// A name that no other process uses. It contains the time, because containers that share the
    /// directory may have the same process IDs.
    fn beside(path: &Path) -> Self {
        remove_abandoned(path.parent().unwrap_or(path));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let (process, now) = (std::process::id(), now.unwrap_or_default().as_nanos());
        Self(path.with_file_name(format!("{TEMPORARY}{process}-{now}")))
    }
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

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
