//! `cargo cuda audit`: checks wheels and libraries that any program built.

use std::path::PathBuf;

use clap::Args;

use crate::audit::artifact::Artifact;
use crate::audit::check::{self, Severity};
use crate::audit::report::Audited;
use crate::exit_code;
use crate::failure::Result;
use crate::output::{joined, printable};
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
pub fn run(arguments: &AuditArgs) -> Result<(String, u8)> {
    let mut artifacts = Vec::new();
    let mut code = exit_code::SUCCESS;
    for path in &arguments.files {
        let audited = Audited::new(&Artifact::read(path)?, &arguments.allow);
        if !audited.of_severity(Severity::Error).is_empty() {
            code = exit_code::AUDIT;
        }
        artifacts.push(audited);
    }
    let text = match arguments.json {
        true => report::json_list("artifacts", &artifacts),
        // File names come from the wheel.
        false => printable(&joined(artifacts.iter().map(Audited::text), "\n")),
    };
    Ok((text, code))
}
