//! Keeps the outputs of compilers, so that later builds take images from them instead of compiling again.
//!
//! A file contains the output of one call of a compiler, for one list of architectures:
//!
//! ```text
//! cuda-build images 2 <digest of everything after this line>
//! <key of the step>
//! sm_80 compute_90    the list of architectures
//! f …                 the paths that the compiler looked at, as in the file of records
//! end
//! the output: an object, a fat binary, or one image
//! ```
//!
//! A file is used only if its digest is right, it has the key of the step, and no path that the compiler looked at
//! has changed. Its name is `<output>.<key of the step>.<digest of the list>`, so that directories of several machines
//! can be merged.

use std::path::{Path, PathBuf};

use super::step::{Image, Step};
use crate::error::Error;
use crate::freshness::{Freshness, InputStates};
use crate::hash::of_content as digest;
use crate::list::Set;
use crate::output;

const HEAD: &str = "cuda-build images 2 ";
const END: &[u8] = b"\nend\n";

/// One output of a compiler.
#[derive(Clone, Debug)]
pub(super) struct KeptOutput {
    /// The architectures that it was compiled for.
    pub(super) images: Vec<Image>,
    pub(super) output: Vec<u8>,
    /// The paths that the compiler looked at.
    pub(super) inputs: InputStates,
}

/// The directory with all kept outputs.
pub(crate) struct KeptOutputs {
    directory: PathBuf,
    /// Whether other builds also use the directory.
    is_shared: bool,
    /// The steps of this build, as [`file_prefix`] names them.
    used: Set<String>,
}

impl KeptOutputs {
    /// The outputs that the build in `out` keeps for itself.
    pub(super) fn below(out: &Path) -> Self {
        Self {
            directory: out.join("images"),
            is_shared: false,
            used: Set::default(),
        }
    }

    /// The outputs of all builds that share this directory.
    pub(crate) fn shared(directory: PathBuf) -> Self {
        Self {
            directory,
            is_shared: true,
            used: Set::default(),
        }
    }

    /// The kept outputs of a step, in the order of the files' names. Outputs that were made from other inputs are
    /// removed, so that they are not read again.
    pub(super) fn load(
        &mut self,
        freshness: &mut Freshness,
        step: &Step,
    ) -> Result<Vec<KeptOutput>, Error> {
        let (prefix, key) = (file_prefix(step), step.image_key());
        let mut outputs = Vec::new();
        for name in freshness.files.names(&self.directory).iter() {
            if prefix_of(&name.to_string_lossy()) != Some(&prefix) {
                continue;
            }
            let path = self.directory.join(name);
            let bytes = freshness.files.bytes(&path).unwrap_or_default();
            match parse(&bytes, key).filter(|output| freshness.is_current(&output.inputs)) {
                Some(output) => outputs.push(output),
                None => output::remove(&path)?,
            }
        }
        self.mark_used(step);
        Ok(outputs)
    }

    /// Records that this build has the step, so that [`Self::remove_unused`] does not remove its outputs.
    pub(super) fn mark_used(&mut self, step: &Step) {
        self.used.insert(file_prefix(step));
    }

    /// Keeps an output.
    pub(super) fn write(
        &self,
        step: &Step,
        images: &[Image],
        output: &[u8],
        inputs: &InputStates,
    ) -> Result<(), Error> {
        let list = Image::names(images);
        let mut content = format!("{:016x}\n{list}\n", step.image_key()).into_bytes();
        content.extend(inputs.to_lines());
        content.extend_from_slice(&END[1..]);
        content.extend_from_slice(output);
        let head = format!("{HEAD}{:016x}\n", digest(&content));
        let name = format!(
            "{}.{:08x}",
            file_prefix(step),
            digest(list.as_bytes()) as u32
        );
        output::create_directory(&self.directory)?;
        let bytes = [head.into_bytes(), content].concat();
        Ok(output::write(&self.directory.join(name), &bytes)?)
    }

    /// Removes the outputs of steps that this build does not have. In a shared directory nothing is removed, because
    /// other builds may have these steps.
    pub(super) fn remove_unused(&self, freshness: &mut Freshness) -> Result<(), Error> {
        if self.is_shared {
            return Ok(());
        }
        for name in freshness.files.names(&self.directory).iter() {
            let text = name.to_string_lossy();
            if !prefix_of(&text).is_some_and(|prefix| self.used.contains(prefix)) {
                output::remove(&self.directory.join(name))?;
            }
        }
        Ok(())
    }
}

/// The start of the names of all files of a step: the name of the output, and the key.
fn file_prefix(step: &Step) -> String {
    let output = step.output.file_name().unwrap_or_default();
    format!("{}.{:016x}", output.to_string_lossy(), step.image_key())
}

/// The [`file_prefix`] in the name of a file; `None` for a file that another build is writing.
fn prefix_of(name: &str) -> Option<&str> {
    let (prefix, list) = name.rsplit_once('.')?;
    (list.len() == 8).then_some(prefix)
}

/// Reads a file of [`KeptOutputs::write`]. `None` if it is damaged or has another key.
fn parse(bytes: &[u8], key: u64) -> Option<KeptOutput> {
    let rest = bytes.strip_prefix(HEAD.as_bytes())?;
    let (expected_digest, content) = rest.split_at_checked(17)?;
    if expected_digest != format!("{:016x}\n", digest(content)).as_bytes() {
        return None;
    }
    let end = content.windows(END.len()).position(|text| text == END)?;
    let mut lines = content[..end].split(|byte| *byte == b'\n');
    if lines.next()? != format!("{key:016x}").as_bytes() {
        return None;
    }
    let list = std::str::from_utf8(lines.next()?).ok()?;
    Some(KeptOutput {
        images: list.split(' ').map(Image::parse).collect::<Option<_>>()?,
        output: content[end + END.len()..].to_owned(),
        inputs: InputStates::parse(lines)?,
    })
}
