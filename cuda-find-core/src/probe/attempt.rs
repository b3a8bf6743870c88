//! Reads one candidate, and reports why a place that the user named is refused or unused.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::prober::Prober;
use super::{packages, roots};
use crate::found::Attempt;
use crate::list::sort_by_key;
use crate::sources::{Candidate, CandidateKind, SearchStep, associated_roots, is_package};

/// Why a relative path is refused.
pub const RELATIVE_PATH_REASON: &str = "is a relative path: build scripts run in their packages' directories, \
                                        and would look for it there";

impl Prober<'_> {
    /// Probes `candidate`. Problems are returned as remarks in the attempt.
    pub fn probe(&self, candidate: &Candidate) -> Attempt {
        let mut attempt = Attempt::new(candidate.clone());
        if let Some(reason) = self.refusal(candidate) {
            attempt.remarks.push(reason);
        } else {
            match candidate.kind {
                CandidateKind::SitePackages => packages::probe(self, &mut attempt),
                _ => roots::probe(self, &mut attempt),
            }
        }
        sort_by_key(&mut attempt.sets, |set| Reverse(set.major));
        if attempt.sets.is_empty() && attempt.unusable.is_empty() && attempt.remarks.is_empty() {
            let path = &candidate.path;
            let unreadable = self.why_unreadable(path).unwrap_or("not a directory");
            attempt.remarks.push(match self.root.closed(path) {
                Some(error) => format!("cannot be read: {error}"),
                None if self.root.is_dir(path) => "no CUDA component was found in it".to_owned(),
                None => unreadable.to_owned(),
            });
        }
        attempt
    }

    /// Probes `candidate`. If it is a list of roots that the user named, each root without a component is returned as
    /// an additional attempt, so that it is reported.
    pub fn probe_each(&self, candidate: &Candidate) -> Vec<Attempt> {
        let mut attempts = vec![self.probe(candidate)];
        if candidate.step.is_explicit() && !candidate.more_roots.is_empty() {
            for path in self.unused_roots(&attempts[0]) {
                // The root is probed alone, because another root of the list may have the same components.
                let (step, label) = (candidate.step, candidate.label.clone());
                let root = Candidate::scattered(self.root, step, label, vec![path]);
                let alone = root.map(|root| self.probe(&root));
                attempts.extend(alone.filter(|it| it.sets.is_empty() && it.unusable.is_empty()));
            }
        }
        attempts
    }

    /// The roots of a list from which no component was taken, except those that may have none: companions of another
    /// root, and the packages of Nix and of NVIDIA's archives.
    fn unused_roots(&self, attempt: &Attempt) -> Vec<PathBuf> {
        let candidate = &attempt.candidate;
        let mut unused: Vec<PathBuf> = candidate.roots().cloned().collect();
        for found in attempt.sets.iter().flat_map(|set| &set.found) {
            unused.retain(|path| !found.paths().any(|file| file.starts_with(path)));
        }
        for root in candidate.roots() {
            let companions = associated_roots(self.root, root);
            unused.retain(|path| path == root || !companions.contains(path));
        }
        unused.retain(|path| !is_package(path) || self.root.names(path).is_empty());
        unused
    }

    /// Why a candidate is not probed; `None` if it can be probed.
    fn refusal(&self, candidate: &Candidate) -> Option<String> {
        if candidate.step == SearchStep::Argument {
            return None;
        }
        let mut absent_nvcc = candidate.named_nvcc();
        absent_nvcc.take_if(|nvcc| self.root.is_file(nvcc));
        let is_bare = |nvcc: &Path| nvcc.is_relative() && nvcc.iter().count() == 1;
        let has_space = |nvcc: &Path| nvcc.to_string_lossy().contains(char::is_whitespace);
        Some(match absent_nvcc {
            Some(nvcc) if is_bare(nvcc) => format!("no program `{}` is on `PATH`", nvcc.display()),
            Some(nvcc) if has_space(nvcc) => format!(
                "`{}` is not a file: write only the path of nvcc, without a launcher or arguments",
                nvcc.display()
            ),
            _ if candidate.roots().any(|path| path.is_relative()) => {
                RELATIVE_PATH_REASON.to_owned()
            }
            Some(nvcc) => {
                let reason = self.why_unreadable(nvcc).unwrap_or("not a file");
                format!("{}: {reason}", nvcc.display())
            }
            None => return None,
        })
    }

    /// Why the metadata of a path cannot be read; `None` if it can be.
    fn why_unreadable(&self, path: &Path) -> Option<&'static str> {
        if self.root.metadata(path).is_ok() {
            None
        } else if self.root.is_link(path) {
            Some("a link to something that does not exist")
        } else if self.root.exists(path) {
            Some("cannot be read")
        } else {
            Some("does not exist")
        }
    }
}
