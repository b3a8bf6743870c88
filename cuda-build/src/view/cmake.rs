//! CMake cache entries that restrict every search for CUDA to the view.
//!
//! `FindCUDAToolkit` looks for each library below the root and then in every directory that CMake
//! searches: system directories, `CMAKE_LIBRARY_PATH`, prefixes. If the view lacks a library, that
//! search would silently find the library of another toolkit. CMake does not search for a library
//! that has a cache entry. So every library gets an entry, whose value is the path of the library in
//! the view, or empty if the view lacks the library.

use super::place::View;
use cuda_find_core::capability::Plan;
use cuda_find_core::component::Component;

/// Libraries that `FindCUDAToolkit` looks for, although CUDA 11 and later do not contain them.
const REMOVED: [&str; 4] = ["nvgraph", "nvgraph_static", "nppicom", "nppicom_static"];

/// A cache entry: its name, its type, and its value: a path relative to the view, which is empty for the view itself,
/// or `None` if the view lacks the library.
type CacheEntry = (String, &'static str, Option<String>);

/// All entries except `CMAKE_CUDA_ARCHITECTURES`. `contains` returns whether the view has a path.
fn entries(contains: impl Fn(&str) -> bool) -> Vec<CacheEntry> {
    let roots = ["CUDAToolkit_ROOT", "CUDA_TOOLKIT_ROOT_DIR"];
    let mut entries: Vec<CacheEntry> =
        Vec::from(roots.map(|name| (name.to_owned(), "PATH", Some(String::new()))));
    if contains("bin/nvcc") {
        let nvcc = Some("bin/nvcc".to_owned());
        entries.push(("CMAKE_CUDA_COMPILER".to_owned(), "FILEPATH", nvcc));
    }
    // A library is the first of its files that the view has. A later entry for a library replaces an earlier one.
    let mut add = |name: String, files: &[String]| {
        let path = files.iter().find(|path| contains(path)).cloned();
        entries.retain(|(other, ..)| *other != name);
        entries.push((name, "FILEPATH", path));
    };
    let variable = |name: &str| format!("CUDA_{name}_LIBRARY");
    for facts in Component::all().map(Component::facts) {
        if facts.is_part_of_toolkit() {
            for name in facts.libraries {
                add(variable(name), &[format!("lib/lib{name}.so")]);
                let archive = format!("lib/lib{name}_static.a");
                add(variable(&format!("{name}_static")), &[archive]);
            }
            for archive in facts.archives {
                let name = archive.trim_start_matches("lib").trim_end_matches(".a");
                add(variable(name), &[format!("lib/{archive}")]);
            }
        }
        for (name, files) in facts.cmake {
            let files: Vec<String> = files.iter().map(|file| format!("lib/{file}")).collect();
            add(variable(name), &files);
        }
    }
    for name in REMOVED {
        add(variable(name), &[]);
    }
    add("CUDA_CUDART".to_owned(), &["lib/libcudart.so".to_owned()]);
    entries
}

/// The value of an entry if the view is at `root`.
fn value(root: &str, path: Option<String>) -> String {
    match path {
        None => String::new(),
        Some(path) if path.is_empty() => root.to_owned(),
        Some(path) => format!("{root}/{path}"),
    }
}

/// A script for `cmake -C`. It derives the view's path from its own location, so that it stays valid
/// if the view is moved. `FORCE` replaces the entries of an earlier configuration, because the
/// toolkit may have gained a library since.
pub(super) fn initial_cache(contains: impl Fn(&str) -> bool) -> String {
    let mut text = String::from(
        "# For `cmake -C`: CUDA from this directory, and from nowhere else.\n\
         get_filename_component(_cuda_view \"${CMAKE_CURRENT_LIST_DIR}/..\" ABSOLUTE)\n",
    );
    for (name, kind, path) in entries(contains) {
        let value = value("${_cuda_view}", path);
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
        let root = self.root().to_string_lossy();
        let mut defines = Vec::new();
        for (name, kind, path) in entries(|path| self.contains(path)) {
            defines.push((format!("{name}:{kind}"), value(&root, path)));
        }
        let architectures = "CMAKE_CUDA_ARCHITECTURES:STRING".to_owned();
        defines.extend(plan.map(|plan| (architectures, plan.cmake())));
        defines
    }

    /// The path of a script for `cmake -C <file>`. It has the entries of [`View::cmake_defines`], without
    /// `CMAKE_CUDA_ARCHITECTURES`.
    pub fn cmake_cache(&self) -> std::path::PathBuf {
        self.root().join("cmake/initial-cache.cmake")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_pinned_and_absent_ones_suppressed() {
        let files = [
            "lib/libcudart.so",
            "lib/libcudart_static.a",
            "lib/stubs/libcuda.so",
            "lib/libmetis_static.a",
        ];
        let script = initial_cache(|path| files.contains(&path));
        let mut expected = vec![("CUDA_CUDART".to_owned(), "lib/libcudart.so")];
        let libraries = [
            ("cudart", "lib/libcudart.so"),
            ("cudart_static", "lib/libcudart_static.a"),
            ("cuda_driver", "lib/stubs/libcuda.so"),
            ("cusolver_metis_static", "lib/libmetis_static.a"),
        ];
        let absent = "cufft cufft_static nppial_static nvml nvToolsExt OpenCL nvgraph nvperf_host_static cuFile";
        let absent = absent.split(' ').map(|name| (name, ""));
        for (name, file) in libraries.into_iter().chain(absent) {
            expected.push((format!("CUDA_{name}_LIBRARY"), file));
        }
        for (name, file) in expected {
            let path = Some(file.to_owned()).filter(|file| !file.is_empty());
            let value = value("${_cuda_view}", path);
            let line = format!("\nset({name} \"{value}\" CACHE FILEPATH \"\" FORCE)\n");
            assert_eq!(script.matches(&line).count(), 1, "{line}{script}");
        }
        assert!(!script.contains("nvcc"));
    }
}
