//! CMake cache entries that end every search for CUDA in the view.
//!
//! `FindCUDAToolkit` looks for each library below the root and then in every directory that CMake
//! searches: the system's, `CMAKE_LIBRARY_PATH`, prefixes. So it would silently take a library that
//! the view lacks from another toolkit. An entry in CMake's cache replaces the search for a
//! library: the entry is the view's file, or empty.

use std::path::Path;

use super::View;
use crate::capability::Plan;

/// Libraries that `FindCUDAToolkit` looks for (up to CMake 4.4), each with its files, the first of
/// which that the view has is used.
const NAMED: [(&str, &[&str]); 23] = [
    ("cuda_driver", &["lib/stubs/libcuda.so"]),
    ("cudart_static", &["lib/libcudart_static.a"]),
    ("culibos", &["lib/libculibos.a"]),
    ("cuFile", &["lib/libcufile.so"]),
    ("cuFile_static", &["lib/libcufile_static.a"]),
    ("cuFile_rdma", &["lib/libcufile_rdma.so"]),
    ("cuFile_rdma_static", &["lib/libcufile_rdma_static.a"]),
    (
        "cufft_static_nocallback",
        &["lib/libcufft_static_nocallback.a"],
    ),
    (
        "cusolver_metis_static",
        &["lib/libcusolver_metis_static.a", "lib/libmetis_static.a"],
    ),
    (
        "cusolver_lapack_static",
        &["lib/libcusolver_lapack_static.a", "lib/liblapack_static.a"],
    ),
    ("nvptxcompiler_static", &["lib/libnvptxcompiler_static.a"]),
    ("nvperf_host", &["lib/libnvperf_host.so"]),
    ("nvperf_host_static", &["lib/libnvperf_host_static.a"]),
    ("nvperf_target", &["lib/libnvperf_target.so"]),
    ("nvrtc_builtins", &["lib/libnvrtc-builtins.so"]),
    ("nvrtc_builtins_static", &["lib/libnvrtc-builtins_static.a"]),
    ("nvml", &["lib/stubs/libnvidia-ml.so"]),
    ("nvml_static", &["lib/libnvidia-ml.a", "lib/libnvml.a"]),
    ("nvtx3_interop", &["lib/libnvtx3interop.so"]),
    ("pcsamplingutil", &["lib/libpcsamplingutil.so"]),
    ("cufilt", &["lib/libcufilt.a"]),
    ("sanitizer", &["lib/libsanitizer-public.so"]),
    // Only the old FindCUDA looks for this one.
    ("cudadevrt", &["lib/libcudadevrt.a"]),
];

/// Libraries that are `lib<name>.so` if shared and `lib<name>_static.a` if static.
const PLAIN: [&str; 29] = [
    "cudart",
    "nvJitLink",
    "nvfatbin",
    "cublasLt",
    "cublas",
    "cufft",
    "cufftw",
    "nvjpeg",
    "curand",
    "nppc",
    "cusparse",
    "cudla",
    "cusolver",
    "nvgraph",
    "nppial",
    "nppicc",
    "nppidei",
    "nppif",
    "nppig",
    "nppim",
    "nppist",
    "nppitc",
    "npps",
    "nppicom",
    "nppisu",
    "cupti",
    "nvrtc",
    "nvToolsExt",
    "OpenCL",
];

/// Names, types and values of cache entries. A value is a path in the view, or empty if the view
/// lacks the library.
pub(super) fn entries(contains: impl Fn(&str) -> bool) -> Vec<(String, &'static str, String)> {
    let first = |paths: &[String]| {
        paths
            .iter()
            .find(|path| contains(path))
            .cloned()
            .unwrap_or_default()
    };
    let owned = |paths: &[&str]| {
        paths
            .iter()
            .map(|path| (*path).to_owned())
            .collect::<Vec<_>>()
    };
    let mut entries = Vec::new();
    for (name, paths) in NAMED {
        entries.push((
            format!("CUDA_{name}_LIBRARY"),
            "FILEPATH",
            first(&owned(paths)),
        ));
    }
    for name in PLAIN {
        entries.push((
            format!("CUDA_{name}_LIBRARY"),
            "FILEPATH",
            first(&[format!("lib/lib{name}.so")]),
        ));
        if name != "OpenCL" && name != "cudart" {
            let path = first(&[format!("lib/lib{name}_static.a")]);
            entries.push((format!("CUDA_{name}_static_LIBRARY"), "FILEPATH", path));
        }
    }
    for (name, paths) in [
        ("CUDA_CUDART", &["lib/libcudart.so"][..]),
        ("CUDA_CUDART_LIBRARY", &["lib/libcudart.so"]),
        ("CUDA_CUDA_LIBRARY", &["lib/stubs/libcuda.so"]),
        ("CUDA_NVCC_EXECUTABLE", &["bin/nvcc"]),
    ] {
        entries.push((name.to_owned(), "FILEPATH", first(&owned(paths))));
    }
    entries.sort();
    entries
}

/// The root, for both search modules. The old FindCUDA deletes its entries for libraries if the last
/// of these, from its previous run, differs from its root.
const ROOTS: [(&str, &str); 3] = [
    ("CUDAToolkit_ROOT", "PATH"),
    ("CUDA_TOOLKIT_ROOT_DIR", "PATH"),
    ("CUDA_TOOLKIT_ROOT_DIR_INTERNAL", "INTERNAL"),
];

/// The old FindCUDA looks for the directory of a header that not every view has.
const OLD_INCLUDE: (&str, &str) = ("CUDA_TOOLKIT_INCLUDE", "include");

/// A script for `cmake -C`. It derives the view from its own location, so that it stays valid in a
/// view that is moved. `FORCE` replaces the entries of an earlier configuration: a build directory
/// is configured again after the toolkit behind the view has gained a library.
pub(super) fn initial_cache(has_compiler: bool, contains: impl Fn(&str) -> bool) -> String {
    let mut text = String::from(
        "# For `cmake -C`: CUDA from this directory, and from nowhere else.\n\
         get_filename_component(_cuda_view \"${CMAKE_CURRENT_LIST_DIR}/..\" ABSOLUTE)\n",
    );
    for (name, kind) in ROOTS {
        text.push_str(&format!(
            "set({name} \"${{_cuda_view}}\" CACHE {kind} \"\" FORCE)\n"
        ));
    }
    let (name, path) = OLD_INCLUDE;
    text.push_str(&format!(
        "set({name} \"${{_cuda_view}}/{path}\" CACHE PATH \"\" FORCE)\n"
    ));
    if has_compiler {
        text.push_str(
            "set(CMAKE_CUDA_COMPILER \"${_cuda_view}/bin/nvcc\" CACHE FILEPATH \"\" FORCE)\n",
        );
    }
    for (name, kind, path) in entries(contains) {
        let value = if path.is_empty() {
            String::new()
        } else {
            format!("${{_cuda_view}}/{path}")
        };
        text.push_str(&format!(
            "set({name} \"{value}\" CACHE {kind} \"\" FORCE)\n"
        ));
    }
    text
}

/// [`initial_cache`] as a toolchain file, for projects that cannot be given an option: since 3.21,
/// CMake reads the name of the toolchain file from the environment. It sets neither a platform nor
/// compilers for C and C++, so the build is native. If the user names another CUDA, it sets
/// nothing, because entries of this view must not be combined with the root of another toolkit.
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
      # The directory alone: a view's nvcc is a link, which may lead elsewhere.
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
    /// CMake cache entries with which a project finds this view and no other CUDA: names with their
    /// type (`CUDAToolkit_ROOT:PATH`) and values, for `-D<name>=<value>` or the `define` of the
    /// `cmake` crate.
    ///
    /// There is an entry for every library, and it is empty if the view lacks the library: a
    /// `libcufft.so` of another toolkit on the system's path is not found. [`View::cmake_cache`] is
    /// the same as a file.
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
    #[must_use]
    pub fn cmake_defines(&self, plan: Option<&Plan>) -> Vec<(String, String)> {
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        let mut defines: Vec<(String, String)> = ROOTS
            .iter()
            .map(|(name, kind)| (format!("{name}:{kind}"), shown(self.root())))
            .collect();
        let (name, path) = OLD_INCLUDE;
        defines.push((format!("{name}:PATH"), shown(&self.root().join(path))));
        if let Some(nvcc) = self.nvcc() {
            defines.push(("CMAKE_CUDA_COMPILER:FILEPATH".to_owned(), shown(&nvcc)));
        }
        if let Some(plan) = plan {
            defines.push(("CMAKE_CUDA_ARCHITECTURES:STRING".to_owned(), plan.cmake()));
        }
        for (name, kind, path) in entries(|path| self.contains(path)) {
            let value = if path.is_empty() {
                String::new()
            } else {
                shown(&self.root().join(path))
            };
            defines.push((format!("{name}:{kind}"), value));
        }
        defines
    }

    /// The entries of [`View::cmake_defines`], without capabilities, as a script for
    /// `cmake -C <file>`.
    #[must_use]
    pub fn cmake_cache(&self) -> std::path::PathBuf {
        self.root().join("cmake/initial-cache.cmake")
    }

    /// The same as a toolchain file, for `CMAKE_TOOLCHAIN_FILE`. It sets neither a platform nor
    /// compilers for C and C++. With a toolchain file, the `cmake` crate leaves the choice of these
    /// compilers to CMake.
    #[must_use]
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
            let found: Vec<&str> = entries
                .iter()
                .filter(|(n, ..)| n == name)
                .map(|(.., path)| path.as_str())
                .collect();
            assert_eq!(found.len(), 1, "{name}");
            found[0]
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
        ] {
            assert_eq!(value(&format!("CUDA_{absent}_LIBRARY")), "");
        }
        let script = initial_cache(false, |path| there.contains(&path));
        assert!(script.contains("set(CUDA_cufft_LIBRARY \"\" CACHE FILEPATH \"\" FORCE)\n"));
        assert!(script.contains(
            "set(CUDA_CUDART \"${_cuda_view}/lib/libcudart.so\" CACHE FILEPATH \"\" FORCE)\n"
        ));
        assert!(!script.contains("nvcc"));
    }
}
