//! Device code alone, and the step that makes it.

use std::path::{Path, PathBuf};

use super::nvcc::{Nvcc, missing};
use super::options::{Options, common_options};
use super::step::{Form, Image, Settings, Step, StepCommand, reading};
use crate::error::Error;
use crate::includes::options;
use cuda_find_core::capability::{Capability, Plan};
use cuda_find_core::component::Component;
use cuda_find_core::toolkit::Toolkit;

/// The compiler of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Engine {
    /// NVRTC if the toolkit has it, otherwise nvcc.
    #[default]
    Auto,
    /// NVRTC, loaded into this process: several times faster than nvcc, and without a host compiler.
    Nvrtc,
    /// nvcc: for sources that include the C++ standard library or system headers.
    Nvcc,
}

/// The file that a module is compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// Code for all declared capabilities in one file.
    #[default]
    Fatbin,
    /// PTX for the lowest capability, without `a` or `f`, which the driver compiles for every newer GPU.
    Ptx,
    /// SASS for one capability.
    Cubin,
}

impl Format {
    /// The file extension.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Fatbin => "fatbin",
            Self::Ptx => "ptx",
            Self::Cubin => "cubin",
        }
    }
}

/// Device code: one `.cu` file that becomes one file in `OUT_DIR`.
///
/// ```
/// use cuda_build::{Engine, Module};
/// let module = Module::new("kernels/saxpy.cu").engine(Engine::Nvrtc).define("BLOCK", "256");
/// assert_eq!(module.name(), "saxpy");
/// let module = Module::new("kernels/scan.cu")
///     .named("scan_fast")
///     .includes(["include", "third_party/include"])
///     .define("CHECKED", None)
///     .std("c++20")
///     .flag("--use_fast_math")
///     .lineinfo(true)
///     .debug(false);
/// assert_eq!(module.name(), "scan_fast");
/// ```
#[derive(Clone, Debug)]
pub struct Module {
    name: String,
    source: PathBuf,
    pub(crate) engine: Engine,
    pub(crate) format: Format,
    pub(crate) options: Options,
}

impl Module {
    /// A module with the name of its source, without the extension.
    pub fn new(source: impl Into<PathBuf>) -> Self {
        let source = source.into();
        let name = source
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Self {
            name,
            source,
            engine: Engine::default(),
            format: Format::default(),
            options: Options::default(),
        }
    }

    /// Sets the name. The output file is called `<name>.fatbin`, and the constant in the generated
    /// Rust source is called `<NAME>`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the compiler.
    #[must_use]
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Sets the format of the output.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    common_options!();

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The source, as the build script named it.
    #[must_use]
    pub fn source(&self) -> &PathBuf {
        &self.source
    }

    /// The same module for another source, named after that source.
    pub(crate) fn with_source(&self, source: PathBuf) -> Self {
        let Self { name, source, .. } = Self::new(source);
        Self {
            name,
            source,
            ..self.clone()
        }
    }

    /// The name of its constant in the generated source: `saxpy-2` gives `SAXPY_2`.
    pub(crate) fn constant(&self) -> String {
        let letter = |c: char| match c {
            // An upper-case letter of another alphabet is a warning of rustc, or not allowed in a name.
            c if c.is_ascii_alphanumeric() => c.to_ascii_uppercase(),
            _ => '_',
        };
        let constant: String = self.name.chars().map(letter).collect();
        if constant == "_" || constant.starts_with(|c: char| c.is_ascii_digit()) {
            format!("_{constant}")
        } else {
            constant
        }
    }

    pub(crate) fn file_name(&self) -> String {
        format!("{}.{}", self.name, self.format.extension())
    }

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
    /// [`cuda_find_core::error::Error::Capability`] if the format holds code for one capability and the plan does not
    /// have exactly one; [`cuda_find_core::error::Error::NotFound`] if the toolkit lacks the engine.
    pub(crate) fn step(&self, settings: &Settings<'_>) -> Result<Step, Error> {
        let mut step = self.unlimited_step(settings)?;
        step.limit = self.options.jobs.map(|jobs| (self.name.clone(), jobs));
        Ok(step)
    }

    fn unlimited_step(&self, settings: &Settings<'_>) -> Result<Step, Error> {
        let images = Image::of_plan(&self.plan(settings.plan)?);
        let form = match self.format {
            Format::Fatbin => Form::Fatbin,
            Format::Ptx | Format::Cubin => Form::Single,
        };
        if self.engine_for(settings.toolkit) == Engine::Nvrtc {
            return self.nvrtc_step(images, form, settings);
        }
        let nvcc = Nvcc::new(&self.name, settings)?;
        let variables = &settings.nvcc.options;
        let options = (self.options).arguments(Path::new(""), variables, Vec::new());
        let output = settings.out.join(self.file_name());
        Ok(nvcc.step(&self.source, options, (images, form), output))
    }

    /// The capabilities in the module's file, in a build for `whole`.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Capability`] if the file holds code for one capability, and there are several.
    pub(crate) fn plan(&self, whole: &Plan) -> Result<Plan, Error> {
        let plan = self.options.plan(whole);
        match (self.format, plan.real.as_slice()) {
            (Format::Fatbin, _) => Ok(plan.clone()),
            (Format::Ptx, _) => Ok(Plan {
                real: Vec::new(),
                ptx: plan.lowest().map(Capability::base).into_iter().collect(),
            }),
            (Format::Cubin, [one]) => Ok(Plan {
                real: vec![*one],
                ptx: Vec::new(),
            }),
            (Format::Cubin, real) => Err(cuda_find_core::error::Error::Capability {
                reason: format!(
                    "module `{}` becomes a .cubin file, which holds SASS for one capability; the build is for {}",
                    self.name,
                    real.len()
                ),
                hint: "write `.capabilities([\"9.0\"])`, or use the fatbin format".to_owned(),
            }
            .into()),
        }
    }

    fn nvrtc_step(
        &self,
        images: Vec<Image>,
        form: Form,
        settings: &Settings<'_>,
    ) -> Result<Step, Error> {
        let found = settings.toolkit.get(Component::Nvrtc);
        let library = found.and_then(|nvrtc| Some((nvrtc, nvrtc.libraries.first()?)));
        let (nvrtc, library) = library.ok_or_else(|| missing(Component::Nvrtc, &self.name))?;
        let tool = format!("NVRTC {}", nvrtc.shown_version());
        // The path from NVRTC's working directory to the package.
        let prefix = match settings.working == settings.package {
            true => Path::new(""),
            false => settings.package,
        };
        let options_of_module = (self.options).arguments(prefix, &[], Vec::new());
        let toolkit_includes = settings.toolkit.include_dirs();
        let mut options = vec![CCCL_UNROLLING.to_owned()];
        options.extend(options_of_module.iter().cloned());
        let includes = toolkit_includes.iter();
        options.extend(includes.map(|dir| format!("-I{}", dir.display())));
        let understood = options::read(options_of_module.iter().map(String::as_str));
        Ok(Step {
            tool,
            command: StepCommand::Nvrtc {
                library: library.clone(),
                name: prefix.join(&self.source).display().to_string(),
            },
            identity: settings.compilers.nvrtc.clone(),
            directory: settings.working.to_owned(),
            source: self.source.clone(),
            options,
            images,
            form,
            inputs: vec![settings.package.join(&self.source)],
            output: settings.out.join(self.file_name()),
            variables: settings.nvrtc.clone(),
            reading: reading(understood, settings.working, toolkit_includes),
            limit: None,
        })
    }
}

/// How far CCCL 2.8 and newer unroll lists of types: 10 with nvcc, but 16 with NVRTC, whose time for
/// `cuda/std/limits` grows from 0.1 to 0.9 seconds by that. With 10, NVRTC makes the same device code. This is the
/// first option, so that a definition of the user replaces it.
const CCCL_UNROLLING: &str = "-D_CCCL_META_UNROLL_LIMIT=10";

impl<T: Into<PathBuf>> From<T> for Module {
    fn from(source: T) -> Self {
        Self::new(source)
    }
}

#[cfg(test)]
mod tests {
    use super::Module;

    #[test]
    fn constants_are_valid_names_in_upper_case() {
        for (source, expected) in [
            ("kernels/saxpy-2.cu", "SAXPY_2"),
            ("2d.cu", "_2D"),
            ("größe.cu", "GR__E"),
            ("_.cu", "__"),
        ] {
            assert_eq!(Module::new(source).constant(), expected);
        }
    }
}
