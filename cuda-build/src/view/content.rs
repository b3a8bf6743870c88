//! Plans the view of a toolkit: which files it has, and at which paths.
//!
//! `/usr/include` and the `include` of a conda environment hold headers of other projects too. From
//! these directories, a view takes only CUDA's headers, because a compiler would find the system's
//! headers in a view before its own headers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::cmake;
use super::place::ViewPlace;
use super::plan::{ComponentPath, Contents, ViewEntry, ViewPlan};
use super::stub::{self, DRIVERS, Stub};
use crate::error::Error;
use cuda_find_core::component::{Component, Facts};
use cuda_find_core::{env::Env, found::Found, link, nvcc, root::Root, target::Target};
use cuda_find_core::{toolkit::Toolkit, version::ToolkitVersion};

/// The CMake packages of CCCL.
const CMAKE_PACKAGES: [&str; 5] = ["cccl", "cub", "cudax", "libcudacxx", "thrust"];

/// The files that a view takes from the directory of nvcc: the programs that nvcc starts, NVIDIA's tools for device
/// code, and the directory `crt`, which Debian's packages have there.
const BESIDE_NVCC: &str =
    "cudafe++ ptxas fatbinary nvlink bin2c nvprune cuobjdump __nvcc_device_query crt";

/// Prefixes of other projects' headers. They would match a prefix of CUDA's headers: `nvme` starts with `nv`.
const FOREIGN_PREFIXES: [&str; 4] = ["nvme", "nvpair", "cubeb", "nvtop"];

struct Planner<'a, 'r> {
    root: &'r Root,
    env: &'a Env,
    target: &'a Target,
    /// The components of the view.
    found: Vec<&'a Found>,
    plan: ViewPlan<'r>,
}

/// Plans the view of `toolkit` that `place` describes.
pub(super) fn plan<'r>(
    toolkit: &Toolkit,
    root: &'r Root,
    place: &ViewPlace,
    env: &Env,
) -> Result<ViewPlan<'r>, Error> {
    let found: Vec<&Found> = toolkit.components().iter().collect();
    let mut planner = Planner {
        root,
        env,
        target: &place.target,
        plan: ViewPlan::new(root),
        found: found.clone(),
    };
    planner.headers()?;
    planner.libraries()?;
    planner.compiler()?;
    if let Some(script) = &place.nvcc_wrapper {
        planner.plan.wrap_nvcc(script);
    }
    planner.stubs()?;
    planner.cmake_packages()?;
    planner.layout();
    let mut plan = planner.plan;
    let cache = cmake::initial_cache(|path| plan.has(path));
    plan.set_text("version.json", version_json(toolkit.version(), &found));
    plan.set_text("cmake/initial-cache.cmake", cache);
    plan.set_text("cmake/toolchain.cmake", cmake::TOOLCHAIN.to_owned());
    Ok(plan)
}

impl<'a> Planner<'a, '_> {
    fn get(&self, component: Component) -> Option<&'a Found> {
        let mut found = self.found.iter().copied();
        found.find(|found| found.component == component)
    }

    fn tool(&self, component: Component, name: &str) -> Option<&'a PathBuf> {
        self.get(component)?.tool(name)
    }

    fn include(&self, component: Component) -> &'a [PathBuf] {
        self.get(component).map_or(&[], |found| &found.include)
    }

    /// The path `name` below the first of these directories that has a file or directory there.
    fn find<P: AsRef<Path>>(
        &self,
        directories: impl IntoIterator<Item = P>,
        name: &str,
    ) -> Option<PathBuf> {
        let directories = directories.into_iter();
        let mut paths = directories.map(|directory| directory.as_ref().join(name));
        paths.find(|path| self.root.exists(path))
    }

    /// Adds a file or directory of a component.
    fn add(&mut self, component: Component, path: &str, source: &Path) -> Result<(), Error> {
        let source = ComponentPath {
            component,
            path: source.to_owned(),
        };
        self.plan.add(path, source)
    }

    /// Adds a file or directory of a component to a directory of the view, under its own name.
    fn add_to(&mut self, component: Component, directory: &str, file: &Path) -> Result<(), Error> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        self.add(component, &format!("{directory}/{name}"), file)
    }

    fn headers(&mut self) -> Result<(), Error> {
        let mut contents = Contents::default();
        let mut listed_directories: Vec<&Path> = Vec::new();
        for found in self.found.clone() {
            for directory in &found.include {
                let component = found.component;
                let path = directory.clone();
                let source = ComponentPath { component, path };
                if self.has_separate_headers(directory) {
                    self.plan.add("compute-sanitizer/include", source)?;
                } else if directory.ends_with("cccl") {
                    contents.add("cccl".into(), source);
                } else if is_shared(self.root, directory) {
                    contents.add_all_of(self.root, &source, &|name| is_header_of(component, name));
                } else if !listed_directories.contains(&&**directory) {
                    // Several components may share a directory.
                    listed_directories.push(directory);
                    contents.add_all_of(self.root, &source, &|_| true);
                }
            }
        }
        self.plan.add_contents(Path::new("include"), contents)
    }

    /// Whether `directory` has headers of the sanitizer only. NVIDIA's installers put these headers below
    /// `compute-sanitizer`, because some have the same names as CUPTI's headers but different contents.
    /// The wheels of CUDA 13 have the headers of both in one directory.
    fn has_separate_headers(&self, directory: &PathBuf) -> bool {
        let mut users = (self.found.iter()).filter(|found| found.include.contains(directory));
        users.all(|user| user.component == Component::Sanitizer)
    }

    fn libraries(&mut self) -> Result<(), Error> {
        for found in self.found.clone() {
            let component = found.component;
            for library in &found.libraries {
                self.add_to(component, "lib", library)?;
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
                    self.plan.set_link(format!("lib/{name}"), file);
                    continue;
                }
                // Some libraries, such as CUPTI's helpers, have no version in their file name.
                if let Some(file) = self.find(directory, &name) {
                    self.add_to(component, "lib", &file)?;
                }
            }
            let mut archives = found.archives.clone();
            if component == Component::Cudart {
                // In the wheels of CUDA 12, `libculibos.a` is in the package of cudart.
                let directory = archives.first().and_then(|archive| archive.parent());
                archives.extend(self.find(directory, "libculibos.a"));
            }
            for archive in archives {
                self.add_to(component, "lib", &archive)?;
            }
        }
        Ok(())
    }

    fn compiler(&mut self) -> Result<(), Error> {
        for found in self.found.clone() {
            for tool in &found.tools {
                if !tool.ends_with("cicc") && Some(tool) != found.tool("nvcc") {
                    self.add_to(found.component, "bin", tool)?;
                }
            }
        }
        match self.tool(Component::Nvcc, "nvcc") {
            Some(nvcc) => self.nvcc(&real_nvcc(self.root, nvcc)),
            None => Ok(()),
        }
    }

    /// Adds nvcc, which is `bin/nvcc` even if the user named a compiler such as `nvcc-13`, the files beside it, a
    /// configuration file that fits the view, and NVVM.
    fn nvcc(&mut self, nvcc: &Path) -> Result<(), Error> {
        self.add(Component::Nvcc, "bin/nvcc", nvcc)?;
        let real = self.root.resolve(nvcc);
        let directories = [nvcc, &real].map(|nvcc| nvcc.parent().unwrap_or(nvcc));
        for name in BESIDE_NVCC.split(' ') {
            let file = self.find(directories, name);
            if let Some(file) = file.filter(|_| !self.plan.has(&format!("bin/{name}"))) {
                self.add_to(Component::Nvcc, "bin", &file)?;
            }
        }
        let mut paths = self.plan.entries.keys();
        let has_cccl_directory = paths.any(|path| path.starts_with("include/cccl"));
        let profile = nvcc_profile(has_cccl_directory);
        self.plan.set_text("bin/nvcc.profile", profile);
        self.nvvm(directories)
    }

    /// Adds `cicc`, `libdevice` and `libnvvm`. Most toolkits have them below `nvvm`; Debian has `cicc`
    /// beside nvcc.
    fn nvvm(&mut self, nvcc_directories: [&Path; 2]) -> Result<(), Error> {
        let mut files = Vec::from_iter(self.tool(Component::Nvvm, "cicc").cloned());
        for directory in nvcc_directories {
            files.push(directory.join("cicc"));
            files.push(directory.join("../nvvm/bin/cicc"));
        }
        let Some(cicc) = files.iter().find(|path| self.root.is_file(path)) else {
            return Ok(());
        };
        self.add_to(Component::Nvvm, "nvvm/bin", cicc)?;
        let programs = [cicc, &self.root.resolve(cicc)];
        let roots = programs.map(|program| program.ancestors().nth(2));
        if let Some(libdevice) = self.find(roots.into_iter().flatten(), "libdevice") {
            self.add_to(Component::Nvvm, "nvvm", &libdevice)?;
        }
        let nvvm = self.get(Component::Nvvm);
        if let Some(library) = nvvm.and_then(|nvvm| nvvm.libraries.first()) {
            // NVIDIA's installers put `libnvvm` here. The view also has it in `lib`.
            self.add_to(Component::Nvvm, "nvvm/lib64", library)?;
            let name = library.file_name().unwrap_or_default();
            self.plan.set_link("nvvm/lib64/libnvvm.so", name);
        }
        if self.plan.has("include/nvvm.h") {
            self.plan
                .set_link("nvvm/include/nvvm.h", "../../include/nvvm.h");
        }
        Ok(())
    }

    /// Adds the stubs of the driver's libraries: those that the toolkit contains, otherwise ones that the C compiler
    /// makes from the driver's headers.
    fn stubs(&mut self) -> Result<(), Error> {
        for driver in &DRIVERS {
            let found = self.found.iter().copied();
            if let Some(file) = link::shipped_stub(self.root, found, driver.name) {
                self.add(driver.component, &driver.path(), &file)?;
                continue;
            }
            let all_include = self.found.iter().flat_map(|found| &found.include);
            let headers: Vec<PathBuf> = (driver.headers.iter())
                .filter_map(|name| self.find(all_include.clone(), name))
                .collect();
            // Without the required header, the toolkit has nothing to make a stub from.
            if !(headers.first()).is_some_and(|path| path.ends_with(driver.headers[0])) {
                continue;
            }
            match stub::compiler(self.root, self.env, self.target) {
                Ok(compiler) => {
                    let stub = ViewEntry::Stub(Stub {
                        driver,
                        headers,
                        compiler,
                    });
                    self.plan.entries.insert(driver.path().into(), stub);
                }
                Err(names) => self.plan.notes.push(format!(
                    "the view has no `{}`, because no C compiler is on `PATH` (`{names}`); programs that need the \
                     driver's library cannot be linked with it",
                    driver.path()
                )),
            }
        }
        Ok(())
    }

    /// Adds CCCL's CMake packages, which look for headers in `../../../include` relative to their own
    /// directory.
    fn cmake_packages(&mut self) -> Result<(), Error> {
        let include = self.include(Component::Cccl).first();
        // CCCL's headers may be in `include/cccl`: go up to `include`.
        let include = include.and_then(|path| path.ancestors().find(|p| p.ends_with("include")));
        let Some(prefix) = include.and_then(Path::parent) else {
            return Ok(());
        };
        for name in CMAKE_PACKAGES {
            let places = ["cccl/lib/cmake", "lib/cmake", "lib64/cmake"];
            if let Some(package) = self.find(places.map(|place| prefix.join(place)), name) {
                self.add_to(Component::Cccl, "lib/cmake", &package)?;
            }
        }
        Ok(())
    }

    /// Adds links for other paths at which consumers look for the view's directories, such as `lib64`.
    fn layout(&mut self) {
        let platform = Path::new("targets").join(self.target.directory());
        self.plan.set_link("lib64", "lib");
        self.plan
            .set_link(platform.join("include"), "../../include");
        self.plan.set_link(platform.join("lib"), "../../lib");
        if self.get(Component::Cupti).is_some() {
            self.plan.set_link("extras/CUPTI/include", "../../include");
            self.plan.set_link("extras/CUPTI/lib64", "../../lib");
        }
        if self.get(Component::Cutlass).is_some() {
            self.plan.set_link("tools/util/include", "../../include");
        }
    }
}

/// Whether the directory contains headers of other projects.
fn is_shared(root: &Root, include: &Path) -> bool {
    // Both headers belong to the C library. Debian has `sys/cdefs.h` in `/usr/include/<multiarch>`. The directory
    // `conda-meta` marks a conda environment.
    let headers = ["stdio.h", "sys/cdefs.h"].map(|header| include.join(header));
    let conda = include.parent().map(|prefix| prefix.join("conda-meta"));
    headers.iter().any(|header| root.is_file(header))
        || conda.is_some_and(|path| root.is_dir(&path))
}

/// Whether the header `name` in a shared directory is taken for `component`. A product gets its own
/// headers. For a component of the toolkit, all headers of the toolkit are taken.
fn is_header_of(component: Component, name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let has_prefix = |facts: &&Facts| {
        let mut prefixes = facts.header_prefixes().iter();
        prefixes.any(|prefix| name.starts_with(prefix.trim_end_matches('/')))
    };
    let facts = component.facts();
    if facts.is_product() {
        return has_prefix(&facts);
    }
    let all = Component::all().map(Component::facts);
    let matching: Vec<&Facts> = all.filter(has_prefix).collect();
    !matching.is_empty()
        && !matching.iter().any(|facts| facts.is_product())
        && !FOREIGN_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// The nvcc that `nvcc` starts, if `nvcc` is a script; otherwise, or if that program is not found, `nvcc`
/// itself. In Debian and Nix, `nvcc` is such a script, and `nvcc.profile` is beside the program it starts.
fn real_nvcc(root: &Root, nvcc: &Path) -> PathBuf {
    const SCRIPT_LIMIT: u64 = 64 * 1024;
    let is_small = (root.metadata(nvcc)).is_ok_and(|file| file.len() < SCRIPT_LIMIT);
    let text = if is_small { root.text(nvcc).ok() } else { None };
    let Some(script) = text.filter(|text| text.starts_with("#!")) else {
        return nvcc.to_owned();
    };
    let usual = [
        "../lib/nvidia-cuda-toolkit/bin/nvcc",
        "nvcc.bin",
        ".nvcc-wrapped",
    ];
    let usual = usual.map(|name| nvcc.with_file_name(name));
    let mut programs = nvcc::started_by(&script).into_iter().chain(usual);
    let program = programs.find(|path| root.is_file(path));
    program.unwrap_or_else(|| nvcc.to_owned())
}

/// nvcc's configuration file. nvcc is started by a path; it reads the file from the directory of that path, and
/// sets `_HERE_` to the directory.
///
/// The components' own profiles do not fit a view: in the wheels of 13.0 to 13.2 they name a `lib64`
/// that does not exist; in Debian and Nix they name absolute directories. nvcc finds cicc through
/// `CICC_PATH` since CUDA 13, and through `PATH` before.
fn nvcc_profile(has_cccl_directory: bool) -> String {
    let cccl = if has_cccl_directory {
        "SYSTEM_INCLUDES +=  \"-isystem\" \"$(TOP)/include/cccl\" $(_SPACE_)\n"
    } else {
        ""
    };
    format!(
        "\nTOP              = $(_HERE_)/..\n\
         \n\
         CICC_PATH        = $(TOP)/nvvm/bin\n\
         NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice\n\
         \n\
         LD_LIBRARY_PATH += $(TOP)/lib:\n\
         PATH            += $(CICC_PATH):$(_HERE_):\n\
         \n\
         INCLUDES        +=  \"-I$(TOP)/include\" $(_SPACE_)\n\
         {cccl}\
         \n\
         LIBRARIES        =+ $(_SPACE_) \"-L$(TOP)/lib/stubs\" \"-L$(TOP)/lib\"\n\
         \n\
         CUDAFE_FLAGS    +=\n\
         PTXAS_FLAGS     +=\n"
    )
}

/// `version.json` in the form of NVIDIA's installers, with the entry that CMake reads.
fn version_json(toolkit: ToolkitVersion, found: &[&Found]) -> String {
    // Readers expect three numbers.
    let release = [Component::Nvcc, Component::Cudart]
        .into_iter()
        .find_map(|component| {
            let found = found.iter().find(|found| found.component == component)?;
            let version = found.version.as_ref()?;
            (version.parts().len() >= 3).then(|| version.to_string())
        });
    let release = release.unwrap_or_else(|| format!("{toolkit}.0"));
    format!("{{\n  \"cuda\": {{ \"name\": \"CUDA SDK\", \"version\": \"{release}\" }}\n}}\n")
}

#[cfg(test)]
mod tests;
