//! The files of one component in a place, and what they tell.

use std::path::{Path, PathBuf};

use super::prefix::Prefix;
use super::products::header_version;
use super::{Found, Prober};
use crate::component::{Bundle, Component, Facts};
use crate::release::{self, NEWEST_MAJOR, OLDEST_MAJOR};
use crate::target::machine;
use crate::version::{ToolkitVersion, Version};

impl Prefix {
    pub(super) fn header(&self, prober: &Prober<'_>, name: &str) -> Option<PathBuf> {
        self.first(prober, &self.include, name)
    }

    /// A program that runs on the machine that builds. What lies `beside` one of the same component is
    /// like that one, and need not be opened.
    fn tool(&self, prober: &Prober<'_>, name: &str, beside: Option<&Path>) -> Option<PathBuf> {
        let mut found = self
            .bin
            .iter()
            .filter_map(|dir| self.directories.file(prober.root, dir, name));
        found.find(|path| (beside.is_some() && path.parent() == beside) || self.runs(prober, path))
    }

    /// A program that nvcc starts: what nvcc says of itself counts also outside the place.
    fn tool_of(
        &self,
        prober: &Prober<'_>,
        component: Component,
        name: &str,
        beside: Option<&Path>,
    ) -> Option<PathBuf> {
        if let (Component::Nvcc, "nvcc", Some(named)) = (component, name, &self.nvcc) {
            return Some(named.clone());
        }
        self.tool(prober, name, beside).or_else(|| {
            let started = matches!(component, Component::Nvcc | Component::Nvvm) && name != "nvcc";
            // Those of `PATH` hold much else, and one or two names are looked for in them.
            let mut paths = self
                .nvcc_programs
                .iter()
                .map(|directory| directory.join(name));
            paths.find(|path| started && prober.root.is_file(path) && self.runs(prober, path))
        })
    }

    /// Whether a program, a regular file, runs on the machine that builds; what is no ELF file may
    /// be a script.
    fn runs(&self, prober: &Prober<'_>, path: &Path) -> bool {
        let here = machine(std::env::consts::ARCH);
        let own = prober
            .root
            .machine_of_file(path)
            .is_none_or(|machine| Some(machine) == here);
        let reason = match own {
            true if prober.root.is_executable(path) => return true,
            // Archives unpacked by something that keeps no modes.
            true => "are no executable files (`chmod +x`)",
            false => "do not run on this machine",
        };
        let mut kept = self.idle_program.borrow_mut();
        kept.get_or_insert_with(|| format!("{} and the like {reason}", path.display()));
        false
    }

    /// The first library of this name that is for the platform.
    fn first_library(&self, prober: &Prober<'_>, name: &str) -> Option<PathBuf> {
        self.lib
            .iter()
            .find_map(|directory| self.fitting(prober, directory, name))
    }

    /// A library in a directory, where that is a regular file and for the platform.
    fn fitting(&self, prober: &Prober<'_>, directory: &Path, name: &str) -> Option<PathBuf> {
        let path = self.directories.file(prober.root, directory, name)?;
        // What lies beside a library of the same component is like that one, and need not be opened.
        if self.fitting.borrow().as_deref() == path.parent() {
            return Some(path);
        }
        self.fits(prober, &path).then_some(path)
    }

    /// Whether a library, shared or static and a regular file, is for the platform; what is no ELF
    /// file at all is left to the linker.
    fn fits(&self, prober: &Prober<'_>, path: &Path) -> bool {
        let is_archive = path.extension().is_some_and(|extension| extension == "a");
        let machine = match is_archive {
            true => prober.root.machine_of_archive(path),
            false => prober.root.machine_of_file(path),
        };
        let fits = machine.is_none_or(|machine| machine == prober.target.elf_machine());
        if !fits {
            self.misfit
                .borrow_mut()
                .get_or_insert_with(|| path.to_owned());
        } else if machine.is_some() {
            *self.fitting.borrow_mut() = path.parent().map(Path::to_owned);
        }
        fits
    }

    /// Says that files were passed over because they are for another machine, or no programs.
    pub(super) fn misfit(&self, prober: &Prober<'_>) -> Vec<String> {
        let library = self.misfit.borrow_mut().take();
        let library = library.map(|path| {
            format!(
                "{} and the like are not for {}",
                path.display(),
                prober.target
            )
        });
        library
            .into_iter()
            .chain(self.idle_program.borrow_mut().take())
            .collect()
    }

    /// The same, after looking for a compiler.
    pub(super) fn misfit_nvcc(&self, prober: &Prober<'_>) -> Vec<String> {
        let _ = self.tool(prober, "nvcc", None);
        self.misfit(prober)
    }

    /// The CUDA release that `cuda.h` names.
    pub(super) fn header_release(&self, prober: &Prober<'_>) -> Option<(ToolkitVersion, PathBuf)> {
        let read = || {
            let path = self.header(prober, "cuda.h")?;
            // More than a megabyte of text; the macro stands before the first declaration.
            let head = prober.root.head(&path).ok()?;
            let release = cuda_version_macro(&head)
                .or_else(|| cuda_version_macro(&prober.root.text(&path).ok()?));
            Some((release?, path))
        };
        self.release.get_or_init(read).clone()
    }

    /// The library under its SONAME; for a major newer than the table, under any.
    fn library(
        &self,
        prober: &Prober<'_>,
        facts: &Facts,
        index: usize,
        major: u32,
    ) -> Option<PathBuf> {
        // NVRTC's builtins carry the minor: the name in the table is that of one release.
        if facts.libraries[index] != "nvrtc-builtins" {
            // A newer SONAME of a library that changed it comes later in the table.
            let known = || facts.sonames_of(index, major).rev();
            if known().next().is_some() {
                let mut apart = known().filter(|_| facts.bundle == Bundle::Product);
                let apart = apart.find_map(|soname| self.kept_apart(prober, facts, major, soname));
                let plain = || known().find_map(|soname| self.first_library(prober, soname));
                let found = apart
                    .or_else(plain)
                    .or_else(|| self.older_product(prober, facts, index));
                return found.filter(|path| is_for(prober, facts, path, major));
            }
            // A product's SONAME has a number of its own, whatever major it is for.
            if facts.bundle == Bundle::Product && !(OLDEST_MAJOR..=NEWEST_MAJOR).contains(&major) {
                return self.older_product(prober, facts, index);
            }
        }
        let prefix = format!("lib{}.so.", facts.libraries[index]);
        let wanted = format!("{prefix}{major}");
        self.lib.iter().find_map(|directory| {
            let names = self.directories.names(prober.root, directory);
            names
                .iter()
                .filter_map(|name| name.to_str())
                .find_map(|name| {
                    let rest = name.strip_prefix(&wanted)?;
                    if rest.is_empty() || rest.starts_with('.') {
                        self.fitting(prober, directory, name)
                    } else {
                        None
                    }
                })
        })
    }

    /// A product's library in a directory of its CUDA major: `lib/12` of cuTENSOR's archives before 2.3,
    /// `libcutensor/12` of its packages for Debian.
    fn kept_apart(
        &self,
        prober: &Prober<'_>,
        facts: &Facts,
        major: u32,
        soname: &str,
    ) -> Option<PathBuf> {
        let names = [
            format!("{major}/{soname}"),
            format!("lib{}/{major}/{soname}", facts.libraries[0]),
        ];
        names
            .iter()
            .find_map(|name| self.first_library(prober, name))
    }

    /// A product's library under the SONAME of another of its own majors: the table has the newest
    /// (cuDNN 8 is `libcudnn.so.8`, cuDSS 0.7 `libcudss.so.0`).
    fn older_product(&self, prober: &Prober<'_>, facts: &Facts, index: usize) -> Option<PathBuf> {
        if facts.bundle != Bundle::Product {
            return None;
        }
        let prefix = format!("lib{}.so.", facts.libraries[index]);
        self.lib.iter().find_map(|directory| {
            let names = self.directories.names(prober.root, directory);
            names
                .iter()
                .rev()
                .filter_map(|name| name.to_str())
                .find_map(|name| {
                    name.strip_prefix(&prefix)?.parse::<u32>().ok()?;
                    self.fitting(prober, directory, name)
                })
        })
    }

    /// Whether any library of another major shows which major this prefix is for.
    pub(super) fn majors(&self, prober: &Prober<'_>) -> Vec<u32> {
        let mut majors = Vec::new();
        for major in release::majors().rev() {
            let names = Component::all()
                .map(Component::facts)
                .filter(|facts| facts.soname_tells_major(major))
                .filter_map(|facts| facts.soname(0, major));
            self.fitting.take();
            if names
                .into_iter()
                .any(|name| self.first_library(prober, name).is_some())
            {
                majors.push(major);
            }
        }
        majors
    }

    /// Everything of `component` for `major`, or why it does not count.
    pub(super) fn component(
        &self,
        prober: &Prober<'_>,
        component: Component,
        major: u32,
    ) -> Result<Found, Absent> {
        let facts = component.facts();
        let mut found = Found {
            component,
            major,
            version: None,
            toolkit: None,
            include: Vec::new(),
            libraries: Vec::new(),
            archives: Vec::new(),
            tools: Vec::new(),
            evidence: String::new(),
        };
        let mut proof: Option<PathBuf> = None;
        for tool in facts.tools {
            let beside = found.tools.first().and_then(|first| first.parent());
            let path = self.tool_of(prober, component, tool, beside);
            found.tools.extend(path);
        }
        self.fitting.take();
        for archive in facts.archives {
            found.archives.extend(self.first_library(prober, archive));
        }
        let libraries =
            (0..facts.libraries.len()).map(|index| self.library(prober, facts, index, major));
        let libraries: Vec<Option<PathBuf>> = libraries.collect();
        let any_library = libraries.iter().any(Option::is_some);
        // libnvblas without libcublas is nothing to link with under the name of cuBLAS.
        if facts.libraries_are_alternatives || libraries.first().is_some_and(Option::is_some) {
            found.libraries = libraries.into_iter().flatten().collect();
        }
        if let Some(name) = facts.header
            && let Some((header, directory)) = self.include_with(prober, name)
        {
            found.include = self.include_directories(prober, component, &directory);
            proof = Some(header);
        }
        let missing = Self::missing(facts, &found, proof.is_some(), major);
        if let Some(missing) = missing {
            let something = !found.tools.is_empty() || any_library || proof.is_some();
            return Err(Absent { missing, something });
        }
        let shown = found
            .tools
            .first()
            .or(found.libraries.first())
            .or(proof.as_ref())
            .or(found.archives.first());
        found.evidence = shown
            .map(|path| path.display().to_string())
            .unwrap_or_default();
        if component == Component::Cccl {
            // Its packages number something else: 13.3.4.3.1 holds CCCL 3.4.3, 12.9.27 holds 2.8.2.
            found.version = proof.and_then(|header| cccl_version(&prober.root.head(&header).ok()?));
        }
        if facts.bundle == Bundle::Product {
            found.version = found
                .include
                .first()
                .and_then(|d| header_version(prober, component, d));
        }
        if component == Component::Nvrtc {
            found.toolkit = found
                .libraries
                .get(1)
                .and_then(|path| builtins_release(path));
        }
        Ok(found)
    }

    /// CCCL moved to `include/cccl` in 13.0, and its `nv/target` stayed above.
    fn include_with(&self, prober: &Prober<'_>, name: &str) -> Option<(PathBuf, PathBuf)> {
        self.include.iter().find_map(|directory| {
            let apart = !self.directories.lacks(prober.root, directory, "cccl");
            let apart = apart.then(|| directory.join("cccl"));
            apart
                .into_iter()
                .chain([directory.clone()])
                .find_map(|directory| {
                    Some((
                        self.directories.file(prober.root, &directory, name)?,
                        directory,
                    ))
                })
        })
    }

    fn include_directories(
        &self,
        prober: &Prober<'_>,
        component: Component,
        own: &Path,
    ) -> Vec<PathBuf> {
        let mut directories = vec![own.to_owned()];
        if component == Component::Cccl {
            let above = own.parent().filter(|_| own.ends_with("cccl"));
            directories.extend(
                above
                    .filter(|p| prober.root.is_file(&p.join("nv/target")))
                    .map(Path::to_owned),
            );
        }
        directories
    }

    /// The file whose absence makes the component useless, if any is absent.
    fn missing(facts: &Facts, found: &Found, has_header: bool, major: u32) -> Option<String> {
        let main_tool = facts
            .tools
            .first()
            .filter(|tool| found.tool(tool).is_none());
        if let Some(tool) = main_tool {
            return Some(format!("`{tool}`"));
        }
        // The driver's own libraries are never part of a toolkit: their header is all there is.
        let driver = matches!(facts.component, Component::Driver | Component::Nvml);
        if facts.component == Component::Nvrtc && found.libraries.len() < 2 {
            let which = if found.libraries.is_empty() {
                "libnvrtc"
            } else {
                "libnvrtc-builtins"
            };
            return Some(format!("`{which}.so` for CUDA {major}"));
        }
        let library_missing =
            !facts.libraries.is_empty() && found.libraries.is_empty() && found.archives.is_empty();
        if library_missing && !driver && facts.tools.is_empty() {
            return Some(format!("`lib{}.so` for CUDA {major}", facts.libraries[0]));
        }
        let header_only =
            facts.tools.is_empty() && facts.libraries.is_empty() && facts.archives.is_empty();
        if (header_only || driver) && !has_header {
            return facts.header.map(|header| format!("`{header}`"));
        }
        if facts.libraries.is_empty()
            && facts.tools.is_empty()
            && !facts.archives.is_empty()
            && found.archives.is_empty()
        {
            return Some(format!("`{}`", facts.archives[0]));
        }
        None
    }
}

/// Whether a product's library may be for this major: one in a directory of another is not, also
/// where a link leads there.
fn is_for(prober: &Prober<'_>, facts: &Facts, path: &Path, major: u32) -> bool {
    if facts.bundle != Bundle::Product {
        return true;
    }
    let real = prober.root.resolve(path);
    let apart = real
        .parent()
        .and_then(|directory| directory.file_name()?.to_str()?.parse().ok());
    apart.is_none_or(|apart: u32| apart == major || !(8..100).contains(&apart))
}

/// A component that is not there, or not whole.
pub(super) struct Absent {
    /// The file that is missing.
    pub(super) missing: String,
    /// Whether other files of it are there.
    pub(super) something: bool,
}

/// The value of `CUDA_VERSION` in the text of `cuda.h`.
pub(super) fn cuda_version_macro(text: &str) -> Option<ToolkitVersion> {
    number_macro(text, "CUDA_VERSION").and_then(ToolkitVersion::from_cuda_version)
}

/// CCCL's version, from the text of `cub/version.cuh`: `CUB_VERSION` is 300403 for 3.4.3. The
/// macro is there in every release, also before the parts of CCCL had one version.
fn cccl_version(text: &str) -> Option<Version> {
    let number = number_macro(text, "CUB_VERSION")?;
    format!(
        "{}.{}.{}",
        number / 100_000,
        number / 100 % 1000,
        number % 100
    )
    .parse()
    .ok()
}

/// The value of a macro that is a plain number.
pub(super) fn number_macro(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut words = line.trim_start().strip_prefix('#')?.split_whitespace();
        if words.next() != Some("define") || words.next() != Some(name) {
            return None;
        }
        words.next()?.parse().ok()
    })
}

/// `libnvrtc-builtins.so.13.4` belongs to 13.4: the one file name that carries a minor.
fn builtins_release(path: &Path) -> Option<ToolkitVersion> {
    path.file_name()?
        .to_str()?
        .strip_prefix("libnvrtc-builtins.so.")?
        .parse()
        .ok()
}

/// The version that a library's real file name carries: `libcudart.so.12` is a link to
/// `libcudart.so.12.4.127` in NVIDIA's installers.
pub(super) fn file_name_version(prober: &Prober<'_>, path: &Path) -> Option<Version> {
    let version: Version = prober
        .root
        .final_name(path)?
        .to_str()?
        .split_once(".so.")?
        .1
        .parse()
        .ok()?;
    (version.parts().len() >= 3).then_some(version)
}
