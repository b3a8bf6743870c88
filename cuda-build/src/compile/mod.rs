//! Compiles modules and libraries: the steps for each, and the runner of these steps.
//!
//! A *module* is device code alone, loaded through the driver API; a *library* is host and
//! device code, linked into the crate. A [`Step`] only describes what to do; [`Runner`] does it.

mod depfile;
mod execute;
pub(crate) mod identity;
mod images;
mod joining;
mod kept;
mod library;
mod module;
mod reads;
mod run;
mod step;
mod workers;

use std::path::PathBuf;

pub use joining::Joining;
pub(crate) use module::{Places, Settings};
pub use run::{Compiled, MadeOutput, Runner};
pub(crate) use step::ReadFiles;
pub use step::{Action, Compiler, DeviceCode, Form, Image, NvrtcJob, Step};
pub use workers::Workers;

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
    /// PTX for the one declared virtual architecture.
    Ptx,
    /// SASS for the one declared real architecture.
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

/// Options that modules and libraries share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Common {
    pub(crate) includes: Vec<PathBuf>,
    pub(crate) defines: Vec<(String, Option<String>)>,
    pub(crate) options: Vec<String>,
}

/// The methods that modules and libraries have in common.
macro_rules! common_options {
    () => {
        /// Adds a directory, relative to the package, to those that are searched for headers.
        #[must_use]
        pub fn include(mut self, directory: impl Into<PathBuf>) -> Self {
            self.common.includes.push(directory.into());
            self
        }

        /// Defines a macro with a value.
        #[must_use]
        pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.common.defines.push((name.into(), Some(value.into())));
            self
        }

        /// Passes an option to the compiler unchanged.
        #[must_use]
        pub fn option(mut self, option: impl Into<String>) -> Self {
            self.common.options.push(option.into());
            self
        }
    };
}

/// Device code: one `.cu` file that becomes one file in `OUT_DIR`.
///
/// ```
/// use cuda_build::{Engine, Module};
/// let module = Module::new("kernels/saxpy.cu").engine(Engine::Nvrtc).define("BLOCK", "256");
/// assert_eq!(module.name(), "saxpy");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    name: String,
    source: PathBuf,
    engine: Engine,
    format: Format,
    common: Common,
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
            common: Common::default(),
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

    /// The name of its constant in the generated source: `saxpy-2` gives `SAXPY_2`.
    pub(crate) fn constant(&self) -> String {
        let letter = |c: char| match c {
            c if c.is_alphabetic() || c.is_ascii_digit() => c.to_ascii_uppercase(),
            _ => '_',
        };
        let constant: String = self.name.chars().map(letter).collect();
        if constant.starts_with(|c: char| c.is_ascii_digit()) {
            format!("_{constant}")
        } else {
            constant
        }
    }

    pub(crate) fn wanted_engine(&self) -> Engine {
        self.engine
    }

    pub(crate) fn wanted_format(&self) -> Format {
        self.format
    }

    pub(crate) fn file_name(&self) -> String {
        format!("{}.{}", self.name, self.format.extension())
    }
}

/// Host and device code: `.cu` files that become one static library, linked into the crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    name: String,
    sources: Vec<PathBuf>,
    common: Common,
}

impl Library {
    /// A library without sources; its output is `lib<name>.a`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            sources: Vec::new(),
            common: Common::default(),
        }
    }

    /// Adds a `.cu` file, relative to the package.
    #[must_use]
    pub fn file(mut self, source: impl Into<PathBuf>) -> Self {
        self.sources.push(source.into());
        self
    }

    common_options!();

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sources, as the build script named them.
    #[must_use]
    pub fn sources(&self) -> &[PathBuf] {
        &self.sources
    }
}
