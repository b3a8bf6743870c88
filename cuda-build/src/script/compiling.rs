//! The part of a build that compiles.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Build, needs};
use crate::cached_answer::CachedAnswer;
use crate::capability::{self, Declared, Plan};
use crate::compile::identity::{self, By, Variables};
use crate::compile::{
    Compiled, Diagnostics, Engine, Joining, Launcher, Launching, Library, Module, Places, Profile,
    Runner, Settings, Workers,
};
use crate::component::Component;
use crate::config::Cudart;
use crate::directive::{Directive, Directives};
use crate::driver::{self, Driver, NoDriver};
use crate::error::Error;
use crate::host_compiler::{self, HostCompiler};
use crate::list::sorted_set;
use crate::nvcc;
use crate::root::Root;
use crate::select::Request;
use crate::target::Target;
use crate::toolkit::Toolkit;
use crate::view::View;

/// What a package compiles.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) modules: Vec<Module>,
    pub(super) libraries: Vec<Library>,
    driver: fn() -> Result<Driver, NoDriver>,
}

impl Default for Code {
    fn default() -> Self {
        Self {
            modules: Vec::new(),
            libraries: Vec::new(),
            driver: driver::driver,
        }
    }
}

impl Code {
    pub(super) fn is_empty(&self) -> bool {
        self.modules.is_empty() && self.libraries.is_empty()
    }

    /// Adds to `request` what is needed to compile this code.
    ///
    /// # Errors
    /// [`Error::Usage`] if the sources of a library are wrong, for example if a file does not exist.
    pub(super) fn added_to(
        &self,
        mut request: Request,
        cudart: Cudart,
        root: &Root,
        package: &Path,
    ) -> Result<Request, Error> {
        let modules = |engine: Engine| {
            let wanted = |module: &&Module| module.wanted_engine() == engine;
            self.modules.iter().filter(wanted).count()
        };
        let mut nvcc_files = modules(Engine::Nvcc);
        for library in &self.libraries {
            nvcc_files += library.resolve(root, package)?.cuda_files();
        }
        let mut needs = Vec::new();
        if nvcc_files == 0 && !self.libraries.is_empty() {
            needs.extend(needs::nvcc("needed to make a library"));
        }
        if nvcc_files > 0 {
            let why = format!("needed to compile {}", count(nvcc_files, "`.cu` file"));
            needs.extend(needs::nvcc(&why));
        }
        if !self.libraries.is_empty() {
            needs.push(needs::runtime(cudart, "needed to link device code"));
        }
        let nvrtc_modules = modules(Engine::Nvrtc);
        if nvrtc_modules > 0 {
            let why = format!("needed to compile {}", count(nvrtc_modules, "module"));
            needs.push(needs::nvrtc(&why));
        }
        needs.append(&mut request.needs);
        let automatic = modules(Engine::Auto);
        if automatic > 0 {
            let why = format!("needed to compile {}", count(automatic, "module"));
            request.alternatives = vec![
                vec![needs::nvrtc(&format!("{why}; nvcc can be used instead"))],
                needs::nvcc(&why),
            ];
        }
        if automatic + nvrtc_modules > 0 {
            needs.extend(needs::nvrtc_header_needs());
        }
        request.needs = needs;
        Ok(request)
    }

    /// Refuses NVRTC in a cross build.
    pub(super) fn check_engines(&self, target: &Target) -> Result<(), Error> {
        let mut modules = self.modules.iter();
        let by_nvrtc = modules.find(|module| module.wanted_engine() == Engine::Nvrtc);
        match by_nvrtc.filter(|_| !target.is_native()) {
            None => Ok(()),
            Some(module) => Err(Error::Usage {
                reason: format!(
                    "module `{}` is to be compiled by NVRTC, but the build is for {target}, whose NVRTC cannot be \
                     loaded on this machine",
                    module.name()
                ),
                hint: "remove `.engine(Engine::Nvrtc)`: nvcc then compiles it".to_owned(),
            }),
        }
    }

    /// Refuses two modules with the same name, because they would share a file and a constant.
    pub(super) fn check_names(&self) -> Result<(), Error> {
        for (index, module) in self.modules.iter().enumerate() {
            let has_its_name = |other: &&Module| other.constant() == module.constant();
            if let Some(earlier) = self.modules[..index].iter().find(has_its_name) {
                return Err(Error::Usage {
                    reason: format!(
                        "the modules {} and {} are both named `{}`",
                        earlier.source().display(),
                        module.source().display(),
                        module.constant()
                    ),
                    hint: "give one of them another name with `Module::named`".to_owned(),
                });
            }
        }
        Ok(())
    }
}

impl Build {
    /// Replaces the function that queries the GPUs of this machine, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_driver(mut self, driver: fn() -> Result<Driver, NoDriver>) -> Self {
        self.code.driver = driver;
        self
    }

    /// The capabilities to compile for: the declared ones, or those of this machine's GPUs if none are declared. They
    /// are checked against the toolkit. A build script needs them only for another build tool, as in
    /// [`View::cmake_defines`].
    ///
    /// # Errors
    /// [`Error::Capability`] if a capability is not valid or not supported by the toolkit, or if none is declared and
    /// this machine has no GPU; the errors of [`Build::toolkit`].
    pub fn plan(&self) -> Result<Plan, Error> {
        let toolkit = self.toolkit()?;
        let config = self.config.for_major(toolkit.version().major);
        let declared = match config.capabilities {
            Some(items) => Declared::parse(items)?,
            None => Declared::native(),
        };
        let gpus = if declared.is_native() {
            (self.code.driver)().map_or_else(|_| Vec::new(), |driver| driver.gpus)
        } else {
            Vec::new()
        };
        if config.capabilities.is_none() && gpus.is_empty() {
            return Err(capability::undeclared());
        }
        let observed = toolkit.capabilities_of_ptxas(&self.root, &self.env);
        let plan = declared.plan(toolkit.version(), &gpus, observed.as_deref())?;
        let used: Vec<Component> = config.components.iter().map(|w| w.component).collect();
        toolkit.check_plan(&plan, &used)?;
        Ok(plan)
    }

    /// The plan for the modules and libraries of this build; `None` if it compiles none.
    pub(super) fn own_plan(
        &self,
        toolkit: &Toolkit,
        directives: &mut Directives,
    ) -> Result<Option<Plan>, Error> {
        if self.code.is_empty() {
            return Ok(None);
        }
        let plan = self.plan()?;
        if self
            .config
            .for_major(toolkit.version().major)
            .capabilities
            .is_none()
        {
            directives.push(Directive::Warning(format!(
                "no capabilities are declared; built only for the GPU of this machine: {plan}"
            )));
        }
        Ok(Some(plan))
    }

    /// Compiles everything that is not up to date, and writes the generated source.
    pub(super) fn compile(
        &self,
        toolkit: &Toolkit,
        plan: Option<&Plan>,
        directives: &mut Directives,
    ) -> Result<Compiled, Error> {
        let Some(plan) = plan else {
            return Ok(Compiled::default());
        };
        self.code.check_names()?;
        let host = self.host_compiler(toolkit)?;
        let host_identity = host.as_ref().map(HostCompiler::identity);
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
        let diagnostics = Diagnostics::new(&self.package, workspace, &self.out);
        let mut runner = Runner::new(&self.out).diagnostics(diagnostics);
        let mut toolkit_identity = identity::of_toolkit(runner.files(), toolkit, By::Time);
        let mut host_identity = host_identity;
        // Several machines may share kept outputs, and file times differ between machines. So compilers are identified
        // by the content of their files. The digest of the contents is cached.
        let shared = self.images_directory()?;
        if let Some(directory) = &shared {
            let host_now = host_identity.unwrap_or_default();
            let identities = [toolkit_identity.as_ref(), host_now.as_ref()];
            let cached = CachedAnswer::new(&self.env, "contents", identities);
            let known = cached.read(&self.root).map(|(identity, _)| identity);
            toolkit_identity = known.unwrap_or_else(|| {
                let identity = identity::of_contents(runner.files(), toolkit, host.as_ref());
                cached.write(&identity, "");
                identity
            });
            host_identity = host.as_ref().map(|host| host.compiler.to_string());
            runner = runner.images(directory.clone());
        }
        let working = std::env::current_dir().unwrap_or_default();
        let places = Places {
            package: &self.package,
            out: &self.out,
            working: &working,
        };
        let launcher = Launcher::from_env(&self.env, &self.root).unwrap_or_else(|reason| {
            directives.push(Directive::Warning(reason));
            None
        });
        let settings = Settings {
            toolkit: &toolkit_identity,
            nvcc: &Variables::of_nvcc(&self.env),
            nvrtc: &Variables::of_nvrtc(&self.env),
            host: host.as_ref().zip(host_identity.as_deref()),
            view,
            profile: &Profile::of(&self.env),
            env: &self.env,
            root: &self.root,
            #[cfg(feature = "host-sources")]
            launcher: launcher.as_ref(),
        };
        let for_nvcc = launcher
            .as_ref()
            .filter(|_| !self.code.libraries.is_empty());
        let launching = for_nvcc.map(|launcher| {
            directives.push(Directive::Remark(format!("launcher {launcher}")));
            Arc::new(Launching::new(launcher.clone(), toolkit, settings))
        });
        runner = runner.launching(launching.clone());
        let mut searched = Vec::new();
        let mut steps = Vec::new();
        for module in &self.code.modules {
            steps.push(module.step(toolkit, plan, places, settings)?);
        }
        for library in &self.code.libraries {
            let sources = library.resolve(&self.root, &self.package)?;
            steps.extend(library.steps(&sources, toolkit, plan, places, settings)?);
            #[cfg(feature = "host-sources")]
            if sources.has_host_files() {
                identity::declare_host_variables(&self.env, &self.triple);
            }
            searched.extend(sources.searched);
        }
        let compilers = [
            toolkit_identity.as_str(),
            host_identity.as_deref().unwrap_or_default(),
        ];
        let target = (plan, toolkit.version());
        let joining = Joining::new(&self.env, &self.root, compilers, shared.as_deref(), target);
        let mut compiled = runner.run(&steps, &Workers::of_cargo(&self.env), &joining)?;
        if let Some(reason) = launching.and_then(|launching| launching.reason_unused()) {
            directives.push(Directive::Warning(reason));
        }
        // The directories in which patterns were searched are declared to Cargo too: a new file there may match a
        // pattern.
        compiled.inputs = sorted_set(compiled.inputs.into_iter().chain(searched));
        self.write_source(toolkit, plan)?;
        Ok(compiled)
    }

    /// The directory in which outputs are kept for other builds, if `CUDA_BUILD_IMAGES` names one.
    fn images_directory(&self) -> Result<Option<PathBuf>, Error> {
        let Some(directory) = self.env.path("CUDA_BUILD_IMAGES") else {
            return Ok(None);
        };
        if directory.is_relative() {
            let reason = format!("{} is not an absolute path", directory.display());
            return Err(Error::variable("CUDA_BUILD_IMAGES", reason));
        }
        Ok(Some(directory))
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

    /// Declares the paths that compilers read or searched, so that Cargo watches them. Cargo checks every file below a
    /// watched directory. Therefore outputs of this script, directories that Cargo writes to, and directories of the
    /// system or the toolkit are not declared.
    pub(super) fn watch_inputs(
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
        let can_be_watched = |path: &&PathBuf| {
            if path.starts_with(&self.out) {
                return false;
            }
            if self.root.is_dir(path) {
                !has_outputs(path) && !system.iter().any(|dir| path.starts_with(dir))
            } else {
                self.root.is_file(path)
            }
        };
        directives.rerun_if_changed(inputs.iter().filter(can_be_watched).cloned());
        Ok(())
    }
}

/// Reports the outputs that were made, compiler warnings, and why some outputs are never up to date.
pub(super) fn report(compiled: &Compiled, directives: &mut Directives) {
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    for made in &compiled.made {
        let output = name(&made.output);
        let calls = match made.compiled.join(", then ") {
            calls if calls.is_empty() => String::new(),
            calls => format!(" for {calls}"),
        };
        directives.push(Directive::Remark(format!(
            "made {output} with {}{calls} in {:.2} s: {}",
            made.tool,
            made.elapsed.as_secs_f32(),
            made.reason
        )));
    }
    directives.push(Directive::Remark(format!(
        "{} made, {} up to date",
        compiled.made.len(),
        compiled.fresh.len()
    )));
    for message in &compiled.warnings {
        directives.warn_lines(message);
    }
    for (output, reason) in &compiled.never_fresh {
        directives.push(Directive::Remark(format!(
            "{} is compiled whenever this script runs: {reason}",
            name(output)
        )));
    }
}

fn count(number: usize, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}

impl<T: Into<PathBuf>> From<T> for Module {
    fn from(source: T) -> Self {
        Self::new(source)
    }
}
