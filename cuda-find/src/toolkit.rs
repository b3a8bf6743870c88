//! What a search found.

use std::fmt;
use std::path::{Path, PathBuf};

use cuda_find_core::capability::{Capability, Declared, Plan};
use cuda_find_core::component::Component;
use cuda_find_core::directive::{self, Directive, Directives};
use cuda_find_core::error::Error as CoreError;
use cuda_find_core::found::Found as CoreFound;
use cuda_find_core::link::{self, Cudart};
use cuda_find_core::list::each_once;
use cuda_find_core::search::SearchContext;
use cuda_find_core::select::{Part, Strength};
use cuda_find_core::sources::lock_file;
use cuda_find_core::toolkit::Toolkit as CoreToolkit;
use cuda_find_core::version::{ToolkitVersion, Version};

use crate::Error;
use crate::search::{Wanted, named};

/// A kind of files of a component.
///
/// ```
/// use cuda_find::{Kind, Search};
/// let search = Search::new().need_kind("cublas", Kind::Static).need_kind("nvcc", Kind::Program);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Headers.
    Headers,
    /// Shared libraries: `libcublas.so.12`; on Windows, DLLs.
    Shared,
    /// Static archives: `libcublas_static.a`; on Windows, import libraries too.
    Static,
    /// Of the driver's libraries (`cuda-driver`, `nvml`): one with their names and no code, to link on a machine
    /// without a driver. It must never be on a path that the loader searches.
    Stub,
    /// Programs: `nvcc`, `ptxas`.
    Program,
}

impl Kind {
    pub(crate) fn main(component: Component) -> Self {
        if component.facts().is_driver() {
            return Self::Stub;
        }
        match Part::main(component) {
            Part::Headers => Self::Headers,
            Part::Tools => Self::Program,
            Part::Archive => Self::Static,
            Part::Shared | Part::Import => Self::Shared,
        }
    }

    pub(crate) fn part(self) -> Part {
        match self {
            Self::Headers => Part::Headers,
            Self::Program => Part::Tools,
            Self::Static => Part::Archive,
            Self::Shared | Self::Stub => Part::Shared,
        }
    }
}

/// A component that was found.
///
/// ```no_run
/// use cuda_find::{Component, Kind, Search};
/// # fn main() -> Result<(), cuda_find::Error> {
/// let toolkit = Search::new().need_kind(Component::Cudnn, Kind::Headers).find()?;
/// let cudnn = toolkit.component(Component::Cudnn)?;
/// // The version is that of the header, so it is there without a library.
/// let major = cudnn.version().map(|version| version.part(0));
/// for directory in cudnn.include_dirs() {
///     println!("cuDNN {major:?}: {} from {}", directory.display(), cudnn.origin());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Found {
    found: CoreFound,
    stubs: Vec<PathBuf>,
}

impl Found {
    /// The component.
    pub fn component(&self) -> Component {
        self.found.component
    }

    /// The component's own version, if known: 9.8.0 for cuDNN, 12.4.131 for nvcc.
    pub fn version(&self) -> Option<&Version> {
        self.found.version.as_ref()
    }

    /// The place where it was found, and what proposed it, for a message: ``environment variable `CUDA_HOME`
    /// (/opt/cuda)``.
    pub fn origin(&self) -> &str {
        &self.found.origin
    }

    /// The directories of its headers. `/usr/include` may be among them: do not pass that one with `-I`.
    /// [`Toolkit::include_dirs`] leaves it out.
    pub fn include_dirs(&self) -> &[PathBuf] {
        &self.found.include
    }

    /// Its files of one kind, the main one first. There are none for [`Kind::Headers`], which are in
    /// [`Found::include_dirs`].
    pub fn files(&self, kind: Kind) -> &[PathBuf] {
        match kind {
            Kind::Headers => &[],
            Kind::Shared => &self.found.libraries,
            Kind::Static => &self.found.archives,
            Kind::Stub => &self.stubs,
            Kind::Program => &self.found.tools,
        }
    }

    /// The main file of a kind; of the driver, what is linked.
    fn main_file(&self, kind: Kind) -> Option<&PathBuf> {
        if self.component().facts().is_driver() {
            return self.stubs.first().or(self.found.libraries.first());
        }
        self.files(kind).first()
    }

    /// The directories of its files of one kind, each once.
    pub fn dirs(&self, kind: Kind) -> Vec<PathBuf> {
        if kind == Kind::Headers {
            return self.found.include.clone();
        }
        let directories = self.files(kind).iter().filter_map(|file| file.parent());
        each_once(directories.map(Path::to_owned))
    }
}

/// Capabilities that one toolkit can compile for.
///
/// They are printed as a list that [`Toolkit::capabilities`] reads again: `8.0, 9.0a, 12.0+PTX`. A plain `8.0` or `80`
/// is SASS alone, as for PyTorch (for CMake, `80` is SASS and PTX); `8.0+PTX` is both, `compute_80` PTX alone.
///
/// ```no_run
/// # fn main() -> Result<(), cuda_find::Error> {
/// let toolkit = cuda_find::Search::new().need("nvcc").find()?;
/// let capabilities = toolkit.capabilities("80;sm_90a;12.0+PTX")?;
/// assert_eq!(capabilities.to_string(), "8.0, 9.0a, 12.0+PTX");
/// assert_eq!(capabilities.nvcc_args()[0], "-gencode=arch=compute_80,code=sm_80");
/// assert_eq!(capabilities.cmake(), "80-real;90a-real;120-real;120-virtual");
/// assert_eq!(capabilities.numbers()[1].number(), 90);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities(Plan);

impl Capabilities {
    /// The capabilities, ascending: `8.0` and `8.0+PTX` are one, `9.0` and `9.0a` are two.
    pub fn numbers(&self) -> Vec<Capability> {
        self.0.all()
    }

    /// The options for nvcc: `-gencode=arch=compute_80,code=sm_80`, one for each capability, and
    /// `…,code=compute_120` for PTX.
    pub fn nvcc_args(&self) -> Vec<String> {
        let option = |capability: &Capability, code: String| {
            format!("-gencode=arch={},code={code}", capability.compute())
        };
        let real = self.0.real.iter().map(|it| option(it, it.sm()));
        let ptx = self.0.ptx.iter().map(|it| option(it, it.compute()));
        real.chain(ptx).collect()
    }

    /// The value of `CMAKE_CUDA_ARCHITECTURES`: `80-real;90a-real;120-real;120-virtual`.
    pub fn cmake(&self) -> String {
        self.0.cmake()
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The components that a search chose. They belong together.
///
/// Paths are absolute, and links are not resolved. In a cross build, programs are for the machine that builds, and
/// everything else is for the target.
///
/// A helper that runs nvcc needs no more than this:
///
/// ```no_run
/// use std::process::Command;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let toolkit = cuda_find::Search::new().need("nvcc").need("cudart").find()?;
/// let list = std::env::var("CUDA_COMPUTE_CAP").unwrap_or("all-major".to_owned());
/// let output = std::path::Path::new(&std::env::var("OUT_DIR")?).join("kernel.fatbin");
/// let mut nvcc = Command::new(toolkit.nvcc().unwrap());
/// nvcc.args(["-fatbin", "kernel.cu", "-o"]).arg(output);
/// nvcc.args(toolkit.capabilities(&list)?.nvcc_args());
/// for directory in toolkit.include_dirs() {
///     nvcc.arg("-I").arg(directory);
/// }
/// assert!(nvcc.status()?.success());
/// toolkit.print_cargo_directives();
/// // Once there is one such line, Cargo watches nothing else: name your own files and variables, too.
/// println!("cargo::rerun-if-changed=kernel.cu\ncargo::rerun-if-env-changed=CUDA_COMPUTE_CAP");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Toolkit {
    toolkit: CoreToolkit,
    components: Vec<Found>,
    observed: Option<Vec<Capability>>,
    directives: Vec<String>,
}

impl Toolkit {
    pub(crate) fn new(
        toolkit: CoreToolkit,
        needs: &[Wanted],
        search: &SearchContext<'_>,
        links: bool,
    ) -> Result<Self, Error> {
        let SearchContext { root, env, .. } = search;
        let mut linked = Directives::default();
        let found = toolkit.components().iter().cloned();
        let found = found.map(|found| Found {
            found,
            stubs: Vec::new(),
        });
        let mut components: Vec<Found> = found.collect();
        let mut watched = Vec::new();
        for wanted in needs {
            let component = wanted.component;
            let of_driver = component.facts().is_driver();
            if of_driver {
                components.retain(|found| found.component() != component);
                components.push(driver_library(&toolkit, component, search));
            }
            let found = components
                .iter()
                .find(|found| found.component() == component);
            let file = found.and_then(|found| found.main_file(wanted.kind));
            watched.extend(file.cloned());
            let is_linked = match wanted.kind {
                Kind::Headers | Kind::Program => true,
                _ if of_driver && !search.target.is_windows() => {
                    if let Some(directory) = file.and_then(|file| file.parent()) {
                        let directory =
                            Some(directory).filter(|it| !toolkit.is_default_search_dir(it));
                        link::directives(
                            &toolkit,
                            &[component],
                            Cudart::Shared,
                            directory,
                            &mut linked,
                        );
                    }
                    file.is_some()
                }
                Kind::Static if !search.target.is_windows() => {
                    link::archives(&toolkit, component, &mut linked);
                    true
                }
                _ => link::shared_library(&toolkit, component, wanted.library, &mut linked),
            };
            if !is_linked && wanted.strength == Strength::Required {
                return Err(Error(not_linked(&toolkit, wanted)));
            }
            components.retain(|found| is_linked || found.component() != component);
        }
        // The archives of the math libraries need culibos, which comes after them.
        if needs.iter().any(|wanted| wanted.kind == Kind::Static) {
            link::archives(&toolkit, Component::Culibos, &mut linked);
        }
        let mut directives = if links { linked } else { Directives::default() };
        let observed = search
            .runs_nvcc
            .then(|| toolkit.capabilities_of_ptxas(root, env));
        for name in env.names_read() {
            directives.push(Directive::RerunIfEnvChanged(name));
        }
        let lock = lock_file(root, env).filter(|file| root.exists(file));
        let files = toolkit.components().iter();
        let files = files.flat_map(|found| found.files_to_watch(root));
        directives.rerun_if_changed(files.chain(lock).chain(watched));
        for warning in toolkit.warnings() {
            directives.push(Directive::Warning(warning.clone()));
        }
        Ok(Self {
            components,
            observed: observed.flatten(),
            directives: directives.to_lines()?,
            toolkit,
        })
    }

    /// The CUDA release: 12.4.
    pub fn release(&self) -> ToolkitVersion {
        self.toolkit.version()
    }

    /// A component that was requested, or that a requested one needs.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) if it was not requested, or if an optional one was not found.
    pub fn component(
        &self,
        component: impl TryInto<Component, Error: ToString>,
    ) -> Result<&Found, Error> {
        let component = named(component)?;
        let mut components = self.components();
        components
            .find(|found| found.component() == component)
            .ok_or_else(|| {
                let reason = format!("the toolkit has no `{component}`");
                CoreError::usage(reason, "request it with `Search::need`").into()
            })
    }

    /// Every component that was chosen, in the order of [`Component`].
    pub fn components(&self) -> impl Iterator<Item = &Found> {
        self.components.iter()
    }

    /// The path of nvcc, if `nvcc` was requested and found. It compiles with an `-I` for each of
    /// [`Toolkit::include_dirs`], and links with a `-L` for each of [`Toolkit::library_dirs`]. It needs a host compiler
    /// on `PATH`, or in `NVCC_CCBIN`.
    pub fn nvcc(&self) -> Option<&Path> {
        self.toolkit.tool(Component::Nvcc, "nvcc")
    }

    /// The directories of headers for `-I`, each once. `/usr/include`, which every compiler searches, is left out,
    /// because its headers would come before those of other directories.
    pub fn include_dirs(&self) -> Vec<PathBuf> {
        self.toolkit.include_dirs()
    }

    /// The directories of shared libraries and archives for `-L`, each once, without those that every linker searches.
    /// Those of stubs are left out.
    pub fn library_dirs(&self) -> Vec<PathBuf> {
        let files = self.components().map(|found| &found.found);
        let files = files.flat_map(|found| found.libraries.iter().chain(&found.archives));
        let mut directories = each_once(files.filter_map(|file| file.parent()).map(Path::to_owned));
        directories.retain(|directory| !self.toolkit.is_default_search_dir(directory));
        directories
    }

    /// Reads a list of capabilities in any usual spelling, and checks it against this toolkit: `8.0;90a`,
    /// `sm_80 compute_90`, `80-real;120-virtual`, `8.6+PTX`, `all`, `all-major`.
    ///
    /// # Errors
    /// [`ErrorKind::Capability`](crate::ErrorKind::Capability) for another spelling, and for a capability that the
    /// toolkit does not support, with the reason: removed in 13.0, needs 12.8. `native` is an error, because no GPU is
    /// queried.
    pub fn capabilities(&self, list: &str) -> Result<Capabilities, Error> {
        let declared = Declared::parse([list])?;
        let plan = declared.plan(self.release(), &[], self.observed.as_deref())?;
        Ok(Capabilities(plan))
    }

    /// What a build should show its user: variables that name different places, a component that was passed over.
    pub fn warnings(&self) -> &[String] {
        self.toolkit.warnings()
    }

    /// Lines for Cargo, such as `cargo::rustc-link-lib=…`. They link what was requested, show the warnings, and run the
    /// build script again if a chosen file, the lock file or a variable changes, also a variable that was not set. They
    /// set no rpath: a program that links shared libraries finds them by the loader's path, or by one that you add.
    pub fn cargo_directives(&self) -> &[String] {
        &self.directives
    }

    /// Prints [`Toolkit::cargo_directives`] to standard output.
    pub fn print_cargo_directives(&self) {
        directive::print(&self.directives);
    }
}

/// A library of the driver: the toolkit's stub, and the driver's own, with the header of the toolkit.
fn driver_library(
    toolkit: &CoreToolkit,
    component: Component,
    search: &SearchContext<'_>,
) -> Found {
    let SearchContext {
        root, env, target, ..
    } = search;
    let library = component.facts().libraries[0];
    let header = toolkit.get(component).or(toolkit.get(Component::Cudart));
    let mut found = CoreFound {
        component,
        libraries: Vec::new(),
        ..header
            .cloned()
            .unwrap_or(CoreFound::new(component, toolkit.version().major))
    };
    let stub = link::shipped_stub(root, toolkit.components().iter(), library);
    // Where the linker looks, and where the drivers of WSL and NixOS are.
    let listed = env.get("LIBRARY_PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(listed).collect();
    directories.extend(root.default_search_dirs(target.multiarch()));
    directories.push(root.locate("/usr/lib/wsl/lib"));
    directories.extend(link::nixos_driver_directory(root).map(PathBuf::from));
    directories.retain(|directory| directory.is_absolute() && !directory.ends_with("stubs"));
    let name = format!("lib{library}.so");
    let mut files = directories.iter().map(|directory| directory.join(&name));
    let driver = files.find(|path| root.is_library(path, target.elf_machine()));
    found.libraries.extend(driver);
    if let Some(file) = stub.as_ref().or(found.libraries.first()) {
        found.origin = file.display().to_string();
    }
    let stubs = stub.into_iter().collect();
    Found { found, stubs }
}

fn not_linked(toolkit: &CoreToolkit, wanted: &Wanted) -> CoreError {
    let facts = wanted.component.facts();
    let library = wanted.library.unwrap_or(facts.libraries[0]);
    let origin = toolkit
        .components()
        .first()
        .map_or("", |found| &found.origin);
    let (mut tried, mut hint) = (String::new(), "install the package that has it");
    if facts.is_driver() {
        tried = format!(": it has no `stubs/lib{library}.so`\n  tried where the linker looks");
        hint = "install the NVIDIA driver, or a toolkit with stubs (NVIDIA's Python packages have none); or open the \
                library at run time instead of linking it";
    }
    CoreError::NotFound {
        missing: vec![wanted.component],
        message: format!(
            "`lib{library}.so` of `{}` was not found\n  tried {origin}{tried}",
            facts.id
        ),
        hints: vec![hint.to_owned()],
    }
}
