//! Decides whether an output below `OUT_DIR` has to be made again.
//!
//! The rule: an output is up to date if the same command would read the same bytes. So the key of
//! a step has everything except files (arguments, variables, the toolkit's identity), and a
//! record of the last successful run has every path that the tool looked at: files that it read,
//! with a digest of their content, and paths at which it found nothing. If some of these paths are
//! unknown, nothing is recorded, and the step runs whenever the build script runs.
//!
//! Contents are read only if size, inode or a time of a file changed. A file that changed while
//! the tool ran is not recorded, because the tool may have read either content.

mod file;
mod record;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::hash::Fnv;
use crate::list::sorted_set;

use file::Changed;
pub(crate) use file::Files;
use record::{Input, Output, Records};

/// How often records are written while steps run. A killed build loses only the work since then.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// What a tool looked at while it made an output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// The inputs of the step. Headers are in separate sets, because several steps share them.
    pub(crate) sources: BTreeSet<PathBuf>,
    /// Headers of the user.
    pub(crate) own: BTreeSet<PathBuf>,
    /// Headers of the toolkit and of the system.
    pub(crate) system: BTreeSet<PathBuf>,
    /// Paths that do not exist. A new file at such a path would be read instead of another file.
    pub(crate) absent: BTreeSet<PathBuf>,
    /// The user's directories that were searched.
    pub(crate) searched: BTreeSet<PathBuf>,
    /// Why these sets may be incomplete; `None` if they are complete.
    pub(crate) incomplete: Option<String>,
}

/// A tool that is about to run.
pub(crate) struct RunStart {
    at: i64,
    known: HashMap<PathBuf, u64>,
}

/// The records of one `OUT_DIR`.
pub(crate) struct Freshness {
    path: PathBuf,
    pub(crate) files: Files,
    records: Records,
    /// Whether each recorded input and each list of inputs is unchanged, as far as checked.
    unchanged: HashMap<u32, bool>,
    unchanged_lists: HashMap<u32, bool>,
    used: HashSet<OsString>,
    unsaved: bool,
    saved: Instant,
}

impl Freshness {
    /// Reads the records below `out`.
    pub(crate) fn load(out: &Path) -> Self {
        let path = out.join("cuda-build.stamps");
        let mut files = Files::default();
        let records = files.bytes(&path).and_then(|bytes| Records::parse(&bytes));
        files.forget(&path);
        Self {
            path,
            files,
            records: records.unwrap_or_default(),
            unchanged: HashMap::new(),
            unchanged_lists: HashMap::new(),
            used: HashSet::new(),
            unsaved: false,
            saved: Instant::now(),
        }
    }

    /// The digest of a step's key.
    pub(crate) fn key(lines: &[String]) -> u64 {
        let mut digest = Fnv::default();
        lines.iter().for_each(|line| digest.field(line.as_bytes()));
        digest.value()
    }

    /// Whether the step with this key would make the same `output` again.
    pub(crate) fn is_fresh(&mut self, output: &Path, key: u64) -> bool {
        self.used.insert(output.as_os_str().to_owned());
        let Some(recorded) = self.records.outputs.get(output.as_os_str()).cloned() else {
            return false;
        };
        recorded.key == key
            && recorded
                .lists
                .iter()
                .all(|list| self.is_list_unchanged(*list))
            && self.is_output_unchanged(output, &recorded)
    }

    fn is_output_unchanged(&mut self, output: &Path, recorded: &Output) -> bool {
        if !self.files.is_still(output, recorded.state) {
            return false;
        }
        if let Some(now) = self.files.renewed(output, recorded.state) {
            self.unsaved = true;
            if let Some(output) = self.records.outputs.get_mut(output.as_os_str()) {
                output.state = now;
            }
        }
        true
    }

    fn is_list_unchanged(&mut self, list: u32) -> bool {
        if let Some(known) = self.unchanged_lists.get(&list) {
            return *known;
        }
        let inputs = self.records.lists.get(list as usize).cloned();
        let unchanged = inputs.is_some_and(|ids| ids.iter().all(|id| self.is_input_unchanged(*id)));
        self.unchanged_lists.insert(list, unchanged);
        unchanged
    }

    fn is_input_unchanged(&mut self, id: u32) -> bool {
        if let Some(known) = self.unchanged.get(&id) {
            return *known;
        }
        let unchanged = match self.records.inputs.get(id as usize) {
            None => false,
            Some(Input::Searched(_)) => true,
            Some(Input::Looked(path, recorded)) => {
                let (path, recorded) = (path.clone(), *recorded);
                let unchanged = self.files.is_still(&path, recorded);
                // If only the times differ, record the new ones, so that the content is not read again.
                if unchanged && let Some(now) = self.files.renewed(&path, recorded) {
                    self.records.inputs[id as usize] = Input::Looked(path, now);
                    self.unsaved = true;
                }
                unchanged
            }
        };
        self.unchanged.insert(id, unchanged);
        unchanged
    }

    /// Must be called before a tool runs, with the files that the tool is known to read.
    pub(crate) fn start<'p>(&mut self, known: impl IntoIterator<Item = &'p Path>) -> RunStart {
        let known = known.into_iter().filter_map(|path| {
            self.files.refresh(path);
            Some((path.to_owned(), self.files.digest(path)?))
        });
        let known = known.collect();
        RunStart {
            at: file::now(),
            known,
        }
    }

    /// Records that a tool made `output` and what it looked at. Returns the reason if this
    /// cannot be recorded; then the step runs again whenever the build script runs.
    ///
    /// # Errors
    /// [`Error::Io`] if the records cannot be written.
    pub(crate) fn record(
        &mut self,
        output: &Path,
        key: u64,
        started: &RunStart,
        reads: &Reads,
    ) -> Result<Option<String>, Error> {
        self.files.forget(output);
        self.records.outputs.remove(output.as_os_str());
        self.unsaved = true;
        let reason = match &reads.incomplete {
            Some(reason) => Some(reason.clone()),
            None => self.record_complete(output, key, started, reads),
        };
        if self.saved.elapsed() > SAVE_INTERVAL {
            self.save()?;
        }
        Ok(reason)
    }

    fn record_complete(
        &mut self,
        output: &Path,
        key: u64,
        started: &RunStart,
        reads: &Reads,
    ) -> Option<String> {
        let mut lists = Vec::new();
        for paths in [&reads.sources, &reads.own, &reads.system, &reads.absent] {
            let expect_absent = std::ptr::eq(paths, &reads.absent);
            let mut ids = Vec::with_capacity(paths.len());
            for path in paths {
                self.files.refresh(path);
                let Some(state) = self.files.state(path) else {
                    return Some(format!("{} cannot be read", path.display()));
                };
                let is_absent = state == record::State::Absent;
                let same = match self.files.changed(path, started.at) {
                    Changed::Before => true,
                    Changed::Around => match started.known.get(path) {
                        Some(digest) => self.files.digest(path) == Some(*digest),
                        None => false,
                    },
                    Changed::After => false,
                };
                if is_absent && !expect_absent {
                    return Some(format!("{} was read, but no longer exists", path.display()));
                }
                if !same && state != record::State::NotAFile {
                    return Some(format!("{} changed while it was compiled", path.display()));
                }
                ids.push(self.records.input(Input::Looked(path.clone(), state)));
            }
            lists.push(self.records.list(ids));
        }
        let searched = reads
            .searched
            .iter()
            .map(|path| Input::Searched(path.clone()));
        let ids = searched.map(|input| self.records.input(input)).collect();
        lists.push(self.records.list(ids));
        let Some(state @ record::State::File { .. }) = self.files.state(output) else {
            return Some(format!("{} cannot be read", output.display()));
        };
        self.records
            .outputs
            .insert(output.into(), Output { key, state, lists });
        None
    }

    /// The recorded files that were read and directories that were searched for `outputs`.
    pub(crate) fn recorded(&self, outputs: &[PathBuf]) -> BTreeSet<PathBuf> {
        let outputs = outputs
            .iter()
            .filter_map(|output| self.records.outputs.get(output.as_os_str()));
        let lists = sorted_set(outputs.flat_map(|output| output.lists.iter().copied()));
        let lists = lists
            .iter()
            .filter_map(|list| self.records.lists.get(*list as usize));
        let ids = sorted_set(lists.flatten().copied());
        let inputs = ids
            .iter()
            .filter_map(|id| self.records.inputs.get(*id as usize));
        let paths = inputs.filter_map(|input| match input {
            Input::Searched(path) | Input::Looked(path, record::State::File { .. }) => {
                Some(path.clone())
            }
            Input::Looked(..) => None,
        });
        paths.collect()
    }

    /// Writes the records.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn save(&mut self) -> Result<(), Error> {
        if self.unsaved {
            crate::output::write(&self.path, &self.records.to_bytes())?;
            self.unsaved = false;
        }
        self.saved = Instant::now();
        Ok(())
    }

    /// Forgets outputs that no step of this run makes, and writes the records.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        let before = self.records.outputs.len();
        let used = &self.used;
        self.records
            .outputs
            .retain(|output, _| used.contains(output));
        self.unsaved |= self.records.outputs.len() != before;
        self.save()
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
