//! What a search finds: components, grouped by CUDA major and place.

use std::fmt;
use std::path::PathBuf;

use crate::component::{Class, Component, windows};
use crate::list::joined;
use crate::root::Root;
use crate::sources::{Candidate, SearchStep};
use crate::version::{ToolkitVersion, Version};

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
    /// The place's label and path, for use in a sentence.
    pub origin: String,
}

impl Found {
    /// A component without files.
    pub fn new(component: Component, major: u32) -> Self {
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
            origin: String::new(),
        }
    }

    /// The program called `name`. If the user named an nvcc that has another file name, that file is
    /// returned for `nvcc`.
    pub fn tool(&self, name: &str) -> Option<&PathBuf> {
        let names = self.component.facts().tools;
        let has_other_name = |path: &&PathBuf| !names.iter().any(|tool| path.ends_with(tool));
        let is_main = names.first() == Some(&name);
        let named = self
            .tools
            .first()
            .filter(|path| is_main && has_other_name(path));
        named.or_else(|| self.tools.iter().find(|path| path.ends_with(name)))
    }

    /// The archive called `name`.
    pub fn archive(&self, name: &str) -> Option<&PathBuf> {
        self.archives.iter().find(|path| path.ends_with(name))
    }

    /// What Windows' linker reads instead of the DLL of the main library.
    pub fn import_library(&self) -> Option<&PathBuf> {
        let library = self.component.facts().libraries.first()?;
        self.archive(&windows::import_library(library))
    }

    /// Files that change when the component is replaced in place: a program or library, and a header.
    pub fn files_to_watch(&self, root: &Root) -> impl Iterator<Item = PathBuf> {
        let files = self.tools.iter().chain(&self.libraries);
        let binary = files.chain(&self.archives).next().cloned();
        let header = self.component.facts().header.and_then(|header| {
            let mut headers = self.include.iter().map(|directory| directory.join(header));
            headers.find(|path| root.is_file(path))
        });
        binary.into_iter().chain(header)
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
    /// The step of the search that proposed the place.
    pub step: SearchStep,
    /// The place's label and path, for use in a sentence.
    pub origin: String,
    /// The CUDA major: 11, 12, 13 …
    pub major: u32,
    /// The components, in the order of the component table.
    pub found: Vec<Found>,
}

impl ComponentSet {
    /// The components of a candidate. Each gets its origin. If the place has several roots, a component's evidence
    /// stands for the path of the place.
    pub fn new(candidate: &Candidate, major: u32, mut found: Vec<Found>) -> Self {
        for found in &mut found {
            found.origin = if candidate.more_roots.is_empty() {
                candidate.to_string()
            } else {
                format!("{} ({})", candidate.label, found.evidence)
            };
        }
        Self {
            step: candidate.step,
            origin: candidate.to_string(),
            major,
            found,
        }
    }

    /// The component, if this set has it.
    pub fn get(&self, component: Component) -> Option<&Found> {
        self.found.iter().find(|found| found.component == component)
    }

    /// Whether the set has a component that identifies a toolkit. CCCL and products do not, because they fit
    /// several toolkits.
    pub fn is_toolkit(&self) -> bool {
        self.found.iter().any(|found| {
            let facts = found.component.facts();
            facts.class != Class::OwnRange && !facts.is_product()
        })
    }

    /// Whether the set has a product.
    pub fn has_product(&self) -> bool {
        let is_product = |found: &Found| found.component.facts().is_product();
        self.found.iter().any(is_product)
    }

    /// The CUDA release of the set, or its major if the release is unknown.
    pub fn shown_release(&self) -> String {
        let release = self.release().map(|release| release.to_string());
        release.unwrap_or_else(|| self.major.to_string())
    }

    /// The CUDA release of the set.
    pub fn release(&self) -> Option<ToolkitVersion> {
        common_release(&self.found)
    }
}

/// The CUDA release of these components: that of the first core component that has one, otherwise the newest of any.
pub fn common_release(found: &[Found]) -> Option<ToolkitVersion> {
    let core = |component: &Component| {
        let mut found = found.iter();
        found.find(|found| found.component == *component)?.release
    };
    let newest = || found.iter().filter_map(|found| found.release).max();
    Component::CORE.iter().find_map(core).or_else(newest)
}

impl fmt::Display for ComponentSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.found, ", "))
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
    /// An attempt that has found nothing yet.
    pub fn new(candidate: Candidate) -> Self {
        Self {
            candidate,
            sets: Vec::new(),
            unusable: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Adds a remark, unless it is already in the list.
    pub fn remark(&mut self, remark: String) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// What was found, in one line.
    pub fn summary(&self) -> String {
        self.describe(ComponentSet::to_string, |_| true)
    }

    /// What was found, in one line. `set` describes a set; `is_listed` selects the unusable components to list.
    pub fn describe(
        &self,
        set: impl Fn(&ComponentSet) -> String,
        is_listed: impl Fn(Component) -> bool,
    ) -> String {
        // Header packages fit every major, so they are in sets of majors of which nothing else was found.
        let is_header = |found: &Found| found.component.facts().is_header_package();
        let (headers, others): (Vec<_>, Vec<_>) =
            (self.sets.iter()).partition(|set: &&ComponentSet| set.found.iter().all(is_header));
        let sets = if others.is_empty() { headers } else { others };
        let mut parts: Vec<String> = sets.into_iter().map(set).collect();
        // Sets of products that fit every major are described by the same text, which is printed once.
        parts.dedup();
        let unusable = self.unusable.iter().filter(|it| is_listed(it.component));
        parts.extend(unusable.map(|unusable| unusable.reason.clone()));
        parts.extend(self.remarks.iter().cloned());
        parts.join("; ")
    }
}

/// The place and what was found, in one line.
impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.candidate, self.summary())
    }
}
