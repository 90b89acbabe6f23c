//! The bytes of an element, or of several side by side.

use crate::raw::{Buffer, Held, Lent};

/// Bytes that stay as they are for as long as they are held, unless the holder writes to them: that changes neither the
/// cache nor any other view. A range of mapped cache memory, copy-on-write or to be read alone, or a copy.
pub struct View(Bytes);

enum Bytes {
    Lent(Lent),
    Held(Held),
    Owned(Buffer),
}

impl View {
    pub(crate) fn lent(lent: Lent) -> View {
        View(Bytes::Lent(lent))
    }

    pub(crate) fn held(held: Held) -> View {
        View(Bytes::Held(held))
    }

    pub(crate) fn owned(buffer: Buffer) -> View {
        View(Bytes::Owned(buffer))
    }

    /// A copy of `length` bytes that `fill` writes, all of them.
    pub(crate) fn copied(length: usize, fill: impl FnOnce(&mut [u8])) -> View {
        let mut buffer = Buffer::new(length);
        fill(&mut buffer);
        View::owned(buffer)
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Bytes::Lent(lent) => lent.as_slice(),
            Bytes::Held(held) => held.as_slice(),
            Bytes::Owned(buffer) => buffer,
        }
    }

    /// The bytes, to be changed in place; None if they are to be read alone.
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        match &mut self.0 {
            Bytes::Lent(lent) => Some(lent.as_mut_slice()),
            Bytes::Held(_) => None,
            Bytes::Owned(buffer) => Some(buffer),
        }
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the bytes are cache memory itself, not a copy.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Bytes::Lent(_) | Bytes::Held(_))
    }
}
