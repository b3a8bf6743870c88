//! The messages of compilers, as they are shown to the user.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// How the messages of one package are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diagnostics {
    /// What is put before a path that is relative to the package.
    prefix: PathBuf,
}

impl Diagnostics {
    /// Compilers run in the package's directory and print paths relative to it. They are shown relative to
    /// `workspace`, where the user runs Cargo. If `out`, Cargo's output directory, is not below `workspace`, the
    /// user may have run Cargo in another workspace, so absolute paths are shown.
    pub(crate) fn new(package: &Path, workspace: &Path, out: &Path) -> Self {
        let relative = package.strip_prefix(workspace).ok();
        let prefix = relative.filter(|_| out.starts_with(workspace));
        Self {
            prefix: prefix.unwrap_or(package).to_owned(),
        }
    }

    /// Adds the messages in a compiler's output that are not yet in `messages`.
    ///
    /// A message is a line, and the indented lines after it with the source line and the caret. nvcc
    /// prints each message again for every capability.
    pub(super) fn add(&self, output: &str, messages: &mut Vec<String>) {
        let mut message = String::new();
        for line in output.lines().map(str::trim_end) {
            if line.is_empty() {
                continue;
            }
            // gcc's `In file included from a.h:1:` and `a.cpp: In function ‘f’:` belong to what follows.
            let is_first = !line.starts_with([' ', '\t']) && !message.ends_with([':', ',']);
            if is_first && !message.is_empty() {
                push_new(messages, std::mem::take(&mut message));
            }
            if !message.is_empty() {
                message.push('\n');
            }
            message.push_str(&self.located(line));
        }
        if !message.is_empty() {
            push_new(messages, message);
        }
    }

    /// Replaces a compiler's raw output in an error by the messages as they are shown.
    pub(super) fn in_error(&self, mut error: Error) -> Error {
        if let Error::Compile { output, .. } = &mut error {
            let mut messages = Vec::new();
            self.add(output, &mut messages);
            *output = messages.join("\n");
        }
        error
    }

    /// The line with a path that can be opened.
    fn located(&self, line: &str) -> String {
        let before = ["In file included from ", "                 from "];
        let start = before.iter().find(|start| line.starts_with(**start));
        let (start, rest) = line.split_at(start.map_or(0, |start| start.len()));
        match path_of(rest) {
            Some(path) => {
                let shown = self.prefix.join(path);
                format!("{start}{}{}", shown.display(), &rest[path.len()..])
            }
            None => line.to_owned(),
        }
    }
}

fn push_new(messages: &mut Vec<String>, message: String) {
    // Lines of `-Xptxas=-v` are kept even if they are equal: two kernels may use the same number of registers.
    if message.starts_with("ptxas info") || !messages.contains(&message) {
        messages.push(message);
    }
}

/// The relative path that a line starts with: `a.cu(3): warning …` of nvcc and NVRTC,
/// `a.cpp:3:7: warning: …` and `a.cpp: In function …` of gcc and clang.
fn path_of(line: &str) -> Option<&str> {
    if line.starts_with([' ', '/', '<']) {
        return None;
    }
    let is_end = |end: &usize| {
        let rest = &line[*end..];
        let number = rest[1..].trim_start_matches(|c: char| c.is_ascii_digit());
        let has_number = number.len() + 1 < rest.len();
        let is_nvccs = rest.starts_with('(') && has_number && number.starts_with("): ");
        let is_gccs = rest.starts_with(':') && has_number && number.starts_with([':', ',']);
        is_nvccs || is_gccs || rest.starts_with(": In ") || rest.starts_with(": At ")
    };
    let end = line.match_indices(['(', ':']).map(|(end, _)| end);
    end.filter(|end| *end > 0)
        .find(is_end)
        .map(|end| &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDG: &str =
        "kernels/a.cu(4): warning #177-D: variable \"unused\" was declared but never referenced
      int unused;
          ^

Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"

";

    const GCC: &str = "In file included from src/h.h:3,
                 from src/a.cpp:1:
src/h.h: In function 'int f(int)':
src/h.h:1:39: warning: unused variable 'y' [-Wunused-variable]
    1 | static inline int f(int a) { int y; return a; }
      |                                  ^
";

    fn shown(prefix: &str, output: &str) -> Vec<String> {
        let prefix = PathBuf::from(prefix);
        let mut messages = Vec::new();
        Diagnostics { prefix }.add(output, &mut messages);
        messages
    }

    #[test]
    fn a_message_is_whole_and_shown_once() {
        let messages = shown("crates/x", &format!("{EDG}{EDG}"));
        assert_eq!(
            messages,
            [
                "crates/x/kernels/a.cu(4): warning #177-D: variable \"unused\" was declared but never referenced\n\
                 \x20     int unused;\n          ^",
                "Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"",
            ]
        );
    }

    #[test]
    fn what_ptxas_reports_is_kept_in_order() {
        let report = "ptxas info    : Function properties for a\n    0 bytes stack frame\n\
                      ptxas info    : Used 4 registers\n";
        assert_eq!(shown("x", &format!("{report}{report}")).len(), 4);
    }

    #[test]
    fn the_paths_of_gcc_can_be_opened() {
        let messages = shown("x", GCC);
        assert_eq!(messages.len(), 1, "{messages:?}");
        let lines: Vec<&str> = messages[0].lines().collect();
        assert_eq!(lines[0], "In file included from x/src/h.h:3,");
        assert_eq!(lines[1], "                 from x/src/a.cpp:1:");
        assert_eq!(lines[2], "x/src/h.h: In function 'int f(int)':");
        assert!(lines[3].starts_with("x/src/h.h:1:39: warning"));
        assert!(lines[4].starts_with("    1 | static"));
    }

    #[test]
    fn other_lines_are_kept_as_they_are() {
        for line in [
            "/abs/a.cu(3): error: x",
            "nvcc warning : incompatible redefinition for option 'std'",
            "ptxas info    : Used 8 registers, used 0 barriers",
            "<command-line>: warning: \"X\" redefined",
            "1 error detected in the compilation of \"a.cu\".",
            "",
        ] {
            let expected: Vec<&str> = Some(line).filter(|l| !l.is_empty()).into_iter().collect();
            assert_eq!(shown("x", line), expected);
        }
        assert_eq!(
            shown("x", "my (new) file.cu(3): error: y"),
            ["x/my (new) file.cu(3): error: y"]
        );
    }

    #[test]
    fn paths_start_at_the_workspace_if_cargo_builds_there() {
        let prefix = |package: &str, out: &str| {
            Diagnostics::new(Path::new(package), Path::new("/w"), Path::new(out)).prefix
        };
        assert_eq!(
            prefix("/w/crates/x", "/w/target/out"),
            Path::new("crates/x")
        );
        assert_eq!(prefix("/w", "/w/target/out"), Path::new(""));
        assert_eq!(prefix("/w/crates/x", "/tmp/out"), Path::new("/w/crates/x"));
        assert_eq!(prefix("/other/x", "/w/target/out"), Path::new("/other/x"));
    }
}
