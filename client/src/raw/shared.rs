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

// SAFETY: writes need `&mut self`; reads are of one atomic.
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
