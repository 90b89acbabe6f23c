//! Memory that a client writes elements into, and the daemon copies them out of.

use super::{BlockWriter, allocate, memfd};
use crate::{
    error::{Error, Result},
    limits::budget::Reservation,
};
use memmap2::{MmapOptions, MmapRaw};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Memory a client writes elements into. The daemon never looks at it: the kernel copies from its map into a block, so that
/// nothing that a client does to it can fault the daemon or change a byte after it was copied. Read into a buffer first it
/// takes more than twice as long.
#[derive(Debug)]
pub struct Staging {
    fd: OwnedFd,
    map: MmapRaw,
    _reservation: Reservation,
}

impl Staging {
    /// Memory of `reservation.bytes()`, for one client to write into.
    ///
    /// # Errors
    /// If the system has no memory or descriptors left.
    pub fn create(reservation: Reservation) -> Result<Self> {
        let bytes = reservation.bytes();
        let fd = memfd("prebake-staging", bytes)?;
        allocate(&fd, bytes)?;
        let map = MmapOptions::new().map_raw_read_only(&fd);
        Ok(Self {
            fd,
            map: map.map_err(|e| Error::mapping(&e))?,
            _reservation: reservation,
        })
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.map.len() as u64
    }

    /// Appends bytes of it to a block. What the client writes meanwhile decides only what is copied.
    ///
    /// # Errors
    /// If the range is not inside; as [`BlockWriter::append`].
    pub fn append(&self, offset: u64, len: usize, to: &mut BlockWriter) -> Result<()> {
        let room = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.map.len().checked_sub(offset));
        if room.is_none_or(|room| len > room) {
            return Err(Error::corrupt("an element ends outside its memory"));
        }
        // SAFETY: the range was just checked to lie in the map, which is as long as the memfd, which cannot shrink (`memfd`), and
        // stays until `self` is dropped.
        unsafe { to.append_from(self.map.as_ptr().add(offset as usize), len) }
    }
}

impl AsFd for Staging {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        limits::budget::Budget,
        memory::{BLOCK_BYTES, Block, HugePages},
    };
    use rustix::fs::{FallocateFlags, fallocate};

    #[test]
    fn what_is_copied_is_what_lay_there_then_and_ends_where_it_ends() {
        let budget = Budget::new(2 * BLOCK_BYTES, "ram-full");
        let staging = Staging::create(budget.reserve(8192).unwrap()).unwrap();
        let mut block = Block::create(budget.reserve(BLOCK_BYTES).unwrap(), &HugePages::new(false)).unwrap();
        rustix::io::pwrite(&staging, b"abcdefgh", 8184).unwrap();
        staging.append(8184, 8, &mut block).unwrap();
        rustix::io::pwrite(&staging, b"ABCDEFGH", 8184).unwrap();
        assert_eq!(block.read(&mut [0; 100]).unwrap(), b"abcdefgh");
        for (offset, len) in [(8185, 8), (8193, 0), (u64::MAX, 8), (8, usize::MAX)] {
            let outside = staging.append(offset, len, &mut block);
            assert_eq!(outside.unwrap_err().code(), "corrupt", "{offset} {len}");
        }
        // What a client takes out of it reads as zeros; it cannot make it shorter.
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&staging, hole, 4096, 4096).unwrap();
        assert!(rustix::fs::ftruncate(&staging, 0).is_err());
        staging.append(8184, 8, &mut block).unwrap();
        assert_eq!(block.read(&mut [1; 100]).unwrap(), b"abcdefgh\0\0\0\0\0\0\0\0");
    }
}
