//! Reads one candidate, and reports why a place that the user named is refused or unused.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::files::SearchedDirectories;
use super::prober::Prober;
use super::{packages, roots};
use crate::detail::component::Component;
use crate::detail::found::{Attempt, Found};
use crate::detail::release;
use crate::detail::sources::{Candidate, Layout, SearchStep, associated_roots, is_package};

/// Why a relative path is refused.
pub const RELATIVE_PATH_REASON: &str = "is a relative path: build scripts run in their packages' directories, and would look for it there";

impl Prober<'_> {
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
        attempt.sets.sort_by_key(|set| Reverse(set.major));
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

    /// Probes `candidate`. If it is a list of roots that the user named, each root without a component is
    /// returned as an additional attempt, so that it is reported.
    pub fn probe_each(&self, candidate: &Candidate) -> Vec<Attempt> {
        let attempt = self.probe(candidate);
        let unused = self.unused_roots(candidate, &attempt);
        [attempt].into_iter().chain(unused).collect()
    }

    /// Why a candidate is not probed; `None` if it can be probed.
    pub(super) fn refusal(&self, candidate: &Candidate) -> Option<String> {
        if candidate.step == SearchStep::Argument {
            return None;
        }
        let named = candidate.nvcc().filter(|_| candidate.step.is_explicit());
        let absent = named.filter(|nvcc| !self.root.is_file(nvcc));
        if let Some(nvcc) = named.filter(|nvcc| nvcc.is_relative() && nvcc.iter().count() == 1) {
            return Some(format!("no program `{}` is on `PATH`", nvcc.display()));
        }
        if let Some(nvcc) =
            absent.filter(|nvcc| nvcc.to_string_lossy().contains(char::is_whitespace))
        {
            return Some(format!(
                "`{}` is not a file: write only the path of nvcc, without a launcher or arguments",
                nvcc.display()
            ));
        }
        if candidate.roots().any(|path| path.is_relative()) {
            return Some(RELATIVE_PATH_REASON.to_owned());
        }
        absent.map(|nvcc| {
            format!(
                "{}: {}",
                nvcc.display(),
                self.why_unreadable(nvcc, "not a file")
            )
        })
    }

    /// Why nothing was found at a path; `otherwise` if the path exists and its metadata can be read.
    pub(super) fn why_unreadable(&self, path: &Path, otherwise: &str) -> String {
        let reason = if self.root.metadata(path).is_ok() {
            otherwise
        } else if self.root.is_link(path) {
            "a link to something that does not exist"
        } else if self.root.exists(path) {
            "cannot be read"
        } else {
            "does not exist"
        };
        reason.to_owned()
    }

    fn unused_roots(&self, candidate: &Candidate, attempt: &Attempt) -> Vec<Attempt> {
        if !candidate.step.is_explicit() || candidate.more_roots().is_empty() {
            return Vec::new();
        }
        let belongs = |path: &PathBuf| {
            let mut others = candidate.roots().filter(|other| *other != path);
            others.any(|other| associated_roots(self.root, other).contains(path))
        };
        let is_used = |path: &Path| {
            let is_below = |found: &Found| found.paths().any(|file| file.starts_with(path));
            attempt
                .sets
                .iter()
                .any(|set| set.found.iter().any(is_below))
        };
        let is_other_package = |path: &Path| is_package(path) && !self.root.names(path).is_empty();
        let unused = candidate
            .roots()
            .filter(|path| !is_used(path) && !belongs(path) && !is_other_package(path));
        let attempt = |path: &PathBuf| {
            let reason = self.why_empty(path)?;
            let candidate = Candidate::root(candidate.step, candidate.label.clone(), path);
            Some(Attempt::without_components(candidate, reason))
        };
        unused.filter_map(attempt).collect()
    }

    /// The reason why a root has no component; `None` if it has a component, or a part of one, for any major.
    /// Each root of a list is examined alone: if two roots have the same component, probing the list finds it
    /// only in the first.
    fn why_empty(&self, path: &Path) -> Option<String> {
        let beside = associated_roots(self.root, path);
        let roots: Vec<&Path> = [path]
            .into_iter()
            .chain(beside.iter().map(PathBuf::as_path))
            .collect();
        let searched = SearchedDirectories::new(self, &roots, &[]);
        let holds = |component: Component| {
            release::majors().any(|major| match searched.component(component, major) {
                Ok(_) => true,
                Err(absent) => absent.has_other_files,
            })
        };
        let mut components = Component::all().filter(|c| !c.facts().is_driver());
        if components.any(holds) {
            return None;
        }
        Some(if searched.remarks.is_empty() {
            "contains no CUDA component".to_owned()
        } else {
            searched.remarks.join("; ")
        })
    }
}
