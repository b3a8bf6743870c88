//! One crate, two wheels: built by maturin, rewritten, installed, imported.
#![allow(
    clippy::disallowed_methods,
    reason = "tests run tools and look at files"
)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cargo_cuda::rustc_wrapper::{self, Scope};
use cargo_cuda::wheel::archive::{Entry, Wheel};
use cargo_cuda::wheel::dependencies::BuiltWith;
use cargo_cuda::wheel::maturin::{Arguments, Maturin, Mode, Request};
use cargo_cuda::wheel::needs::Needs;
use cargo_cuda::wheel::rewrite::{BuiltWheel, Rewrite};
use cargo_cuda::wheel::runpath::{SearchPathKind, SearchPathPlan};
use cuda_build::Component;
use cuda_build::internal::Env;

use crate::support::EXCLUDE_NEWER;
use crate::tools::tool;

/// What each major is built with: package, version, library directory below the package target.
struct Cudart {
    major: u32,
    package: &'static str,
    version: &'static str,
    directory: &'static str,
}

const MAJORS: [Cudart; 2] = [
    Cudart {
        major: 12,
        package: "nvidia-cuda-runtime-cu12",
        version: "12.9.79",
        directory: "nvidia/cuda_runtime/lib",
    },
    Cudart {
        major: 13,
        package: "nvidia-cuda-runtime",
        version: "13.4.92",
        directory: "nvidia/cu13/lib",
    },
];

fn offline(test: &str) -> bool {
    let offline = std::env::var_os("CUDA_BUILD_TEST_OFFLINE").is_some_and(|value| value == "1");
    if offline {
        eprintln!("{test}: left out, `CUDA_BUILD_TEST_OFFLINE` is 1");
    }
    offline
}

/// A directory of this test alone, kept between runs so that dependencies compile once.
fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("wheel")
        .join(name)
}

fn run(command: &mut Command) -> Output {
    // The loader's own answers are what is tested.
    command.env_remove("LD_LIBRARY_PATH");
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn uv(args: &[&str]) -> Command {
    let mut command = Command::new(tool("uv"));
    command.args(args);
    command
}

/// The CUDA runtime of one major, as its package installs it.
fn cudart(cudart: &Cudart) -> PathBuf {
    let target = place(&format!("cudart-{}", cudart.major));
    if !target.join(cudart.directory).is_dir() {
        let requirement = format!("{}=={}", cudart.package, cudart.version);
        run(uv(&["pip", "install", "--quiet", "--no-deps", "--target"])
            .arg(&target)
            .arg(requirement));
    }
    target.join(cudart.directory)
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A checkout: a crate that is its own workspace, with a build dependency beside it.
fn checkout(root: &Path) -> PathBuf {
    write(
        &root.join("linking/Cargo.toml"),
        "[package]\nname = \"linking\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    write(
        &root.join("linking/src/lib.rs"),
        r#"pub fn link() {
    for name in ["TEST_CUDART_DIR", "TEST_CUDART_SONAME"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rustc-link-search=native={}", std::env::var("TEST_CUDART_DIR").unwrap());
    println!("cargo::rustc-link-lib=dylib:+verbatim={}", std::env::var("TEST_CUDART_SONAME").unwrap());
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
    // A panic in generated code carries the path of the file.
    let code = "pub fn tenth(values: &[u8]) -> u8 { *values.get(std::hint::black_box(9)).expect(\"ten values\") }";
    std::fs::write(out.join("generated.rs"), code).unwrap();
}
"#,
    );
    let project = root.join("saxpy");
    write(
        &project.join("Cargo.toml"),
        r#"[package]
name = "saxpy"
version = "0.1.0"
edition = "2024"
license = "MIT"
description = "Tells the version of the CUDA runtime"
[lib]
crate-type = ["cdylib"]
[dependencies]
pyo3 = { version = "0.29", features = ["abi3-py39"] }
[build-dependencies]
linking = { path = "../linking" }
[workspace]
"#,
    );
    write(
        &project.join("pyproject.toml"),
        "[build-system]\nrequires = [\"maturin>=1.13,<2\"]\nbuild-backend = \"maturin\"\n\
         [project]\nname = \"saxpy\"\nversion = \"0.1.0\"\nrequires-python = \">=3.9\"\nreadme = \"README.md\"\n\
         license = \"MIT\"\nlicense-files = [\"LICENSE\"]\n",
    );
    write(
        &project.join("README.md"),
        "# saxpy\n\nA description: with a colon.\n",
    );
    write(&project.join("LICENSE"), "MIT\n");
    write(&project.join("build.rs"), "fn main() { linking::link() }\n");
    write(
        &project.join("src/lib.rs"),
        r#"//! Tells the version of the CUDA runtime.
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}
unsafe extern "C" {
    fn cudaRuntimeGetVersion(version: *mut i32) -> i32;
}
/// Tells the version of the CUDA runtime.
#[pyo3::pymodule]
mod saxpy {
    use pyo3::prelude::*;
    #[pyfunction]
    fn runtime_version() -> i32 {
        let mut version = 0;
        let status = unsafe { super::cudaRuntimeGetVersion(&mut version) };
        assert_eq!(status, 0);
        version
    }
    #[pyfunction]
    fn tenth(values: Vec<u8>) -> u8 {
        super::generated::tenth(&values)
    }
}
"#,
    );
    project
}

/// Builds the project with maturin as found on this machine, into a fresh directory.
fn build(project: &Path, of: &Cudart, rustc_args: &[String]) -> (tempfile::TempDir, PathBuf) {
    let maturin = Maturin::program(&tool("maturin"), &Env::from_process(), None).unwrap();
    let out = tempfile::tempdir().unwrap();
    let mut env: Vec<(String, OsString)> = vec![
        ("TEST_CUDART_DIR".to_owned(), cudart(of).into()),
        (
            "TEST_CUDART_SONAME".to_owned(),
            format!("libcudart.so.{}", of.major).into(),
        ),
        (
            "CARGO_TARGET_DIR".to_owned(),
            project.join(format!("target/cuda-{}", of.major)).into(),
        ),
    ];
    let program = Path::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    env.extend(rustc_wrapper::environment(
        program,
        Scope::Reproducible,
        &[],
        None,
    ));
    let call = maturin.build(&Request {
        manifest: &project.join("Cargo.toml"),
        directory: None,
        out: out.path(),
        mode: Mode::Wheel,
        profile: Some("release"),
        arguments: &Arguments::default(),
        rustc_args,
        env: &env,
    });
    run(Command::new(&call.program)
        .args(&call.arguments)
        .envs(call.variables));
    let mut wheels: Vec<PathBuf> = fs::read_dir(out.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(wheels.len(), 1, "{wheels:?}");
    (out, wheels.remove(0))
}

fn rewriting(of: &Cudart) -> Rewrite {
    let linked = BTreeSet::from([Component::Cudart]);
    Rewrite {
        name: None,
        major: of.major,
        runpath: SearchPathPlan::new(&linked, of.major, SearchPathKind::default()).unwrap(),
        built_with: BuiltWith {
            toolkit: of.version.parse().unwrap(),
            components: [(Component::Cudart, of.version.parse().unwrap())].into(),
        },
        declared: Needs::default(),
        dependencies: Vec::new(),
        excluded: Vec::new(),
        allow: Vec::new(),
    }
}

fn wheel(project: &Path, of: &Cudart, out: &Path) -> BuiltWheel {
    let rewriting = rewriting(of);
    let (_fresh, input) = build(project, of, &rewriting.runpath.rustc_arguments(1));
    rewriting.apply(&input, out).unwrap()
}

fn venv(parent: &Path, name: &str) -> PathBuf {
    let path = parent.join(name);
    run(uv(&["venv", "--quiet"]).arg(&path));
    path
}

fn install(venv: &Path, wheel: &BuiltWheel) {
    run(uv(&["pip", "install", "--quiet", "--python"])
        .env("UV_EXCLUDE_NEWER", EXCLUDE_NEWER)
        .arg(venv)
        .arg(&wheel.path));
}

/// Imports the package in the venv and tells CUDA's version and the path of the libcudart that
/// the loader took.
fn import(venv: &Path) -> (u32, String) {
    let code = "import saxpy as m; print(m.runtime_version(), m.__doc__)";
    let output = run(Command::new(venv.join("bin/python"))
        .args(["-c", code])
        .env("LD_DEBUG", "libs"));
    let printed = String::from_utf8(output.stdout).unwrap();
    let (version, doc) = printed.trim().split_once(' ').unwrap();
    assert_eq!(doc, "Tells the version of the CUDA runtime.");
    let trace = String::from_utf8_lossy(&output.stderr).into_owned();
    let loaded = trace
        .lines()
        .find(|l| l.contains("calling init") && l.contains("/libcudart.so"));
    let path = loaded
        .unwrap_or_else(|| panic!("{trace}"))
        .rsplit(' ')
        .next()
        .unwrap()
        .to_owned();
    (version.parse().unwrap(), path)
}

#[test]
fn one_crate_becomes_a_wheel_for_each_major() {
    if offline("one_crate_becomes_a_wheel_for_each_major") {
        return;
    }
    let project = checkout(&place("majors"));
    let work = tempfile::tempdir().unwrap();
    let [cu12, cu13] = MAJORS.map(|of| {
        let wheel = wheel(&project, &of, &work.path().join("dist"));
        let major = of.major;
        let name = wheel.path.file_name().unwrap().to_str().unwrap();
        assert!(
            name.starts_with(&format!("saxpy_cu{major}-0.1.0-cp39-abi3-manylinux_")),
            "{name}"
        );
        assert_eq!(wheel.size, fs::metadata(&wheel.path).unwrap().len());
        assert!(
            wheel.expected_on_system.is_empty(),
            "{:?}",
            wheel.expected_on_system
        );
        assert!(wheel.glibc.is_some(), "{name}");

        let content = Wheel::open(&wheel.path).unwrap();
        let facts = content.entries["saxpy/saxpy.abi3.so"].elf.as_ref().unwrap();
        let soname = format!("libcudart.so.{major}");
        assert!(facts.needed.contains(&soname), "{:?}", facts.needed);
        assert_eq!(facts.rpath, [format!("$ORIGIN/../{}", of.directory)]);
        assert!(facts.runpath.is_empty());
        let kept = |suffix: &str| content.entries.keys().any(|path| path.ends_with(suffix));
        assert!(
            kept("licenses/LICENSE") && kept(".cyclonedx.json"),
            "{:?}",
            content.entries.keys()
        );

        let venv = venv(work.path(), &format!("only-{major}"));
        install(&venv, &wheel);
        let (version, path) = import(&venv);
        assert_eq!(version / 1000, major);
        let venv = fs::canonicalize(venv).unwrap();
        let path = fs::canonicalize(path).unwrap();
        assert!(
            path.starts_with(&venv) && path.ends_with(format!("{}/{soname}", of.directory)),
            "{path:?}"
        );
        wheel
    });
    assert_eq!(cu12.requires, ["nvidia-cuda-runtime-cu12>=12.0,<13"]);
    assert_eq!(cu13.requires, ["cuda-toolkit[cudart]>=13.0,<14"]);

    // A function that the first release of CUDA 12 lacks.
    let source = project.join("src/lib.rs");
    let text = fs::read_to_string(&source).unwrap();
    let text = text.replace(
        "fn cudaRuntimeGetVersion(version: *mut i32) -> i32;",
        "fn cudaRuntimeGetVersion(version: *mut i32) -> i32;\n    fn cudaMemcpyBatchAsync();",
    );
    let text = text.replace(
        "let mut version = 0;",
        "std::hint::black_box(super::cudaMemcpyBatchAsync as *const ());\n        let mut version = 0;",
    );
    fs::write(&source, text).unwrap();
    let newer = wheel(&project, &MAJORS[0], &work.path().join("newer"));
    assert_eq!(newer.requires, ["nvidia-cuda-runtime-cu12>=12.8,<13"]);
}

#[test]
fn two_checkouts_give_the_same_bytes() {
    if offline("two_checkouts_give_the_same_bytes") {
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let of = &MAJORS[1];
    let bytes = ["first", "second-checkout/somewhere"].map(|name| {
        let root = place(name);
        let out = work.path().join(name);
        let wheel = wheel(&checkout(&root), of, &out);
        let content = Wheel::open(&wheel.path).unwrap();
        let root = root.to_str().unwrap().as_bytes();
        for path in content.entries.keys() {
            assert!(
                !content
                    .bytes(path)
                    .unwrap()
                    .windows(root.len())
                    .any(|window| window == root),
                "{path} names the checkout"
            );
        }
        fs::read(wheel.path).unwrap()
    });
    assert!(bytes[0] == bytes[1], "the wheels differ");
}

#[test]
fn a_module_that_is_not_as_planned_is_refused() {
    if offline("a_module_that_is_not_as_planned_is_refused") {
        return;
    }
    let project = checkout(&place("refused"));
    let [cu12, cu13] = &MAJORS;
    let work = tempfile::tempdir().unwrap();
    let out = work.path().join("dist");

    let (_fresh, no_runpath) = build(&project, cu12, &[]);
    let error = rewriting(cu12).apply(&no_runpath, &out).unwrap_err();
    let expected = "saxpy/saxpy.abi3.so has an unexpected search path";
    assert!(error.message.contains(expected), "{error}");
    let error = rewriting(cu13).apply(&no_runpath, &out).unwrap_err();
    let expected = "`libcudart.so.12` of CUDA 12, but the wheel is for CUDA 13";
    assert!(error.message.contains(expected), "{error}");

    let absolute = [
        "-C".to_owned(),
        "link-arg=-Wl,-rpath,/usr/local/cuda/lib64".to_owned(),
    ];
    let arguments = [
        rewriting(cu12).runpath.rustc_arguments(1),
        absolute.to_vec(),
    ]
    .concat();
    let (_fresh, build_path) = build(&project, cu12, &arguments);
    let error = rewriting(cu12)
        .apply(&build_path, &out)
        .unwrap_err()
        .to_string();
    assert!(error.contains("/usr/local/cuda/lib64"), "{error}");
    assert!(!out.exists());

    // `--rpath runpath`, the other kind, is there on request.
    let mut runpath = rewriting(cu12);
    runpath.runpath = runpath.runpath.with_kind(SearchPathKind::Runpath);
    let (_fresh, input) = build(&project, cu12, &runpath.runpath.rustc_arguments(1));
    runpath.apply(&input, &out).unwrap();
    assert!(rewriting(cu12).apply(&input, &out).is_err());
}

#[test]
fn a_static_runtime_is_found_in_stripped_modules() {
    if offline("a_static_runtime_is_found_in_stripped_modules") {
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let source = work.path().join("module.c");
    let code = "int cudaRuntimeGetVersion(int *);\nint version(void) { int v; return cudaRuntimeGetVersion(&v) + v; }\n";
    fs::write(&source, code).unwrap();
    for of in &MAJORS {
        let shared = format!("libcudart.so.{}", of.major);
        for (library, expected) in [("libcudart_static.a", true), (shared.as_str(), false)] {
            let module = work.path().join("module.so");
            run(Command::new("gcc")
                .args(["-shared", "-fPIC", "-s", "-Wl,--gc-sections", "-o"])
                .arg(&module)
                .arg(&source)
                .arg(cudart(of).join(library)));
            let entry = Entry::new(fs::read(&module).unwrap(), true).unwrap();
            assert_eq!(entry.static_runtime, expected, "{library}");
        }
    }
}
