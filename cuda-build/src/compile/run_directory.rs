//! Runs programs, which write into a directory of their run.
//!
//! Programs can outlive a killed build: nvcc outlives the build script, and the build script outlives Cargo. So no
//! program writes to an output itself. It writes into a directory with a random name, and the run renames the file when
//! the program has succeeded. The next run removes the directory, and the program finds nothing to write to.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::step::{Step, depfile_of};
use crate::error::Error;
use crate::freshness::Files;
use cuda_find_core::command::Invocation;
use cuda_find_core::output::{self, TemporaryDirectory};

/// The name without the random number.
const NAME: &str = "cuda-build.run-";

/// The directory of this run.
#[derive(Debug)]
pub(super) struct RunDirectory {
    out: PathBuf,
    directory: TemporaryDirectory,
}

impl RunDirectory {
    /// Removes the directories of runs in `out` that were killed.
    pub(super) fn remove_abandoned(files: &mut Files, out: &Path) -> Result<(), Error> {
        for name in files.names(out).iter() {
            if name.to_string_lossy().starts_with(NAME) {
                output::remove_directory(&out.join(name))?;
            }
        }
        Ok(())
    }

    /// Creates the directory in `out`.
    pub(super) fn create(out: &Path) -> Result<Self, Error> {
        Ok(Self {
            directory: TemporaryDirectory::create(out, NAME)?,
            out: out.to_owned(),
        })
    }

    /// The place in this directory for a file beside the outputs.
    pub(super) fn place_of(&self, file: &Path) -> PathBuf {
        let name = file.file_name().unwrap_or_default();
        self.directory.path().join(name)
    }

    /// Runs a program that makes the file `output` for a step, and returns what the program printed. The file and its
    /// depfile get their names after the program has succeeded.
    ///
    /// # Errors
    /// [`Error::Compile`] with the program's own messages; [`Error::Find`] for a path that nvcc cannot handle;
    /// [`cuda_find_core::error::Error::Io`] if a later run has taken the directory away.
    pub(super) fn execute(
        &self,
        step: &Step,
        invocation: &Invocation,
        output: &Path,
    ) -> Result<String, Error> {
        check_paths(step, invocation, output)?;
        let (made, depfile) = (self.place_of(output), depfile_of(output));
        // An archiver adds to an existing archive, and a failing compiler may have left a partial file.
        output::remove(&made)?;
        let mut redirected = invocation.clone().in_english();
        for argument in &mut redirected.arguments {
            if argument == output.as_os_str() || argument == depfile.as_os_str() {
                *argument = self.place_of(argument.as_ref()).into();
            }
        }
        let finished = redirected.run()?;
        let directory = self.directory.path().to_string_lossy();
        let printed = (finished.output()).replace(&*directory, &self.out.to_string_lossy());
        if !finished.success {
            return Err(Error::Compile {
                tool: step.tool.as_str().into(),
                source_file: step.source.clone(),
                command: invocation.to_string().into(),
                output: printed,
                exit_code: finished.code.and_then(|code| u8::try_from(code).ok()),
                hint: None,
                others: Box::default(),
            });
        }
        if !output::is_file(&made) {
            let name = output.display();
            return Err(cuda_find_core::error::Error::Program {
                command: invocation.to_string(),
                reason: format!("{printed}it reported success, but did not write {name}"),
            }
            .into());
        }
        if output::is_file(&self.place_of(&depfile)) {
            self.publish(&depfile)?;
        }
        self.publish(output)?;
        Ok(printed)
    }

    /// Gives a file of this directory its name beside the outputs.
    fn publish(&self, file: &Path) -> Result<(), Error> {
        Ok(output::rename(&self.place_of(file), file)?)
    }

    /// Writes an output.
    pub(super) fn write(&self, output: &Path, bytes: &[u8]) -> Result<(), Error> {
        output::write(&self.place_of(output), bytes)?;
        self.publish(output)
    }
}

/// Refuses what nvcc misreads. nvcc 13.5 puts paths and options between double quotes into shell commands: for a source
/// in the directory `$(touch x)`, it runs `touch x`.
fn check_paths(step: &Step, invocation: &Invocation, output: &Path) -> Result<(), Error> {
    let package = invocation.directory.as_deref();
    let paths = package.into_iter().chain([step.source.as_path(), output]);
    let mut paths = paths.map(|path| path.to_string_lossy());
    let arguments = invocation.arguments.iter().map(|it| it.to_string_lossy());
    let mut arguments = arguments.filter(|_| step.tool.starts_with("nvcc "));
    let has_shell_syntax = |path: &Cow<'_, str>| path.contains(['$', '\\', '`', '"']);
    // In options other than macros, nvcc 13.4 escapes `$`, unless a backslash stands before it. Options for the host
    // compiler are quoted already.
    let is_interpreted = |option: &Cow<'_, str>| {
        let is_macro = option.starts_with("-D") || option.starts_with("-U");
        let has_dollar = option.contains("\\$") || is_macro && option.contains('$');
        (has_dollar || option.contains('`')) && !option.starts_with("-Xcompiler=")
    };
    let path = paths.find(has_shell_syntax);
    if let Some(text) = path.or_else(|| arguments.find(is_interpreted)) {
        return Err(Error::usage(
            format!("`{text}` has a character that a shell interprets in the commands of nvcc"),
            "remove `$`, backslashes, backquotes and double quotes from the names of the directories and the file, and \
             from the macro",
        ));
    }
    if output.to_string_lossy().contains(',') {
        let output = output.display();
        return Err(Error::usage(
            format!("nvcc cannot write to a path with a comma: {output}"),
            "rename the directory, or set `CARGO_TARGET_DIR` to a directory without a comma",
        ));
    }
    Ok(())
}
