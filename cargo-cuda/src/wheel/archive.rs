//! Reads wheels.
//!
//! Every file of a wheel is read once and in pieces, so that the memory does not depend on its
//! size. What is kept of a file is its hash and, of a native module, the facts of its ELF headers.
#![allow(
    clippy::disallowed_methods,
    reason = "`wheel` opens wheels only in this module"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write as _};
use std::path::{Component as PathPart, Path};

use memchr::memmem;
use tempfile::SpooledTempFile;
use zip::ZipArchive;
use zip::result::ZipError;

use super::elf::{self, ElfFacts};
use super::record::{self, Digest, Hasher};
use super::static_runtime;
use crate::failure::Failure;
use crate::store::human_size;

/// The most that a wheel may unpack to. This bounds the time for a hostile file; indexes accept
/// much less.
pub const MAX_SIZE: u64 = 4_000_000_000;

/// The most files of a wheel or a directory.
pub const MAX_FILES: usize = 500_000;

/// The largest file that is read into memory as a whole, such as `METADATA` or a Python file.
const MAX_TEXT: u64 = 16 << 20;

/// The part of a module's copy that stays in memory. The rest is in a temporary file.
const MODULE_IN_MEMORY: usize = 16 << 20;

const PIECE: usize = 128 << 10;

/// A wheel that is open for reading.
pub(super) type Source = ZipArchive<BufReader<File>>;

/// The files of a wheel without `RECORD`, which is computed from them.
#[derive(Debug)]
pub struct Wheel {
    /// The metadata directory, such as `saxpy-0.1.0.dist-info`.
    pub dist_info: String,
    /// The files by their paths in the wheel, with `/`.
    pub entries: BTreeMap<String, Entry>,
    /// The wheel that contains the entries with [`Content::Old`].
    pub(super) source: Option<RefCell<Source>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub executable: bool,
    pub digest: Digest,
    /// The facts of an ELF file.
    pub elf: Option<ElfFacts>,
    /// Whether the file contains the static CUDA runtime.
    pub static_runtime: bool,
    pub(super) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    New(Vec<u8>),
    /// The file with this index in the wheel that was read.
    Old(usize),
}

impl Entry {
    /// A file that was not in the wheel that was read.
    pub fn new(content: Vec<u8>, executable: bool) -> Result<Self, Failure> {
        let (digest, elf, static_runtime) = examine(content.as_slice(), "")?;
        Ok(Self {
            executable,
            digest,
            elf,
            static_runtime,
            content: Content::New(content),
        })
    }
}

impl Wheel {
    /// A wheel that is made of new files.
    pub fn new(dist_info: String, entries: BTreeMap<String, Entry>) -> Self {
        Self {
            dist_info,
            entries,
            source: None,
        }
    }

    /// Opens a wheel, and checks that it is one that installers accept.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        Self::open_at_most(path, MAX_SIZE)
    }

    fn open_at_most(path: &Path, max_size: u64) -> Result<Self, Failure> {
        let name = path.display().to_string();
        // Opening a FIFO would wait for a writer.
        let metadata = std::fs::metadata(path).map_err(Failure::io("open", path))?;
        if !metadata.is_file() {
            return Err(Failure::wheel("not a regular file")
                .hint("name a `.whl` file")
                .in_file(&name));
        }
        let file = File::open(path).map_err(Failure::io("open", path))?;
        Self::read(BufReader::with_capacity(PIECE, file), max_size)
            .map_err(|failure| failure.in_file(&name))
    }

    fn read(file: BufReader<File>, max_size: u64) -> Result<Self, Failure> {
        let mut archive = ZipArchive::new(file).map_err(unreadable)?;
        let mut entries = BTreeMap::new();
        for (index, name) in files(&mut archive, max_size)? {
            let file = archive.by_index(index).map_err(unreadable)?;
            let executable = file.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
            // `file` ends with an error if it unpacks to more than it declares.
            let (digest, elf, static_runtime) = examine(file, &name)?;
            let entry = Entry {
                executable,
                digest,
                elf,
                static_runtime,
                content: Content::Old(index),
            };
            entries.insert(name, entry);
        }
        let dist_info = dist_info(&entries)?;
        let mut wheel = Self::new(dist_info, entries);
        wheel.source = Some(RefCell::new(archive));
        wheel.check_record()?;
        Ok(wheel)
    }

    /// Checks `RECORD`, and removes it from the entries.
    fn check_record(&mut self) -> Result<(), Failure> {
        let path = format!("{}/RECORD", self.dist_info);
        let record = self.text(&path)?;
        self.entries.remove(&path);
        let entries = self.entries.iter();
        let files = entries.map(|(path, entry)| (path.as_str(), &entry.digest));
        record::check(&record, &path, &files.collect()).map_err(|reason| {
            Failure::wheel(reason)
                .hint("build the wheel again, or write its RECORD again with `wheel unpack` and `wheel pack`")
        })
    }

    /// The native modules and shared libraries, with their paths.
    pub fn modules(&self) -> impl Iterator<Item = (&str, &ElfFacts)> {
        let prefix = format!("{}/", self.dist_info);
        let files = self.entries.iter();
        files
            .filter(move |(path, _)| !path.starts_with(&prefix))
            .filter_map(|(path, entry)| Some((path.as_str(), entry.elf.as_ref()?)))
    }

    /// The whole content of a file, which must be small.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let entry = self.entry(path)?;
        if entry.digest.size > MAX_TEXT {
            return Err(Failure::invalid_wheel(format!(
                "`{path}` has more than {}",
                human_size(MAX_TEXT)
            )));
        }
        let mut bytes = Vec::new();
        match (&entry.content, &self.source) {
            (Content::New(content), _) => bytes.extend(content),
            (Content::Old(index), Some(source)) => {
                let mut source = source.borrow_mut();
                let mut file = source.by_index(*index).map_err(unreadable)?;
                file.read_to_end(&mut bytes)
                    .map_err(|error| damaged(path, &error))?;
            }
            (Content::Old(_), None) => return Err(missing(path)),
        }
        Ok(bytes)
    }

    /// The content of a text file.
    pub fn text(&self, path: &str) -> Result<String, Failure> {
        String::from_utf8(self.bytes(path)?)
            .map_err(|_| Failure::invalid_wheel(format!("`{path}` is not UTF-8")))
    }

    /// Adds or replaces a text file.
    pub fn set_text(&mut self, path: String, text: impl Into<Vec<u8>>) -> Result<(), Failure> {
        let entry = Entry::new(text.into(), false)?;
        self.entries.insert(path, entry);
        Ok(())
    }

    fn entry(&self, path: &str) -> Result<&Entry, Failure> {
        self.entries.get(path).ok_or_else(|| missing(path))
    }
}

const TOO_LARGE_HINT: &str = "build the wheel without the files that its users do not need";

fn missing(path: &str) -> Failure {
    Failure::invalid_wheel(format!("`{path}` is missing"))
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unreadable(error: ZipError) -> Failure {
    Failure::invalid_wheel(format!("not a readable zip file: {error}"))
}

fn damaged(name: &str, error: &std::io::Error) -> Failure {
    Failure::invalid_wheel(format!("`{name}` is damaged: {error}"))
}

/// Reads a file to its end, and returns its hash, the facts of an ELF file, and whether it contains
/// the static CUDA runtime.
fn examine(mut file: impl Read, name: &str) -> Result<(Digest, Option<ElfFacts>, bool), Failure> {
    let marker = static_runtime::marker();
    let runtime = memmem::Finder::new(&marker);
    let mut hasher = Hasher::default();
    let mut module: Option<SpooledTempFile> = None;
    let mut has_runtime = false;
    let mut is_start = true;
    let mut buffer = Vec::new();
    loop {
        // The end of the piece before is kept, because the text may lie across two pieces.
        let kept = buffer.len();
        let mut piece = file.by_ref().take(PIECE as u64);
        let count = piece.read_to_end(&mut buffer);
        let count = count.map_err(|error| damaged(name, &error))?;
        if count == 0 {
            break;
        }
        let piece = &buffer[kept..];
        hasher.update(piece);
        if is_start && elf::is_elf(piece) {
            module = Some(SpooledTempFile::new(MODULE_IN_MEMORY));
        }
        is_start = false;
        if let Some(module) = &mut module {
            let temporary = std::env::temp_dir();
            let written = module.write_all(piece);
            written.map_err(Failure::io("write to", &temporary))?;
            has_runtime |= runtime.find(&buffer).is_some();
        }
        buffer.drain(..buffer.len().saturating_sub(marker.len()));
    }
    let facts = module.map(|mut module| {
        let _ = module.seek(SeekFrom::Start(0));
        ElfFacts::read(module).map_err(|failure| failure.in_file(name))
    });
    Ok((hasher.finish(), facts.transpose()?, has_runtime))
}

/// The files of an archive by their indexes, with their names. Fails if installers could see other files or write
/// outside their directory, or if the archive declares that it unpacks to more than `max_size`.
pub fn files<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    max_size: u64,
) -> Result<Vec<(usize, String)>, Failure> {
    if archive.len() > MAX_FILES {
        return Err(Failure::wheel(format!("has more than {MAX_FILES} files")).hint(TOO_LARGE_HINT));
    }
    // Two programs could see different files in such an archive: the same name twice, entries
    // that overlap (which also make small files unpack to huge ones), or headers that differ.
    if archive.has_duplicate_names() {
        return Err(Failure::invalid_wheel(
            "contains two files of the same name",
        ));
    }
    archive.validate_header_consistency().map_err(unreadable)?;
    let mut files = Vec::new();
    let mut total = 0_u64;
    for index in 0..archive.len() {
        let file = archive.by_index(index).map_err(unreadable)?;
        let name = check_entry_name(file.name_raw())?;
        if file.is_symlink() {
            return Err(Failure::invalid_wheel(format!(
                "`{name}` is a symbolic link, which installers do not support"
            )));
        }
        total = total.saturating_add(file.size());
        if total > max_size {
            return Err(Failure::wheel(format!(
                "its files have more than {} when unpacked, which is the largest size that cargo-cuda reads",
                human_size(max_size)
            ))
            .hint(TOO_LARGE_HINT));
        }
        if !file.is_dir() {
            files.push((index, name));
        }
    }
    Ok(files)
}

/// The name of an entry as a path below the directory in which a wheel is installed.
pub fn check_entry_name(raw: &[u8]) -> Result<String, Failure> {
    let shown = raw.escape_ascii();
    let Ok(name) = std::str::from_utf8(raw) else {
        return Err(Failure::invalid_wheel(format!(
            "the file name `{shown}` is not UTF-8"
        )));
    };
    if name.contains(char::is_control) {
        return Err(Failure::invalid_wheel(format!(
            "the file name `{shown}` has control characters"
        )));
    }
    let is_plain = |part: PathPart<'_>| matches!(part, PathPart::Normal(_));
    if name.contains('\\') || !Path::new(name).components().all(is_plain) {
        return Err(Failure::invalid_wheel(format!(
            "the file name `{name}` leads out of the wheel"
        )));
    }
    Ok(name.to_owned())
}

/// The one metadata directory, with the files that installers require.
fn dist_info(entries: &BTreeMap<String, Entry>) -> Result<String, Failure> {
    let mut directories: Vec<&str> = entries
        .keys()
        .filter_map(|name| name.split_once('/'))
        .map(|(top, _)| top)
        .filter(|top| top.ends_with(".dist-info"))
        .collect();
    directories.dedup();
    let directory = match directories[..] {
        [one] => one,
        [] => {
            return Err(Failure::invalid_wheel(
                "not a wheel: it has no `.dist-info` directory",
            ));
        }
        _ => {
            return Err(Failure::invalid_wheel(format!(
                "has several metadata directories: {}",
                directories.join(", ")
            )));
        }
    };
    let has = |file: &str| entries.contains_key(&format!("{directory}/{file}"));
    let required = ["METADATA", "WHEEL", "RECORD"];
    if let Some(missing) = required.into_iter().find(|file| !has(file)) {
        return Err(Failure::invalid_wheel(format!(
            "not a wheel: it has no `{directory}/{missing}`"
        )));
    }
    if let Some(signature) = ["RECORD.jws", "RECORD.p7s"].into_iter().find(|f| has(f)) {
        return Err(Failure::wheel(format!(
            "is signed (`{signature}`), and rewriting would break the signature"
        ))
        .hint("rewrite the wheel before it is signed"));
    }
    Ok(directory.to_owned())
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
