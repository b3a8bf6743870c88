//! The files of one component in a place, and what they tell.

use std::path::{Path, PathBuf};

use super::prefix::Prefix;
use super::products::header_version;
use super::versions::{builtins_release, cccl_version, cuda_version_macro};
use super::{Found, Prober};
use crate::component::{Bundle, Component, Facts};
use crate::release::{self, NEWEST_MAJOR, OLDEST_MAJOR};
use crate::target::machine;
use crate::version::ToolkitVersion;

/// Files that were skipped because they cannot be used here. The first of each kind is reported.
#[derive(Clone, Default)]
pub(super) struct Skipped {
    /// A library for another platform.
    library: Option<PathBuf>,
    /// A program that this machine cannot run, and the reason.
    program: Option<(PathBuf, &'static str)>,
}

impl Skipped {
    pub(super) fn remarks(&self, prober: &Prober<'_>) -> Vec<String> {
        let library = self.library.as_ref().map(|path| {
            format!(
                "{} and the like are not for {}",
                path.display(),
                prober.target
            )
        });
        let program = self
            .program
            .as_ref()
            .map(|(path, reason)| format!("{} and the like {reason}", path.display()));
        library.into_iter().chain(program).collect()
    }
}

/// The search for the files of one component.
struct Lookup<'a> {
    prober: &'a Prober<'a>,
    prefix: &'a Prefix,
    /// A directory with a library of this component for the platform. Libraries beside it are for the platform too,
    /// and are not opened.
    checked: Option<PathBuf>,
    skipped: &'a mut Skipped,
}

impl<'a> Lookup<'a> {
    fn new(prefix: &'a Prefix, prober: &'a Prober<'a>, skipped: &'a mut Skipped) -> Self {
        Self {
            prober,
            prefix,
            checked: None,
            skipped,
        }
    }

    fn file(&self, directory: &Path, name: &str) -> Option<PathBuf> {
        self.prefix
            .directories
            .file(self.prober.root, directory, name)
    }

    /// A program that runs on this machine. A program `beside` another one of the component runs too, and is not
    /// opened.
    fn tool(&mut self, name: &str, beside: Option<&Path>) -> Option<PathBuf> {
        let prefix = self.prefix;
        prefix.bin.iter().find_map(|directory| {
            let path = self.file(directory, name)?;
            let runs = (beside.is_some() && path.parent() == beside) || self.runs(&path);
            runs.then_some(path)
        })
    }

    /// A program of a component. What nvcc starts may also be where nvcc itself looks for it.
    fn tool_of(
        &mut self,
        component: Component,
        name: &str,
        beside: Option<&Path>,
    ) -> Option<PathBuf> {
        let prefix = self.prefix;
        if let (Component::Nvcc, "nvcc", Some(named)) = (component, name, &prefix.nvcc) {
            return Some(named.clone());
        }
        if let Some(path) = self.tool(name, beside) {
            return Some(path);
        }
        let is_started = matches!(component, Component::Nvcc | Component::Nvvm) && name != "nvcc";
        // Directories of `PATH` may be among them, so they are not listed.
        let directories = prefix.nvcc_programs.iter().filter(|_| is_started);
        directories
            .map(|directory| directory.join(name))
            .find(|path| self.prober.root.is_file(path) && self.runs(path))
    }

    /// Whether a program, a regular file, runs on this machine. A file that is not ELF may be a script.
    fn runs(&mut self, path: &Path) -> bool {
        let root = self.prober.root;
        let is_native = root
            .machine_of_file(path)
            .is_none_or(|its| Some(its) == machine(std::env::consts::ARCH));
        let reason = if !is_native {
            "do not run on this machine"
        } else if !root.is_executable(path) {
            // Some programs that unpack archives drop file modes.
            "are no executable files (`chmod +x`)"
        } else {
            return true;
        };
        self.skipped
            .program
            .get_or_insert_with(|| (path.to_owned(), reason));
        false
    }

    /// The first library of this name that is for the platform.
    fn library(&mut self, name: &str) -> Option<PathBuf> {
        let prefix = self.prefix;
        prefix
            .lib
            .iter()
            .find_map(|directory| self.library_in(directory, name))
    }

    /// A library in a directory, if it is a regular file and for the platform.
    fn library_in(&mut self, directory: &Path, name: &str) -> Option<PathBuf> {
        let path = self.file(directory, name)?;
        let is_checked = self.checked.as_deref() == path.parent();
        (is_checked || self.is_for_platform(&path)).then_some(path)
    }

    /// Whether a library, shared or static, is for the platform. A file that is not ELF is left to the linker.
    fn is_for_platform(&mut self, path: &Path) -> bool {
        let is_archive = path.extension().is_some_and(|extension| extension == "a");
        let machine = if is_archive {
            self.prober.root.machine_of_archive(path)
        } else {
            self.prober.root.machine_of_file(path)
        };
        let fits = machine.is_none_or(|machine| machine == self.prober.target.elf_machine());
        if !fits {
            self.skipped.library.get_or_insert_with(|| path.to_owned());
        } else if machine.is_some() {
            self.checked = path.parent().map(Path::to_owned);
        }
        fits
    }

    /// A library of a component under its SONAME; for a major newer than the tables, under any.
    fn library_of(&mut self, facts: &Facts, index: usize, major: u32) -> Option<PathBuf> {
        // NVRTC's builtins carry the minor: the name in the table is that of one release.
        if facts.libraries[index] != "nvrtc-builtins" {
            // If a library changed its SONAME, the newer one is later in the table.
            let known = || facts.sonames_of(index, major).rev();
            if known().next().is_some() {
                let mut products = known().filter(|_| facts.bundle == Bundle::Product);
                let found = products
                    .find_map(|soname| self.in_directory_of_major(facts, major, soname))
                    .or_else(|| known().find_map(|soname| self.library(soname)))
                    .or_else(|| self.older_product(facts, index));
                return found.filter(|path| is_for(self.prober, facts, path, major));
            }
            // A product's SONAME has a number of its own, whatever major it is for.
            if facts.bundle == Bundle::Product && !(OLDEST_MAJOR..=NEWEST_MAJOR).contains(&major) {
                return self.older_product(facts, index);
            }
        }
        let start = format!("lib{}.so.", facts.libraries[index]);
        let wanted = format!("{start}{major}");
        let (prefix, root) = (self.prefix, self.prober.root);
        prefix.lib.iter().find_map(|directory| {
            let names = prefix.directories.names(root, directory);
            names
                .iter()
                .filter_map(|name| name.to_str())
                .find_map(|name| {
                    let rest = name.strip_prefix(&wanted)?;
                    if rest.is_empty() || rest.starts_with('.') {
                        self.library_in(directory, name)
                    } else {
                        None
                    }
                })
        })
    }

    /// A product's library in a directory of its CUDA major: `lib/12` of cuTENSOR's archives before 2.3,
    /// `libcutensor/12` of its packages for Debian.
    fn in_directory_of_major(
        &mut self,
        facts: &Facts,
        major: u32,
        soname: &str,
    ) -> Option<PathBuf> {
        let names = [
            format!("{major}/{soname}"),
            format!("lib{}/{major}/{soname}", facts.libraries[0]),
        ];
        names.iter().find_map(|name| self.library(name))
    }

    /// A product's library under the SONAME of another of its own majors: the table has the newest
    /// (cuDNN 8 is `libcudnn.so.8`, cuDSS 0.7 `libcudss.so.0`).
    fn older_product(&mut self, facts: &Facts, index: usize) -> Option<PathBuf> {
        if facts.bundle != Bundle::Product {
            return None;
        }
        let start = format!("lib{}.so.", facts.libraries[index]);
        let (prefix, root) = (self.prefix, self.prober.root);
        prefix.lib.iter().find_map(|directory| {
            let names = prefix.directories.names(root, directory);
            names
                .iter()
                .rev()
                .filter_map(|name| name.to_str())
                .find_map(|name| {
                    name.strip_prefix(&start)?.parse::<u32>().ok()?;
                    self.library_in(directory, name)
                })
        })
    }
}

impl Prefix {
    pub(super) fn header(&self, prober: &Prober<'_>, name: &str) -> Option<PathBuf> {
        self.first(prober, &self.include, name)
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

    /// The CUDA majors that its libraries show by their names.
    pub(super) fn majors(&self, prober: &Prober<'_>, skipped: &mut Skipped) -> Vec<u32> {
        let shows = |major: &u32| {
            let mut lookup = Lookup::new(self, prober, skipped);
            Component::all()
                .map(Component::facts)
                .filter(|facts| facts.soname_tells_major(*major))
                .filter_map(|facts| facts.soname(0, *major))
                .any(|soname| lookup.library(soname).is_some())
        };
        release::majors().rev().filter(shows).collect()
    }

    /// Looks for a compiler, only to see whether one is skipped.
    pub(super) fn skip_nvcc(&self, prober: &Prober<'_>, skipped: &mut Skipped) {
        let _ = Lookup::new(self, prober, skipped).tool("nvcc", None);
    }

    /// Everything of `component` for `major`, or why it cannot be used.
    pub(super) fn component(
        &self,
        prober: &Prober<'_>,
        component: Component,
        major: u32,
        skipped: &mut Skipped,
    ) -> Result<Found, Absent> {
        let facts = component.facts();
        let mut lookup = Lookup::new(self, prober, skipped);
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
            let path = lookup.tool_of(component, tool, beside);
            found.tools.extend(path);
        }
        for archive in facts.archives {
            found.archives.extend(lookup.library(archive));
        }
        let libraries =
            (0..facts.libraries.len()).map(|index| lookup.library_of(facts, index, major));
        let libraries: Vec<Option<PathBuf>> = libraries.collect();
        let any_library = libraries.iter().any(Option::is_some);
        // Without its main library (libnvblas without libcublas) nothing can be linked.
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
        // The driver's own libraries are never part of a toolkit, only their headers.
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

/// A component that was not found, or is incomplete.
pub(super) struct Absent {
    /// The file that is missing.
    pub(super) missing: String,
    /// Whether other files of it were found.
    pub(super) something: bool,
}
