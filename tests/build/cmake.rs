//! CMake in a view, with libraries of another toolkit planted where CMake looks by itself.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::View;
use tempfile::TempDir;

use crate::components::site_packages;
use crate::support::{dynamic, succeeds};
use crate::tools::tool;
use crate::view::{PROGRAM, view_at, with_nvml};

const CXX: &str = r#"
cmake_minimum_required(VERSION 3.24)
project(new LANGUAGES C CXX)
find_package(CUDAToolkit 13 REQUIRED)
"#;

const CUDA: &str = r#"
cmake_minimum_required(VERSION 3.24)
project(probe LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
find_package(CCCL REQUIRED)
foreach(directory IN LISTS CUDAToolkit_INCLUDE_DIRS CUDAToolkit_BIN_DIR CUDAToolkit_LIBRARY_DIR CCCL_DIR)
  file(APPEND ${CMAKE_BINARY_DIR}/found "path ${directory}\n")
endforeach()
get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target IN LISTS targets)
  foreach(property IMPORTED_LOCATION IMPORTED_IMPLIB)
    get_target_property(file ${target} ${property})
    if(file AND target MATCHES "^CUDA::")
      file(APPEND ${CMAKE_BINARY_DIR}/found "target ${target}\npath ${file}\n")
    endif()
  endforeach()
endforeach()
add_executable(program program.cu)
target_link_libraries(program PRIVATE CUDA::cudart CUDA::cuda_driver CCCL::CCCL)
"#;

/// Files that answer to a name in other ways than `lib<name>.so` and `lib<name>.a`.
const OTHER_NAMES: [&str; 7] = [
    "cuda",
    "cufile",
    "cufile_rdma",
    "nvrtc-builtins",
    "nvidia-ml",
    "sanitizer-public",
    "metis_static",
];

/// A project, where it is built, and a directory of another toolkit's libraries.
struct Place(TempDir);

impl Place {
    fn new(lists: &str) -> Self {
        let place = Self(TempDir::new().unwrap());
        for directory in ["project", "foreign"] {
            fs::create_dir(place.path(directory)).unwrap();
        }
        fs::write(place.path("project/CMakeLists.txt"), lists).unwrap();
        fs::write(place.path("project/program.cu"), PROGRAM).unwrap();
        place
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    /// Puts a file where CMake looks when nothing ends its search before.
    fn plant(&self, name: &str) {
        fs::write(self.path("foreign").join(name), "").unwrap();
    }

    /// Configures in a fresh directory and returns every entry for a library in CMake's cache.
    fn configure(&self, build: &str, arguments: &[String]) -> Vec<(String, String)> {
        let mut cmake = Command::new(tool("cmake"));
        cmake.args(["-G", "Ninja"]).args(arguments);
        cmake.arg(format!("-DCMAKE_MAKE_PROGRAM={}", tool("ninja").display()));
        cmake.arg("-S").arg(self.path("project"));
        cmake.arg("-B").arg(self.path(build));
        cmake.env("CMAKE_LIBRARY_PATH", self.path("foreign"));
        for name in [
            "CUDA_PATH",
            "CUDACXX",
            "CUDAToolkit_ROOT",
            "CMAKE_PREFIX_PATH",
        ] {
            cmake.env_remove(name);
        }
        succeeds(&mut cmake);
        let cache = fs::read_to_string(self.path(build).join("CMakeCache.txt")).unwrap();
        let entry = |line: &str| {
            let (name, value) = line.split_once('=')?;
            let name = name.split(':').next()?.strip_prefix("CUDA_")?;
            let is_library = name.ends_with("_LIBRARY") || name == "CUDART";
            is_library.then(|| (name.to_owned(), value.to_owned()))
        };
        cache.lines().filter_map(entry).collect()
    }
}

fn script(view: &View) -> Vec<String> {
    vec!["-C".to_owned(), view.cmake_cache().display().to_string()]
}

fn defines(view: &View) -> Vec<String> {
    let defines = view.cmake_defines(None).into_iter();
    defines
        .map(|(name, value)| format!("-D{name}={value}"))
        .collect()
}

/// What was found and is in this directory.
fn below<'a>(entries: &'a [(String, String)], directory: &Path) -> BTreeSet<&'a str> {
    let is_inside = |(_, value): &&(String, String)| Path::new(value).starts_with(directory);
    entries
        .iter()
        .filter(is_inside)
        .map(|(name, _)| name.as_str())
        .collect()
}

/// What was found and is not in the view; librt is the C library's.
fn outside<'a>(entries: &'a [(String, String)], view: &View) -> Vec<&'a (String, String)> {
    let is_outside = |(name, value): &&(String, String)| {
        let found = !value.is_empty() && !value.ends_with("-NOTFOUND") && name != "rt_LIBRARY";
        found && !Path::new(value).starts_with(view.root())
    };
    entries.iter().filter(is_outside).collect()
}

mod online {
    use super::*;

    #[test]
    fn cmake_builds_with_a_view_of_wheels() {
        let components = with_nvml(13);
        let place = Place::new(CUDA);
        let view = view_at(&[&components[0], &components[1]], &place.path("a view"));
        place.plant("libcufft.so");
        let more = [
            "-DCMAKE_CUDA_ARCHITECTURES=80".to_owned(),
            format!("-DCMAKE_PREFIX_PATH={}", view.root().display()),
        ];
        let open = [
            format!("-DCMAKE_CUDA_COMPILER={}", view.nvcc().unwrap().display()),
            format!("-DCUDAToolkit_ROOT={}", view.root().display()),
        ];
        let open = place.configure("open", &[&open[..], &more].concat());
        let foreign = BTreeSet::from(["cufft_LIBRARY"]);
        assert_eq!(below(&open, &place.path("foreign")), foreign);
        for (build, arguments) in [("script", script(&view)), ("defines", defines(&view))] {
            let closed = place.configure(build, &[&arguments[..], &more].concat());
            assert_eq!(
                outside(&closed, &view),
                [] as [&(String, String); 0],
                "{build}"
            );
            let found_before = below(&open, view.root());
            assert!(
                below(&closed, view.root()).is_superset(&found_before),
                "{closed:?}"
            );
            let found = fs::read_to_string(place.path(build).join("found")).unwrap();
            for path in found.lines().filter_map(|line| line.strip_prefix("path ")) {
                let is_in_view = Path::new(path).starts_with(view.root());
                assert!(is_in_view && Path::new(path).exists(), "{path}\n{found}");
            }
            for target in ["cudart", "cudart_static", "nvrtc", "cuda_driver", "nvml"] {
                let line = format!("target CUDA::{target}\n");
                assert!(found.contains(&line), "{line}{found}");
            }
            assert!(!found.contains("CUDA::cufft"), "{found}");
        }
        let mut cmake = Command::new(tool("cmake"));
        succeeds(cmake.arg("--build").arg(place.path("script")));
        let program = place.path("script/program");
        let printed = succeeds(&mut Command::new(&program));
        assert!(printed.contains("launched: "), "{printed}");
        let paths = dynamic(&program, "RUNPATH");
        assert!(
            !paths.iter().any(|path| path.contains("stubs")),
            "{paths:?}"
        );
    }

    /// Its root may be spelled in more than one way.
    #[test]
    fn the_toolchain_file_finds_its_own_view() {
        let place = Place::new(CXX);
        place.plant("libcufft.so");
        let view = view_at(&[&site_packages(13)], &place.path("view"));
        symlink(view.root(), place.path("link")).unwrap();
        let roots = [
            format!("{}/", view.root().display()),
            place.path("link").display().to_string(),
        ];
        for (index, root) in roots.iter().enumerate() {
            let arguments = [
                format!(
                    "-DCMAKE_TOOLCHAIN_FILE={}",
                    view.root().join("cmake/toolchain.cmake").display()
                ),
                format!("-DCUDAToolkit_ROOT={root}"),
                format!("-DCMAKE_CUDA_COMPILER={root}/bin/nvcc"),
            ];
            let entries = place.configure(&format!("build{index}"), &arguments);
            assert_eq!(
                below(&entries, &place.path("foreign")),
                BTreeSet::new(),
                "{root}"
            );
            assert!(
                below(&entries, view.root()).contains("cudart_LIBRARY"),
                "{entries:?}"
            );
        }
    }

    #[test]
    fn every_library_that_cmake_looks_for_has_an_entry() {
        let place = Place::new(CXX);
        let view = view_at(&[&site_packages(13)], &place.path("view"));
        let root = [format!("-DCUDAToolkit_ROOT={}", view.root().display())];
        let names = place.configure("names", &root);
        let names = names
            .iter()
            .filter_map(|(name, _)| name.strip_suffix("_LIBRARY"));
        let names: Vec<&str> = names
            .filter(|name| *name != "rt")
            .chain(OTHER_NAMES)
            .collect();
        assert!(names.len() > 25, "{names:?}");
        for name in names {
            place.plant(&format!("lib{name}.so"));
            place.plant(&format!("lib{name}.a"));
        }
        let open = place.configure("open", &root);
        assert!(below(&open, &place.path("foreign")).len() > 15, "{open:?}");
        for (build, arguments) in [("script", script(&view)), ("defines", defines(&view))] {
            let closed = place.configure(build, &arguments);
            assert_eq!(
                outside(&closed, &view),
                [] as [&(String, String); 0],
                "{build}"
            );
        }
    }
}
