//! Device code is kept for each capability: what a build makes from kept images is what one call
//! of the compiler makes.
//!
//! `CUDA_BUILD_TEST_CUDA` names another toolkit for these tests, as `CUDA_BUILD_ROOTS` does;
//! `tests/nvcc-versions.sh` runs them with several. `NVCC_CCBIN` names another host compiler.
//! `CUDA_BUILD_TEST_ALL_ORDERS=1` takes all orders of four capabilities.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cuda_build::internal::fatbin::{Fatbin, elf};
use cuda_build::internal::{Env, Root};
use cuda_build::{Build, Engine, Library, Module, ToolkitVersion};

use crate::components::site_packages;

/// Kernels from templates, and constant, static, anonymous and managed variables.
const KERNELS: &str = "\
#include <cstdio>
__constant__ float factors[4];
static __device__ int counter;
__device__ int shared_by_name;
__managed__ int managed;
namespace { __device__ int hidden; __global__ void anonymous(int *p) { *p = hidden + counter; } }
template <class T, int N> __global__ void scale(T *p) {
    __shared__ T block[N];
    block[threadIdx.x] = p[threadIdx.x] * T(factors[N % 4]) + T(shared_by_name + managed);
    __syncthreads();
    p[threadIdx.x] = block[N - 1 - threadIdx.x];
}
static __global__ void trigonometry(float *p) { *p = sinf(*p) + __cosf(*p) / tanf(*p); }
__global__ void prints(int x) { printf(\"%d\\n\", x); }
extern \"C\" void run(float *p, double *q, int *r) {
    scale<float, 8><<<1, 8>>>(p);
    scale<double, 16><<<1, 16>>>(q);
    anonymous<<<1, 1>>>(r);
    trigonometry<<<1, 1>>>(p);
    prints<<<1, 1>>>(3);
    cudaMemcpyToSymbol(counter, r, 4);
}
";

/// A package with one source, or a library of several.
pub struct Package {
    pub components: PathBuf,
    pub sources: Vec<String>,
    place: tempfile::TempDir,
    engine: Option<Engine>,
    pub options: Vec<&'static str>,
    /// The directory that builds share.
    pub images: Option<PathBuf>,
    /// More variables of the builds.
    pub variables: Vec<(&'static str, PathBuf)>,
    release: ToolkitVersion,
}

impl Package {
    /// A library, or a module that `engine` compiles; `None` if real components are left out.
    pub fn new(source: &str, engine: Option<Engine>) -> Option<Self> {
        let other = std::env::var_os("CUDA_BUILD_TEST_CUDA").map(PathBuf::from);
        let mut package = Self {
            components: other.or_else(|| site_packages(13))?,
            sources: vec!["kernels.cu".to_owned()],
            place: tempfile::tempdir().unwrap(),
            engine,
            options: Vec::new(),
            images: None,
            variables: Vec::new(),
            release: ToolkitVersion::new(0, 0),
        };
        let manifest = "[package]\nname = \"x\"\nversion = \"0.1.0\"\n\n[workspace]\n";
        package.write("Cargo.toml", manifest);
        package.write("kernels.cu", source);
        let build = Build::from_env(package.env("out", ""), Root::system()).unwrap();
        let build = package.with_sources(build);
        package.release = build.toolkit().unwrap().version();
        Some(package)
    }

    /// Whether the toolkit is this release or a newer one.
    pub fn has_release(&self, major: u32, minor: u32) -> bool {
        self.release >= ToolkitVersion::new(major, minor)
    }

    /// The list with other capabilities for those that the nvcc under test does not have.
    fn available(&self, capabilities: &str) -> String {
        let mut list = capabilities.to_owned();
        if !self.has_release(12, 8) {
            list = list.replace("12.0", "8.9");
        }
        if !self.has_release(12, 0) {
            list = list.replace("9.0a", "8.7");
        }
        list
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.place.path().join(name), text).unwrap();
    }

    pub fn out(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Builds in the directory `out`; returns the images of each call of the compiler, and why.
    pub fn build(&self, out: &str, capabilities: &str) -> (Vec<String>, String) {
        fs::create_dir_all(self.out(out)).unwrap();
        let env = self.env(out, &self.available(capabilities));
        let build = self.with_sources(Build::from_env(env, Root::system()).unwrap());
        let built = build.run().unwrap();
        let mut touched = built.compiled.never_fresh.iter();
        let touched = touched.find(|(_, reason)| reason.contains("while it was compiled"));
        assert_eq!(touched, None, "a file was touched meanwhile");
        let made = built.compiled.made.first();
        made.map_or_else(Default::default, |made| {
            (made.compiled.clone(), made.reason.clone())
        })
    }

    fn env(&self, out: &str, capabilities: &str) -> Env {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let env = Env::from_pairs([
            ("CARGO_MANIFEST_DIR", text(self.place.path())),
            ("OUT_DIR", text(&self.out(out))),
            ("TARGET", "x86_64-unknown-linux-gnu".to_owned()),
            ("CUDA_BUILD_ROOTS", text(&self.components)),
            ("CUDA_BUILD_CACHE_DIR", text(&self.out("cache"))),
            ("CUDA_BUILD_CAPABILITIES", capabilities.to_owned()),
            ("PATH", std::env::var("PATH").unwrap()),
            ("NUM_JOBS", "2".to_owned()),
        ]);
        let compiler = std::env::var_os("NVCC_CCBIN").into_iter();
        let env = compiler.fold(env, |env, path| env.with("NVCC_CCBIN", path));
        let images = self.images.iter().map(|path| ("CUDA_BUILD_IMAGES", path));
        let variables = self.variables.iter().map(|(name, path)| (*name, path));
        let more = images.chain(variables);
        more.fold(env, |env, (name, path)| env.with(name, path))
    }

    fn with_sources(&self, build: Build) -> Build {
        let options = self.options.iter().copied();
        match self.engine {
            None => {
                let library = Library::new("kernels").files(&self.sources);
                build.library(options.fold(library, Library::flag))
            }
            Some(engine) => {
                let module = Module::new("kernels.cu").engine(engine);
                build.module(options.fold(module, Module::flag))
            }
        }
    }

    /// The object or fat binary in the directory `out`.
    pub fn output(&self, out: &str) -> Vec<u8> {
        let ending = if self.engine.is_some() { "fatbin" } else { "o" };
        let entries = fs::read_dir(self.out(out)).unwrap();
        let mut files = entries.map(|entry| entry.unwrap().path());
        let file = files.find(|path| path.extension().is_some_and(|found| found == ending));
        fs::read(file.unwrap()).unwrap()
    }

    /// Panics if the output in `out` differs from that of a build from nothing.
    pub fn check(&self, out: &str, capabilities: &str, fresh: &mut BTreeMap<String, Vec<u8>>) {
        let expected = fresh.entry(capabilities.to_owned()).or_insert_with(|| {
            // nvcc cannot write to a path with a comma.
            let name = format!("fresh-{}", capabilities.replace(',', "-"));
            self.build(&name, capabilities);
            self.output(&name)
        });
        let made = self.output(out);
        let difference = if self.engine.is_some() {
            (made != *expected).then(|| "the fat binary".to_owned())
        } else {
            elf::difference(&made, expected)
        };
        assert_eq!(difference, None, "for {capabilities} in {out}");
    }
}

const CAPABILITIES: [&str; 4] = ["7.5", "9.0a", "12.0+PTX", "8.0"];

/// All orders of four, of which the suite takes every eighth.
fn orders() -> Vec<[usize; 4]> {
    let mut orders = Vec::new();
    for number in 0..256_usize {
        let order = [number / 64, number / 16 % 4, number / 4 % 4, number % 4];
        if (0..4).all(|wanted| order.contains(&wanted)) {
            orders.push(order);
        }
    }
    assert_eq!(orders.len(), 24);
    let step = if std::env::var_os("CUDA_BUILD_TEST_ALL_ORDERS").is_some() {
        1
    } else {
        8
    };
    orders.into_iter().step_by(step).collect()
}

/// Adds and removes capabilities in several orders, and compares every output.
fn every_order(source: &str, engine: Option<Engine>, whole: bool) {
    let Some(package) = Package::new(source, engine) else {
        return;
    };
    let mut fresh = BTreeMap::new();
    for order in orders() {
        let out = format!("{order:?}").replace([' ', ','], "");
        let list = |indexes: &[usize]| {
            let names: Vec<&str> = indexes.iter().map(|&index| CAPABILITIES[index]).collect();
            names.join(",")
        };
        let mut steps: Vec<String> = (1..=4).map(|count| list(&order[..count])).collect();
        let added = steps.len();
        steps.extend((1..=3).map(|removed| list(&order[removed..])));
        // Nothing is compiled for a capability that was there before.
        steps.push(list(&order));
        steps.push(list(&[order[1], order[3]]));
        for (number, capabilities) in steps.iter().enumerate() {
            let (calls, reason) = package.build(&out, capabilities);
            if !whole {
                // NVRTC compiles one image at a time.
                let most = if engine == Some(Engine::Nvrtc) { 2 } else { 1 };
                let expected = if number < added { 1..=most } else { 0..=0 };
                assert!(
                    expected.contains(&calls.len()),
                    "{capabilities}: {calls:?}, {reason}"
                );
                let alone = |call: &String| {
                    call.split(' ').all(|name| {
                        let added = package.available(CAPABILITIES[order[number]]);
                        let digits = added.trim_end_matches("+PTX").replace('.', "");
                        name.ends_with(&digits)
                    })
                };
                assert!(
                    calls.iter().all(alone),
                    "{capabilities}: {calls:?}, {reason}"
                );
            }
            package.check(&out, capabilities, &mut fresh);
        }
        assert_eq!(package.build(&out, &steps[steps.len() - 1]).0, [""; 0]);
    }
}

#[test]
fn a_library_in_every_order() {
    every_order(KERNELS, None, false);
}

#[test]
fn a_module_of_nvcc_in_every_order() {
    every_order(KERNELS, Some(Engine::Nvcc), false);
}

#[test]
fn a_module_of_nvrtc_in_every_order() {
    let kernel = "template <class T> __device__ T twice(T x) { return x + x; }\n\
                  extern \"C\" __global__ void kernel(float *p) { *p = twice(*p); }\n";
    every_order(kernel, Some(Engine::Nvrtc), false);
}

/// CUB puts the list of capabilities into the names of its symbols.
#[test]
fn code_that_depends_on_the_list_is_compiled_as_a_whole() {
    let source = "#include <cub/block/block_reduce.cuh>\n\
        __global__ void sum(int *p) {\n\
            using Reduce = cub::BlockReduce<int, 32>;\n\
            __shared__ typename Reduce::TempStorage storage;\n\
            *p = Reduce(storage).Sum(*p);\n\
        }\n\
        extern \"C\" void run(int *p) { sum<<<1, 32>>>(p); }\n";
    let Some(package) = Package::new(source, None) else {
        return;
    };
    let mut fresh = BTreeMap::new();
    package.build("out", "8.0");
    let (calls, reason) = package.build("out", "8.0,9.0");
    assert_eq!(calls, ["sm_80 sm_90"], "{reason}");
    assert!(reason.contains("__CUDA_ARCH_LIST__"), "{reason}");
    package.check("out", "8.0,9.0", &mut fresh);
    // The object of the first list is still kept.
    let (calls, reason) = package.build("out", "8.0");
    assert_eq!(calls, [""; 0], "{reason}");
    package.check("out", "8.0", &mut fresh);
}

/// A header of the toolkit mentions the list, but the text of this source does not depend on it.
#[test]
fn mentioning_the_list_is_not_depending_on_it() {
    let source = "#include <cooperative_groups.h>\n\
        __global__ void sync(int *p) { cooperative_groups::this_thread_block().sync(); ++*p; }\n\
        extern \"C\" void run(int *p) { sync<<<1, 32>>>(p); }\n";
    let Some(package) = Package::new(source, None) else {
        return;
    };
    package.build("out", "8.0");
    let (calls, reason) = package.build("out", "8.0,9.0");
    eprintln!("{calls:?} {reason}");
    package.check("out", "8.0,9.0", &mut BTreeMap::new());
}

/// The user's own code may do anything with the list.
#[test]
fn the_users_use_of_the_list_is_seen() {
    let source = "#include \"lists.cuh\"\n\
        __global__ void count(int *p) { *p = COUNT; }\n\
        extern \"C\" void run(int *p) { count<<<1, 1>>>(p); }\n";
    let Some(package) = Package::new(source, None) else {
        return;
    };
    package.write(
        "lists.cuh",
        "template <int... N> __device__ constexpr int number() { return sizeof...(N); }\n\
         #ifdef __CUDA_ARCH__\n#define COUNT number<__CUDA_ARCH_LIST__>()\n\
         #else\n#define COUNT 0\n#endif\n",
    );
    let mut fresh = BTreeMap::new();
    package.build("out", "8.0");
    let (calls, reason) = package.build("out", "8.0,9.0");
    assert_eq!(calls, ["sm_80 sm_90"], "{reason}");
    package.check("out", "8.0,9.0", &mut fresh);
    assert_eq!(package.build("out", "9.0").0, ["sm_90"]);
    package.check("out", "9.0", &mut fresh);
}

/// The kernel that is launched depends on the capability.
pub const KERNELS_BY_CAPABILITY: &str = "template <int N> __global__ void kernel(int *p) { *p = N; }\n\
        #if __CUDA_ARCH__ >= 900\n#define N 2\n#else\n#define N 1\n#endif\n\
        extern \"C\" void run(int *p) { kernel<N><<<1, 1>>>(p); }\n\
        __device__ void (*pointer)(int *) = kernel<N>;\n";

/// The host code registers the kernels of one capability, so every capability needs the same kernels.
#[test]
fn other_kernels_for_another_capability_are_seen() {
    let Some(package) = Package::new(KERNELS_BY_CAPABILITY, None) else {
        return;
    };
    package.build("out", "8.0");
    let (calls, reason) = package.build("out", "8.0,9.0");
    assert_eq!(calls, ["sm_80 sm_90"], "{reason}");
    package.check("out", "8.0,9.0", &mut BTreeMap::new());
}

/// Relocatable device code is in another section, and compressed.
#[test]
fn relocatable_device_code() {
    let source = "extern __device__ int elsewhere(int);\n\
        __global__ void kernel(int *p) { *p = elsewhere(*p); }\n\
        extern \"C\" void run(int *p) { kernel<<<1, 1>>>(p); }\n";
    let Some(mut package) = Package::new(source, None) else {
        return;
    };
    package.options.push("-rdc=true");
    let mut fresh = BTreeMap::new();
    for capabilities in ["8.0", "8.0,9.0", "9.0", "8.0,9.0,12.0+PTX", "8.0,12.0+PTX"] {
        let (calls, reason) = package.build("out", capabilities);
        eprintln!("{capabilities}: {calls:?} {reason}");
        package.check("out", capabilities, &mut fresh);
    }
}

/// What several machines compiled, put into one directory, is joined without compiling anything.
#[test]
fn the_work_of_several_machines_is_joined() {
    for engine in [None, Some(Engine::Nvrtc)] {
        let Some(mut package) = Package::new(KERNELS_WITHOUT_HEADERS, engine) else {
            return;
        };
        let union = package.out("union");
        fs::create_dir(&union).unwrap();
        for machine in ["8.0", "9.0a", "12.0+PTX"] {
            let images = package.out(&format!("images-of-{machine}"));
            package.images = Some(images.clone());
            // Elsewhere, files have other times.
            package.write("kernels.cu", KERNELS_WITHOUT_HEADERS);
            std::thread::sleep(std::time::Duration::from_millis(50));
            let (calls, reason) = package.build(&format!("out-{machine}"), machine);
            assert!(!calls.is_empty(), "{reason}");
            for entry in fs::read_dir(&images).unwrap() {
                let path = entry.unwrap().path();
                fs::copy(&path, union.join(path.file_name().unwrap())).unwrap();
            }
        }
        package.images = Some(union);
        package.write("kernels.cu", KERNELS_WITHOUT_HEADERS);
        let all = "8.0,9.0a,12.0+PTX";
        let (calls, reason) = package.build("final", all);
        assert_eq!(calls, [""; 0], "{reason}");
        package.images = None;
        package.check("final", all, &mut BTreeMap::new());
        // The source is part of what decides.
        package.images = Some(package.out("union"));
        package.write("kernels.cu", &KERNELS_WITHOUT_HEADERS.replace("+ 1", "+ 2"));
        assert!(!package.build("changed", all).0.is_empty());
    }
}

/// For nvcc and NVRTC.
const KERNELS_WITHOUT_HEADERS: &str = "\
__constant__ int factor;
template <class T> __device__ T next(T x) { return x + 1; }
extern \"C\" __global__ void kernel(int *p) { *p = next(*p) * factor; }
";

/// A kept output that is not what was written is never used.
#[test]
fn damaged_kept_outputs_are_not_used() {
    let source = "extern \"C\" __global__ void kernel(float *p) { *p = 1; }\n";
    for shared in [false, true] {
        let Some(mut package) = Package::new(source, Some(Engine::Nvrtc)) else {
            return;
        };
        package.images = shared.then(|| package.out("images"));
        damage_kept_output(&package);
    }
}

fn damage_kept_output(package: &Package) {
    package.build("out", "8.0");
    let kept = package.images.clone();
    let kept = kept.unwrap_or_else(|| package.out("out/images"));
    let mut files = fs::read_dir(kept).unwrap();
    let file = files.next().unwrap().unwrap().path();
    let whole = fs::read(&file).unwrap();
    let flipped = (0..whole.len()).step_by(whole.len() / 40).map(|place| {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        bytes
    });
    let lengths = [0, 10, 40, whole.len() / 2, whole.len() - 1];
    let cut = lengths.map(|length| whole[..length].to_vec());
    let other = String::from_utf8_lossy(&whole[..20]).replace("images 1", "images 2");
    let other_version = [other.as_bytes(), &whole[20..]].concat();
    for (number, bytes) in flipped.chain(cut).chain([other_version]).enumerate() {
        fs::write(&file, bytes).unwrap();
        let (calls, reason) = package.build("out", "8.0,9.0");
        let used = !calls.contains(&"sm_80".to_owned());
        assert!(!used, "case {number}: {calls:?} {reason}");
        package.build("out", "9.0");
    }
    package.build("out", "9.0");
    let fatbin = Fatbin::parse(&package.output("out")).unwrap();
    assert_eq!(fatbin.entries().count(), 1);
}
