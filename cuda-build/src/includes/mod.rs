//! Scans a source for the files that a compiler may read.
//!
//! NVRTC does not list the files that it reads, and nvcc does not list the paths at which it found
//! nothing. The scan therefore finds at least the files that a compiler reads. For each `#include` and `__has_include`,
//! whatever `#if` it stands under, the scan looks up the name in every directory that is searched. It
//! records the files that exist and the paths that do not exist.
//!
//! The scan searches the same directories as compilers (measured with NVRTC 11.8, 12.9 and 13.5, nvcc
//! and gcc):
//!
//! - for `#include "…"`, the directory of the including file, then the directories that the options name;
//! - for `#include <…>`, only the directories that the options name;
//! - for an absolute name, none.
//!
//! NVRTC does not search the working directory if the source's name has a directory.

mod lex;
pub(crate) mod options;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::freshness::Files;
use crate::list::Set;

use lex::Mention;

/// Where a compiler looks for headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SearchPath {
    /// The directory that the compiler runs in. A header that an option such as `--pre-include` names is also
    /// looked up there.
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
    /// The user's headers, without the scanned sources.
    pub files: Set<PathBuf>,
    /// The toolkit's headers that the user's files include.
    pub toolkit_files: Set<PathBuf>,
    /// Paths that were looked up and do not exist.
    pub absent: Set<PathBuf>,
    /// The user's directories that are searched.
    pub searched: Set<PathBuf>,
    /// The names of the user's headers, as an `#include` spells them. A shim (this crate's own header for
    /// NVRTC) must not replace a header of the user.
    pub own: Set<String>,
    /// The names of the toolkit's headers, as an `#include` spells them.
    pub toolkit: Set<String>,
    /// Why included files may be missing from this scan: a file with `#include MACRO`, a header of an option
    /// that was not found, or a directory in which a path is too long to follow.
    pub unknown_include: Option<String>,
    /// Why files that were only looked up may be missing from this scan: a file with `__has_include(MACRO)`.
    pub unknown_query: Option<String>,
}

impl Scan {
    /// Whether the user's files include a CCCL header (libcu++, CUB, Thrust), of the toolkit or of the user, or a
    /// toolkit header that includes CCCL (`cooperative_groups`).
    #[must_use]
    pub fn includes_cccl(&self) -> bool {
        const STARTS: [&str; 4] = ["cuda/", "cub/", "thrust/", "cooperative_groups"];
        let from_cccl = |name: &String| STARTS.iter().any(|start| name.starts_with(start));
        // A directory `cuda` of the user can contain any header, but every header of CCCL includes one in `cuda/std`.
        let is_libcuxx = |file: &PathBuf| file.to_string_lossy().contains("/cuda/std/");
        self.toolkit.iter().any(from_cccl) || self.files.iter().any(is_libcuxx)
    }
}

/// The scan does not follow a path with more components than this.
const LONGEST_PATH: usize = 100;

/// Scans the sources of one build. A header that several sources include is read only once.
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
    /// Names that a source may include without spelling them: [`Scanner::scan`].
    other_names: Rc<[String]>,
    known: Set<PathBuf>,
    /// The files to scan, in this order.
    queue: Vec<PathBuf>,
}

impl Scanner {
    /// Scans `sources` (a source, and the user's files in its depfile) and the files that they
    /// include. `headers` are the headers that options such as `--pre-include` include before the first
    /// line. `other_names` are names of headers that may be included although no scanned file spells them,
    /// by an `#include` of a macro or by a file that is not scanned. The scan looks them up, too.
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
            known: Set::default(),
            queue: Vec::new(),
        };
        running
            .scan
            .searched
            .extend(search.directories.iter().cloned());
        running.queue.extend(sources);
        let sources: Set<PathBuf> = running.queue.iter().cloned().collect();
        running.known.extend(sources.iter().cloned());
        for header in headers {
            let sources = sources.iter().filter_map(|source| source.parent());
            for directory in sources.chain([search.working.as_path()]) {
                running.check_path(header, directory);
            }
            running.look_up(header, None);
            if !running.scan.own.contains(header) && !running.scan.toolkit.contains(header) {
                let reason = format!("the header `{header}` of an option was not found");
                running.scan.unknown_include = Some(reason);
            }
        }
        for name in Rc::clone(&running.other_names).iter() {
            running.look_up_in_user_directories(name);
        }
        let mut next = 0;
        while let Some(file) = running.queue.get(next).cloned() {
            next += 1;
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
        running.scan.files = running.known;
        running.scan.files.remove_all(&sources);
        running.scan
    }
}

impl Running<'_> {
    fn follow(&mut self, file: &Path, mention: &Mention) {
        match mention {
            Mention::Quoted(name) => self.look_up(name, file.parent()),
            Mention::Angled(name) => self.look_up(name, None),
            Mention::ComputedInclude => {
                // The macro may expand to `"name"`. A quoted name is searched first in the directory of the
                // including file.
                for name in Rc::clone(&self.other_names).iter() {
                    file.parent()
                        .into_iter()
                        .for_each(|beside| self.check_path(name, beside));
                }
                let reason = || named_by_macro(file);
                self.scan.unknown_include.get_or_insert_with(reason);
            }
            Mention::ComputedQuery => {
                let reason = || named_by_macro(file);
                self.scan.unknown_query.get_or_insert_with(reason);
            }
        }
    }

    /// Looks up `name` in `beside` (the directory of the including file, for a quoted name) and in all of the
    /// user's directories, even after a match, then in the toolkit's directories until the first match.
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
        // If `link` is a symbolic link, `link/..` is kept in paths. A header that includes itself as
        // `link/../link/a.h` would then give a longer path each time, without end.
        if path.components().count() > LONGEST_PATH {
            let reason = || {
                format!(
                    "the path of a header in {} is too long",
                    directory.display()
                )
            };
            self.scan.unknown_include.get_or_insert_with(reason);
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
                    self.queue.push(path);
                }
            }
        } else {
            let absent = self.first_absent(directory, path);
            self.scan.absent.insert(absent);
        }
    }

    /// The shortest prefix of `path` below `directory` that does not exist. If `inc/cuda` does not exist, this
    /// one path is recorded for all headers below it.
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

fn named_by_macro(file: &Path) -> String {
    format!("{} takes the name of a header from a macro", file.display())
}

/// Adds to `scan` the paths below `directory` at which a file hides, or would hide, the toolkit header of the
/// same name. Existing files are added to `files`, other paths to `absent`. If a whole subdirectory of the
/// toolkit does not exist in `directory`, only the path of the subdirectory is added.
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
