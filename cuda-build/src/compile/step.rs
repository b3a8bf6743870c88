//! One step of a build, as a value: a command that makes one output.

use std::fmt;
use std::path::{Path, PathBuf};

use super::identity::{CompilerIdentities, Variables};
use crate::host_compiler::HostCompiler;
use crate::includes::SearchPath;
use crate::includes::options::{self, FileOptions};
use crate::nvcc_options::chooses_capabilities;
use crate::view::View;
use cuda_find_core::capability::{Capability, Plan};
use cuda_find_core::{
    command::Invocation,
    hash::{Digest, Hasher},
    toolkit::Toolkit,
};

/// What the steps of a build are made from.
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
    pub(crate) compilers: &'a CompilerIdentities,
    /// The variables that nvcc reads.
    pub(crate) nvcc: &'a Variables,
    /// The variables that NVRTC reads.
    pub(crate) nvrtc: &'a Variables,
    /// The host compiler; `None` if nvcc compiles nothing.
    pub(crate) host: Option<&'a HostCompiler>,
    /// The view whose nvcc is called; `None` to call nvcc where it is installed.
    pub(crate) view: Option<&'a View>,
}

/// One command of a build, which makes one output.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The tool with its version, as messages show it: `nvcc 13.4.92`, `NVRTC 12.9`.
    pub(super) tool: String,
    pub(super) command: StepCommand,
    /// A digest of the files of the compilers, from [`CompilerIdentities`].
    pub(super) identity: String,
    /// The directory in which the tool runs, and in which relative paths start. It is in the output: in debug
    /// information, and in nvcc's names for static variables.
    pub(super) directory: PathBuf,
    /// The file that is compiled, as the build script names it; for an archive, its first source.
    pub(super) source: PathBuf,
    /// The options of this source, without architectures.
    pub(super) options: Vec<String>,
    /// The images that the output contains; empty unless nvcc or NVRTC compiles.
    pub(super) images: Vec<Image>,
    pub(super) form: Form,
    /// The files that the command names.
    pub(super) inputs: Vec<PathBuf>,
    pub(super) output: PathBuf,
    /// The variables that the tool reads.
    pub(super) variables: Variables,
    /// How to find the other files that the step reads.
    pub(super) reading: ReadFiles,
    /// The name of the part, and how many processes may work on it at once.
    pub(super) limit: Option<(String, usize)>,
}

/// What makes an output.
#[derive(Clone, Debug)]
pub(super) enum StepCommand {
    /// A program that does not compile: nvcc as an archiver or linker.
    Program(Invocation),
    Nvcc {
        /// nvcc with the options that every source has.
        shared: Invocation,
        /// Whether its assembler lists the files that it reads: GNU's does.
        lists_assembled: bool,
    },
    /// NVRTC, in this process.
    Nvrtc {
        /// `libnvrtc.so.<major>`.
        library: PathBuf,
        /// The source's path. NVRTC searches its directory for headers and prints it in messages.
        name: String,
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

/// Replaces the paths in a text whose place does not matter.
pub(super) type Shorten<'a> = &'a dyn Fn(String) -> String;

/// A digest of fields. The length of each field, and of each list, is in it.
struct KeyDigest<'a> {
    hasher: Hasher,
    shorten: Shorten<'a>,
}

impl KeyDigest<'_> {
    fn field(&mut self, text: impl fmt::Debug) {
        // `{:?}` gives different text for different paths that are not valid UTF-8.
        let text = (self.shorten)(format!("{text:?}"));
        self.hasher.field(text.as_bytes());
    }

    fn invocation(&mut self, invocation: &Invocation) {
        let Invocation {
            program,
            arguments,
            variables,
            directory,
        } = invocation;
        self.field(program);
        self.field(arguments);
        self.field(variables);
        self.field(directory);
    }
}

impl Step {
    /// A digest of everything on which the output depends, except the contents of files. A new field does not compile
    /// here until it is decided whether it belongs to the key.
    pub(super) fn key(&self) -> Digest {
        self.digest(Some(&self.images), &|text| text)
    }

    /// The same without the list of architectures: what each image depends on.
    pub(super) fn image_key(&self, shorten: Shorten<'_>) -> Digest {
        self.digest(None, shorten)
    }

    fn digest(&self, list: Option<&[Image]>, shorten: Shorten<'_>) -> Digest {
        let Self {
            tool,
            command,
            identity,
            directory,
            source,
            options,
            images: _,
            form,
            inputs,
            output,
            variables,
            // Follows from options, variables and the toolkit.
            reading: _,
            // Decides when the step runs, not what it makes.
            limit: _,
        } = self;
        let hasher = Hasher::default();
        let mut key = KeyDigest { hasher, shorten };
        key.field((env!("CARGO_PKG_VERSION"), tool));
        match command {
            StepCommand::Program(invocation) => key.invocation(invocation),
            StepCommand::Nvcc {
                shared,
                // Follows from `identity`.
                lists_assembled: _,
            } => key.invocation(shared),
            StepCommand::Nvrtc { library, name } => key.field((library, name)),
        }
        key.field(identity);
        key.field(directory);
        key.field(source);
        key.field(options);
        key.field(list);
        key.field(form);
        key.field(inputs);
        key.field(output.file_name());
        // A compiler may divide the text of a macro among instructions: its paths are not found in the output then.
        let texts = options.iter().chain(&variables.settings);
        for text in texts.filter(|text| text.contains('=')) {
            key.hasher.field(text.as_bytes());
        }
        key.hasher.digest()
    }

    /// How many processes can work on the step at once: nvcc compiles several architectures in parallel.
    pub(super) fn most_processes(&self) -> usize {
        match self.command {
            StepCommand::Nvcc { .. } => self.images.len().max(1),
            _ => 1,
        }
    }

    /// Whether an option or a variable sets the architectures for which nvcc compiles.
    pub(super) fn options_choose_images(&self) -> bool {
        let mut words = self.options.iter().chain(&self.variables.options);
        words.any(|word| chooses_capabilities(word))
    }

    /// Whether NVRTC compiles the source.
    pub(super) fn uses_nvrtc(&self) -> bool {
        matches!(self.command, StepCommand::Nvrtc { .. })
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
        match name.split_once('_')?.0 {
            "sm" => Some(Self::Real(capability)),
            "compute" => Some(Self::Ptx(capability)),
            _ => None,
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

    /// The capabilities of images, as a user declares them: `8.0, 9.0+PTX`.
    pub(super) fn shown(images: &[Self]) -> String {
        let mut plan = Plan::default();
        for image in images {
            match image {
                Self::Real(capability) => plan.real.push(*capability),
                Self::Ptx(capability) => plan.ptx.push(*capability),
            }
        }
        plan.to_string()
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
        /// Unknown options, which may make the compiler read other files.
        not_understood: Vec<String>,
    },
}

/// What nvcc with these options and variables reads, if it runs in `directory`.
pub(super) fn reading_of_nvcc(
    options: &[String],
    variables: &Variables,
    directory: &Path,
    toolkit: Vec<PathBuf>,
) -> ReadFiles {
    let options = options.iter().chain(&variables.options);
    let read = options::read(options.map(String::as_str));
    reading_with_profile(read, variables, directory, toolkit)
}

/// What nvcc reads with these options, and because of the variables that its profile reads.
pub(super) fn reading_with_profile(
    mut read: FileOptions,
    variables: &Variables,
    directory: &Path,
    toolkit: Vec<PathBuf>,
) -> ReadFiles {
    let profile = options::read_host(variables.profile_options.iter().map(String::as_str));
    read.directories.extend(profile.directories);
    read.directories
        .extend(variables.directories.iter().cloned());
    read.not_understood.extend(profile.not_understood);
    reading(read, directory, toolkit)
}

/// What a compiler with these options reads, if it runs in `directory`.
pub(super) fn reading(options: FileOptions, directory: &Path, toolkit: Vec<PathBuf>) -> ReadFiles {
    let directories = options.directories.iter();
    ReadFiles::Headers {
        search: SearchPath {
            working: directory.to_owned(),
            directories: directories.map(|include| directory.join(include)).collect(),
            toolkit,
        },
        headers: options.headers,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step(command: StepCommand) -> Step {
        Step {
            tool: "nvcc 1".to_owned(),
            command,
            identity: "files".to_owned(),
            directory: "package".into(),
            source: "a.cu".into(),
            options: vec!["-a".to_owned(), "b".to_owned()],
            images: vec![Image::Real(Capability::new(8, 0))],
            form: Form::Object,
            inputs: vec!["package/a.cu".into(), "b.o".into()],
            output: "out/a.o".into(),
            variables: Variables {
                settings: vec!["A=1".to_owned()],
                ..Variables::default()
            },
            reading: ReadFiles::Inputs,
            limit: None,
        }
    }

    fn invocation() -> Invocation {
        Invocation {
            program: "program".into(),
            arguments: vec!["-a".into(), "b".into()],
            variables: vec![("A".to_owned(), "1".into())],
            directory: Some("package".into()),
        }
    }

    /// Each way to change one thing on which the output depends.
    fn changes() -> Vec<fn(&mut Step)> {
        // Without `..`, so that a new field does not compile until a change of it is in the list.
        let Step {
            tool: _,
            command: _,
            identity: _,
            directory: _,
            source: _,
            options: _,
            images: _,
            form: _,
            inputs: _,
            output: _,
            variables: _,
            reading: _,
            limit: _,
        } = step(StepCommand::Program(invocation()));
        vec![
            |step| step.tool.push('2'),
            |step| step.identity.push('2'),
            |step| step.directory.push("2"),
            |step| step.source.set_extension("cuh").then_some(()).unwrap(),
            |step| step.options[1].push('2'),
            |step| step.options = vec!["-a b".to_owned()],
            |step| step.images[0] = Image::Real(Capability::new(9, 0)),
            |step| step.images[0] = Image::Ptx(Capability::new(8, 0)),
            |step| step.form = Form::Fatbin,
            // The same name in another directory: a prebuilt object that is exchanged.
            |step| step.inputs[1] = "other/b.o".into(),
            |step| step.inputs.swap(0, 1),
            |step| drop(step.inputs.pop()),
            |step| step.output = "out/b.o".into(),
            |step| step.variables.settings[0].push('2'),
        ]
    }

    #[test]
    fn every_field_changes_the_key() {
        for change in changes() {
            let mut changed = step(StepCommand::Program(invocation()));
            let before = changed.clone();
            change(&mut changed);
            assert_ne!(before.key(), changed.key(), "{before:?}\n{changed:?}");
        }
        let mut keys = std::collections::HashSet::new();
        let programs: [fn(&mut Invocation); 6] = [
            |_| {},
            |it| it.program.push("2"),
            |it| it.arguments[1].push("2"),
            |it| it.arguments.swap(0, 1),
            |it| it.variables[0].1.push("2"),
            |it| it.directory = None,
        ];
        for change in programs {
            let mut invocation = invocation();
            change(&mut invocation);
            keys.insert(step(StepCommand::Program(invocation.clone())).key());
            let nvcc = StepCommand::Nvcc {
                shared: invocation,
                lists_assembled: false,
            };
            keys.insert(step(nvcc).key());
        }
        for (library, name) in [("a", "b"), ("2", "b"), ("a", "2")] {
            let (library, name) = (library.into(), name.to_owned());
            keys.insert(step(StepCommand::Nvrtc { library, name }).key());
        }
        // A program and nvcc with the same words differ in their images.
        assert_eq!(keys.len(), programs.len() + 3);
    }

    #[test]
    fn an_image_does_not_depend_on_the_list_or_on_named_directories() {
        let mut other = step(StepCommand::Program(invocation()));
        let shorten: Shorten<'_> = &|text| text.replace("elsewhere", "package");
        let key = other.image_key(shorten);
        other.images.push(Image::Ptx(Capability::new(9, 0)));
        other.directory = "elsewhere".into();
        assert_eq!(other.image_key(shorten), key);
        assert_ne!(other.image_key(&|text| text), key);
        // A macro has its path itself.
        let texts: [fn(&mut Step) -> &mut Vec<String>; 2] = [
            |step| &mut step.options,
            |step| &mut step.variables.settings,
        ];
        for texts in texts {
            let [one, two] = ["package", "elsewhere"].map(|path| {
                let mut step = other.clone();
                texts(&mut step).push(format!("-DPATH={path}"));
                step.image_key(shorten)
            });
            assert_ne!(one, two);
        }
    }
}
