//! Which process this is. A system call for it takes up to half a microsecond on virtual machines: as long as it takes to hand
//! out a small element, which asks.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::getpid;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// A page that the kernel clears in a forked child, however it was forked (`MADV_WIPEONFORK`). What is at its start is the process's
/// id, or 0 while nobody has asked in it. Not behind a lock, since a process may be forked while any lock is held.
static PAGE: AtomicPtr<AtomicI32> = AtomicPtr::new(ptr::null_mut());

/// In the place of the page where there can be none: always 0.
static NOT_KEPT: AtomicI32 = AtomicI32::new(0);

/// What is no advice. Emulators of processes take every one and do nothing.
const NO_ADVICE: i32 = -1;

/// The id of this process, as `getpid` tells it.
pub(crate) fn current() -> i32 {
    let mut page = PAGE.load(Ordering::Acquire).cast_const();
    if page.is_null() {
        page = begin();
    }
    // SAFETY: the page is never unmapped (begin), the other is static.
    let kept = unsafe { &*page };
    let id = kept.load(Ordering::Relaxed);
    if id != 0 {
        return id;
    }
    let id = getpid().as_raw_nonzero().get();
    if !ptr::eq(kept, &raw const NOT_KEPT) {
        kept.store(id, Ordering::Relaxed);
    }
    id
}

/// Maps the page, unless another thread was first.
fn begin() -> *const AtomicI32 {
    let bytes = rustix::param::page_size();
    let none = ptr::from_ref(&NOT_KEPT).cast_mut();
    let made = map(bytes).map_or(none, <*mut c_void>::cast);
    let first = PAGE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
    let Err(other) = first else {
        return made;
    };
    if made != none {
        // SAFETY: our own map, which nobody else knows of.
        let _ = unsafe { munmap(made.cast(), bytes) };
    }
    other
}

fn map(bytes: usize) -> Option<*mut c_void> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh anonymous map at an address of the kernel's choice touches nothing that exists; the advices are about it
    // alone.
    unsafe {
        let page = mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE).ok()?;
        let cleared = madvise(page, bytes, Advice::LinuxWipeOnFork).is_ok();
        if cleared && libc::madvise(page, bytes, NO_ADVICE) != 0 {
            return Some(page);
        }
        let _ = munmap(page, bytes);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_is_another_process() {
        let here = current();
        assert_eq!(here, std::process::id().cast_signed());
        assert!(!ptr::eq(PAGE.load(Ordering::Acquire), &raw const NOT_KEPT));
        // SAFETY: the child allocates nothing and takes no lock.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let known = current() == libc::getpid() && current() != here;
                libc::_exit(i32::from(!known));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(libc::WEXITSTATUS(status), 0);
        }
        assert_eq!(current(), here);
    }
}
