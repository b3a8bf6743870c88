//! Keeps the outputs of compilers, so that later builds take images from them instead of compiling again.
//!
//! A file holds the output of one call of a compiler, for one list of architectures:
//!
//! ```text
//! cuda-build images 1 <digest of the text up to and with `end`>
//! cuda-build stamps 1 …   what the compiler read, and the key of the step
//! end
//! the output: an object, a fat binary, or one image
//! ```
//!
//! A file is used only if it is whole, has the key of the step, and everything that the compiler
//! read is still the same. Its name is `<output>.<key of the step>.<digest of the list>`, so that directories
//! of several machines can be put together.

use std::path::{Path, PathBuf};

use super::step::{Image, Step};
use crate::error::Error;
use crate::freshness::{Evidence, Freshness};
use crate::hash::of_content as digest;
use crate::list::Set;
use crate::output;

const HEAD: &str = "cuda-build images 1 ";
const END: &[u8] = b"\nend\n";

/// One output of a compiler.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// The architectures that it was compiled for.
    pub(super) images: Vec<Image>,
    pub(super) output: Vec<u8>,
    /// What the compiler read.
    pub(super) evidence: Evidence,
}

/// The directory with all kept outputs.
pub(crate) struct KeptOutputs {
    directory: PathBuf,
    /// Whether other builds keep their outputs there, too.
    shared: bool,
    /// The steps of this build: the names of their files without the list.
    used: Set<String>,
}

impl KeptOutputs {
    /// The outputs that the build in `out` keeps for itself.
    pub(super) fn below(out: &Path) -> Self {
        Self {
            directory: out.join("images"),
            shared: false,
            used: Set::default(),
        }
    }

    /// The outputs of all builds that share this directory.
    pub(crate) fn shared(directory: PathBuf) -> Self {
        Self {
            directory,
            shared: true,
            used: Set::default(),
        }
    }

    /// Everything that is kept of a step, in the order of the files' names. Files that do not fit the sources as they
    /// are now are removed, so that they are not read again.
    pub(super) fn load(
        &mut self,
        freshness: &mut Freshness,
        step: &Step,
    ) -> Result<Vec<Kept>, Error> {
        let (name_of_step, key) = (name_of_step(step), step.image_key());
        let mut kept = Vec::new();
        for name in freshness.files.names(&self.directory).iter() {
            if step_of(&name.to_string_lossy()) != Some(&name_of_step) {
                continue;
            }
            let path = self.directory.join(name);
            let bytes = freshness.files.bytes(&path).unwrap_or_default();
            match parse(&bytes, key).filter(|kept| freshness.holds(&kept.evidence)) {
                Some(found) => kept.push(found),
                None => output::remove(&path)?,
            }
        }
        self.used(step);
        Ok(kept)
    }

    /// Records that this build has the step, so that [`Self::finish`] does not remove its outputs.
    pub(super) fn used(&mut self, step: &Step) {
        self.used.insert(name_of_step(step));
    }

    /// Keeps an output.
    pub(super) fn write(
        &self,
        step: &Step,
        images: &[Image],
        output: &[u8],
        evidence: &Evidence,
    ) -> Result<(), Error> {
        let names = Image::names(images);
        let text = evidence.to_bytes(step.image_key(), &names, digest(output));
        let mut bytes = format!("{HEAD}{:016x}\n", digest(&text)).into_bytes();
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(output);
        let list = digest(names.as_bytes());
        let name = format!("{}.{:08x}", name_of_step(step), list as u32);
        output::create_directory(&self.directory)?;
        Ok(output::write(&self.directory.join(name), &bytes)?)
    }

    /// Removes the outputs of steps that this build does not have. In a shared directory nothing is removed, because
    /// other builds may have these steps.
    pub(super) fn finish(&self, freshness: &mut Freshness) -> Result<(), Error> {
        if self.shared {
            return Ok(());
        }
        for name in freshness.files.names(&self.directory).iter() {
            let text = name.to_string_lossy();
            if !step_of(&text).is_some_and(|step| self.used.contains(step)) {
                output::remove(&self.directory.join(name))?;
            }
        }
        Ok(())
    }
}

/// The name of the output and the key, with which the names of all files of a step start.
fn name_of_step(step: &Step) -> String {
    let output = step.output.file_name().unwrap_or_default();
    format!("{}.{:016x}", output.to_string_lossy(), step.image_key())
}

/// The part of a file's name that [`name_of_step`] returns; `None` for a file that another build is writing.
fn step_of(name: &str) -> Option<&str> {
    let (step, list) = name.rsplit_once('.')?;
    (list.len() == 8).then_some(step)
}

fn parse(bytes: &[u8], key: u64) -> Option<Kept> {
    let rest = bytes.strip_prefix(HEAD.as_bytes())?;
    let (expected, rest) = rest.split_at_checked(17)?;
    let mut ends = rest.windows(END.len());
    let end = ends.position(|window| window == END)? + END.len();
    let (text, output) = rest.split_at(end);
    if expected != format!("{:016x}\n", digest(text)).as_bytes() {
        return None;
    }
    let (evidence, names, content) = Evidence::parse(text, key)?;
    let images = names.split(' ').map(Image::parse).collect::<Option<_>>()?;
    (digest(output) == content).then(|| Kept {
        images,
        output: output.to_owned(),
        evidence,
    })
}
