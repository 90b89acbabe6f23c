//! Shared memory: blocks that only the daemon can fill, staging that only clients fill, and the
//! doorbell. The crate's one module with `unsafe`.
#![allow(unsafe_code)]

mod buffers;
pub mod heap;
mod huge;
mod ring;
mod staging;

pub use buffers::{Buffer, BufferPool};
pub use huge::HugePages;
pub use ring::{Ring, SLOT_BYTES};
pub use staging::Staging;

use crate::{
    error::{Error, Kind, Result},
    limits::budget::Reservation,
};
use memmap2::{MmapMut, MmapOptions};
use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fchmod, fcntl_add_seals, memfd_create,
};
use rustix::io::Errno;
use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::io::unix::AsyncFd;

/// Bytes of a block. Uniform, because mixed sizes halve TinyLFU's byte hit rate; 4 MiB, because
/// then a descriptor is cheap per byte and a partly used block is cheap per collection.
pub const BLOCK_BYTES: u64 = 4 << 20;

/// A window of a segment's value buffer in sealed shared memory. Whoever holds it, daemon or
/// client, keeps its bytes in the RAM budget.
#[derive(Debug)]
pub struct Block {
    /// Opened for reading: whoever gets it can neither write nor map for writing.
    fd: OwnedFd,
    _reservation: Reservation,
}

/// The daemon's right to fill a block; nobody else ever has it. It is written and read back with system
/// calls: through a map each page of fresh shared memory is a fault, which takes twice as long.
#[derive(Debug)]
pub struct BlockWriter {
    block: Arc<Block>,
    /// The block, opened for writing.
    fd: OwnedFd,
    len: usize,
}

/// The kernel refuses a seal while something of its own holds a page (it is moved, or looked at by the monitor of accesses),
/// after it waited a tenth of a second. So often in a row it is no chance.
const SEAL_TRIES: usize = 5;

/// A page whose first 8 bytes count evictions, so that clients notice them without a call.
#[derive(Debug)]
pub struct Doorbell {
    fd: OwnedFd,
    map: MmapMut,
}

fn memfd(name: &str, bytes: u64) -> Result<OwnedFd> {
    let failed = |e| Error::memory("allocating shared memory", e);
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(|e| {
        Error::memory(
            "making shared memory (memfd_create, which a container must allow)",
            e,
        )
    })?;
    rustix::fs::ftruncate(&fd, bytes).map_err(failed)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).map_err(failed)?;
    Ok(fd)
}

/// Allocates all pages now, so that running out is an error here and not a SIGBUS in a client, and
/// so that the daemon's cgroup pays.
fn allocate(fd: &OwnedFd, bytes: u64) -> Result<()> {
    fallocate(fd, FallocateFlags::empty(), 0, bytes).map_err(|e| Error::memory("allocating shared memory", e))
}

fn map_writable(fd: &OwnedFd) -> Result<MmapMut> {
    // SAFETY: the memfd was just made by `memfd` above: sealed against resizing, so no access
    // can fault, and known to no other process yet. Callers add F_SEAL_FUTURE_WRITE before they
    // hand the descriptor out, so this stays the only writable map and Rust's exclusive access
    // to `&mut` of it holds. Other processes only ever read it.
    unsafe { MmapOptions::new().map_mut(fd) }.map_err(|e| Error::mapping(&e))
}

fn seal_others(fd: &OwnedFd) -> Result<()> {
    fcntl_add_seals(fd, SealFlags::FUTURE_WRITE).map_err(|e| Error::io("sealing shared memory", e.into()))
}

impl Block {
    /// A new block and the right to fill it. Needs a reservation of [`BLOCK_BYTES`].
    ///
    /// # Errors
    /// If the system has no memory or descriptors left.
    pub fn create(reservation: Reservation, pages: &HugePages) -> Result<BlockWriter> {
        debug_assert_eq!(reservation.bytes(), BLOCK_BYTES);
        let writable = memfd("prebake-block", BLOCK_BYTES)?;
        pages.allocate(&writable)?;
        // Nobody but its owner and root can open it anew for writing, and clients get no way to it but `fd`.
        let failed =
            |e: rustix::io::Errno| Error::io("opening shared memory for reading (is /proc there?)", e.into());
        fchmod(&writable, Mode::RUSR).map_err(failed)?;
        let again = format!("/proc/self/fd/{}", writable.as_raw_fd());
        let fd = rustix::fs::open(again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let block = Block {
            fd,
            _reservation: reservation,
        };
        Ok(BlockWriter {
            block: Arc::new(block),
            fd: writable,
            len: 0,
        })
    }
}

impl AsFd for Block {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Block {
    /// Copies bytes of it from an offset on. Only where an element lies: what is behind may be written just now.
    ///
    /// # Errors
    /// If the range is not inside.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        read_all(&self.fd, offset, into)
    }
}

impl BlockWriter {
    /// The block, to be read up to [`Self::filled_len`].
    pub fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Bytes filled.
    pub fn filled_len(&self) -> usize {
        self.len
    }

    /// Bytes that still fit.
    pub fn room(&self) -> usize {
        BLOCK_BYTES as usize - self.len
    }

    /// Copies the filled bytes to the start of `into`.
    ///
    /// # Errors
    /// As the system says.
    pub fn read<'b>(&self, into: &'b mut [u8]) -> Result<&'b [u8]> {
        let filled = &mut into[..self.len];
        read_all(&self.fd, 0, filled)?;
        Ok(filled)
    }

    /// Appends bytes, at most [`Self::room`].
    ///
    /// # Errors
    /// If the system has no memory left; then nothing was appended.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        // SAFETY: a slice can be read for as long as it is borrowed.
        unsafe { self.append_from(bytes.as_ptr(), bytes.len()) }
    }

    /// Appends what lies at an address, which others may write meanwhile: no reference to it is made, only the kernel reads it.
    ///
    /// # Safety
    /// So many bytes are mapped there until it returns.
    unsafe fn append_from(&mut self, from: *const u8, len: usize) -> Result<()> {
        let mut done = 0;
        while done < len {
            let at = (self.len + done) as libc::off_t;
            // SAFETY: as the caller says; what cannot be read is an error of the call and no fault.
            let written = unsafe { libc::pwrite(self.fd.as_raw_fd(), from.add(done).cast(), len - done, at) };
            done += usize::try_from(written).map_err(|_| {
                let why = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
                Error::memory("writing shared memory", why)
            })?;
        }
        self.len += len;
        Ok(())
    }

    /// Forgets what was appended after `len`. Only for bytes no location was given out for.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Ends writing for good, also for the daemon.
    ///
    /// # Errors
    /// `block-busy` if the seal is refused, because somebody got hold of a way to write it: the block
    /// must then not be served as sealed.
    pub fn seal(self) -> Result<Arc<Block>> {
        let mut tries = SEAL_TRIES;
        loop {
            tries -= 1;
            match fcntl_add_seals(&self.fd, SealFlags::WRITE | SealFlags::SEAL) {
                Ok(()) => return Ok(self.block),
                Err(Errno::BUSY) if tries > 0 => {}
                Err(e) => {
                    let why = format!("sealing a block: {e}");
                    return Err(Error::new(Kind::Exhausted, "block-busy", why));
                }
            }
        }
    }
}

fn read_all(fd: &OwnedFd, mut offset: u64, mut into: &mut [u8]) -> Result<()> {
    while !into.is_empty() {
        let n = rustix::io::pread(fd, &mut *into, offset)
            .map_err(|e| Error::io("reading shared memory", e.into()))?;
        if n == 0 {
            return Err(Error::corrupt("an element ends outside its memory"));
        }
        offset += n as u64;
        into = &mut into[n..];
    }
    Ok(())
}

impl Doorbell {
    /// A doorbell that was never rung.
    ///
    /// # Errors
    /// If the system has no memory or descriptors left.
    pub fn create() -> Result<Self> {
        let bytes = rustix::param::page_size() as u64;
        let fd = memfd("prebake-doorbell", bytes)?;
        allocate(&fd, bytes)?;
        let map = map_writable(&fd)?;
        seal_others(&fd)?;
        Ok(Self { fd, map })
    }

    /// Tells every client to look for evicted blocks.
    pub fn ring(&self) {
        // SAFETY: the map is page-aligned, at least 8 bytes long and lives as long as `self`.
        // These 8 bytes are only ever accessed as an AtomicU64, here and in clients.
        let count = unsafe { AtomicU64::from_ptr(self.map.as_ptr().cast_mut().cast()) };
        count.fetch_add(1, Ordering::Release);
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Bytes that were sent over a socket and that the other side has not read. Here because it is a use of `unsafe`.
///
/// # Errors
/// If it is no socket.
pub fn unread(socket: BorrowedFd<'_>) -> Result<u32> {
    let mut unread: libc::c_int = 0;
    // SAFETY: TIOCOUTQ writes one int where it is told to, which lives until it returns; the descriptor is borrowed.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut unread) } {
        0 => Ok(u32::try_from(unread).unwrap_or(0)),
        _ => Err(Error::io(
            "asking what is unread",
            std::io::Error::last_os_error(),
        )),
    }
}

/// Closes what whoever started this process left open: a job's pipes would never end, and its locks be held, for as long as
/// the daemon lives. To be called before anything is opened. Here because it is a use of `unsafe`.
pub fn close_inherited() {
    let first = libc::c_uint::try_from(libc::STDERR_FILENO + 1).unwrap_or_default();
    // SAFETY: nothing of this process owns a descriptor yet, so that none is closed under its owner.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
    if closed == 0 {
        return;
    }
    // A kernel before 5.9.
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open: Vec<libc::c_int> = open
        .flatten()
        .filter_map(|each| each.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|fd| *fd > libc::STDERR_FILENO) {
        // SAFETY: as above; closing one that is closed already is an error and nothing else.
        unsafe { libc::close(fd) };
    }
}

/// Watches an owned descriptor for readiness (a pidfd: the end of its process). Here because it
/// is the crate's other use of `unsafe`.
///
/// # Errors
/// If the runtime cannot watch it.
pub fn watch(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>> {
    // SAFETY: the AsyncFd owns the descriptor, so it stays open and the same for as long as it is
    // registered; OwnedFd always returns the same number.
    unsafe { AsyncFd::register(fd) }.map_err(|e| Error::io("watching a descriptor", e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::budget::Budget;

    #[test]
    fn nobody_else_can_write_a_ring_or_a_doorbell() {
        let budget = Budget::new(SLOT_BYTES, "ram-full");
        let (ring, bell) = (
            Ring::create(budget.reserve(SLOT_BYTES).unwrap()).unwrap(),
            Doorbell::create().unwrap(),
        );
        for ours in [ring.as_fd(), bell.as_fd()] {
            let client = rustix::io::dup(ours).unwrap();
            assert!(rustix::io::pwrite(&client, b"x", 0).is_err());
            // SAFETY: maps a live descriptor; the map is expected to be refused.
            assert!(unsafe { MmapOptions::new().map_mut(&client) }.is_err());
            assert!(rustix::fs::ftruncate(&client, 0).is_err());
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            assert!(fallocate(&client, hole, 0, 4096).is_err());
        }
        ring.slot(0).fill(1);
        bell.ring();
    }

    #[test]
    fn nobody_else_can_write_a_block_even_while_it_is_filled() {
        let budget = Budget::new(BLOCK_BYTES, "ram-full");
        let mut writer = Block::create(budget.reserve(BLOCK_BYTES).unwrap(), &HugePages::new(false)).unwrap();
        writer.append(b"abc").unwrap();
        let client = rustix::io::dup(writer.block().as_fd()).unwrap();
        assert!(rustix::io::pwrite(&client, b"x", 0).is_err());
        // SAFETY: maps a live descriptor; the map is expected to be refused.
        assert!(unsafe { MmapOptions::new().map_mut(&client) }.is_err());
        assert!(rustix::fs::ftruncate(&client, 0).is_err());
        assert!(
            rustix::fs::fcntl_add_seals(&client, rustix::fs::SealFlags::GROW).is_err(),
            "nor may another seal it further"
        );
        let mode = rustix::fs::fstat(&client).unwrap().st_mode;
        assert_eq!(mode & 0o777, 0o400, "another user cannot open it anew");

        writer.append(b"def").unwrap();
        writer.truncate(4);
        writer.append(b"xy").unwrap();
        assert_eq!(writer.read(&mut [0; 100]).unwrap(), b"abcdxy");
        let block = writer.seal().unwrap();
        let seals = rustix::fs::fcntl_get_seals(&client).unwrap();
        assert!(
            seals.contains(rustix::fs::SealFlags::WRITE | rustix::fs::SealFlags::SEAL),
            "{seals:?}"
        );
        let mut read = [0; 6];
        rustix::io::pread(&client, &mut read, 0).unwrap();
        assert_eq!(&read, b"abcdxy");
        assert_eq!(budget.used(), BLOCK_BYTES);
        drop(block);
        assert_eq!(budget.used(), 0);
    }
}
