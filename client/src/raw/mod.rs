//! Shared memory, inherited descriptors and traced commands. All `unsafe` of the crate is in this module.

mod buffer;
mod counters;
mod gather;
mod inherited;
mod preempted;
mod process;
pub(crate) mod ptrace;
mod readable;
mod region;
mod shared;
mod space;
#[cfg(test)]
pub(crate) mod test_blocks;
mod watch;
mod writers;

pub(crate) use buffer::Buffer;
pub(crate) use counters::{CounterMemory, LINES as COUNTER_LINES};
pub(crate) use gather::Gather;
pub use inherited::after_fork;
pub(crate) use inherited::{ClosedInChild, OfProcess};
pub(crate) use preempted::preemptions;
pub(crate) use process::current as process_id;
pub(crate) use readable::{Held, Readable};
pub(crate) use region::{Lent, Region};
pub(crate) use shared::SharedMemory;
pub(crate) use watch::Watch;
pub(crate) use writers::has_writer;

use crate::error::{Error, Result};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use std::os::fd::BorrowedFd;

/// Refuses a descriptor whose memory could shrink under a map, which would end this process with SIGBUS. Its seals.
fn check_sealed(fd: BorrowedFd<'_>, bytes: usize) -> Result<SealFlags> {
    let size = fstat(fd)
        .map_err(|e| Error::protocol(format!("fstat of shared memory: {e}")))?
        .st_size;
    if usize::try_from(size).unwrap_or(0) < bytes {
        return Err(Error::protocol(format!(
            "shared memory of {size} bytes where {bytes} were promised"
        )));
    }
    match fcntl_get_seals(fd) {
        Ok(seals) if seals.contains(SealFlags::SHRINK) => Ok(seals),
        _ => Err(Error::protocol("shared memory without a seal against shrinking")),
    }
}
