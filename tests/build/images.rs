//! Device code is kept for each capability: what a build makes from kept images is what one call
//! of the compiler makes.
//!
//! `CUDA_BUILD_TEST_CUDA` names another toolkit for these tests, as `CUDA_BUILD_ROOTS` does;
//! `tests/nvcc-versions.sh` runs them with several. `NVCC_CCBIN` names another host compiler.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cuda_build::fatbin::Fatbin;
use cuda_build::{Build, Engine, Library, Module, ToolkitVersion};
use cuda_find_core::{env::Env, root::Root};

use crate::components::site_packages;
use crate::objects;

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
__global__ void prints(int x) { printf(\"%d\\n\", x); }
extern \"C\" void run(float *p, double *q, int *r) {
    scale<float, 8><<<1, 8>>>(p);
    scale<double, 16><<<1, 16>>>(q);
    anonymous<<<1, 1>>>(r);
    prints<<<1, 1>>>(3);
    cudaMemcpyToSymbol(counter, r, 4);
}
";

/// For nvcc and NVRTC.
const WITHOUT_HEADERS: &str = "\
__constant__ int factor;
template <class T> __device__ T next(T x) { return x + 1; }
extern \"C\" __global__ void kernel(int *p) { *p = next(*p) * factor; }
";

/// CUB puts the list of capabilities into the names of its symbols.
const CUB: &str = "\
#include <cub/block/block_reduce.cuh>
__global__ void sum(int *p) {
    using Reduce = cub::BlockReduce<int, 32>;
    __shared__ typename Reduce::TempStorage storage;
    *p = Reduce(storage).Sum(*p);
}
extern \"C\" void run(int *p) { sum<<<1, 32>>>(p); }
";

/// nvcc puts the kernels of the last capability into the host code.
const KERNELS_BY_CAPABILITY: &str = "\
template <int N> __global__ void kernel(int *p) { *p = N; }
#if __CUDA_ARCH__ >= 900
#define N 2
#else
#define N 1
#endif
extern \"C\" void run(int *p) { kernel<N><<<1, 1>>>(p); }
__device__ void (*pointer)(int *) = kernel<N>;
";

/// The host code has the sizes of variables.
const SIZES_BY_CAPABILITY: &str = "\
#if __CUDA_ARCH__ >= 900
#define N 8
#else
#define N 4
#endif
__device__ int table[N];
extern \"C\" __global__ void kernel(int *p) { *p = table[*p]; }
extern \"C\" void run(int *p) { kernel<<<1, 1>>>(p); cudaMemcpyToSymbol(table, p, 4); }
";

const COUNT: &str = "\
template <int... N> __device__ constexpr int number() { return sizeof...(N); }
__global__ void count(int *p) { *p = number<ARCHITECTURES>(); }
extern \"C\" void run(int *p) { count<<<1, 1>>>(p); }
";

const RELOCATABLE: &str = "\
extern __device__ int elsewhere(int);
__global__ void kernel(int *p) { *p = elsewhere(*p); }
extern \"C\" void run(int *p) { kernel<<<1, 1>>>(p); }
";

/// A header of the toolkit mentions the list, but the text of this source does not depend on it.
const GROUPS: &str = "\
#include <cooperative_groups.h>
__global__ void sync(int *p) { cooperative_groups::this_thread_block().sync(); ++*p; }
extern \"C\" void run(int *p) { sync<<<1, 32>>>(p); }
";

/// A package with one source.
pub struct Package {
    components: PathBuf,
    place: tempfile::TempDir,
    /// The compiler of a module; `None` for a library.
    engine: Option<Engine>,
    pub options: Vec<&'static str>,
    /// The directory that builds share.
    images: Option<PathBuf>,
    /// More variables of the builds.
    variables: Vec<(&'static str, PathBuf)>,
    release: ToolkitVersion,
}

impl Package {
    pub fn new(source: &str, engine: Option<Engine>, options: &[&'static str]) -> Self {
        let other = std::env::var_os("CUDA_BUILD_TEST_CUDA").map(PathBuf::from);
        let mut package = Self {
            components: other.unwrap_or_else(|| site_packages(13)),
            place: tempfile::tempdir().unwrap(),
            engine,
            options: options.to_vec(),
            images: None,
            variables: Vec::new(),
            release: ToolkitVersion::new(0, 0),
        };
        let manifest = "[package]\nname = \"x\"\nversion = \"0.1.0\"\n\n[workspace]\n";
        package.write("Cargo.toml", manifest);
        package.write("kernels.cu", source);
        let build = package.with_source(package.env("out", ""));
        package.release = build.toolkit().unwrap().version();
        package
    }

    /// A list or an output of nvcc, for the nvcc under test.
    fn available(&self, capabilities: &str) -> String {
        let mut list = capabilities.to_owned();
        if self.release < ToolkitVersion::new(12, 8) {
            list = list.replace("12.0", "8.9").replace("_120", "_89");
        }
        if self.release < ToolkitVersion::new(12, 0) {
            list = list.replace("9.0a", "8.7").replace("_90a", "_87");
        }
        list
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        // Which content a compiler has read would be unknown otherwise.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Builds in the directory `out`; returns the images of each call of the compiler, and why.
    pub fn build(&self, out: &str, capabilities: &str) -> (Vec<String>, String) {
        self.build_with(out, capabilities, &self.variables)
    }

    fn build_with(
        &self,
        out: &str,
        capabilities: &str,
        variables: &[(&'static str, PathBuf)],
    ) -> (Vec<String>, String) {
        fs::create_dir_all(self.path(out)).unwrap();
        let mut env = self.env(out, &self.available(capabilities));
        for (name, path) in variables {
            env = env.with(name, path);
        }
        let build = self.with_source(env);
        let built = build.run().unwrap();
        let mut touched = built.compiled.never_fresh.iter();
        let touched = touched.find(|(_, reason)| reason.contains("while it was compiled"));
        assert_eq!(touched, None, "a file was touched meanwhile");
        let made = built.compiled.made.into_iter().next();
        made.map_or_else(Default::default, |made| (made.compiled, made.reason))
    }

    fn env(&self, out: &str, capabilities: &str) -> Env {
        let mut env = Env::from_pairs([
            ("TARGET", "x86_64-unknown-linux-gnu"),
            ("CUDA_BUILD_CAPABILITIES", capabilities),
            ("NUM_JOBS", "2"),
        ]);
        let images = self.images.clone().map(|path| ("CUDA_BUILD_IMAGES", path));
        let compiler = std::env::var_os("NVCC_CCBIN").map(|path| ("NVCC_CCBIN", path.into()));
        let paths = [
            ("CARGO_MANIFEST_DIR", self.place.path().to_owned()),
            ("OUT_DIR", self.path(out)),
            ("CUDA_BUILD_ROOTS", self.components.clone()),
            ("CUDA_BUILD_CACHE_DIR", self.path("cache")),
            ("PATH", std::env::var_os("PATH").unwrap().into()),
        ];
        let paths = paths.into_iter().chain(images).chain(compiler);
        for (name, path) in paths {
            env = env.with(name, path);
        }
        env
    }

    fn with_source(&self, env: Env) -> Build {
        let build = Build::from_env(env, Root::system()).unwrap();
        let options = self.options.iter().copied();
        match self.engine {
            None => {
                let library = Library::new("kernels").file("kernels.cu");
                build.library(options.fold(library, Library::flag))
            }
            Some(engine) => {
                let module = Module::new("kernels.cu").engine(engine);
                build.module(options.fold(module, Module::flag))
            }
        }
    }

    /// The object or fat binary in the directory `out`.
    fn output(&self, out: &str) -> Vec<u8> {
        let ending = if self.engine.is_some() { "fatbin" } else { "o" };
        let entries = fs::read_dir(self.path(out)).unwrap();
        let mut files = entries.map(|entry| entry.unwrap().path());
        let file = files.find(|path| path.extension().is_some_and(|found| found == ending));
        fs::read(file.unwrap()).unwrap()
    }

    /// Panics if the output in `out` differs from that of a build from nothing, in a directory of the same name, which
    /// is a part of debug information.
    fn check(&self, out: &str, capabilities: &str) {
        let (path, aside) = (self.path(out), self.path("aside"));
        let made = self.output(out);
        fs::rename(&path, &aside).unwrap();
        let mut afresh = self.variables.clone();
        let empty = tempfile::tempdir().unwrap();
        afresh.push(("CUDA_BUILD_IMAGES", empty.path().to_owned()));
        self.build_with(out, capabilities, &afresh);
        let expected = self.output(out);
        fs::remove_dir_all(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
        let difference = match self.engine {
            Some(_) => (made != expected).then(|| "the fat binary".to_owned()),
            None => objects::difference(&made, &expected),
        };
        assert_eq!(difference, None, "for {capabilities}");
    }

    /// Builds for each list in one directory, and checks what it makes and the calls of the compiler.
    fn follows(&self, lists: &[(&str, &[&str])]) {
        for (list, expected) in lists {
            let (calls, reason) = self.build("out", list);
            let expected: Vec<String> = expected.iter().map(|call| self.available(call)).collect();
            assert_eq!(calls, expected, "{list}: {reason}");
            self.check("out", list);
        }
    }
}

/// The files of an output store.
fn kept(store: &Path) -> Vec<PathBuf> {
    let entries = |directory: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let files = entries(store)
        .iter()
        .map(|key| entries(key))
        .collect::<Vec<_>>()
        .concat();
    files
        .into_iter()
        .filter(|path| path.extension().is_none())
        .collect()
}

/// Copies what a store lacks from another one, as `rsync -a --ignore-existing` does. Returns the number of copied
/// files.
fn copy_missing(from: &Path, to: &Path) -> usize {
    let mut copied = 0;
    for file in kept(from) {
        let copy = to.join(file.strip_prefix(from).unwrap());
        if !copy.exists() {
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(&file, &copy).unwrap();
            copied += 1;
        }
    }
    copied
}

fn write_script(path: &Path, text: &str) {
    let _ = fs::remove_file(path);
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

mod online {
    use super::*;

    const NVCC: Option<Engine> = Some(Engine::Nvcc);
    const NVRTC: Option<Engine> = Some(Engine::Nvrtc);
    const WHOLE: &[(&str, &[&str])] = &[
        ("8.0", &["sm_80"]),
        ("8.0,9.0", &["sm_80 sm_90"]),
        ("8.0", &[]),
    ];

    #[test]
    fn an_added_capability_is_compiled_alone() {
        for (source, engine) in [(KERNELS, None), (KERNELS, NVCC)] {
            Package::new(source, engine, &[]).follows(&[
                ("8.0", &["sm_80"]),
                ("8.0,9.0a,12.0+PTX", &["sm_90a sm_120 compute_120"]),
                ("12.0+PTX,8.0", &[]),
            ]);
        }
        Package::new(WITHOUT_HEADERS, NVRTC, &[]).follows(&[
            ("8.0", &["sm_80"]),
            ("8.0,12.0+PTX", &["compute_120", "sm_120"]),
            ("12.0+PTX", &[]),
        ]);
    }

    /// The object of the first list is still kept.
    #[test]
    fn code_that_differs_by_capability_is_compiled_as_a_whole() {
        Package::new(KERNELS_BY_CAPABILITY, None, &[]).follows(WHOLE);
    }

    #[test]
    #[ignore = "minutes: more ways in which code depends on the list"]
    fn hidden_dependence_on_the_list_is_seen() {
        Package::new(CUB, None, &[]).follows(WHOLE);
        let define = "-DARCHITECTURES=__CUDA_ARCH_LIST__";
        Package::new(COUNT, None, &[define]).follows(WHOLE);
        let pasted =
            "#define PASTE(a, b) a##b\n#define ARCHITECTURES PASTE(__CUDA_ARCH_LI, ST__)\n";
        Package::new(&format!("{pasted}{COUNT}"), None, &[]).follows(WHOLE);
        let package = Package::new(&format!("#include \"list.cuh\"\n{COUNT}"), None, &[]);
        let header = "#ifdef __CUDA_ARCH__\n#define ARCHITECTURES __CUDA_ARCH_LIST__\n#else\n\
                      #define ARCHITECTURES 0\n#endif\n";
        package.write("list.cuh", header);
        package.follows(WHOLE);
        for source in [KERNELS_BY_CAPABILITY, SIZES_BY_CAPABILITY] {
            let package = Package::new(source, None, &[]);
            for list in ["8.0,9.0", "8.0", "8.0,8.6", "9.0,8.0", "9.0"] {
                package.build("out", list);
                package.check("out", list);
            }
        }
    }

    /// Not `-g`: debug information of host code has the length of the fat binary, and the names of temporary files.
    #[test]
    #[ignore = "minutes: options that change images"]
    fn options_that_change_images() {
        for (source, option, engines) in [
            (RELOCATABLE, "-rdc=true", &[None][..]),
            (GROUPS, "-DX", &[None]),
            (KERNELS, "-dc", &[None, NVCC]),
            (KERNELS, "-Xptxas=-O1", &[None, NVCC]),
            (KERNELS, "-lineinfo", &[None, NVCC]),
            // A fat binary for debuggers has the name of a temporary file.
            (KERNELS, "-G", &[None]),
            (KERNELS, "--compress-mode=size", &[None, NVCC]),
        ] {
            for engine in engines {
                let package = Package::new(source, *engine, &[option]);
                if option.starts_with("--compress") && package.release < ToolkitVersion::new(12, 8)
                {
                    continue;
                }
                for list in ["8.0", "8.0,9.0+PTX", "9.0+PTX", "8.0"] {
                    package.build("out", list);
                    package.check("out", list);
                }
            }
        }
    }

    /// A header that only the second capability reads, and whose name is a macro.
    #[test]
    #[ignore = "minutes: a header of one capability"]
    fn a_header_of_an_added_capability() {
        let source = "#define NAME \"nine.cuh\"\n\
            #if __CUDA_ARCH__ >= 900\n#include NAME\n#else\n#define V 1\n#endif\n\
            extern \"C\" __global__ void kernel(int *p) { *p = V; }\n\
            extern \"C\" void run(int *p) { kernel<<<1, 1>>>(p); }\n";
        let list = "template <int... N> __device__ constexpr int number() { return sizeof...(N); }\n\
                    #define V number<__CUDA_ARCH_LIST__>()\n";
        for engine in [None, NVCC] {
            let package = Package::new(source, engine, &[]);
            for header in ["#define V 2\n", "#define V 3\n", list] {
                package.write("nine.cuh", header);
                for list in ["8.0", "8.0,9.0", "9.0"] {
                    package.build("out", list);
                    package.check("out", list);
                }
            }
        }
    }

    /// What several machines compiled, put into one directory, is joined without compiling anything.
    #[test]
    fn the_outputs_of_several_machines_are_joined() {
        for engine in [None, NVRTC] {
            let mut package = Package::new(WITHOUT_HEADERS, engine, &[]);
            let union = package.path("union");
            fs::create_dir(&union).unwrap();
            for machine in ["8.0", "12.0+PTX"] {
                let images = package.path(&format!("images-of-{machine}"));
                package.images = Some(images.clone());
                // Elsewhere, files have other times.
                package.write("kernels.cu", WITHOUT_HEADERS);
                let (calls, reason) = package.build(&format!("out-{machine}"), machine);
                assert!(!calls.is_empty(), "{reason}");
                assert_eq!(copy_missing(&images, &union), kept(&images).len());
                assert_eq!(copy_missing(&images, &union), 0);
            }
            package.images = Some(union.clone());
            package.write("kernels.cu", WITHOUT_HEADERS);
            let all = "8.0,12.0+PTX";
            let (calls, reason) = package.build("last", all);
            assert_eq!(calls, [""; 0], "{reason}");
            package.images = None;
            package.check("last", all);
            // Two branches, two users or two machines never remove the outputs of each other.
            package.images = Some(union.clone());
            let before = kept(&union);
            package.write("kernels.cu", &WITHOUT_HEADERS.replace("+ 1", "+ 2"));
            assert!(!package.build("changed", "8.0").0.is_empty());
            assert!(before.iter().all(|file| file.exists()));
            for source in [WITHOUT_HEADERS, &WITHOUT_HEADERS.replace("+ 1", "+ 2")] {
                package.write("kernels.cu", source);
                let (calls, reason) = package.build("changed", "8.0");
                assert_eq!(calls, [""; 0], "{reason}");
            }
        }
    }

    #[test]
    fn a_key_keeps_the_outputs_that_were_used_last() {
        let mut package = Package::new(WITHOUT_HEADERS, NVRTC, &[]);
        let images = package.path("images");
        package.images = Some(images.clone());
        let source = |number: u32| WITHOUT_HEADERS.replace("+ 1", &format!("+ {number}"));
        for number in 0..35 {
            package.write("kernels.cu", &source(number));
            assert_eq!(package.build("out", "8.0").0.len(), 1);
        }
        assert_eq!(kept(&images).len(), 32);
        package.write("kernels.cu", &source(3));
        assert_eq!(package.build("out", "8.0").0, [""; 0]);
    }

    #[test]
    fn an_object_of_another_directory_replaces_the_old_one() {
        let package = Package::new("", None, &[]);
        for name in ["a", "b"] {
            fs::create_dir(package.path(name)).unwrap();
            package.write(
                "t.c",
                &format!("int which = '{name}';\nconst char *name = \"object {name}\";\n"),
            );
            let mut compile = std::process::Command::new("gcc");
            compile
                .arg("-c")
                .arg(package.path("t.c"))
                .arg("-o")
                .arg(package.path(name).join("t.o"));
            assert!(compile.status().unwrap().success());
        }
        fs::create_dir(package.path("out")).unwrap();
        for name in ["a", "b", "a"] {
            let build = Build::from_env(package.env("out", "8.0"), Root::system()).unwrap();
            let library = Library::new("prebuilt").file(format!("{name}/t.o"));
            build.library(library).run().unwrap();
            let archive = fs::read(package.path("out/libprebuilt.a")).unwrap();
            let text = format!("object {name}");
            assert!(
                archive
                    .windows(text.len())
                    .any(|bytes| bytes == text.as_bytes()),
                "{name}"
            );
        }
    }

    #[test]
    fn libraries_that_link_the_same_device_code_are_refused() {
        let package = Package::new(RELOCATABLE, None, &[]);
        package.write(
            "common.cu",
            "__device__ int elsewhere(int x) { return x + 1; }\n",
        );
        let library =
            |name: &str, files: &[&str]| Library::new(name).files(files.iter().copied()).rdc(true);
        let build = |libraries: Vec<Library>| {
            fs::create_dir_all(package.path("out")).unwrap();
            let build = Build::from_env(package.env("out", "8.0"), Root::system()).unwrap();
            libraries.into_iter().fold(build, Build::library).run()
        };
        let both = ["kernels.cu", "common.cu"];
        let error = build(vec![library("one", &both), library("two", &["common.cu"])]).unwrap_err();
        let text = error.to_string();
        assert_eq!(
            text,
            "`one` and `two` both link the device code of common.cu"
        );
        assert!(error.hints()[0].contains("one `Library`"), "{error:?}");
        build(vec![library("one", &both)]).unwrap();
        let error = build(vec![library("two", &["kernels.cu"])]).unwrap_err();
        assert!(error.to_string().contains("_Z9elsewherei"), "{error:?}");
    }

    /// The same files below another path, and one header more, as after `cargo cuda toolkit add`.
    fn other_toolkit(package: &mut Package, name: &str) {
        let copy = package.path(name);
        let original = site_packages(13);
        let copied = std::process::Command::new("cp")
            .arg("-rs")
            .args([&original, &copy])
            .output();
        assert!(copied.unwrap().status.success());
        let include = copy.join("nvidia/cu13/include");
        fs::write(include.join(format!("{name}.h")), "").unwrap();
        let path = "__device__ const char *path() { return __FILE__; }\n";
        fs::write(include.join("path.h"), path).unwrap();
        package.components = copy;
    }

    #[test]
    fn a_component_that_is_added_compiles_nothing() {
        let print = format!(
            "#include <path.h>\n{}",
            KERNELS.replace("%d\\n\", x", "%s\", path()")
        );
        for (source, expected) in [(KERNELS, 0), (print.as_str(), 1)] {
            let mut package = Package::new(source, None, &[]);
            other_toolkit(&mut package, "first");
            assert_eq!(package.build("out", "8.0").0.len(), 1);
            other_toolkit(&mut package, "second");
            let (calls, reason) = package.build("out", "8.0");
            assert_eq!(calls.len(), expected, "{reason}");
            package.check("out", "8.0");
            let (calls, reason) = package.build("another-target-directory", "8.0");
            assert_eq!(calls, [""; 0], "{reason}");
        }
    }

    #[test]
    fn damaged_and_unfinished_kept_outputs_are_not_used() {
        let mut package = Package::new(WITHOUT_HEADERS, NVRTC, &[]);
        let images = package.path("images");
        package.images = Some(images.clone());
        package.build("out", "8.0");
        let file = kept(&images).remove(0);
        let whole = fs::read(&file).unwrap();
        let mut unfinished = file.clone().into_os_string();
        unfinished.push(".1.part");
        fs::write(&unfinished, &whole[..whole.len() / 2]).unwrap();
        let flipped = (0..whole.len()).step_by(whole.len() / 10).map(|place| {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            bytes
        });
        let lengths = [0, 10, 40, whole.len() / 2, whole.len() - 1];
        let cut = lengths.map(|length| whole[..length].to_vec());
        let other = String::from_utf8_lossy(&whole[..20]).replace("output 5", "output 6");
        let other_version = [other.as_bytes(), &whole[20..]].concat();
        for (number, bytes) in flipped.chain(cut).chain([other_version]).enumerate() {
            fs::write(&file, bytes).unwrap();
            let (calls, reason) = package.build("out", "8.0,9.0");
            assert!(
                calls.contains(&"sm_80".to_owned()),
                "{number}: {calls:?} {reason}"
            );
            package.build("out", "9.0");
        }
        // As in a store that can only be read, the file can neither be removed nor written.
        fs::remove_file(&file).unwrap();
        fs::create_dir_all(file.join("in the way")).unwrap();
        assert_eq!(package.build("blocked", "8.0").0.len(), 1);
        let fatbin = Fatbin::parse(&package.output("out")).unwrap();
        assert_eq!(fatbin.entries().count(), 1);
        assert!(
            fs::exists(&unfinished).unwrap(),
            "another build is about to rename it"
        );
    }

    /// As an upgrade replaces a toolkit: at the same path, with the same version of nvcc.
    #[test]
    #[ignore = "minutes: a ptxas that is replaced"]
    fn images_of_a_replaced_toolkit_are_not_used() {
        for shared in [false, true] {
            let mut package = Package::new(WITHOUT_HEADERS, None, &[]);
            let real = site_packages(13).join("nvidia/cu13");
            let root = package.path("toolkit");
            fs::create_dir_all(root.join("bin")).unwrap();
            for (from, to) in [
                (real.clone(), root.clone()),
                (real.join("bin"), root.join("bin")),
            ] {
                for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
                    if entry.file_name() != "bin" {
                        symlink(entry.path(), to.join(entry.file_name())).unwrap();
                    }
                }
            }
            package.components = root.clone();
            package.images = shared.then(|| package.path("images"));
            let ptxas = root.join("bin/ptxas");
            let real = fs::canonicalize(&ptxas).unwrap();
            let mut outputs = BTreeMap::new();
            for option in ["", "-O0"] {
                write_script(&ptxas, &format!("exec {} \"$@\" {option}", real.display()));
                for (list, expected) in [("8.0", "sm_80"), ("8.0,9.0", "sm_90")] {
                    let (calls, reason) = package.build("out", list);
                    assert_eq!(calls, [expected], "{option}: {reason}");
                }
                let images = package.images.take();
                package.check("out", "8.0,9.0");
                package.images = images;
                outputs.insert(package.output("out"), option);
            }
            assert_eq!(outputs.len(), 2, "the option changes nothing");
        }
    }
}
