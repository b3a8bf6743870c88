//! Which files a compiler may read for a source, found by reading the source.
//!
//! NVRTC does not list the files that it reads, and nvcc does not list the paths at which it found
//! nothing. The scan therefore finds at least the files that a compiler reads: for each `#include`
//! and `__has_include`, regardless of `#if`, every file of that name in every searched directory,
//! and every such path that does not exist. It searches the same directories as compilers
//! (measured with NVRTC 11.8, 12.9 and 13.5, nvcc and gcc): for `#include "…"` the directory of the
//! including file, then the directories that the options name; for `#include <…>` only the
//! latter; for an absolute name none. NVRTC does not search the working directory if the source's
//! name has a directory.

mod lex;
pub(crate) mod options;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::freshness::Files;

use lex::Mention;

/// Where a compiler looks for headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SearchPath {
    /// The directory that the compiler runs in: headers that an option includes are searched there.
    pub(crate) working: PathBuf,
    /// The user's directories, in any order.
    pub(crate) directories: Vec<PathBuf>,
    /// The toolkit's directories. Their headers are not scanned, because the toolkit's identity
    /// covers the files that they include.
    pub(crate) toolkit: Vec<PathBuf>,
}

/// What a source includes.
#[derive(Clone, Default)]
pub struct Scan {
    /// The user's headers; the source itself is not among them.
    pub files: BTreeSet<PathBuf>,
    /// The toolkit's headers that the user's files name.
    pub toolkit_files: BTreeSet<PathBuf>,
    /// Paths that were looked up and do not exist.
    pub absent: BTreeSet<PathBuf>,
    /// The user's directories that are searched.
    pub searched: BTreeSet<PathBuf>,
    /// The names of headers that the user has. No shim may replace them.
    pub own: BTreeSet<String>,
    /// The names of headers that the toolkit has.
    pub toolkit: BTreeSet<String>,
    /// A file with `#include MACRO`: it may include files that are not listed.
    pub computed_include: Option<PathBuf>,
    /// A file with `__has_include(MACRO)`.
    pub computed_query: Option<PathBuf>,
}

impl Scan {
    /// Whether a header of CCCL (libcu++, CUB, Thrust) is included, or a toolkit header that
    /// includes CCCL.
    #[must_use]
    pub fn includes_cccl(&self) -> bool {
        const STARTS: [&str; 4] = ["cuda/", "cub/", "thrust/", "cooperative_groups"];
        let from_cccl = |name: &String| STARTS.iter().any(|start| name.starts_with(start));
        self.toolkit.iter().any(from_cccl)
    }
}

/// The scan does not follow a path with more components than this.
const LONGEST_PATH: usize = 100;

/// Scans the sources of one build; a header that several sources include is read once.
#[derive(Default)]
pub(crate) struct Scanner {
    mentions: HashMap<PathBuf, Rc<Vec<Mention>>>,
}

/// Scans one source for NVRTC.
#[must_use]
pub fn scan_file(source: &Path, directories: &[PathBuf], toolkit: &[PathBuf]) -> Scan {
    let search = SearchPath {
        working: PathBuf::new(),
        directories: directories.to_vec(),
        toolkit: toolkit.to_vec(),
    };
    let (mut files, mut scanner) = (Files::default(), Scanner::default());
    let names = crate::nvrtc::shims::names();
    scanner.scan(&mut files, [source.to_owned()], &[], names, &search)
}

/// A scan in progress.
struct Running<'s> {
    files: &'s mut Files,
    search: &'s SearchPath,
    scan: Scan,
    /// Names that an `#include` of a macro may refer to.
    other_names: Rc<[String]>,
    known: BTreeSet<PathBuf>,
    queue: VecDeque<PathBuf>,
}

impl Scanner {
    /// Scans `sources` (a source, and the user's files in its depfile) and the files that they
    /// include. `headers` are included before the first line, like those of `--pre-include`.
    /// `other_names` are also looked up: an `#include` of a macro, or a file that is not scanned,
    /// may refer to them.
    pub(crate) fn scan<'n>(
        &mut self,
        files: &mut Files,
        sources: impl IntoIterator<Item = PathBuf>,
        headers: &[String],
        other_names: impl IntoIterator<Item = &'n str>,
        search: &SearchPath,
    ) -> Scan {
        let mut running = Running {
            files,
            search,
            scan: Scan::default(),
            other_names: other_names.into_iter().map(str::to_owned).collect(),
            known: BTreeSet::new(),
            queue: VecDeque::new(),
        };
        running
            .scan
            .searched
            .extend(search.directories.iter().cloned());
        running.queue.extend(sources);
        let sources: BTreeSet<PathBuf> = running.queue.iter().cloned().collect();
        running.known.extend(sources.iter().cloned());
        for header in headers {
            let sources = sources.iter().filter_map(|source| source.parent());
            for directory in sources.chain([search.working.as_path()]) {
                running.check_path(header, directory);
            }
            running.look_up(header, None);
            if !running.scan.own.contains(header) && !running.scan.toolkit.contains(header) {
                running.scan.computed_include = Some(PathBuf::from(header));
            }
        }
        for name in Rc::clone(&running.other_names).iter() {
            running.look_up_in_user_directories(name);
        }
        while let Some(file) = running.queue.pop_front() {
            let mentions = match self.mentions.get(&file) {
                Some(mentions) => Rc::clone(mentions),
                None => {
                    let bytes = running.files.bytes(&file).unwrap_or_default();
                    let mentions = Rc::new(lex::mentions(&String::from_utf8_lossy(&bytes)));
                    self.mentions.insert(file.clone(), Rc::clone(&mentions));
                    mentions
                }
            };
            if let Some(beside) = file.parent() {
                running.scan.searched.insert(beside.to_owned());
            }
            for mention in mentions.iter() {
                running.follow(&file, mention);
            }
        }
        running.scan.files = running.known.difference(&sources).cloned().collect();
        running.scan
    }
}

impl Running<'_> {
    fn follow(&mut self, file: &Path, mention: &Mention) {
        match mention {
            Mention::Quoted(name) => self.look_up(name, file.parent()),
            Mention::Angled(name) => self.look_up(name, None),
            Mention::ComputedInclude => {
                // The macro may expand to `"…"`, for which this directory is searched first.
                for name in Rc::clone(&self.other_names).iter() {
                    file.parent()
                        .into_iter()
                        .for_each(|beside| self.check_path(name, beside));
                }
                self.scan
                    .computed_include
                    .get_or_insert_with(|| file.to_owned());
            }
            Mention::ComputedQuery => {
                self.scan
                    .computed_query
                    .get_or_insert_with(|| file.to_owned());
            }
        }
    }

    /// Looks for `name` in all of the user's directories, even after a match, then in the toolkit's.
    fn look_up(&mut self, name: &str, beside: Option<&Path>) {
        if let Some(beside) = beside {
            self.check_path(name, beside);
        }
        self.look_up_in_user_directories(name);
        let search = self.search;
        let in_toolkit = search.toolkit.iter().map(|directory| directory.join(name));
        for path in in_toolkit {
            if self.files.is_file(&path) {
                self.scan.toolkit.insert(name.to_owned());
                self.scan.toolkit_files.insert(path);
                return;
            }
        }
    }

    fn look_up_in_user_directories(&mut self, name: &str) {
        let search = self.search;
        for directory in &search.directories {
            self.check_path(name, directory);
        }
    }

    fn check_path(&mut self, name: &str, directory: &Path) {
        let path = self.files.normal(&directory.join(name));
        // A header that includes itself as `link/../link/a.h` would never end.
        if path.components().count() > LONGEST_PATH {
            self.scan
                .computed_include
                .get_or_insert_with(|| directory.to_owned());
            return;
        }
        if self
            .search
            .toolkit
            .iter()
            .any(|toolkit| path.starts_with(toolkit))
        {
            if self.files.is_file(&path) {
                self.scan.toolkit.insert(name.to_owned());
                self.scan.toolkit_files.insert(path);
            }
        } else if self.files.exists(&path) {
            if self.files.is_file(&path) {
                self.scan.own.insert(name.to_owned());
                if self.known.insert(path.clone()) {
                    self.queue.push_back(path);
                }
            }
        } else {
            let absent = self.first_absent(directory, path);
            self.scan.absent.insert(absent);
        }
    }

    /// The shortest start of `path` that does not exist: `inc/cuda` stands for all names below it.
    fn first_absent(&mut self, directory: &Path, path: PathBuf) -> PathBuf {
        let mut absent = path;
        while let Some(parent) = absent.parent() {
            if parent == directory || !parent.starts_with(directory) || self.files.exists(parent) {
                break;
            }
            absent = parent.to_owned();
        }
        absent
    }
}

/// Adds to `scan` the paths below `directory` at which a file hides a toolkit header of the same
/// name: existing files to `files`, other paths to `absent`. A toolkit directory that `directory`
/// lacks is one absent path.
pub(crate) fn hidden_by(files: &mut Files, directory: &Path, toolkit: &Path, scan: &mut Scan) {
    for name in files.names(toolkit).iter() {
        let (own, theirs) = (directory.join(name), toolkit.join(name));
        if !files.exists(&own) {
            scan.absent.insert(own);
        } else if files.is_file(&own) {
            scan.files.insert(own);
        } else if !files.is_file(&theirs) {
            hidden_by(files, &own, &theirs, scan);
        }
    }
}

#[cfg(test)]
mod tests;
