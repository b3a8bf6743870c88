//! `cargo cuda capabilities`, outside of any workspace.

use std::process::{Command, Output};

use serde_json::Value;

use crate::project::Project;

fn run(arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    command
        .current_dir(directory.path())
        .args(["cuda", "capabilities"])
        .args(arguments)
        .output()
        .unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_table_names_first_and_last_release() {
    let table = stdout(&[]);
    let line = |capability: &str| {
        let row = table
            .lines()
            .find(|line| line.split_whitespace().next() == Some(capability));
        row.unwrap_or_else(|| panic!("no {capability} in\n{table}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert!(
        line("7.0").starts_with("7.0 Volta 9.0 13.0 - -"),
        "{}",
        line("7.0")
    );
    assert!(
        line("10.0").starts_with("10.0 Blackwell 12.8 - 12.8 12.9"),
        "{}",
        line("10.0")
    );
    assert!(
        !table.contains("\n3.0 "),
        "no release from 11.0 on builds for it"
    );
}

#[test]
fn one_release_and_a_list_for_every_consumer() {
    let text = stdout(&["--cuda", "12.8", "8.0,9.0a,12.0+PTX"]);
    for wanted in [
        "CUDA 12.8\n",
        "host compilers: gcc up to 14, clang up to 19",
        "CMAKE_CUDA_ARCHITECTURES: 80-real;90a-real;120-real;120-virtual",
        "TORCH_CUDA_ARCH_LIST: 8.0;9.0a;12.0+PTX",
        "-gencode=arch=compute_90a,code=sm_90a",
        "CUDA_COMPUTE_CAP: 80",
    ] {
        assert!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    assert!(
        !text.contains("\n10.3 "),
        "12.9 is the first for it:\n{text}"
    );
}

#[test]
fn json_holds_the_same() {
    let value: Value =
        serde_json::from_str(&stdout(&["--json", "--cuda", "13.4", "10.7f"])).unwrap();
    assert_eq!(value["format_version"], 1);
    assert_eq!(value["toolkit"]["gcc_max"], 16);
    let rows = value["capabilities"].as_array().unwrap();
    let rubin = rows.iter().find(|row| row["capability"] == "10.7").unwrap();
    assert_eq!(
        (&rubin["min_cuda"], &rubin["removed_in"]),
        (&Value::from("13.4"), &Value::Null)
    );
    assert_eq!(value["lists"][0]["renderings"]["cmake"], "107f-real");
}

#[test]
fn what_can_not_be_built_has_its_exit_code_and_reason() {
    let output = run(&["--cuda", "13.0", "7.0"]);
    assert_eq!(output.status.code(), Some(12));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("capability 7.0 was removed in CUDA 13.0"),
        "{text}"
    );
    for (release, reason) in [
        ("12.7", "CUDA 12.7 was never released"),
        ("10.2", "CUDA `10.2` is not supported"),
        ("x", "`x` is not a CUDA release"),
    ] {
        let output = run(&["--cuda", release]);
        assert_eq!(output.status.code(), Some(2), "{release}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn package_restricts_every_report() {
    let Some(project) = Project::bare("packages", &[13]) else {
        return;
    };
    let members = "[workspace]\nresolver = \"3\"\nmembers = [\"one\", \"two\"]\n";
    project.write("Cargo.toml", members);
    for (name, capability) in [("one", "8.0"), ("two", "9.0")] {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [package.metadata.cuda]\ncapabilities = [\"{capability}\"]\n"
        );
        project.write(&format!("{name}/Cargo.toml"), &manifest);
        project.write(&format!("{name}/src/lib.rs"), "");
    }
    for (command, part) in [
        ("capabilities", "lists"),
        ("matrix", "matrix"),
        ("doctor", "capabilities"),
    ] {
        let report = |options: &[&str]| {
            let run = project.run(&[&[command, "--json"], options].concat());
            run.json()[part].to_string()
        };
        let (all, one) = (report(&[]), report(&["-p", "one"]));
        assert!(
            all.contains("8.0") && all.contains("9.0"),
            "{command}: {all}"
        );
        assert!(
            one.contains("8.0") && !one.contains("9.0"),
            "{command}: {one}"
        );
    }
}
