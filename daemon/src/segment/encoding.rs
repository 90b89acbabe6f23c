//! How the blocks of an open segment go to its file: as they are, or compressed if a sample of the first says that it pays.

use super::{
    Blocks, ChunkDigests,
    compression::{COMPRESS_ROOM, END_MARK_LEN, LZ4_BLOCK_BYTES, PREFIX_LEN, Ratio, STORED_MAX, compress},
    format::VALUES_AT,
    frame::{Frame, PER_BLOCK},
    stored::Stored,
    tail::PAGE_BYTES,
};
use crate::{
    error::{Error, Result},
    memory::{BLOCK_BYTES, BlockWriter},
    vfs::VfsFile,
};
use serde::{Deserialize, Serialize};

/// What values are compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// Nothing: they lie in the file as they are.
    None,
    /// LZ4 frame.
    Lz4,
}

/// How a segment's values were found to be, and are, compressed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Compression {
    /// With what.
    pub codec: Codec,
    /// What the sample said.
    pub sample: Ratio,
    /// Bytes that they take in the file.
    pub stored_len: u64,
}

/// How blocks are written, once that is chosen.
pub(super) struct Encoding {
    /// None if there was too little to judge by.
    sample: Option<Ratio>,
    frame: Option<FrameWriter>,
}

impl Encoding {
    /// By a sample of the first block.
    pub(super) fn choose(first: &BlockWriter, ram: &dyn Blocks) -> Result<Self> {
        let mut buffer = ram.buffer()?;
        let read = |at, into: &mut [u8]| first.block().read(at, into);
        let sample = Ratio::sample(first.filled_len(), buffer.bytes(), read)?;
        Ok(Self {
            frame: sample
                .filter(|ratio| ratio.pays())
                .map(|_| FrameWriter::default()),
            sample,
        })
    }

    /// How long the file may be when this block was written.
    pub(super) fn file_len_max(&self, index: u32, block: &BlockWriter) -> u64 {
        let len = block.filled_len() as u64;
        match &self.frame {
            None => VALUES_AT + u64::from(index) * BLOCK_BYTES + len,
            Some(frame) => frame.len_max(len),
        }
    }

    /// Writes a block; compressed ones follow each other. `work` has room for a block, and begins on a page.
    pub(super) fn write(
        &mut self,
        index: u32,
        block: &BlockWriter,
        work: &mut [u8],
        file: &dyn VfsFile,
    ) -> Result<Stored> {
        if let Some(frame) = &mut self.frame {
            return frame.write(index, block, work, file).map(Stored::Lz4);
        }
        let filled = block.read(work)?;
        file.write_at(filled, VALUES_AT + u64::from(index) * BLOCK_BYTES)?;
        Ok(Stored::Plain(ChunkDigests::of(filled)))
    }

    /// What came of it, for the footer.
    pub(super) fn outcome(&self, stored: &Stored, value_len: u64) -> Option<Compression> {
        let sample = self.sample?;
        let lz4 = |frame: &Frame| (Codec::Lz4, frame.end() - VALUES_AT);
        let (codec, stored_len) = stored.frame().map_or((Codec::None, value_len), lz4);
        Some(Compression {
            codec,
            sample,
            stored_len,
        })
    }
}

/// Writes an LZ4 frame block by block, past the page cache: by whole pages, of which the last is padded, and written again
/// with what follows.
struct FrameWriter {
    /// Blocks written.
    blocks: u32,
    /// Where the last page begins in the file, and what is on it.
    page_at: u64,
    page: Vec<u8>,
}

impl Default for FrameWriter {
    fn default() -> Self {
        Self {
            blocks: 0,
            page_at: VALUES_AT,
            // Written with the head, when it is known.
            page: vec![0; PREFIX_LEN],
        }
    }
}

impl FrameWriter {
    fn len_max(&self, block_len: u64) -> u64 {
        let stored = block_len.div_ceil(LZ4_BLOCK_BYTES as u64) * STORED_MAX as u64;
        let end = self.page_at + self.page.len() as u64 + stored + END_MARK_LEN as u64;
        end.next_multiple_of(PAGE_BYTES)
    }

    fn write(
        &mut self,
        index: u32,
        block: &BlockWriter,
        work: &mut [u8],
        file: &dyn VfsFile,
    ) -> Result<Frame> {
        // Of a block that could not be written there is no place for those behind it.
        if index != self.blocks {
            return Err(Error::corrupt("a block before this was not written"));
        }
        let (values, out) = work.split_at_mut(LZ4_BLOCK_BYTES);
        let (mut at, mut filled) = (self.page_at, self.page.len());
        out[..filled].copy_from_slice(&self.page);
        let mut frame = Frame::default();
        for number in 0..PER_BLOCK {
            let from = number * LZ4_BLOCK_BYTES as u64;
            let len = (block.filled_len() as u64).saturating_sub(from);
            let values = &mut values[..len.min(LZ4_BLOCK_BYTES as u64) as usize];
            if values.is_empty() {
                break;
            }
            block.block().read(from, values)?;
            if out.len() - filled < COMPRESS_ROOM + PAGE_BYTES as usize {
                let whole = filled / PAGE_BYTES as usize * PAGE_BYTES as usize;
                file.write_at(&out[..whole], at)?;
                out.copy_within(whole..filled, 0);
                (at, filled) = (at + whole as u64, filled - whole);
            }
            let len = compress(values, &mut out[filled..]);
            frame.push(at + filled as u64, &out[filled..filled + len], values.len());
            filled += len;
        }
        // Zeros: an end mark is among them.
        let padded = (filled + END_MARK_LEN).next_multiple_of(PAGE_BYTES as usize);
        out[filled..padded].fill(0);
        file.write_at(&out[..padded], at)?;
        let kept = filled / PAGE_BYTES as usize * PAGE_BYTES as usize;
        self.page.clear();
        self.page.extend_from_slice(&out[kept..filled]);
        (self.page_at, self.blocks) = (at + kept as u64, index + 1);
        Ok(frame)
    }
}
