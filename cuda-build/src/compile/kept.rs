//! Keeps the outputs of compilers, so that later builds take images from them instead of compiling again.
//!
//! A file contains the output of one call of a compiler, for one list of architectures:
//!
//! ```text
//! cuda-build images 3 <digest of everything after this line>
//! <key of the step>
//! sm_80 compute_90    the list of architectures
//! 120                 the bytes of what the compiler printed
//! f …                 the paths that the compiler looked at, as in the file of records
//! end
//! what the compiler printed, and the output: an object, a fat binary, or one image
//! ```
//!
//! A file is used only if its digest is right, it has the key of the step, and no path that the compiler looked at
//! has changed. Its name is `<output>.<key of the step>.<digest of the list>`, so that directories of several machines
//! can be merged.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::joining;
use super::portable::PortableNames;
use super::step::{Image, Step};
use crate::config::{parse_size, parsed_variable};
use crate::error::Error;
use crate::fatbin::{Decompress, Fatbin, Kind};
use crate::freshness::{Freshness, InputStates};
use cuda_find_core::cache::{cache_dir, distrust};
use cuda_find_core::env::Env;
use cuda_find_core::hash::of_content as digest;
use cuda_find_core::list::Set;
use cuda_find_core::output;
use cuda_find_core::root::Root;

/// The variable that names the output store.
const VARIABLE: &str = "CUDA_BUILD_IMAGES";

const HEAD: &str = "cuda-build images 3 ";
const END: &[u8] = b"\nend\n";

/// One successful call of a compiler.
pub(super) struct CompilerRun {
    pub(super) images: Vec<Image>,
    pub(super) output: Vec<u8>,
    pub(super) printed: String,
    /// Whether the output has exactly these images, so that other builds can use it.
    pub(super) is_reusable: bool,
    /// The file in which nvcc listed what it read.
    pub(super) depfile: Option<PathBuf>,
}

/// One output of a compiler.
#[derive(Clone, Debug)]
pub(super) struct KeptOutput {
    /// The architectures that it was compiled for.
    pub(super) images: Vec<Image>,
    pub(super) output: Vec<u8>,
    /// What the compiler printed.
    pub(super) printed: String,
    /// The paths that the compiler looked at.
    pub(super) inputs: InputStates,
}

/// The directory with all kept outputs: the output store.
pub(crate) struct KeptOutputs {
    directory: PathBuf,
    /// `None` in `OUT_DIR`, which belongs to one build and one toolkit.
    shared: Option<SharedStore>,
    /// The steps of this build, as [`file_prefix`] names them.
    used: Set<String>,
}

/// The output store that several builds share.
struct SharedStore {
    names: PortableNames,
    /// Reads compressed device code, in which paths cannot be found.
    decompress: Option<Decompress>,
    /// The size in bytes to which the directory is reduced; `None` in a directory that the user named.
    limit: Option<u64>,
}

impl SharedStore {
    /// Whether compressed machine code in an output has a path of the toolkit, or cannot be read.
    fn may_hide_paths(&self, output: &[u8]) -> bool {
        let code = match joining::is_object(output) {
            true => joining::device_code(output).map(|(_, code)| code).ok(),
            false => Fatbin::parse(output).ok(),
        };
        let mut entries = code.iter().flat_map(Fatbin::entries);
        entries.any(|entry| {
            let cubin = entry.decompressed(self.decompress);
            entry.header().kind == Kind::Elf && cubin.is_none_or(|it| self.names.occur_in(&it))
        })
    }
}

/// A file's time of use is renewed if it is older than this.
const USE_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// How often the oldest files are removed.
const TRIM_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// The file whose time is the time of the last removal.
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

    /// The outputs of all builds of a user: in `CUDA_BUILD_IMAGES`, otherwise in `outputs` in the cache directory. `None`
    /// if that cannot be written, or if another user can change it.
    ///
    /// # Errors
    /// As [`Self::shared`] for a directory that the user named; [`cuda_find_core::error::Error::Variable`] if that is not an absolute
    /// path, or if the limit is not a size.
    pub(crate) fn of_user(
        (env, root): (&Env, &Root),
        decompress: Option<Decompress>,
        names: impl FnOnce() -> PortableNames,
    ) -> Result<Option<Self>, Error> {
        const LIMIT_VARIABLE: &str = "CUDA_BUILD_IMAGES_LIMIT";
        const LIMIT: u64 = 10_000_000_000;
        let Some(directory) = output_store(env) else {
            return Ok(None);
        };
        let is_named = env.path(VARIABLE).is_some();
        if is_named && directory.is_relative() {
            let reason = format!("{} is not an absolute path", directory.display());
            return Err(Error::variable(VARIABLE, reason));
        }
        if !is_named && distrust(root, &directory).is_some() {
            return Ok(None);
        }
        let limit = parsed_variable(env, LIMIT_VARIABLE, parse_size)?;
        let store = SharedStore {
            names: names(),
            decompress,
            limit: (!is_named).then(|| limit.unwrap_or(LIMIT)),
        };
        match Self::shared(directory, store) {
            Ok(kept) => Ok(Some(kept)),
            Err(error) if is_named => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// The outputs of all builds that share this directory.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Io`] if the directory cannot be written.
    fn shared(directory: PathBuf, store: SharedStore) -> Result<Self, Error> {
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

    /// The kept outputs of a step, in the order of the files' names. Outputs that were made from other inputs are
    /// removed, so that they are not read again.
    pub(super) fn load(&mut self, freshness: &mut Freshness, step: &Step) -> Vec<KeptOutput> {
        let mut outputs = Vec::new();
        for key in self.keys(step) {
            let prefix = file_prefix(step, key);
            for name in freshness.files.names(&self.directory).iter() {
                if prefix_of(&name.to_string_lossy()) != Some(&prefix) {
                    continue;
                }
                let path = self.directory.join(name);
                let bytes = freshness.files.bytes(&path).unwrap_or_default();
                let mut output = parse(&bytes, key);
                if let (Some(output), Some(store)) = (&mut output, &self.shared) {
                    output.inputs.map_paths(|path| store.names.expanded(path));
                }
                match output.filter(|output| freshness.is_current(&output.inputs)) {
                    Some(output) => {
                        outputs.push(output);
                        if output::age(&path).is_none_or(|age| age > USE_INTERVAL) {
                            output::touch(&path);
                        }
                    }
                    // In a store that can only be read, it stays, and is not used in the next build either.
                    None => drop(output::remove(&path)),
                }
            }
        }
        self.mark_used(step);
        outputs
    }

    /// Records that this build has the step, so that [`Self::remove_unused`] does not remove its outputs.
    pub(super) fn mark_used(&mut self, step: &Step) {
        if self.shared.is_none() {
            self.used.insert(file_prefix(step, step.image_key()));
        }
    }

    /// Keeps the output of a call of a compiler. Nothing is kept in a shared store that cannot be written.
    pub(super) fn write(
        &self,
        step: &Step,
        run: &CompilerRun,
        mut inputs: InputStates,
    ) -> Result<(), Error> {
        let mut key = step.image_key();
        if let Some(store) = &self.shared {
            let names = &store.names;
            let has_paths = names.occur_in(&run.output)
                || names.occur_in(run.printed.as_bytes())
                || (step.compresses_code() && store.may_hide_paths(&run.output));
            key = names.key(step, has_paths);
            inputs.map_paths(|path| names.shortened(path));
        }
        let list = Image::names(&run.images);
        let printed = &run.printed;
        let mut content = format!("{key:016x}\n{list}\n{}\n", printed.len()).into_bytes();
        content.extend(inputs.to_lines());
        content.extend_from_slice(&END[1..]);
        content.extend_from_slice(printed.as_bytes());
        content.extend_from_slice(&run.output);
        let head = format!("{HEAD}{:016x}\n", digest(&content));
        let list = digest(list.as_bytes()) as u32;
        let name = format!("{}.{list:08x}", file_prefix(step, key));
        output::create_directory(&self.directory)?;
        let bytes = [head.into_bytes(), content].concat();
        let written = output::write(&self.directory.join(name), &bytes);
        match self.shared {
            Some(_) => Ok(()),
            None => Ok(written?),
        }
    }

    /// Removes the outputs of steps that this build does not have. In a shared directory nothing is removed, because
    /// other builds may have these steps.
    pub(super) fn remove_unused(&self, freshness: &mut Freshness) -> Result<(), Error> {
        if self.shared.is_some() {
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

/// If the files are larger than `limit` together, removes the least recently used files until nine tenths of `limit` are
/// left. Another build may do the same at the same time, so a missing file is no error.
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
    let named = env.path(VARIABLE);
    named.or_else(|| Some(cache_dir(env)?.join("outputs")))
}

/// Removes all kept outputs from a directory, and nothing else. Returns their size in bytes.
///
/// # Errors
/// [`cuda_find_core::error::Error::Io`] if a file cannot be removed.
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

/// The start of the names of all files of a step: the name of the output, and the key.
fn file_prefix(step: &Step, key: u64) -> String {
    let output = step.output.file_name().unwrap_or_default();
    format!("{}.{key:016x}", output.to_string_lossy())
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
    let printed = std::str::from_utf8(lines.next()?).ok()?.parse().ok()?;
    let (printed, output) = content[end + END.len()..].split_at_checked(printed)?;
    Some(KeptOutput {
        images: list.split(' ').map(Image::parse).collect::<Option<_>>()?,
        printed: String::from_utf8_lossy(printed).into_owned(),
        output: output.to_owned(),
        inputs: InputStates::parse(lines)?,
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn trimming_keeps_the_files_used_last() {
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
