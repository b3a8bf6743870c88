//! What a package compiles.

use std::path::{Path, PathBuf};

use super::needs;
use crate::compile::{Compiled, Engine, Format, Library, Module, Options, PATTERN_HINT};
use crate::config::Cudart;
use crate::error::Error;
use cuda_find_core::capability::{Capability, PartCapabilities, Plan};
use cuda_find_core::directive::{Directive, Directives};
use cuda_find_core::{root::Root, select::Request, target::Target, version::ToolkitVersion};

/// The beginning of the generated module. It defines `Aligned`, because the driver reads 8-byte integers from fat
/// binaries, and `include_bytes!` alone guarantees only an alignment of one byte.
const MODULES_HEAD: &str = "
/// The compiled modules.
#[allow(unreachable_pub)]
pub mod modules {
    #[allow(dead_code)]
    #[repr(C, align(16))]
    struct Aligned<T: ?Sized>(T);

    /// The code that the module with this name has for a device of compute capability `major.minor`.
    ///
    /// # Errors
    /// `DeviceError` if no code of the module runs on the device.
    ///
    /// # Panics
    /// If the build script has no module with this name.
    #[allow(dead_code)]
    pub fn check_device(
        module: &str,
        major: u32,
        minor: u32,
    ) -> ::core::result::Result<super::Support, super::DeviceError> {
        let mut modules = super::MODULES.iter();
        match modules.find(|(name, _)| *name == module) {
            ::core::option::Option::Some((_, code)) => super::find_code(code, major, minor),
            ::core::option::Option::None => ::core::panic!(\"{}\", ::core::format_args!(\"build.rs has no module `{module}`\")),
        }
    }
";

/// The modules and libraries of a package.
#[derive(Debug, Default)]
pub(super) struct Code {
    pub(super) modules: Vec<Module>,
    pub(super) libraries: Vec<Library>,
    /// The names of modules that are written for other capabilities than those of this build.
    pub(super) left_out: Vec<String>,
    /// The directories in which patterns of [`Build::modules`](super::Build::modules) were searched.
    pub(super) searched: Vec<PathBuf>,
    /// Why the modules that a pattern names are unknown.
    pub(super) wrong_pattern: Option<String>,
}

impl Code {
    pub(super) fn is_empty(&self) -> bool {
        self.modules.is_empty() && self.libraries.is_empty()
    }

    /// The names and options of the parts.
    fn parts(&self) -> impl Iterator<Item = (&str, &Options)> {
        let modules = self.modules.iter().map(|it| (it.name(), &it.options));
        modules.chain(self.libraries.iter().map(|it| (it.name(), &it.options)))
    }

    /// Whether a part names what it is written for.
    pub(super) fn has_capabilities(&self) -> bool {
        let mut parts = self.parts();
        parts.any(|(_, options)| !options.capabilities.is_empty())
    }

    /// Adds to `request` what is needed to compile this code.
    ///
    /// # Errors
    /// [`Error::Find`] if the sources of a library are wrong, for example if a file does not exist.
    pub(super) fn added_to(
        &self,
        mut request: Request,
        cudart: Cudart,
        root: &Root,
        package: &Path,
    ) -> Result<Request, Error> {
        let modules = |engine| {
            (self.modules.iter())
                .filter(|it| it.engine == engine)
                .count()
        };
        let mut nvcc_files = modules(Engine::Nvcc);
        for library in &self.libraries {
            nvcc_files += library.resolve(root, package)?.files.len();
        }
        let (mut needs, mut headers) = (Vec::new(), Vec::new());
        if nvcc_files > 0 {
            let why = format!("needed to compile {}", count(nvcc_files, "source file"));
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
        let automatic = modules(Engine::Auto);
        if automatic > 0 {
            let why = format!("needed to compile {}", count(automatic, "module"));
            request.alternatives = vec![
                vec![needs::nvrtc(&format!("{why}; nvcc can be used instead"))],
                needs::nvcc(&why),
            ];
        }
        if automatic + nvrtc_modules > 0 {
            headers.extend(needs::nvrtc_header_needs());
        }
        for list in request.lists_of_needs() {
            *list = [&needs, list.as_slice(), &headers].concat();
        }
        Ok(request)
    }

    /// Refuses what cannot be compiled for Windows.
    pub(super) fn check_for_windows(&self, target: &Target) -> Result<(), Error> {
        let nvcc = "nvcc needs Microsoft's compiler on Windows, which is not supported";
        let refused = |part: &str, name: &str, reason: &str, hint: &str| {
            let reason = format!("{part} `{name}` cannot be compiled for {target}: {reason}");
            Err(Error::usage(reason, hint))
        };
        if let Some(library) = self.libraries.first() {
            let hint =
                "build in WSL 2, which is Linux, or use modules, which NVRTC compiles on Windows";
            return refused("library", library.name(), nvcc, hint);
        }
        if let Some(module) = self.modules.iter().find(|it| it.engine == Engine::Nvcc) {
            let hint = "remove `.engine(Engine::Nvcc)`: NVRTC then compiles it";
            return refused("module", module.name(), nvcc, hint);
        }
        if let Some(module) = self.modules.first().filter(|_| !target.is_native()) {
            let reason =
                "`long` has 4 bytes on Windows, and 8 in what the compilers of this machine make";
            let hint = "build on Windows, where NVRTC compiles it";
            return refused("module", module.name(), reason, hint);
        }
        Ok(())
    }

    /// Refuses NVRTC in a build for `cross_target`, and two modules or two libraries with the same name, because they
    /// would share a file.
    pub(super) fn check(&self, cross_target: Option<&Target>) -> Result<(), Error> {
        if let Some(reason) = &self.wrong_pattern {
            return Err(Error::usage(reason, PATTERN_HINT));
        }
        for (name, options) in self.parts() {
            options.check_flags(name)?;
        }
        for (index, library) in self.libraries.iter().enumerate() {
            let mut earlier = self.libraries[..index].iter();
            if earlier.any(|earlier| earlier.name() == library.name()) {
                return Err(Error::usage(
                    format!("two libraries are named `{}`", library.name()),
                    "give one of them another name in `Library::new`, or put the sources of both into one",
                ));
            }
        }
        for (index, module) in self.modules.iter().enumerate() {
            let name = module.constant();
            let mut earlier = self.modules[..index].iter();
            if let Some(earlier) = earlier.find(|earlier| earlier.constant() == name) {
                let (earlier, later) = (earlier.source().display(), module.source().display());
                return Err(Error::usage(
                    format!("the modules {earlier} and {later} are both named `{name}`"),
                    "give one of them another name with `Module::named`",
                ));
            }
            if let Some(target) = cross_target.filter(|_| module.engine == Engine::Nvrtc) {
                return Err(Error::usage(
                    format!(
                        "module `{}` is to be compiled by NVRTC, but the build is for {target}, whose NVRTC cannot be \
                         loaded on this machine",
                        module.name()
                    ),
                    "remove `.engine(Engine::Nvrtc)`: nvcc then compiles it",
                ));
            }
        }
        Ok(())
    }

    /// Gives each part that names its capabilities those of `plan` that it covers, and leaves out the parts that cover
    /// none. Returns the names of these parts.
    pub(super) fn assign_capabilities(
        &mut self,
        plan: &Plan,
        toolkit: ToolkitVersion,
        observed: Option<&[Capability]>,
    ) -> Result<Vec<String>, Error> {
        let of_modules = self.modules.iter_mut().map(|module| &mut module.options);
        let libraries = self.libraries.iter_mut();
        let of_libraries = libraries.map(|library| &mut library.options);
        for options in of_modules.chain(of_libraries) {
            if !options.capabilities.is_empty() {
                let part = PartCapabilities::parse(&options.capabilities)?;
                options.plan = part.of_plan(plan, toolkit, observed)?;
            }
        }
        let is_built =
            |options: &Options| options.capabilities.is_empty() || options.plan.is_some();
        let left_out = self.parts().filter(|(_, options)| !is_built(options));
        let left_out: Vec<String> = left_out.map(|(name, _)| name.to_owned()).collect();
        self.modules.retain(|module| {
            let is_built = is_built(&module.options);
            self.left_out
                .extend((!is_built).then(|| module.name().to_owned()));
            is_built
        });
        self.libraries.retain(|library| is_built(&library.options));
        Ok(left_out)
    }

    /// The names of all modules, and the capabilities in their files.
    pub(super) fn plans_of_modules(&self, plan: &Plan) -> Result<Vec<(&str, Plan)>, Error> {
        let built = self.modules.iter();
        let built = built.map(|it| Ok((it.name(), it.plan(plan)?)));
        let left_out = self.left_out.iter();
        let left_out = left_out.map(|name| Ok((name.as_str(), Plan::default())));
        built.chain(left_out).collect()
    }

    /// The names of the parts, for `cfg(cuda_part)`.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts().map(|(name, _)| name)
    }

    /// The part of the generated source that defines a constant for each module. In a skipped build, every module is
    /// empty.
    pub(super) fn modules_source(&self, skipped: bool) -> String {
        let mut source = String::from(MODULES_HEAD);
        for module in &self.modules {
            let constant = module.constant();
            let shown = module.source().display();
            // `{file:?}` writes a Rust string literal with escapes, because a file may be named `a"b.cu`.
            let file = format!("/{}", module.file_name());
            let path = format!("concat!(env!(\"OUT_DIR\"), {file:?})");
            source.push_str(&format!(
                "\n    /// `{shown}`, compiled.\n    #[allow(dead_code)]\n"
            ));
            source.push_str(&match module.format {
                Format::Ptx if skipped => format!("    pub static {constant}: &str = \"\";\n"),
                Format::Ptx => format!("    pub static {constant}: &str = include_str!({path});\n"),
                // The slice is empty, but the driver gets only its address, and must be able to read a header there.
                _ if skipped => format!(
                    "    pub static {constant}: &[u8] = {{\n        static CODE: Aligned<[u8; 64]> = \
                     Aligned([0; 64]);\n        CODE.0.split_at(0).0\n    }};\n"
                ),
                _ => format!(
                    "    pub static {constant}: &[u8] = {{\n        static CODE: &Aligned<[u8]> = \
                     &Aligned(*include_bytes!({path}));\n        &CODE.0\n    }};\n"
                ),
            });
        }
        source.push_str("}\n");
        source
    }
}

/// Reports compiler warnings, and why some outputs are never up to date.
pub(super) fn report(compiled: &Compiled, directives: &mut Directives) {
    for message in &compiled.warnings {
        directives.warn_lines(message);
    }
    for (output, reason) in &compiled.never_fresh {
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        directives.push(Directive::Remark(format!(
            "{name} is compiled whenever this script runs: {reason}"
        )));
    }
}

fn count(number: usize, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}
