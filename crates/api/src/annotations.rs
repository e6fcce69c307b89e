//! Annotations as values that are kept by the hundred thousand.

use smol_str::SmolStr;

/// Annotations of one object, sorted by their keys. Takes a fraction of the memory of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations(Box<[(SmolStr, SmolStr)]>);

impl Annotations {
    /// The value of an annotation.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(other, _)| other.as_str().cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// Whether there is an annotation of this key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The keys, in ascending order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<SmolStr>, V: Into<SmolStr>> FromIterator<(K, V)> for Annotations {
    /// The last of equal keys wins.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(SmolStr, SmolStr)> =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        pairs.reverse();
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        pairs.dedup_by(|(a, _), (b, _)| a == b);
        Annotations(pairs.into_boxed_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_found_by_their_keys_and_the_last_of_equal_ones_wins() {
        let annotations: Annotations = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
        assert_eq!(annotations.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(
            (annotations.get("a"), annotations.get("b"), annotations.get("c")),
            (Some("2"), Some("3"), None)
        );
        assert!(Annotations::default().is_empty() && !annotations.contains_key("c"));
    }
}
