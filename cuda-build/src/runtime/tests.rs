#![allow(
    clippy::disallowed_methods,
    reason = "compiles the written source with rustc"
)]

use std::fs;
use std::process::{Command, Output};

use super::*;
use cuda_find_core::capability::{Declared, Support, supported};

fn plan(declared: &str, toolkit: ToolkitVersion) -> Plan {
    Declared::parse([declared])
        .unwrap()
        .plan(toolkit, &[], None)
        .unwrap()
}

/// Compiles a program that includes the source, with every warning an error, and runs it.
fn run(edition: &str, source: &str, main: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let (main_rs, program) = (dir.path().join("main.rs"), dir.path().join("program"));
    fs::write(dir.path().join("cuda.rs"), source).unwrap();
    let head = "#![deny(warnings, missing_docs, unreachable_pub)]\n#![forbid(unsafe_code)]\n//! Test.\n\
                mod cuda {\n    include!(\"cuda.rs\");\n}\n";
    fs::write(&main_rs, format!("{head}{main}")).unwrap();
    let rustc = option_env!("RUSTC").unwrap_or("rustc");
    let compiled = Command::new(rustc)
        .args(["--edition", edition, "-o"])
        .args([&program, &main_rs])
        .output()
        .unwrap();
    assert!(
        compiled.status.success(),
        "{}\n{source}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    Command::new(program).output().unwrap()
}

const PRINT_SUPPORT: &str = "fn main() {
    for major in 3..14 {
        for minor in 0..10 {
            let support = match cuda::check_device(major, minor) {
                Ok(support) => format!(\"{support:?}\"),
                Err(error) => {
                    let device = cuda::Capability { major, minor, suffix: None };
                    assert_eq!(error, cuda::DeviceError::NoCode { device, list: cuda::CAPABILITY_LIST });
                    \"None\".to_owned()
                }
            };
            println!(\"{major}.{minor} {support}\");
        }
    }
}
";

#[test]
fn the_compiled_source_agrees_with_the_rules() {
    let newest = ToolkitVersion::new(13, 5);
    let cuda_12 = ToolkitVersion::new(12, 9);
    for (declared, toolkit, edition) in [
        ("7.5+PTX", newest, "2021"),
        ("8.0 9.0a 12.0+PTX", newest, "2024"),
        ("8.6 10.0f 12.0f compute_100f", cuda_12, "2018"),
        ("compute_90a compute_80", newest, "2021"),
        ("all", newest, "2024"),
        ("all compute_100f compute_101f", cuda_12, "2021"),
    ] {
        let plan = plan(declared, toolkit);
        let output = run(
            edition,
            &generated_source(&plan, toolkit, "shared", Some(&[])),
            PRINT_SUPPORT,
        );
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 110);
        for line in text.lines() {
            let (device, answer) = line.split_once(' ').unwrap();
            let expected = plan.runs_on(device.parse().unwrap(), toolkit);
            assert_eq!(
                answer,
                format!("{expected:?}"),
                "{device} with {declared} of CUDA {toolkit}"
            );
        }
    }
}

#[test]
fn messages() {
    let toolkit = ToolkitVersion::new(13, 4);
    let plan = plan("7.5+PTX 9.0a", toolkit);
    let source = generated_source(&plan, toolkit, "static", Some(&[]));
    let output = run(
        "2021",
        &source,
        "fn main() {
    println!(\"{:?} {} {}\", cuda::CUDA_VERSION, cuda::CUDART, cuda::CAPABILITY_LIST);
    let text: Vec<String> = cuda::CAPABILITIES.iter().map(ToString::to_string).collect();
    assert_eq!(text, [\"7.5\", \"9.0a\"]);
    assert_eq!(cuda::PTX, [cuda::Capability { major: 7, minor: 5, suffix: None }]);
    assert_eq!(cuda::check_device(7, 5), Ok(cuda::Support::Native));
    for (major, minor) in [(7, 0), (8, 6)] {
        println!(\"{}\", cuda::check_device(major, minor).map_or_else(|e| e.to_string(), |s| s.to_string()));
    }
    fn failing() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        cuda::check_device(7, 0)?;
        Ok(())
    }
    println!(\"{}\", failing().unwrap_err());
}
",
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "(13, 4) static 7.5+PTX, 9.0a\n\
         this build has no code for your 7.0 GPU; it has 7.5+PTX, 9.0a\n\
         PTX, which the driver compiles on first use: that is slow and needs a driver for CUDA 13.4 or newer\n\
         this build has no code for your 7.0 GPU; it has 7.5+PTX, 9.0a\n"
    );
}

#[test]
fn a_skipped_build_has_code_for_no_device() {
    let main = "fn main() {
    assert!(cuda::CAPABILITIES.is_empty() && cuda::PTX.is_empty() && cuda::CAPABILITY_LIST.is_empty());
    assert_eq!((cuda::CUDA_VERSION, cuda::CUDART), ((0, 0), \"none\"));
    println!(\"{}\", cuda::check_device(9, 0).unwrap_err());
}
";
    let skipped = generated_source(&Plan::default(), ToolkitVersion::new(0, 0), "none", None);
    let output = run("2024", &skipped, main);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "this build has no GPU code, because `DOCS_RS` or `CUDA_BUILD_SKIP` was set when it was built\n"
    );
}

#[test]
fn unused_source_and_an_empty_plan_compile_without_a_warning() {
    let toolkit = ToolkitVersion::new(13, 4);
    for edition in ["2021", "2024"] {
        let source = generated_source(&Plan::default(), toolkit, "none", Some(&[]));
        assert!(run(edition, &source, "fn main() {}\n").status.success());
    }
}

#[test]
fn every_supported_target_is_native_on_its_own_device() {
    for toolkit in [ToolkitVersion::new(12, 9), ToolkitVersion::new(13, 5)] {
        for target in supported(toolkit) {
            let plan = Plan {
                real: vec![target],
                ptx: Vec::new(),
            };
            assert_eq!(
                plan.runs_on(target.base(), toolkit),
                Support::Native,
                "{target}"
            );
        }
    }
}
