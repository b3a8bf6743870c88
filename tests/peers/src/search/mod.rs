//! Finding cudart, nvcc, cuBLAS, cuFFT and NVRTC, as whole processes: by us, by CMake, by
//! cuda-pathfinder.

mod finders;
mod places;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::measure::{Used, machine, measured, median, print_table};
use finders::FINDERS;
pub use finders::find;
use places::{Place, places};

/// What is looked for.
pub const WANTED: [&str; 5] = ["cudart", "nvcc", "cublas", "cufft", "nvrtc"];

/// Figures of one finder in one place.
struct Row {
    found: String,
    cpu: f64,
    wall: f64,
    calls: Option<u64>,
}

/// # Errors
/// The virtual environment lacks components or cuda-pathfinder, or there is no CMake.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let venv = arguments
        .first()
        .ok_or("in which virtual environment are the wheels?")?;
    let venv = std::path::absolute(venv)?;
    let rounds: usize = arguments.get(1).map_or(Ok(5), |text| text.parse())?;
    // On the disk of the wheels, so that their files can be linked to and need no room.
    let scratch = tempfile::tempdir_in(&venv)?;
    println!(
        "{}; {rounds} rounds, medians. {}",
        machine(),
        finders::versions(&venv)?
    );
    for place in places(&venv, scratch.path())? {
        compare(&place, scratch.path(), rounds)?;
    }
    Ok(())
}

fn compare(place: &Place, scratch: &Path, rounds: usize) -> Result<(), Box<dyn Error>> {
    let mut used: Vec<Vec<Used>> = FINDERS.iter().map(|_| Vec::new()).collect();
    let mut found = vec![String::new(); FINDERS.len()];
    for _ in 0..rounds {
        for (index, finder) in FINDERS.iter().enumerate() {
            for _ in 0..finder.repeats {
                let mut command = finder.prepare(place, scratch)?;
                let (this, text) = measured(&mut command)?;
                used[index].push(this);
                found[index] = what_was_found(&text);
            }
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for ((finder, used), found) in FINDERS.iter().zip(used).zip(found) {
        let cpu = median(used.iter().map(|used| used.cpu.as_secs_f64()).collect());
        let wall = median(used.iter().map(|used| used.wall.as_secs_f64()).collect());
        let command = finder.prepare(place, scratch)?;
        rows.push(Row {
            found,
            cpu,
            wall,
            calls: system_calls(&command, scratch),
        });
    }
    let mut table = vec![
        [
            "finder",
            "found",
            "CPU ms",
            "wall ms",
            "CPU beside ours, cold",
            "beside ours, warm",
            "system calls",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for (finder, row) in FINDERS.iter().zip(&rows) {
        table.push(vec![
            finder.name.to_owned(),
            row.found.clone(),
            format!("{:.2}", row.cpu * 1e3),
            format!("{:.2}", row.wall * 1e3),
            format!("{:.1}", row.cpu / rows[0].cpu),
            format!("{:.1}", row.cpu / rows[1].cpu),
            row.calls
                .map_or_else(|| "?".to_owned(), |calls| calls.to_string()),
        ]);
    }
    println!("\n{}\n", place.name);
    print_table(&table);
    Ok(())
}

/// `all` where everything is there, else what is missing.
fn what_was_found(text: &str) -> String {
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("found: "))
        .flat_map(|(_, names)| names.split([' ', ';']))
        .collect();
    let missing: Vec<&str> = WANTED
        .into_iter()
        .filter(|name| !names.contains(name))
        .collect();
    match missing.len() {
        0 => "all".to_owned(),
        5 => "nothing".to_owned(),
        _ => format!("not {}", missing.join(", ")),
    }
}

/// System calls of the whole process tree; `None` without strace.
fn system_calls(command: &Command, scratch: &Path) -> Option<u64> {
    let summary = scratch.join("strace");
    let mut traced = Command::new("strace");
    traced
        .args(["-f", "-c", "-o"])
        .arg(&summary)
        .arg(command.get_program())
        .args(command.get_args());
    traced.env_clear();
    for (name, value) in command.get_envs() {
        traced.env(name, value.unwrap_or_default());
    }
    traced.current_dir(command.get_current_dir().unwrap_or(Path::new("/")));
    let program = std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join("strace"))
        .find(|path: &PathBuf| path.is_file())?;
    let mut absolute = Command::new(program);
    absolute.args(traced.get_args());
    absolute.env_clear().envs(
        traced
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    absolute.current_dir(traced.get_current_dir()?);
    absolute.output().ok()?;
    let text = std::fs::read_to_string(&summary).ok()?;
    let total = text
        .lines()
        .find(|line| line.trim_end().ends_with("total"))?;
    total.split_whitespace().nth(3)?.parse().ok()
}
