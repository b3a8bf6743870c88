//! The result of running steps.

use std::path::PathBuf;
use std::time::Duration;

/// The result of running steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// Outputs that were made, in the order of the steps.
    pub made: Vec<MadeOutput>,
    /// Outputs that were up to date.
    pub fresh: Vec<PathBuf>,
    /// Every file that was read and every directory that was searched, sorted.
    pub inputs: Vec<PathBuf>,
    /// Outputs that are made again whenever the build script runs, and the reason.
    pub never_fresh: Vec<(PathBuf, String)>,
    /// Warnings and other messages of the compilers, each with its source line and caret.
    pub warnings: Vec<String>,
}

/// An output that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeOutput {
    /// The file.
    pub output: PathBuf,
    /// The tool: `NVRTC 13.4.92`.
    pub tool: String,
    /// Why it was made.
    pub reason: String,
    /// The architectures of each call of the compiler: `sm_80 sm_90`. Empty if nothing had to be
    /// compiled.
    pub compiled: Vec<String>,
    /// How long it took.
    pub elapsed: Duration,
}
