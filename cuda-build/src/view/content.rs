//! From a toolkit to the plan of its view.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::cmake;
use super::foreign;
use super::join::{Join, Source};
use super::plan::{Entry, Plan};
use super::stub::{Driver, Stub};
use super::text;
use crate::component::{Component, closure};
use crate::error::Error;
use crate::probe::{Found, wrapper};
use crate::root::Root;
use crate::target::Target;
use crate::toolkit::Toolkit;

/// What goes into a view besides what always does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Only these and what they need; everything where `None`.
    pub(super) components: Option<Vec<Component>>,
    /// Static archives of the libraries too: gigabytes, for CUDA 13 nearly all its size.
    pub(super) archives: bool,
    /// No link to a whole directory, so that files can be copied one by one.
    pub(super) every_file: bool,
}

/// Archives that programs are linked with by default; the others are for those who ask.
const USUAL_ARCHIVES: [&str; 3] = ["libcudart_static.a", "libcudadevrt.a", "libculibos.a"];

/// What lies beside nvcc and is found through it, not by itself. `crt` is a directory.
const BESIDE_NVCC: [&str; 9] = [
    "cudafe++",
    "ptxas",
    "fatbinary",
    "nvlink",
    "bin2c",
    "nvprune",
    "cuobjdump",
    "__nvcc_device_query",
    "crt",
];

/// Packages of CMake that CCCL has.
const CMAKE_PACKAGES: [&str; 5] = ["cccl", "cub", "cudax", "libcudacxx", "thrust"];

struct Planner<'a> {
    root: &'a Root,
    target: &'a Target,
    options: &'a Options,
    found: Vec<&'a Found>,
    plan: Plan,
}

/// Everything that a view of `toolkit` holds.
///
/// # Errors
/// [`Error::ViewConflict`] where two components have files of one name and other content.
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
    let cache = cmake::initial_cache(planner.plan.has("bin/nvcc"), |path| planner.plan.has(path));
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
                if self.is_apart(found, directory) {
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
                // Components of one directory would each bring all of it; in a directory that is
                // not CUDA's alone each brings its own.
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

    /// NVIDIA keeps the sanitizer below `compute-sanitizer`: its headers and those of CUPTI have
    /// names in common and other contents. In CUDA 13's wheels they are in one directory already.
    fn is_apart(&self, found: &Found, directory: &Path) -> bool {
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
                    let alias = Entry::Alias(name.to_string_lossy().into_owned());
                    self.plan
                        .put(Path::new("lib").join(format!("{stem}.so")), alias);
                }
            }
            // Some have no version in their names: those of CUPTI's helpers.
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
                // CUDA 12's wheels have it in the runtime's.
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

    fn compiler(&mut self) -> Result<(), Error> {
        for found in self.found.clone() {
            for tool in found
                .tools
                .iter()
                .filter(|tool| tool.file_name().is_some_and(|n| n != "cicc"))
            {
                // Somebody may have named a compiler of another name.
                let is_nvcc =
                    found.component == Component::Nvcc && found.tool("nvcc") == Some(tool);
                let name = if is_nvcc {
                    "nvcc".as_ref()
                } else {
                    tool.file_name().unwrap_or_default()
                };
                let tool = if name == "nvcc" {
                    real_nvcc(self.root, tool)
                } else {
                    tool.clone()
                };
                self.link(found.component, Path::new("bin").join(name), tool)?;
            }
        }
        let Some(nvcc) = self
            .get(Component::Nvcc)
            .and_then(|found| found.tool("nvcc"))
            .cloned()
        else {
            return Ok(());
        };
        let nvcc = real_nvcc(self.root, &nvcc);
        let mut places: Vec<PathBuf> = Vec::new();
        for path in [nvcc.clone(), self.root.resolve(&nvcc)] {
            places.extend(path.parent().map(Path::to_owned));
        }
        places.dedup();
        for name in BESIDE_NVCC {
            let path = format!("bin/{name}");
            let found = places
                .iter()
                .map(|place| place.join(name))
                .find(|file| self.root.exists(file));
            if let Some(file) = found.filter(|_| !self.plan.has(&path)) {
                self.tree(Component::Nvcc, &path, &file)?;
            }
        }
        self.plan.put(
            "bin/nvcc.profile",
            Entry::Text(text::nvcc_profile(self.cccl_is_apart())),
        );
        self.nvvm(&places)
    }

    fn cccl_is_apart(&self) -> bool {
        let inside = Path::new("include/cccl");
        self.plan
            .entries
            .keys()
            .any(|path| path.starts_with(inside))
    }

    /// `cicc`, `libdevice` and `libnvvm`: below `nvvm` in most layouts, beside nvcc in Debian's.
    fn nvvm(&mut self, beside_nvcc: &[PathBuf]) -> Result<(), Error> {
        let own = self
            .get(Component::Nvvm)
            .and_then(|found| found.tool("cicc"))
            .cloned();
        let near = beside_nvcc
            .iter()
            .flat_map(|place| [place.join("cicc"), place.join("../nvvm/bin/cicc")]);
        let Some(cicc) = own.or_else(|| near.into_iter().find(|path| self.root.is_file(path)))
        else {
            return Ok(());
        };
        let component = Component::Nvvm;
        let real = self.root.resolve(&cicc);
        self.link(component, "nvvm/bin/cicc", cicc.clone())?;
        for cicc in [&cicc, &real] {
            let Some(nvvm) = cicc.parent().and_then(Path::parent) else {
                continue;
            };
            let libdevice = nvvm.join("libdevice");
            if self.root.is_dir(&libdevice) && !self.plan.has("nvvm/libdevice") {
                self.tree(component, "nvvm/libdevice", &libdevice)?;
                break;
            }
        }
        if let Some(library) = self
            .get(component)
            .and_then(|found| found.libraries.first())
            .cloned()
        {
            let name = library
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            // With its wheel's other libraries in `lib`; readers of the usual layout look here.
            self.link(component, Path::new("nvvm/lib64").join(&name), library)?;
            self.plan.put("nvvm/lib64/libnvvm.so", Entry::Alias(name));
        }
        if self.plan.has("include/nvvm.h") {
            self.plan
                .put("nvvm/include/nvvm.h", Entry::Inside("../../include/nvvm.h"));
        }
        Ok(())
    }

    /// A file or directory as it is.
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

    /// The source's own where it has them, else made from the driver's headers.
    fn stubs(&mut self) -> Result<(), Error> {
        for driver in Driver::ALL {
            let path = format!("lib/stubs/{}", driver.file_name());
            let component = match driver {
                Driver::Cuda => Component::Cudart,
                Driver::Nvml => Component::Nvml,
            };
            let mut places: Vec<PathBuf> = Vec::new();
            for file in self
                .found
                .iter()
                .flat_map(|f| f.libraries.iter().chain(&f.archives))
            {
                places.extend(
                    file.parent()
                        .map(|place| place.join("stubs").join(driver.file_name())),
                );
            }
            for include in self
                .get(component)
                .into_iter()
                .flat_map(|found| &found.include)
            {
                let beside = |name| {
                    include
                        .join("..")
                        .join(name)
                        .join("stubs")
                        .join(driver.file_name())
                };
                places.extend([beside("lib"), beside("lib64")]);
            }
            places.dedup();
            if let Some(shipped) = places.into_iter().find(|path| self.root.is_file(path)) {
                self.link(component, path, shipped)?;
                continue;
            }
            if let Some((stub, identity)) = self.stub(driver) {
                self.plan.put(path, Entry::Stub { stub, identity });
            }
        }
        Ok(())
    }

    fn stub(&self, driver: Driver) -> Option<(Stub, String)> {
        let directories = self.found.iter().flat_map(|found| &found.include);
        let header = |name: &str| {
            directories
                .clone()
                .map(|directory| directory.join(name))
                .find(|path| self.root.is_file(path))
        };
        let main = header(driver.headers()[0])?;
        let mut headers = vec![main];
        headers.extend(driver.headers()[1..].iter().filter_map(|name| header(name)));
        let identity: Vec<String> = headers
            .iter()
            .map(|path| format!("{} {}", path.display(), self.root.identity(path)))
            .collect();
        Some((
            Stub {
                driver,
                headers,
                platform: self.target.directory(),
            },
            identity.join("\n"),
        ))
    }

    /// `find_package(CCCL)` and its parts look for headers from where they are: `../../../include`.
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

    /// The names that consumers of one layout or another look under.
    fn layout(&mut self) {
        self.plan.put("lib64", Entry::Inside("lib"));
        let platform = Path::new("targets").join(self.target.directory());
        self.plan
            .put(platform.join("include"), Entry::Inside("../../include"));
        self.plan
            .put(platform.join("lib"), Entry::Inside("../../lib"));
        if self.get(Component::Cupti).is_some() {
            self.plan
                .put("extras/CUPTI/include", Entry::Inside("../../include"));
            self.plan
                .put("extras/CUPTI/lib64", Entry::Inside("../../lib"));
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
            self.plan
                .put(directory.join(format!("{name}.pc")), Entry::Alias(file));
        }
    }
}

/// Debian's and Nix's nvcc are scripts that call another one with its own profile: for a view
/// the other one counts.
fn real_nvcc(root: &Root, nvcc: &Path) -> PathBuf {
    const SCRIPT_LIMIT: u64 = 64 * 1024;
    let small = root
        .metadata(nvcc)
        .is_ok_and(|metadata| metadata.len() < SCRIPT_LIMIT);
    let text = small.then(|| root.text(nvcc).ok()).flatten();
    let Some(script) = text.filter(|text| text.starts_with("#!")) else {
        return nvcc.to_owned();
    };
    let named = wrapper(&script).map(|wrapper| wrapper.program);
    let bin = nvcc.parent().unwrap_or(Path::new("."));
    let known = [
        "../lib/nvidia-cuda-toolkit/bin/nvcc",
        "nvcc.bin",
        ".nvcc-wrapped",
    ];
    let mut places = named
        .into_iter()
        .chain(known.iter().map(|name| bin.join(name)));
    places
        .find(|path| root.is_file(path))
        .unwrap_or_else(|| nvcc.to_owned())
}

#[cfg(test)]
mod tests;
