//! Which blocks are worth huge pages, and when they get them: in the background, where nobody waits.

use crate::{
    memory::{BLOCK_BYTES, Block},
    task,
};
use parking_lot::Mutex;
use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

/// A block that was read whole so often will be read as often again, as far as one can know. Each such pass is then 0.1 to 0.2 ms
/// shorter; moving 4 MiB takes 1 ms where the machine has its memory to itself, and 10 where a host takes unused memory back.
const READS_MIN: u64 = 8;

/// What waits for huge pages. Its length is bounded by that of the RAM tier: no block is listed twice.
#[derive(Debug)]
pub struct HugePages {
    waiting: Mutex<Vec<Weak<Block>>>,
    /// Wanted, and the kernel has them.
    enabled: AtomicBool,
    /// A thread is at it.
    working: AtomicBool,
}

impl HugePages {
    /// None wait.
    pub fn new(enabled: bool) -> Self {
        Self {
            waiting: Mutex::default(),
            enabled: AtomicBool::new(enabled),
            working: AtomicBool::new(false),
        }
    }

    /// Counts bytes that clients have read of a block.
    pub fn read(&self, block: &Arc<Block>, bytes: u64) {
        let before = block.count_read(bytes);
        let least = READS_MIN * BLOCK_BYTES;
        if before < least && before.saturating_add(bytes) >= least && self.enabled.load(Ordering::Relaxed) {
            self.waiting.lock().push(Arc::downgrade(block));
        }
    }

    /// Sees to what waits, beside whatever else is done.
    pub fn start(self: &Arc<Self>) {
        if self.waiting.lock().is_empty() || self.working.swap(true, Ordering::AcqRel) {
            return;
        }
        let pages = Arc::clone(self);
        let started = task::idle("huge-pages", move || {
            pages.work();
            pages.working.store(false, Ordering::Release);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "blocks stay in small pages");
            self.working.store(false, Ordering::Release);
        }
    }

    fn work(&self) {
        loop {
            let next = self.waiting.lock().pop();
            let Some(block) = next else { return };
            let Some(block) = block.upgrade() else { continue };
            match block.to_huge_pages() {
                Ok(true) => {}
                Ok(false) => {
                    tracing::info!(
                        "this kernel has no huge pages for shared memory: blocks stay as they are"
                    );
                    self.enabled.store(false, Ordering::Relaxed);
                    self.waiting.lock().clear();
                }
                // It is read all the same.
                Err(error) => tracing::debug!(%error, "a block stays in small pages"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::ram::RamTier;

    fn block() -> Arc<Block> {
        let ram = RamTier::new(RamTier::BYTES_MIN, true).unwrap();
        let mut writer = ram.allocate().unwrap();
        writer.append(&vec![7; BLOCK_BYTES as usize]).unwrap();
        writer.seal().unwrap()
    }

    #[test]
    fn a_block_is_listed_once_when_it_was_read_often() {
        let (pages, block) = (HugePages::new(true), block());
        pages.read(&block, (READS_MIN - 1) * BLOCK_BYTES);
        assert!(pages.waiting.lock().is_empty());
        for _ in 0..3 * READS_MIN {
            pages.read(&block, BLOCK_BYTES);
        }
        assert_eq!(pages.waiting.lock().len(), 1);

        let unwanted = HugePages::new(false);
        unwanted.read(&block, 2 * READS_MIN * BLOCK_BYTES);
        assert!(
            unwanted.waiting.lock().is_empty(),
            "it was read more before, and is not wanted"
        );
    }

    #[test]
    fn what_waits_is_seen_to_once() {
        let (pages, block) = (HugePages::new(true), block());
        pages.read(&block, READS_MIN * BLOCK_BYTES);
        pages.work();
        assert!(pages.waiting.lock().is_empty());
        let moves = block.to_huge_pages().unwrap();
        assert_eq!(
            pages.enabled.load(Ordering::Relaxed),
            moves,
            "a kernel without them is asked no more"
        );
    }
}
