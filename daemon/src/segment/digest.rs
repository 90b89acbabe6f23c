//! Digests of values: they tell what a disk did to a file, and not what somebody did, since whoever can write to the folder
//! can write digests too.

use super::description::{hex, unhex};
use crate::error::{Error, Result};
use std::ops::Range;
use twox_hash::XxHash3_64;

/// Bytes of values under one digest: the least that can be read and checked. A shuffled reader of images reads a tenth more
/// than it wants, and digests take 0.05 % of what they are of.
pub const CHUNK_BYTES: u64 = 16 << 10;

/// XXH3-64 of each chunk of a run of values that begins at one. BLAKE3, which names what is cached, takes five times as
/// long, a seventh of all that it takes to store an element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkDigests(Vec<u64>);

impl ChunkDigests {
    /// Of these bytes; the last chunk may be short.
    pub fn of(bytes: &[u8]) -> Self {
        let chunks = bytes.chunks(CHUNK_BYTES as usize);
        Self(chunks.map(XxHash3_64::oneshot).collect())
    }

    /// Of one chunk of any length.
    pub fn of_one(chunk: &[u8]) -> Self {
        Self(vec![XxHash3_64::oneshot(chunk)])
    }

    /// Whether these bytes, from byte `at` on, are what was digested. They begin at a chunk and end at one, or with all.
    pub fn match_at(&self, at: u64, bytes: &[u8]) -> bool {
        let first = (at / CHUNK_BYTES) as usize;
        let count = bytes.len().div_ceil(CHUNK_BYTES as usize);
        let known = self.0.get(first..first + count);
        at.is_multiple_of(CHUNK_BYTES) && known.is_some_and(|known| known == Self::of(bytes).0)
    }

    /// Appends that of a chunk of any length.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.0.push(XxHash3_64::oneshot(chunk));
    }

    /// Whether this is the chunk of that number, whatever its length.
    pub(super) fn is_chunk(&self, number: usize, chunk: &[u8]) -> bool {
        self.0.get(number) == Some(&XxHash3_64::oneshot(chunk))
    }

    /// Chunks.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Those of the bytes that follow, behind these, which end at a chunk.
    pub fn append(&mut self, following: &Self) {
        self.0.extend(&following.0);
    }

    /// As text, for a footer.
    pub fn to_hex(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().flat_map(|digest| digest.to_be_bytes()).collect();
        hex(&bytes)
    }

    /// Back from text.
    ///
    /// # Errors
    /// `corrupt` if it is none of ours.
    pub fn from_hex(text: &str) -> Result<Self> {
        let bytes = unhex(text).unwrap_or_else(|| vec![0]);
        let (digests, []) = bytes.as_chunks() else {
            return Err(Error::corrupt("the digests of a segment's values are not hex"));
        };
        Ok(Self(
            digests.iter().map(|digest| u64::from_be_bytes(*digest)).collect(),
        ))
    }
}

/// The whole chunks that a range of bytes touches.
pub fn chunks(range: &Range<u64>) -> Range<u64> {
    range.start / CHUNK_BYTES * CHUNK_BYTES..range.end.next_multiple_of(CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_specification_and_come_back_from_text() {
        // Of xxhsum 0.8, -H3.
        assert_eq!(XxHash3_64::oneshot(b""), 0x2d06_8005_38d3_94c2);
        let mut bytes = vec![7; 2 * CHUNK_BYTES as usize + 10];
        let all = ChunkDigests::of(&bytes);
        assert_eq!(ChunkDigests::from_hex(&all.to_hex()).unwrap(), all);
        assert!(ChunkDigests::from_hex("no digest").is_err());
        assert!(ChunkDigests::from_hex("00").is_err());

        let second = CHUNK_BYTES as usize;
        assert!(all.match_at(0, &bytes) && all.match_at(CHUNK_BYTES, &bytes[second..]));
        assert!(all.match_at(CHUNK_BYTES, &bytes[second..2 * second]));
        assert!(!all.match_at(CHUNK_BYTES, &bytes[second..2 * second - 1]));
        assert!(!all.match_at(1, &bytes[1..]) && !all.match_at(3 * CHUNK_BYTES, &bytes));
        bytes[second + 1] ^= 1;
        assert!(all.match_at(0, &bytes[..second]) && !all.match_at(0, &bytes));
    }

    #[test]
    fn a_range_lies_in_whole_chunks() {
        assert_eq!(chunks(&(0..1)), 0..CHUNK_BYTES);
        assert_eq!(
            chunks(&(CHUNK_BYTES..2 * CHUNK_BYTES)),
            CHUNK_BYTES..2 * CHUNK_BYTES
        );
        assert_eq!(chunks(&(CHUNK_BYTES - 1..CHUNK_BYTES + 1)), 0..2 * CHUNK_BYTES);
    }
}
