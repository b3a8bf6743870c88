//! Text on standard output and standard error: colour, and how much is printed.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Style};
use clap::{ArgAction, Args, ColorChoice};
use cuda_find_core::env::Env;
pub use cuda_find_core::list::joined;
use rustix::termios::tcgetwinsize;

use crate::failure::{Failure, Result};

pub const ERROR: Style = AnsiColor::Red.on_default().bold();
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
pub const NOTE: Style = AnsiColor::Cyan.on_default().bold();

/// The colours of the help and of usage errors, which are those of cargo.
pub const STYLES: Styles = Styles::styled()
    .header(GOOD)
    .usage(GOOD)
    .literal(NOTE)
    .placeholder(AnsiColor::Cyan.on_default())
    .error(ERROR)
    .valid(NOTE)
    .invalid(WARNING);

/// The labels at the beginning of a line that are printed in colour.
const LABELS: [(&str, Style); 4] = [
    ("error:", ERROR),
    ("warning:", WARNING),
    (NOTE_LABEL, NOTE),
    ("hint:", NOTE),
];

const NOTE_LABEL: &str = "note:";

/// How much is printed, and whether in colour.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct TerminalOptions {
    /// Print only results, warnings and errors
    #[arg(long, short, global = true, display_order = 900)]
    pub quiet: bool,
    /// Print more: evidence, every note, and the programs that are started
    #[arg(long, short, global = true, action = ArgAction::Count, conflicts_with = "quiet", display_order = 901)]
    pub verbose: u8,
    /// When to use colour: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", display_order = 902)]
    #[arg(hide_possible_values = true)]
    pub color: Option<ColorChoice>,
}

static OPTIONS: OnceLock<TerminalOptions> = OnceLock::new();

/// Sets the options for the whole process. Without `--color`, `CARGO_TERM_COLOR` decides, then whether
/// the output is a terminal, and `NO_COLOR`.
pub fn set_up(options: TerminalOptions, env: &Env) {
    use_colour(options.color, env);
    // Only the tests of this crate set the options twice.
    let _ = OPTIONS.set(options);
}

/// Sets when colour is used, for an error before all options are known.
pub fn use_colour(option: Option<ColorChoice>, env: &Env) {
    let variable = || env.peek("CARGO_TERM_COLOR")?.to_str()?.parse().ok();
    match option.or_else(variable).unwrap_or_default() {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Whether `--verbose` was given.
pub fn is_verbose() -> bool {
    OPTIONS.get().is_some_and(|options| options.verbose > 0)
}

/// Whether `--quiet` was given.
pub fn is_quiet() -> bool {
    OPTIONS.get().is_some_and(|options| options.quiet)
}

/// The width of the terminal that standard error is; `None` if it is none.
pub fn stderr_width() -> Option<u16> {
    Some(tcgetwinsize(io::stderr()).ok()?.ws_col)
}

/// Whether text on standard error may have colours.
pub fn stderr_has_colour() -> bool {
    anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}

/// Writes the result of a command to standard output, without its colours if they are not wanted.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = anstream::stdout().lock();
    match write!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let text = format!("could not write to standard output: {error}");
            Err(Failure::disk(text)
                .hint("check the file or the disk that the output is redirected to"))
        }
        _ => Ok(()),
    }
}

/// Bytes in decimal units, as disks and package indexes count: `2.5 MB`.
pub fn human_size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    let Some((unit, size)) = UNITS.into_iter().find(|(_, size)| bytes >= *size) else {
        return format!("{bytes} B");
    };
    let tenths = (bytes * 10 + size / 2) / size;
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// Escapes control characters, because a variable or a file name may contain a sequence that
/// changes the terminal. Line breaks and tabs are kept.
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() && !matches!(c, '\n' | '\t') {
            true => printable.extend(c.escape_unicode()),
            false => printable.push(c),
        }
    }
    printable
}

/// Writes messages to standard error.
pub fn messages(texts: &[String]) {
    texts.iter().for_each(|text| message(text));
}

/// Writes what another program printed to standard error, as it is.
pub fn of_program(text: &str) {
    if !text.is_empty() {
        write(text.trim_end_matches('\n'));
    }
}

/// Writes a message to standard error, with its labels in colour. `--quiet` hides notes.
pub fn message(text: &str) {
    if !(is_quiet() && text.starts_with(NOTE_LABEL)) {
        write(&with_colours(&printable(text)));
    }
}

/// Writes a line about what the program does, in the form of cargo's lines: `   Fetching CUDA 13.4`.
/// `--quiet` hides it.
pub fn status(verb: &str, text: &str) {
    if !is_quiet() {
        // On a terminal, cargo may have drawn a progress bar in the line.
        let is_terminal = io::stderr().is_terminal();
        let clear = if is_terminal { "\r\x1b[K" } else { "" };
        let text = printable(text);
        write(&format!("{clear}{GOOD}{verb:>12}{GOOD:#} {text}"));
    }
}

fn write(line: &str) {
    // If standard error is closed, the message is lost, but the command does not fail.
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Puts the label at the beginning of each line in colour.
fn with_colours(text: &str) -> String {
    let line = |line: &str| match LABELS.iter().find(|(label, _)| line.starts_with(label)) {
        Some((label, style)) => format!("{style}{label}{style:#}{}", &line[label.len()..]),
        None => line.to_owned(),
    };
    joined(text.split('\n').map(line), "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        let text = "a\u{1b}[2J\rb\n\tü";
        assert_eq!(printable(text), "a\\u{1b}[2J\\u{d}b\n\tü");
    }

    #[test]
    fn sizes_have_decimal_units() {
        assert_eq!(human_size(999), "999 B");
        assert_eq!(human_size(2_460_000), "2.5 MB");
    }

    #[test]
    fn labels_at_the_beginning_of_lines_are_coloured() {
        let text = with_colours("error: no hint: here\n  note: x\nhint: y");
        let expected =
            format!("{ERROR}error:{ERROR:#} no hint: here\n  note: x\n{NOTE}hint:{NOTE:#} y");
        assert_eq!(text, expected);
    }
}
