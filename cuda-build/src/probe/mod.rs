//! Reads one candidate and returns an attempt: the components found, with evidence, or the reason there are none.
//!
//! A component is found if the file that makes it usable exists: a tool, a library under its SONAME, or a header.
//! Package metadata alone does not prove that. CUDA releases come first from files and programs (`CUDA_VERSION` in
//! `cuda.h`, the file name of NVRTC's builtins, the output of nvcc), and otherwise from package metadata.

mod archives;
mod directories;
mod files;
mod named;
mod one_root;
mod packages;
mod products;
mod roots;
mod searched;
mod versions;

use std::cmp::Reverse;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::component::{Class, Component};
use crate::error::Error;
use crate::list::sort_by_key;
use crate::nvcc::NvccAnswer;
use crate::root::Root;
use crate::sources::{Candidate, Layout};
use crate::target::Target;
use crate::version::{ToolkitVersion, Version};
use directories::Directories;

pub(crate) use named::RELATIVE_PATH_REASON;
pub(crate) use versions::release_in_file_name;

/// A component that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The component.
    pub component: Component,
    /// The CUDA major that the component is built for.
    pub major: u32,
    /// The component's own version, if known.
    pub version: Option<Version>,
    /// The CUDA release that the component belongs to, if known. It is read from a file of the component, from its
    /// package, or from its root.
    pub release: Option<ToolkitVersion>,
    /// Directories to give to a compiler with `-I`.
    pub include: Vec<PathBuf>,
    /// Shared libraries, in the order of [`Facts::libraries`](crate::component::Facts::libraries).
    pub libraries: Vec<PathBuf>,
    /// Static archives.
    pub archives: Vec<PathBuf>,
    /// Programs.
    pub tools: Vec<PathBuf>,
    /// The file that proves that the component is present, and its package if known.
    pub evidence: String,
}

impl Found {
    /// A component without files.
    pub(crate) fn new(component: Component, major: u32) -> Self {
        Self {
            component,
            major,
            version: None,
            release: None,
            include: Vec::new(),
            libraries: Vec::new(),
            archives: Vec::new(),
            tools: Vec::new(),
            evidence: String::new(),
        }
    }

    /// The program called `name`. If the user named an nvcc that has another file name, that file is
    /// returned for `nvcc`.
    pub fn tool(&self, name: &str) -> Option<&PathBuf> {
        let known = self.component.facts().tools;
        let is_known = |path: &PathBuf| known.iter().any(|tool| path.ends_with(tool));
        let first = self.tools.first().filter(|path| !is_known(path));
        let first = first.filter(|_| known.first() == Some(&name));
        let mut tools = self.tools.iter();
        first.or_else(|| tools.find(|path| path.ends_with(name)))
    }

    /// The archive called `name`.
    pub fn archive(&self, name: &str) -> Option<&PathBuf> {
        self.archives.iter().find(|path| path.ends_with(name))
    }

    /// Every file and directory of the component.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let files = self.tools.iter().chain(&self.libraries);
        files.chain(&self.archives).chain(&self.include)
    }

    /// The version to display: the component's own version if known. Otherwise the CUDA release for a core
    /// component, and the CUDA major for any other.
    pub fn shown_version(&self) -> String {
        match (&self.version, self.release) {
            (Some(version), _) => version.to_string(),
            (None, Some(toolkit)) if self.component.is_core() => toolkit.to_string(),
            (None, _) => format!("for CUDA {}", self.major),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.component, self.shown_version())
    }
}

/// The components of one CUDA major in one place.
#[derive(Clone, Debug)]
pub struct ComponentSet {
    /// The CUDA major: 11, 12, 13 …
    pub major: u32,
    /// The components, in the order of the component table.
    pub found: Vec<Found>,
}

impl ComponentSet {
    /// The component, if this set has it.
    pub fn get(&self, component: Component) -> Option<&Found> {
        self.found.iter().find(|found| found.component == component)
    }

    /// Whether the set has a component that identifies a toolkit. CCCL and products do not, because they fit
    /// several toolkits.
    pub(crate) fn is_toolkit(&self) -> bool {
        self.found.iter().any(|found| {
            let facts = found.component.facts();
            facts.class != Class::OwnRange && !facts.is_product()
        })
    }

    pub(crate) fn has_product(&self) -> bool {
        let is_product = |found: &Found| found.component.facts().is_product();
        self.found.iter().any(is_product)
    }

    /// The CUDA release of the set, or its major if the release is unknown.
    pub(crate) fn shown_release(&self) -> String {
        let release = self.release().map(|release| release.to_string());
        release.unwrap_or_else(|| self.major.to_string())
    }

    /// The CUDA release of the set: the release of the first core component that has one, otherwise the newest
    /// release of any component.
    pub fn release(&self) -> Option<ToolkitVersion> {
        let core = |component: &Component| self.get(*component)?.release;
        let newest = || self.found.iter().filter_map(|found| found.release).max();
        Component::CORE.iter().find_map(core).or_else(newest)
    }
}

impl fmt::Display for ComponentSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found: Vec<String> = self.found.iter().map(Found::to_string).collect();
        f.write_str(&found.join(", "))
    }
}

/// The result of probing one candidate.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The candidate.
    pub candidate: Candidate,
    /// One set per CUDA major, newest first; empty if nothing was found.
    pub sets: Vec<ComponentSet>,
    /// Components that are partly present, and why they cannot be used.
    pub unusable: Vec<Unusable>,
    /// Why nothing was found, or what was found but is not used.
    pub remarks: Vec<String>,
}

/// A component that is partly present: a package without its files, or a library without another
/// library that it loads.
#[derive(Clone, Debug)]
pub struct Unusable {
    /// The component.
    pub component: Component,
    /// The CUDA major it is for.
    pub major: u32,
    /// What was found and what is missing, in a sentence without a full stop.
    pub reason: String,
}

impl Attempt {
    pub(crate) fn without_components(candidate: Candidate, reason: String) -> Self {
        Self {
            candidate,
            sets: Vec::new(),
            unusable: Vec::new(),
            remarks: vec![reason],
        }
    }

    /// What was found, in one line.
    pub fn summary(&self) -> String {
        self.describe(ComponentSet::to_string, |_| true)
    }

    /// What was found, in one line. `set` describes a set; `is_listed` selects the unusable components to list.
    pub(crate) fn describe(
        &self,
        set: impl Fn(&ComponentSet) -> String,
        is_listed: impl Fn(Component) -> bool,
    ) -> String {
        let mut parts: Vec<String> = self.sets.iter().map(set).collect();
        // Sets of products that fit every major are described by the same text, which is printed once.
        parts.dedup();
        let unusable = self
            .unusable
            .iter()
            .filter(|unusable| is_listed(unusable.component));
        parts.extend(unusable.map(|unusable| unusable.reason.clone()));
        parts.extend(self.remarks.iter().cloned());
        parts.join("; ")
    }
}

/// Reads candidates.
pub struct Prober<'a> {
    root: &'a Root,
    target: &'a Target,
    query_nvcc: &'a dyn Fn(&Path) -> Result<NvccAnswer, Error>,
    directories: Directories<'a>,
}

impl<'a> Prober<'a> {
    /// A prober for one platform. `query_nvcc` is [`nvcc::query`](crate::nvcc::query) or a
    /// substitute.
    pub fn new(
        root: &'a Root,
        target: &'a Target,
        query_nvcc: &'a dyn Fn(&Path) -> Result<NvccAnswer, Error>,
    ) -> Self {
        Self {
            root,
            target,
            query_nvcc,
            directories: Directories::new(root),
        }
    }

    /// Probes `candidate`. Problems are returned as remarks in the attempt.
    pub fn probe(&self, candidate: &Candidate) -> Attempt {
        let mut attempt = Attempt {
            candidate: candidate.clone(),
            sets: Vec::new(),
            unusable: Vec::new(),
            remarks: Vec::new(),
        };
        if let Some(reason) = self.refusal(candidate) {
            attempt.remarks.push(reason);
        } else {
            match candidate.layout {
                Layout::SitePackages => packages::probe(self, &mut attempt),
                Layout::PythonScript => attempt.remarks.push(
                    "a script that starts an unknown Python interpreter, so its site-packages cannot be located; activate \
                     a virtual environment to search its packages"
                        .to_owned(),
                ),
                _ => roots::probe(self, &mut attempt),
            }
        }
        sort_by_key(&mut attempt.sets, |set| Reverse(set.major));
        if attempt.sets.is_empty() && attempt.unusable.is_empty() && attempt.remarks.is_empty() {
            let path = &candidate.path;
            attempt
                .remarks
                .push(if let Some(error) = self.root.closed(path) {
                    format!("cannot be read: {error}")
                } else if self.root.is_dir(path) {
                    "contains no CUDA component".to_owned()
                } else {
                    self.why_unreadable(path, "not a directory")
                });
        }
        attempt
    }
}
