//! `--fetch` for crates that declare nothing: components that enabled features name.

use std::fs;

use cargo_cuda::exit_code;

use crate::locked::Fetching;
use crate::project::Project;
use crate::support::Finished;

const PACKAGE: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// A program above a crate that links cuFile, as crates with bindings do.
fn write(project: &Project) {
    project.write(
        "Cargo.toml",
        &(PACKAGE.replace("NAME", "app")
            + "[dependencies]\nstorage-sys = { path = \"sys\" }\n\
               [features]\ndirect = [\"storage-sys/cufile\"]\n[workspace]\n"),
    );
    project.write("src/main.rs", "fn main() { storage_sys::none(); }\n");
    let _ = fs::remove_file(project.path.join("src/lib.rs"));
    project.write(
        "sys/Cargo.toml",
        &(PACKAGE.replace("NAME", "storage-sys") + "[features]\ncufile = []\n"),
    );
    project.write("sys/src/lib.rs", "pub fn none() {}\n");
    let script = "fn main() {\n    if std::env::var_os(\"CARGO_FEATURE_CUFILE\").is_some() {\n        \
                  println!(\"cargo:rustc-link-lib=dylib=cufile\");\n    }\n}\n";
    project.write("sys/build.rs", script);
}

const WITH_FEATURE: [&str; 5] = ["build", "--cuda", "12", "--features", "direct"];

mod online {
    use super::*;

    #[test]
    fn the_first_build_fetches_what_features_name() {
        let fetching = Fetching::new("guessed", "");
        write(&fetching.0);
        // Without the feature, nothing links cuFile.
        fetching.run(&["fetch", "--cuda", "12"]).succeeded();
        assert!(!fetching.lock().contains("cufile"));

        let build = fetching.run(&[&WITH_FEATURE[..], &["--fetch"]].concat());
        build.ended_with(
            exit_code::SUCCESS,
            &[
                "     Guessed cufile (feature `cufile` of storage-sys)\n",
                "      Locked CUDA 12.9",
                "commit this file",
            ],
        );
        let lock = fetching.lock();
        assert!(lock.contains("\"nvidia-cufile-cu12\""), "{lock}");
        let again = fetching.run(&WITH_FEATURE);
        again.succeeded();
        assert!(!again.stderr.contains("Guessed"), "{again:?}");

        // Another machine, with the lock file.
        fs::remove_dir_all(&fetching.0.cache).unwrap();
        let with = |value: &str| {
            let mut build = fetching.command(&[&WITH_FEATURE[..], &["--locked"]].concat());
            Finished::of(build.env("CUDA_BUILD_FETCH", value).output().unwrap())
        };
        with("0").failed(exit_code::LOCK, &["has not been fetched"]);
        with("1").succeeded();
        assert_eq!(fetching.lock(), lock);
    }

    #[test]
    fn a_guess_that_cannot_be_fetched_does_not_fail_a_build() {
        // There is no package of cuFile for CUDA 11.
        let project = Project::bare("guessed-in-vain", &[11]);
        write(&project);
        project.write("sys/build.rs", "fn main() {}\n");
        let build = ["build", "--cuda", "11", "--features", "direct", "--fetch"];
        project.run(&build).ended_with(
            exit_code::SUCCESS,
            &["note: cufile (feature `cufile` of storage-sys) was not fetched: it is not available"],
        );
    }

    /// The crate that most programs use CUDA through, with its real features, on an empty machine.
    #[test]
    #[ignore = "minutes: cudarc builds on an empty machine"]
    fn cudarc_builds_on_the_first_call() {
        let fetching = Fetching::new("guessed-cudarc", "");
        fetching.0.write(
        "Cargo.toml",
        &(PACKAGE.replace("NAME", "app")
            + "[workspace]\n[dependencies.cudarc]\nversion = \"0.19\"\ndefault-features = false\n\
               features = [\"std\", \"driver\", \"cublas\", \"curand\", \"cuda-version-from-build-system\", \
               \"dynamic-linking\"]\n"),
    );
        let _ = fs::remove_file(fetching.0.path.join("src/lib.rs"));
        let main = "fn main() {\n    let stream = || cudarc::driver::CudaContext::new(0).unwrap().default_stream();\n    \
                let blas = cudarc::cublas::CudaBlas::new(stream());\n    \
                let numbers = cudarc::curand::CudaRng::new(0, stream());\n    \
                println!(\"{} {}\", blas.is_ok(), numbers.is_ok());\n}\n";
        fetching.0.write("src/main.rs", main);
        let build = fetching.run(&["build", "--fetch"]);
        build.succeeded();
        let guessed =
            "Guessed cublas (feature `cublas` of cudarc), curand (feature `curand` of cudarc)";
        assert!(build.stderr.contains(guessed), "{build:?}");
    }

    #[test]
    fn doctor_foretells_what_the_linker_misses() {
        let project = Project::bare("foretold", &[13]);
        write(&project);
        let features = "[features]\ncufile = []\nopencl = []\n";
        let manifest = PACKAGE.replace("NAME", "storage-sys") + features;
        project.write("sys/Cargo.toml", &manifest);
        let with = |feature: &str| {
            let manifest = PACKAGE.replace("NAME", "app")
                + "[dependencies]\nstorage-sys = { path = \"sys\", features = [\""
                + feature
                + "\"] }\n[workspace]\n";
            project.write("Cargo.toml", &manifest);
            (project.run(&["doctor"]), project.run(&["build"]))
        };
        let (doctor, build) = with("cufile");
        doctor.ended_with(exit_code::NOT_FOUND, &[]);
        let verdict = "Not ready to build: missing cufile.\n";
        assert!(doctor.stdout.contains(verdict), "{doctor:?}");
        build.ended_with(101, &["-lcufile"]);
        // A name that other crates use.
        let (doctor, build) = with("opencl");
        doctor.succeeded();
        build.succeeded();
    }
}
