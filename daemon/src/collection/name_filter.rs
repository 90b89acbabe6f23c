//! Which names the items of a collection have had: to tell one that changed from one that is new.

use qfilter::Filter;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Names of one collection that are remembered.
const NAMES_MAX: u64 = 1 << 24;

/// Share of the other names that are taken for known ones when so many are known; at a million, one in a thousand. Of their
/// items it is then told that they changed, and not that they are new.
const MISTAKEN: f64 = 1.0 / 64.0;

/// Names that it has room for at first.
const NAMES_MIN: u64 = 32;

/// Names forgotten are not taken out one by one: all are, once those of twice as many entries as there are, and so many more,
/// are remembered.
const FORGOTTEN_MIN: usize = 100_000;

/// A set of names, of which some 2 or 3 bytes each are kept (a quotient filter: Bender et al., 2012).
#[derive(Default)]
pub struct NameFilter(Option<Filter>);

impl NameFilter {
    /// What a name is known by.
    pub fn hash(name: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        hasher.finish()
    }

    /// Remembers a name by its hash.
    pub fn insert(&mut self, name: u64) {
        let filter = match &mut self.0 {
            Some(filter) => filter,
            none => match Filter::new_resizeable(NAMES_MIN, NAMES_MAX, MISTAKEN) {
                Ok(filter) => none.insert(filter),
                Err(_) => return,
            },
        };
        // An error says that it is full: the rest is not remembered.
        let _ = filter.insert_fingerprint(false, name);
    }

    /// Whether a name was remembered; seldom true of others.
    pub fn contains(&self, name: u64) -> bool {
        self.0
            .as_ref()
            .is_some_and(|filter| filter.contains_fingerprint(name))
    }

    /// Forgets all names if far more are remembered than there are `entries`.
    pub fn forget(&mut self, entries: usize) {
        let held = self.0.as_ref().map_or(0, Filter::len) as usize;
        if held > 2 * entries + FORGOTTEN_MIN {
            self.0 = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_hardly_ever_one_that_was_not_told() {
        let mut names = NameFilter::default();
        let name = |n: u32| NameFilter::hash(&format!("f{n}"));
        assert!(!names.contains(name(0)));
        (0..50_000).for_each(|n| names.insert(name(n)));
        assert!((0..50_000).all(|n| names.contains(name(n))));
        let mistaken = (50_000..100_000).filter(|n| names.contains(name(*n))).count();
        assert!(mistaken < 500, "{mistaken} of 50,000");
        names.forget(50_000);
        assert!(names.contains(name(1)));
        (50_000..200_000).for_each(|n| names.insert(name(n)));
        names.forget(10);
        assert!(!names.contains(name(1)));
    }
}
