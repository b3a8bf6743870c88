//! Variables that name no CUDA, disagree, or hold a relative path: told once, with the way out.

use std::fs;
use std::process::Command;

use cargo_cuda::exit_code;

use crate::bad_input::{CAPABILITIES, project};
use crate::components::site_packages;
use crate::support::Finished;

#[test]
fn a_variable_that_names_no_cuda_is_one_that_cannot_be_used() {
    let Some(project) = project("named-nowhere", &[13], CAPABILITIES) else {
        return;
    };
    let (nowhere, empty) = (project.path.join("nowhere"), project.path.join("empty"));
    let (partial, garbled) = (
        project.path.join("partial"),
        project.path.join("kernels/scale.cu"),
    );
    fs::create_dir(&empty).unwrap();
    let real = site_packages(13).unwrap().join("nvidia/cu13");
    for file in [
        "include/cuda_runtime_api.h",
        "include/cuda_runtime.h",
        "lib/libcudart.so.13",
    ] {
        project.write(&format!("partial/{file}"), "");
        fs::copy(real.join(file), partial.join(file)).unwrap();
    }
    // As a `cargo cuda` of last week wrote it.
    let gone = project.path.join("gone.toml");
    let component = "name = \"nvrtc\"\nmajor = 13\nversion = \"13.4.92\"\ntoolkit = \"13.4\"\n\
                     include = []\n\
                     libraries = [\"/gone/lib/libnvrtc.so.13\"]\narchives = []\ntools = []\nevidence = \"\"\norigin = \"\"\n";
    project.write(
        "gone.toml",
        &format!("format_version = 1\nversion = \"13.4\"\n\n[[component]]\n{component}"),
    );
    let (unusable, missing) = (exit_code::CONFIGURATION, exit_code::NOT_FOUND);
    for (variable, path, code, words) in [
        ("CUDA_BUILD_ROOTS", &nowhere, unusable, "does not exist"),
        (
            "CUDA_BUILD_ROOTS",
            &empty,
            unusable,
            "contains no CUDA component",
        ),
        (
            "CUDA_BUILD_ROOTS",
            &partial,
            missing,
            "component `nvrtc` not found",
        ),
        ("CUDA_HOME", &nowhere, unusable, "does not exist"),
        (
            "CUDA_HOME",
            &partial,
            missing,
            "component `nvrtc` not found",
        ),
        ("CUDA_BUILD_TOOLKIT", &nowhere, unusable, "does not exist"),
        (
            "CUDA_BUILD_TOOLKIT",
            &gone,
            unusable,
            "it lists a file of `nvrtc` that does not exist (/gone/lib/libnvrtc.so.13)",
        ),
        (
            "CUDA_BUILD_TOOLKIT",
            &garbled,
            unusable,
            "environment variable `CUDA_BUILD_TOOLKIT`",
        ),
    ] {
        for command in ["build", "view", "doctor"] {
            let run = Finished::of(
                project
                    .command(&[command])
                    .env(variable, path)
                    .output()
                    .unwrap(),
            );
            assert_eq!(
                run.code,
                i32::from(code),
                "{variable}={} {command}: {run:?}",
                path.display()
            );
            let text = unwrapped(&format!("{}{}", run.stdout, run.stderr));
            assert!(
                text.contains(words) && text.contains(variable),
                "{variable}={}: {text}",
                path.display()
            );
        }
    }
}

/// The text with one space between any two words.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Two toolkits, each named by one variable: a build uses what is read first, and says that there is
/// another, once, whoever starts it.
#[test]
fn variables_that_disagree_are_told_once() {
    let (Some(home), Some(path)) = (site_packages(12), site_packages(13)) else {
        return;
    };
    let Some(project) = project("disagreeing", &[], CAPABILITIES) else {
        return;
    };
    // A script that can't want an nvcc, which the first toolkit does not have.
    project.write(
        "build.rs",
        "fn main() -> Result<(), cuda_build::Error> {\n\
         cuda_build::Build::new()?.module(\"kernels/scale.cu\").run()?;\nOk(())\n}\n",
    );
    let run = |mut command: Command| {
        command.env("CUDA_HOME", &home).env("CUDA_PATH", &path);
        Finished::of(command.output().unwrap())
    };
    let mut plain = Command::new(std::env::var_os("CARGO").unwrap());
    project.prepare(plain.arg("build"));
    for (what, command) in [
        ("plain cargo", plain),
        ("build", project.command(&["build"])),
        ("named", project.command(&["build", "--cuda", "12"])),
        ("exec", project.command(&["exec", "true"])),
        ("view", project.command(&["view"])),
    ] {
        let run = run(command);
        assert_eq!(run.code, 0, "{what}: {run:?}");
        let text = format!("{}{}", run.stdout, run.stderr);
        let told: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("name different places"))
            .collect();
        assert_eq!(told.len(), 1, "{what}: {text}");
        for (name, place) in [("CUDA_HOME", &home), ("CUDA_PATH", &path)] {
            assert!(
                told[0].contains(&format!("`{name}` ({})", place.display())),
                "{what}: {told:?}"
            );
        }
        assert!(told[0].contains("warning: "), "{what}: {told:?}");
    }
    let doctor = run(project.command(&["doctor"]));
    let text = unwrapped(&doctor.stdout);
    assert!(text.contains("CUDA 12.9 "), "{doctor:?}");
    assert_eq!(
        text.matches("name different places").count(),
        1,
        "{doctor:?}"
    );
    let source = fs::read_to_string(project.out("disagreeing").join("cuda_build.rs")).unwrap();
    assert!(source.contains("(u32, u32) = (12, 9)"), "{source}");
}

/// Build scripts run in their package's directory, `cargo cuda` where it is started.
#[test]
fn a_relative_path_is_refused_by_doctor_and_build_alike() {
    let Some(toolkit) = site_packages(13) else {
        return;
    };
    let Some(project) = project("relative", &[], CAPABILITIES) else {
        return;
    };
    let above = project.path.parent().unwrap();
    std::os::unix::fs::symlink(toolkit, above.join("cuda")).unwrap();
    let manifest = project.path.join("Cargo.toml");
    let mut plain = Command::new(std::env::var_os("CARGO").unwrap());
    project.prepare(plain.arg("build").arg("--manifest-path").arg(&manifest));
    let mut build = project.command(&["build", "--manifest-path"]);
    build.arg(&manifest);
    let failed = i32::from(exit_code::CONFIGURATION);
    for (mut command, code) in [
        (plain, 101),
        (build, failed),
        (project.command(&["doctor"]), failed),
    ] {
        let run = Finished::of(
            command
                .current_dir(above)
                .env("CUDA_HOME", "cuda")
                .output()
                .unwrap(),
        );
        assert_eq!(run.code, code, "{command:?}: {run:?}");
        let text = format!("{}{}", run.stdout, run.stderr);
        assert!(
            text.contains("`CUDA_HOME` (cuda): is a relative path"),
            "{command:?}: {text}"
        );
        assert!(
            text.contains("hint: write an absolute path"),
            "{command:?}: {text}"
        );
    }
}
