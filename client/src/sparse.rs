//! A table of which most places may stay empty.

use std::ops::{Index, IndexMut};

/// Places whose memory is taken together: some kilobytes.
const PLACES: usize = 64;

/// As a vector of options whose memory is taken when it is filled: a job has a million items, and its first batch fifty.
#[derive(Debug)]
pub(crate) struct Sparse<T> {
    parts: Vec<Option<Box<[Option<T>; PLACES]>>>,
    len: usize,
}

impl<T> Sparse<T> {
    pub(crate) fn new(len: usize) -> Sparse<T> {
        let mut made = Sparse {
            parts: Vec::new(),
            len: 0,
        };
        made.grow(len);
        made
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds empty places, up to `len`.
    pub(crate) fn grow(&mut self, len: usize) {
        self.len = self.len.max(len);
        self.parts.resize_with(self.len.div_ceil(PLACES), || None);
    }

    /// None if there is no such place.
    pub(crate) fn get(&self, i: usize) -> Option<&Option<T>> {
        (i < self.len).then(|| match &self.parts[i / PLACES] {
            Some(part) => &part[i % PLACES],
            None => &None,
        })
    }

    /// None if there is no such place, or it is empty.
    pub(crate) fn filled_mut(&mut self, i: usize) -> Option<&mut T> {
        let part = self.parts.get_mut(i / PLACES)?.as_mut()?;
        part[i % PLACES].as_mut()
    }

    /// Empties a place.
    pub(crate) fn take(&mut self, i: usize) -> Option<T> {
        let part = self.parts[i / PLACES].as_mut()?;
        part[i % PLACES].take()
    }

    /// Places that are filled, in order.
    pub(crate) fn filled(&self) -> impl Iterator<Item = (usize, &T)> {
        let parts = self.parts.iter().enumerate();
        let parts = parts.filter_map(|(number, part)| Some((number * PLACES, part.as_ref()?)));
        parts.flat_map(|(first, part)| {
            let places = part.iter().enumerate();
            places.filter_map(move |(i, value)| Some((first + i, value.as_ref()?)))
        })
    }
}

impl<T> Index<usize> for Sparse<T> {
    type Output = Option<T>;

    fn index(&self, i: usize) -> &Option<T> {
        assert!(i < self.len, "place {i} of {}", self.len);
        match &self.parts[i / PLACES] {
            Some(part) => &part[i % PLACES],
            None => &None,
        }
    }
}

impl<T> IndexMut<usize> for Sparse<T> {
    fn index_mut(&mut self, i: usize) -> &mut Option<T> {
        assert!(i < self.len, "place {i} of {}", self.len);
        let part = &mut self.parts[i / PLACES];
        &mut part.get_or_insert_with(|| Box::new([const { None }; PLACES]))[i % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_empty_until_they_are_filled() {
        let mut table = Sparse::new(2 * PLACES + 1);
        assert_eq!(table.len(), 2 * PLACES + 1);
        table[PLACES] = Some("b");
        table[2 * PLACES] = Some("c");
        table[1] = None;
        assert_eq!(
            (table[0], table[PLACES], table[2 * PLACES]),
            (None, Some("b"), Some("c"))
        );
        assert_eq!(
            table.filled().collect::<Vec<_>>(),
            [(PLACES, &"b"), (2 * PLACES, &"c")]
        );
        assert_eq!(table.get(PLACES), Some(&Some("b")));
        assert_eq!(table.get(2), Some(&None));
        assert_eq!(table.get(2 * PLACES + 1), None);
        *table.filled_mut(PLACES).unwrap() = "d";
        assert_eq!(table.filled_mut(2), None);
        assert_eq!(
            (table.take(PLACES), table.take(PLACES), table.take(2)),
            (Some("d"), None, None)
        );
        table.grow(PLACES);
        table.grow(3 * PLACES + 1);
        assert_eq!(
            (table.len(), table[2 * PLACES], table[3 * PLACES]),
            (3 * PLACES + 1, Some("c"), None)
        );
    }

    #[test]
    #[should_panic(expected = "place 3 of 3")]
    fn what_is_behind_its_end_is_no_place() {
        let _ = Sparse::<u8>::new(3)[3];
    }
}
