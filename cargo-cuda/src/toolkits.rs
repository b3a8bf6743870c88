//! The toolkit for a workspace: searched once, and fetched if that is allowed.

use cuda_build::internal::select::{Need, Part, Request, Strength};
use cuda_build::internal::sources::LOCK_FILE;
use cuda_build::internal::{Env, Outcome, ReleaseReq, Root, Search, Target, ViewPlace};
use cuda_build::{Component, Error, Toolkit};

use crate::build::directory;
use crate::cargo_config;
use crate::failure::Failure;
use crate::fetch::{self, Fetch};
use crate::workspace::Workspace;

/// Finds a toolkit for one workspace.
#[derive(Clone, Copy, Debug)]
pub struct Finder<'a> {
    /// The variables.
    pub env: &'a Env,
    /// The disk.
    pub root: &'a Root,
    /// The platform.
    pub target: &'a Target,
    /// The workspace, if there is one here.
    pub workspace: Option<&'a Workspace>,
    /// Whether a missing toolkit is fetched.
    pub fetch: bool,
    /// Whether a toolkit without any compiler is accepted if there is none with one.
    pub partial: bool,
}

/// Why a toolkit with a compiler is requested.
const WHY: &str = "needed to compile `.cu` files";

fn nvcc() -> Vec<Need> {
    vec![
        Need::new(Component::Nvcc, Part::Tools, WHY),
        Need::new(Component::Nvvm, Part::Tools, WHY),
        Need::new(Component::Crt, Part::Headers, WHY),
        Need::new(Component::Cudart, Part::Headers, WHY),
    ]
}

fn nvrtc() -> Need {
    let why = format!("{WHY}; for modules `nvcc` would do as well");
    Need::new(Component::Nvrtc, Part::Shared, why)
}

/// The variables of a search in a workspace: its lock file counts, unless the user has named
/// another one.
#[must_use]
pub fn with_lock(env: Env, workspace: Option<&Workspace>) -> Env {
    const VARIABLE: &str = "CUDA_BUILD_LOCK";
    match workspace {
        Some(workspace) if env.peek(VARIABLE).is_none() => {
            env.with(VARIABLE, workspace.root.join(LOCK_FILE))
        }
        _ => env,
    }
}

impl Finder<'_> {
    /// A request that fits every package of the workspace, with one of these sets of components.
    fn request(&self, alternatives: Vec<Vec<Need>>) -> Result<Request, Error> {
        let release = ReleaseReq::from_env(self.env)?;
        let mut request = Request {
            major: release.map(|release| release.major),
            alternatives,
            ..Request::default()
        };
        request
            .toolkit
            .comparators
            .extend(release.and_then(ReleaseReq::comparator));
        for package in self.workspace.iter().flat_map(|w| &w.packages) {
            let own = cuda_build::internal::request(&package.config, request.major);
            for need in own.needs {
                if !request.needs.contains(&need) {
                    request.needs.push(need);
                }
            }
            request.toolkit.comparators.extend(own.toolkit.comparators);
        }
        // A build script may need more than the manifest declares.
        request.take_everything = true;
        Ok(request)
    }

    /// Any crate may call nvcc, so a toolkit with nvcc is requested first, unless the user has named a
    /// place: that is not left for it.
    fn with_nvcc(&self) -> Result<Request, Error> {
        let both = nvcc().into_iter().chain([nvrtc()]).collect();
        match self.is_explicit() {
            true => self.with_compiler(),
            false => self.request(vec![both, nvcc()]),
        }
    }

    /// A toolkit with any compiler is accepted if no source has nvcc.
    fn with_compiler(&self) -> Result<Request, Error> {
        let both = nvcc().into_iter().chain([nvrtc()]).collect();
        self.request(vec![both, vec![nvrtc()], nvcc()])
    }

    /// The search, with everything that it has seen.
    ///
    /// # Errors
    /// If a variable has a value that is not usable.
    pub fn report(&self) -> Result<Outcome, Error> {
        Ok(self.search().report(&self.requests()?))
    }

    fn requests(&self) -> Result<[Request; 2], Error> {
        Ok([self.with_nvcc()?, self.with_compiler()?])
    }

    fn search(&self) -> Search<'_> {
        Search {
            root: self.root,
            env: self.env,
            target: self.target,
            places: Vec::new(),
        }
    }

    /// Finds the toolkit, and fetches it if it is missing and that is allowed.
    ///
    /// # Errors
    /// As [`Search::find`]; those of fetching.
    pub fn find(&self) -> Result<Toolkit, Failure> {
        let search = self.search();
        let requests = self.requests()?;
        let request = &requests[1];
        let error = match search.find_first(&requests) {
            Ok(toolkit) => return Ok(toolkit),
            Err(error @ Error::NotFound(_)) => error,
            Err(error) => return Err(error.into()),
        };
        if self.fetch && self.can_fetch() {
            self.fetch_for(request)?;
            return Ok(search.find(request)?);
        }
        if self.partial {
            let why = "needed for everything else";
            let runtime = Need::new(Component::Cudart, Part::Shared, why);
            if let Ok(toolkit) = search.find(&self.request(vec![vec![runtime]])?) {
                return Ok(toolkit);
            }
        }
        // A reader wants to know what is missing for the whole, not for the last resort.
        Err(error.into())
    }

    /// Fetches what the workspace needs, in every major that it declares or in the requested one.
    ///
    /// # Errors
    /// Those of fetching.
    pub fn fetch_all(&self) -> Result<(), Failure> {
        let release = ReleaseReq::from_env(self.env)?;
        let majors = match (release, self.workspace.map(Workspace::majors)) {
            (None, Some(majors)) if !majors.is_empty() => majors,
            _ => return self.fetch_for(&self.with_compiler()?),
        };
        for major in majors {
            let env = &self
                .env
                .clone()
                .with(ReleaseReq::VARIABLE, major.to_string());
            let finder = Finder { env, ..*self };
            finder.fetch_for(&finder.with_compiler()?)?;
        }
        Ok(())
    }

    fn fetch_for(&self, request: &Request) -> Result<(), Failure> {
        let majors = self.workspace.map(Workspace::majors).unwrap_or_default();
        let declared = majors
            .into_iter()
            .find(|major| request.admits_major(*major));
        let release = match (
            ReleaseReq::from_env(self.env)?,
            declared.or_else(|| request.newest_major()),
        ) {
            (Some(release), _) => release,
            (None, Some(major)) => ReleaseReq { major, minor: None },
            (None, None) => {
                return Err(self
                    .search()
                    .find(request)
                    .map_or_else(Failure::from, |found| {
                        let text = format!("no CUDA major fits; CUDA {} is found", found.version());
                        Failure::new(crate::exit_code::NOT_FOUND, text)
                    }));
            }
        };
        let components: Vec<Component> = request
            .needs
            .iter()
            .filter(|need| need.strength == Strength::Required)
            .map(|need| need.component)
            .collect();
        let workspace = self.workspace.map(|workspace| workspace.root.as_path());
        fetch::toolkit(
            self.env,
            &Fetch {
                release,
                components: &components,
                workspace,
            },
        )
    }

    /// If the user has named a place, or builds for another machine, a fetched toolkit would not
    /// be used.
    fn can_fetch(&self) -> bool {
        self.target.is_native() && !self.is_explicit()
    }

    fn is_explicit(&self) -> bool {
        let sources =
            cuda_build::internal::sources::candidates(self.root, self.env, self.target, &[]);
        self.env.peek("CUDA_BUILD_TOOLKIT").is_some()
            || sources.is_ok_and(|s| s.candidates.iter().any(|c| c.step.is_explicit()))
    }
}

/// Names the directory of views.
pub const VIEWS: &str = "CUDA_BUILD_VIEWS";

/// Where `cargo cuda view` puts a view: where the user says, else with the workspace, else into
/// the user's cache directory.
///
/// # Errors
/// If no variable names a cache directory.
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

/// The platform that `--target` names, else `named` by Cargo's configuration, else this machine's.
///
/// # Errors
/// A platform that CUDA has no toolkit for.
pub fn target(given: Option<&str>, named: Option<&str>, jetson: bool) -> Result<Target, Failure> {
    let triple = given
        .or(named)
        .map_or_else(cargo_config::host, cargo_config::target_directory_name);
    let target = Target::from_triple(&triple).map_err(|error| match (given, named) {
        (None, Some(_)) => Failure::from(error)
            .hint("Cargo's configuration names it (`[build] target`); `--target` comes before"),
        _ => error.into(),
    })?;
    Ok(if jetson { target.on_jetson() } else { target })
}
