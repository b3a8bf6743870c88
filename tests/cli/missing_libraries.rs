//! After a failed build, a hint names the missing libraries and the command that adds them.

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

mod online {
    use super::*;

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
