//! Huge pages for a block that is read again and again.
//!
//! A reader of 4 KiB pages waits for the page table every 4 KiB: an eighth of what it takes to touch an image, a fifth when four
//! jobs do at once. Blocks are not made of huge pages from the start, as most systems forbid that for shared memory
//! (`shmem_enabled=never`), and as a huge page that was never used before costs more than a job may be made to wait for.

use super::BLOCK_BYTES;
use crate::error::{Error, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::{
    ffi::c_void,
    os::fd::BorrowedFd,
    ptr::{self, NonNull},
};

/// Twice the address space of a block, so that an aligned block lies in it, for as long as it takes.
struct Window(NonNull<c_void>);

impl Window {
    const BYTES: usize = 2 * BLOCK_BYTES as usize;

    fn reserve() -> Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh map at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), Self::BYTES, ProtFlags::empty(), flags) };
        let start = start.map_err(|e| Error::io("reserving address space", e.into()))?;
        NonNull::new(start)
            .map(Self)
            .ok_or_else(|| Error::corrupt("the kernel mapped address zero"))
    }

    /// The address at a multiple of a block, behind which a whole block fits.
    fn aligned(&self) -> *mut c_void {
        let start = self.0.as_ptr();
        let before = start.addr().next_multiple_of(BLOCK_BYTES as usize) - start.addr();
        start.wrapping_byte_add(before)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the whole of our own reservation; nobody else knows its addresses.
        let _ = unsafe { munmap(self.0.as_ptr(), Self::BYTES) };
    }
}

/// Moves a block's bytes to huge pages (MADV_COLLAPSE, Linux 6.1). They stay the same for all who have it mapped; what they read
/// next is mapped anew, in huge pages where that can be.
///
/// False if the kernel cannot do it for any block: it is too old, or was built without. The block is then as it was.
///
/// # Errors
/// If no huge page is to be had now, or somebody is at a page of it; the block is then as it was.
pub(super) fn collapse(block: BorrowedFd<'_>) -> Result<bool> {
    let failed = |e: std::io::Error| Error::io("moving a block to huge pages", e);
    let window = Window::reserve()?;
    let (at, bytes) = (window.aligned(), BLOCK_BYTES as usize);
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: the range lies in the reservation just made, of which nothing is in use.
    unsafe { mmap(at, bytes, ProtFlags::READ, flags, block, 0) }.map_err(|e| failed(e.into()))?;
    // SAFETY: the range was mapped by the line above. The advice changes where its bytes are kept, and not what they are.
    match unsafe { libc::madvise(at, bytes, libc::MADV_COLLAPSE) } {
        0 => Ok(true),
        _ => match std::io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::EINVAL) => Ok(false),
            e => Err(failed(e)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{budget::Budget, memory::Block};
    use std::os::fd::AsFd;

    #[test]
    fn the_bytes_stay_the_same_for_whoever_has_them_mapped() {
        let budget = Budget::new(BLOCK_BYTES, "ram-full");
        let mut writer = Block::create(budget.reserve(BLOCK_BYTES).unwrap()).unwrap();
        let bytes: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at % 251) as u8).collect();
        writer.append(&bytes).unwrap();
        let block = writer.seal().unwrap();
        // SAFETY: sealed: nobody can change or shrink it.
        let map = unsafe { memmap2::Mmap::map(&block.as_fd()) }.unwrap();
        assert!(map[..] == bytes);
        collapse(block.as_fd()).unwrap();
        assert!(map[..] == bytes, "as mapped before");
        // SAFETY: as above.
        let again = unsafe { memmap2::Mmap::map(&block.as_fd()) }.unwrap();
        assert!(again[..] == bytes, "as mapped after");
    }
}
