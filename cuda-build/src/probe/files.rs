//! The files of one component below one prefix.

use std::path::{Path, PathBuf};

use super::{Found, Prober};
use crate::component::{Bundle, Component, Facts};
use crate::version::{ToolkitVersion, Version};

/// Directories of one prefix that hold something, in the order to search them.
pub(super) struct Prefix {
    pub(super) include: Vec<PathBuf>,
    pub(super) lib: Vec<PathBuf>,
    pub(super) bin: Vec<PathBuf>,
}

impl Prefix {
    /// `targets/<platform>` comes first: where both exist, the top level is a link to it, or
    /// belongs to the machine that compiles and not to the one compiled for.
    pub(super) fn new(prober: &Prober<'_>, path: &Path) -> Self {
        let target = path.join("targets").join(prober.target.directory());
        let existing = |candidates: Vec<PathBuf>| -> Vec<PathBuf> {
            let mut kept: Vec<PathBuf> = Vec::new();
            for candidate in candidates {
                let same = |k: &PathBuf| prober.root.resolve(k) == prober.root.resolve(&candidate);
                if prober.root.is_dir(&candidate) && !kept.iter().any(same) {
                    kept.push(candidate);
                }
            }
            kept
        };
        Self {
            include: existing(vec![target.join("include"), path.join("include")]),
            lib: existing(vec![
                target.join("lib"),
                path.join("lib64"),
                path.join("lib"),
                path.join("lib").join(prober.target.multiarch()),
                path.join("nvvm/lib64"),
            ]),
            bin: existing(vec![path.join("bin"), path.join("nvvm/bin")]),
        }
    }

    fn first(prober: &Prober<'_>, directories: &[PathBuf], name: &str) -> Option<PathBuf> {
        directories.iter().map(|directory| directory.join(name)).find(|path| prober.root.is_file(path))
    }

    pub(super) fn header(&self, prober: &Prober<'_>, name: &str) -> Option<PathBuf> {
        Self::first(prober, &self.include, name)
    }

    pub(super) fn tool(&self, prober: &Prober<'_>, name: &str) -> Option<PathBuf> {
        Self::first(prober, &self.bin, name)
    }

    /// The CUDA release that `cuda.h` names.
    pub(super) fn header_release(&self, prober: &Prober<'_>) -> Option<(ToolkitVersion, PathBuf)> {
        let path = self.header(prober, "cuda.h")?;
        let text = prober.root.text(&path).ok()?;
        Some((cuda_version_macro(&text)?, path))
    }

    /// The library under its SONAME; for a major newer than the table, under any.
    fn library(&self, prober: &Prober<'_>, facts: &Facts, index: usize, major: u32) -> Option<PathBuf> {
        if let Some(soname) = facts.soname(index, major) {
            // NVRTC's builtins carry the minor: the name in the table is that of one release.
            if !soname.starts_with("libnvrtc-builtins") {
                let newest = Self::first(prober, &self.lib, soname);
                return newest.or_else(|| self.older_product(prober, facts, index));
            }
        }
        let prefix = format!("lib{}.so.", facts.libraries[index]);
        let wanted = format!("{prefix}{major}");
        self.lib.iter().find_map(|directory| {
            let name = prober.root.names(directory).into_iter().find(|name| {
                name.to_str().is_some_and(|n| n == wanted || n.starts_with(&format!("{wanted}.")))
            })?;
            Some(directory.join(name))
        })
    }

    /// A product's library under the SONAME of another of its own majors: the table has the newest
    /// (cuDNN 8 is `libcudnn.so.8`, cuDSS 0.7 `libcudss.so.0`).
    fn older_product(&self, prober: &Prober<'_>, facts: &Facts, index: usize) -> Option<PathBuf> {
        if facts.bundle != Bundle::Product {
            return None;
        }
        let prefix = format!("lib{}.so.", facts.libraries[index]);
        self.lib.iter().find_map(|directory| {
            let names = prober.root.names(directory).into_iter();
            let mut sonames = names.filter(|name| {
                let own_major = name.to_str().and_then(|name| name.strip_prefix(&prefix));
                own_major.is_some_and(|text| text.parse::<u32>().is_ok())
            });
            Some(directory.join(sonames.next_back()?))
        })
    }

    /// Whether any library of another major shows which major this prefix is for.
    pub(super) fn majors(&self, prober: &Prober<'_>) -> Vec<u32> {
        let telling = [Component::Cudart, Component::Nvrtc, Component::Cublas, Component::Nvjitlink];
        let mut majors = Vec::new();
        for major in (11..=13).rev() {
            let names = telling.iter().filter_map(|c| c.facts().soname(0, major));
            if names.into_iter().any(|name| Self::first(prober, &self.lib, name).is_some()) {
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
            found.tools.extend(self.tool(prober, tool));
        }
        for archive in facts.archives {
            found.archives.extend(Self::first(prober, &self.lib, archive));
        }
        for index in 0..facts.libraries.len() {
            found.libraries.extend(self.library(prober, facts, index, major));
        }
        if let Some(name) = facts.header
            && let Some((header, directory)) = self.include_with(prober, name)
        {
            found.include = self.include_directories(prober, component, &directory);
            proof = Some(header);
        }
        let missing = Self::missing(facts, &found, proof.is_some(), major);
        if let Some(missing) = missing {
            let something = !found.tools.is_empty() || !found.libraries.is_empty() || proof.is_some();
            return Err(Absent { missing, something });
        }
        let shown =
            found.tools.first().or(found.libraries.first()).or(proof.as_ref()).or(found.archives.first());
        found.evidence = shown.map(|path| path.display().to_string()).unwrap_or_default();
        if component == Component::Nvrtc {
            found.toolkit = found.libraries.get(1).and_then(|path| builtins_release(path));
        }
        Ok(found)
    }

    /// CCCL moved to `include/cccl` in 13.0, and its `nv/target` stayed above.
    fn include_with(&self, prober: &Prober<'_>, name: &str) -> Option<(PathBuf, PathBuf)> {
        self.include
            .iter()
            .flat_map(|directory| [directory.join("cccl"), directory.clone()])
            .map(|directory| (directory.join(name), directory))
            .find(|(header, _)| prober.root.is_file(header))
    }

    fn include_directories(&self, prober: &Prober<'_>, component: Component, own: &Path) -> Vec<PathBuf> {
        let mut directories = vec![own.to_owned()];
        if component == Component::Cccl {
            let above = own.parent().filter(|_| own.ends_with("cccl"));
            directories
                .extend(above.filter(|p| prober.root.is_file(&p.join("nv/target"))).map(Path::to_owned));
        }
        directories
    }

    /// The file whose absence makes the component useless, if any is absent.
    fn missing(facts: &Facts, found: &Found, has_header: bool, major: u32) -> Option<String> {
        let main_tool = facts.tools.first().filter(|tool| found.tool(tool).is_none());
        if let Some(tool) = main_tool {
            return Some(format!("`{tool}`"));
        }
        // The driver's own libraries are never part of a toolkit: their header is all there is.
        let driver = matches!(facts.component, Component::Driver | Component::Nvml);
        if facts.component == Component::Nvrtc && found.libraries.len() < 2 {
            let which = if found.libraries.is_empty() { "libnvrtc" } else { "libnvrtc-builtins" };
            return Some(format!("`{which}.so` for CUDA {major}"));
        }
        let library_missing =
            !facts.libraries.is_empty() && found.libraries.is_empty() && found.archives.is_empty();
        if library_missing && !driver && facts.tools.is_empty() {
            return Some(format!("`lib{}.so` for CUDA {major}", facts.libraries[0]));
        }
        let header_only = facts.tools.is_empty() && facts.libraries.is_empty() && facts.archives.is_empty();
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

/// A component that is not there, or not whole.
pub(super) struct Absent {
    /// The file that is missing.
    pub(super) missing: String,
    /// Whether other files of it are there.
    pub(super) something: bool,
}

/// The value of `CUDA_VERSION` in the text of `cuda.h`.
pub(super) fn cuda_version_macro(text: &str) -> Option<ToolkitVersion> {
    text.lines().find_map(|line| {
        let mut words = line.trim_start().strip_prefix('#')?.split_whitespace();
        if words.next() != Some("define") || words.next() != Some("CUDA_VERSION") {
            return None;
        }
        ToolkitVersion::from_cuda_version(words.next()?.parse().ok()?)
    })
}

/// `libnvrtc-builtins.so.13.4` belongs to 13.4: the one file name that carries a minor.
fn builtins_release(path: &Path) -> Option<ToolkitVersion> {
    path.file_name()?.to_str()?.strip_prefix("libnvrtc-builtins.so.")?.parse().ok()
}

/// The version that a library's real file name carries: `libcudart.so.12` is a link to
/// `libcudart.so.12.4.127` in NVIDIA's installers.
pub(super) fn file_name_version(prober: &Prober<'_>, path: &Path) -> Option<Version> {
    let real = prober.root.resolve(path);
    let version: Version = real.file_name()?.to_str()?.split_once(".so.")?.1.parse().ok()?;
    (version.parts().len() >= 3).then_some(version)
}
