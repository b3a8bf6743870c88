//! What is wrong with a place that the user named.

use std::path::{Path, PathBuf};

use super::files::Skipped;
use super::prefix::Prefix;
use super::{Attempt, Prober};
use crate::component::{Bundle, Component};
use crate::release;
use crate::sources::{Candidate, Step, belonging, is_package};

/// Why a relative path is refused.
pub(crate) const RELATIVE: &str = "is a relative path: build scripts run in their packages' directories, and would look for it there";

impl Prober<'_> {
    /// Probes `candidate`. Each root of a list that has no component becomes an attempt of its own, so that it is
    /// reported.
    #[must_use]
    pub fn probe_each(&self, candidate: &Candidate) -> Vec<Attempt> {
        let attempt = self.probe(candidate);
        let unused = self.unused_roots(candidate, &attempt);
        [attempt].into_iter().chain(unused).collect()
    }

    /// Why a place is not probed.
    pub(super) fn refusal(&self, candidate: &Candidate) -> Option<String> {
        if candidate.step == Step::Argument {
            return None;
        }
        let named = candidate.nvcc().filter(|_| candidate.step.is_explicit());
        if let Some(nvcc) =
            named.filter(|nvcc| nvcc.is_relative() && nvcc.components().count() == 1)
        {
            return Some(format!("no program `{}` is on `PATH`", nvcc.display()));
        }
        let has_blank = |nvcc: &&Path| nvcc.to_string_lossy().contains(char::is_whitespace);
        if let Some(nvcc) = named
            .filter(has_blank)
            .filter(|nvcc| !self.root.is_file(nvcc))
        {
            return Some(format!(
                "`{}` is no file: the path of nvcc alone is wanted, without a launcher before it or arguments after it",
                nvcc.display()
            ));
        }
        if candidate.roots().any(|path| path.is_relative()) {
            return Some(RELATIVE.to_owned());
        }
        let nvcc = named.filter(|nvcc| !self.root.is_file(nvcc))?;
        Some(format!(
            "{}: {}",
            nvcc.display(),
            self.nothing_at(nvcc, "not a file")
        ))
    }

    /// Why nothing was found at a path.
    pub(super) fn nothing_at(&self, path: &Path, otherwise: &str) -> String {
        let exists = self.root.metadata(path).is_ok();
        let reason = match () {
            () if exists => otherwise,
            () if self.root.is_link(path) => "a link to something that does not exist",
            () if self.root.exists(path) => "can't be read",
            () => "does not exist",
        };
        reason.to_owned()
    }

    fn unused_roots(&self, candidate: &Candidate, attempt: &Attempt) -> Vec<Attempt> {
        if !candidate.step.is_explicit()
            || candidate.nvcc().is_some()
            || candidate.more_roots().is_empty()
        {
            return Vec::new();
        }
        let all: Vec<&PathBuf> = candidate.roots().collect();
        let belongs = |path: &PathBuf| {
            let others = all.iter().filter(|other| **other != path);
            others
                .into_iter()
                .any(|other| belonging(self.root, other).contains(path))
        };
        let used = |path: &Path| {
            let found = attempt.sets.iter().flat_map(|set| &set.found);
            found
                .flat_map(super::Found::paths)
                .any(|file| file.starts_with(path))
        };
        let mut unused = Vec::new();
        for path in &all {
            if used(path)
                || belongs(path)
                || (is_package(path) && !self.root.names(path).is_empty())
            {
                continue;
            }
            let roots: Vec<PathBuf> = [(*path).clone()]
                .into_iter()
                .chain(belonging(self.root, path))
                .collect();
            if let Some(reason) = self.nothing_in(&roots) {
                let candidate = Candidate::root(candidate.step, candidate.label.clone(), *path);
                let (sets, unusable) = (Vec::new(), Vec::new());
                unused.push(Attempt {
                    candidate,
                    sets,
                    unusable,
                    remarks: vec![reason],
                });
            }
        }
        unused
    }

    /// Why these roots have no component, not even a part of one, for any major; `None` if they have. Roots are asked one
    /// by one, because a component in two roots of a list is found in the first only.
    fn nothing_in(&self, roots: &[PathBuf]) -> Option<String> {
        let roots: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
        let prefix = Prefix::new(self, &roots, &[]);
        let holds = |component: Component, major: u32| match prefix.component(
            self,
            component,
            major,
            &mut Skipped::default(),
        ) {
            Ok(_) => true,
            Err(absent) => absent.something,
        };
        let mut components = Component::all().filter(|c| c.facts().bundle != Bundle::Driver);
        if components.any(|c| release::majors().any(|major| holds(c, major))) {
            return None;
        }
        let remarks = prefix.remarks.clone();
        Some(if remarks.is_empty() {
            "no CUDA component in it".to_owned()
        } else {
            remarks.join("; ")
        })
    }
}
