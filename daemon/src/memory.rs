//! Shared memory: blocks that only the daemon can fill, staging that only clients fill, and the
//! doorbell. The crate's one module with `unsafe`.
#![allow(unsafe_code)]

use crate::{
    budget::Reservation,
    error::{Error, Kind, Result},
};
use memmap2::{MmapMut, MmapOptions};
use parking_lot::Mutex;
use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fchmod, fcntl_add_seals, memfd_create,
};
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

/// The daemon's right to fill a block; nobody else ever has it. What it holds of the block besides is
/// ordinary memory that was used before: writing that to the block and to the disk costs half of filling
/// fresh shared memory through a map, where each page is a fault, and of mapping it to read it back.
#[derive(Debug)]
pub struct BlockWriter {
    block: Arc<Block>,
    /// The block, opened for writing.
    fd: OwnedFd,
    copy: Buffer,
    len: usize,
}

/// Ordinary memory of one block, page-aligned, back in its pool when dropped.
#[derive(Debug)]
struct Buffer {
    /// None only while it is dropped.
    memory: Option<(MmapMut, Reservation)>,
    pool: Arc<BufferPool>,
}

/// Buffers that wait to be used again.
#[derive(Debug, Default)]
pub struct BufferPool(Mutex<Vec<(MmapMut, Reservation)>>);

/// Buffers kept: one is filled while another is written. More are let go, so that an idle daemon is small.
const BUFFERS_KEPT_MAX: usize = 2;

/// Memory a client writes elements into. The daemon only ever reads it with `pread`, so nothing
/// a client does to it can fault the daemon.
#[derive(Debug)]
pub struct Staging {
    fd: OwnedFd,
    bytes: u64,
    _reservation: Reservation,
}

/// A page whose first 8 bytes count evictions, so that clients notice them without a call.
#[derive(Debug)]
pub struct Doorbell {
    fd: OwnedFd,
    map: MmapMut,
}

fn memfd(name: &str, bytes: u64) -> Result<OwnedFd> {
    let failed = |e: rustix::io::Errno| Error::io("allocating shared memory", e.into());
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(failed)?;
    rustix::fs::ftruncate(&fd, bytes).map_err(failed)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).map_err(failed)?;
    Ok(fd)
}

/// Allocates all pages now, so that running out is an error here and not a SIGBUS in a client, and
/// so that the daemon's cgroup pays.
fn allocate(fd: &OwnedFd, bytes: u64) -> Result<()> {
    fallocate(fd, FallocateFlags::empty(), 0, bytes)
        .map_err(|e| Error::io("allocating shared memory", e.into()))
}

fn map_writable(fd: &OwnedFd) -> Result<MmapMut> {
    // SAFETY: the memfd was just made by `memfd` above: sealed against resizing, so no access
    // can fault, and known to no other process yet. Callers add F_SEAL_FUTURE_WRITE before they
    // hand the descriptor out, so this stays the only writable map and Rust's exclusive access
    // to `&mut` of it holds. Other processes only ever read it.
    unsafe { MmapOptions::new().map_mut(fd) }.map_err(|e| Error::io("mapping shared memory", e))
}

fn seal_others(fd: &OwnedFd) -> Result<()> {
    fcntl_add_seals(fd, SealFlags::FUTURE_WRITE).map_err(|e| Error::io("sealing shared memory", e.into()))
}

impl Block {
    /// A new block and the right to fill it. `reserve` takes bytes from the budget.
    ///
    /// # Errors
    /// If the system has no memory or descriptors left; what `reserve` returns.
    pub fn create(
        pool: &Arc<BufferPool>,
        reserve: impl Fn(u64) -> Result<Reservation>,
    ) -> Result<BlockWriter> {
        let reservation = reserve(BLOCK_BYTES)?;
        let copy = pool.take(reserve)?;
        let writable = memfd("prebake-block", BLOCK_BYTES)?;
        allocate(&writable, BLOCK_BYTES)?;
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
            copy,
            len: 0,
        })
    }
}

impl BufferPool {
    fn take(self: &Arc<Self>, reserve: impl Fn(u64) -> Result<Reservation>) -> Result<Buffer> {
        let waiting = self.0.lock().pop();
        let fresh = || {
            let reservation = reserve(BLOCK_BYTES)?;
            let map = MmapMut::map_anon(BLOCK_BYTES as usize);
            let map = map.map_err(|e| Error::io("allocating a buffer", e))?;
            Ok((map, reservation))
        };
        Ok(Buffer {
            memory: Some(waiting.map_or_else(fresh, Ok)?),
            pool: Arc::clone(self),
        })
    }

    /// Lets waiting buffers go: nothing was written for a while.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |(map, _)| map)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut().map_or(&mut [], |(map, _)| map)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut waiting = self.pool.0.lock();
        if waiting.len() < BUFFERS_KEPT_MAX {
            waiting.extend(self.memory.take());
        }
    }
}

impl AsFd for Block {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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
        self.copy.bytes().len() - self.len
    }

    /// The filled bytes.
    pub fn filled(&self) -> &[u8] {
        &self.copy.bytes()[..self.len]
    }

    /// Lets `fill` make the next `len` bytes; they count only if it succeeds. `len` is at most
    /// [`Self::room`].
    ///
    /// # Errors
    /// What `fill` returns; if the system has no memory left.
    pub fn append(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        let end = self.len + len;
        let bytes = &mut self.copy.bytes_mut()[self.len..end];
        fill(bytes)?;
        let mut at = self.len;
        while at < end {
            let rest = &self.copy.bytes()[at..end];
            at += rustix::io::pwrite(&self.fd, rest, at as u64)
                .map_err(|e| Error::io("writing shared memory", e.into()))?;
        }
        self.len = end;
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
        fcntl_add_seals(&self.fd, SealFlags::WRITE | SealFlags::SEAL)
            .map_err(|e| Error::new(Kind::Exhausted, "block-busy", format!("sealing a block: {e}")))?;
        Ok(self.block)
    }
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
        Ok(Self {
            fd,
            bytes,
            _reservation: reservation,
        })
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies bytes out. What the client writes meanwhile decides only what is copied.
    ///
    /// # Errors
    /// If the range is not inside.
    pub fn read(&self, mut offset: u64, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            let n = rustix::io::pread(&self.fd, &mut *into, offset)
                .map_err(|e| Error::io("reading staging memory", e.into()))?;
            if n == 0 {
                return Err(Error::corrupt("an element ends outside its staging memory"));
            }
            offset += n as u64;
            into = &mut into[n..];
        }
        Ok(())
    }
}

impl AsFd for Staging {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
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
    use crate::budget::Budget;

    #[test]
    fn nobody_else_can_write_a_block_even_while_it_is_filled() {
        let budget = Budget::new(2 * BLOCK_BYTES, "ram-full");
        let pool = Arc::new(BufferPool::default());
        let mut writer = Block::create(&pool, |bytes| budget.reserve(bytes)).unwrap();
        let abc = |into: &mut [u8]| {
            into.copy_from_slice(b"abc");
            Ok(())
        };
        writer.append(3, abc).unwrap();
        let client = rustix::io::dup(writer.block().as_fd()).unwrap();
        assert!(rustix::io::pwrite(&client, b"x", 0).is_err());
        // SAFETY: maps a live descriptor; the map is expected to be refused.
        assert!(unsafe { MmapOptions::new().map_mut(&client) }.is_err());
        assert!(rustix::fs::ftruncate(&client, 0).is_err());
        let mode = rustix::fs::fstat(&client).unwrap().st_mode;
        assert_eq!(mode & 0o777, 0o400, "another user cannot open it anew");

        writer.append(3, abc).unwrap();
        let block = writer.seal().unwrap();
        let mut read = [0; 6];
        rustix::io::pread(&client, &mut read, 0).unwrap();
        assert_eq!(&read, b"abcabc");
        assert_eq!(budget.used(), 2 * BLOCK_BYTES, "its memory and the buffer kept");
        drop(block);
        assert_eq!(budget.used(), BLOCK_BYTES);
        pool.clear();
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_buffer_used_before_shows_nothing_of_what_it_held() {
        let budget = Budget::new(3 * BLOCK_BYTES, "ram-full");
        let pool = Arc::new(BufferPool::default());
        let reserve = |bytes| budget.reserve(bytes);
        for (len, byte) in [(100, 1), (50, 2)] {
            let mut writer = Block::create(&pool, reserve).unwrap();
            writer
                .append(len, |into| {
                    into.fill(byte);
                    Ok(())
                })
                .unwrap();
            assert_eq!(writer.filled(), vec![byte; len]);
            let block = writer.seal().unwrap();
            let mut read = vec![7; 200];
            rustix::io::pread(block.as_fd(), &mut read, 0).unwrap();
            assert_eq!(read[..len], vec![byte; len]);
            assert_eq!(read[len..], vec![0; 200 - len]);
        }
    }

    #[test]
    fn staging_ends_where_it_ends() {
        let budget = Budget::new(1 << 20, "ram-full");
        let staging = Staging::create(budget.reserve(4096).unwrap()).unwrap();
        let mut buffer = [0; 8];
        staging.read(4088, &mut buffer).unwrap();
        assert_eq!(staging.read(4089, &mut buffer).unwrap_err().code(), "corrupt");
    }
}
