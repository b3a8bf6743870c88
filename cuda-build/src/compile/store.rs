//! The output store: what compilers made, kept for later builds.
//!
//! ```text
//! <store>/<key of the step>/<digest of what was read>     one output of one call of a compiler
//!
//! cuda-build output 5 <digest of everything after this line>
//! <key of the step>
//! sm_80 compute_90    the list of architectures
//! 120                 the bytes of what the compiler printed
//! f …                 the paths that the compiler looked at, as in the file of records
//! end
//! what the compiler printed, and the output: an object, a fat binary, or one image
//! ```
//!
//! A file never changes, so two builds that write the same name write equal files, and directories of several machines
//! are merged by copying what is missing. A reader removes nothing: what is outdated for one build may be what
//! another branch, machine or user needs. Who writes keeps each key and the whole store within their limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::joining;
use super::path_names::PathNames;
use super::step::{Form, Image, Step};
use crate::config::{parse_size, parsed_variable};
use crate::error::Error;
use crate::fatbin::{Compression, Decompress, Kind, MAGIC_BYTES};
use crate::freshness::{Freshness, InputStates};
use cuda_find_core::cache::cache_dir;
use cuda_find_core::trust::{Distrust, Trust};
use cuda_find_core::{env::Env, hash::of_content, output, root::Root};

/// The variable that names the output store.
pub const VARIABLE: &str = "CUDA_BUILD_IMAGES";
/// The variable with its size in bytes.
const LIMIT_VARIABLE: &str = "CUDA_BUILD_IMAGES_LIMIT";
/// The size in bytes of the user's store, unless a variable says otherwise.
const LIMIT: u64 = 10_000_000_000;
/// How many outputs one key keeps: those of branches, of lists, of machines.
const LIMIT_OF_KEY: usize = 32;

const HEAD: &str = "cuda-build output 5 ";
const LAST_LINE: &[u8] = b"end";

/// How many hexadecimal digits a digest has.
const LENGTH_OF_DIGEST: usize = 64;
const LENGTH_OF_EARLIER_DIGEST: usize = 16;

/// A file's time of use is renewed if it is older than this.
const USE_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// How often the oldest files are removed.
const TRIM_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// The file whose time is the time of the last removal.
const TRIM_MARKER: &str = "trimmed";

/// An output of one call of a compiler.
#[derive(Clone, Debug, Default)]
pub(super) struct CompilerOutput {
    /// The architectures that it was compiled for.
    pub(super) images: Vec<Image>,
    pub(super) bytes: Vec<u8>,
    /// What the compiler printed.
    pub(super) printed: String,
    /// The paths that the compiler looked at; `None` until they are known.
    pub(super) reads: Option<InputStates>,
    /// The file in which nvcc listed what it read; `None` if it did not, or if the output was kept.
    pub(super) depfile: Option<PathBuf>,
    /// The files that the assembler read.
    pub(super) assembled: Vec<PathBuf>,
    /// Whether the store may keep it: it has exactly these images.
    pub(super) is_reusable: bool,
    /// Whether it contains a path that [`PathNames`] replaces.
    pub(super) has_paths: bool,
}

impl CompilerOutput {
    /// Whether it can be the output of a step as it is. Images that were compiled alone cannot be an object.
    pub(super) fn has_form(&self, form: Form) -> bool {
        form != Form::Object || !self.bytes.starts_with(&MAGIC_BYTES)
    }
}

/// The directory with all outputs that are kept.
#[derive(Debug, Default)]
pub(crate) struct OutputStore {
    directory: PathBuf,
    /// `None` in `OUT_DIR`, which belongs to one build and one toolkit.
    names: Option<PathNames>,
    /// Reads compressed device code, in which paths cannot be found.
    pub(super) decompress: Option<Decompress>,
    /// The size in bytes to which the directory is reduced, if any.
    limit: Option<u64>,
    /// Why the store of all builds is not used, if another user can change it.
    pub(crate) distrust: Option<Distrust>,
    trust: Trust,
}

impl OutputStore {
    /// The store of all builds of a user: `CUDA_BUILD_IMAGES`, otherwise `outputs` in the cache directory. If that
    /// cannot be written, or if another user can change it, the store of the build in `out`.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Variable`] if a directory that the user named is not absolute, or if the limit
    /// is not a size; [`cuda_find_core::error::Error::Io`] if a directory that the user named cannot be created.
    pub(crate) fn open(
        (env, root): (&Env, &Root),
        out: &Path,
        decompress: Option<Decompress>,
        names: PathNames,
    ) -> Result<Self, Error> {
        let is_named = env.path(VARIABLE).is_some();
        let limit = parsed_variable(env, LIMIT_VARIABLE, parse_size)?;
        let limit = limit.or((!is_named).then_some(LIMIT));
        let of_build = Self {
            directory: out.join("images"),
            names: None,
            decompress,
            limit,
            distrust: None,
            trust: Trust::from_env(env),
        };
        let Some(directory) = output_store(env) else {
            return Ok(of_build);
        };
        if is_named && directory.is_relative() {
            let reason = format!("{} is not an absolute path", directory.display());
            return Err(Error::variable(VARIABLE, reason));
        }
        if let Some(distrust) = of_build.trust.problem(root, &directory) {
            return Ok(Self {
                distrust: Some(distrust),
                ..of_build
            });
        }
        let created = output::create_directory(&directory);
        if is_named {
            // It may be one that this user can only read.
            created?;
        } else {
            let marker = directory.join(TRIM_MARKER);
            let is_writable =
                || output::check_writable(&marker).or_else(|_| output::write(&marker, b""));
            if created.is_err() || is_writable().is_err() {
                return Ok(of_build);
            }
        }
        Ok(Self {
            directory,
            names: Some(names),
            ..of_build
        })
    }

    fn directory_of(&self, step: &Step, with_paths: bool) -> PathBuf {
        let key = match self.names.as_ref().filter(|_| !with_paths) {
            Some(names) => step.image_key(&|text| names.shorten_text(text)),
            None => step.image_key(&|text| text),
        };
        self.directory.join(key.to_string())
    }

    /// The output for the whole list of a step, alone, if that is kept. Otherwise the outputs for other lists, the
    /// newest first. Only outputs whose inputs did not change are returned.
    pub(super) fn load(&self, freshness: &mut Freshness, step: &Step) -> Vec<CompilerOutput> {
        let mut directories = vec![self.directory_of(step, false)];
        if self.names.is_some() {
            directories.push(self.directory_of(step, true));
        }
        let mut for_other_lists = Vec::new();
        let mut others = Vec::new();
        for directory in directories {
            for (path, _) in output::files_by_age(&directory) {
                let Some(head) = output::read_head(&path, LAST_LINE) else {
                    continue;
                };
                let Some((kept, printed)) = self.parse(&directory, &head) else {
                    continue;
                };
                if kept.images == step.images {
                    match self.read(&path, head.len(), printed, kept, freshness) {
                        Some(whole) if whole.has_form(step.form) => {
                            return vec![whole];
                        }
                        images_alone => others.extend(images_alone),
                    }
                } else if step.form != Form::Single || step.uses_nvrtc() {
                    for_other_lists.push((path, head.len(), printed, kept));
                }
            }
        }
        for (path, head, printed, kept) in for_other_lists {
            others.extend(self.read(&path, head, printed, kept, freshness));
        }
        others
    }

    /// Reads the first lines of a file, without the paths' names replaced. Returns also the number of printed bytes.
    fn parse(&self, directory: &Path, head: &[u8]) -> Option<(CompilerOutput, usize)> {
        let content = head
            .strip_prefix(HEAD.as_bytes())?
            .get(LENGTH_OF_DIGEST + 1..)?;
        let mut lines = content.split(|byte| *byte == b'\n');
        let key = directory.file_name()?.as_encoded_bytes();
        if lines.next()? != key {
            return None;
        }
        let mut text = || std::str::from_utf8(lines.next()?).ok();
        let images = text()?
            .split(' ')
            .map(Image::parse)
            .collect::<Option<_>>()?;
        let printed = text()?.parse().ok()?;
        let mut reads = InputStates::parse(lines.take_while(|line| *line != LAST_LINE))?;
        if let Some(names) = &self.names {
            reads.map_paths(|path| names.expanded(path));
        }
        let kept = CompilerOutput {
            images,
            reads: Some(reads),
            ..CompilerOutput::default()
        };
        Some((kept, printed))
    }

    /// Reads the rest of a file, if its inputs did not change and it is complete.
    fn read(
        &self,
        path: &Path,
        head: usize,
        printed: usize,
        mut kept: CompilerOutput,
        freshness: &mut Freshness,
    ) -> Option<CompilerOutput> {
        let is_current = |reads: &InputStates| freshness.is_current(reads);
        if !kept.reads.as_ref().is_some_and(is_current) {
            return None;
        }
        // It may have been written before the directory was closed to others.
        let is_shared = self.names.is_some();
        if is_shared && self.trust.problem(&Root::system(), path).is_some() {
            return None;
        }
        let file = output::read(path).ok()?;
        let (digest, content) = file
            .get(HEAD.len()..)?
            .split_at_checked(LENGTH_OF_DIGEST + 1)?;
        if digest != format!("{}\n", of_content(content)).as_bytes() {
            return None;
        }
        let (printed, bytes) = file.get(head..)?.split_at_checked(printed)?;
        kept.printed = String::from_utf8_lossy(printed).into_owned();
        kept.bytes = bytes.to_owned();
        if output::age(path).is_none_or(|age| age > USE_INTERVAL) {
            output::touch(path);
        }
        Some(kept)
    }

    /// Keeps an output whose inputs are known.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Io`] if the store of this build cannot be written. Another store may be one that
    /// can only be read.
    pub(super) fn write(&self, step: &Step, made: &CompilerOutput) -> Result<(), Error> {
        let Some(mut reads) = made.reads.clone().filter(|_| made.is_reusable) else {
            return Ok(());
        };
        if let Some(names) = &self.names {
            reads.map_paths(|path| names.shortened(path));
        }
        let directory = self.directory_of(step, made.has_paths);
        let key = directory.file_name().unwrap_or_default().to_string_lossy();
        let list = Image::names(&made.images);
        let mut content = format!("{key}\n{list}\n{}\n", made.printed.len()).into_bytes();
        content.extend(reads.to_lines());
        content.extend([LAST_LINE, b"\n", made.printed.as_bytes(), &made.bytes].concat());
        let head = format!("{HEAD}{}\n", of_content(&content));
        let name = reads.digest(&list).to_string();
        let written = self.add(&directory, &name, &[head.into_bytes(), content].concat());
        match self.names {
            Some(_) => Ok(()),
            None => written,
        }
    }

    fn add(&self, directory: &Path, name: &str, file: &[u8]) -> Result<(), Error> {
        output::create_directory(directory)?;
        output::write(&directory.join(name), file)?;
        for (path, _) in output::files_by_age(directory).iter().skip(LIMIT_OF_KEY) {
            output::remove(path)?;
        }
        let marker = self.directory.join(TRIM_MARKER);
        if let Some(limit) = self.limit {
            if output::age(&marker).is_none_or(|age| age > TRIM_INTERVAL) {
                output::write(&marker, b"")?;
                trim(&self.directory, limit);
            }
        }
        Ok(())
    }

    /// Whether a new output contains a path that is replaced by a name, or code in which paths cannot be searched.
    pub(super) fn has_paths(&self, bytes: &[u8], printed: &str) -> bool {
        let Some(names) = &self.names else {
            return false;
        };
        if names.occur_in(bytes) || names.occur_in(printed.as_bytes()) {
            return true;
        }
        let entries = joining::entries(bytes).unwrap_or_default();
        // SASS and PTX of one source have the same texts.
        let has_sass = entries.iter().any(|entry| entry.header().kind == Kind::Elf);
        let mut compressed = entries.iter().filter(|entry| {
            let header = entry.header();
            header.compression != Compression::None && (header.kind == Kind::Elf || !has_sass)
        });
        compressed.any(|entry| {
            let code = entry.decompressed(self.decompress);
            code.is_none_or(|code| names.occur_in(&code))
        })
    }
}

/// If the files are larger than `limit` together, removes the least recently used files until nine tenths of `limit`
/// are left. Another build may do the same at the same time.
fn trim(directory: &Path, limit: u64) {
    let mut files = output::files_by_age(directory);
    // What killed builds were writing.
    for (path, _) in files.iter().filter(|(path, _)| is_unfinished(path)) {
        if output::age(path).is_some_and(|age| age > TRIM_INTERVAL) {
            output::remove_with_empty_directory(path);
        }
    }
    files.retain(|(path, _)| is_output(path));
    let mut size: u64 = files.iter().map(|(_, size)| size).sum();
    if size <= limit {
        return;
    }
    while let Some((path, bytes)) = files.pop().filter(|_| size > limit / 10 * 9) {
        output::remove_with_empty_directory(&path);
        size -= bytes;
    }
}

/// The output store: `CUDA_BUILD_IMAGES`, otherwise `outputs` in the user's cache directory. `None` if no variable
/// names a cache directory.
pub fn output_store(env: &Env) -> Option<PathBuf> {
    let named = env.path(VARIABLE);
    named.or_else(|| Some(cache_dir(env)?.join("outputs")))
}

/// Whether a text is a digest, of this version or an earlier one, whose files are removed like the others.
fn is_hex(text: &str) -> bool {
    let is_length = text.len() == LENGTH_OF_DIGEST || text.len() == LENGTH_OF_EARLIER_DIGEST;
    is_length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a file is named as one of the store.
fn is_output(path: &Path) -> bool {
    let mut names = path.iter().rev().take(2).filter_map(|name| name.to_str());
    names.next().is_some_and(is_hex) && names.next().is_some_and(is_hex)
}

/// Whether a file is named as one that is being written.
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".part") && name.get(..LENGTH_OF_DIGEST).is_some_and(is_hex)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn trimming_keeps_the_files_used_last() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("0123456789abcdef".repeat(4));
        fs::create_dir(&key).unwrap();
        let file = |number: u64, ending: &str| key.join(format!("{number:064x}{ending}"));
        for (path, hours) in [
            (file(1, ""), 3),
            (file(2, ""), 1),
            (file(3, ""), 2),
            (file(4, ".0.part"), 48),
            (directory.path().join("other"), 48),
        ] {
            fs::write(&path, [0; 100]).unwrap();
            let used = std::time::SystemTime::now() - Duration::from_secs(hours * 3600);
            let opened = fs::File::options().append(true).open(&path).unwrap();
            opened.set_modified(used).unwrap();
        }
        let left = || -> Vec<u64> { (1..5).filter(|n| file(*n, "").exists()).collect() };
        trim(directory.path(), 300);
        assert_eq!(left(), [1, 2, 3]);
        assert!(!file(4, ".0.part").exists());
        trim(directory.path(), 250);
        assert_eq!(left(), [2, 3]);
        trim(directory.path(), 0);
        assert!(!key.exists() && directory.path().join("other").exists());
    }
}
