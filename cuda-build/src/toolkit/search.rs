//! The whole search: sources, probe and select, step by step until one step has everything.

use std::path::{Path, PathBuf};
use std::slice;

use super::{Toolkit, file};
use crate::env::Env;
use crate::error::Error;
use crate::nvcc;
use crate::probe::{Attempt, ComponentSet, Prober, RELATIVE_PATH_REASON};
use crate::root::Root;
use crate::select::{self, Need, Note, Request, Selection, Strength};
use crate::sources::{self, Candidate, Label, Layout, Locked, SearchStep, Sources};
use crate::target::Target;

/// Where and how to search.
pub struct Search<'a> {
    /// The disk.
    pub root: &'a Root,
    /// The variables.
    pub env: &'a Env,
    /// The platform to build for.
    pub target: &'a Target,
    /// Places given by the caller; they come before everything else.
    pub places: Vec<PathBuf>,
}

/// What a search read and what it chose.
pub struct Outcome {
    /// Every place that was read, in the order of the search.
    pub attempts: Vec<Attempt>,
    /// What to report about the sources and the environment.
    pub remarks: Vec<String>,
    /// The choice, or why there is none.
    pub toolkit: Result<Toolkit, Error>,
}

impl Search<'_> {
    /// Finds a toolkit. Places after the first step that has everything are not read.
    ///
    /// # Errors
    /// As [`select::select`]; [`Error::InvalidSource`] also for a `CUDA_BUILD_TOOLKIT` that cannot be read.
    pub fn find(&self, request: &Request) -> Result<Toolkit, Error> {
        self.find_first(slice::from_ref(request))
    }

    /// Finds a toolkit for the first of several requests that can be met. Each place is read at most once.
    ///
    /// # Errors
    /// As [`Search::find`], for the last request.
    pub fn find_first(&self, requests: &[Request]) -> Result<Toolkit, Error> {
        LazySearch::new(self)?.choose(requests)
    }

    /// As [`Search::find_first`], but reads every place, and also returns all attempts.
    pub fn report(&self, requests: &[Request]) -> Outcome {
        let mut walk = match LazySearch::new(self) {
            Ok(walk) => walk,
            Err(error) => {
                return Outcome {
                    attempts: Vec::new(),
                    remarks: Vec::new(),
                    toolkit: Err(error),
                };
            }
        };
        let toolkit = walk.choose(requests);
        for index in 0..walk.attempts.len() {
            if !walk.is_system(index) || walk.has_system_product() {
                walk.read(index);
            }
        }
        Outcome {
            attempts: walk.attempts.into_iter().flatten().flatten().collect(),
            remarks: [walk.sources.disagreements, walk.sources.remarks].concat(),
            toolkit,
        }
    }

    fn probe(&self, candidate: &Candidate) -> Vec<Attempt> {
        let query_nvcc = |nvcc: &Path| nvcc::query(self.root, self.env, nvcc);
        Prober::new(self.root, self.target, &query_nvcc).probe_each(candidate)
    }

    /// The toolkit in the file that `CUDA_BUILD_TOOLKIT` names, which `cargo cuda` wrote.
    fn toolkit_file(&self) -> Result<Option<Attempt>, Error> {
        let path = self.env.path("CUDA_BUILD_TOOLKIT");
        let Some(path) = path.filter(|_| self.places.is_empty()) else {
            return Ok(None);
        };
        let label = Label::Variable("CUDA_BUILD_TOOLKIT");
        let invalid = |reason: String| Error::InvalidSource {
            source_name: label.to_string(),
            path: path.clone(),
            reason,
            unused: Vec::new(),
        };
        let text = match self.root.text(&path) {
            _ if path.is_relative() => return Err(invalid(RELATIVE_PATH_REASON.to_owned())),
            Ok(text) => text,
            Err(_) if !self.root.exists(&path) => return Err(invalid("does not exist".to_owned())),
            Err(error) => return Err(invalid(format!("cannot be read: {error}"))),
        };
        let found = file::parse(&text).map_err(|error| invalid(error.to_string()))?;
        for found in &found {
            if let Some(path) = found.paths().find(|path| !self.root.exists(path)) {
                return Err(invalid(format!(
                    "it lists a file of `{}` that does not exist ({}): the toolkit was removed or changed after the \
                     list was written",
                    found.component,
                    path.display()
                )));
            }
        }
        let candidate = Candidate::new(SearchStep::Argument, label, path, Layout::ToolkitFile);
        let major = found.first().map_or(0, |found| found.major);
        Ok(Some(Attempt {
            candidate,
            sets: vec![ComponentSet { major, found }],
            unusable: Vec::new(),
            remarks: Vec::new(),
        }))
    }
}

/// The places of one search, in order. Each is read at most once, and only when it is needed.
struct LazySearch<'s> {
    search: &'s Search<'s>,
    sources: Sources,
    /// For each candidate, its attempts; `None` until it is read.
    attempts: Vec<Option<Vec<Attempt>>>,
}

impl<'s> LazySearch<'s> {
    fn new(search: &'s Search<'s>) -> Result<Self, Error> {
        if let Some(attempt) = search.toolkit_file()? {
            return Ok(Self {
                search,
                sources: Sources {
                    candidates: vec![attempt.candidate.clone()],
                    ..Sources::default()
                },
                attempts: vec![Some(vec![attempt])],
            });
        }
        let sources = sources::candidates(search.root, search.env, search.target, &search.places)?;
        let attempts = sources.candidates.iter().map(|_| None).collect();
        Ok(Self {
            search,
            sources,
            attempts,
        })
    }

    fn read(&mut self, index: usize) {
        if self.attempts[index].is_none() {
            let attempts = self.search.probe(&self.sources.candidates[index]);
            self.attempts[index] = Some(attempts);
        }
    }

    fn is_system(&self, index: usize) -> bool {
        self.sources.candidates[index].layout == Layout::SystemProducts
    }

    /// Whether the system's directories have a product. This reads the disk, so check first whether the answer
    /// matters.
    fn has_system_product(&self) -> bool {
        sources::holds_product(self.search.root, self.search.target)
    }

    /// The newest locked toolkit that the request admits.
    fn locked(&self, request: &Request) -> Option<&Locked> {
        let mut locked = self.sources.locked.iter();
        locked.find(|locked| request.admits_release(locked.release))
    }

    /// Whether the newest locked toolkit that the request admits has been fetched.
    fn has_locked(&self, request: &Request) -> bool {
        self.locked(request)
            .is_some_and(|locked| !locked.paths.is_empty())
    }

    /// Whether a candidate is used for the request. Of the locked toolkits, only the newest
    /// admitted one is used, for both platforms of a cross build.
    fn is_considered(&self, index: usize, request: &Request) -> bool {
        let candidate = &self.sources.candidates[index];
        match candidate.layout {
            Layout::SystemProducts => {
                let needs_product =
                    request.take_everything || request.needs.iter().any(Need::is_product);
                needs_product && self.has_system_product()
            }
            _ if candidate.step == SearchStep::Locked => self
                .locked(request)
                .is_some_and(|locked| locked.paths.contains(&candidate.path)),
            _ => true,
        }
    }

    /// Whether a candidate is a locked toolkit whose release the request does not admit.
    fn is_locked_for_others(&self, index: usize, request: &Request) -> bool {
        let candidate = &self.sources.candidates[index];
        let is_other = |locked: &Locked| {
            locked.paths.contains(&candidate.path) && !request.admits_release(locked.release)
        };
        candidate.step == SearchStep::Locked && self.sources.locked.iter().any(is_other)
    }

    /// The toolkit for the first request that can be met.
    fn choose(&mut self, requests: &[Request]) -> Result<Toolkit, Error> {
        let mut chosen = Err(Error::NotFound(Box::default()));
        for (index, request) in requests.iter().enumerate() {
            chosen = self.select(request);
            let is_last = index + 1 == requests.len();
            // If the locked toolkit was fetched but does not meet this request, try the next request before
            // using a toolkit of a later step.
            let skips_locked = |selection: &Selection| {
                self.has_locked(request) && selection.step > SearchStep::Locked
            };
            if chosen
                .as_ref()
                .is_ok_and(|selection| is_last || !skips_locked(selection))
            {
                break;
            }
        }
        let (search, warnings) = (self.search, self.sources.disagreements.clone());
        let directories = search.root.default_search_dirs(search.target.multiarch());
        let mut toolkit =
            chosen.and_then(|selection| Toolkit::new(selection, warnings, directories));
        if let Err(Error::NotFound(not_found)) = &mut toolkit {
            not_found.target = Some(search.target.clone());
        }
        toolkit
    }

    /// Selects, and adds a note if the locked toolkit has not been fetched.
    fn select(&mut self, request: &Request) -> Result<Selection, Error> {
        let mut selection = self.select_in_order(request)?;
        let missing = self
            .locked(request)
            .filter(|locked| locked.paths.is_empty());
        if let Some(locked) = missing.filter(|_| !selection.step.is_explicit()) {
            selection.note(Note::LockNotFetched {
                file: locked.file.clone(),
                version: locked.version.to_string(),
            });
        }
        Ok(selection)
    }

    /// Selects from the first step that has everything. All places of a step are read before
    /// selecting, and all named places are one step.
    fn select_in_order(&mut self, request: &Request) -> Result<Selection, Error> {
        let mut considered: Vec<usize> = (0..self.attempts.len())
            .filter(|index| self.is_considered(*index, request))
            .collect();
        // An error names these too, so they are read last.
        considered
            .extend((0..self.attempts.len()).filter(|i| self.is_locked_for_others(*i, request)));
        for (position, &index) in considered.iter().enumerate() {
            self.read(index);
            let (seen, rest) = considered.split_at(position + 1);
            let next = rest.first();
            if next.is_some_and(|next| self.is_one_step(index, *next)) {
                continue;
            }
            match self.select_from(request, seen) {
                selection if next.is_none() => return selection,
                // The search ends here, unless an optional product may still be found in a later place. For a
                // product that is only an extra, no later place is read except the system's directories.
                Ok(selection)
                    if !selection.is_combined()
                        && !selection.lacks_product(request, Strength::Optional) =>
                {
                    let system = rest.iter().copied().find(|index| self.is_system(*index));
                    let lacks_product = || selection.lacks_product(request, Strength::Extra);
                    let Some(system) = system.filter(|_| lacks_product()) else {
                        return Ok(selection);
                    };
                    self.read(system);
                    return self.select_from(request, &[seen, &[system]].concat());
                }
                Err(error @ Error::Inconsistent { .. }) => return Err(error),
                _ => {}
            }
        }
        self.select_from(request, &[])
    }

    fn is_one_step(&self, one: usize, other: usize) -> bool {
        let step = |index: usize| self.sources.candidates[index].step;
        let named = |step: SearchStep| step.is_explicit() || step == SearchStep::Product;
        step(one) == step(other) || (named(step(one)) && named(step(other)))
    }

    fn select_from(&self, request: &Request, candidates: &[usize]) -> Result<Selection, Error> {
        let attempts: Vec<&Attempt> = candidates
            .iter()
            .filter_map(|index| self.attempts[*index].as_ref())
            .flatten()
            .collect();
        select::select(request, &attempts)
    }
}
