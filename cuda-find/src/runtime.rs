//! Finds CUDA's shared libraries while a program runs, to open them with `dlopen`.
//!
//! No process is started, nothing is written, and nothing is loaded: the caller opens the paths, with libloading or as
//! it likes. On Linux only. In this order:
//!
//! 1. the program's directory, and `../lib` beside it, where a bundle has its libraries
//! 2. libraries that this process has loaded
//! 3. site-packages with NVIDIA's Python packages: those that this process has loaded a module from, and those of
//!    `VIRTUAL_ENV`
//! 4. the conda environment, `CONDA_PREFIX`
//! 5. where the loader looks: `LD_LIBRARY_PATH`, `/etc/ld.so.cache`, its default directories
//! 6. the component's variables, such as `CUDNN_PATH`, then `CUDA_PATH` and `CUDA_HOME`
//! 7. the toolkit whose runtime the loader finds, for libraries that toolkits do not show to the loader: CUPTI, libnvvm
//!
//! In a Python extension module, the program is `python`. Steps 2 to 7 are those of NVIDIA's `cuda-pathfinder` 1.9.
//! Unlike there, you name the CUDA major: 12 for every CUDA 12.x, whatever number the library's own name has
//! (`libcufft.so.11`, `libcudnn.so.9`). To accept two majors, ask for one after the other.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cuda_find_core::component::{Component, EdgeKind, edges};
use cuda_find_core::error::Error as CoreError;
use cuda_find_core::found::ComponentSet;
use cuda_find_core::link;
use cuda_find_core::list::joined;
use cuda_find_core::release::majors;
use cuda_find_core::search::probe;
use cuda_find_core::sources::{
    Candidate, CandidateKind, SearchStep, site_packages_of, variable_label,
};
use cuda_find_core::target::Target;

use crate::search::named;
use crate::{Error, System};

/// A shared library to open.
#[derive(Clone, Debug)]
pub struct Library {
    path: PathBuf,
    needs: Vec<PathBuf>,
    reason: String,
}

impl Library {
    /// The library's absolute path, as found: links are not resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The CUDA libraries that it links (`libcublasLt.so.12`), and those that it opens by name (NVRTC's builtins), in
    /// the order in which to open them before it. Then none of them has to be on a path that the loader searches. The
    /// library itself, libraries of the system and the driver are not among them.
    pub fn needs(&self) -> &[PathBuf] {
        &self.needs
    }

    /// Where it was found, for a message: ``virtual environment of `VIRTUAL_ENV` (/srv/env/lib/…/site-packages)``.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// The main shared library of a component for one CUDA major. Its other libraries (`libcublasLt.so.12`) are beside it.
///
/// ```no_run
/// use cuda_find::{Component, runtime};
/// let cublas = runtime::library(Component::Cublas, 12)?;
/// for path in cublas.needs().iter().map(|path| path.as_path()).chain([cublas.path()]) {
///     // SAFETY: … libloading::os::unix::Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL)
///     println!("{}", path.display());
/// }
/// # Ok::<(), cuda_find::Error>(())
/// ```
///
/// # Errors
/// [`NotFound`](crate::ErrorKind::NotFound) if it is nowhere, or if another CUDA library that it links is nowhere. The
/// message lists each place, and the libraries for other majors that are there. A library of another major is not
/// returned, if its name, its package or the libraries beside it show the major. [`Usage`](crate::ErrorKind::Usage) for
/// a component without a shared library, such as `nvcc`, and for a major that this crate does not know.
pub fn library(
    component: impl TryInto<Component, Error: ToString>,
    major: u32,
) -> Result<Library, Error> {
    library_on(&System::current(), component, major)
}

/// As [`library`], with other variables and another disk. The program and the libraries that it has loaded are always
/// those of this process.
///
/// # Errors
/// As [`library`].
pub fn library_on(
    system: &System,
    component: impl TryInto<Component, Error: ToString>,
    major: u32,
) -> Result<Library, Error> {
    let component = named(component)?;
    let Some(soname) = component.facts().soname(0, major) else {
        let reason = format!("no shared library of `{component}` for CUDA {major} is known");
        return Err(CoreError::usage(reason, "correct the component, or the major").into());
    };
    let maps = system.root.text(Path::new("/proc/self/maps"));
    let search = RunTimeSearch {
        system,
        target: system.target()?,
        major,
        maps: maps.unwrap_or_default(),
    };
    let (path, reason) = search.find(component, soname, "")?;
    let mut library = Library {
        path,
        needs: Vec::new(),
        reason,
    };
    let mut seen = vec![library.path.clone()];
    search.add_needs(component, &library.path, &mut seen, &mut library.needs)?;
    Ok(library)
}

struct RunTimeSearch<'s> {
    system: &'s System,
    target: Target,
    major: u32,
    /// What this process has mapped: a path at the end of each line.
    maps: String,
}

impl RunTimeSearch<'_> {
    fn places(&self, component: Component, soname: &str) -> Vec<Candidate> {
        use CandidateKind::{Libraries, Root as Toolkit, SitePackages};
        use SearchStep::{Argument, System as Loader};
        let System { env, root, .. } = self.system;
        let mut places: Vec<Candidate> = Vec::new();
        let mut add = |step: SearchStep, label: &str, path: &Path, kind: CandidateKind| {
            places.push(Candidate::new(step, label, path, kind));
        };
        let program = root.resolve(Path::new("/proc/self/exe"));
        if let Some(directory) = program.parent() {
            let beside = directory.with_file_name("lib");
            let of_major = beside.join(format!("cu{}", self.major));
            for path in [directory, &of_major, &beside] {
                add(Argument, "beside the program", path, Libraries);
            }
        }
        let loaded = self.maps.lines();
        let loaded = loaded.filter_map(|line| Some(Path::new(line.get(line.find('/')?..)?)));
        // The SONAME may be a link to the file that is mapped.
        let stem = soname
            .split_inclusive(".so")
            .next()
            .unwrap_or(soname)
            .as_bytes();
        let has_stem = |name: &OsStr| name.as_encoded_bytes().starts_with(stem);
        let of_name = loaded
            .clone()
            .filter(|path| path.file_name().is_some_and(has_stem));
        for directory in of_name.filter_map(Path::parent) {
            add(Loader, "loaded by this process", directory, Libraries);
        }
        let is_site = |path: &&Path| path.ends_with("site-packages");
        for site in loaded.filter_map(|path| path.ancestors().find(is_site)) {
            add(
                Argument,
                "site-packages of this process",
                site,
                SitePackages,
            );
        }
        for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
            if let Some(prefix) = env.path(name) {
                let label = variable_label(name);
                for site in site_packages_of(root, &prefix) {
                    add(Argument, &label, &site, SitePackages);
                }
                add(Argument, &label, &prefix.join("lib"), Libraries);
                add(Argument, &label, &prefix, Toolkit);
            }
        }
        let listed = env.get("LD_LIBRARY_PATH").unwrap_or_default();
        let multiarch = self.target.multiarch();
        let nixos = link::nixos_driver_directory(root).map(PathBuf::from);
        let directories = root
            .loader_directories(listed, multiarch, soname)
            .into_iter();
        for directory in directories.chain(nixos) {
            add(Loader, "where the loader looks", &directory, Libraries);
        }
        let variables = component.facts().variables.iter().copied();
        for variable in variables.chain(["CUDA_PATH", "CUDA_HOME"]) {
            if let Some(path) = env.path(variable) {
                add(Argument, &variable_label(variable), &path, Toolkit);
            }
        }
        // Toolkits do not show the libraries of CUPTI and libnvvm to the loader, but their runtime.
        let runtime = Component::Cudart.facts().soname(0, self.major);
        let runtime = runtime.unwrap_or_default();
        for directory in root.loader_directories(listed, multiarch, runtime) {
            let roots = directory.ancestors().skip(1).take(3);
            for path in roots.filter(|path| root.is_file(&path.join("bin/nvcc"))) {
                add(Argument, "toolkit of the loader's runtime", path, Toolkit);
            }
        }
        // The driver is installed where the loader looks. Elsewhere, there are stubs.
        places.retain(|place| !component.facts().is_driver() || place.step == Loader);
        places.retain(|place| root.exists(&place.path));
        places.dedup_by(|one, other| one.path == other.path);
        places
    }

    /// The library with this SONAME, and its place. `why` continues the message if there is none.
    fn find(
        &self,
        component: Component,
        soname: &str,
        why: &str,
    ) -> Result<(PathBuf, String), CoreError> {
        let major = self.major;
        let mut message = format!("`{soname}` ({component} for CUDA {major}){why} was not found");
        for place in self.places(component, soname) {
            let present = self.libraries_in(&place, component, soname);
            if let Some((path, _)) = present.iter().find(|(_, other)| *other == major) {
                return Ok((path.clone(), place.to_string()));
            }
            let others = present.iter().map(|(path, other)| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!("`{name}` is for CUDA {other}")
            });
            let mut others = joined(others, ", ");
            if others.is_empty() {
                others.push_str("no such library");
            }
            message += &format!("\n  tried {place}: {others}");
        }
        let driver = component.facts().is_driver().then_some("the NVIDIA driver");
        let package = component.facts().package(major);
        let pip = package.map_or(String::new(), |name| format!(" (`pip install {name}`)"));
        let what = driver.unwrap_or("it");
        Err(CoreError::NotFound {
            missing: vec![component],
            message,
            hints: vec![format!(
                "install {what}{pip}, or set `LD_LIBRARY_PATH` to where it is"
            )],
        })
    }

    /// The library with this SONAME in a place, and the component's main libraries for other majors, each with its
    /// major.
    fn libraries_in(
        &self,
        place: &Candidate,
        component: Component,
        soname: &str,
    ) -> Vec<(PathBuf, u32)> {
        let (facts, root) = (component.facts(), &self.system.root);
        let machine = self.target.elf_machine();
        let sets = || probe(root, &self.target, place).sets;
        if place.kind != CandidateKind::Libraries {
            let library = |set: ComponentSet| {
                let mut libraries = set.get(component)?.libraries.iter();
                let path = libraries.find(|it| set.major != self.major || it.ends_with(soname))?;
                Some((path.clone(), set.major))
            };
            return sets().into_iter().filter_map(library).collect();
        }
        let library = |major: u32| {
            let main = || facts.soname(0, major);
            let name = (major == self.major).then_some(soname).or_else(main)?;
            let path = place.path.join(name);
            root.is_library(&path, machine).then_some((path, major))
        };
        let mut present: Vec<(PathBuf, u32)> = majors().filter_map(library).collect();
        // cuRAND has the same name for every major: the other libraries in the directory show the major.
        let is_ambiguous = present.windows(2).any(|pair| pair[0].0 == pair[1].0);
        if is_ambiguous && !facts.is_driver() {
            let sets = sets();
            let is_shown = |major: u32| sets.iter().any(|set| set.major == major);
            present.retain(|(_, major)| sets.is_empty() || is_shown(*major));
        }
        present
    }

    /// Adds what a library needs: first the needs of each, then the library itself.
    fn add_needs(
        &self,
        component: Component,
        path: &Path,
        seen: &mut Vec<PathBuf>,
        needs: &mut Vec<PathBuf>,
    ) -> Result<(), Error> {
        let (facts, root) = (component.facts(), &self.system.root);
        // NVRTC opens its builtins by a name with the release. If a directory has those of several releases, NVRTC
        // looks for them itself.
        if let Some(index) = facts.library_with_release {
            let start = format!("lib{}.so.{}.", facts.libraries[index], self.major);
            let is_minor = |minor: &str| !minor.contains('.');
            let mut names = root.names(path.parent().unwrap_or(path));
            names.retain(|it| {
                it.to_string_lossy()
                    .strip_prefix(&start)
                    .is_some_and(is_minor)
            });
            if let [name] = names.as_slice() {
                needs.push(path.with_file_name(name));
            }
        }
        let linked = root.needed_libraries(path).into_iter();
        let mut needed: Vec<(String, bool)> = linked.map(|name| (name, true)).collect();
        for (opened, kind) in edges(component, self.major) {
            if kind == EdgeKind::Load {
                let soname = opened.facts().soname(0, self.major);
                needed.extend(soname.map(|name| (name.to_owned(), false)));
            }
        }
        for (name, is_linked) in needed {
            let of_major = |major: u32| Component::of_soname(&name, major);
            let Some(component) = of_major(self.major) else {
                // cuDNN has the same name for every major, and may be built for another one.
                if let Some(other) = majors().find(|major| of_major(*major).is_some()) {
                    let (path, wanted) = (path.display(), self.major);
                    let reason =
                        format!("{path} is for CUDA {other}, not {wanted}: it needs `{name}`");
                    let hint = format!("install its package for CUDA {wanted}");
                    return Err(CoreError::usage(reason, hint).into());
                }
                continue;
            };
            if component.facts().is_driver() {
                continue;
            }
            let beside = path.with_file_name(&name);
            let found = if root.is_library(&beside, self.target.elf_machine()) {
                Ok(beside)
            } else {
                let why = format!(", which {} needs,", path.display());
                self.find(component, &name, &why).map(|(path, _)| path)
            };
            match found {
                Ok(found) if !seen.contains(&found) => {
                    seen.push(found.clone());
                    self.add_needs(component, &found, seen, needs)?;
                    needs.push(found);
                }
                Err(error) if is_linked => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}
