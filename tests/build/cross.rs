//! Builds for 64-bit ARM on this machine: nvcc of this machine, the libraries of the target, a cross compiler.
//!
//! `g++-aarch64-linux-gnu` and `qemu-user` are packages of Debian. Without them, the ignored test cannot run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::internal::Root;
use cuda_build::{Build, Component, Engine, Error, Library, Module};

use crate::components::site_packages;
use crate::named_places::{package, script};
use crate::support::{succeeds, text};
use crate::wheels::wheels_for;

const TRIPLE: &str = "aarch64-unknown-linux-gnu";

/// `e_machine` of 64-bit ARM.
const AARCH64: u16 = 183;

/// Returns the error of CUDA: under emulation there is no driver.
const ANSWER: &str = r#"#include <cuda_runtime.h>
#include <vector>
extern __device__ int twice(int);
__global__ void kernel(int *x) { *x = twice(*x); }
extern "C" int answer() {
    int count = 0;
    std::vector<int> v(2, 20);
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess) { kernel<<<1, 1>>>(nullptr); }
    return error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice ? v[0] + v[1] + 2 : -int(error);
}
"#;

const TWICE: &str = "__device__ int twice(int x) { return 2 * x; }\n";

const MAIN: &str = r#"#include <cstdio>
extern "C" int answer();
int main() { std::printf("answer %d\n", answer()); }
"#;

/// nvcc for this machine and the runtime for both, as one list for `CUDA_BUILD_ROOTS`.
fn roots(own_is_first: bool) -> Option<PathBuf> {
    let own = site_packages(13)?;
    let other = wheels_for("aarch64", &["nvidia-cuda-runtime==13.4.92"])?;
    let list = match own_is_first {
        true => [own, other],
        false => [other, own],
    };
    Some(std::env::join_paths(list).unwrap().into())
}

fn cross(place: &Path, roots: &Path, variables: &[(&str, &Path)]) -> Build {
    let own = [
        ("TARGET", Path::new(TRIPLE)),
        ("HOST", Path::new("x86_64-unknown-linux-gnu")),
        ("CUDA_BUILD_ROOTS", roots),
    ];
    let build = package(place, &[&own, variables].concat());
    fs::write(place.join("package/answer.cu"), ANSWER).unwrap();
    fs::write(place.join("package/twice.cu"), TWICE).unwrap();
    build
}

fn library() -> Library {
    Library::new("answer")
        .files(["answer.cu", "twice.cu"])
        .rdc(true)
}

/// The linker's arguments for the directives of a build.
fn link_arguments(build: &Build) -> Vec<String> {
    let directives = build.directives(build.toolkit().unwrap());
    let mut arguments = Vec::new();
    for line in directives.lines() {
        let line = line.to_string();
        if let Some(directory) = line.strip_prefix("cargo::rustc-link-search=native=") {
            arguments.push(format!("-L{directory}"));
        } else if let Some(library) = line.strip_prefix("cargo::rustc-link-lib=") {
            let (kind, name) = library.split_once('=').unwrap();
            let exact = if kind.ends_with("+verbatim") { ":" } else { "" };
            arguments.push(format!("-l{exact}{name}"));
        }
    }
    arguments
}

#[test]
#[ignore = "needs g++-aarch64-linux-gnu and qemu-user"]
fn a_library_for_arm_links_and_runs() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let mut programs = Vec::new();
    for own_is_first in [true, false] {
        let roots = roots(own_is_first).expect("this test needs real components");
        // The second build takes the image for 8.0 from the first one.
        for capabilities in ["8.0", "8.0, 9.0+PTX"] {
            let capabilities = Path::new(capabilities);
            let variables = [("CUDA_BUILD_CAPABILITIES", capabilities)];
            let build = cross(place, &roots, &variables);
            let build = build.module("k.cu").library(library());
            let toolkit = build.toolkit().unwrap();
            let cudart = toolkit.get(Component::Cudart).unwrap();
            for file in cudart.libraries.iter().chain(&cudart.archives) {
                let machine = Root::system().machine_of_library(file);
                assert_eq!(machine, Some(AARCH64), "{}", file.display());
            }
            let arguments = link_arguments(&build);
            let built = build.run().unwrap();
            assert!(built.compiled.made.len() >= 4, "{built:?}");
            let archive = place.join("out/libanswer.a");
            assert_eq!(Root::system().machine_of_library(&archive), Some(AARCH64));
            let program = place.join("program");
            fs::write(place.join("main.cpp"), MAIN).unwrap();
            succeeds(
                Command::new("aarch64-linux-gnu-g++")
                    .arg(place.join("main.cpp"))
                    .args(&arguments)
                    .arg("-o")
                    .arg(&program),
            );
            assert_eq!(Root::system().elf_machine(&program), Some(AARCH64));
            let run = Command::new("qemu-aarch64")
                .args(["-L", "/usr/aarch64-linux-gnu"])
                .arg(&program)
                .output()
                .unwrap();
            assert_eq!(text(&run), "answer 42\n");
            programs.push(fs::read(place.join("out/k.fatbin")).unwrap());
        }
    }
    assert!(programs[0].len() < programs[1].len());
}

#[test]
fn a_cross_build_needs_a_cross_compiler() {
    let Some(roots) = roots(true) else { return };
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    // A machine with no compiler but its own.
    let bin = place.join("bin");
    for name in ["gcc", "g++"] {
        script(
            &bin.join(name),
            &format!("#!/bin/sh\nexec /usr/bin/{name} \"$@\"\n"),
        );
    }
    let own = bin.join("g++");
    let refused = |variables: &[(&str, &Path)]| {
        let variables = [&[("PATH", bin.as_path())], variables].concat();
        let build = cross(place, &roots, &variables).module("k.cu");
        let error = build.run().unwrap_err();
        assert!(matches!(error, Error::HostCompiler { .. }), "{error:?}");
        format!("{error:?}")
    };
    for (variables, words) in [
        (
            &[][..],
            &[
                "nvcc needs a C++ compiler for aarch64-unknown-linux-gnu, and there is no `aarch64-linux-gnu-g++` on `PATH`",
                "hint: install aarch64-linux-gnu-g++ (Debian: `apt install g++-aarch64-linux-gnu`)",
            ][..],
        ),
        (
            &[("NVCC_CCBIN", own.as_path())],
            &[
                "which `NVCC_CCBIN` names, compiles for x86_64, but the build is for aarch64-unknown-linux-gnu",
                "set `NVCC_CCBIN=<its path>`",
            ],
        ),
        (
            &[("CXX_aarch64_unknown_linux_gnu", own.as_path())],
            &[
                "which `CXX_aarch64_unknown_linux_gnu` names, compiles for x86_64",
                "set `CXX_aarch64_unknown_linux_gnu=<its path>`",
            ],
        ),
        (
            &[("TARGET_CXX", Path::new("absent-g++"))],
            &["`TARGET_CXX` names absent-g++, which is not a C++ compiler that can be run"],
        ),
    ] {
        let shown = refused(variables);
        for wanted in words {
            assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
        }
    }
}

#[test]
fn libraries_of_this_machine_are_not_used_in_a_cross_build() {
    let Some(own) = site_packages(13) else { return };
    let place = tempfile::tempdir().unwrap();
    let error = cross(place.path(), &own, &[])
        .library(library())
        .run()
        .unwrap_err();
    let shown = format!("{error:?}");
    let roots = format!("set `CUDA_BUILD_ROOTS={}:DIRECTORY`", own.display());
    for wanted in [
        roots.as_str(),
        "CUDA component `cudart` not found",
        "the build for `aarch64-unknown-linux-gnu` needs CUDA libraries for that platform",
        "pip install --target DIRECTORY --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 \
         --only-binary :all: --no-deps \
         'nvidia-cuda-runtime==13.4.*'`",
    ] {
        assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
    }
}

/// The toolkit of a cross build has the target's NVRTC.
#[test]
fn nvrtc_does_not_compile_in_a_cross_build() {
    let place = tempfile::tempdir().unwrap();
    let module = Module::new("k.cu").engine(Engine::Nvrtc);
    let build = cross(place.path(), Path::new("/nonexistent"), &[]).module(module);
    let shown = format!("{:?}", build.run().unwrap_err());
    for wanted in [
        "module `k` is to be compiled by NVRTC, but the build is for aarch64-unknown-linux-gnu",
        "hint: remove `.engine(Engine::Nvrtc)`",
    ] {
        assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
    }
}
