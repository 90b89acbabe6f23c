//! Memory mapped shared: the staging memory we write, the doorbell and the ring we read.

use super::check_sealed;
use crate::error::{Error, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// A shared map of the start of a memfd.
pub(crate) struct SharedMemory {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: writes need `&mut self`; reads are of one atomic, or of what the daemon does not write to meanwhile (read).
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Staging memory of at least this size, to be written.
    pub(crate) fn staging(fd: &OwnedFd, bytes: usize) -> Result<SharedMemory> {
        Self::map(fd, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The doorbell: its first 8 bytes are a counter that the daemon raises.
    pub(crate) fn doorbell(fd: &OwnedFd) -> Result<SharedMemory> {
        Self::map(fd, size_of::<AtomicU64>(), ProtFlags::READ)
    }

    /// What the daemon reads files into, to be copied from.
    pub(crate) fn ring(fd: &OwnedFd, bytes: usize) -> Result<SharedMemory> {
        Self::map(fd, bytes, ProtFlags::READ)
    }

    fn map(fd: &OwnedFd, bytes: usize, protection: ProtFlags) -> Result<SharedMemory> {
        check_sealed(fd.as_fd(), bytes)?;
        // SAFETY: a fresh map at an address of the kernel's choice; the memfd cannot shrink (check_sealed).
        let base = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, fd, 0) };
        let base = base
            .ok()
            .and_then(|p| NonNull::new(p.cast()))
            .ok_or_else(|| Error::internal("cannot map memory shared with the daemon"))?;
        Ok(SharedMemory { base, bytes })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Copies `part` to `offset`. False, and nothing written, if it does not fit.
    pub(crate) fn write(&mut self, offset: usize, part: &[u8]) -> bool {
        if offset.checked_add(part.len()).is_none_or(|end| end > self.bytes) {
            return false;
        }
        // SAFETY: the target was just checked to lie in the map; `part` is ordinary memory, so they do not overlap.
        unsafe {
            ptr::copy_nonoverlapping(part.as_ptr(), self.base.as_ptr().add(offset), part.len());
        }
        true
    }

    /// Copies what is at `offset`, which the daemon does not write to meanwhile. False, and nothing copied, if it is not inside.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        if offset.checked_add(into.len()).is_none_or(|end| end > self.bytes) {
            return false;
        }
        // SAFETY: the source was just checked to lie in the map, which stays readable until we drop; `into` is ordinary
        // memory, so they do not overlap.
        unsafe {
            ptr::copy_nonoverlapping(self.base.as_ptr().add(offset), into.as_mut_ptr(), into.len());
        }
        true
    }

    /// The counter at the start of a doorbell.
    pub(crate) fn counter(&self) -> u64 {
        // SAFETY: maps are page-aligned and at least 8 bytes long (doorbell); the daemon writes it atomically.
        let counter = unsafe { self.base.cast::<AtomicU64>().as_ref() };
        counter.load(Ordering::Relaxed)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the map past `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_blocks::{BLOCK, open_block, unsealed};
    use super::*;

    #[test]
    fn memory_that_could_shrink_or_is_too_small_is_refused() {
        let maps: [fn(&OwnedFd, usize) -> Result<SharedMemory>; 3] =
            [SharedMemory::staging, SharedMemory::ring, |fd, _| {
                SharedMemory::doorbell(fd)
            }];
        for map in maps {
            assert!(map(&unsealed(), BLOCK).is_err());
            assert!(map(&open_block(0), BLOCK).is_ok());
        }
        for map in &maps[..2] {
            assert!(map(&open_block(0), BLOCK + 1).is_err());
        }
    }

    #[test]
    fn nothing_beyond_its_end_is_written_or_read() {
        let mut memory = SharedMemory::staging(&open_block(0), BLOCK).unwrap();
        assert!(memory.write(BLOCK - 2, b"ab"));
        let mut read = [0; 2];
        for offset in [BLOCK - 1, BLOCK, usize::MAX] {
            assert!(!memory.write(offset, b"xy"), "{offset}");
            assert!(!memory.read(offset, &mut read), "{offset}");
        }
        assert!(memory.read(BLOCK - 2, &mut read));
        assert_eq!(&read, b"ab");
    }
}
