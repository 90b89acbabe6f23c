//! The bytes of an element, or of several side by side.

use crate::raw::{Buffer, Lent};

/// Bytes that belong to the holder: writing to them changes neither the cache nor any other view. Either a range of
/// mapped cache memory (copy-on-write), which it keeps from being handed out or unmapped while it lives, or a copy.
pub struct View(Bytes);

enum Bytes {
    Lent(Lent),
    Owned(Buffer),
}

impl View {
    pub(crate) fn lent(lent: Lent) -> View {
        View(Bytes::Lent(lent))
    }

    /// A copy of `length` bytes that `fill` writes, all of them, or None if it does not.
    pub(crate) fn gather<E>(
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<bool, E>,
    ) -> Result<Option<View>, E> {
        let mut buffer = Buffer::new(length);
        Ok(fill(&mut buffer)?.then_some(View(Bytes::Owned(buffer))))
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Bytes::Lent(lent) => lent.as_slice(),
            Bytes::Owned(buffer) => buffer,
        }
    }

    /// The bytes, to be changed in place.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Bytes::Lent(lent) => lent.as_mut_slice(),
            Bytes::Owned(buffer) => buffer,
        }
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Bytes::Lent(lent) => lent.len(),
            Bytes::Owned(buffer) => buffer.len(),
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
