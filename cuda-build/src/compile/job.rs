//! Makes one output: runs a program, or takes the images that earlier builds kept, compiles what is missing, and joins
//! them.
//!
//! The first compile of a file is one call of nvcc for all architectures. After that a new
//! architecture is compiled alone, without host code, and one that is not wanted any more is left
//! out. The file is compiled as a whole again if joining could give another result than one call of nvcc:
//! if the preprocessed source depends on the list of architectures (`__CUDA_ARCH_LIST__`, which CUB and
//! Thrust put into the names of symbols), if the architectures do not define the same kernels and variables,
//! or if objects of this nvcc cannot be joined.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::joining::{self, Joining, Reason};
use super::kept::{CompilerRun, KeptOutput};
use super::launcher::Launcher;
use super::progress::{Place, Progress, Running};
use super::run_directory::RunDirectory;
use super::step::{Compiler, Form, Image, OBJECT, Step, depfile_of, with_ending};
use crate::error::Error;
use crate::fatbin::{CompiledImage, Decompress, Entry, Fatbin, Kind, elf};
use crate::nvrtc::{Nvrtc, Program};
use cuda_find_core::command::Invocation;
use cuda_find_core::list::{Set, sorted_set};
use cuda_find_core::output;

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

/// What the steps of a build share.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    pub(crate) joining: Joining,
    pub(crate) launcher: Option<Launcher>,
    pub(crate) progress: Progress,
    pub(crate) decompress: Option<Decompress>,
}

/// A step that has to run, with everything that a thread needs to run it.
pub(super) struct Job<'a> {
    pub(super) step: &'a Step,
    pub(super) tools: &'a Tools,
    pub(super) kept: Vec<KeptOutput>,
    pub(super) list_use: ListUse,
    /// How many processes nvcc may run at once.
    pub(super) processes: usize,
    pub(super) nvrtc: Option<NvrtcInput>,
    pub(super) run: Arc<RunDirectory>,
    pub(super) place: Place,
}

/// What NVRTC is given besides options.
pub(super) struct NvrtcInput {
    pub(super) nvrtc: Arc<Nvrtc>,
    pub(super) source: Vec<u8>,
    pub(super) headers: Vec<(String, String)>,
}

/// How an output was made.
#[derive(Default)]
pub(super) struct Made {
    pub(super) compiled: Vec<CompilerRun>,
    /// Which of the kept outputs were used.
    pub(super) used: Vec<usize>,
    /// Output of a program that does not compile device code.
    pub(super) printed: String,
    /// Why the file is compiled as a whole although outputs of it were kept.
    pub(super) whole_because: Option<String>,
}

/// The images of one call of a compiler.
struct Part<'a> {
    entries: Vec<Entry>,
    /// The object, if it has host code.
    object: Option<&'a [u8]>,
    /// The index of its output in `Job::kept`.
    kept_index: Option<usize>,
}

impl Part<'_> {
    fn find(&self, image: Image) -> Option<&Entry> {
        let is_it = |entry: &&Entry| image_of(entry) == Some(image);
        self.entries.iter().find(is_it)
    }
}

/// What an entry contains; `None` for anything but SASS and PTX.
fn image_of(entry: &Entry) -> Option<Image> {
    let header = entry.header();
    match header.kind {
        Kind::Elf => Some(Image::Real(header.capability)),
        Kind::Ptx => Some(Image::Ptx(header.capability)),
        Kind::LtoIr | Kind::Other(_) => None,
    }
}

const LIST_CHANGES_TEXT: &str =
    "its text depends on the whole list of capabilities (`__CUDA_ARCH_LIST__`)";

impl Job<'_> {
    /// Makes the output.
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's messages; [`cuda_find_core::error::Error::Io`], [`cuda_find_core::error::Error::Format`].
    pub(super) fn make(&self) -> Result<Made, Error> {
        let (step, run) = (self.step, &self.run);
        let (plain, options) = match &step.compiler {
            Compiler::Program(invocation) => {
                return Ok(Made {
                    printed: run.execute(step, invocation, &step.output)?,
                    ..Made::default()
                });
            }
            Compiler::Nvrtc { name, options, .. } => return self.with_nvrtc(name, options),
            Compiler::Nvcc { plain, options, .. } => (plain, options),
        };
        let nvcc = plain.clone().args(options);
        match self.join_kept(&nvcc) {
            Ok(Some(made)) => Ok(made),
            Ok(None) => self.as_a_whole(&nvcc, None),
            Err(reason) => match reason.downcast::<Error>() {
                Ok(error) if matches!(*error, Error::Compile { .. }) => Err(*error),
                Ok(error) => self.as_a_whole(&nvcc, Some(error.to_string())),
                Err(reason) => self.as_a_whole(&nvcc, Some(reason.to_string())),
            },
        }
    }

    /// Makes the output from kept images, and from new images for the architectures that are missing. `None` if nothing
    /// of use is kept. `Err`: why the file must be compiled whole.
    fn join_kept(&self, nvcc: &Invocation) -> Result<Option<Made>, Reason> {
        let (step, run) = (self.step, &self.run);
        let is_object = step.form == Form::Object;
        let has_all = |kept: &KeptOutput| {
            kept.images == step.images && joining::is_object(&kept.output) == is_object
        };
        if let Some(index) = self.kept.iter().position(has_all) {
            run.write(&step.output, &self.kept[index].output)?;
            return Ok(Some(Made {
                used: vec![index],
                ..Made::default()
            }));
        }
        if self.kept.is_empty() || step.form == Form::Single || step.flags_choose_images() {
            return Ok(None);
        }
        let mut parts = Vec::new();
        for (index, kept) in self.kept.iter().enumerate() {
            if self.sees_same_text(nvcc, &kept.images)? {
                parts.push(part(&kept.output, Some(index))?);
            }
        }
        if parts.is_empty() {
            return Err(LIST_CHANGES_TEXT.into());
        }
        let mut made = Made::default();
        let is_kept = |image: &Image| parts.iter().any(|part| part.find(*image).is_some());
        let wanted = step.images.iter().copied();
        let missing: Vec<Image> = wanted.filter(|image| !is_kept(image)).collect();
        if !missing.is_empty() {
            if missing.len() == step.images.len() {
                return Err("no kept image can be used".into());
            }
            if !self.sees_same_text(nvcc, &missing)? {
                return Err(LIST_CHANGES_TEXT.into());
            }
            let output = with_ending(&step.output, ".added");
            made.compiled
                .push(self.compile(nvcc, "-fatbin", &missing, &output)?);
            output::remove(&output)?;
        }
        for compiled in &made.compiled {
            parts.push(part(&compiled.output, None)?);
        }
        let mut entries = Vec::new();
        for image in Image::in_nvcc_order(&step.images) {
            let mut found = parts
                .iter()
                .filter_map(|part| Some((part, part.find(image)?)));
            let found = found.next();
            let (part, entry) = found.ok_or_else(|| format!("nvcc made no image for {image}"))?;
            entries.push(entry.clone());
            made.used.extend(part.kept_index);
        }
        let device_code = Fatbin::from_entries(entries);
        let bytes = if is_object {
            let host = parts
                .iter()
                .find_map(|part| Some((part.object?, part.kept_index?)));
            let (object, index) = host.ok_or("no kept object can be used")?;
            made.used.push(index);
            self.check_names(&parts, &self.kept[index].images)?;
            self.tools.joining.join(step, run, object, &device_code)?
        } else {
            device_code.write()
        };
        made.used = sorted_set(made.used);
        run.write(&step.output, &bytes)?;
        Ok(Some(made))
    }

    /// Whether preprocessing for the architectures of `list` gives the same text as for those of this build.
    fn sees_same_text(&self, nvcc: &Invocation, list: &[Image]) -> Result<bool, Error> {
        let numbers = |images: &[Image]| -> Set<u32> {
            let numbers = images.iter().map(|image| image.capability().number());
            numbers.collect()
        };
        let wanted = &self.step.images;
        if self.list_use == ListUse::None || numbers(list) == numbers(wanted) {
            return Ok(true);
        }
        let is_in_headers = self.list_use == ListUse::Toolkit;
        Ok(is_in_headers && self.text(nvcc, list)? == self.text(nvcc, wanted)?)
    }

    /// The source as preprocessed for the host compiler. Without `-U__CUDA_ARCH__`, `nvcc -E` would preprocess it
    /// for the first architecture.
    fn text(&self, nvcc: &Invocation, list: &[Image]) -> Result<Vec<u8>, Error> {
        let output = with_ending(&self.step.output, ".ii");
        let mode = ["-E", "-Xcompiler=-U__CUDA_ARCH__"];
        let invocation = self.for_images(nvcc.clone().args(mode), list);
        let invocation = self.with_paths(invocation, &output);
        self.run.execute(self.step, &invocation, &output)?;
        let text = output::read(&output)?;
        output::remove(&output)?;
        Ok(text)
    }

    /// Every image has to define the same kernels and variables, because the host code registers
    /// those of the last image that it was compiled with.
    fn check_names(&self, parts: &[Part<'_>], of_host_code: &[Image]) -> Result<(), String> {
        let mut first = None;
        for image in self.step.images.iter().chain(of_host_code) {
            let capability = image.capability();
            // The names are read from SASS. PTX of the same capability has the same names, because both come from one
            // run of the compiler's front end.
            let real = Image::Real(capability);
            let entry = parts.iter().find_map(|part| part.find(real));
            let cubin = entry.and_then(|entry| entry.decompressed(self.tools.decompress));
            let names = cubin.and_then(|cubin| elf::device_names(&cubin));
            let names = names.ok_or_else(|| {
                format!("the names in the device code for {capability} cannot be read")
            })?;
            let (other, expected) = first.get_or_insert_with(|| (*image, names.clone()));
            if let Some((name, _)) = expected.symmetric_difference(&names).next() {
                return Err(format!(
                    "{image} and {other} do not have the same kernels and variables: only one of them has `{}`",
                    String::from_utf8_lossy(name)
                ));
            }
        }
        Ok(())
    }

    /// One call of nvcc for all images.
    fn as_a_whole(&self, nvcc: &Invocation, whole_because: Option<String>) -> Result<Made, Error> {
        let step = self.step;
        let mode = match (step.form, step.images.as_slice()) {
            (Form::Object, _) => "-c",
            (Form::Single, [Image::Ptx(_)]) => "-ptx",
            (Form::Single, _) => "-cubin",
            (Form::Fatbin, _) => "-fatbin",
        };
        let mut compiled = self.compile(nvcc, mode, &step.images, &step.output)?;
        // With options such as `-arch`, nvcc makes other images than the requested ones.
        let expected = Image::in_nvcc_order(&step.images);
        compiled.is_reusable = step.form == Form::Single
            || part(&compiled.output, None).is_ok_and(|part| {
                let made = part.entries.iter().map(image_of);
                made.eq(expected.into_iter().map(Some))
            });
        Ok(Made {
            compiled: vec![compiled],
            whole_because,
            ..Made::default()
        })
    }

    /// Runs nvcc for these images.
    fn compile(
        &self,
        nvcc: &Invocation,
        mode: &str,
        images: &[Image],
        output: &Path,
    ) -> Result<CompilerRun, Error> {
        let depfile = depfile_of(output);
        let is_object = mode == "-c";
        let invocation = match is_object {
            true => nvcc.clone().args(OBJECT),
            false => nvcc.clone().args([mode]),
        };
        let mut invocation = self.for_images(invocation, images);
        if self.processes > 1 && images.len() > 1 {
            let threads = self.processes.min(images.len());
            invocation = invocation.args([format!("--threads={threads}")]);
        }
        invocation = invocation.args(["-MD", "-MF"]).args([&depfile]);
        let invocation = self.with_paths(invocation, output);
        let _running = self.announce(images);
        let launcher = self.tools.launcher.as_ref();
        let printed = match launcher.filter(|launcher| is_object && launcher.is_fit()) {
            Some(launcher) => self.execute_behind(launcher, &invocation, output)?,
            None => self.run.execute(self.step, &invocation, output)?,
        };
        Ok(CompilerRun {
            images: images.to_vec(),
            output: output::read(output)?,
            printed,
            is_reusable: true,
            depfile: Some(depfile),
        })
    }

    /// Runs nvcc behind a launcher, and without it if that fails. If nvcc alone succeeds, the launcher is left out of
    /// the rest of the build: an old sccache fails with a new nvcc.
    fn execute_behind(
        &self,
        launcher: &Launcher,
        invocation: &Invocation,
        output: &Path,
    ) -> Result<String, Error> {
        let launched = invocation.clone().behind(&launcher.program);
        let reason = match self.run.execute(self.step, &launched, output) {
            Err(Error::Compile { output, .. }) => output,
            Err(Error::Find(cuda_find_core::error::Error::Program { reason, .. })) => reason,
            other => return other,
        };
        let printed = self.run.execute(self.step, invocation, output)?;
        launcher.leave_out(&reason);
        Ok(printed)
    }

    fn announce(&self, images: &[Image]) -> Option<Running> {
        let place = &self.place;
        let reason = match images.len() < self.step.images.len() {
            true => Some("a capability was added"),
            false => place.reason.as_deref(),
        };
        (self.tools.progress).start(&self.step.source, images, place, reason)
    }

    fn for_images(&self, nvcc: Invocation, images: &[Image]) -> Invocation {
        match (self.step.form, images) {
            (Form::Single, [image, ..]) => nvcc.args([format!("-arch={image}")]),
            _ => nvcc.args(images.iter().map(|image| image.nvcc_option())),
        }
    }

    /// nvcc runs in the package's directory with a relative source path, so that the output does not
    /// contain the package's path.
    fn with_paths(&self, nvcc: Invocation, output: &Path) -> Invocation {
        let source = self.step.source.clone();
        nvcc.args::<OsString>(["-o".into(), output.into(), source.into()])
    }

    /// NVRTC compiles for one architecture at a time, so nothing depends on the list.
    fn with_nvrtc(&self, name: &str, options: &[String]) -> Result<Made, Error> {
        let step = self.step;
        let mut made = Made::default();
        let mut entries = Vec::new();
        let place_of = |image: &Image| self.kept.iter().position(|kept| kept.images == [*image]);
        let images = Image::in_nvcc_order(&step.images);
        let missing = images.iter().filter(|image| place_of(image).is_none());
        let missing: Vec<Image> = missing.copied().collect();
        let _running = match missing.is_empty() {
            true => None,
            false => self.announce(&missing),
        };
        for image in images {
            let output = if let Some(index) = place_of(&image) {
                made.used.push(index);
                self.kept[index].output.clone()
            } else {
                let (output, log) = self.nvrtc(name, options, image)?;
                made.compiled.push(CompilerRun {
                    images: vec![image],
                    output: output.clone(),
                    printed: log,
                    is_reusable: true,
                    depfile: None,
                });
                output
            };
            if step.form == Form::Single {
                self.run.write(&step.output, &output)?;
                return Ok(made);
            }
            entries.extend(Fatbin::parse(&output)?.entries().cloned());
        }
        let joined = Fatbin::from_entries(entries);
        self.run.write(&step.output, &joined.write())?;
        Ok(made)
    }

    /// Compiles one image, and returns it with NVRTC's log. The image is in a fat binary, except for
    /// [`Form::Single`].
    fn nvrtc(
        &self,
        name: &str,
        options: &[String],
        image: Image,
    ) -> Result<(Vec<u8>, String), Error> {
        let step = self.step;
        let failed = |options: &[String], output: String| Error::Compile {
            tool: step.tool.clone(),
            source_file: step.source.clone(),
            command: format!("nvrtcCompileProgram {}", options.join(" ")),
            output,
            exit_code: None,
            others: Box::default(),
        };
        let Some(input) = &self.nvrtc else {
            return Err(failed(options, "NVRTC is not loaded".to_owned()));
        };
        let mut options = options.to_vec();
        options.push(format!("--gpu-architecture={image}"));
        let source = input.source.as_slice();
        let program = Program {
            source: source.strip_prefix(b"\xef\xbb\xbf").unwrap_or(source),
            name,
            options,
            headers: input.headers.clone(),
        };
        let compiled = input.nvrtc.compile(&program);
        let compiled = compiled.map_err(|reason| failed(&program.options, reason))?;
        let bytes = compiled.image;
        let content = match image {
            _ if step.form == Form::Single => return Ok((bytes, compiled.log)),
            Image::Real(capability) => CompiledImage::Cubin { capability, bytes },
            Image::Ptx(capability) => CompiledImage::Ptx {
                capability,
                text: String::from_utf8_lossy(&bytes).into_owned(),
            },
        };
        let fatbin = Fatbin::from_images(vec![content])?;
        Ok((fatbin.write(), compiled.log))
    }
}

/// The images in an output of nvcc.
fn part(output: &[u8], kept_index: Option<usize>) -> Result<Part<'_>, Reason> {
    let is_object = joining::is_object(output);
    let fatbin = match is_object {
        true => joining::device_code(output)?.1,
        false => Fatbin::parse(output)?,
    };
    Ok(Part {
        entries: fatbin.entries().cloned().collect(),
        object: is_object.then_some(output),
        kept_index,
    })
}
