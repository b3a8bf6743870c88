//! Decides whether an output below `OUT_DIR` has to be made again.
//!
//! The rule: an output is up to date if the same command would read the same bytes. Two things are compared:
//!
//! - The key of a step covers everything except files: arguments, variables, and the toolkit's identity.
//! - The record of the last successful run contains every path that the tool looked at: each file that it
//!   read, with a digest of the content, and each path at which it found nothing.
//!
//! If the tool may have looked at other paths, nothing is recorded, and the step runs whenever the build
//! script runs. The same applies if a file changed while the tool ran, because the tool may have read either
//! content. Contents are read again only if size, inode or a time of a file changed.

mod file;
mod record;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::hash::Fnv;
use crate::list::{Set, sorted_set};

use file::Changed;
pub(crate) use file::Files;
use record::{Input, Output, Records};

/// The interval at which records are written while steps run. If a build is killed, the next build repeats
/// only the steps since the last write.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// What a tool looked at while it made an output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// The inputs of the step, without the headers that they include. Headers have their own sets, because
    /// several steps read the same headers.
    pub(crate) sources: Set<PathBuf>,
    /// Headers of the user.
    pub(crate) own: Set<PathBuf>,
    /// Headers of the toolkit and of the system.
    pub(crate) system: Set<PathBuf>,
    /// Paths that the tool looked for and that do not exist. If a file appeared at such a path, the tool
    /// would read it instead of another file.
    pub(crate) absent: Set<PathBuf>,
    /// Directories of the user in which the tool looked for headers.
    pub(crate) searched: Set<PathBuf>,
    /// Why these sets may be incomplete; `None` if they are complete.
    pub(crate) incomplete: Option<String>,
}

/// Every path that a run of a tool looked at, with the state of each path at that time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    lists: Vec<Vec<Input>>,
}

impl Evidence {
    /// The text that [`Evidence::parse`] reads. `made` describes what the run made, and `digest` is the digest of
    /// what it made.
    pub(crate) fn to_bytes(&self, key: u64, made: &str, digest: u64) -> Vec<u8> {
        let mut records = Records::default();
        let mut lists = Vec::new();
        for list in &self.lists {
            let ids = list.iter().map(|input| records.input(input.clone()));
            let ids = ids.collect();
            lists.push(records.list(ids));
        }
        let state = record::State::File { digest, stat: None };
        let used = true;
        let output = Output {
            key,
            state,
            lists,
            used,
        };
        records.outputs.insert(made.into(), output);
        records.to_bytes()
    }

    /// The evidence, `made` and `digest` from a text of [`Evidence::to_bytes`]. `None` if the text is invalid or
    /// has another key.
    pub(crate) fn parse(text: &[u8], key: u64) -> Option<(Self, String, u64)> {
        let records = Records::parse(text)?;
        let (made, output) = records.outputs.iter().next()?;
        let record::State::File { digest, stat: None } = output.state else {
            return None;
        };
        if output.key != key {
            return None;
        }
        let mut evidence = Self::default();
        for list in &output.lists {
            let ids = records.lists.get(*list as usize)?;
            let inputs = ids
                .iter()
                .map(|id| records.inputs.get(*id as usize).cloned());
            evidence.lists.push(inputs.collect::<Option<_>>()?);
        }
        Some((evidence, made.to_str()?.to_owned(), digest))
    }

    /// The files that were read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let inputs = self.lists.iter().flatten();
        inputs.filter_map(|input| match input {
            Input::Looked(path, record::State::File { .. }) => Some(path.as_path()),
            _ => None,
        })
    }
}

/// Why an output has to be made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// There is no record of the output.
    NoRecord,
    /// The toolkit, an option or a variable is different.
    Command,
    /// The file at this path changed, appeared or disappeared.
    Input(PathBuf),
    /// The output is missing or was changed.
    Output,
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRecord => f.write_str("not compiled before"),
            Self::Command => f.write_str("the toolkit, an option or a variable changed"),
            Self::Input(path) => write!(f, "{} changed", path.display()),
            Self::Output => f.write_str("the output is missing or was changed"),
        }
    }
}

/// The state before a tool runs: the time, and the digests of files that the tool is known to read.
pub(crate) struct RunStart {
    at: i64,
    known: Vec<(PathBuf, u64)>,
}

/// The records of one `OUT_DIR`.
pub(crate) struct Freshness {
    path: PathBuf,
    pub(crate) files: Files,
    records: Records,
    /// For each recorded input: whether it is unchanged, if it was checked.
    unchanged: Vec<Option<bool>>,
    /// For each recorded list: its first changed input, if it was checked.
    changed_inputs: Vec<Option<Option<u32>>>,
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
        let records = records.unwrap_or_default();
        Self {
            path,
            files,
            unchanged: vec![None; records.inputs.len()],
            changed_inputs: vec![None; records.lists.len()],
            records,
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

    /// Why the step with this key has to make `output` again; `None` if the output is up to date.
    pub(crate) fn check(&mut self, output: &Path, key: u64) -> Option<Stale> {
        let Some(recorded) = self.records.outputs.get_mut(output.as_os_str()) else {
            return Some(Stale::NoRecord);
        };
        recorded.used = true;
        let recorded = recorded.clone();
        if recorded.key != key {
            return Some(Stale::Command);
        }
        for list in &recorded.lists {
            if let Some(id) = self.changed_input(*list) {
                let input = self.records.inputs.get(id as usize);
                let path = input.map_or(PathBuf::new(), |input| input.path().to_owned());
                return Some(Stale::Input(path));
            }
        }
        if !self.is_output_unchanged(output, &recorded) {
            return Some(Stale::Output);
        }
        None
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

    /// The first changed input of a list.
    fn changed_input(&mut self, list: u32) -> Option<u32> {
        if let Some(Some(known)) = self.changed_inputs.get(list as usize) {
            return *known;
        }
        let changed = match self.records.lists.get(list as usize).cloned() {
            Some(ids) => ids.into_iter().find(|id| !self.is_input_unchanged(*id)),
            None => Some(u32::MAX),
        };
        if let Some(known) = self.changed_inputs.get_mut(list as usize) {
            *known = Some(changed);
        }
        changed
    }

    fn is_input_unchanged(&mut self, id: u32) -> bool {
        if let Some(Some(known)) = self.unchanged.get(id as usize) {
            return *known;
        }
        let unchanged = match self.records.inputs.get(id as usize) {
            None => false,
            Some(Input::Searched(_)) => true,
            Some(Input::Looked(path, recorded)) => {
                let (path, recorded) = (path.clone(), *recorded);
                let unchanged = self.files.is_still(&path, recorded);
                // If the content is the same but a time differs, the new time is recorded, so that the next run does
                // not read the content again.
                if unchanged && let Some(now) = self.files.renewed(&path, recorded) {
                    self.records.inputs[id as usize] = Input::Looked(path, now);
                    self.unsaved = true;
                }
                unchanged
            }
        };
        if let Some(known) = self.unchanged.get_mut(id as usize) {
            *known = Some(unchanged);
        }
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

    /// The state of every path that a tool looked at.
    ///
    /// # Errors
    /// The reason why the state cannot be recorded. In this case the step runs whenever the build script runs.
    pub(crate) fn observe(
        &mut self,
        started: &RunStart,
        reads: &Reads,
    ) -> Result<Evidence, String> {
        if let Some(reason) = &reads.incomplete {
            return Err(reason.clone());
        }
        let mut evidence = Evidence::default();
        for paths in [&reads.sources, &reads.own, &reads.system, &reads.absent] {
            let expect_absent = std::ptr::eq(paths, &reads.absent);
            let mut list = Vec::with_capacity(paths.len());
            for path in paths {
                self.files.refresh(path);
                let Some(state) = self.files.state(path) else {
                    return Err(format!("{} cannot be read", path.display()));
                };
                let is_absent = state == record::State::Absent;
                let same = match self.files.changed(path, started.at) {
                    Changed::Before => true,
                    Changed::Around => {
                        let mut known = started.known.iter();
                        let known = known.find(|(known, _)| known == path);
                        known.is_some_and(|(_, digest)| self.files.digest(path) == Some(*digest))
                    }
                    Changed::After => false,
                };
                if is_absent && !expect_absent {
                    return Err(format!("{} was read, but no longer exists", path.display()));
                }
                if !same && state != record::State::NotAFile {
                    return Err(format!("{} changed while it was compiled", path.display()));
                }
                list.push(Input::Looked(path.clone(), state));
            }
            evidence.lists.push(list);
        }
        let searched = reads.searched.iter();
        let searched = searched.map(|path| Input::Searched(path.clone()));
        evidence.lists.push(searched.collect());
        Ok(evidence)
    }

    /// Records that a tool made `output`. `evidence` has the paths that all runs for `output` looked at, or the
    /// reason why they are unknown. If they are unknown, or if `output` cannot be read, `output` has no record
    /// afterwards, and the reason is returned.
    ///
    /// # Errors
    /// [`Error::Io`] if the records cannot be written.
    pub(crate) fn record(
        &mut self,
        output: &Path,
        key: u64,
        evidence: Result<&[Evidence], String>,
    ) -> Result<Option<String>, Error> {
        self.files.forget(output);
        self.records.outputs.remove(output.as_os_str());
        self.unsaved = true;
        let reason = match (evidence, self.files.state(output)) {
            (Err(reason), _) => Some(reason),
            (Ok(evidence), Some(state @ record::State::File { .. })) => {
                let mut lists = Vec::new();
                for list in evidence.iter().flat_map(|evidence| &evidence.lists) {
                    let ids = list.iter().map(|input| self.records.input(input.clone()));
                    let ids = ids.collect();
                    let number = self.records.list(ids);
                    if !lists.contains(&number) {
                        lists.push(number);
                    }
                }
                let used = true;
                let recorded = Output {
                    key,
                    state,
                    lists,
                    used,
                };
                self.records.outputs.insert(output.into(), recorded);
                None
            }
            (Ok(_), _) => Some(format!("{} cannot be read", output.display())),
        };
        if self.saved.elapsed() > SAVE_INTERVAL {
            self.save()?;
        }
        Ok(reason)
    }

    /// Whether every path in `evidence` still has its recorded state.
    pub(crate) fn holds(&mut self, evidence: &Evidence) -> bool {
        evidence.lists.iter().flatten().all(|input| match input {
            Input::Looked(path, state) => self.files.is_still(path, *state),
            Input::Searched(_) => true,
        })
    }

    /// The files that were read and the directories that were searched to make `outputs`, from the records.
    pub(crate) fn recorded(&self, outputs: &[PathBuf]) -> Vec<PathBuf> {
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
        sorted_set(paths)
    }

    /// Writes the records if they changed.
    ///
    /// # Errors
    /// [`Error::Io`] if the records cannot be written.
    pub(crate) fn save(&mut self) -> Result<(), Error> {
        if self.unsaved {
            crate::output::write(&self.path, &self.records.to_bytes())?;
            self.unsaved = false;
        }
        self.saved = Instant::now();
        Ok(())
    }

    /// Removes the records of outputs that were neither checked nor made in this run, and writes the rest.
    ///
    /// # Errors
    /// [`Error::Io`] if the records cannot be written.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        let before = self.records.outputs.len();
        self.records.outputs.retain(|_, output| output.used);
        self.unsaved |= self.records.outputs.len() != before;
        self.save()
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
