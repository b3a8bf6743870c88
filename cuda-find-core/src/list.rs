//! Short lists, and patterns of names.
//!
//! Every build script compiles this crate, and a `BTreeSet` or the standard sort of one more type costs as much as a
//! hundred lines of code. The lists of a search are short, so they are sorted here by insertion.

/// A large set, in ascending order, each item once. The search itself needs only short lists.
pub type Set<T> = std::collections::BTreeSet<T>;

/// The items in ascending order, each once.
pub fn sorted_set<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut sorted = Vec::new();
    for item in items {
        if let Err(at) = sorted.binary_search(&item) {
            sorted.insert(at, item);
        }
    }
    sorted
}

/// Sorts a short list; equal items keep their order.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && key(&items[at]) < key(&items[at - 1]) {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// The items in their order, each once.
pub fn each_once<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for item in items {
        if !once.contains(&item) {
            once.push(item);
        }
    }
    once
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
