//! Finds the files of one component in the searched directories.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::products::directory_number;
use super::searched::SearchedDirectories;
use super::versions::{header_version, release_in_file_name};
use super::{Found, Prober};
use crate::component::{Class, Component, Facts};
use crate::list::{entry, sort_by_key};
use crate::release::{NEWEST_MAJOR, OLDEST_MAJOR, majors};
use crate::target::machine;
use crate::version::Version;

/// Why a component was not found: a file without which it cannot be used is missing.
pub(super) struct Absent {
    /// The file that is missing.
    pub(super) missing: String,
    /// Whether other files of the component were found.
    pub(super) has_other_files: bool,
}

impl SearchedDirectories<'_> {
    /// The CUDA majors that the names of libraries show.
    pub(super) fn majors(&self) -> Vec<u32> {
        let mut lookup = Lookup::new(self);
        let mut shows = |major: &u32| {
            Component::all()
                .map(Component::facts)
                .filter(|facts| facts.soname_tells_major(*major))
                .filter_map(|facts| facts.soname(0, *major))
                .any(|soname| lookup.library(soname).is_some())
        };
        majors().rev().filter(&mut shows).collect()
    }

    /// All files of `component` for `major`, or the reason why it cannot be used.
    pub(super) fn component(&self, component: Component, major: u32) -> Result<Found, Absent> {
        let facts = component.facts();
        let mut lookup = Lookup::new(self);
        let mut found = Found::new(component, major);
        for tool in facts.tools {
            let first = found.tools.first().and_then(|first| first.parent());
            let path = lookup.tool(component, tool, first);
            found.tools.extend(path);
        }
        for archive in facts.archives {
            found.archives.extend(lookup.library(archive));
        }
        let mut has_main_library = false;
        let mut libraries = Vec::new();
        for index in 0..facts.libraries.len() {
            let library = lookup.library_of(facts, index, major);
            has_main_library |= index == 0 && library.is_some();
            libraries.extend(library);
        }
        let has_any_library = !libraries.is_empty();
        // Without the component's main library, its other libraries are useless: libnvblas needs libcublas.
        if facts.libraries_are_alternatives || has_main_library {
            found.libraries = libraries;
        }
        let header = facts.header.and_then(|name| self.header(name));
        if let Some((_, directory)) = &header {
            found.include.push(directory.clone());
            // In some packages, CCCL is in `include/cccl`, but a part of it (`nv/target`) is in `include`.
            let parent = directory.parent().filter(|_| directory.ends_with("cccl"));
            let has_part = |parent: &&Path| self.prober.root.is_file(&parent.join("nv/target"));
            found
                .include
                .extend(parent.filter(has_part).map(Path::to_owned));
        }
        if let Some(missing) = missing(facts, &found, header.is_some()) {
            return Err(Absent {
                missing,
                has_other_files: !found.tools.is_empty() || has_any_library || header.is_some(),
            });
        }
        let mut evidence = found.tools.iter().chain(&found.libraries);
        let evidence = evidence.next().or(header.as_ref().map(|(path, _)| path));
        let evidence = evidence.or(found.archives.first());
        found.evidence = evidence.map_or_else(String::new, |path| path.display().to_string());
        found.version = found
            .include
            .first()
            .and_then(|directory| header_version(self.prober, component, directory));
        let builtins = facts
            .library_with_release
            .and_then(|index| found.libraries.get(index));
        found.release = builtins.and_then(|path| release_in_file_name(path));
        Ok(found)
    }

    /// The path of a header, and the directory to pass with `-I`: an include directory, or `cccl` in an include
    /// directory.
    fn header(&self, name: &str) -> Option<(PathBuf, PathBuf)> {
        let directories = &self.prober.directories;
        self.include.iter().find_map(|directory| {
            let has_cccl = !directories.lacks(directory, "cccl");
            let cccl = has_cccl.then(|| directory.join("cccl"));
            cccl.into_iter()
                .chain([directory.clone()])
                .find_map(|directory| Some((directories.file(&directory, name)?, directory)))
        })
    }

    /// Looks for nvcc. If an nvcc is found that cannot be used, the reason is added to `skipped`.
    pub(super) fn record_unusable_nvcc(&self) {
        let _ = Lookup::new(self).tool(Component::Nvcc, "nvcc", None);
    }
}

/// The missing file without which the component cannot be used; `None` if no such file is missing.
fn missing(facts: &Facts, found: &Found, has_header: bool) -> Option<String> {
    if let Some(tool) = facts.tools.first() {
        return found.tool(tool).is_none().then(|| format!("`{tool}`"));
    }
    // A toolkit contains the driver's header, but never the driver's libraries.
    let needs_header = facts.libraries.is_empty() && facts.archives.is_empty();
    if needs_header || facts.is_driver() {
        let header = facts.header.filter(|_| !has_header);
        return header.map(|header| format!("`{header}`"));
    }
    if facts.libraries.is_empty() {
        let archive = facts.archives.first().filter(|_| found.archives.is_empty());
        return archive.map(|archive| format!("`{archive}`"));
    }
    let library = if facts.library_with_release.is_some() {
        // NVRTC cannot compile without its builtins, so both libraries are needed.
        facts.libraries.get(found.libraries.len())
    } else {
        let has_any = !found.libraries.is_empty() || !found.archives.is_empty();
        facts.libraries.first().filter(|_| !has_any)
    };
    library.map(|name| format!("`lib{name}.so` for CUDA {}", found.major))
}

/// The search for the files of one component.
struct Lookup<'a> {
    searched: &'a SearchedDirectories<'a>,
    /// The directory of a library that was opened and is for the platform. Other libraries in this directory
    /// are assumed to be for the platform too, and are not opened.
    checked: Option<PathBuf>,
}

impl<'a> Lookup<'a> {
    fn new(searched: &'a SearchedDirectories<'a>) -> Self {
        Self {
            searched,
            checked: None,
        }
    }

    /// Finds a program that runs on this machine. `first` is the directory of the component's first program,
    /// which was opened. Other programs in this directory are assumed to run too, and are not opened.
    fn tool(&self, component: Component, name: &str, first: Option<&Path>) -> Option<PathBuf> {
        let searched = self.searched;
        if let (Component::Nvcc, "nvcc", Some(named)) = (component, name, &searched.nvcc) {
            return Some(named.clone());
        }
        let in_bin = searched.bin.iter().find_map(|directory| {
            let path = searched.prober.directories.file(directory, name)?;
            let runs = (first.is_some() && path.parent() == first) || self.runs(component, &path);
            runs.then_some(path)
        });
        // nvcc also looks in other directories for the programs that it starts. These may be directories of `PATH`,
        // which can be large, so each file is looked up without a listing.
        let is_run_by_nvcc =
            matches!(component, Component::Nvcc | Component::Nvvm) && name != "nvcc";
        let started = || {
            let mut paths = searched
                .nvcc_programs
                .iter()
                .map(|directory| directory.join(name));
            paths.find(|path| searched.prober.root.is_file(path) && self.runs(component, path))
        };
        in_bin.or_else(|| is_run_by_nvcc.then(started).flatten())
    }

    /// Whether a program runs on this machine. A file that is not ELF may be a script, so it only has to be
    /// executable.
    fn runs(&self, component: Component, path: &Path) -> bool {
        let Prober { root, target, .. } = self.searched.prober;
        let is_foreign = |its: u16| Some(its) != machine(target.machine());
        let reason = if root.machine_of_file(path).is_some_and(is_foreign) {
            "do not run on this machine"
        } else if !root.is_executable(path) {
            // Some programs do not restore file modes when they unpack an archive.
            "are not executable (`chmod +x`)"
        } else {
            return true;
        };
        // The message names one path for each reason, so only the main program of a compiler (nvcc, cicc) is recorded.
        let facts = component.facts();
        let is_main = facts.tools.first().is_some_and(|main| path.ends_with(main));
        if is_main && facts.class == Class::ExactMinor {
            self.skip(path, reason.to_owned());
        }
        false
    }

    fn skip(&self, path: &Path, reason: String) {
        let mut skipped = self.searched.skipped.borrow_mut();
        let example = entry(&mut skipped, reason);
        if example.as_os_str().is_empty() || path < example.as_path() {
            path.clone_into(example);
        }
    }

    /// The first library with this file name that is for the platform.
    fn library(&mut self, name: &str) -> Option<PathBuf> {
        let mut directories = self.searched.lib.iter();
        directories.find_map(|directory| self.library_in(directory, name))
    }

    fn library_in(&mut self, directory: &Path, name: &str) -> Option<PathBuf> {
        let prober = self.searched.prober;
        let path = prober.directories.file(directory, name)?;
        if self.checked.is_some() && self.checked.as_deref() == path.parent() {
            return Some(path);
        }
        // A file whose machine cannot be read, because it is not ELF, is accepted: the linker decides.
        let machine = prober.root.machine_of_library(&path);
        if machine.is_some_and(|machine| machine != prober.target.elf_machine()) {
            self.skip(&path, format!("are not for {}", prober.target));
            return None;
        }
        if machine.is_some() {
            self.checked = path.parent().map(Path::to_owned);
        }
        Some(path)
    }

    /// The shared library at `index` of a component.
    fn library_of(&mut self, facts: &Facts, index: usize, major: u32) -> Option<PathBuf> {
        // If the SONAME changed within a major, the newer SONAME is later in the table and is tried first.
        let sonames: Vec<&str> = facts.sonames_of(index, major).rev().collect();
        let name = facts.libraries[index];
        if facts.is_product() {
            let is_in_table = (OLDEST_MAJOR..=NEWEST_MAJOR).contains(&major);
            if sonames.is_empty() && is_in_table {
                return None;
            }
            let in_directory = |lookup: &mut Self, soname: &str| {
                // cuTENSOR's archives before 2.3 and its Debian packages have one directory for each major.
                let main = facts.libraries[0];
                lookup
                    .library(&format!("{major}/{soname}"))
                    .or_else(|| lookup.library(&format!("lib{main}/{major}/{soname}")))
            };
            let own = sonames.iter().find_map(|soname| in_directory(self, soname));
            return own
                .or_else(|| sonames.iter().find_map(|soname| self.library(soname)))
                // The table does not have the SONAMEs of a product's older releases: cuDNN 8 is `libcudnn.so.8`.
                .or_else(|| self.numbered(name, |number| number.parse::<u32>().is_ok()))
                .filter(|path| self.is_for_major(path, major));
        }
        if !sonames.is_empty() && facts.library_with_release != Some(index) {
            return sonames.iter().find_map(|soname| self.library(soname));
        }
        // The SONAME ends with the release, or the major is newer than the table. Accept `<major>` and
        // `<major>.<minor>`.
        let wanted = major.to_string();
        self.numbered(name, |number| {
            let mut parts = number.split('.');
            parts.next() == Some(&wanted) && parts.count() < 2
        })
    }

    /// The library `lib<name>.so.<number>` with an accepted number, from the first directory that has such a
    /// library. Of several in this directory, the one with the highest number is returned.
    fn numbered(&mut self, name: &str, accept: impl Fn(&str) -> bool) -> Option<PathBuf> {
        let start = format!("lib{name}.so.");
        let searched = self.searched;
        searched.lib.iter().find_map(|directory| {
            let names = searched.prober.directories.names(directory);
            let mut numbered: Vec<(Version, &str)> = Vec::new();
            for name in names.iter().filter_map(|name| name.to_str()) {
                let number = name.strip_prefix(&start).filter(|number| accept(number));
                numbered.extend(number.and_then(|number| Some((number.parse().ok()?, name))));
            }
            sort_by_key(&mut numbered, |(number, _)| Reverse(number.clone()));
            numbered
                .iter()
                .find_map(|(_, name)| self.library_in(directory, name))
        })
    }

    /// Whether a product's library may be for this major. A library in a directory that is named after another
    /// major (`lib/12`) is not for this major. Links are resolved first.
    fn is_for_major(&self, path: &Path, major: u32) -> bool {
        let number = directory_number(&self.searched.prober.root.resolve(path));
        number.is_none_or(|number| number == major || !(8..100).contains(&number))
    }
}
