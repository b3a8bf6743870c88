//! Sorted lists, patterns of names, and the name that a misspelt name was probably meant to be.

use std::collections::BTreeSet;

/// A set: its items in ascending order, each once.
pub type Set<T> = BTreeSet<T>;

/// The items in ascending order, each once.
pub fn sorted_set<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    items.into_iter().collect::<Set<T>>().into_iter().collect()
}

/// The texts of the items, with a separator between them.
pub fn joined(items: impl IntoIterator<Item = impl ToString>, separator: &str) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    texts.join(separator)
}

/// Whether a name matches a pattern, in which `*` stands for any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(start) else {
        return false;
    };
    let mut ends = (0..=name.len()).filter(|end| name.is_char_boundary(*end));
    ends.any(|end| matches(rest, &name[end..]))
}

/// The name among `known` that differs least from `text`, if it differs in one or two characters, and in at most half
/// of them.
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 2.min(text.chars().count() / 2);
    let distances = known.into_iter().map(|name| (distance(text, name), name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= limit).then_some(name)
}

/// How many characters have to be inserted, removed or replaced to make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod suggestion_tests {
    use super::*;

    #[test]
    fn a_misspelt_name_has_a_nearest() {
        let known = ["cublas", "cufft", "nvcc", "components", "capabilities"];
        for (text, expected) in [
            ("cublass", Some("cublas")),
            ("cublsa", Some("cublas")),
            ("component", Some("components")),
            ("capabilites", Some("capabilities")),
            ("nvc", Some("nvcc")),
            ("x", None),
            ("toolkit", None),
            ("", None),
        ] {
            assert_eq!(nearest(text, known), expected, "{text}");
        }
    }
}
