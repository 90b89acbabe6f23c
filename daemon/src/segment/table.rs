//! Which element of a segment is whose: one row an element, in arrival order.

use super::Places;
use prebake_fingerprint::Digest;
use std::sync::Arc;

/// Measured cost of computing one element.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// CPU time.
    pub cpu_ns: u64,
    /// Time its thread waited: mostly input.
    pub io_ns: u64,
}

/// What a row of an open segment takes in memory besides its name and layout: its columns here (68 bytes), and half as much
/// that they have to spare.
pub(crate) const ROW_BYTES: u64 = 104;

/// All columns of a segment's rows, while it is open or where somebody reads them. Elements lie side by side, so a row needs
/// only its end.
#[derive(Debug, Default)]
pub struct Table {
    fingerprints: Vec<Digest>,
    ends: Vec<u64>,
    costs: Vec<Cost>,
    layout_of: Vec<u32>,
    layouts: Vec<Arc<str>>,
    /// Side by side, and where each ends.
    names: String,
    name_ends: Vec<usize>,
    /// Bytes of layouts.
    layouts_len: usize,
}

impl Table {
    /// Appends a row whose element is the next `len` bytes.
    pub fn push(&mut self, fingerprint: Digest, name: &str, layout: &str, len: u64, cost: Cost) {
        let end = self.value_len() + len;
        // Few per segment, and the last one is the likeliest.
        let known = self.layouts.iter().rposition(|l| &**l == layout);
        let layout = known.unwrap_or_else(|| {
            self.layouts_len += layout.len();
            self.layouts.push(layout.into());
            self.layouts.len() - 1
        });
        self.fingerprints.push(fingerprint);
        self.ends.push(end);
        self.costs.push(cost);
        self.layout_of.push(layout as u32);
        self.names.push_str(name);
        self.name_ends.push(self.names.len());
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Memory that the rows take.
    pub fn memory(&self) -> u64 {
        self.len() as u64 * ROW_BYTES + (self.names.len() + self.layouts_len) as u64
    }

    /// Bytes of all elements.
    pub fn value_len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Where a row's element begins; of the row behind the last, where the values end.
    pub fn start(&self, row: usize) -> u64 {
        row.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Bytes of a row's element.
    pub fn element_len(&self, row: usize) -> u64 {
        self.ends[row] - self.start(row)
    }

    /// First byte, bytes and layout of a row's element; None if there is no such row.
    pub fn get(&self, row: usize) -> Option<(u64, u64, &Arc<str>)> {
        (row < self.len()).then(|| (self.start(row), self.element_len(row), self.layout(row)))
    }

    /// Input fingerprint of a row.
    pub fn fingerprint(&self, row: usize) -> &Digest {
        &self.fingerprints[row]
    }

    /// What a person calls the row's item.
    pub fn name(&self, row: usize) -> &str {
        let start = row.checked_sub(1).map_or(0, |before| self.name_ends[before]);
        &self.names[start..self.name_ends[row]]
    }

    /// Layout of a row's element.
    pub fn layout(&self, row: usize) -> &Arc<str> {
        &self.layouts[self.layout_of[row] as usize]
    }

    /// Cost of a row's element.
    pub fn cost(&self, row: usize) -> Cost {
        self.costs[row]
    }

    /// What is kept of the rows when the segment is closed.
    pub fn places(&self) -> Places {
        Places::new(self.ends.iter().copied(), &self.layout_of, self.layouts.clone())
    }
}
