//! The memory that what is read ahead is handed over in.

use super::{allocate, memfd, seal_others};
use crate::{
    error::{Error, Result},
    limits::budget::Reservation,
};
use memmap2::{MmapMut, MmapOptions};
use parking_lot::{Mutex, MutexGuard};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Memory that the daemon reads files into, and that one client copies from, slot by slot. Only the daemon can write to it.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    /// Each locked while it is read into.
    slots: Vec<Mutex<MmapMut>>,
    _reservation: Reservation,
}

/// Bytes of a slot of a [`Ring`]: a read of so many is as fast as any, and the first is there after a millisecond.
pub const SLOT_BYTES: u64 = 1 << 20;

impl Ring {
    /// As many slots as `reservation` has room for.
    ///
    /// # Errors
    /// If the system has no memory or descriptors left.
    pub fn create(reservation: Reservation) -> Result<Self> {
        let count = reservation.bytes() / SLOT_BYTES;
        let fd = memfd("prebake-ring", count * SLOT_BYTES)?;
        allocate(&fd, count * SLOT_BYTES)?;
        let map = |slot| {
            let mut options = MmapOptions::new();
            options.offset(slot * SLOT_BYTES).len(SLOT_BYTES as usize);
            // SAFETY: as in `map_writable`: the memfd cannot shrink, no other process knows it yet, and it is sealed below
            // before one does. The ranges of slots do not overlap, so each map is the only writable one of its bytes.
            let mapped = unsafe { options.map_mut(&fd) };
            mapped.map_err(|e| Error::mapping(&e))
        };
        let slots = (0..count).map(|slot| map(slot).map(Mutex::new));
        let slots = slots.collect::<Result<_>>()?;
        seal_others(&fd)?;
        Ok(Self {
            fd,
            slots,
            _reservation: reservation,
        })
    }

    /// Number of slots.
    pub fn slots(&self) -> u64 {
        self.slots.len() as u64
    }

    /// The bytes of the slot that a number comes to when slots are taken in turn.
    pub fn slot(&self, number: u64) -> MutexGuard<'_, MmapMut> {
        self.slots[(number % self.slots()) as usize].lock()
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
