//! From a toolkit to the plan of its view.

mod compiler;
mod stubs;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::cmake;
use super::foreign;
use super::join::{Join, Source};
use super::plan::{Entry, Plan};
use super::stub::Driver;
use super::text;
use crate::component::{Component, closure};
use crate::error::Error;
use crate::probe::Found;
use crate::root::Root;
use crate::target::Target;
use crate::toolkit::Toolkit;

/// What a view contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// These components and those that they need; `None` for all of the toolkit.
    pub(super) components: Option<Vec<Component>>,
    /// Also the static archives of the math libraries: gigabytes, nearly all of CUDA 13's size.
    pub(super) archives: bool,
    /// A link for each file instead of links to directories, so that the files can be copied.
    pub(super) every_file: bool,
}

/// Archives that nvcc links by default, or that a default one needs.
const USUAL_ARCHIVES: [&str; 3] = ["libcudart_static.a", "libcudadevrt.a", "libculibos.a"];

/// The CMake packages of CCCL.
const CMAKE_PACKAGES: [&str; 5] = ["cccl", "cub", "cudax", "libcudacxx", "thrust"];

struct Planner<'a> {
    root: &'a Root,
    target: &'a Target,
    options: &'a Options,
    found: Vec<&'a Found>,
    plan: Plan,
}

/// The plan of a view of `toolkit`.
///
/// # Errors
/// [`Error::ViewConflict`] if two components have different files of the same name.
pub(super) fn plan(
    toolkit: &Toolkit,
    root: &Root,
    target: &Target,
    options: &Options,
) -> Result<Plan, Error> {
    let wanted = options
        .components
        .as_deref()
        .map(|wanted| with_needs(wanted, toolkit.version().major));
    let found: Vec<&Found> = toolkit
        .components()
        .iter()
        .map(|chosen| &chosen.found)
        .filter(|found| {
            wanted
                .as_ref()
                .is_none_or(|wanted| wanted.contains(&found.component))
        })
        .collect();
    let mut planner = Planner {
        root,
        target,
        options,
        found,
        plan: Plan::default(),
    };
    planner.headers()?;
    planner.libraries()?;
    planner.compiler()?;
    planner.stubs()?;
    planner.cmake_packages()?;
    planner.layout();
    let version = text::version_json(toolkit.version(), &planner.found);
    planner.plan.put("version.json", Entry::Text(version));
    planner.pkg_config(toolkit);
    let cache = cmake::initial_cache(|path| planner.plan.has(path));
    planner
        .plan
        .put("cmake/initial-cache.cmake", Entry::Text(cache));
    planner.plan.put(
        "cmake/toolchain.cmake",
        Entry::Text(cmake::TOOLCHAIN.to_owned()),
    );
    Ok(planner.plan)
}

fn with_needs(components: &[Component], major: u32) -> Vec<Component> {
    let needed = closure(components, major)
        .into_iter()
        .map(|(component, _)| component);
    components.iter().copied().chain(needed).collect()
}

impl Planner<'_> {
    fn get(&self, component: Component) -> Option<&Found> {
        self.found
            .iter()
            .copied()
            .find(|found| found.component == component)
    }

    fn link(
        &mut self,
        component: Component,
        path: impl Into<PathBuf>,
        target: PathBuf,
    ) -> Result<(), Error> {
        self.plan.link(self.root, component, path.into(), target)
    }

    fn headers(&mut self) -> Result<(), Error> {
        let mut sources: Vec<Source> = Vec::new();
        let mut below: BTreeMap<OsString, Vec<Source>> = BTreeMap::new();
        for found in self.found.clone() {
            for directory in &found.include {
                if self.has_own_directory(found, directory) {
                    self.tree(found.component, "compute-sanitizer/include", directory)?;
                    continue;
                }
                let source = Source {
                    component: found.component,
                    directory: directory.clone(),
                };
                let list = if directory.ends_with("cccl") {
                    below.entry("cccl".into()).or_default()
                } else {
                    &mut sources
                };
                // Components that share a directory would each add all of it. From a directory
                // that other projects share, each adds its own headers only.
                let known = list.iter().any(|known| known.directory == *directory);
                if !known || foreign::is_shared(self.root, directory) {
                    list.push(source);
                }
            }
        }
        let shared: Vec<PathBuf> = sources
            .iter()
            .map(|source| source.directory.clone())
            .filter(|directory| foreign::is_shared(self.root, directory))
            .collect();
        let wanted = |source: &Source, name: &OsStr| {
            !shared.contains(&source.directory) || foreign::is_header_of(source.component, name)
        };
        let join = Join {
            root: self.root,
            whole: !self.options.every_file,
            wanted: &wanted,
        };
        join.join(&mut self.plan, Path::new("include"), &sources, &below)
    }

    /// NVIDIA's installers have the sanitizer below `compute-sanitizer`, because some of its headers
    /// have the names of CUPTI's and other contents. The wheels of CUDA 13 have both in one
    /// directory.
    fn has_own_directory(&self, found: &Found, directory: &Path) -> bool {
        let others = || {
            self.found
                .iter()
                .filter(|other| other.component != Component::Sanitizer)
        };
        found.component == Component::Sanitizer
            && !others().any(|other| other.include.iter().any(|include| include == directory))
    }

    fn libraries(&mut self) -> Result<(), Error> {
        for found in self.found.clone() {
            let facts = found.component.facts();
            for library in &found.libraries {
                let Some(name) = library.file_name() else {
                    continue;
                };
                self.link(
                    found.component,
                    Path::new("lib").join(name),
                    library.clone(),
                )?;
                if let Some((stem, _)) = name.to_str().and_then(|name| name.split_once(".so."))
                    && facts
                        .libraries
                        .iter()
                        .any(|known| stem.strip_prefix("lib") == Some(known))
                {
                    let alias = Entry::Link(name.into());
                    self.plan
                        .put(Path::new("lib").join(format!("{stem}.so")), alias);
                }
            }
            // The names of CUPTI's helper libraries have no version.
            if let Some(directory) = found.libraries.first().and_then(|library| library.parent()) {
                for name in facts.libraries.iter().map(|name| format!("lib{name}.so")) {
                    if !self.plan.has(&format!("lib/{name}"))
                        && self.root.is_file(&directory.join(&name))
                    {
                        self.link(
                            found.component,
                            Path::new("lib").join(&name),
                            directory.join(&name),
                        )?;
                    }
                }
            }
            let mut archives = found.archives.clone();
            if found.component == Component::Cudart {
                // The wheels of CUDA 12 have culibos in the runtime's package.
                let beside = found.archives.first().and_then(|archive| archive.parent());
                archives.extend(
                    beside
                        .map(|d| d.join("libculibos.a"))
                        .filter(|path| self.root.is_file(path)),
                );
            }
            for archive in archives {
                let Some(name) = archive.file_name().map(OsStr::to_owned) else {
                    continue;
                };
                if self.options.archives || USUAL_ARCHIVES.iter().any(|usual| name == *usual) {
                    self.link(found.component, Path::new("lib").join(name), archive)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a file or a directory.
    fn tree(&mut self, component: Component, path: &str, source: &Path) -> Result<(), Error> {
        if self.root.is_dir(source) && self.options.every_file {
            let source = Source {
                component,
                directory: source.to_owned(),
            };
            let join = Join {
                root: self.root,
                whole: false,
                wanted: &|_, _| true,
            };
            return join.join(&mut self.plan, Path::new(path), &[source], &BTreeMap::new());
        }
        self.link(component, path, source.to_owned())
    }

    /// `find_package(CCCL)` and its parts search headers relative to themselves, in
    /// `../../../include`.
    fn cmake_packages(&mut self) -> Result<(), Error> {
        let Some(include) = self
            .get(Component::Cccl)
            .and_then(|found| found.include.first())
            .cloned()
        else {
            return Ok(());
        };
        let Some(prefix) = include
            .ancestors()
            .find(|path| path.ends_with("include"))
            .and_then(Path::parent)
        else {
            return Ok(());
        };
        for place in ["cccl/lib/cmake", "lib/cmake", "lib64/cmake"] {
            for name in CMAKE_PACKAGES {
                let package = prefix.join(place).join(name);
                let path = format!("lib/cmake/{name}");
                if self.root.is_dir(&package) && !self.plan.has(&path) {
                    self.tree(Component::Cccl, &path, &package)?;
                }
            }
        }
        Ok(())
    }

    /// The other names that consumers use for directories of the view.
    fn layout(&mut self) {
        self.plan.put("lib64", Entry::Link("lib".into()));
        let platform = Path::new("targets").join(self.target.directory());
        self.plan.put(
            platform.join("include"),
            Entry::Link("../../include".into()),
        );
        self.plan
            .put(platform.join("lib"), Entry::Link("../../lib".into()));
        if self.get(Component::Cupti).is_some() {
            self.plan
                .put("extras/CUPTI/include", Entry::Link("../../include".into()));
            self.plan
                .put("extras/CUPTI/lib64", Entry::Link("../../lib".into()));
        }
    }

    /// `cudart-13.4.pc` after the component's own version, as NVIDIA names them, and `cudart.pc`.
    fn pkg_config(&mut self, toolkit: &Toolkit) {
        let release = toolkit.version().to_string();
        let mut files: Vec<(String, String, String, bool)> = Vec::new();
        for found in &self.found {
            let version = found
                .version
                .as_ref()
                .map_or_else(|| release.clone(), ToString::to_string);
            for library in found.component.facts().libraries {
                if self.plan.has(&format!("lib/lib{library}.so")) {
                    let name = library.to_ascii_lowercase();
                    files.push((name, (*library).to_owned(), version.clone(), false));
                }
            }
        }
        for (driver, name, library) in [
            (Driver::Cuda, "cuda", "cuda"),
            (Driver::Nvml, "nvidia-ml", "nvidia-ml"),
        ] {
            if self.plan.has(&format!("lib/stubs/{}", driver.file_name())) {
                files.push((name.to_owned(), library.to_owned(), release.clone(), true));
            }
        }
        for (name, library, version, stub) in files {
            let short: Vec<&str> = version.splitn(3, '.').take(2).collect();
            let file = format!("{name}-{}.pc", short.join("."));
            let text = text::pkg_config(&name, &library, &version, stub);
            let directory = Path::new("lib/pkgconfig");
            self.plan.put(directory.join(&file), Entry::Text(text));
            self.plan.put(
                directory.join(format!("{name}.pc")),
                Entry::Link(file.into()),
            );
        }
    }
}

#[cfg(test)]
mod tests;
