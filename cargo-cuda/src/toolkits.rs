//! Finds the toolkit for a workspace, and fetches it if that is allowed.

use cuda_build::internal::release::is_nvcc_packaged;
use cuda_build::internal::select::{Need, Note, Part, Request, Strength};
use cuda_build::internal::sources::{self, LOCK_VARIABLE, Sources};
use cuda_build::internal::{Env, Outcome, RequestedRelease, Root, Search, Target, ViewPlace};
use cuda_build::{Component, Error, Toolkit, ToolkitVersion};

use crate::build::directory;
use crate::cargo_config;
use crate::dependencies::Guess;
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::store::{self, AddRequest, Added, Context, Lock, ReleaseToFetch};
use crate::workspace::Workspace;

/// Finds a toolkit for one workspace.
#[derive(Clone, Copy, Debug)]
pub struct Finder<'a> {
    /// The variables that the search reads, with the workspace's lock file ([`with_lock`]).
    pub env: &'a Env,
    /// The file system that is searched.
    pub root: &'a Root,
    /// The platform to build for.
    pub target: &'a Target,
    /// The workspace, if there is one.
    pub workspace: Option<&'a Workspace>,
    /// Whether a missing toolkit is fetched.
    pub fetch: bool,
    /// Whether a toolkit without a compiler is accepted if no other is found.
    pub accept_without_compiler: bool,
    /// How the workspace's lock file is treated.
    pub lock: LockPolicy,
}

/// How a command treats the workspace's lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockPolicy {
    /// If the locked toolkit has not been fetched, another one is used, and a warning is printed.
    Prefer,
    /// If the locked toolkit has not been fetched, the command fails.
    Require,
    /// `--locked`: as `Require`, and the command also fails if the lock file would change.
    Unchanged,
}

/// The reason for the components of a compiler, which error messages print.
const COMPILER_REASON: &str = "needed to compile `.cu` files";

fn nvcc() -> Vec<Need> {
    vec![
        Need::new(Component::Nvcc, Part::Tools, COMPILER_REASON),
        Need::new(Component::Nvvm, Part::Tools, COMPILER_REASON),
        Need::new(Component::Crt, Part::Headers, COMPILER_REASON),
        Need::new(Component::Cudart, Part::Headers, COMPILER_REASON),
    ]
}

fn nvrtc() -> Need {
    let why = format!("{COMPILER_REASON}; nvcc can be used instead");
    Need::new(Component::Nvrtc, Part::Shared, why)
}

/// The variables for a search in a workspace: `env` with [`LOCK_VARIABLE`] set to the workspace's
/// lock file, unless the user has named another file.
pub fn with_lock(env: Env, workspace: Option<&Workspace>) -> Env {
    let root = workspace.map(|workspace| workspace.root.as_path());
    match Context::new(&env, root).lock_file {
        Some(path) => env.with(LOCK_VARIABLE, path),
        None => env,
    }
}

impl<'a> Finder<'a> {
    /// A finder that requires a compiler and does not fetch.
    pub fn new(
        env: &'a Env,
        root: &'a Root,
        target: &'a Target,
        workspace: Option<&'a Workspace>,
    ) -> Self {
        Self {
            env,
            root,
            target,
            workspace,
            fetch: false,
            accept_without_compiler: false,
            lock: LockPolicy::Prefer,
        }
    }

    /// A request for the components that all packages of the workspace need, and for one of the
    /// sets in `alternatives`.
    fn request(&self, alternatives: Vec<Vec<Need>>) -> Result<Request, Error> {
        let release = RequestedRelease::from_env(self.env)?;
        let mut request = Request {
            major: release.map(|release| release.major),
            alternatives,
            ..Request::default()
        };
        request
            .toolkit
            .comparators
            .extend(release.and_then(RequestedRelease::comparator));
        for package in self.workspace.iter().flat_map(|w| &w.packages) {
            let declared = cuda_build::internal::request(&package.config, request.major);
            for need in declared.needs {
                if !request.needs.contains(&need) {
                    request.needs.push(need);
                }
            }
            request
                .toolkit
                .comparators
                .extend(declared.toolkit.comparators);
        }
        // A build script may use components that the manifest does not declare.
        request.take_everything = true;
        Ok(request)
    }

    /// The requests to try, in order. Any crate may call nvcc, so the first request is for a toolkit with
    /// nvcc, and the second for a toolkit with nvcc or NVRTC. If the user has named a root, both requests
    /// accept NVRTC, so that the named root is used even without nvcc.
    fn requests(&self, sources: &Sources) -> Result<[Request; 2], Error> {
        let with_compiler = self.any_compiler_request()?;
        if self.is_explicit(sources) {
            return Ok([with_compiler.clone(), with_compiler]);
        }
        let both = nvcc().into_iter().chain([nvrtc()]).collect();
        Ok([self.request(vec![both, nvcc()])?, with_compiler])
    }

    /// A request for a toolkit with nvcc or NVRTC.
    fn any_compiler_request(&self) -> Result<Request, Error> {
        let both = nvcc().into_iter().chain([nvrtc()]).collect();
        self.request(vec![both, vec![nvrtc()], nvcc()])
    }

    /// Runs the search, and returns all its attempts.
    pub fn report(&self) -> Result<Outcome, Error> {
        Ok(self.search().report(&self.requests(&self.sources())?))
    }

    fn search(&self) -> Search<'_> {
        Search {
            root: self.root,
            env: self.env,
            target: self.target,
            places: Vec::new(),
        }
    }

    /// Finds the toolkit. If none is found, fetches one if `fetch` is set.
    pub fn find(&self) -> Result<Toolkit, Failure> {
        let sources = self.sources();
        let requests = self.requests(&sources)?;
        // The search does not use fetched toolkits if the user has named a root. For Jetson boards there are none.
        let uses_fetched = !self.target.is_jetson() && !self.is_explicit(&sources);
        let mut locked = sources.locked.iter();
        let locked = locked.find(|locked| requests[1].admits_release(locked.release));
        let missing = locked.filter(|locked| locked.paths.is_empty() && uses_fetched);
        let toolkit = if self.fetch && uses_fetched {
            self.find_or_fetch(&requests, missing.is_some())?
        } else if let Some(locked) = missing.filter(|_| self.lock != LockPolicy::Prefer) {
            let (file, version) = (locked.file.display(), &locked.version);
            let text = format!("{file} locks CUDA {version}, which has not been fetched");
            let fetch = match self.target.is_native() {
                true => "run `cargo cuda fetch`".to_owned(),
                false => format!("run `cargo cuda fetch --target {}`", self.target),
            };
            return Err(Failure::new(exit_code::LOCK, text).hint(fetch));
        } else {
            self.find_without_fetching(&requests)?
        };
        for note in toolkit.notes() {
            if matches!(note, Note::LockNotFetched { .. }) {
                output::message(&format!("warning: {note}"));
            }
        }
        Ok(toolkit)
    }

    fn find_without_fetching(&self, requests: &[Request]) -> Result<Toolkit, Error> {
        let found = self.search().find_first(requests);
        if !self.accept_without_compiler || !matches!(found, Err(Error::NotFound(_))) {
            return found;
        }
        // The reason is empty because it is never printed: if this search also fails, the first
        // error is returned, which is more useful.
        let runtime = Need::new(Component::Cudart, Part::Shared, "");
        let request = self.request(vec![vec![runtime]])?;
        self.search().find(&request).or(found)
    }

    /// Finds a toolkit that also has the guessed components, otherwise fetches one. If a toolkit is found without them,
    /// the fetched one is of the same release. If a guessed component cannot be fetched, the build may still work without
    /// it.
    fn find_or_fetch(&self, requests: &[Request], is_missing: bool) -> Result<Toolkit, Failure> {
        let search = self.search();
        let with_guesses: Vec<Request> = requests.iter().map(|r| self.with_guesses(r)).collect();
        let last = &requests[requests.len() - 1];
        if is_missing {
            self.fetch_for(last)?;
        }
        match search.find_first(&with_guesses) {
            Err(Error::NotFound(_)) => {}
            found => return Ok(found?),
        }
        let fetched = match search.find_first(requests) {
            Ok(toolkit) => self.fetch_guesses(&toolkit).or_else(|failure| {
                output::message(&format!(
                    "note: could not fetch what the build may need: {}",
                    failure.message
                ));
                Ok(())
            }),
            Err(_) => self.fetch_for(last).map(drop),
        };
        fetched?;
        let found = search.find_first(&with_guesses);
        Ok(found.or_else(|_| search.find_first(requests))?)
    }

    /// Fetches a toolkit with the guessed components, of the release of a toolkit that lacks some of them.
    fn fetch_guesses(&self, lacking: &Toolkit) -> Result<(), Failure> {
        let ToolkitVersion { major, minor } = lacking.version();
        let release = RequestedRelease {
            major,
            minor: Some(minor),
        };
        let env = self.env.clone();
        let env = &env.with(RequestedRelease::VARIABLE, release.to_string());
        let finder = Finder { env, ..*self };
        let request = finder.any_compiler_request()?;
        let mut locked = finder.locked_releases()?.into_iter();
        let is_locked = locked.any(|(_, version)| request.admits_release(version));
        // The search prefers locked toolkits, so a fetched one would take the place of this one.
        if lacking.get(Component::Nvcc).is_some() && !is_nvcc_packaged(major) && !is_locked {
            let mut absent = self.guesses().to_vec();
            absent.retain(|guess| lacking.get(guess.component).is_none());
            let absent: Vec<String> = absent.iter().map(Guess::to_string).collect();
            let text = format!(
                "{}; the Python packages of CUDA {major} have no nvcc, and the CUDA {release} that is found has it",
                absent.join(", ")
            );
            let hint =
                format!("install them beside CUDA {release}, or build with another: `--cuda 13`");
            return Err(Failure::new(exit_code::NOT_RELEASED, text).hint(hint));
        }
        finder.fetch_for(&request).map(drop)
    }

    /// The components that the workspace's dependencies probably need.
    fn guesses(&self) -> &'a [Guess] {
        self.workspace
            .map_or(&[], |workspace| &workspace.dependencies.guesses)
    }

    /// The same request, with the guessed components as required ones.
    fn with_guesses(&self, request: &Request) -> Request {
        let mut request = request.clone();
        for guess in self.guesses() {
            let part = Part::main(guess.component);
            request
                .needs
                .push(Need::new(guess.component, part, guess.to_string()));
        }
        request
    }

    /// Fetches the toolkits that the workspace needs. If a release is requested, this is only that
    /// release. Otherwise it is one toolkit for each major that packages declare, else one for each
    /// major in the lock file, else one toolkit.
    pub fn fetch_all(&self) -> Result<Vec<Added>, Failure> {
        let request = self.any_compiler_request()?;
        let mut majors = self.workspace.map(Workspace::majors).unwrap_or_default();
        if majors.is_empty() {
            let locked = self.locked_releases()?.into_iter();
            let admitted = locked.filter(|(_, version)| request.admits_release(*version));
            majors = admitted.map(|(_, version)| version.major).collect();
            majors.dedup();
        }
        if majors.is_empty() || RequestedRelease::from_env(self.env)?.is_some() {
            return Ok(vec![self.fetch_for(&request)?]);
        }
        let fetch = |major: u32| {
            let env = self.env.clone();
            let env = &env.with(RequestedRelease::VARIABLE, major.to_string());
            let finder = Finder { env, ..*self };
            finder.fetch_for(&finder.any_compiler_request()?)
        };
        majors.into_iter().map(fetch).collect()
    }

    /// The releases in the lock file, newest first.
    fn locked_releases(&self) -> Result<Vec<(ReleaseToFetch, ToolkitVersion)>, Failure> {
        Ok(match self.context().lock_file {
            Some(path) => Lock::read(&path)?.releases(),
            None => Vec::new(),
        })
    }

    fn context(&self) -> Context {
        Context::new(self.env, self.workspace.map(|w| w.root.as_path()))
    }

    fn fetch_for(&self, request: &Request) -> Result<Added, Failure> {
        let required = |need: &&Need| need.strength == Strength::Required;
        let required = request.needs.iter().filter(required);
        let components: Vec<Component> = required.map(|need| need.component).collect();
        let mut guesses = self.guesses().to_vec();
        guesses.retain(|guess| !components.contains(&guess.component));
        let request = AddRequest {
            optional: guesses.iter().map(|guess| guess.component).collect(),
            components,
            locked: self.lock == LockPolicy::Unchanged,
            ..AddRequest::new(self.release_for(request)?)
        };
        if !guesses.is_empty() {
            let shown: Vec<String> = guesses.iter().map(Guess::to_string).collect();
            output::status("Guessed", &shown.join(", "));
        }
        let added = store::add(&request, &self.context())?;
        if !self.target.is_native() {
            let target = Some(self.target.clone());
            store::add(
                &AddRequest {
                    target,
                    ..request.clone()
                },
                &self.context(),
            )?;
        }
        for guess in &guesses {
            if added.unavailable.contains(&guess.component) {
                let reason = match request.locked {
                    true => "the lock file may not change".to_owned(),
                    false => format!(
                        "the package index has no such component for CUDA {}",
                        added.version
                    ),
                };
                output::message(&format!("note: {guess} was not fetched: {reason}"));
            }
        }
        Ok(added)
    }

    /// The release to fetch. As in the search, the lock file comes first: its newest release that the
    /// request admits. Otherwise the release that the user requested, else a declared major that the
    /// request admits, else the newest such major.
    fn release_for(&self, request: &Request) -> Result<ReleaseToFetch, Failure> {
        let mut locked = self.locked_releases()?.into_iter();
        if let Some((release, _)) = locked.find(|(_, version)| request.admits_release(*version)) {
            return Ok(release);
        }
        if let Some(release) = RequestedRelease::from_env(self.env)? {
            return Ok(release.into());
        }
        let majors = self.workspace.map(Workspace::majors).unwrap_or_default();
        let mut declared = majors.into_iter();
        let major = declared
            .find(|major| request.admits_major(*major))
            .or_else(|| request.newest_major());
        match major {
            Some(major) => Ok(RequestedRelease { major, minor: None }.into()),
            None => {
                let text = format!("no CUDA release meets `toolkit = \"{}\"`", request.toolkit);
                Err(Failure::new(exit_code::NOT_FOUND, text)
                    .hint("change `toolkit` in `[package.metadata.cuda]`, for example to `>=12`"))
            }
        }
    }

    /// The sources of the search. If a variable is invalid, there are none here, and the search itself
    /// reports the error.
    fn sources(&self) -> Sources {
        sources::candidates(self.root, self.env, self.target, &[]).unwrap_or_default()
    }

    /// Whether the user has named a root.
    fn is_explicit(&self, sources: &Sources) -> bool {
        self.env.peek("CUDA_BUILD_TOOLKIT").is_some()
            || sources.candidates.iter().any(|c| c.step.is_explicit())
    }
}

/// The variable that names the directory of views.
pub const VIEWS: &str = "CUDA_BUILD_VIEWS";

/// Where `cargo cuda view` creates a view: in the directory that [`VIEWS`] names, else in the
/// workspace's target directory, else in the user's cache directory.
pub fn view_place(
    env: &Env,
    workspace: Option<&Workspace>,
    target: &Target,
) -> Result<ViewPlace, Failure> {
    if workspace.is_none() || env.peek(VIEWS).is_some() {
        return Ok(ViewPlace::from_env(env, target)?);
    }
    let base = directory::base(env, workspace)?;
    Ok(ViewPlace::below(&base.join("views"), target))
}

/// The platform of `option` (`--target`), else of `configured` (Cargo's configuration), else of this
/// machine.
pub fn target(
    option: Option<&str>,
    configured: Option<&str>,
    jetson: bool,
) -> Result<Target, Failure> {
    let triple = option
        .or(configured)
        .map_or_else(cargo_config::host, cargo_config::target_directory_name);
    let target = Target::from_triple(&triple).map_err(|error| match (option, configured) {
        (None, Some(_)) => Failure::from(error).hint(
            "it comes from `[build] target` in Cargo's configuration; `--target` overrides it",
        ),
        _ => error.into(),
    })?;
    Ok(if jetson { target.on_jetson() } else { target })
}
