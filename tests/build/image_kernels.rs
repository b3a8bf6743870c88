//! Kernels of many kinds for capabilities that come and go: every object is what a build from
//! nothing makes, and so is its SASS.
//!
//! Takes minutes: `cargo test -p cargo-cuda --test build -- --ignored image_kernels`.
//! `CUDA_BUILD_TEST_KERNELS` names a directory of modules (`.cu` files) with their headers, such as `src` of
//! the crate `candle-kernels`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::Engine;
use cuda_build::internal::fatbin::elf;

use crate::components::site_packages;
use crate::images::Package;
use crate::support::succeeds;
use crate::wheels::wheels;

const LISTS: [&str; 7] = [
    "8.0",
    "8.0,9.0",
    "8.0,9.0,12.0+PTX",
    "9.0,12.0+PTX",
    "9.0",
    "8.6,9.0",
    "8.0,9.0",
];

/// The objects and fat binaries in a directory, by name.
fn objects(out: &Path) -> BTreeMap<String, PathBuf> {
    let paths = fs::read_dir(out)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_output = |path: &PathBuf| {
        let ending = path.extension().unwrap_or_default();
        ending == "o" || ending == "fatbin"
    };
    let objects = paths.filter(is_output);
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    objects.map(|path| (name(&path), path)).collect()
}

/// What `cuobjdump` prints for an object: each kernel of each capability.
fn sass(object: &Path) -> String {
    // `cuobjdump` starts `nvdisasm`.
    let disassembler = wheels(&["nvidia-cuda-nvdisasm==13.4.92"]).unwrap();
    let program = site_packages(13).unwrap().join("nvidia/cu13/bin/cuobjdump");
    let mut path = disassembler.join("nvidia/cu13/bin").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let mut command = Command::new(program);
    command.env("PATH", path).arg("-sass").arg(object);
    succeeds(&mut command)
}

fn follow(package: &Package, what: &str) {
    let (mut compared, mut kernels) = (0, 0);
    for (step, list) in LISTS.iter().enumerate() {
        let (calls, reason) = package.build("out", list);
        eprintln!("{what}: {list}: {calls:?} {reason}");
        let fresh = format!("fresh-{step}");
        package.build(&fresh, list);
        let expected = objects(&package.out(&fresh));
        assert_eq!(expected.len(), package.sources.len());
        for (name, made) in objects(&package.out("out")) {
            let expected = &expected[&name];
            let bytes = [&made, expected].map(|path| fs::read(path).unwrap());
            let difference = match name.ends_with(".o") {
                true => elf::difference(&bytes[0], &bytes[1]),
                false => (bytes[0] != bytes[1]).then(|| "bytes".to_owned()),
            };
            assert_eq!(difference, None, "{what}: {name} for {list}");
            let text = sass(&made);
            // The first line has the path.
            let lines = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
            let same = lines(&text) == lines(&sass(expected));
            assert!(same, "{what}: SASS of {name} for {list}");
            kernels += text.matches("Function :").count();
            compared += 1;
        }
    }
    assert!(kernels > 0, "{what}: no SASS");
    eprintln!("{what}: {compared} objects and {kernels} kernels are the same");
}

#[test]
#[ignore = "minutes"]
fn kernels_of_many_kinds() {
    let cub = "#include <cub/block/block_reduce.cuh>\n#include <cub/device/device_scan.cuh>\n\
        __global__ void sum(int *p) {\n\
            using Reduce = cub::BlockReduce<int, 32>;\n\
            __shared__ typename Reduce::TempStorage storage;\n\
            *p = Reduce(storage).Sum(*p);\n\
        }\n\
        extern \"C\" void run(int *p) {\n\
            sum<<<1, 32>>>(p);\n\
            size_t size = 0;\n\
            cub::DeviceScan::ExclusiveSum(nullptr, size, p, p, 100);\n\
        }\n";
    let groups = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n\
        namespace cg = cooperative_groups;\n\
        __global__ void sync(int *p) {\n\
            cg::grid_group grid = cg::this_grid();\n\
            auto tile = cg::tiled_partition<32>(cg::this_thread_block());\n\
            int sum = cg::reduce(tile, *p, cg::plus<int>());\n\
            grid.sync();\n\
            *p = sum;\n\
        }\n\
        extern \"C\" void run(int *p) { sync<<<1, 32>>>(p); }\n";
    let textures = "__global__ void copy(cudaTextureObject_t from, cudaSurfaceObject_t to) {\n\
            float x = tex2D<float>(from, threadIdx.x, 0) + tex2DLayered<float4>(from, 0, 1, 2).x;\n\
            surf2Dwrite(x, to, threadIdx.x * 4, 0);\n\
        }\n\
        extern \"C\" void run(cudaTextureObject_t from, cudaSurfaceObject_t to) { copy<<<1, 32>>>(from, to); }\n";
    let variables = "__constant__ float table[16] = {1, 2, 3};\nstatic __constant__ int offset;\n\
        static __device__ int counter;\n__device__ volatile int flag;\n__managed__ double shared;\n\
        namespace { __device__ int hidden = 7; }\n\
        template <int N> __device__ int value = N;\n\
        template <class T> static __global__ void kernel(T *p) {\n\
            static __device__ int calls;\n\
            *p = T(table[atomicAdd(&calls, 1) % 16] + offset + counter + flag + hidden + value<3> + shared);\n\
        }\n\
        extern \"C\" void run(float *p, int *q) {\n\
            kernel<<<1, 1>>>(p); kernel<<<1, 1>>>(q);\n\
            cudaMemcpyToSymbol(offset, q, 4); cudaMemcpyToSymbol(counter, q, 4);\n\
        }\n";
    let all = [
        ("CUB", cub),
        ("cooperative groups", groups),
        ("textures", textures),
        ("variables", variables),
    ];
    for (what, source) in all {
        let Some(package) = Package::new(source, None) else {
            return;
        };
        follow(&package, what);
    }
}

#[test]
#[ignore = "minutes"]
fn relocatable_code_of_two_files() {
    let one = "extern __device__ int counter;\nextern __constant__ int factor;\n\
        __device__ int elsewhere(int);\nstatic __device__ int own = 4;\n\
        __global__ void kernel(int *p) { *p = elsewhere(*p) * factor + counter + own; }\n\
        extern \"C\" void run(int *p) { kernel<<<1, 1>>>(p); cudaMemcpyToSymbol(own, p, 4); }\n";
    let two = "__device__ int counter;\n__constant__ int factor = 3;\nstatic __device__ int own = 5;\n\
        __device__ int elsewhere(int x) { return x + own; }\n\
        template <class T> __global__ void other(T *p) { *p = elsewhere(1); }\n\
        extern \"C\" void run_other(int *p) { other<<<1, 1>>>(p); }\n";
    let Some(mut package) = Package::new(one, None) else {
        return;
    };
    package.write("two.cu", two);
    package.sources.push("two.cu".to_owned());
    package.options.push("-rdc=true");
    follow(&package, "relocatable");
}

#[test]
#[ignore = "minutes"]
fn kernels_of_a_published_crate() {
    let directory = std::env::var_os("CUDA_BUILD_TEST_KERNELS")
        .expect("set CUDA_BUILD_TEST_KERNELS to a directory of `.cu` files");
    let (mut modules, mut headers) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_file() {
            let text = fs::read_to_string(&path).unwrap();
            let files = match name.ends_with(".cu") {
                true => &mut modules,
                false => &mut headers,
            };
            files.push((name, text));
        }
    }
    modules.sort();
    assert!(!modules.is_empty(), "the directory has no `.cu` files");
    for (name, text) in modules {
        let Some(package) = Package::new(&text, Some(Engine::Nvcc)) else {
            return;
        };
        for (header, text) in &headers {
            package.write(header, text);
        }
        follow(&package, &name);
    }
}
