//! Decides whether an output below `OUT_DIR` has to be made again.
//!
//! The rule: an output is up to date if the same command would read the same bytes. Two things are compared:
//!
//! - The key of a step is a digest of everything except files: arguments, variables, and the toolkit's identity.
//! - The record of the last successful run contains every path that the tool looked at: each file that it
//!   read, with a digest of the content, and each path at which it found nothing.
//!
//! If the tool may have looked at other paths, nothing is recorded, and the step runs whenever the build
//! script runs. The same applies if a file changed while the tool ran, because the tool may have read either
//! content. Contents are read again only if size, inode or a time of a file changed.

mod file;
mod records;

use std::path::{Path, PathBuf};

use crate::error::Error;
use cuda_find_core::hash::{Digest, Hasher};
use cuda_find_core::list::{Set, sorted_set};

pub(crate) use file::Files;
use file::State;
pub(crate) use records::path_from_bytes;
use records::{InputState, OutputRecord, Records};

/// The paths that a tool looked at while it made an output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// The files that the tool read.
    pub(crate) files: Set<PathBuf>,
    /// Paths that the tool looked for and that do not exist. If a file appeared at such a path, the tool
    /// would read it instead of another file.
    pub(crate) absent: Set<PathBuf>,
    /// Directories of the user in which the tool looked for headers.
    pub(crate) searched: Set<PathBuf>,
    /// Directories of the toolkit. A toolkit is replaced only as a whole; a new hard link to one of its files changes
    /// the file's `ctime` at any time.
    pub(crate) toolkit: Vec<PathBuf>,
    /// Why these sets may be incomplete; `None` if they are complete.
    pub(crate) incomplete: Option<String>,
}

/// The state of every path that a tool looked at while it ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct InputStates(Vec<InputState>);

impl InputStates {
    /// One line for each path.
    pub(crate) fn to_lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        self.0.iter().for_each(|input| input.write(&mut lines));
        lines
    }

    /// Reads lines of [`InputStates::to_lines`]; `None` if a line is malformed.
    pub(crate) fn parse<'l>(lines: impl Iterator<Item = &'l [u8]>) -> Option<Self> {
        let inputs = lines.map(InputState::parse);
        inputs.collect::<Option<_>>().map(Self)
    }

    /// A digest of `text`, and of each path with what was found there.
    pub(crate) fn digest(&self, text: &str) -> Digest {
        let mut hasher = Hasher::default();
        hasher.field(text.as_bytes());
        for InputState { path, state } in &self.0 {
            hasher.field(path.as_os_str().as_encoded_bytes());
            hasher.field(&match state {
                State::Absent => vec![b'a'],
                State::NotAFile => vec![b'd'],
                State::Searched => vec![b's'],
                State::File { digest, .. } => digest.bytes().to_vec(),
            });
        }
        hasher.digest()
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

/// The reason why an output has to be made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StaleReason {
    /// There is no record of the output.
    NoRecord,
    /// The toolkit, an option or a variable is different.
    Command,
    /// The file at this path changed, appeared or disappeared.
    Input(PathBuf),
    /// The output is missing or was changed.
    Output,
}

impl std::fmt::Display for StaleReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRecord => f.write_str("not compiled before"),
            Self::Command => f.write_str("the toolkit, an option or a variable changed"),
            Self::Input(path) => write!(f, "{} changed", path.display()),
            Self::Output => f.write_str("the output is missing or was changed"),
        }
    }
}

/// The time before a tool runs, and the digests of the files that the tool is known to read.
pub(crate) struct RunStart {
    /// Nanoseconds since 1970.
    time: u64,
    digests: Vec<(PathBuf, Digest)>,
}

/// The records of one `OUT_DIR`.
pub(crate) struct Freshness {
    path: PathBuf,
    pub(crate) files: Files,
    records: Records,
    /// For each input that was read from the file of records: whether it is unchanged; `None` if not yet checked.
    unchanged: Vec<Option<bool>>,
    unsaved: bool,
}

impl Freshness {
    /// Reads the records below `out`.
    pub(crate) fn load(out: &Path) -> Self {
        let path = out.join("cuda-build.stamps");
        let files = Files::default();
        let bytes = cuda_find_core::output::read(&path).unwrap_or_default();
        let records = Records::parse(&bytes).unwrap_or_default();
        Self {
            path,
            files,
            unchanged: vec![None; records.inputs.len()],
            records,
            unsaved: false,
        }
    }

    /// Why the step with this key has to make `output` again; `None` if the output is up to date.
    pub(crate) fn stale_reason(&mut self, output: &Path, key: Digest) -> Option<StaleReason> {
        let Some(recorded) = self.records.outputs.get_mut(output.as_os_str()) else {
            return Some(StaleReason::NoRecord);
        };
        recorded.used = true;
        if recorded.key != key {
            return Some(StaleReason::Command);
        }
        let (recorded_state, inputs) = (recorded.state, recorded.inputs.clone());
        let changed = (inputs.into_iter()).find(|number| !self.is_input_unchanged(*number));
        if let Some(number) = changed {
            return Some(StaleReason::Input(self.records.inputs[number].path.clone()));
        }
        let Some(state) = self.files.state_if_unchanged(output, recorded_state) else {
            return Some(StaleReason::Output);
        };
        if let Some(recorded) = self.records.outputs.get_mut(output.as_os_str()) {
            self.unsaved |= state != recorded_state;
            recorded.state = state;
        }
        None
    }

    /// Whether an input has its recorded state. If a time of the file differs, the new time is recorded, so that the
    /// next run does not read the content again.
    fn is_input_unchanged(&mut self, number: usize) -> bool {
        if let Some(Some(is_unchanged)) = self.unchanged.get(number) {
            return *is_unchanged;
        }
        let input = &mut self.records.inputs[number];
        let state = self.files.state_if_unchanged(&input.path, input.state);
        if let Some(state) = state.filter(|state| *state != input.state) {
            input.state = state;
            self.unsaved = true;
        }
        if let Some(is_unchanged) = self.unchanged.get_mut(number) {
            *is_unchanged = Some(state.is_some());
        }
        state.is_some()
    }

    /// Reads the files that a tool is known to read. It must be called before the tool runs.
    pub(crate) fn before_run<'p>(&mut self, files: impl IntoIterator<Item = &'p Path>) -> RunStart {
        let digests = files.into_iter().filter_map(|path| {
            self.files.refresh(path);
            Some((path.to_owned(), self.files.digest(path)?))
        });
        let digests = digests.collect();
        RunStart {
            time: file::now(),
            digests,
        }
    }

    /// The state of every path that a tool looked at. It must be called after the tool ran.
    ///
    /// # Errors
    /// The reason why the state cannot be recorded. In this case the step runs whenever the build script runs.
    pub(crate) fn after_run(
        &mut self,
        start: &RunStart,
        reads: &Reads,
    ) -> Result<InputStates, String> {
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
                let digest_at_start = || {
                    let mut digests = start.digests.iter();
                    Some(digests.find(|(file, _)| file == path)?.1)
                };
                // The time of a directory or a device has no meaning.
                let is_of_toolkit = reads.toolkit.iter().any(|dir| path.starts_with(dir));
                if state != State::NotAFile
                    && (self.files).changed_since(start.time, path, is_of_toolkit, digest_at_start)
                {
                    return failed("changed while it was compiled");
                }
                let path = path.clone();
                inputs.push(InputState { path, state });
            }
        }
        let searched = (reads.searched.iter()).filter(|path| !reads.absent.contains(*path));
        inputs.extend(searched.map(|path| InputState {
            path: path.clone(),
            state: State::Searched,
        }));
        match inputs
            .iter()
            .find(|input| records::is_unwritable(&input.path))
        {
            Some(input) => Err(format!("{:?} has a line break", input.path)),
            None => Ok(InputStates(inputs)),
        }
    }

    /// Records that tools made `output`. `states` has one value for each run of a tool, or the reason why the paths
    /// that a run looked at are unknown. Returns why `output` was not recorded; `None` if it was.
    pub(crate) fn record(
        &mut self,
        output: &Path,
        key: Digest,
        states: Result<&[InputStates], String>,
    ) -> Option<String> {
        self.files.forget(output);
        self.records.outputs.remove(output.as_os_str());
        self.unsaved = true;
        match (states, self.files.state(output)) {
            (Err(reason), _) => Some(reason),
            (Ok(states), Some(state @ State::File { .. })) if !records::is_unwritable(output) => {
                let inputs = states.iter().flat_map(|of_run| &of_run.0);
                let record = OutputRecord {
                    key,
                    state,
                    inputs: self.records.add_inputs(inputs),
                    used: true,
                };
                self.records.outputs.insert(output.into(), record);
                None
            }
            (Ok(_), _) => Some(format!("{} cannot be read", output.display())),
        }
    }

    /// Whether every path in `states` still has its recorded state.
    pub(crate) fn is_current(&mut self, states: &InputStates) -> bool {
        let mut inputs = states.0.iter();
        inputs.all(|input| {
            let state = self.files.state_if_unchanged(&input.path, input.state);
            state.is_some()
        })
    }

    /// The recorded inputs of `outputs`: files that were read, directories that were searched, and absent paths.
    pub(crate) fn inputs_of(&self, outputs: &[PathBuf]) -> Vec<PathBuf> {
        let records = outputs
            .iter()
            .filter_map(|path| self.records.outputs.get(path.as_os_str()));
        let numbers = sorted_set(records.flat_map(|output| output.inputs.iter().copied()));
        let paths = (numbers.into_iter()).map(|number| self.records.inputs[number].path.clone());
        sorted_set(paths)
    }

    /// Writes the records if they changed.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Io`] if the records cannot be written.
    pub(crate) fn save(&mut self) -> Result<(), Error> {
        if self.unsaved {
            cuda_find_core::output::write(&self.path, &self.records.to_bytes())?;
            self.unsaved = false;
        }
        Ok(())
    }

    /// Removes the records of outputs that were neither checked nor made in this run, and writes the rest.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Io`] if the records cannot be written.
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

    use std::time::Duration;

    use super::*;

    fn key(number: u8) -> Digest {
        cuda_find_core::hash::of_content(&[number])
    }

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

        /// Makes the output. `during_run` is called while the tool runs.
        fn make(&self, reads: &Reads, during_run: impl Fn()) -> Option<String> {
            let mut freshness = Freshness::load(self.directory.path());
            let start =
                freshness.before_run([self.path("a.cuh").as_path(), &self.path("b \\.cuh")]);
            during_run();
            self.write("out", "made");
            freshness.stale_reason(&self.path("out"), key(1));
            let states = freshness.after_run(&start, reads);
            let states = states.as_ref().map(std::slice::from_ref);
            let reason = freshness.record(&self.path("out"), key(1), states.map_err(Clone::clone));
            freshness.finish().unwrap();
            reason
        }

        fn is_fresh(&self) -> bool {
            let mut freshness = Freshness::load(self.directory.path());
            let stale = freshness.stale_reason(&self.path("out"), key(1));
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
        assert_eq!(
            freshness.stale_reason(&made.path("out"), key(2)),
            Some(StaleReason::Command)
        );
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
    fn an_input_edited_during_the_run_is_not_recorded() {
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
    fn incomplete_reads_are_never_fresh() {
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
    fn damaged_records_are_ignored() {
        let made = Made::new();
        made.make(&made.reads(), || ());
        let path = made.path("cuda-build.stamps");
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let mut freshness = Freshness::load(made.directory.path());
            let stale = freshness.stale_reason(&made.path("out"), key(1));
            assert_eq!(stale, Some(StaleReason::NoRecord), "{length}");
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
        // That check recorded the current times, so this check has nothing new to record.
        let mut freshness = Freshness::load(made.directory.path());
        assert!(freshness.stale_reason(&made.path("out"), key(1)).is_none());
        assert!(!freshness.unsaved);
    }
}
