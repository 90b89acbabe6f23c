//! Opens that were heard, and that nobody took yet.
//!
//! Who opens a file may be a handler of a signal, or hold the allocator's lock: to put one here allocates nothing and waits for
//! nothing. An entry is put where one number, which only grows, says that there is room; who takes them waits until nobody is at it.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Of entries that nobody took: some 80,000, and of memory as much as was ever used. More are no element's.
const BYTES: usize = 16 << 20;
/// Entries lie at multiples of this.
const ALIGN: usize = align_of::<Head>();
/// Times that who takes looks whether others are done, which takes them microseconds.
const LOOKS_MAX: usize = 100_000;

/// device, inode, size, mtime_ns, ctime_ns
pub(super) type Stat = (u64, u64, u64, i64, i64);

/// What is known of an open, beside its path.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// As Python numbers it.
    pub(super) thread: usize,
    pub(super) purpose: u8,
    /// What was there before.
    pub(super) stat: Option<Stat>,
    /// Of the path that follows.
    length: usize,
}

impl Head {
    pub(super) fn new(thread: usize, purpose: u8, stat: Option<Stat>) -> Self {
        Self {
            thread,
            purpose,
            stat,
            length: 0,
        }
    }
}

#[repr(align(8))]
struct Arena(UnsafeCell<[u8; BYTES]>);

// SAFETY: each part is written by the one thread that reserved it, and read by the one that takes, once all writers are done.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; BYTES]));
/// Where there is room, up to where entries were taken, and how many threads put one there just now.
static END: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static WRITERS: AtomicUsize = AtomicUsize::new(0);
/// Whether some thread takes.
static TAKING: AtomicBool = AtomicBool::new(false);
/// Whether something was not noted.
static LOST: AtomicBool = AtomicBool::new(false);

/// Notes that something was opened of which no more is known.
pub(super) fn lost() {
    LOST.store(true, Ordering::Relaxed);
}

/// Notes an open of the path that these parts make.
pub(super) fn put(mut head: Head, parts: &[&[u8]]) {
    head.length = parts.iter().map(|part| part.len()).sum();
    let size = (size_of::<Head>() + head.length).next_multiple_of(ALIGN);
    WRITERS.fetch_add(1, Ordering::AcqRel);
    let reserved = END.fetch_update(Ordering::AcqRel, Ordering::Acquire, |end| {
        (end + size <= BYTES).then_some(end + size)
    });
    match reserved {
        // SAFETY: from here on so many bytes are this thread's, and lie in the arena, aligned.
        Ok(start) => unsafe {
            let mut at = ARENA.0.get().cast::<u8>().add(start);
            at.cast::<Head>().write(head);
            at = at.add(size_of::<Head>());
            for part in parts {
                ptr::copy_nonoverlapping(part.as_ptr(), at, part.len());
                at = at.add(part.len());
            }
        },
        Err(_) => lost(),
    }
    WRITERS.fetch_sub(1, Ordering::AcqRel);
}

/// Hands on what was put since the last time, in order; whether that is all that could be noted.
pub(super) fn take(mut each: impl FnMut(Head, &[u8])) -> bool {
    if TAKING.swap(true, Ordering::AcqRel) {
        return false;
    }
    let end = END.load(Ordering::Acquire);
    // Who reserved a part before is done where nobody is at it.
    let is_done = (0..LOOKS_MAX).any(|_| {
        std::hint::spin_loop();
        WRITERS.load(Ordering::Acquire) == 0
    });
    let mut start = TAKEN.load(Ordering::Relaxed);
    while is_done && start < end {
        // SAFETY: the entry is whole, and nobody writes to it any more.
        unsafe {
            let at = ARENA.0.get().cast::<u8>().add(start);
            let head = at.cast::<Head>().read();
            each(
                head,
                std::slice::from_raw_parts(at.add(size_of::<Head>()), head.length),
            );
            start += (size_of::<Head>() + head.length).next_multiple_of(ALIGN);
        }
    }
    TAKEN.store(start, Ordering::Relaxed);
    // Where nobody reserved more meanwhile there is room from the beginning again.
    if is_done
        && END
            .compare_exchange(end, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    {
        TAKEN.store(0, Ordering::Relaxed);
    }
    TAKING.store(false, Ordering::Release);
    is_done && !LOST.swap(false, Ordering::Relaxed)
}

/// In a forked child: what its parent heard is none of its own, and the threads that were at it are none of it.
pub(super) fn forget() {
    for each in [&WRITERS, &END, &TAKEN] {
        each.store(0, Ordering::Relaxed);
    }
    for each in [&TAKING, &LOST] {
        each.store(false, Ordering::Relaxed);
    }
}
