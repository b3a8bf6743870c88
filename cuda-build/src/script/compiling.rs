//! The part of [`Build`] that adds modules and libraries, and compiles them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::build::{Build, Built, set_cfgs};
use crate::compile::identity::{CompilerIdentities, Variables};
use crate::compile::{
    Compiled, Engine, Library, Module, OutputStore, PROGRESS_VARIABLE, PathNames, Progress, Runner,
    Settings, Tools, Workers, joins_objects, matching_files,
};
use crate::diagnosis::{FailedBuild, Origin};
use crate::driver::{Driver, NoDriver};
use crate::error::Error;
use crate::host_compiler::{self, HostCompiler};
use crate::runtime;
use crate::view::View;
use cuda_find_core::capability::{self, Declared};
use cuda_find_core::directive::{Directive, Directives};
use cuda_find_core::list::{joined, sorted_set};
use cuda_find_core::{capability::Plan, component::Component, toolkit::Toolkit};
use cuda_find_core::{nvcc, output};

impl Build {
    /// Adds device code that becomes a file in `OUT_DIR`: a path, or a [`Module`] with options. In a cross build, nvcc
    /// compiles it.
    #[must_use]
    pub fn module(mut self, module: impl Into<Module>) -> Self {
        let mut module: Module = module.into();
        // A cross build has the target's NVRTC, which cannot be loaded here. On Windows, nvcc cannot be used.
        if let (Ok(target), Engine::Auto) = (self.target(), module.engine) {
            if target.is_windows() {
                module.engine = Engine::Nvrtc;
            } else if !target.is_native() {
                module.engine = Engine::Nvcc;
            }
        }
        self.code.modules.push(module);
        self.forget_toolkit();
        self
    }

    /// Adds a module for each file that matches a pattern, sorted: `modules("src/*.cu")`. Options, and patterns of
    /// files to leave out, are those of a [`Module`]:
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
        match matching_files(
            &pattern,
            &module.options.excluded,
            &self.root,
            &self.package,
        ) {
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
    /// [`cuda_find_core::error::Error::Capability`] if a capability is not valid or not supported by the toolkit, or if
    /// none is declared and this machine has no GPU; the errors of [`Build::toolkit`].
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
            Some(list) => Declared::parse(list)?,
            None => Declared::native(),
        };
        let driver = declared.is_native().then(self.driver).and_then(Result::ok);
        let gpus = driver.map(|driver| driver.gpus).unwrap_or_default();
        if config.capabilities.is_none() && gpus.is_empty() {
            return Err(capability::undeclared().into());
        }
        let observed = toolkit.capabilities_of_ptxas(&self.root, &self.env);
        let plan = declared.plan(toolkit.version(), &gpus, observed.as_deref())?;
        let components = config.components.iter().map(|wanted| wanted.component);
        toolkit.check_plan(&plan, &components.collect::<Vec<Component>>())?;
        Ok(self.plan.get_or_init(|| plan).clone())
    }

    /// Gives each part the capabilities that it is compiled for, and leaves out parts that have none.
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
    pub(super) fn compile(
        &self,
        toolkit: &Toolkit,
        directives: &mut Directives,
    ) -> Result<Built, Error> {
        if self.code.is_empty() {
            // The crate includes the source whether or not a feature adds modules.
            self.write_source_for(toolkit, &Plan::default())?;
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
        let declared = self.config.for_major(toolkit.version().major);
        if declared.capabilities.is_none() {
            directives.push(Directive::Warning(format!(
                "no capabilities are declared; built only for the GPU of this machine: {plan}"
            )));
        }
        let compiled = self.compile_for(toolkit, &plan, directives)?;
        self.write_source_for(toolkit, &plan)?;
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
        let replaced = Declared::parse(self.config.replaced_capabilities.as_deref()?).ok()?;
        let mut lost = replaced.named_capabilities().all();
        lost.retain(|capability| capability.suffix.is_some() && !plan.all().contains(capability));
        (!lost.is_empty()).then(|| joined(lost, ", "))
    }

    fn package_name(&self) -> String {
        let name = self.env.peek("CARGO_PKG_NAME").unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Runs the steps of all parts.
    pub(super) fn compile_for(
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
            if let Some(view) = &view {
                let remark = format!("nvcc is started from the view {}", view.root().display());
                directives.push(Directive::Remark(remark));
            }
        }
        let mut runner = Runner::new(&self.out);
        let reads = (&self.env, &self.root);
        let mut modules = self.code.modules.iter();
        let uses_nvrtc = modules.any(|module| module.engine_for(toolkit) == Engine::Nvrtc);
        let files = runner.files();
        let compilers = CompilerIdentities::read(reads, files, toolkit, host.as_ref(), uses_nvrtc);
        let view_root: Vec<_> = view.iter().map(|view| (view.root(), "view")).collect();
        let names = PathNames::new(toolkit, &view_root);
        let store = OutputStore::open(reads, &self.out, None, names)?;
        // `cargo cuda` has printed it once for all scripts.
        let is_reported = self.env.peek(PROGRESS_VARIABLE).is_some();
        if let Some(distrust) = store.distrust.as_ref().filter(|_| !is_reported) {
            directives.push(Directive::Warning(format!(
                "outputs are kept for this build alone: {}; {}",
                distrust.reason, distrust.remedy
            )));
        }
        let settings = Settings {
            toolkit,
            plan,
            package: &self.package,
            out: &self.out,
            working: &std::env::current_dir().unwrap_or_default(),
            compilers: &compilers,
            nvcc: &Variables::of_nvcc(&self.env),
            nvrtc: &Variables::of_nvrtc(&self.env),
            host: host.as_ref(),
            view,
        };
        let mut searched = Vec::new();
        let mut steps = Vec::new();
        for module in &self.code.modules {
            steps.push(module.step(&settings)?);
        }
        let mut relocatable: HashMap<PathBuf, &str> = HashMap::new();
        for library in &self.code.libraries {
            let sources = library.resolve(&self.root, &self.package)?;
            for source in sources.files.iter().filter(|_| library.has_device_link()) {
                let path = self.root.resolve(&self.package.join(source));
                if let Some(other) = relocatable.insert(path, library.name()) {
                    return Err(shared_source(source, other, library.name()));
                }
            }
            steps.extend(library.steps(&sources, &settings)?);
            searched.extend(sources.searched);
        }
        searched.extend(self.code.searched.iter().cloned());
        let tools = Tools {
            joins_objects: host
                .as_ref()
                .is_some_and(|host| joins_objects(toolkit.version(), host)),
            progress: Progress::from_env(&self.env, false),
            store,
        };
        let workers = Workers::of_cargo(&self.env);
        let compiled = runner.run(&steps, &workers, &tools);
        let mut compiled = compiled.map_err(|error| self.with_hint(error, toolkit))?;
        // The directories in which patterns were searched are inputs, because a new file there may match a pattern.
        compiled.inputs = sorted_set(compiled.inputs.into_iter().chain(searched));
        Ok(compiled)
    }

    /// The same error with what follows from the compiler's messages.
    fn with_hint(&self, mut error: Error, toolkit: &Toolkit) -> Error {
        let target = self.target();
        if let (Error::Compile { output, hint, .. }, Ok(target)) = (&mut error, &target) {
            let failed = FailedBuild {
                messages: output,
                toolkit,
                target,
                env: &self.env,
                root: &self.root,
                origin: Origin::Compiler,
            };
            *hint = failed.diagnose().hint.map(String::into);
        }
        error
    }

    fn write_source_for(&self, toolkit: &Toolkit, plan: &Plan) -> Result<(), Error> {
        let cudart = if self.linked(toolkit).contains(&Component::Cudart) {
            self.config.cudart.as_str()
        } else {
            "none"
        };
        let modules = self.code.plans_of_modules(plan)?;
        let version = toolkit.version();
        let source = runtime::generated_source(plan, version, cudart, Some(&modules));
        self.write_source(source, false)
    }

    /// Writes `cuda_build.rs` into `OUT_DIR`: the source that the crate includes to use the plan, the release and the
    /// compiled modules at run time.
    pub(super) fn write_source(&self, head: String, skipped: bool) -> Result<(), Error> {
        let source = head + &self.code.modules_source(skipped);
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
        let nvcc_root = program.parent().and_then(Path::parent);
        if nvcc_root.is_some_and(|root| cicc.starts_with(root)) {
            return Ok(None);
        }
        let cicc_directory = cicc.parent().map(|directory| self.root.resolve(directory));
        let searched = nvcc::query(&self.root, &self.env, program)?.programs;
        let mut searched = searched
            .iter()
            .map(|directory| self.root.resolve(directory));
        if searched.any(|directory| Some(directory) == cicc_directory) {
            return Ok(None);
        }
        self.view().map(Some)
    }

    /// The compiler of host code; `None` if nvcc compiles nothing.
    pub(super) fn host_compiler(&self, toolkit: &Toolkit) -> Result<Option<HostCompiler>, Error> {
        let needs_nvcc = |module: &Module| module.engine_for(toolkit) == Engine::Nvcc;
        if self.code.libraries.is_empty() && !self.code.modules.iter().any(needs_nvcc) {
            return Ok(None);
        }
        host_compiler::choose(&self.env, &self.root, toolkit, &self.target()?).map(Some)
    }
}

/// nvcc derives names of symbols from the source's path alone, so the two libraries could not be linked together.
fn shared_source(source: &Path, one: &str, other: &str) -> Error {
    let source = source.display();
    Error::usage(
        format!("`{one}` and `{other}` both link the device code of {source}"),
        "put the sources of both into one `Library`: device code is linked within a library",
    )
}
