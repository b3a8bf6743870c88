//! Writes a view into a temporary directory beside its final place and renames it, so that a view
//! is complete or absent.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the only file that writes views"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use super::marker::{self, MARKER};
use super::plan::{Entry, ViewPlan};
use crate::error::Error;
use crate::root::Root;
use crate::store;

/// The prefix of the names of temporary directories.
const TEMPORARY: &str = ".cuda-build-view-";

/// A temporary directory that is older was left by a killed process: even a copy of a whole toolkit is
/// written within minutes.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// The largest number of files that an error lists.
const NAMED: usize = 5;

/// Where a view is written, and how.
pub(super) struct Destination<'a> {
    pub(super) path: &'a Path,
    /// The plan's digest.
    pub(super) digest: &'a str,
    /// Whether the user named `path`. If so, the directory may contain another view, which is replaced, or
    /// the user's files, which are not touched. If not, the directory's name contains the digest, and
    /// only this crate writes in the directory.
    pub(super) named_by_user: bool,
}

/// Makes sure that the view exists. A complete view is not touched; an incomplete or damaged view
/// is replaced as a whole. Returns `true` if the view was not complete before.
pub(super) fn write(
    plan: &ViewPlan<'_>,
    root: &Root,
    destination: &Destination<'_>,
) -> Result<bool, Error> {
    // If the user named a link, the view is written where the link points.
    let path = &root.resolve(destination.path);
    let destination = &Destination {
        path,
        ..*destination
    };
    check_owner(root, destination)?;
    let complete = || marker::is_complete(plan, path, destination.digest);
    if complete() {
        return Ok(false);
    }
    check_replaceable(root, destination)?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    create_directories(parent)?;
    remove_abandoned(parent);
    let new = Temporary::beside(path);
    write_entries(&new.0, plan, root, destination)?;
    // The first round may move an old view away. A later round is repeated only if another process has
    // finished a view since, so the loop ends.
    loop {
        match fs::rename(&new.0, path) {
            Ok(()) => return Ok(true),
            Err(error) => match error.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {}
                _ => return Err(Error::io("rename to", path)(error)),
            },
        }
        if complete() {
            return Ok(true);
        }
        check_replaceable(root, destination)?;
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

/// Refuses a view that another user may have written or changed.
fn check_owner(root: &Root, destination: &Destination<'_>) -> Result<(), Error> {
    let path = destination.path;
    // The user chose where to create a new view, so its parent directory is not checked.
    if destination.named_by_user && !root.exists(path) {
        return Ok(());
    }
    store::distrust(root, path).map_or(Ok(()), |reason| Err(refused(path, reason)))
}

fn refused(path: &Path, reason: String) -> Error {
    Error::ViewNotCreated {
        path: path.to_owned(),
        reason,
        hint: format!("name another directory, or remove {}", path.display()),
    }
}

/// Creates a directory and its missing parents. Only the user can write in them, whatever the umask is.
fn create_directories(path: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    builder
        .create(path)
        .map_err(Error::io("create directory", path))
}

/// Checks that removing the directory would delete only a view.
fn check_replaceable(root: &Root, destination: &Destination<'_>) -> Result<(), Error> {
    loop {
        let before = root.fingerprint(destination.path);
        let result = check_contents(destination);
        // Another process may have replaced the view while this process listed its files. If so, check again.
        if result.is_ok() || root.fingerprint(destination.path) == before {
            return result;
        }
    }
}

fn check_contents(destination: &Destination<'_>) -> Result<(), Error> {
    let path = destination.path;
    let reason = match fs::symlink_metadata(path) {
        Err(_) => None,
        Ok(metadata) if !metadata.is_dir() => Some("it is not a directory".to_owned()),
        Ok(_) if !destination.named_by_user => None,
        Ok(_) => reason_to_keep(path)?,
    };
    reason.map_or(Ok(()), |reason| Err(refused(path, reason)))
}

/// Why a directory must not be removed; `None` if it is empty or contains a view and nothing else.
fn reason_to_keep(path: &Path) -> Result<Option<String>, Error> {
    if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()) {
        return Ok(None);
    }
    let Some(others) = marker::other_files(path) else {
        let reason = "it is not a view of this version of cuda-build";
        return Ok(Some(reason.to_owned()));
    };
    let others = others.map_err(Error::io("read", path))?;
    let named = others
        .iter()
        .take(NAMED)
        .map(|path| path.display().to_string());
    let mut list = named.collect::<Vec<_>>().join(", ");
    if others.len() > NAMED {
        list.push_str(&format!(" and {} more files", others.len() - NAMED));
    }
    Ok((!others.is_empty())
        .then(|| format!("the view contains files that were added or changed: {list}")))
}

/// Writes the whole view, the marker last.
fn write_entries(
    directory: &Path,
    plan: &ViewPlan<'_>,
    root: &Root,
    destination: &Destination<'_>,
) -> Result<(), Error> {
    create_directories(directory)?;
    let mut last = PathBuf::new();
    for (relative, entry) in &plan.entries {
        let path = directory.join(relative);
        // The paths are sorted, so most are in the directory of the previous path, which exists already.
        if let Some(parent) = path.parent()
            && parent != last
        {
            create_directories(parent)?;
            parent.clone_into(&mut last);
        }
        let written = match entry {
            Entry::Component { target, .. } if plan.copy => fs::copy(target, &path).map(|_| ()),
            Entry::Component { target, .. } | Entry::Link(target) => symlink(target, &path),
            Entry::Text(text) => fs::write(&path, text),
            Entry::Stub { stub, .. } => fs::write(&path, stub.bytes(root)?),
        };
        written.map_err(Error::io("write", &path))?;
    }
    let path = directory.join(MARKER);
    let text = marker::text(plan, directory, destination.digest);
    let written = fs::write(&path, text).and_then(|()| {
        if destination.named_by_user {
            return Ok(());
        }
        // Build scripts declare the marker to Cargo. A date before every build keeps the script
        // that wrote the view from running again. At a path that the user chose, the real date lets
        // Cargo notice that another view was written there.
        let marker = fs::File::options().write(true).open(&path)?;
        marker.set_modified(SystemTime::UNIX_EPOCH)
    });
    written.map_err(Error::io("write", &path))
}

#[cfg(unix)]
fn symlink(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "views are supported on Linux only",
    ))
}

/// The path of a directory. On drop, the directory is removed, if it is still at this path.
struct Temporary(PathBuf);

impl Temporary {
    /// A name that no other process uses. It contains the time, because containers that share the
    /// directory may have the same process IDs.
    fn beside(path: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self(path.with_file_name(format!(
            "{TEMPORARY}{}-{}-{}",
            std::process::id(),
            now.unwrap_or_default().as_nanos(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        )))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes temporary directories that killed processes left.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|e| e.file_name().to_string_lossy().starts_with(TEMPORARY)) {
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        if changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED)) {
            // This fails if the directory belongs to another user.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
