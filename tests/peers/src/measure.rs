//! CPU time of child processes, and a table to print.

use std::error::Error;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What a command used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// User and system time of the command and of every process below it that was waited for.
    pub cpu: Duration,
    /// From start to end.
    pub wall: Duration,
}

/// CPU time of all children so far that have ended and been waited for, theirs included.
fn children() -> Duration {
    // SAFETY: `rusage` is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a whole `rusage` that lives during the call.
    let result = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    assert_eq!(result, 0, "getrusage");
    let time = |t: libc::timeval| {
        Duration::new(
            t.tv_sec.unsigned_abs(),
            u32::try_from(t.tv_usec).unwrap_or_default() * 1000,
        )
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Runs a command to its end, output kept; measures it.
///
/// # Errors
/// It can't be started, or it fails; then with its output.
pub fn measured(command: &mut Command) -> Result<(Used, String), Box<dyn Error>> {
    let (cpu, start) = (children(), Instant::now());
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let used = Used {
        cpu: children() - cpu,
        wall: start.elapsed(),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok((used, text));
    }
    Err(format!(
        "{command:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    )
    .into())
}

/// Cargo, without what would spoil a measurement: a compiler cache and flags of the user's.
/// Crates from a registry are never compiled incrementally; with that off, a path dependency is
/// compiled as it would be once published.
pub fn cargo(directory: &Path, target: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsStr::new("cargo").to_owned());
    let mut command = Command::new(cargo);
    for name in [
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
    ] {
        command.env_remove(name);
    }
    command
        .current_dir(directory)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_TERM_QUIET", "true");
    command
}

/// The middle one; of an even number, the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// Prints a Markdown table; the first row is its head.
pub fn print_table(rows: &[Vec<String>]) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        println!("| {} |", cells.join(" | "));
        if index == 0 {
            let lines: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            println!("| {} |", lines.join(" | "));
        }
    }
}

/// The machine, as far as it matters for reading the figures.
pub fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cores} cores, {}",
        model.map_or("CPU unknown", |(_, model)| model)
    )
}
