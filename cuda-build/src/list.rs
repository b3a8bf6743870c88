//! Sorting, sets and maps for lists of up to a few thousand entries.
//!
//! Build scripts depend on this crate, so Cargo compiles it without optimizations. The standard library's sort
//! generates about forty functions for each type of list, and its B-tree and its hash table generate as many.
//! Together they were a quarter of the generated code.

use std::borrow::Borrow;
use std::ops::Deref;
use std::slice;
use std::vec;

/// A set: its items in ascending order, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set<T>(Vec<T>);

impl<T: Ord> Set<T> {
    /// Whether the item was not in the set before.
    pub(crate) fn insert(&mut self, item: T) -> bool {
        let place = self.0.binary_search(&item);
        if let Err(at) = place {
            self.0.insert(at, item);
        }
        place.is_err()
    }

    pub(crate) fn contains<Q: Ord + ?Sized>(&self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        let place = self.0.binary_search_by(|known| known.borrow().cmp(item));
        place.is_ok()
    }

    /// Removes the items of `other`.
    pub(crate) fn remove_all(&mut self, other: &Self) {
        self.0.retain(|item| other.binary_search(item).is_err());
    }
}

#[cfg(test)]
impl<T: Ord, const N: usize> From<[T; N]> for Set<T> {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for Set<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> IntoIterator for Set<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'s, T> IntoIterator for &'s Set<T> {
    type Item = &'s T;
    type IntoIter = slice::Iter<'s, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Ord> Extend<T> for Set<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        for item in items {
            self.insert(item);
        }
    }
}

impl<T: Ord> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut set = Self::default();
        set.extend(items);
        set
    }
}

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
    items.into_iter().collect::<Set<T>>().0
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
        let mut set = Set::from([3, 1, 2, 3]);
        assert_eq!((set.insert(1), set.insert(0)), (false, true));
        assert_eq!((set.contains(&2), set.contains(&4)), (true, false));
        set.remove_all(&Set::from([1, 2, 9]));
        assert_eq!(set[..], [0, 3]);
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
