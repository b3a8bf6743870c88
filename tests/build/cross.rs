//! Builds for 64-bit ARM on this machine: nvcc of this machine, the libraries of the target, a cross compiler.
//!
//! `g++-aarch64-linux-gnu` and `qemu-user` are packages of Debian. Without them, the ignored test cannot run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::{Build, Component, Engine, Error, Library, Module};
use cuda_find_core::root::Root;

use crate::components::site_packages;
use crate::named_places::{package, script};
use crate::support::succeeds;
use crate::wheels::wheels_for;

const TRIPLE: &str = "aarch64-unknown-linux-gnu";

/// `e_machine` of 64-bit ARM.
const AARCH64: u16 = 183;

/// Returns the error of CUDA: under emulation there is no driver.
const ANSWER: &str = r#"#include <cuda_runtime.h>
#include <vector>
__global__ void kernel(int *x) { *x = 42; }
extern "C" int answer() {
    int count = 0;
    std::vector<int> v(2, 20);
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess) { kernel<<<1, 1>>>(nullptr); }
    return error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice ? v[0] + v[1] + 2 : -int(error);
}
"#;

const CALLS: &str = "extern __device__ int twice(int);\n\
                     __global__ void calls(int *x) { *x = twice(*x); }\n\
                     extern \"C\" void start(int *x) { calls<<<1, 1>>>(x); }\n";

const TWICE: &str = "__device__ int twice(int x) { return 2 * x; }\n";

const MAIN: &str = r#"#include <cstdio>
extern "C" int answer();
extern "C" void start(int *);
int main() { start(nullptr); std::printf("answer %d\n", answer()); }
"#;

/// The runtime and nvcc's headers for the target.
fn target_packages() -> PathBuf {
    let packages = ["nvidia-cuda-runtime==13.4.92", "nvidia-cuda-crt==13.4.92"];
    wheels_for("aarch64", &packages)
}

/// nvcc for this machine and the runtime for both, as one list for `CUDA_BUILD_ROOTS`.
fn roots(own_is_first: bool) -> PathBuf {
    let own = site_packages(13);
    let other = target_packages();
    let list = match own_is_first {
        true => [own, other],
        false => [other, own],
    };
    std::env::join_paths(list).unwrap().into()
}

fn cross(place: &Path, roots: &Path, variables: &[(&str, &Path)]) -> Build {
    let own = [
        ("TARGET", Path::new(TRIPLE)),
        ("HOST", Path::new("x86_64-unknown-linux-gnu")),
        ("CUDA_BUILD_ROOTS", roots),
    ];
    let build = package(place, &[&own, variables].concat());
    fs::write(place.join("package/answer.cu"), ANSWER).unwrap();
    fs::write(place.join("package/calls.cu"), CALLS).unwrap();
    fs::write(place.join("package/twice.cu"), TWICE).unwrap();
    build
}

fn library() -> Library {
    Library::new("answer").file("answer.cu")
}

/// A library whose device code nvcc links.
fn relocatable() -> Library {
    Library::new("relocatable")
        .files(["calls.cu", "twice.cu"])
        .rdc(true)
}

/// The linker's arguments for the directives of a build.
fn link_arguments(build: &Build) -> Vec<String> {
    let directives = build.directives(build.toolkit().unwrap());
    let mut arguments = Vec::new();
    for line in directives.to_lines().unwrap() {
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

/// Builds the libraries and a module, links a program, and runs it under emulation. Returns for what the object of the
/// first library was compiled.
#[track_caller]
fn links_and_runs(place: &Path, build: Build) -> Vec<String> {
    let build = build
        .module("k.cu")
        .library(library())
        .library(relocatable());
    let toolkit = build.toolkit().unwrap();
    let cudart = toolkit.get(Component::Cudart).unwrap();
    for file in cudart.libraries.iter().chain(&cudart.archives) {
        let machine = Root::system().machine_of_library(file);
        assert_eq!(machine, Some(AARCH64), "{}", file.display());
    }
    let arguments = link_arguments(&build);
    let built = build.run().unwrap();
    let made = &built.compiled.made;
    assert_eq!(made.len(), 7, "{built:?}");
    for name in ["libanswer.a", "librelocatable.a"] {
        let machine = Root::system().machine_of_library(&place.join("out").join(name));
        assert_eq!(machine, Some(AARCH64), "{name}");
    }
    let program = place.join("program");
    fs::write(place.join("main.cpp"), MAIN).unwrap();
    let mut linker = Command::new("aarch64-linux-gnu-g++");
    linker.arg(place.join("main.cpp")).args(&arguments);
    succeeds(linker.arg("-o").arg(&program));
    assert_eq!(Root::system().elf_machine(&program), Some(AARCH64));
    let mut run = Command::new("qemu-aarch64");
    run.args(["-L", "/usr/aarch64-linux-gnu"]).arg(&program);
    assert_eq!(succeeds(&mut run), "answer 42\n");
    let mut made = made.iter();
    let object = made.find(|made| made.output.to_string_lossy().contains("/answer-answer."));
    object.unwrap().compiled.clone()
}

/// The toolkit of a cross build has the target's NVRTC.
/// `sizeof(long)` of the compilers of this machine is not that of Windows.
#[test]
fn modules_for_windows_are_refused_elsewhere() {
    for (engine, reason) in [
        (Engine::Auto, "`long` has 4 bytes on Windows"),
        (Engine::Nvrtc, "`long` has 4 bytes on Windows"),
        (Engine::Nvcc, "nvcc needs Microsoft's compiler"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let windows = Path::new("x86_64-pc-windows-msvc");
        let build = cross(place.path(), place.path(), &[("TARGET", windows)]);
        let error = build
            .module(Module::new("k.cu").engine(engine))
            .run()
            .unwrap_err();
        assert!(error.to_string().contains(reason), "{error:?}");
    }
}

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

mod online {
    use super::*;

    #[test]
    #[ignore = "needs g++-aarch64-linux-gnu and qemu-user"]
    fn a_library_for_arm_links_and_runs() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        for own_is_first in [true, false] {
            let roots = roots(own_is_first);
            // The second build takes the image for 8.0 from the first one.
            for (capabilities, compiled) in [("8.0", "sm_80"), ("8.0, 9.0", "sm_90")] {
                let variables = [("CUDA_BUILD_CAPABILITIES", Path::new(capabilities))];
                let build = cross(place, &roots, &variables);
                let expected = match own_is_first {
                    true => vec![compiled.to_owned()],
                    false => Vec::new(),
                };
                assert_eq!(links_and_runs(place, build), expected);
            }
        }
    }

    #[test]
    fn a_cross_build_needs_a_cross_compiler() {
        let roots = roots(true);
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
                    "name it in `NVCC_CCBIN`",
                ],
            ),
            (
                &[("CXX_aarch64_unknown_linux_gnu", own.as_path())],
                &[
                    "which `CXX_aarch64_unknown_linux_gnu` names, compiles for x86_64",
                    "name it in `CXX_aarch64_unknown_linux_gnu`",
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
        let own = site_packages(13);
        let place = tempfile::tempdir().unwrap();
        let error = cross(place.path(), &own, &[])
            .library(library())
            .run()
            .unwrap_err();
        let shown = format!("{error:?}");
        for wanted in [
            "CUDA component `cudart` not found",
            "the build for `aarch64-unknown-linux-gnu` needs CUDA libraries for that platform",
            "run `cargo cuda toolkit add 13.4 --target aarch64-unknown-linux-gnu`",
        ] {
            assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
        }
    }
}
