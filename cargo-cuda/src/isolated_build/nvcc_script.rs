//! The script that is `bin/nvcc` in the view of a build. It starts the nvcc wrapper.

use std::ffi::{OsStr, OsString};

use cuda_build::ToolkitVersion;
use cuda_find_core::command::quoted;

use super::TargetDirectory;

/// The argument that makes this program the wrapper.
pub const COMMAND: &str = "nvcc-wrapper";

/// The variable that turns the wrapper off, with the value 0.
pub const VARIABLE: &str = "CUDA_BUILD_WRAPPER";

/// The argument after those of the script, before those of the call.
pub const END_OF_SCRIPT: &str = "--";

/// What the wrapper has to know about a build.
pub struct Settings<'a> {
    pub directory: &'a TargetDirectory,
    /// The components that compile.
    pub compiler_identity: String,
    pub release: ToolkitVersion,
    /// The number of the capability in `CUDA_COMPUTE_CAP`, as `80`; 0 if there is none.
    pub single: u32,
    /// The list of the build; empty if calls stay as they are.
    pub list: String,
    /// The lists of single packages, each with the name of its variable.
    pub lists_of_packages: &'a [(&'a str, &'a OsStr)],
}

/// The script for a build. It names everything that decides what nvcc makes, so that launchers such as sccache and ccache
/// take it for another compiler after a change: they do not know the variables of this program.
pub fn script(settings: &Settings<'_>) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "cargo-cuda".into());
    let mut words = vec![
        program.into_os_string(),
        COMMAND.into(),
        settings.directory.path.clone().into(),
        settings.single.to_string().into(),
        settings.release.to_string().into(),
        settings.list.clone().into(),
    ];
    for (variable, list) in settings.lists_of_packages {
        let mut word = OsString::from(format!("{variable}="));
        word.push(list);
        words.push(word);
    }
    words.push(END_OF_SCRIPT.into());
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!(
        "#!/bin/sh\n# CUDA {} {}\nexec {} \"$@\"\n",
        settings.release,
        settings.compiler_identity,
        words.join(" ")
    )
}
