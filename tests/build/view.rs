//! Views of real components: what compilers, linkers and CMake make of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_cuda::store::{self, AddRequest, Context};
use cuda_build::internal::{Env, Root, Target, ViewPlace};
use cuda_build::{Component, View};
use tempfile::TempDir;

use crate::components::{release, site_packages};
use crate::support::{dynamic, everything_in, output, succeeds, text};
use crate::tools::tool;

/// Device code that needs CCCL and a header of the runtime.
pub const PROGRAM: &str = r#"
#include <cstdio>
#include <cub/block/block_reduce.cuh>
#include <cuda_fp16.h>
__global__ void kernel(int *sum) {
  using Reduce = cub::BlockReduce<int, 32>;
  __shared__ typename Reduce::TempStorage storage;
  int all = Reduce(storage).Sum(static_cast<int>(threadIdx.x));
  if (threadIdx.x == 0) *sum = all + __half2int_rn(__float2half(1.0f));
}
int main() {
  int *sum = nullptr;
  cudaMalloc(&sum, sizeof *sum);
  kernel<<<1, 32>>>(sum);
  std::printf("launched: %d\n", static_cast<int>(cudaGetLastError()));
}
"#;

/// The headers of the driver's management library, which no default set has.
pub(super) fn with_nvml(major: u32) -> Option<[PathBuf; 2]> {
    let toolkit = site_packages(major)?;
    let mut request = AddRequest::new(release(major).parse().unwrap());
    request.only = vec![Component::Nvml];
    let context = Context {
        env: Env::from_process(),
        lock_file: None,
    };
    let nvml =
        store::add(&request, &context).unwrap_or_else(|error| panic!("nvml {major}: {error:?}"));
    Some([toolkit, nvml.path])
}

pub(super) fn target(triple: &str) -> Target {
    Target::from_triple(triple).unwrap()
}

pub fn view_at(places: &[&Path], directory: &Path) -> View {
    let place = ViewPlace::at(directory, &target("x86_64-unknown-linux-gnu"));
    everything_in(places)
        .view(&place, &Root::system())
        .unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn nvcc_of_a_view_compiles_and_links_however_it_is_called() {
    let Some(components) = site_packages(13) else {
        return;
    };
    let place = TempDir::new().unwrap();
    let source = place.path().join("program.cu");
    fs::write(&source, PROGRAM).unwrap();
    let ways: [(&str, bool); 3] = [
        ("plain", false),
        ("by path", true),
        ("größe and blank", false),
    ];
    for (name, by_path) in ways {
        let view = view_at(&[&components], &place.path().join(name));
        let nvcc = view.nvcc().unwrap();
        let program = place.path().join(format!("program {name}"));
        let mut command = if by_path {
            let path = std::env::var("PATH").unwrap();
            let mut command = Command::new("sh");
            command.args(["-c", "exec nvcc \"$@\"", "sh"]);
            command.env(
                "PATH",
                format!("{}:{path}", view.root().join("bin").display()),
            );
            command
        } else {
            Command::new(&nvcc)
        };
        // Without these the machine's own CUDA, where there is one, could help out.
        command
            .env_remove("LIBRARY_PATH")
            .env_remove("CPATH")
            .env_remove("NVCC_APPEND_FLAGS");
        succeeds(
            command
                .args(["-arch=sm_80", "-o"])
                .arg(&program)
                .arg(&source),
        );
        // No driver: 35. What counts is that it starts.
        let printed = succeeds(&mut Command::new(&program));
        assert!(printed.contains("launched: "), "{printed}");
        assert!(dynamic(&program, "RUNPATH").is_empty());
        let dry = succeeds(Command::new(&nvcc).arg("--dryrun").arg(&source));
        for line in dry
            .lines()
            .filter(|line| line.starts_with("#$ TOP=") || line.contains("LIBRARIES="))
        {
            assert!(line.contains(&*view.root().to_string_lossy()), "{line}");
        }
        assert!(
            !dry.contains(&*components.to_string_lossy()),
            "nvcc looks past the view:\n{dry}"
        );
    }
}

#[test]
fn device_code_is_linked_with_the_view_alone() {
    let Some(components) = site_packages(13) else {
        return;
    };
    let place = TempDir::new().unwrap();
    let view = view_at(&[&components], &place.path().join("view"));
    let source = place.path().join("program.cu");
    fs::write(&source, PROGRAM).unwrap();
    let program = place.path().join("program");
    let mut nvcc = Command::new(view.nvcc().unwrap());
    nvcc.args([
        "-rdc=true",
        "-cudart=shared",
        "-arch=sm_80",
        "-Xlinker=--no-as-needed",
        "-o",
    ]);
    succeeds(nvcc.arg(&program).arg(&source).arg("-lcuda"));
    let needed = dynamic(&program, "NEEDED");
    for library in ["libcudart.so.13", "libcuda.so.1"] {
        assert!(needed.iter().any(|name| name == library), "{needed:?}");
    }
    let mut run = Command::new(&program);
    let refused = text(&output(run.env("LD_LIBRARY_PATH", view.lib())));
    assert!(
        refused.contains("libcuda.so.1"),
        "a stub was loaded from `lib`: {refused}"
    );
}

const CMAKE: &str = r#"
cmake_minimum_required(VERSION 3.24)
project(probe LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
find_package(CCCL REQUIRED)
file(WRITE ${CMAKE_BINARY_DIR}/found "version ${CUDAToolkit_VERSION}\n")
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

#[test]
fn cmake_finds_a_view_of_wheels() {
    let Some(components) = with_nvml(13) else {
        return;
    };
    let place = TempDir::new().unwrap();
    let view = view_at(
        &[&components[0], &components[1]],
        &place.path().join("a view"),
    );
    let project = place.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("CMakeLists.txt"), CMAKE).unwrap();
    fs::write(project.join("program.cu"), PROGRAM).unwrap();
    let build = place.path().join("build");
    let mut configure = Command::new(tool("cmake"));
    configure.args(["-G", "Ninja", "-DCMAKE_CUDA_ARCHITECTURES=80"]);
    configure.arg(format!("-DCMAKE_MAKE_PROGRAM={}", tool("ninja").display()));
    configure.arg(format!(
        "-DCMAKE_CUDA_COMPILER={}",
        view.nvcc().unwrap().display()
    ));
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", view.root().display()));
    configure
        .env_remove("CMAKE_LIBRARY_PATH")
        .env_remove("CUDA_PATH")
        .env_remove("CUDAToolkit_ROOT");
    succeeds(configure.arg("-S").arg(&project).arg("-B").arg(&build));
    let found = fs::read_to_string(build.join("found")).unwrap();
    for line in found.lines().filter_map(|line| line.strip_prefix("path ")) {
        assert!(
            Path::new(line).starts_with(view.root()),
            "outside the view: {line}\n{found}"
        );
        assert!(Path::new(line).exists(), "{line}");
    }
    for target in ["cudart", "cudart_static", "nvrtc", "cuda_driver", "nvml"] {
        assert!(
            found.contains(&format!("target CUDA::{target}\n")),
            "CUDA::{target} is missing:\n{found}"
        );
    }
    assert!(!found.contains("CUDA::cufft"), "{found}");
    succeeds(Command::new(tool("cmake")).arg("--build").arg(&build));
    let printed = succeeds(&mut Command::new(build.join("program")));
    assert!(printed.contains("launched: "), "{printed}");
    for path in dynamic(&build.join("program"), "RUNPATH") {
        assert!(!path.contains("stubs"), "{path}");
    }
}

#[test]
fn pkg_config_finds_libraries_and_stubs_in_a_moved_view() {
    let Some(components) = site_packages(13) else {
        return;
    };
    let place = TempDir::new().unwrap();
    let view = view_at(&[&components], &place.path().join("first"));
    let moved = place.path().join("second");
    fs::rename(view.root(), &moved).unwrap();
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", moved.join("lib64/pkgconfig"));
    let printed =
        succeeds(command.args(["--cflags", "--libs", "cudart", "cuda-13.4", "cudart-13.4"]));
    let flags: Vec<&str> = printed.split_whitespace().collect();
    let source = place.path().join("a.c");
    fs::write(
        &source,
        "#include <cuda.h>\nint main(void) { return cuInit(0); }\n",
    )
    .unwrap();
    let program = place.path().join("program");
    let mut gcc = Command::new("gcc");
    succeeds(
        gcc.arg(&source)
            .arg("-o")
            .arg(&program)
            .arg("-Wl,--no-as-needed")
            .args(flags),
    );
    let needed = dynamic(&program, "NEEDED");
    assert!(
        needed.iter().any(|n| n == "libcuda.so.1") && needed.iter().any(|n| n == "libcudart.so.13")
    );
}

#[test]
fn the_command_prints_where_the_view_is() {
    let Some(components) = site_packages(13) else {
        return;
    };
    let place = TempDir::new().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        command
            .args(["cuda", "view"])
            .args(arguments)
            .current_dir(place.path());
        command
            .env("CUDA_BUILD_ROOTS", &components)
            .env("CUDA_BUILD_CACHE_DIR", place.path().join("cache"));
        output(
            command
                .env_remove("CUDA_BUILD_TOOLKIT")
                .env_remove("CUDA_BUILD_VIEWS"),
        )
    };
    let printed = run(&[]);
    assert!(printed.status.success(), "{}", text(&printed));
    let root = PathBuf::from(String::from_utf8(printed.stdout).unwrap().trim_end());
    assert!(
        root.starts_with(place.path().join("cache/views")),
        "{}",
        root.display()
    );
    assert!(root.join("bin/nvcc").is_file() && root.join("lib64/libcudart.so").is_file());
    let report = run(&[
        "--json",
        "--components",
        "cudart",
        "--copy",
        "--output",
        "mine",
    ]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["format_version"], 1);
    assert_eq!(report["root"], place.path().join("mine").to_str().unwrap());
    assert_eq!(report["made"], true);
    assert!(report["nvcc"].is_null());
    assert!(
        !fs::symlink_metadata(place.path().join("mine/include/cuda.h"))
            .unwrap()
            .is_symlink()
    );
    let absent = run(&["--components", "cufft"]);
    assert_eq!(absent.status.code(), Some(10), "{}", text(&absent));
    assert!(text(&absent).contains("cufft"));
}

#[test]
fn host_code_compiles_with_wheels_of_cuda_12() {
    if crate::components::offline() {
        return;
    }
    let mut request = AddRequest::new(release(12).parse().unwrap());
    request.only = vec![Component::Cudart, Component::Crt];
    let context = Context {
        env: Env::from_process(),
        lock_file: None,
    };
    let added = store::add(&request, &context).unwrap_or_else(|error| panic!("{error:?}"));
    let place = TempDir::new().unwrap();
    let view = view_at(&[&added.path], &place.path().join("view"));
    let source = place.path().join("a.cpp");
    fs::write(
        &source,
        "#include <cuda_runtime.h>\nint main() { int n; return cudaGetDeviceCount(&n); }\n",
    )
    .unwrap();
    let program = place.path().join("program");
    let mut compile = Command::new("g++");
    compile
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg("-I")
        .arg(view.include())
        .arg("-L");
    succeeds(compile.arg(view.root().join("lib64")).arg("-lcudart"));
    assert!(
        dynamic(&program, "NEEDED")
            .iter()
            .any(|name| name == "libcudart.so.12")
    );
}

/// Cargo compares dates: at a place that was named another view may come, and has to be newer.
#[test]
fn the_marker_of_a_view_at_a_named_place_has_its_date() {
    let (Some(of_12), Some(of_13)) = (site_packages(12), site_packages(13)) else {
        return;
    };
    let place = TempDir::new().unwrap();
    let date = |view: &View| fs::metadata(view.marker()).unwrap().modified().unwrap();
    let named = place.path().join("named");
    let first = date(&view_at(&[&of_12], &named));
    assert_eq!(
        date(&view_at(&[&of_12], &named)),
        first,
        "an unchanged view is not touched"
    );
    // Cargo compares whole units of the file system.
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(date(&view_at(&[&of_13], &named)) > first);
    let kept = ViewPlace::below(place.path(), &target("x86_64-unknown-linux-gnu"));
    let kept = everything_in(&[&of_13])
        .view(&kept, &Root::system())
        .unwrap();
    assert_eq!(date(&kept), std::time::SystemTime::UNIX_EPOCH);
}
