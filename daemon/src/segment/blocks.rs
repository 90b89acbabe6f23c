//! Memory that segments keep their blocks in.

use super::{BlockId, OpenedFiles, SegmentId};
use crate::{
    error::Result,
    memory::{Block, BlockWriter, Buffer},
};
use std::sync::Arc;

/// What a segment asks of the tier above it.
pub trait Blocks {
    /// A new block to fill.
    ///
    /// # Errors
    /// `ram-full`: the caller goes without.
    fn allocate(&self) -> Result<BlockWriter>;

    /// Memory for a block on its way to the disk or from it. Waits if all is in use.
    ///
    /// # Errors
    /// If the system has no memory left.
    fn buffer(&self) -> Result<Buffer<'_>>;

    /// Whether another block finds room without displacing any.
    fn has_room(&self) -> bool;

    /// Full blocks of one segment that may wait for the disk.
    fn unwritten_blocks(&self) -> usize;

    /// A block, if it is here.
    fn get(&self, id: BlockId) -> Option<Arc<Block>>;

    /// Keeps a block that is also on SSD, as long as it is used often enough.
    fn insert(&self, id: BlockId, block: Arc<Block>);

    /// Drops the blocks of a segment that no longer exists.
    fn forget(&self, segment: SegmentId, blocks: u32);

    /// Files of segments that were read lately.
    fn opened(&self) -> &OpenedFiles;
}
