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
//! NVRTC does not search the working directory if the source's path has a directory part. The scan looks there only
//! for headers that options name.

pub(crate) mod options;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::freshness::Files;
use crate::lex::{self, Mention};
use cuda_find_core::list::Set;

/// Where a compiler looks for headers.
#[derive(Clone, Debug, Default)]
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
pub(crate) struct Scan {
    /// The user's headers, without the scanned sources.
    pub(crate) files: Set<PathBuf>,
    /// The toolkit's headers that the user's files include.
    pub(crate) toolkit_files: Set<PathBuf>,
    /// Paths that were looked up and do not exist.
    pub(crate) absent: Set<PathBuf>,
    /// The user's directories that are searched.
    pub(crate) searched: Set<PathBuf>,
    /// The names of the user's headers, as an `#include` spells them. A shim (this crate's own header for
    /// NVRTC) must not replace a header of the user.
    pub(crate) user_names: Set<String>,
    /// The names of the toolkit's headers, as an `#include` spells them.
    pub(crate) toolkit_names: Set<String>,
    /// Why included files may be missing from this scan: a file with `#include MACRO`, a header of an option
    /// that was not found, or a directory in which a path is too long to follow.
    pub(crate) unknown_include: Option<String>,
    /// Why files that no depfile lists may be missing from this scan: a file with `__has_include(MACRO)` or `.incbin`.
    pub(crate) unknown_query: Option<String>,
}

impl Scan {
    /// Whether the user's files include a CCCL header (libcu++, CUB, Thrust), of the toolkit or of the user, or a
    /// toolkit header that includes CCCL (`cooperative_groups`).
    pub(crate) fn includes_cccl(&self) -> bool {
        const STARTS: [&str; 4] = ["cuda/", "cub/", "thrust/", "cooperative_groups"];
        let from_cccl = |name: &String| STARTS.iter().any(|start| name.starts_with(start));
        // A directory `cuda` of the user can contain any header, but every header of CCCL includes one in `cuda/std`.
        let is_libcuxx = |file: &PathBuf| file.to_string_lossy().contains("/cuda/std/");
        self.toolkit_names.iter().any(from_cccl) || self.files.iter().any(is_libcuxx)
    }
}

/// The scan does not follow a path with more components than this.
const LONGEST_PATH: usize = 100;

/// Scans the sources of one build. A header that several sources include is read only once.
#[derive(Default)]
pub(crate) struct Scanner {
    mentions: HashMap<PathBuf, Vec<Mention>>,
}

/// A scan in progress.
struct RunningScan<'s> {
    files: &'s mut Files,
    search: &'s SearchPath,
    scan: Scan,
    /// Names that a source may include without spelling them: [`Scanner::scan`].
    unspelled_names: Rc<[String]>,
    /// The files to scan, in this order, and the same files as a set.
    queue: Vec<PathBuf>,
    queued: Set<PathBuf>,
}

impl Scanner {
    /// Scans `sources` (a source, and the user's files in its depfile) and the files that they
    /// include. `headers` are the headers that options such as `--pre-include` include before the first
    /// line. `unspelled_names` are names of headers that may be included although no scanned file spells them,
    /// by an `#include` of a macro or by a file that is not scanned. The scan looks them up, too.
    pub(crate) fn scan<'n>(
        &mut self,
        files: &mut Files,
        sources: impl IntoIterator<Item = PathBuf>,
        headers: &[String],
        unspelled_names: impl IntoIterator<Item = &'n str>,
        search: &SearchPath,
    ) -> Scan {
        let queue: Vec<PathBuf> = sources.into_iter().collect();
        let sources: Set<PathBuf> = queue.iter().cloned().collect();
        let mut running = RunningScan {
            files,
            search,
            scan: Scan::default(),
            unspelled_names: unspelled_names.into_iter().map(str::to_owned).collect(),
            queue,
            queued: sources.clone(),
        };
        running.scan.searched = search.directories.iter().cloned().collect();
        for header in headers {
            let beside_sources = sources.iter().filter_map(|source| source.parent());
            for directory in beside_sources.chain([search.working.as_path()]) {
                running.check_path(header, directory);
            }
            running.look_up(header, None);
            let names = [&running.scan.user_names, &running.scan.toolkit_names];
            if !names.iter().any(|names| names.contains(header)) {
                let reason = format!("the header `{header}` of an option was not found");
                running.scan.unknown_include = Some(reason);
            }
        }
        for name in Rc::clone(&running.unspelled_names).iter() {
            running.look_up_in_user_directories(name);
        }
        let mut next = 0;
        while let Some(file) = running.queue.get(next).cloned() {
            next += 1;
            let mentions = self.mentions.entry(file.clone()).or_insert_with(|| {
                let bytes = running.files.bytes(&file).unwrap_or_default();
                lex::mentions(&String::from_utf8_lossy(&bytes))
            });
            let directory = file.parent().map(Path::to_owned);
            running.scan.searched.extend(directory);
            for mention in mentions.iter() {
                running.follow(&file, mention);
            }
        }
        running.scan.files = running.queued;
        running.scan.files.retain(|file| !sources.contains(file));
        running.scan
    }
}

impl RunningScan<'_> {
    fn follow(&mut self, file: &Path, mention: &Mention) {
        match mention {
            Mention::Quoted(name) => self.look_up(name, file.parent()),
            Mention::Angled(name) => self.look_up(name, None),
            Mention::ComputedInclude => {
                // The macro may expand to `"name"`. A quoted name is searched first in the directory of the
                // including file.
                let beside = file.parent().unwrap_or(file);
                for name in Rc::clone(&self.unspelled_names).iter() {
                    self.check_path(name, beside);
                }
                (self.scan.unknown_include).get_or_insert_with(|| named_by_macro(file));
            }
            Mention::ComputedQuery => {
                (self.scan.unknown_query).get_or_insert_with(|| named_by_macro(file));
            }
            Mention::Assembly => {
                let reason = || format!("{} makes the assembler read a file", file.display());
                self.scan.unknown_query.get_or_insert_with(reason);
            }
        }
    }

    /// Looks up `name` in `beside` (the directory of the including file, for a quoted name) and in all of the
    /// user's directories, even after a match, then in the toolkit's directories until the first match.
    fn look_up(&mut self, name: &str, beside: Option<&Path>) {
        if Path::new(name).is_absolute() {
            return self.check_path(name, Path::new(""));
        }
        if let Some(beside) = beside {
            self.check_path(name, beside);
        }
        self.look_up_in_user_directories(name);
        let mut in_toolkit = (self.search.toolkit.iter()).map(|directory| directory.join(name));
        if let Some(path) = in_toolkit.find(|path| self.files.is_file(path)) {
            self.scan.toolkit_names.insert(name.to_owned());
            self.scan.toolkit_files.insert(path);
        }
    }

    fn look_up_in_user_directories(&mut self, name: &str) {
        for directory in &self.search.directories {
            self.check_path(name, directory);
        }
    }

    fn check_path(&mut self, name: &str, directory: &Path) {
        let path = self.files.without_dots(&directory.join(name));
        // If `link` is a symbolic link, `link/..` is kept in paths. A header that includes itself as
        // `link/../link/a.h` would then give a longer path each time, without end.
        if path.components().count() > LONGEST_PATH {
            let directory = directory.display();
            let reason = || format!("the path of a header in {directory} is too long");
            self.scan.unknown_include.get_or_insert_with(reason);
            return;
        }
        let is_file = self.files.is_file(&path);
        let mut toolkit = self.search.toolkit.iter();
        if toolkit.any(|toolkit| path.starts_with(toolkit)) {
            if is_file {
                self.scan.toolkit_names.insert(name.to_owned());
                self.scan.toolkit_files.insert(path);
            }
        } else if is_file {
            self.scan.user_names.insert(name.to_owned());
            if self.queued.insert(path.clone()) {
                self.queue.push(path);
            }
        } else {
            let absent = self.first_absent(&path);
            self.scan.absent.insert(absent);
        }
    }

    /// The shortest prefix of `path` that does not exist. If `inc/cuda` does not exist, this one path is recorded
    /// for all headers below it.
    fn first_absent(&mut self, path: &Path) -> PathBuf {
        let directories = path.ancestors().skip(1);
        let directories = directories.take_while(|directory| *directory != Path::new(""));
        let absent = directories.take_while(|directory| !self.files.exists(directory));
        absent.last().unwrap_or(path).to_owned()
    }
}

fn named_by_macro(file: &Path) -> String {
    format!("{} takes the name of a header from a macro", file.display())
}

/// Adds to `scan` the paths below `directory` that shadow a toolkit header of the same name, or would if they
/// existed. Existing files are added to `scan.files`, other paths to `scan.absent`. If a subdirectory of the toolkit
/// does not exist in `directory`, only the path of the subdirectory is added.
pub(crate) fn add_hiding_paths(
    files: &mut Files,
    directory: &Path,
    toolkit: &Path,
    scan: &mut Scan,
) {
    if !files.exists(directory) {
        scan.absent.insert(directory.to_owned());
        return;
    }
    for name in files.names(toolkit).iter() {
        let (own, theirs) = (directory.join(name), toolkit.join(name));
        if files.is_file(&own) {
            scan.files.insert(own);
        } else if files.is_file(&theirs) {
            scan.absent.insert(own);
        } else {
            add_hiding_paths(files, &own, &theirs, scan);
        }
    }
}

#[cfg(test)]
mod tests;
