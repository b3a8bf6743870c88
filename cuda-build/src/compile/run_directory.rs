//! The directory into which the programs of one run of a build script write.
//!
//! Programs can outlive a killed build: nvcc outlives the build script, and the build script outlives Cargo. So no
//! program writes to an output itself. It writes into the directory of its run, and the run renames the file when the
//! program has succeeded. The directory is marked until the run ends. The next run gives up a marked directory and
//! takes another name, so the programs of the earlier run find no directory to write to, and the earlier run no file
//! to rename.
//!
//! The name does not change between runs that end, because debug information contains it.

use std::path::{Path, PathBuf};

use super::module::depfile_of;
use crate::command::Invocation;
use crate::error::Error;
use crate::freshness::Files;
use crate::output;

/// The name without the number of the run.
const NAME: &str = "cuda-build.run-";

/// The file that marks the directory of a run that has not ended.
const MARK: &str = "unfinished";

/// The directory of this run.
#[derive(Debug)]
pub(super) struct RunDirectory {
    out: PathBuf,
    path: PathBuf,
}

/// The number of the latest run, and whether it has not ended.
fn latest(files: &mut Files, out: &Path) -> (u32, bool) {
    let number = |name: &std::ffi::OsString| name.to_str()?.strip_prefix(NAME)?.parse().ok();
    let latest = files.names(out).iter().filter_map(number).max();
    let latest = latest.unwrap_or(1);
    let mark = out.join(format!("{NAME}{latest}")).join(MARK);
    (latest, files.is_file(&mark))
}

impl RunDirectory {
    /// Whether an earlier run with outputs in `out` has not ended.
    pub(super) fn has_unfinished(files: &mut Files, out: &Path) -> bool {
        latest(files, out).1
    }

    /// Creates the directory in `out`, and removes those of earlier runs.
    pub(super) fn create(files: &mut Files, out: &Path) -> Result<Self, Error> {
        let (latest, unfinished) = latest(files, out);
        let own = format!("{NAME}{}", latest + u32::from(unfinished));
        let path = out.join(&own);
        output::create_directory(&path)?;
        output::write(&path.join(MARK), b"")?;
        for name in files.names(out).iter() {
            let text = name.to_string_lossy();
            if text.starts_with(NAME) && text != own {
                // First renamed, because programs can add files while a directory is removed.
                let ended = out.join(format!("{text}.ended"));
                output::rename(&out.join(name), &ended)?;
                let _ = output::remove_directory(&ended);
            }
        }
        let out = out.to_owned();
        Ok(Self { out, path })
    }

    /// The place in this directory for a file beside the outputs.
    pub(super) fn place_of(&self, file: &Path) -> PathBuf {
        self.path.join(file.file_name().unwrap_or_default())
    }

    /// The same command, which writes `output` and its depfile into this directory.
    pub(super) fn redirected(&self, invocation: &Invocation, output: &Path) -> Invocation {
        let mut invocation = invocation.clone();
        let files = [output.to_owned(), depfile_of(output)];
        for argument in &mut invocation.arguments {
            if let Some(file) = files.iter().find(|file| argument == file.as_os_str()) {
                *argument = self.place_of(file).into();
            }
        }
        invocation
    }

    /// A text with the names of files in this directory, as if they were beside the outputs.
    pub(super) fn shown(&self, text: &str) -> String {
        text.replace(&*self.path.to_string_lossy(), &self.out.to_string_lossy())
    }

    /// Removes an output before it is made again. This fails if a later run has taken the directory away, because the
    /// output may be that of the later run.
    pub(super) fn remove(&self, output: &Path) -> Result<(), Error> {
        if output::is_file(output) {
            output::rename(output, &self.place_of(output))?;
        }
        // An archiver adds to an existing archive, and a failing compiler may have left a partial file.
        output::remove(&self.place_of(output))
    }

    /// Gives a file of this directory its name beside the outputs.
    pub(super) fn publish(&self, file: &Path) -> Result<(), Error> {
        output::rename(&self.place_of(file), file)
    }

    /// Writes an output.
    pub(super) fn write(&self, output: &Path, bytes: &[u8]) -> Result<(), Error> {
        output::write(&self.place_of(output), bytes)?;
        self.publish(output)
    }

    /// Ends the run.
    ///
    /// # Errors
    /// [`Error::Io`] if a later run has taken the directory away.
    pub(super) fn finish(&self) -> Result<(), Error> {
        output::remove_existing(&self.path.join(MARK))
    }
}
