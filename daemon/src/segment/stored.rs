//! How values lie in a segment's file: as they are, or as an LZ4 frame.

use super::{
    Blocks, CHUNK_DIGESTS, ChunkDigests, Footer, LZ4_BLOCKS, Segment, format::VALUES_AT, frame::Frame,
};
use crate::{
    error::{Error, Kind, Result},
    memory::BLOCK_BYTES,
    vfs::VfsFile,
};
use std::{ops::Range, sync::Arc};

/// Values of a segment, or of one of its blocks, in the file.
#[derive(Clone)]
pub(super) enum Stored {
    /// At the place that they have among the values.
    Plain(ChunkDigests),
    /// Compressed.
    Lz4(Frame),
}

impl Stored {
    /// As a footer says.
    pub(super) fn of(footer: &Footer) -> Result<Self> {
        let digests = footer.metadata.get(CHUNK_DIGESTS);
        let digests = digests.ok_or_else(|| Error::corrupt("a segment has no digests of its values"))?;
        let digests = ChunkDigests::from_hex(digests)?;
        Ok(match footer.metadata.get(LZ4_BLOCKS) {
            None => Self::Plain(digests),
            Some(sizes) => Self::Lz4(Frame::parse(
                footer.frame_at(),
                sizes,
                digests,
                footer.value_len(),
            )?),
        })
    }

    /// All blocks of a segment, of which each was written as the first.
    pub(super) fn join<'a>(blocks: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut blocks = blocks.into_iter();
        let mut all = blocks.next().cloned();
        for block in blocks {
            match (&mut all, block) {
                (Some(Self::Plain(all)), Self::Plain(block)) => all.append(block),
                (Some(Self::Lz4(all)), Self::Lz4(block)) => all.append(block),
                _ => {}
            }
        }
        all.unwrap_or(Self::Plain(ChunkDigests::default()))
    }

    /// Footer metadata to find and check them by.
    pub(super) fn metadata(&self) -> Vec<(String, String)> {
        let digests = |digests: &ChunkDigests| (CHUNK_DIGESTS.into(), digests.to_hex());
        match self {
            Self::Plain(plain) => vec![digests(plain)],
            Self::Lz4(frame) => vec![digests(frame.digests()), (LZ4_BLOCKS.into(), frame.sizes())],
        }
    }

    /// The frame, if they are compressed.
    pub(super) fn frame(&self) -> Option<&Frame> {
        match self {
            Self::Plain(_) => None,
            Self::Lz4(frame) => Some(frame),
        }
    }
}

/// Where a segment's values are read from.
struct Source {
    file: Arc<dyn VfsFile>,
    stored: Arc<Stored>,
    /// The first value that `stored` is of.
    begin: u64,
}

impl Segment {
    /// Fills `into` from the file with values from the chunk at `at` on, all of one block.
    pub(super) fn read_chunks(&self, at: u64, into: &mut [u8], ram: &dyn Blocks) -> Result<()> {
        let source = self.source(at, ram)?;
        match &*source.stored {
            Stored::Plain(digests) => self.read_plain(&source, digests, at, into),
            Stored::Lz4(frame) => {
                let mut buffer = ram.buffer()?;
                let end = at + into.len() as u64;
                let mut rest = into;
                self.decompress(&source, frame, at..end, buffer.bytes(), &mut |values| {
                    let (part, behind) = std::mem::take(&mut rest).split_at_mut(values.len());
                    part.copy_from_slice(values);
                    rest = behind;
                    Ok(())
                })
            }
        }
    }

    /// Reads a range of one block from the file, of which `take` is given the values part by part, in order. `work` has room
    /// for a block.
    pub(super) fn read_parts(
        &self,
        range: Range<u64>,
        work: &mut [u8],
        ram: &dyn Blocks,
        take: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let source = self.source(range.start, ram)?;
        match &*source.stored {
            Stored::Plain(digests) => {
                let values = &mut work[..(range.end - range.start) as usize];
                self.read_plain(&source, digests, range.start, values)?;
                take(values)
            }
            Stored::Lz4(frame) => self.decompress(&source, frame, range, work, take),
        }
    }

    fn read_plain(&self, source: &Source, digests: &ChunkDigests, at: u64, into: &mut [u8]) -> Result<()> {
        source.file.read_at(into, VALUES_AT + at)?;
        let corrupt = || format!("{} does not match its digests at {at}", self.path.display());
        digests
            .match_at(at - source.begin, into)
            .then_some(())
            .ok_or_else(|| Error::corrupt(corrupt()))
    }

    fn decompress(
        &self,
        source: &Source,
        frame: &Frame,
        range: Range<u64>,
        work: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let range = range.start - source.begin..range.end - source.begin;
        let read = frame.read(&*source.file, range, work, take);
        read.map_err(|error| match error.kind() {
            Kind::Corrupt => Error::corrupt(format!("{}: {error}", self.path.display())),
            _ => error,
        })
    }

    /// Where the block that a value is in can be read from.
    fn source(&self, at: u64, ram: &dyn Blocks) -> Result<Source> {
        if !self.is_durable() {
            let index = (at / BLOCK_BYTES) as u32;
            let (file, stored) = (self.file.read().clone(), self.stored.lock().get(&index).cloned());
            match (file, stored) {
                (Some(file), Some(stored)) => {
                    return Ok(Source {
                        file,
                        stored,
                        begin: u64::from(index) * BLOCK_BYTES,
                    });
                }
                // It was finished meanwhile.
                _ if self.is_durable() => {}
                _ => return Err(Error::corrupt("a block has no digests")),
            }
        }
        let opened = ram.opened().get(self)?;
        Ok(Source {
            file: Arc::clone(&opened.file),
            stored: Arc::clone(&opened.stored),
            begin: 0,
        })
    }
}
