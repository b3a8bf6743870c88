//! One step of a build, as a value.

use std::path::{Path, PathBuf};

use super::{Common, Format};
use crate::capability::Capability;
use crate::command::Invocation;
use crate::includes::SearchPath;
use crate::includes::options::FileOptions;

/// One command of a build, which makes one output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The tool with its version: `nvcc 13.4.92`, `NVRTC 12.9`.
    pub tool: String,
    /// The file that is compiled, as the build script names it; for an archive, its first source.
    pub source: PathBuf,
    /// What the step does.
    pub action: Action,
    /// The files that are known to be read before the step runs.
    pub inputs: Vec<PathBuf>,
    /// The file that the step makes.
    pub output: PathBuf,
    /// Everything that the output depends on, except files: the toolkit's identity, the source's name,
    /// variables, every argument.
    pub key: Vec<String>,
    /// How to find the other files that the step reads.
    pub(crate) reading: ReadFiles,
}

/// How to find the files that a step reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadFiles {
    /// The step reads only its inputs.
    Inputs,
    /// The step runs a compiler, which also reads headers.
    Headers {
        search: SearchPath,
        /// Headers that are included before the source's first line.
        headers: Vec<String>,
        /// The file in which the compiler lists what it read.
        depfile: Option<PathBuf>,
        /// Unknown options, which may make the compiler read other files.
        not_understood: Vec<String>,
    },
}

/// What a step does.
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
    /// The source's path. NVRTC searches its directory for headers and prints it in messages.
    pub name: String,
    /// NVRTC's options, including the architecture.
    pub options: Vec<String>,
}

/// Device code for one architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// SASS for a real architecture.
    Real(Capability),
    /// PTX for a virtual architecture.
    Ptx(Capability),
}

impl Image {
    /// The NVRTC option for this architecture.
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

/// Options for include directories and macros, in a form that nvcc and NVRTC both accept. A relative
/// directory stays relative, so that no output contains the package's path. If the compiler does
/// not run in the package, `prefix` is the path to the package.
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
pub(super) fn reading(
    options: FileOptions,
    directory: &Path,
    toolkit: Vec<PathBuf>,
    depfile: Option<PathBuf>,
) -> ReadFiles {
    let FileOptions {
        directories,
        headers,
        not_understood,
    } = options;
    let directories = directories
        .iter()
        .map(|include| directory.join(include))
        .collect();
    ReadFiles::Headers {
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
