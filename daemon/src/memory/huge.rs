//! Huge pages for blocks.
//!
//! Of 4 KiB pages each is a fault of the daemon's when a block is filled and part of one in every job that reads it, and each
//! reader waits for the page table every 4 KiB: a tenth to a third of what it takes to touch an image on a virtual machine. Most
//! systems give shared memory no huge pages by themselves (`shmem_enabled=never`), but move to them what is there.

use super::{BLOCK_BYTES, allocate};
use crate::error::{Error, Result};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::time::{ClockId, clock_gettime};
use std::{
    ffi::c_void,
    io,
    os::fd::OwnedFd,
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};

/// Of x86-64, and of 64-bit ARM with pages of 4 KiB. Where they are longer, a block stays as it is.
const HUGE_PAGE: u64 = 2 << 20;

/// A block of huge pages takes half a millisecond, one of small pages a whole one. Three times that and more it takes where a host
/// gives memory back to its virtual machine page by page, or where the kernel has to move others' pages out of the way: then small
/// ones, which are mostly at hand, cost jobs less than huge ones gain them in tens of passes.
const SLOW: Duration = Duration::from_millis(3);

/// Blocks that are made of small pages after one that was slow, or had no huge one to be had.
const RESTS: u32 = 64;

/// Whether blocks are made of huge pages.
#[derive(Debug)]
pub struct HugePages {
    /// Wanted, and the kernel has them.
    enabled: AtomicBool,
    /// It had some before: what it says of a block is of that one alone.
    known: AtomicBool,
    rests: AtomicU32,
    /// CPU time of the calling thread.
    spent: fn() -> Duration,
}

impl HugePages {
    /// Of huge pages as far as there are any, if they are `wanted`.
    pub fn new(wanted: bool) -> Self {
        Self {
            enabled: AtomicBool::new(wanted),
            known: AtomicBool::new(false),
            rests: AtomicU32::new(0),
            spent: thread_cpu,
        }
    }

    /// Allocates all of a block that holds nothing yet.
    ///
    /// # Errors
    /// If the system has no memory left.
    pub(super) fn allocate(&self, block: &OwnedFd) -> Result<()> {
        let rest = |rests: u32| rests.checked_sub(1);
        let rests = self
            .rests
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest)
            .is_ok();
        if self.enabled.load(Ordering::Relaxed) && !rests {
            let begun = (self.spent)();
            let collapsed = collapse(block);
            if (self.spent)().saturating_sub(begun) > SLOW {
                self.rests.store(RESTS, Ordering::Relaxed);
            }
            match collapsed {
                Ok(true) => self.known.store(true, Ordering::Relaxed),
                Ok(false) if self.known.load(Ordering::Relaxed) => {
                    self.rests.store(RESTS, Ordering::Relaxed);
                }
                Ok(false) => {
                    tracing::info!(
                        "this kernel has no huge pages for shared memory: blocks are made of small ones"
                    );
                    self.enabled.store(false, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::debug!(%error, "blocks are made of small pages for a while");
                    self.rests.store(RESTS, Ordering::Relaxed);
                }
            }
        }
        // Whatever came of it, no page is missing afterwards.
        allocate(block, BLOCK_BYTES)
    }
}

fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

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

/// Makes an empty block one of huge pages (MADV_COLLAPSE, Linux 6.1). False if the kernel cannot do it for any block: it is too old,
/// or was built without.
fn collapse(block: &OwnedFd) -> Result<bool> {
    let failed = |e: io::Error| Error::io("making a block of huge pages", e);
    // The kernel moves what is there, so that something must be.
    for at in (0..BLOCK_BYTES).step_by(HUGE_PAGE as usize) {
        fallocate(block, FallocateFlags::empty(), at, 1).map_err(|e| failed(e.into()))?;
    }
    let window = Window::reserve()?;
    let (at, bytes) = (window.aligned(), BLOCK_BYTES as usize);
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: the range lies in the reservation just made, of which nothing is in use.
    unsafe { mmap(at, bytes, ProtFlags::READ, flags, block, 0) }.map_err(|e| failed(e.into()))?;
    // SAFETY: the range was mapped by the line above. The advice changes where its bytes are kept, and not what they are.
    match unsafe { libc::madvise(at, bytes, libc::MADV_COLLAPSE) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::EINVAL) => Ok(false),
            e => Err(failed(e)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{limits::budget::Budget, memory::Block};
    use std::{cell::Cell, fs, os::fd::AsFd, sync::Arc};

    /// KiB that this process has mapped of a block by huge pages, once it has read all of it.
    fn huge_kib(block: &impl AsFd) -> u64 {
        let window = Window::reserve().unwrap();
        let (at, bytes) = (window.aligned(), BLOCK_BYTES as usize);
        // SAFETY: as in `collapse`; sealed against shrinking, so that it can be read.
        let read = unsafe {
            mmap(
                at,
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED | MapFlags::FIXED,
                block,
                0,
            )
            .unwrap();
            std::slice::from_raw_parts(at.cast::<u8>(), bytes)
        };
        std::hint::black_box(read.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let of_block = smaps.split(&format!("{:x}-", at.addr())).nth(1).unwrap();
        let line = of_block
            .lines()
            .find(|line| line.starts_with("ShmemPmdMapped:"))
            .unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn filled(pages: &HugePages, bytes: &[u8]) -> Arc<Block> {
        let budget = Budget::new(BLOCK_BYTES, "ram-full");
        let mut writer = Block::create(budget.reserve(BLOCK_BYTES).unwrap(), pages).unwrap();
        writer.append(bytes).unwrap();
        writer.seal().unwrap()
    }

    #[test]
    fn a_block_is_of_huge_pages_where_the_kernel_has_them_and_they_are_wanted() {
        let bytes: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at % 251) as u8).collect();
        for wanted in [true, false] {
            let mut pages = HugePages::new(wanted);
            pages.spent = ticking::<0>;
            let block = filled(&pages, &bytes);
            let mut read = vec![0; bytes.len()];
            block.read(0, &mut read).unwrap();
            assert!(read == bytes);
            let has_some = pages.enabled.load(Ordering::Relaxed) && pages.rests.load(Ordering::Relaxed) == 0;
            assert_eq!(huge_kib(&block), if has_some { BLOCK_BYTES >> 10 } else { 0 });
            // All of it is there: what is missing would be a fault in a client.
            let stat = rustix::fs::fstat(&block).unwrap();
            assert_eq!(stat.st_blocks * 512, BLOCK_BYTES as i64);
        }
    }

    /// A clock that takes so many milliseconds from one look to the next.
    fn ticking<const MS: u64>() -> Duration {
        thread_local! {
            static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        }
        NOW.replace(NOW.get() + Duration::from_millis(MS))
    }

    #[test]
    fn after_a_slow_one_the_next_ones_are_of_small_pages() {
        let mut pages = HugePages::new(true);
        pages.spent = ticking::<2>;
        let is_huge = |pages: &HugePages| huge_kib(&filled(pages, &[])) > 0;
        let kernel_has_them = is_huge(&pages);
        assert_eq!(kernel_has_them, pages.enabled.load(Ordering::Relaxed));
        assert_eq!(is_huge(&pages), kernel_has_them, "that was not slow");
        pages.spent = ticking::<4>;
        assert_eq!(is_huge(&pages), kernel_has_them);
        pages.rests.store(2, Ordering::Relaxed);
        let next = [(); 3].map(|()| is_huge(&pages));
        assert_eq!(next, [false, false, kernel_has_them]);
        assert_eq!(pages.rests.load(Ordering::Relaxed), RESTS);
    }
}
