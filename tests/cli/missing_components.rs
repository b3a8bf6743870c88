//! After a failed build, a hint names what is missing and the command that adds it; `--fetch` adds it.

use crate::locked::Fetching;
use crate::project::Project;

/// A build script that links CUDA's static libraries, as many published ones do.
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
}
"#;

const PACKAGE: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// A program above a crate with `build.rs`, on Python's packages of CUDA 13.
fn project(name: &str) -> Project {
    let project = Project::bare(name, &[13]);
    let rest = "[dependencies]\nblas-sys = { path = \"sys\" }\n\
                [features]\ndynamic-link = [\"blas-sys/dynamic-link\"]\n[workspace]\n";
    project.write("Cargo.toml", &(PACKAGE.replace("NAME", "app") + rest));
    let main =
        "fn main() { println!(\"{}\", unsafe { blas_sys::cudaRuntimeGetVersion(&mut 0) }); }\n";
    project.write("src/main.rs", main);
    let features = "[features]\ndynamic-link = []\n";
    let manifest = PACKAGE.replace("NAME", "blas-sys") + features;
    project.write("sys/Cargo.toml", &manifest);
    let function =
        "unsafe extern \"C\" { pub fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }\n";
    project.write("sys/src/lib.rs", function);
    project
}

/// A build script that calls nvcc.
const NVCC: &str = r#"
fn main() {
    let nvcc = std::path::Path::new(&std::env::var_os("CUDA_HOME").unwrap()).join("bin/nvcc");
    let arguments = ["-c", "a.cu", "-o", "/dev/null"];
    let status = std::process::Command::new(nvcc).args(arguments).status().unwrap();
    assert!(status.success());
}
"#;

mod online {
    use super::*;

    #[test]
    fn a_missing_header_is_fetched_once() {
        let fetching = Fetching(Project::bare_at("missing-header", "plain", &[13]));
        let project = &fetching.0;
        project.write(
            "Cargo.toml",
            &(PACKAGE.replace("NAME", "app") + "[workspace]\n"),
        );
        project.write("build.rs", NVCC);
        project.write("a.cu", "#include <curand.h>\n");
        project.write(
            "src/main.rs",
            "fn main() { println!(\"started\"); std::process::exit(101) }\n",
        );
        let build = fetching.run(&["build"]);
        let error = "a.cu:1:10: fatal error: curand.h: No such file or directory";
        let hint = "hint: `curand.h` is in the component `curand`: add it to `components` in \
                    `[package.metadata.cuda]`, and run `cargo cuda fetch`\n";
        build.failed(101, &[error]);
        assert!(build.stderr.ends_with(hint), "{build:?}");

        let run = fetching.run(&["run", "--fetch"]);
        let steps = [
            "     Guessed curand (`curand.h` is missing)\n",
            "    Retrying `cargo run` with curand\n",
        ];
        run.ended_with(101, &steps);
        assert_eq!(run.stdout, "started\n", "{run:?}");
        assert!(!run.stderr.contains("hint: "), "{run:?}");
        assert!(fetching.lock().contains("\"nvidia-curand\""));
        // A type error is not the fault of CUDA, and nothing is tried twice.
        project.write(
            "build.rs",
            "fn main() { println!(\"cargo:rustc-link-lib=cufft\") }\n",
        );
        project.write("src/main.rs", "fn main() { 1 }\n");
        let build = fetching.run(&["build", "--fetch"]);
        build.ended_with(101, &["mismatched types"]);
        assert!(
            !build.stderr.contains("hint: ") && !build.stderr.contains("Retrying"),
            "{build:?}"
        );
    }

    #[test]
    fn libraries_that_the_toolkit_lacks_are_named() {
        let project = project("missing-libraries");
        let panics = "fn main() { panic!(\"no libnvjpeg\") }\n";
        project.write("sys/build.rs", panics);
        let run = project.run(&["build"]);
        run.ended_with(101, &["no libnvjpeg"]);
        assert!(!run.stderr.contains("hint: "), "{run:?}");

        project.write("sys/build.rs", STATIC);
        let hint = "hint: a build script links cublas_static, cublasLt_static, but this CUDA 13.4 has no such static \
                    library, and the Python packages of CUDA do not contain static libraries";
        let words = [
            // rustc names one of them.
            "could not find native static library `",
            hint,
            "feature for dynamic linking",
            "`CUDA_BUILD_ROOTS`",
        ];
        project.run(&["build"]).failed(101, &words);
        // The advice helps.
        let advice = ["build", "--features", "dynamic-link"];
        project.run(&advice).succeeded();

        let script = "fn main() { for name in [\"cudart\", \"cufft\", \"cudnn\"] { \
                      println!(\"cargo:rustc-link-lib=dylib={name}\") } }\n";
        project.write("sys/build.rs", script);
        let hint = "hint: a build script links cufft, cudnn, which this CUDA 13.4 does not have; declare \
                    `components = [\"cufft\", \"cudnn\"]` in `[package.metadata.cuda]`, and run `cargo cuda fetch`";
        for arguments in [&["build", "--profile", "test"][..], &["run"]] {
            let run = project.run(arguments);
            run.failed(101, &[hint]);
            assert_eq!(run.stderr.matches("hint: ").count(), 1, "{run:?}");
        }
    }
}
