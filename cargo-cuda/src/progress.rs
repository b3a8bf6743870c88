//! Prints what build scripts compile while cargo or maturin runs, because cargo hides what build scripts print.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cuda_build::compile::{PROGRESS_VARIABLE, STORE_VARIABLE};
use cuda_find_core::{command::Invocation, env::Env};

use crate::output;

const INTERVAL: Duration = Duration::from_millis(100);

/// What was made of the files with device code.
#[derive(Default)]
struct Counts {
    compiled: usize,
    kept: usize,
}

/// Runs a program, and prints the lines that build scripts below it write. If the user named the output store, prints
/// how many files were compiled.
pub fn shown_while<T>(call: &Invocation, env: &Env, run: impl FnOnce(&Invocation) -> T) -> T {
    let file = tempfile::NamedTempFile::new();
    let Some((file, reader)) = file.ok().and_then(|file| {
        let reader = file.reopen().ok()?;
        Some((file, reader))
    }) else {
        return run(call);
    };
    let call = call.clone().variable(PROGRESS_VARIABLE, file.path());
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let printer = scope.spawn(|| print_lines(reader, &has_ended));
        let result = run(&call);
        has_ended.store(true, Ordering::SeqCst);
        printer.thread().unpark();
        let Counts { compiled, kept } = printer.join().unwrap_or_default();
        let all = compiled + kept;
        if env.peek(STORE_VARIABLE).is_some() && all > 0 {
            let text = format!("{compiled} of {all} files, {kept} taken from the output store");
            output::status("Compiled", &text);
        }
        result
    })
}

/// Prints a line for each compiler that starts.
fn print_lines(file: File, has_ended: &AtomicBool) -> Counts {
    let mut reader = BufReader::new(file);
    let mut counts = Counts::default();
    let mut notes = HashSet::new();
    let mut line = String::new();
    loop {
        let is_last = has_ended.load(Ordering::SeqCst);
        while reader.read_line(&mut line).is_ok_and(|length| length > 0) && line.ends_with('\n') {
            let text = line.trim_end_matches('\n');
            if let Some(started) = text.strip_prefix('+') {
                output::status("Compiling", started);
                counts.compiled += 1;
            } else if let Some(note) = text.strip_prefix('!') {
                // Once for each reason in a package: a script may compile many files in the same way.
                let (package, text) = note.split_once(": ").unwrap_or_default();
                let reason = text.rsplit(": ").next().unwrap_or_default();
                if notes.insert(format!("{package}: {reason}")) {
                    output::message(&format!("note: {note}"));
                }
            } else {
                counts.kept += usize::from(text.starts_with('='));
            }
            line.clear();
        }
        if is_last {
            return counts;
        }
        thread::park_timeout(INTERVAL);
    }
}
