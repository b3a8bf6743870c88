//! The files that a build script looks at: metadata is read once for each path, and content only if needed.
#![allow(
    clippy::disallowed_methods,
    reason = "freshness compares files with their recorded states"
)]

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use cuda_find_core::hash::{self, Digest};

/// In nanoseconds, twice the longest tick of the clock from which the kernel takes `ctime` (1 to 10 ms). A recorded
/// `ctime` can be this much earlier than the change.
const CLOCK_MARGIN: u64 = 20_000_000;

/// The `ctime` of files on systems without it. It is later than any time, so contents are compared.
const UNKNOWN_TIME: u64 = u64::MAX;

/// Nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(elapsed.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// Metadata that differs after every change of a file. Links are followed. Times are in nanoseconds since 1970. In a
/// record, all numbers are zero if a later change could leave them the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(super) inode: u64,
    pub(super) length: u64,
    /// Time of the last change of the content (`mtime`), which programs can set.
    pub(super) modified: u64,
    /// Time of the last change of anything (`ctime`), which no program can set.
    pub(super) changed: u64,
}

impl Stat {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        let nanoseconds = |seconds: i64, rest: i64| {
            let all = seconds.saturating_mul(1_000_000_000).saturating_add(rest);
            u64::try_from(all).unwrap_or(0)
        };
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
            length: metadata.len(),
            changed: UNKNOWN_TIME,
            ..Self::default()
        }
    }

    /// Whether every change of the file after `time` leads to a different `Stat`.
    fn is_settled_at(self, time: u64) -> bool {
        self.changed < time.saturating_sub(CLOCK_MARGIN)
    }
}

/// The recorded state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A compiler looked for the path and found nothing.
    Absent,
    /// A directory or something else that cannot be included.
    NotAFile,
    /// A directory that was searched. It is recorded only so that it can be declared to Cargo.
    Searched,
    /// A file with this content.
    File { digest: Digest, stat: Stat },
}

/// The facts that were read about one path.
#[derive(Default)]
struct PathFacts {
    /// `None` if the path does not exist.
    stat: Option<Stat>,
    is_file: bool,
    /// The digest, and the `Stat` to record with it.
    content: Option<(Digest, Stat)>,
    /// The results of [`Files::is_link`], [`Files::names`] and [`Files::contains`], if they were called.
    is_link: Option<bool>,
    names: Option<Rc<Vec<OsString>>>,
    contains: Option<bool>,
}

impl PathFacts {
    /// The `Stat` to record with a content that was read since `before`, if the file did not change meanwhile.
    fn stat_after_reading(&self, path: &Path, before: u64) -> Stat {
        let after = fs::metadata(path).ok().map(|metadata| Stat::of(&metadata));
        let is_settled = |stat: &Stat| self.stat == Some(*stat) && stat.is_settled_at(before);
        after.filter(is_settled).unwrap_or_default()
    }
}

/// The files that one run of a build script has looked at.
#[derive(Default)]
pub(crate) struct Files {
    /// The key is the path as an `OsString`, because hashing a `Path` takes several times as long.
    facts: HashMap<OsString, PathFacts>,
}

impl Files {
    fn facts(&mut self, path: &Path) -> &mut PathFacts {
        let key = path.as_os_str().to_owned();
        self.facts.entry(key).or_insert_with(|| {
            let metadata = fs::metadata(path).ok();
            PathFacts {
                stat: metadata.as_ref().map(Stat::of),
                is_file: metadata.is_some_and(|metadata| metadata.is_file()),
                ..PathFacts::default()
            }
        })
    }

    /// The length and the time of the last change of the content; `None` if the path does not exist. Programs can set
    /// the time, so this is enough only for files that are not edited, such as a toolkit's.
    pub(crate) fn length_and_time(&mut self, path: &Path) -> Option<(u64, u64)> {
        let stat = self.facts(path).stat?;
        Some((stat.length, stat.modified))
    }

    /// Forgets a path that a tool may have changed.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.facts.remove(path.as_os_str());
    }

    /// Reads the metadata of a path again. The digest is kept if the metadata is unchanged.
    pub(super) fn refresh(&mut self, path: &Path) {
        if let Some(old) = self.facts.remove(path.as_os_str()) {
            let new = self.facts(path);
            new.content = old.content.filter(|(_, stat)| new.stat == Some(*stat));
        }
    }

    pub(crate) fn exists(&mut self, path: &Path) -> bool {
        self.facts(path).stat.is_some()
    }

    pub(crate) fn is_file(&mut self, path: &Path) -> bool {
        self.facts(path).is_file
    }

    /// The path without `.` and `directory/..`. `link/..` is kept, because it leads elsewhere.
    pub(crate) fn without_dots(&mut self, path: &Path) -> PathBuf {
        let mut short = PathBuf::new();
        for component in path.components() {
            let leaves_directory = component == Component::ParentDir
                && matches!(short.components().next_back(), Some(Component::Normal(_)))
                && !self.is_link(&short);
            if leaves_directory {
                short.pop();
            } else if component != Component::CurDir {
                short.push(component);
            }
        }
        short
    }

    fn is_link(&mut self, path: &Path) -> bool {
        let read = || fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        *self.facts(path).is_link.get_or_insert_with(read)
    }

    /// The names in a directory, sorted; none if it cannot be read.
    pub(crate) fn names(&mut self, directory: &Path) -> Rc<Vec<OsString>> {
        let names = self.facts(directory).names.get_or_insert_with(|| {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            Rc::new(names)
        });
        Rc::clone(names)
    }

    /// The bytes of a file; `None` if the file does not exist or cannot be read.
    pub(crate) fn bytes(&mut self, path: &Path) -> Option<Vec<u8>> {
        let before = now();
        let facts = self.facts(path);
        if !facts.is_file {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        facts.content = Some((
            hash::of_content(&bytes),
            facts.stat_after_reading(path, before),
        ));
        Some(bytes)
    }

    /// Whether a file contains one of these texts. The result is kept for the path, so every call must pass the same
    /// texts.
    pub(crate) fn contains(&mut self, path: &Path, texts: &[&str]) -> bool {
        if let Some(contains) = self.facts(path).contains {
            return contains;
        }
        let bytes = self.bytes(path).unwrap_or_default();
        let content = String::from_utf8_lossy(&bytes);
        let contains = texts.iter().any(|text| content.contains(text));
        self.facts(path).contains = Some(contains);
        contains
    }

    /// The digest of a file's content; `None` if the file does not exist or cannot be read.
    pub(crate) fn digest(&mut self, path: &Path) -> Option<Digest> {
        Some(self.content(path)?.0)
    }

    /// Whether the file is so large that another program has made its digest.
    fn read_large_file(&mut self, path: &Path) -> bool {
        let before = now();
        let facts = self.facts(path);
        let length = facts.stat.filter(|_| facts.is_file).map(|stat| stat.length);
        let Some(digest) = length.and_then(|length| hash::of_large_file(path, length)) else {
            return false;
        };
        facts.content = Some((digest, facts.stat_after_reading(path, before)));
        true
    }

    fn content(&mut self, path: &Path) -> Option<(Digest, Stat)> {
        if self.facts(path).content.is_none() && !self.read_large_file(path) {
            self.bytes(path)?;
        }
        self.facts(path).content
    }

    /// The state to record for a path; `None` if it is a file that cannot be read.
    pub(super) fn state(&mut self, path: &Path) -> Option<State> {
        let facts = self.facts(path);
        if facts.stat.is_none() {
            return Some(State::Absent);
        } else if !facts.is_file {
            return Some(State::NotAFile);
        }
        let (digest, stat) = self.content(path)?;
        Some(State::File { digest, stat })
    }

    /// If a path still has the recorded state, returns this state with the current `Stat`; `None` if the path changed.
    /// The content is read only if the `Stat` differs.
    pub(super) fn state_if_unchanged(&mut self, path: &Path, recorded: State) -> Option<State> {
        let facts = self.facts(path);
        let is_unchanged = match recorded {
            State::Absent => facts.stat.is_none(),
            State::NotAFile => facts.stat.is_some() && !facts.is_file,
            State::Searched => true,
            State::File { stat, .. } if facts.is_file && facts.stat == Some(stat) => true,
            State::File { digest, .. } => {
                let (current_digest, stat) = self.content(path)?;
                return (current_digest == digest).then_some(State::File { digest, stat });
            }
        };
        is_unchanged.then_some(recorded)
    }

    /// Whether a path may have changed since `start`. If the times are too close to tell, contents are compared.
    /// `ctime` is ignored for files of the toolkit, because a new hard link to such a file changes it.
    pub(super) fn changed_since(
        &mut self,
        start: u64,
        path: &Path,
        is_of_toolkit: bool,
        digest_at_start: impl FnOnce() -> Option<Digest>,
    ) -> bool {
        let mut stat = self.facts(path).stat;
        if let Some(stat) = stat.as_mut().filter(|_| is_of_toolkit) {
            stat.changed = stat.modified;
        }
        match stat {
            Some(stat) if stat.changed > start && stat.changed != UNKNOWN_TIME => true,
            Some(stat) if !stat.is_settled_at(start) => {
                let before = digest_at_start();
                before.is_none() || self.digest(path) != before
            }
            _ => false,
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_if_the_stat_differs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.cuh");
        let unchanged = |state| Files::default().state_if_unchanged(&path, state).is_some();
        fs::write(&path, "1").unwrap();
        let recorded = Files::default().state(&path).unwrap();
        fs::write(&path, "1").unwrap();
        assert!(unchanged(recorded));
        // The new content has the same length and the same `mtime`.
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "2").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(modified).unwrap();
        assert!(!unchanged(recorded));
        fs::remove_file(&path).unwrap();
        assert!(!unchanged(recorded) && unchanged(State::Absent));
        fs::create_dir(&path).unwrap();
        assert!(!unchanged(State::Absent) && unchanged(State::NotAFile));
    }

    #[test]
    fn a_link_is_not_removed_from_a_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::create_dir_all(path.join("real/deep")).unwrap();
        std::os::unix::fs::symlink("real/deep", path.join("link")).unwrap();
        let mut files = Files::default();
        let mut without_dots = |name: &str| files.without_dots(&path.join(name));
        assert_eq!(without_dots("./real/../real/./a.h"), path.join("real/a.h"));
        assert_eq!(without_dots("link/../a.h"), path.join("link/../a.h"));
        assert_eq!(files.without_dots(Path::new("../a.h")), Path::new("../a.h"));
    }

    #[test]
    fn a_file_just_written_has_no_settled_stat() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.cuh");
        fs::write(&path, "1").unwrap();
        let is_settled = || match Files::default().state(&path) {
            Some(State::File { stat, .. }) => stat != Stat::default(),
            other => panic!("{other:?}"),
        };
        // A change within the same tick of the clock would go unnoticed.
        assert!(!is_settled());
        std::thread::sleep(std::time::Duration::from_millis(40));
        assert!(is_settled());
    }
}
