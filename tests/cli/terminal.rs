//! Colour.

use std::process::Command;

use crate::support::Finished;

const ESCAPE: &str = "\u{1b}[";

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "CARGO_TERM_COLOR"] {
        command.env_remove(name);
    }
    command
        .arg("cuda")
        .args(arguments)
        .envs(variables.iter().copied());
    Finished::of(command.output().unwrap())
}

#[test]
fn options_and_variables_decide_about_colour() {
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    for (options, variables, expected) in [
        (&[][..], &[][..], false),
        (&["--color", "always"], &[], true),
        (&[], &[("CARGO_TERM_COLOR", "always")], true),
        (&[], &[("CLICOLOR_FORCE", "1")], true),
        (&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&["--color=always"], &[("NO_COLOR", "1")], true),
    ] {
        let text = |command: &[&str]| {
            let run = run(&[options, command].concat(), variables);
            format!("{}{}", run.stdout, run.stderr)
        };
        // Help, a usage error, an error of ours, and one of a command of cargo.
        for command in [
            &["--help"][..],
            &["toolkit", "bad"],
            &["build", "--featch"],
            &["build", "--manifest-path", empty],
        ] {
            let text = text(command);
            assert_eq!(
                text.contains(ESCAPE),
                expected,
                "{options:?} {variables:?} {text}"
            );
        }
    }
}
