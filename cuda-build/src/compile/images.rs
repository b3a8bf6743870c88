//! Makes an output with device code: takes the images that earlier builds kept, compiles what is
//! missing, and joins them.
//!
//! The first compile of a file is one call of nvcc for all architectures. After that a new
//! architecture is compiled alone, without host code, and one that is not wanted any more is left
//! out. The file is compiled as a whole again if joining could give another result than one call of nvcc:
//! if the preprocessed source depends on the list of architectures (`__CUDA_ARCH_LIST__`, which CUB and
//! Thrust put into the names of symbols), if the architectures do not define the same kernels and variables,
//! or if objects of this nvcc cannot be joined.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::execute::execute;
use super::joining::{self, Joining};
use super::kept::Kept;
use super::launcher::Launch;
use super::module::depfile_of;
use super::run_directory::RunDirectory;
use super::{Compiler, DeviceCode, Form, Image, NvrtcJob, Step};
use crate::command::Invocation;
use crate::error::Error;
use crate::fatbin::{self, Entry, Fatbin, Kind, elf};
use crate::list::{Set, sorted_set};
use crate::nvrtc::{Nvrtc, Program};
use crate::output;

/// The options for an object. Without `-objtemp` it contains a temporary file's name, which has a
/// process ID.
pub(super) const OBJECT: [&str; 3] = ["-c", "-objtemp", "--compiler-options=-fPIC"];

/// Which of the files that a step reads mention `__CUDA_ARCH_LIST__`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListUse {
    /// No file.
    None,
    /// Only headers of the toolkit, which use it in names of symbols. The preprocessed text of the source shows
    /// whether such a name is used.
    Toolkit,
    /// A file of the user, in which any code can depend on it.
    User,
}

/// Everything that is needed to make one output.
pub(super) struct Work<'a> {
    pub(super) step: &'a Step,
    pub(super) code: &'a DeviceCode,
    pub(super) kept: Vec<Kept>,
    pub(super) list_use: ListUse,
    pub(super) joining: &'a Joining,
    /// How an object is compiled through the launcher of this build.
    pub(super) launch: Option<Launch>,
    /// How many processes nvcc may run at once.
    pub(super) threads: usize,
    pub(super) nvrtc: Option<NvrtcInput>,
    pub(super) run: Arc<RunDirectory>,
}

/// What NVRTC is given besides options.
pub(super) struct NvrtcInput {
    pub(super) nvrtc: Arc<Nvrtc>,
    pub(super) source: Vec<u8>,
    pub(super) headers: Vec<(String, String)>,
}

/// One successful call of a compiler.
pub(super) struct CompilerRun {
    pub(super) images: Vec<Image>,
    pub(super) output: Vec<u8>,
    /// Whether the output has exactly these images, so that other builds can use them.
    pub(super) keep: bool,
    /// The file in which nvcc listed what it read.
    pub(super) depfile: Option<PathBuf>,
}

/// How an output was made.
#[derive(Default)]
pub(super) struct Made {
    /// The compiler's calls.
    pub(super) compiled: Vec<CompilerRun>,
    /// Which of the kept outputs were used.
    pub(super) used: Vec<usize>,
    /// What the compilers printed.
    pub(super) printed: String,
    /// Why the file is compiled as a whole although outputs of it were kept.
    pub(super) whole_because: Option<String>,
}

/// Why an output cannot be made from kept images.
enum NotFromKept {
    Because(String),
    Failed(Error),
}

impl From<Error> for NotFromKept {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<String> for NotFromKept {
    fn from(reason: String) -> Self {
        Self::Because(reason)
    }
}

/// The images of one call of a compiler.
struct Part<'a> {
    entries: Vec<Entry>,
    /// The object, if it has host code.
    object: Option<&'a [u8]>,
    /// Its number among the kept outputs.
    kept: Option<usize>,
}

impl Work<'_> {
    /// Makes the output.
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's messages; [`Error::Io`], [`Error::Format`].
    pub(super) fn make(&self) -> Result<Made, Error> {
        match &self.code.compiler {
            Compiler::Nvrtc(job) => self.with_nvrtc(job),
            Compiler::Nvcc { plain, host, .. } => match self.join_kept(plain, host) {
                Ok(made) => Ok(made),
                Err(NotFromKept::Failed(error)) => Err(error),
                Err(NotFromKept::Because(reason)) => {
                    let made = self.as_a_whole(reason)?;
                    if self.code.form == Form::Object {
                        self.joining
                            .check_for_others(self.step, plain, host, &self.run);
                    }
                    Ok(made)
                }
            },
        }
    }

    /// A kept output with exactly the wanted images.
    fn same_list(&self) -> Result<Option<Made>, Error> {
        let is_object = self.code.form == Form::Object;
        let wanted = |kept: &Kept| {
            kept.images == self.code.images && joining::is_object(&kept.output) == is_object
        };
        let Some(index) = self.kept.iter().position(wanted) else {
            return Ok(None);
        };
        self.run
            .write(&self.step.output, &self.kept[index].output)?;
        Ok(Some(Made {
            used: vec![index],
            ..Made::default()
        }))
    }

    fn join_kept(&self, plain: &Invocation, host: &Path) -> Result<Made, NotFromKept> {
        if let Some(made) = self.same_list()? {
            return Ok(made);
        }
        if self.kept.is_empty() || self.code.form == Form::Single || self.step.chooses_images() {
            return Err(String::new().into());
        }
        let mut parts = Vec::new();
        for (index, kept) in self.kept.iter().enumerate() {
            if self.sees_same_text(&kept.images)? {
                parts.push(self.part(&kept.output, Some(index))?);
            }
        }
        if parts.is_empty() {
            return Err(LIST_CHANGES_TEXT.to_owned().into());
        }
        let mut made = Made::default();
        let is_kept = |image: &Image| parts.iter().any(|part| part.find(*image).is_some());
        let wanted = self.code.images.iter().copied();
        let missing: Vec<Image> = wanted.filter(|image| !is_kept(image)).collect();
        if !missing.is_empty() {
            if missing.len() == self.code.images.len() {
                return Err("no kept image can be used".to_owned().into());
            }
            if !self.sees_same_text(&missing)? {
                return Err(LIST_CHANGES_TEXT.to_owned().into());
            }
            // ccache keeps only the outputs of `-c`, so an object is made even though only its device code is needed.
            let is_launched = self.code.form == Form::Object && self.launch_for("-c").is_some();
            let (mode, ending) = if is_launched {
                ("-c", ".added.o")
            } else {
                ("-fatbin", ".added")
            };
            let output = self.beside_output(ending);
            let (added, printed) = self.nvcc(mode, &missing, &output)?;
            output::remove(&output)?;
            made.printed = printed;
            made.compiled.push(added);
        }
        for compiled in &made.compiled {
            let entries = self.part(&compiled.output, None)?.entries;
            parts.push(Part {
                entries,
                object: None,
                kept: None,
            });
        }
        let mut entries = Vec::new();
        for image in Image::in_nvcc_order(&self.code.images) {
            let found = parts
                .iter()
                .find_map(|part| Some((part, part.find(image)?)));
            let (part, entry) = found.ok_or_else(|| format!("nvcc made no image for {image}"))?;
            entries.push(entry.clone());
            made.used.extend(part.kept);
        }
        let host_part = parts.iter().find(|part| part.object.is_some());
        made.used.extend(host_part.and_then(|part| part.kept));
        made.used = sorted_set(made.used);
        let joined = Fatbin::from_entries(entries);
        let bytes = if self.code.form == Form::Object {
            let object = host_part.and_then(|part| part.object);
            let object = object.ok_or_else(|| "no kept object can be used".to_owned())?;
            self.check_names(&parts, host_part)?;
            let (step, run) = (self.step, &self.run);
            self.joining.join(step, plain, host, run, object, &joined)?
        } else {
            joined.write()
        };
        self.run.write(&self.step.output, &bytes)?;
        Ok(made)
    }

    /// The entries of an output of nvcc.
    fn part<'o>(&self, output: &'o [u8], kept: Option<usize>) -> Result<Part<'o>, String> {
        let (fatbin, object) = if joining::is_object(output) {
            (joining::device_code(output)?.1, Some(output))
        } else {
            let fatbin = Fatbin::parse(output).map_err(|error| error.to_string())?;
            (fatbin, None)
        };
        Ok(Part {
            entries: fatbin.entries().cloned().collect(),
            object,
            kept,
        })
    }

    /// Whether preprocessing for the architectures of `list` gives the same text as for those of this build.
    fn sees_same_text(&self, list: &[Image]) -> Result<bool, Error> {
        let numbers = |images: &[Image]| -> Set<u32> {
            images
                .iter()
                .map(|image| image.capability().number())
                .collect()
        };
        if self.list_use == ListUse::None || numbers(list) == numbers(&self.code.images) {
            return Ok(true);
        }
        Ok(
            self.list_use == ListUse::Toolkit
                && self.text(list)? == self.text(&self.code.images)?,
        )
    }

    /// The source as preprocessed for the host compiler. Without `-U__CUDA_ARCH__`, `nvcc -E` would preprocess it
    /// for the first architecture.
    fn text(&self, list: &[Image]) -> Result<Vec<u8>, Error> {
        let output = self.beside_output(".ii");
        let mut invocation = self.invocation(&["-E", "-Xcompiler=-U__CUDA_ARCH__"], list);
        self.add_paths(&mut invocation, &output);
        execute(self.step, &invocation, &output, &self.run)?;
        let text = output::read(&output)?;
        output::remove(&output)?;
        Ok(text)
    }

    /// Every image has to define the same kernels and variables, because the host code registers
    /// those of the last image that it was compiled with.
    fn check_names(&self, parts: &[Part<'_>], host: Option<&Part<'_>>) -> Result<(), String> {
        let mut first: Option<(Image, Set<Vec<u8>>)> = None;
        let host = host.and_then(|part| Some(&self.kept[part.kept?].images));
        for image in self.code.images.iter().chain(host.into_iter().flatten()) {
            let capability = image.capability();
            // The names are read from SASS. PTX of the same capability has the same names, because both come from one
            // run of the compiler's front end.
            let real = Image::Real(capability);
            let cubin = parts.iter().find_map(|part| part.find(real)?.image());
            let names = cubin.and_then(elf::device_names).ok_or_else(|| {
                format!("the names in the device code for {capability} cannot be read")
            })?;
            match &first {
                Some((other, expected)) if *expected != names => {
                    return Err(format!(
                        "{image} and {other} do not have the same kernels and variables"
                    ));
                }
                Some(_) => {}
                None => first = Some((*image, names)),
            }
        }
        Ok(())
    }

    /// One call of nvcc for all images.
    fn as_a_whole(&self, reason: String) -> Result<Made, Error> {
        let mode = match (self.code.form, self.code.images.as_slice()) {
            (Form::Object, _) => "-c",
            (Form::Single, [Image::Ptx(_)]) => "-ptx",
            (Form::Single, _) => "-cubin",
            (Form::Fatbin, _) => "-fatbin",
        };
        let (compiled, printed) = self.nvcc(mode, &self.code.images, &self.step.output)?;
        // With options such as `-arch`, nvcc makes other images than the requested ones.
        let expected = Image::in_nvcc_order(&self.code.images);
        let is_as_expected = self.code.form == Form::Single
            || self.part(&compiled.output, None).is_ok_and(|part| {
                let made = part.entries.iter().map(image_of);
                made.eq(expected.iter().copied().map(Some))
            });
        Ok(Made {
            compiled: vec![CompilerRun {
                keep: is_as_expected,
                ..compiled
            }],
            printed,
            whole_because: Some(reason).filter(|reason| !reason.is_empty()),
            ..Made::default()
        })
    }

    /// Runs nvcc for these images.
    fn nvcc(
        &self,
        mode: &str,
        images: &[Image],
        output: &Path,
    ) -> Result<(CompilerRun, String), Error> {
        let depfile = depfile_of(output);
        let mut modes = vec![mode];
        if mode == "-c" {
            modes = OBJECT.to_vec();
        }
        let mut invocation = self.invocation(&modes, images);
        if self.threads > 1 && images.len() > 1 {
            let threads = self.threads.min(images.len());
            invocation = invocation.args([format!("--threads={threads}")]);
        }
        invocation = invocation.args(["-MD", "-MF"]);
        invocation.arguments.push(depfile.clone().into());
        self.add_paths(&mut invocation, output);
        let printed = match self.launch_for(mode) {
            Some(launch) => launch.execute(self.step, invocation, output, &self.run)?,
            None => execute(self.step, &invocation, output, &self.run)?,
        };
        let compiled = CompilerRun {
            images: images.to_vec(),
            output: output::read(output)?,
            keep: true,
            depfile: Some(depfile),
        };
        Ok((compiled, printed))
    }

    fn launch_for(&self, mode: &str) -> Option<&Launch> {
        let Compiler::Nvcc { plain, .. } = &self.code.compiler else {
            return None;
        };
        let launch = self.launch.as_ref().filter(|_| mode == "-c");
        launch.filter(|launch| launch.works(self.step, plain, &self.run))
    }

    fn invocation(&self, modes: &[&str], images: &[Image]) -> Invocation {
        let Compiler::Nvcc { plain, options, .. } = &self.code.compiler else {
            return Invocation::default();
        };
        let invocation = plain.clone().args(options.iter().cloned());
        let invocation = invocation.args(modes.iter().copied());
        match (self.code.form, images) {
            (Form::Single, [image, ..]) => invocation.args([format!("-arch={image}")]),
            _ => invocation.args(images.iter().map(|image| image.nvcc_option())),
        }
    }

    /// nvcc runs in the package's directory with a relative source path, so that the output does not
    /// contain the package's path.
    fn add_paths(&self, invocation: &mut Invocation, output: &Path) {
        let paths = ["-o".into(), output.into(), self.step.source.clone().into()];
        invocation
            .arguments
            .extend::<[std::ffi::OsString; 3]>(paths);
    }

    fn beside_output(&self, ending: &str) -> PathBuf {
        let mut path = self.step.output.as_os_str().to_owned();
        path.push(ending);
        path.into()
    }

    /// NVRTC compiles for one architecture at a time, so nothing depends on the list.
    fn with_nvrtc(&self, job: &NvrtcJob) -> Result<Made, Error> {
        let mut made = Made::default();
        let mut entries = Vec::new();
        for image in Image::in_nvcc_order(&self.code.images) {
            let is_it = |kept: &Kept| kept.images == [image];
            let output = if let Some(index) = self.kept.iter().position(is_it) {
                made.used.push(index);
                self.kept[index].output.clone()
            } else {
                let (output, log) = self.nvrtc(job, image)?;
                made.printed.push_str(&log);
                made.compiled.push(CompilerRun {
                    images: vec![image],
                    output: output.clone(),
                    keep: true,
                    depfile: None,
                });
                output
            };
            if self.code.form == Form::Single {
                self.run.write(&self.step.output, &output)?;
                return Ok(made);
            }
            entries.extend(Fatbin::parse(&output)?.entries().cloned());
        }
        let joined = Fatbin::from_entries(entries);
        self.run.write(&self.step.output, &joined.write())?;
        Ok(made)
    }

    /// Compiles one image, and returns it with NVRTC's log. The image is in a fat binary, except for
    /// [`Form::Single`].
    fn nvrtc(&self, job: &NvrtcJob, image: Image) -> Result<(Vec<u8>, String), Error> {
        let Some(input) = &self.nvrtc else {
            return Err(Error::Library {
                path: job.library.clone(),
                reason: "not loaded".to_owned(),
            });
        };
        let mut options = job.options.clone();
        options.push(image.nvrtc_option());
        let program = Program {
            source: input
                .source
                .strip_prefix(b"\xef\xbb\xbf")
                .unwrap_or(&input.source),
            name: &job.name,
            options,
            headers: input.headers.clone(),
        };
        let compiled = input.nvrtc.compile(&program);
        let output = compiled.map_err(|failure| Error::Compile {
            tool: self.step.tool.clone(),
            source_file: self.step.source.clone(),
            command: format!("nvrtcCompileProgram {}", program.options.join(" ")),
            output: failure.to_string(),
        })?;
        if self.code.form == Form::Single {
            return Ok((output.image, output.log));
        }
        let bytes = output.image;
        let content = match image {
            Image::Real(capability) => fatbin::CompiledImage::Cubin { capability, bytes },
            Image::Ptx(capability) => fatbin::CompiledImage::Ptx {
                capability,
                text: String::from_utf8_lossy(&bytes).into_owned(),
            },
        };
        Ok((Fatbin::from_images(vec![content])?.write(), output.log))
    }
}

const LIST_CHANGES_TEXT: &str =
    "its text depends on the whole list of capabilities (`__CUDA_ARCH_LIST__`)";

impl Part<'_> {
    fn find(&self, image: Image) -> Option<&Entry> {
        let is_it = |entry: &&Entry| image_of(entry) == Some(image);
        self.entries.iter().find(is_it)
    }
}

/// What an entry contains; `None` for anything but SASS and PTX.
fn image_of(entry: &Entry) -> Option<Image> {
    match entry.kind() {
        Kind::Elf => Some(Image::Real(entry.capability())),
        Kind::Ptx => Some(Image::Ptx(entry.capability())),
        Kind::LtoIr | Kind::Other(_) => None,
    }
}
