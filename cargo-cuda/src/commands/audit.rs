//! `cargo cuda audit`: checks wheels and libraries that any program built.

use std::path::PathBuf;

use clap::Args;

use crate::audit::check::{Code, Severity};
use crate::audit::input;
use crate::audit::report::{Audited, Report};
use crate::exit_code;
use crate::failure::Failure;
use crate::output::printable;
use crate::report;

/// Check wheels, libraries and directories of any builder
#[derive(Args, Clone, Debug)]
pub struct AuditArgs {
    /// Wheels, shared libraries, and directories with wheels, or with unpacked or installed packages
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Do not count the findings of a check, as in `--allow W07`; can be repeated
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    allow: Vec<Code>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Returns the report with the exit code.
pub fn run(arguments: &AuditArgs) -> Result<(String, u8), Failure> {
    let artifacts = input::expand(&arguments.files)?
        .iter()
        .map(|path| Ok(Audited::new(&input::read(path)?, &arguments.allow)))
        .collect::<Result<Vec<Audited>, Failure>>()?;
    let has_errors = artifacts
        .iter()
        .any(|audited| !audited.of_severity(Severity::Error).is_empty());
    let code = match has_errors {
        true => exit_code::AUDIT,
        false => exit_code::SUCCESS,
    };
    let report = Report { artifacts };
    let text = match arguments.json {
        true => report::json(&report),
        false => {
            let texts = report.artifacts.iter().map(|audited| audited.text());
            // File names come from the wheel.
            printable(&texts.collect::<Vec<_>>().join("\n"))
        }
    };
    Ok((text, code))
}
