//! Makes one output: runs a program, or takes the images that earlier builds kept, compiles what is missing, and joins
//! them.
//!
//! The first compile of a file is one call of nvcc for all architectures. After that a new
//! architecture is compiled alone, without host code, and one that is not wanted any more is left
//! out. The file is compiled as a whole again if joining could give another result than one call of nvcc:
//! if the preprocessed source depends on the list of architectures (`__CUDA_ARCH_LIST__`, which CUB and
//! Thrust put into the names of symbols), if the architectures do not define the same kernels and variables,
//! or if objects of this nvcc and host compiler cannot be joined.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::depfile;
use super::joining::{self, Reason};
use super::options::host_option;
use super::progress::{PlaceInBuild, Progress};
use super::run_directory::RunDirectory;
use super::step::{Form, Image, Step, StepCommand, depfile_of, with_ending};
use super::store::{CompilerOutput, OutputStore};
use crate::error::Error;
use crate::fatbin::{Entry, Fatbin, Kind, elf};
use crate::freshness::{RunStart, StaleReason};
use crate::includes::Scan;
use crate::nvrtc::{Nvrtc, Program};
use cuda_find_core::{command::Invocation, list::Set, output};

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
    /// See [`joins_objects`](joining::joins_objects).
    pub(crate) joins_objects: bool,
    pub(crate) progress: Progress,
    pub(crate) store: OutputStore,
}

/// A step that has to run, with everything that a thread needs to run it, and that is needed after it.
pub(super) struct Job<'a> {
    pub(super) step: &'a Step,
    pub(super) tools: &'a Tools,
    pub(super) stale_reason: StaleReason,
    /// The outputs that earlier builds kept for this step.
    pub(super) kept: Vec<CompilerOutput>,
    pub(super) list_use: ListUse,
    pub(super) nvrtc: Option<NvrtcInput>,
    pub(super) run_directory: Arc<RunDirectory>,
    pub(super) place: PlaceInBuild,
    /// Why the file is compiled as a whole although outputs of it were kept.
    pub(super) whole_because: Option<String>,
    /// The files that the source may include.
    pub(super) scan: Scan,
    pub(super) run_start: RunStart,
    pub(super) started: Instant,
}

/// What NVRTC is given besides options.
pub(super) struct NvrtcInput {
    pub(super) nvrtc: Arc<Nvrtc>,
    pub(super) source: Vec<u8>,
    pub(super) headers: Vec<(String, String)>,
}

fn find(entries: &[Entry], image: Image) -> Option<&Entry> {
    let mut entries = entries.iter();
    entries.find(|entry| image_of(entry) == Some(image))
}

/// What an entry contains; `None` for anything but SASS and PTX.
fn image_of(entry: &Entry) -> Option<Image> {
    let header = entry.header();
    match header.kind {
        Kind::Elf => Some(Image::Real(header.capability)),
        Kind::Ptx => Some(Image::Ptx(header.capability)),
        Kind::LtoIr | Kind::TileIr | Kind::Other(_) => None,
    }
}

const LIST_CHANGES_TEXT: &str =
    "its text depends on the whole list of capabilities (`__CUDA_ARCH_LIST__`)";

impl Job<'_> {
    /// Makes the output. Returns what it was made from: outputs of programs, new or kept by earlier builds.
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's messages; [`cuda_find_core::error::Error::Io`],
    /// [`cuda_find_core::error::Error::Format`].
    pub(super) fn make(&mut self) -> Result<Vec<CompilerOutput>, Error> {
        let step = self.step;
        let shared = match &step.command {
            StepCommand::Program(invocation) => {
                let output = CompilerOutput {
                    printed: self.run_directory.execute(step, invocation, &step.output)?,
                    ..CompilerOutput::default()
                };
                return Ok(vec![output]);
            }
            StepCommand::Nvrtc { name, .. } => return self.with_nvrtc(name),
            StepCommand::Nvcc { shared, .. } => shared,
        };
        let nvcc = shared.clone().args(&step.options);
        match self.join_kept(&nvcc) {
            Ok(Some(from)) => return Ok(from),
            Ok(None) => {}
            Err(reason) => match reason.downcast::<Error>() {
                Ok(error) if matches!(*error, Error::Compile { .. }) => return Err(*error),
                Ok(error) => self.whole_because = Some(error.to_string()),
                Err(reason) => self.whole_because = Some(reason.to_string()),
            },
        }
        self.as_a_whole(&nvcc)
    }

    /// Makes the output from kept images, and from new images for the architectures that are missing. `None` if nothing
    /// of use is kept. `Err`: why the file must be compiled whole.
    fn join_kept(&mut self, nvcc: &Invocation) -> Result<Option<Vec<CompilerOutput>>, Reason> {
        let kept = std::mem::take(&mut self.kept);
        let (step, run) = (self.step, &self.run_directory);
        let is_whole =
            |kept: &&CompilerOutput| kept.images == step.images && kept.has_form(step.form);
        if let Some(whole) = kept.iter().find(is_whole) {
            run.write(&step.output, &whole.bytes)?;
            return Ok(Some(vec![whole.clone()]));
        }
        if kept.is_empty() || step.form == Form::Single || step.options_choose_images() {
            return Ok(None);
        }
        if step.form == Form::Object && !self.tools.joins_objects {
            return Err("objects of this nvcc or host compiler are not joined".into());
        }
        let mut from = Vec::new();
        for kept in kept {
            if self.sees_same_text(nvcc, &kept.images)? {
                from.push(kept);
            }
        }
        if from.is_empty() {
            return Err(LIST_CHANGES_TEXT.into());
        }
        let mut missing = step.images.clone();
        missing.retain(|image| !from.iter().any(|kept| kept.images.contains(image)));
        if missing.len() == step.images.len() {
            return Ok(None);
        }
        if !missing.is_empty() {
            if !self.sees_same_text(nvcc, &missing)? {
                return Err(LIST_CHANGES_TEXT.into());
            }
            let output = with_ending(&step.output, ".added");
            from.push(self.compile(nvcc, "-fatbin", &missing, &output)?);
            output::remove(&output)?;
        }
        let images = from
            .iter()
            .map(|kept| joining::entries(&kept.bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let mut used = Set::default();
        let mut entries = Vec::new();
        for image in Image::in_nvcc_order(&step.images) {
            let mut found = images.iter().enumerate();
            let found = found.find_map(|(index, of)| Some((index, find(of, image)?)));
            let (index, entry) = found.ok_or_else(|| format!("nvcc made no image for {image}"))?;
            entries.push(entry.clone());
            used.insert(index);
        }
        let device_code = Fatbin::from_entries(entries);
        let bytes = if step.form == Form::Object {
            let host = from
                .iter()
                .position(|kept| kept.has_form(step.form))
                .ok_or("no kept object can be used")?;
            used.insert(host);
            self.check_names(&images, &from[host].images)?;
            joining::join(&from[host].bytes, &device_code)?
        } else {
            device_code.write()
        };
        run.write(&step.output, &bytes)?;
        let from = from
            .into_iter()
            .enumerate()
            .filter(|(index, _)| used.contains(index));
        Ok(Some(from.map(|(_, output)| output).collect()))
    }

    /// Whether preprocessing for the architectures of `list` gives the same text as for those of this build.
    fn sees_same_text(&self, nvcc: &Invocation, list: &[Image]) -> Result<bool, Error> {
        let numbers = |images: &[Image]| -> Set<u32> {
            images
                .iter()
                .map(|image| image.capability().number())
                .collect()
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
        let invocation = self.with_images(nvcc.clone().args(mode), list);
        self.run_directory
            .execute(self.step, &self.with_paths(invocation, &output), &output)?;
        let text = output::read(&output)?;
        output::remove(&output)?;
        Ok(text)
    }

    /// Every image has to define the same kernels and variables, because the host code registers
    /// those of the last image that it was compiled with.
    fn check_names(&self, images: &[Vec<Entry>], of_host_code: &[Image]) -> Result<(), String> {
        let mut first = None;
        for image in self.step.images.iter().chain(of_host_code) {
            let capability = image.capability();
            // The names are read from SASS. PTX of the same capability has the same names, because both come from one
            // run of the compiler's front end.
            let entry = images
                .iter()
                .find_map(|of| find(of, Image::Real(capability)));
            let cubin = entry.and_then(|entry| entry.decompressed(self.tools.store.decompress));
            let names = cubin
                .and_then(|cubin| elf::device_names(&cubin))
                .ok_or_else(|| {
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
    fn as_a_whole(&self, nvcc: &Invocation) -> Result<Vec<CompilerOutput>, Error> {
        let step = self.step;
        let mode = match (step.form, step.images.as_slice()) {
            (Form::Object, _) => "-c",
            (Form::Single, [Image::Ptx(_)]) => "-ptx",
            (Form::Single, _) => "-cubin",
            (Form::Fatbin, _) => "-fatbin",
        };
        let mut output = self.compile(nvcc, mode, &step.images, &step.output)?;
        // With options such as `-arch`, nvcc makes other images than the requested ones.
        let expected = Image::in_nvcc_order(&step.images).into_iter().map(Some);
        output.is_reusable = step.form == Form::Single
            || joining::entries(&output.bytes)
                .is_ok_and(|made| made.iter().map(image_of).eq(expected));
        Ok(vec![output])
    }

    /// Runs nvcc for these images.
    fn compile(
        &self,
        nvcc: &Invocation,
        mode: &str,
        images: &[Image],
        output: &Path,
    ) -> Result<CompilerOutput, Error> {
        let depfile = depfile_of(output);
        let is_object = mode == "-c";
        let mut invocation = nvcc.clone().args([mode]);
        if is_object {
            // Without it, an object contains a temporary file's name, which has a process ID.
            invocation = invocation.args(["-objtemp"]);
        }
        invocation = self.with_images(invocation, images);
        let processes = self.place.processes;
        if processes > 1 && images.len() > 1 {
            let threads = processes.min(images.len());
            invocation = invocation.args([format!("--threads={threads}")]);
        }
        invocation = invocation.args(["-MD", "-MF"]).args([&depfile]);
        invocation = self.with_paths(invocation, output);
        let lists_assembled = matches!(
            self.step.command,
            StepCommand::Nvcc {
                lists_assembled: true,
                ..
            }
        );
        let assembled = with_ending(&self.run_directory.place_of(output), ".assembled");
        if is_object && lists_assembled {
            let option = format!("-Wa,--MD,{}", assembled.display());
            invocation = invocation.args([host_option(&option)]);
        }
        self.announce(images);
        let printed = self.run_directory.execute(self.step, &invocation, output)?;
        let bytes = output::read(output)?;
        Ok(CompilerOutput {
            images: images.to_vec(),
            has_paths: self.tools.store.has_paths(&bytes, &printed),
            bytes,
            printed,
            reads: None,
            depfile: Some(depfile),
            assembled: self.files_in(&assembled),
            is_reusable: true,
        })
    }

    /// The files that an assembler lists, without its temporary ones.
    fn files_in(&self, list: &Path) -> Vec<PathBuf> {
        let bytes = output::read(list).unwrap_or_default();
        let files = depfile::inputs(&bytes).into_iter();
        let files = files.map(|file| self.step.directory.join(file));
        files.filter(|file| output::is_file(file)).collect()
    }

    /// Reports a compiler of device code.
    fn announce(&self, images: &[Image]) {
        if images.is_empty() {
            return;
        }
        let reason = match (&self.whole_because, &self.stale_reason) {
            _ if images.len() < self.step.images.len() => Some("a capability was added".to_owned()),
            (Some(because), _) => Some(format!("compiled as a whole, because {because}")),
            (None, StaleReason::NoRecord) => None,
            (None, StaleReason::Input(path)) => path
                .file_name()
                .map(|name| format!("{} changed", name.to_string_lossy())),
            (None, other) => Some(other.to_string()),
        };
        (self.tools.progress).start(&self.step.source, images, &self.place, reason.as_deref());
    }

    fn with_images(&self, nvcc: Invocation, images: &[Image]) -> Invocation {
        match (self.step.form, images) {
            (Form::Single, [image, ..]) => nvcc.args([format!("-arch={image}")]),
            _ => nvcc.args(images.iter().map(|image| image.nvcc_option())),
        }
    }

    /// nvcc runs in the package's directory with a relative source path, so that the output does not
    /// contain the package's path.
    fn with_paths(&self, nvcc: Invocation, output: &Path) -> Invocation {
        nvcc.args([
            "-o".as_ref(),
            output.as_os_str(),
            self.step.source.as_os_str(),
        ])
    }

    /// NVRTC compiles for one architecture at a time, so nothing depends on the list.
    fn with_nvrtc(&mut self, name: &str) -> Result<Vec<CompilerOutput>, Error> {
        let step = self.step;
        let mut from = Vec::new();
        let mut entries = Vec::new();
        let images = Image::in_nvcc_order(&step.images);
        let mut missing = images.clone();
        missing.retain(|image| !self.kept.iter().any(|kept| kept.images == [*image]));
        self.announce(&missing);
        for image in images {
            let output = match self.kept.iter().position(|kept| kept.images == [image]) {
                Some(index) => self.kept.swap_remove(index),
                None => self.nvrtc(name, image)?,
            };
            if step.form == Form::Single {
                self.run_directory.write(&step.output, &output.bytes)?;
                from.push(output);
                return Ok(from);
            }
            entries.extend(Fatbin::parse(&output.bytes)?.entries().cloned());
            from.push(output);
        }
        self.run_directory
            .write(&step.output, &Fatbin::from_entries(entries).write())?;
        Ok(from)
    }

    /// Compiles one image. It is in a fat binary, except for [`Form::Single`].
    fn nvrtc(&self, name: &str, image: Image) -> Result<CompilerOutput, Error> {
        let step = self.step;
        let failed = |options: &[String], output: String| Error::Compile {
            tool: step.tool.as_str().into(),
            source_file: step.source.clone(),
            command: format!("nvrtcCompileProgram {}", options.join(" ")).into(),
            output,
            exit_code: None,
            hint: None,
            others: Box::default(),
        };
        let Some(input) = &self.nvrtc else {
            return Err(failed(&step.options, "NVRTC is not loaded".to_owned()));
        };
        let mut options = step.options.clone();
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
        let of_entry = |entry| Fatbin::from_entries(vec![entry]).write();
        let bytes = match image {
            _ if step.form == Form::Single => bytes,
            Image::Real(capability) => of_entry(Entry::cubin(capability, bytes)?),
            Image::Ptx(capability) => {
                of_entry(Entry::ptx(capability, &String::from_utf8_lossy(&bytes))?)
            }
        };
        Ok(CompilerOutput {
            images: vec![image],
            has_paths: self.tools.store.has_paths(&bytes, &compiled.log),
            bytes,
            printed: compiled.log,
            is_reusable: true,
            ..CompilerOutput::default()
        })
    }
}
