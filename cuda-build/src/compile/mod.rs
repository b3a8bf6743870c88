//! Compiles modules and libraries: the steps for each, and the runner of these steps.
//!
//! A *module* is device code alone, loaded through the driver API; a *library* is host and
//! device code, linked into the crate. A [`Step`] only describes what to do; [`Runner`] does it.

mod compiled;
mod depfile;
mod diagnostics;
mod execute;
#[cfg(feature = "host-sources")]
mod host_source;
pub(crate) mod identity;
mod images;
mod joining;
mod kept;
pub(crate) mod launcher;
mod library;
mod module;
mod options;
mod reads;
mod run;
mod run_directory;
mod sources;
mod step;
mod supported;
mod workers;

use std::path::PathBuf;

pub use compiled::{Compiled, MadeOutput};
pub(crate) use diagnostics::{Diagnostics, module_hint};
pub use joining::Joining;
pub(crate) use launcher::Launching;
pub use launcher::{Launcher, is_sccache, report as launcher_report};
pub(crate) use module::{Places, Settings};
pub(crate) use options::{Common, Profile};
use options::{Flag, Options, common_options};
pub use run::Runner;
use sources::Source;
pub(crate) use sources::Sources;
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
///     .flag_if_supported("--extra-device-vectorization")
///     .lineinfo(true)
///     .debug(false);
/// assert_eq!(module.name(), "scan_fast");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    name: String,
    source: PathBuf,
    engine: Engine,
    format: Format,
    options: Options,
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

    /// Compiles for a debugger (`-G`): device code without optimization, many times slower. The default is
    /// `false`, whatever Cargo's profile says.
    #[must_use]
    pub fn debug(mut self, debug: bool) -> Self {
        self.options.debug = Some(debug);
        self
    }

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

    /// The same module, compiled by nvcc unless an engine was chosen. A cross build has the target's NVRTC, which cannot
    /// be loaded here.
    pub(crate) fn without_nvrtc(mut self) -> Self {
        if self.engine == Engine::Auto {
            self.engine = Engine::Nvcc;
        }
        self
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

/// Host and device code that becomes one static library, linked into the crate.
///
/// ```
/// use cuda_build::Library;
/// let library = Library::new("solver")
///     .glob("kernels/**/*.cu")
///     .file("src/launch.cu")
///     .include("include")
///     .define("BLOCK", "256")
///     .std("c++20")
///     .flag("--use_fast_math")
///     .host_flag("-fopenmp");
/// assert_eq!(library.name(), "solver");
///
/// let library = Library::new("debugged")
///     .files(["kernels/a.cu", "kernels/b.cu"])
///     .object("prebuilt/table.o")
///     .includes(["include", "third_party/include"])
///     .flag_if_supported("-Xptxas=-v")
///     .debug(true)
///     .opt_level(1);
/// ```
///
/// nvcc compiles files that end in `.cu`. With the feature `host-sources`, a library may contain C (`.c`)
/// and C++ (`.cpp`, `.cc`, `.cxx`), which may include the toolkit's headers. The `cc` crate chooses the
/// compiler for them, with its usual flags (`-Wall -Wextra`) and those in `CXXFLAGS`, `CFLAGS` and the
/// like. Objects (`.o`) go into the archive.
///
/// # Debugging and optimization
///
/// Host code follows Cargo's profile, as with the `cc` crate: `-O0 -g` in `dev`, `-O3` in `release`.
/// Device code is optimized in every profile, as nvcc does by default, because unoptimized kernels are
/// many times slower, and because all profiles can then use the same device code. [`Library::debug`]
/// turns this off.
///
/// # The C++ standard library
///
/// It is linked (`stdc++`). The variable `CXXSTDLIB` names another one, as for the `cc` crate; if it is
/// empty, none is linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    name: String,
    sources: Vec<Source>,
    options: Options,
    opt_level: Option<u32>,
    host_flags: Vec<String>,
    rdc: bool,
}

impl Library {
    /// A library without sources; its output is `lib<name>.a`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            sources: Vec::new(),
            options: Options::default(),
            opt_level: None,
            host_flags: Vec::new(),
            rdc: false,
        }
    }

    /// Adds a source, relative to the package: `file("kernels/a.cu")`.
    #[must_use]
    pub fn file(mut self, source: impl Into<PathBuf>) -> Self {
        self.sources.push(Source::File(source.into()));
        self
    }

    /// Adds several sources: `files(["kernels/a.cu", "kernels/b.cu"])`.
    #[must_use]
    pub fn files(mut self, sources: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let files = sources
            .into_iter()
            .map(|source| Source::File(source.into()));
        self.sources.extend(files);
        self
    }

    /// Adds the sources that match a pattern, sorted: `glob("kernels/*.cu")`, `glob("src/**/*.cu")`.
    ///
    /// `*` stands for any part of one name, and `**` for any number of directories. Hidden files, links to
    /// directories and Cargo's target directory are not searched. A pattern that matches nothing is an
    /// error of [`Build::run`](crate::Build::run). A new file that matches is compiled by the next build.
    #[must_use]
    pub fn glob(mut self, pattern: impl Into<String>) -> Self {
        self.sources.push(Source::Glob(pattern.into()));
        self
    }

    /// Adds an object file that is already compiled: `object(out.join("table.o"))`. It goes into the archive, and
    /// must be position-independent (`-fPIC`).
    #[must_use]
    pub fn object(self, object: impl Into<PathBuf>) -> Self {
        self.file(object)
    }

    common_options!();

    /// Passes an option to the host compiler unchanged, for the host code of `.cu` files (`-Xcompiler`) and
    /// for C and C++: `host_flag("-fopenmp")`.
    #[must_use]
    pub fn host_flag(mut self, flag: impl Into<String>) -> Self {
        self.host_flags.push(flag.into());
        self
    }

    /// With `true`, device code in one source can use functions and variables of another
    /// (relocatable device code, `-rdc=true`). nvcc then also links the device code, and the crate
    /// links `cudadevrt`. If a capability is added, all sources are compiled again for all capabilities.
    #[must_use]
    pub fn rdc(mut self, rdc: bool) -> Self {
        self.rdc = rdc;
        self
    }

    /// With `true`, compiles for debuggers: host code with `-g`, device code with `-G`, which turns off its
    /// optimization. With `false`, nothing gets debug information. By default, Cargo's profile (`debug = …`)
    /// decides whether host code gets debug information, and device code gets none.
    #[must_use]
    pub fn debug(mut self, debug: bool) -> Self {
        self.options.debug = Some(debug);
        self
    }

    /// Sets the optimization of host code, `0` to `3`, instead of the level of Cargo's profile.
    #[must_use]
    pub fn opt_level(mut self, level: u32) -> Self {
        self.opt_level = Some(level);
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether device code is linked.
    pub(crate) fn has_device_link(&self) -> bool {
        self.rdc
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
