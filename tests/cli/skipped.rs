//! Builds without CUDA: `CUDA_BUILD_SKIP=1`, and `DOCS_RS` as docs.rs sets it.

use std::fs;
use std::process::Command;

use cargo_cuda::exit_code;

use crate::project::Project;
use crate::support::{Finished, with_tools};

const DECLARED: &str = "capabilities = [\"8.0\", \"9.0+PTX\"]";

const BUILD: &str = r#"//! Compiles two modules and a library.
use cuda_build::{Build, Format, Library, Module};

fn main() -> Result<(), cuda_build::Error> {
    let build = Build::new()?
        .module("scale.cu")
        .module(Module::new("scale.cu").named("text").format(Format::Ptx))
        .library(Library::new("answer").file("answer.cu"));
    let skipped = build.is_skipped();
    if !skipped {
        println!("cargo::rustc-env=CUDA_ROOT_OF_BUILD={}", build.view()?.root().display());
    }
    let built = build.run()?;
    assert_eq!(built.toolkit.is_none(), skipped);
    Ok(())
}
"#;

/// A strict crate.
const LIBRARY: &str = r#"//! Kernels.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs, warnings, unreachable_pub, unused_qualifications)]
#![deny(clippy::all, clippy::pedantic)]

/// What the build script made.
pub mod cuda {
    include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
}

/// The directory of CUDA.
pub const ROOT: Option<&str> = option_env!("CUDA_ROOT_OF_BUILD");
"#;

const MAIN: &str = r#"//! Prints what was built.
use without_cuda::{ROOT, cuda};

#[cfg(not(cuda_build_skipped))]
unsafe extern "C" {
    safe fn answer() -> i32;
}

#[cfg(cuda_build_skipped)]
fn answer() -> i32 {
    0
}

fn main() {
    let code = (cuda::modules::SCALE.len(), cuda::modules::TEXT.len());
    let with_code = code.0 > 0 && code.1 > 0;
    println!("{with_code} {} {}", ROOT.is_none(), answer());
    match cuda::check_device(8, 6) {
        Ok(support) => println!("{support}"),
        Err(error) => println!("{error}"),
    }
}

#[test]
#[cfg(not(cuda_build_skipped))]
fn calls_the_library() {
    assert_eq!(answer(), 42);
}

"#;

const WITHOUT: &str = "false true 0\n\
                       this build has no GPU code, because `DOCS_RS` or `CUDA_BUILD_SKIP` was set when it was built\n";
const WITH: &str = "true false 42\nmachine code\n";

fn project(name: &str, majors: &[u32]) -> Project {
    let project = Project::new(name, majors, DECLARED, BUILD, MAIN);
    let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
    let library = "\n[lib]\nname = \"without_cuda\"\n";
    project.write("Cargo.toml", &(manifest + library));
    project.write("src/lib.rs", LIBRARY);
    let scale = "extern \"C\" __global__ void scale(float *x) { *x *= 2; }\n";
    project.write("scale.cu", scale);
    let answer = "__global__ void k() {}\nextern \"C\" int answer() { return 42; }\n";
    project.write("answer.cu", answer);
    project
}

fn cargo(project: &Project, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let mut cargo = Command::new("cargo");
    project.prepare(&mut cargo);
    cargo.args(arguments).envs(variables.iter().copied());
    Finished::of(cargo.output().unwrap())
}

const SKIP: (&str, &str) = ("CUDA_BUILD_SKIP", "1");
/// A search would fail, because the directory does not exist.
const NO_CUDA: (&str, &str) = ("CUDA_BUILD_ROOTS", "/nonexistent");

#[test]
fn lints_documentation_and_tests_need_no_cuda() {
    let project = project("without-cuda", &[]);
    let warning = |variable: &str| format!("built without CUDA, because `{variable}` is set");
    let clippy = cargo(&project, &["clippy", "--all-targets"], &[SKIP, NO_CUDA]);
    clippy.ended_with(0, &[&warning("CUDA_BUILD_SKIP")]);
    assert_eq!(clippy.stderr.matches("warning:").count(), 1, "{clippy:?}");
    let docs = cargo(&project, &["doc"], &[("DOCS_RS", "1"), NO_CUDA]);
    docs.ended_with(0, &[&warning("DOCS_RS")]);
    let test = cargo(&project, &["test"], &[SKIP, NO_CUDA]);
    test.succeeded();
    assert!(!test.stdout.contains("calls_the_library"), "{test:?}");

    let run = cargo(&project, &["run"], &[NO_CUDA]);
    run.failed(101, &["`CUDA_BUILD_ROOTS`", "/nonexistent"]);
}

mod online {
    use super::*;

    #[test]
    fn skipped_and_real_builds_follow_each_other() {
        let project = project("skipped-and-real", &[13]);
        let docs_rs = ("DOCS_RS", "1");
        let outputs = || {
            let out = fs::read_dir(project.out("skipped-and-real", "cuda_build.rs")).unwrap();
            let mut outputs = out.map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
            outputs.retain(|path| {
                let ending = path.extension().and_then(|ending| ending.to_str());
                matches!(ending, Some("a" | "fatbin" | "o" | "ptx"))
            });
            outputs.sort();
            let time = |path: &std::path::PathBuf| fs::metadata(path).unwrap().modified().unwrap();
            let times = outputs.iter().map(time).collect::<Vec<_>>();
            (outputs, times)
        };
        let mut after_each = Vec::new();
        for (variables, printed) in [
            (&[SKIP][..], WITHOUT),
            (&[], WITH),
            (&[docs_rs], WITHOUT),
            (&[docs_rs, ("CUDA_BUILD_SKIP", "0")], WITH),
        ] {
            let run = cargo(&project, &["run"], variables);
            run.succeeded();
            assert_eq!(run.stdout, printed, "{variables:?}: {run:?}");
            after_each.push(outputs());
        }
        // The outputs of the first real build are still up to date.
        assert_eq!(after_each[1].0.len(), 4, "{after_each:?}");
        assert_eq!(after_each[1], after_each[3]);
        let clippy = cargo(&project, &["clippy", "--all-targets"], &[]);
        clippy.succeeded();
        assert!(!clippy.stderr.contains("warning:"), "{clippy:?}");
    }

    /// Without CUDA code, the package would be installed and fail on every GPU.
    #[test]
    fn python_packages_are_not_built_without_cuda() {
        let project = Project::template("python", &[13]);
        let hook = ["pep517", "build-wheel", "out", "--python", "python3"];
        for (arguments, variable) in [
            (&["wheel", "--cuda", "13"][..], "CUDA_BUILD_SKIP"),
            (&["wheel", "--cuda", "13"], "DOCS_RS"),
            (&hook, "CUDA_BUILD_SKIP"),
        ] {
            let text =
                format!("`{variable}` is set, so the package would be built without CUDA code");
            let mut refused = project.command(arguments);
            refused.env("PATH", with_tools()).env(variable, "1");
            let refused = Finished::of(refused.output().unwrap());
            let hint = format!("hint: unset `{variable}`");
            refused.failed(exit_code::CONFIGURATION, &[&text, &hint]);
        }
        // Variables in Cargo's configuration reach build scripts too.
        project.write(".cargo/config.toml", "[env]\nCUDA_BUILD_SKIP = \"1\"\n");
        let wheel = project.run(&["wheel", "--cuda", "13"]);
        wheel.failed(exit_code::CONFIGURATION, &["`CUDA_BUILD_SKIP` is set"]);
    }
}
