//! CMake's two search modules in a view, with libraries of another toolkit planted where CMake
//! looks by itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::View;
use tempfile::TempDir;

use crate::components::site_packages;
use crate::support::{dynamic, succeeds};
use crate::tools::tool;
use crate::view::{PROGRAM, view_at};

/// The module of CMake before 3.10, which projects still ask for, and a program built with it.
const OLD: &str = r#"
cmake_minimum_required(VERSION 3.24)
cmake_policy(SET CMP0146 OLD)
project(old LANGUAGES C CXX)
find_package(CUDA 13 REQUIRED)
cuda_add_executable(program program.cu OPTIONS -arch=sm_80)
"#;

/// Its successor, without the CUDA language.
const NEW: &str = r#"
cmake_minimum_required(VERSION 3.24)
project(new LANGUAGES C CXX)
find_package(CUDAToolkit 13 REQUIRED)
"#;

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
        cmake.arg("-S").arg(self.path("project")).arg("-B").arg(self.path(build));
        cmake.env("CMAKE_LIBRARY_PATH", self.path("foreign"));
        for name in ["CUDA_PATH", "CUDACXX", "CUDAToolkit_ROOT", "CUDA_LIB_PATH", "CMAKE_PREFIX_PATH"] {
            cmake.env_remove(name);
        }
        succeeds(&mut cmake);
        let cache = fs::read_to_string(self.path(build).join("CMakeCache.txt")).unwrap();
        let entry = |line: &str| {
            let (name, value) = line.split_once('=')?;
            let name = name.split(':').next()?;
            let about = name.starts_with("CUDA_") && (name.ends_with("_LIBRARY") || name == "CUDA_CUDART");
            about.then(|| (name.to_owned(), value.to_owned()))
        };
        cache.lines().filter_map(entry).collect()
    }

    fn build(&self, build: &str) -> PathBuf {
        succeeds(Command::new(tool("cmake")).arg("--build").arg(self.path(build)));
        let program = self.path(build).join("program");
        let printed = succeeds(&mut Command::new(&program));
        assert!(printed.contains("launched: "), "{printed}");
        program
    }
}

fn script(view: &View) -> Vec<String> {
    vec!["-C".to_owned(), view.cmake_cache().display().to_string()]
}

fn defines(view: &View) -> Vec<String> {
    view.cmake_defines(None).into_iter().map(|(name, value)| format!("-D{name}={value}")).collect()
}

/// What was found and is in this directory.
fn below<'a>(entries: &'a [(String, String)], directory: &Path) -> BTreeSet<&'a str> {
    let inside = entries.iter().filter(|(_, value)| Path::new(value).starts_with(directory));
    inside.map(|(name, _)| name.as_str()).collect()
}

/// What was found and is not in the view; librt is the C library's.
fn outside<'a>(entries: &'a [(String, String)], view: &View) -> Vec<&'a (String, String)> {
    let found = entries.iter().filter(|(name, value)| {
        !value.is_empty() && !value.ends_with("-NOTFOUND") && name != "CUDA_rt_LIBRARY"
    });
    found.filter(|(_, value)| !Path::new(value).starts_with(view.root())).collect()
}

#[test]
fn the_old_find_cuda_builds_with_a_view() {
    let Some(components) = site_packages(13) else { return };
    let place = Place::new(OLD);
    let view = view_at(&[&components], &place.path("a view"));
    place.plant("libcufft.so");
    place.plant("libcufft.so.11");
    let open = place.configure("open", &[format!("-DCUDA_TOOLKIT_ROOT_DIR={}", view.root().display())]);
    assert_eq!(below(&open, &place.path("foreign")), BTreeSet::from(["CUDA_cufft_LIBRARY"]));
    for (build, arguments) in [("script", script(&view)), ("defines", defines(&view))] {
        let closed = place.configure(build, &arguments);
        assert_eq!(outside(&closed, &view), [] as [&(String, String); 0], "{build}");
        assert!(below(&closed, view.root()).is_superset(&below(&open, view.root())), "{build}: {closed:?}");
        // A second run finds the entries that the first one left.
        assert_eq!(place.configure(build, &[]), closed);
        let program = place.build(build);
        assert!(dynamic(&program, "NEEDED").iter().all(|name| !name.contains("cufft")));
    }
}

/// Files that answer to a name in other ways than `lib<name>.so` and `lib<name>.a`.
const OTHER_NAMES: [&str; 7] =
    ["cuda", "cufile", "cufile_rdma", "nvrtc-builtins", "nvidia-ml", "sanitizer-public", "metis_static"];

#[test]
fn every_library_that_cmake_looks_for_has_an_entry() {
    let Some(components) = site_packages(13) else { return };
    // The old module looks for the newer one's libraries too, and for fewer.
    for lists in [NEW, OLD] {
        let place = Place::new(lists);
        let view = view_at(&[&components], &place.path("view"));
        let root = view.root().display();
        let named = [format!("-DCUDAToolkit_ROOT={root}"), format!("-DCUDA_TOOLKIT_ROOT_DIR={root}")];
        let names = place.configure("names", &named);
        let names = names.iter().filter_map(|(name, _)| name.strip_prefix("CUDA_")?.strip_suffix("_LIBRARY"));
        let names: Vec<&str> = names.filter(|name| *name != "rt").chain(OTHER_NAMES).collect();
        assert!(names.len() > 25, "{names:?}");
        for name in names {
            place.plant(&format!("lib{name}.so"));
            place.plant(&format!("lib{name}.a"));
        }
        let open = place.configure("open", &named);
        assert!(below(&open, &place.path("foreign")).len() > 15, "{open:?}");
        for (build, arguments) in [("script", script(&view)), ("defines", defines(&view))] {
            let closed = place.configure(build, &arguments);
            assert_eq!(outside(&closed, &view), [] as [&(String, String); 0], "{build}");
        }
    }
}
