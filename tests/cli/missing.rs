//! What is said after a build that failed: what it asked the toolkit for in vain, and nothing else.

use crate::components::offline;
use crate::project::Project;
use crate::support::Finished;
use crate::wheel_template::wheel;

/// As build scripts that compile CUDA libraries into the crate end.
const STATIC: &str = r#"
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-lib=static=cudart_static");
    if std::env::var_os("CARGO_FEATURE_DYNAMIC_LINK").is_some() {
        println!("cargo:rustc-link-lib=dylib=cudart");
        return;
    }
    println!("cargo:rustc-link-lib=static=cublas_static");
    println!("cargo:rustc-link-lib=static=cublasLt_static");
    println!("cargo:rustc-link-lib=static:+whole-archive=culibos");
}
"#;

const PACKAGE: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// A program above a crate with `build.rs`, on Python's packages of CUDA 13.
fn project(name: &str, script: &str) -> Option<Project> {
    let project = Project::bare(name, &[13])?;
    project.write(
        "Cargo.toml",
        &(PACKAGE.replace("NAME", "app")
            + "[dependencies]\nblas-sys = { path = \"sys\" }\n\
               [features]\ndynamic-link = [\"blas-sys/dynamic-link\"]\n[workspace]\n"),
    );
    project.write(
        "src/main.rs",
        "fn main() { println!(\"{}\", unsafe { blas_sys::cudaRuntimeGetVersion(&mut 0) }); }\n",
    );
    let features = "[features]\ndynamic-link = []\n";
    project.write(
        "sys/Cargo.toml",
        &(PACKAGE.replace("NAME", "blas-sys") + features),
    );
    project.write("sys/build.rs", script);
    project.write(
        "sys/src/lib.rs",
        "unsafe extern \"C\" { pub fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }\n",
    );
    Some(project)
}

#[test]
fn static_libraries_that_are_not_there_are_named() {
    let Some(project) = project("missing-static", STATIC) else {
        return;
    };
    let target = format!(
        "build.target='{}-unknown-linux-gnu'",
        std::env::consts::ARCH
    );
    // Twice: the script does not run again, and the answer is the same. Then where cargo has
    // another directory.
    for arguments in [
        &["build"][..],
        &["build"],
        &["build", "-vr"],
        &["build", "--config", &target],
    ] {
        let build = project.run(arguments);
        build.failed(
            101,
            &[
                // rustc names one of them.
                "could not find native static library `",
                "hint: this CUDA 13.4 has no static cublasLt_static, cublas_static, asked for by blas-sys; ",
                "Python's packages don't carry them",
                "`dynamic-link`",
                "CUDA_BUILD_ROOTS or CUDA_PATH",
            ],
        );
        assert_eq!(
            build.stderr.matches("hint: ").count(),
            1,
            "what is there is not named: {build:?}"
        );
    }
    // The advice helps, and what was asked for before is forgotten.
    project
        .run(&["build", "--features", "dynamic-link"])
        .succeeded();
    project.write("src/main.rs", "fn main() { let _: i32 = \"no number\"; }\n");
    let build = project.run(&["build", "--features", "dynamic-link"]);
    build.failed(101, &["mismatched types"]);
    assert!(!build.stderr.contains("hint: "), "{build:?}");
}

#[test]
fn shared_libraries_that_are_not_there_are_named() {
    let script = "fn main() { for name in [\"cudart\", \"cufft\", \"nothing-of-cuda\"] { \
                  println!(\"cargo:rustc-link-lib=dylib={name}\") } }\n";
    let Some(project) = project("missing-shared", script) else {
        return;
    };
    let build = project.run(&["build", "--profile", "test"]);
    build.failed(
        101,
        &["hint: this CUDA 13.4 has no shared library of cufft: `cargo cuda toolkit add 13 --components cufft`"],
    );
    assert_eq!(build.stderr.matches("hint: ").count(), 1, "{build:?}");
}

#[test]
fn a_wheel_that_misses_static_libraries_says_so_too() {
    let Some(project) = project("missing-wheel", STATIC) else {
        return;
    };
    project.write(
        "Cargo.toml",
        &(PACKAGE.replace("NAME", "app")
            + "[lib]\ncrate-type = [\"cdylib\"]\n[dependencies]\nblas-sys = { path = \"sys\" }\n\
               [package.metadata.cuda]\ncapabilities = [\"8.0\"]\n[workspace]\n"),
    );
    project.write("src/lib.rs", "pub use blas_sys::cudaRuntimeGetVersion;\n");
    let project_file = "[build-system]\nrequires = [\"maturin\"]\nbuild-backend = \"maturin\"\n\
                        [project]\nname = \"app\"\nversion = \"0.1.0\"\n[tool.maturin]\nbindings = \"cffi\"\n";
    project.write("pyproject.toml", project_file);
    let run = Finished::of(
        wheel(&project.path, &project.cache, &["--cuda", "13"])
            .output()
            .unwrap(),
    );
    let hint = "hint: this CUDA 13.4 has no static cublasLt_static, cublas_static, asked for by blas-sys; ";
    run.failed(
        cargo_cuda::exit_code::WHEEL,
        &[
            "could not find native static library `",
            "maturin ended",
            hint,
        ],
    );
}

#[test]
fn a_static_library_that_shared_builds_do_not_look_for() {
    let Some(project) = project("missing-shared-build", "") else {
        return;
    };
    std::fs::remove_file(project.path.join("sys/build.rs")).unwrap();
    let kind = "#[link(name = \"cudart_static\", kind = \"static\")]\n";
    let library = std::fs::read_to_string(project.path.join("sys/src/lib.rs")).unwrap();
    project.write("sys/src/lib.rs", &(kind.to_owned() + &library));
    let build = project.run(&["build"]);
    build.failed(
        101,
        &[
            "hint: this CUDA 13.4 has static cudart_static, and rustc does not look for it",
            "`--major 13`",
        ],
    );
    project.run(&["build", "--major", "13"]).succeeded();
}

#[test]
fn a_script_that_looks_for_cuda_and_fails_may_miss_a_library() {
    let Some(project) = project(
        "missing-script",
        "fn main() { panic!(\"no CUDA::cublas_static\") }\n",
    ) else {
        return;
    };
    let build = project.run(&["build"]);
    build.failed(
        101,
        &["hint: if the build script of blas-sys 0.1.0 looked for a library: this CUDA 13.4 has no shared ones of "],
    );
    // One that does not speak of CUDA has other worries.
    project.write("build.rs", "fn main() { panic!(\"no compiler\") }\n");
    project.write("sys/build.rs", STATIC);
    let build = project.run(&["build", "--features", "dynamic-link"]);
    build.failed(101, &["no compiler"]);
    assert!(!build.stderr.contains("hint: "), "{build:?}");
}

#[test]
fn other_failures_are_cargos_own() {
    if offline() {
        return;
    }
    let nothing = "fn main() { println!(\"cargo:rustc-link-lib=dylib=cudart\") }\n";
    let project = project("missing-nothing", nothing).unwrap();
    project.write(
        "src/main.rs",
        "fn main() { undeclared() }\n#[test]\nfn fails() { panic!() }\n",
    );
    for arguments in [&["build"][..], &["check"], &["test"]] {
        let build = project.run(arguments);
        build.ended_with(101, &["cannot find function `undeclared`"]);
        assert!(!build.stderr.contains("hint: "), "{build:?}");
    }
    project.write(
        "src/main.rs",
        "fn main() {}\n#[test]\nfn fails() { panic!() }\n",
    );
    let test = project.run(&["test"]);
    test.ended_with(101, &["test failed"]);
    assert!(!test.stderr.contains("hint: "), "{test:?}");
}
