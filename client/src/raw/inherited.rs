//! What a forked child must not keep or touch.

use super::process;
use rustix::fs::fstat;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Two sockets for each job a process is connected as, and there is seldom more than one. Beyond this a child keeps its
/// parent's sockets open, and the parent's session ends by its process id alone.
const SOCKETS_MAX: usize = 64;

/// Open sockets, each as inode and descriptor (see [`mark`]), or 0. Not behind a lock, since a process may be forked
/// while any lock is held.
static SOCKETS: [AtomicU64; SOCKETS_MAX] = [const { AtomicU64::new(0) }; SOCKETS_MAX];

/// Keeps a socket on the list of those that a forked child closes.
pub(crate) struct ClosedInChild(u64);

impl ClosedInChild {
    pub(crate) fn register(fd: BorrowedFd<'_>) -> ClosedInChild {
        let mark = mark(fd);
        exchange(0, mark);
        ClosedInChild(mark)
    }
}

impl Drop for ClosedInChild {
    fn drop(&mut self) {
        exchange(self.0, 0);
    }
}

fn exchange(from: u64, to: u64) {
    for slot in &SOCKETS {
        let done = slot.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        if done.is_ok() {
            return;
        }
    }
}

/// Descriptor + 1 in the low half, so that it is never 0; in the high half the inode, which tells the socket from
/// whatever takes its number later.
fn mark(fd: BorrowedFd<'_>) -> u64 {
    let inode = fstat(fd).map_or(0, |s| s.st_ino);
    (inode << 32) | (u64::from(fd.as_raw_fd().unsigned_abs()) + 1)
}

/// To be called in a child right after `fork`: closes the sockets it inherited, so that its parent's session ends with
/// its parent. Handles made by the parent answer `forked` in the child.
pub fn after_fork() {
    for slot in &SOCKETS {
        let marked = slot.swap(0, Ordering::AcqRel);
        let Some(fd) = (marked as u32)
            .checked_sub(1)
            .and_then(|n| RawFd::try_from(n).ok())
        else {
            continue;
        };
        // SAFETY: borrowed only for the call; fstat of a descriptor that is not open is an error, not undefined.
        if mark(unsafe { BorrowedFd::borrow_raw(fd) }) == marked {
            // SAFETY: it is the registered socket. Its owner, a handle of the parent, is never used or dropped in the
            // child (Session checks the process id).
            unsafe { rustix::io::close(fd) };
        }
    }
}

/// A value that is dropped only in the process that made it: its locks may be held for ever in a forked child, and its
/// descriptors be closed there already.
pub(crate) struct OfProcess<T> {
    owner: i32,
    value: ManuallyDrop<T>,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(value: T) -> OfProcess<T> {
        OfProcess {
            owner: process::current(),
            value: ManuallyDrop::new(value),
        }
    }

    /// Whether this is the process that made it.
    pub(crate) fn is_here(&self) -> bool {
        process::current() == self.owner
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
