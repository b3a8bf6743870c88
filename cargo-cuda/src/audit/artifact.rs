//! What is read from a wheel or a library. The rules work on these values alone.

use std::collections::BTreeSet;
use std::path::Path;

use cuda_build::Component;
use cuda_find_core::release::NEWEST_MAJOR;
use cuda_find_core::root::Root;

use crate::failure::{Failure, Result};
use crate::output;
use crate::package::archive::{self, WheelArchive};
use crate::package::device::DeviceCode;
use crate::package::elf::ElfFacts;
use crate::package::metadata::{FileName, Metadata, normalized_name};
use crate::package::nvidia::{component_of, majors_of_soname};
use crate::package::requirement::{Requirement, major_of_word};
use crate::package::variant::{self, Siblings, VariantMetadata, index_file};

/// Calls in Python that load libraries, or a package that does.
const PRELOADS: [&str; 4] = ["CDLL(", "LoadLibrary(", "cuda.pathfinder", "import torch"];

/// One argument of `audit`.
#[derive(Clone, Debug, Default)]
pub struct Artifact {
    /// The path as it was given.
    pub path: String,
    /// In bytes; 0 if it is not written yet.
    pub size: u64,
    /// The normalised name of the distribution; `None` for a library.
    pub name: Option<String>,
    pub requires: Vec<Requirement>,
    /// The paths of all files, relative to the directory in which a wheel is installed.
    pub files: BTreeSet<String>,
    pub modules: Vec<NativeModule>,
    /// Fat binaries and PTX in files that are not ELF files.
    pub device_files: Vec<(String, DeviceCode)>,
    /// Whether a Python file contains calls that load libraries before the native module.
    pub preloads: bool,
    /// For a wheel whose name has a label.
    pub variant: Option<Variant>,
}

/// A wheel that is one of several from which installers choose.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The label in the file's name.
    pub label: String,
    /// `variant.json`; `None` if it is missing.
    pub metadata: Option<VariantMetadata>,
    /// The other wheels of the version, or why they cannot be read; `None` if the wheel is not written yet.
    pub siblings: Option<Result<Siblings, String>>,
    /// The file with the properties of all wheels of the version, if it is beside the wheel, and can be read.
    pub index: Option<Option<VariantMetadata>>,
}

/// An ELF file.
#[derive(Clone, Debug, Default)]
pub struct NativeModule {
    pub path: String,
    pub elf: ElfFacts,
}

/// The CUDA majors that the parts of an artifact name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Majors {
    /// From the name of the distribution: 12 of `saxpy-cu12`.
    pub name: Option<u32>,
    /// From the requirements that hold without an extra.
    pub requirements: BTreeSet<u32>,
    /// From the SONAMEs that the native modules need.
    pub modules: BTreeSet<u32>,
}

impl Artifact {
    /// Reads a wheel or a library.
    pub fn read(path: &Path) -> Result<Self> {
        let (file, size) = archive::open(path)?;
        if path.extension().is_some_and(|extension| extension == "whl") {
            let mut artifact = Self::of_wheel(&WheelArchive::open(path)?, path, size)?;
            if let (Some(name), Some(variant)) = (
                FileName::parse(&output::file_name(path)),
                &mut artifact.variant,
            ) {
                let directory = output::parent(path);
                let siblings = Siblings::read(directory, &name);
                variant.siblings = Some(siblings.map_err(|failure| failure.to_string()));
                let index = Root::system().bytes(&directory.join(index_file(&name)));
                let index = index.ok();
                variant.index = index.map(|text| VariantMetadata::parse(&text).ok());
            }
            return Ok(artifact);
        }
        let elf = ElfFacts::read(file).map_err(|failure| {
            let failure = failure.in_file(&path.display().to_string());
            failure.hint("name a `.whl` file or a shared library")
        })?;
        let name = output::file_name(path);
        let module = NativeModule { path: name, elf };
        Ok(Self {
            path: path.display().to_string(),
            size,
            modules: vec![module],
            ..Self::default()
        })
    }

    /// The content of a wheel.
    pub fn of_wheel(wheel: &WheelArchive, path: &Path, size: u64) -> Result<Self> {
        let text = wheel.text(&format!("{}/METADATA", wheel.dist_info))?;
        let metadata = Metadata::parse(&text);
        let requires = metadata.all("Requires-Dist").map(|line| {
            Requirement::parse(line).map_err(|reason| {
                Failure::invalid_wheel(format!("it requires `{line}`: {reason}"))
                    .hint("correct the requirement: installers refuse the wheel")
            })
        });
        let modules = wheel.modules().map(|(path, elf)| NativeModule {
            path: installed(path).to_owned(),
            elf: elf.clone(),
        });
        let mut device_files = Vec::new();
        for (path, entry) in &wheel.entries {
            if !entry.device.fat_binaries.is_empty() {
                device_files.push((installed(path).to_owned(), entry.device.clone()));
            }
        }
        let files = wheel.entries.keys().map(|path| installed(path).to_owned());
        let loads_libraries = |path: &str| {
            let text = wheel.text(path).unwrap_or_default();
            PRELOADS.iter().any(|call| text.contains(call))
        };
        let variant = FileName::parse(&output::file_name(path)).and_then(|name| {
            let text = wheel.bytes(&format!("{}/{}", wheel.dist_info, variant::FILE));
            Some(Variant {
                label: name.label?,
                metadata: text
                    .ok()
                    .and_then(|text| VariantMetadata::parse(&text).ok()),
                siblings: None,
                index: None,
            })
        });
        let mut python = wheel.entries.keys().filter(|path| path.ends_with(".py"));
        Ok(Self {
            path: path.display().to_string(),
            size,
            name: Some(normalized_name(metadata.one("Name")?)),
            requires: requires.collect::<Result<_>>()?,
            files: files.collect(),
            modules: modules.collect(),
            device_files,
            preloads: python.any(|path| loads_libraries(path)),
            variant,
        })
    }

    /// The libraries of NVIDIA's that a module needs and the artifact does not contain, with their components.
    pub fn needed_components<'a>(
        &'a self,
        module: &'a NativeModule,
    ) -> impl Iterator<Item = (&'a String, Component)> {
        let needed = module.elf.needed.iter();
        let outside = needed.filter(|soname| !self.has_file(soname));
        outside.filter_map(|soname| Some((soname, component_of(soname)?)))
    }

    /// Whether the artifact is a wheel, not a library file.
    pub fn is_wheel(&self) -> bool {
        self.name.is_some()
    }

    /// Whether a file with this name is in the artifact, in any directory.
    pub fn has_file(&self, name: &str) -> bool {
        self.files.iter().any(|file| file_name(file) == name)
    }

    /// The requirements that hold without an extra.
    pub fn required(&self) -> impl Iterator<Item = &Requirement> {
        let requires = self.requires.iter();
        requires.filter(|requirement| requirement.of_extra().is_none())
    }

    /// The device code of each file, with the CUDA major that compiled it: the one that its images name, else that of
    /// the file's libraries, else that of the artifact.
    pub fn device_code(&self, majors: &Majors) -> Vec<(&str, &DeviceCode, u32)> {
        let last = |majors: &BTreeSet<u32>| majors.last().copied();
        let other = last(&majors.modules).or(majors.name);
        let other = other.or(last(&majors.requirements)).unwrap_or(NEWEST_MAJOR);
        let modules = self.modules.iter().map(|module| {
            let major = majors.of_module(module).unwrap_or(other);
            (module.path.as_str(), &module.elf.device, major)
        });
        let files = self.device_files.iter();
        let mut all = Vec::from_iter(modules);
        all.extend(files.map(|(path, code)| (path.as_str(), code, other)));
        all.retain(|(_, code, _)| !code.fat_binaries.is_empty());
        for (_, code, major) in &mut all {
            *major = code.release.map_or(*major, |release| release.major);
        }
        all
    }
}

impl NativeModule {
    /// The majors of the SONAMEs that exist for one major only.
    pub fn majors(&self) -> BTreeSet<u32> {
        let sonames = self.elf.needed.iter();
        let majors = sonames.map(|soname| majors_of_soname(soname));
        let single = majors.filter(|majors| majors.len() == 1);
        single.flatten().collect()
    }
}

impl Majors {
    pub fn of(artifact: &Artifact) -> Self {
        let name = artifact.name.as_deref().unwrap_or_default();
        let label = artifact
            .variant
            .iter()
            .flat_map(|variant| variant.label.split('_'));
        let requirements = artifact.required().filter_map(Requirement::cuda_major);
        let modules = artifact.modules.iter().flat_map(NativeModule::majors);
        Self {
            // `saxpy-cu12`, `cupy-cuda13x`, `jax-cuda12-plugin`, `torch-cu118`, and the label `cu13_sm90`.
            name: (name.split('-').skip(1).chain(label)).find_map(major_of_word),
            requirements: requirements.collect(),
            modules: modules.collect(),
        }
    }

    /// The major of a native module: from its SONAMEs, else from the rest of the artifact. `None` if nothing names one.
    pub fn of_module(&self, module: &NativeModule) -> Option<u32> {
        let single = |majors: &BTreeSet<u32>| match majors.len() {
            1 => majors.first().copied(),
            _ => None,
        };
        single(&module.majors())
            .or(self.name)
            .or_else(|| single(&self.modules))
            .or_else(|| single(&self.requirements))
    }
}

/// Where a file is installed, relative to site-packages: a wheel may have it below `<name>.data/platlib`.
fn installed(path: &str) -> &str {
    let parts: Vec<&str> = path.splitn(3, '/').collect();
    match parts[..] {
        [top, "platlib" | "purelib", rest] if top.ends_with(".data") => rest,
        _ => path,
    }
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_majors() {
        for (name, major) in [
            ("saxpy-cu12", Some(12)),
            ("jax-cuda12-plugin", Some(12)),
            ("cu12", None),
            ("a-cube2", None),
        ] {
            let artifact = Artifact {
                name: Some(name.to_owned()),
                ..Artifact::default()
            };
            assert_eq!(Majors::of(&artifact).name, major, "{name}");
        }
    }
}
