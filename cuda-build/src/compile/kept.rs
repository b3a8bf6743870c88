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
use std::time::Duration;

use super::portable::PortableNames;
use super::step::{Image, Step};
use crate::cache::cache_dir;
use crate::env::Env;
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

/// The directory with all kept outputs: the output store.
pub(crate) struct KeptOutputs {
    directory: PathBuf,
    /// `None` in `OUT_DIR`, which belongs to one build and one toolkit.
    shared: Option<SharedStore>,
    /// The steps of this build: the names of their files without the list.
    used: Set<String>,
}

/// What a directory needs that other builds use too.
pub(crate) struct SharedStore {
    pub(crate) names: PortableNames,
    /// The size in bytes to which the directory is reduced; `None` in a directory that the user named.
    pub(crate) limit: Option<u64>,
}

/// How long after its last use a file counts as just used.
const USE_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// How often the directory is reduced to its limit.
const TRIM_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Its time is that of the last reduction.
const TRIM_MARKER: &str = "trimmed";

impl KeptOutputs {
    /// The outputs that the build in `out` keeps for itself.
    pub(super) fn below(out: &Path) -> Self {
        Self {
            directory: out.join("images"),
            shared: None,
            used: Set::default(),
        }
    }

    /// The outputs of all builds that share this directory. An error is the reason why it cannot be written.
    pub(crate) fn shared(directory: PathBuf, store: SharedStore) -> Result<Self, Error> {
        output::create_directory(&directory)?;
        if let Some(limit) = store.limit {
            let marker = directory.join(TRIM_MARKER);
            if output::age(&marker).is_none_or(|age| age > TRIM_INTERVAL) {
                output::write(&marker, b"")?;
                trim(&directory, limit);
            } else {
                output::check_writable(&marker)?;
            }
        }
        Ok(Self {
            directory,
            shared: Some(store),
            used: Set::default(),
        })
    }

    /// The keys under which outputs of a step are kept: without the toolkit's paths, and with them.
    fn keys(&self, step: &Step) -> Vec<u64> {
        match &self.shared {
            None => vec![step.image_key()],
            Some(SharedStore { names, .. }) => {
                let mut keys = vec![names.key(step, false), names.key(step, true)];
                keys.dedup();
                keys
            }
        }
    }

    /// Everything that is kept of a step, in the order of the files' names. Files that do not fit the sources as they
    /// are now are removed, so that they are not read again.
    pub(super) fn load(
        &mut self,
        freshness: &mut Freshness,
        step: &Step,
    ) -> Result<Vec<Kept>, Error> {
        let mut kept = Vec::new();
        for key in self.keys(step) {
            let name_of_step = name_of_step(step, key);
            for name in freshness.files.names(&self.directory).iter() {
                if step_of(&name.to_string_lossy()) != Some(&name_of_step) {
                    continue;
                }
                let path = self.directory.join(name);
                let bytes = freshness.files.bytes(&path).unwrap_or_default();
                let mut found = parse(&bytes, key);
                if let (Some(found), Some(store)) = (&mut found, &self.shared) {
                    found.evidence.map_paths(|path| store.names.expanded(path));
                }
                match found.filter(|kept| freshness.holds(&kept.evidence)) {
                    Some(found) => {
                        kept.push(found);
                        if output::age(&path).is_none_or(|age| age > USE_INTERVAL) {
                            output::touch(&path);
                        }
                    }
                    None => output::remove(&path)?,
                }
            }
        }
        self.used(step);
        Ok(kept)
    }

    /// Records that this build has the step, so that [`Self::finish`] does not remove its outputs.
    pub(super) fn used(&mut self, step: &Step) {
        if self.shared.is_none() {
            self.used.insert(name_of_step(step, step.image_key()));
        }
    }

    /// Keeps an output.
    pub(super) fn write(
        &self,
        step: &Step,
        images: &[Image],
        output: &[u8],
        evidence: &Evidence,
    ) -> Result<(), Error> {
        let mut key = step.image_key();
        let mut evidence = evidence.clone();
        if let Some(SharedStore { names, .. }) = &self.shared {
            let has_paths = names.occur_in(output);
            key = names.key(step, has_paths);
            evidence.map_paths(|path| names.shortened(path));
        }
        let names = Image::names(images);
        let text = evidence.to_bytes(key, &names, digest(output));
        let mut bytes = format!("{HEAD}{:016x}\n", digest(&text)).into_bytes();
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(output);
        let list = digest(names.as_bytes());
        let name = format!("{}.{:08x}", name_of_step(step, key), list as u32);
        output::create_directory(&self.directory)?;
        Ok(output::write(&self.directory.join(name), &bytes)?)
    }

    /// Removes the outputs of steps that this build does not have. In a shared directory nothing is removed, because
    /// other builds may have these steps.
    pub(super) fn finish(&self, freshness: &mut Freshness) -> Result<(), Error> {
        if self.shared.is_some() {
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

/// Removes the files that were not used for the longest time, until the others are smaller than nine tenths of
/// `limit`. Another build may do the same at the same time, so a file that is missing is no error.
fn trim(directory: &Path, limit: u64) {
    let mut files = output::files_by_age(directory);
    let mut size: u64 = files.iter().map(|(_, size)| size).sum();
    if size <= limit {
        return;
    }
    while let Some((path, bytes)) = files.pop().filter(|_| size > limit / 10 * 9) {
        let _ = output::remove(&path);
        size -= bytes;
    }
}

/// The output store: `CUDA_BUILD_IMAGES`, otherwise `outputs` in the user's cache directory. `None` if no variable names
/// a cache directory.
pub fn output_store(env: &Env) -> Option<PathBuf> {
    let named = env.path("CUDA_BUILD_IMAGES");
    named.or_else(|| Some(cache_dir(env)?.join("outputs")))
}

/// Removes all kept outputs from a directory, and nothing else. Returns their size in bytes.
///
/// # Errors
/// [`cuda_find::Error::Io`] if a file cannot be removed.
pub fn remove_outputs(directory: &Path) -> Result<u64, Error> {
    let is_hex = |part: Option<&str>, length| {
        part.is_some_and(|part| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let mut removed = 0;
    for (path, size) in output::files_by_age(directory) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut parts = name.rsplit('.');
        if is_hex(parts.next(), 8) && is_hex(parts.next(), 16) {
            output::remove(&path)?;
            removed += size;
        }
    }
    Ok(removed)
}

/// The name of the output and the key, with which the names of all files of a step start.
fn name_of_step(step: &Step, key: u64) -> String {
    let output = step.output.file_name().unwrap_or_default();
    format!("{}.{key:016x}", output.to_string_lossy())
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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_files_that_were_used_last_stay() {
        let directory = tempfile::tempdir().unwrap();
        for (name, hours) in [("a", 3), ("b", 1), ("c", 2)] {
            let path = directory.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            let used = std::time::SystemTime::now() - Duration::from_secs(hours * 3600);
            fs::File::options()
                .append(true)
                .open(&path)
                .unwrap()
                .set_modified(used)
                .unwrap();
        }
        trim(directory.path(), 300);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
        trim(directory.path(), 250);
        let mut left: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["b", "c"]);
        let kept = directory.path().join("k.fatbin.0123456789abcdef.01234567");
        fs::write(&kept, [0; 10]).unwrap();
        assert_eq!(remove_outputs(directory.path()).unwrap(), 10);
        assert!(!kept.exists() && directory.path().join("b").exists());
    }
}
