//! What a build script calls: from the manifest to Cargo's directives.

mod needs;

use std::path::PathBuf;

use crate::cache;
use crate::capability::{self, Declared, Plan};
use crate::command;
use crate::compile::{Compiled, Library, Module, Places, Runner, Step};
use crate::component::Component;
use crate::config::Config;
use crate::directive::{Directive, Directives};
use crate::driver;
use crate::env::Env;
use crate::error::Error;
use crate::link;
use crate::root::Root;
use crate::target::Target;
use crate::toolkit::{Search, Toolkit};

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
            env.peek(name).map(PathBuf::from).ok_or(Error::NotABuildScript { variable: name })
        };
        let package = variable("CARGO_MANIFEST_DIR")?;
        let out = variable("OUT_DIR")?;
        let triple = variable("TARGET")?;
        let config = Config::read(&root, &env, &package)?;
        let target = Target::from_triple(&triple.to_string_lossy(), config.jetson)?;
        Ok(Self { env, root, package, out, target, config, modules: Vec::new(), libraries: Vec::new() })
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
        let plan = self.plan(&toolkit)?;
        let mut directives = Directives::default();
        let compiled = match &plan {
            Some(plan) => self.compile(&toolkit, plan)?,
            None => Compiled::default(),
        };
        self.write_source(&toolkit, plan.as_ref())?;
        self.direct(&toolkit, &compiled, &mut directives);
        directives.emit().map_err(|source| Error::Io {
            action: "write to",
            path: PathBuf::from("standard output"),
            source,
        })?;
        Ok(Built { toolkit, plan, compiled })
    }

    /// The toolkit that the search gives this package.
    ///
    /// # Errors
    /// As [`Search::find`].
    pub fn toolkit(&self) -> Result<Toolkit, Error> {
        let request = request(&self.config, &self.modules, &self.libraries, self.config.major);
        let search = Search { root: &self.root, env: &self.env, target: &self.target, places: Vec::new() };
        search.find(&request)
    }

    fn compiles(&self) -> bool {
        !(self.modules.is_empty() && self.libraries.is_empty())
    }

    /// The declared capabilities, checked against the toolkit.
    fn plan(&self, toolkit: &Toolkit) -> Result<Option<Plan>, Error> {
        if !self.compiles() {
            return Ok(None);
        }
        let declared = match self.config.for_major(toolkit.version().major).capabilities {
            Some(items) => Declared::parse(items)?,
            None => Declared::native(),
        };
        let gpus = if declared.asks_for_gpu() {
            match driver::driver() {
                Ok(driver) => driver.gpus,
                Err(_) if self.config.for_major(toolkit.version().major).capabilities.is_none() => {
                    return Err(capability::undeclared());
                }
                Err(_) => Vec::new(),
            }
        } else {
            Vec::new()
        };
        let observed = observed(toolkit);
        declared.plan(toolkit.version(), &gpus, observed.as_deref()).map(Some)
    }

    /// The steps that compile everything, in order.
    ///
    /// # Errors
    /// [`Error::Capability`] where a module's format does not fit the plan.
    pub fn steps(&self, toolkit: &Toolkit, plan: &Plan) -> Result<Vec<Step>, Error> {
        let places = Places { package: &self.package, out: &self.out };
        // nvcc reads these itself; they change what it makes.
        let extra: Vec<String> = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"]
            .into_iter()
            .filter_map(|name| self.env.text(name).map(|value| format!("{name}={value}")))
            .collect();
        let mut steps = Vec::new();
        for module in &self.modules {
            steps.push(module.step(toolkit, plan, places, &extra)?);
        }
        for library in &self.libraries {
            steps.extend(library.steps(toolkit, plan, places, &extra)?);
        }
        Ok(steps)
    }

    fn compile(&self, toolkit: &Toolkit, plan: &Plan) -> Result<Compiled, Error> {
        let mut toolkit_dirs = toolkit.include_dirs();
        toolkit_dirs.push(self.out.clone());
        let mut runner = Runner::new(&self.root, toolkit_dirs);
        for step in self.steps(toolkit, plan)? {
            runner.run(&step)?;
        }
        Ok(runner.finish())
    }

    /// `cuda_build.rs` in `OUT_DIR`: what the crate knows at run time.
    fn write_source(&self, toolkit: &Toolkit, plan: Option<&Plan>) -> Result<(), Error> {
        let Some(plan) = plan else { return Ok(()) };
        let cudart =
            if self.links(Component::Cudart, toolkit) { self.config.cudart.as_str() } else { "none" };
        let mut source = capability::generated_source(plan, toolkit.version(), cudart);
        source.push_str(&modules_source(&self.modules));
        cache::write_if_changed(&self.out.join("cuda_build.rs"), source.as_bytes())
    }

    fn links(&self, component: Component, toolkit: &Toolkit) -> bool {
        let declared = self.config.for_major(toolkit.version().major).components;
        declared.iter().any(|wanted| wanted.component == component)
            || (component == Component::Cudart && !self.libraries.is_empty())
    }

    /// What Cargo is told apart from what compiling finds out: the files that were read, warnings.
    #[must_use]
    pub fn directives(&self, toolkit: &Toolkit) -> Directives {
        let mut directives = Directives::default();
        self.direct(toolkit, &Compiled::default(), &mut directives);
        directives
    }

    fn direct(&self, toolkit: &Toolkit, compiled: &Compiled, directives: &mut Directives) {
        if !self.libraries.is_empty() {
            directives.push(Directive::LinkSearch(self.out.clone()));
        }
        for library in &self.libraries {
            directives.push(Directive::LinkLib { kind: "static", name: library.name().to_owned() });
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
        link::directives(toolkit, &linked, self.config.cudart, directives);
        if !self.libraries.is_empty() {
            directives.push(Directive::LinkLib { kind: "dylib", name: "stdc++".to_owned() });
        }
        for warning in
            compiled.warnings.iter().chain(toolkit.remarks().iter().filter(|_| toolkit.is_combined()))
        {
            directives.push(Directive::Warning(warning.clone()));
        }
        let mut watched = compiled.inputs.clone();
        watched.push(self.package.join("Cargo.toml"));
        watched.extend(toolkit.components().iter().filter_map(|chosen| needs::telling_file(&chosen.found)));
        watched.extend(self.env.path("CUDA_BUILD_TOOLKIT"));
        watched.retain(|path| !path.starts_with(&self.out));
        directives.rerun_if_changed(watched);
        for name in self.env.asked() {
            directives.push(Directive::RerunIfEnvChanged(name));
        }
    }
}

/// What the toolkit itself says it builds for, asked only where the tables may be too old.
fn observed(toolkit: &Toolkit) -> Option<Vec<capability::Capability>> {
    if toolkit.version() <= capability::newest_known() {
        return None;
    }
    let ptxas = toolkit.tool(Component::Nvcc, "ptxas")?;
    let help = command::Invocation::new(ptxas).args(["--help"]).run().ok()?;
    let observed = capability::observed_from_ptxas_help(&help.output);
    (!observed.is_empty()).then_some(observed)
}

fn modules_source(modules: &[Module]) -> String {
    let mut source = String::from("\n/// The compiled modules.\npub mod modules {\n");
    for module in modules {
        let constant: String = module
            .name()
            .chars()
            .map(|c| if c.is_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect();
        source.push_str(&format!(
            "    /// `{}`, compiled.\n    #[allow(dead_code)]\n    pub static {constant}: &[u8] = \
             include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{}\"));\n",
            module.source().display(),
            module.file_name()
        ));
    }
    source.push_str("}\n");
    source
}

impl<T: Into<PathBuf>> From<T> for Module {
    fn from(source: T) -> Self {
        Self::new(source)
    }
}
