//! Runs the program of a step.

use std::path::Path;

use super::Step;
use crate::command::Invocation;
use crate::error::Error;
use crate::output;

/// Runs a program that makes the file `output` for a step, and returns what the program printed.
///
/// # Errors
/// [`Error::Compile`] with the program's own messages. The file `output` does not exist then.
pub(super) fn execute(
    step: &Step,
    invocation: &Invocation,
    output: &Path,
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
        return Err(failed(format!(
            "nvcc would run a part of the path {} as a shell command: rename it",
            path.display()
        )));
    }
    if output.to_string_lossy().contains(',') {
        return Err(failed(format!(
            "nvcc cannot write to a path with a comma, {}: rename the directory, or set \
             CARGO_TARGET_DIR",
            output.display()
        )));
    }
    // An archiver adds to an existing archive, and a failing compiler may leave a partial file.
    output::remove(output)?;
    let finished = invocation.run()?;
    if !finished.success {
        output::remove(output)?;
        return Err(failed(finished.output()));
    }
    if !output::is_file(output) {
        let name = output.display();
        return Err(failed(format!(
            "{}the program reported success, but did not write {name}",
            finished.output()
        )));
    }
    Ok(finished.output())
}

/// Whether a path contains characters that a shell interprets between double quotes. nvcc 13.5 puts
/// the source, the output and its working directory between double quotes in shell commands: for a
/// source in the directory `$(touch x)`, it runs `touch x`.
fn has_shell_syntax(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.contains("$(") || text.contains(['`', '"'])
}
