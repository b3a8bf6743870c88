//! What a build script calls: from the manifest to Cargo's directives.

mod compiling;
mod needs;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cache;
use crate::capability::{self, Declared, Plan};
use crate::compile::{Compiled, Format, Library, Module};
use crate::component::{Bundle, Component};
use crate::config::Config;
use crate::directive::{Directive, Directives};
use crate::driver::{self, Driver, NoDriver};
use crate::env::Env;
use crate::error::Error;
use crate::link;
use crate::root::Root;
use crate::select::Note;
use crate::sources;
use crate::target::Target;
use crate::toolkit::{Search, Toolkit};
use crate::view::{View, ViewPlace};

pub use needs::request;

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
/// In the crate, `include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));` inside a module gives the
/// compiled modules (`modules::SAXPY`), the capability list, and `check_device`.
#[derive(Debug)]
pub struct Build {
    env: Env,
    root: Root,
    package: PathBuf,
    out: PathBuf,
    target: Target,
    config: Config,
    modules: Vec<Module>,
    libraries: Vec<Library>,
    root_variable: Option<String>,
    driver: fn() -> Result<Driver, NoDriver>,
    /// Markers of the views that others are told of: without the view their builds fail, so the
    /// script has to run where one is gone.
    views: RefCell<BTreeSet<PathBuf>>,
}

/// What a build came to.
#[derive(Debug)]
pub struct Built {
    /// The toolkit it was built with.
    pub toolkit: Toolkit,
    /// The capabilities it was built for; `None` where nothing was compiled.
    pub plan: Option<Plan>,
    /// Which outputs were made, which were up to date.
    pub compiled: Compiled,
}

impl Build {
    /// A build script's own package: reads Cargo's variables and the manifest.
    ///
    /// # Errors
    /// [`Error::NotABuildScript`] outside a build script, [`Error::Manifest`] for a manifest that
    /// can't be used, [`Error::UnsupportedTarget`].
    pub fn new() -> Result<Self, Error> {
        Self::from_env(Env::from_process(), Root::system())
    }

    /// The same from values: a test's environment and disk.
    ///
    /// # Errors
    /// As [`Build::new`].
    pub fn from_env(env: Env, root: Root) -> Result<Self, Error> {
        let variable = |name: &'static str| {
            env.peek(name)
                .map(PathBuf::from)
                .ok_or(Error::NotABuildScript { variable: name })
        };
        let package = variable("CARGO_MANIFEST_DIR")?;
        let out = variable("OUT_DIR")?;
        let triple = variable("TARGET")?;
        let config = Config::read(&root, &env, &package)?;
        let target = Target::from_triple(&triple.to_string_lossy(), config.jetson)?;
        Ok(Self {
            env,
            root,
            package,
            out,
            target,
            config,
            modules: Vec::new(),
            libraries: Vec::new(),
            root_variable: None,
            driver: driver::driver,
            views: RefCell::default(),
        })
    }

    /// Adds device code that becomes a file in `OUT_DIR`: a path, or a [`Module`] with options.
    #[must_use]
    pub fn module(mut self, module: impl Into<Module>) -> Self {
        self.modules.push(module.into());
        self
    }

    /// Adds host and device code that is linked into the crate.
    #[must_use]
    pub fn library(mut self, library: Library) -> Self {
        self.libraries.push(library);
        self
    }

    /// Gives the crate the root of the view under this name: `env!("MY_CUDA_ROOT")`, for code
    /// that looks for headers or tools at run time and shall find what it was built with.
    ///
    /// It is a path of the machine that builds, so it is not there unless asked for.
    #[must_use]
    pub fn root_variable(mut self, name: impl Into<String>) -> Self {
        self.root_variable = Some(name.into());
        self
    }

    /// The toolkit as one root, for build scripts that hand a root to something else: CMake, a
    /// makefile, a build script of another's making. See [`View::cmake_defines`].
    ///
    /// A package with a `links` key tells the build scripts of its dependents without further
    /// ado: for `links = "foo"`, `DEP_FOO_ROOT` is the view, `DEP_FOO_VERSION` the release (`13.4`),
    /// `DEP_FOO_INCLUDE` and `DEP_FOO_LIB` its directories (lists as in `PATH`), and
    /// `DEP_FOO_CAPABILITIES` what it was built for (`8.0, 12.0+PTX`), if that is declared.
    ///
    /// # Errors
    /// Those of [`Build::toolkit`] and [`Toolkit::view`].
    pub fn view(&self) -> Result<View, Error> {
        self.view_of(&self.toolkit()?)
    }

    fn view_of(&self, toolkit: &Toolkit) -> Result<View, Error> {
        let view = toolkit.view(&ViewPlace::from_env(&self.env, &self.target)?, &self.root)?;
        self.views.borrow_mut().insert(view.marker());
        Ok(view)
    }

    /// Replaces the query for the GPUs of this machine, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_driver(mut self, driver: fn() -> Result<Driver, NoDriver>) -> Self {
        self.driver = driver;
        self
    }

    /// The manifest's declarations, to change what they leave open.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// Finds a toolkit, compiles what is not up to date, and tells Cargo. Nothing is printed for
    /// Cargo before everything has succeeded.
    ///
    /// # Errors
    /// Everything [`Error`] names.
    pub fn run(self) -> Result<Built, Error> {
        let toolkit = self.toolkit()?;
        let mut directives = Directives::default();
        directives.push(Directive::Remark(format!("CUDA {}", toolkit.version())));
        let plan = self.plan(&toolkit, &mut directives)?;
        let compiled = match &plan {
            Some(plan) => self.compile(&toolkit, plan, &mut directives)?,
            None => Compiled::default(),
        };
        self.write_source(&toolkit, plan.as_ref())?;
        self.hand_on(&toolkit, plan.as_ref(), &mut directives)?;
        let stubs = self.stubs(&toolkit)?;
        self.direct(&toolkit, &compiled, stubs.as_deref(), &mut directives);
        directives.emit()?;
        Ok(Built {
            toolkit,
            plan,
            compiled,
        })
    }

    /// The toolkit that the search gives this package.
    ///
    /// # Errors
    /// As [`Search::find`].
    pub fn toolkit(&self) -> Result<Toolkit, Error> {
        let major = self.config.release.map(|release| release.major);
        let request = request(&self.config, &self.modules, &self.libraries, major);
        let search = Search {
            root: &self.root,
            env: &self.env,
            target: &self.target,
            places: Vec::new(),
        };
        search.find(&request)
    }

    fn compiles(&self) -> bool {
        !(self.modules.is_empty() && self.libraries.is_empty())
    }

    /// The declared capabilities, checked against the toolkit.
    fn plan(&self, toolkit: &Toolkit, directives: &mut Directives) -> Result<Option<Plan>, Error> {
        if !self.compiles() {
            return Ok(None);
        }
        let items = self.config.for_major(toolkit.version().major).capabilities;
        let declared = items.map_or_else(|| Ok(Declared::native()), Declared::parse)?;
        let gpus = if declared.is_native() {
            (self.driver)()
                .map(|driver| driver.gpus)
                .unwrap_or_default()
        } else {
            Vec::new()
        };
        if items.is_none() && gpus.is_empty() {
            return Err(capability::undeclared());
        }
        let observed = toolkit.observed_capabilities();
        let plan = declared.plan(toolkit.version(), &gpus, observed.as_deref())?;
        let components = self.config.for_major(toolkit.version().major).components;
        let used: Vec<Component> = components.iter().map(|wanted| wanted.component).collect();
        toolkit.check_plan(&plan, &used)?;
        if items.is_none() {
            directives.push(Directive::Warning(format!(
                "no capabilities are declared; built for the GPU of this machine alone: {plan}"
            )));
        }
        Ok(Some(plan))
    }

    /// `cuda_build.rs` in `OUT_DIR`: what the crate knows at run time.
    fn write_source(&self, toolkit: &Toolkit, plan: Option<&Plan>) -> Result<(), Error> {
        let Some(plan) = plan else { return Ok(()) };
        let cudart = if self.links(Component::Cudart, toolkit) {
            self.config.cudart.as_str()
        } else {
            "none"
        };
        let mut source = capability::generated_source(plan, toolkit.version(), cudart);
        source.push_str(&modules_source(&self.modules));
        cache::write_if_changed(&self.out.join("cuda_build.rs"), source.as_bytes())
    }

    fn links(&self, component: Component, toolkit: &Toolkit) -> bool {
        let declared = self.config.for_major(toolkit.version().major).components;
        declared.iter().any(|wanted| wanted.component == component)
            || (component == Component::Cudart && !self.libraries.is_empty())
    }

    /// Where to link with the driver's libraries, if they are declared. A machine that builds has
    /// no driver, and one that has a driver may lack the link names.
    fn stubs(&self, toolkit: &Toolkit) -> Result<Option<PathBuf>, Error> {
        let declared = self.config.for_major(toolkit.version().major).components;
        if !declared
            .iter()
            .any(|wanted| wanted.component.facts().bundle == Bundle::Driver)
        {
            return Ok(None);
        }
        Ok(Some(self.view_of(toolkit)?.stubs()))
    }

    /// What dependents and the crate itself are told of the view, where anybody listens.
    fn hand_on(
        &self,
        toolkit: &Toolkit,
        plan: Option<&Plan>,
        directives: &mut Directives,
    ) -> Result<(), Error> {
        let links = self.env.peek("CARGO_MANIFEST_LINKS").is_some();
        if !links && self.root_variable.is_none() {
            return Ok(());
        }
        let view = self.view_of(toolkit)?;
        let root = view.root().as_os_str().to_owned();
        if let Some(name) = &self.root_variable {
            directives.push(Directive::RustcEnv {
                name: name.clone(),
                value: root.clone(),
            });
        }
        if links {
            let mut include = vec![view.include()];
            include.extend(
                [view.include().join("cccl")]
                    .into_iter()
                    .filter(|path| self.root.is_dir(path)),
            );
            let include = std::env::join_paths(include);
            if include.is_err() {
                directives.push(Directive::Warning(format!(
                    "`DEP_<links>_INCLUDE` is not set: the path of the view, {}, contains `:`, which separates paths",
                    view.root().display()
                )));
            }
            let items = self.config.for_major(toolkit.version().major).capabilities;
            let capabilities = plan
                .map(ToString::to_string)
                .or_else(|| items.map(|items| items.join(", ")));
            for (key, value) in [
                ("root", Some(root)),
                ("version", Some(toolkit.version().to_string().into())),
                ("include", include.ok()),
                ("lib", Some(view.lib().into_os_string())),
                ("capabilities", capabilities.map(Into::into)),
            ] {
                if let Some(value) = value {
                    directives.push(Directive::Metadata { key, value });
                }
            }
        }
        Ok(())
    }

    /// What Cargo is told apart from what writes to the disk: the files that compiling reads,
    /// warnings, where the driver's stubs are.
    #[must_use]
    pub fn directives(&self, toolkit: &Toolkit) -> Directives {
        let mut directives = Directives::default();
        self.direct(toolkit, &Compiled::default(), None, &mut directives);
        directives
    }

    fn direct(
        &self,
        toolkit: &Toolkit,
        compiled: &Compiled,
        stubs: Option<&Path>,
        directives: &mut Directives,
    ) {
        if !self.libraries.is_empty() {
            directives.push(Directive::LinkSearch(self.out.clone()));
        }
        for library in &self.libraries {
            directives.push(Directive::LinkLib {
                kind: "static",
                name: library.name().into(),
            });
        }
        let declared = self.config.for_major(toolkit.version().major).components;
        for wanted in declared.iter().filter(|wanted| wanted.optional) {
            let cfg = format!("cuda_have_{}", wanted.component.id().replace('-', "_"));
            directives.push(Directive::CheckCfg(cfg.clone()));
            if toolkit.get(wanted.component).is_some() {
                directives.push(Directive::Cfg(cfg));
            }
        }
        let mut linked: Vec<Component> = declared.iter().map(|wanted| wanted.component).collect();
        if self.links(Component::Cudart, toolkit) && !linked.contains(&Component::Cudart) {
            linked.push(Component::Cudart);
        }
        link::directives(toolkit, &linked, self.config.cudart, stubs, directives);
        link::driver_of_nixos(&self.root, self.config.cdylib, directives);
        if !self.libraries.is_empty() {
            directives.push(Directive::LinkLib {
                kind: "dylib",
                name: "stdc++".into(),
            });
        }
        for (output, tool) in &compiled.made {
            let name = output.file_name().unwrap_or_default().to_string_lossy();
            directives.push(Directive::Remark(format!("made {name} with {tool}")));
        }
        directives.push(Directive::Remark(format!(
            "{} made, {} up to date",
            compiled.made.len(),
            compiled.fresh.len()
        )));
        for warning in compiled.warnings.iter().chain(toolkit.warnings()) {
            directives.push(Directive::Warning(warning.clone()));
        }
        let warned = toolkit
            .notes()
            .iter()
            .filter(|note| matches!(note, Note::Combined { .. } | Note::LockNotFetched { .. }));
        for note in warned {
            directives.push(Directive::Warning(note.to_string()));
        }
        for (output, reason) in &compiled.never_fresh {
            let name = output.file_name().unwrap_or_default().to_string_lossy();
            directives.push(Directive::Remark(format!(
                "{name} is compiled whenever this script runs: {reason}"
            )));
        }
        let mut watched = self.watched(toolkit, &compiled.inputs);
        watched.push(self.package.join("Cargo.toml"));
        watched.extend(self.config.workspace.clone());
        for chosen in toolkit.components() {
            watched.extend(needs::telling_files(&self.root, &chosen.found));
        }
        watched.extend(self.env.path("CUDA_BUILD_TOOLKIT"));
        watched.extend(sources::lock_file(&self.root, &self.env));
        watched.extend(self.views.borrow().iter().cloned());
        directives.rerun_if_changed(watched);
        for name in self.env.asked() {
            directives.push(Directive::RerunIfEnvChanged(name));
        }
    }
}

impl Build {
    /// Of the paths that were read or searched, those that Cargo can watch: no outputs of this
    /// script, and no directory that Cargo itself writes to or that is not the user's, because
    /// Cargo looks at every file below a directory.
    fn watched(&self, toolkit: &Toolkit, inputs: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let mut system = self.root.default_search_dirs(self.target.multiarch());
        system.push(self.root.locate("/usr/local/include"));
        system.extend(toolkit.include_dirs());
        let target_directory = |directory: &Path| {
            self.out.starts_with(directory)
                || self.root.is_file(&directory.join("target/CACHEDIR.TAG"))
                || self.root.is_file(&directory.join("CACHEDIR.TAG"))
        };
        let can_be_watched = |path: &&PathBuf| {
            let is_directory = self.root.is_dir(path);
            !path.starts_with(&self.out)
                && (is_directory || self.root.is_file(path))
                && !(is_directory
                    && (target_directory(path) || system.iter().any(|dir| path.starts_with(dir))))
        };
        inputs.iter().filter(can_be_watched).cloned().collect()
    }
}

fn modules_source(modules: &[Module]) -> String {
    let mut source = String::from(MODULES_HEAD);
    for module in modules {
        let constant = module.constant();
        let (shown, file) = (
            module.source().display(),
            format!("/{}", module.file_name()),
        );
        // Quoted as Rust quotes: a file may be named `a"b.cu`.
        let path = format!("concat!(env!(\"OUT_DIR\"), {file:?})");
        source.push_str(&format!(
            "\n    /// `{shown}`, compiled.\n    #[allow(dead_code)]\n"
        ));
        source.push_str(&match module.wanted_format() {
            Format::Ptx => format!("    pub static {constant}: &str = include_str!({path});\n"),
            _ => format!(
                "    pub static {constant}: &[u8] = {{\n        static CODE: &Aligned<[u8]> = \
                 &Aligned(*include_bytes!({path}));\n        &CODE.0\n    }};\n"
            ),
        });
    }
    source.push_str("}\n");
    source
}

/// The driver reads numbers of eight bytes out of fat binaries; `include_bytes!` alone may put
/// them anywhere.
const MODULES_HEAD: &str = "
/// The compiled modules.
#[allow(unreachable_pub)]
pub mod modules {
    #[allow(dead_code)]
    #[repr(C, align(16))]
    struct Aligned<T: ?Sized>(T);
";

impl<T: Into<PathBuf>> From<T> for Module {
    fn from(source: T) -> Self {
        Self::new(source)
    }
}
