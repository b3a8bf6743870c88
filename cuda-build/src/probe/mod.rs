//! Reads one candidate and returns an attempt: the components found, with evidence, or the reason there are none.
//!
//! Package metadata proves nothing: a component is found if the file that makes it usable exists (a tool, a library
//! under its SONAME, a header). Versions come from `CUDA_VERSION` in `cuda.h`, the name of NVRTC's builtins and nvcc's
//! answer, then from package metadata.

mod archives;
mod directories;
mod files;
mod named;
mod one_root;
mod package_directory;
mod plain_root;
mod prefix;
mod products;
mod site_packages;
mod versions;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::component::Component;
use crate::error::Error;
use crate::nvcc::NvccAnswer;
use crate::root::Root;
use crate::sources::{Candidate, Layout};
use crate::target::Target;
use crate::version::{ToolkitVersion, Version};

pub(crate) use named::RELATIVE;

/// A component that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The component.
    pub component: Component,
    /// The CUDA major it is built for.
    pub major: u32,
    /// Its own version, if known.
    pub version: Option<Version>,
    /// The CUDA release it belongs to, if known: from a file of its own, its package, or the root that it is in.
    pub toolkit: Option<ToolkitVersion>,
    /// Directories to give to a compiler with `-I`.
    pub include: Vec<PathBuf>,
    /// Shared libraries, in the order of [`Facts::libraries`](crate::component::Facts::libraries).
    pub libraries: Vec<PathBuf>,
    /// Static archives.
    pub archives: Vec<PathBuf>,
    /// Programs.
    pub tools: Vec<PathBuf>,
    /// The file that proves it, and its package if known.
    pub evidence: String,
}

impl Found {
    /// The program called `name`. The compiler is the first, and may have another file name if the user named it.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&PathBuf> {
        if self.component == Component::Nvcc && name == "nvcc" {
            let others = &self.component.facts().tools[1..];
            let is_other = |path: &PathBuf| others.iter().any(|other| path.ends_with(other));
            return self.tools.first().filter(|path| !is_other(path));
        }
        self.tools
            .iter()
            .find(|path| path.file_name().is_some_and(|file| file == name))
    }

    /// Every file and directory of the component.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.tools
            .iter()
            .chain(&self.libraries)
            .chain(&self.archives)
            .chain(&self.include)
    }

    /// The archive called `name`.
    #[must_use]
    pub fn archive(&self, name: &str) -> Option<&PathBuf> {
        self.archives
            .iter()
            .find(|path| path.file_name().is_some_and(|file| file == name))
    }

    /// The version to display: its own, otherwise the CUDA release in a file of its own, otherwise its major. The release
    /// of the root that it is in does not count.
    #[must_use]
    pub fn shown_version(&self) -> String {
        // By the name of its builtins, and by `cuda.h`.
        let tells = matches!(self.component, Component::Nvrtc | Component::Cudart);
        match (&self.version, self.toolkit) {
            (Some(version), _) => version.to_string(),
            (None, Some(toolkit)) if tells => toolkit.to_string(),
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// 11, 12, 13 …
    pub major: u32,
    /// In the order of the component table.
    pub found: Vec<Found>,
}

impl Set {
    /// The component, where this set has it.
    #[must_use]
    pub fn get(&self, component: Component) -> Option<&Found> {
        self.found.iter().find(|found| found.component == component)
    }

    /// The CUDA release of the set: that of its compiler, else of what device code is compiled
    /// with, else of the newest component that names one.
    #[must_use]
    pub fn toolkit(&self) -> Option<ToolkitVersion> {
        [Component::Nvcc, Component::Nvrtc, Component::Cudart]
            .into_iter()
            .find_map(|component| self.get(component)?.toolkit)
            .or_else(|| self.found.iter().filter_map(|found| found.toolkit).max())
    }
}

/// The result of probing one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The candidate.
    pub candidate: Candidate,
    /// One set per CUDA major, newest first; empty if nothing was found.
    pub sets: Vec<Set>,
    /// Components that are partly present, and why they cannot be used.
    pub unusable: Vec<Unusable>,
    /// Why nothing was found, or what was found and is not used.
    pub remarks: Vec<String>,
}

/// A component that is partly present: a package without its files, a library without another one that it loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Which one.
    pub component: Component,
    /// The CUDA major it is for.
    pub major: u32,
    /// What was found and what is missing, in a sentence without a full stop.
    pub reason: String,
}

impl Attempt {
    /// What was found, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut parts: Vec<String> = self
            .sets
            .iter()
            .map(|set| {
                set.found
                    .iter()
                    .map(Found::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            })
            .collect();
        // A component that fits every major is in each set.
        parts.dedup();
        parts.extend(self.unusable.iter().map(|unusable| unusable.reason.clone()));
        parts.extend(self.remarks.iter().cloned());
        parts.join("; ")
    }
}

/// What probing needs besides the candidate.
pub struct Prober<'a> {
    /// The disk.
    pub root: &'a Root,
    /// The platform, for `targets/<platform>`.
    pub target: &'a Target,
    /// Queries an nvcc; see [`nvcc::query`](crate::nvcc::query).
    pub query_nvcc: &'a dyn Fn(&Path) -> Result<NvccAnswer, Error>,
}

impl Prober<'_> {
    /// Probes `candidate`. It never fails: problems become remarks.
    #[must_use]
    pub fn probe(&self, candidate: &Candidate) -> Attempt {
        let Seen {
            mut sets,
            unusable,
            mut remarks,
        } = if let Some(reason) = self.refusal(candidate) {
            Seen {
                remarks: vec![reason],
                ..Seen::default()
            }
        } else if candidate.layout == Layout::SitePackages {
            site_packages::probe(self, &candidate.path)
        } else if candidate.layout == Layout::PythonScript {
            Seen::default()
        } else {
            plain_root::probe(self, candidate)
        };
        sets.sort_by_key(|set| std::cmp::Reverse(set.major));
        if sets.is_empty() && unusable.is_empty() && remarks.is_empty() {
            remarks.push(if let Some(error) = self.root.closed(&candidate.path) {
                format!("can't be read: {error}")
            } else if self.root.is_dir(&candidate.path) {
                "no CUDA component in it".to_owned()
            } else if candidate.layout == Layout::PythonScript {
                "a script that starts some interpreter, so whose packages to look into is not known; those of a \
                 virtual environment that is active are looked into"
                    .to_owned()
            } else {
                self.nothing_at(&candidate.path, "not a directory")
            });
        }
        Attempt {
            candidate: candidate.clone(),
            sets,
            unusable,
            remarks,
        }
    }
}

/// What one kind of layout gives.
#[derive(Default)]
struct Seen {
    sets: Vec<Set>,
    unusable: Vec<Unusable>,
    remarks: Vec<String>,
}
