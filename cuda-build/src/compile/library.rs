//! A static library, and the steps that make it: one for each file, and the archive.

use std::path::{Path, PathBuf};

use super::nvcc::Nvcc;
use super::options::{Options, common_options, host_option};
use super::sources::{Source, Sources, has_ending};
use super::step::{Form, Image, Settings, Step};
use crate::error::Error;
use cuda_find_core::{hash::Hasher, link, root::Root};

/// The optimization of host code.
const DEFAULT_OPT_LEVEL: u32 = 3;

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
///     .file("prebuilt/table.o")
///     .includes(["include", "third_party/include"])
///     .debug(true)
///     .opt_level(1);
/// ```
///
/// nvcc compiles CUDA (`.cu`), and calls its host compiler alone for C (`.c`) and C++ (`.cpp`, `.cc`, `.cxx`), which
/// may include the toolkit's headers. Objects (`.o`), which must be position-independent (`-fPIC`), go into the
/// archive.
///
/// # Debugging and optimization
///
/// Sources are compiled in the same way in every profile, so that all profiles use the same outputs: host and device
/// code optimized (`-O3`), without debug information. [`Library::debug`] and [`Library::opt_level`] change that.
///
/// The C++ runtime of the host compiler is linked: `stdc++` for gcc, and for clang what it uses. The variable `CXXSTDLIB`
/// or [`Library::cpp_link_stdlib`] chooses another one.
#[derive(Clone, Debug)]
pub struct Library {
    name: String,
    sources: Vec<Source>,
    pub(crate) options: Options,
    pub(super) opt_level: Option<u32>,
    pub(crate) host_flags: Vec<String>,
    pub(crate) cpp_runtime: CppRuntime,
    rdc: bool,
}

/// Which C++ runtime is linked with a library.
#[derive(Clone, Debug, Default)]
pub(crate) enum CppRuntime {
    /// That of the host compiler, or of `CXXSTDLIB`.
    #[default]
    OfCompiler,
    Named(String),
    None,
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
            cpp_runtime: CppRuntime::default(),
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
    pub fn files(self, sources: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        sources.into_iter().fold(self, Self::file)
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

    common_options!();

    /// Passes an option to the host compiler unchanged, (`-Xcompiler`):
    /// `host_flag("-fopenmp")`.
    #[must_use]
    pub fn host_flag(mut self, flag: impl Into<String>) -> Self {
        self.host_flags.push(flag.into());
        self
    }

    /// Chooses the C++ runtime that is linked, as the method of the `cc` crate: `"c++"`, `"static=stdc++"`; with `None`,
    /// none is linked. Without this method, it is the one in the variable `CXXSTDLIB`, otherwise that of the host compiler.
    #[must_use]
    pub fn cpp_link_stdlib<'a>(mut self, name: impl Into<Option<&'a str>>) -> Self {
        self.cpp_runtime = match name.into() {
            Some(name) => CppRuntime::Named(name.to_owned()),
            None => CppRuntime::None,
        };
        self
    }

    /// With `true`, device code in one source can use functions and variables of another
    /// (relocatable device code, `-rdc=true`). nvcc then also links the device code, and the crate links `cudadevrt`.
    /// Device code is linked within this library: what its kernels call has to be in its sources, and a source can be
    /// in one such library of a program only. If a capability is added, all sources are compiled again for all
    /// capabilities.
    #[must_use]
    pub fn rdc(mut self, rdc: bool) -> Self {
        self.rdc = rdc;
        self
    }

    /// Sets the optimization of host code, `0` to `3`.
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

    /// The files to compile.
    ///
    /// # Errors
    /// As [`Sources::resolve`].
    pub(crate) fn resolve(&self, root: &Root, package: &Path) -> Result<Sources, Error> {
        Sources::resolve(
            &self.name,
            &self.sources,
            &self.options.excluded,
            root,
            package,
        )
    }

    /// The steps, in the order in which they have to run.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::NotFound`] if the toolkit has no nvcc.
    pub(crate) fn steps(
        &self,
        sources: &Sources,
        settings: &Settings<'_>,
    ) -> Result<Vec<Step>, Error> {
        let images = Image::of_plan(self.options.plan(settings.plan));
        let nvcc = Nvcc::new(&self.name, settings)?;
        let mut options = self.host_options(settings);
        if self.rdc {
            options.push("-rdc=true".to_owned());
        }
        let given = &settings.nvcc.options;
        let options = (self.options).arguments(Path::new(""), given, options);
        let mut steps = Vec::new();
        let mut objects = Vec::new();
        for source in &sources.files {
            if has_ending(source, "o") {
                objects.push(settings.package.join(source));
                continue;
            }
            let object = settings.out.join(self.object_name(source));
            objects.push(object.clone());
            let (mut images, mut options) = (images.clone(), options.clone());
            if !has_ending(source, "cu") {
                // nvcc defines `__CUDA_ARCH_LIST__` for them, too.
                options.extend(images.drain(..).map(Image::nvcc_option));
            }
            steps.push(nvcc.step(source, options, (images, Form::Object), object));
        }
        for step in &mut steps {
            step.limit = self.options.jobs.map(|jobs| (self.name.clone(), jobs));
        }
        let first = sources.files.first().cloned().unwrap_or_default();
        if self.rdc {
            let images = images.into_iter();
            let mut options: Vec<String> = images.map(Image::nvcc_option).collect();
            options.extend(["-dlink", "--compiler-options=-fPIC"].map(str::to_owned));
            let archive = link::device_runtime(settings.toolkit);
            if let Some(directory) = archive.and_then(|archive| archive.parent()) {
                options.push(format!("-L{}", directory.display()));
            }
            let linked = settings.out.join(format!("{}.device-link.o", self.name));
            let objects_to_link = objects.clone();
            steps.push(nvcc.join_objects(options, objects_to_link, first.clone(), linked.clone()));
            objects.push(linked);
        }
        // nvcc calls the host's archiver.
        let archive = settings.out.join(format!("lib{}.a", self.name));
        steps.push(nvcc.join_objects(vec!["-lib".to_owned()], objects, first, archive));
        Ok(steps)
    }

    /// nvcc's options for host code.
    fn host_options(&self, settings: &Settings<'_>) -> Vec<String> {
        let mut options = vec!["--compiler-options=-fPIC".to_owned()];
        if self.options.debug {
            options.push("-g".to_owned());
        }
        let variables = &settings.nvcc.options;
        let is_set =
            self.opt_level.is_none() && self.options.has_flag(&["-O", "--optimize"], variables);
        if !is_set {
            options.push(format!("-O{}", self.opt_level.unwrap_or(DEFAULT_OPT_LEVEL)));
        }
        options.extend(self.host_flags.iter().map(|flag| host_option(flag)));
        options
    }

    /// `gpu-a-b.1f0c5d3e.o`: readable, and different for `a/b.cu`, `a-b.cu` and `a/b.cpp`.
    pub(super) fn object_name(&self, source: &Path) -> String {
        let mut digest = Hasher::default();
        digest.field(self.name.as_bytes());
        digest.field(source.as_os_str().as_encoded_bytes());
        let text = source.with_extension("");
        let text = text.to_string_lossy().replace(['/', '\\'], "-");
        let name = text.trim_start_matches(['.', '-']);
        format!("{}-{name}.{}.o", self.name, &digest.digest().short()[..8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_its_own_object() {
        let sources = ["a/b.cu", "a-b.cu", "a/b.cpp", "../a/b.cu", "./a/b.cu"];
        let mut names: Vec<String> = sources
            .iter()
            .map(|source| Library::new("x").object_name(Path::new(source)))
            .collect();
        names.push(Library::new("x-a").object_name(Path::new("b.cu")));
        assert!(names[0].starts_with("x-a-b."), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 6);
    }
}
