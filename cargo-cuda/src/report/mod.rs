//! Reports: what `doctor` found, and JSON for all commands.

pub mod driver;
mod findings;
pub mod machine;
mod text;
mod verdict;

use std::path::Path;

use serde::Serialize;

pub use findings::{Capabilities, Findings, Host, Problem, Program};

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
const FORMAT_VERSION: u32 = 1;

/// A report as one JSON object and a newline.
pub fn json(report: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Versioned<'a, T> {
        format_version: u32,
        #[serde(flatten)]
        report: &'a T,
    }
    let versioned = Versioned {
        format_version: FORMAT_VERSION,
        report,
    };
    // Reports hold strings, numbers and lists of them: nothing that JSON cannot hold.
    let text = serde_json::to_string_pretty(&versioned).unwrap_or_default();
    format!("{text}\n")
}

/// A path in a report. Bytes that are not UTF-8 are replaced: JSON cannot hold them.
pub fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
