//! One segment's blocks, mapped side by side in this process.

use super::check_sealed;
use super::pages::{PageSet, Pagemap};
use crate::error::{Error, Result};
use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::process::{Pid, getpid};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Address space for blocks of one segment, each mapped privately at block number times block size, so that a run of
/// elements is one slice whatever blocks it crosses.
///
/// Bytes handed out are writable, and the kernel keeps what was written to a private map. Three rules keep such writes
/// from ever being served: live ranges are disjoint; a range is handed out only if none of its pages was written; a
/// written page that no live range touches is dropped, which brings the cached bytes back.
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    block_bytes: usize,
    page_bytes: usize,
    /// Whose locks these are: a forked child must not take them.
    owner: Pid,
    /// Without it no range is ever handed out, so no page is ever written: callers get copies.
    pagemap: Option<Arc<Pagemap>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    mapped: Vec<bool>,
    /// Pages that were ever inside a handed-out range. No other page can have been written.
    handed: PageSet,
    /// Start to end of ranges that someone holds; disjoint.
    live: BTreeMap<usize, usize>,
}

// SAFETY: `base` names address space that this value owns; every use of it is guarded by `state` or by a `Lent` range
// that no other `Lent` overlaps.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves address space (no memory) for `blocks` blocks.
    pub(crate) fn reserve(
        block_bytes: usize,
        blocks: usize,
        pagemap: Option<Arc<Pagemap>>,
    ) -> Result<Region> {
        let page_bytes = rustix::param::page_size();
        if block_bytes == 0 || !block_bytes.is_multiple_of(page_bytes) {
            return Err(Error::protocol(format!(
                "blocks of {block_bytes} bytes on pages of {page_bytes}"
            )));
        }
        let bytes = block_bytes
            .checked_mul(blocks)
            .ok_or_else(|| Error::protocol("a segment larger than the address space"))?;
        let base = reserve_aligned(bytes, block_bytes)
            .ok_or_else(|| Error::internal("no address space for a segment: raise the limit (ulimit -v)"))?;
        Ok(Region {
            base,
            bytes,
            block_bytes,
            page_bytes,
            owner: getpid(),
            pagemap,
            state: Mutex::default(),
        })
    }

    /// Maps a block; a block already mapped stays as it is. The descriptor is closed.
    pub(crate) fn map(&self, block: usize, fd: OwnedFd) -> Result<()> {
        let range = self.block_range(block)?;
        check_sealed(fd.as_fd(), self.block_bytes)?;
        let mut state = self.state.lock();
        if state.mapped.get(block).copied().unwrap_or(false) {
            return Ok(());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the range lies in our own reservation (block_range) and the block was not mapped, so nobody holds
        // anything there. The descriptor cannot shrink (check_sealed).
        unsafe { mmap(self.at(range.start), self.block_bytes, protection, flags, &fd, 0) }.map_err(|e| {
            Error::internal(format!(
                "cannot map a block: {e} (vm.max_map_count may be too low)"
            ))
        })?;
        // Its page table entries in one go, where the kernel can: 64 faults take several times as long.
        // SAFETY: reads pages of the map just made; changes no bytes.
        let _ = unsafe { madvise(self.at(range.start), self.block_bytes, Advice::LinuxPopulateRead) };
        if state.mapped.len() <= block {
            state.mapped.resize(block + 1, false);
        }
        state.mapped[block] = true;
        state.handed.grow(self.pages(&range).end);
        Ok(())
    }

    /// Whether these bytes are readable now.
    pub(crate) fn covers(&self, range: &Range<usize>) -> bool {
        self.mapped(&self.state.lock(), range)
    }

    /// Hands out the bytes themselves, or None if they must be copied.
    pub(crate) fn hand_out(self: &Arc<Self>, range: Range<usize>) -> Option<Lent> {
        let mut state = self.state.lock();
        if self.pagemap.is_none()
            || range.is_empty()
            || !self.mapped(&state, &range)
            || overlaps(&state.live, &range)
        {
            return None;
        }
        let pages = self.pages(&range);
        if !self.settle(&state, pages.clone()) {
            return None;
        }
        state.handed.insert(pages);
        state.live.insert(range.start, range.end);
        Some(Lent {
            region: Arc::clone(self),
            range,
        })
    }

    /// Appends the cached bytes of the range. False, and nothing appended, if they cannot be told from a user's writes.
    pub(crate) fn copy(&self, range: Range<usize>, out: &mut Vec<u8>) -> bool {
        let state = self.state.lock();
        let pages = self.pages(&range);
        if !self.mapped(&state, &range) || !self.settle(&state, pages.clone()) {
            return false;
        }
        let (start, length) = (out.len(), range.len());
        out.reserve(length);
        // SAFETY: the range is mapped (and stays so while we hold `state`), the target was just reserved. A holder of a
        // live range may write while we copy; the check below then finds the page written.
        unsafe {
            let target = out.as_mut_ptr().add(start);
            ptr::copy_nonoverlapping(self.base.as_ptr().add(range.start), target, length);
            out.set_len(start + length);
        }
        let touched = pages.start * self.page_bytes..pages.end * self.page_bytes;
        if overlaps(&state.live, &touched) && !self.settle(&state, pages) {
            out.truncate(start);
            return false;
        }
        true
    }

    /// Unmaps a block unless someone holds bytes of it. True if it is not mapped any more.
    pub(crate) fn unmap_if_idle(&self, block: usize) -> bool {
        let Ok(range) = self.block_range(block) else {
            return true;
        };
        let mut state = self.state.lock();
        if !state.mapped.get(block).copied().unwrap_or(false) {
            return true;
        }
        if overlaps(&state.live, &range) {
            return false;
        }
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let at = self.at(range.start);
        // SAFETY: the range lies in our reservation and no live range touches it.
        if unsafe { mmap_anonymous(at, self.block_bytes, ProtFlags::empty(), flags) }.is_err() {
            return false;
        }
        state.mapped[block] = false;
        true
    }

    /// Whether no block is mapped.
    pub(crate) fn is_empty(&self) -> bool {
        !self.state.lock().mapped.contains(&true)
    }

    /// Brings written pages back to the cached bytes. False if a live range touches one, or the kernel does not tell.
    fn settle(&self, state: &State, pages: Range<usize>) -> bool {
        let (Some(span), Some(pagemap)) = (state.handed.span(pages), &self.pagemap) else {
            return true;
        };
        let first = self.base.as_ptr().addr() / self.page_bytes + span.start;
        let Ok(written) = pagemap.written(first, span.len()) else {
            return false;
        };
        let mut page = span.start;
        for run in written.chunk_by(|a, b| a == b) {
            let bytes = page * self.page_bytes..(page + run.len()) * self.page_bytes;
            page += run.len();
            if run[0] && (overlaps(&state.live, &bytes) || !self.discard(&bytes)) {
                return false;
            }
        }
        true
    }

    fn discard(&self, bytes: &Range<usize>) -> bool {
        // SAFETY: whole mapped pages of ours that no live range touches (settle).
        unsafe { madvise(self.at(bytes.start), bytes.len(), Advice::LinuxDontNeed) }.is_ok()
    }

    fn mapped(&self, state: &State, range: &Range<usize>) -> bool {
        let blocks = range.start / self.block_bytes..range.end.div_ceil(self.block_bytes);
        state.mapped.get(blocks).is_some_and(|b| !b.contains(&false))
    }

    fn pages(&self, range: &Range<usize>) -> Range<usize> {
        range.start / self.page_bytes..range.end.div_ceil(self.page_bytes)
    }

    fn block_range(&self, block: usize) -> Result<Range<usize>> {
        block
            .checked_mul(self.block_bytes)
            .filter(|start| *start < self.bytes)
            .map(|start| start..start + self.block_bytes)
            .ok_or_else(|| Error::protocol(format!("block {block} is past the end of any segment")))
    }

    fn at(&self, offset: usize) -> *mut c_void {
        self.base.as_ptr().wrapping_add(offset).cast()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: every Lent range holds an Arc of this region, so nobody reads here any more.
        let _ = unsafe { munmap(self.at(0), self.bytes) };
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
        self.region.base.as_ptr().wrapping_add(self.range.start)
    }

    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // In a forked child another thread of the parent may hold the lock for ever.
        if getpid() == self.region.owner {
            self.region.state.lock().live.remove(&self.range.start);
        }
    }
}

/// Address space at a multiple of `alignment`, so that huge pages of blocks can be mapped as such.
fn reserve_aligned(bytes: usize, alignment: usize) -> Option<NonNull<u8>> {
    let whole = bytes.checked_add(alignment)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh anonymous map at an address of the kernel's choice touches nothing that exists.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), whole, ProtFlags::empty(), flags) }.ok()?;
    let before = start.addr().next_multiple_of(alignment) - start.addr();
    let base = start.wrapping_byte_add(before);
    let after = alignment - before;
    // SAFETY: both ends are parts of the map just made, whole pages of it (alignment is a multiple of the page
    // size), and nothing refers to them.
    unsafe {
        if before > 0 {
            let _ = munmap(start, before);
        }
        if after > 0 {
            let _ = munmap(base.wrapping_byte_add(bytes), after);
        }
    }
    NonNull::new(base.cast())
}

fn overlaps(live: &BTreeMap<usize, usize>, range: &Range<usize>) -> bool {
    live.range(..range.end)
        .next_back()
        .is_some_and(|(_, end)| *end > range.start)
}

#[cfg(test)]
#[path = "region_tests.rs"]
mod tests;
