//! Which files a compiler may read for a source, found by reading the source.
//!
//! NVRTC lists nothing of what it reads, and nvcc nothing of what it looked for in vain. The scan
//! therefore finds at least what a compiler reads: for each `#include` and `__has_include`,
//! whatever `#if` it stands under, every file of that name in every directory that is searched,
//! and every such path at which there is no file. It follows compilers in where they look
//! (measured with NVRTC 11.8, 12.9 and 13.5, nvcc and gcc): `#include "…"` in the directory of the
//! file that it stands in, then in the directories that the options name; `#include <…>` in the
//! latter alone; an absolute name nowhere else. NVRTC does not search the working directory if
//! the source's name has a directory.

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
    /// The toolkit's directories. Their headers are not read further: the toolkit's identity
    /// stands for what they include.
    pub(crate) toolkit: Vec<PathBuf>,
}

/// What a source includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The user's headers; the source itself is not among them.
    pub files: BTreeSet<PathBuf>,
    /// The toolkit's headers that the user's files name.
    pub toolkit_files: BTreeSet<PathBuf>,
    /// Paths that were looked up and do not exist.
    pub absent: BTreeSet<PathBuf>,
    /// The user's directories that are searched.
    pub searched: BTreeSet<PathBuf>,
    /// The names of headers that the user has: no shim may replace one.
    pub own: BTreeSet<String>,
    /// The names of headers that the toolkit has.
    pub toolkit: BTreeSet<String>,
    /// A file with `#include MACRO`: it may include files that are not listed.
    pub computed_include: Option<PathBuf>,
    /// A file with `__has_include(MACRO)`.
    pub computed_query: Option<PathBuf>,
}

impl Scan {
    /// Whether a header of CCCL is included (libcu++, CUB, Thrust), or one of the toolkit's
    /// that includes it.
    #[must_use]
    pub fn includes_cccl(&self) -> bool {
        const STARTS: [&str; 4] = ["cuda/", "cub/", "thrust/", "cooperative_groups"];
        let from_cccl = |name: &String| STARTS.iter().any(|start| name.starts_with(start));
        self.toolkit.iter().any(from_cccl)
    }
}

/// As many parts as a path may have before a scan gives it up.
const LONGEST_PATH: usize = 100;

/// Scans sources of one build; a header of several sources is read once.
#[derive(Default)]
pub(crate) struct Scanner {
    mentions: HashMap<PathBuf, Rc<Vec<Mention>>>,
}

/// Scans one source as NVRTC gets it.
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

/// One scan under way.
struct Running<'s> {
    files: &'s mut Files,
    search: &'s SearchPath,
    scan: Scan,
    /// Names that a header from a macro may have.
    other_names: Rc<[String]>,
    known: BTreeSet<PathBuf>,
    queue: VecDeque<PathBuf>,
}

impl Scanner {
    /// Scans `sources` (a source, and whatever else a depfile names of the user's) with what they
    /// include. `headers` are included before the first line, as `--pre-include` does;
    /// `other_names` are names that headers from macros, and files that are not scanned, may
    /// include: they are looked up, too.
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
                running.candidate(header, directory);
            }
            running.look_up(header, None);
            if !running.scan.own.contains(header) && !running.scan.toolkit.contains(header) {
                running.scan.computed_include = Some(PathBuf::from(header));
            }
        }
        for name in Rc::clone(&running.other_names).iter() {
            running.look_up_in_own(name);
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
                // The macro may hold `"…"`, for which this directory is searched first.
                for name in Rc::clone(&self.other_names).iter() {
                    file.parent()
                        .into_iter()
                        .for_each(|beside| self.candidate(name, beside));
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

    /// Looks for `name` wherever a compiler may, not only as far as the first file.
    fn look_up(&mut self, name: &str, beside: Option<&Path>) {
        if let Some(beside) = beside {
            self.candidate(name, beside);
        }
        self.look_up_in_own(name);
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

    fn look_up_in_own(&mut self, name: &str) {
        let search = self.search;
        for directory in &search.directories {
            self.candidate(name, directory);
        }
    }

    fn candidate(&mut self, name: &str, directory: &Path) {
        let path = self.files.normal(&directory.join(name));
        // `link/../link/a.h` that includes itself would never end.
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

    /// The part of `path` from which on nothing exists: `inc/cuda` stands for all names below it.
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

/// The names below the toolkit's directories that a file in `directory` would hide from the
/// toolkit's own headers, and which of them do. A directory of the toolkit counts as a whole as
/// long as `directory` has none of that name.
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
