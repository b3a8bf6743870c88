//! Reads depfiles: make rules in which a compiler lists the files that it read.

use std::path::PathBuf;

use crate::freshness::path_from_bytes;

/// The prerequisites of all rules in a depfile, in order.
///
/// Compilers escape a space as `\ `, `#` as `\#`, `$` as `$$`, and continue lines with `\`.
pub(super) fn inputs(bytes: &[u8]) -> Vec<PathBuf> {
    let mut inputs = Vec::new();
    for rule in rules(bytes) {
        if let Some(colon) = end_of_target(&rule) {
            let words = words(&rule[colon + 1..]);
            inputs.extend(words.iter().filter_map(|word| path_from_bytes(word)));
        }
    }
    inputs
}

/// The lines, with continued lines joined.
fn rules(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rules = vec![Vec::new()];
    for line in bytes.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (line, continues) = match line.strip_suffix(b"\\") {
            Some(line) => (line, true),
            None => (line, false),
        };
        if let Some(rule) = rules.last_mut() {
            rule.extend_from_slice(line);
            rule.push(b' ');
        }
        if !continues {
            rules.push(Vec::new());
        }
    }
    rules
}

/// The colon that ends the targets: the first that is followed by white space, because a path may
/// contain a colon, too.
fn end_of_target(rule: &[u8]) -> Option<usize> {
    (0..rule.len())
        .find(|&i| rule[i] == b':' && rule.get(i + 1).is_none_or(u8::is_ascii_whitespace))
}

fn words(text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word = Vec::new();
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let next = bytes.peek().copied();
        match byte {
            b'\\' if next.is_some_and(|next| b" #:\\\t".contains(&next)) => {
                word.extend(bytes.next());
            }
            b'$' if next == Some(b'$') => word.extend(bytes.next()),
            byte if byte.is_ascii_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            byte => word.push(byte),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_continued_lines_and_escapes() {
        let text = "/out/a.o : src/a.cu \\\n    /usr/include/stdc-predef.h \\\n  \
                    my\\ dir/gr\u{f6}\u{df}e.cuh a$$b.h c\\#d.h\n";
        let expected: Vec<PathBuf> = [
            "src/a.cu",
            "/usr/include/stdc-predef.h",
            "my dir/gr\u{f6}\u{df}e.cuh",
            "a$b.h",
            "c#d.h",
        ]
        .map(PathBuf::from)
        .to_vec();
        assert_eq!(inputs(text.as_bytes()), expected);
    }

    #[test]
    fn a_rule_without_prerequisites_has_none() {
        assert!(inputs(b"a.h:\n\nb.h:\n").is_empty());
        assert!(inputs(b"").is_empty());
    }
}
