//! Sorted lists, and patterns of names.

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
