//! The search path of native modules. Its entries are the library directories of NVIDIA's packages, relative to the
//! module's directory in site-packages. The audit of the finished wheel checks where they lead.

use std::collections::{BTreeMap, BTreeSet};

use cuda_build::{Component, Toolkit};

use super::needs::no_package;
use crate::failure::{Failure, Result};
use crate::output::file_name;
use crate::package::archive;
use crate::package::elf::ElfFacts;
use crate::package::nvidia::{self, library_directory};

/// How often a program or module is linked at most, until its search path and what it needs directly are right. Two or
/// three links are usual: what a module needs is read from the module.
pub const MOST_LINKS: usize = 6;

/// The error after [`MOST_LINKS`] links.
pub fn no_end(reason: &str) -> Failure {
    let text = format!("the search path is not right after {MOST_LINKS} links: {reason}");
    let hint = "list what it links in `components` of [package.metadata.cuda], and check that the build script links \
                the same libraries in every run";
    Failure::audit(text).hint(hint)
}

/// The search path of the native modules of one wheel: directories below site-packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleSearchPath(Vec<String>);

impl ModuleSearchPath {
    /// The search path for the components that a crate links as shared libraries.
    pub fn new(components: &BTreeSet<Component>, major: u32) -> Result<Self> {
        let mut directories = Vec::new();
        for &component in components {
            // A component without a shared library needs no search path. The driver's libraries are in no package.
            let facts = component.facts();
            if facts.libraries.is_empty() || facts.is_driver() {
                continue;
            }
            let directory =
                library_directory(component, major).ok_or_else(|| no_package(component, major))?;
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        Ok(Self(directories))
    }

    /// The entries for a module that is `depth` directories below site-packages (`saxpy/saxpy.abi3.so` has depth 1).
    pub fn entries(&self, depth: usize) -> Vec<String> {
        self.below(&format!("$ORIGIN{}", "/..".repeat(depth)))
    }

    /// The entries below these site-packages: absolute for a module that stays outside the environment.
    pub fn below(&self, site_packages: &str) -> Vec<String> {
        let entry = |directory: &String| format!("{site_packages}/{directory}");
        self.0.iter().map(entry).collect()
    }

    /// The depth of the module that was linked with the entries for `depth`: another depth if the builder put the
    /// module elsewhere.
    pub fn depth_of_linked<'a>(
        &self,
        modules: impl IntoIterator<Item = (&'a str, &'a ElfFacts)>,
        depth: usize,
    ) -> usize {
        let passed = self.entries(depth);
        let is_linked = |facts: &ElfFacts| match passed.is_empty() {
            true => facts.has_no_search_path() && facts.components().next().is_some(),
            false => passed.iter().all(|entry| facts.searches(entry)),
        };
        let mut linked = modules.into_iter().filter(|(_, facts)| is_linked(facts));
        let found = linked.find_map(|(path, _)| self::depth(path));
        found.unwrap_or(depth)
    }
}

/// How many directories below site-packages a file of a wheel is installed; `None` if it is installed elsewhere.
fn depth(path: &str) -> Option<usize> {
    let mut parts = path.splitn(3, '/');
    let is_data = parts.next().is_some_and(|first| first.ends_with(".data"));
    match (parts.next(), parts.next()) {
        (Some("purelib" | "platlib"), Some(rest)) if is_data => Some(rest.matches('/').count()),
        // A program that needs a search path is moved below site-packages.
        (Some("scripts"), _) if is_data => Some(1),
        _ if is_data => None,
        _ => Some(path.matches('/').count()),
    }
}

/// The libraries of NVIDIA's that those in `needed` find by a RUNPATH of their own, with their components: nvJitLink
/// for cuSPARSE of CUDA 12, cuBLASLt for cuBLAS. The loader looks into `LD_LIBRARY_PATH` before, and what it finds
/// there may be too old. A module that needs such a library directly has it from its own search path, and no second one
/// is loaded.
pub fn needed_by_runpath<'a>(
    needed: impl IntoIterator<Item = &'a String>,
    toolkit: &Toolkit,
) -> Result<BTreeMap<String, Component>> {
    let mut direct = BTreeMap::new();
    let mut rest: Vec<String> = needed.into_iter().cloned().collect();
    while let Some(soname) = rest.pop() {
        let found = nvidia::component_of(&soname).and_then(|component| toolkit.get(component));
        let mut libraries = found.iter().flat_map(|found| &found.libraries);
        let Some(library) = libraries.find(|path| file_name(path).starts_with(&soname)) else {
            continue;
        };
        let elf = ElfFacts::read_tables(archive::open(library)?.0)?;
        for other in elf.needed.iter().filter(|_| !elf.runpath.is_empty()) {
            let component = nvidia::component_of(other).filter(|it| toolkit.get(*it).is_some());
            if let Some(component) = component
                && direct.insert(other.clone(), component).is_none()
            {
                rest.push(other.clone());
            }
        }
    }
    Ok(direct)
}

/// The arguments with which rustc links a module whose search path has these entries, and which needs the libraries
/// `direct` although it uses no symbol of them. They must not pass through a shell, because a shell would expand
/// `$ORIGIN`.
pub fn link_arguments<'a>(
    entries: &[String],
    direct: impl IntoIterator<Item = &'a String>,
) -> Vec<String> {
    if entries.is_empty() {
        return Vec::new();
    }
    // `DT_RPATH`, which comes before `LD_LIBRARY_PATH`: that may name another CUDA.
    let tags = "link-arg=-Wl,--disable-new-dtags";
    let mut arguments = vec!["-C".to_owned(), tags.to_owned()];
    // A comma, which a path may contain, would separate arguments of `-Wl`.
    for argument in entries.iter().flat_map(|entry| ["-rpath", entry]) {
        arguments.extend(["-C".to_owned(), "link-arg=-Xlinker".to_owned()]);
        arguments.extend(["-C".to_owned(), format!("link-arg={argument}")]);
    }
    for soname in direct {
        for argument in [
            "-Wl,--push-state,--no-as-needed",
            &format!("-l:{soname}"),
            "-Wl,--pop-state",
        ] {
            arguments.extend(["-C".to_owned(), format!("link-arg={argument}")]);
        }
    }
    arguments
}

#[cfg(test)]
#[path = "runpath_tests.rs"]
mod tests;
