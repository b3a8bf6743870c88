//! Reports: JSON for all commands, and the rows of `doctor`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::output::{ERROR, GOOD, NOTE, WARNING, printable};

/// Incremented when a field changes its meaning or is removed, but not for new fields.
const FORMAT_VERSION: u32 = 1;

/// A report as one JSON object and a newline.
pub fn json(report: &impl Serialize) -> String {
    // Cannot fail: reports contain only types that JSON supports.
    let mut report = serde_json::to_value(report).unwrap_or_default();
    report["format_version"] = FORMAT_VERSION.into();
    format!("{report:#}\n")
}

/// The same for a report that is one list.
pub fn json_list<T: Serialize>(name: &str, items: &[T]) -> String {
    json(&BTreeMap::from([(name, items)]))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowState {
    Ok,
    Warning,
    Error,
    /// Evidence, which the text has only with `--verbose`.
    Detail,
}

/// One fact, with what to do about it.
#[derive(Debug, Serialize)]
pub struct Row {
    pub state: RowState,
    pub topic: String,
    pub text: String,
    pub hints: Vec<String>,
}

/// What `doctor` prints, as text or as JSON.
#[derive(Debug, Default, Serialize)]
pub struct Diagnosis {
    pub verdict: String,
    pub rows: Vec<Row>,
    /// The content of `toolkit.toml`, if there is a toolkit.
    pub toolkit: Option<serde_json::Value>,
    /// The exit code that a build would have.
    pub exit_code: u8,
}

impl Diagnosis {
    pub fn add(&mut self, state: RowState, topic: &str, text: impl Into<String>) -> &mut Row {
        self.rows.push(Row {
            state,
            topic: topic.to_owned(),
            text: text.into(),
            hints: Vec::new(),
        });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// Adds a warning with what to do about it.
    pub fn warn(&mut self, topic: &str, text: impl Into<String>, hint: impl Into<String>) {
        let row = self.add(RowState::Warning, topic, text);
        row.hints.push(hint.into());
    }

    /// Records the reason why a build fails. The first of several reasons is the verdict.
    pub fn fail(&mut self, code: u8, reason: &str) {
        if self.verdict.is_empty() {
            self.exit_code = code;
            self.verdict = format!("Not ready to build: {reason}.");
        }
    }

    /// The report in colour.
    pub fn text(&self, verbose: bool) -> String {
        let mut text = format!("{}\n", self.verdict);
        for row in &self.rows {
            let (label, style) = match row.state {
                RowState::Ok => ("ok", GOOD),
                RowState::Warning => ("warning", WARNING),
                RowState::Error => ("error", ERROR),
                RowState::Detail if verbose => ("", NOTE),
                RowState::Detail => continue,
            };
            let hints = row.hints.iter().map(|hint| ("hint:", NOTE, hint.clone()));
            let first = (label, style, format!("{}: {}", row.topic, row.text));
            for (label, style, line) in std::iter::once(first).chain(hints) {
                let line = printable(&line).replace('\n', "\n        ");
                text.push_str(&format!("{style}{label:>7}{style:#} {line}\n"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_is_the_verdict_and_details_are_verbose() {
        let mut diagnosis = Diagnosis::default();
        diagnosis.add(RowState::Detail, "search", "a\u{1b}b");
        diagnosis.fail(10, "no CUDA");
        diagnosis.add(RowState::Error, "CUDA", "not found\n  tried x");
        diagnosis.fail(12, "other");
        let row = diagnosis.add(RowState::Error, "p", "bad");
        row.hints.push("change it".to_owned());
        let short = "Not ready to build: no CUDA.\n  error CUDA: not found\n          tried x\n  \
                     error p: bad\n  hint: change it\n";
        assert_eq!(
            anstream::adapter::strip_str(&diagnosis.text(false)).to_string(),
            short
        );
        assert_eq!(diagnosis.exit_code, 10);
        let verbose = diagnosis.text(true);
        assert!(verbose.contains(" search: a\\u{1b}b\n"), "{verbose}");
        assert!(verbose.contains(&format!("{ERROR}  error{ERROR:#} CUDA")));
    }
}
