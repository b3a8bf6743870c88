//! `cargo cuda audit`: checks wheels and libraries that any program built.

use std::path::PathBuf;

use clap::Args;

use crate::audit::artifact::Artifact;
use crate::audit::check::{self, Severity};
use crate::audit::report::Audited;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::printable;
use crate::report;

/// Check wheels and libraries of any builder
#[derive(Args, Clone, Debug)]
pub struct AuditArgs {
    /// Wheels and shared libraries
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Do not count the findings of a check, as in `--allow W07`; can be repeated
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = check::codes(), ignore_case = true)]
    allow: Vec<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Returns the report with the exit code.
pub fn run(arguments: &AuditArgs) -> Result<(String, u8), Failure> {
    let artifacts = arguments
        .files
        .iter()
        .map(|path| Ok(Audited::new(&Artifact::read(path)?, &arguments.allow)))
        .collect::<Result<Vec<Audited>, Failure>>()?;
    let has_errors = |audited: &Audited| !audited.of_severity(Severity::Error).is_empty();
    let code = match artifacts.iter().any(has_errors) {
        true => exit_code::AUDIT,
        false => exit_code::SUCCESS,
    };
    let text = match arguments.json {
        true => report::json_list("artifacts", &artifacts),
        false => {
            let texts = artifacts.iter().map(Audited::text);
            // File names come from the wheel.
            printable(&texts.collect::<Vec<_>>().join("\n"))
        }
    };
    Ok((text, code))
}
