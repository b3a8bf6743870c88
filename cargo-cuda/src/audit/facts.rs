//! What is read from a wheel, a directory or a library. The rules work on these values alone.

use crate::requirement::Requirement;
use crate::wheel::elf::ElfFacts;
use crate::wheel::filename::FileName;

use super::device::DeviceCode;

/// One argument of `audit`.
#[derive(Clone, Debug, Default)]
pub struct Artifact {
    /// The path as it was given.
    pub path: String,
    /// The size of the file; of a directory, the total size of its files.
    pub size: u64,
    /// The metadata, if the artifact is a wheel or an unpacked wheel.
    pub package: Option<Package>,
    /// All files, with `/`, relative to the directory in which a wheel is installed.
    pub files: Vec<File>,
    /// The ELF files among them.
    pub libraries: Vec<Library>,
    /// Fat binaries and PTX in files that are not ELF files.
    pub device_files: Vec<(String, DeviceCode)>,
    /// Whether a Python file contains calls that load libraries before the native module.
    pub preloads: bool,
    /// Files that should be readable and are not, with the reason.
    pub unreadable: Vec<(String, String)>,
}

/// A file in an artifact.
#[derive(Clone, Debug, Default)]
pub struct File {
    pub path: String,
    /// The space that it takes in the artifact: in a wheel the compressed size.
    pub size: u64,
}

/// An ELF file.
#[derive(Clone, Debug, Default)]
pub struct Library {
    pub path: String,
    pub elf: ElfFacts,
}

/// The metadata of a wheel.
#[derive(Clone, Debug, Default)]
pub struct Package {
    /// `Name` of METADATA, normalised.
    pub name: String,
    /// The file name; `None` for an unpacked wheel.
    pub file_name: Option<FileName>,
    pub requires: Vec<Requirement>,
    /// What is not valid in METADATA, WHEEL and RECORD.
    pub errors: Vec<String>,
    /// What is valid and still a fault.
    pub warnings: Vec<String>,
}

impl Artifact {
    /// The name of the distribution; empty if there is no metadata.
    pub fn name(&self) -> &str {
        self.package.as_ref().map_or("", |package| &package.name)
    }

    /// Whether a file with this name is in the artifact, in any directory.
    pub fn has_file(&self, name: &str) -> bool {
        self.files.iter().any(|file| file_name(&file.path) == name)
    }
}

/// Some files as the subject of a sentence: `a.so`, `a.so and b.so`, `a.so and 7 other files`.
pub fn files_as_text(paths: &[impl AsRef<str>]) -> String {
    match paths {
        [] => String::new(),
        [only] => only.as_ref().to_owned(),
        [first, second] => format!("{} and {}", first.as_ref(), second.as_ref()),
        [first, others @ ..] => format!("{} and {} other files", first.as_ref(), others.len()),
    }
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
