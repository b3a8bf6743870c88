//! The entry point for build scripts. [`Build`] reads the manifest, finds a toolkit, compiles, and prints Cargo's
//! directives.

#[cfg(feature = "compile")]
mod compiling;
mod directives;
#[cfg(feature = "compile")]
mod generated;
mod needs;
mod skipped;

use std::cell::OnceCell;
use std::path::PathBuf;

#[cfg(feature = "compile")]
use crate::capability::Plan;
#[cfg(feature = "compile")]
use crate::compile::{Compiled, Library, Module};
use crate::config::Config;
use crate::directive::{Directive, Directives};
use crate::env::Env;
use crate::error::Error;
use crate::root::Root;
use crate::target::Target;
use crate::toolkit::{Search, Toolkit};
#[cfg(feature = "view")]
use crate::view::{View, ViewPlace};

pub use needs::request;
pub use skipped::skipped_by;

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
    env: Env,
    root: Root,
    package: PathBuf,
    out: PathBuf,
    triple: String,
    config: Config,
    skipped_by: Option<&'static str>,
    #[cfg(feature = "compile")]
    code: compiling::Code,
    toolkit: OnceCell<Toolkit>,
    #[cfg(feature = "view")]
    root_variable: Option<String>,
    #[cfg(feature = "view")]
    view: OnceCell<View>,
}

/// The result of [`Build::run`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Built {
    /// The toolkit that was used; `None` if the build was skipped ([`Build::is_skipped`]).
    pub toolkit: Option<Toolkit>,
    /// The capabilities of the compiled code; `None` if nothing was compiled.
    #[cfg(feature = "compile")]
    pub plan: Option<Plan>,
    /// Which outputs were made, and which were up to date.
    #[cfg(feature = "compile")]
    pub compiled: Compiled,
}

impl Build {
    /// Reads the variables that Cargo sets for a build script, and the package's manifest.
    ///
    /// # Errors
    /// [`Error::Usage`] outside a build script, [`Error::Manifest`] if the manifest or a variable cannot be used.
    pub fn new() -> Result<Self, Error> {
        Self::from_env(Env::from_process(), Root::system())
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
            #[cfg(feature = "compile")]
            code: compiling::Code::default(),
            toolkit: OnceCell::new(),
            #[cfg(feature = "view")]
            root_variable: None,
            #[cfg(feature = "view")]
            view: OnceCell::new(),
        })
    }

    /// Adds device code that becomes a file in `OUT_DIR`: a path, or a [`Module`] with options. In a cross build, nvcc
    /// compiles it.
    #[cfg(feature = "compile")]
    #[must_use]
    pub fn module(mut self, module: impl Into<Module>) -> Self {
        let module: Module = module.into();
        let is_cross = self.target().is_ok_and(|target| !target.is_native());
        self.code.modules.push(match is_cross {
            true => module.without_nvrtc(),
            false => module,
        });
        self.toolkit = OnceCell::new();
        self.view = OnceCell::new();
        self
    }

    /// Adds host and device code that is linked into the crate.
    #[cfg(feature = "compile")]
    #[must_use]
    pub fn library(mut self, library: Library) -> Self {
        self.code.libraries.push(library);
        self.toolkit = OnceCell::new();
        self.view = OnceCell::new();
        self
    }

    /// Sets the environment variable `name` to the root of the view when the crate is compiled.
    /// Code that needs the toolkit's headers or tools at run time reads it with
    /// `env!("MY_CUDA_ROOT")`.
    ///
    /// The path is valid only on the machine that builds.
    #[cfg(feature = "view")]
    #[must_use]
    pub fn root_variable(mut self, name: impl Into<String>) -> Self {
        self.root_variable = Some(name.into());
        self
    }

    /// The toolkit that the search finds for this package. The result is kept until a module or library is added.
    ///
    /// # Errors
    /// [`Error::NotFound`] lists what was tried and what to do next. A variable or file that names a toolkit may be
    /// invalid, which is an error of its own. [`Error::UnsupportedTarget`] if CUDA does not support the platform.
    /// [`Error::Usage`] if the sources of a library are wrong, or if the build is skipped ([`Build::is_skipped`]).
    pub fn toolkit(&self) -> Result<&Toolkit, Error> {
        if let Some(toolkit) = self.toolkit.get() {
            return Ok(toolkit);
        }
        self.check_not_skipped()?;
        let target = self.target()?;
        let major = self.config.release.map(|release| release.major);
        let request = request(&self.config, major);
        #[cfg(feature = "compile")]
        self.code.check_engines(&target)?;
        #[cfg(feature = "compile")]
        let request =
            (self.code).added_to(request, self.config.cudart, &self.root, &self.package)?;
        let search = Search {
            root: &self.root,
            env: &self.env,
            target: &target,
            places: Vec::new(),
        };
        let toolkit = search.find(&request)?;
        Ok(self.toolkit.get_or_init(|| toolkit))
    }

    /// The platform to build for.
    fn target(&self) -> Result<Target, Error> {
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
    /// [`Error::Io`].
    #[cfg(feature = "view")]
    pub fn view(&self) -> Result<&View, Error> {
        if let Some(view) = self.view.get() {
            return Ok(view);
        }
        let toolkit = self.toolkit()?;
        let place = ViewPlace::from_env(&self.env, &self.target()?)?;
        let view = toolkit.view(&place, &self.root)?;
        Ok(self.view.get_or_init(|| view))
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
    pub fn run(self) -> Result<Built, Error> {
        if let Some(variable) = self.skipped_by {
            return self.run_skipped(variable);
        }
        let toolkit = self.toolkit()?;
        let mut directives = Directives::default();
        directives.push(Directive::Remark(format!("CUDA {}", toolkit.version())));
        skipped::declare_cfg(&mut directives);
        #[cfg(feature = "compile")]
        let plan = self.own_plan(toolkit, &mut directives)?;
        #[cfg(feature = "compile")]
        let compiled = self.compile(toolkit, plan.as_ref(), &mut directives)?;
        #[cfg(all(feature = "view", not(feature = "compile")))]
        let plan = None;
        #[cfg(feature = "view")]
        self.report_view(toolkit, plan.as_ref(), &mut directives)?;
        let stubs = self.stubs(toolkit)?;
        self.link(toolkit, stubs.as_deref(), &mut directives);
        #[cfg(feature = "compile")]
        compiling::report(&compiled, &mut directives);
        #[cfg(feature = "compile")]
        self.watch_inputs(toolkit, &compiled.inputs, &mut directives)?;
        self.watch(toolkit, &mut directives);
        self.watch_for_lock(&mut directives)?;
        directives.emit()?;
        Ok(Built {
            toolkit: Some(toolkit.clone()),
            #[cfg(feature = "compile")]
            plan,
            #[cfg(feature = "compile")]
            compiled,
        })
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
