//! Errors of cuda-build, as a build script prints them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cuda_build::internal::directive::{Directive, Directives};
use cuda_build::internal::driver::NoDriver;
use cuda_build::internal::{Config, Declared, Env, Root, Target, skipped_by};
use cuda_build::{Build, Error, Format, Library, Module, ToolkitVersion};
use tempfile::TempDir;

use super::Snapshot;

pub(super) fn add(snapshot: &mut Snapshot) {
    snapshot.area("Cargo.toml and variables of a build");
    manifests(snapshot);
    variables(snapshot);
    snapshot.area("Capabilities");
    capabilities(snapshot);
    snapshot.area("What build.rs requests");
    scripts(snapshot);
}

/// A package with a build script, and a toolkit of empty files.
pub(super) struct Package {
    _directory: TempDir,
    pub here: PathBuf,
    pub env: Env,
}

/// The files of a toolkit that the search finds and no compiler reads.
pub(super) const TOOLKIT: [(&str, &str); 7] = [
    (
        "include/cuda.h",
        "#define CUDA_VERSION 13040\nCUresult CUDAAPI cuInit(unsigned int Flags);\n",
    ),
    ("include/cuda_runtime.h", ""),
    ("include/nvrtc.h", ""),
    ("lib/libcudart.so.13", ""),
    ("lib/libcudart_static.a", ""),
    ("lib/libnvrtc.so.13", ""),
    ("lib/libnvrtc-builtins.so.13.4", ""),
];

impl Package {
    pub(super) fn new(cuda: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().canonicalize().unwrap();
        let env = Env::from_pairs([
            ("CARGO_MANIFEST_DIR", here.clone()),
            ("OUT_DIR", here.join("target/debug/build/p-0/out")),
            ("TARGET", "x86_64-unknown-linux-gnu".into()),
            ("CUDA_BUILD_CACHE_DIR", here.join("cache")),
            ("CUDA_BUILD_ROOTS", here.join("cuda")),
            ("PATH", here.join("bin")),
        ]);
        let package = Self {
            _directory: directory,
            here,
            env,
        };
        let manifest = format!("[package]\nname = \"p\"\n\n[package.metadata.cuda]\n{cuda}\n");
        package.write("Cargo.toml", &manifest);
        package.write("k.cu", "");
        for (file, text) in TOOLKIT {
            package.write(&format!("cuda/{file}"), text);
        }
        fs::create_dir_all(package.here.join("target/debug/build/p-0/out")).unwrap();
        package
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.env = self
            .env
            .with(name, value.replace("/here", self.here.to_str().unwrap()));
        self
    }

    pub(super) fn write(&self, file: &str, text: &str) {
        let path = self.here.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn script(&self, file: &str, body: &str) {
        self.write(file, &format!("#!/bin/sh\n{body}\n"));
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.here.join(file), mode).unwrap();
    }

    pub(super) fn build(&self) -> Result<Build, Error> {
        let no_driver = || {
            Err(NoDriver {
                reason: "no driver".to_owned(),
                is_installed: false,
            })
        };
        Build::from_env(self.env.clone(), Root::system()).map(|build| build.with_driver(no_driver))
    }

    /// Adds the error of a build script.
    pub(super) fn failed(
        &self,
        snapshot: &mut Snapshot,
        what: &str,
        script: impl FnOnce(Build) -> Result<(), Error>,
    ) {
        snapshot.error(what, &self.here, self.build().and_then(script));
    }
}

fn manifests(snapshot: &mut Snapshot) {
    for cuda in [
        "component = []",
        "colour = 1",
        "toolkit = \"new\"",
        "toolkit = 13",
        "jetson = \"yes\"",
        "majors = [\"13\"]",
        "capabilities = \"8.0\"",
        "components = [\"cublass\"]",
        "components = [\"physics\"]",
        "components = [1]",
        "components = [{ version = \">=9\" }]",
        "cudart = \"dynamic\"",
        "major.new.capabilities = []",
        "wheel.max-size = \"200\"",
        "=",
    ] {
        let package = Package::new(cuda);
        let error = Config::read(&Root::system(), &package.env, &package.here);
        snapshot.error(cuda, &package.here, error);
    }
    let package = Package::new("");
    let manifest = fs::File::options()
        .write(true)
        .open(package.here.join("Cargo.toml"));
    manifest.unwrap().set_len(17 << 20).unwrap();
    let error = Config::read(&Root::system(), &package.env, &package.here);
    snapshot.error("a Cargo.toml of 17 MiB", &package.here, error);
    let nowhere = Path::new("/nowhere");
    let error = Config::read(&Root::system(), &Env::default(), nowhere);
    snapshot.error("no Cargo.toml", nowhere, error);
}

fn variables(snapshot: &mut Snapshot) {
    for (name, value) in [
        ("CUDA_BUILD_RELEASE", "3"),
        ("CUDA_BUILD_RELEASE", "new"),
        ("CUDA_BUILD_CUDART", "dynamic"),
        ("CUDA_BUILD_SOURCES", "everywhere"),
        ("CUDA_BUILD_IMAGES", "images"),
        ("CUDA_BUILD_SKIP", "perhaps"),
    ] {
        let package = Package::new("capabilities = [\"8.0\"]").with(name, value);
        let what = format!("{name}={value}");
        package.failed(snapshot, &what, |build| {
            skipped_by(&package.env)?;
            build.module("k.cu").run().map(drop)
        });
    }
    let error = Build::from_env(Env::default(), Root::system());
    snapshot.error(
        "a program that is not a build script",
        Path::new("/"),
        error,
    );
    let package = Package::new("").with("DOCS_RS", "1");
    package.failed(
        snapshot,
        "DOCS_RS=1, and build.rs needs a toolkit",
        |build| build.toolkit().map(drop),
    );
    for triple in [
        "wasm32-unknown-unknown",
        "x86_64-pc-windows-msvc",
        "x86_64-unknown-linux-musl",
    ] {
        let error = Target::from_triple(triple);
        snapshot.error(&format!("TARGET={triple}"), Path::new("/"), error);
    }
}

fn capabilities(snapshot: &mut Snapshot) {
    let here = Path::new("/");
    for list in ["", "8", "800", "8.0x", "compute_80-real"] {
        let error = Declared::parse([list]);
        snapshot.error(&format!("capabilities = [{list:?}]"), here, error);
    }
    let toolkit = ToolkitVersion::new(13, 4);
    for list in ["7.0", "10.1", "7.7", "native", "10.0, 10.0f"] {
        let declared = Declared::parse([list]).unwrap();
        let error = declared.plan(toolkit, &[], None);
        snapshot.error(
            &format!("CUDA 13.4, capabilities = [{list:?}]"),
            here,
            error,
        );
    }
    let declared = Declared::parse(["12.0"]).unwrap();
    let error = declared.plan(ToolkitVersion::new(12, 0), &[], None);
    snapshot.error("CUDA 12.0, capabilities = [\"12.0\"]", here, error);
    Package::new("").failed(snapshot, "no capabilities", |build| build.plan().map(drop));
    let two = Package::new("capabilities = [\"8.0\", \"9.0\"]");
    two.failed(snapshot, "Format::Cubin, two capabilities", |build| {
        build
            .module(Module::new("k.cu").format(Format::Cubin))
            .run()
            .map(drop)
    });
}

fn scripts(snapshot: &mut Snapshot) {
    let package = Package::new("capabilities = [\"8.0\"]");
    let library =
        |library: fn() -> Library| move |build: Build| build.library(library()).run().map(drop);
    package.failed(snapshot, "two modules `k`", |build| {
        build.module("a/k.cu").module("b/k.cu").run().map(drop)
    });
    package.failed(
        snapshot,
        "Library::new(\"k\")",
        library(|| Library::new("k")),
    );
    package.failed(
        snapshot,
        "Library::new(\"k\").glob(\"kernels/*.cu\")",
        library(|| Library::new("k").glob("kernels/*.cu")),
    );
    package.failed(
        snapshot,
        "Library::new(\"k\").file(\"k.txt\")",
        library(|| Library::new("k").file("k.txt")),
    );
    package.failed(snapshot, "module(\"missing.cu\")", |build| {
        build.module("missing.cu").run().map(drop)
    });
    let bytes = OsString::from_vec(b"a\xff".to_vec());
    for path in ["a\nb".into(), "a ".into(), bytes] {
        let mut directives = Directives::default();
        directives.push(Directive::RerunIfChanged(PathBuf::from(&path)));
        let error = directives.emit();
        snapshot.error(&format!("a file called {path:?}"), Path::new("/"), error);
    }
}
