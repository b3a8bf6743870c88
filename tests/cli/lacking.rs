//! After a build that failed: what the toolkit lacks, and the command that adds it.

use crate::components::offline;
use crate::project::{Project, checkout};
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
                "hint: a build script links culibos, which this CUDA 13.4 does not have; ",
                "as in `components = [\"culibos\"]`, run `cargo cuda fetch`, and commit cuda-toolkits.lock",
                "hint: a build script links cublas_static, cublasLt_static, and this CUDA 13.4 has no such static library; ",
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
            "hint: a build script links cufft, which this CUDA 13.4 does not have; ",
            "as in `components = [\"cufft\"]`, run `cargo cuda fetch`, and commit cuda-toolkits.lock",
        ],
    );
    assert_eq!(build.stderr.matches("hint: ").count(), 1, "{build:?}");
    for command in ["run", "test"] {
        let hint = "hint: a build script links cufft, which this CUDA 13.4 does not have; ";
        project.run(&[command]).failed(101, &[hint]);
    }
}

#[test]
fn a_script_that_fails_is_named() {
    let script = "fn main() { panic!(\"no libnvjpeg\") }\n";
    let Some(project) = project("failed-script", script) else {
        return;
    };
    let build = project.run(&["build"]);
    let hint = "hint: if the build script of blas-sys looked for a library: this CUDA 13.4 has no ";
    build.failed(101, &["no libnvjpeg", hint, "nvjpeg, "]);
    // The next build fails for another reason.
    project.write("sys/build.rs", "fn main() {}\n");
    project.write("src/main.rs", "fn main() { 1 + }\n");
    let build = project.run(&["build"]);
    build.ended_with(101, &["expected expression"]);
    assert!(!build.stderr.contains("hint: "), "{build:?}");
}

#[test]
fn an_error_in_a_kernel_has_no_hint_about_libraries() {
    let Some(project) = Project::bare("wrong-kernel", &[13]) else {
        return;
    };
    let dependency = format!(
        "[build-dependencies]\ncuda-build = {{ path = {:?} }}\n",
        checkout().join("cuda-build")
    );
    project.write(
        "Cargo.toml",
        &(PACKAGE.replace("NAME", "app")
            + &dependency
            + "[package.metadata.cuda]\ncapabilities = [\"8.0\"]\n[workspace]\n"),
    );
    let script = "fn main() -> Result<(), cuda_build::Error> { cuda_build::Build::new()?.module(\"a.cu\").run()?; Ok(()) }\n";
    project.write("build.rs", script);
    project.write("src/main.rs", "fn main() {}\n");
    project.write("a.cu", "extern \"C\" __global__ void a() { 1 + }\n");
    let build = project.run(&["build"]);
    build.ended_with(101, &["could not compile a.cu", "expected an expression"]);
    assert!(!build.stderr.contains("build script of"), "{build:?}");
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
    let hint = "hint: a build script links cublas_static, cublasLt_static, and this CUDA 13.4 has no such static library";
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
