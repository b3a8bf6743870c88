//! Components for CMake where they are: a package with an imported target for each library, and
//! no directory that joins them.
//!
//! ```text
//! find_package(CUDAComponents 12 CONFIG REQUIRED COMPONENTS cudart cublas)
//! target_link_libraries(program PRIVATE CUDA::cudart CUDA::cublas)
//! ```
//!
//! The package has a name of its own: called `CUDAToolkit` it would answer for CMake's module in
//! projects that count on the module's variables. Its targets are `CUDAComponents::<library>`;
//! `CUDA::<library>` are other names for them, all of them or, where the module was there first, none:
//! a program must not get one library from here and the next from another toolkit.

mod config;

use std::path::{Path, PathBuf};

use crate::component::{Bundle, Component, EdgeKind, closure};
use crate::error::Error;
use crate::probe::Found;
use crate::toolkit::Toolkit;
use crate::version::ToolkitVersion;

/// What the package is called in `find_package`.
pub(crate) const NAME: &str = "CUDAComponents";

/// Archives whose own needs are known: those that every program with device code may link.
const ARCHIVES: [&str; 3] = ["libcudart_static.a", "libcudadevrt.a", "libculibos.a"];

/// Whose headers those of all others include.
const BASE: [Component; 3] = [Component::Cudart, Component::Crt, Component::Cccl];

/// A package for CMake, as values: see [`Toolkit::cmake_package`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmakePackage {
    files: Vec<(String, String)>,
    components: Vec<Component>,
}

impl CmakePackage {
    /// Its name, for `find_package` and for `<name>_DIR`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// The names of its files with what is in them. All belong into one directory, anywhere.
    #[must_use]
    pub fn files(&self) -> &[(String, String)] {
        &self.files
    }

    /// What can be asked for as `COMPONENTS`.
    #[must_use]
    pub fn components(&self) -> &[Component] {
        &self.components
    }
}

/// One component in the words of CMake.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    component: Component,
    include: Vec<String>,
    libraries: Vec<Library>,
    /// Components that its libraries link.
    links: Vec<Component>,
    /// What its libraries load while the program runs.
    loads: Vec<Component>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Library {
    /// As CMake's own module calls it.
    target: String,
    file: String,
    shared: bool,
}

impl Toolkit {
    /// The headers and libraries as a package for CMake that points at each component's own
    /// directories, for a project that can say `find_package(CUDAComponents)`. For one that says
    /// `find_package(CUDAToolkit)` there are [views](crate::View).
    ///
    /// Nothing is written. The compiler and the driver's libraries are not in it: both need more
    /// than their own directory, which a view has.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let package = cuda_build::Build::new()?.toolkit()?.cmake_package()?;
    /// let directory = std::path::PathBuf::from(std::env::var("OUT_DIR")?).join(package.name());
    /// std::fs::create_dir_all(&directory)?;
    /// for (name, text) in package.files() {
    ///     std::fs::write(directory.join(name), text)?;
    /// }
    /// // cmake::Config::new("native").define("CUDAComponents_DIR", &directory)
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Format`] where a path is no UTF-8 or can't stand in a list of CMake's: one with a `;`,
    /// with brackets that don't come in pairs, or with a backslash at its end.
    pub fn cmake_package(&self) -> Result<CmakePackage, Error> {
        self.cmake_package_of(&[])
    }

    /// The same for these components and what they need; for all where none is named. What the
    /// toolkit lacks is left out: [`CmakePackage::components`] tells what is there.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), cuda_build::Error> {
    /// use cuda_build::Component;
    /// let toolkit = cuda_build::Build::new()?.toolkit()?;
    /// let package = toolkit.cmake_package_of(&[Component::Cublas])?;
    /// assert!(package.components().contains(&Component::Cublas));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Toolkit::cmake_package`].
    pub fn cmake_package_of(&self, components: &[Component]) -> Result<CmakePackage, Error> {
        let mut wanted = components.to_vec();
        wanted.extend(
            closure(components, self.version().major)
                .into_iter()
                .map(|(component, _)| component),
        );
        if !wanted.is_empty() {
            wanted.extend(BASE);
        }
        let all = self.components().iter().map(|chosen| &chosen.found);
        let found: Vec<&Found> = all
            .filter(|found| wanted.is_empty() || wanted.contains(&found.component))
            .collect();
        self.cmake_package_with(&found)
    }

    /// The same for what a view takes.
    pub(crate) fn cmake_package_with(&self, found: &[&Found]) -> Result<CmakePackage, Error> {
        package(self.version(), found, &|directory| {
            self.is_default_search_dir(directory)
        })
    }
}

/// The package of some components.
///
/// # Errors
/// As for [`Toolkit::cmake_package`].
fn package(
    version: ToolkitVersion,
    found: &[&Found],
    is_searched_anyway: &dyn Fn(&Path) -> bool,
) -> Result<CmakePackage, Error> {
    let mut parts = Vec::new();
    for found in found {
        if let Some(part) = part(version, found, is_searched_anyway)? {
            parts.push(part);
        }
    }
    let files = vec![
        (
            format!("{NAME}Config.cmake"),
            config::config(version, &parts),
        ),
        (
            format!("{NAME}ConfigVersion.cmake"),
            config::version(version),
        ),
    ];
    Ok(CmakePackage {
        files,
        components: parts.iter().map(|part| part.component).collect(),
    })
}

fn part(
    version: ToolkitVersion,
    found: &Found,
    is_searched_anyway: &dyn Fn(&Path) -> bool,
) -> Result<Option<Part>, Error> {
    let facts = found.component.facts();
    if facts.bundle == Bundle::Driver || found.component == Component::Nvcc {
        return Ok(None);
    }
    let mut libraries = Vec::new();
    for file in &found.libraries {
        libraries.extend(library(file, true)?);
    }
    for file in found
        .archives
        .iter()
        .filter(|file| ARCHIVES.iter().any(|name| file.ends_with(name)))
    {
        libraries.extend(library(file, false)?);
    }
    let mut include = Vec::new();
    for directory in found
        .include
        .iter()
        .filter(|directory| !is_searched_anyway(directory))
    {
        include.push(shown(directory)?);
    }
    if libraries.is_empty() && (found.include.is_empty() || !facts.tools.is_empty()) {
        return Ok(None);
    }
    let needed = closure(&[found.component], version.major);
    let of = |wanted: &dyn Fn(EdgeKind) -> bool| -> Vec<Component> {
        needed
            .iter()
            .filter(|(_, kind)| wanted(*kind))
            .map(|(component, _)| *component)
            .collect()
    };
    Ok(Some(Part {
        component: found.component,
        include,
        libraries,
        links: of(&|kind| kind == EdgeKind::Link),
        loads: of(&|kind| matches!(kind, EdgeKind::Load | EdgeKind::LoadIfThere)),
    }))
}

/// `libcublasLt.so.12` → `cublasLt`, `libcudart_static.a` → `cudart_static`.
fn library(file: &Path, shared: bool) -> Result<Option<Library>, Error> {
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let stem = name
        .strip_prefix("lib")
        .and_then(|name| name.split_once(if shared { ".so" } else { ".a" }));
    let Some((stem, _)) = stem else {
        return Ok(None);
    };
    let target = match stem {
        "cufile" => "cuFile".to_owned(),
        "cufile_rdma" => "cuFile_rdma".to_owned(),
        "nvtx3interop" => "nvtx3_interop".to_owned(),
        "sanitizer-public" => "sanitizer".to_owned(),
        other => other.replace('-', "_"),
    };
    Ok(Some(Library {
        target,
        file: shown(file)?,
        shared,
    }))
}

fn shown(path: &Path) -> Result<String, Error> {
    let absolute: PathBuf = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let wrong = |reason: &str| Error::Format {
        what: "path for CMake",
        reason: format!("{} {reason}", path.display()),
    };
    let text = absolute.to_str().ok_or_else(|| wrong("is no UTF-8"))?;
    // CMake splits lists at `;`, but not between brackets and not after a backslash.
    if text.contains(';') {
        Err(wrong("holds a `;`"))
    } else if text.matches('[').count() != text.matches(']').count() {
        Err(wrong("holds a `[` without its `]`, or the other way round"))
    } else if text.ends_with('\\') {
        Err(wrong("ends with a backslash"))
    } else {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests;
