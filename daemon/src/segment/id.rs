//! What segments and blocks are called.

/// A segment's number; not used again while the daemon lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u32);

/// A window of a segment's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockId {
    /// The segment.
    pub segment: SegmentId,
    /// Which window: bytes `index * BLOCK_BYTES..` of the value buffer.
    pub index: u32,
}
