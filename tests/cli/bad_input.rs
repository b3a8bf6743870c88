//! What goes wrong on users' machines: a clear message, a documented exit code, nothing half done.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Stdio;

use cargo_cuda::exit_code;

use crate::components::{fetch, offline};
use crate::project::Project;
use crate::support::{Finished, python, uv};
use crate::tools::tool;

const BUILD: &str = r#"
use cuda_build::{Build, Engine, Library, Module};

fn main() -> Result<(), cuda_build::Error> {
    let engine = if std::path::Path::new("by-nvcc").exists() { Engine::Nvcc } else { Engine::Nvrtc };
    let mut build = Build::new()?.module(Module::new("kernels/scale.cu").engine(engine));
    if std::path::Path::new("kernels/host code.cu").exists() {
        build = build
            .module(Module::new("kernels/größe.cu").engine(Engine::Nvcc))
            .library(Library::new("host").file("kernels/host code.cu"));
    }
    build.run()?;
    Ok(())
}
"#;

const KERNEL: &str =
    "#include \"factor.cuh\"\nextern \"C\" __global__ void scale(float *p) { *p *= FACTOR; }\n";

pub(super) const CAPABILITIES: &str = "capabilities = [\"8.0\", \"9.0+PTX\"]";

pub(super) fn project(name: &str, majors: &[u32], cuda: &str) -> Option<Project> {
    filled(Project::new(name, majors, cuda, BUILD, "fn main() {}\n")?)
}

fn filled(project: Project) -> Option<Project> {
    project.write("kernels/scale.cu", KERNEL);
    project.write("kernels/factor.cuh", "#define FACTOR 2.0f\n");
    Some(project)
}

/// Programs that a build needs, and the installers that are asked for.
fn path_with(project: &Project, installers: &[(&str, &Path)]) -> std::path::PathBuf {
    let bin = project.path.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let link =
        |name: &str, program: &Path| std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap();
    link("cargo", Path::new(&cargo));
    link("rustc", &Path::new(&cargo).with_file_name("rustc"));
    for (name, program) in installers {
        link(name, program);
    }
    bin
}

#[test]
fn fetching_without_an_installer_or_an_index() {
    // No components are needed, but where they may not be fetched uv may not either.
    let Some(project) = project("no-installer", &[], CAPABILITIES) else {
        return;
    };
    if offline() || Path::new("/usr/local/cuda").exists() {
        return;
    }
    let bin = path_with(&project, &[]);
    let mut build = project.command(&["build", "--fetch"]);
    let run = Finished::of(build.env("PATH", &bin).output().unwrap());
    run.failed(
        exit_code::NO_INSTALLER,
        &["`uv`", "`python3 -m pip`", "hint: install uv"],
    );

    fs::remove_dir_all(&bin).unwrap();
    let bin = path_with(&project, &[("uv", uv()), ("python3", python())]);
    let mut build = project.command(&["build", "--fetch"]);
    build
        .env("PATH", &bin)
        .env("UV_INDEX_URL", "http://127.0.0.1:9/simple")
        .env("UV_HTTP_RETRIES", "0");
    let run = Finished::of(
        build
            .env("UV_CACHE_DIR", project.path.join("uv"))
            .output()
            .unwrap(),
    );
    run.failed(
        exit_code::INDEX,
        &[
            "could not be reached",
            "127.0.0.1:9",
            "hint: check the network",
        ],
    );

    let stored: Vec<_> = fs::read_dir(project.cache.join("toolkits"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(
        stored
            .iter()
            .all(|name| name.to_str().unwrap().starts_with('.')),
        "{stored:?}"
    );
    assert!(!project.path.join("cuda-toolkits.lock").exists());
}

#[test]
fn capabilities_that_the_toolkit_cannot_do() {
    let Some(project) = project("cannot-do", &[13], CAPABILITIES) else {
        return;
    };
    for (list, words) in [
        (
            "7.0",
            [
                "capability 7.0 was removed in CUDA 13.0",
                "hint: remove 7.0 for CUDA 13",
            ],
        ),
        (
            "8.0,10.1",
            [
                "capability 10.1 is called 11.0 from CUDA 13.0 on",
                "hint: write 11.0 for CUDA 13",
            ],
        ),
        (
            "8.0x",
            [
                "`8.0x` is not a compute capability",
                "hint: write a capability as `8.0`",
            ],
        ),
    ] {
        project
            .run(&["build", "--capabilities", list])
            .failed(exit_code::CAPABILITY, &words);
    }
    project.run(&["build", "--capabilities", ""]).failed(
        exit_code::USAGE,
        &["a value is required for '--capabilities"],
    );
    project
        .run(&["build", "--cuda", "3"])
        .failed(exit_code::USAGE, &["CUDA `3` is not supported"]);

    // What the manifest declares is checked before cargo starts, too.
    let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
    project.write("Cargo.toml", &manifest.replace("\"8.0\"", "\"7.0\""));
    project.run(&["build"]).failed(
        exit_code::CAPABILITY,
        &[
            "capability 7.0 was removed in CUDA 13.0",
            "hint: remove 7.0",
        ],
    );
    // `doctor` says so without a build.
    let doctor = project.run(&["doctor", "-v"]);
    doctor.ended_with(exit_code::CAPABILITY, &[]);
    assert!(
        doctor
            .stdout
            .contains("cannot-do: capability 7.0 was removed"),
        "{doctor:?}"
    );

    project.write("Cargo.toml", &manifest.replace(CAPABILITIES, ""));
    let has_gpu = Path::new("/dev/nvidiactl").exists();
    if !has_gpu {
        let undeclared = [
            "no compute capability is declared, and this machine has no GPU",
            "capabilities = [",
        ];
        project.run(&["build"]).failed(101, &undeclared);
        let doctor = project.run(&["doctor", "-v"]);
        assert!(
            doctor
                .stdout
                .contains("cannot-do: no capabilities are declared, and this machine has no GPU"),
            "{doctor:?}"
        );
    }

    project.write(
        "Cargo.toml",
        &manifest.replace(
            CAPABILITIES,
            "toolkit = \">=12, <13\"\ncapabilities = [\"8.0\"]",
        ),
    );
    let contradiction = project.run(&["build", "--cuda", "13"]);
    contradiction.failed(
        exit_code::NOT_FOUND,
        &[
            "`toolkit = \">=12, <13\"`",
            "excludes it: change one of them",
        ],
    );
    let other = project.run(&["build"]);
    other.failed(
        exit_code::NOT_FOUND,
        &[
            "has CUDA 13.4",
            "hint: fetch them with `cargo cuda toolkit add 12`",
        ],
    );
}

#[test]
fn a_path_that_json_cannot_hold_is_refused_before_anything_is_written() {
    let Some(project) = project("path-of-bytes", &[13], CAPABILITIES) else {
        return;
    };
    let path = project.path.join(OsStr::from_bytes(b"bytes\xff"));
    let mut view = project.command(&["view", "--components", "cudart", "--json", "--output"]);
    let run = Finished::of(view.arg(&path).output().unwrap());
    run.failed(
        exit_code::USAGE,
        &[
            "error: the path ",
            "is not UTF-8, so --json cannot print it",
        ],
    );
    assert!(!path.exists(), "{run:?}");
    let mut view = project.command(&["view", "--components", "cudart", "--json"]);
    view.current_dir("/").env("CUDA_BUILD_VIEWS", &path);
    let run = Finished::of(view.output().unwrap());
    run.failed(
        exit_code::CONFIGURATION,
        &["is not UTF-8, so --json cannot print it"],
    );
    assert!(!path.exists(), "{run:?}");
    // Without JSON it is a path as any other.
    let mut view = project.command(&["view", "--components", "cudart", "--output"]);
    Finished::of(view.arg(&path).output().unwrap()).succeeded();
    assert!(path.join("lib/libcudart.so").exists());
}

#[test]
fn cuda_12_0_does_not_know_blackwell() {
    if offline() {
        return;
    }
    let own = |project: Project| project.alone(&[]);
    let Some(project) = project("cuda-12-0", &[], CAPABILITIES).and_then(own) else {
        return;
    };
    let stored = fetch("12.0");
    let link = project
        .cache
        .join("toolkits")
        .join(stored.file_name().unwrap());
    std::os::unix::fs::symlink(&stored, link).unwrap();
    let words = [
        "capability 12.0 needs CUDA 12.8 or newer; this toolkit is 12.0",
        "hint: use CUDA 12.8",
    ];
    project
        .run(&["build", "--capabilities", "8.0,12.0"])
        .failed(exit_code::CAPABILITY, &words);
    project.run(&["build"]).succeeded();
}

#[test]
fn an_error_in_the_code_is_told_with_file_and_line() {
    let Some(project) = project("syntax-error", &[13], CAPABILITIES) else {
        return;
    };
    project.run(&["build"]).succeeded();
    let out = project.out("syntax-error");
    project.write(
        "kernels/scale.cu",
        "#include \"factor.cuh\"\n\n__global__ void scale(float *p) { *p = FACTR; }\n",
    );
    for (engine, words) in [
        (
            "NVRTC",
            [
                "NVRTC 13.4.92 could not compile kernels/scale.cu",
                "kernels/scale.cu(3): error",
            ],
        ),
        (
            "nvcc",
            [
                "nvcc 13.4.92 could not compile kernels/scale.cu",
                "kernels/scale.cu(3): error",
            ],
        ),
    ] {
        if engine == "nvcc" {
            project.write("by-nvcc", "");
            project.write("build.rs", &format!("{BUILD}// again\n"));
        }
        let run = project.run(&["build"]);
        run.failed(101, &words);
        run.failed(101, &["\"FACTR\" is undefined"]);
        // Neither the old output with a claim to be fresh, nor half a new one.
        assert!(!out.join("scale.fatbin.stamp").exists());
        assert!(!out.join("scale.fatbin.part").exists());
    }
    // In a header, the header is named.
    project.write("kernels/scale.cu", KERNEL);
    project.write(
        "kernels/factor.cuh",
        "#define FACTOR 2.0f\n__device__ int broken( { return 1; }\n",
    );
    project
        .run(&["build"])
        .failed(101, &["kernels/factor.cuh(2): error"]);

    fs::remove_file(project.path.join("kernels/factor.cuh")).unwrap();
    project.run(&["build"]).failed(101, &["factor.cuh"]);
    fs::remove_file(project.path.join("kernels/scale.cu")).unwrap();
    project
        .run(&["build"])
        .failed(101, &["source file", "kernels/scale.cu does not exist"]);
    project.write("kernels/scale.cu", KERNEL);
    project.write("kernels/factor.cuh", "#define FACTOR 2.0f\n");
    project.run(&["build"]).succeeded();
}

#[test]
fn spaces_and_other_letters_in_every_path() {
    let main = "unsafe extern \"C\" { fn three() -> i32; }\nfn main() { println!(\"{}\", unsafe { three() }) }\n";
    let declared = "components = [\"cudart\"]\ncapabilities = [\"8.0\", \"9.0+PTX\"]";
    let made = Project::at(
        "other-letters",
        "größe и 测 a",
        &[13],
        declared,
        BUILD,
        main,
    );
    let Some(project) = made.and_then(filled) else {
        return;
    };
    project.write(
        "kernels/größe.cu",
        &KERNEL.replace("factor", "größen faktor"),
    );
    project.write("kernels/größen faktor.cuh", "#define FACTOR 3.0f\n");
    let host = "#include \"größen faktor.cuh\"\n__global__ void k(float *p) { *p = FACTOR; }\n\
                extern \"C\" int three() { return int(FACTOR); }\n";
    project.write("kernels/host code.cu", host);
    let run = project.run(&["run"]);
    run.succeeded();
    assert_eq!(run.stdout, "3\n");
    let (library, module) = ("libhost.a", "größe.fatbin");
    let out = project.out("other-letters");
    assert!(
        out.join(library).is_file()
            && out.join(module).is_file()
            && out.join("scale.fatbin").is_file()
    );

    // Its headers are watched under their true names.
    project.write("kernels/größen faktor.cuh", "#define FACTOR 4.0f\n");
    let run = project.run(&["run"]);
    assert_eq!(run.stdout, "4\n", "{run:?}");
    let again = project.run(&["run", "-v"]);
    assert!(again.stderr.contains("Fresh other-letters"), "{again:?}");
}

#[test]
fn two_builds_at_once() {
    let Some(project) = project("at-once", &[12, 13], CAPABILITIES) else {
        return;
    };
    let start = |major: &str| {
        let mut command = project.command(&["build", "--cuda", major]);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let runs = [start("13"), start("12"), start("13")];
    for run in runs {
        Finished::of(run.wait_with_output().unwrap()).succeeded();
    }
    let seen = |major: &str| {
        project.run(&["build", "--cuda", major]).succeeded();
        // Something to do, so that the build that is meant is the last one.
        project.write("build.rs", &format!("{BUILD}// {major}\n"));
        project.run(&["build", "--cuda", major]).succeeded();
        fs::read_to_string(project.out("at-once").join("cuda_build.rs")).unwrap()
    };
    assert!(seen("12").contains("(12, 9)"));
    assert!(seen("13").contains("(13, 4)"));
}

#[test]
fn no_maturin() {
    let own = |project: Project| project.alone(&[12, 13]);
    let Some(project) = Project::template("python", &[12, 13]).and_then(own) else {
        return;
    };
    let bin = path_with(&project, &[]);
    let mut wheel = project.command(&["wheel", "--cuda", "12,13"]);
    wheel.env("PATH", &bin);
    let run = Finished::of(wheel.output().unwrap());
    run.failed(
        exit_code::MISSING_PROGRAM,
        &[
            "neither `maturin` nor `uvx` is on `PATH`",
            "hint: ",
            "`--fetch`",
        ],
    );
    assert!(!project.path.join("dist").exists());

    // One that an earlier `--fetch` left is used, and then the toolkit is what is missing.
    let fetched = project.cache.join("tools/maturin-1.16.0/bin");
    fs::create_dir_all(&fetched).unwrap();
    std::os::unix::fs::symlink(tool("maturin"), fetched.join("maturin")).unwrap();
    let mut wheel = project.command(&["wheel", "--cuda", "11"]);
    let run = Finished::of(wheel.env("PATH", &bin).output().unwrap());
    run.failed(exit_code::NOT_FOUND, &["CUDA 11"]);

    let target = ["--", "--target", "x86_64-pc-windows-msvc"];
    let mut wheel = project.command(&[&["wheel", "--cuda", "13"][..], &target].concat());
    let run = Finished::of(wheel.env("PATH", &bin).output().unwrap());
    run.failed(
        exit_code::USAGE,
        &["target `x86_64-pc-windows-msvc` is not supported", "hint: "],
    );
    assert!(!project.path.join("dist").exists());
}
