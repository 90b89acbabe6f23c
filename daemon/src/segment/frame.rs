//! A value buffer as one LZ4 frame: where each LZ4 block of it lies in the file, so that it is read and decompressed by itself.

use super::{
    ChunkDigests,
    compression::{END_MARK_LEN, LZ4_BLOCK_BYTES, STORED_MAX, decompress},
    description::{hex, unhex},
    tail::PAGE_BYTES,
};
use crate::{
    error::{Error, Result},
    memory::BLOCK_BYTES,
    vfs::VfsFile,
};
use std::ops::Range;

const BLOCK: u64 = LZ4_BLOCK_BYTES as u64;

/// LZ4 blocks of one block.
pub(super) const PER_BLOCK: u64 = BLOCK_BYTES / BLOCK;

/// LZ4 blocks that follow each other in a file, and what each should be there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// Where in the file each of them begins, and where the last ends. Empty if there is none.
    bounds: Vec<u64>,
    digests: ChunkDigests,
    /// Bytes of values that they were made of.
    value_len: u64,
}

impl Frame {
    /// Appends an LZ4 block, made of so many bytes of values, that lies at `at` in the file: behind the last.
    pub(super) fn push(&mut self, at: u64, stored: &[u8], value_len: usize) {
        if self.bounds.is_empty() {
            self.bounds.push(at);
        }
        self.bounds.push(at + stored.len() as u64);
        self.digests.push(stored);
        self.value_len += value_len as u64;
    }

    /// Appends those of the next block.
    pub(super) fn append(&mut self, following: &Self) {
        self.bounds.truncate(self.len());
        self.bounds.extend(&following.bounds);
        self.digests.append(&following.digests);
        self.value_len += following.value_len;
    }

    /// LZ4 blocks.
    pub(super) fn len(&self) -> usize {
        self.digests.len()
    }

    /// Where the frame ends in the file, with its end mark.
    pub(super) fn end(&self) -> u64 {
        self.bounds.last().copied().unwrap_or_default() + END_MARK_LEN as u64
    }

    /// Digests of the LZ4 blocks.
    pub(super) fn digests(&self) -> &ChunkDigests {
        &self.digests
    }

    /// How many bytes each LZ4 block has, as text for a footer.
    pub(super) fn sizes(&self) -> String {
        let pairs = self.bounds.windows(2);
        let sizes: Vec<u8> = pairs
            .flat_map(|pair| ((pair[1] - pair[0]) as u32).to_be_bytes())
            .collect();
        hex(&sizes)
    }

    /// Back from text: LZ4 blocks from `at` on, of so many bytes of values.
    ///
    /// # Errors
    /// `corrupt` if they cannot be.
    pub fn parse(at: u64, sizes: &str, digests: ChunkDigests, value_len: u64) -> Result<Self> {
        let bad =
            || Error::corrupt("the LZ4 blocks of a segment's values are not as many as its values need");
        let sizes = unhex(sizes).ok_or_else(bad)?;
        let (sizes, []) = sizes.as_chunks() else {
            return Err(bad());
        };
        if sizes.len() != digests.len() || value_len.div_ceil(BLOCK) != sizes.len() as u64 {
            return Err(bad());
        }
        let mut bounds = vec![at];
        for size in sizes {
            let size = u64::from(u32::from_be_bytes(*size));
            if size > STORED_MAX as u64 {
                return Err(bad());
            }
            bounds.push(bounds[bounds.len() - 1] + size);
        }
        Ok(Self {
            bounds,
            digests,
            value_len,
        })
    }

    /// Reads a range of the values, which `take` is given part by part, in order. `work` is memory that begins on a page, with
    /// room for three LZ4 blocks: what is checked and decompressed is no more than fits it at a time.
    ///
    /// # Errors
    /// `corrupt` if what is in the file is not what was put there, or the values end before; as the file system or `take` says.
    pub fn read(
        &self,
        file: &dyn VfsFile,
        range: Range<u64>,
        work: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let (values, stored) = work.split_at_mut(LZ4_BLOCK_BYTES);
        let last = range.end.div_ceil(BLOCK) as usize;
        if range.end > self.value_len {
            return Err(Error::corrupt("its values end before"));
        }
        let mut next = (range.start / BLOCK) as usize;
        while next < last {
            let from = self.bounds[next] / PAGE_BYTES * PAGE_BYTES;
            let fits = |number: &usize| self.page_end(*number) - from <= stored.len() as u64;
            let end = next + (next..last).take_while(fits).count();
            if end == next {
                return Err(Error::corrupt("an LZ4 block is too long"));
            }
            let stored = &mut stored[..(self.page_end(end - 1) - from) as usize];
            file.read_at(stored, from)?;
            for number in next..end {
                let place = (self.bounds[number] - from) as usize..(self.bounds[number + 1] - from) as usize;
                let at = number as u64 * BLOCK;
                if !self.digests.is_chunk(number, &stored[place.clone()]) {
                    return Err(Error::corrupt(format!("it does not match its digests at {at}")));
                }
                let values = &mut values[..(self.value_len - at).min(BLOCK) as usize];
                decompress(&stored[place], values)?;
                let wanted = range.start.saturating_sub(at)..(range.end - at).min(values.len() as u64);
                take(&values[wanted.start as usize..wanted.end as usize])?;
            }
            next = end;
        }
        Ok(())
    }

    /// Where the page ends on which an LZ4 block ends. Until the file has its columns it ends with such a page.
    fn page_end(&self, number: usize) -> u64 {
        self.bounds[number + 1].next_multiple_of(PAGE_BYTES)
    }
}
