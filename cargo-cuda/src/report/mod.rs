//! Reports: what `doctor` found, and JSON for all commands.

pub mod driver;
mod evidence;
mod findings;
mod layout;
pub mod machine;
mod summary;
mod verdict;

use std::path::Path;

use serde::Serialize;

pub use findings::{
    Capabilities, Findings, HostCompilerFindings, LauncherFindings, MissingComponent, Problem,
    Program,
};
pub use layout::Layout;

/// Incremented when a field changes its meaning or is removed, but not for new fields.
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
    // Cannot fail: reports contain only types that JSON supports.
    let text = serde_json::to_string_pretty(&versioned).unwrap_or_default();
    format!("{text}\n")
}

/// A path in a report. Bytes that are not UTF-8 are replaced, because JSON is UTF-8.
pub fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
