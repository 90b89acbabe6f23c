//! Shared memory and inherited descriptors. All `unsafe` of the crate is in this module.

mod inherited;
mod region;
mod shared;
mod watch;

pub use inherited::after_fork;
pub(crate) use inherited::{ClosedInChild, OfProcess};
pub(crate) use region::{Lent, Region};
pub(crate) use shared::SharedMemory;
pub(crate) use watch::Watch;

use crate::error::{Error, Result};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::{Advice, madvise};
use std::os::fd::BorrowedFd;

/// What x86-64 and most of ARM call a huge page.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Asks for huge pages where a buffer that is about to be filled holds whole ones: a fault for each small page costs
/// as much as copying it.
pub(crate) fn prefer_huge_pages(buffer: &mut Vec<u8>) {
    let spare = buffer.spare_capacity_mut();
    let skip = spare.as_ptr().align_offset(HUGE_PAGE_BYTES);
    let Some(aligned) = spare.get_mut(skip..) else {
        return;
    };
    let bytes = aligned.len() / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if bytes > 0 {
        // SAFETY: whole pages inside the buffer's own allocation; the advice changes no bytes.
        let _ = unsafe { madvise(aligned.as_mut_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }
}

/// Refuses a descriptor whose memory could shrink under a map, which would end this process with SIGBUS.
fn check_sealed(fd: BorrowedFd<'_>, bytes: usize) -> Result<()> {
    let size = fstat(fd)
        .map_err(|e| Error::protocol(format!("fstat of shared memory: {e}")))?
        .st_size;
    if usize::try_from(size).unwrap_or(0) < bytes {
        return Err(Error::protocol(format!(
            "shared memory of {size} bytes where {bytes} were promised"
        )));
    }
    match fcntl_get_seals(fd) {
        Ok(seals) if seals.contains(SealFlags::SHRINK) => Ok(()),
        _ => Err(Error::protocol("shared memory without a seal against shrinking")),
    }
}
