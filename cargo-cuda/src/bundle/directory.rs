//! Writes a bundle, with its description in `bundle.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cuda_find_core::release::driver_floor;
use serde::Serialize;

use super::content::{Build, sonames};
use super::start::Described;
use crate::failure::Result;
use crate::output::{self, file_name, human_size};
use crate::package::archive;
use crate::package::metadata::is_on_manylinux;
use crate::package::nvidia::{LibraryOrigin, origin};
use crate::report;

/// The file that describes a bundle. Only a directory with this file is replaced.
pub const DESCRIPTION: &str = "bundle.json";

/// What `bundle.json` has. Paths are relative to the bundle.
#[derive(Debug, Serialize)]
struct Description {
    /// What users start or load.
    program: String,
    /// The oldest glibc.
    glibc: Option<String>,
    builds: Vec<Described>,
    files: BTreeMap<String, File>,
}

#[derive(Clone, Debug, Serialize)]
struct File {
    /// In bytes.
    size: u64,
    sha256: String,
}

/// Copies files into a new directory.
struct Copier<'a> {
    directory: &'a Path,
    files: BTreeMap<String, File>,
}

impl Copier<'_> {
    /// Copies a file, unless one is there already, as the libraries of several builds are.
    fn copy(&mut self, file: &Path, to: String) -> Result<()> {
        if self.files.contains_key(&to) {
            return Ok(());
        }
        let entry = describe(file)?;
        output::copy(file, &self.directory.join(&to))?;
        self.files.insert(to, entry);
        Ok(())
    }

    /// Copies a program, or returns the path of an equal one.
    fn copy_program(&mut self, file: &Path, to: String) -> Result<String> {
        let new = describe(file)?;
        let mut equal = self.files.iter();
        if let Some((path, _)) = equal.find(|(_, it)| it.sha256 == new.sha256) {
            return Ok(path.clone());
        }
        self.copy(file, to.clone())?;
        Ok(to)
    }
}

fn describe(path: &Path) -> Result<File> {
    let digest = archive::digest(path)?;
    Ok(File {
        size: digest.size,
        sha256: digest.hex(),
    })
}

/// Writes the builds into `output` when everything is complete, and returns a report. `start` makes the program that
/// starts one of several.
pub fn write(
    output: &Path,
    name: &str,
    builds: &[Build],
    start: impl FnOnce(&[Described]) -> Result<PathBuf>,
) -> Result<String> {
    let beside = output::temporary_directory(output::parent(output))?;
    let directory = &beside.path().join("new");
    let files = BTreeMap::new();
    let mut copier = Copier { directory, files };
    let mut described = Vec::new();
    for build in builds {
        let program = copy_build(build, builds.len() == 1, &mut copier)?;
        described.push(Described::new(build, program));
    }
    let mut program = described[0].program.clone();
    if let [_, _, ..] = builds {
        program = format!("bin/{name}");
        copier.copy(&start(&described)?, program.clone())?;
    }
    let elves = builds.iter().flat_map(|build| build.files.values());
    let glibc = elves.filter_map(|(.., elf)| elf.glibc.clone()).max();
    let description = Description {
        program,
        glibc: glibc.map(|glibc| glibc.to_string()),
        builds: described,
        files: copier.files,
    };
    let json = report::json(&description);
    output::write(&directory.join(DESCRIPTION), json.as_bytes())?;
    replace(directory, output, beside.path())?;
    let text = text(&description, builds);
    Ok(format!("{}\n{text}", output.display()))
}

/// Copies a build, and returns the path of its program.
fn copy_build(build: &Build, is_only: bool, copier: &mut Copier<'_>) -> Result<String> {
    let below = &build.place.below;
    let library = format!("lib{below}");
    let mut program = String::new();
    let needed = sonames(&build.files);
    for (name, (component, path, _)) in &build.files {
        let Some(component) = component else {
            let is_library = name.contains(".so");
            let directory = if is_library {
                &library
            } else {
                &build.place.program
            };
            program = copier.copy_program(path, format!("{directory}/{name}"))?;
            continue;
        };
        // cudarc opens `libnccl.so`, and no `libnccl.so.2`. Several builds have no links, which some archives and
        // copies double, so such a library has this name alone, or both if another one links it.
        let stem = name
            .split_once(".so.")
            .map(|(stem, _)| format!("{stem}.so"));
        let is_opened = component.facts().is_product() && build.opened.contains(component);
        if is_only || !is_opened || needed.contains(name) {
            copier.copy(path, format!("{library}/{name}"))?;
        }
        match stem {
            Some(stem) if is_only => {
                output::link(name.as_ref(), &copier.directory.join(&library).join(stem))?;
            }
            Some(stem) if is_opened => copier.copy(path, format!("{library}/{stem}"))?,
            _ => {}
        }
    }
    for (component, licence) in &build.licences {
        for file in &licence.files {
            copier.copy(
                file,
                format!("licenses{below}/{component}/{}", file_name(file)),
            )?;
        }
    }
    Ok(program)
}

/// Gives a finished directory its name.
fn replace(directory: &Path, output: &Path, beside: &Path) -> Result<()> {
    if !output.is_dir() {
        return Ok(output::rename(directory, output)?);
    }
    let old = beside.join(".old");
    output::rename(output, &old)?;
    if let Err(failure) = output::rename(directory, output) {
        output::rename(&old, output)?;
        return Err(failure.into());
    }
    Ok(())
}

/// A table of sizes, and what the target system must have.
fn text(description: &Description, builds: &[Build]) -> String {
    let files = &description.files;
    let width = files.keys().map(String::len).max().unwrap_or_default();
    let row = |name: &str, size: u64| format!("  {name:width$} {:>9}\n", human_size(size));
    let rows = files.iter().map(|(name, file)| row(name, file.size));
    let mut text: String = rows.collect();
    text += &row("total", files.values().map(|file| file.size).sum());
    for build in &description.builds {
        if let ([_, _, ..], Some(cuda)) = (builds, &build.cuda) {
            text += &format!(
                "  build {}: {}, with CUDA {cuda}\n",
                build.name, build.program
            );
        }
    }
    if let Some(glibc) = &description.glibc {
        text += &format!("  needs glibc {glibc} or newer\n");
    }
    let mut lines = Vec::new();
    for build in builds {
        let major = build.release.map(|release| release.major);
        if let Some((major, driver)) = major.and_then(|major| Some((major, driver_floor(major)?))) {
            lines.push(format!(
                "  needs NVIDIA's driver {driver} or newer, for CUDA {major}\n"
            ));
        }
        for soname in sonames(&build.files) {
            if origin(soname) == LibraryOrigin::Driver {
                lines.push(format!(
                    "  {soname} is left out, because it belongs to the driver\n"
                ));
            } else if origin(soname) == LibraryOrigin::Foreign && !is_on_manylinux(soname) {
                lines.push(format!("  {soname} must be on the system\n"));
            }
        }
    }
    let mut printed = BTreeSet::new();
    lines.retain(|line| printed.insert(line.clone()));
    text + &lines.concat()
}

#[cfg(test)]
mod tests {
    use cuda_build::Component::{Cublasmp, Nccl};

    use super::*;
    use crate::bundle::content::Place;
    use crate::package::elf::ElfFacts;

    #[test]
    fn an_opened_library_has_the_name_by_which_it_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        output::write(&file, b"content").unwrap();
        for (mp_needs, expected) in [
            (&[][..], "libcublasmp.so.0 libnccl.so"),
            (
                &["libnccl.so.2"],
                "libcublasmp.so.0 libnccl.so libnccl.so.2",
            ),
        ] {
            let library = |component, needed: &[&str]| {
                let elf = ElfFacts::linking(needed, &[]);
                (Some(component), file.clone(), elf)
            };
            let build = Build {
                place: Place::of("cu13", 13),
                files: BTreeMap::from([
                    ("libnccl.so.2".to_owned(), library(Nccl, &[])),
                    ("libcublasmp.so.0".to_owned(), library(Cublasmp, mp_needs)),
                ]),
                opened: BTreeSet::from([Nccl]),
                ..Build::default()
            };
            let directory = &place.path().join("bundle");
            let files = BTreeMap::new();
            let mut copier = Copier { directory, files };
            copy_build(&build, false, &mut copier).unwrap();
            let names = copier.files.keys().map(|it| file_name(it.as_ref()));
            assert_eq!(output::joined(names, " "), expected);
        }
    }
}
