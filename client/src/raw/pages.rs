//! Which pages of this process were written.

use rustix::io::{Errno, pread};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// `/proc/self/pagemap`: what the kernel says of each page of this process's address space.
///
/// Bits and calls as in the kernel's `Documentation/admin-guide/mm/pagemap.rst`. A descriptor stays bound to the process
/// that opened it, also after `fork`.
pub(crate) struct Pagemap {
    file: File,
    /// Whether the kernel knows PAGEMAP_SCAN (Linux 6.7). Without it one word is read for each page, which takes
    /// three times as long.
    scans: AtomicBool,
}

const ENTRY_BYTES: usize = 8;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FILE_OR_SHARED: u64 = 1 << 61;

/// Runs of written pages that one scan returns; further ones are returned by the next.
const REGIONS: usize = 16;

const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;

/// `struct page_region` of `linux/fs.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg` of `linux/fs.h`.
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

const PAGEMAP_SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);

impl Pagemap {
    /// None where the kernel does not let this process look (a non-dumpable process, no /proc).
    pub(crate) fn open() -> Option<Pagemap> {
        let file = File::open("/proc/self/pagemap").ok()?;
        let scans = AtomicBool::new(true);
        Some(Pagemap { file, scans })
    }

    /// Of the pages with these numbers (address over page size), the runs that were written through a private map.
    /// Such a page is anonymous; one only read is still the file's; one never touched is not there.
    pub(crate) fn written(&self, pages: Range<usize>) -> io::Result<Vec<Range<usize>>> {
        if self.scans.load(Ordering::Relaxed) {
            match self.scan(&pages) {
                Err(Errno::NOTTY | Errno::INVAL | Errno::NOSYS) => self.scans.store(false, Ordering::Relaxed),
                found => return Ok(found?),
            }
        }
        self.read(&pages)
    }

    fn scan(&self, pages: &Range<usize>) -> rustix::io::Result<Vec<Range<usize>>> {
        let page_bytes = rustix::param::page_size() as u64;
        let end = pages.end as u64 * page_bytes;
        let mut from = pages.start as u64 * page_bytes;
        let mut found = Vec::new();
        while from < end {
            let mut regions = [Region::default(); REGIONS];
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                start: from,
                end,
                vec: regions.as_mut_ptr().expose_provenance() as u64,
                vec_len: REGIONS as u64,
                category_inverted: PAGE_IS_FILE,
                category_mask: PAGE_IS_FILE,
                category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                return_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                ..Scan::default()
            };
            // SAFETY: the opcode's argument is this structure, whose `vec` names `vec_len` regions that live until
            // after the call; the kernel writes nothing else.
            unsafe { ioctl(&self.file, Updater::<PAGEMAP_SCAN, Scan>::new(&mut scan)) }?;
            let filled = regions.iter().take_while(|region| region.end > region.start);
            let page = |address: u64| (address / page_bytes) as usize;
            found.extend(filled.map(|region| page(region.start)..page(region.end)));
            if scan.walk_end <= from {
                return Err(Errno::INVAL);
            }
            from = scan.walk_end;
        }
        Ok(found)
    }

    fn read(&self, pages: &Range<usize>) -> io::Result<Vec<Range<usize>>> {
        let mut bytes = vec![0_u8; pages.len() * ENTRY_BYTES];
        let mut done = 0;
        while done < bytes.len() {
            let at = (pages.start * ENTRY_BYTES + done) as u64;
            match pread(&self.file, &mut bytes[done..], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let (words, _) = bytes.as_chunks::<ENTRY_BYTES>();
        let is_written = |word: &[u8; ENTRY_BYTES]| {
            let entry = u64::from_ne_bytes(*word);
            entry & (PRESENT | SWAPPED) != 0 && entry & FILE_OR_SHARED == 0
        };
        let mut page = pages.start;
        let runs = words.chunk_by(|a, b| is_written(a) == is_written(b));
        let runs = runs.filter_map(|run| {
            let start = page;
            page += run.len();
            is_written(&run[0]).then_some(start..page)
        });
        Ok(runs.collect())
    }
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

    #[test]
    fn both_ways_of_looking_find_the_pages_that_were_written() {
        let pagemap = Pagemap::open().unwrap();
        let page_bytes = rustix::param::page_size();
        let file = tempfile::tempfile().unwrap();
        file.set_len(100 * page_bytes as u64).unwrap();
        let flags = rustix::mm::MapFlags::PRIVATE;
        let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        // SAFETY: a fresh map; the file keeps its length.
        let map = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                100 * page_bytes,
                protection,
                flags,
                &file,
                0,
            )
        };
        let map = map.unwrap().cast::<u8>();
        let written = (0..100).filter(|page| page % 3 == 1 || *page > 95);
        for page in 0..100 {
            // SAFETY: within the map.
            unsafe { map.add(page * page_bytes).read_volatile() };
        }
        for page in written.clone() {
            // SAFETY: within the map, which is writable and private.
            unsafe { map.add(page * page_bytes).write_volatile(7) };
        }
        let first = map.addr() / page_bytes;
        let pages = first..first + 100;
        let flat =
            |runs: Vec<Range<usize>>| runs.into_iter().flatten().map(|p| p - first).collect::<Vec<_>>();
        let expected: Vec<usize> = written.collect();
        assert_eq!(flat(pagemap.read(&pages).unwrap()), expected);
        assert_eq!(flat(pagemap.written(pages).unwrap()), expected);
    }

    #[test]
    fn the_span_of_a_page_set_ignores_pages_outside() {
        let mut set = PageSet::default();
        set.grow(200);
        set.insert(3..5);
        set.insert(130..131);
        assert_eq!(set.span(0..200), Some(3..131));
        assert_eq!(set.span(4..130), Some(4..5));
        assert_eq!(set.span(5..130), None);
    }
}
