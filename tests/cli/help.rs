//! The help of every command, its exit codes, and completions.
//!
//! `CUDA_BUILD_TEST_BLESS=1` rewrites `help.txt`; read the difference before committing.

use std::fs;
use std::path::Path;
use std::process::Command;

use cargo_cuda::{cli, exit_code};

use crate::project::checkout;
use crate::support::Finished;

/// Options alone make the help of these long.
const LONG: [&str; 1] = ["wheel"];

/// The help of a command and of its subcommands, with their names.
fn helps(command: &mut clap::Command, name: &str, all: &mut Vec<(String, String)>) {
    let help = command.clone().term_width(100).render_help().to_string();
    all.push((name.to_owned(), help));
    for sub in command.get_subcommands_mut() {
        let path = format!("{name} {}", sub.get_name()).trim().to_owned();
        if !sub.is_hide_set() && sub.get_name() != "help" {
            helps(sub, &path, all);
        }
    }
}

#[test]
fn every_help_fits_a_screen_and_has_an_example() {
    let mut command = cli::command();
    command.build();
    let mut all = Vec::new();
    helps(&mut command, "", &mut all);
    assert!(all.len() > 20);
    let mut text = String::new();
    for (name, help) in &all {
        let limit = if LONG.contains(&name.as_str()) {
            50
        } else {
            45
        };
        assert!(help.lines().count() <= limit, "{name}: {help}");
        let wide = help.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{name}");
        assert!(
            name.is_empty() || help.contains("Examples:\n  "),
            "{name}: {help}"
        );
        let help = help
            .lines()
            .map(str::trim_end)
            .collect::<Vec<_>>()
            .join("\n");
        text.push_str(&format!("== cargo cuda {name}\n{help}\n\n"));
    }
    let file = checkout().join("tests/cli/help.txt");
    if std::env::var_os("CUDA_BUILD_TEST_BLESS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap();
    assert_eq!(
        text, expected,
        "CUDA_BUILD_TEST_BLESS=1 rewrites tests/cli/help.txt"
    );
}

fn run(arguments: &[&str]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    Finished::of(command.arg("cuda").args(arguments).output().unwrap())
}

#[test]
fn help_and_document_have_the_same_exit_codes() {
    let help = run(&["help", "exit-codes"]);
    help.succeeded();
    let document = fs::read_to_string(checkout().join("docs/exit-codes.md")).unwrap();
    for (code, meaning) in exit_code::TABLE {
        assert!(
            help.stdout.contains(&format!("  {code:2}  {meaning}\n")),
            "{help:?}"
        );
        assert!(
            document.contains(&format!("| {code} | {meaning} |\n")),
            "{code}"
        );
    }
    let rows = document.lines().filter(|line| line.starts_with("| "));
    assert_eq!(rows.count(), exit_code::TABLE.len() + 1);
}

#[test]
fn usage_names_the_program_as_it_was_started() {
    let version = env!("CARGO_PKG_VERSION");
    for (arguments, name) in [(&["cuda"][..], "cargo cuda"), (&[], "cargo-cuda")] {
        let run = |more: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
            Finished::of(command.args(arguments).args(more).output().unwrap())
        };
        assert_eq!(run(&["--version"]).stdout, format!("{name} {version}\n"));
        for command in ["wheel", "toolkit add", "build"] {
            let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
            let help = run(&words);
            let usage = format!("Usage: {name} {command} ");
            assert!(help.stdout.contains(&usage), "{help:?}");
        }
        let usage = format!("Usage: {name} ");
        run(&["no-such-command"]).failed(exit_code::USAGE, &[&usage]);
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let script = run(&["completions", "bash"]);
    script.succeeded();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("cargo-cuda");
    fs::write(&file, script.stdout).unwrap();
    let complete = |file: &Path, words: &str| {
        let line = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _cargo-cuda cargo-cuda \"${{COMP_WORDS[COMP_CWORD]}}\"; echo \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let bash = Command::new("bash").args(["-c", &line]).output().unwrap();
        Finished::of(bash).stdout.trim().to_owned()
    };
    assert_eq!(complete(&file, "cargo-cuda doc"), "doc doctor");
    assert_eq!(
        complete(&file, "cargo-cuda toolkit add --comp"),
        "--components"
    );
    for shell in ["zsh", "fish"] {
        assert!(run(&["completions", shell]).stdout.contains("doctor"));
    }
}
