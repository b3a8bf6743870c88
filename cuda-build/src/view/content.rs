//! Plans the view of a toolkit: which files it has, and at which paths.

mod compiler;
mod headers;

use std::path::{Path, PathBuf};

use super::ViewPlace;
use super::cmake;
use super::plan::{Entry, Source, ViewPlan};
use super::stub::{DRIVERS, Driver, Stub};
use super::text;
use crate::component::{Component, closure};
use crate::error::Error;
use crate::probe::Found;
use crate::root::Root;
use crate::target::Target;
use crate::toolkit::Toolkit;

/// Archives that nvcc links by default, and the archive that they need.
const USUAL_ARCHIVES: [&str; 3] = ["libcudart_static.a", "libcudadevrt.a", "libculibos.a"];

/// The CMake packages of CCCL.
const CMAKE_PACKAGES: [&str; 5] = ["cccl", "cub", "cudax", "libcudacxx", "thrust"];

struct Planner<'a, 'r> {
    root: &'r Root,
    target: &'a Target,
    /// The components of the view.
    found: &'a [&'a Found],
    plan: ViewPlan<'r>,
}

/// Plans the view of `toolkit` that `place` describes.
pub(super) fn plan<'r>(
    toolkit: &Toolkit,
    root: &'r Root,
    place: &ViewPlace,
) -> Result<ViewPlan<'r>, Error> {
    let wanted = place.components.as_ref().map(|components| {
        let mut wanted = components.clone();
        for (component, _) in closure(components, toolkit.version().major) {
            wanted.push(component);
        }
        wanted
    });
    let mut found: Vec<&Found> = toolkit.components().iter().map(|c| &c.found).collect();
    if let Some(wanted) = wanted {
        found.retain(|found| wanted.contains(&found.component));
    }
    let mut planner = Planner {
        root,
        target: &place.target,
        found: &found,
        plan: ViewPlan::new(root, place.copy),
    };
    planner.headers()?;
    planner.libraries(place.archives)?;
    planner.compiler()?;
    planner.stubs()?;
    planner.cmake_packages()?;
    planner.layout();
    planner.pkg_config(toolkit);
    let mut plan = planner.plan;
    let version = text::version_json(toolkit.version(), &found);
    let cache = cmake::initial_cache(|path| plan.has(path));
    plan.put("version.json", Entry::Text(version));
    plan.put("cmake/initial-cache.cmake", Entry::Text(cache));
    let toolchain = cmake::TOOLCHAIN.to_owned();
    plan.put("cmake/toolchain.cmake", Entry::Text(toolchain));
    Ok(plan)
}

impl<'a> Planner<'a, '_> {
    fn get(&self, component: Component) -> Option<&'a Found> {
        let mut found = self.found.iter().copied();
        found.find(|found| found.component == component)
    }

    /// Adds a file or directory of a component.
    fn add(&mut self, component: Component, path: String, source: &Path) -> Result<(), Error> {
        let source = Source {
            component,
            path: source.to_owned(),
        };
        self.plan.add(path, source)
    }

    fn libraries(&mut self, all_archives: bool) -> Result<(), Error> {
        for found in self.found {
            let component = found.component;
            for library in &found.libraries {
                self.add(component, in_lib(library), library)?;
            }
            let directory = found.libraries.first().and_then(|path| path.parent());
            for name in component.facts().libraries {
                let name = format!("lib{name}.so");
                let is_versioned = |file: &&str| {
                    let rest = file.strip_prefix(&*name);
                    rest.is_some_and(|rest| rest.starts_with('.'))
                };
                let mut files = found.libraries.iter().filter_map(|path| path.file_name());
                let versioned = files.find_map(|file| file.to_str().filter(is_versioned));
                if let Some(file) = versioned {
                    self.plan.link(format!("lib/{name}"), file);
                    continue;
                }
                // Some libraries, such as CUPTI's helpers, have no version in their file name.
                let file = directory.map(|directory| directory.join(&name));
                if let Some(file) = file.filter(|file| self.root.is_file(file)) {
                    self.add(component, format!("lib/{name}"), &file)?;
                }
            }
            let mut archives = found.archives.clone();
            if component == Component::Cudart {
                // In the wheels of CUDA 12, `libculibos.a` is in the package of cudart.
                let beside = archives.first().and_then(|archive| archive.parent());
                let culibos = beside.map(|directory| directory.join("libculibos.a"));
                archives.extend(culibos.filter(|path| self.root.is_file(path)));
            }
            for archive in archives {
                let is_usual = USUAL_ARCHIVES.iter().any(|usual| archive.ends_with(usual));
                if all_archives || is_usual {
                    self.add(component, in_lib(&archive), &archive)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the stubs of the driver's libraries that the toolkit contains, and generates the others.
    fn stubs(&mut self) -> Result<(), Error> {
        let mut beside_libraries: Vec<PathBuf> = Vec::new();
        for found in self.found {
            for file in found.libraries.iter().chain(&found.archives) {
                beside_libraries.extend(file.parent().map(Path::to_owned));
            }
        }
        beside_libraries.dedup();
        for driver in &DRIVERS {
            let mut places = beside_libraries.clone();
            for include in self.get(driver.component).iter().flat_map(|f| &f.include) {
                places.push(include.join("../lib"));
                places.push(include.join("../lib64"));
            }
            let stub = format!("stubs/lib{}.so", driver.name);
            let mut shipped = places.iter().map(|place| place.join(&stub));
            if let Some(file) = shipped.find(|file| self.root.is_file(file)) {
                self.add(driver.component, driver.path(), &file)?;
            } else if let Some(stub) = self.generated_stub(driver) {
                self.plan.put(driver.path(), stub);
            }
        }
        Ok(())
    }

    /// A stub generated from the driver's headers; `None` if the required header is missing.
    fn generated_stub(&self, driver: &'static Driver) -> Option<Entry> {
        let directories = self.found.iter().flat_map(|found| &found.include);
        let header = |name: &&str| {
            let mut files = directories.clone().map(|directory| directory.join(name));
            files.find(|path| self.root.is_file(path))
        };
        let mut headers = vec![header(&driver.headers[0])?];
        headers.extend(driver.headers[1..].iter().filter_map(header));
        let mut identity = String::new();
        for path in &headers {
            identity.push_str(&format!(
                "{} {}\n",
                path.display(),
                self.root.identity(path)
            ));
        }
        let platform = self.target.directory();
        Some(Entry::Stub {
            stub: Stub {
                driver,
                headers,
                platform,
            },
            identity,
        })
    }

    /// Adds CCCL's CMake packages, which look for headers in `../../../include` relative to their own
    /// directory.
    fn cmake_packages(&mut self) -> Result<(), Error> {
        let cccl = self.get(Component::Cccl);
        let include = cccl.and_then(|found| found.include.first());
        // CCCL's headers may be in `include/cccl`: go up to `include`.
        let include = include.and_then(|path| path.ancestors().find(|p| p.ends_with("include")));
        let Some(prefix) = include.and_then(Path::parent) else {
            return Ok(());
        };
        for name in CMAKE_PACKAGES {
            let places = ["cccl/lib/cmake", "lib/cmake", "lib64/cmake"];
            let mut packages = places
                .into_iter()
                .map(|place| prefix.join(place).join(name));
            if let Some(package) = packages.find(|path| self.root.is_dir(path)) {
                self.add(Component::Cccl, format!("lib/cmake/{name}"), &package)?;
            }
        }
        Ok(())
    }

    /// Adds links for other paths at which consumers look for the view's directories, such as `lib64`.
    fn layout(&mut self) {
        let platform = Path::new("targets").join(self.target.directory());
        self.plan.link("lib64", "lib");
        self.plan.link(platform.join("include"), "../../include");
        self.plan.link(platform.join("lib"), "../../lib");
        if self.get(Component::Cupti).is_some() {
            self.plan.link("extras/CUPTI/include", "../../include");
            self.plan.link("extras/CUPTI/lib64", "../../lib");
        }
    }

    /// Adds a pkg-config file for each library. As in NVIDIA's toolkits, its name contains the
    /// component's version: `cudart-13.4.pc`. The link `cudart.pc` leads to it.
    fn pkg_config(&mut self, toolkit: &Toolkit) {
        let release = toolkit.version().to_string();
        let mut files = Vec::new();
        for found in self.found {
            let version = found.version.as_ref().map(ToString::to_string);
            let version = version.unwrap_or_else(|| release.clone());
            let libraries = found.component.facts().libraries;
            files.extend(libraries.iter().map(|name| ("lib", *name, version.clone())));
        }
        let stub = |driver: &Driver| ("lib/stubs", driver.name, release.clone());
        files.extend(DRIVERS.each_ref().map(stub));
        for (directory, library, version) in files {
            if !self.plan.has(&format!("{directory}/lib{library}.so")) {
                continue;
            }
            let name = library.to_ascii_lowercase();
            let short: Vec<&str> = version.splitn(3, '.').take(2).collect();
            let file = format!("{name}-{}.pc", short.join("."));
            let text = text::pkg_config(library, directory, &version);
            self.plan
                .put(format!("lib/pkgconfig/{file}"), Entry::Text(text));
            self.plan.link(format!("lib/pkgconfig/{name}.pc"), file);
        }
    }
}

/// The path that a library or archive gets in the view: `lib/<file name>`.
fn in_lib(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    format!("lib/{}", name.to_string_lossy())
}

#[cfg(test)]
mod tests;
