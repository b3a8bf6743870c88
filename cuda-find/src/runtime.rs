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
//! Steps 2 to 7 are those of NVIDIA's `cuda-pathfinder` 1.9. Other than there, the CUDA major is part of the question.

use std::cell::OnceCell;
use std::env::consts::{ARCH, OS};
use std::path::{Path, PathBuf};

use cuda_find_core::component::{Component, EdgeKind, edges};
use cuda_find_core::error::Error as CoreError;
use cuda_find_core::found::Attempt;
use cuda_find_core::release::majors;
use cuda_find_core::root::Root;
use cuda_find_core::search::probe;
use cuda_find_core::sources::{
    Candidate, CandidateKind, SearchStep, site_packages_of, variable_label,
};
use cuda_find_core::target::Target;

use crate::{Error, System};

/// A shared library to open.
#[derive(Clone, Debug)]
pub struct Library {
    path: PathBuf,
    needs: Vec<PathBuf>,
    reason: String,
}

impl Library {
    /// The library's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The CUDA libraries that it needs, in the order in which to open them before it. Then none of them has to be on a
    /// path that the loader searches.
    pub fn needs(&self) -> &[PathBuf] {
        &self.needs
    }

    /// Where it was found, for a message: ``virtual environment of `VIRTUAL_ENV` (/srv/env/lib/…/site-packages)``.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// The main shared library of a component for one CUDA major.
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
/// If it is nowhere, or if another CUDA library that it needs is nowhere. The message lists each place, and the
/// libraries for other majors that are there: a library of another major is never returned.
pub fn library<C>(component: C, major: u32) -> Result<Library, Error>
where
    C: TryInto<Component>,
    C::Error: ToString,
{
    library_on(&System::current(), component, major)
}

/// As [`library`], with the variables and the disk of another system.
///
/// # Errors
/// As [`library`].
pub fn library_on<C>(system: &System, component: C, major: u32) -> Result<Library, Error>
where
    C: TryInto<Component>,
    C::Error: ToString,
{
    let component = component.try_into();
    let usage = |reason: String| CoreError::usage(reason, "correct the component");
    let component = component.map_err(|reason| usage(reason.to_string()))?;
    let Some(soname) = component.facts().soname(0, major) else {
        return Err(Error(usage(format!(
            "no shared library of `{component}` for CUDA {major} is known"
        ))));
    };
    let target = Target::from_triple(&format!("{ARCH}-unknown-{OS}"))?;
    let search = RunTimeSearch {
        system,
        target,
        major,
        loaded: loaded_files(&system.root),
    };
    let places = search.places(component, soname);
    let Some((path, place)) = search.find(component, soname, &places) else {
        return Err(Error(search.not_found(component, soname, "", &places)));
    };
    let mut needs = Vec::new();
    search.add_needs(component, &path, &mut needs)?;
    let reason = places[place].candidate.to_string();
    Ok(Library {
        path,
        needs,
        reason,
    })
}

/// The files that this process has mapped.
fn loaded_files(root: &Root) -> Vec<PathBuf> {
    let maps = root.text(Path::new("/proc/self/maps")).unwrap_or_default();
    let paths = maps
        .lines()
        .filter_map(|line| Some(PathBuf::from(&line[line.find('/')?..])));
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.dedup();
    paths
}

struct RunTimeSearch<'s> {
    system: &'s System,
    target: Target,
    major: u32,
    loaded: Vec<PathBuf>,
}

/// A place, which is read when it is reached.
struct Place {
    candidate: Candidate,
    attempt: OnceCell<Attempt>,
}

impl RunTimeSearch<'_> {
    fn places(&self, component: Component, soname: &str) -> Vec<Place> {
        let System { env, root, .. } = self.system;
        let mut candidates = Vec::new();
        let mut add = |label: &str, path: PathBuf, kind: CandidateKind| {
            candidates.push(Candidate::new(SearchStep::Argument, label, path, kind));
        };
        let program = root.resolve(Path::new("/proc/self/exe"));
        let is_driver = component.facts().is_driver();
        if let Some(directory) = program.parent().filter(|_| !is_driver) {
            let beside = directory.with_file_name("lib");
            for path in [
                directory.to_owned(),
                beside.join(format!("cu{}", self.major)),
                beside,
            ] {
                add("beside the program", path, CandidateKind::Libraries);
            }
        }
        let loaded = self.loaded.iter().filter(|path| path.ends_with(soname));
        for directory in loaded.filter_map(|path| path.parent()) {
            add(
                "loaded by this process",
                directory.to_owned(),
                CandidateKind::Libraries,
            );
        }
        if !is_driver {
            for site in self
                .loaded
                .iter()
                .filter_map(|path| site_packages_above(path))
            {
                add(
                    "site-packages of this process",
                    site.to_owned(),
                    CandidateKind::SitePackages,
                );
            }
            let environment = env.path("VIRTUAL_ENV");
            for site in environment
                .iter()
                .flat_map(|prefix| site_packages_of(root, prefix))
            {
                add(
                    "virtual environment of `VIRTUAL_ENV`",
                    site,
                    CandidateKind::SitePackages,
                );
            }
            if let Some(prefix) = env.path("CONDA_PREFIX") {
                let label = "conda environment (`CONDA_PREFIX`)";
                add(label, prefix.join("lib"), CandidateKind::Libraries);
                for site in site_packages_of(root, &prefix) {
                    add(label, site, CandidateKind::SitePackages);
                }
                add(label, prefix, CandidateKind::Root);
            }
        }
        for directory in self.loader_directories(soname) {
            add(
                "where the loader looks",
                directory,
                CandidateKind::Libraries,
            );
        }
        if !is_driver {
            let variables = component.facts().variables.iter().copied();
            for variable in variables.chain(["CUDA_PATH", "CUDA_HOME"]) {
                if let Some(path) = env.path(variable) {
                    add(&variable_label(variable), path, CandidateKind::Root);
                }
            }
        }
        if matches!(component, Component::Cupti | Component::Nvvm) {
            let runtime = Component::Cudart.facts().soname(0, self.major);
            for directory in runtime
                .into_iter()
                .flat_map(|it| self.loader_directories(it))
            {
                let roots = directory.ancestors().skip(1).take(3).map(Path::to_owned);
                for path in roots.filter(|root| root.join("bin/nvcc").is_file()) {
                    add(
                        "toolkit of the runtime that the loader finds",
                        path,
                        CandidateKind::Root,
                    );
                }
            }
        }
        let attempt = OnceCell::new;
        candidates.dedup_by(|one, other| one.path == other.path);
        candidates
            .into_iter()
            .map(|candidate| Place {
                candidate,
                attempt: attempt(),
            })
            .collect()
    }

    /// The directories in which the loader looks for a name.
    fn loader_directories(&self, name: &str) -> Vec<PathBuf> {
        let System { env, root, .. } = self.system;
        let listed = env.get("LD_LIBRARY_PATH").unwrap_or_default();
        let mut directories: Vec<PathBuf> = std::env::split_paths(listed).collect();
        // The cache is a table of numbers, followed by its texts, each with a zero at the end. The paths are among
        // them.
        let cache = root
            .text(&root.locate("/etc/ld.so.cache"))
            .unwrap_or_default();
        let paths = cache
            .split('\0')
            .filter(|text| text.starts_with('/'))
            .map(Path::new);
        let of_name = paths.filter(|path| path.file_name().is_some_and(|file| file == name));
        directories.extend(of_name.filter_map(|path| path.parent()).map(Path::to_owned));
        directories.extend(root.default_search_dirs(self.target.multiarch()));
        directories.retain(|path| path.is_absolute() && !path.ends_with("stubs"));
        directories
    }

    /// The library with this SONAME, and the index of its place.
    fn find(
        &self,
        component: Component,
        soname: &str,
        places: &[Place],
    ) -> Option<(PathBuf, usize)> {
        // cuRAND has the same name for every major: the other libraries in the directory show the major.
        let mut others = majors().filter(|major| *major != self.major);
        let is_ambiguous = others.any(|major| component_of(soname, major) == Some(component));
        let is_driver = component.facts().is_driver();
        places.iter().enumerate().find_map(|(index, place)| {
            if place.candidate.kind == CandidateKind::Libraries {
                let file = place.candidate.path.join(soname);
                if !self.is_library(&file) {
                    return None;
                }
                let sets = || &self.read(place).sets;
                let shows_major =
                    || sets().is_empty() || sets().iter().any(|set| set.major == self.major);
                let is_right = is_driver || !is_ambiguous || shows_major();
                return is_right.then_some((file, index));
            }
            let sets = &self.read(place).sets;
            let of_major = sets.iter().find(|set| set.major == self.major)?;
            let libraries = &of_major.get(component)?.libraries;
            let path = libraries.iter().find(|path| path.ends_with(soname))?;
            Some((path.clone(), index))
        })
    }

    /// Whether a file exists, and is for this machine if it is an ELF file.
    fn is_library(&self, file: &Path) -> bool {
        let root = &self.system.root;
        let machine = self.target.elf_machine();
        root.is_file(file) && root.elf_machine(file).is_none_or(|it| it == machine)
    }

    fn read<'p>(&self, place: &'p Place) -> &'p Attempt {
        let read = || probe(&self.system.root, &self.target, &place.candidate);
        place.attempt.get_or_init(read)
    }

    /// Adds what a library needs: first the needs of each, then the library itself.
    fn add_needs(
        &self,
        component: Component,
        path: &Path,
        needs: &mut Vec<PathBuf>,
    ) -> Result<(), Error> {
        let linked = self.system.root.needed_libraries(path).into_iter();
        let linked = linked.filter_map(|name| Some((component_of(&name, self.major)?, name, true)));
        // Libraries that it opens by name.
        let opened = edges(component, self.major).into_iter();
        let opened = opened.filter(|(_, kind)| *kind == EdgeKind::Load);
        let opened = opened.filter_map(|(component, _)| {
            Some((
                component,
                component.facts().soname(0, self.major)?.to_owned(),
                false,
            ))
        });
        for (component, name, is_linked) in linked.chain(opened) {
            if component.facts().is_driver() {
                continue;
            }
            let beside = path.with_file_name(&name);
            let places = self.places(component, &name);
            let found = if self.is_library(&beside) {
                beside
            } else if let Some((found, _)) = self.find(component, &name, &places) {
                found
            } else if is_linked {
                let why = format!(", which {} needs", path.display());
                return Err(Error(self.not_found(component, &name, &why, &places)));
            } else {
                continue;
            };
            if !needs.contains(&found) {
                self.add_needs(component, &found, needs)?;
                needs.push(found);
            }
        }
        Ok(())
    }

    fn not_found(
        &self,
        component: Component,
        soname: &str,
        why: &str,
        places: &[Place],
    ) -> CoreError {
        let mut message = format!(
            "`{soname}` ({component} for CUDA {}){why} was not found",
            self.major
        );
        for place in places
            .iter()
            .filter(|place| self.system.root.exists(&place.candidate.path))
        {
            let attempt = self.read(place);
            let others = attempt.sets.iter().filter_map(|set| set.get(component));
            let names = others.filter_map(|found| {
                let name = found.libraries.first()?.file_name()?.to_string_lossy();
                Some(format!("`{name}` is for CUDA {}", found.major))
            });
            let unusable = attempt.unusable.iter();
            let unusable =
                unusable.filter(|it| it.component == component && it.major == self.major);
            let names = names.chain(unusable.map(|unusable| unusable.reason.clone()));
            let names: Vec<String> = names.collect();
            let what = match names.as_slice() {
                [] => "no such library".to_owned(),
                names => names.join(", "),
            };
            message += &format!("\n  tried {}: {what}", place.candidate);
        }
        let package = component.facts().package(self.major);
        let package =
            package.map(|name| format!("install it, for example with `pip install {name}`, or "));
        CoreError::NotFound {
            missing: vec![component],
            message,
            hints: vec![format!(
                "{}set `LD_LIBRARY_PATH` or `CUDA_PATH` to where it is",
                package.unwrap_or_default()
            )],
        }
    }
}

/// The component that has a library of this name.
fn component_of(name: &str, major: u32) -> Option<Component> {
    Component::all().find(|component| {
        let facts = component.facts();
        let mut libraries = 0..facts.libraries.len();
        libraries.any(|index| facts.sonames_of(index, major).any(|soname| soname == name))
    })
}

fn site_packages_above(path: &Path) -> Option<&Path> {
    path.ancestors()
        .find(|directory| directory.ends_with("site-packages"))
}
