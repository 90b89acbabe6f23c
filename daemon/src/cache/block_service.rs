//! Reads of what is stored, for jobs of its trust domain: whole blocks to be mapped, and pieces in a declared order.

use crate::{
    cache::{Cache, domain},
    domain::Domain,
    error::{Error, Kind, Result},
    memory::{BLOCK_BYTES, Block},
    segment::{BlockId, Blocks, From, Segment, SegmentId},
    session::Session,
    system::task,
    tier::{
        read_ahead::{Piece, ReadAhead},
        ssd::Why,
    },
};
use std::sync::Arc;

impl Cache {
    /// A block to hand to a client; from SSD if need be. Blocking.
    ///
    /// # Errors
    /// `gone` if the segment was evicted or is another's; `ram-full`.
    pub fn block(&self, domain: &Domain, id: BlockId) -> Result<(Arc<Block>, From)> {
        let segment = self.segment(domain, id.segment)?;
        let block = self.with_room(|| segment.block(id.index, &*self.ram));
        let read = block.as_ref().map(|(_, from)| match from {
            From::Ssd => BLOCK_BYTES,
            From::Ram => 0,
        });
        self.note_read(segment.id, read);
        block
    }

    /// A block that is in RAM, or None; and whether it is there at all.
    pub fn resident(&self, domain: &Domain, id: BlockId) -> (Option<Arc<Block>>, bool) {
        let segment = self.segment(domain, id.segment);
        let segment = segment.ok().filter(|segment| id.index < segment.blocks());
        let block = segment
            .as_ref()
            .and_then(|segment| segment.resident(id.index, &*self.ram));
        (block, segment.is_some())
    }

    /// Reads what a job wants next, for all that is not begun yet, in threads of their own.
    pub fn read_on(self: &Arc<Self>, session: &Arc<Session>, ahead: &Arc<ReadAhead>) {
        while ahead.needs_reader() {
            let (cache, session, ahead) = (Arc::clone(self), Arc::clone(session), Arc::clone(ahead));
            task::detached(move || ahead.run(|piece, into| cache.read(&domain(&session), &piece, into)));
        }
    }

    /// Waits for what a job declared; see [`ReadAhead::wait`]. Blocking.
    ///
    /// # Errors
    /// As [`ReadAhead::wait`].
    pub fn wait_for(
        self: &Arc<Self>,
        session: &Session,
        ahead: &ReadAhead,
        number: u64,
    ) -> Result<Option<u64>> {
        let domain = domain(session);
        ahead.wait(number, |piece, into| self.read(&domain, &piece, into))
    }

    /// Reads a piece of one block; see [`Segment::read`]. Now and then the whole block is brought to RAM after it, beside those
    /// who wait for what they read.
    ///
    /// # Errors
    /// As [`Cache::block`].
    pub fn read(self: &Arc<Self>, domain: &Domain, piece: &Piece, into: &mut [u8]) -> Result<u64> {
        let segment = self.segment(domain, piece.segment)?;
        let read = segment.read(&piece.range, into, &*self.ram);
        self.note_read(segment.id, read.as_ref().copied());
        if !self.ram.has_room() && self.ram.is_offered(read.as_ref().copied().unwrap_or(0)) {
            let (cache, index) = (Arc::clone(self), (piece.range.start / BLOCK_BYTES) as u32);
            task::detached(move || cache.bring(&segment, index));
        }
        read
    }

    /// Offers a block to the policy of the RAM tier.
    fn bring(&self, segment: &Segment, index: u32) {
        match segment.block(index, &*self.ram) {
            Ok((_, From::Ram)) => {}
            Ok((_, From::Ssd)) => self.note_read(segment.id, Ok(BLOCK_BYTES)),
            // Others were quicker to take what room there was.
            Err(error) if error.kind() == Kind::Exhausted => {}
            Err(_) if segment.is_gone() => {}
            Err(error) => self.note_read(segment.id, Err(&error)),
        }
    }

    /// A segment that is there, if it is of the caller's domain.
    fn segment(&self, domain: &Domain, id: SegmentId) -> Result<Arc<Segment>> {
        let gone = || Error::new(Kind::NotFound, "gone", "the block is gone: acquire again");
        let segment = self.ssd.get(id).ok_or_else(gone)?;
        let collection = self.catalog.get(segment.collection, domain);
        collection.map(|_| segment).map_err(|_| gone())
    }

    /// Counts bytes read from SSD; a segment that could not be read for its bytes' sake is dropped.
    fn note_read(&self, segment: SegmentId, read: std::result::Result<u64, &Error>) {
        match read {
            Ok(bytes) => self.metrics.bytes_read.with_label_values(&["ssd"]).inc_by(bytes),
            Err(error) => {
                self.metrics.errors.with_label_values(&[error.code()]).inc();
                if error.is_of_system() {
                    self.ssd.faults().tell("a block is not read", error);
                }
                if error.kind() == Kind::Corrupt {
                    tracing::error!(%error, "a segment does not match its digests and is dropped");
                    let owner = self
                        .ssd
                        .get(segment)
                        .and_then(|s| self.catalog.find(s.collection));
                    self.ssd.remove(segment, Why::Corrupt);
                    if let Some(collection) = owner {
                        collection.find_again(&self.ssd);
                    }
                }
            }
        }
    }
}
