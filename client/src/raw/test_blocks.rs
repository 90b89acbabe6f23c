//! Blocks as the daemon makes them, for tests.

use super::readable::{Held, Readable};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::pwrite;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub(crate) const BLOCK: usize = 64 * 1024;

/// A full block, sealed, whose byte `i` is `i % 251`.
pub(super) fn block(filled: usize) -> OwnedFd {
    let fd = open_block(filled);
    fcntl_add_seals(&fd, SealFlags::WRITE).unwrap();
    fd
}

/// The same of a block that is still filled, in its first `filled` bytes.
pub(super) fn open_block(filled: usize) -> OwnedFd {
    let fd = unsealed();
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    fill(&fd, 0..filled);
    fd
}

/// Memory of a block's size that may still shrink.
pub(super) fn unsealed() -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = memfd_create("block", flags).unwrap();
    ftruncate(&fd, BLOCK as u64).unwrap();
    fd
}

pub(super) fn fill(fd: &OwnedFd, range: Range<usize>) {
    let bytes: Vec<u8> = expected(range.clone());
    assert_eq!(pwrite(fd, &bytes, range.start as u64).unwrap(), bytes.len());
}

pub(super) fn expected(range: Range<usize>) -> Vec<u8> {
    range.map(|i| (i % 251) as u8).collect()
}

/// These bytes of blocks side by side.
pub(crate) fn held(ranges: &[Range<usize>]) -> Vec<Held> {
    let blocks = ranges
        .iter()
        .map(|range| range.end.div_ceil(BLOCK))
        .max()
        .unwrap_or(0);
    let region = Arc::new(Readable::reserve(BLOCK, blocks.max(1)).unwrap());
    for number in 0..blocks {
        region.map(number, block(BLOCK)).unwrap();
    }
    let held = ranges.iter().map(|range| region.hold(range.clone()).unwrap());
    held.collect()
}

/// What they are.
pub(crate) fn there(range: Range<usize>) -> Vec<u8> {
    range.map(|i| (i % BLOCK % 251) as u8).collect()
}
