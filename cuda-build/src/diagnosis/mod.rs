//! What the messages of a failed build mean: what the toolkit lacks or does not fit, and what to do.
//!
//! `messages` reads what tools print. Here, that is compared with the files of the toolkit and with the tables, which
//! have the releases of everything that does not exist in all of them. The result is one hint, or none: a hint is
//! printed only if a build that follows it ends otherwise.

mod messages;
#[cfg(test)]
mod tests;
mod tools;

use std::path::{Path, PathBuf};

use cuda_find_core::capability::Declared;
use cuda_find_core::component::Component;
use cuda_find_core::error::Error as FindError;
use cuda_find_core::release::{self, CLibrary, is_nvcc_packaged, source_of_nvcc};
use cuda_find_core::select::RequestedRelease;
use cuda_find_core::toolkit::Toolkit;
use cuda_find_core::version::ToolkitVersion;
use cuda_find_core::{env::Env, root::Root, target::Target};

use self::messages::{Kind, lacks, read};
use crate::host_compiler::{self, Compiler};

/// A build that has failed.
pub struct FailedBuild<'a> {
    /// What the tools printed, without colours.
    pub messages: &'a str,
    /// The toolkit that the build used.
    pub toolkit: &'a Toolkit,
    /// The platform that the build was for.
    pub target: &'a Target,
    /// The variables of the build.
    pub env: &'a Env,
    /// The file system.
    pub root: &'a Root,
    /// What has printed the messages.
    pub origin: Origin<'a>,
}

/// What has printed the messages of a failed build.
pub enum Origin<'a> {
    /// A compiler that this crate has started.
    Compiler,
    /// A command of cargo that `cargo cuda` has started.
    Cargo(CargoBuild<'a>),
}

/// What `cargo cuda` knows about a failed build.
pub struct CargoBuild<'a> {
    /// The command that does the same and also fetches what is missing; `None` if this one fetches.
    pub fetching_command: Option<String>,
    /// The directory of headers in the view of the build.
    pub include: PathBuf,
    /// Whether the workspace declares capabilities.
    pub declares_capabilities: bool,
    /// Whether this machine has a driver.
    pub has_driver: bool,
    /// The names of the crates in the build that are procedural macros.
    pub macros: Vec<String>,
    /// The newest CUDA release that every cudarc in the build supports.
    pub cudarc: Option<ToolkitVersion>,
    /// Whether a library exports a symbol.
    pub exports: &'a dyn Fn(&Path, &str) -> bool,
    /// The release that has added a symbol to a component, if that is known.
    pub added: &'a dyn Fn(Component, &str) -> Option<ToolkitVersion>,
}

/// What the messages of a failed build mean.
#[derive(Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// The components that the build needs and the toolkit lacks, each with the reason.
    pub missing: Vec<(Component, String)>,
    /// What to do.
    pub hint: Option<String>,
}

/// What follows from one message.
enum Conclusion {
    Missing(Component, String),
    Hint(String),
}

impl FailedBuild<'_> {
    /// Compares the messages with the toolkit.
    pub fn diagnose(&self) -> Diagnosis {
        let words: Vec<&str> = self.messages.split_whitespace().collect();
        let text = words.join(" ");
        let mut diagnosis = Diagnosis::default();
        let facts = read(&text);
        for (kind, name) in facts.iter().copied() {
            match self.conclude(kind, name) {
                Some(Conclusion::Missing(component, reason)) => {
                    let mut missing = diagnosis.missing.iter();
                    if !missing.any(|(other, _)| *other == component) {
                        diagnosis.missing.push((component, reason));
                    }
                }
                Some(Conclusion::Hint(hint)) => _ = diagnosis.hint.get_or_insert(hint),
                None => {}
            }
        }
        if !diagnosis.missing.is_empty() {
            let is_of_host = |(kind, name): &(Kind, &str)| {
                *kind == Kind::HostHeader && Component::of_header(name).is_some()
            };
            diagnosis.hint = self.how_to_add(&diagnosis.missing, facts.iter().any(is_of_host));
        }
        diagnosis.hint = diagnosis
            .hint
            .or_else(|| self.in_own_words())
            .or_else(|| tools::missing(&text, self.env, self.root));
        diagnosis
    }

    fn conclude(&self, kind: Kind, name: &str) -> Option<Conclusion> {
        let hint = match kind {
            Kind::Header | Kind::HostHeader => return self.header(name),
            Kind::Library => return self.library(name),
            Kind::Loaded => return self.loaded(name),
            Kind::CmakeTarget => return self.library(library_of_cmake_target(name)),
            Kind::Package => return self.package(name),
            Kind::DeviceLink => {
                "the object has relocatable device code (`-rdc=true`, `-dc`): link it with `nvcc -dlink`, and link the \
                 result too"
                    .to_owned()
            }
            Kind::Function => return self.function(name),
            Kind::Architecture => self.architecture(name)?,
            Kind::Declaration => self.declaration()?,
            Kind::HostCompiler => self.host_compiler()?,
            Kind::Nvcc => self.nvcc()?,
            Kind::CudarcRelease => self.cudarc()?,
            Kind::Opened => return self.opened(name),
            Kind::Char8 => self.headers_of_gcc()?,
            Kind::Crate => self.macro_crate(name)?,
        };
        Some(Conclusion::Hint(hint))
    }

    fn cargo(&self) -> Option<&CargoBuild<'_>> {
        match &self.origin {
            Origin::Compiler => None,
            Origin::Cargo(build) => Some(build),
        }
    }

    fn version(&self) -> ToolkitVersion {
        self.toolkit.version()
    }

    /// The component is missing if the toolkit does not have it, and a package has it.
    fn missing(&self, component: Component, reason: String) -> Option<Conclusion> {
        let facts = component.facts();
        let has_package = facts.package(self.version().major).is_some();
        has_package.then_some(Conclusion::Missing(component, reason))
    }

    fn header(&self, name: &str) -> Option<Conclusion> {
        let component = Component::of_header(name)?;
        if let Some(hint) = self.removed(component, name) {
            return Some(Conclusion::Hint(hint));
        }
        if self.toolkit.get(component).is_none() {
            return self.missing(component, format!("`{name}` is missing"));
        }
        // A compiler that this crate starts searches the directories of the toolkit.
        let view = self.cargo()?.include.parent()?;
        let mut directories = ["include", "include/cccl"].into_iter();
        let include = directories.find(|it| self.root.is_file(&view.join(it).join(name)))?;
        Some(Conclusion::Hint(format!(
            "`{name}` is in the toolkit: give the compiler `-I` with the directory `{include}` below `$CUDA_HOME`, or \
             set `CPATH={}`",
            view.join(include).display()
        )))
    }

    fn library(&self, name: &str) -> Option<Conclusion> {
        let archive = format!("lib{name}.a");
        let mut all = Component::all().map(Component::facts);
        let facts = all.find(|facts| {
            facts.libraries.contains(&name) || facts.archives.contains(&archive.as_str())
        })?;
        let component = facts.component;
        // The view has stubs of the driver's libraries, and `-lOpenCL` links the system's library.
        if facts.is_driver() || ORDINARY_NAMES.contains(&component) {
            return None;
        }
        if let Some(hint) = self.removed(component, name) {
            return Some(Conclusion::Hint(hint));
        }
        let found = self.toolkit.get(component);
        let is_archive = !facts.libraries.contains(&name);
        if is_archive && !facts.libraries.is_empty() {
            let has_archive = found.is_some_and(|found| found.archive(&archive).is_some());
            return (!has_archive).then(|| {
                Conclusion::Hint(format!(
                    "this CUDA {} has no {archive}, as all Python packages of CUDA: enable the crate's feature for \
                     dynamic linking, or name a toolkit of NVIDIA's installer in `CUDA_BUILD_ROOTS`",
                    self.version()
                ))
            });
        }
        let has_file = found
            .is_some_and(|found| !found.libraries.is_empty() || found.archive(&archive).is_some());
        match has_file {
            true => None,
            false => self.missing(component, format!("the build links {name}")),
        }
    }

    fn loaded(&self, file_name: &str) -> Option<Conclusion> {
        let components = self.toolkit.components().iter();
        let libraries = components.flat_map(|it| &it.libraries);
        let mut found = libraries.filter(|path| path.ends_with(file_name));
        let name = file_name.strip_prefix("lib")?.split(".so").next()?;
        match found.next().and_then(|path| path.parent()) {
            Some(directory) => Some(Conclusion::Hint(format!(
                "{file_name} is in the toolkit: set `LD_LIBRARY_PATH={}`",
                directory.display()
            ))),
            None => self.library(name),
        }
    }

    /// A library that a build script or a macro opens by name, while it is built.
    fn opened(&self, name: &str) -> Option<Conclusion> {
        if name != "cuda" {
            return match self.library(name)? {
                Conclusion::Missing(component, _) => {
                    self.missing(component, format!("the build loads {name}"))
                }
                hint => Some(hint),
            };
        }
        let is_without_driver = self.cargo().is_some_and(|build| !build.has_driver);
        is_without_driver.then(|| Conclusion::Hint(
            "the build uses the GPU through NVIDIA's driver (libcuda.so), which this machine does not have: build where \
             it is installed, or enable a feature of the crate that compiles without it"
                .to_owned(),
        ))
    }

    /// The headers of a gcc that is newer than nvcc knows, if a compiler was named or the check was turned off.
    fn headers_of_gcc(&self) -> Option<String> {
        let (_, rest) = self.messages.split_once("/c++/")?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        let gcc: u32 = digits.parse().ok()?;
        let newest = release::facts(self.version())?.gcc_max;
        (gcc > newest).then(|| {
            format!(
                "nvcc of CUDA {} cannot read the headers of gcc {gcc}: install gcc {newest} or older, and set \
                 `NVCC_CCBIN=g++-{newest}`",
                self.version()
            )
        })
    }

    /// A procedural macro is a library that rustc loads.
    fn macro_crate(&self, name: &str) -> Option<String> {
        let build = self.cargo()?;
        let is_macro = build.macros.iter().any(|it| it.replace('-', "_") == name);
        is_macro.then(|| {
            format!(
                "`{name}` is a procedural macro that rustc cannot load, because a library that it links is not found: \
                 `LD_DEBUG=libs` before the command names the library; if it is one of CUDA's, declare its component in \
                 `components` of `[package.metadata.cuda]`"
            )
        })
    }

    /// A package of CMake that has the name of a component: `CUDNN`.
    fn package(&self, name: &str) -> Option<Conclusion> {
        let component: Component = name.parse().ok()?;
        match self.toolkit.get(component) {
            Some(_) => None,
            None => self.missing(component, format!("the build needs {name}")),
        }
    }

    /// What was in CUDA until a release before the toolkit's.
    fn removed(&self, component: Component, name: &str) -> Option<String> {
        let mut removed = component.facts().removed.iter();
        let (since, _) = removed.find(|(_, names)| names.contains(&name))?;
        let version = self.version();
        let mut older = release::releases().filter(|it| it < since);
        let last = older.next_back().filter(|_| version >= *since)?;
        Some(format!(
            "CUDA {since} has removed `{name}`: build without it, or with CUDA {last}{}",
            source_of_nvcc(last)
        ))
    }

    /// An undefined function whose name starts as those of a component do.
    fn function(&self, name: &str) -> Option<Conclusion> {
        let build = self.cargo()?;
        let (component, library) = component_of_function(name)?;
        let found = self.toolkit.get(component);
        let found = found.filter(|found| !found.libraries.is_empty());
        let link = |library: &str| {
            format!(
                "`{name}` is in lib{library}: link it with `-l{library}` (in a build script: \
                 `cargo::rustc-link-lib={library}`)"
            )
        };
        if found.is_none() && component != Component::Driver {
            return self.missing(component, link(library));
        }
        let files: Vec<_> = found.iter().flat_map(|found| &found.libraries).collect();
        let is_there = |name: &str| files.iter().find(|file| (build.exports)(file, name));
        let file = is_there(name);
        let file = file.and_then(|file| file.file_name()?.to_str()?.strip_prefix("lib"));
        let library = match file.and_then(|name| name.split(".so").next()) {
            None if component == Component::Driver && !self.messages.contains("-lcuda\"") => {
                Some(library)
            }
            library => library,
        };
        let hint = match library {
            Some(library) => link(library),
            // NPP, since CUDA 13.
            None if is_there(&format!("{name}_Ctx")).is_some() => format!(
                "CUDA {} has `{name}_Ctx` instead, which takes a context: build with that, or with an older CUDA",
                self.version()
            ),
            None => self.removed(component, name).or_else(|| {
                let (since, newest) = ((build.added)(component, name)?, release::newest());
                Some(format!(
                    "CUDA {since} has added `{name}`: build with it, or a newer one (`--cuda {newest} --fetch`)"
                ))
            })?,
        };
        Some(Conclusion::Hint(hint))
    }

    fn architecture(&self, name: &str) -> Option<String> {
        if name == "native" {
            return Some(
                "this nvcc does not know `native`: let the build name capabilities, as in `-arch=sm_80`".to_owned(),
            );
        }
        let declared = Declared::parse([name]).ok()?;
        match declared.plan(self.version(), &[], None) {
            Err(FindError::Capability { reason, hint }) => Some(format!("{reason}: {hint}")),
            _ => None,
        }
    }

    /// The headers of nvcc declare some functions that newer C libraries declare, too.
    fn declaration(&self) -> Option<String> {
        let is_quoted = |function: &&str| self.messages.contains(&format!("\"{function}\""));
        let mut rows = release::C_LIBRARIES.iter().rev();
        let row = rows.find(|row| row.functions.iter().any(is_quoted))?;
        (self.version() < row.since).then(|| newer_c_library(row, self.version()))
    }

    fn host_compiler(&self) -> Option<String> {
        let chosen = host_compiler::choose(self.env, self.root, self.toolkit, self.target);
        Some(chosen.err()?.hints().join("; "))
    }

    fn nvcc(&self) -> Option<String> {
        if self.toolkit.get(Component::Nvcc).is_some() {
            return None;
        }
        let version = self.version();
        Some(match source_of_nvcc(version) {
            text if text.is_empty() => {
                let reason = "the build calls nvcc".to_owned();
                self.how_to_add(&[(Component::Nvcc, reason)], false)?
            }
            _ => format!(
                "the Python packages of CUDA {version} have no nvcc: run `cargo cuda toolkit add {version} --from \
                 redist`, then build with `--cuda {version}`"
            ),
        })
    }

    /// What a build script reports in its own words.
    fn in_own_words(&self) -> Option<String> {
        let nvcc = lacks(self.messages, &["nvcc", "cuda compiler"]).then(|| self.nvcc());
        let removed = || {
            Component::all().find_map(|component| {
                let removed = component.facts().removed.iter();
                let mut names = removed.flat_map(|(_, names)| names.iter().copied());
                let name = names.find(|name| lacks(self.messages, &[&name.to_lowercase()]));
                self.removed(component, name?)
            })
        };
        if let Some(hint) = nvcc.flatten().or_else(removed) {
            return Some(hint);
        }
        let build = self.cargo().filter(|build| !build.has_driver)?;
        let names = [
            "nvidia-smi",
            "compute cap",
            "compute_cap",
            "compute capability",
        ];
        lacks(self.messages, &names).then(|| match build.declares_capabilities {
            false => "the build script asks for the GPU of this machine: declare `capabilities = [\"8.0\", \"9.0\"]` \
                      or similar in `[package.metadata.cuda]`, which build scripts get in `CUDA_COMPUTE_CAP`"
                .to_owned(),
            true => "the build script asks for the GPU of this machine; if it can read capabilities in a variable \
                     instead, give it the variable: `variables = { CUDA_ARCH = \"list\" }` in \
                     `[workspace.metadata.cuda.package.<NAME>]`"
                .to_owned(),
        })
    }

    fn cudarc(&self) -> Option<String> {
        let newest = self.cargo()?.cudarc?;
        let is_newer = newest < self.version();
        is_newer.then(|| {
            let source = source_of_nvcc(newest);
            format!(
                "this cudarc supports CUDA {newest} and older: update cudarc, or build with `--cuda {newest} \
                 --fetch`{source}"
            )
        })
    }

    /// How to add components to the toolkit; `None` if they cannot be fetched. `for_host` is whether a compiler for the
    /// host needs their headers, which searches the directories of no toolkit.
    fn how_to_add(&self, missing: &[(Component, String)], for_host: bool) -> Option<String> {
        // `cargo cuda`, which writes the file of the toolkit, reads these messages, too.
        if self.cargo().is_none() && self.env.peek("CUDA_BUILD_TOOLKIT").is_some() {
            return None;
        }
        let ids: Vec<&str> = missing.iter().map(|(it, _)| it.id()).collect();
        let (names, version) = (ids.join(", "), self.version());
        let lacks = format!("{}: this CUDA {version} has no {names}", missing[0].1);
        if let Some(place) = self.toolkit.named_place() {
            return Some(format!("{lacks}; install it there, or unset {place}"));
        }
        let is_fetchable = is_nvcc_packaged(version.major) || self.toolkit.is_fetched();
        if let Some(nvcc) = self.toolkit.get(Component::Nvcc).filter(|_| !is_fetchable) {
            return Some(format!(
                "{lacks}; install it where nvcc comes from: {}",
                nvcc.origin
            ));
        }
        let needs_version = missing.iter().any(|(it, _)| it.facts().is_header_package());
        let declare = match needs_version {
            true => format!(
                "declare {names} with a version in `components` of `[package.metadata.cuda]`"
            ),
            false => format!("declare `components = {ids:?}` in `[package.metadata.cuda]`"),
        };
        match self.cargo() {
            Some(build) if !needs_version => {
                let cpath = match for_host {
                    true => format!("CPATH={} ", build.include.display()),
                    false => String::new(),
                };
                let command = build.fetching_command.iter();
                let run: String = command
                    .map(|it| format!("run `{cpath}{it}`, or "))
                    .collect();
                Some(format!("{lacks}; {run}{declare}"))
            }
            _ => {
                let release = self.env.text(RequestedRelease::VARIABLE);
                let option =
                    release.map_or_else(String::new, |release| format!(" --cuda {release}"));
                Some(format!(
                    "{lacks}; {declare}, and run `cargo cuda fetch{option}`"
                ))
            }
        }
    }
}

fn newer_c_library(row: &CLibrary, version: ToolkitVersion) -> String {
    let (CLibrary { since, .. }, (major, minor), newest) = (row, row.glibc, release::newest());
    format!(
        "the headers of glibc {major}.{minor} and newer do not fit CUDA {version}: use CUDA {since} or newer (`--cuda \
         {newest} --fetch`), or build on a system with an older glibc"
    )
}

/// Why nvcc cannot compile with the headers of the C library that a host compiler includes; `None` if it can.
pub fn c_library_conflict(toolkit: &Toolkit, root: &Root, host: &Compiler) -> Option<String> {
    let crt = toolkit.get(Component::Crt)?.include.first()?;
    let header = root.text(&crt.join("crt/math_functions.h")).ok()?;
    let glibc = host.glibc?;
    // Distributions correct this file in older releases.
    let is_unguarded = |function: &&str| header.contains(&format!(" {function}(double x);"));
    let rows = release::C_LIBRARIES.iter().rev();
    let mut rows = rows.filter(|row| row.glibc <= glibc);
    let row = rows.find(|row| row.functions.iter().any(is_unguarded))?;
    Some(newer_c_library(row, toolkit.version()))
}

/// Components whose names are also names of things that have nothing to do with CUDA.
pub const ORDINARY_NAMES: [Component; 2] = [Component::Opencl, Component::Sanitizer];

/// The library of a target, as in `-l<name>`.
fn library_of_cmake_target(target: &str) -> &str {
    let mut targets = Component::all().flat_map(|component| component.facts().cmake);
    let file = targets.find(|(name, _)| *name == target);
    let file = file.and_then(|(_, files)| Path::new(files.first()?).file_stem()?.to_str());
    file.and_then(|name| name.strip_prefix("lib"))
        .unwrap_or(target)
}

/// The component with a function, and its main library, by the start of the name: `cublasCreate_v2`, `ncclGroupEnd`.
fn component_of_function(function: &str) -> Option<(Component, &'static str)> {
    let starts = |prefix: &str| {
        let rest = function.get(prefix.len()..).filter(|_| {
            function
                .get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        });
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase() || c == '_'))
    };
    let mut longest: Option<(usize, Component, &'static str)> = None;
    let special = [
        ("__cuda", Component::Cudart),
        ("cuda", Component::Cudart),
        ("cu", Component::Driver),
    ];
    let by_name = Component::all().filter(|component| !ORDINARY_NAMES.contains(component));
    let by_name = by_name.map(|component| (component.id(), component));
    for (prefix, component) in special.into_iter().chain(by_name) {
        let library = component.facts().libraries.first();
        let is_longer = longest.is_none_or(|(length, ..)| length < prefix.len());
        if let Some(library) = library.filter(|_| is_longer && starts(prefix)) {
            longest = Some((prefix.len(), component, library));
        }
    }
    longest.map(|(_, component, library)| (component, library))
}
