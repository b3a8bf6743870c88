//! Finds the toolkit for a workspace, and fetches it if that is allowed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cuda_build::{Component, Toolkit, ToolkitVersion};
use cuda_build::{
    driver,
    view::{VIEWS_VARIABLE, ViewPlace},
};
use cuda_find_core::search::{self, Outcome, SearchContext};
use cuda_find_core::select::{Need, Part, Request, RequestedRelease, Strength};
use cuda_find_core::sources::{self, LockedToolkit, Proposals, SearchStep};
use cuda_find_core::{env::Env, error::Error, list::sorted_set, root::Root, target::Target};
use cuda_find_core::{found::ComponentSet, release::is_nvcc_packaged, toolkit::Note};

use crate::cargo_config;
use crate::dependencies::{Dependencies, Guess};
use crate::driver_limit::DriverLimit;
use crate::exit_code;
use crate::failure::{Failure, Result};
use crate::output;
use crate::store::{self, AcceptedVersions, AddRequest, AddedToolkit};
use crate::store::{Lock, PackageSet, ReleaseToFetch};
use crate::workspace::{Package, Workspace, declared_majors};

/// What packages need of CUDA: what they declare, and what their dependencies reveal.
#[derive(Clone, Debug, Default)]
pub struct PackageNeeds {
    /// Members of the workspace.
    pub packages: Vec<Package>,
    pub dependencies: Dependencies,
}

/// Finds a toolkit for one command.
#[derive(Clone, Copy, Debug)]
pub struct Finder<'a> {
    /// The variables that the search reads, with the workspace's lock file ([`store::with_lock_file`]).
    pub env: &'a Env,
    /// The file system that is searched.
    pub root: &'a Root,
    /// The platform to build for.
    pub target: &'a Target,
    /// What the command needs.
    pub needs: &'a PackageNeeds,
    /// What the whole workspace needs, which is locked together with what the command needs: the lock file does not
    /// depend on what is built.
    pub needs_of_workspace: Option<&'a PackageNeeds>,
    /// Whether a missing toolkit is fetched.
    pub fetch: bool,
    /// Whether everything is fetched that the lock file pins, also what this command does not need.
    fetches_whole_lock: bool,
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
const COMPILER_REASON: &str = "build scripts may compile `.cu` files";

fn nvcc_needs() -> Vec<Need> {
    vec![
        Need::new(Component::Nvcc, Part::Tools, COMPILER_REASON),
        Need::new(Component::Nvvm, Part::Tools, COMPILER_REASON),
        Need::new(Component::Crt, Part::Headers, COMPILER_REASON),
        Need::new(Component::Cudart, Part::Headers, COMPILER_REASON),
    ]
}

fn nvrtc_need() -> Need {
    let why = format!("{COMPILER_REASON}; nvcc can be used instead");
    Need::new(Component::Nvrtc, Part::Shared, why)
}

impl<'a> Finder<'a> {
    /// A finder that requires a compiler and does not fetch.
    pub fn new(env: &'a Env, root: &'a Root, target: &'a Target, needs: &'a PackageNeeds) -> Self {
        Self {
            env,
            root,
            target,
            needs,
            needs_of_workspace: None,
            fetch: false,
            fetches_whole_lock: false,
            lock: LockPolicy::Prefer,
        }
    }

    /// A request for the components that the packages declare, and for one of the sets in `alternatives`.
    fn request(&self, alternatives: Vec<Vec<Need>>) -> Result<Request, Error> {
        let release = RequestedRelease::from_env(self.env)?;
        let mut request = Request {
            major: release.map(|release| release.major),
            declared_majors: declared_majors(&self.needs.packages),
            alternatives,
            ..Request::default()
        };
        let comparator = release.and_then(RequestedRelease::comparator);
        request.toolkit.comparators.extend(comparator);
        for package in &self.needs.packages {
            request.require(&cuda_build::script::request(&package.config));
        }
        // A build script may use components that the manifest does not declare.
        request.take_everything = true;
        Ok(request)
    }

    /// The requests to try, in order. Any crate may call nvcc, so the first request is for a toolkit with
    /// nvcc, and the last for a toolkit with nvcc or NVRTC. If the user has named a root, there is only the last, so
    /// that the named root is used even without nvcc.
    fn requests(&self, sources: &Proposals) -> Result<Vec<Request>, Error> {
        let any_compiler = self.any_compiler_request()?;
        let mut with_nvcc = any_compiler.clone();
        let has_nvcc = |needs: &Vec<Need>| needs.iter().any(|it| it.component == Component::Nvcc);
        with_nvcc.alternatives.retain(has_nvcc);
        match self.has_named_root(sources) {
            true => Ok(vec![any_compiler]),
            false => Ok(vec![with_nvcc, any_compiler]),
        }
    }

    /// A request for a toolkit with nvcc or NVRTC.
    fn any_compiler_request(&self) -> Result<Request, Error> {
        let (nvcc, nvrtc) = (nvcc_needs(), vec![nvrtc_need()]);
        self.request(vec![[nvcc.clone(), nvrtc.clone()].concat(), nvrtc, nvcc])
    }

    /// Runs the search, and returns all its attempts.
    pub fn outcome(&self) -> Result<Outcome, Error> {
        Ok(self.search().report(&self.requests(&self.sources())?))
    }

    fn search(&self) -> SearchContext<'_> {
        SearchContext::new(self.root, self.env, self.target)
    }

    /// Finds the toolkit. With `fetch`, fetches what it lacks, and pins it in the lock file.
    pub fn find(&self) -> Result<Toolkit> {
        // The search does not use fetched toolkits if the user has named a root. For Jetson boards there are none.
        let uses_fetched = !self.target.is_jetson() && !self.has_named_root(&self.sources());
        if self.fetch && uses_fetched {
            self.lock_declared_majors()?;
        }
        let sources = self.sources();
        let requests = self.requests(&sources)?;
        let last_request = &requests[requests.len() - 1];
        let mut all_locked = sources.locked.iter();
        let locked = all_locked.find(|locked| last_request.is_locked_by(locked.release));
        let not_fetched = locked.filter(|locked| !locked.is_complete && uses_fetched);
        let toolkit = if self.fetch && uses_fetched {
            self.find_or_fetch(&requests, not_fetched.is_some())?
        } else {
            // Of a locked toolkit, several parts may have been fetched, each for other packages.
            let with_guesses = requests.iter().map(|it| self.with_guesses(it));
            let with_guesses = with_guesses.filter(|_| not_fetched.is_some());
            let in_order: Vec<Request> = with_guesses.chain(requests.iter().cloned()).collect();
            let found = self.search().find_first(&in_order);
            let is_locked = found.as_ref().is_ok_and(Toolkit::is_locked);
            if let Some(locked) = not_fetched
                && self.lock != LockPolicy::Prefer
                && !is_locked
            {
                return Err(self.not_fetched(locked));
            }
            found?
        };
        if uses_fetched && self.lock == LockPolicy::Unchanged && toolkit.is_fetched() {
            // Fails if the lock file does not pin the toolkit.
            store::lock(&self.add_request(last_request)?, self.env)?;
        }
        warn_about_lock(&toolkit);
        Ok(toolkit)
    }

    /// The error if a command requires the locked toolkit.
    fn not_fetched(&self, locked: &LockedToolkit) -> Failure {
        let target = match self.target.is_native() {
            true => String::new(),
            false => format!(" --target {}", self.target),
        };
        let hint = format!("run `cargo cuda fetch{target}`");
        Failure::lock(locked.not_fetched()).hint(hint)
    }

    /// Finds a toolkit with the shared libraries of `components`, which need no compiler.
    pub fn find_libraries(&self, components: &BTreeSet<Component>) -> Result<Toolkit> {
        let needs = components.iter();
        let needs = needs.map(|c| Need::new(*c, Part::Shared, "the program needs its libraries"));
        let toolkit = self.search().find(&self.request(vec![needs.collect()])?)?;
        warn_about_lock(&toolkit);
        Ok(toolkit)
    }

    /// Finds a toolkit that also has the guessed components, otherwise fetches one. If a toolkit is found without them,
    /// the fetched one is of the same release.
    fn find_or_fetch(
        &self,
        requests: &[Request],
        is_locked_but_not_fetched: bool,
    ) -> Result<Toolkit> {
        let search = self.search();
        let with_guesses: Vec<Request> = requests.iter().map(|r| self.with_guesses(r)).collect();
        let last_request = &requests[requests.len() - 1];
        if is_locked_but_not_fetched || self.lock_lacks(last_request)? {
            self.fetch_for(last_request)?;
        }
        // A fetched toolkit that is not locked is one of this machine alone.
        let is_unlocked =
            self.newest_locked(last_request)?.is_none() && store::has_lock_file(self.env);
        let is_usable = |toolkit: &Toolkit| !(is_unlocked && toolkit.is_fetched());
        match search.find_first(&with_guesses) {
            Err(Error::NotFound { .. }) => {}
            Ok(toolkit) if !is_usable(&toolkit) => {}
            Ok(toolkit) if self.lock_lacks_guess(last_request, &toolkit)? => {
                self.fetch_guesses(&toolkit)?;
                return Ok(search.find_first(&with_guesses)?);
            }
            found => return Ok(found?),
        }
        match search.find_first(requests) {
            Ok(toolkit) if is_usable(&toolkit) => self.fetch_guesses(&toolkit)?,
            _ => _ = self.fetch_for(last_request)?,
        }
        let found = search.find_first(&with_guesses);
        Ok(found.or_else(|_| search.find_first(requests))?)
    }

    /// Pins a toolkit for each declared major, without fetching it, so that the lock file does not depend on which
    /// toolkits this machine has.
    fn lock_declared_majors(&self) -> Result<()> {
        let majors = self.majors_to_choose_from()?;
        if majors.len() < 2 {
            return Ok(());
        }
        for major in majors {
            let env = self.env_for_release(RequestedRelease { major, minor: None });
            let finder = Finder { env: &env, ..*self };
            let request = finder.any_compiler_request()?;
            if finder.newest_locked(&request)?.is_some() {
                continue;
            }
            let requests = finder.requests(&finder.sources())?;
            let found = finder.search().find_first(&requests);
            if found.is_ok_and(|toolkit| !toolkit.is_fetched()) {
                continue;
            }
            match store::lock(&finder.add_request(&request)?, self.env) {
                Err(failure) if failure.code != exit_code::LOCK => {
                    let reason = failure.message;
                    output::message(&format!("note: CUDA {major} was not locked: {reason}"));
                }
                locked => locked?,
            }
        }
        Ok(())
    }

    /// The newest toolkit of the lock file that satisfies a request, with the release that was requested when it was
    /// locked.
    fn newest_locked(&self, request: &Request) -> Result<Option<(ReleaseToFetch, PackageSet)>> {
        let mut toolkits = Lock::of(self.env)?.toolkits().into_iter();
        let newest = toolkits.find(|(_, version, _)| request.is_locked_by(*version));
        Ok(newest.map(|(release, _, set)| (release, set)))
    }

    /// The components of a request that are fetched: not the optional ones, nor header packages that the user has.
    fn components_to_fetch(&self, request: &Request) -> impl Iterator<Item = Component> {
        let needs = request.needs_to_fetch().iter();
        let required = needs.filter(|need| need.strength == Strength::Required);
        let is_fetched =
            |need: &&Need| !need.component.facts().is_header_package() || !self.is_named(need);
        required.filter(is_fetched).map(|need| need.component)
    }

    /// Whether a directory that a variable of a product names, such as `CUTLASS_DIR`, meets a need.
    fn is_named(&self, need: &Need) -> bool {
        self.sources().candidates.into_iter().any(|candidate| {
            let is_met = |set: &ComponentSet| {
                let found = set.get(need.component);
                found.is_some_and(|found| need.is_met_by(found))
            };
            let probe = || search::probe(self.root, self.target, &candidate);
            candidate.step == SearchStep::Product && probe().sets.iter().any(is_met)
        })
    }

    /// The versions of products that a request accepts. A toolkit's release decides the versions of its own components.
    fn accepted_versions(request: &Request) -> AcceptedVersions {
        let products = request.needs_to_fetch().iter();
        let products = products.filter(|need| need.is_product());
        let declared = products.filter_map(|need| Some((need.component, need.version.clone()?)));
        declared.collect()
    }

    /// Whether the lock file has a toolkit for a request, but without some of its components, or without some that
    /// other packages of the workspace need.
    fn lock_lacks(&self, request: &Request) -> Result<bool> {
        let Some((_, set)) = self.newest_locked(request)? else {
            return Ok(false);
        };
        let add = self.add_request(request)?;
        let others = add.only_locked.iter().copied();
        let others = others.filter(|component| set.may_have(*component));
        let components = add.components.iter().copied().chain(others);
        Ok(set.lacking(components, &add.accepted).is_some())
    }

    /// Whether the store happens to have a guessed component that the lock file does not name: on another machine, the
    /// same build would lack it.
    fn lock_lacks_guess(&self, request: &Request, toolkit: &Toolkit) -> Result<bool> {
        let Some((_, set)) = self.newest_locked(request)? else {
            return Ok(false);
        };
        let accepted = Self::accepted_versions(request);
        let guesses = self.guesses().iter().map(|guess| guess.component);
        let mut found = guesses.filter(|component| toolkit.get(*component).is_some());
        Ok(toolkit.is_fetched() && found.any(|it| set.lacking([it], &accepted).is_some()))
    }

    /// Fetches the guessed components for the release of `toolkit`, which lacks some of them. A failure is only a note,
    /// because the build may work without them.
    fn fetch_guesses(&self, toolkit: &Toolkit) -> Result<()> {
        let release = release_of(toolkit.version());
        let env = self.env_for_release(release);
        let finder = Finder { env: &env, ..*self };
        let request = finder.any_compiler_request()?;
        let major = release.major;
        // A fetched toolkit would be locked, and the search prefers locked toolkits: the build would lose nvcc.
        let would_lose_nvcc = toolkit.get(Component::Nvcc).is_some() && !is_nvcc_packaged(major);
        let reason = if would_lose_nvcc && finder.newest_locked(&request)?.is_none() {
            format!(
                "the Python packages of CUDA {major} have no nvcc, and the toolkit that is found has it"
            )
        } else if let Err(failure) = finder.fetch_for(&request) {
            failure.message
        } else {
            return Ok(());
        };
        let text = format!("note: could not fetch what the build may need: {reason}");
        output::message(&text);
        Ok(())
    }

    /// The components that the dependencies probably need.
    pub fn guesses(&self) -> &'a [Guess] {
        &self.needs.dependencies.guesses
    }

    /// The same request, which also requires the guessed components.
    fn with_guesses(&self, request: &Request) -> Request {
        let mut request = request.clone();
        for guess in self.guesses() {
            let part = Part::main(guess.component);
            for needs in request.lists_of_needs() {
                needs.push(Need::new(guess.component, part, guess.to_string()));
            }
        }
        request
    }

    /// Fetches the toolkits that the workspace needs: if a release is requested, a toolkit of this release; otherwise
    /// one for each major that packages declare, otherwise one for each major in the lock file, otherwise one toolkit.
    pub fn fetch_all(&self) -> Result<Vec<AddedToolkit>> {
        let whole = Self {
            fetches_whole_lock: true,
            ..*self
        };
        whole.fetch_each_major()
    }

    fn fetch_each_major(&self) -> Result<Vec<AddedToolkit>> {
        let request = self.any_compiler_request()?;
        let is_requested = RequestedRelease::from_env(self.env)?.is_some();
        let mut majors = self.majors_to_choose_from()?;
        if majors.is_empty() && !is_requested {
            for (_, release, _) in Lock::of(self.env)?.toolkits() {
                if request.admits_release(release) && majors.last() != Some(&release.major) {
                    majors.push(release.major);
                }
            }
        }
        if majors.is_empty() {
            return Ok(vec![self.fetch_for(&request)?]);
        }
        let fetch = |major: u32| {
            let env = self.env_for_release(RequestedRelease { major, minor: None });
            let finder = Finder { env: &env, ..*self };
            finder.fetch_for(&finder.any_compiler_request()?)
        };
        majors.into_iter().map(fetch).collect()
    }

    /// The declared majors that the manifest's `toolkit` admits, newest first; none if a release is requested.
    fn majors_to_choose_from(&self) -> Result<Vec<u32>> {
        if RequestedRelease::from_env(self.env)?.is_some() {
            return Ok(Vec::new());
        }
        let request = self.any_compiler_request()?;
        let needs = self.needs_of_workspace.unwrap_or(self.needs);
        let mut majors = declared_majors(&needs.packages);
        majors.retain(|major| request.admits_major(*major));
        Ok(majors)
    }

    /// The variables of a search for one release.
    fn env_for_release(&self, release: RequestedRelease) -> Env {
        let env = self.env.clone();
        env.with(RequestedRelease::VARIABLE, release.to_string())
    }

    /// A request to the store for the components of `request` and the guessed components. What other packages of the
    /// workspace need is locked with them, and not fetched.
    fn add_request(&self, request: &Request) -> Result<AddRequest> {
        let components: Vec<Component> = self.components_to_fetch(request).collect();
        let guesses = self.guesses().iter().map(|guess| guess.component);
        let mut add = AddRequest {
            release: self.release_for(request)?,
            optional: guesses
                .filter(|component| !components.contains(component))
                .collect(),
            components,
            accepted: Self::accepted_versions(request),
            locked: self.lock == LockPolicy::Unchanged,
            whole_lock: self.fetches_whole_lock,
            ..AddRequest::default()
        };
        if let Some(needs) = self.needs_of_workspace {
            let whole = Finder { needs, ..*self };
            let request = whole.any_compiler_request()?;
            let guesses = whole.guesses().iter().map(|guess| guess.component);
            let mut others: Vec<Component> = whole.components_to_fetch(&request).collect();
            others.extend(guesses);
            others.retain(|it| !add.components.contains(it) && !add.optional.contains(it));
            let accepted = Self::accepted_versions(&request).into_iter();
            let is_of_others = |(component, _): &(Component, _)| others.contains(component);
            add.accepted.extend(accepted.filter(is_of_others));
            add.only_locked = others;
        }
        Ok(add)
    }

    fn fetch_for(&self, request: &Request) -> Result<AddedToolkit> {
        let is_decided = request.wanted_major().is_some() || self.newest_locked(request)?.is_some();
        if !is_decided
            && let Some(limit) = self.limit()
            && let Some((release, text)) = limit.choose(request)
        {
            output::message(&text);
            let env = self.env_for_release(release);
            let finder = Finder { env: &env, ..*self };
            return finder.fetch_for(&finder.any_compiler_request()?);
        }
        let add = self.add_request(request)?;
        let mut guesses = self.guesses().to_vec();
        guesses.retain(|guess| add.optional.contains(&guess.component));
        if !guesses.is_empty() {
            output::status("Guessed", &output::joined(&guesses, ", "));
        }
        // The target's files come first, because pip cannot fetch them: it fails before it fetches those of this
        // machine.
        if !self.target.is_native() {
            let mut add_for_target = add.clone();
            add_for_target.target = Some(self.target.clone());
            store::add(&add_for_target, self.env)?;
        }
        let added = store::add(&add, self.env)?;
        for guess in &guesses {
            if added.unavailable.contains(&guess.component) {
                let reason = match add.locked {
                    true => "the lock file may not change".to_owned(),
                    false => format!("it is not available for CUDA {}", added.toolkit.version),
                };
                output::message(&format!("note: {guess} was not fetched: {reason}"));
            }
        }
        Ok(added)
    }

    /// The driver of this machine, in a native build; or cudarc, if it supports less.
    fn limit(&self) -> Option<DriverLimit> {
        let driver = driver::driver().ok().filter(|_| self.target.is_native());
        let driver = driver.map(|driver| DriverLimit::of_machine(driver.version));
        let cudarc = self.needs.dependencies.newest_for_cudarc();
        DriverLimit::lower(driver.into_iter().chain(cudarc.map(DriverLimit::of_cudarc)))
    }

    /// The release to fetch. As in the search, the newest release in the lock file that satisfies the request comes
    /// first; then the release that the user requested, then the newest declared major that the request admits, then
    /// the newest major that the request admits.
    fn release_for(&self, request: &Request) -> Result<ReleaseToFetch> {
        if let Some((release, _)) = self.newest_locked(request)? {
            return Ok(release);
        }
        if let Some(release) = RequestedRelease::from_env(self.env)? {
            return Ok(release.into());
        }
        let Some(major) = request.wanted_major().or_else(|| request.newest_major()) else {
            let text = format!("no CUDA release meets `toolkit = \"{}\"`", request.toolkit);
            let hint = "change `toolkit` in `[package.metadata.cuda]`, for example to `>=12`";
            return Err(Failure::not_found(text).hint(hint));
        };
        Ok(RequestedRelease { major, minor: None }.into())
    }

    /// The sources of the search; none if a variable is invalid, because the search itself reports that error.
    fn sources(&self) -> Proposals {
        sources::candidates(self.root, self.env, self.target, &[]).unwrap_or_default()
    }

    /// Whether the user has named a root.
    fn has_named_root(&self, sources: &Proposals) -> bool {
        self.env.peek("CUDA_BUILD_TOOLKIT").is_some()
            || sources.candidates.iter().any(|c| c.step.is_explicit())
    }
}

/// The release that has exactly this version.
pub fn release_of(version: ToolkitVersion) -> RequestedRelease {
    let ToolkitVersion { major, minor } = version;
    let minor = Some(minor);
    RequestedRelease { major, minor }
}

/// Releases of different CUDA majors, sorted.
pub fn distinct_majors(releases: &[RequestedRelease]) -> Result<Vec<RequestedRelease>> {
    let releases = sorted_set(releases.iter().copied());
    let majors = sorted_set(releases.iter().map(|release| release.major));
    if majors.len() == releases.len() {
        return Ok(releases);
    }
    let requested = output::joined(&releases, ", ");
    let text = format!("{requested} are requested, but there is one result for each CUDA major");
    Err(Failure::usage(text).hint("give one release of a major, as in `--cuda 12,13.4`"))
}

/// Where `cargo cuda view` creates a view: in the directory that [`VIEWS_VARIABLE`] names, else in the
/// workspace's target directory, else in the user's cache directory.
pub fn view_place(
    env: &Env,
    root: &Root,
    workspace: Option<&Workspace>,
    target: &Target,
) -> Result<ViewPlace> {
    if workspace.is_none() || env.peek(VIEWS_VARIABLE).is_some() {
        return Ok(ViewPlace::from_env(env, target, root)?);
    }
    let base = builds_directory(env, workspace)?;
    Ok(ViewPlace::below(&base.join("views"), target))
}

/// The parent of all target directories of `cargo cuda`. It is in the workspace's target directory,
/// or in the user's cache directory if there is no workspace.
pub fn builds_directory(env: &Env, workspace: Option<&Workspace>) -> Result<PathBuf> {
    let parent = workspace.map(|workspace| Ok(workspace.target_directory.clone()));
    Ok(parent
        .unwrap_or_else(|| store::cache_dir(env))?
        .join("cargo-cuda"))
}

/// The platform of `--target`, otherwise of Cargo's configuration, otherwise of this machine.
pub fn choose_target(
    option: Option<&str>,
    configured: Option<&str>,
    jetson: bool,
) -> Result<Target> {
    let triple = option
        .or(configured)
        .map_or_else(cargo_config::host, cargo_config::target_directory_name);
    let target = Target::from_triple(&triple)?;
    if target.is_windows() {
        let text =
            format!("`cargo cuda` cannot build for {target}: no view can be made for Windows");
        return Err(Failure::usage(text).hint(
            "run plain `cargo build` on Windows, where cuda-build compiles modules with NVRTC; or build in WSL 2",
        ));
    }
    Ok(if jetson { target.on_jetson() } else { target })
}

fn warn_about_lock(toolkit: &Toolkit) {
    let is_about_lock = |note: &&Note| matches!(note, Note::LockNotFetched { .. });
    for note in toolkit.notes().iter().filter(is_about_lock) {
        output::message(&format!("warning: {note}"));
    }
}
