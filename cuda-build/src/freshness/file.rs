//! Files as they are while a build script runs: each is looked at once, and read only if needed.
#![allow(
    clippy::disallowed_methods,
    reason = "freshness compares files with what was recorded of them"
)]

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::hash;

/// In nanoseconds: how far the time that the kernel records for a change can lie before the change. The kernel
/// takes the time from a clock that ticks every 1 to 10 ms.
const CLOCK_TICK: i64 = 20_000_000;

/// Nanoseconds since 1970.
pub(super) fn now() -> i64 {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}

/// Metadata that differs after every change of a file. Links are followed. Times are in nanoseconds
/// since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(super) inode: u64,
    pub(super) length: u64,
    /// Time of the last change of the content (`mtime`), which programs can set.
    pub(super) modified: i64,
    /// Time of the last change of anything (`ctime`), which no program can set.
    pub(super) changed: i64,
}

impl Stat {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000) + rest;
        Self {
            inode: metadata.ino(),
            length: metadata.len(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Without `ctime`, every time can be set by programs. So no file counts as settled, and its content is always
    /// compared.
    #[cfg(not(unix))]
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: 0,
            length: metadata.len(),
            modified: 0,
            changed: i64::MAX,
        }
    }

    /// Whether every change of the file after `time` leads to a different `Stat`.
    fn is_settled_at(self, time: i64) -> bool {
        self.changed < time.saturating_sub(CLOCK_TICK)
    }
}

/// The recorded state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A compiler looked for the path and found nothing.
    Absent,
    /// A directory or something else that cannot be included.
    NotAFile,
    /// A file with this content. `stat` is set only if every later change leads to a different one.
    File { digest: u64, stat: Option<Stat> },
}

/// When one file may have changed relative to the start of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Before,
    /// Within one tick of the clock before the start: the content has to be compared.
    Around,
    After,
}

/// What is known about one path.
struct Seen {
    /// `None` if the path does not exist.
    stat: Option<Stat>,
    is_file: bool,
    content: Option<Content>,
    /// The answers of functions that were called for the path.
    is_link: Option<bool>,
    names: Option<Rc<Vec<OsString>>>,
    contains: Option<bool>,
}

#[derive(Clone, Copy)]
struct Content {
    digest: u64,
    settled: bool,
}

/// The files that one run of a build script has looked at.
#[derive(Default)]
pub(crate) struct Files {
    /// By the bytes of the path: hashing a `Path` part by part takes several times as long.
    seen: HashMap<OsString, Seen>,
}

impl Files {
    fn look(&mut self, path: &Path) -> &mut Seen {
        self.seen
            .entry(path.as_os_str().to_owned())
            .or_insert_with(|| {
                let metadata = fs::metadata(path).ok();
                Seen {
                    stat: metadata.as_ref().map(Stat::of),
                    is_file: metadata.is_some_and(|metadata| metadata.is_file()),
                    content: None,
                    is_link: None,
                    names: None,
                    contains: None,
                }
            })
    }

    /// Length and time of the last change of the content, for files that are not edited, such as a
    /// toolkit's. `None` if the path does not exist.
    pub(crate) fn length_and_time(&mut self, path: &Path) -> Option<(u64, i64)> {
        self.look(path)
            .stat
            .map(|stat| (stat.length, stat.modified))
    }

    /// Forgets a path that a tool may have changed.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.seen.remove(path.as_os_str());
    }

    /// Looks again at a path; the digest is kept if the file is still the same.
    pub(super) fn refresh(&mut self, path: &Path) {
        let Some(old) = self.seen.remove(path.as_os_str()) else {
            return;
        };
        let new = self.look(path);
        if new.stat == old.stat && old.content.is_some_and(|content| content.settled) {
            new.content = old.content;
        }
    }

    pub(crate) fn exists(&mut self, path: &Path) -> bool {
        self.look(path).stat.is_some()
    }

    pub(crate) fn is_file(&mut self, path: &Path) -> bool {
        self.look(path).is_file
    }

    /// The path without `.` and `directory/..`. `link/..` is kept, because it leads elsewhere.
    pub(crate) fn normal(&mut self, path: &Path) -> PathBuf {
        let mut normal = PathBuf::new();
        for component in path.components() {
            let parent = component == Component::ParentDir
                && matches!(normal.components().next_back(), Some(Component::Normal(_)))
                && !self.is_link(&normal);
            if parent {
                normal.pop();
            } else if component != Component::CurDir {
                normal.push(component);
            }
        }
        normal
    }

    fn is_link(&mut self, path: &Path) -> bool {
        let read = || fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        *self.look(path).is_link.get_or_insert_with(read)
    }

    /// The names in a directory, none if it cannot be read.
    pub(crate) fn names(&mut self, directory: &Path) -> Rc<Vec<OsString>> {
        let names = self.look(directory).names.get_or_insert_with(|| {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            Rc::new(names)
        });
        Rc::clone(names)
    }

    /// The bytes of a file; `None` if there is none or it cannot be read.
    pub(crate) fn bytes(&mut self, path: &Path) -> Option<Vec<u8>> {
        let before = now();
        let seen = self.look(path);
        if !seen.is_file {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        let same = fs::metadata(path).ok().map(|metadata| Stat::of(&metadata)) == seen.stat;
        let settled = same && seen.stat.is_some_and(|stat| stat.is_settled_at(before));
        seen.content = Some(Content {
            digest: hash::of_content(&bytes),
            settled,
        });
        Some(bytes)
    }

    /// Whether a file contains one of these texts, which have to be the same in every call.
    pub(crate) fn contains(&mut self, path: &Path, texts: &[&str]) -> bool {
        if let Some(known) = self.look(path).contains {
            return known;
        }
        let bytes = self.bytes(path).unwrap_or_default();
        let content = String::from_utf8_lossy(&bytes);
        let found = texts.iter().any(|text| content.contains(text));
        self.look(path).contains = Some(found);
        found
    }

    /// The digest of a file's content; `None` if there is none or it cannot be read.
    pub(crate) fn digest(&mut self, path: &Path) -> Option<u64> {
        if self.look(path).content.is_none() {
            self.bytes(path)?;
        }
        self.look(path).content.map(|content| content.digest)
    }

    /// The state to record for a path; `None` if it is a file that cannot be read.
    pub(super) fn state(&mut self, path: &Path) -> Option<State> {
        let seen = self.look(path);
        let Some(stat) = seen.stat else {
            return Some(State::Absent);
        };
        if !seen.is_file {
            return Some(State::NotAFile);
        }
        let digest = self.digest(path)?;
        let settled = self
            .look(path)
            .content
            .is_some_and(|content| content.settled);
        Some(State::File {
            digest,
            stat: settled.then_some(stat),
        })
    }

    /// Whether a path still has the recorded state. The content is read only if the `Stat` differs.
    pub(super) fn is_still(&mut self, path: &Path, recorded: State) -> bool {
        let seen = self.look(path);
        match recorded {
            State::Absent => seen.stat.is_none(),
            State::NotAFile => seen.stat.is_some() && !seen.is_file,
            State::File { digest, stat } => {
                seen.is_file
                    && (stat.is_some() && stat == seen.stat || self.digest(path) == Some(digest))
            }
        }
    }

    /// The state, with new times, that replaces `recorded` for an unchanged path; `None` if the times
    /// are the same.
    pub(super) fn renewed(&mut self, path: &Path, recorded: State) -> Option<State> {
        let State::File { stat, .. } = recorded else {
            return None;
        };
        if stat.is_some() && stat == self.look(path).stat {
            return None;
        }
        self.state(path).filter(|now| *now != recorded)
    }

    /// When a path last changed, relative to `start`.
    pub(super) fn changed(&mut self, path: &Path, start: i64) -> Changed {
        match self.look(path).stat {
            Some(stat) if stat.changed > start => Changed::After,
            Some(stat) if !stat.is_settled_at(start) => Changed::Around,
            _ => Changed::Before,
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_counts_if_the_stat_differs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.cuh");
        fs::write(&path, "1").unwrap();
        let recorded = Files::default().state(&path).unwrap();
        fs::write(&path, "1").unwrap();
        assert!(Files::default().is_still(&path, recorded));
        // Same length, and the time of the content as before.
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "2").unwrap();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(modified)
            .unwrap();
        assert!(!Files::default().is_still(&path, recorded));
        fs::remove_file(&path).unwrap();
        assert!(!Files::default().is_still(&path, recorded));
        assert!(Files::default().is_still(&path, State::Absent));
    }

    #[test]
    fn a_link_is_not_taken_out_of_a_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::create_dir_all(path.join("real/deep")).unwrap();
        std::os::unix::fs::symlink("real/deep", path.join("link")).unwrap();
        let mut files = Files::default();
        let mut normal = |name: &str| files.normal(&path.join(name));
        assert_eq!(normal("./real/../real/./a.h"), path.join("real/a.h"));
        assert_eq!(normal("link/../a.h"), path.join("link/../a.h"));
        assert_eq!(files.normal(Path::new("../a.h")), Path::new("../a.h"));
    }

    #[test]
    fn a_file_just_written_has_no_settled_stat() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.cuh");
        fs::write(&path, "1").unwrap();
        let Some(State::File { stat: None, .. }) = Files::default().state(&path) else {
            panic!("a change within the same tick of the clock would go unnoticed");
        };
        std::thread::sleep(std::time::Duration::from_millis(40));
        let Some(State::File { stat: Some(_), .. }) = Files::default().state(&path) else {
            panic!("the content would be read in every build");
        };
    }
}
