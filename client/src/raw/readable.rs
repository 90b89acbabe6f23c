//! One segment's blocks, mapped for reading alone.

use super::process;
use super::space::{Access, Space};
use crate::error::Result;
use parking_lot::Mutex;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What arrays that are not to be written lie in, and what is copied from. Nobody here can write to it, so that ranges may
/// overlap and no page is ever looked at.
pub(crate) struct Readable {
    space: Space,
    /// Whose lock this is: a forked child must not take it.
    owner: i32,
    /// Of each block how many ranges of it are held; None if it is not mapped.
    held: Mutex<Vec<Option<usize>>>,
}

impl Readable {
    /// Reserves address space (no memory) for `blocks` blocks.
    pub(crate) fn reserve(block_bytes: usize, blocks: usize) -> Result<Readable> {
        Ok(Readable {
            space: Space::reserve(block_bytes, blocks)?,
            owner: process::current(),
            held: Mutex::default(),
        })
    }

    /// Maps a block; a block already mapped stays as it is. The descriptor is closed.
    pub(crate) fn map(&self, block: usize, fd: OwnedFd) -> Result<()> {
        let mut held = self.held.lock();
        if held.get(block).is_some_and(Option::is_some) {
            return Ok(());
        }
        // SAFETY: it was not mapped, so that nobody holds any of it.
        unsafe { self.space.map(block, fd, Access::Reading) }?;
        if held.len() <= block {
            held.resize(block + 1, None);
        }
        held[block] = Some(0);
        Ok(())
    }

    /// Whether these bytes are readable now.
    pub(crate) fn covers(&self, range: &Range<usize>) -> bool {
        covers(&self.held.lock(), self.space.blocks(range))
    }

    /// The bytes, which stay mapped while they are held; None if some are not mapped.
    pub(crate) fn hold(self: &Arc<Self>, range: Range<usize>) -> Option<Held> {
        let mut held = self.held.lock();
        let blocks = self.space.blocks(&range);
        if range.is_empty() || !covers(&held, blocks.clone()) {
            return None;
        }
        for count in held[blocks].iter_mut().flatten() {
            *count += 1;
        }
        Some(Held {
            region: Arc::clone(self),
            range,
        })
    }

    /// Enters these bytes into the page tables, as far as they are mapped. False where the kernel cannot.
    pub(crate) fn populate(&self, range: &Range<usize>) -> bool {
        self.space.populate(range)
    }

    /// Unmaps a block unless someone holds bytes of it. True if it is not mapped any more.
    pub(crate) fn unmap_if_idle(&self, block: usize) -> bool {
        let mut held = self.held.lock();
        match held.get(block).copied().flatten() {
            None => true,
            // SAFETY: nobody holds any of it, and nobody can while we hold the lock.
            Some(0) if unsafe { self.space.unmap(block) } => {
                held[block] = None;
                true
            }
            Some(_) => false,
        }
    }

    /// Whether no block is mapped.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.lock().iter().all(Option::is_none)
    }
}

fn covers(held: &[Option<usize>], blocks: Range<usize>) -> bool {
    held.get(blocks)
        .is_some_and(|held| held.iter().all(Option::is_some))
}

/// A range that someone reads.
pub(crate) struct Held {
    region: Arc<Readable>,
    range: Range<usize>,
}

impl Held {
    pub(crate) fn as_slice(&self) -> &[u8] {
        let start = self.region.space.at(self.range.start);
        // SAFETY: mapped until we drop; elements are complete before their places are told, and nobody writes to them then.
        unsafe { std::slice::from_raw_parts(start, self.range.len()) }
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // In a forked child another thread of the parent may hold the lock for ever.
        if process::current() == self.region.owner {
            let blocks = self.region.space.blocks(&self.range);
            for count in self.region.held.lock()[blocks].iter_mut().flatten() {
                *count -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_blocks::{BLOCK, block, expected, unsealed};
    use super::*;

    fn readable() -> Arc<Readable> {
        let region = Readable::reserve(BLOCK, 4).unwrap();
        region.map(0, block(BLOCK)).unwrap();
        Arc::new(region)
    }

    #[test]
    fn ranges_overlap_and_cross_blocks() {
        let region = readable();
        assert!(region.hold(BLOCK - 10..BLOCK + 10).is_none());
        assert!(!region.covers(&(BLOCK - 10..BLOCK + 10)));
        region.map(1, block(BLOCK)).unwrap();
        let [one, two] = [region.hold(10..BLOCK + 10), region.hold(20..BLOCK)].map(Option::unwrap);
        assert_eq!(one.as_slice()[..BLOCK - 10], expected(10..BLOCK));
        assert_eq!(one.as_slice()[BLOCK - 10..], expected(0..10));
        assert_eq!(two.as_slice(), expected(20..BLOCK));
    }

    #[test]
    fn a_block_is_unmapped_once_the_last_range_of_it_is_let_go() {
        let region = readable();
        let [one, two] = [region.hold(0..10), region.hold(5..10)].map(Option::unwrap);
        drop(one);
        assert!(!region.unmap_if_idle(0));
        assert_eq!(two.as_slice(), expected(5..10));
        drop(two);
        assert!(!region.is_empty());
        assert!(region.unmap_if_idle(0));
        assert!(region.is_empty() && region.hold(0..10).is_none());
        region.map(0, block(BLOCK)).unwrap();
        assert!(region.hold(0..10).is_some());
    }

    #[test]
    fn memory_that_could_shrink_is_refused() {
        assert!(readable().map(1, unsealed()).is_err());
        assert!(readable().map(4, block(BLOCK)).is_err());
    }
}
