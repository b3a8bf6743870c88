//! `cargo cuda capabilities`, outside of any workspace.

use std::process::Command;

use crate::support::Finished;

fn run(arguments: &[&str]) -> Finished {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    command
        .current_dir(directory.path())
        .args(["cuda", "capabilities"])
        .args(arguments);
    Finished::of(command.output().unwrap())
}

/// The rows with one space between columns.
fn rows(arguments: &[&str]) -> Vec<String> {
    let run = run(arguments);
    run.succeeded();
    let lines = run.stdout.lines();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    lines
        .map(words)
        .filter(|row| row.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

#[test]
fn the_table_lists_what_was_requested() {
    let all = rows(&[]);
    let has = |start: &str| all.iter().any(|row| row.starts_with(start));
    assert!(has("7.0 Volta 9.0 13.0 - - "), "{all:?}");
    assert!(has("10.0 Blackwell 12.8 - 12.8 12.9 "), "{all:?}");
    assert!(!has("3.0 "), "no release from 11.0 on compiles for it");
    let of_release = rows(&["--cuda", "12.8"]);
    assert!(!of_release.iter().any(|row| row.starts_with("10.3 ")));
    assert_eq!(rows(&["--cuda", "12.8", "8.0,9.0a", "12.0+PTX"]).len(), 3);
    let json = run(&["--json", "--cuda", "13.4", "10.7f"]).json();
    assert_eq!(json["format_version"], 1);
    assert_eq!(json["capabilities"][0]["since"], "13.4");
    run(&["--cuda", "13.0", "7.0"]).failed(12, &["capability 7.0 was removed in CUDA 13.0"]);
    run(&["--cuda", "12.7"]).failed(2, &["CUDA 12.7 was never released"]);
}
