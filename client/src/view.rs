//! The bytes of an element, or of several side by side.

use crate::raw::{Lent, prefer_huge_pages};

/// Owned bytes start at a multiple of this, which suits every NumPy type and vector unit.
const ALIGNMENT: usize = 64;

/// Bytes that belong to the holder: writing to them changes neither the cache nor any other view. Either a range of
/// mapped cache memory (copy-on-write), which it keeps from being handed out or unmapped while it lives, or a copy.
pub struct View(Bytes);

enum Bytes {
    Lent(Lent),
    Owned { buffer: Vec<u8>, start: usize },
}

impl View {
    pub(crate) fn lent(lent: Lent) -> View {
        View(Bytes::Lent(lent))
    }

    /// A copy of `length` bytes that `fill` appends, or None if it does not.
    pub(crate) fn gather<E>(
        length: usize,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<Option<View>, E> {
        let mut buffer: Vec<u8> = Vec::with_capacity(length + ALIGNMENT);
        prefer_huge_pages(&mut buffer);
        let start = buffer.as_ptr().align_offset(ALIGNMENT);
        buffer.resize(start, 0);
        let filled = fill(&mut buffer)? && buffer.len() == start + length;
        Ok(filled.then_some(View(Bytes::Owned { buffer, start })))
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Bytes::Lent(lent) => lent.as_slice(),
            Bytes::Owned { buffer, start } => &buffer[*start..],
        }
    }

    /// The bytes, to be changed in place.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Bytes::Lent(lent) => lent.as_mut_slice(),
            Bytes::Owned { buffer, start } => &mut buffer[*start..],
        }
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Bytes::Lent(lent) => lent.len(),
            Bytes::Owned { buffer, start } => buffer.len() - start,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the bytes are cache memory itself, not a copy.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Bytes::Lent(_))
    }
}
