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
mod records;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::hash::Fnv;
use crate::list::{Set, sorted_set};

pub(crate) use file::Files;
use file::State;
pub(crate) use records::path_from_bytes;
use records::{Input, Output, Records};

/// The interval at which records are written while steps run. If a build is killed, the next build repeats
/// only the steps since the last write.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// What a tool looked at while it made an output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// The files that the tool read.
    pub(crate) files: Set<PathBuf>,
    /// Paths that the tool looked for and that do not exist. If a file appeared at such a path, the tool
    /// would read it instead of another file.
    pub(crate) absent: Set<PathBuf>,
    /// Directories of the user in which the tool looked for headers.
    pub(crate) searched: Set<PathBuf>,
    /// Directories of the toolkit. Their files are replaced only as a whole, and linked to other places at any time.
    pub(crate) toolkit: Vec<PathBuf>,
    /// Why these sets may be incomplete; `None` if they are complete.
    pub(crate) incomplete: Option<String>,
}

/// Every path that a run of a tool looked at, with the state of each path at that time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence(Vec<Input>);

impl Evidence {
    /// The text that [`Evidence::parse`] reads. `made` describes what the run made, and `digest` is the digest of
    /// what it made.
    pub(crate) fn to_bytes(&self, key: u64, made: &str, digest: u64) -> Vec<u8> {
        let mut records = Records::default();
        let stat = file::Stat::default();
        let output = Output {
            key,
            state: State::File { digest, stat },
            inputs: records.number(&self.0),
            used: true,
        };
        records.outputs.insert(made.into(), output);
        records.to_bytes()
    }

    /// The evidence, `made` and `digest` from a text of [`Evidence::to_bytes`]. `None` if the text is invalid or
    /// has another key.
    pub(crate) fn parse(text: &[u8], key: u64) -> Option<(Self, String, u64)> {
        let records = Records::parse(text)?;
        let (made, output) = records.outputs.into_iter().next()?;
        match output.state {
            State::File { digest, .. } if output.key == key => {
                let made = made.into_string().ok()?;
                Some((Self(records.inputs), made, digest))
            }
            _ => None,
        }
    }

    /// Replaces each path.
    pub(crate) fn map_paths(&mut self, replaced: impl Fn(&Path) -> PathBuf) {
        for input in &mut self.0 {
            input.path = replaced(&input.path);
        }
    }

    /// The files that were read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let files = (self.0.iter()).filter(|input| matches!(input.state, State::File { .. }));
        files.map(|input| input.path.as_path())
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
    at: u64,
    digests: Vec<(PathBuf, u64)>,
}

/// The records of one `OUT_DIR`.
pub(crate) struct Freshness {
    path: PathBuf,
    pub(crate) files: Files,
    records: Records,
    /// For each recorded input: whether it is unchanged, if it was checked.
    unchanged: Vec<Option<bool>>,
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
        if recorded.key != key {
            return Some(Stale::Command);
        }
        let (state, inputs) = (recorded.state, recorded.inputs.clone());
        if let Some(changed) = inputs.into_iter().find(|id| !self.is_unchanged(*id)) {
            return Some(Stale::Input(self.records.inputs[changed].path.clone()));
        }
        let Some(now) = self.files.unchanged(output, state) else {
            return Some(Stale::Output);
        };
        if now != state
            && let Some(output) = self.records.outputs.get_mut(output.as_os_str())
        {
            output.state = now;
            self.unsaved = true;
        }
        None
    }

    /// Whether an input has its recorded state. If a time of the file differs, the new time is recorded, so that the
    /// next run does not read the content again.
    fn is_unchanged(&mut self, id: usize) -> bool {
        if let Some(Some(unchanged)) = self.unchanged.get(id) {
            return *unchanged;
        }
        let input = &mut self.records.inputs[id];
        let now = self.files.unchanged(&input.path, input.state);
        if let Some(now) = now.filter(|now| *now != input.state) {
            input.state = now;
            self.unsaved = true;
        }
        if let Some(unchanged) = self.unchanged.get_mut(id) {
            *unchanged = Some(now.is_some());
        }
        now.is_some()
    }

    /// Must be called before a tool runs, with the files that the tool is known to read.
    pub(crate) fn start<'p>(&mut self, files: impl IntoIterator<Item = &'p Path>) -> RunStart {
        let digests = files.into_iter().filter_map(|path| {
            self.files.refresh(path);
            Some((path.to_owned(), self.files.digest(path)?))
        });
        let digests = digests.collect();
        RunStart {
            at: file::now(),
            digests,
        }
    }

    /// The state of every path that a tool looked at.
    ///
    /// # Errors
    /// The reason why the state cannot be recorded. In this case the step runs whenever the build script runs.
    pub(crate) fn observe(&mut self, start: &RunStart, reads: &Reads) -> Result<Evidence, String> {
        if let Some(reason) = &reads.incomplete {
            return Err(reason.clone());
        }
        let mut inputs = Vec::new();
        for (paths, was_read) in [(&reads.files, true), (&reads.absent, false)] {
            for path in paths {
                let failed = |reason| Err(format!("{} {reason}", path.display()));
                self.files.refresh(path);
                let Some(state) = self.files.state(path) else {
                    return failed("cannot be read");
                };
                if state == State::Absent && was_read {
                    return failed("was read, but no longer exists");
                }
                let digest = || {
                    let mut digests = start.digests.iter();
                    Some(digests.find(|(file, _)| file == path)?.1)
                };
                // The time of a directory or a device has no meaning.
                let is_of_toolkit = reads.toolkit.iter().any(|dir| path.starts_with(dir));
                if state != State::NotAFile
                    && self
                        .files
                        .changed_since(start.at, path, is_of_toolkit, digest)
                {
                    return failed("changed while it was compiled");
                }
                let path = path.clone();
                inputs.push(Input { path, state });
            }
        }
        let state = State::Searched;
        let searched = (reads.searched.iter()).filter(|path| !reads.absent.contains(*path));
        inputs.extend(searched.map(|path| Input {
            path: path.clone(),
            state,
        }));
        match inputs
            .iter()
            .find(|input| records::is_unwritable(&input.path))
        {
            Some(input) => Err(format!("{:?} has a line break", input.path)),
            None => Ok(Evidence(inputs)),
        }
    }

    /// Records that a tool made `output`. `evidence` has the paths that all runs for `output` looked at, or the
    /// reason why they are unknown. If they are unknown, or if `output` cannot be read, `output` has no record
    /// afterwards, and the reason is returned.
    ///
    /// # Errors
    /// [`cuda_find::Error::Io`] if the records cannot be written.
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
            (Ok(evidence), Some(state @ State::File { .. })) if !records::is_unwritable(output) => {
                let inputs = evidence.iter().flat_map(|run| &run.0);
                let recorded = Output {
                    key,
                    state,
                    inputs: self.records.number(inputs),
                    used: true,
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
        let mut inputs = evidence.0.iter();
        inputs.all(|input| self.files.unchanged(&input.path, input.state).is_some())
    }

    /// The paths that were read, searched, or looked for in vain to make `outputs`, from the records.
    pub(crate) fn recorded(&self, outputs: &[PathBuf]) -> Vec<PathBuf> {
        let records = outputs
            .iter()
            .filter_map(|path| self.records.outputs.get(path.as_os_str()));
        let ids = sorted_set(records.flat_map(|output| output.inputs.iter().copied()));
        sorted_set(
            ids.into_iter()
                .map(|id| self.records.inputs[id].path.clone()),
        )
    }

    /// Writes the records if they changed.
    ///
    /// # Errors
    /// [`cuda_find::Error::Io`] if the records cannot be written.
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
    /// [`cuda_find::Error::Io`] if the records cannot be written.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        let before = self.records.outputs.len();
        self.records.outputs.retain(|_, output| output.used);
        self.unsaved |= self.records.outputs.len() != before;
        self.save()
    }
}

#[cfg(unix)]
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use std::fs;
    use std::thread::sleep;

    use super::*;

    /// Two headers, and an output made from them.
    struct Made {
        directory: tempfile::TempDir,
    }

    impl Made {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let made = Self { directory };
            made.write("a.cuh", "1");
            made.write("b \\.cuh", "1");
            made
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).unwrap();
        }

        fn reads(&self) -> Reads {
            Reads {
                files: [self.path("a.cuh"), self.path("b \\.cuh")].into(),
                absent: [self.path("c.cuh")].into(),
                ..Reads::default()
            }
        }

        /// Makes the output; `meanwhile` happens while the tool runs.
        fn make(&self, reads: &Reads, meanwhile: impl Fn()) -> Option<String> {
            let mut freshness = Freshness::load(self.directory.path());
            let started = freshness.start([self.path("a.cuh").as_path(), &self.path("b \\.cuh")]);
            meanwhile();
            self.write("out", "made");
            freshness.check(&self.path("out"), 1);
            let evidence = freshness.observe(&started, reads).map(|one| [one]);
            let evidence = evidence.as_ref().map(<[_; 1]>::as_slice);
            let reason = freshness
                .record(&self.path("out"), 1, evidence.map_err(Clone::clone))
                .unwrap();
            freshness.finish().unwrap();
            reason
        }

        fn is_fresh(&self) -> bool {
            let mut freshness = Freshness::load(self.directory.path());
            let stale = freshness.check(&self.path("out"), 1);
            freshness.finish().unwrap();
            stale.is_none()
        }
    }

    #[test]
    fn fresh_until_an_input_the_key_or_the_output_changes() {
        let made = Made::new();
        assert!(!made.is_fresh());
        assert_eq!(made.make(&made.reads(), || ()), None);
        assert!(made.is_fresh() && made.is_fresh());
        let mut freshness = Freshness::load(made.directory.path());
        assert_eq!(freshness.check(&made.path("out"), 2), Some(Stale::Command));
        made.write("a.cuh", "2");
        assert!(!made.is_fresh());
        made.write("a.cuh", "1");
        assert!(made.is_fresh());
        made.write("c.cuh", "a new file hides another");
        assert!(!made.is_fresh());
        fs::remove_file(made.path("c.cuh")).unwrap();
        made.write("out", "");
        assert!(!made.is_fresh());
    }

    #[test]
    fn what_changes_while_the_tool_runs_is_not_recorded() {
        let made = Made::new();
        let edit = || {
            sleep(Duration::from_millis(40));
            made.write("a.cuh", "2");
        };
        let reason = made.make(&made.reads(), edit).unwrap();
        assert!(reason.contains("changed while"), "{reason}");
        assert!(!made.is_fresh());
        assert_eq!(made.make(&made.reads(), || ()), None);
        assert!(made.is_fresh());
    }

    #[test]
    fn an_incomplete_list_is_never_fresh() {
        let made = Made::new();
        made.write("line\nbreak", "");
        let mut incomplete = [made.reads(), made.reads(), made.reads()];
        incomplete[0].incomplete = Some("a macro".to_owned());
        incomplete[1].files.insert(made.path("read and not there"));
        incomplete[2].files.insert(made.path("line\nbreak"));
        for reads in incomplete {
            assert!(made.make(&reads, || ()).is_some() && !made.is_fresh());
        }
    }

    #[test]
    fn records_that_are_damaged_count_for_nothing() {
        let made = Made::new();
        made.make(&made.reads(), || ());
        let path = made.path("cuda-build.stamps");
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let mut freshness = Freshness::load(made.directory.path());
            let stale = freshness.check(&made.path("out"), 1);
            assert_eq!(stale, Some(Stale::NoRecord), "{length}");
        }
        fs::write(&path, &whole).unwrap();
        assert!(made.is_fresh());
    }

    #[test]
    fn contents_are_read_again_only_if_the_stat_differs() {
        let made = Made::new();
        made.make(&made.reads(), || ());
        sleep(Duration::from_millis(40));
        assert!(made.is_fresh());
        // Recorded again with the times of now, so that nothing but the records is read from here on.
        let mut freshness = Freshness::load(made.directory.path());
        assert!(freshness.check(&made.path("out"), 1).is_none());
        assert!(!freshness.unsaved);
    }
}
