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

/// The same for another process of the user: segment, first byte, and the byte after the last. It means nothing to another
/// start of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub u64, pub u64, pub u64);

impl From<&Location> for Span {
    fn from(location: &Location) -> Span {
        Span(
            location.segment,
            location.bytes.start as u64,
            location.bytes.end as u64,
        )
    }
}

impl TryFrom<Span> for Location {
    type Error = Error;

    fn try_from(Span(segment, start, end): Span) -> Result<Location> {
        let bytes = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        match bytes {
            Some((start, end)) if start <= end && end <= SEGMENT_BYTES_MAX => Ok(Location {
                segment,
                bytes: start..end,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(segment: u64, offset: u64, len: u64) -> Result<Location> {
        Location::try_from(&v1::Location {
            segment,
            offset,
            len,
            layout: 0,
        })
    }

    #[test]
    fn elements_past_the_end_of_any_segment_are_refused() {
        let end = SEGMENT_BYTES_MAX as u64;
        assert_eq!(
            at(1, end - 5, 5).unwrap().bytes,
            SEGMENT_BYTES_MAX - 5..SEGMENT_BYTES_MAX
        );
        assert!(at(1, end - 5, 6).is_err());
        assert!(at(1, u64::MAX, 2).is_err());
    }

    #[test]
    fn elements_lie_side_by_side_in_one_segment_only() {
        let first = at(1, 0, 10).unwrap();
        assert!(first.touches(&at(1, 10, 5).unwrap()));
        assert!(!first.touches(&at(2, 10, 5).unwrap()));
        assert!(!first.touches(&at(1, 11, 5).unwrap()));
    }

    #[test]
    fn an_element_touches_every_block_it_has_bytes_in() {
        assert_eq!(at(1, 0, 10).unwrap().blocks(10), 0..1);
        assert_eq!(at(1, 9, 2).unwrap().blocks(10), 0..2);
        assert_eq!(at(1, 10, 11).unwrap().blocks(10), 1..3);
    }
}
