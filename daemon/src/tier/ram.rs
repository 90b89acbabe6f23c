//! The RAM tier: an inclusive read cache of segment blocks in sealed shared memory.
//!
//! Losing a block here costs its bytes over the SSD's bandwidth, the same for every byte, so
//! frequency alone decides what stays: moka's TinyLFU, over blocks of one size. moka overshoots
//! between its maintenance runs and knows nothing of blocks that clients still map, so the limit
//! is a [`Budget`] of ours around it, and each block carries its reservation until the last of
//! daemon and clients lets go.

use crate::{
    config::RAM_BYTES_MIN,
    error::Result,
    limits::budget::{Budget, Reservation},
    memory::{
        BLOCK_BYTES, Block, BlockWriter, Buffer, BufferPool, Doorbell, HugePages, Ring, SLOT_BYTES, Staging,
    },
    segment::{BlockId, Blocks, OpenedFiles, SegmentId},
    tier::read_ahead::ReadAhead,
};
use moka::{notification::RemovalCause, sync::Cache};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Share of the budget that moka does not get: open segments, staging, blocks on their way to a
/// client, and blocks evicted but still mapped live there.
const PASS_THROUGH_SHARE: u64 = 10;

/// Least pass-through: one open block and staging for a couple of writers, and the buffer.
const PASS_THROUGH_BLOCKS_MIN: u64 = 7;
const _: () = assert!(RAM_BYTES_MIN >= (PASS_THROUGH_BLOCKS_MIN + 3) * BLOCK_BYTES);

/// Share of the whole that rows of segments may take (see [`RamTier::rows`]): what is left of them is not
/// worth the blocks that they would displace.
const ROWS_SHARE: u64 = 8;

/// Share of the budget that full blocks of one segment may take while they wait for the disk, and the most of them: a whole
/// segment. Jobs that fill it have the processor to themselves then, and what is small is written when they pause.
const UNWRITTEN_SHARE: u64 = 16;
const UNWRITTEN_BLOCKS_MAX: u64 = 16;

/// Slots of a job's ring, at most: 16 MiB, 20 ms of a fast disk, in which a job may do other things. With little memory it is
/// this share of what is kept for pass-through, and one that is read while another is copied from at least.
const RING_SLOTS_MAX: u64 = 16;
const RING_SHARE: u64 = 4;
const RING_SLOTS_MIN: u64 = 2;

/// While there is no room, so many bytes are read for jobs for each block that is offered to the policy, which keeps it if it
/// is used more than what it would displace: a sixteenth is read in vain at most.
const OFFER_BYTES: u64 = 16 * BLOCK_BYTES;

/// Blocks of shared memory, bounded in bytes.
pub struct RamTier {
    blocks: Cache<BlockId, Arc<Block>>,
    budget: Arc<Budget>,
    rows: Arc<Budget>,
    buffers: BufferPool,
    doorbell: Arc<Doorbell>,
    evictions: Arc<AtomicU64>,
    huge: HugePages,
    pass_through: u64,
    /// What rings of all jobs may take: writers need the rest.
    rings: Arc<Budget>,
    opened: OpenedFiles,
    /// Bytes read past the tier since a block was offered.
    unoffered: AtomicU64,
    /// Whether it was said that the system gives less than the budget.
    complained: AtomicBool,
}

impl RamTier {
    /// A tier of at most `bytes_max`; whether its blocks are made of huge pages.
    ///
    /// # Errors
    /// If the system has no shared memory.
    pub fn new(bytes_max: u64, huge_pages: bool) -> Result<Self> {
        let doorbell = Arc::new(Doorbell::create()?);
        let evictions = Arc::new(AtomicU64::new(0));
        let rows_max = bytes_max / ROWS_SHARE;
        let bytes_max = bytes_max - rows_max;
        let pass_through = (bytes_max / PASS_THROUGH_SHARE).max(PASS_THROUGH_BLOCKS_MIN * BLOCK_BYTES);
        let (bell, count) = (Arc::clone(&doorbell), Arc::clone(&evictions));
        let blocks = Cache::builder()
            .max_capacity(bytes_max.saturating_sub(pass_through))
            .weigher(|_, _| BLOCK_BYTES as u32)
            .eviction_listener(move |_, _, cause| {
                if cause == RemovalCause::Size {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                bell.ring();
            })
            .build();
        let budget = Budget::new(bytes_max, "ram-full");
        Ok(Self {
            blocks,
            buffers: BufferPool::new(budget.reserve(BLOCK_BYTES)?),
            budget,
            rows: Budget::new(rows_max, "rows-full"),
            doorbell,
            evictions,
            huge: HugePages::new(huge_pages),
            rings: Budget::new(pass_through / 2, "ram-full"),
            pass_through,
            opened: OpenedFiles::default(),
            unoffered: AtomicU64::new(0),
            complained: AtomicBool::new(false),
        })
    }

    /// Says once if the system does not give what the budget allows.
    fn given<T>(&self, given: Result<T>) -> Result<T> {
        given.inspect_err(|error| {
            if !self.complained.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "jobs compute what finds no memory");
            }
        })
    }

    /// Memory for a client to write elements into.
    ///
    /// # Errors
    /// `ram-full`: the client goes without.
    pub fn stage(&self, bytes: u64) -> Result<Staging> {
        self.given(Staging::create(self.reserve(bytes)?))
    }

    /// Memory to read files into for one job, of the share that is kept for pass-through.
    ///
    /// # Errors
    /// `ram-full`: the job goes without.
    pub fn read_ahead(&self) -> Result<ReadAhead> {
        let most = self.pass_through / RING_SHARE / SLOT_BYTES;
        let mut slots = most.clamp(RING_SLOTS_MIN, RING_SLOTS_MAX);
        loop {
            let bytes = slots * SLOT_BYTES;
            let reserved = self
                .rings
                .reserve(bytes)
                .and_then(|share| Ok((self.reserve(bytes)?, share)));
            match reserved {
                Ok((reservation, share)) => {
                    let ring = self.given(Ring::create(reservation))?;
                    return Ok(ReadAhead::new(ring, share));
                }
                Err(_) if slots > RING_SLOTS_MIN => slots = (slots / 2).max(RING_SLOTS_MIN),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a block of which `read` bytes were read past the tier is to be offered to the policy: now and then.
    pub fn is_offered(&self, read: u64) -> bool {
        let before = self.unoffered.fetch_add(read, Ordering::Relaxed);
        before / OFFER_BYTES != (before + read) / OFFER_BYTES && self.has_budget()
    }

    fn has_budget(&self) -> bool {
        self.budget.used() + BLOCK_BYTES <= self.budget.bytes_max()
    }

    /// Lets go of buffers that are not in use.
    pub fn trim(&self) {
        self.buffers.trim();
    }

    /// Whether a block is held, without counting it as used.
    pub fn holds(&self, id: BlockId) -> bool {
        self.blocks.contains_key(&id)
    }

    /// Counts a block as used: clients read it through their own maps.
    pub fn touch(&self, id: BlockId) {
        self.blocks.get(&id);
    }

    /// Rung at each eviction.
    pub fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }

    /// Bytes in use by anyone for blocks, and their limit.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Memory for the rows of segments: which entry lies where. Of its own, since blocks give way to each other
    /// and rows to nothing.
    pub fn rows(&self) -> &Arc<Budget> {
        &self.rows
    }

    /// Bytes in use by anyone for blocks and rows, and the limit of both.
    pub fn bytes(&self) -> (u64, u64) {
        let (blocks, rows) = (&self.budget, &self.rows);
        (blocks.used() + rows.used(), blocks.bytes_max() + rows.bytes_max())
    }

    /// Blocks evicted for want of room since last asked.
    pub fn take_evictions(&self) -> u64 {
        self.evictions.swap(0, Ordering::Relaxed)
    }

    /// Memory of the daemon's own, for what is on its way through it.
    ///
    /// # Errors
    /// `ram-full`.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation> {
        self.budget.reserve(bytes).or_else(|_| {
            // What moka has evicted but not yet dropped may be all that is missing.
            self.blocks.run_pending_tasks();
            self.budget.reserve(bytes)
        })
    }
}

impl Blocks for RamTier {
    fn allocate(&self) -> Result<BlockWriter> {
        self.given(Block::create(self.reserve(BLOCK_BYTES)?, &self.huge))
    }

    fn buffer(&self) -> Result<Buffer<'_>> {
        self.buffers.take(|bytes| self.reserve(bytes))
    }

    fn has_room(&self) -> bool {
        let capacity = self.blocks.policy().max_capacity().unwrap_or(0);
        self.blocks.weighted_size() + BLOCK_BYTES <= capacity && self.has_budget()
    }

    fn unwritten_blocks(&self) -> usize {
        let share = self.budget.bytes_max() / UNWRITTEN_SHARE / BLOCK_BYTES;
        share.clamp(1, UNWRITTEN_BLOCKS_MAX) as usize
    }

    fn get(&self, id: BlockId) -> Option<Arc<Block>> {
        self.blocks.get(&id)
    }

    fn insert(&self, id: BlockId, block: Arc<Block>) {
        self.blocks.insert(id, block);
        // moka batches its evictions; bytes over budget are ours to answer for, so not here.
        self.blocks.run_pending_tasks();
    }

    fn forget(&self, segment: SegmentId, blocks: u32) {
        for index in 0..blocks {
            self.blocks.invalidate(&BlockId { segment, index });
        }
        self.opened.forget(segment);
        self.blocks.run_pending_tasks();
        self.doorbell.ring();
    }

    fn opened(&self) -> &OpenedFiles {
        &self.opened
    }
}
