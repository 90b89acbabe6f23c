//! Address space for one segment's blocks, side by side.

use super::check_sealed;
use crate::error::{Error, Result};
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};

/// What a block may be mapped for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reading and copy-on-write.
    Private,
    /// Reading alone: no user's write is ever in it.
    Reading,
}

/// Reserved address space (no memory), in which block `n` is at `n` times the size of a block, so that a run of elements is
/// one slice whatever blocks it crosses. It is given back when this is dropped.
pub(super) struct Space {
    base: NonNull<u8>,
    bytes: usize,
    block_bytes: usize,
}

// SAFETY: `base` names address space that this value owns. It hands out addresses only; whoever uses them answers for it.
unsafe impl Send for Space {}
// SAFETY: as above.
unsafe impl Sync for Space {}

impl Space {
    pub(super) fn reserve(block_bytes: usize, blocks: usize) -> Result<Space> {
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
        Ok(Space {
            base,
            bytes,
            block_bytes,
        })
    }

    /// Maps a block in place of nothing. The descriptor is closed; its seals.
    ///
    /// # Safety
    /// Nobody uses the block's addresses.
    pub(super) unsafe fn map(&self, block: usize, fd: OwnedFd, access: Access) -> Result<SealFlags> {
        let range = self.block(block)?;
        let seals = check_sealed(fd.as_fd(), self.block_bytes)?;
        let flags = match access {
            Access::Private => MapFlags::PRIVATE,
            Access::Reading => MapFlags::SHARED,
        };
        let flags = flags | MapFlags::FIXED;
        let failed = |e| {
            Error::internal(format!(
                "cannot map a block: {e} (vm.max_map_count may be too low)"
            ))
        };
        // SAFETY: the range lies in our own reservation (block), where nobody holds anything (the caller's promise). The
        // descriptor cannot shrink (check_sealed).
        unsafe {
            mmap(
                self.at(range.start).cast(),
                self.block_bytes,
                ProtFlags::READ,
                flags,
                &fd,
                0,
            )
        }
        .map_err(failed)?;
        if access == Access::Private {
            let writable = MprotectFlags::READ | MprotectFlags::WRITE;
            // Not at once: memory that can be written is charged, and before Linux 6.12 a map that is refused for that leaves a
            // hole, in which a map of somebody else's may come to lie.
            // SAFETY: the map that was just made, which nobody uses yet.
            let made = unsafe { mprotect(self.at(range.start).cast(), self.block_bytes, writable) };
            if let Err(error) = made {
                // SAFETY: as above.
                unsafe { self.unmap(block) };
                return Err(failed(error));
            }
        }
        Ok(seals)
    }

    /// Unmaps a block. False if the kernel refuses.
    ///
    /// # Safety
    /// Nobody uses the block's addresses.
    pub(super) unsafe fn unmap(&self, block: usize) -> bool {
        let Ok(range) = self.block(block) else {
            return true;
        };
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let at = self.at(range.start).cast::<c_void>();
        // SAFETY: the range lies in our reservation, and nobody uses it (the caller's promise).
        unsafe { mmap_anonymous(at, self.block_bytes, ProtFlags::empty(), flags) }.is_ok()
    }

    /// Enters the pages of these bytes into the page tables, as if they were read. What is not mapped stays so. False where the
    /// kernel cannot (before Linux 5.14).
    pub(super) fn populate(&self, range: &Range<usize>) -> bool {
        let page_bytes = rustix::param::page_size();
        let start = range.start - range.start % page_bytes;
        let end = range.end.next_multiple_of(page_bytes).min(self.bytes);
        if start >= end {
            return true;
        }
        // SAFETY: the range lies in our own reservation. Pages are read and nothing is changed, whatever is mapped there meanwhile.
        let done = unsafe { madvise(self.at(start).cast(), end - start, Advice::LinuxPopulateRead) };
        !matches!(done, Err(Errno::INVAL))
    }

    /// Where a byte of the segment is.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset)
    }

    pub(super) fn addresses(&self, bytes: &Range<usize>) -> Range<usize> {
        let base = self.base.as_ptr().addr();
        base + bytes.start..base + bytes.end
    }

    pub(super) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Numbers of the blocks that a range touches.
    pub(super) fn blocks(&self, range: &Range<usize>) -> Range<usize> {
        range.start / self.block_bytes..range.end.div_ceil(self.block_bytes)
    }

    /// The bytes of a block.
    pub(super) fn block(&self, number: usize) -> Result<Range<usize>> {
        number
            .checked_mul(self.block_bytes)
            .filter(|start| *start < self.bytes)
            .map(|start| start..start + self.block_bytes)
            .ok_or_else(|| Error::protocol(format!("block {number} is past the end of any segment")))
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // SAFETY: whoever uses an address keeps what holds this alive.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
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
