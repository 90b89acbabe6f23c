//! Where an element lies.

use crate::error::{Error, Result};
use prebake_proto::v1;
use std::ops::Range;

/// Address space kept for one segment: 64 MiB of elements, one more that may overshoot it (256 MiB), and room to grow.
/// It costs no memory.
pub(crate) const SEGMENT_BYTES_MAX: usize = 1 << 30;

/// Bytes of a segment's value buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) segment: u64,
    pub(crate) bytes: Range<usize>,
}

impl TryFrom<&v1::Location> for Location {
    type Error = Error;

    fn try_from(wire: &v1::Location) -> Result<Location> {
        let end = wire.offset.checked_add(wire.len);
        match end.and_then(|end| usize::try_from(end).ok()) {
            Some(end) if end <= SEGMENT_BYTES_MAX => Ok(Location {
                segment: wire.segment,
                bytes: end - wire.len as usize..end,
            }),
            _ => Err(Error::protocol("an element past the end of any segment")),
        }
    }
}

impl Location {
    /// Numbers of the blocks it touches.
    pub(crate) fn blocks(&self, block_bytes: usize) -> Range<usize> {
        self.bytes.start / block_bytes..self.bytes.end.div_ceil(block_bytes)
    }

    /// Whether `next` begins where this ends.
    pub(crate) fn touches(&self, next: &Location) -> bool {
        self.segment == next.segment && self.bytes.end == next.bytes.start
    }
}
