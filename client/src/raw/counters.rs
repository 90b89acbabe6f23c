//! Memory of counters that several processes add to: a child has it by fork, others open the descriptor of one that has it.

use super::{check_sealed, process};
use crate::error::{Error, Result};
use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create, open, readlink,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

/// Counters that lie in one line of the processor's cache: two processes that add to other lines do not wait for each other.
pub(crate) const LINE: usize = 8;

/// Lines of one memory. Pages that nobody counted in take no memory.
pub(crate) const LINES: usize = 1 << 14;

const BYTES: usize = LINES * LINE * size_of::<AtomicU64>();

/// What the memory is called among a process's descriptors.
const NAME: &str = "prebake-counters";

/// A shared map of counters, all 0 at first.
pub(crate) struct CounterMemory {
    base: NonNull<[AtomicU64; LINE]>,
    descriptor: Option<Descriptor>,
}

// SAFETY: all that is ever read or written through the map are atomics.
unsafe impl Send for CounterMemory {}
// SAFETY: as above.
unsafe impl Sync for CounterMemory {}

impl CounterMemory {
    /// Fresh memory. Where there can be no memfd, forked children alone share it.
    pub(crate) fn new() -> Result<CounterMemory> {
        let shared = sealed().and_then(|fd| CounterMemory::map(fd).ok());
        if let Some(shared) = shared {
            return Ok(shared);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh anonymous map at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), BYTES, protection, MapFlags::SHARED) };
        CounterMemory::at(base, None)
    }

    /// The memory that a process has open under this descriptor; None if it cannot be reached or is another thing. A stranger
    /// may have the process's number by now, or be called so in this container: the caller knows its counters by what they hold.
    pub(crate) fn open(process: u32, descriptor: u32) -> Option<CounterMemory> {
        let path = format!("/proc/{process}/fd/{descriptor}");
        // To open what is no memory may have effects.
        let lead = readlink(&path, Vec::new()).ok()?;
        if !lead.to_bytes().starts_with(format!("/memfd:{NAME}").as_bytes()) {
            return None;
        }
        CounterMemory::map(open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?).ok()
    }

    fn map(fd: OwnedFd) -> Result<CounterMemory> {
        check_sealed(fd.as_fd(), BYTES)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh map at an address of the kernel's choice; the memfd cannot shrink (check_sealed).
        let base = unsafe { mmap(ptr::null_mut(), BYTES, protection, MapFlags::SHARED, &fd, 0) };
        CounterMemory::at(base, Some(Descriptor::new(fd)))
    }

    fn at(base: rustix::io::Result<*mut c_void>, descriptor: Option<Descriptor>) -> Result<CounterMemory> {
        let base = base
            .ok()
            .and_then(|p| NonNull::new(p.cast()))
            .ok_or_else(|| Error::internal("cannot map memory for counters"))?;
        Ok(CounterMemory { base, descriptor })
    }

    /// By which process and descriptor others can open it; None if this one has none.
    pub(crate) fn address(&self) -> Option<(u32, u32)> {
        let held = self.descriptor.as_ref().filter(|held| held.is_ours())?;
        let descriptor = u32::try_from(held.fd.as_raw_fd()).ok()?;
        Some((process::current().unsigned_abs(), descriptor))
    }

    /// A line of counters; None beyond the last.
    pub(crate) fn line(&self, at: usize) -> Option<&[AtomicU64; LINE]> {
        if at >= LINES {
            return None;
        }
        // SAFETY: the line was just checked to lie in the map, which is aligned to pages, began as zeros and stays mapped until
        // `self` is dropped; all processes that have it use atomics alone.
        Some(unsafe { self.base.add(at).as_ref() })
    }
}

impl Drop for CounterMemory {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the map past `self`. A forked child has a map of its own, of the same memory.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), BYTES) };
    }
}

/// A memfd of the right size that can neither shrink nor grow.
fn sealed() -> Option<OwnedFd> {
    let fd = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).ok()?;
    ftruncate(&fd, BYTES as u64).ok()?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).ok()?;
    Some(fd)
}

/// A descriptor whose number may be another file's by now: a child that becomes a daemon closes all that it inherited.
struct Descriptor {
    fd: ManuallyDrop<OwnedFd>,
    file: Option<(u64, u64)>,
}

impl Descriptor {
    fn new(fd: OwnedFd) -> Descriptor {
        Descriptor {
            file: file(&fd),
            fd: ManuallyDrop::new(fd),
        }
    }

    fn is_ours(&self) -> bool {
        self.file.is_some() && file(&self.fd) == self.file
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}

/// Device and inode, which tell a file from every other that is open.
fn file(fd: &OwnedFd) -> Option<(u64, u64)> {
    fstat(fd).ok().map(|found| (found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn count(memory: &CounterMemory, at: usize) -> u64 {
        memory.line(at).unwrap()[0].load(Ordering::Relaxed)
    }

    #[test]
    fn who_opens_the_descriptor_has_the_same_counters() {
        let memory = CounterMemory::new().unwrap();
        let (process, descriptor) = memory.address().unwrap();
        let other = CounterMemory::open(process, descriptor).unwrap();
        other.line(LINES - 1).unwrap()[0].fetch_add(3, Ordering::Relaxed);
        assert_eq!(count(&memory, LINES - 1), 3);
        assert!(memory.line(LINES).is_none());
        assert_ne!(other.address().unwrap(), (process, descriptor));
    }

    #[test]
    fn what_is_not_there_or_another_thing_is_not_opened() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let unsealed = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, BYTES as u64).unwrap();
        for fd in [&reader, &unsealed] {
            let descriptor = u32::try_from(fd.as_raw_fd()).unwrap();
            assert!(CounterMemory::open(std::process::id(), descriptor).is_none());
        }
        assert!(CounterMemory::open(std::process::id(), u32::MAX).is_none());
        assert!(CounterMemory::open(u32::MAX, 0).is_none());
    }

    #[test]
    fn a_number_that_is_another_file_is_neither_told_nor_closed() {
        let memory = CounterMemory::new().unwrap();
        let number = memory.descriptor.as_ref().unwrap().fd.as_raw_fd();
        let other = sealed().unwrap();
        // SAFETY: the number is this test's alone; it is another file's from here on.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert!(memory.address().is_none());
        drop(memory);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::close(number) }, 0, "it was closed");
    }

    #[test]
    fn a_child_that_is_killed_has_counted() {
        let memory = CounterMemory::new().unwrap();
        // SAFETY: the child allocates nothing and takes no lock.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                if let Some(line) = memory.line(1) {
                    line[0].fetch_add(5, Ordering::Relaxed);
                }
                libc::raise(libc::SIGKILL);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(libc::WTERMSIG(status), libc::SIGKILL);
        }
        assert_eq!(count(&memory, 1), 5);
    }
}
