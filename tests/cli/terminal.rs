//! Colour, verbosity and the width of lines.

use std::process::Command;

use crate::doctor::Machine;
use crate::project::Project;
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
        (
            &["--color", "never"],
            &[("CARGO_TERM_COLOR", "always")],
            false,
        ),
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

const MANIFEST: &str = "[package]\nname = \"plain\"\nversion = \"0.1.0\"\n\n[workspace]\n";

#[test]
fn a_note_is_printed_once_and_with_verbose() {
    let Some(project) = Project::bare("notes", &[13]) else {
        return;
    };
    project.write("Cargo.toml", MANIFEST);
    project.write("src/lib.rs", "");
    let check = |options: &[&str], capability: &str| {
        let arguments = [options, &["check", "--capabilities", "8.0"]].concat();
        let mut command = project.command(&arguments);
        command.env("CUDA_COMPUTE_CAP", capability);
        let check = Finished::of(command.output().unwrap());
        check.succeeded();
        check.stderr
    };
    let note = "note: CUDA_COMPUTE_CAP stays as you set it, 86";
    assert_eq!(check(&["-q"], "86"), "");
    assert!(check(&[], "86").contains(note));
    assert!(!check(&[], "86").contains("note:"));
    assert!(check(&["-v"], "86").contains(note));
    let verbose = check(&["-v"], "86");
    assert!(verbose.contains("     Running `"), "{verbose}");
    assert!(!check(&[], "86").contains("note:"));
    assert!(check(&[], "90").contains("note: CUDA_COMPUTE_CAP stays as you set it, 90"));
}

/// Runs a program, with the variables of `env -i`, on a terminal with this number of columns.
const TERMINAL: &str = r#"
import fcntl, os, pty, struct, subprocess, sys, termios
screen, end = pty.openpty()
fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
program = subprocess.Popen(["/usr/bin/env", "-i", *sys.argv[2:]], stdin=end, stdout=end, stderr=end)
os.close(end)
try:
    while text := os.read(screen, 65536):
        sys.stdout.buffer.write(text)
except OSError:
    pass  # Linux reports the closed terminal as an error.
sys.exit(program.wait())
"#;

#[test]
fn doctor_fits_the_terminal() {
    let Some(machine) = Machine::new("terminal").holding(&[13]) else {
        return;
    };
    for columns in [80, 120] {
        let doctor = machine.command(&["doctor"]);
        let mut command = Command::new("python3");
        command.args([
            "-c",
            TERMINAL,
            &columns.to_string(),
            "LANG=C.UTF-8",
            "TERM=xterm",
        ]);
        for (name, value) in doctor.get_envs() {
            let value = value.unwrap().to_str().unwrap();
            command.arg(format!("{}={value}", name.to_str().unwrap()));
        }
        command
            .arg(doctor.get_program())
            .args(doctor.get_args())
            .current_dir(&machine.work);
        let run = Finished::of(command.output().unwrap());
        run.succeeded();
        assert!(run.stdout.contains(ESCAPE), "{run:?}");
        let text = anstream::adapter::strip_str(&run.stdout).to_string();
        assert!(text.contains("CUDA 13"), "{text}");
        let wide = text.lines().find(|line| line.chars().count() > columns);
        assert_eq!(wide, None, "{text}");
    }
}
