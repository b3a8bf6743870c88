//! CMake's two search modules in a view, with libraries of another toolkit planted where CMake
//! looks by itself.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
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
        cmake
            .arg("-S")
            .arg(self.path("project"))
            .arg("-B")
            .arg(self.path(build));
        cmake.env("CMAKE_LIBRARY_PATH", self.path("foreign"));
        for name in [
            "CUDA_PATH",
            "CUDACXX",
            "CUDAToolkit_ROOT",
            "CUDA_LIB_PATH",
            "CMAKE_PREFIX_PATH",
        ] {
            cmake.env_remove(name);
        }
        succeeds(&mut cmake);
        let cache = fs::read_to_string(self.path(build).join("CMakeCache.txt")).unwrap();
        let entry = |line: &str| {
            let (name, value) = line.split_once('=')?;
            let name = name.split(':').next()?;
            let about =
                name.starts_with("CUDA_") && (name.ends_with("_LIBRARY") || name == "CUDA_CUDART");
            about.then(|| (name.to_owned(), value.to_owned()))
        };
        cache.lines().filter_map(entry).collect()
    }

    fn build(&self, build: &str) -> PathBuf {
        succeeds(
            Command::new(tool("cmake"))
                .arg("--build")
                .arg(self.path(build)),
        );
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
    view.cmake_defines(None)
        .into_iter()
        .map(|(name, value)| format!("-D{name}={value}"))
        .collect()
}

/// What was found and is in this directory.
fn below<'a>(entries: &'a [(String, String)], directory: &Path) -> BTreeSet<&'a str> {
    let inside = entries
        .iter()
        .filter(|(_, value)| Path::new(value).starts_with(directory));
    inside.map(|(name, _)| name.as_str()).collect()
}

/// What was found and is not in the view; librt is the C library's.
fn outside<'a>(entries: &'a [(String, String)], view: &View) -> Vec<&'a (String, String)> {
    let found = entries.iter().filter(|(name, value)| {
        !value.is_empty() && !value.ends_with("-NOTFOUND") && name != "CUDA_rt_LIBRARY"
    });
    found
        .filter(|(_, value)| !Path::new(value).starts_with(view.root()))
        .collect()
}

#[test]
fn the_old_find_cuda_builds_with_a_view() {
    let Some(components) = site_packages(13) else {
        return;
    };
    let place = Place::new(OLD);
    let view = view_at(&[&components], &place.path("a view"));
    place.plant("libcufft.so");
    place.plant("libcufft.so.11");
    let open = place.configure(
        "open",
        &[format!("-DCUDA_TOOLKIT_ROOT_DIR={}", view.root().display())],
    );
    assert_eq!(
        below(&open, &place.path("foreign")),
        BTreeSet::from(["CUDA_cufft_LIBRARY"])
    );
    for (build, arguments) in [("script", script(&view)), ("defines", defines(&view))] {
        let closed = place.configure(build, &arguments);
        assert_eq!(
            outside(&closed, &view),
            [] as [&(String, String); 0],
            "{build}"
        );
        assert!(
            below(&closed, view.root()).is_superset(&below(&open, view.root())),
            "{build}: {closed:?}"
        );
        // A second run finds the entries that the first one left.
        assert_eq!(place.configure(build, &[]), closed);
        let program = place.build(build);
        assert!(
            dynamic(&program, "NEEDED")
                .iter()
                .all(|name| !name.contains("cufft"))
        );
    }
}

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

/// Its root may be spelled in more than one way, and its nvcc be named without a directory.
#[test]
fn the_toolchain_file_knows_its_own_view() {
    let Some(wheels) = site_packages(13) else {
        return;
    };
    let place = Place::new(NEW);
    place.plant("libcufft.so");
    let view = view_at(&[&wheels], &place.path("view"));
    let toolchain = format!(
        "-DCMAKE_TOOLCHAIN_FILE={}",
        view.cmake_toolchain().display()
    );
    symlink(view.root(), place.path("link")).unwrap();
    let roots = [
        format!("{}/", view.root().display()),
        place.path("link").display().to_string(),
    ];
    let compilers = [view.root().join("bin/nvcc"), place.path("link/bin/nvcc")];
    for (index, (root, nvcc)) in roots.iter().zip(compilers).enumerate() {
        let more = [
            format!("-DCUDAToolkit_ROOT={root}"),
            format!("-DCMAKE_CUDA_COMPILER={}", nvcc.display()),
        ];
        let entries = place.configure(
            &format!("build{index}"),
            &[&[toolchain.clone()][..], &more].concat(),
        );
        assert_eq!(
            below(&entries, &place.path("foreign")),
            BTreeSet::new(),
            "{root}"
        );
        assert!(
            below(&entries, view.root()).contains("CUDA_cudart_LIBRARY"),
            "{entries:?}"
        );
    }
}

#[test]
fn every_library_that_cmake_looks_for_has_an_entry() {
    let Some(components) = site_packages(13) else {
        return;
    };
    // The old module looks for the newer one's libraries too, and for fewer.
    for lists in [NEW, OLD] {
        let place = Place::new(lists);
        let view = view_at(&[&components], &place.path("view"));
        let root = view.root().display();
        let named = [
            format!("-DCUDAToolkit_ROOT={root}"),
            format!("-DCUDA_TOOLKIT_ROOT_DIR={root}"),
        ];
        let names = place.configure("names", &named);
        let names = names
            .iter()
            .filter_map(|(name, _)| name.strip_prefix("CUDA_")?.strip_suffix("_LIBRARY"));
        let names: Vec<&str> = names
            .filter(|name| *name != "rt")
            .chain(OTHER_NAMES)
            .collect();
        assert!(names.len() > 25, "{names:?}");
        for name in names {
            place.plant(&format!("lib{name}.so"));
            place.plant(&format!("lib{name}.a"));
        }
        let open = place.configure("open", &named);
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

const SAXPY: &str = r#"
#include <cstdio>
#include <vector>
__global__ void saxpy(unsigned n, float a, const float *x, float *y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
int main() {
  std::vector<float> ones(256, 1.0f);
  float *x = nullptr, *y = nullptr;
  cudaMalloc(&x, 1024);
  cudaMalloc(&y, 1024);
  cudaMemcpy(x, ones.data(), 1024, cudaMemcpyHostToDevice);
  cudaMemcpy(y, ones.data(), 1024, cudaMemcpyHostToDevice);
  saxpy<<<1, 256>>>(256, 2.0f, x, y);
  std::printf("launched: %d\n", static_cast<int>(cudaGetLastError()));
}
"#;

const LANGUAGE: &str = r#"
cmake_minimum_required(VERSION 3.24)
project(saxpy LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
add_executable(program program.cu)
set_target_properties(program PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
target_link_libraries(program PRIVATE CUDA::nvrtc)
target_link_options(program PRIVATE -Wl,--no-as-needed)
file(WRITE ${CMAKE_BINARY_DIR}/found "${CMAKE_CUDA_COMPILER}\n${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}\n${CUDAToolkit_INCLUDE_DIRS}\n")
"#;

/// What Debian installs, made of wheels: headers among the system's, libraries in the multiarch
/// directory, the compiler in a directory of its own with a profile that names no `TOP`, and a
/// script as `bin/nvcc`.
fn debian(wheels: &Path, usr: &Path) {
    let own = usr.join("lib/nvidia-cuda-toolkit");
    let libraries = usr.join("lib/x86_64-linux-gnu");
    for directory in [
        usr.join("include"),
        usr.join("bin"),
        libraries.clone(),
        own.join("bin"),
    ] {
        fs::create_dir_all(directory).unwrap();
    }
    let names = |from: &Path| -> Vec<PathBuf> {
        fs::read_dir(from)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    };
    // A compiler that is called by a link finds its profile beside the link; a link's target is
    // nowhere asked for what lies beside it.
    let place = |from: &Path, to: &Path| {
        let to = to.join(from.file_name().unwrap());
        if from.is_dir() {
            return symlink(from, to).unwrap();
        }
        if fs::hard_link(from, &to).is_err() {
            fs::copy(from, &to).unwrap();
        }
    };
    for header in names(&wheels.join("include"))
        .iter()
        .filter(|path| !path.ends_with("cccl"))
    {
        place(header, &usr.join("include"));
    }
    for directory in names(&wheels.join("include/cccl")) {
        let to = usr.join("include").join(directory.file_name().unwrap());
        if !to.exists() {
            place(&directory, &usr.join("include"));
        }
    }
    fs::write(
        usr.join("include/stdio.h"),
        "#error the system's own header\n",
    )
    .unwrap();
    for library in names(&wheels.join("lib"))
        .iter()
        .filter(|path| path.is_file())
    {
        place(library, &libraries);
        let name = library.file_name().unwrap().to_str().unwrap();
        if let Some((stem, _)) = name.split_once(".so.") {
            symlink(name, libraries.join(format!("{stem}.so"))).unwrap();
        }
    }
    for program in names(&wheels.join("bin"))
        .iter()
        .filter(|path| !path.ends_with("nvcc.profile"))
    {
        place(program, &own.join("bin"));
    }
    place(&wheels.join("nvvm/bin/cicc"), &own.join("bin"));
    place(&wheels.join("nvvm/libdevice"), &own);
    let profile = format!(
        "NVVMIR_LIBRARY_DIR = {0}/libdevice\nPATH += $(_HERE_):\nLIBRARIES =+ $(_SPACE_) -L{1}/stubs -L{1}\n",
        own.display(),
        libraries.display()
    );
    fs::write(own.join("bin/nvcc.profile"), profile).unwrap();
    let script = usr.join("bin/nvcc");
    fs::write(
        &script,
        format!(
            "#!/bin/sh\nexec {} \"$@\"\n",
            own.join("bin/nvcc").display()
        ),
    )
    .unwrap();
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn saxpy_builds_with_a_view_of_what_debian_installs() {
    let Some(components) = site_packages(13) else {
        return;
    };
    // On the disk that the tests' components are most likely on: files are linked, not copied.
    let usr = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let usr = usr.path().join("usr");
    debian(&components.join("nvidia/cu13"), &usr);
    let place = Place::new(LANGUAGE);
    fs::write(place.path("project/program.cu"), SAXPY).unwrap();
    let view = view_at(&[&usr], &place.path("view"));
    assert!(!view.contains("include/stdio.h"));
    place.plant("libcufft.so");
    place.plant("libcufft.so.11");
    let architecture = "-DCMAKE_CUDA_ARCHITECTURES=80".to_owned();
    let open = [
        format!("-DCMAKE_CUDA_COMPILER={}", view.nvcc().unwrap().display()),
        format!("-DCUDAToolkit_ROOT={}", view.root().display()),
        architecture.clone(),
    ];
    let open = place.configure("open", &open);
    assert_eq!(
        below(&open, &place.path("foreign")),
        BTreeSet::from(["CUDA_cufft_LIBRARY"])
    );
    for (build, mut arguments) in [("script", script(&view)), ("defines", defines(&view))] {
        arguments.push(architecture.clone());
        let closed = place.configure(build, &arguments);
        assert_eq!(
            outside(&closed, &view),
            [] as [&(String, String); 0],
            "{build}"
        );
        assert!(
            below(&closed, view.root()).is_superset(&below(&open, view.root())),
            "{build}: {closed:?}"
        );
        let found = fs::read_to_string(place.path(build).join("found")).unwrap();
        for path in found.lines().flat_map(|line| line.split(';')) {
            assert!(
                Path::new(path).starts_with(view.root()),
                "outside the view: {path}\n{found}"
            );
        }
        succeeds(
            Command::new(tool("cmake"))
                .arg("--build")
                .arg(place.path(build)),
        );
        let program = place.path(build).join("program");
        let needed = dynamic(&program, "NEEDED");
        for library in ["libcudart.so.13", "libnvrtc.so.13"] {
            assert!(needed.iter().any(|name| name == library), "{needed:?}");
        }
        // The directory that nvcc names by itself gets no RUNPATH from CMake.
        let printed = succeeds(Command::new(&program).env("LD_LIBRARY_PATH", view.lib()));
        assert!(printed.contains("launched: "), "{printed}");
    }
}
