//! Sorting, sets and maps for lists of a few entries.
//!
//! Build scripts depend on this crate, so Cargo compiles it without optimizations. The standard library's sort
//! generates about forty functions for each type of list, and its B-tree generates as many. Together they were a
//! quarter of the generated code.

/// Sorts by a key. Entries with equal keys keep their order.
pub(crate) fn sort_by_key<T, K: Ord>(list: &mut [T], key: impl Fn(&T) -> K) {
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && key(&list[at]) < key(&list[at - 1]) {
            list.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// The items in ascending order, each once.
pub(crate) fn sorted_set<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut set = Vec::new();
    for item in items {
        if let Err(at) = set.binary_search(&item) {
            set.insert(at, item);
        }
    }
    set
}

/// The value of `key` in `pairs`, which are sorted by key. If `key` is not in `pairs`, it is inserted with the
/// default value.
pub(crate) fn entry<K: Ord, V: Default>(pairs: &mut Vec<(K, V)>, key: K) -> &mut V {
    let at = match pairs.binary_search_by(|(known, _)| known.cmp(&key)) {
        Ok(at) => at,
        Err(at) => {
            pairs.insert(at, (key, V::default()));
            at
        }
    };
    &mut pairs[at].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_keep_their_order() {
        let mut list = ["b2", "a1", "c1", "a2", "b1"];
        sort_by_key(&mut list, |text| text.as_bytes()[1]);
        assert_eq!(list, ["a1", "c1", "b1", "b2", "a2"]);
        sort_by_key(&mut list[..0], |text| text.len());
    }

    #[test]
    fn a_set_is_ascending_without_duplicates() {
        assert_eq!(sorted_set([3, 1, 2, 3, 1]), [1, 2, 3]);
        assert!(sorted_set::<u32>([]).is_empty());
    }

    #[test]
    fn pairs_stay_sorted_by_key() {
        let mut pairs = Vec::new();
        for (key, value) in [("b", 1), ("a", 2), ("b", 3)] {
            *entry(&mut pairs, key) += value;
        }
        assert_eq!(pairs, [("a", 2), ("b", 4)]);
    }
}
