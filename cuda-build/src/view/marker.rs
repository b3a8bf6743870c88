//! The marker: a file in a view that records what was written, one line for each path. It shows
//! whether a view is complete, and which files of a directory belong to the view.
//!
//! ```text
//! cuda-build view 2
//! 0123456789abcdef
//! link "bin/nvcc" "/opt/cuda/bin/nvcc"
//! file "bin/nvcc.profile" 466 0123456789abcdef
//! copy "lib/libcudart.so.13" 704288 1763791200123456789
//! ```
//!
//! Paths are escaped as by `{:?}`. The lines are never parsed: they are compared with lines made from
//! the files on disk.

#![allow(
    clippy::disallowed_methods,
    reason = "reads the files of views, links not followed"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::plan::ViewPlan;
use crate::hash::Fnv;
use crate::list::Set;

/// The name of the marker.
pub(super) const MARKER: &str = ".cuda-build-view";
const HEAD: &str = "cuda-build view 2";
/// The largest file whose content is read for a digest. Every generated file is smaller.
const GENERATED_LIMIT: u64 = 16 * 1024 * 1024;

/// The files and directories of a view that this crate generates.
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

/// The text of the marker for a view that was just written to `directory`.
pub(super) fn text(plan: &ViewPlan<'_>, directory: &Path, digest: &str) -> String {
    let mut text = format!("{HEAD}\n{digest}\n");
    for path in plan.paths() {
        // A path that cannot be read gets no line, so the next check finds the view incomplete.
        text.extend(line(directory, path).map(|line| line + "\n"));
    }
    text
}

/// Whether the marker of `view` has this digest, and every entry of the plan is unchanged on disk.
/// Every entry is compared, because a check of a sample would often miss deleted files.
pub(super) fn is_complete(plan: &ViewPlan<'_>, view: &Path, digest: &str) -> bool {
    let Some(marker) = read(view) else {
        return false;
    };
    let lines: Set<&str> = marker.lines().collect();
    let is_listed = |path: &Path| line(view, path).is_some_and(|line| lines.contains(&*line));
    marker.lines().nth(1) == Some(digest) && plan.paths().all(is_listed)
}

/// The files below `view` that this crate did not write, and those that were changed later, sorted.
/// `None` if the directory has no marker of this version.
pub(super) fn other_files(view: &Path) -> Option<io::Result<Vec<PathBuf>>> {
    let marker = read(view)?;
    let lines: Set<&str> = marker.lines().collect();
    let is_listed = |path: &Path| line(view, path).is_some_and(|line| lines.contains(&*line));
    Some(files_below(view).map(|mut files| {
        files.retain(|path| path != Path::new(MARKER) && !is_listed(path));
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
    let path = view.join(MARKER);
    // Reading a FIFO would block.
    if !fs::symlink_metadata(&path).ok()?.is_file() {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    (text.lines().next() == Some(HEAD)).then_some(text)
}

/// The marker's line for the link or file at `path`; `None` if neither is there. The line contains the
/// target of a link, or the digest of a generated file. For a copy, it contains size and date, because
/// reading all copies could take minutes.
///
/// A view at a path that the user named is deleted only if the marker has a line for each of its files. A
/// marker that was committed to a repository may list other files of the repository as copies. Git does
/// not keep dates, so after a checkout such lines do not match, and the files are not deleted.
fn line(view: &Path, path: &Path) -> Option<String> {
    let place = view.join(path);
    if let Ok(target) = fs::read_link(&place) {
        return Some(format!("link {path:?} {target:?}"));
    }
    let metadata = fs::symlink_metadata(&place).ok()?;
    if !metadata.is_file() {
        return None;
    }
    if is_generated(path) && metadata.len() <= GENERATED_LIMIT {
        let mut digest = Fnv::default();
        digest.field(&fs::read(&place).ok()?);
        let digest = digest.hex();
        return Some(format!("file {path:?} {} {digest}", metadata.len()));
    }
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let nanoseconds = changed.as_nanos();
    Some(format!("copy {path:?} {} {nanoseconds}", metadata.len()))
}
