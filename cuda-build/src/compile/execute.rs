//! Runs the program of a step.

use std::path::Path;

use super::Step;
use super::module::depfile_of;
use super::run_directory::RunDirectory;
use crate::command::Invocation;
use crate::error::Error;
use crate::output;

/// Runs a program that makes the file `output` for a step, and returns what the program printed. The program writes
/// into the directory of this run; the file and its depfile get their names after the program has succeeded.
///
/// # Errors
/// [`Error::Compile`] with the program's own messages; [`Error::Usage`] for a path that nvcc cannot handle. The file `output` does not exist then.
pub(super) fn execute(
    step: &Step,
    invocation: &Invocation,
    output: &Path,
    run: &RunDirectory,
) -> Result<String, Error> {
    let failed = |output: String| Error::Compile {
        tool: step.tool.clone(),
        source_file: step.source.clone(),
        command: invocation.to_string(),
        output,
    };
    let package = invocation.directory.as_deref();
    let mut paths = package.into_iter().chain([step.source.as_path(), output]);
    if let Some(path) = paths.find(|path| has_shell_syntax(path)) {
        return Err(Error::Usage {
            reason: format!(
                "nvcc would run a part of the path {} as a shell command",
                path.display()
            ),
            hint: "remove `$(`, backquotes and double quotes from the names of the directories and the file"
                .to_owned(),
        });
    }
    if output.to_string_lossy().contains(',') {
        return Err(Error::Usage {
            reason: format!(
                "nvcc cannot write to a path with a comma: {}",
                output.display()
            ),
            hint: "rename the directory, or set `CARGO_TARGET_DIR` to a directory without a comma"
                .to_owned(),
        });
    }
    run.remove(output)?;
    let (made, depfile) = (run.place_of(output), depfile_of(output));
    output::remove(&run.place_of(&depfile))?;
    let finished = run.redirected(invocation, output).run()?;
    let printed = run.shown(&finished.output());
    if !finished.success {
        return Err(failed(printed));
    }
    if !output::is_file(&made) {
        let name = output.display();
        return Err(Error::Program {
            command: invocation.to_string(),
            reason: format!("{printed}it reported success, but did not write {name}"),
        });
    }
    if output::is_file(&run.place_of(&depfile)) {
        run.publish(&depfile)?;
    }
    run.publish(output)?;
    Ok(printed)
}

/// Whether a path contains characters that a shell interprets between double quotes. nvcc 13.5 puts
/// the source, the output and its working directory between double quotes in shell commands: for a
/// source in the directory `$(touch x)`, it runs `touch x`.
fn has_shell_syntax(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.contains("$(") || text.contains(['`', '"'])
}
