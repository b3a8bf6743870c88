//! Programs, and where the real components are.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::components::site_packages;

/// The directory of CUDA 13 components: `nvidia/cu13`, with `bin/nvcc`. `None` where tests of
/// real components are left out.
pub fn toolkit13() -> Option<PathBuf> {
    let toolkit = site_packages(13)?.join("nvidia/cu13");
    assert!(toolkit.join("bin/nvcc").is_file(), "{} holds no bin/nvcc", toolkit.display());
    Some(toolkit)
}

/// Runs a program to its end.
pub fn output(command: &mut Command) -> Output {
    match command.output() {
        Ok(output) => output,
        Err(error) => panic!("could not run {command:?}: {error}"),
    }
}

/// What a program wrote, both streams.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
