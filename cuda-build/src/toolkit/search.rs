//! The whole search: sources, probe, select, step by step until one step has it all.

use std::path::{Path, PathBuf};

use super::{Toolkit, file};
use crate::component::Component;
use crate::env::Env;
use crate::error::Error;
use crate::nvcc;
use crate::probe::{Attempt, Found, Prober, RELATIVE, Set};
use crate::root::Root;
use crate::select::{self, Need, Request, Selection, Strength};
use crate::sources::{self, Candidate, Sources, Step};
use crate::target::Target;

/// Where and how to search.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// The disk.
    pub root: &'a Root,
    /// The variables.
    pub env: &'a Env,
    /// The platform that is built for.
    pub target: &'a Target,
    /// Places given by the caller; they come before everything else.
    pub places: Vec<PathBuf>,
}

/// Everything that a search looked at, and what came of it.
#[derive(Debug)]
pub struct Report {
    /// In the order of the search.
    pub attempts: Vec<Attempt>,
    /// What sources and environment gave rise to.
    pub remarks: Vec<String>,
    /// The choice, or why there is none.
    pub toolkit: Result<Toolkit, Error>,
}

impl Search<'_> {
    /// Finds a toolkit; looks no further than the first step that has everything.
    ///
    /// # Errors
    /// As [`select::select`]; [`Error::InvalidSource`] for a `CUDA_BUILD_TOOLKIT` that can't be read
    /// too.
    pub fn find(&self, request: &Request) -> Result<Toolkit, Error> {
        let searched_anyway = self.root.searched_anyway(self.target.multiarch());
        let found = self
            .choose(request)
            .map_err(|error| select::built_for(self.target, error));
        found.map(|toolkit| toolkit.on(searched_anyway))
    }

    fn choose(&self, request: &Request) -> Result<Toolkit, Error> {
        if let Some(attempt) = self.toolkit_file()? {
            return Toolkit::from_selection(select::select(request, &[attempt])?);
        }
        let sources = sources::candidates(self.root, self.env, self.target, &self.places)?;
        let selection = self.select(request, &sources)?;
        Ok(Toolkit::from_selection(selection)?.warned(sources.disagreements))
    }

    fn select(&self, request: &Request, sources: &Sources) -> Result<Selection, Error> {
        let mut attempts = Vec::new();
        let wants_product = request.needs.iter().any(Need::is_product);
        let worth = |candidate: &&Candidate| {
            !candidate.products_only
                || (wants_product && sources::holds_product(self.root, self.target))
        };
        let mut rest = sources.candidates.iter().filter(worth).peekable();
        while let Some(candidate) = rest.next() {
            attempts.extend(self.probe(candidate));
            // A step is decided as a whole, and all named steps are one.
            let same_step = |next: &&Candidate| {
                let named = |step: Step| step.is_explicit() || step == Step::Product;
                next.step == candidate.step || (named(next.step) && named(candidate.step))
            };
            if rest.peek().is_some_and(same_step) {
                continue;
            }
            match select::select(request, &attempts) {
                // An optional product has a place of its own, which may come later.
                Ok(selection)
                    if !selection.combined
                        && !selection.lacks_product(request, Strength::Optional) =>
                {
                    let system: Vec<&Candidate> =
                        rest.filter(|candidate| candidate.products_only).collect();
                    if system.is_empty() || !selection.lacks_product(request, Strength::Extra) {
                        return Ok(selection);
                    }
                    attempts.extend(
                        system
                            .into_iter()
                            .flat_map(|candidate| self.probe(candidate)),
                    );
                    return select::select(request, &attempts);
                }
                Err(error @ Error::Inconsistent { .. }) => return Err(error),
                _ => {}
            }
        }
        select::select(request, &attempts)
    }

    /// The same search, but looks everywhere and keeps what it saw.
    pub fn report(&self, request: &Request) -> Report {
        let (attempts, remarks) = match self.look_everywhere() {
            Ok(seen) => seen,
            Err(error) => {
                return Report {
                    attempts: Vec::new(),
                    remarks: Vec::new(),
                    toolkit: Err(error),
                };
            }
        };
        Report {
            attempts,
            remarks,
            toolkit: self.find(request),
        }
    }

    fn look_everywhere(&self) -> Result<(Vec<Attempt>, Vec<String>), Error> {
        if let Some(attempt) = self.toolkit_file()? {
            return Ok((vec![attempt], Vec::new()));
        }
        let sources = sources::candidates(self.root, self.env, self.target, &self.places)?;
        let worth = |candidate: &&Candidate| {
            !candidate.products_only || sources::holds_product(self.root, self.target)
        };
        let attempts = sources.candidates.iter().filter(worth);
        let attempts = attempts
            .flat_map(|candidate| self.probe(candidate))
            .collect();
        Ok((attempts, [sources.disagreements, sources.remarks].concat()))
    }

    fn probe(&self, candidate: &Candidate) -> Vec<Attempt> {
        let query_nvcc = |nvcc: &Path| nvcc::query(self.root, self.env, nvcc);
        Prober {
            root: self.root,
            target: self.target,
            query_nvcc: &query_nvcc,
        }
        .probe_each(candidate)
    }

    /// A file of these components that is not there, and whose it is.
    fn gone<'f>(&self, found: &'f [Found]) -> Option<(Component, &'f Path)> {
        found.iter().find_map(|f| {
            let paths = [&f.include, &f.libraries, &f.archives, &f.tools]
                .into_iter()
                .flatten();
            paths
                .map(PathBuf::as_path)
                .find(|path| !self.root.exists(path))
                .map(|path| (f.component, path))
        })
    }

    /// A search that `cargo cuda` has done already.
    fn toolkit_file(&self) -> Result<Option<Attempt>, Error> {
        let Some(path) = self
            .env
            .path("CUDA_BUILD_TOOLKIT")
            .filter(|_| self.places.is_empty())
        else {
            return Ok(None);
        };
        let label = "environment variable `CUDA_BUILD_TOOLKIT`".to_owned();
        let invalid = |reason: String| Error::InvalidSource {
            source_name: label.clone(),
            path: path.clone(),
            reason,
            unused: Vec::new(),
        };
        let text = match self.root.text(&path) {
            _ if path.is_relative() => return Err(invalid(RELATIVE.to_owned())),
            Ok(text) => text,
            Err(_) if !self.root.exists(&path) => return Err(invalid("does not exist".to_owned())),
            Err(error) => return Err(invalid(format!("can't be read: {error}"))),
        };
        let found = file::parse(&text).map_err(|error| invalid(error.to_string()))?;
        if let Some((component, path)) = self.gone(&found) {
            return Err(invalid(format!(
                "its `{component}` is gone ({}): the toolkit was removed or changed since the file was written",
                path.display()
            )));
        }
        let candidate = Candidate {
            step: Step::Argument,
            label,
            path,
            also: Vec::new(),
            nvcc: None,
            site_packages: false,
            products_only: false,
        };
        let major = found.first().map_or(0, |found| found.major);
        Ok(Some(Attempt {
            candidate,
            sets: vec![Set { major, found }],
            unusable: Vec::new(),
            remarks: Vec::new(),
        }))
    }
}
