//! The help of every command, and its exit codes.

use std::fs;
use std::process::Command;

use cargo_cuda::{cli, exit_code};

use crate::project::checkout;
use crate::support::Finished;

fn run(arguments: &[&str]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    Finished::of(command.arg("cuda").args(arguments).output().unwrap())
}

#[test]
fn every_command_has_help() {
    let command_line = cli::command_line("cargo cuda");
    let commands = command_line.get_subcommands().map(clap::Command::get_name);
    let commands: Vec<&str> = commands.collect();
    assert!(commands.len() > 15);
    for command in commands {
        run(&[command, "--help"]).succeeded();
    }
}

#[test]
fn commands_of_the_documents_are_valid() {
    let docs = fs::read_dir(checkout().join("docs")).unwrap();
    let pages = docs.map(|page| page.unwrap().path());
    let pages = pages.filter(|page| page.extension().is_some_and(|extension| extension == "md"));
    let mut count = 0;
    for page in pages.chain([checkout().join("README.md")]) {
        let text = fs::read_to_string(&page).unwrap();
        let shell = text.split("```sh\n").skip(1);
        let lines = shell.flat_map(|block| block.split("```").next().unwrap().lines());
        let steps = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("run: "));
        for line in lines
            .chain(steps)
            .filter_map(|line| line.strip_prefix("cargo cuda "))
        {
            let words = line.split_whitespace();
            let ours = words.take_while(|word| !["--", "#", "&&", "|"].contains(word));
            let help: Vec<&str> = ours.chain(["--help"]).collect();
            let run = run(&help);
            assert_eq!(run.code, 0, "{}: {line}: {run:?}", page.display());
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn the_document_has_the_exit_codes() {
    let document = fs::read_to_string(checkout().join("docs/exit-codes.md")).unwrap();
    for (code, meaning) in exit_code::TABLE {
        let row = format!("| {code} | {meaning} |\n");
        assert!(document.contains(&row), "{code}");
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
        let help = run(&["toolkit", "add", "--help"]).stdout;
        assert!(
            help.contains(&format!("Usage: {name} toolkit add ")),
            "{help}"
        );
        let usage = format!("Usage: {name} ");
        run(&["no-such-command"]).failed(exit_code::USAGE, &[&usage]);
    }
}
