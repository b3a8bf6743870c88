//! The script that is `bin/nvcc` in the view of a build. It starts the nvcc wrapper.

use cuda_build::ToolkitVersion;
use cuda_find_core::command::quoted;

use super::TargetDirectory;

/// The argument that makes this program the wrapper.
pub const COMMAND: &str = "nvcc-wrapper";

/// The variable that turns the wrapper off, with the value 0.
pub const VARIABLE: &str = "CUDA_BUILD_WRAPPER";

/// The script for a build. It names everything that decides what nvcc makes, so that launchers such as sccache take it
/// for another compiler after a change.
pub fn script(
    directory: &TargetDirectory,
    identity: &str,
    single: u32,
    release: ToolkitVersion,
    list: &str,
) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "cargo-cuda".into());
    let words = [
        program.into_os_string(),
        COMMAND.into(),
        directory.path.clone().into(),
        single.to_string().into(),
        release.to_string().into(),
        list.into(),
    ];
    let words = words.map(|word| quoted(&word));
    format!("#!/bin/sh\n# {identity}\nexec {} \"$@\"\n", words.join(" "))
}
