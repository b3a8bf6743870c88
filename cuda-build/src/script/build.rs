//! The entry point for build scripts. [`Build`] reads the manifest, finds a toolkit, compiles, and prints Cargo's
//! directives.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::needs;
use crate::capability::Plan;
use crate::config::Config;
use crate::directive::{Directive, Directives};
use crate::env::Env;
use crate::error::Error;
use crate::release;
use crate::root::Root;
use crate::search::SearchContext as Search;
use crate::target::Target;
use crate::toolkit::Toolkit;
use crate::view::{View, ViewPlace};

#[cfg(feature = "compile")]
use compiling::*;

/// What is used only with the feature `compile`.
#[cfg(feature = "compile")]
mod compiling {
    pub(super) use std::ffi::OsStr;
    pub(super) use std::path::Path;

    pub(super) use crate::cache::{CachedAnswer, distrust};
    pub(super) use crate::capability::{self, Declared};
    pub(super) use crate::compile::identity::{self, Variables};
    pub(super) use crate::compile::{
        Compiled, CompilerIdentity, Diagnostics, Engine, Joining, KeptOutputs, Launcher, Library,
        Module, PortableNames, Runner, Settings, SharedStore, Tools, Workers, matching_files,
        output_store,
    };
    pub(super) use crate::component::Component;
    pub(super) use crate::config::parse_size;
    pub(super) use crate::driver::{self, Driver, NoDriver};
    pub(super) use crate::freshness::Files;
    pub(super) use crate::host_compiler::{self, HostCompiler};
    pub(super) use crate::list::{Set, sorted_set};
    pub(super) use crate::script::code::{self, Code};
    pub(super) use crate::select::RequestedRelease;
    pub(super) use crate::{nvcc, output, runtime};
}

/// The variable with which a user skips the build of CUDA code.
const VARIABLE: &str = "CUDA_BUILD_SKIP";

/// Set by docs.rs, where no CUDA is installed.
const DOCS_RS: &str = "DOCS_RS";

/// The name of the variable because of which CUDA code is not built: `CUDA_BUILD_SKIP=1`, or any value of `DOCS_RS`
/// unless `CUDA_BUILD_SKIP` is `0`. `None` if CUDA code is built.
///
/// # Errors
/// [`cuda_find::Error::Variable`] if `CUDA_BUILD_SKIP` is neither `1` nor `0`. An empty value counts as unset.
pub fn skipped_by(env: &Env) -> Result<Option<&'static str>, Error> {
    // Both variables are read, so that both are declared to Cargo.
    let on_docs_rs = env.get(DOCS_RS).map(|_| DOCS_RS);
    match env.get(VARIABLE).map(|value| value.to_string_lossy()) {
        None => Ok(on_docs_rs),
        Some(value) if value == "1" => Ok(Some(VARIABLE)),
        Some(value) if value == "0" => Ok(None),
        Some(value) => Err(Error::variable(
            VARIABLE,
            format!("`{value}` is neither `1` (build without CUDA) nor `0` (build with CUDA)"),
        )),
    }
}

/// The `cfg` of a crate that was built without CUDA.
const CFG_SKIPPED: &str = "cuda_build_skipped";

/// The `cfg`s with a value, which tell the crate what was built.
const CFGS_WITH_VALUES: [&str; 3] = ["cuda_since", "cuda_capability", "cuda_part"];

/// Whether a [`Build`] of this process has run.
static HAS_RUN: AtomicBool = AtomicBool::new(false);

fn declare_cfgs(directives: &mut Directives) {
    directives.push(Directive::CheckCfg(CFG_SKIPPED.to_owned()));
    for name in CFGS_WITH_VALUES {
        directives.push(Directive::CheckCfg(format!("{name}, values(any())")));
    }
}

fn set_cfgs(
    name: &str,
    values: impl IntoIterator<Item = impl AsRef<str>>,
    directives: &mut Directives,
) {
    for value in values {
        directives.push(Directive::Cfg(format!("{name}={:?}", value.as_ref())));
    }
}

/// A package's device code and what it links, ready to be built.
///
/// ```no_run
/// // build.rs
/// fn main() -> Result<(), cuda_build::Error> {
///     cuda_build::Build::new()?.module("kernels/saxpy.cu").run()?;
///     Ok(())
/// }
/// ```
///
/// In the crate, write `include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));` inside a Rust module. The included
/// file defines the compiled modules (`modules::SAXPY`), the capability list, and `check_device`
/// ([what it defines, and examples](crate)).
#[derive(Debug)]
pub struct Build {
    pub(super) env: Env,
    pub(super) root: Root,
    pub(super) package: PathBuf,
    pub(super) out: PathBuf,
    pub(super) triple: String,
    pub(super) config: Config,
    skipped_by: Option<&'static str>,
    /// Whether the variables are those of this process, so that the outputs are those of one build script.
    is_of_cargo: bool,
    #[cfg(feature = "compile")]
    pub(super) code: Code,
    #[cfg(feature = "compile")]
    driver: fn() -> Result<Driver, NoDriver>,
    #[cfg(feature = "compile")]
    plan: OnceCell<Plan>,
    toolkit: OnceCell<Toolkit>,
    pub(super) root_variable: Option<String>,
    pub(super) view: OnceCell<View>,
}

/// The result of [`Build::run`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Built {
    /// The toolkit that was used; `None` if the build was skipped ([`Build::is_skipped`]).
    pub toolkit: Option<Toolkit>,
    /// The capabilities of the compiled code; `None` if nothing was compiled.
    pub plan: Option<Plan>,
    /// Which outputs were made, and which were up to date.
    #[cfg(feature = "compile")]
    pub compiled: Compiled,
}

impl Build {
    /// Reads the variables that Cargo sets for a build script, and the package's manifest.
    ///
    /// # Errors
    /// [`Error::Usage`] outside a build script, [`Error::Manifest`] if the manifest cannot be used,
    /// [`cuda_find::Error::Variable`] if a variable cannot be used.
    pub fn new() -> Result<Self, Error> {
        let build = Self::from_env(Env::from_process(), Root::system())?;
        Ok(Self {
            is_of_cargo: true,
            ..build
        })
    }

    /// As [`Build::new`], with the environment and the disk of a test.
    ///
    /// # Errors
    /// As [`Build::new`].
    #[doc(hidden)]
    pub fn from_env(env: Env, root: Root) -> Result<Self, Error> {
        let variable = |name: &'static str| {
            env.peek(name)
                .map(PathBuf::from)
                .ok_or_else(|| Error::Usage {
                    reason: format!("`{name}` is not set: this is not running as a build script"),
                    hint: "call this from build.rs".to_owned(),
                })
        };
        let package = variable("CARGO_MANIFEST_DIR")?;
        let out = variable("OUT_DIR")?;
        let triple = variable("TARGET")?;
        let config = Config::read(&root, &env, &package)?;
        let skipped_by = skipped_by(&env)?;
        Ok(Self {
            env,
            root,
            package,
            out,
            triple: triple.to_string_lossy().into_owned(),
            config,
            skipped_by,
            is_of_cargo: false,
            #[cfg(feature = "compile")]
            code: Code::default(),
            #[cfg(feature = "compile")]
            driver: driver::driver,
            #[cfg(feature = "compile")]
            plan: OnceCell::new(),
            toolkit: OnceCell::new(),
            root_variable: None,
            view: OnceCell::new(),
        })
    }

    /// Sets the environment variable `name` to the root of the view when the crate is compiled.
    /// Code that needs the toolkit's headers or tools at run time reads it with
    /// `env!("MY_CUDA_ROOT")`.
    ///
    /// The path is valid only on the machine that builds.
    #[must_use]
    pub fn root_variable(mut self, name: impl Into<String>) -> Self {
        self.root_variable = Some(name.into());
        self
    }

    /// The toolkit that the search finds for this package. A module or library that is added later may need more
    /// components, but the release stays the same.
    ///
    /// # Errors
    /// [`cuda_find::Error::NotFound`] lists what was tried and what to do next. A variable or file that names a toolkit
    /// may be invalid, which is an error of its own. [`cuda_find::Error::UnsupportedTarget`] if CUDA does not support
    /// the platform.
    /// [`Error::Usage`] if the sources of a library are wrong, or if the build is skipped ([`Build::is_skipped`]).
    pub fn toolkit(&self) -> Result<&Toolkit, Error> {
        if let Some(toolkit) = self.toolkit.get() {
            return Ok(toolkit);
        }
        self.check_not_skipped()?;
        let target = self.target()?;
        #[cfg(feature = "compile")]
        self.code
            .check(Some(&target).filter(|target| !target.is_native()))?;
        let search = Search {
            root: &self.root,
            env: &self.env,
            target: &target,
            places: Vec::new(),
        };
        let request = needs::request(&self.config);
        #[cfg(feature = "compile")]
        let request =
            (self.code).added_to(request, self.config.cudart, &self.root, &self.package)?;
        let toolkit = search.find(&request)?;
        Ok(self.toolkit.get_or_init(|| toolkit))
    }

    /// Searches again for what was added, with the release of an earlier search.
    #[cfg(feature = "compile")]
    fn forget_toolkit(&mut self) {
        if let Some(toolkit) = self.toolkit.take() {
            let (major, minor) = (toolkit.version().major, Some(toolkit.version().minor));
            self.config.release = Some(RequestedRelease { major, minor });
        }
        self.view = OnceCell::new();
        self.plan = OnceCell::new();
    }

    /// The platform to build for.
    pub(super) fn target(&self) -> Result<Target, Error> {
        let mut target = Target::from_triple(&self.triple)?;
        if let Some(host) = self.env.peek("HOST") {
            target = target.built_on(&host.to_string_lossy());
        }
        Ok(if self.config.jetson {
            target.on_jetson()
        } else {
            target
        })
    }

    /// The toolkit as one directory. Call this if the build script passes a root to CMake ([`View::cmake_defines`]), to
    /// a makefile, or to another crate's build script.
    ///
    /// A package with a `links` key passes the view to its dependents without this call. For `links = "foo"`, their
    /// build scripts get the view in `DEP_FOO_ROOT`, the release (`13.4`) in `DEP_FOO_VERSION`,
    /// the view's directories in `DEP_FOO_INCLUDE` and `DEP_FOO_LIB` (lists as in `PATH`), and the
    /// capabilities (`8.0, 12.0+PTX`), if declared, in `DEP_FOO_CAPABILITIES`.
    ///
    /// # Errors
    /// As [`Build::toolkit`]; [`Error::ViewConflict`] if components have different files of the
    /// same name, [`Error::ViewNotCreated`] if the path cannot be used (for example because something else is there),
    /// [`cuda_find::Error::Io`].
    pub fn view(&self) -> Result<&View, Error> {
        if let Some(view) = self.view.get() {
            return Ok(view);
        }
        let toolkit = self.toolkit()?;
        let place = ViewPlace::from_env(&self.env, &self.target()?)?;
        let view = View::create(toolkit, &place, &self.root, &self.env)?;
        Ok(self.view.get_or_init(|| view))
    }

    /// Whether [`Build::run`] builds without CUDA, because `CUDA_BUILD_SKIP` is `1` or `DOCS_RS` is set.
    ///
    /// Then there is no toolkit and no view, and [`Build::toolkit`] and [`Build::view`] return an error. A build script
    /// that calls one of them starts with
    ///
    /// ```no_run
    /// # fn main() -> Result<(), cuda_build::Error> {
    /// let build = cuda_build::Build::new()?;
    /// if build.is_skipped() {
    ///     build.run()?;
    ///     return Ok(());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_skipped(&self) -> bool {
        self.skipped_by.is_some()
    }

    /// An error in a skipped build, for functions that need a toolkit.
    fn check_not_skipped(&self) -> Result<(), Error> {
        let Some(variable) = self.skipped_by else {
            return Ok(());
        };
        Err(Error::Usage {
            reason: format!(
                "no CUDA toolkit is searched for, because `{variable}` is set, but the build script needs one"
            ),
            hint: format!(
                "unset `{variable}`; or, in build.rs, call only `Build::run` if `Build::is_skipped` returns true"
            ),
        })
    }

    /// Finds a toolkit, compiles what is not up to date, and prints Cargo's directives. The directives are printed only
    /// after everything else has succeeded.
    ///
    /// If `CUDA_BUILD_SKIP` is `1` or `DOCS_RS` is set, nothing is searched, compiled or linked. The generated source
    /// has the same items, with empty modules, `cfg(cuda_build_skipped)` is set, and a warning is printed. This works
    /// without CUDA, and on every platform.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn run(mut self) -> Result<Built, Error> {
        if self.is_of_cargo && HAS_RUN.swap(true, Ordering::Relaxed) {
            return Err(Error::Usage {
                reason: "`Build::run` was called twice in one build script; the second call would overwrite what the \
                         first one wrote"
                    .to_owned(),
                hint: "add all modules and libraries to one `Build`, and call `run` once; a part with capabilities of \
                       its own names them with `.capabilities([\"9.0a\"])`"
                    .to_owned(),
            });
        }
        let mut directives = Directives::default();
        let built = match self.skipped_by {
            Some(variable) => self.run_skipped(variable, &mut directives)?,
            None => {
                #[cfg(feature = "compile")]
                self.assign_capabilities(&mut directives)?;
                self.run_with_toolkit(&mut directives)?
            }
        };
        directives.emit()?;
        Ok(built)
    }

    pub(super) fn run_with_toolkit(&self, directives: &mut Directives) -> Result<Built, Error> {
        let toolkit = self.toolkit()?;
        let version = toolkit.version();
        directives.push(Directive::Remark(format!("CUDA {version}")));
        declare_cfgs(directives);
        let mut since: Vec<_> = release::releases().filter(|r| *r < version).collect();
        since.push(version);
        set_cfgs(
            "cuda_since",
            since.iter().map(ToString::to_string),
            directives,
        );
        #[cfg(feature = "compile")]
        let built = self.compile(toolkit, directives)?;
        #[cfg(not(feature = "compile"))]
        let built = Built::default();
        self.report_view(toolkit, built.plan.as_ref(), directives)?;
        let stubs = self.stubs(toolkit)?;
        self.link(toolkit, stubs.as_deref(), directives);
        #[cfg(feature = "compile")]
        {
            code::report(&built.compiled, directives);
            self.watch_inputs(toolkit, &built.compiled.inputs, directives)?;
        }
        self.watch(toolkit, directives);
        self.watch_for_lock(directives)?;
        Ok(Built {
            toolkit: Some(toolkit.clone()),
            ..built
        })
    }

    /// Writes the generated source with empty modules. A skipped build links nothing.
    pub(super) fn run_skipped(
        &self,
        variable: &str,
        directives: &mut Directives,
    ) -> Result<Built, Error> {
        #[cfg(feature = "compile")]
        {
            self.code.check(None)?;
            self.write_source(runtime::source_of_skipped_build(), true)?;
            set_cfgs("cuda_part", self.code.names(), directives);
        }
        declare_cfgs(directives);
        directives.push(Directive::Cfg(CFG_SKIPPED.to_owned()));
        self.declare_optional_components(directives);
        if let Some(name) = self.root_variable.clone() {
            let value = OsString::new();
            directives.push(Directive::RustcEnv { name, value });
        }
        directives.push(Directive::Warning(format!(
            "built without CUDA, because `{variable}` is set: modules are empty, and nothing is linked"
        )));
        directives.rerun_if_changed(self.manifests());
        self.declare_variables(directives);
        Ok(Built::default())
    }

    /// The directives that are known without compiling or writing anything.
    #[doc(hidden)]
    #[must_use]
    pub fn directives(&self, toolkit: &Toolkit) -> Directives {
        let mut directives = Directives::default();
        self.link(toolkit, None, &mut directives);
        self.watch(toolkit, &mut directives);
        directives
    }
}

#[cfg(feature = "compile")]
impl Build {
    /// Adds device code that becomes a file in `OUT_DIR`: a path, or a [`Module`] with options. In a cross build, nvcc
    /// compiles it.
    #[must_use]
    pub fn module(mut self, module: impl Into<Module>) -> Self {
        let mut module: Module = module.into();
        let is_cross = self.target().is_ok_and(|target| !target.is_native());
        // A cross build has the target's NVRTC, which cannot be loaded here.
        if is_cross && module.engine == Engine::Auto {
            module.engine = Engine::Nvcc;
        }
        self.code.modules.push(module);
        self.forget_toolkit();
        self
    }

    /// Adds a module for each file that matches a pattern, sorted: `modules("src/*.cu")`. Options, and patterns of files
    /// to leave out, are those of a [`Module`]:
    ///
    /// ```no_run
    /// use cuda_build::{Build, Engine, Module};
    /// # fn main() -> Result<(), cuda_build::Error> {
    /// Build::new()?
    ///     .modules(Module::new("src/*.cu").exclude("src/moe_*.cu").engine(Engine::Nvcc).include("src"))
    ///     .run()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The pattern is that of [`Library::glob`]. A new file that matches is compiled by the next build.
    #[must_use]
    pub fn modules(mut self, pattern: impl Into<Module>) -> Self {
        let module: Module = pattern.into();
        let pattern = module.source().to_string_lossy();
        match matching_files(&pattern, &module.excluded, &self.root, &self.package) {
            Ok((files, searched)) => {
                self.code.searched.extend(searched);
                let modules = files.into_iter().map(|file| module.with_source(file));
                modules.fold(self, Self::module)
            }
            Err(reason) => {
                self.code.wrong_pattern = Some(reason);
                self
            }
        }
    }

    /// Adds host and device code that is linked into the crate.
    #[must_use]
    pub fn library(mut self, library: Library) -> Self {
        self.code.libraries.push(library);
        self.forget_toolkit();
        self
    }

    /// Replaces the function that queries the GPUs of this machine, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_driver(mut self, driver: fn() -> Result<Driver, NoDriver>) -> Self {
        self.driver = driver;
        self
    }

    /// The capabilities to compile for: the declared ones, or those of this machine's GPUs if none are declared. They
    /// are checked against the toolkit. A build script needs them only for another build tool, as in
    /// [`View::cmake_defines`], or to decide what to compile.
    ///
    /// In a skipped build ([`Build::is_skipped`]), it is the declared list, whatever a toolkit supports.
    ///
    /// # Errors
    /// [`cuda_find::Error::Capability`] if a capability is not valid or not supported by the toolkit, or if none is
    /// declared and this machine has no GPU; the errors of [`Build::toolkit`].
    pub fn plan(&self) -> Result<Plan, Error> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan.clone());
        }
        if self.is_skipped() {
            let declared = self.config.for_major(0).capabilities.unwrap_or_default();
            if declared.is_empty() {
                return Ok(Plan::default());
            }
            return Ok(Declared::parse(declared)?.named_capabilities());
        }
        let toolkit = self.toolkit()?;
        let config = self.config.for_major(toolkit.version().major);
        let declared = match config.capabilities {
            Some(items) => Declared::parse(items)?,
            None => Declared::native(),
        };
        let gpus = if declared.is_native() {
            (self.driver)().map_or_else(|_| Vec::new(), |driver| driver.gpus)
        } else {
            Vec::new()
        };
        if config.capabilities.is_none() && gpus.is_empty() {
            return Err(capability::undeclared().into());
        }
        let observed = toolkit.capabilities_of_ptxas(&self.root, &self.env);
        let plan = declared.plan(toolkit.version(), &gpus, observed.as_deref())?;
        let used: Vec<Component> = config.components.iter().map(|w| w.component).collect();
        toolkit.check_plan(&plan, &used)?;
        Ok(self.plan.get_or_init(|| plan).clone())
    }

    /// Gives each part the capabilities that it is compiled for, and leaves out those that have none.
    pub(super) fn assign_capabilities(&mut self, directives: &mut Directives) -> Result<(), Error> {
        if !self.code.has_capabilities() {
            return Ok(());
        }
        let plan = self.plan()?;
        let toolkit = self.toolkit()?;
        let observed = toolkit.capabilities_of_ptxas(&self.root, &self.env);
        let version = toolkit.version();
        for name in (self.code).assign_capabilities(&plan, version, observed.as_deref())? {
            directives.push(Directive::Warning(format!(
                "`{name}` is left out: it is written for other capabilities than {plan}"
            )));
        }
        Ok(())
    }

    /// Compiles everything that is not up to date, and writes the generated source.
    fn compile(&self, toolkit: &Toolkit, directives: &mut Directives) -> Result<Built, Error> {
        let cudart = if self.links(Component::Cudart, toolkit) {
            self.config.cudart.as_str()
        } else {
            "none"
        };
        let version = toolkit.version();
        if self.code.is_empty() {
            // The crate includes the source whether or not a feature adds modules.
            let modules = self.code.plans_of_modules(&Plan::default())?;
            let source = runtime::generated_source(&Plan::default(), version, cudart, &modules);
            self.write_source(source, false)?;
            return Ok(Built::default());
        }
        let plan = self.plan()?;
        if let Some(lost) = self.lost_capabilities(&plan) {
            directives.push(Directive::Warning(format!(
                "this crate declares {lost}, but the list of the application replaces its list, and has no such \
                 capability; `[workspace.metadata.cuda.package.{}]` of the application can name capabilities for this \
                 crate alone",
                self.package_name()
            )));
        }
        if self.config.for_major(version.major).capabilities.is_none() {
            directives.push(Directive::Warning(format!(
                "no capabilities are declared; built only for the GPU of this machine: {plan}"
            )));
        }
        let compiled = self.compile_for(toolkit, &plan, directives)?;
        let modules = self.code.plans_of_modules(&plan)?;
        let source = runtime::generated_source(&plan, version, cudart, &modules);
        self.write_source(source, false)?;
        let mut numbers: Vec<String> = plan.all().iter().map(|c| c.base().to_string()).collect();
        numbers.dedup();
        set_cfgs("cuda_capability", numbers, directives);
        set_cfgs("cuda_part", self.code.names(), directives);
        Ok(Built {
            toolkit: None,
            plan: Some(plan),
            compiled,
        })
    }

    /// The capabilities with a letter that this crate declares, and that the application's list does not have.
    fn lost_capabilities(&self, plan: &Plan) -> Option<String> {
        let own = Declared::parse(self.config.replaced_capabilities.as_deref()?).ok()?;
        let mut lost = own.named_capabilities().all();
        lost.retain(|capability| capability.suffix.is_some() && !plan.all().contains(capability));
        let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
        (!lost.is_empty()).then(|| lost.join(", "))
    }

    fn package_name(&self) -> String {
        let name = self.env.peek("CARGO_PKG_NAME").unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn compile_for(
        &self,
        toolkit: &Toolkit,
        plan: &Plan,
        directives: &mut Directives,
    ) -> Result<Compiled, Error> {
        let host = self.host_compiler(toolkit)?;
        let mut view = None;
        if let Some(host) = &host {
            let compiler = &host.compiler;
            directives.push(Directive::Remark(format!("host compiler {compiler}")));
            view = self.compiler_view(toolkit)?;
        }
        if let Some(view) = view {
            let root = view.root().display();
            directives.push(Directive::Remark(format!(
                "nvcc is started from the view {root}"
            )));
        }
        let workspace = self.config.workspace.as_deref().and_then(Path::parent);
        let workspace = workspace.unwrap_or(&self.package);
        let mut runner = Runner::new(&self.out);
        runner.diagnostics = Diagnostics::new(&self.package, workspace, &self.out);
        let toolkit_identity = identity::of_toolkit(runner.files(), toolkit);
        let host_identity = host
            .as_ref()
            .map_or_else(String::new, HostCompiler::identity);
        let identities = [toolkit_identity.as_str(), host_identity.as_str()];
        let kept = self.output_store(runner.files(), toolkit, view, host.as_ref(), identities)?;
        if let Some(kept) = kept {
            runner.kept = kept;
        }
        let launcher = Launcher::from_env(&self.env, &self.root).unwrap_or_else(|reason| {
            directives.push(Directive::Warning(reason));
            None
        });
        let settings = Settings {
            toolkit,
            plan,
            package: &self.package,
            out: &self.out,
            working: &std::env::current_dir().unwrap_or_default(),
            toolkit_identity: &toolkit_identity,
            nvcc: &Variables::of_nvcc(&self.env),
            nvrtc: &Variables::of_nvrtc(&self.env),
            host: host.as_ref().map(|host| (host, host_identity.as_str())),
            view,
            env: &self.env,
            root: &self.root,
            launcher: launcher.as_ref(),
        };
        let mut searched = Vec::new();
        let mut steps = Vec::new();
        for module in &self.code.modules {
            steps.push(module.step(&settings)?);
        }
        for library in &self.code.libraries {
            let sources = library.resolve(&self.root, &self.package)?;
            steps.extend(library.steps(&sources, &settings)?);
            #[cfg(feature = "host-sources")]
            if sources.has_host_files() {
                crate::cc_variables::declare_host_variables(&self.env, &self.triple);
            }
            searched.extend(sources.searched);
        }
        searched.extend(self.code.searched.iter().cloned());
        let version = toolkit.version();
        let tools = Tools {
            joining: Joining::new(&self.env, &self.root, identities, plan, version),
            launcher,
        };
        let mut compiled = runner.run(&steps, &Workers::of_cargo(&self.env), &tools)?;
        let warning = tools.launcher.as_ref().and_then(Launcher::warning);
        if let Some(warning) = warning {
            directives.push(Directive::Warning(warning));
        }
        // The directories in which patterns were searched are declared to Cargo too: a new file there may match a
        // pattern.
        compiled.inputs = sorted_set(compiled.inputs.into_iter().chain(searched));
        Ok(compiled)
    }

    /// The directory in which outputs are kept: `CUDA_BUILD_IMAGES`, otherwise `outputs` in the user's cache directory.
    /// `None` if that cannot be written, or if another user can change it; then outputs are kept in `OUT_DIR`.
    fn output_store(
        &self,
        files: &mut Files,
        toolkit: &Toolkit,
        view: Option<&View>,
        host: Option<&HostCompiler>,
        [toolkit_identity, host_identity]: [&str; 2],
    ) -> Result<Option<KeptOutputs>, Error> {
        let Some(directory) = output_store(&self.env) else {
            return Ok(None);
        };
        let is_named = self.env.path("CUDA_BUILD_IMAGES").is_some();
        if is_named && directory.is_relative() {
            let reason = format!("{} is not an absolute path", directory.display());
            return Err(Error::variable("CUDA_BUILD_IMAGES", reason));
        }
        if !is_named && distrust(&self.root, &directory).is_some() {
            return Ok(None);
        }
        let limit = match is_named {
            true => None,
            false => Some(self.output_limit()?),
        };
        let mut identity =
            |compiler: &str, by_time: &str, paths: &dyn Fn(&mut Files) -> Vec<PathBuf>| {
                let question = [compiler, by_time].map(OsStr::new);
                let cached = CachedAnswer::new(&self.env, "contents", question);
                let known = cached.read(&self.root).map(|(identity, _)| identity);
                let by_content = known.unwrap_or_else(|| {
                    let paths = paths(files);
                    let identity = identity::of_contents(files, &paths);
                    cached.write(&identity, "");
                    identity
                });
                CompilerIdentity {
                    by_time: by_time.to_owned(),
                    by_content,
                }
            };
        let nvcc_files = |files: &mut Files| identity::nvcc_files(files, toolkit);
        let nvrtc_files = |files: &mut Files| identity::nvrtc_files(files, toolkit);
        let host_files =
            |_: &mut Files| host.map_or_else(Vec::new, |host| host.compiler.files.clone());
        let identities = [
            identity("nvcc", toolkit_identity, &nvcc_files),
            identity("nvrtc", toolkit_identity, &nvrtc_files),
            identity("host", host_identity, &host_files),
        ];
        let names = PortableNames::new(toolkit, view, identities);
        match KeptOutputs::shared(directory, SharedStore { names, limit }) {
            Ok(kept) => Ok(Some(kept)),
            Err(error) if is_named => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// The size to which the user's output store is reduced.
    fn output_limit(&self) -> Result<u64, Error> {
        const VARIABLE: &str = "CUDA_BUILD_IMAGES_LIMIT";
        const DEFAULT: u64 = 10_000_000_000;
        let limit = self.env.text(VARIABLE).map(|text| parse_size(&text));
        let limit = limit.transpose();
        Ok(limit
            .map_err(|reason| Error::variable(VARIABLE, reason))?
            .unwrap_or(DEFAULT))
    }

    /// Writes `cuda_build.rs` into `OUT_DIR`: the source that the crate includes to use the plan, the release and the
    /// compiled modules at run time.
    fn write_source(&self, head: String, skipped: bool) -> Result<(), Error> {
        let source = head + &self.code.modules_source(&self.root, &self.out, skipped);
        let path = self.out.join("cuda_build.rs");
        Ok(output::write_if_changed(&path, source.as_bytes())?)
    }

    /// A view from which nvcc is started, if nvcc would not find cicc otherwise. This happens if each component has a
    /// directory of its own, as in redist archives.
    fn compiler_view(&self, toolkit: &Toolkit) -> Result<Option<&View>, Error> {
        let (Some(program), Some(cicc)) = (
            toolkit.tool(Component::Nvcc, "nvcc"),
            toolkit.tool(Component::Nvvm, "cicc"),
        ) else {
            return Ok(None);
        };
        let resolve = |path: &Path| self.root.resolve(path);
        let own_root = program.parent().and_then(Path::parent);
        if own_root.is_some_and(|root| cicc.starts_with(root)) {
            return Ok(None);
        }
        let known = nvcc::query(&self.root, &self.env, program)?.programs;
        let place = cicc.parent().map(resolve);
        if known
            .iter()
            .any(|directory| Some(resolve(directory)) == place)
        {
            return Ok(None);
        }
        self.view().map(Some)
    }

    /// The compiler of host code; `None` if nvcc compiles nothing.
    fn host_compiler(&self, toolkit: &Toolkit) -> Result<Option<HostCompiler>, Error> {
        let by_nvcc = |module: &Module| module.engine_for(toolkit) == Engine::Nvcc;
        if self.code.libraries.is_empty() && !self.code.modules.iter().any(by_nvcc) {
            return Ok(None);
        }
        host_compiler::choose(&self.env, &self.root, toolkit, &self.target()?).map(Some)
    }

    /// Declares the paths that compilers read, searched, or looked for in vain, so that Cargo watches them.
    ///
    /// Cargo checks every file below a watched directory. Therefore outputs of this script, directories that Cargo
    /// writes to, and directories of the system or the toolkit are not declared. A path that does not exist is watched
    /// by a link to it, unless a directory above it is watched.
    fn watch_inputs(
        &self,
        toolkit: &Toolkit,
        inputs: &[PathBuf],
        directives: &mut Directives,
    ) -> Result<(), Error> {
        let mut system = (self.root).default_search_dirs(self.target()?.multiarch());
        system.push(self.root.locate("/usr/local/include"));
        system.extend(toolkit.include_dirs());
        let has_outputs = |directory: &Path| {
            self.out.starts_with(directory)
                || self.root.is_file(&directory.join("target/CACHEDIR.TAG"))
                || self.root.is_file(&directory.join("CACHEDIR.TAG"))
        };
        let is_system = |path: &Path| system.iter().any(|dir| path.starts_with(dir));
        let (mut files, mut directories, mut absent) = (Vec::new(), Set::default(), Vec::new());
        for path in inputs.iter().filter(|path| !path.starts_with(&self.out)) {
            if self.root.is_file(path) {
                files.push(path.clone());
            } else if is_system(path) {
            } else if !self.root.is_dir(path) {
                absent.push(path.clone());
            } else if !has_outputs(path) {
                directories.insert(path.clone());
            }
        }
        absent.retain(|path| !path.ancestors().any(|above| directories.contains(above)));
        if !absent.is_empty() {
            let links = self.out.join("cuda-build.absent");
            output::link_in_old_directory(&links, &absent)?;
            files.push(links);
        }
        directives.rerun_if_changed(files.into_iter().chain(directories));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_variable_has_priority() {
        for (skip, docs_rs, expected) in [
            (None, None, None),
            (Some(""), Some(""), None),
            (Some("0"), None, None),
            (Some("1"), None, Some("CUDA_BUILD_SKIP")),
            (None, Some("1"), Some("DOCS_RS")),
            (Some("1"), Some("1"), Some("CUDA_BUILD_SKIP")),
            (Some("0"), Some("1"), None),
            (Some(""), Some("1"), Some("DOCS_RS")),
        ] {
            let pairs = [(VARIABLE, skip), (DOCS_RS, docs_rs)];
            let set = pairs
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            let env = Env::from_pairs(set);
            assert_eq!(skipped_by(&env).unwrap(), expected, "{pairs:?}");
            assert_eq!(env.names_read(), [VARIABLE, DOCS_RS]);
        }
    }

    #[test]
    fn other_values_are_refused() {
        for value in ["maybe", "true", "2", " 1"] {
            let env = Env::from_pairs([(VARIABLE, value)]);
            let error = skipped_by(&env).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{value}` is neither `1`")),
                "{error}"
            );
        }
    }
}
