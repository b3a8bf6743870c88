//! From a plan to a directory: beside first, then renamed, so that a view is there as a whole or
//! not at all.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the file that writes views"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::owner;
use super::plan::{Entry, Plan};
use crate::error::Error;
use crate::root::Root;

/// Makes a directory a view, says which, and lists what is in it: paths that were made here with
/// their size, all others with a dash. Written last.
pub(super) const MARKER: &str = ".cuda-build-view";
const HEAD: &str = "cuda-build view 1";

/// Other builders may win this often before something must be wrong.
const ATTEMPTS: usize = 16;

/// So many files are named that are in the way of a view.
const NAMED: usize = 5;

/// Where a view goes.
pub(super) struct Destination<'a> {
    pub(super) path: &'a Path,
    /// Of the plan.
    pub(super) digest: &'a str,
    /// Whether another view may be there and has to go.
    pub(super) replace: bool,
    /// Files instead of links out of the view.
    pub(super) copy: bool,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        action,
        path,
        source,
    }
}

/// Makes or mends the view, or leaves it alone where it is whole. Returns whether anything was
/// written.
///
/// # Errors
/// [`Error::Io`]; [`Error::ViewPlace`] where something else is in the way.
pub(super) fn materialize(
    plan: &Plan,
    root: &Root,
    destination: &Destination<'_>,
) -> Result<bool, Error> {
    // Behind a link is the view itself; the link is the user's.
    let path = &root.resolve(destination.path);
    let destination = &Destination {
        path,
        ..*destination
    };
    for attempt in 0..ATTEMPTS {
        // Another process may replace the view while it is looked at.
        let looked_at = (root.fingerprint(path), root.place(path));
        let is_still = || root.fingerprint(path) == looked_at.0;
        let state = state(path, destination);
        let (wrong, replace) = match &state {
            State::Whole(marker) => (wrong_entries(plan, destination, marker), false),
            State::Damaged => (plan.entries.keys().map(PathBuf::as_path).collect(), false),
            State::Absent => (Vec::new(), false),
            State::Other(marker) => match may_go(destination, marker) {
                Err(_) if !is_still() => continue,
                answer => answer.map(|()| (Vec::new(), true))?,
            },
            // One came between the two looks.
            State::Foreign if fs::read_to_string(path.join(MARKER)).is_ok() => continue,
            State::Foreign => {
                return Err(in_the_way(
                    destination,
                    "something that is no view of cuda-build is there",
                ));
            }
        };
        match &state {
            State::Whole(_) if wrong.is_empty() => return Ok(attempt > 0),
            State::Whole(_) if !is_still() => {}
            State::Whole(_) | State::Damaged => match mend(plan, root, destination, &wrong) {
                Err(_) if root.place(path) != looked_at.1 => {}
                mended => return mended.map(|()| true),
            },
            _ if build(plan, root, destination, replace)? => return Ok(true),
            _ => {}
        }
    }
    let source = io::Error::other("other processes keep changing it");
    Err(failed("make the view", path)(source))
}

/// What is where a view shall be.
enum State {
    /// Nothing, or an empty directory.
    Absent,
    /// The view that is wanted, by its marker.
    Whole(String),
    /// A directory that can only be this view, without a marker or with half of it.
    Damaged,
    /// Another view, by its marker, which may be replaced.
    Other(String),
    /// Anything else.
    Foreign,
}

fn state(path: &Path, destination: &Destination<'_>) -> State {
    if let Ok(marker) = fs::read_to_string(path.join(MARKER)) {
        let mut lines = marker.lines();
        if lines.next() == Some(HEAD) && lines.next() == Some(destination.digest) {
            return State::Whole(marker);
        }
        return if destination.replace {
            State::Other(marker)
        } else {
            State::Damaged
        };
    }
    match fs::read_dir(path) {
        Err(_) if fs::symlink_metadata(path).is_err() => State::Absent,
        Err(_) => State::Foreign,
        Ok(mut entries) => match entries.next() {
            None => State::Absent,
            // Its name is a digest: nothing else is called that.
            Some(_) if !destination.replace => State::Damaged,
            Some(_) => State::Foreign,
        },
    }
}

fn in_the_way(destination: &Destination<'_>, reason: impl Into<String>) -> Error {
    let hint = if destination.replace {
        "name another directory, or move away what is there"
    } else {
        "move away what is there"
    };
    Error::ViewPlace {
        path: destination.path.to_owned(),
        reason: reason.into(),
        hint: hint.to_owned(),
    }
}

/// Whether nothing is lost with another view but the view: somebody may have put files into it.
fn may_go(destination: &Destination<'_>, marker: &str) -> Result<(), Error> {
    let entries: BTreeSet<&str> = marker
        .lines()
        .skip(2)
        .filter_map(|line| line.split_once(' '))
        .map(|(_, path)| path)
        .collect();
    let mut others = Vec::new();
    let mut rest = vec![PathBuf::new()];
    while let Some(directory) = rest.pop() {
        let at = destination.path.join(&directory);
        for entry in fs::read_dir(&at).map_err(failed("read", &at))? {
            let entry = entry.map_err(failed("read", &at))?;
            let path = directory.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                rest.push(path);
            } else if !entries.contains(&*path.to_string_lossy())
                && path != Path::new(MARKER)
                && !owner::is_unfinished(&entry.file_name())
            {
                others.push(path.display().to_string());
            }
        }
    }
    others.sort();
    let more = others.len().saturating_sub(NAMED);
    let reason = match others.as_slice() {
        [] => return Ok(()),
        // An older cuda-build's.
        _ if !marker.lines().any(|line| line.starts_with("- ")) => {
            "a view is there that does not list its own files".to_owned()
        }
        _ if more > 0 => {
            format!(
                "the view there also holds {} and {more} more files",
                others[..NAMED].join(", ")
            )
        }
        _ => format!("the view there also holds {}", others.join(", ")),
    };
    Err(in_the_way(
        destination,
        format!("{reason}, and would be removed"),
    ))
}

/// Builds beside and renames; `false` where another builder was first.
fn build(
    plan: &Plan,
    root: &Root,
    destination: &Destination<'_>,
    replace: bool,
) -> Result<bool, Error> {
    let path = destination.path;
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(failed("create directory", parent))?;
    owner::clean(parent);
    let part = Part(owner::unfinished(path));
    fs::create_dir(&part.0).map_err(failed("create directory", &part.0))?;
    let mut last = PathBuf::new();
    for (relative, entry) in &plan.entries {
        let at = part.0.join(relative);
        // Sorted paths: most come after one in the same directory.
        if let Some(directory) = at.parent()
            && directory != last
        {
            fs::create_dir_all(directory).map_err(failed("create directory", directory))?;
            directory.clone_into(&mut last);
        }
        write(entry, &at, root, destination.copy)?;
    }
    write_marker(plan, &part.0, destination)?;
    if replace {
        let old = Part(owner::unfinished(path));
        return match fs::rename(path, &old.0) {
            // `old` is removed when it goes out of scope.
            Ok(()) => rename(&part, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("move away", path)(error)),
        };
    }
    rename(&part, path)
}

fn rename(part: &Part, path: &Path) -> Result<bool, Error> {
    match fs::rename(&part.0, path) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => Ok(false),
            _ => Err(failed("rename to", path)(error)),
        },
    }
}

/// A directory that is removed unless it was renamed.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Puts one entry at a path where nothing is.
fn write(entry: &Entry, at: &Path, root: &Root, copy: bool) -> Result<(), Error> {
    match entry {
        Entry::Outside { target, .. } if copy => {
            fs::copy(target, at).map_err(failed("copy to", at))?;
        }
        Entry::Outside { target, .. } => symlink(target, at).map_err(failed("write link", at))?,
        Entry::Inside(target) => {
            symlink(Path::new(target), at).map_err(failed("write link", at))?;
        }
        Entry::Alias(target) => symlink(Path::new(target), at).map_err(failed("write link", at))?,
        Entry::Text(text) => fs::write(at, text).map_err(failed("write", at))?,
        Entry::Stub { stub, .. } => {
            fs::write(at, stub.bytes(root)?).map_err(failed("write", at))?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn symlink(target: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "views are made on Linux alone",
    ))
}

/// Records what is in the view; sizes of what was made here the plan does not know.
fn write_marker(plan: &Plan, view: &Path, destination: &Destination<'_>) -> Result<(), Error> {
    let mut text = format!("{HEAD}\n{}\n", destination.digest);
    for (relative, entry) in &plan.entries {
        let size = match entry {
            Entry::Stub { .. } => fs::metadata(view.join(relative))
                .ok()
                .map(|metadata| metadata.len()),
            _ => None,
        };
        let size = size.map_or_else(|| "-".to_owned(), |size| size.to_string());
        text.push_str(&format!("{size} {}\n", relative.display()));
    }
    let marker = view.join(MARKER);
    let beside = owner::unfinished(&marker);
    // Build scripts declare the marker: with a date before any build it does not make Cargo run
    // again the one that made the view. Where another view may take this one's place, the date is how
    // Cargo sees that.
    let written = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        fs::rename(&beside, &marker)?;
        if destination.replace {
            Ok(())
        } else {
            file.set_modified(SystemTime::UNIX_EPOCH)
        }
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        failed("write", &marker)(error)
    })
}

/// Entries that are not there or not what they have to be. Every one is looked at: half a
/// millisecond for the whole of CUDA 13, and a spot check finds half of half-deleted views.
fn wrong_entries<'a>(plan: &'a Plan, destination: &Destination<'_>, marker: &str) -> Vec<&'a Path> {
    let is_right = |relative: &Path, entry: &Entry| {
        let at = destination.path.join(relative);
        let links_to = |target: &Path| fs::read_link(&at).is_ok_and(|link| link == target);
        let length = || {
            fs::symlink_metadata(&at)
                .ok()
                .filter(|m| m.is_file())
                .map(|m| m.len())
        };
        match entry {
            Entry::Outside { target, .. } if destination.copy => {
                fs::metadata(target).is_ok_and(|source| length() == Some(source.len()))
            }
            Entry::Outside { target, .. } => links_to(target),
            Entry::Inside(target) => links_to(Path::new(target)),
            Entry::Alias(target) => links_to(Path::new(target)),
            Entry::Text(text) => length() == Some(text.len() as u64),
            Entry::Stub { .. } => length().is_some_and(|length| {
                marker
                    .lines()
                    .any(|l| l == format!("{length} {}", relative.display()))
            }),
        }
    };
    plan.entries
        .iter()
        .filter(|(relative, entry)| !is_right(relative, entry))
        .map(|(relative, _)| relative.as_path())
        .collect()
}

/// Puts single entries right in a view that is in use: each is written beside and renamed over.
fn mend(
    plan: &Plan,
    root: &Root,
    destination: &Destination<'_>,
    wrong: &[&Path],
) -> Result<(), Error> {
    let view = destination.path;
    for relative in wrong {
        let Some(entry) = plan.entries.get(*relative) else {
            continue;
        };
        real_directories(view, relative)?;
        let at = view.join(relative);
        // What a process left that was killed at this place.
        at.parent().into_iter().for_each(owner::clean);
        if fs::symlink_metadata(&at).is_ok_and(|metadata| metadata.is_dir()) {
            fs::remove_dir_all(&at).map_err(failed("remove", &at))?;
        }
        let beside = owner::unfinished(&at);
        write(entry, &beside, root, destination.copy)?;
        fs::rename(&beside, &at).map_err(|error| {
            let _ = fs::remove_file(&beside);
            failed("rename to", &at)(error)
        })?;
    }
    owner::clean(view);
    write_marker(plan, view, destination)
}

/// Makes the parents of `relative` in the view real directories. A link in their place would lead
/// writes into the components themselves.
fn real_directories(view: &Path, relative: &Path) -> Result<(), Error> {
    let parents = relative.parent().unwrap_or(Path::new(""));
    let mut at = view.to_owned();
    for name in parents {
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(metadata) if metadata.is_dir() => continue,
            Ok(_) => fs::remove_file(&at).map_err(failed("remove", &at))?,
            Err(_) => {}
        }
        match fs::create_dir(&at) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("create directory", &at)(error));
            }
            _ => {}
        }
    }
    Ok(())
}
