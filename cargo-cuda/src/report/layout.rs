//! Rows with a mark, a name and a text, no wider than the terminal.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::output::printable;

/// How a report is laid out.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The width in columns.
    pub width: usize,
    /// Whether the locale can show characters outside ASCII.
    pub unicode: bool,
    pub colour: bool,
    /// The user's home directory, which is shown as `~`.
    pub home: Option<String>,
}

/// The state of a row's topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Good,
    Warning,
    Bad,
    /// Missing, and not needed.
    Absent,
}

#[derive(Debug)]
pub struct Row {
    mark: Mark,
    name: String,
    /// On one line if they fit, otherwise each on a line of its own.
    parts: Vec<String>,
}

impl Row {
    pub fn new<S: Into<String>>(
        mark: Mark,
        name: impl Into<String>,
        parts: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            mark,
            name: printable(&name.into()),
            parts: parts.into_iter().map(|p| printable(&p.into())).collect(),
        }
    }
}

/// What separates the parts of a row on one line.
const GAP: &str = "   ";

impl Layout {
    pub const MAX_WIDTH: usize = 100;

    /// What separates the items of a list.
    pub fn separator(&self) -> &'static str {
        if self.unicode { " · " } else { ", " }
    }

    /// A path, with `~` for the home directory.
    pub fn path(&self, path: &str) -> String {
        let below = self.home.as_ref().and_then(|home| path.strip_prefix(home));
        match below {
            Some(below) if below.starts_with('/') => format!("~{below}"),
            _ => path.to_owned(),
        }
    }

    fn symbol(&self, mark: Mark) -> &'static str {
        match (mark, self.unicode) {
            (Mark::Good, true) => "✔",
            (Mark::Good, false) => "+",
            (Mark::Warning, _) => "!",
            (Mark::Bad, true) => "✘",
            (Mark::Bad, false) => "x",
            (Mark::Absent, true) => "–",
            (Mark::Absent, false) => "-",
        }
    }

    pub fn coloured(&self, mark: Mark, text: &str) -> String {
        let colour = match mark {
            Mark::Good => AnsiColor::Green,
            Mark::Warning => AnsiColor::Yellow,
            Mark::Bad => AnsiColor::Red,
            Mark::Absent => return text.to_owned(),
        };
        let style = match self.colour {
            true => colour.on_default().bold(),
            false => Style::new(),
        };
        format!("{style}{text}{style:#}")
    }

    /// The rows, with the texts in one column.
    pub fn table(&self, rows: &[Row]) -> String {
        let names = rows.iter().map(|row| row.name.chars().count());
        let name_width = names.max().unwrap_or_default();
        let indent = " ".repeat(2 + name_width + GAP.len());
        let width = self.width.saturating_sub(indent.len());
        let mut table = String::new();
        for row in rows {
            let line = row.parts.join(GAP);
            let lines = match line.chars().count() <= width {
                true => vec![line],
                false => row.parts.iter().flat_map(|p| wrapped(p, width)).collect(),
            };
            let mark = self.coloured(row.mark, self.symbol(row.mark));
            let text = lines.join(&format!("\n{indent}"));
            // Writing to a String does not fail.
            let _ = writeln!(table, "{mark} {:name_width$}{GAP}{text}", row.name);
        }
        table
    }

    /// A text of several lines. Continuation lines are indented.
    pub fn paragraph(&self, text: &str) -> String {
        let mut paragraph = String::new();
        for line in printable(text).lines() {
            let own = &line[..line.len() - line.trim_start().len()];
            let lines = wrapped(line, self.width.saturating_sub(own.len() + 4));
            let _ = writeln!(paragraph, "{own}{}", lines.join(&format!("\n{own}    ")));
        }
        paragraph
    }
}

/// The words of `text` in lines of at most `width` columns. A word that is wider has its own line.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(width: usize, unicode: bool) -> Layout {
        Layout {
            width,
            unicode,
            colour: false,
            home: Some("/home/a".to_owned()),
        }
    }

    #[test]
    fn rows_are_aligned_and_wrapped() {
        let rows = [
            Row::new(
                Mark::Good,
                "CUDA 13.4",
                ["~/toolkits/13.4.3", "cudart nvcc nvrtc"],
            ),
            Row::new(
                Mark::Warning,
                "",
                ["a text that is\u{1b} longer than the line of 40 columns"],
            ),
            Row::new(Mark::Absent, "uv", ["no"]),
        ];
        let wide = "✔ CUDA 13.4   ~/toolkits/13.4.3   cudart nvcc nvrtc\n\
                    !             a text that is\\u{1b} longer than the line of 40 columns\n\
                    – uv          no\n";
        assert_eq!(layout(100, true).table(&rows), wide);
        let narrow = "\
+ CUDA 13.4   ~/toolkits/13.4.3
              cudart nvcc nvrtc
!             a text that is\\u{1b}
              longer than the line of 40
              columns
- uv          no
";
        assert_eq!(layout(40, false).table(&rows), narrow);
    }

    #[test]
    fn paragraphs_keep_their_indentation() {
        let text = layout(30, true)
            .paragraph("error: one two three four five six\n  tried a b c d e f g h i j k l m");
        let expected = "\
error: one two three four
    five six
  tried a b c d e f g h i
      j k l m
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_home_directory_is_short() {
        let layout = layout(80, true);
        for (path, expected) in [("/home/a/b", "~/b"), ("/home/ab", "/home/ab"), ("/c", "/c")] {
            assert_eq!(layout.path(path), expected);
        }
    }
}
