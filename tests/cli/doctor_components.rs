//! `cargo cuda doctor` where components are lacking or do not fit together.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_cuda::exit_code;

use crate::components::offline;
use crate::doctor::{Machine, NOT_WORKING, steps};
use crate::support::Finished;
use crate::tools::tool;

/// A virtual environment with these wheels, made once.
fn venv(name: &str, wheels: &[&str]) -> PathBuf {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cli")
        .join(name);
    let done = venv.join("done");
    let wanted = wheels.join(" ");
    if !fs::read_to_string(&done).is_ok_and(|made| made == wanted) {
        let _ = fs::remove_dir_all(&venv);
        let run = |command: &mut Command| Finished::of(command.output().unwrap()).succeeded();
        run(Command::new(tool("uv"))
            .args(["venv", "--quiet"])
            .arg(&venv));
        let install = ["pip", "install", "--quiet", "--no-deps", "--python"];
        run(Command::new(tool("uv"))
            .args(install)
            .arg(&venv)
            .args(wheels));
        fs::write(done, wanted).unwrap();
    }
    venv
}

/// nvcc 13.5 and no NVRTC.
const WITHOUT_NVRTC: [&str; 5] = [
    "nvidia-cuda-nvcc==13.5.37",
    "nvidia-nvvm==13.5.37",
    "nvidia-cuda-crt==13.5.37",
    "nvidia-cuda-runtime==13.5.37",
    "nvidia-nvtx==13.4.92",
];

#[test]
fn nvcc_alone_and_nothing_that_compiles_host_code() {
    if offline() {
        return;
    }
    let machine = Machine::new("doctor-no-host");
    let programs = machine.work.with_file_name("no-compiler");
    fs::create_dir(&programs).unwrap();
    let json = machine
        .with("VIRTUAL_ENV", venv("venv-nvtx", &WITHOUT_NVRTC))
        .with("PATH", programs)
        .says(
            exit_code::INCONSISTENT,
            "Not ready to build: nvcc accepts no host compiler on this machine, and NVRTC is missing.",
            &["Toolkit: CUDA 13.5", "Host compiler\n  "],
        );
    assert!(json["host_compiler"]["refused"].is_string(), "{json}");
}

#[test]
fn an_environment_without_nvcc_before_a_toolkit_with_one() {
    if offline() {
        return;
    }
    let venv = venv(
        "venv-nvrtc",
        &[
            "nvidia-cuda-nvrtc-cu12==12.9.86",
            "nvidia-cuda-runtime-cu12==12.9.79",
        ],
    );
    let Some(machine) = Machine::new("doctor-nvrtc").holding(&[13]) else {
        return;
    };
    let machine = machine.with("VIRTUAL_ENV", venv);
    let last = "Ready to build: modules with NVRTC or nvcc, libraries with nvcc.";
    let json = machine.says(exit_code::SUCCESS, last, &["nvrtc 12.9.86"]);
    assert_eq!(json["toolkit"]["version"], "13.4");
}

#[test]
fn wheels_of_two_minors_in_one_environment() {
    if offline() {
        return;
    }
    let venv = venv("venv-nvtx", &WITHOUT_NVRTC);
    let json = Machine::new("doctor-nvtx").with("VIRTUAL_ENV", venv).says(
        exit_code::SUCCESS,
        "Ready to build: modules and libraries with nvcc.",
        &[
            "virtual environment of `VIRTUAL_ENV`",
            "nvcc 13.5.37",
            "note: nvtx 13.4.92 is from CUDA 13.4, which fits",
            "note: no cccl: kernels that include CUB",
        ],
    );
    assert_eq!(json["toolkit"]["version"], "13.5");
    assert_eq!(
        json["toolkit"]["remarks"].as_array().unwrap().len(),
        2,
        "{json}"
    );
}

#[test]
fn a_compiler_proper_of_another_release() {
    if offline() {
        return;
    }
    let venv = venv(
        "venv-cicc",
        &[
            "nvidia-cuda-nvcc==13.5.37",
            "nvidia-nvvm==13.0.88",
            "nvidia-cuda-crt==13.5.37",
            "nvidia-cuda-runtime==13.5.37",
        ],
    );
    let Some(machine) = Machine::new("doctor-cicc").holding(&[13]) else {
        return;
    };
    let machine = machine.with("VIRTUAL_ENV", venv);
    let json = machine.says(
        exit_code::INCONSISTENT,
        NOT_WORKING,
        &[
            "nvcc 13.5.37 is from CUDA 13.5, but cicc (nvvm) 13.0.88 is from CUDA 13.0: they must be from the same release",
            "hint: install `nvidia-nvvm==13.5.*` beside it, or take one consistent set",
            "`CUDA_BUILD_SOURCES=stored`",
        ],
    );
    assert_eq!(steps(&json), ["environment", "stored"]);
    // The hint is true.
    let json = machine.with("CUDA_BUILD_SOURCES", "stored").says(
        exit_code::SUCCESS,
        "Ready to build: modules with NVRTC or nvcc, libraries with nvcc.",
        &["CUDA_BUILD_SOURCES=stored"],
    );
    assert_eq!(steps(&json), ["stored"]);
}

#[test]
fn what_does_not_fit_and_nobody_asked_for_is_told() {
    if offline() {
        return;
    }
    let wheels = [
        "nvidia-cuda-runtime==13.4.92",
        "nvidia-cuda-nvrtc==13.4.92",
        "nvidia-cusparse==12.8.6.72",
        "nvidia-nvjitlink==13.0.88",
    ];
    let machine =
        Machine::new("doctor-left-out").with("VIRTUAL_ENV", venv("venv-cusparse", &wheels));
    let json = machine.says(
        exit_code::SUCCESS,
        "Ready to build: modules with NVRTC; libraries need nvcc, which is missing.",
        &[
            "note: cusparse 12.8.6.72 is not used: ",
            "nvjitlink 13.0.88 is from CUDA 13.0: what uses it",
        ],
    );
    let names = json["toolkit"]["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["component"].as_str());
    assert!(names.flatten().all(|name| name != "cusparse"), "{json}");
    // A view is of everything that is there.
    let mut view = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    view.args(["cuda", "view"])
        .env_clear()
        .envs(machine.variables.iter().map(|(n, v)| (n, v)));
    let view = Finished::of(view.current_dir(&machine.work).output().unwrap());
    assert!(
        view.code == 0
            && view
                .stderr
                .contains("warning: cusparse 12.8.6.72 is not used: "),
        "{view:?}"
    );
}

/// The crate builds without it, and a reader of the manifest would not know.
#[test]
fn an_optional_component_that_is_not_there() {
    let Some(machine) = Machine::new("doctor-optional").holding(&[13]) else {
        return;
    };
    let manifest = "[package]\nname = \"optional\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n\n\
                    [package.metadata.cuda]\ncapabilities = [\"8.0\"]\n\
                    components = [\"cudart\", { name = \"cudnn\", version = \">=9\", optional = true }]\n\n[workspace]\n";
    fs::write(machine.work.join("Cargo.toml"), manifest).unwrap();
    fs::write(machine.work.join("lib.rs"), "").unwrap();
    let works = "Ready to build.";
    let line =
        "optional: optional cudnn >=9 was not found for CUDA 13, so `cfg(cuda_have_cudnn)` is off"
            .to_owned();
    let json = machine.says(exit_code::SUCCESS, works, &[&format!("  note: {line}\n")]);
    assert_eq!(json["optional_absent"], serde_json::json!([line]));

    // Another place has it, for another CUDA.
    let packages = machine
        .work
        .with_file_name("venv/lib/python3.11/site-packages");
    fs::create_dir_all(packages.join("nvidia/cudnn/lib")).unwrap();
    fs::write(packages.join("nvidia/cudnn/lib/libcudnn.so.9"), "").unwrap();
    let install = |major: u32, other: u32| {
        let _ = fs::remove_dir(packages.join(format!("nvidia_cudnn_cu{other}-9.5.0.50.dist-info")));
        fs::create_dir(packages.join(format!("nvidia_cudnn_cu{major}-9.5.0.50.dist-info")))
            .unwrap();
    };
    install(12, 13);
    let machine = machine.with("VIRTUAL_ENV", packages.ancestors().nth(3).unwrap());
    let elsewhere = format!(
        "{line}; virtual environment of `VIRTUAL_ENV` ({}) has cudnn 9.5.0.50 for CUDA 12",
        packages.display()
    );
    let json = machine.says(exit_code::SUCCESS, works, &[&elsewhere]);
    assert_eq!(json["optional_absent"], serde_json::json!([elsewhere]));
    install(13, 12);
    let json = machine.says(
        exit_code::SUCCESS,
        works,
        &["cudnn 9.5.0.50: nvidia-cudnn-cu13"],
    );
    assert_eq!(json["optional_absent"], serde_json::json!([]));
}
