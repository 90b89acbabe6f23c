//! Which pages of private maps this process wrote.

use rustix::io::{Errno, pread};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// A written page of a private map is anonymous memory; one only read is still the file's. `/proc/self/pagemap` tells
/// ([`Watch::look`]), but reads each page's descriptor, 45 ns a page: a third of what touching the page costs. With
/// userfaultfd's asynchronous write protection (Linux 6.7) the page table itself tells ([`Watch::written`]), 3 ns a page:
/// the kernel takes a page's mark away when it is first written, whoever writes. To mark pages takes 80 ns each, and unmapped
/// ones are then mapped one by one, so that it pays from the second reading on. Sandboxes often forbid it.
pub(crate) struct Watch {
    /// Bound to the process that opened it, also after `fork`.
    pagemap: File,
    protection: Option<OwnedFd>,
}

impl Watch {
    /// None where the kernel does not let this process look (a non-dumpable process, no /proc).
    pub(crate) fn open() -> Option<Watch> {
        Some(Watch {
            pagemap: File::open("/proc/self/pagemap").ok()?,
            protection: protection().ok(),
        })
    }

    /// The same without userfaultfd.
    #[cfg(test)]
    pub(crate) fn by_looking() -> Option<Watch> {
        Some(Watch {
            protection: None,
            ..Watch::open()?
        })
    }

    /// Whether the kernel may mark pages; if not, they are only ever looked at.
    pub(crate) fn can_mark(&self) -> bool {
        self.protection.is_some()
    }

    /// Begins to watch whole pages of a private map, none of which was written.
    pub(crate) fn begin(&self, bytes: &Range<usize>) -> io::Result<()> {
        let protection = self.protection.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let mut register = Register {
            start: bytes.start as u64,
            len: bytes.len() as u64,
            mode: REGISTER_MODE_WP,
            ioctls: 0,
        };
        // SAFETY: the opcode's own structure, alive during the call. Faults of registered pages are resolved by the kernel
        // (WP_ASYNC), so no access ever waits for us.
        unsafe { ioctl(protection, Updater::<REGISTER, _>::new(&mut register)) }?;
        self.again(bytes)
    }

    /// Goes on watching pages that were dropped (`MADV_DONTNEED`), which brought the file's bytes back.
    pub(crate) fn again(&self, bytes: &Range<usize>) -> io::Result<()> {
        let protection = self.protection.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let mut protect = WriteProtect {
            start: bytes.start as u64,
            len: bytes.len() as u64,
            mode: WRITEPROTECT_MODE_WP,
        };
        // SAFETY: as above; marks pages and changes no bytes.
        Ok(unsafe { ioctl(protection, Updater::<WRITEPROTECT, _>::new(&mut protect)) }?)
    }

    /// Those of the watched pages that were written, as address ranges in order.
    pub(crate) fn written(&self, bytes: &Range<usize>) -> io::Result<Vec<Range<usize>>> {
        let mut bytes = bytes.clone();
        let mut written = Vec::new();
        while !bytes.is_empty() {
            let mut found = [PageRegion::default(); REGIONS_MAX];
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                start: bytes.start as u64,
                end: bytes.end as u64,
                vec: found.as_mut_ptr().expose_provenance() as u64,
                vec_len: REGIONS_MAX as u64,
                category_mask: PAGE_IS_WRITTEN,
                return_mask: PAGE_IS_WRITTEN,
                ..Scan::default()
            };
            // SAFETY: the opcode's own structure; `vec` has room for `vec_len` regions and both outlive the call.
            let count = unsafe { ioctl(&self.pagemap, Counted(&mut scan)) }?;
            let regions = found.iter().take(count);
            written.extend(regions.map(|r| r.start as usize..r.end as usize));
            // It stops early when `vec` is full.
            bytes.start = (scan.walk_end as usize).max(bytes.start + 1);
            if count < REGIONS_MAX {
                break;
            }
        }
        Ok(written)
    }

    /// Those of any pages that were written, as address ranges in order.
    pub(crate) fn look(&self, bytes: &Range<usize>) -> io::Result<Vec<Range<usize>>> {
        let page = rustix::param::page_size();
        let mut entries = vec![0_u8; bytes.len() / page * ENTRY_BYTES];
        let mut done = 0;
        while done < entries.len() {
            let at = (bytes.start / page * ENTRY_BYTES + done) as u64;
            match pread(&self.pagemap, &mut entries[done..], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
        let is_written = |entry: &[u8; ENTRY_BYTES]| {
            let entry = u64::from_ne_bytes(*entry);
            entry & (PRESENT | SWAPPED) != 0 && entry & FILE_OR_SHARED == 0
        };
        let mut at = bytes.start;
        let mut written = Vec::new();
        for run in entries.chunk_by(|a, b| is_written(a) == is_written(b)) {
            let end = at + run.len() * page;
            if is_written(&run[0]) {
                written.push(at..end);
            }
            at = end;
        }
        Ok(written)
    }
}

/// A userfaultfd whose faults the kernel resolves itself.
fn protection() -> io::Result<OwnedFd> {
    let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
    // Needs no privilege; only faults of user mode could be *handled*, and none is.
    let flags = flags | UserfaultfdFlags::from_bits_retain(UFFD_USER_MODE_ONLY);
    // SAFETY: gives a descriptor; nothing is watched yet.
    let fd = unsafe { userfaultfd(flags) }?;
    let mut api = Api {
        api: UFFD_API,
        features: FEATURE_WP_HUGETLBFS_SHMEM | FEATURE_WP_UNPOPULATED | FEATURE_WP_ASYNC,
        ioctls: 0,
    };
    // SAFETY: the opcode's own structure, alive during the call.
    unsafe { ioctl(&fd, Updater::<API, _>::new(&mut api)) }?;
    Ok(fd)
}

// Words of /proc/self/pagemap: Documentation/admin-guide/mm/pagemap.rst of the kernel.
const ENTRY_BYTES: usize = 8;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FILE_OR_SHARED: u64 = 1 << 61;

// PAGEMAP_SCAN: include/uapi/linux/fs.h.
const SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);
const PAGE_IS_WRITTEN: u64 = 1 << 1;
/// Runs of written pages told in one call.
const REGIONS_MAX: usize = 32;

#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

#[repr(C)]
#[derive(Default, Clone, Copy)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// [`SCAN`], whose return value is the number of regions.
struct Counted<'a>(&'a mut Scan);

// SAFETY: the opcode reads and writes a `Scan`, which is what the pointer is of; its value is a count.
unsafe impl Ioctl for Counted<'_> {
    type Output = usize;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        SCAN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(count: IoctlOutput, _: *mut c_void) -> rustix::io::Result<usize> {
        usize::try_from(count).map_err(|_| Errno::INVAL)
    }
}

// userfaultfd: include/uapi/linux/userfaultfd.h.
const UFFD_API: u64 = 0xaa;
const UFFD_USER_MODE_ONLY: u32 = 1;
const FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 1 << 1;
const WRITEPROTECT_MODE_WP: u64 = 1 << 0;
const API: Opcode = opcode::read_write::<Api>(0xaa, 0x3f);
const REGISTER: Opcode = opcode::read_write::<Register>(0xaa, 0x00);
const WRITEPROTECT: Opcode = opcode::read_write::<WriteProtect>(0xaa, 0x06);

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct WriteProtect {
    start: u64,
    len: u64,
    mode: u64,
}

/// A set of page numbers.
#[derive(Default)]
pub(crate) struct PageSet(Vec<u64>);

impl PageSet {
    /// Makes room for pages below `pages`.
    pub(crate) fn grow(&mut self, pages: usize) {
        let words = pages.div_ceil(64);
        if words > self.0.len() {
            self.0.resize(words, 0);
        }
    }

    pub(crate) fn insert(&mut self, pages: Range<usize>) {
        for page in pages {
            self.0[page / 64] |= 1 << (page % 64);
        }
    }

    pub(crate) fn remove(&mut self, pages: Range<usize>) {
        for page in pages {
            self.0[page / 64] &= !(1 << (page % 64));
        }
    }

    /// The smallest range that holds every member within `pages`.
    pub(crate) fn span(&self, pages: Range<usize>) -> Option<Range<usize>> {
        let holds = |page: &usize| self.0[page / 64] & (1 << (page % 64)) != 0;
        let first = pages.clone().find(holds)?;
        let last = pages.rev().find(holds)?;
        Some(first..last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
    use std::ptr;

    #[test]
    fn the_span_of_a_page_set_ignores_pages_outside() {
        let mut set = PageSet::default();
        set.grow(200);
        set.insert(3..5);
        set.insert(130..132);
        set.remove(131..132);
        assert_eq!(set.span(0..200), Some(3..131));
        assert_eq!(set.span(4..130), Some(4..5));
        assert_eq!(set.span(5..130), None);
    }

    fn finds_every_written_page_and_no_other(watched: bool) {
        let page = rustix::param::page_size();
        let pages = 4 * REGIONS_MAX;
        let fd = memfd_create("watched", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, (pages * page) as u64).unwrap();
        let watch = Watch::open().expect("this test needs /proc/self/pagemap");
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh map at an address of the kernel's choice.
        let map = unsafe {
            mmap(
                ptr::null_mut(),
                pages * page,
                protection,
                MapFlags::PRIVATE,
                &fd,
                0,
            )
        };
        let map = map.unwrap();
        let start = map.addr();
        let all = start..start + pages * page;
        let at = |number: usize| start + number * page..start + (number + 1) * page;
        let touch = |number: usize| {
            // SAFETY: inside the map, which nobody else knows.
            unsafe { map.cast::<u8>().add(number * page + 7).write_volatile(1) };
        };
        let watched = watched && watch.begin(&all).is_ok();
        let written = || match watched {
            true => watch.written(&all).unwrap(),
            false => watch.look(&all).unwrap(),
        };
        assert_eq!(written(), []);
        // SAFETY: as above.
        let _ = unsafe { map.cast::<u8>().add(5 * page).read_volatile() };
        assert_eq!(written(), []);
        (0..pages).step_by(2).for_each(touch);
        assert_eq!(written(), (0..pages).step_by(2).map(at).collect::<Vec<_>>());
        // SAFETY: whole pages of the map; nobody refers to them.
        unsafe { madvise(map, pages * page, Advice::LinuxDontNeed) }.unwrap();
        assert!(!watched || watch.again(&all).is_ok());
        assert_eq!(written(), []);
        touch(3);
        assert_eq!(written(), std::slice::from_ref(&at(3)));
        // SAFETY: the map is used no more.
        unsafe { munmap(map, pages * page) }.unwrap();
    }

    #[test]
    fn both_ways_find_every_written_page_and_no_other() {
        finds_every_written_page_and_no_other(false);
        finds_every_written_page_and_no_other(true);
    }
}
