//! The messages of compilers, as they are shown to the user.

use crate::error::Error;

/// Adds the messages in what a compiler printed, each once, with the lines that belong to it.
pub(super) fn add(output: &str, messages: &mut Vec<String>) {
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
        message.push_str(line);
    }
    if !message.is_empty() {
        push_new(messages, message);
    }
}

/// The error with each message of the compiler once.
pub(super) fn in_error(mut error: Error) -> Error {
    if let Error::Compile { output, .. } = &mut error {
        let mut messages = Vec::new();
        add(output, &mut messages);
        *output = messages.join("\n");
    }
    error
}

fn push_new(messages: &mut Vec<String>, message: String) {
    // Lines of `-Xptxas=-v` are kept even if they are equal: two kernels may use the same number of registers.
    if message.starts_with("ptxas info") || !messages.contains(&message) {
        messages.push(message);
    }
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

    fn shown(output: &str) -> Vec<String> {
        let mut messages = Vec::new();
        add(output, &mut messages);
        messages
    }

    #[test]
    fn a_message_is_whole_and_shown_once() {
        let messages = shown(&format!("{EDG}{EDG}"));
        assert_eq!(
            messages,
            [
                "kernels/a.cu(4): warning #177-D: variable \"unused\" was declared but never referenced\n\
                 \x20     int unused;\n          ^",
                "Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"",
            ]
        );
    }

    #[test]
    fn what_ptxas_reports_is_kept_in_order() {
        let report = "ptxas info    : Function properties for a\n    0 bytes stack frame\n\
                      ptxas info    : Used 4 registers\n";
        assert_eq!(shown(&format!("{report}{report}")).len(), 4);
    }

    #[test]
    fn lines_of_gcc_belong_together() {
        let messages = shown(GCC);
        assert_eq!(messages.len(), 1, "{messages:?}");
        let lines: Vec<&str> = messages[0].lines().collect();
        assert_eq!(lines[0], "In file included from src/h.h:3,");
        assert_eq!(lines[1], "                 from src/a.cpp:1:");
        assert_eq!(lines[2], "src/h.h: In function 'int f(int)':");
        assert!(lines[3].starts_with("src/h.h:1:39: warning"));
        assert!(lines[4].starts_with("    1 | static"));
    }
}
