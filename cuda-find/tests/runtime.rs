//! Libraries that a program opens. The libraries are real ones, made by the C compiler.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "prepares real libraries"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_find::runtime::{self, Library};
use cuda_find::{Component, Error, System};

/// Makes the shared library `directory/soname`, which needs `needed` of the same or another directory.
fn library(directory: &Path, soname: &str, needed: &[&Path]) -> PathBuf {
    fs::create_dir_all(directory).unwrap();
    let path = directory.join(soname);
    let status = Command::new("gcc")
        .args(["-shared", "-nostdlib", "-x", "c", "/dev/null", "-x", "none"])
        .args(["-Wl,--no-as-needed", &format!("-Wl,-soname,{soname}"), "-o"])
        .arg(&path)
        .args(needed)
        .status();
    assert!(status.unwrap().success());
    path
}

struct Machine {
    top: tempfile::TempDir,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Machine {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let variables = Vec::new();
        Self { top, variables }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.top.path().join(path)
    }

    fn set(&mut self, name: &'static str, path: &str) {
        self.variables.push((name, self.path(path)));
    }

    fn find(&self, component: &str, major: u32) -> Result<Library, Error> {
        let system = System::current()
            .with_disk_root(self.path("disk"))
            .with_variables(self.variables.clone());
        runtime::library_on(&system, component, major)
    }
}

#[test]
fn each_place_comes_before_the_next() {
    let mut machine = Machine::new();
    machine.set("VIRTUAL_ENV", "venv");
    machine.set("CONDA_PREFIX", "conda");
    machine.set("LD_LIBRARY_PATH", "loader");
    machine.set("CUDA_PATH", "path");
    machine.set("CUDA_HOME", "home");
    let site = "venv/lib/python3.12/site-packages";
    for (directory, reason) in [
        ("home/lib64", "environment variable `CUDA_HOME`"),
        ("path/lib64", "environment variable `CUDA_PATH`"),
        ("disk/usr/lib64", "where the loader looks"),
        ("loader", "where the loader looks"),
        ("conda/lib", "environment variable `CONDA_PREFIX`"),
        (
            &format!("{site}/nvidia/cuda_runtime/lib"),
            "environment variable `VIRTUAL_ENV`",
        ),
    ] {
        assert!(machine.find("cudart", 13).is_err());
        let path = library(&machine.path(directory), "libcudart.so.12", &[]);
        let found = machine.find("cudart", 12).unwrap();
        assert_eq!(found.path(), path);
        assert!(found.reason().starts_with(reason), "{}", found.reason());
        assert!(found.needs().is_empty());
    }
}

#[test]
fn the_loaders_cache_is_read() {
    let machine = Machine::new();
    let path = library(&machine.path("deep"), "libcudart.so.12", &[]);
    let cache = machine.path("disk/etc/ld.so.cache");
    fs::create_dir_all(cache.parent().unwrap()).unwrap();
    let path_text = path.to_str().unwrap();
    fs::write(
        cache,
        format!("glibc-ld.so.cache1.1\u{1}\0libcudart.so.12\0{path_text}\0"),
    )
    .unwrap();
    assert_eq!(machine.find("cudart", 12).unwrap().path(), path);
}

#[test]
fn another_major_is_named_and_not_returned() {
    let mut machine = Machine::new();
    machine.set("CUDA_PATH", "eleven");
    machine.set("CUDA_HOME", "twelve");
    for soname in [
        "libcublas.so.11",
        "libcublasLt.so.11",
        "libcurand.so.10",
        "libcudart.so.11.0",
    ] {
        library(&machine.path("eleven/lib64"), soname, &[]);
    }
    fs::create_dir_all(machine.path("disk/usr/include")).unwrap();
    let error = machine.find("cublas", 12).unwrap_err();
    let message = error.to_string();
    assert!(!message.contains("usr/include"), "{message}");
    let expected =
        "`libcublas.so.12` (cublas for CUDA 12) was not found\n  tried beside the program (";
    assert!(message.starts_with(expected), "{message}");
    let expected = format!(
        "\n  tried environment variable `CUDA_PATH` ({}): `libcublas.so.11` is for CUDA 11",
        machine.path("eleven").display()
    );
    assert!(message.ends_with(&expected), "{message}");
    assert!(error.hints()[0].contains("`pip install nvidia-cublas-cu12`"));
    // The name of cuRAND does not show the major: the libraries beside it do.
    assert!(machine.find("curand", 12).is_err());
    assert!(machine.find("curand", 11).is_ok());
    library(&machine.path("twelve/lib64"), "libcudart.so.12", &[]);
    let path = library(&machine.path("twelve/lib64"), "libcurand.so.10", &[]);
    assert_eq!(machine.find("curand", 12).unwrap().path(), path);
    let alone = library(&machine.path("alone"), "libcurand.so.10", &[]);
    library(&machine.path("alone"), "libcublas.so.12", &[]);
    let error = machine.find("cusolver", 12).unwrap_err().to_string();
    assert!(error.contains("`libcusolver.so.11`"), "{error}");
    machine.set("LD_LIBRARY_PATH", "alone");
    assert_eq!(machine.find("curand", 12).unwrap().path(), alone);
}

#[test]
fn what_a_library_needs_comes_in_the_order_of_loading() {
    let mut machine = Machine::new();
    machine.set("VIRTUAL_ENV", "venv");
    let site = machine.path("venv/lib/python3.12/site-packages");
    let nvidia = site.join("nvidia");
    // These names are the same for two majors: the installed package shows which.
    for name in ["cusolver_cu12-11.6.1.9", "cusparse_cu12-12.3.1.170"] {
        let package = format!("nvidia_{name}.dist-info");
        fs::create_dir_all(site.join(package)).unwrap();
    }
    let jitlink = library(&nvidia.join("nvjitlink/lib"), "libnvJitLink.so.12", &[]);
    let lt = library(&nvidia.join("cublas/lib"), "libcublasLt.so.12", &[]);
    let cublas = library(&nvidia.join("cublas/lib"), "libcublas.so.12", &[&lt]);
    let sparse = &nvidia.join("cusparse/lib");
    let sparse = library(sparse, "libcusparse.so.12", &[&jitlink]);
    let solver = &nvidia.join("cusolver/lib");
    let solver = library(solver, "libcusolver.so.11", &[&cublas, &sparse, &jitlink]);
    library(solver.parent().unwrap(), "libcusolverMg.so.11", &[]);
    let found = machine.find("cusolver", 12).unwrap();
    assert_eq!(found.path(), solver);
    assert_eq!(
        found.needs(),
        [&lt, &cublas, &jitlink, &sparse].map(Clone::clone)
    );
    fs::remove_dir_all(nvidia.join("nvjitlink")).unwrap();
    let error = machine.find("cusolver", 12).unwrap_err().to_string();
    let expected = "`libnvJitLink.so.12` (nvjitlink for CUDA 12), which ";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn libraries_may_need_each_other_but_no_other_major() {
    let mut machine = Machine::new();
    machine.set("LD_LIBRARY_PATH", "loader");
    let lib = machine.path("loader");
    let lt = library(&lib, "libcublasLt.so.12", &[]);
    let cublas = library(&lib, "libcublas.so.12", &[&lt]);
    let lt = library(&lib, "libcublasLt.so.12", &[&cublas]);
    let found = machine.find("cublas", 12).unwrap();
    assert_eq!(found.needs(), [lt]);
    // cuDSS has one name for all majors.
    let thirteen = library(&lib, "libcublas.so.13", &[]);
    library(&lib, "libcudss.so.0", &[&thirteen]);
    let soname = ["libcudss.so.0", "libcudss.so.1"].map(|name| {
        library(&lib, name, &[&thirteen]);
        name
    });
    let error = machine.find("cudss", 12).unwrap_err().to_string();
    assert!(
        error.contains("is for CUDA 13, not 12"),
        "{soname:?} {error}"
    );
}

#[test]
fn nvrtc_needs_its_builtins() {
    let mut machine = Machine::new();
    machine.set("CUDA_PATH", "cuda");
    let lib = machine.path("cuda/lib64");
    let builtins = library(&lib, "libnvrtc-builtins.so.12.4", &[]);
    library(&lib, "libnvrtc-builtins.so.12.4.127", &[]);
    library(&lib, "libnvrtc.so.12", &[]);
    assert_eq!(machine.find("nvrtc", 12).unwrap().needs(), [builtins]);
}

#[test]
fn the_driver_is_never_a_stub() {
    let mut machine = Machine::new();
    library(&machine.path("cuda/lib64/stubs"), "libcuda.so.1", &[]);
    machine.set("LD_LIBRARY_PATH", "cuda/lib64/stubs");
    machine.set("CUDA_PATH", "cuda/lib64/stubs");
    assert!(machine.find("cuda-driver", 12).is_err());
    let path = library(&machine.path("disk/usr/lib64"), "libcuda.so.1", &[]);
    assert_eq!(machine.find("cuda-driver", 12).unwrap().path(), path);
}

#[test]
fn what_has_no_shared_library_is_an_error() {
    for (component, major) in [("nvcc", 12), ("cublass", 12), ("cublas", 99)] {
        assert!(
            runtime::library(component, major).is_err(),
            "{component} {major}"
        );
    }
    assert!(runtime::library(Component::Cutlass, 12).is_err());
}
