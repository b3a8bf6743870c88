//! Reads wheels.
//!
//! Every file of a wheel is read once and in pieces, so that the memory does not depend on its size. Only its hash
//! stays in memory, and of a native module the facts of its ELF headers.
#![allow(clippy::disallowed_methods, reason = "wheels are opened only here")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _};
use std::path::{Component as PathPart, Path};

use cuda_build::fatbin;
use tempfile::SpooledTempFile;
use zip::ZipArchive;
use zip::result::ZipError;

use super::device::DeviceCode;
use super::elf::{self, ElfFacts};
use super::metadata::{Digest, Hasher};
use crate::failure::{Failure, Result};
use crate::output::human_size;

/// The most that a wheel may unpack to. Larger files need another zip format, and indexes accept much less.
const MAX_SIZE: u64 = 4_000_000_000;

/// The most that is read of a file of the metadata.
const MAX_METADATA: u64 = 1 << 20;

/// The part of a module's copy that stays in memory. The rest is in a temporary file.
const MODULE_IN_MEMORY: usize = 16 << 20;

/// The files of a wheel without `RECORD`, which is computed from them.
#[derive(Debug)]
pub struct WheelArchive {
    /// The metadata directory, such as `saxpy-0.1.0.dist-info`.
    pub dist_info: String,
    /// The files by their paths in the wheel, with `/`.
    pub entries: BTreeMap<String, WheelFile>,
    /// The wheel that contains the entries with [`Content::Old`].
    pub(super) source: Option<RefCell<ZipArchive<BufReader<File>>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelFile {
    pub executable: bool,
    pub digest: Digest,
    /// The facts of an ELF file.
    pub elf: Option<ElfFacts>,
    /// The device code of a file that is not an ELF file.
    pub device: DeviceCode,
    pub(super) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    New(Vec<u8>),
    /// The file with this index in the wheel that was read.
    Old(usize),
}

impl WheelFile {
    /// A file that was not in the wheel that was read.
    pub fn new(content: Vec<u8>, executable: bool) -> Result<Self> {
        let mut new = Self::read(content.as_slice(), "")?;
        new.executable = executable;
        new.content = Content::New(content);
        Ok(new)
    }

    /// The device code of any file.
    pub fn device_code(&self) -> &DeviceCode {
        self.elf.as_ref().map_or(&self.device, |elf| &elf.device)
    }

    /// Reads a file to its end.
    fn read(mut file: impl Read, name: &str) -> Result<Self> {
        let unreadable = |error: io::Error| {
            Failure::invalid_wheel(format!("`{name}` could not be unpacked: {error}"))
        };
        let mut start = Vec::new();
        let read = file.by_ref().take(8).read_to_end(&mut start);
        read.map_err(unreadable)?;
        let mut file = start.chain(file);
        let mut hasher = Hasher::default();
        let (mut elf, mut device) = (None, DeviceCode::default());
        let has_device_code = start.starts_with(&fatbin::MAGIC_BYTES) || name.ends_with(".ptx");
        if elf::is_elf(&start) || has_device_code {
            // These formats are not read from the start to the end.
            let mut copy = SpooledTempFile::new(MODULE_IN_MEMORY);
            io::copy(&mut file, &mut copy)
                .and_then(|_| copy.rewind())
                .map_err(unreadable)?;
            io::copy(&mut copy, &mut hasher).map_err(unreadable)?;
            if has_device_code {
                device = DeviceCode::scan(&mut copy, &[]).map_err(unreadable)?;
            } else {
                elf = Some(ElfFacts::read(copy).map_err(|failure| failure.in_file(name))?);
            }
        } else {
            io::copy(&mut file, &mut hasher).map_err(unreadable)?;
        }
        Ok(Self {
            executable: false,
            digest: hasher.finish(),
            elf,
            device,
            content: Content::New(Vec::new()),
        })
    }
}

/// Opens a file, and returns it with its size.
pub fn open(path: &Path) -> Result<(File, u64)> {
    // Opening a FIFO would wait for a writer.
    let metadata = std::fs::metadata(path).map_err(Failure::io("open", path))?;
    if !metadata.is_file() {
        return Err(Failure::wheel("not a regular file")
            .hint("name a `.whl` file or a shared library")
            .in_file(&path.display().to_string()));
    }
    let file = File::open(path).map_err(Failure::io("open", path))?;
    Ok((file, metadata.len()))
}

/// The digest of a whole file.
pub fn digest(path: &Path) -> Result<Digest> {
    let (mut file, _) = open(path)?;
    let mut hasher = Hasher::default();
    io::copy(&mut file, &mut hasher).map_err(Failure::io("read", path))?;
    Ok(hasher.finish())
}

/// The content of a small file in the metadata directory of a wheel, of which nothing else is read.
pub fn metadata_file(wheel: &Path, name: &str) -> Result<Vec<u8>> {
    let (file, _) = open(wheel)?;
    let in_file = |failure: Failure| failure.in_file(&wheel.display().to_string());
    let archive = ZipArchive::new(BufReader::new(file)).map_err(unreadable);
    let mut archive = archive.map_err(in_file)?;
    let end = format!(".dist-info/{name}");
    let paths = Vec::from_iter(archive.file_names().flatten());
    let path = paths.into_iter().find(|path| path.ends_with(&end));
    let Some(path) = path.map(|path| path.into_owned()) else {
        return Err(in_file(Failure::invalid_wheel(format!("has no `{name}`"))));
    };
    let mut bytes = Vec::new();
    let file = archive
        .by_name(&path)
        .map_err(|error| in_file(unreadable(error)))?;
    let read = file.take(MAX_METADATA).read_to_end(&mut bytes);
    read.map_err(|error| in_file(unreadable(error.into())))?;
    Ok(bytes)
}

impl WheelArchive {
    /// A wheel that is made of new files.
    pub fn new(dist_info: String, entries: BTreeMap<String, WheelFile>) -> Self {
        Self {
            dist_info,
            entries,
            source: None,
        }
    }

    /// Opens a wheel, and checks that it is one that installers accept.
    pub fn open(path: &Path) -> Result<Self> {
        let (file, _) = open(path)?;
        Self::read(file).map_err(|failure| failure.in_file(&path.display().to_string()))
    }

    fn read(file: File) -> Result<Self> {
        let file = BufReader::with_capacity(128 << 10, file);
        let mut archive = ZipArchive::new(file).map_err(unreadable)?;
        // Two programs could see different files in such an archive: the same name twice, entries that overlap (which
        // also make small files unpack to huge ones), or headers that differ.
        if archive.has_duplicate_names() {
            let text = "contains two files of the same name";
            return Err(Failure::invalid_wheel(text));
        }
        archive.validate_header_consistency().map_err(unreadable)?;
        let mut entries = BTreeMap::new();
        let mut total = 0_u64;
        for index in 0..archive.len() {
            let file = archive.by_index(index).map_err(unreadable)?;
            let name = checked_name(file.name_raw())?;
            total = total.saturating_add(file.size());
            if total > MAX_SIZE {
                let limit = human_size(MAX_SIZE);
                let text = format!(
                    "its files have more than {limit} when unpacked, which is the largest size that cargo-cuda reads"
                );
                let hint = "build the wheel without the files that its users do not need";
                return Err(Failure::wheel(text).hint(hint));
            }
            if !file.is_dir() {
                let executable = file.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
                // `file` ends with an error if it unpacks to more than it declares.
                let mut entry = WheelFile::read(file, &name)?;
                (entry.executable, entry.content) = (executable, Content::Old(index));
                entries.insert(name, entry);
            }
        }
        let dist_info = dist_info(&entries)?;
        // RECORD and signatures of it.
        let record = format!("{dist_info}/RECORD");
        entries.retain(|path, _| !path.starts_with(&record));
        Ok(Self {
            dist_info,
            entries,
            source: Some(RefCell::new(archive)),
        })
    }

    /// The native modules and shared libraries, with their paths.
    pub fn modules(&self) -> impl Iterator<Item = (&str, &ElfFacts)> {
        let prefix = format!("{}/", self.dist_info);
        self.entries.iter().filter_map(move |(path, entry)| {
            let elf = entry.elf.as_ref().filter(|_| !path.starts_with(&prefix));
            Some((path.as_str(), elf?))
        })
    }

    /// The whole content of a file, which must be small.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>> {
        let missing = || Failure::invalid_wheel(format!("`{path}` is missing"));
        let entry = self.entries.get(path).ok_or_else(missing)?;
        let index = match &entry.content {
            Content::New(content) => return Ok(content.clone()),
            Content::Old(index) => *index,
        };
        let mut source = self.source.as_ref().ok_or_else(missing)?.borrow_mut();
        let mut file = source.by_index(index).map_err(unreadable)?;
        let mut bytes = Vec::new();
        let read = file.read_to_end(&mut bytes);
        read.map_err(|error| unreadable(error.into()))?;
        Ok(bytes)
    }

    /// The content of a text file.
    pub fn text(&self, path: &str) -> Result<String> {
        String::from_utf8(self.bytes(path)?)
            .map_err(|_| Failure::invalid_wheel(format!("`{path}` is not UTF-8")))
    }

    /// Adds or replaces a text file.
    pub fn set_text(&mut self, path: String, text: impl Into<Vec<u8>>) -> Result<()> {
        let file = WheelFile::new(text.into(), false)?;
        self.entries.insert(path, file);
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unreadable(error: ZipError) -> Failure {
    Failure::invalid_wheel(format!("not a readable zip file: {error}"))
}

/// The name of an entry as a path below the directory in which a wheel is installed.
fn checked_name(raw: &[u8]) -> Result<String> {
    let is_plain = |part: PathPart<'_>| matches!(part, PathPart::Normal(_));
    let fault = match std::str::from_utf8(raw) {
        Err(_) => "is not UTF-8",
        Ok(name) if name.contains(['\\', '\0']) || !Path::new(name).components().all(is_plain) => {
            "is not a plain path below the wheel"
        }
        Ok(name) => return Ok(name.to_owned()),
    };
    let text = format!("the file name `{}` {fault}", raw.escape_ascii());
    Err(Failure::invalid_wheel(text))
}

/// The metadata directory, of which a wheel has one.
fn dist_info(entries: &BTreeMap<String, WheelFile>) -> Result<String> {
    let names = entries.keys();
    let mut tops: BTreeSet<&str> = names.filter_map(|it| Some(it.split_once('/')?.0)).collect();
    tops.retain(|top| top.ends_with(".dist-info"));
    let [directory] = Vec::from_iter(tops)[..] else {
        let text = "not a wheel: it does not have exactly one `.dist-info` directory";
        return Err(Failure::invalid_wheel(text));
    };
    Ok(directory.to_owned())
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
