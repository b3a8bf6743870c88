//! One step of a build, as a value: a command that makes one output.

use std::fmt;
use std::path::{Path, PathBuf};

use super::identity::Variables;
use super::launcher::Launcher;
use super::options::chooses_capabilities;
use crate::freshness::Freshness;
use crate::host_compiler::HostCompiler;
use crate::includes::SearchPath;
use crate::includes::options::FileOptions;
use crate::view::View;
use cuda_find_core::capability::{Capability, Plan};
use cuda_find_core::command::Invocation;
use cuda_find_core::env::Env;
use cuda_find_core::root::Root;
use cuda_find_core::toolkit::Toolkit;

/// nvcc's options for an object. Without `-objtemp` it contains a temporary file's name, which has a process ID.
pub(super) const OBJECT: [&str; 2] = ["-c", "-objtemp"];

/// What every step of a build depends on.
#[derive(Clone, Copy)]
pub(crate) struct Settings<'a> {
    pub(crate) toolkit: &'a Toolkit,
    pub(crate) plan: &'a Plan,
    /// The package: relative paths start here.
    pub(crate) package: &'a Path,
    /// `OUT_DIR`.
    pub(crate) out: &'a Path,
    /// The directory that NVRTC runs in: the package, under Cargo.
    pub(crate) working: &'a Path,
    /// [`identity::of_toolkit`](super::identity::of_toolkit).
    pub(crate) toolkit_identity: &'a str,
    /// The variables that nvcc reads.
    pub(crate) nvcc: &'a Variables,
    /// The variables that NVRTC reads.
    pub(crate) nvrtc: &'a Variables,
    /// The host compiler and its identity; `None` if nvcc compiles nothing.
    pub(crate) host: Option<(&'a HostCompiler, &'a str)>,
    /// The view whose nvcc is called; `None` to call nvcc where it is installed.
    pub(crate) view: Option<&'a View>,
    pub(crate) env: &'a Env,
    pub(crate) root: &'a Root,
    #[cfg_attr(
        not(feature = "host-sources"),
        expect(dead_code, reason = "for host sources")
    )]
    pub(crate) launcher: Option<&'a Launcher>,
}

/// The part of the key that all compile steps share. It has the package's path, because the path is
/// in the output: in debug information and in nvcc's names for static variables.
pub(super) fn step_key(
    tool: &str,
    source: &Path,
    settings: &Settings<'_>,
    variables: &[String],
) -> Vec<String> {
    let texts = [env!("CARGO_PKG_VERSION"), tool, settings.toolkit_identity];
    let paths = [source, settings.package, settings.working];
    let mut key: Vec<String> = texts.map(str::to_owned).to_vec();
    key.extend(paths.map(|path| format!("{path:?}")));
    key.extend(variables.iter().cloned());
    key
}

/// One command of a build, which makes one output.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The tool with its version: `nvcc 13.4.92`, `NVRTC 12.9`.
    pub(super) tool: String,
    /// The file that is compiled, as the build script names it; for an archive, its first source.
    pub(super) source: PathBuf,
    pub(super) compiler: Compiler,
    /// The images that the output contains; empty unless nvcc or NVRTC compiles.
    pub(super) images: Vec<Image>,
    pub(super) form: Form,
    /// The files that the step reads, as far as they are known before it runs.
    pub(super) inputs: Vec<PathBuf>,
    pub(super) output: PathBuf,
    /// Everything that the output depends on, except files and `images`: the toolkit's identity, the source's name,
    /// variables, every argument.
    pub(super) key: Vec<String>,
    /// How to find the other files that the step reads.
    pub(super) reading: ReadFiles,
    /// The name of the part, and how many processes may work on it at once.
    pub(super) limit: Option<(String, usize)>,
}

/// What makes an output.
#[derive(Clone, Debug)]
pub(super) enum Compiler {
    /// A program that does not compile device code: a host compiler, an archiver, nvcc as a linker.
    Program(Invocation),
    Nvcc {
        /// nvcc with the options that every source has.
        plain: Invocation,
        /// The options of this source.
        options: Vec<String>,
        /// The program that compiles the host code.
        host: PathBuf,
    },
    /// NVRTC, in this process.
    Nvrtc {
        /// `libnvrtc.so.<major>`.
        library: PathBuf,
        /// The source's path. NVRTC searches its directory for headers and prints it in messages.
        name: String,
        /// NVRTC's options, except the architecture.
        options: Vec<String>,
    },
}

/// The kind of file that contains the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// An object with host code.
    Object,
    Fatbin,
    /// One image alone.
    Single,
}

impl Step {
    /// What the output depends on besides files.
    pub(super) fn output_key(&self) -> u64 {
        let mut key = self.key.clone();
        if !self.images.is_empty() {
            key.push(Image::names(&self.images));
        }
        Freshness::key(&key)
    }

    /// The same without the list of architectures: what each image depends on.
    pub(super) fn image_key(&self) -> u64 {
        Freshness::key(&self.key)
    }

    /// How many processes can work on the step at once: nvcc compiles several architectures in parallel.
    pub(super) fn most_processes(&self) -> usize {
        match self.compiler {
            Compiler::Nvcc { .. } => self.images.len(),
            _ => 1,
        }
    }

    /// Whether an option or a variable sets the architectures for which nvcc compiles.
    pub(super) fn flags_choose_images(&self) -> bool {
        let mut words = self.key.iter().flat_map(|line| {
            let variable = line.split_once('=');
            let value = variable.filter(|(name, _)| name.starts_with("NVCC_"));
            value
                .map_or(line.as_str(), |(_, value)| value)
                .split([' ', '"'])
        });
        words.any(chooses_capabilities)
    }

    /// Whether an option makes nvcc compress machine code.
    pub(super) fn compresses_code(&self) -> bool {
        let options = ["compress", "-rdc=true", "device-code=true"];
        let mut lines = self.key.iter();
        lines.any(|line| options.iter().any(|option| line.contains(option)))
    }

    /// Whether NVRTC compiles the source.
    pub(super) fn uses_nvrtc(&self) -> bool {
        matches!(self.compiler, Compiler::Nvrtc { .. })
    }
}

/// Device code for one architecture. Prints as nvcc calls it: `sm_90a`, `compute_120`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
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

    pub(super) fn capability(self) -> Capability {
        match self {
            Self::Real(capability) | Self::Ptx(capability) => capability,
        }
    }

    /// nvcc's option for this architecture.
    pub(super) fn nvcc_option(self) -> String {
        format!("-gencode=arch={},code={self}", self.capability().compute())
    }

    /// Reads what `Display` writes.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let capability = name.parse().ok()?;
        Some(match name.starts_with("sm_") {
            true => Self::Real(capability),
            false => Self::Ptx(capability),
        })
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

    /// The capabilities of images, as a user declares them: `8.0, 9.0+PTX`.
    pub(super) fn shown(images: &[Self]) -> String {
        let mut shown: Vec<String> = Vec::new();
        for real in images.iter().filter(|image| matches!(image, Self::Real(_))) {
            shown.push(real.capability().to_string());
        }
        for ptx in images.iter().filter(|image| matches!(image, Self::Ptx(_))) {
            let number = ptx.capability().to_string();
            match shown.iter_mut().find(|shown| **shown == number) {
                Some(shown) => shown.push_str("+PTX"),
                None => shown.push(format!("{number} as PTX")),
            }
        }
        shown.join(", ")
    }

    /// The names of images, separated by spaces.
    pub(super) fn names(images: &[Self]) -> String {
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

/// How to find the files that a step reads.
#[derive(Clone, Debug)]
pub(crate) enum ReadFiles {
    /// The step reads only its inputs.
    Inputs,
    /// The step runs a compiler, which also reads headers.
    Headers {
        search: SearchPath,
        /// Headers that are included before the source's first line.
        headers: Vec<String>,
        /// The file in which the compiler lists what it read, if it is always the same.
        depfile: Option<PathBuf>,
        /// Unknown options, which may make the compiler read other files.
        not_understood: Vec<String>,
    },
}

/// What a compiler with these options reads, if it runs in `directory`. `more` are directories that variables name.
pub(super) fn reading(
    options: FileOptions,
    directory: &Path,
    more: &[PathBuf],
    toolkit: Vec<PathBuf>,
    depfile: Option<PathBuf>,
) -> ReadFiles {
    let directories = options.directories.iter().chain(more);
    ReadFiles::Headers {
        search: SearchPath {
            working: directory.to_owned(),
            directories: directories.map(|include| directory.join(include)).collect(),
            toolkit,
        },
        headers: options.headers,
        depfile,
        not_understood: options.not_understood,
    }
}

/// The file in which a compiler lists what it read for an output.
pub(super) fn depfile_of(output: &Path) -> PathBuf {
    with_ending(output, ".d")
}

/// A path with more characters at its end.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}
