//! One segment's blocks, mapped side by side in this process.

use super::process;
use super::space::{Access, Space};
use super::watch::{PageSet, Watch};
use crate::error::Result;
use parking_lot::Mutex;
use rustix::fs::SealFlags;
use rustix::mm::{Advice, madvise};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Blocks of one segment, each mapped privately.
///
/// Bytes handed out are writable, and the kernel keeps what was written to a private map. Three rules keep such writes
/// from ever being served: live ranges are disjoint; a range is handed out only if none of its pages was written; a
/// written page that no live range touches is dropped, which brings the cached bytes back.
pub(crate) struct Region {
    space: Space,
    page_bytes: usize,
    /// Whose locks these are: a forked child must not take them.
    owner: i32,
    /// Without it no range is ever handed out, so no page is ever written: callers get copies.
    watch: Option<Arc<Watch>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    blocks: Vec<Block>,
    /// Pages that were handed out while their block was not watched. No other page of such a block can have been written.
    handed: PageSet,
    /// Start to end of ranges that someone holds; disjoint.
    live: BTreeMap<usize, usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Absent,
    /// Mapped while elements were still appended to it.
    Open,
    Mapped,
    /// The kernel marks what is written.
    Watched,
}

impl Region {
    /// Reserves address space (no memory) for `blocks` blocks.
    pub(crate) fn reserve(block_bytes: usize, blocks: usize, watch: Option<Arc<Watch>>) -> Result<Region> {
        Ok(Region {
            space: Space::reserve(block_bytes, blocks)?,
            page_bytes: rustix::param::page_size(),
            owner: process::current(),
            watch,
            state: Mutex::default(),
        })
    }

    /// Maps a block; a block already mapped stays as it is. The descriptor is closed.
    pub(crate) fn map(&self, block: usize, fd: OwnedFd) -> Result<()> {
        let mut state = self.state.lock();
        if state.block(block) != Block::Absent {
            return Ok(());
        }
        // SAFETY: the block was not mapped, so that nobody holds any of it.
        let seals = unsafe { self.space.map(block, fd, Access::Private) }?;
        if state.blocks.len() <= block {
            state.blocks.resize(block + 1, Block::Absent);
        }
        state.blocks[block] = match seals.contains(SealFlags::WRITE) {
            true => Block::Mapped,
            false => Block::Open,
        };
        state
            .handed
            .grow((block + 1) * self.space.block_bytes() / self.page_bytes);
        Ok(())
    }

    /// Whether these bytes are readable now.
    pub(crate) fn covers(&self, range: &Range<usize>) -> bool {
        self.mapped(&self.state.lock(), range)
    }

    /// Hands out the bytes themselves, or None if they must be copied.
    pub(crate) fn hand_out(self: &Arc<Self>, range: Range<usize>) -> Option<Lent> {
        let mut state = self.state.lock();
        let usable = !range.is_empty() && self.mapped(&state, &range) && !overlaps(&state.live, &range);
        if self.watch.is_none() || !usable || !self.settle(&mut state, &range) {
            return None;
        }
        let pages = self.pages(&range);
        state
            .handed
            .insert(pages.start / self.page_bytes..pages.end / self.page_bytes);
        state.live.insert(range.start, range.end);
        Some(Lent {
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
        let Ok(range) = self.space.block(block) else {
            return true;
        };
        let mut state = self.state.lock();
        if state.block(block) == Block::Absent {
            return true;
        }
        if overlaps(&state.live, &range) {
            return false;
        }
        // SAFETY: no live range touches it, and none can while we hold the lock.
        if !unsafe { self.space.unmap(block) } {
            return false;
        }
        state.blocks[block] = Block::Absent;
        state
            .handed
            .remove(range.start / self.page_bytes..range.end / self.page_bytes);
        true
    }

    /// Whether no block is mapped.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().blocks.iter().all(|b| *b == Block::Absent)
    }

    /// Brings written pages back to the cached bytes. False if a live range touches one, or the kernel does not tell.
    fn settle(&self, state: &mut State, range: &Range<usize>) -> bool {
        let pages = self.pages(range);
        self.space.blocks(range).all(|block| {
            let whole = block * self.space.block_bytes()..(block + 1) * self.space.block_bytes();
            let (start, end) = (pages.start.max(whole.start), pages.end.min(whole.end));
            self.settle_part(state, block, &(start..end))
        })
    }

    /// The same for pages of one block.
    fn settle_part(&self, state: &mut State, block: usize, part: &Range<usize>) -> bool {
        // Where memory is locked (`mlockall`), all pages of it were copied when it was mapped, and lack what came after.
        if state.block(block) == Block::Open {
            return self.settle_pages(state, part, false);
        }
        if state.block(block) != Block::Watched {
            let Some(handed) = self.handed(state, part) else {
                return true;
            };
            // Most of it was read before: it is likely to be read on, and so the rest of its block.
            let again = 2 * handed.len() >= part.len();
            if !again || !self.begin_watch(state, block) {
                return self.settle_pages(state, &handed, false);
            }
        }
        self.settle_pages(state, part, true)
    }

    /// False if it cannot be watched now. Nobody may hold bytes of it: what is written between looking at its pages and
    /// marking them would be marked as unwritten. Nor one that was mapped while it was filled: a device that pins a page of it
    /// for reading gets a snapshot, which is marked all the same and lacks what came after.
    fn begin_watch(&self, state: &mut State, block: usize) -> bool {
        let bytes = block * self.space.block_bytes()..(block + 1) * self.space.block_bytes();
        let usable = state.block(block) == Block::Mapped && !overlaps(&state.live, &bytes);
        let Some(watch) = self.watch.as_ref().filter(|watch| usable && watch.can_mark()) else {
            return false;
        };
        let handed = self.handed(state, &bytes);
        let settled = handed.is_none_or(|handed| self.settle_pages(state, &handed, false));
        let begun = settled && watch.begin(&self.space.addresses(&bytes)).is_ok();
        if begun {
            state.blocks[block] = Block::Watched;
        }
        begun
    }

    fn settle_pages(&self, state: &State, pages: &Range<usize>, watched: bool) -> bool {
        let Some(watch) = &self.watch else {
            return false;
        };
        let addresses = self.space.addresses(pages);
        let written = match watched {
            true => watch.written(&addresses),
            false => watch.look(&addresses),
        };
        written.is_ok_and(|written| {
            written.into_iter().all(|addresses| {
                let base = self.space.at(0).addr();
                let bytes = addresses.start - base..addresses.end - base;
                let dropped = !overlaps(&state.live, &bytes) && self.discard(&bytes);
                dropped && (!watched || watch.again(&addresses).is_ok())
            })
        })
    }

    /// The smallest range that holds all pages of `bytes` that were handed out.
    fn handed(&self, state: &State, bytes: &Range<usize>) -> Option<Range<usize>> {
        let pages = bytes.start / self.page_bytes..bytes.end / self.page_bytes;
        let span = state.handed.span(pages)?;
        Some(span.start * self.page_bytes..span.end * self.page_bytes)
    }

    fn discard(&self, bytes: &Range<usize>) -> bool {
        // SAFETY: whole mapped pages of ours that no live range touches (settle_pages).
        unsafe {
            madvise(
                self.space.at(bytes.start).cast(),
                bytes.len(),
                Advice::LinuxDontNeed,
            )
        }
        .is_ok()
    }

    fn mapped(&self, state: &State, range: &Range<usize>) -> bool {
        self.space
            .blocks(range)
            .all(|block| state.block(block) != Block::Absent)
    }

    /// The whole pages that a range touches, in bytes.
    fn pages(&self, range: &Range<usize>) -> Range<usize> {
        let end = range.end.next_multiple_of(self.page_bytes);
        range.start / self.page_bytes * self.page_bytes..end
    }
}

impl State {
    fn block(&self, number: usize) -> Block {
        self.blocks.get(number).copied().unwrap_or(Block::Absent)
    }
}

/// A range of a region that one holder may read and write; writes stay in this process.
pub(crate) struct Lent {
    region: Arc<Region>,
    range: Range<usize>,
}

impl Lent {
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: mapped until we drop, and no other Lent overlaps it.
        unsafe { std::slice::from_raw_parts(self.start(), self.range.len()) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.range.len()) }
    }

    fn start(&self) -> *mut u8 {
        self.region.space.at(self.range.start)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // In a forked child another thread of the parent may hold the lock for ever.
        if process::current() == self.region.owner {
            self.region.state.lock().live.remove(&self.range.start);
        }
    }
}

fn overlaps(live: &BTreeMap<usize, usize>, range: &Range<usize>) -> bool {
    live.range(..range.end)
        .next_back()
        .is_some_and(|(_, end)| *end > range.start)
}

#[cfg(test)]
#[path = "region_tests.rs"]
mod tests;
