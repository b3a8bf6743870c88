//! One step of a build, as a value.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Common;
use crate::capability::{Capability, Plan};
use crate::command::Invocation;
use crate::freshness::Freshness;
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
    /// The files that the step reads, as far as they are known before it runs.
    pub inputs: Vec<PathBuf>,
    /// The file that the step makes.
    pub output: PathBuf,
    /// Everything that the output depends on, except files: the toolkit's identity, the source's name,
    /// variables, every argument.
    pub key: Vec<String>,
    /// How to find the other files that the step reads.
    pub(crate) reading: ReadFiles,
}

impl Step {
    /// What the output depends on besides files.
    pub(super) fn output_key(&self) -> u64 {
        let mut key = self.key.clone();
        if let Action::DeviceCode(code) = &self.action {
            key.push(Image::names(&code.images));
        }
        Freshness::key(&key)
    }

    /// The same without the list of architectures: what each image depends on.
    pub(super) fn image_key(&self) -> u64 {
        Freshness::key(&self.key)
    }

    /// How many processes can work on the step at once: nvcc compiles several architectures in parallel.
    pub(super) fn most_processes(&self) -> usize {
        match &self.action {
            Action::DeviceCode(code) if !self.uses_nvrtc() => code.images.len(),
            _ => 1,
        }
    }

    /// Whether an option or a variable makes nvcc compile for architectures of its own.
    pub(super) fn chooses_images(&self) -> bool {
        let names = [
            "-arch",
            "-gpu-architecture",
            "-code",
            "-gpu-code",
            "-gencode",
            "-generate-code",
        ];
        let mut words = self.key.iter().flat_map(|line| {
            let value = line
                .split_once('=')
                .filter(|(name, _)| name.starts_with("NVCC_"));
            value
                .map_or(line.as_str(), |(_, value)| value)
                .split([' ', '"'])
        });
        words.any(|word| {
            let name = word.split('=').next().unwrap_or_default();
            names.contains(&name) || name.starts_with("--") && names.contains(&&name[1..])
        })
    }

    /// Whether NVRTC compiles the source.
    pub(super) fn uses_nvrtc(&self) -> bool {
        matches!(&self.action, Action::DeviceCode(code) if matches!(code.compiler, Compiler::Nvrtc(_)))
    }
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
        /// The directory that the compiler runs in: paths in depfiles start there.
        directory: PathBuf,
        /// The file in which the compiler lists what it read, if it is always the same.
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
    /// Compile device code for several architectures, one image for each.
    DeviceCode(DeviceCode),
}

/// A source that is compiled for several architectures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCode {
    /// What the output contains.
    pub images: Vec<Image>,
    /// The form of the output.
    pub form: Form,
    /// What compiles it.
    pub compiler: Compiler,
}

/// The kind of file that contains the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An object with host code.
    Object,
    /// A fat binary.
    Fatbin,
    /// One image alone.
    Single,
}

/// The compiler of device code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// nvcc.
    Nvcc {
        /// nvcc with the options that every source has.
        plain: Invocation,
        /// The options of this source.
        options: Vec<String>,
        /// The program that compiles the host code.
        host: PathBuf,
    },
    /// NVRTC, in this process.
    Nvrtc(NvrtcJob),
}

/// A source for NVRTC to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvrtcJob {
    /// `libnvrtc.so.<major>`.
    pub library: PathBuf,
    /// The source's path. NVRTC searches its directory for headers and prints it in messages.
    pub name: String,
    /// NVRTC's options, except the architecture.
    pub options: Vec<String>,
}

/// Device code for one architecture. Prints as nvcc calls it: `sm_90a`, `compute_120`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// SASS for a real architecture.
    Real(Capability),
    /// PTX for a virtual architecture.
    Ptx(Capability),
}

impl Image {
    /// The images of a plan: SASS, then PTX.
    pub(super) fn of_plan(plan: &Plan) -> Vec<Self> {
        let real = plan.real.iter().copied().map(Self::Real);
        real.chain(plan.ptx.iter().copied().map(Self::Ptx))
            .collect()
    }

    /// The capability that it is for.
    #[must_use]
    pub fn capability(self) -> Capability {
        match self {
            Self::Real(capability) | Self::Ptx(capability) => capability,
        }
    }

    /// NVRTC's option for this architecture.
    #[must_use]
    pub fn nvrtc_option(self) -> String {
        format!("--gpu-architecture={self}")
    }

    /// nvcc's option for this architecture.
    pub(super) fn nvcc_option(self) -> String {
        format!("-gencode=arch={},code={self}", self.capability().compute())
    }

    /// Reads what `Display` writes.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let capability = name.parse().ok()?;
        if name.starts_with("sm_") {
            Some(Self::Real(capability))
        } else {
            Some(Self::Ptx(capability))
        }
    }

    /// nvcc's order in a container: by architecture in the order of the command line, PTX first.
    pub(super) fn in_nvcc_order(images: &[Self]) -> Vec<Self> {
        let mut ordered = Vec::with_capacity(images.len());
        for image in images {
            let capability = image.capability();
            for image in [Self::Ptx(capability), Self::Real(capability)] {
                if images.contains(&image) && !ordered.contains(&image) {
                    ordered.push(image);
                }
            }
        }
        ordered
    }

    /// The names of images, separated by spaces.
    pub(crate) fn names(images: &[Self]) -> String {
        let names: Vec<String> = images.iter().map(Self::to_string).collect();
        names.join(" ")
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Real(capability) => capability.sm(),
            Self::Ptx(capability) => capability.compute(),
        })
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
        directory: directory.to_owned(),
        depfile,
        not_understood,
    }
}
