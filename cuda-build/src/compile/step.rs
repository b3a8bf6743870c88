//! One unit of compiling, as a value.

use std::path::{Path, PathBuf};

use super::{Common, Format};
use crate::capability::Capability;
use crate::command::Invocation;
use crate::includes::{SearchPath, options};

/// Something that makes one output from sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What does it, with its version: `nvcc 13.4.92`, `NVRTC 12.9`.
    pub tool: String,
    /// The file that is compiled, as the build script names it; for an archive, its first source.
    pub source: PathBuf,
    /// How.
    pub action: Action,
    /// The files that are known to be read before the step runs.
    pub inputs: Vec<PathBuf>,
    /// What it makes.
    pub output: PathBuf,
    /// Everything but files that the output depends on: the toolkit's identity, the source's name,
    /// variables, every argument.
    pub key: Vec<String>,
    /// How it becomes known what else the step reads.
    pub(crate) reading: Reading,
}

/// How it becomes known what a step reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Its inputs and nothing else.
    Inputs,
    /// A compiler, which includes headers.
    Headers {
        search: SearchPath,
        /// Headers that are included before the source's first line.
        headers: Vec<String>,
        /// The file in which the compiler lists what it read.
        depfile: Option<PathBuf>,
        /// Options that may make it read files that are not found here.
        not_understood: Vec<String>,
    },
}

/// How a step is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run a program.
    Program(Invocation),
    /// Compile with NVRTC in this process.
    Nvrtc(NvrtcJob),
    /// Join the images of a module into a fat binary.
    Join(Vec<Image>),
}

/// One image for NVRTC to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvrtcJob {
    /// `libnvrtc.so.<major>`.
    pub library: PathBuf,
    /// The source as NVRTC opens the directory of it and names it in messages.
    pub name: String,
    /// Options, the architecture among them.
    pub options: Vec<String>,
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
    /// The option with which NVRTC makes it.
    #[must_use]
    pub fn option(self) -> String {
        match self {
            Self::Real(capability) => format!("--gpu-architecture={}", capability.sm()),
            Self::Ptx(capability) => format!("--gpu-architecture={}", capability.compute()),
        }
    }

    /// The image of module `saxpy` for 9.0: `saxpy.sm_90.cubin`, `saxpy.compute_90.ptx`.
    pub(super) fn file_name(self, module: &str) -> String {
        match self {
            Self::Real(capability) => {
                format!("{module}.{}.{}", capability.sm(), Format::Cubin.extension())
            }
            Self::Ptx(capability) => {
                format!(
                    "{module}.{}.{}",
                    capability.compute(),
                    Format::Ptx.extension()
                )
            }
        }
    }
}

/// Options for include directories and macros, as nvcc and NVRTC both take them. A relative
/// directory stays relative, so that no output holds the package's path, except if the compiler
/// does not run in the package: then `prefix` leads to it.
pub(super) fn common_options(common: &Common, prefix: &Path) -> Vec<String> {
    let mut options = Vec::new();
    for include in &common.includes {
        options.push(format!("-I{}", prefix.join(include).display()));
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

/// What a compiler with these options reads, if it runs in `directory`.
pub(super) fn reading<'o>(
    given: impl IntoIterator<Item = &'o str>,
    directory: &Path,
    toolkit: Vec<PathBuf>,
    depfile: Option<PathBuf>,
) -> Reading {
    let options::FileOptions {
        directories,
        headers,
        not_understood,
    } = options::read(given);
    let directories = directories
        .iter()
        .map(|include| directory.join(include))
        .collect();
    Reading::Headers {
        search: SearchPath {
            working: directory.to_owned(),
            directories,
            toolkit,
        },
        headers,
        depfile,
        not_understood,
    }
}
