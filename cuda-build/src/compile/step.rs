//! One unit of compiling, as a value.

use std::path::{Path, PathBuf};

use super::{Common, Format};
use crate::cache;
use crate::capability::Capability;
use crate::command::Invocation;

/// Something that makes one output from sources. `--dry-run` prints it, the runner runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What does it, with its version: `nvcc 13.4.92`, `NVRTC 12.9`.
    pub tool: String,
    /// The file that is compiled; for an archive, the first of its members.
    pub source: PathBuf,
    /// How.
    pub action: Action,
    /// Everything read that is known beforehand.
    pub inputs: Vec<PathBuf>,
    /// Where the compiler says what else it read.
    pub depfile: Option<PathBuf>,
    /// What it makes.
    pub output: PathBuf,
    /// The tool's identity and every argument: what, beside the inputs, the output depends on.
    pub key: Vec<String>,
}

/// How a step is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run a program.
    Program(Invocation),
    /// Compile with NVRTC in this process.
    Nvrtc(NvrtcJob),
}

/// A module for NVRTC: one call per image, joined into one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvrtcJob {
    /// `libnvrtc.so.<major>`.
    pub library: PathBuf,
    /// The source as the program calls it in messages: relative to the package, so that
    /// outputs do not depend on where the package lies.
    pub name: String,
    /// Options of every call.
    pub options: Vec<String>,
    /// Directories of the user's own headers.
    pub includes: Vec<PathBuf>,
    /// Directories of the toolkit's headers.
    pub toolkit_includes: Vec<PathBuf>,
    /// What to make, SASS first.
    pub images: Vec<Image>,
    /// The file that comes out.
    pub format: Format,
}

/// One piece of device code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// SASS for a real architecture.
    Real(Capability),
    /// PTX for a virtual architecture.
    Ptx(Capability),
}

impl Image {
    /// What to tell NVRTC.
    #[must_use]
    pub fn option(self) -> String {
        match self {
            Self::Real(capability) => format!("--gpu-architecture={}", capability.sm()),
            Self::Ptx(capability) => format!("--gpu-architecture={}", capability.compute()),
        }
    }
}

/// Options for include directories and macros, as nvcc and NVRTC both take them.
pub(super) fn common_options(common: &Common, directory: &Path) -> Vec<String> {
    let mut options = Vec::new();
    for include in &common.includes {
        options.push(format!("-I{}", directory.join(include).display()));
    }
    for (name, value) in &common.defines {
        options.push(match value {
            Some(value) => format!("-D{name}={value}"),
            None => format!("-D{name}"),
        });
    }
    options.extend(common.options.iter().cloned());
    options
}

/// The key of a step: identities of the files that act, then every argument.
pub(super) fn key(
    tool: &str,
    files: &[&Path],
    arguments: impl IntoIterator<Item = String>,
) -> Vec<String> {
    let mut key = vec![tool.to_owned()];
    key.extend(files.iter().map(|file| cache::identity(file)));
    key.extend(arguments);
    key
}
