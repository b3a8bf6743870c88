//! CMake cache entries that restrict every search for CUDA to the view.
//!
//! `FindCUDAToolkit` looks for each library below the root and then in every directory that CMake
//! searches: system directories, `CMAKE_LIBRARY_PATH`, prefixes. If the view lacks a library, that
//! search would silently find the library of another toolkit. CMake does not search for a library
//! that has a cache entry. So every library gets an entry, whose value is the path of the library in
//! the view, or empty if the view lacks the library.

use super::View;
use crate::capability::Plan;
use crate::component::Component;
use crate::list;

/// Libraries that `FindCUDAToolkit` looks for, although CUDA 11 and later do not contain them.
const REMOVED: [&str; 4] = ["nvgraph", "nvgraph_static", "nppicom", "nppicom_static"];

/// A cache entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    kind: &'static str,
    /// A path relative to the view, or the empty string for the view itself; `None` if the view lacks the library.
    path: Option<String>,
}

/// All entries except `CMAKE_CUDA_ARCHITECTURES`. `contains` returns whether the view has a path.
fn entries(contains: impl Fn(&str) -> bool) -> Vec<Entry> {
    let entry = |name: &str, kind, path: Option<&str>| Entry {
        name: name.to_owned(),
        kind,
        path: path.map(str::to_owned),
    };
    let mut entries = vec![
        entry("CUDAToolkit_ROOT", "PATH", Some("")),
        entry("CUDA_TOOLKIT_ROOT_DIR", "PATH", Some("")),
        // In this entry, the deprecated FindCUDA module records the root of its last run. If the
        // entry differs from the root, the module deletes its entries for libraries.
        entry("CUDA_TOOLKIT_ROOT_DIR_INTERNAL", "INTERNAL", Some("")),
        // FindCUDA would search for the include directory by a header that not every view has.
        entry("CUDA_TOOLKIT_INCLUDE", "PATH", Some("include")),
    ];
    if contains("bin/nvcc") {
        entries.push(entry("CMAKE_CUDA_COMPILER", "FILEPATH", Some("bin/nvcc")));
    }
    for (name, files) in libraries() {
        let path = files.into_iter().find(|path| contains(path));
        entries.push(entry(&name, "FILEPATH", path.as_deref()));
    }
    entries
}

/// For each library, its CMake variable and its possible files. The first file that exists is used.
fn libraries() -> Vec<(String, Vec<String>)> {
    let mut libraries = Vec::new();
    let mut add = |name: &str, files: Vec<String>| {
        *list::entry(&mut libraries, format!("CUDA_{name}_LIBRARY")) = files;
    };
    for facts in Component::all().map(Component::facts) {
        if facts.is_part_of_toolkit() {
            for name in facts.libraries {
                add(name, vec![format!("lib/lib{name}.so")]);
                let archive = format!("lib/lib{name}_static.a");
                add(&format!("{name}_static"), vec![archive]);
            }
            for archive in facts.archives {
                let name = archive.strip_prefix("lib");
                let name = name.and_then(|name| name.strip_suffix(".a"));
                add(name.unwrap_or(archive), vec![format!("lib/{archive}")]);
            }
        }
        for (name, files) in facts.cmake {
            add(
                name,
                files.iter().map(|file| format!("lib/{file}")).collect(),
            );
        }
    }
    for name in REMOVED {
        add(name, Vec::new());
    }
    // The deprecated FindCUDA module uses other variables for these files.
    add("CUDART", vec!["lib/libcudart.so".to_owned()]);
    add("CUDA", vec!["lib/stubs/libcuda.so".to_owned()]);
    for (name, file) in [
        ("CUDA_CUDART", "lib/libcudart.so"),
        ("CUDA_NVCC_EXECUTABLE", "bin/nvcc"),
    ] {
        *list::entry(&mut libraries, name.to_owned()) = vec![file.to_owned()];
    }
    libraries
}

/// A script for `cmake -C`. It derives the view's path from its own location, so that it stays valid
/// if the view is moved. `FORCE` replaces the entries of an earlier configuration, because the
/// toolkit may have gained a library since.
pub(super) fn initial_cache(contains: impl Fn(&str) -> bool) -> String {
    let mut text = String::from(
        "# For `cmake -C`: CUDA from this directory, and from nowhere else.\n\
         get_filename_component(_cuda_view \"${CMAKE_CURRENT_LIST_DIR}/..\" ABSOLUTE)\n",
    );
    for Entry { name, kind, path } in entries(contains) {
        let value = match path.as_deref() {
            None => String::new(),
            Some("") => "${_cuda_view}".to_owned(),
            Some(path) => format!("${{_cuda_view}}/{path}"),
        };
        text.push_str(&format!(
            "set({name} \"{value}\" CACHE {kind} \"\" FORCE)\n"
        ));
    }
    text
}

/// [`initial_cache`] as a toolchain file, for projects whose `cmake` command cannot be given an option:
/// CMake 3.21 and later read the name of the toolchain file from the environment. The toolchain file
/// sets neither a platform nor compilers for C and C++, so the build is native. If the user names another
/// CUDA, the toolchain file sets nothing, because entries of this view must not be combined with the
/// root of another toolkit.
pub(super) const TOOLCHAIN: &str = r#"# For CMAKE_TOOLCHAIN_FILE: CUDA from this directory, and from nowhere else.
get_filename_component(_cuda_view "${CMAKE_CURRENT_LIST_DIR}/.." REALPATH)
set(_cuda_other "")
foreach(_cuda_root IN ITEMS "${CUDAToolkit_ROOT}" "${CUDA_TOOLKIT_ROOT_DIR}" "$ENV{CUDAToolkit_ROOT}")
  if(_cuda_root)
    get_filename_component(_cuda_real "${_cuda_root}" REALPATH)
    if(NOT _cuda_real STREQUAL _cuda_view)
      set(_cuda_other "${_cuda_root}")
    endif()
  endif()
endforeach()
get_filename_component(_cuda_bin "${_cuda_view}/bin" REALPATH)
foreach(_cuda_nvcc IN ITEMS "${CMAKE_CUDA_COMPILER}" "$ENV{CUDACXX}")
  if(_cuda_nvcc)
    unset(_cuda_program)
    unset(_cuda_program CACHE)
    find_program(_cuda_program NAMES "${_cuda_nvcc}" NO_CMAKE_FIND_ROOT_PATH)
    if(_cuda_program)
      # Resolve only the directory: nvcc in a view is a link to a program elsewhere.
      get_filename_component(_cuda_real "${_cuda_program}" DIRECTORY)
      get_filename_component(_cuda_real "${_cuda_real}" REALPATH)
    else()
      set(_cuda_real "")
    endif()
    unset(_cuda_program CACHE)
    if(NOT _cuda_real STREQUAL _cuda_bin)
      set(_cuda_other "${_cuda_nvcc}")
    endif()
  endif()
endforeach()
if(_cuda_other STREQUAL "")
  include("${CMAKE_CURRENT_LIST_DIR}/initial-cache.cmake")
else()
  get_property(_cuda_trial GLOBAL PROPERTY IN_TRY_COMPILE)
  if(NOT _cuda_trial)
    message(STATUS "CUDA is ${_cuda_other}, not the view ${_cuda_view}: its libraries are not pinned")
  endif()
endif()
"#;

impl View {
    /// CMake cache entries that make a project find this view and no other CUDA: names with their
    /// type (`CUDAToolkit_ROOT:PATH`) and values, for `-D<name>=<value>` or the `define` method of
    /// the `cmake` crate.
    ///
    /// Every library has an entry, which is empty if the view lacks the library. So CMake does not
    /// find a `libcufft.so` of another toolkit. If `plan` is given, `CMAKE_CUDA_ARCHITECTURES` is set
    /// to the plan's architectures. [`View::cmake_cache`] is a file with the other entries.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), cuda_build::Error> {
    /// let build = cuda_build::Build::new()?;
    /// let view = build.view()?;
    /// for (name, value) in view.cmake_defines(None) {
    ///     println!("-D{name}={value}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn cmake_defines(&self, plan: Option<&Plan>) -> Vec<(String, String)> {
        let value = |path: Option<String>| match path.as_deref() {
            None => String::new(),
            Some("") => self.root().to_string_lossy().into_owned(),
            Some(path) => self.root().join(path).to_string_lossy().into_owned(),
        };
        let entries = entries(|path| self.contains(path)).into_iter();
        let mut defines: Vec<(String, String)> = entries
            .map(|entry| (format!("{}:{}", entry.name, entry.kind), value(entry.path)))
            .collect();
        defines
            .extend(plan.map(|plan| ("CMAKE_CUDA_ARCHITECTURES:STRING".to_owned(), plan.cmake())));
        defines
    }

    /// The path of a script for `cmake -C <file>`. It has the entries of [`View::cmake_defines`], without
    /// `CMAKE_CUDA_ARCHITECTURES`.
    pub fn cmake_cache(&self) -> std::path::PathBuf {
        self.root().join("cmake/initial-cache.cmake")
    }

    /// The path of a toolchain file with the entries of [`View::cmake_cache`], for `CMAKE_TOOLCHAIN_FILE`.
    /// It sets neither a platform nor compilers for C and C++. If there is a toolchain file, the `cmake`
    /// crate leaves the choice of these compilers to CMake.
    pub fn cmake_toolchain(&self) -> std::path::PathBuf {
        self.root().join("cmake/toolchain.cmake")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_pinned_and_absent_ones_suppressed() {
        let there = [
            "lib/libcudart.so",
            "lib/libcudart_static.a",
            "lib/stubs/libcuda.so",
            "lib/libmetis_static.a",
        ];
        let entries = entries(|path| there.contains(&path));
        let value = |name: &str| {
            let found: Vec<_> = entries.iter().filter(|entry| entry.name == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            found[0].path.as_deref().unwrap_or_default()
        };
        assert_eq!(value("CUDA_cudart_LIBRARY"), "lib/libcudart.so");
        assert_eq!(value("CUDA_CUDART"), "lib/libcudart.so");
        assert_eq!(
            value("CUDA_cudart_static_LIBRARY"),
            "lib/libcudart_static.a"
        );
        assert_eq!(value("CUDA_cuda_driver_LIBRARY"), "lib/stubs/libcuda.so");
        assert_eq!(
            value("CUDA_cusolver_metis_static_LIBRARY"),
            "lib/libmetis_static.a"
        );
        for absent in [
            "cufft",
            "cufft_static",
            "nppial_static",
            "nvml",
            "nvToolsExt",
            "OpenCL",
            "nvgraph",
            "nvperf_host_static",
            "cuFile",
        ] {
            assert_eq!(value(&format!("CUDA_{absent}_LIBRARY")), "");
        }
        let script = initial_cache(|path| there.contains(&path));
        assert!(script.contains("set(CUDA_cufft_LIBRARY \"\" CACHE FILEPATH \"\" FORCE)\n"));
        assert!(script.contains(
            "set(CUDA_CUDART \"${_cuda_view}/lib/libcudart.so\" CACHE FILEPATH \"\" FORCE)\n"
        ));
        assert!(!script.contains("nvcc"));
    }
}
