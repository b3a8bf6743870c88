//! Reads the make rule that a compiler writes about what it read.

use std::path::PathBuf;

/// The prerequisites of all rules in a depfile, in order.
///
/// Compilers escape a space as `\ `, `#` as `\#`, `$` as `$$`, and continue lines with `\`.
pub(super) fn inputs(text: &str) -> Vec<PathBuf> {
    let mut inputs = Vec::new();
    for rule in text.replace("\\\r\n", " ").replace("\\\n", " ").lines() {
        let Some(colon) = end_of_target(rule) else {
            continue;
        };
        inputs.extend(words(&rule[colon + 1..]));
    }
    inputs
}

/// The colon that ends the targets: one that white space or the end follows, so that none in a
/// path is taken for it.
fn end_of_target(rule: &str) -> Option<usize> {
    let bytes = rule.as_bytes();
    (0..bytes.len())
        .find(|&i| bytes[i] == b':' && bytes.get(i + 1).is_none_or(|b| b.is_ascii_whitespace()))
}

fn words(text: &str) -> Vec<PathBuf> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars
                .peek()
                .is_some_and(|next| matches!(next, ' ' | '#' | ':' | '\\')) =>
            {
                word.extend(chars.next());
            }
            '$' if chars.peek() == Some(&'$') => word.extend(chars.next()),
            c if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(PathBuf::from(std::mem::take(&mut word)));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(PathBuf::from(word));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_continued_lines_and_escapes() {
        let text = "/out/a.o : src/a.cu \\\n    /usr/include/stdc-predef.h \\\n  my\\ dir/gr\u{f6}\u{df}e.cuh a$$b.h c\\#d.h\n";
        let expected: Vec<PathBuf> = [
            "src/a.cu",
            "/usr/include/stdc-predef.h",
            "my dir/gr\u{f6}\u{df}e.cuh",
            "a$b.h",
            "c#d.h",
        ]
        .map(PathBuf::from)
        .to_vec();
        assert_eq!(inputs(text), expected);
    }

    #[test]
    fn a_rule_without_prerequisites_has_none() {
        assert!(inputs("a.h:\n\nb.h:\n").is_empty());
        assert!(inputs("").is_empty());
    }
}
