//! What could make a build use an image, or an object's host code, for something it is not for.

use std::collections::BTreeMap;
use std::fs;

use cuda_build::Engine;

use crate::images::{KERNELS_BY_CAPABILITY, Package};

const KERNEL: &str = "\
static __device__ int counter = 3;
template <class T> __global__ void scale(T *p) { *p = *p * T(counter) + T(__LINE__); }
extern \"C\" void run(float *p, int *q) { scale<<<1, 1>>>(p); scale<<<1, 1>>>(q); }
";

/// Builds for each list in one directory, and compares each with a build from nothing in a
/// directory of the same name, which is a part of debug information.
fn follows(package: &Package, lists: &[&str]) -> Vec<Vec<String>> {
    let mut fresh = BTreeMap::new();
    let mut calls = Vec::new();
    let (out, aside) = (package.out("out"), package.out("aside"));
    for &list in lists {
        calls.push(package.build("out", list).0);
        if !fresh.contains_key(list) {
            fs::rename(&out, &aside).unwrap();
            package.build("out", list);
            fresh.insert(list.to_owned(), package.output("out"));
            fs::remove_dir_all(&out).unwrap();
            fs::rename(&aside, &out).unwrap();
        }
        package.check("out", list, &mut fresh);
    }
    calls
}

/// nvcc puts the kernels of the last capability into the host code.
#[test]
fn host_code_with_the_kernels_of_a_removed_capability_is_not_used() {
    let Some(package) = Package::new(KERNELS_BY_CAPABILITY, None) else {
        return;
    };
    follows(&package, &["8.0,9.0", "8.0", "8.0,8.6", "9.0,8.0", "9.0"]);
}

/// The host code has the sizes of variables.
#[test]
fn host_code_with_the_sizes_of_another_capability_is_not_used() {
    let source = "#if __CUDA_ARCH__ >= 900\n#define N 8\n#else\n#define N 4\n#endif\n\
        __device__ int table[N];\n\
        extern \"C\" __global__ void kernel(int *p) { *p = table[*p]; }\n\
        extern \"C\" void run(int *p) { kernel<<<1, 1>>>(p); cudaMemcpyToSymbol(table, p, 4); }\n";
    let Some(package) = Package::new(source, None) else {
        return;
    };
    follows(&package, &["8.0,9.0", "8.0", "8.0,8.6", "9.0,8.0", "9.0"]);
}

/// The list comes from an option, or from a name that is put together.
#[test]
fn the_list_under_another_name_is_seen() {
    let source = "template <int... N> __device__ constexpr int number() { return sizeof...(N); }\n\
        __global__ void count(int *p) { *p = number<ARCHITECTURES>(); }\n\
        extern \"C\" void run(int *p) { count<<<1, 1>>>(p); }\n";
    let lists = ["8.0", "8.0,9.0", "9.0"];
    let Some(mut package) = Package::new(source, None) else {
        return;
    };
    package.options = vec!["-DARCHITECTURES=__CUDA_ARCH_LIST__"];
    follows(&package, &lists);
    let pasted = "#define PASTE(a, b) a##b\n#define ARCHITECTURES PASTE(__CUDA_ARCH_LI, ST__)\n";
    let source = format!("{pasted}{source}");
    let Some(package) = Package::new(&source, None) else {
        return;
    };
    follows(&package, &lists);
}

/// Options that choose architectures themselves.
#[test]
fn options_that_choose_architectures() {
    for option in [
        "-gencode=arch=compute_80,code=sm_80",
        "--generate-code=arch=compute_80,code=[compute_80,sm_80]",
    ] {
        for engine in [None, Some(Engine::Nvcc)] {
            let Some(mut package) = Package::new(KERNEL, engine) else {
                return;
            };
            package.options = vec![option];
            follows(&package, &["8.0", "8.0,9.0", "9.0", "9.0,12.0", "8.0"]);
        }
    }
}

/// Options that change what is in an image or around it. Not `-g`: debug information of host code
/// has the length of the fat binary, and the names of temporary files.
#[test]
fn options_that_change_images() {
    for option in [
        "-dc",
        "-Xptxas=-O1",
        "-lineinfo",
        "-G",
        "--compress-mode=size",
    ] {
        for engine in [None, Some(Engine::Nvcc)] {
            if option == "-G" && engine.is_some() {
                // A fat binary for debuggers has the name of a temporary file.
                continue;
            }
            let Some(mut package) = Package::new(KERNEL, engine) else {
                return;
            };
            if option == "--compress-mode=size" && !package.has_release(12, 8) {
                continue;
            }
            package.options = vec![option];
            let calls = follows(&package, &["8.0", "8.0,9.0+PTX", "9.0+PTX", "8.0"]);
            eprintln!("{option} {engine:?}: {calls:?}");
        }
    }
}

/// A header that only the second capability reads, and whose name is a macro.
#[test]
fn a_header_of_an_added_capability() {
    let source = "#define NAME \"nine.cuh\"\n\
        #if __CUDA_ARCH__ >= 900\n#include NAME\n#else\n#define V 1\n#endif\n\
        extern \"C\" __global__ void kernel(int *p) { *p = V; }\n\
        extern \"C\" void run(int *p) { kernel<<<1, 1>>>(p); }\n";
    for engine in [None, Some(Engine::Nvcc)] {
        let Some(package) = Package::new(source, engine) else {
            return;
        };
        let write = |text: &str| {
            package.write("nine.cuh", text);
            // Whether the compiler has read the old or the new content is unknown otherwise.
            std::thread::sleep(std::time::Duration::from_millis(50));
        };
        write("#define V 2\n");
        follows(&package, &["8.0", "8.0,9.0"]);
        write("#define V 3\n");
        follows(&package, &["9.0", "8.0,9.0", "8.0"]);
        write(
            "template <int... N> __device__ constexpr int number() { return sizeof...(N); }\n\
             #define V number<__CUDA_ARCH_LIST__>()\n",
        );
        follows(&package, &["8.0", "8.0,9.0", "9.0"]);
    }
}

/// Another build is about to write its kept outputs.
#[test]
fn files_that_another_build_writes_stay() {
    let source = "extern \"C\" __global__ void kernel(float *p) { *p = 1; }\n";
    let Some(mut package) = Package::new(source, Some(Engine::Nvrtc)) else {
        return;
    };
    let images = package.out("images");
    package.images = Some(images.clone());
    package.build("out", "8.0");
    let written = fs::read_dir(&images).unwrap().next().unwrap().unwrap();
    let mut unfinished = written.path().into_os_string();
    unfinished.push(".1.part");
    let half = fs::read(written.path()).unwrap().len() / 2;
    fs::write(&unfinished, &fs::read(written.path()).unwrap()[..half]).unwrap();
    package.build("other", "9.0");
    assert!(fs::exists(&unfinished).unwrap());
}
