//! Builds without CUDA: `CUDA_BUILD_SKIP=1`, and `DOCS_RS` as docs.rs sets it.

use std::fs;
use std::process::Command;

use cargo_cuda::exit_code;

use crate::components::offline;
use crate::project::{Project, checkout, copy, place, point_to_checkout};
use crate::support::{Finished, python};
use crate::tools;

/// The optional component is declared for CUDA 11 only, so no build here finds it.
const DECLARED: &str = "capabilities = [\"8.0\", \"9.0+PTX\"]\n\
                        [package.metadata.cuda.major.11]\n\
                        components = [{ name = \"cudnn\", optional = true }]";

const BUILD: &str = r#"//! Compiles two modules and a library.
use cuda_build::{Build, Format, Library, Module};

fn main() -> Result<(), cuda_build::Error> {
    let build = Build::new()?
        .module("scale.cu")
        .module(Module::new("scale.cu").named("text").format(Format::Ptx))
        .library(Library::new("answer").file("answer.cu"))
        .root_variable("CUDA_ROOT_OF_BUILD");
    let skipped = build.is_skipped();
    if !skipped {
        build.view()?;
    }
    let built = build.run()?;
    assert_eq!(built.toolkit.is_none(), skipped);
    Ok(())
}
"#;

/// A strict crate; its second module is private and uses nothing of the source.
const LIBRARY: &str = r#"//! Kernels.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs, warnings, unreachable_pub, unused_qualifications)]
#![deny(clippy::all, clippy::pedantic)]

/// What the build script made.
pub mod cuda {
    include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
}

mod unused {
    include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
}

/// Whether the optional component was found.
pub const WITH_CUDNN: bool = cfg!(cuda_have_cudnn);

/// The directory of CUDA.
pub const ROOT: &str = env!("CUDA_ROOT_OF_BUILD");
"#;

const MAIN: &str = r#"//! Prints what was built.
use without_cuda::{ROOT, WITH_CUDNN, cuda};

#[cfg(not(cuda_build_skipped))]
fn answer() -> i32 {
    unsafe extern "C" {
        fn answer() -> i32;
    }
    unsafe { answer() }
}

#[cfg(cuda_build_skipped)]
fn answer() -> i32 {
    0
}

fn main() {
    let code = (cuda::modules::SCALE.len(), cuda::modules::TEXT.len());
    let described = match code {
        (0, 0) => "no code",
        (0, _) | (_, 0) => "some code",
        _ => "code",
    };
    println!("{described} {WITH_CUDNN} {} {}", ROOT.is_empty(), answer());
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

#[test]
fn a_module_has_an_address_that_a_driver_can_read() {
    assert_eq!(cuda::modules::SCALE.as_ptr() as usize % 16, 0);
}
"#;

const WITHOUT: &str = "no code false true 0\n\
                       this build has no GPU code, because `DOCS_RS` or `CUDA_BUILD_SKIP` was set when it was built\n";
const WITH: &str = "code false false 42\nmachine code\n";

fn project(name: &str, majors: &[u32]) -> Option<Project> {
    let project = Project::new(name, majors, DECLARED, BUILD, MAIN)?;
    let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
    let library = "\n[lib]\nname = \"without_cuda\"\n";
    project.write("Cargo.toml", &(manifest + library));
    project.write("src/lib.rs", LIBRARY);
    project.write(
        "scale.cu",
        "extern \"C\" __global__ void scale(float *x) { *x *= 2; }\n",
    );
    project.write(
        "answer.cu",
        "__global__ void k() {}\nextern \"C\" int answer() { return 42; }\n",
    );
    Some(project)
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
    let project = project("without-cuda", &[]).unwrap();
    let warning = |variable: &str| format!("built without CUDA, because `{variable}` is set");
    for edition in ["2021", "2024"] {
        let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
        let other = if edition == "2021" { "2024" } else { "2021" };
        let manifest = manifest.replace(
            &format!("edition = \"{other}\""),
            &format!("edition = \"{edition}\""),
        );
        project.write("Cargo.toml", &manifest);
        let clippy = ["clippy", "--all-targets"];
        let clippy = cargo(&project, &clippy, &[SKIP, NO_CUDA]);
        clippy.ended_with(0, &[&warning("CUDA_BUILD_SKIP")]);
        assert_eq!(clippy.stderr.matches("warning:").count(), 1, "{clippy:?}");
    }
    let docs = cargo(&project, &["doc"], &[("DOCS_RS", "1"), NO_CUDA]);
    docs.ended_with(0, &[&warning("DOCS_RS")]);
    let test = cargo(&project, &["test"], &[SKIP, NO_CUDA]);
    test.succeeded();
    assert!(!test.stdout.contains("calls_the_library"), "{test:?}");
    assert!(test.stdout.contains("a_module_has_an_address"), "{test:?}");

    let run = cargo(&project, &["run"], &[NO_CUDA]);
    run.failed(101, &["`CUDA_BUILD_ROOTS`", "/nonexistent"]);
    let wrong = ("CUDA_BUILD_SKIP", "maybe");
    cargo(&project, &["check"], &[wrong])
        .failed(101, &["CUDA_BUILD_SKIP", "`maybe` is neither `1`"]);
}

#[test]
fn skipped_and_real_builds_follow_each_other() {
    let Some(project) = project("skipped-and-real", &[13]) else {
        return;
    };
    let docs_rs = ("DOCS_RS", "1");
    for (variables, printed) in [
        (&[SKIP][..], WITHOUT),
        (&[], WITH),
        (&[docs_rs], WITHOUT),
        (&[docs_rs, ("CUDA_BUILD_SKIP", "0")], WITH),
        (&[("CUDA_BUILD_SKIP", "")], WITH),
        (&[SKIP], WITHOUT),
        (&[], WITH),
    ] {
        let run = cargo(&project, &["run"], variables);
        run.succeeded();
        assert_eq!(run.stdout, printed, "{variables:?}: {run:?}");
    }
    // The outputs of the first real build are still up to date.
    let output = project.out("skipped-and-real").with_file_name("output");
    let output = fs::read_to_string(output).unwrap();
    assert!(output.contains("0 made, 4 up to date"), "{output}");
    let clippy = cargo(&project, &["clippy", "--all-targets"], &[]);
    clippy.succeeded();
    assert!(!clippy.stderr.contains("warning:"), "{clippy:?}");
}

/// The build script alone, because a test machine has no standard library of other platforms.
#[test]
fn other_platforms_can_be_skipped() {
    let project = project("skipped-elsewhere", &[]).unwrap();
    cargo(&project, &["check"], &[SKIP]).succeeded();
    let out = project.out("skipped-elsewhere");
    let scripts = fs::read_dir(project.target.join("debug/build")).unwrap();
    let script = scripts
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().contains("skipped-elsewhere-"))
        .map(|path| path.join("build-script-build"))
        .find(|path| path.is_file())
        .unwrap();
    let linux = fs::read_to_string(out.join("cuda_build.rs")).unwrap();
    for (triple, reason) in [
        ("x86_64-pc-windows-msvc", "the files of CUDA for Linux only"),
        (
            "x86_64-pc-windows-gnu",
            "nvcc on Windows needs Microsoft's compiler",
        ),
        ("aarch64-apple-darwin", "no CUDA for macOS"),
        ("x86_64-unknown-linux-musl", "need the GNU C library"),
    ] {
        let out = project.path.join(triple);
        fs::create_dir(&out).unwrap();
        let run = |skip: &str| {
            let mut script = Command::new(&script);
            project.prepare(&mut script);
            script
                .env("CARGO_MANIFEST_DIR", &project.path)
                .env("CARGO_MANIFEST_LINKS", "scale")
                .env("OUT_DIR", &out)
                .env("TARGET", triple)
                .env("CUDA_BUILD_SKIP", skip);
            Finished::of(script.output().unwrap())
        };
        let skipped = run("1");
        skipped.succeeded();
        let lines: Vec<&str> = skipped.stdout.lines().collect();
        assert_eq!(
            lines[..5],
            [
                "cargo::rustc-check-cfg=cfg(cuda_build_skipped)",
                "cargo::rustc-cfg=cuda_build_skipped",
                "cargo::rustc-check-cfg=cfg(cuda_have_cudnn)",
                "cargo::rustc-env=CUDA_ROOT_OF_BUILD=",
                "cargo::warning=built without CUDA, because `CUDA_BUILD_SKIP` is set: modules are empty, and nothing \
                 is linked",
            ]
        );
        let rerun = |line: &&str| line.starts_with("cargo::rerun-if-");
        assert!(lines[5..].iter().all(rerun), "{skipped:?}");
        for name in ["DOCS_RS", "CUDA_BUILD_SKIP"] {
            assert!(
                skipped
                    .stdout
                    .contains(&format!("cargo::rerun-if-env-changed={name}\n"))
            );
        }
        assert_eq!(
            fs::read_to_string(out.join("cuda_build.rs")).unwrap(),
            linux
        );
        let words = [
            triple,
            "is not supported",
            reason,
            "hint: ",
            "`CUDA_BUILD_SKIP=1`",
        ];
        run("0").failed(1, &words);
    }
}

#[test]
fn a_script_that_needs_a_toolkit_is_refused() {
    let build = "fn main() {\n    cuda_build::Build::new().unwrap().view().unwrap();\n}\n";
    let project = Project::new("skipped-view", &[], "", build, "fn main() {}\n").unwrap();
    let words = [
        "because `DOCS_RS` is set, but the build script needs one",
        "hint: unset `DOCS_RS`; or, in build.rs, call only `Build::run` if `Build::is_skipped` returns true",
    ];
    cargo(&project, &["check"], &[("DOCS_RS", "1")]).failed(101, &words);
}

/// Without CUDA code, the package would be installed and fail on every GPU.
#[test]
fn python_packages_are_not_built_without_cuda() {
    let place = place("skipped-python");
    let package = place.join("saxpy");
    copy(&checkout().join("templates/python"), &package);
    point_to_checkout(&package.join("Cargo.toml"));
    fs::create_dir_all(place.join("venv/bin")).unwrap();
    std::os::unix::fs::symlink(python(), place.join("venv/bin/python")).unwrap();
    let python = python().to_str().unwrap();
    let cuda = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        let own = Project {
            path: package.clone(),
            cache: place.join("cache"),
            target: place.join("target"),
        };
        own.prepare(&mut command);
        command.arg("cuda").args(arguments);
        command.env("VIRTUAL_ENV", place.join("venv"));
        command
    };
    let hook = |name| ["pep517", name, "out", "--python", python];
    let hooks = ["build-wheel", "build-editable", "prepare-metadata"].map(hook);
    let mut commands = vec![&["wheel", "--cuda", "13"][..], &["develop"]];
    // The build backend looks for maturin first.
    if !offline() {
        commands.extend(hooks.iter().map(|hook| &hook[..]));
    }
    for arguments in commands {
        for variable in ["CUDA_BUILD_SKIP", "DOCS_RS"] {
            let text = format!(
                "`{variable}` is set, so the Python package would be built without CUDA code"
            );
            let words = [&*text, &format!("hint: unset `{variable}`")];
            let mut refused = cuda(arguments);
            if !offline() {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let own = std::iter::once(tools::directory().to_owned());
                let path = own.chain(std::env::split_paths(&path));
                refused.env("PATH", std::env::join_paths(path).unwrap());
            }
            let refused = refused.env(variable, "1").output().unwrap();
            Finished::of(refused).failed(exit_code::CONFIGURATION, &words);
        }
    }
    // Variables in Cargo's configuration reach build scripts too.
    fs::create_dir(package.join(".cargo")).unwrap();
    fs::write(
        package.join(".cargo/config.toml"),
        "[env]\nCUDA_BUILD_SKIP = \"1\"\n",
    )
    .unwrap();
    let wheel = Finished::of(cuda(&["wheel", "--cuda", "13"]).output().unwrap());
    wheel.failed(exit_code::CONFIGURATION, &["`CUDA_BUILD_SKIP` is set"]);
}
