//! The toolkit for a workspace: searched once, fetched where that is allowed, handed to every
//! build script as one file.

use std::path::{Path, PathBuf};

use cuda_build::component::closure;
use cuda_build::select::{Need, Part, Request, Strength};
use cuda_build::sources::LOCK_FILE;
use cuda_build::{Component, Env, Error, Outcome, Root, Search, Target, Toolkit, ViewPlace};

use crate::cargo_config;
use crate::failure::Failure;
use crate::fetch::{self, Fetch};
use crate::output;
use crate::workspace::Workspace;

/// What a search is for.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// The CUDA major, where the command line fixes it.
    pub major: Option<u32>,
    /// Whether missing toolkits may be fetched.
    pub fetch: bool,
    /// Whether a toolkit without any compiler will do where there is none with one.
    pub partial: bool,
    /// Whether a place with nvcc comes before one that is searched earlier and has none. Packages
    /// of the workspace that compile libraries want that too.
    pub compiler: bool,
}

/// Finds toolkits for one workspace.
#[derive(Debug)]
pub struct Finder<'a> {
    /// The variables.
    pub env: &'a Env,
    /// The disk.
    pub root: &'a Root,
    /// The platform.
    pub target: Target,
    /// The workspace, if there is one here.
    pub workspace: Option<&'a Workspace>,
}

impl Finder<'_> {
    /// The request that fits every package of the workspace. Which engine a build script will
    /// use is not known here, so a toolkit with both is preferred, then NVRTC, then nvcc.
    ///
    /// # Errors
    /// A variable that says nothing usable.
    pub fn request(&self, wish: &Wish) -> Result<Request, Error> {
        let packages = self
            .workspace
            .map(|w| w.packages.as_slice())
            .unwrap_or_default();
        let declared = || match packages {
            [] => named_major(self.env),
            packages => Ok(packages.iter().find_map(|p| p.config.major)),
        };
        let fixed = wish.major.map_or_else(declared, |major| Ok(Some(major)))?;
        let mut request = Request {
            major: fixed,
            ..Request::default()
        };
        for package in packages {
            let own = cuda_build::request(&package.config, &[], &[], fixed);
            for need in own.needs {
                if !request.needs.contains(&need) {
                    request.needs.push(need);
                }
            }
            request.toolkit.comparators.extend(own.toolkit.comparators);
        }
        let why = "needed to compile `.cu` files";
        let nvcc = || {
            vec![
                Need::new(Component::Nvcc, Part::Tools, why),
                Need::new(Component::Nvvm, Part::Tools, why),
                Need::new(Component::Crt, Part::Headers, why),
                Need::new(Component::Cudart, Part::Headers, why),
            ]
        };
        let nvrtc = || {
            Need::new(
                Component::Nvrtc,
                Part::Shared,
                format!("{why}; for modules `nvcc` would do as well"),
            )
        };
        let both = nvcc().into_iter().chain([nvrtc()]).collect();
        request.alternatives = match wish.compiler {
            true => vec![both, nvcc()],
            false => vec![both, vec![nvrtc()], nvcc()],
        };
        // A build script may need more than the manifest says.
        request.take_everything = true;
        Ok(request)
    }

    /// The search, with everything it saw.
    ///
    /// # Errors
    /// As [`Finder::request`].
    pub fn report(&self, wish: &Wish) -> Result<Outcome, Error> {
        let env = self.env_with_lock();
        Ok(self.search(&env).report(&self.requests(wish)?))
    }

    /// What is requested, the most wanted first. Packages that need no nvcc can be built without one.
    fn requests(&self, wish: &Wish) -> Result<Vec<Request>, Error> {
        let packages = self
            .workspace
            .map(|w| w.packages.as_slice())
            .unwrap_or_default();
        let with_nvcc = wish.compiler || packages.iter().any(|package| package.wants_nvcc);
        let request = |compiler| {
            self.request(&Wish {
                compiler,
                ..wish.clone()
            })
        };
        let first = with_nvcc.then(|| request(true));
        first.into_iter().chain([request(false)]).collect()
    }

    fn search_for(&self, wish: &Wish) -> Result<Toolkit, Error> {
        let env = self.env_with_lock();
        self.search(&env).find_first(&self.requests(wish)?)
    }

    /// The variables of the search, with the workspace's lock file unless the user named another one.
    fn env_with_lock(&self) -> Env {
        let env = self.env.clone();
        match self.workspace {
            Some(workspace) if env.peek("CUDA_BUILD_LOCK").is_none() => {
                env.with("CUDA_BUILD_LOCK", workspace.root.join(LOCK_FILE))
            }
            _ => env,
        }
    }

    fn search<'s>(&'s self, env: &'s Env) -> Search<'s> {
        Search {
            root: self.root,
            env,
            target: &self.target,
            places: Vec::new(),
        }
    }

    /// Finds the toolkit, fetching what is missing where `wish` allows it.
    ///
    /// # Errors
    /// As [`Search::find`]; those of fetching.
    pub fn find(&self, wish: &Wish) -> Result<Toolkit, Failure> {
        let request = self.request(&Wish {
            compiler: false,
            ..wish.clone()
        })?;
        let found = match self.search_for(wish) {
            Err(Error::NotFound(not_found)) if wish.partial && !wish.fetch => {
                let why = "needed for everything else";
                let libraries = vec![Need::new(Component::Cudart, Part::Shared, why)];
                let request = Request {
                    alternatives: vec![libraries],
                    ..request.clone()
                };
                // What is missing for the whole is what a reader wants to know.
                self.search(&self.env_with_lock())
                    .find(&request)
                    .map_err(|_| Error::NotFound(not_found))
            }
            found => found,
        };
        let declared = self.workspace.map(Workspace::majors).unwrap_or_default();
        let admitted = declared
            .into_iter()
            .find(|major| request.admits_major(*major));
        let major = match (found, admitted.or_else(|| request.newest_major())) {
            (Err(Error::NotFound(_)), Some(major)) if wish.fetch && self.can_fetch() => major,
            (found, _) => return found.map_err(Failure::from),
        };
        let components: Vec<Component> = request
            .needs
            .iter()
            .filter(|need| need.strength == Strength::Required)
            .map(|need| need.component)
            .collect();
        let lock_file = self.workspace.map(|w| w.root.as_path());
        fetch::toolkit(
            self.env,
            &Fetch {
                major,
                components: &components,
                workspace: lock_file,
            },
        )?;
        let mut request = request;
        request.major = Some(major);
        self.search(&self.env_with_lock())
            .find(&request)
            .map_err(Failure::from)
    }

    /// Not where somebody named a place, nor for another machine: nothing that is fetched would be
    /// used.
    fn can_fetch(&self) -> bool {
        self.target.is_native() && !self.is_explicit()
    }

    fn is_explicit(&self) -> bool {
        let sources = cuda_build::sources::candidates(self.root, self.env, &self.target, &[]);
        sources.is_ok_and(|s| s.candidates.iter().any(|c| c.step.is_explicit()))
            || self.env.peek("CUDA_BUILD_TOOLKIT").is_some()
    }
}

/// What `CUDA_BUILD_MAJOR` says where no package's [`cuda_build::Config`] has read it.
fn named_major(env: &Env) -> Result<Option<u32>, Error> {
    const VARIABLE: &str = "CUDA_BUILD_MAJOR";
    let Some(text) = env
        .peek(VARIABLE)
        .map(|text| text.to_string_lossy().into_owned())
    else {
        return Ok(None);
    };
    let major = text.parse().map_err(|_| Error::Manifest {
        path: PathBuf::from("environment"),
        key: VARIABLE.to_owned(),
        reason: format!("`{text}` is no CUDA major such as `13`"),
    })?;
    Ok(Some(major))
}

/// Makes the workspace's own file remember the toolkit, which its build scripts declare and plain
/// `cargo` reads as well.
///
/// # Errors
/// Where the target directory can't be written.
pub fn remember(
    finder: &Finder<'_>,
    toolkit: &Toolkit,
    workspace: &Workspace,
) -> Result<(), Failure> {
    let file =
        cuda_build::toolkit_file(&workspace.build_directory, &workspace.root, &finder.target);
    match cuda_build::remember(&file, toolkit, &finder.search(finder.env))? {
        Some(text) => output::write_if_changed(&file, text.as_bytes()),
        None => Ok(()),
    }
}

/// Where views of a workspace are kept: not below a profile's directory, which Cargo puts on the
/// loader path of the programs it runs.
#[must_use]
pub fn views(target_directory: &Path) -> PathBuf {
    target_directory.join("cuda").join("views")
}

/// Where the view of a toolkit goes: where the user says, else with the workspace, else into the
/// user's cache directory.
///
/// # Errors
/// As [`ViewPlace::from_env`].
pub fn view_place(
    env: &Env,
    workspace: Option<&Workspace>,
    target: &Target,
) -> Result<ViewPlace, Failure> {
    Ok(match workspace {
        Some(workspace) if env.peek(VIEWS).is_none() => {
            ViewPlace::below(&views(&workspace.build_directory), target)
        }
        _ => ViewPlace::from_env(env, target)?,
    })
}

/// Names the directory of views.
pub const VIEWS: &str = "CUDA_BUILD_VIEWS";

/// Directories of the toolkit's shared libraries, for the loader path of programs that are run:
/// those of `linked` and of what they need first, then those of everything else that was found,
/// because a program may open a library that its manifest does not name. What is linked are the
/// components that packages of the workspace declare. Where every loader looks anyway is left out:
/// named, it would come before what the user has named.
#[must_use]
pub fn library_directories(toolkit: &Toolkit, workspace: Option<&Workspace>) -> Vec<PathBuf> {
    let packages = workspace
        .into_iter()
        .flat_map(|workspace| &workspace.packages);
    let declared = packages.flat_map(|p| p.config.for_major(toolkit.version().major).components);
    let linked: Vec<Component> = declared.map(|wanted| wanted.component).collect();
    let linked = linked.as_slice();
    let needed = closure(linked, toolkit.version().major)
        .into_iter()
        .map(|(component, _)| component);
    let first: Vec<Component> = linked.iter().copied().chain(needed).collect();
    let (first, rest): (Vec<_>, Vec<_>) = toolkit
        .components()
        .iter()
        .partition(|chosen| first.contains(&chosen.found.component));
    let mut directories: Vec<PathBuf> = Vec::new();
    for library in first
        .into_iter()
        .chain(rest)
        .flat_map(|chosen| &chosen.found.libraries)
    {
        if let Some(directory) = library.parent()
            && !toolkit.is_default_search_dir(directory)
            && !directories.iter().any(|d| d == directory)
        {
            directories.push(directory.to_owned());
        }
    }
    directories
}

/// The platform that `--target` names, else `named` by Cargo's configuration, else this machine's.
///
/// # Errors
/// A platform that CUDA has no toolkit for.
pub fn target(given: Option<&str>, named: Option<&str>, jetson: bool) -> Result<Target, Failure> {
    let triple = given
        .or(named)
        .map_or_else(cargo_config::host, cargo_config::directory_name);
    Target::from_triple(&triple, jetson).map_err(|error| match (given, named) {
        (None, Some(_)) => Failure::from(error)
            .hint("Cargo's configuration names it (`[build] target`); `--target` comes before"),
        _ => error.into(),
    })
}
