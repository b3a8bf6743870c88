//! What is compiled again, how long it takes, and whether the result is right.

mod project;
mod toolkit;
mod ways;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::measure::{cargo, machine, measured, print_table};
use project::{Change, Project};
use toolkit::{Calls, Shims};
use ways::{WAYS, Way};

/// What one build came to.
struct Outcome {
    calls: Calls,
    cpu: f64,
    /// Whether the program that was built does what the sources say.
    right: bool,
}

/// # Errors
/// No toolkit with nvcc, or a project that can't be written. A neighbour that can't build is a
/// row of the table.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let shims = Shims::new(&place.path().join("cuda"))?;
    let mut rows = vec![
        [
            "builds with",
            "version",
            "first build",
            "nothing changed",
            "one header of two files",
            "one `.cu`",
            "a comment in it",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let mut failures = Vec::new();
    let mut own: Vec<f64> = Vec::new();
    for way in &WAYS {
        let wanted = arguments.is_empty()
            || arguments
                .iter()
                .any(|part| way.name.contains(part.as_str()));
        if !wanted {
            continue;
        }
        let directory = place.path().join(way.id());
        match measure(way, &shims, &directory) {
            Ok((version, outcomes)) => {
                if own.is_empty() {
                    own = outcomes.iter().map(|outcome| outcome.cpu).collect();
                }
                let mut row = vec![way.name.to_owned(), version];
                row.extend(
                    outcomes
                        .iter()
                        .zip(&own)
                        .map(|(outcome, own)| cell(outcome, *own)),
                );
                rows.push(row);
            }
            Err(error) => {
                let mut row = vec![
                    way.name.to_owned(),
                    String::new(),
                    "does not build".to_owned(),
                ];
                row.resize(rows[0].len(), String::new());
                rows.push(row);
                failures.push(format!("{}: {error}", way.name));
            }
        }
    }
    println!(
        "Twelve `.cu` files, nvcc {}, sm_80, {}.",
        shims.version,
        machine()
    );
    println!(
        "Each cell: files compiled; CPU seconds of the whole `cargo build` and their ratio to the first row.\n"
    );
    print_table(&rows);
    for failure in failures {
        println!("\n{failure}");
    }
    Ok(())
}

fn cell(outcome: &Outcome, own: f64) -> String {
    let wrong = if outcome.right { "" } else { "**stale**, " };
    let other = match outcome.calls.other {
        0 => String::new(),
        other => format!(" (+{other})"),
    };
    format!(
        "{wrong}{}{other}; {:.1} s, {:.2}",
        outcome.calls.compilations,
        outcome.cpu,
        outcome.cpu / own
    )
}

fn measure(
    way: &Way,
    shims: &Shims,
    directory: &Path,
) -> Result<(String, Vec<Outcome>), Box<dyn Error>> {
    let mut project = Project::write(directory, way)?;
    // The script's own dependencies are not what is measured here: built beforehand.
    let target = directory.join("target");
    fs::write(directory.join("build.rs"), "fn main() {}\n")?;
    measured(build(directory, &target, shims).arg("--lib"))?;
    fs::write(directory.join("build.rs"), way.script)?;
    let mut outcomes = Vec::new();
    for change in [
        Change::First,
        Change::Nothing,
        Change::Header,
        Change::Source,
        Change::Comment,
    ] {
        // Some of the neighbours compare times of change.
        std::thread::sleep(Duration::from_millis(50));
        project.change(change)?;
        shims.forget()?;
        let (used, _) = measured(&mut build(directory, &target, shims))?;
        let printed = Command::new(target.join("debug/twelve")).output()?;
        let right = printed.stdout == project.expected().as_bytes();
        eprintln!("{}: {change:?}: {:.2} s", way.name, used.cpu.as_secs_f64());
        outcomes.push(Outcome {
            calls: shims.calls()?,
            cpu: used.cpu.as_secs_f64(),
            right,
        });
    }
    let lock = fs::read_to_string(directory.join("Cargo.lock"))?;
    Ok((
        project::locked_version(&lock, way.package).unwrap_or_default(),
        outcomes,
    ))
}

fn build(directory: &Path, target: &Path, shims: &Shims) -> Command {
    let mut command = cargo(directory, target);
    command.arg("build");
    shims.export(&mut command);
    command
}
