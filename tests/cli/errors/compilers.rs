//! Compilers, libraries and files that a build uses.

use std::fs;
use std::path::Path;

use cuda_build::internal::command::Invocation;
use cuda_build::internal::fatbin::{CompiledImage, Fatbin};
use cuda_build::internal::nvcc;
use cuda_build::internal::nvrtc::Nvrtc;
use cuda_build::internal::{Env, Root};
use cuda_build::{Build, Capability, Engine, Error, Library, Module};

use super::Snapshot;
use super::library::Package;
use crate::audit::fixture::library;
use crate::layout_files::Layout;

pub(super) fn add(snapshot: &mut Snapshot) {
    snapshot.area("Compilers, libraries and files");
    compilers(snapshot);
    files(snapshot);
}

/// A toolkit with nvcc, which answers as nvcc 13.4 does, and runs `compile` for `k.cu`.
fn with_nvcc(compile: &str) -> (Layout, Package) {
    let layout = Layout::load("pip-13.4");
    let bin = layout
        .root
        .join("venv/lib/python3.12/site-packages/nvidia/cu13/bin");
    fs::rename(bin.join("nvcc"), bin.join("answers")).unwrap();
    let mut package = Package::new("capabilities = [\"8.0\"]");
    package.script(
        "nvcc",
        &format!(
            "case \"$*\" in *dryrun*|--version) exec '{}/answers' \"$@\";; esac\n{compile}",
            bin.display()
        ),
    );
    fs::rename(package.here.join("nvcc"), bin.join("nvcc")).unwrap();
    package.env = Env::from_pairs(layout.env.clone())
        .with("CARGO_MANIFEST_DIR", &package.here)
        .with("OUT_DIR", package.here.join("target/debug/build/p-0/out"))
        .with("TARGET", "x86_64-unknown-linux-gnu")
        .with("CUDA_BUILD_CACHE_DIR", package.here.join("cache"))
        .with("PATH", "/usr/bin:/bin");
    (layout, package)
}

/// A script that runs the machine's g++, which then calls itself another version.
fn gcc(version: &str) -> String {
    format!(
        "exec /usr/bin/g++ -U__GNUC__ -D__GNUC__={version} -U__GNUC_MINOR__ -D__GNUC_MINOR__=1 \
         -U__GNUC_PATCHLEVEL__ -D__GNUC_PATCHLEVEL__=0 \"$@\""
    )
}

fn compilers(snapshot: &mut Snapshot) {
    let module = |build: Build| {
        let module = Module::new("k.cu").engine(Engine::Nvcc);
        build.module(module).run().map(drop)
    };
    let failing = "echo 'k.cu(3): error: identifier \"x\" is undefined'; exit 2";
    let mut add = |what: &str,
                   layout: &Layout,
                   package: &Package,
                   script: &dyn Fn(Build) -> Result<(), Error>| {
        let mut one = Snapshot::default();
        one.error(what, &package.here, package.build().and_then(script));
        let text = layout.portable(&one.text);
        snapshot.text.push_str(&text.replace(
            "@ROOT@/venv/lib/python3.12/site-packages/nvidia/cu13",
            "/cuda",
        ));
        snapshot.problems.extend(one.problems);
    };
    let (layout, package) = with_nvcc(failing);
    add("nvcc finds an error", &layout, &package, &module);
    let flag = |build: Build| {
        let module = Module::new("k.cu")
            .engine(Engine::Nvcc)
            .flag_if_supported("--x");
        build.module(module).run().map(drop)
    };
    add("nvcc cannot compile anything", &layout, &package, &flag);
    let (layout, package) = with_nvcc("exit 0");
    add("nvcc writes nothing", &layout, &package, &module);
    package.write("$(x)/k.cu", "");
    let named = |path: &'static str| {
        move |build: Build| {
            let module = Module::new(path).engine(Engine::Nvcc);
            build.module(module).run().map(drop)
        }
    };
    add(
        "module(\"$(x)/k.cu\")",
        &layout,
        &package,
        &named("$(x)/k.cu"),
    );
    let (layout, mut package) = with_nvcc("exit 0");
    fs::create_dir_all(package.here.join("a,b/out")).unwrap();
    package.env = package
        .env
        .clone()
        .with("OUT_DIR", package.here.join("a,b/out"));
    add("OUT_DIR has a comma", &layout, &package, &module);
    let (layout, package) = with_nvcc("exit 0");
    let package = package.with("NVCC_CCBIN", "/nowhere/g++");
    add("NVCC_CCBIN=/nowhere/g++", &layout, &package, &module);
    let header = "#if __GNUC__ > 16\n#error -- unsupported GNU version! gcc versions later than 16 are not supported!\n#endif\n";
    for (what, installed) in [("", None), (" beside g++-12", Some("12"))] {
        let (layout, package) = with_nvcc("exit 0");
        let package = package
            .with("NVCC_CCBIN", "/here/bin/g++")
            .with("PATH", "/here/bin");
        let include = "venv/lib/python3.12/site-packages/nvidia/cu13/include/crt/host_config.h";
        fs::write(layout.root.join(include), header).unwrap();
        for (name, version) in [("g++", Some("99")), ("g++-12", installed)] {
            if let Some(version) = version {
                package.script(&format!("bin/{name}"), &gcc(version));
            }
        }
        add(
            &format!("NVCC_CCBIN names a new g++{what}"),
            &layout,
            &package,
            &module,
        );
    }
    let layout = Layout::load("usr-local-cross-12.4");
    for (name, value) in [("PATH", "/here/bin"), ("NVCC_CCBIN", "/here/g++")] {
        let mut package = Package::new("capabilities = [\"8.0\"]").with(name, value);
        package.env = package
            .env
            .clone()
            .with("TARGET", "aarch64-unknown-linux-gnu")
            .with("CUDA_BUILD_ROOTS", layout.root.join("usr/local/cuda"));
        package.script("g++", &gcc("12"));
        let what = format!("TARGET=aarch64-unknown-linux-gnu {name}={value}");
        add(&what, &layout, &package, &module);
    }
    let package = Package::new("").with("TARGET", "aarch64-unknown-linux-gnu");
    let by_nvrtc = |build: Build| {
        let module = Module::new("k.cu").engine(Engine::Nvrtc);
        build.module(module).run().map(drop)
    };
    add(
        "TARGET=aarch64-unknown-linux-gnu, Engine::Nvrtc",
        &layout,
        &package,
        &by_nvrtc,
    );
    let other = Package::new("");
    other.script("nvcc", "echo something else");
    let answer = nvcc::query(&Root::system(), &other.env, &other.here.join("nvcc"));
    snapshot.error("nvcc is another program", &other.here, answer);
    let cpp = Package::new("");
    cpp.write("k.cpp", "");
    cpp.failed(
        snapshot,
        "Library::new(\"k\").file(\"k.cpp\"), without the feature",
        |build| {
            build
                .library(Library::new("k").file("k.cpp"))
                .run()
                .map(drop)
        },
    );
    let nvrtc = Package::new("capabilities = [\"8.0\"]");
    nvrtc.failed(snapshot, "libnvrtc.so.13 is an empty file", |build| {
        build.module("k.cu").run().map(drop)
    });
    let path = nvrtc.here.join("libnvrtc.so.13");
    fs::write(&path, library("libnvrtc.so.13")).unwrap();
    snapshot.error(
        "libnvrtc.so.13 is another library",
        &nvrtc.here,
        Nvrtc::load(&path),
    );
    let missing = Invocation::new("/nowhere/nvcc").args(["--version"]);
    snapshot.error("nvcc was removed", Path::new("/here"), missing.run());
}

fn files(snapshot: &mut Snapshot) {
    let here = Path::new("/");
    let container = |version: u16, size: u64| {
        let mut bytes = 0xba55_ed50_u32.to_le_bytes().to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend(16_u16.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes
    };
    let text = |text: &str| text.as_bytes().to_vec();
    for (what, bytes) in [
        ("an empty file", Vec::new()),
        (
            "another file",
            text("\x7fELF and so on, longer than a header"),
        ),
        ("a container of version 2", container(2, 0)),
        ("a container that is cut off", container(1, 100)),
        (
            "an entry that is cut off",
            [container(1, 4), vec![1, 0, 0, 0]].concat(),
        ),
    ] {
        let error = Fatbin::parse(&bytes);
        snapshot.error(&format!("a fat binary: {what}"), here, error);
    }
    let entry = |header: u32, payload: u64, compressed: u32| {
        let mut bytes = vec![2, 0, 1, 1];
        bytes.extend(header.to_le_bytes());
        bytes.extend(payload.to_le_bytes());
        bytes.extend(compressed.to_le_bytes());
        bytes.resize(64, 0);
        [container(1, 64), bytes].concat()
    };
    for (what, bytes) in [
        ("a short header of an entry", entry(8, 0, 0)),
        ("more compressed bytes than bytes", entry(64, 0, 1)),
    ] {
        snapshot.error(
            &format!("a fat binary: {what}"),
            here,
            Fatbin::parse(&bytes),
        );
    }
    let capability: Capability = "8.0".parse().unwrap();
    let cubin = |bytes: Vec<u8>| CompiledImage::Cubin { capability, bytes };
    let ptx = |text: &str| CompiledImage::Ptx {
        capability,
        text: text.to_owned(),
    };
    let mut elf = vec![0; 64];
    elf[18] = 190;
    let mut other = elf.clone();
    other[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x33");
    other[48] = 90;
    for (what, images) in [
        ("a cubin that is none", vec![cubin(Vec::new())]),
        ("a cubin of 32 bits", vec![cubin(elf)]),
        ("a cubin of another capability", vec![cubin(other)]),
        ("PTX with a NUL", vec![ptx("a\0b")]),
        ("PTX without a version", vec![ptx("")]),
        (
            "PTX of another capability",
            vec![ptx(".version 8.8\n.target sm_90\n")],
        ),
        ("an image twice", vec![ptx(""), ptx("")]),
    ] {
        snapshot.error(
            &format!("a fat binary of {what}"),
            here,
            Fatbin::from_images(images),
        );
    }
    let error = Fatbin::from_images(Vec::new());
    snapshot.error("a fat binary without images", here, error);
}
