//! The inputs of every command: the environment, Cargo's configuration, the workspace, and the
//! target.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use cuda_build::script::skipped_by;
use cuda_find_core::{env::Env, root::Root, select::RequestedRelease, target::Target};

use crate::cargo_arguments::CargoOptions;
use crate::cargo_config::{CargoConfig, host};
use crate::dependencies::Dependencies;
use crate::exit_code;
use crate::failure::{Failure, Result};
use crate::selection::{CargoCommand, Scope, Selection};
use crate::store;
use crate::toolkits::{self, Finder, LockPolicy, PackageNeeds};
use crate::workspace::{self, Package, Workspace};

/// The environment variable that replaces the capabilities that packages declare.
pub const CAPABILITIES: &str = "CUDA_BUILD_CAPABILITIES";

/// The environment variable that has the effect of `--fetch` on commands with this option, unless it is empty or `0`.
pub const FETCH: &str = "CUDA_BUILD_FETCH";

/// Options that choose the toolkit and the capabilities.
#[derive(Args, Clone, Debug, Default)]
pub struct BuildOptions {
    #[command(flatten)]
    pub search: SearchOptions,
    /// Compute capabilities instead of the declared ones, as in 8.0,9.0,10.0,12.0+PTX
    #[arg(long, value_name = "LIST", value_parser = NonEmptyStringValueParser::new())]
    pub capabilities: Option<String>,
}

/// Options that choose the toolkit.
#[derive(Args, Clone, Debug, Default)]
pub struct SearchOptions {
    /// The CUDA release, 13 or 13.4; by default the locked one, otherwise the first that is found
    #[arg(long, value_name = "RELEASE")]
    pub cuda: Option<RequestedRelease>,
    /// Fetch the components that are not found; `CUDA_BUILD_FETCH=1` does the same
    #[arg(long)]
    pub fetch: bool,
    /// Whether [`FETCH`] has the effect of `--fetch`, as in every command that has this option.
    #[arg(skip = true)]
    pub reads_fetch_variable: bool,
}

impl BuildOptions {
    /// The options of a command that has no option `--fetch`, because it either always fetches or never does.
    pub fn new(cuda: Option<RequestedRelease>, fetch: bool) -> Self {
        Self::from(SearchOptions {
            cuda,
            fetch,
            reads_fetch_variable: false,
        })
    }
}

impl From<SearchOptions> for BuildOptions {
    fn from(search: SearchOptions) -> Self {
        Self {
            search,
            capabilities: None,
        }
    }
}

/// Options that choose the workspace, the package and the target.
#[derive(Args, Clone, Debug, Default)]
pub struct WorkspaceOptions {
    /// The package whose declarations apply; by default those that `cargo build` builds here
    #[arg(long, short, value_name = "NAME")]
    pub package: Option<String>,
    /// The manifest of the workspace or package
    #[arg(long, value_name = "Cargo.toml")]
    pub manifest_path: Option<PathBuf>,
    /// The Rust triple to build for
    #[arg(long, value_name = "TRIPLE")]
    pub target: Option<String>,
    /// The command of cargo whose packages count, if it is not `build`.
    #[arg(skip)]
    pub command: Option<String>,
    /// The user's options for cargo. They decide which packages and features are built.
    #[arg(skip)]
    pub cargo: CargoOptions,
    #[arg(skip)]
    pub workspace: WorkspaceUse,
    /// Whether it is an error if cargo cannot resolve the dependencies, as before anything is fetched for them.
    #[arg(skip)]
    pub must_resolve: bool,
}

/// Whether a command needs a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkspaceUse {
    #[default]
    Optional,
    Required,
    /// The command ignores a workspace in the current directory.
    Ignored,
}

impl WorkspaceOptions {
    /// Cargo's options, with the package that an option of ours names.
    fn cargo_options(&self) -> CargoOptions {
        let package = self.package.as_ref();
        let package = package.filter(|_| !self.cargo.has(&["--package", "-p"]));
        self.cargo.clone().with("--package", package)
    }

    /// Loads the workspace in which a command runs, if there is one.
    fn load(
        &self,
        root: &Root,
        env: &Env,
        command: &CargoCommand<'_>,
    ) -> Result<Option<Workspace>> {
        let load = || Workspace::load(root, env, command, self.must_resolve);
        // Cargo would search the same directories, but starting it takes ten times as long as creating a view.
        let may_exist =
            || command.manifest.is_some() || workspace::nearest_manifest(root).is_some();
        let workspace = match self.workspace {
            WorkspaceUse::Required => Some(load()?),
            WorkspaceUse::Optional if may_exist() => match load() {
                Err(failure) if failure.code == exit_code::MISSING_PROGRAM => None,
                workspace => Some(workspace?),
            },
            WorkspaceUse::Optional | WorkspaceUse::Ignored => None,
        };
        if let (Some(name), Some(workspace)) = (&self.package, &workspace) {
            workspace.package(name)?;
        }
        Ok(workspace)
    }

    /// What Cargo builds. If it cannot resolve that, only [`Self::must_resolve`] makes this an error.
    fn select(
        &self,
        workspace: &Workspace,
        command: &CargoCommand<'_>,
        scope: Scope,
        env: &Env,
    ) -> Result<Selection> {
        match Selection::read(&workspace.metadata, command, scope, env) {
            Err(_) if !self.must_resolve => Ok(Selection::default()),
            selection => selection,
        }
    }
}

/// The project that a command works on.
#[derive(Clone, Debug)]
pub struct Project {
    pub root: Root,
    /// The user's environment with the variables of `[env]` in Cargo's configuration and of the command's options.
    /// Programs are started in it.
    pub env: Env,
    /// `env` with the variable that names the workspace's lock file.
    pub search_env: Env,
    pub config: CargoConfig,
    pub workspace: Option<Workspace>,
    /// The packages whose lists of capabilities apply: the members that the command builds.
    pub packages: Vec<Package>,
    /// What the packages that the command builds need.
    pub needs: PackageNeeds,
    /// What all packages of the workspace need, for the lock file, if something may be fetched.
    pub needs_of_workspace: Option<PackageNeeds>,
    pub target: Target,
    pub fetch: bool,
    pub lock: LockPolicy,
}

impl Project {
    /// Reads Cargo's configuration for the current directory, and loads the workspace.
    pub fn open(
        user_env: &Env,
        root: &Root,
        build_options: &BuildOptions,
        workspace_options: &WorkspaceOptions,
    ) -> Result<Self> {
        let configs: Vec<String> = workspace_options.cargo.values("--config").collect();
        let config = CargoConfig::of_current_directory(root, user_env, &configs);
        let mut env = config.env_of_build_scripts(user_env);
        if let Some(release) = build_options.search.cuda {
            env = env.with(RequestedRelease::VARIABLE, release.to_string());
        }
        if let Some(list) = &build_options.capabilities {
            env = env.with(CAPABILITIES, list);
        }
        let search = &build_options.search;
        let is_fetch_variable_set = || env.peek(FETCH).is_some_and(|value| value != "0");
        let fetch = search.fetch || search.reads_fetch_variable && is_fetch_variable_set();
        let mut workspace_options = workspace_options.clone();
        workspace_options.must_resolve |= fetch;
        let options = workspace_options.cargo_options();
        let platform = config.build_target().map_or_else(host, str::to_owned);
        let platform = workspace_options.target.clone().unwrap_or(platform);
        let command = CargoCommand {
            name: workspace_options.command.as_deref().unwrap_or("build"),
            options: &options,
            manifest: workspace_options.manifest_path.as_deref(),
            default_platform: &platform,
        };
        let workspace = workspace_options.load(root, &env, &command)?;
        let needs_in = |scope: Scope| -> Result<PackageNeeds> {
            let Some(workspace) = &workspace else {
                return Ok(PackageNeeds::default());
            };
            let selection = workspace_options.select(workspace, &command, scope, user_env)?;
            Ok(PackageNeeds {
                packages: workspace.members_of(&selection),
                dependencies: Dependencies::new(&selection, &workspace.metadata),
            })
        };
        let needs = needs_in(Scope::Command)?;
        // Without a network, Cargo may not be able to resolve what is not built. Then nothing is locked for it.
        let needs_of_workspace = fetch.then(|| needs_in(Scope::Workspace).ok()).flatten();
        let workspace_root = workspace.as_ref().map(|workspace| workspace.root.as_path());
        let jetson = needs.packages.iter().any(|it| it.config.is_for_jetson());
        let target = workspace_options.target.as_deref();
        Ok(Self {
            root: root.clone(),
            search_env: store::with_lock_file(env.clone(), workspace_root),
            env,
            target: toolkits::choose_target(target, config.build_target(), jetson)?,
            config,
            workspace,
            packages: needs.packages.clone(),
            needs,
            needs_of_workspace,
            fetch,
            lock: match options.has(&["--locked", "--frozen"]) {
                true => LockPolicy::Unchanged,
                false => LockPolicy::Prefer,
            },
        })
    }

    /// The same project for one CUDA release.
    pub fn for_release(&self, release: RequestedRelease) -> Self {
        let mut project = self.clone();
        for env in [&mut project.env, &mut project.search_env] {
            *env = env
                .clone()
                .with(RequestedRelease::VARIABLE, release.to_string());
        }
        project
    }

    /// Refuses to build for other machines while a variable makes build scripts leave out CUDA code: the package would
    /// fail on every GPU.
    pub fn check_not_skipped(&self) -> Result<()> {
        let Some(variable) = skipped_by(&self.env)? else {
            return Ok(());
        };
        let text = format!("`{variable}` is set, so the package would be built without CUDA code");
        Err(Failure::configuration(text).hint(format!("unset `{variable}`")))
    }

    /// The workspace of a command that needs one.
    pub fn workspace(&self) -> Result<&Workspace> {
        self.workspace.as_ref().ok_or_else(|| {
            Failure::usage("there is no Cargo.toml in this directory or above")
                .hint("change to the directory of a package, or give `--manifest-path`")
        })
    }

    /// The platforms that a command of cargo builds for, as the user spells them.
    pub fn platforms(&self, options: &CargoOptions) -> Vec<String> {
        let mut platforms = self.config.named_platforms(options);
        if platforms.is_empty() {
            platforms.push(host());
        }
        platforms
    }

    /// The arguments with which cargo puts everything below a directory: also intermediate files, which would disturb each
    /// other otherwise.
    pub fn target_directory_arguments(&self, directory: &Path) -> Vec<OsString> {
        let mut arguments = vec!["--target-dir".into(), directory.into()];
        if self.has_build_directory() {
            // The user may have set this key with `--config`, which no variable overrides.
            let path = toml::Value::from(&*directory.to_string_lossy());
            arguments.extend(["--config".into(), format!("build.build-dir={path}").into()]);
        }
        arguments
    }

    /// Whether Cargo knows `build.build-dir`, so that intermediate files may lie elsewhere than below the target
    /// directory.
    pub fn has_build_directory(&self) -> bool {
        let workspace = self.workspace.as_ref();
        workspace.is_some_and(|it| it.metadata.build_directory.is_some())
    }

    pub fn finder(&self) -> Finder<'_> {
        let mut finder = Finder::new(&self.search_env, &self.root, &self.target, &self.needs);
        finder.needs_of_workspace = self.needs_of_workspace.as_ref();
        (finder.fetch, finder.lock) = (self.fetch, self.lock);
        finder
    }
}
