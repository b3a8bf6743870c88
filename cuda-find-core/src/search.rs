//! The whole search: sources, probe and select, step by step until one step has everything.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::slice;

use crate::env::Env;
use crate::error::Error;
use crate::found::{Attempt, ComponentSet};
use crate::nvcc;
use crate::probe::{Prober, RELATIVE_PATH_REASON};
use crate::root::Root;
use crate::select::{Request, Strength, select};
use crate::sources::{
    self, Candidate, CandidateKind, LockedToolkit, Proposals, SearchStep, variable_label,
};
use crate::target::Target;
use crate::toolkit::{Note, Toolkit, parse_file};

/// Where and how to search.
pub struct SearchContext<'a> {
    /// The disk.
    pub root: &'a Root,
    /// The variables.
    pub env: &'a Env,
    /// The platform to build for.
    pub target: &'a Target,
    /// Places given by the caller; they come before everything else.
    pub places: Vec<PathBuf>,
    /// Whether nvcc is started, for its version and directories.
    pub runs_nvcc: bool,
}

impl<'a> SearchContext<'a> {
    /// A search without places given by the caller.
    pub fn new(root: &'a Root, env: &'a Env, target: &'a Target) -> Self {
        Self {
            root,
            env,
            target,
            places: Vec::new(),
            runs_nvcc: true,
        }
    }
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

impl SearchContext<'_> {
    /// Finds a toolkit. Places after the first step that has everything are not read.
    ///
    /// # Errors
    /// As [`select()`]; [`Error::InvalidSource`] also for a `CUDA_BUILD_TOOLKIT` that cannot be read.
    pub fn find(&self, request: &Request) -> Result<Toolkit, Error> {
        self.find_first(slice::from_ref(request))
    }

    /// Finds a toolkit for the first of several requests that can be met. Each place is read at most once.
    ///
    /// # Errors
    /// As [`SearchContext::find`], for the last request.
    pub fn find_first(&self, requests: &[Request]) -> Result<Toolkit, Error> {
        let places = PlaceReader::new(self)?;
        let mut found = places.choose(requests);
        if let Err(Error::NotFound { message, .. }) = &mut found {
            if !places.has_named_place() {
                for remark in &places.sources.remarks {
                    *message += &format!("\n  cause: {remark}");
                }
            }
        }
        found
    }

    /// As [`SearchContext::find_first`], but reads every place, and also returns all attempts.
    pub fn report(&self, requests: &[Request]) -> Outcome {
        let places = match PlaceReader::new(self) {
            Ok(places) => places,
            Err(error) => {
                return Outcome {
                    attempts: Vec::new(),
                    remarks: Vec::new(),
                    toolkit: Err(error),
                };
            }
        };
        let toolkit = places.choose(requests);
        let is_read = |index: &usize| !places.is_system(*index) || places.has_system_product();
        let indexes = (0..places.attempts.len()).filter(is_read);
        let attempts = indexes
            .flat_map(|index| places.read(index))
            .cloned()
            .collect();
        Outcome {
            attempts,
            remarks: [places.sources.disagreements, places.sources.remarks].concat(),
            toolkit,
        }
    }

    fn probe(&self, candidate: &Candidate) -> Vec<Attempt> {
        let query = |nvcc: &Path| nvcc::query(self.root, self.env, nvcc);
        let prober = Prober {
            root: self.root,
            target: self.target,
            query_nvcc: self.runs_nvcc.then_some(&query),
            is_flat: false,
        };
        prober.probe_each(candidate)
    }

    /// The toolkit in the file that `CUDA_BUILD_TOOLKIT` names, which `cargo cuda` wrote.
    fn toolkit_file(&self) -> Result<Option<Attempt>, Error> {
        let path = self.env.path("CUDA_BUILD_TOOLKIT");
        let Some(path) = path.filter(|_| self.places.is_empty()) else {
            return Ok(None);
        };
        let label = variable_label("CUDA_BUILD_TOOLKIT");
        let invalid = |reason: String| Error::InvalidSource {
            source_name: label.clone(),
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
        let found = parse_file(&text).map_err(|error| invalid(error.to_string()))?;
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
        let (step, kind) = (SearchStep::Argument, CandidateKind::ToolkitFile);
        let candidate = Candidate::new(step, label, path, kind);
        let major = found.first().map_or(0, |found| found.major);
        let sets = vec![ComponentSet::new(&candidate, major, found)];
        Ok(Some(Attempt {
            sets,
            ..Attempt::new(candidate)
        }))
    }
}

/// The places of one search, in order. Each is read at most once, and only when it is needed.
struct PlaceReader<'s> {
    search: &'s SearchContext<'s>,
    sources: Proposals,
    /// For each candidate, its attempts, once it was read.
    attempts: Vec<OnceCell<Vec<Attempt>>>,
}

impl<'s> PlaceReader<'s> {
    fn new(search: &'s SearchContext<'s>) -> Result<Self, Error> {
        let SearchContext { root, env, .. } = search;
        let (sources, attempts) = if let Some(attempt) = search.toolkit_file()? {
            let mut sources = Proposals::default();
            sources.candidates.push(attempt.candidate.clone());
            (sources, vec![OnceCell::from(vec![attempt])])
        } else {
            let sources = sources::candidates(root, env, search.target, &search.places)?;
            let attempts = vec![OnceCell::new(); sources.candidates.len()];
            (sources, attempts)
        };
        Ok(Self {
            search,
            sources,
            attempts,
        })
    }

    fn read(&self, index: usize) -> &[Attempt] {
        let candidate = &self.sources.candidates[index];
        self.attempts[index].get_or_init(|| self.search.probe(candidate))
    }

    fn is_system(&self, index: usize) -> bool {
        self.sources.candidates[index].kind == CandidateKind::SystemProducts
    }

    /// Whether the system's directories have a product. This reads the disk, so check first whether the answer
    /// matters.
    fn has_system_product(&self) -> bool {
        sources::holds_product(self.search.root, self.search.target)
    }

    /// Whether the user has named places, so that no other place is used.
    fn has_named_place(&self) -> bool {
        let mut candidates = self.sources.candidates.iter();
        candidates.any(|candidate| candidate.step.is_explicit())
    }

    /// The newest locked toolkit that applies to the request.
    fn locked(&self, request: &Request) -> Option<&LockedToolkit> {
        let mut locked = self.sources.locked.iter();
        locked.find(|locked| request.is_locked_by(locked.release))
    }

    /// Whether a candidate is used for the request. Of the locked toolkits, only the newest
    /// admitted one is used, for both platforms of a cross build.
    fn is_considered(&self, index: usize, request: &Request) -> bool {
        let candidate = &self.sources.candidates[index];
        if candidate.kind == CandidateKind::SystemProducts {
            let needs_product = request.take_everything || request.needs_product(Strength::Extra);
            return needs_product && self.has_system_product();
        }
        let is_locked = |locked: &LockedToolkit| locked.paths.contains(&candidate.path);
        candidate.step != SearchStep::Locked || self.locked(request).is_some_and(is_locked)
    }

    /// The toolkit for the first request that can be met.
    fn choose(&self, requests: &[Request]) -> Result<Toolkit, Error> {
        let mut chosen = None;
        for request in requests {
            let toolkit = self.select(request);
            // If the locked toolkit was fetched but does not meet this request, try the next request before
            // using a toolkit of a later step.
            let locked = self.locked(request);
            let is_fetched = locked.is_some_and(|locked| !locked.paths.is_empty());
            let is_final = |toolkit: &Toolkit| !is_fetched || toolkit.step <= SearchStep::Locked;
            if toolkit.as_ref().is_ok_and(is_final) {
                chosen = Some(toolkit);
                break;
            }
            if !matches!(chosen, Some(Ok(_))) {
                chosen = Some(toolkit);
            }
        }
        let mut toolkit = chosen.unwrap_or_else(|| self.select(&Request::default()))?;
        let SearchContext { root, target, .. } = self.search;
        toolkit
            .warnings
            .splice(0..0, self.sources.disagreements.iter().cloned());
        toolkit.default_search_dirs = root.default_search_dirs(target.multiarch());
        Ok(toolkit)
    }

    /// Selects, and reports if the locked toolkit would serve and has not been fetched.
    fn select(&self, request: &Request) -> Result<Toolkit, Error> {
        let mut selected = self.select_in_order(request);
        let locked = self.locked(request);
        let Some(locked) = locked.filter(|locked| !locked.is_complete) else {
            return selected;
        };
        match &mut selected {
            Ok(toolkit) if !toolkit.step.is_explicit() && !toolkit.is_locked() => {
                toolkit.note(Note::LockNotFetched(locked.not_fetched()));
            }
            Err(Error::NotFound { hints, .. })
                if !self.has_named_place() && !self.search.target.is_jetson() =>
            {
                let reason = locked.not_fetched();
                *hints = vec![format!("run `cargo cuda fetch`: {reason}")];
            }
            _ => {}
        }
        selected
    }

    /// Selects from the first step that has everything. All places of a step are read before
    /// selecting, and all named places are one step.
    fn select_in_order(&self, request: &Request) -> Result<Toolkit, Error> {
        let is_considered = |index: &usize| self.is_considered(*index, request);
        let (mut considered, rest): (Vec<usize>, Vec<usize>) =
            (0..self.attempts.len()).partition(is_considered);
        // Locked toolkits that the lock does not decide for are stored toolkits like others, so they are read last.
        let is_locked = |index: &usize| self.sources.candidates[*index].step == SearchStep::Locked;
        considered.extend(rest.into_iter().filter(is_locked));
        for (position, &index) in considered.iter().enumerate() {
            let (seen, rest) = considered.split_at(position + 1);
            let next = rest.first();
            if next.is_some_and(|next| self.is_one_step(index, *next)) {
                continue;
            }
            match self.select_from(request, seen) {
                selected if next.is_none() => return selected,
                // The search ends here, unless an optional product may still be found in a later place. For a
                // product that is only an extra, no later place is read except the system's directories.
                Ok(toolkit)
                    if !toolkit.is_combined()
                        && !lacks_product(&toolkit, request, Strength::Optional) =>
                {
                    let system = rest.iter().copied().find(|index| self.is_system(*index));
                    let may_have_more = request.take_everything
                        || lacks_product(&toolkit, request, Strength::Extra);
                    let Some(system) = system.filter(|_| may_have_more) else {
                        return Ok(toolkit);
                    };
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

    fn select_from(&self, request: &Request, candidates: &[usize]) -> Result<Toolkit, Error> {
        let attempts = candidates.iter().flat_map(|index| self.read(*index));
        let attempts: Vec<&Attempt> = attempts.collect();
        select(request, self.search.target, &attempts)
    }
}

/// Whether a product that is needed with this strength was not chosen.
fn lacks_product(toolkit: &Toolkit, request: &Request, strength: Strength) -> bool {
    let mut needs = request.needs_of(toolkit.version().major).iter();
    needs.any(|need| {
        let mut chosen = toolkit.components().iter();
        need.is_product() && need.strength == strength && !chosen.any(|c| need.is_met_by(c))
    })
}

/// Probes one candidate as the search does, but without starting nvcc.
pub fn probe(root: &Root, target: &Target, candidate: &Candidate) -> Attempt {
    let prober = Prober {
        root,
        target,
        query_nvcc: None,
        is_flat: candidate.kind == CandidateKind::Libraries,
    };
    prober.probe(candidate)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests prepare real directories")]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::component::Component;
    use crate::select::{Need, Part};

    fn root(at: &Path) {
        for (file, text) in [
            ("include/cuda.h", "#define CUDA_VERSION 12040\n"),
            ("include/cuda_runtime.h", ""),
            ("include/cublas_v2.h", ""),
            ("lib64/libcudart.so.12", ""),
            ("lib64/libcublas.so.12", ""),
            ("lib64/libcublasLt.so.12", ""),
        ] {
            let path = at.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn a_request_that_was_met_is_not_lost_to_a_later_error() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        root(&top.join("usr/local/cuda"));
        let stored = top.join("cache/toolkits/13.4.3-a");
        let package =
            "name = \"nvidia-cuda-runtime\"\nversion = \"13.4.92\"\nhashes = [\"sha256-1\"]\n";
        let lock = top.join("cuda-toolkits.lock");
        for (file, text) in [
            (
                stored.join("toolkit.toml"),
                format!(
                    "format_version = 1\nversion = \"13.4.3\"\nplatform = \"x86_64-linux\"\ncomponents = []\n\
                     [[packages]]\n{package}"
                ),
            ),
            (
                stored.join("nvidia/cu13/lib/libcudart.so.13"),
                String::new(),
            ),
            (
                lock.clone(),
                format!(
                    "format_version = 1\n[[toolkit]]\nversion = \"13.4.3\"\n[[toolkit.packages]]\n{package}"
                ),
            ),
        ] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let env = Env::from_pairs([
            ("CUDA_BUILD_LOCK", lock),
            ("CUDA_BUILD_CACHE_DIR", top.join("cache")),
        ]);
        let (root, target) = (
            Root::below(top),
            Target::from_triple("x86_64-unknown-linux-gnu").unwrap(),
        );
        let context = SearchContext::new(&root, &env, &target);
        let request = |component| Request {
            needs: vec![Need::new(component, Part::Shared, "for this test")],
            ..Request::default()
        };
        // The locked toolkit has no cuBLAS, and nothing has cuFFT.
        let requests = [request(Component::Cublas), request(Component::Cufft)];
        let toolkit = context.find_first(&requests).unwrap();
        assert_eq!(toolkit.version().to_string(), "12.4");
        assert!(context.find_first(&requests[1..]).is_err());
    }
}
