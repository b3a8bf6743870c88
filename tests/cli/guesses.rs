//! `--fetch` for crates that declare nothing: components that enabled features name.

use std::fs;

use cargo_cuda::exit_code;

use crate::locked::Fetching;
use crate::project::{self, Project};
use crate::support::Finished;

const PACKAGE: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// A program above a crate that links cuFile, as crates with bindings do.
fn write(project: &Project) {
    project.write(
        "Cargo.toml",
        &(PACKAGE.replace("NAME", "app")
            + "[dependencies]\nstorage-sys = { path = \"sys\", features = [\"culibos\"] }\n\
               [features]\ndirect = [\"storage-sys/cufile\"]\n[workspace]\n"),
    );
    project.write("src/main.rs", "fn main() { storage_sys::none(); }\n");
    project.write(
        "sys/Cargo.toml",
        &(PACKAGE.replace("NAME", "storage-sys") + "[features]\nculibos = []\ncufile = []\n"),
    );
    project.write("sys/src/lib.rs", "pub fn none() {}\n");
    let script = "fn main() {\n    if std::env::var_os(\"CARGO_FEATURE_CUFILE\").is_some() {\n        \
                  println!(\"cargo:rustc-link-lib=dylib=cufile\");\n    }\n}\n";
    project.write("sys/build.rs", script);
}

const WITH_FEATURE: [&str; 5] = ["build", "--cuda", "12", "--features", "direct"];

#[test]
fn the_first_build_fetches_what_features_name() {
    let Some(fetching) = Fetching::new("guessed", "") else {
        return;
    };
    write(&fetching.0);
    let _ = fs::remove_file(fetching.0.path.join("src/lib.rs"));
    // Without the feature, nothing links cuFile.
    let first = fetching.run(&["fetch", "--cuda", "12"]);
    first.succeeded();
    assert!(!fetching.lock().contains("cufile"), "{first:?}");

    let build = fetching.run(&[&WITH_FEATURE[..], &["--fetch"]].concat());
    build.ended_with(
        exit_code::SUCCESS,
        &[
            "     Guessed culibos (feature `culibos` of storage-sys), cufile (feature `cufile` of storage-sys)\n",
            "note: culibos (feature `culibos` of storage-sys) was not fetched: the package index has no such component for CUDA 12.9",
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
fn a_guess_is_fetched_for_the_release_that_is_found() {
    let Some(fetching) = Fetching::new("guessed-release", "") else {
        return;
    };
    write(&fetching.0);
    let _ = fs::remove_file(fetching.0.path.join("src/lib.rs"));
    // CUDA 13.5 is newer.
    project::store(&fetching.0.cache, &[13]).unwrap();
    fetching
        .run(&["build", "--features", "direct", "--fetch"])
        .succeeded();
    let lock = fetching.lock();
    assert!(
        lock.contains("request = \"13.4\"\nversion = \"13.4."),
        "{lock}"
    );
    assert!(lock.contains("\"nvidia-cufile\""), "{lock}");
}

#[test]
fn features_of_the_command_line_count_for_fetch() {
    let Some(fetching) = Fetching::new("guessed-features", "") else {
        return;
    };
    write(&fetching.0);
    let _ = fs::remove_file(fetching.0.path.join("src/lib.rs"));
    let fetch = ["fetch", "--cuda", "12", "--all-features"];
    fetching.run(&fetch).succeeded();
    assert!(fetching.lock().contains("\"nvidia-cufile-cu12\""));
    fetching.run(&WITH_FEATURE).succeeded();
}

#[test]
fn a_guess_that_cannot_be_fetched_does_not_fail_a_build() {
    let Some(project) = Project::bare("guessed-offline", &[12]) else {
        return;
    };
    write(&project);
    let manifest = project.path.join("sys/build.rs");
    fs::write(manifest, "fn main() {}\n").unwrap();
    let mut build = project.command(&[&WITH_FEATURE[..], &["--fetch"]].concat());
    let index = "http://127.0.0.1:9/simple";
    build
        .env("UV_INDEX_URL", index)
        .env("UV_HTTP_RETRIES", "0")
        .env("PIP_INDEX_URL", index)
        .env("PIP_RETRIES", "0")
        .env("PIP_FIND_LINKS", "");
    Finished::of(build.output().unwrap()).ended_with(
        exit_code::SUCCESS,
        &["note: could not fetch what the build may need: the package index could not be reached"],
    );
}

#[test]
fn a_wrong_manifest_is_reported_before_anything_is_fetched() {
    let Some(fetching) = Fetching::new("guessed-wrong", "") else {
        return;
    };
    fs::remove_dir_all(&fetching.0.cache).unwrap();
    let manifest = PACKAGE.replace("NAME", "app")
        + "[dependencies]\nlost = { path = \"../lost\" }\n\n[workspace]\n";
    fetching.0.write("Cargo.toml", &manifest);
    for command in [&["build", "--fetch"][..], &["fetch"]] {
        let run = fetching.run(command);
        run.failed(
            exit_code::FAILURE,
            &["failed to load manifest for dependency `lost`"],
        );
        assert!(!fetching.0.cache.exists(), "{run:?}");
    }
}

/// The crate that most programs use CUDA through, with its real features, on an empty machine.
#[test]
#[ignore = "minutes"]
fn cudarc_builds_on_the_first_call() {
    let Some(fetching) = Fetching::new("guessed-cudarc", "") else {
        return;
    };
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
    let Some(project) = Project::bare("foretold", &[13]) else {
        return;
    };
    write(&project);
    project.write(
        "sys/Cargo.toml",
        &(PACKAGE.replace("NAME", "storage-sys")
            + "[features]\ncufile = []\ncurand = []\ndynamic-loading = []\n\
               cuobjdump = []\nopencl = []\n"),
    );
    let with = |features: &str| {
        let manifest = PACKAGE.replace("NAME", "app")
            + "[dependencies]\nstorage-sys = { path = \"sys\", features = ["
            + features
            + "] }\n[workspace]\n";
        project.write("Cargo.toml", &manifest);
        (project.run(&["doctor"]), project.run(&["build"]))
    };
    let (doctor, build) = with("\"cufile\"");
    doctor.ended_with(exit_code::NOT_FOUND, &[]);
    let verdict = "Not ready to build: missing cufile.\n";
    assert!(doctor.stdout.contains(verdict), "{doctor:?}");
    build.ended_with(101, &["-lcufile"]);
    // Nothing links it, and the crate's feature for loading shows that.
    let (doctor, build) = with("\"curand\", \"dynamic-loading\"");
    doctor.succeeded();
    let row = "the feature `curand` of storage-sys needs it when a program runs";
    assert!(doctor.stdout.contains(row), "{doctor:?}");
    build.succeeded();
    // A component without libraries that is found, and a name that other crates use.
    let (doctor, build) = with("\"cuobjdump\", \"opencl\"");
    doctor.succeeded();
    assert!(!doctor.stdout.contains("needs it"), "{doctor:?}");
    build.succeeded();
}

#[test]
fn doctor_does_not_fetch() {
    let Some(project) = Project::bare("doctor-offline", &[13]) else {
        return;
    };
    let manifest = PACKAGE.replace("NAME", "app")
        + "[dependencies]\nnot-in-any-cache = \"1\"\n\n[workspace]\n";
    project.write("Cargo.toml", &manifest);
    project.write("src/lib.rs", "");
    let mut doctor = project.command(&["doctor"]);
    doctor
        .env("CUDA_BUILD_FETCH", "1")
        .env("CARGO_NET_OFFLINE", "true");
    let doctor = Finished::of(doctor.output().unwrap());
    doctor.succeeded();
    assert!(doctor.stdout.contains("Ready to build"), "{doctor:?}");
}
