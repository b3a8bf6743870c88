//! `cargo cuda new`, and the packages that it makes.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::build::cuobjdump;
use crate::project::{Project, WITH_CUBLAS};
use crate::support::{Finished, with_tools};
use crate::wheels::wheels;

/// `cargo cuda …` in a directory.
fn cargo_cuda(directory: &Path, arguments: &[&str]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    command.arg("cuda").args(arguments).current_dir(directory);
    Finished::of(command.output().unwrap())
}

fn text(directory: &Path, file: &str) -> String {
    let path = directory.join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn new_makes_a_package_from_a_template() {
    let place = tempfile::tempdir().unwrap();
    let run = cargo_cuda(place.path(), &["new", "my-app"]);
    run.succeeded();
    let next = "next commands:\n  cd my-app\n  cargo cuda run --fetch\n";
    assert_eq!(run.stdout, next);
    let package = place.path().join("my-app");
    for file in ["build.rs", "kernels/saxpy.cu", "src/main.rs"] {
        assert!(package.join(file).exists(), "{file}");
    }
    let manifest = text(&package, "Cargo.toml");
    let git = concat!("git = \"", env!("CARGO_PKG_REPOSITORY"), "\"");
    for own in ["name = \"my-app\"", "[package.metadata.cuda]", git] {
        assert!(manifest.contains(own), "{manifest}");
    }
    assert!(!manifest.contains("../.."), "{manifest}");
    let again = cargo_cuda(place.path(), &["new", "my-app"]);
    again.ended_with(2, &["my-app exists", "hint: "]);
    cargo_cuda(place.path(), &["new", "my app"]).ended_with(2, &["`my app`", "hint: "]);
    let python = ["new", "a dir/own-ext", "--template", "python"];
    let run = cargo_cuda(place.path(), &python);
    run.succeeded();
    let next = "\n  cd 'a dir/own-ext'\n  cargo cuda wheel --fetch\n";
    assert!(run.stdout.contains(next), "{run:?}");
    let package = place.path().join("a dir/own-ext");
    assert!(package.join(".gitignore").is_file());
    assert!(package.join("python/own_ext/__init__.py").is_file());
    let project = text(&package, "pyproject.toml");
    assert!(project.contains("\nname = \"own-ext\"\n"), "{project}");
    assert!(
        project.contains("module-name = \"own_ext._native\""),
        "{project}"
    );
}

#[test]
fn a_new_package_in_a_workspace_is_independent() {
    let place = tempfile::tempdir().unwrap();
    let root = "[workspace]\nresolver = \"3\"\nmembers = []\n";
    fs::write(place.path().join("Cargo.toml"), root).unwrap();
    cargo_cuda(place.path(), &["new", "inner"]).succeeded();
    assert_eq!(text(place.path(), "Cargo.toml"), root);
    let arguments = ["metadata", "--no-deps", "--format-version=1"];
    let metadata = Command::new("cargo")
        .args(arguments)
        .current_dir(place.path().join("inner"))
        .output();
    let metadata = Finished::of(metadata.unwrap()).json();
    let workspace = place.path().join("inner");
    assert_eq!(metadata["workspace_root"], workspace.to_str().unwrap());
}

mod online {
    use super::*;

    /// A package outside of the checkout.
    fn made(template: &str, name: &str) -> (TempDir, Project) {
        let place = tempfile::tempdir().unwrap();
        let project = Project::from_template(place.path(), template, name, &[13]);
        (place, project)
    }

    /// A command with the tools on `PATH`.
    fn prepared(mut command: Command) -> Command {
        command.env("PATH", with_tools());
        command.env("CMAKE_GENERATOR", "Ninja");
        command
    }

    const CLIPPY: [&str; 5] = ["clippy", "--all-targets", "--", "-D", "warnings"];

    #[track_caller]
    fn run(project: &Project, arguments: &[&str]) -> Finished {
        let run = Finished::of(prepared(project.command(arguments)).output().unwrap());
        run.succeeded();
        run
    }

    #[test]
    #[ignore = "minutes: each template builds, and its tests pass"]
    fn programs_of_templates_build_and_their_tests_pass() {
        for (template, tests) in [
            ("library", &["test"][..]),
            ("module-cudarc", &["test"]),
            ("cmake", &["test"]),
            // It links the driver, so that its tests start only where one is installed.
            ("module-cust", &["test", "--no-run"]),
        ] {
            let name = format!("my-{template}");
            let (_place, project) = made(template, &name);
            run(&project, &CLIPPY);
            run(&project, &["build"]);
            assert!(project.program(&name).is_file());
            let tested = run(&project, tests);
            if template != "module-cust" {
                works_without_cuda(&project);
            }
            if template == "module-cudarc" {
                assert!(tested.stdout.contains("the_module_has_the_kernel ... ok"));
                assert!(
                    run(&project, &["run"])
                        .stdout
                        .starts_with("built with CUDA 13.")
                );
            }
            let passed = tested.stdout.contains("test result: ok. ");
            assert!(passed || template == "module-cust", "{tested:?}");
        }
    }

    fn works_without_cuda(project: &Project) {
        for arguments in [&CLIPPY[..], &["test"]] {
            let mut cargo = Command::new("cargo");
            project.prepare(cargo.args(arguments));
            let finished = cargo.env("CUDA_BUILD_SKIP", "1").output();
            Finished::of(finished.unwrap()).succeeded();
        }
    }

    #[test]
    #[ignore = "minutes: CMake compiles for the declared capabilities"]
    fn the_cmake_template_compiles_for_the_declared_capabilities() {
        let (_place, project) = made("cmake", "with-cmake");
        // `cargo cuda` would also set `CUDAARCHS`, which CMake reads.
        let mut cargo = prepared(Command::new("cargo"));
        project.prepare(cargo.args(["build", "--quiet"]));
        Finished::of(cargo.output().unwrap()).succeeded();
        let real = ["100", "120", "80", "90"].map(|number| format!("sm_{number}.cubin"));
        let mut expected = [&real[..], &["sm_120.ptx".to_owned()]].concat();
        expected.sort();
        assert_eq!(cuobjdump(&project.program("with-cmake")), expected);
    }

    #[test]
    #[ignore = "minutes: the sys template links cuBLAS"]
    fn the_sys_template_calls_cublas() {
        let (_place, project) = made("sys", "thing-sys");
        let with_cublas = |project: &Project, arguments: &[&str]| {
            let mut command = project.command(arguments);
            command.env("CUDA_BUILD_ROOTS", wheels(&WITH_CUBLAS));
            Finished::of(command.output().unwrap())
        };
        with_cublas(&project, &CLIPPY).succeeded();
        let tested = with_cublas(&project, &["test"]);
        assert!(
            tested.stdout.contains("cublas_reports_its_version ... ok"),
            "{tested:?}"
        );
    }
}
