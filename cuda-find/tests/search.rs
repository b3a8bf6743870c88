//! The first page as a build script of another crate uses it, on small toolkits in temporary directories.
#![cfg(unix)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "prepares real directories"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use cuda_find::{Component, ErrorKind, Kind, Search, System};

const NVCC: &str = "#!/bin/sh\ntouch \"$(dirname \"$0\")/started\"\n\
                    echo 'Cuda compilation tools, release 12.4, V12.4.131'\n";

fn write(at: &Path, file: &str, text: &str) {
    let path = at.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
}

/// CUDA 12.4 with a stub of the driver's library.
fn toolkit(at: &Path) {
    for (file, text) in [
        ("include/cuda.h", "#define CUDA_VERSION 12040\n"),
        ("include/cuda_runtime.h", ""),
        ("include/cublas_v2.h", ""),
        ("include/curand.h", ""),
        ("lib64/libcudart.so.12", ""),
        ("lib64/libcudart_static.a", ""),
        ("lib64/libcublas.so.12", ""),
        ("lib64/libcublasLt.so.12", ""),
        ("lib64/libcublas_static.a", ""),
        ("lib64/libculibos.a", ""),
        ("lib64/libcurand.so.10", ""),
        ("lib64/stubs/libcuda.so", ""),
        ("include/fatbinary_section.h", ""),
        ("bin/nvcc", NVCC),
        ("bin/ptxas", NVCC),
    ] {
        write(at, file, text);
    }
    for program in ["bin/nvcc", "bin/ptxas"] {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(at.join(program), mode).unwrap();
    }
}

/// A machine with an empty disk and these variables.
fn system(disk: &Path, variables: &[(&str, &Path)]) -> System {
    System::current()
        .with_disk_root(disk)
        .with_target("x86_64-unknown-linux-gnu")
        .with_variables(variables.iter().copied())
}

#[test]
fn files_directories_and_lines_of_what_was_requested() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    toolkit(root);
    let search = || Search::on(system(&root.join("empty"), &[("CUDA_HOME", root)]));
    let found = search()
        .need(Component::Cublas)
        .need_kind("curand", Kind::Headers)
        .need_optional("cudnn")
        .need("nvcc")
        .release(">=12, <14")
        .find()
        .unwrap();
    assert_eq!(found.release().to_string(), "12.4");
    assert_eq!(found.nvcc().unwrap(), root.join("bin/nvcc"));
    assert_eq!(found.include_dirs(), [root.join("include")]);
    assert_eq!(found.library_dirs(), [root.join("lib64")]);
    let cublas = found.component("cublas").unwrap();
    assert_eq!(cublas.component(), Component::Cublas);
    assert!(
        cublas
            .origin()
            .starts_with("environment variable `CUDA_HOME`")
    );
    assert_eq!(
        cublas.files(Kind::Shared)[0],
        root.join("lib64/libcublas.so.12")
    );
    assert_eq!(
        cublas.files(Kind::Static),
        [root.join("lib64/libcublas_static.a")]
    );
    assert_eq!(cublas.dirs(Kind::Headers), [root.join("include")]);
    assert_eq!(cublas.dirs(Kind::Static), [root.join("lib64")]);
    assert!(cublas.files(Kind::Stub).is_empty());
    let nvcc = found.component("nvcc").unwrap();
    assert_eq!(nvcc.version().unwrap().to_string(), "12.4.131");
    assert_eq!(nvcc.dirs(Kind::Program), [root.join("bin")]);
    assert_eq!(
        found.component("cudnn").unwrap_err().kind(),
        ErrorKind::Usage
    );
    let lines = found.cargo_directives();
    let library = root.join("lib64");
    for line in [
        format!("cargo::rustc-link-search=native={}", library.display()),
        "cargo::rustc-link-lib=dylib:+verbatim=libcublas.so.12".to_owned(),
        format!(
            "cargo::rerun-if-changed={}/libcublas.so.12",
            library.display()
        ),
        // Variables that are set, and those that were looked for in vain.
        "cargo::rerun-if-env-changed=CUDA_HOME".to_owned(),
        "cargo::rerun-if-env-changed=CUDA_BUILD_ROOTS".to_owned(),
    ] {
        assert!(lines.contains(&line), "no {line} in\n{}", lines.join("\n"));
    }
    let linked = lines.iter().filter(|line| line.contains("rustc-link-lib"));
    assert_eq!(linked.count(), 1, "headers and programs are not linked");
    for (search, kind, expected) in [
        (
            search().need("cublass"),
            ErrorKind::Usage,
            "known: cudart, cuda-driver",
        ),
        (
            search().release("new"),
            ErrorKind::Usage,
            "`new` is not a version requirement",
        ),
        (
            search().need("cudart").release(">=13"),
            ErrorKind::NotFound,
            "has CUDA 12.4",
        ),
        (
            search().need("cudart").place("/nowhere"),
            ErrorKind::NamedPlace,
            "/nowhere",
        ),
        (
            search().need_kind("curand", Kind::Static),
            ErrorKind::NotFound,
            "curand",
        ),
    ] {
        let error = search.find().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(format!("{error:?}").contains("hint: "));
    }
}

#[test]
fn another_library_of_a_component_is_linked_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    toolkit(root);
    let search = || Search::on(system(&root.join("empty"), &[("CUDA_HOME", root)]));
    let lines = |search: Search| search.find().unwrap().cargo_directives().join("\n");
    let printed = lines(search().need_library("cublasLt"));
    assert!(
        printed.contains("rustc-link-lib=dylib:+verbatim=libcublasLt.so.12"),
        "{printed}"
    );
    assert!(
        !printed.contains("rustc-link-lib=dylib:+verbatim=libcublas.so.12"),
        "{printed}"
    );
    let printed = lines(search().need("cublas").without_linking());
    assert!(!printed.contains("rustc-link"), "{printed}");
    assert!(printed.contains("rerun-if-changed"), "{printed}");
    for (library, expected) in [
        (
            "cublasXt",
            "no CUDA component has a library `libcublasXt.so`",
        ),
        ("nvblas", "`libnvblas.so` of `cublas` was not found"),
    ] {
        let error = search().need_library(library).find().unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    let printed = lines(search().need_library("cuda"));
    assert!(printed.contains("rustc-link-lib=dylib=cuda"), "{printed}");
}

#[test]
fn archives_are_linked_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    toolkit(root);
    let search = Search::on(system(&root.join("empty"), &[("CUDA_PATH", root)]))
        .need_kind("cudart", Kind::Static)
        .need_kind("cublas", Kind::Static);
    let found = search.find().unwrap();
    let lines = found.cargo_directives().join("\n");
    for name in [
        "static=cudart_static",
        "static=cublas_static",
        "static=culibos",
        "dylib=dl",
    ] {
        let line = format!("rustc-link-lib={name}");
        assert!(lines.contains(&line), "no {line} in\n{lines}");
    }
    assert!(!lines.contains("libcublas.so.12\ncargo::rustc-link"));
    // culibos comes after the archives that need it, and what is linked is watched.
    let search = Search::on(system(&root.join("empty"), &[("CUDA_PATH", root)]))
        .need_kind("culibos", Kind::Static)
        .need_kind("cublas", Kind::Static);
    let lines = search.find().unwrap().cargo_directives().join("\n");
    let archive = root.join("lib64/libcublas_static.a");
    let line = format!("rerun-if-changed={}", archive.display());
    assert!(lines.contains(&line), "no {line} in\n{lines}");
}

#[test]
fn the_driver_is_linked_by_the_stub_of_the_toolkit() {
    let directory = tempfile::tempdir().unwrap();
    let (root, disk) = (directory.path().join("cuda"), directory.path().join("disk"));
    toolkit(&root);
    let search = || Search::on(system(&disk, &[("CUDA_HOME", &root)])).need("cuda-driver");
    let found = search().find().unwrap();
    let stubs = root.join("lib64/stubs");
    let lines = found.cargo_directives().join("\n");
    let expected = format!(
        "cargo::rustc-link-search=native={}\ncargo::rustc-link-lib=dylib=cuda\n",
        stubs.display()
    );
    assert!(lines.starts_with(&expected), "{lines}");
    let driver = found.component(Component::Driver).unwrap();
    assert_eq!(driver.files(Kind::Stub), [stubs.join("libcuda.so")]);
    assert!(!found.library_dirs().contains(&stubs));

    fs::remove_dir_all(&stubs).unwrap();
    let error = search().find().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let expected = format!(
        "`libcuda.so` of `cuda-driver` was not found\n  tried environment variable `CUDA_HOME` ({}): it has no \
         `stubs/libcuda.so`",
        root.display()
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
    let optional = Search::on(system(&disk, &[("CUDA_HOME", &root)])).need_optional("cuda-driver");
    let found = optional.find().unwrap();
    assert!(found.component("cuda-driver").is_err());
    let lines = found.cargo_directives().join("\n");
    assert!(!lines.contains("rustc-link-lib"), "{lines}");

    // A stub of elsewhere, and what is in the working directory, are not the driver's.
    let elsewhere = directory.path().join("stubs");
    write(&elsewhere, "libcuda.so", "");
    for path in [&elsewhere, Path::new("relative")] {
        let system = system(&disk, &[("CUDA_HOME", &root), ("LIBRARY_PATH", path)]);
        assert!(Search::on(system).need("cuda-driver").find().is_err());
    }
    // The driver's own library, in a directory that every linker searches.
    write(&disk, "usr/lib/x86_64-linux-gnu/libcuda.so", "");
    let found = search().find().unwrap();
    let lines = found.cargo_directives().join("\n");
    assert!(
        lines.starts_with("cargo::rustc-link-lib=dylib=cuda\n"),
        "{lines}"
    );
    let headers = search().need_kind("cuda-driver", Kind::Headers).find();
    let driver = headers.unwrap();
    let driver = driver.component("cuda-driver").unwrap();
    assert_eq!(driver.include_dirs(), [root.join("include")]);
    // nvml's headers are a component of a toolkit, its library is the driver's.
    let error = search().need("nvml").find().unwrap_err().to_string();
    assert!(error.contains("`libnvidia-ml.so`"), "{error}");
}

#[test]
fn nvcc_is_not_started_on_request_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (root, home) = (directory.path().join("cuda"), directory.path().join("home"));
    toolkit(&root);
    fs::create_dir(&home).unwrap();
    let variables: &[(&str, &Path)] = &[("CUDA_HOME", &root), ("HOME", &home)];
    let disk = directory.path().join("empty");
    let search = || Search::on(system(&disk, variables)).need("nvcc");
    let found = search().without_running_nvcc().find().unwrap();
    assert_eq!(found.release().to_string(), "12.4");
    assert_eq!(found.nvcc().unwrap(), root.join("bin/nvcc"));
    let started = root.join("bin/started");
    assert!(!started.exists());

    search().find().unwrap();
    assert!(started.exists());
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
}

#[test]
fn capabilities_are_read_checked_and_written() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    toolkit(root);
    let search = Search::on(system(&root.join("empty"), &[("CUDA_HOME", root)])).need("cudart");
    let found = search.find().unwrap();
    let capabilities = found.capabilities("80;sm_90a, 8.9+PTX").unwrap();
    assert_eq!(capabilities.to_string(), "8.0, 8.9+PTX, 9.0a");
    assert_eq!(capabilities.cmake(), "80-real;89-real;90a-real;89-virtual");
    assert_eq!(
        capabilities.nvcc_args(),
        [
            "-gencode=arch=compute_80,code=sm_80",
            "-gencode=arch=compute_89,code=sm_89",
            "-gencode=arch=compute_90a,code=sm_90a",
            "-gencode=arch=compute_89,code=compute_89",
        ]
    );
    let numbers = capabilities.numbers();
    assert_eq!((numbers[2].number(), numbers.len()), (90, 3));
    for (list, expected) in [
        ("10.0", "needs CUDA 12.8"),
        ("ninety", "not a compute capability"),
        ("native", "there is none"),
    ] {
        let error = found.capabilities(list).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Capability);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn servers_and_jetson_boards_have_different_directories() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for (platform, minor) in [("sbsa-linux", "40"), ("aarch64-linux", "60")] {
        let text = format!("#define CUDA_VERSION 120{minor}\n");
        let platform = format!("targets/{platform}");
        write(root, &format!("{platform}/include/cuda.h"), &text);
        write(root, &format!("{platform}/include/cuda_runtime.h"), "");
        write(root, &format!("{platform}/lib/libcudart.so.12"), "");
    }
    let release = |is_jetson: bool| {
        let system = system(&root.join("empty"), &[("CUDA_HOME", root)])
            .with_target("aarch64-unknown-linux-gnu")
            .with_jetson(is_jetson);
        let found = Search::on(system).need("cudart").find().unwrap();
        found.release().to_string()
    };
    assert_eq!(
        (release(false), release(true)),
        ("12.4".into(), "12.6".into())
    );
}

#[test]
fn other_platforms_are_refused_with_the_reason() {
    let system = System::current().with_target("aarch64-apple-darwin");
    let error = Search::on(system).need("cudart").find().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedTarget);
    assert!(error.to_string().contains("is not supported"), "{error}");
}
