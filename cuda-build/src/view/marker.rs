//! The marker: a file in a view that records what was written, one line for each path. It shows
//! whether a view is complete, and which files of a directory are the view's.
//!
//! ```text
//! cuda-build view 2
//! 0123456789abcdef
//! link "bin/nvcc" "/opt/cuda/bin/nvcc"
//! file "bin/nvcc.profile" 466 0123456789abcdef
//! copy "lib/libcudart.so.13" 704288 1763791200123456789
//! ```
//!
//! Paths are escaped as Rust escapes them. The lines are never parsed: a line made from the disk
//! is compared with them.

#![allow(
    clippy::disallowed_methods,
    reason = "reads the files of views, links not followed"
)]

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::plan::{Entry, Plan};
use super::write::Destination;
use crate::hash::Fnv;

/// Its name.
pub(super) const MARKER: &str = ".cuda-build-view";
const HEAD: &str = "cuda-build view 2";

/// The files and directories of a view that this crate generates. A marker that lists any other
/// file, and not as a copy of this date, was not written by this crate.
const GENERATED: [&str; 5] = [
    "bin/nvcc.profile",
    "cmake",
    "lib/pkgconfig",
    "lib/stubs",
    "version.json",
];

/// Whether this crate generates the file at a path of a view.
pub(super) fn is_generated(path: &Path) -> bool {
    GENERATED
        .iter()
        .any(|generated| path.starts_with(generated))
}

/// The marker of a view that was just written to `directory`.
pub(super) fn text(plan: &Plan, directory: &Path, destination: &Destination<'_>) -> String {
    let mut text = format!("{HEAD}\n{}\n", destination.digest);
    for (path, entry) in &plan.entries {
        let line = expected(path, entry, destination.copy)
            .or_else(|| on_disk(directory, path, is_copy(entry, destination.copy)));
        // Without its line the view is never complete and is written again.
        text.extend(line.into_iter().flat_map(|line| [line, "\n".to_owned()]));
    }
    text
}

/// Whether the directory has every entry of the plan, unchanged. Every entry is compared, because a
/// sample would miss half of the views that were partly deleted.
pub(super) fn is_complete(plan: &Plan, destination: &Destination<'_>) -> bool {
    let Some(marker) = read(destination.path) else {
        return false;
    };
    let lines: HashSet<&str> = marker.lines().collect();
    marker.lines().nth(1) == Some(destination.digest)
        && plan.entries.iter().all(|(path, entry)| {
            let is_copy = is_copy(entry, destination.copy);
            on_disk(destination.path, path, is_copy).is_some_and(|found| {
                lines.contains(&*found)
                    && expected(path, entry, destination.copy).is_none_or(|line| line == found)
            })
        })
}

/// The files below `view` that are not as this crate wrote them, sorted; `None` if the directory
/// has no marker of this version.
pub(super) fn other_files(view: &Path) -> Option<io::Result<Vec<PathBuf>>> {
    let marker = read(view)?;
    let lines: HashSet<&str> = marker.lines().collect();
    let is_own = |path: &Path| {
        let is_listed = |is_copy| on_disk(view, path, is_copy).is_some_and(|l| lines.contains(&*l));
        path == Path::new(MARKER) || is_listed(true) || is_generated(path) && is_listed(false)
    };
    Some(files_below(view).map(|mut files| {
        files.retain(|path| !is_own(path));
        files.sort();
        files
    }))
}

fn files_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut rest = vec![PathBuf::new()];
    while let Some(relative) = rest.pop() {
        for entry in fs::read_dir(directory.join(&relative))? {
            let entry = entry?;
            let list = if entry.file_type()?.is_dir() {
                &mut rest
            } else {
                &mut files
            };
            list.push(relative.join(entry.file_name()));
        }
    }
    Ok(files)
}

fn read(view: &Path) -> Option<String> {
    let text = String::from_utf8(small_file(&view.join(MARKER))?).ok()?;
    (text.lines().next() == Some(HEAD)).then_some(text)
}

fn is_copy(entry: &Entry, copy: bool) -> bool {
    copy && matches!(entry, Entry::Component { .. })
}

/// The line of an entry, if the plan alone determines it.
fn expected(path: &Path, entry: &Entry, copy: bool) -> Option<String> {
    match entry {
        Entry::Component { .. } if copy => None,
        Entry::Component { target, .. } | Entry::Link(target) => Some(link(path, target)),
        Entry::Text(text) => Some(file(path, text.as_bytes())),
        // Making a stub again would mean to read a header of a megabyte.
        Entry::Stub { .. } => None,
    }
}

/// The line of what is at `path` in a view. Copies are compared by size and date: reading them
/// could take minutes.
fn on_disk(view: &Path, path: &Path, is_copy: bool) -> Option<String> {
    let place = view.join(path);
    if let Ok(target) = fs::read_link(&place) {
        return Some(link(path, &target));
    }
    if !is_copy {
        return small_file(&place).map(|bytes| file(path, &bytes));
    }
    let metadata = fs::symlink_metadata(&place)
        .ok()
        .filter(Metadata::is_file)?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let line = format!("copy {path:?} {} {}", metadata.len(), changed.as_nanos());
    Some(line)
}

/// The content of a regular file, if it has the size of a file that this crate writes.
fn small_file(path: &Path) -> Option<Vec<u8>> {
    const LIMIT: u64 = 16 * 1024 * 1024;
    let metadata = fs::symlink_metadata(path).ok()?;
    (metadata.is_file() && metadata.len() <= LIMIT)
        .then(|| fs::read(path).ok())
        .flatten()
}

fn link(path: &Path, target: &Path) -> String {
    format!("link {path:?} {target:?}")
}

fn file(path: &Path, bytes: &[u8]) -> String {
    let mut digest = Fnv::default();
    digest.field(bytes);
    format!("file {path:?} {} {}", bytes.len(), digest.hex())
}
