//! Which pages of this process were written.

use rustix::io::{Errno, pread};
use std::fs::File;
use std::io;
use std::ops::Range;

/// `/proc/self/pagemap`: one 64-bit word for each page of this process's address space.
///
/// Bits as in the kernel's `Documentation/admin-guide/mm/pagemap.rst`. A descriptor stays bound to the process that
/// opened it, also after `fork`.
pub(crate) struct Pagemap(File);

const ENTRY_BYTES: usize = 8;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FILE_OR_SHARED: u64 = 1 << 61;

impl Pagemap {
    /// None where the kernel does not let this process look (a non-dumpable process, no /proc).
    pub(crate) fn open() -> Option<Pagemap> {
        File::open("/proc/self/pagemap").ok().map(Pagemap)
    }

    /// For `count` pages from page number `first` (address over page size): was it written through a private map?
    /// Such a page is anonymous; one only read is still the file's; one never touched is not there.
    pub(crate) fn written(&self, first: usize, count: usize) -> io::Result<Vec<bool>> {
        let mut bytes = vec![0_u8; count * ENTRY_BYTES];
        let mut done = 0;
        while done < bytes.len() {
            let at = (first * ENTRY_BYTES + done) as u64;
            match pread(&self.0, &mut bytes[done..], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let (words, _) = bytes.as_chunks::<ENTRY_BYTES>();
        Ok(words
            .iter()
            .map(|word| {
                let entry = u64::from_ne_bytes(*word);
                entry & (PRESENT | SWAPPED) != 0 && entry & FILE_OR_SHARED == 0
            })
            .collect())
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
