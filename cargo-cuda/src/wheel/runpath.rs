//! The search path of native modules. Its entries are the library directories of NVIDIA's packages, relative to the
//! module's directory in site-packages.

use std::collections::BTreeSet;

use cuda_build::Component;

use super::dependencies::{self, Origin};
use super::elf::ElfFacts;
use crate::failure::Failure;

/// The two kinds of search path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchPathKind {
    /// `DT_RPATH`: searched before `LD_LIBRARY_PATH`, which may name another CUDA.
    #[default]
    Rpath,
    /// `DT_RUNPATH`: searched after `LD_LIBRARY_PATH`, so that an administrator can override it.
    Runpath,
}

impl SearchPathKind {
    /// Parses the value of `--rpath`, and of `rpath` in the manifest.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "rpath" => Some(Self::Rpath),
            "runpath" => Some(Self::Runpath),
            _ => None,
        }
    }
}

/// How many directories below site-packages a file of a wheel is installed; `None` if it is installed elsewhere.
pub fn depth(path: &str) -> Option<usize> {
    let mut parts = path.splitn(3, '/');
    let is_data = parts.next().is_some_and(|first| first.ends_with(".data"));
    match (parts.next(), parts.next()) {
        (Some("purelib" | "platlib"), Some(rest)) if is_data => Some(rest.matches('/').count()),
        // A program that needs a search path is moved: see `programs`.
        (Some("scripts"), _) if is_data => Some(1),
        _ if is_data => None,
        _ => Some(path.matches('/').count()),
    }
}

/// The search path of the native modules of one wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPathPlan {
    major: u32,
    kind: SearchPathKind,
    directories: Vec<String>,
}

impl SearchPathPlan {
    /// The plan for the components that a crate links as shared libraries.
    pub fn new(
        components: &BTreeSet<Component>,
        major: u32,
        kind: SearchPathKind,
    ) -> Result<Self, Failure> {
        dependencies::check_major(major)?;
        let mut directories = Vec::new();
        for &component in components {
            // A component without a shared library needs no search path. The driver's libraries are in no package.
            let facts = component.facts();
            if facts.libraries.is_empty() || facts.is_driver() {
                continue;
            }
            let directory = library_directory(component, major)
                .ok_or_else(|| dependencies::no_package(component, major))?;
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        Ok(Self {
            major,
            kind,
            directories,
        })
    }

    /// The entries of the search path for a module that is `depth` directories below site-packages
    /// (`saxpy/saxpy.abi3.so` has depth 1).
    pub fn entries(&self, depth: usize) -> Vec<String> {
        let directories = self.directories.iter();
        directories
            .map(|directory| entry(depth, directory))
            .collect()
    }

    /// The same plan with another kind of search path.
    #[must_use]
    pub fn with_kind(self, kind: SearchPathKind) -> Self {
        Self { kind, ..self }
    }

    /// The arguments with which rustc links the module's crate. They must not pass through a shell, because a shell
    /// would expand `$ORIGIN`.
    pub fn rustc_arguments(&self, depth: usize) -> Vec<String> {
        link_arguments(self.kind, &self.entries(depth))
    }

    /// The depth of the module that was linked with [`rustc_arguments`](Self::rustc_arguments) for `depth`: another
    /// depth if the builder put the module elsewhere.
    pub fn depth_of_linked<'a>(
        &self,
        modules: impl IntoIterator<Item = (&'a String, &'a ElfFacts)>,
        depth: usize,
    ) -> usize {
        let passed = self.entries(depth);
        let is_linked = |facts: &ElfFacts| match passed.is_empty() {
            true => facts.has_no_search_path() && self.needs_component(facts),
            false => passed.iter().all(|entry| facts.searches(entry)),
        };
        let mut linked = modules.into_iter().filter(|(_, facts)| is_linked(facts));
        let found = linked.find_map(|(path, _)| self::depth(path));
        found.unwrap_or(depth)
    }

    fn needs_component(&self, facts: &ElfFacts) -> bool {
        facts.needed.iter().any(|soname| {
            matches!(
                dependencies::origin(soname, self.major),
                Ok(Origin::Component(_))
            )
        })
    }

    /// Checks the search path of the module at `path`, a file of the wheel. It must be of the planned kind, have only
    /// planned entries, and lead to each component that the module needs. Entries that lead to directories of the
    /// wheel, which `is_inside` recognises, are accepted too.
    pub fn check(
        &self,
        path: &str,
        facts: &ElfFacts,
        is_inside: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        let outside = |entries: &[String]| -> Vec<String> {
            let all = entries.iter();
            let outside = all.filter(|entry| !is_inside_wheel(entry, path, &is_inside));
            outside.cloned().collect()
        };
        let (rpath, runpath) = (outside(&facts.rpath), outside(&facts.runpath));
        let mut needed = Vec::new();
        for soname in &facts.needed {
            let Origin::Component(component) = dependencies::origin(soname, self.major)? else {
                continue;
            };
            let directory = library_directory(component, self.major)
                .filter(|directory| self.directories.contains(directory));
            needed.push(directory.ok_or_else(|| {
                Failure::wheel(format!(
                    "{path} needs `{soname}` of `{component}`, which the planned search path does not cover"
                ))
                .hint(format!(
                    "add \"{component}\" to `components` in `[package.metadata.cuda]`"
                ))
            })?);
        }
        if needed.is_empty() && rpath.is_empty() && runpath.is_empty() {
            return Ok(());
        }
        let Some(depth) = depth(path) else {
            return Err(Failure::wheel(format!(
                "{path} needs CUDA's libraries, but it is installed outside site-packages, from where no search path \
                 leads to NVIDIA's packages"
            ))
            .hint("put the file into the Python package"));
        };
        let expected = self.entries(depth);
        let (wanted, other, tag) = match self.kind {
            SearchPathKind::Rpath => (&rpath, &runpath, "DT_RPATH"),
            SearchPathKind::Runpath => (&runpath, &rpath, "DT_RUNPATH"),
        };
        let leads_to = |directory: &String| wanted.contains(&entry(depth, directory));
        if other.is_empty()
            && wanted.iter().all(|entry| expected.contains(entry))
            && needed.iter().all(leads_to)
        {
            return Ok(());
        }
        let shown = |entries: &[String]| match entries {
            [] => "nothing".to_owned(),
            entries => entries.join(":"),
        };
        let force = match self.kind {
            SearchPathKind::Rpath => "--force-rpath ",
            SearchPathKind::Runpath => "",
        };
        Err(Failure::wheel(format!(
            "{path} has an unexpected search path\n  \
             expected {tag}: {}\n  has DT_RPATH: {}\n  has DT_RUNPATH: {}",
            shown(&expected),
            shown(&facts.rpath),
            shown(&facts.runpath)
        ))
        .hint(
            "if the crate builds this file, a build script or `.cargo/config.toml` adds search paths (`-rpath`): remove \
             them, because `cargo cuda wheel` passes the correct ones to the linker",
        )
        .hint(format!(
            "if the file was copied into the package: `patchelf {force}--set-rpath '{}' {}`",
            expected.join(":"),
            path.rsplit('/').next().unwrap_or(path)
        )))
    }
}

/// The arguments with which rustc links a module whose search path has these entries.
pub fn link_arguments(kind: SearchPathKind, entries: &[String]) -> Vec<String> {
    if entries.is_empty() {
        return Vec::new();
    }
    let tags = match kind {
        SearchPathKind::Runpath => "--enable-new-dtags",
        SearchPathKind::Rpath => "--disable-new-dtags",
    };
    let mut arguments = vec!["-C".to_owned(), format!("link-arg=-Wl,{tags}")];
    // A comma, which a path may contain, would separate arguments of `-Wl`.
    for argument in entries.iter().flat_map(|entry| ["-rpath", entry]) {
        arguments.extend(["-C".to_owned(), "link-arg=-Xlinker".to_owned()]);
        arguments.extend(["-C".to_owned(), format!("link-arg={argument}")]);
    }
    arguments
}

/// The entry of a search path that leads from a module to a directory below site-packages.
fn entry(depth: usize, directory: &str) -> String {
    format!("$ORIGIN{}/{directory}", "/..".repeat(depth))
}

/// Whether an entry of a search path leads from the module at `path` to a directory of the wheel.
fn is_inside_wheel(entry: &str, path: &str, is_inside: impl Fn(&str) -> bool) -> bool {
    let Some(rest) = entry.strip_prefix("$ORIGIN") else {
        return false;
    };
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return false,
            ".." => {}
            part => parts.push(part),
        }
    }
    is_inside(&parts.join("/"))
}

/// The directory below site-packages that contains the component's libraries, such as `nvidia/cublas/lib`.
pub fn library_directory(component: Component, major: u32) -> Option<String> {
    let facts = component.facts();
    let own = facts.package_dir(major);
    // If the table has no entry for a product and this major, use the entry for another major, because most products
    // are installed in the same directory for every CUDA major. Directories such as `nvidia/cu13` are skipped,
    // because they belong to one major.
    let shared = || {
        let directories = facts.package_dirs.iter().flatten();
        facts
            .is_product()
            .then(|| directories.copied().find(|d| !d.starts_with("nvidia/cu1")))
            .flatten()
    };
    own.or_else(shared)
        .map(|directory| format!("{directory}/lib"))
}

#[cfg(test)]
#[path = "runpath_tests.rs"]
mod tests;
