//! What is kept in memory of a closed segment's rows: where each element lies and how it is laid out. The rest is in the file.

use std::sync::Arc;

/// Ends and layouts of rows: nothing for each of them where all elements are alike, else 6 bytes. An end is below 4 GiB, since
/// a segment of 64 MiB is closed and no element has more than 256.
#[derive(Debug)]
pub struct Places {
    rows: usize,
    ends: Ends,
    layout_of: LayoutOf,
    layouts: Box<[Arc<str>]>,
}

/// Where each element ends.
#[derive(Debug)]
enum Ends {
    /// All have as many bytes.
    Even(u64),
    /// One by one.
    Each(Box<[u32]>),
    /// Of a segment that somebody else made so large.
    Far(Box<[u64]>),
}

/// The place of each row's layout.
#[derive(Debug)]
enum LayoutOf {
    /// The first is that of all.
    First,
    /// One by one, where there are few layouts.
    Each(Box<[u16]>),
    /// Where there are many.
    Far(Box<[u32]>),
}

impl Places {
    /// Of rows that end at `ends`, and have the layouts with the numbers `layout_of`.
    pub fn new(
        ends: impl ExactSizeIterator<Item = u64> + Clone,
        layout_of: &[u32],
        layouts: Vec<Arc<str>>,
    ) -> Self {
        let rows = ends.len();
        let first = ends.clone().next().unwrap_or_default();
        let last = ends.clone().last().unwrap_or_default();
        let even = ends
            .clone()
            .zip(1..)
            .all(|(end, rows)| first.checked_mul(rows) == Some(end));
        let ends = match u32::try_from(last) {
            _ if even => Ends::Even(first),
            Ok(_) => Ends::Each(ends.map(|end| end as u32).collect()),
            Err(_) => Ends::Far(ends.collect()),
        };
        let layout_of = match layouts.len() {
            0 | 1 => LayoutOf::First,
            ..=0x1_0000 => LayoutOf::Each(layout_of.iter().map(|layout| *layout as u16).collect()),
            _ => LayoutOf::Far(layout_of.into()),
        };
        Self {
            rows,
            ends,
            layout_of,
            layouts: layouts.into(),
        }
    }

    /// First byte, bytes and layout of a row's element; None if there is no such row.
    pub fn get(&self, row: usize) -> Option<(u64, u64, &Arc<str>)> {
        if row >= self.rows {
            return None;
        }
        let start = row.checked_sub(1).map_or(0, |before| self.end(before));
        let layout = match &self.layout_of {
            LayoutOf::First => 0,
            LayoutOf::Each(of) => of[row].into(),
            LayoutOf::Far(of) => of[row] as usize,
        };
        Some((start, self.end(row) - start, &self.layouts[layout]))
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> u64 {
        let ends = match &self.ends {
            Ends::Even(_) => 0,
            Ends::Each(ends) => size_of_val(&**ends),
            Ends::Far(ends) => size_of_val(&**ends),
        };
        let layout_of = match &self.layout_of {
            LayoutOf::First => 0,
            LayoutOf::Each(of) => size_of_val(&**of),
            LayoutOf::Far(of) => size_of_val(&**of),
        };
        // A counted text has two counters, and its place here is a pointer and a length.
        let layouts: usize = self
            .layouts
            .iter()
            .map(|layout| layout.len() + 4 * size_of::<usize>())
            .sum();
        (ends + layout_of + layouts) as u64
    }

    fn end(&self, row: usize) -> u64 {
        match &self.ends {
            Ends::Even(len) => len * (row as u64 + 1),
            Ends::Each(ends) => ends[row].into(),
            Ends::Far(ends) => ends[row],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lens: &[u64], layout_of: &[u32], layouts: usize) -> u64 {
        let layouts: Vec<Arc<str>> = (0..layouts).map(|n| n.to_string().into()).collect();
        let ends: Vec<u64> = lens
            .iter()
            .scan(0, |end, len| (*end += len, Some(*end)).1)
            .collect();
        let places = Places::new(ends.iter().copied(), layout_of, layouts);
        for (row, len) in lens.iter().enumerate() {
            let (start, found, layout) = places.get(row).unwrap();
            assert_eq!((start, found), (ends[row] - len, *len));
            assert_eq!(**layout, *layout_of[row].to_string());
        }
        assert!(places.get(lens.len()).is_none());
        places.memory()
    }

    #[test]
    fn elements_lie_where_they_were_put_whatever_their_lengths_and_layouts() {
        let even = check(&[7; 1000], &[0; 1000], 1);
        assert!(even < 64, "nothing for each row: {even}");
        check(&[0; 3], &[0; 3], 1);
        check(&[], &[], 0);
        check(&[3, 0, 5, 5], &[0, 1, 1, 0], 2);
        check(&[3, 3, 4], &[0, 0, 0], 1);
        check(&[5_000_000_000, 1], &[0, 0], 1);
        let all: Vec<u32> = (0..70_000).collect();
        check(&vec![9; 70_000], &all, 70_000);
    }
}
