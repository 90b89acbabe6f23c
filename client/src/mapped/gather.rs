//! Large copies, made by two processors: what a shuffled batch takes is mostly waiting for memory, and two wait side by side.
//!
//! Who wants a copy makes it, and calls the helper, a thread that takes parts of it off them if it gets a processor in time. So
//! one that comes late, or never, costs nothing but the call.

use crate::background_threads;
use crate::raw::{Buffer, Gather, Held, preemptions};
use parking_lot::Mutex;
use rustix::thread::sched_getaffinity;
use std::hint;
use std::mem;
use std::sync::{Arc, LazyLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// The helper is there after some 50 us, in which so many bytes are copied some times over by then.
const BYTES_MIN: usize = 1 << 20;

/// How long the helper sleeps without being called. It is called much more often wherever it matters.
const IDLE: Duration = Duration::from_millis(250);

/// So often in a row the helper comes too late, or is not called, and ends: all processors are busy, or the job reads no more.
const FRUITLESS_MAX: u32 = 8;

/// Copies made without a helper after one that came too late so often.
const RESTS: u32 = 256;

/// The same after a copy in which the caller or its helper had to leave the processor to others: they only take turns then.
const RESTS_SHARED: u32 = 16;

/// Looks at whether the helper is done before its caller sleeps: as long as a part takes.
const LOOKS: u32 = 2_000;

/// Whether there is one processor and no more.
static IS_ALONE: LazyLock<bool> =
    LazyLock::new(|| sched_getaffinity(None).is_ok_and(|processors| processors.count() == 1));

static HELPER: Mutex<Helper> = Mutex::new(Helper {
    begun: false,
    thread: None,
    wanted: Weak::new(),
    rests: 0,
});

/// Who wants a copy only tries its lock, which a forked child may inherit locked; the helper, which no child has, waits for it.
struct Helper {
    begun: bool,
    /// Once it runs.
    thread: Option<Thread>,
    /// What is to be copied. Whoever wants it keeps it.
    wanted: Weak<Gather<Held>>,
    rests: u32,
}

/// The bytes of these, one after the other.
pub(crate) fn gathered(sources: Vec<Held>) -> Buffer {
    let mut gather = Arc::new(Gather::new(sources));
    let is_large = gather.bytes() >= BYTES_MIN && !*IS_ALONE;
    let before = if is_large { preemptions() } else { 0 };
    if is_large {
        call(&gather);
    }
    gather.copy(|| true);
    let mut looks = 0;
    let buffer = loop {
        match Gather::into_buffer(gather) {
            Ok(buffer) => break buffer,
            Err(shared) => gather = shared,
        }
        looks += 1;
        if looks < LOOKS {
            hint::spin_loop();
        } else {
            // The helper calls back once it let go.
            thread::park();
        }
    };
    // The helper lost its processor, or took this thread's.
    if is_large
        && (looks >= LOOKS || preemptions() != before)
        && let Some(mut helper) = HELPER.try_lock()
    {
        helper.rests = helper.rests.max(RESTS_SHARED);
    }
    buffer
}

fn call(gather: &Arc<Gather<Held>>) {
    let Some(mut helper) = HELPER.try_lock() else {
        return;
    };
    if helper.rests > 0 {
        helper.rests -= 1;
        return;
    }
    helper.wanted = Arc::downgrade(gather);
    if !helper.begun {
        helper.begun = background_threads::run("prebake-gather", help);
        helper.rests = if helper.begun { 0 } else { RESTS };
    }
    let thread = helper.thread.clone();
    // It takes the lock as soon as it is awake.
    drop(helper);
    if let Some(thread) = thread {
        thread.unpark();
    }
}

fn help() {
    HELPER.lock().thread = Some(thread::current());
    let (mut idle, mut late) = (0, 0);
    while idle.max(late) < FRUITLESS_MAX && !background_threads::is_stopped() {
        let wanted = mem::take(&mut HELPER.lock().wanted);
        let was_called = !wanted.ptr_eq(&Weak::new());
        let helped = wanted.upgrade().is_some_and(|gather| {
            let maker = gather.maker();
            let helped = gather.copy(|| !background_threads::is_stopped());
            drop(gather);
            maker.unpark();
            helped
        });
        if helped {
            (idle, late) = (0, 0);
            continue;
        }
        (idle, late) = if was_called {
            (0, late + 1)
        } else {
            (idle + 1, late)
        };
        thread::park_timeout(IDLE);
    }
    let mut helper = HELPER.lock();
    (helper.begun, helper.thread) = (false, None);
    helper.rests = if late < FRUITLESS_MAX { 0 } else { RESTS };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background_threads::before_fork;
    use crate::raw::test_blocks::{BLOCK, held, there};
    use std::ops::Range;

    /// Three megabytes, in runs of which some are longer than one part.
    fn ranges() -> Vec<Range<usize>> {
        (1..=8).map(|i| BLOCK - i..i * 5 * BLOCK / 4).collect()
    }

    fn is_right() -> bool {
        let whole: Vec<u8> = ranges().into_iter().flat_map(there).collect();
        assert!(whole.len() > BYTES_MIN);
        *gathered(held(&ranges())) == *whole
    }

    /// Whether one comes to help within many copies.
    fn is_helped() -> bool {
        (0..10_000).any(|_| {
            assert!(is_right());
            HELPER.lock().thread.is_some()
        })
    }

    // One test: what helps is the process's.
    #[test]
    fn copies_of_many_threads_are_right_with_a_helper_that_ends_before_a_fork_and_comes_again() {
        for _ in 0..3 {
            assert!(*IS_ALONE || is_helped());
            thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| (0..20).all(|_| is_right())))
                    .collect();
                assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
            });
            before_fork();
            let helper = HELPER.lock();
            assert!(!helper.begun && helper.thread.is_none());
        }
    }
}
