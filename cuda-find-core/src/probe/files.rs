//! Finds the files of one component in the directories below one or more roots, and versions in headers and file names.

use std::cell::{OnceCell, RefCell};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::prober::Prober;
use crate::component::{Class, Component, Facts, VersionMacros, windows};
use crate::found::{Attempt, Found};
use crate::list::sort_by_key;
use crate::nvcc::NvccAnswer;
use crate::release::{NEWEST_MAJOR, OLDEST_MAJOR, majors};
use crate::sources::versions;
use crate::target::{Target, elf_machine_of};
use crate::version::{ToolkitVersion, Version};

/// The existing directories of one or more roots, in the order in which they are searched.
pub(super) struct SearchedDirectories<'p> {
    pub(super) prober: &'p Prober<'p>,
    pub(super) include: Vec<PathBuf>,
    pub(super) lib: Vec<PathBuf>,
    pub(super) bin: Vec<PathBuf>,
    /// The nvcc that the user named, if any.
    pub(super) nvcc: Option<PathBuf>,
    /// The directories in which nvcc looks for the programs that it starts.
    pub(super) nvcc_programs: Vec<PathBuf>,
    /// Which directories and components are not used, and why.
    remarks: Vec<String>,
    /// Each reason to skip files, and the alphabetically first path that was skipped for it.
    skipped: RefCell<Vec<(String, PathBuf)>>,
    release: OnceCell<Option<(ToolkitVersion, PathBuf)>>,
}

impl<'p> SearchedDirectories<'p> {
    /// Lists the directories below `roots`, then the directories that each nvcc reports (`answers`).
    pub(super) fn new(prober: &'p Prober<'p>, roots: &[&Path], answers: &[&NvccAnswer]) -> Self {
        let mut searched = Self {
            prober,
            include: Vec::new(),
            lib: Vec::new(),
            bin: Vec::new(),
            nvcc: None,
            nvcc_programs: Vec::new(),
            remarks: Vec::new(),
            skipped: RefCell::default(),
            release: OnceCell::new(),
        };
        let mut roots = roots.to_vec();
        roots.retain(|root| prober.root.is_dir(root));
        let resolved: Vec<PathBuf> = roots.iter().map(|root| prober.root.resolve(root)).collect();
        for root in &roots {
            searched.add_root(root, &resolved);
        }
        searched.nvcc = answers.iter().find_map(|answer| answer.named.clone());
        for answer in answers {
            let tidy = |paths: &[PathBuf]| paths.iter().map(|p| prober.root.tidy(p)).collect();
            searched.add(|p| &mut p.include, tidy(&answer.includes), &resolved);
            searched.add(|p| &mut p.lib, tidy(&answer.libraries), &resolved);
            let programs: Vec<PathBuf> = tidy(&answer.programs);
            searched.nvcc_programs.extend(programs);
        }
        searched
    }

    /// Adds the directories of one root. `targets/<platform>` comes first. `include` and `lib` of the same root are
    /// either links into `targets/<platform>`, or for the machine that compiles instead of the target.
    fn add_root(&mut self, root: &Path, resolved: &[PathBuf]) {
        let target = self.prober.target;
        let platform = root.join("targets").join(target.directory());
        let (include, lib) = (root.join("include"), root.join("lib"));
        let has = |file: &str| self.prober.root.is_file(&root.join(file));
        // NVIDIA's Debian packages of products (cuDNN, NCCL …) install into the multiarch directories.
        let mut includes = vec![platform.join("include"), include.clone()];
        includes.push(include.join(target.multiarch()));
        // Fedora installs CUDA's headers in `include/cuda`. CCCL has a directory of this name too, but without
        // `cuda.h`.
        if has("include/cuda/cuda.h") {
            includes.push(include.join("cuda"));
        }
        // The root itself may be an include directory that contains only CCCL's headers.
        if has("cuda/std/version") {
            includes.push(root.to_owned());
        }
        includes.extend(["nvvm/include", "extras/CUPTI/include"].map(|name| root.join(name)));
        let mut libs = vec![platform.join("lib"), root.join("lib64"), lib.clone()];
        libs.push(lib.join(target.multiarch()));
        if self.prober.is_flat {
            libs = vec![root.to_owned()];
        }
        libs.extend(["nvvm/lib64", "nvvm/lib", "extras/CUPTI/lib64"].map(|name| root.join(name)));
        if target.is_windows() {
            // Import libraries are in `lib`. DLLs are in `bin`, and since CUDA 13 in `bin/x86_64` (wheels) or `bin/x64`
            // (NVIDIA's installer).
            let windows = ["lib/x64", "lib", "bin/x86_64", "bin/x64", "bin"];
            libs = windows.map(|name| root.join(name)).into();
            // cuDNN's installer makes directories for each CUDA release: `include/12.9`, `lib/12.9/x64`, and `bin/12.9`
            // or, since cuDNN 9.19, `bin/12.9/x64`. cuTENSOR's archive has `lib/12`.
            let releases = |name| versions(self.prober.root, &root.join(name), "");
            includes.extend(releases("include"));
            for directory in releases("lib").into_iter().chain(releases("bin")) {
                libs.extend([directory.join("x64"), directory]);
            }
        }
        let bins = ["bin", "nvvm/bin", "lib/nvidia-cuda-toolkit/bin"].map(|name| root.join(name));
        self.add(|p| &mut p.include, includes, resolved);
        self.add(|p| &mut p.lib, libs, resolved);
        self.add(|p| &mut p.bin, bins.into(), resolved);
    }

    /// Adds the `directories` that exist and are for the target. A directory is left out if `list` has it already,
    /// under this or another path, or if a conda environment shares it. `roots` are the resolved roots.
    fn add(
        &mut self,
        list: fn(&mut Self) -> &mut Vec<PathBuf>,
        directories: Vec<PathBuf>,
        roots: &[PathBuf],
    ) {
        let prober = self.prober;
        for directory in directories {
            // The path is compared first, without resolving it: most directories that an nvcc reports are already
            // in the list.
            if list(self).contains(&directory) || !prober.root.is_dir(&directory) {
                continue;
            }
            let real = prober.root.resolve(&directory);
            let mut listed = list(self).iter();
            if listed.any(|listed| prober.root.resolve(listed) == real)
                || self.is_shared_in_conda(&real)
            {
                continue;
            }
            // The platform is read only from the part below the root, because the path of the root itself may
            // contain `targets/<platform>` too.
            let mut below = roots.iter().filter_map(|root| real.strip_prefix(root).ok());
            let target = prober.target;
            let Some(other) = other_platform(below.next().unwrap_or(&real), target.directory())
            else {
                list(self).push(directory);
                continue;
            };
            // `Attempt::remark` drops duplicates.
            self.remarks.push(format!(
                "files of `targets/{other}` are not for {target} (`{}`){}",
                target.directory(),
                target.jetson_hint(&other)
            ));
        }
    }

    /// Whether this is `include` or `lib` of a conda prefix. Every package of the environment installs into these
    /// directories, so passing them to a compiler or linker would hide the system's headers and libraries. The CUDA
    /// packages of conda-forge do not need them: their files are in `targets`.
    fn is_shared_in_conda(&self, directory: &Path) -> bool {
        (directory.ends_with("include") || directory.ends_with("lib"))
            && !self.prober.is_flat
            && (directory.parent())
                .is_some_and(|root| self.prober.root.is_dir(&root.join("conda-meta")))
    }

    /// The first regular file of this name in a list of directories.
    pub(super) fn first<'d>(
        &self,
        mut directories: impl Iterator<Item = &'d PathBuf>,
        name: &str,
    ) -> Option<PathBuf> {
        directories.find_map(|directory| self.prober.file(directory, name))
    }

    /// The CUDA release in `cuda.h`, and the path of the header.
    pub(super) fn header_release(&self) -> Option<(ToolkitVersion, PathBuf)> {
        let read = || {
            let path = self.first(self.include.iter(), "cuda.h")?;
            // The header has more than a megabyte, and the macro is near its beginning, so the beginning is read first.
            let root = self.prober.root;
            let number = |text: &str| number_macro(text, "CUDA_VERSION");
            let number =
                number(&root.head(&path).ok()?).or_else(|| number(&root.text(&path).ok()?));
            Some((ToolkitVersion::from_cuda_version(number?)?, path))
        };
        self.release.get_or_init(read).clone()
    }

    /// Adds to `attempt` which files, directories and components are not used. One path stands for all files that were
    /// skipped for the same reason.
    pub(super) fn add_remarks(&self, attempt: &mut Attempt) {
        sort_by_key(&mut self.skipped.borrow_mut(), Clone::clone);
        for (reason, path) in self.skipped.borrow().iter() {
            attempt.remark(format!("{} and similar files {reason}", path.display()));
        }
        for remark in &self.remarks {
            attempt.remark(remark.clone());
        }
    }
}

/// The platform in a path that contains `targets/<platform>/include` or `targets/<platform>/lib`, if it is a Linux
/// platform other than `wanted`.
fn other_platform(path: &Path, wanted: &str) -> Option<String> {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let platform = parts.windows(3).find_map(|parts| match parts {
        ["targets", platform, "include" | "lib"] => Some(*platform),
        _ => None,
    })?;
    (platform != wanted && platform.contains("-linux")).then(|| platform.to_owned())
}

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
        let shows = |major: &u32| {
            Component::all()
                .map(Component::facts)
                .filter(|facts| facts.soname_tells_major(*major))
                .filter_map(|facts| facts.soname(0, *major))
                .any(|soname| self.library(soname, *major).is_some())
        };
        majors().rev().filter(shows).collect()
    }

    /// All files of `component` for `major`, or the reason why it cannot be used.
    pub(super) fn component(&self, component: Component, major: u32) -> Result<Found, Absent> {
        let facts = component.facts();
        let root = self.prober.root;
        let mut found = Found::new(component, major);
        for tool in facts.tools {
            found.tools.extend(self.tool(component, tool));
        }
        for archive in facts.archives {
            found.archives.extend(self.library(archive, major));
        }
        if self.prober.target.is_windows() {
            for name in windows::import_libraries(facts) {
                let directories = self.directories_for_major(&self.lib, major);
                found.archives.extend(self.first(directories, &name));
            }
        }
        let libraries = 0..facts.libraries.len();
        let libraries = libraries.map(|index| self.library_of(facts, index, major));
        let libraries: Vec<Option<PathBuf>> = libraries.collect();
        let has_any_library = libraries.iter().any(Option::is_some);
        // Without the component's main library, its other libraries are useless: libnvblas needs libcublas.
        let mut removed = facts.removed.iter().flat_map(|(_, names)| *names);
        if removed.any(|name| facts.libraries.contains(name))
            || matches!(libraries.first(), Some(Some(_)))
        {
            found.libraries.extend(libraries.into_iter().flatten());
        }
        let header = facts.header.and_then(|name| self.header(name, major));
        if let Some((_, directory)) = &header {
            found.include.push(directory.clone());
            let parent = directory.parent().unwrap_or(directory);
            // In some packages, CCCL is in `include/cccl`, but a part of it (`nv/target`) is in `include`.
            if directory.ends_with("cccl") && root.is_file(&parent.join("nv/target")) {
                found.include.push(parent.to_owned());
            }
            let more = facts.more_headers.map(|more| parent.join(more));
            found.include.extend(more.filter(|path| root.is_dir(path)));
        }
        if let Some(missing) = missing(facts, &found, header.is_some(), self.prober.target) {
            return Err(Absent {
                missing,
                has_other_files: !found.tools.is_empty() || has_any_library || header.is_some(),
            });
        }
        let header = header.iter().map(|(path, _)| path);
        let files = found.tools.iter().chain(&found.libraries);
        let evidence = files
            .chain(header)
            .chain(&found.archives)
            .next()
            .map(|path| path.display().to_string());
        found.evidence = evidence.unwrap_or_default();
        let include = found.include.first();
        found.version = include.and_then(|include| header_version(self.prober, component, include));
        let builtins = facts
            .library_with_release
            .and_then(|index| found.libraries.get(index));
        found.release = builtins.and_then(|path| release_in_file_name(path));
        Ok(found)
    }

    /// The path of a header, and the directory to pass with `-I`: an include directory, or `cccl` in an include
    /// directory.
    fn header(&self, name: &str, major: u32) -> Option<(PathBuf, PathBuf)> {
        let mut directories = self.directories_for_major(&self.include, major);
        directories.find_map(|include| {
            let mut directories = [include.join("cccl"), include.clone()].into_iter();
            directories.find_map(|directory| Some((self.prober.file(&directory, name)?, directory)))
        })
    }
}

/// The missing file without which the component cannot be used; `None` if no such file is missing.
fn missing(facts: &Facts, found: &Found, has_header: bool, target: &Target) -> Option<String> {
    if let Some(tool) = facts.tools.first() {
        return found.tool(tool).is_none().then(|| format!("`{tool}`"));
    }
    let has_archive = !found.archives.is_empty();
    let has_no_library = facts.libraries.is_empty();
    // A toolkit contains the driver's header, but never the driver's libraries.
    if facts.is_driver() || has_no_library {
        let (file, is_found) = match facts.archives.first() {
            Some(archive) if has_no_library => (Some(*archive), has_archive),
            _ => (facts.header, has_header),
        };
        return file.filter(|_| !is_found).map(|file| format!("`{file}`"));
    }
    // NVRTC cannot compile without its builtins, so both libraries are needed.
    let is_any_enough = facts.library_with_release.is_none();
    if is_any_enough && (has_archive || !found.libraries.is_empty()) {
        return None;
    }
    let name = facts.libraries.get(found.libraries.len())?;
    let file = if target.is_windows() {
        format!("DLL of `{name}`")
    } else {
        format!("`lib{name}.so`")
    };
    Some(format!("{file} for CUDA {}", found.major))
}

impl SearchedDirectories<'_> {
    /// Finds a program that runs on this machine. If an nvcc is found that cannot be used, the reason is added to
    /// `skipped`.
    pub(super) fn tool(&self, component: Component, name: &str) -> Option<PathBuf> {
        if let (Component::Nvcc, "nvcc", Some(named)) = (component, name, &self.nvcc) {
            return Some(named.clone());
        }
        let in_bin = self.bin.iter().find_map(|directory| {
            let path = self.prober.file(directory, name)?;
            self.runs(component, &path).then_some(path)
        });
        // nvcc also looks in other directories for the programs that it starts. These may be directories of `PATH`,
        // which can be large, so each file is looked up without a listing.
        let is_run_by_nvcc =
            matches!(component, Component::Nvcc | Component::Nvvm) && name != "nvcc";
        let run_by_nvcc = || {
            let directories = self.nvcc_programs.iter().filter(|_| is_run_by_nvcc);
            let mut paths = directories.map(|directory| directory.join(name));
            paths.find(|path| self.prober.root.is_file(path) && self.runs(component, path))
        };
        in_bin.or_else(run_by_nvcc)
    }

    /// Whether a program runs on this machine. A file that is not ELF may be a script, so it only has to be
    /// executable.
    fn runs(&self, component: Component, path: &Path) -> bool {
        let Prober { root, target, .. } = self.prober;
        let is_foreign =
            |elf_machine: u16| Some(elf_machine) != elf_machine_of(target.build_architecture());
        let reason = if root.elf_machine(path).is_some_and(is_foreign) {
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
        let mut skipped = self.skipped.borrow_mut();
        match skipped.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, example)) if path < example.as_path() => path.clone_into(example),
            Some(_) => {}
            None => skipped.push((reason, path.to_owned())),
        }
    }

    /// The first library with this file name that is for the platform.
    pub(super) fn library(&self, name: &str, major: u32) -> Option<PathBuf> {
        let mut directories = self.directories_for_major(&self.lib, major);
        directories.find_map(|directory| self.library_in(directory, name))
    }

    /// The directories that are not named after another major. Only on Windows, such directories are in the lists.
    fn directories_for_major<'d>(
        &self,
        directories: &'d [PathBuf],
        major: u32,
    ) -> impl Iterator<Item = &'d PathBuf> {
        let is_windows = self.prober.target.is_windows();
        directories.iter().filter(move |directory| {
            !is_windows || major_of_directory(directory).is_none_or(|named| named == major)
        })
    }

    fn library_in(&self, directory: &Path, name: &str) -> Option<PathBuf> {
        let prober = self.prober;
        let path = prober.library(directory, name)?;
        // A file whose machine cannot be read, because it is not ELF, is accepted: the linker decides.
        let machine = prober.root.machine_of_library(&path);
        if machine.is_some_and(|machine| machine != prober.target.elf_machine()) {
            self.skip(&path, format!("are not for {}", prober.target));
            return None;
        }
        Some(path)
    }

    /// The shared library at `index` of a component.
    fn library_of(&self, facts: &Facts, index: usize, major: u32) -> Option<PathBuf> {
        // If the SONAME changed within a major, the newer SONAME is later in the table and is tried first.
        let sonames: Vec<&str> = facts.sonames_of(index, major).rev().collect();
        let name = facts.libraries[index];
        if facts.is_product() {
            let is_in_table = (OLDEST_MAJOR..=NEWEST_MAJOR).contains(&major);
            if sonames.is_empty() && is_in_table {
                return None;
            }
            // cuTENSOR's archives before 2.3 and its Debian packages have one directory for each major.
            let main = facts.libraries[0];
            let below = [format!("{major}/"), format!("lib{main}/{major}/")];
            let mut names = Vec::new();
            for soname in &sonames {
                names.extend(below.each_ref().map(|below| format!("{below}{soname}")));
            }
            names.extend(sonames.iter().map(ToString::to_string));
            let library = names.iter().find_map(|name| self.library(name, major));
            // The table does not have the SONAMEs of a product's older releases: cuDNN 8 is `libcudnn.so.8`.
            return library
                .or_else(|| self.numbered(name, major, |number| number.parse::<u32>().is_ok()))
                .filter(|path| self.is_for_major(path, major));
        }
        if !sonames.is_empty() && facts.library_with_release != Some(index) {
            let mut sonames = sonames.iter();
            return sonames.find_map(|soname| self.library(soname, major));
        }
        // The SONAME ends with the release, or the major is newer than the table. Accept `<major>` and
        // `<major>.<minor>`.
        let wanted = major.to_string();
        self.numbered(name, major, |number| {
            let mut parts = number.split('.');
            parts.next() == Some(&wanted) && parts.count() < 2
        })
    }

    /// The library `lib<name>.so.<number>` with an accepted number, from the first directory that has such a
    /// library. Of several in this directory, the one with the highest number is returned.
    fn numbered(&self, name: &str, major: u32, accept: impl Fn(&str) -> bool) -> Option<PathBuf> {
        let start = format!("lib{name}.so.");
        let mut directories = self.directories_for_major(&self.lib, major);
        directories.find_map(|directory| {
            let mut numbered: Vec<(Version, String)> = Vec::new();
            for name in self.prober.root.names(directory) {
                let name = name.to_str();
                let soname = if self.prober.target.is_windows() {
                    name.and_then(windows::soname)
                } else {
                    name.map(str::to_owned)
                };
                let number = soname
                    .as_deref()
                    .and_then(|soname| soname.strip_prefix(&start));
                let version = number.filter(|number| accept(number)).map(str::parse);
                numbered.extend(version.and_then(Result::ok).zip(soname));
            }
            sort_by_key(&mut numbered, |(version, _)| Reverse(version.clone()));
            let mut names = numbered.iter().map(|(_, name)| name);
            names.find_map(|name| self.library_in(directory, name))
        })
    }

    /// Whether a product's library may be for this major. A library in a directory that is named after another
    /// major (`lib/12`) is not for this major. Links are resolved first.
    fn is_for_major(&self, path: &Path, major: u32) -> bool {
        let real = self.prober.root.resolve(path);
        let directory = real.parent().and_then(Path::file_name);
        let number: Option<u32> = directory.and_then(|name| name.to_str()?.parse().ok());
        number.is_none_or(|number| number == major || !(8..100).contains(&number))
    }
}

/// The CUDA major that a directory is named after: 12 for `lib/12.9`, `lib/12.9/x64` and `lib/12`.
fn major_of_directory(directory: &Path) -> Option<u32> {
    let mut names = directory.ancestors().filter_map(Path::file_name);
    let release = names.find(|name| *name != "x64")?.to_str()?;
    release.split('.').next()?.parse().ok()
}

/// The version in a component's own header.
pub(super) fn header_version(
    prober: &Prober<'_>,
    component: Component,
    include: &Path,
) -> Option<Version> {
    let (header, macros) = component.facts().version_macros.as_ref()?;
    let text = prober.root.head(&include.join(header)).ok()?;
    let [major, minor, patch] = match macros {
        VersionMacros::Parts(names) => names.map(|name| number_macro(&text, name)),
        VersionMacros::Number(name) => {
            let number = number_macro(&text, name)?;
            [number / 100_000, number / 100 % 1000, number % 100].map(Some)
        }
    };
    format!("{}.{}.{}", major?, minor?, patch?).parse().ok()
}

/// The value of the macro `name`, if `text` defines it as a plain number.
pub(super) fn number_macro(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut words = line.trim_start().strip_prefix('#')?.split_whitespace();
        if words.next() != Some("define") || words.next() != Some(name) {
            return None;
        }
        words.next()?.parse().ok()
    })
}

/// The CUDA release in the name of a library: `libnvrtc-builtins.so.13.4` belongs to 13.4.
pub fn release_in_file_name(path: &Path) -> Option<ToolkitVersion> {
    let name = path.file_name()?.to_str()?;
    let soname = windows::soname(name).unwrap_or_else(|| name.to_owned());
    soname.split_once(".so.")?.1.parse().ok()
}

/// The version in the name of the file that a library's link leads to, if the version has at least three parts. For
/// example, NVIDIA's installers make `libcudart.so.12` a link to `libcudart.so.12.4.127`.
pub(super) fn file_name_version(prober: &Prober<'_>, path: &Path) -> Option<Version> {
    let name = prober.root.final_name(path)?;
    let version: Version = name.to_str()?.split_once(".so.")?.1.parse().ok()?;
    (version.parts().len() >= 3).then_some(version)
}
