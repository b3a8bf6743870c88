//! The steps that make a module.

use std::path::{Path, PathBuf};

use super::identity::Variables;
use super::options::Profile;
use super::step::{Compiler, DeviceCode, Form, common_options, reading};
use super::{Action, Engine, Format, Image, Module, NvrtcJob, ReadFiles, Step, supported};
use crate::capability::Plan;
use crate::command::Invocation;
use crate::component::Component;
use crate::env::Env;
use crate::error::Error;
use crate::host_compiler::HostCompiler;
use crate::includes::options;
use crate::root::Root;
use crate::select::NotFound;
use crate::toolkit::Toolkit;
use crate::view::View;

/// Where sources are read from and outputs go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    /// The package: relative paths start here.
    pub(crate) package: &'a Path,
    /// `OUT_DIR`.
    pub(crate) out: &'a Path,
    /// The directory that NVRTC runs in: the package, under Cargo.
    pub(crate) working: &'a Path,
}

impl Places<'_> {
    /// The path from NVRTC's working directory to the package; empty under Cargo.
    fn prefix(&self) -> &Path {
        if self.working == self.package {
            Path::new("")
        } else {
            self.package
        }
    }
}

/// What the outputs of every step depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    /// [`identity::of_toolkit`](super::identity::of_toolkit).
    pub(crate) toolkit: &'a str,
    /// The variables that nvcc reads.
    pub(crate) nvcc: &'a Variables,
    /// The variables that NVRTC reads.
    pub(crate) nvrtc: &'a Variables,
    /// The host compiler and its identity; `None` if nvcc compiles nothing.
    pub(crate) host: Option<(&'a HostCompiler, &'a str)>,
    /// The view whose nvcc is called; `None` to call nvcc where it is installed.
    pub(crate) view: Option<&'a View>,
    /// How Cargo's profile compiles host code.
    pub(crate) profile: &'a Profile,
    pub(crate) env: &'a Env,
    pub(crate) root: &'a Root,
    /// The launcher in front of compilers of host sources.
    #[cfg(feature = "host-sources")]
    pub(crate) launcher: Option<&'a super::Launcher>,
}

impl Module {
    /// The engine that compiles the module with this toolkit.
    pub(crate) fn engine_for(&self, toolkit: &Toolkit) -> Engine {
        match self.engine {
            Engine::Auto if toolkit.get(Component::Nvrtc).is_some() => Engine::Nvrtc,
            Engine::Auto => Engine::Nvcc,
            fixed => fixed,
        }
    }

    /// The step that makes the module.
    ///
    /// # Errors
    /// [`Error::Capability`] if the format holds code for one capability and the plan does not have
    /// exactly one; [`Error::NotFound`] if the toolkit lacks the engine.
    pub(crate) fn step(
        &self,
        toolkit: &Toolkit,
        plan: &Plan,
        places: Places<'_>,
        settings: Settings<'_>,
    ) -> Result<Step, Error> {
        let images = self.images(plan)?;
        match self.engine_for(toolkit) {
            Engine::Nvcc => {
                let call = NvccCall::new(toolkit, &self.name, settings)?;
                let output = places.out.join(self.file_name());
                let code = (images, self.form());
                let is_supported = |flag: &str| call.supports(flag, places, settings);
                let variables = &settings.nvcc.options;
                let common = (self.options).common(variables, Vec::new(), is_supported)?;
                Ok(call.step(&self.source, &common, code, output, places, settings))
            }
            Engine::Nvrtc | Engine::Auto => self.nvrtc_step(toolkit, images, places, settings),
        }
    }

    fn images(&self, plan: &Plan) -> Result<Vec<Image>, Error> {
        let (images, what, example) = match self.format {
            Format::Fatbin => return Ok(Image::of_plan(plan)),
            Format::Cubin => (plan.real.iter(), "real architecture", "9.0"),
            Format::Ptx => (plan.ptx.iter(), "virtual architecture", "8.0-virtual"),
        };
        if let ([capability], Format::Cubin) = (images.as_slice(), self.format) {
            return Ok(vec![Image::Real(*capability)]);
        }
        if let ([capability], Format::Ptx) = (images.as_slice(), self.format) {
            return Ok(vec![Image::Ptx(*capability)]);
        }
        Err(Error::Capability {
            reason: format!(
                "module `{}` becomes a .{} file, which holds code for one {what}; {} are declared",
                self.name,
                self.format.extension(),
                images.len()
            ),
            hint: format!(
                "declare one, such as `capabilities = [\"{example}\"]`, or use the fatbin format"
            ),
        })
    }

    fn form(&self) -> Form {
        match self.format {
            Format::Fatbin => Form::Fatbin,
            Format::Ptx | Format::Cubin => Form::Single,
        }
    }

    fn nvrtc_step(
        &self,
        toolkit: &Toolkit,
        images: Vec<Image>,
        places: Places<'_>,
        settings: Settings<'_>,
    ) -> Result<Step, Error> {
        let nvrtc = toolkit
            .get(Component::Nvrtc)
            .ok_or_else(|| missing(Component::Nvrtc, &self.name))?;
        let library = nvrtc
            .libraries
            .first()
            .ok_or_else(|| missing(Component::Nvrtc, &self.name))?;
        let tool = format!("NVRTC {}", nvrtc.shown_version());
        let is_supported = |flag: &str| supported::by_nvrtc(library, flag, settings);
        let common = (self.options).common(&[], Vec::new(), is_supported)?;
        let own = common_options(&common, places.prefix());
        let toolkit_includes = toolkit.include_dirs();
        let mut options = vec![CCCL_UNROLLING.to_owned()];
        options.extend(own.iter().cloned());
        options.extend(
            toolkit_includes
                .iter()
                .map(|dir| format!("-I{}", dir.display())),
        );
        let given = options::read(own.iter().map(String::as_str));
        let reading = reading(given, places.working, toolkit_includes, None);
        let variables = &settings.nvrtc.key;
        let mut key = step_key(&tool, &self.source, places, settings.toolkit, variables);
        key.push(crate::nvrtc::shims::identity());
        key.push(format!("{:?}", self.format));
        key.extend(options.iter().cloned());
        Ok(Step {
            tool,
            source: self.source.clone(),
            action: Action::DeviceCode(DeviceCode {
                images,
                form: self.form(),
                compiler: Compiler::Nvrtc(NvrtcJob {
                    library: library.clone(),
                    name: places.prefix().join(&self.source).display().to_string(),
                    options,
                }),
            }),
            inputs: vec![places.package.join(&self.source)],
            output: places.out.join(self.file_name()),
            key,
            reading,
        })
    }
}

/// How far CCCL 2.8 and newer unroll lists of types: 10 with nvcc, but 16 with NVRTC, whose time for
/// `cuda/std/limits` grows from 0.1 to 0.9 seconds by that. With 10, NVRTC makes the same device code. This is the
/// first option, so that a definition of the user replaces it.
const CCCL_UNROLLING: &str = "-D_CCCL_META_UNROLL_LIMIT=10";

/// The file in which a compiler lists what it read for an output.
pub(super) fn depfile_of(output: &Path) -> PathBuf {
    let mut depfile = output.to_owned().into_os_string();
    depfile.push(".d");
    depfile.into()
}

/// The part of the key that all compile steps share. It has the package's path, because the path is
/// in the output: in debug information and in nvcc's names for static variables.
pub(super) fn step_key(
    tool: &str,
    source: &Path,
    places: Places<'_>,
    toolkit: &str,
    variables: &[String],
) -> Vec<String> {
    let mut key: Vec<String> = [env!("CARGO_PKG_VERSION"), tool, toolkit]
        .map(str::to_owned)
        .to_vec();
    key.extend([source, places.package, places.working].map(|path| format!("{path:?}")));
    key.extend(variables.iter().cloned());
    key
}

/// A builder for a call of nvcc.
pub(super) struct NvccCall {
    pub(super) tool: String,
    nvcc: PathBuf,
    options: Vec<String>,
    toolkit_includes: Vec<PathBuf>,
}

impl NvccCall {
    /// nvcc with the options that all its calls share.
    pub(super) fn new(
        toolkit: &Toolkit,
        for_what: &str,
        settings: Settings<'_>,
    ) -> Result<Self, Error> {
        let nvcc = toolkit
            .tool(Component::Nvcc, "nvcc")
            .ok_or_else(|| missing(Component::Nvcc, for_what))?
            .to_owned();
        let version = toolkit
            .get(Component::Nvcc)
            .map(crate::probe::Found::shown_version);
        let own_root = nvcc.parent().and_then(Path::parent).map(Path::to_owned);
        let in_view = settings.view.and_then(View::nvcc);
        let mut options = Vec::new();
        if let Some(compiler) = settings.host.and_then(|(host, _)| host.option.as_ref()) {
            options.extend(["-ccbin".to_owned(), compiler.display().to_string()]);
        }
        let is_cross = settings.host.is_some_and(|(host, _)| host.is_cross);
        let mut toolkit_includes = toolkit.include_dirs();
        for directory in &toolkit_includes {
            // nvcc's profile already names the directories of its root, in the right order, but not always those of
            // another platform.
            let is_own = || {
                let root = own_root.as_ref().filter(|_| !is_cross);
                root.is_some_and(|root| directory.starts_with(root))
            };
            let known = in_view.is_some() || is_own();
            if !known {
                options.extend(["-isystem".to_owned(), directory.display().to_string()]);
            }
        }
        toolkit_includes.extend(settings.view.map(|view| view.root().to_owned()));
        let tool = format!("nvcc {}", version.unwrap_or_default());
        Ok(Self {
            tool,
            nvcc: in_view.unwrap_or(nvcc),
            options,
            toolkit_includes,
        })
    }

    /// nvcc with the options that all its calls share.
    pub(super) fn plain(self) -> Invocation {
        Invocation::new(self.nvcc).args(self.options)
    }

    /// Whether nvcc accepts a flag.
    pub(super) fn supports(
        &self,
        flag: &str,
        places: Places<'_>,
        settings: Settings<'_>,
    ) -> Result<bool, Error> {
        let nvcc = Invocation::new(&self.nvcc).args(&self.options);
        supported::by_nvcc(&nvcc, flag, places, settings)
    }

    /// A step in which nvcc joins objects into one file: an archive (`-lib`), or an object with linked device code
    /// (`-dlink`).
    pub(super) fn join_objects(
        self,
        options: Vec<String>,
        objects: Vec<PathBuf>,
        (source, output): (PathBuf, PathBuf),
        settings: Settings<'_>,
    ) -> Step {
        let mut key = vec![env!("CARGO_PKG_VERSION").to_owned(), self.tool.clone()];
        key.push(settings.toolkit.to_owned());
        key.extend(settings.nvcc.key.iter().cloned());
        key.extend(settings.host.map(|(_, identity)| identity.to_owned()));
        key.extend(options.iter().chain(&self.options).cloned());
        for object in &objects {
            key.push(format!("{:?}", object.file_name()));
        }
        let mut invocation = Invocation::new(self.nvcc).args(self.options).args(options);
        invocation = invocation.args(["-o"]);
        let paths = std::iter::once(&output).chain(&objects);
        invocation
            .arguments
            .extend(paths.map(|path| path.clone().into()));
        Step {
            tool: self.tool,
            source,
            action: Action::Program(invocation),
            inputs: objects,
            output,
            key,
            reading: ReadFiles::Inputs,
        }
    }

    /// The finished step. nvcc runs in the package's directory with a relative source path, so that
    /// the output does not contain the package's path.
    pub(super) fn step(
        self,
        source: &Path,
        common: &super::Common,
        (images, form): (Vec<Image>, Form),
        output: PathBuf,
        places: Places<'_>,
        settings: Settings<'_>,
    ) -> Step {
        let own = common_options(common, Path::new(""));
        let given = own.iter().chain(&settings.nvcc.options).map(String::as_str);
        let mut reading = reading(
            options::read(given),
            places.package,
            self.toolkit_includes,
            None,
        );
        if let ReadFiles::Headers { search, .. } = &mut reading {
            let more = settings.nvcc.directories.iter();
            search
                .directories
                .extend(more.map(|directory| places.package.join(directory)));
        }
        let mut key = step_key(
            &self.tool,
            source,
            places,
            settings.toolkit,
            &settings.nvcc.key,
        );
        key.extend(settings.host.map(|(_, identity)| identity.to_owned()));
        key.push(format!("{} {form:?}", self.nvcc.display()));
        let mut plain = Invocation::new(self.nvcc).args(self.options);
        plain.directory = Some(places.package.to_owned());
        key.extend(
            plain
                .arguments
                .iter()
                .map(|argument| format!("{argument:?}")),
        );
        key.extend(own.iter().cloned());
        let host = settings.host.map(|(host, _)| host.compiler.path.clone());
        Step {
            tool: self.tool,
            source: source.to_owned(),
            action: Action::DeviceCode(DeviceCode {
                images,
                form,
                compiler: Compiler::Nvcc {
                    plain,
                    options: own,
                    host: host.unwrap_or_default(),
                },
            }),
            inputs: vec![places.package.join(source)],
            output,
            key,
            reading,
        }
    }
}

fn missing(component: Component, for_what: &str) -> Error {
    let why = format!("needed to compile `{for_what}`");
    Error::NotFound(Box::new(NotFound::in_toolkit(component, why)))
}
