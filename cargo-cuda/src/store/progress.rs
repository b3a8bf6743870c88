//! Progress on standard error: a spinner on a terminal, lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How progress is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Messages {
    /// A spinner if standard error is a terminal, or else one line for each step.
    #[default]
    Auto,
    /// Nothing.
    Quiet,
}

/// The progress of one command.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
}

impl Progress {
    pub fn new(messages: Messages) -> Self {
        let terminal = messages == Messages::Auto && io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {msg} [{elapsed}]")
            {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self {
            bar,
            lines: messages == Messages::Auto && !terminal,
        }
    }

    /// A step begins.
    pub fn step(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(text.to_owned());
            bar.set_message("");
        } else if self.lines {
            // If standard error is closed, there is no reader.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// How far the step is, such as the package being downloaded and its size.
    pub fn detail(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        } else if self.lines {
            let _ = writeln!(io::stderr(), "  {text}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Bytes in decimal units, as disks and package indexes count: `2.5 MB`.
///
/// ```
/// use cargo_cuda::store::human_size;
/// assert_eq!(human_size(999), "999 B");
/// assert_eq!(human_size(2_460_000), "2.5 MB");
/// ```
#[must_use]
pub fn human_size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    for (unit, size) in UNITS {
        if bytes >= size {
            let tenths = (bytes * 10 + size / 2) / size;
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} B")
}
