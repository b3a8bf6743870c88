//! The progress of one command on standard error: one changing line on a terminal, lines elsewhere.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use super::downloads::Downloads;
use super::human_size;
use crate::output;

const STEP: &str = "{prefix:>12.green.bold} {wide_msg}";
const BAR: &str = "{prefix:>12.green.bold} [{bar:8}] {wide_msg}";

/// How often the line on a terminal is drawn.
const INTERVAL: Duration = Duration::from_millis(120);

#[derive(Debug)]
pub(super) struct Progress {
    line: ProgressBar,
    /// When the first download began.
    began: Cell<Option<Instant>>,
}

impl Progress {
    pub fn new() -> Self {
        let line = match output::is_quiet() {
            true => ProgressBar::hidden(),
            false => ProgressBar::no_length().with_finish(ProgressFinish::AndClear),
        };
        line.set_style(style(STEP));
        Self {
            line,
            began: Cell::new(None),
        }
    }

    pub fn is_on_terminal(&self) -> bool {
        !self.line.is_hidden()
    }

    /// Starts a step: `verb` and `text`, as in Cargo's own messages.
    pub fn step(&self, verb: &str, text: &str) {
        self.line.set_style(style(STEP));
        // Each call draws the line, which must not have the verb of one step and the text of another.
        self.line.set_message("");
        self.line.set_prefix(verb.to_owned());
        self.line.set_message(text.to_owned());
        match self.is_on_terminal() {
            true => self.line.enable_steady_tick(INTERVAL),
            false => output::status(verb, text),
        }
    }

    /// Prints a line that remains on the terminal.
    pub fn summary(&self, verb: &str, text: &str) {
        self.line.suspend(|| output::status(verb, text));
    }

    /// Reports a download that begins. Elsewhere than on a terminal, this is its only line.
    pub fn download_begins(&self, downloads: &Downloads) {
        self.began.set(self.began.get().or(Some(Instant::now())));
        if !self.is_on_terminal() {
            let (name, size) = (downloads.current(), human_size(downloads.current_size()));
            output::status("", &format!("{name} ({size})"));
        }
    }

    /// Reports the bytes that have been downloaded. `knows_total` is false if the installer names a file only when
    /// its download begins.
    pub fn download_continues(&self, downloads: &Downloads, knows_total: bool) {
        let began = self.began.get().unwrap_or_else(Instant::now);
        self.began.set(Some(began));
        if downloads.total() == 0 {
            return;
        }
        if knows_total {
            self.line.set_style(style(BAR));
            self.line.set_length(downloads.total());
            self.line.set_position(downloads.done());
        }
        let text = text(downloads, knows_total, began.elapsed());
        self.line.set_message(text);
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.map_or_else(
        |_| ProgressStyle::default_bar(),
        |style| style.progress_chars("=> "),
    )
}

/// `88.1/187.0 MB, 12.1 MB/s, nvidia-cuda-nvcc 13.4.92`
fn text(downloads: &Downloads, knows_total: bool, elapsed: Duration) -> String {
    let (done, total) = (human_size(downloads.done()), human_size(downloads.total()));
    let bytes = match (done.split_once(' '), total.split_once(' ')) {
        _ if !knows_total => done,
        (Some((done, unit)), Some((total, same))) if unit == same => {
            format!("{done}/{total} {unit}")
        }
        _ => format!("{done}/{total}"),
    };
    let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let rate = downloads.done().saturating_mul(1000) / milliseconds.max(1);
    format!("{bytes}, {}/s, {}", human_size(rate), downloads.current())
}

#[cfg(test)]
mod tests {
    use super::super::package::tests::package;
    use super::*;

    #[test]
    fn the_line_has_bytes_rate_and_a_short_name() {
        let package = package("nvidia-cuda-nvcc", "13.4.92", '0');
        let mut downloads = Downloads::new(&[&package]);
        downloads.read("nvidia-cuda-nvcc ---- 88.10 MiB/187.00 MiB");
        let text = |knows_total| text(&downloads, knows_total, Duration::from_secs(8));
        assert_eq!(
            text(true),
            "92.4/196.1 MB, 11.5 MB/s, nvidia-cuda-nvcc 13.4.92"
        );
        assert_eq!(text(false), "92.4 MB, 11.5 MB/s, nvidia-cuda-nvcc 13.4.92");
        // With the verb, the bar and blanks before it: 24 columns.
        assert!(text(true).len() + 24 <= 80);
    }
}
