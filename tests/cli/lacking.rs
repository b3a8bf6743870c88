//! After a build that failed: what the toolkit lacks, and the command that adds it.

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
    for _ in 0..2 {
        project.run(&["build"]).failed(
            101,
            &[
                // rustc names one of them.
                "could not find native static library `",
                "hint: if the build looked for static libraries: this CUDA 13.4 has no static ",
                "cublas_static, ",
                "the Python packages do not contain them",
                "`dynamic-link`",
                "CUDA_BUILD_ROOTS or CUDA_PATH",
            ],
        );
    }
    // The advice helps.
    project
        .run(&["build", "--features", "dynamic-link"])
        .succeeded();
}

#[test]
fn shared_libraries_that_are_not_there_are_named() {
    let script = "fn main() { for name in [\"cudart\", \"cufft\"] { \
                  println!(\"cargo:rustc-link-lib=dylib={name}\") } }\n";
    let Some(project) = project("missing-shared", script) else {
        return;
    };
    let build = project.run(&["build", "--profile", "test"]);
    build.failed(
        101,
        &[
            "hint: if the build looked for a library: this CUDA 13.4 has no ",
            "cufft, ",
            "as in `components = [\"culibos\"]`, run `cargo cuda fetch`, and commit cuda-toolkits.lock",
        ],
    );
    assert!(
        !build.stderr.contains("cudart,"),
        "what is there: {build:?}"
    );
    for command in ["run", "test"] {
        let hint = "hint: if the build looked for a library: this CUDA 13.4 has no ";
        project.run(&[command]).failed(101, &[hint]);
    }
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
    let hint = "hint: if the build looked for static libraries: this CUDA 13.4 has no static ";
    run.failed(
        cargo_cuda::exit_code::WHEEL,
        &[
            "could not find native static library `",
            "maturin ended",
            hint,
        ],
    );
}

/// The exit code of a program or a test is not about the toolkit.
#[test]
fn a_test_that_fails_gives_no_hint() {
    if offline() {
        return;
    }
    let nothing = "fn main() { println!(\"cargo:rustc-link-lib=dylib=cudart\") }\n";
    let project = project("missing-nothing", nothing).unwrap();
    project.write(
        "src/main.rs",
        "fn main() {}\n#[test]\nfn fails() { panic!() }\n",
    );
    let test = project.run(&["test"]);
    test.ended_with(101, &["test failed"]);
    assert!(!test.stderr.contains("hint: "), "{test:?}");
    project.write("src/main.rs", "fn main() { panic!(\"at once\") }\n");
    let run = project.run(&["run"]);
    run.ended_with(101, &["at once"]);
    assert!(!run.stderr.contains("hint: "), "{run:?}");
}
