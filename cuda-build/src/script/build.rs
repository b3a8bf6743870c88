//! The entry point for build scripts. [`Build`] reads the manifest, finds a toolkit, compiles, and prints Cargo's
//! directives.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::code::{self, Code};
use super::needs;
use crate::config::Config;
use crate::error::Error;
use crate::view::{View, ViewPlace};
use crate::{
    compile::Compiled,
    driver::{self, Driver, NoDriver},
    runtime,
};
use cuda_find_core::directive::{Directive, Directives};
use cuda_find_core::toolkit::Toolkit;
use cuda_find_core::version::ToolkitVersion;
use cuda_find_core::{capability::Plan, component::Component, env::Env, release, root::Root};
use cuda_find_core::{search::SearchContext, select::RequestedRelease, target::Target};

/// The variable with which a user skips the build of CUDA code.
const SKIP_VARIABLE: &str = "CUDA_BUILD_SKIP";

/// Set by docs.rs, where no CUDA is installed.
const DOCS_RS: &str = "DOCS_RS";

/// The name of the variable because of which CUDA code is not built: `CUDA_BUILD_SKIP=1`, or any value of `DOCS_RS`
/// unless `CUDA_BUILD_SKIP` is `0`. `None` if CUDA code is built.
///
/// # Errors
/// [`cuda_find_core::error::Error::Variable`] if `CUDA_BUILD_SKIP` is neither `1` nor `0`. An empty value counts as
/// unset.
pub fn skipped_by(env: &Env) -> Result<Option<&'static str>, Error> {
    // Both variables are read, so that both are declared to Cargo.
    let on_docs_rs = env.get(DOCS_RS).map(|_| DOCS_RS);
    match env.get(SKIP_VARIABLE).map(|value| value.to_string_lossy()) {
        None => Ok(on_docs_rs),
        Some(value) if value == "1" => Ok(Some(SKIP_VARIABLE)),
        Some(value) if value == "0" => Ok(None),
        Some(value) => Err(Error::variable(
            SKIP_VARIABLE,
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

pub(super) fn set_cfgs(
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
    pub(super) code: Code,
    pub(super) driver: fn() -> Result<Driver, NoDriver>,
    pub(super) plan: OnceCell<Plan>,
    pub(super) toolkit: OnceCell<Toolkit>,
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
    pub compiled: Compiled,
}

impl Build {
    /// Reads the variables that Cargo sets for a build script, and the package's manifest.
    ///
    /// # Errors
    /// [`Error::Find`] outside a build script, [`Error::Manifest`] if the manifest cannot be used,
    /// [`cuda_find_core::error::Error::Variable`] if a variable cannot be used.
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
            env.peek(name).map(PathBuf::from).ok_or_else(|| {
                let reason = format!("`{name}` is not set: this is not running as a build script");
                Error::usage(reason, "call this from build.rs")
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
            code: Code::default(),
            driver: driver::driver,
            plan: OnceCell::new(),
            toolkit: OnceCell::new(),
            view: OnceCell::new(),
        })
    }

    /// Requires and links a component beside those of the manifest, for what only a feature or the target needs. As for
    /// an optional component of the manifest, `cfg(cuda_have_nccl)` is set.
    ///
    /// ```no_run
    /// # use cuda_build::{Build, Component};
    /// # fn main() -> Result<(), cuda_build::Error> {
    /// let mut build = Build::new()?;
    /// if cfg!(feature = "nccl") {
    ///     build = build.component(Component::Nccl);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `cargo cuda` does not run the script before it fetches. It guesses the component if the feature has the name of
    /// the component; otherwise declare an optional component in the manifest.
    #[must_use]
    pub fn component(mut self, component: Component) -> Self {
        self.config.require(component);
        self.forget_toolkit();
        self
    }

    /// After a part was added, the next call searches again, for the release of the earlier search.
    pub(super) fn forget_toolkit(&mut self) {
        if let Some(toolkit) = self.toolkit.take() {
            let (major, minor) = (toolkit.version().major, Some(toolkit.version().minor));
            self.config.release = Some(RequestedRelease { major, minor });
        }
        self.view = OnceCell::new();
        self.plan = OnceCell::new();
    }

    /// The toolkit that the search finds for this package. A module or library that is added later may need more
    /// components, but the release stays the same.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::NotFound`] lists what was tried and what to do next. A variable or file that
    /// names a toolkit may be invalid, which is an error of its own.
    /// [`cuda_find_core::error::Error::UnsupportedTarget`] if CUDA does not support the platform.
    /// [`Error::Find`] if the sources of a library are wrong, or if the build is skipped ([`Build::is_skipped`]).
    pub fn toolkit(&self) -> Result<&Toolkit, Error> {
        if let Some(toolkit) = self.toolkit.get() {
            return Ok(toolkit);
        }
        if let Some(variable) = self.skipped_by {
            return Err(Error::usage(
                format!(
                    "no CUDA toolkit is searched for, because `{variable}` is set, but the build script needs one"
                ),
                format!(
                    "unset `{variable}`; or, in build.rs, call only `Build::run` if `Build::is_skipped` returns true"
                ),
            ));
        }
        let target = self.target()?;
        if target.is_windows() {
            self.code.check(None)?;
            self.code.check_for_windows(&target)?;
        } else {
            (self.code).check(Some(&target).filter(|target| !target.is_native()))?;
        }
        let search = SearchContext::new(&self.root, &self.env, &target);
        let request = needs::request(&self.config).linked_for(&target);
        let cudart = self.config.cudart;
        let request = (self.code).added_to(request, cudart, &self.root, &self.package)?;
        let toolkit = search.find(&request)?;
        Ok(self.toolkit.get_or_init(|| toolkit))
    }

    /// The platform to build for.
    pub(super) fn target(&self) -> Result<Target, Error> {
        let mut target = Target::from_triple(&self.triple)?;
        if let Some(host) = self.env.peek("HOST") {
            target = target.built_on(&host.to_string_lossy());
        }
        if self.config.is_for_jetson() {
            target = target.on_jetson();
        }
        Ok(target)
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
    /// [`cuda_find_core::error::Error::Io`].
    pub fn view(&self) -> Result<&View, Error> {
        if let Some(view) = self.view.get() {
            return Ok(view);
        }
        let toolkit = self.toolkit()?;
        let place = ViewPlace::from_env(&self.env, &self.target()?, &self.root)?;
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
            return Err(Error::usage(
                "`Build::run` was called twice in one build script; the second call would overwrite what the first \
                 one wrote",
                "add all modules and libraries to one `Build`, and call `run` once; a part with capabilities of its \
                 own names them with `.capabilities([\"9.0a\"])`",
            ));
        }
        let mut directives = Directives::default();
        let built = match self.skipped_by {
            Some(variable) => self.run_skipped(variable, &mut directives)?,
            None => {
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
        let earlier = release::releases().filter(|release| *release < version);
        let since = earlier.chain([version]).map(|release| release.to_string());
        set_cfgs("cuda_since", since, directives);
        let built = self.compile(toolkit, directives)?;
        self.report_view(toolkit, built.plan.as_ref(), directives)?;
        let stubs = self.stubs(toolkit)?;
        self.link(toolkit, stubs.as_deref(), directives);
        let host = self.host_compiler(toolkit)?;
        self.link_cpp_runtimes(host.as_ref(), directives)?;
        self.add_to_loader_path(toolkit, directives)?;
        code::report(&built.compiled, directives);
        self.watch_inputs(toolkit, &built.compiled.inputs, directives)?;
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
        self.code.check(None)?;
        let (plan, no_release) = (Plan::default(), ToolkitVersion::new(0, 0));
        let source = runtime::generated_source(&plan, no_release, "none", None);
        self.write_source(source, true)?;
        set_cfgs("cuda_part", self.code.names(), directives);
        declare_cfgs(directives);
        directives.push(Directive::Cfg(CFG_SKIPPED.to_owned()));
        self.declare_optional_components(directives);
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
        let _ = self.link_cpp_runtimes(None, &mut directives);
        self.watch(toolkit, &mut directives);
        directives
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
            let pairs = [(SKIP_VARIABLE, skip), (DOCS_RS, docs_rs)];
            let set = pairs
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            let env = Env::from_pairs(set);
            assert_eq!(skipped_by(&env).unwrap(), expected, "{pairs:?}");
            assert_eq!(env.names_read(), [SKIP_VARIABLE, DOCS_RS]);
        }
    }

    #[test]
    fn other_values_are_refused() {
        for value in ["maybe", "true", "2", " 1"] {
            let env = Env::from_pairs([(SKIP_VARIABLE, value)]);
            let error = skipped_by(&env).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{value}` is neither `1`")),
                "{error}"
            );
        }
    }
}
