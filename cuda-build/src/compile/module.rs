//! The step that makes a module.

use std::path::Path;

use super::step::{common_options, key};
use super::{Action, Engine, Format, Image, Module, NvrtcJob, Step};
use crate::capability::Plan;
use crate::command::Invocation;
use crate::component::Component;
use crate::error::Error;
use crate::host_compiler::HostCompiler;
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
}

/// What every call of nvcc depends on beside its toolkit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NvccSettings<'a> {
    /// Variables that nvcc reads itself, as `NAME=value`.
    pub(crate) variables: &'a [String],
    /// What compiles host code.
    pub(crate) host: Option<&'a HostCompiler>,
    /// Where to call nvcc, if not where it lies.
    pub(crate) view: Option<&'a View>,
}

impl Module {
    /// The engine that this toolkit has for it.
    pub(crate) fn engine_for(&self, toolkit: &Toolkit) -> Engine {
        match self.engine {
            Engine::Auto if toolkit.get(Component::Nvrtc).is_some() => Engine::Nvrtc,
            Engine::Auto => Engine::Nvcc,
            fixed => fixed,
        }
    }

    /// The step that makes it.
    ///
    /// # Errors
    /// [`Error::SourceMissing`]; [`Error::Capability`] where the format takes one capability and
    /// the plan has another number of them; [`Error::NotFound`] where the toolkit lacks the
    /// engine.
    pub(crate) fn step(
        &self,
        toolkit: &Toolkit,
        plan: &Plan,
        places: Places<'_>,
        nvcc: NvccSettings<'_>,
    ) -> Result<Step, Error> {
        let images = self.images(plan)?;
        match self.engine_for(toolkit) {
            Engine::Nvcc => self.nvcc_step(toolkit, plan, &images, places, nvcc),
            Engine::Nvrtc | Engine::Auto => self.nvrtc_step(toolkit, images, places),
        }
    }

    fn images(&self, plan: &Plan) -> Result<Vec<Image>, Error> {
        let real: Vec<Image> = plan.real.iter().copied().map(Image::Real).collect();
        let ptx: Vec<Image> = plan.ptx.iter().copied().map(Image::Ptx).collect();
        let one = |images: Vec<Image>, what: &str, example: &str| {
            if images.len() == 1 {
                return Ok(images);
            }
            Err(Error::Capability {
                reason: format!(
                    "module `{}` becomes a .{} file, which holds code for one {what}; {} are declared",
                    self.name,
                    self.format.extension(),
                    images.len()
                ),
                hint: Some(format!(
                    "declare one, such as `capabilities = [\"{example}\"]`, or use the fatbin format"
                )),
            })
        };
        match self.format {
            Format::Fatbin => Ok(real.into_iter().chain(ptx).collect()),
            Format::Cubin => one(real, "real architecture", "9.0"),
            Format::Ptx => one(ptx, "virtual architecture", "8.0-virtual"),
        }
    }

    fn nvrtc_step(
        &self,
        toolkit: &Toolkit,
        images: Vec<Image>,
        places: Places<'_>,
    ) -> Result<Step, Error> {
        let nvrtc = toolkit
            .get(Component::Nvrtc)
            .ok_or_else(|| missing(Component::Nvrtc, &self.name))?;
        let library = nvrtc
            .libraries
            .first()
            .cloned()
            .ok_or_else(|| missing(Component::Nvrtc, &self.name))?;
        let tool = format!("NVRTC {}", nvrtc.shown_version());
        let mut options = vec!["--std=c++17".to_owned()];
        options.extend(common_options(&self.common, places.package));
        let toolkit_includes = toolkit.include_dirs();
        let arguments = options
            .iter()
            .cloned()
            .chain(images.iter().map(|image| image.option()))
            .chain(toolkit_includes.iter().map(|dir| dir.display().to_string()))
            .chain([self.file_name(), env!("CARGO_PKG_VERSION").to_owned()]);
        let key = key(&tool, &[&library], arguments);
        let job = NvrtcJob {
            library,
            name: self.source.display().to_string(),
            options,
            includes: self
                .common
                .includes
                .iter()
                .map(|dir| places.package.join(dir))
                .collect(),
            toolkit_includes,
            images,
            format: self.format,
        };
        self.finish(tool, Action::Nvrtc(job), key, None, places)
    }

    fn nvcc_step(
        &self,
        toolkit: &Toolkit,
        plan: &Plan,
        images: &[Image],
        places: Places<'_>,
        nvcc: NvccSettings<'_>,
    ) -> Result<Step, Error> {
        let output = places.out.join(self.file_name());
        let depfile = places.out.join(format!("{}.d", self.file_name()));
        let mut call = nvcc_call(toolkit, &self.name, nvcc)?;
        call.options.push(match self.format {
            Format::Fatbin => "-fatbin".to_owned(),
            Format::Ptx => "-ptx".to_owned(),
            Format::Cubin => "-cubin".to_owned(),
        });
        match (self.format, images) {
            (Format::Fatbin, _) => call.options.extend(plan.nvcc_gencode()),
            (_, [Image::Real(capability) | Image::Ptx(capability), ..]) => {
                let code = if self.format == Format::Ptx {
                    capability.compute()
                } else {
                    capability.sm()
                };
                call.options.push(format!("-arch={code}"));
            }
            (_, []) => {}
        }
        call.options
            .extend(common_options(&self.common, places.package));
        let key = call.key(&output);
        let tool = call.tool.clone();
        let invocation = call.invocation(&self.source, &output, &depfile, places);
        self.finish(
            tool,
            Action::Program(invocation),
            key,
            Some(depfile),
            places,
        )
    }

    fn finish(
        &self,
        tool: String,
        action: Action,
        key: Vec<String>,
        depfile: Option<std::path::PathBuf>,
        places: Places<'_>,
    ) -> Result<Step, Error> {
        Ok(Step {
            tool,
            source: self.source.clone(),
            action,
            inputs: vec![places.package.join(&self.source)],
            depfile,
            output: places.out.join(self.file_name()),
            key,
        })
    }
}

/// A call of nvcc that is being put together.
pub(super) struct NvccCall {
    pub(super) tool: String,
    nvcc: std::path::PathBuf,
    identities: Vec<std::path::PathBuf>,
    pub(super) options: Vec<String>,
    key: Vec<String>,
}

/// nvcc with what every call of it has in common.
pub(super) fn nvcc_call(
    toolkit: &Toolkit,
    for_what: &str,
    settings: NvccSettings<'_>,
) -> Result<NvccCall, Error> {
    let nvcc = toolkit
        .tool(Component::Nvcc, "nvcc")
        .ok_or_else(|| missing(Component::Nvcc, for_what))?
        .to_owned();
    let version = toolkit
        .get(Component::Nvcc)
        .map(crate::probe::Found::shown_version)
        .unwrap_or_default();
    let own_root = nvcc.parent().and_then(Path::parent).map(Path::to_owned);
    let in_view = settings.view.and_then(View::nvcc);
    let mut options = vec!["-std=c++17".to_owned()];
    if let Some(compiler) = settings.host.and_then(|host| host.option.as_ref()) {
        options.extend(["-ccbin".to_owned(), compiler.display().to_string()]);
    }
    for directory in toolkit.include_dirs() {
        // nvcc's own profile names what lies beside it, in the order it wants.
        let known = in_view.is_some()
            || own_root
                .as_ref()
                .is_some_and(|root| directory.starts_with(root));
        if !known {
            options.extend(["-isystem".to_owned(), directory.display().to_string()]);
        }
    }
    // A wheel can be replaced in place: the compiler proper and its headers are part of the key.
    let mut identities = vec![nvcc.clone()];
    identities.extend(toolkit.tool(Component::Nvvm, "cicc").map(Path::to_owned));
    identities.extend(toolkit.tool(Component::Nvcc, "ptxas").map(Path::to_owned));
    let mut key = settings.variables.to_vec();
    key.extend(settings.host.map(HostCompiler::identity));
    let nvcc = in_view.unwrap_or(nvcc);
    Ok(NvccCall {
        tool: format!("nvcc {version}"),
        nvcc,
        identities,
        options,
        key,
    })
}

impl NvccCall {
    pub(super) fn key(&self, output: &Path) -> Vec<String> {
        let files: Vec<&Path> = self
            .identities
            .iter()
            .map(std::path::PathBuf::as_path)
            .collect();
        let name = output
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        key(
            &self.tool,
            &files,
            self.options
                .iter()
                .cloned()
                .chain(self.key.iter().cloned())
                .chain([name]),
        )
    }

    /// The call; it runs in the package, on a relative path, so that what it writes into its
    /// output does not depend on where the package lies.
    pub(super) fn invocation(
        self,
        source: &Path,
        output: &Path,
        depfile: &Path,
        places: Places<'_>,
    ) -> Invocation {
        let mut invocation = Invocation::new(self.nvcc)
            .args(self.options)
            .args(["-MD", "-MF"]);
        invocation.arguments.push(depfile.into());
        invocation = invocation.args(["-o"]);
        invocation.arguments.extend([output.into(), source.into()]);
        invocation.directory = Some(places.package.to_owned());
        invocation
    }
}

fn missing(component: Component, for_what: &str) -> Error {
    let why = format!("needed to compile `{for_what}`");
    Error::NotFound(Box::new(NotFound::in_toolkit(component, why)))
}
