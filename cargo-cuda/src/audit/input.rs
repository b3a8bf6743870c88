//! Reads what is audited: wheels, directories and single files.
//!
//! Each file is read in pieces, so that the memory does not depend on its size. A library in a wheel is unpacked to a
//! temporary file without a name, because ELF files are not read from the start to the end.
#![allow(
    clippy::disallowed_methods,
    reason = "`audit` reads files only in this module"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use cuda_build::internal::fatbin;
use tempfile::SpooledTempFile;
use zip::ZipArchive;

use super::facts::{Artifact, File as ListedFile, Library};
use super::package::{self, Contents, TEXTS};
use super::scan::scan;
use crate::failure::Failure;
use crate::output;
use crate::store::human_size;
use crate::wheel::archive::{self, MAX_FILES};
use crate::wheel::elf::{ElfFacts, is_elf};
use crate::wheel::record::{Digest, Hasher};

/// The largest metadata file.
const MAX_TEXT: u64 = 32 << 20;

/// How much of a Python file is searched.
const MAX_PYTHON: usize = 1 << 20;

/// The part of an unpacked library that stays in memory.
const IN_MEMORY: usize = 4 << 20;

const PIECE: usize = 128 << 10;

/// Calls in Python that load libraries, or a package that does.
const PRELOADS: [&[u8]; 4] = [
    b"CDLL(",
    b"LoadLibrary(",
    b"cuda.pathfinder",
    b"import torch",
];

/// The paths to audit: of a directory with wheels, such as `dist`, each of these wheels.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut expanded = Vec::new();
    for path in paths {
        let mut wheels = match path.is_dir() {
            true => output::files(path)?,
            false => Vec::new(),
        };
        wheels.retain(|file| is_wheel(file) && file.is_file());
        match wheels.is_empty() {
            true => expanded.push(path.clone()),
            false => expanded.append(&mut wheels),
        }
    }
    Ok(expanded)
}

fn is_wheel(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "whl")
}

const WHAT_TO_NAME: &str = "name a `.whl` file, a shared library, or a directory";

/// Reads a wheel, a directory or a library.
pub fn read(path: &Path) -> Result<Artifact, Failure> {
    let shown = path.display().to_string();
    let metadata = fs::metadata(path).map_err(Failure::io("open", path))?;
    let mut artifact = if metadata.is_dir() {
        directory(path)?
    } else if !metadata.is_file() {
        // Opening a FIFO would wait for a writer.
        return Err(Failure::wheel("neither a regular file nor a directory")
            .hint(WHAT_TO_NAME)
            .in_file(&shown));
    } else if is_wheel(path) {
        wheel(path).map_err(|failure| failure.in_file(&shown))?
    } else {
        single(path)?
    };
    if metadata.is_file() {
        artifact.size = metadata.len();
    }
    artifact.path = shown;
    Ok(artifact)
}

/// Reads one file that is not a wheel.
fn single(path: &Path) -> Result<Artifact, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut artifact = Artifact::default();
    add_file(&mut artifact, path, &name)?;
    match has_code(&artifact) {
        true => Ok(artifact),
        false => Err(without_code(path, "neither")),
    }
}

fn has_code(artifact: &Artifact) -> bool {
    !artifact.libraries.is_empty()
        || !artifact.device_files.is_empty()
        || !artifact.unreadable.is_empty()
}

/// The error about a file or a directory that has nothing to check. `neither` starts the list of what it has not.
fn without_code(path: &Path, neither: &str) -> Failure {
    let path = path.display();
    Failure::wheel(format!(
        "{path}: {neither} a wheel, nor an ELF library, nor device code"
    ))
    .hint(WHAT_TO_NAME)
}

fn directory(root: &Path) -> Result<Artifact, Failure> {
    let mut artifact = Artifact::default();
    let mut open = vec![PathBuf::new()];
    let mut contents = Contents::default();
    let mut metadata_directories = BTreeSet::new();
    while let Some(relative) = open.pop() {
        let here = root.join(&relative);
        for entry in fs::read_dir(&here).map_err(Failure::io("read", &here))? {
            let entry = entry.map_err(Failure::io("read", &here))?;
            let kind = entry.file_type().map_err(Failure::io("read", &here))?;
            let path = relative.join(entry.file_name());
            let name = path.to_string_lossy().into_owned();
            if artifact.files.len() + open.len() >= MAX_FILES {
                return Err(Failure::wheel(format!(
                    "{} has more than {MAX_FILES} files",
                    root.display()
                ))
                .hint("name the directory of one package"));
            }
            // Links are not followed: they can lead out of the directory and into a circle.
            if kind.is_dir() {
                if name.ends_with(".dist-info") && !name.contains('/') {
                    metadata_directories.insert(name);
                }
                open.push(path);
            } else if kind.is_file() {
                add_file(&mut artifact, &root.join(&path), &name)?;
                contents.files.insert(name);
            }
        }
    }
    if let [dist_info] = &Vec::from_iter(metadata_directories)[..] {
        for name in TEXTS {
            let path = root.join(dist_info).join(name);
            if let Ok(file) = File::open(&path) {
                let mut text = String::new();
                let read = file.take(MAX_TEXT).read_to_string(&mut text);
                read.map_err(Failure::io("read", &path))?;
                contents.texts.insert(name, text);
            }
        }
        contents.dist_info.clone_from(dist_info);
        contents.has_libraries = !artifact.libraries.is_empty();
        artifact.package = Some(package::package(&contents, None));
    }
    if artifact.package.is_none() && !has_code(&artifact) {
        return Err(without_code(root, "contains neither"));
    }
    artifact.files.sort_by(|a, b| a.path.cmp(&b.path));
    artifact.libraries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(artifact)
}

/// Adds a file on the disk.
fn add_file(artifact: &mut Artifact, path: &Path, name: &str) -> Result<(), Failure> {
    let mut file = File::open(path).map_err(Failure::io("open", path))?;
    let size = file.metadata().map_err(Failure::io("open", path))?.len();
    artifact.size += size;
    artifact.files.push(ListedFile {
        path: name.to_owned(),
        size,
    });
    let mut start = Vec::new();
    let first = if is_python(name) { MAX_PYTHON } else { 8 };
    let failed = || Failure::io("read", path);
    let read = (&file).take(first as u64).read_to_end(&mut start);
    read.map_err(failed())?;
    if is_python(name) {
        artifact.preloads |= preloads(&start);
    } else if has_device_code(name, &start) {
        file.seek(SeekFrom::Start(0)).map_err(failed())?;
        examine(artifact, file, name);
    }
    Ok(())
}

fn wheel(path: &Path) -> Result<Artifact, Failure> {
    let mut artifact = Artifact::default();
    let file = File::open(path).map_err(Failure::io("open", path))?;
    let unreadable = |error| Failure::invalid_wheel(format!("not a readable zip file: {error}"));
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(unreadable)?;
    let mut contents = Contents::default();
    let mut digests = BTreeMap::new();
    let mut metadata_directories = BTreeSet::new();
    for (index, name) in archive::files(&mut archive, archive::MAX_SIZE)? {
        let mut file = archive.by_index(index).map_err(unreadable)?;
        artifact.files.push(ListedFile {
            path: installed(&name).to_owned(),
            size: file.compressed_size(),
        });
        let unpacked = unpack(&mut file, &name)
            .map_err(|error| Failure::invalid_wheel(format!("`{name}` is damaged: {error}")))?;
        if let Some((top, rest)) = name.split_once('/')
            && top.ends_with(".dist-info")
        {
            metadata_directories.insert(top.to_owned());
            if let Some(known) = TEXTS.iter().find(|text| **text == rest) {
                let text = unpacked.text(&name)?;
                contents.texts.insert(known, text);
            }
        }
        if is_python(&name) {
            artifact.preloads |= preloads(&unpacked.start);
        }
        if let Some(copy) = unpacked.copy {
            examine(&mut artifact, copy, installed(&name));
        }
        contents.files.insert(name.clone());
        digests.insert(name, unpacked.digest);
    }
    contents.dist_info = match &Vec::from_iter(metadata_directories)[..] {
        [one] => one.clone(),
        [] => {
            return Err(Failure::invalid_wheel(
                "not a wheel: it has no `.dist-info` directory",
            ));
        }
        several => {
            return Err(Failure::invalid_wheel(format!(
                "has several metadata directories: {}",
                several.join(", ")
            )));
        }
    };
    contents.digests = Some(digests);
    contents.has_libraries = !artifact.libraries.is_empty();
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    artifact.package = Some(package::package(&contents, Some(&file_name)));
    artifact.files.sort_by(|a, b| a.path.cmp(&b.path));
    artifact.libraries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(artifact)
}

/// A file that was read to its end.
struct Unpacked {
    digest: Digest,
    /// The first bytes; of metadata the whole text.
    start: Vec<u8>,
    /// The whole file, if it can contain device code.
    copy: Option<SpooledTempFile>,
}

impl Unpacked {
    fn text(&self, name: &str) -> Result<String, Failure> {
        if self.digest.size > MAX_TEXT {
            return Err(Failure::invalid_wheel(format!(
                "`{name}` has more than {}",
                human_size(MAX_TEXT)
            )));
        }
        String::from_utf8(self.start.clone())
            .map_err(|_| Failure::invalid_wheel(format!("`{name}` is not UTF-8")))
    }
}

/// Reads a file of a wheel.
fn unpack(file: &mut impl Read, name: &str) -> io::Result<Unpacked> {
    let kept = match is_python(name) {
        true => MAX_PYTHON,
        false if name.contains(".dist-info/") => MAX_TEXT as usize,
        false => 0,
    };
    let mut hasher = Hasher::default();
    let mut start = Vec::new();
    let mut copy = None;
    let mut piece = Vec::with_capacity(PIECE);
    let mut is_first = true;
    loop {
        piece.clear();
        if file.by_ref().take(PIECE as u64).read_to_end(&mut piece)? == 0 {
            break;
        }
        hasher.update(&piece);
        let missing = kept.saturating_sub(start.len()).min(piece.len());
        start.extend_from_slice(&piece[..missing]);
        if is_first && has_device_code(name, &piece) {
            copy = Some(SpooledTempFile::new(IN_MEMORY));
        }
        is_first = false;
        if let Some(copy) = &mut copy {
            copy.write_all(&piece)?;
        }
    }
    Ok(Unpacked {
        digest: hasher.finish(),
        start,
        copy,
    })
}

/// Reads a file that can contain device code.
fn examine(artifact: &mut Artifact, mut file: impl Read + Seek, name: &str) {
    let mut start = [0; 4];
    let read = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.read_exact(&mut start));
    if read.is_ok() && is_elf(&start) {
        match ElfFacts::read(&mut file) {
            Ok(elf) => {
                artifact.libraries.push(Library {
                    path: name.to_owned(),
                    elf,
                });
                return;
            }
            Err(failure) => artifact.unreadable.push((name.to_owned(), failure.message)),
        }
    }
    match scan(&mut file, &[]) {
        Ok(device) if device.is_empty() => {}
        Ok(device) => artifact.device_files.push((name.to_owned(), device)),
        Err(error) => artifact.unreadable.push((
            name.to_owned(),
            format!("its device code is not readable: {error}"),
        )),
    }
}

/// Where a file is installed, relative to site-packages: a wheel may have it below `<name>.data/platlib`.
fn installed(name: &str) -> &str {
    let mut parts = name.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(top), Some("platlib" | "purelib"), Some(rest)) if top.ends_with(".data") => rest,
        _ => name,
    }
}

fn is_python(name: &str) -> bool {
    name.ends_with(".py")
}

fn preloads(text: &[u8]) -> bool {
    PRELOADS
        .iter()
        .any(|call| memchr::memmem::find(text, call).is_some())
}

/// Whether a file with this name and these first bytes can contain device code.
fn has_device_code(name: &str, start: &[u8]) -> bool {
    let extensions = [".fatbin", ".ptx", ".cubin"];
    is_elf(start)
        || start.starts_with(&fatbin::MAGIC_BYTES)
        || extensions.iter().any(|extension| name.ends_with(extension))
}
