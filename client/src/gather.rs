//! Large copies, made by two processors: what a shuffled batch takes is mostly waiting for memory, and two wait side by side.
//!
//! Who wants a copy makes it, and calls the helper, a thread that takes parts of it off them if it gets a processor in time. So
//! one that comes late, or never, costs nothing but the call.

use crate::beside;
use crate::raw::{Buffer, Gather, Held, preemptions};
use parking_lot::Mutex;
use rustix::thread::sched_getaffinity;
use std::cell::Cell;
use std::hint;
use std::sync::{Arc, LazyLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// The helper is there after some 50 us, in which so many bytes are copied some times over by then.
const BYTES_MIN: usize = 1 << 20;

/// How long the helper sleeps without being called. It is called much more often wherever it matters.
const IDLE: Duration = Duration::from_millis(250);

/// So often in a row the helper finds nothing left to do, and ends: all processors are busy, or the job reads no more.
const FRUITLESS_MAX: u32 = 8;

/// Copies made without a helper before the next begins, which takes as long as a call or two.
const RESTS: u32 = 256;

/// The same after the caller had to leave its processor to others: there is none for the helper, who would only take turns
/// with it. Where more threads run than there are processors that is so every few batches, else once in a hundred.
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

/// Its lock is only ever tried: a forked child may inherit it locked.
struct Helper {
    begun: bool,
    /// Once it runs.
    thread: Option<Thread>,
    /// What is to be copied. Whoever wants it keeps it.
    wanted: Weak<Gather>,
    rests: u32,
}

/// The bytes of these, one after the other.
pub(crate) fn gathered(sources: Vec<Held>) -> Buffer {
    let mut gather = Arc::new(Gather::new(sources));
    if gather.bytes() >= BYTES_MIN {
        call(&gather);
    }
    gather.copy();
    let mut looks = 0;
    loop {
        match Gather::into_buffer(gather) {
            Ok(buffer) => return buffer,
            Err(shared) => gather = shared,
        }
        looks += 1;
        if looks < LOOKS {
            hint::spin_loop();
        } else {
            // The helper calls back once it let go.
            thread::park();
        }
    }
}

fn call(gather: &Arc<Gather>) {
    let Some(mut helper) = HELPER.try_lock() else {
        return;
    };
    if was_preempted() {
        helper.rests = helper.rests.max(RESTS_SHARED);
    }
    if *IS_ALONE || helper.rests > 0 {
        helper.rests = helper.rests.saturating_sub(1);
        return;
    }
    helper.wanted = Arc::downgrade(gather);
    match &helper.thread {
        Some(thread) => thread.unpark(),
        None if helper.begun => {}
        None => {
            helper.begun = beside::run("prebake-gather", help);
            helper.rests = if helper.begun { 0 } else { RESTS };
        }
    }
}

/// Whether this thread had to leave its processor since it was asked last.
fn was_preempted() -> bool {
    thread_local! {
        static SEEN: Cell<i64> = const { Cell::new(0) };
    }
    let preemptions = preemptions();
    SEEN.replace(preemptions) != preemptions
}

fn help() {
    let mut fruitless = 0;
    while fruitless < FRUITLESS_MAX && !beside::is_stopped() {
        let wanted = HELPER.try_lock().and_then(|mut helper| {
            helper.thread.get_or_insert_with(thread::current);
            helper.wanted.upgrade()
        });
        fruitless += 1;
        if let Some(gather) = wanted {
            let maker = gather.maker();
            if gather.copy() {
                fruitless = 0;
            }
            drop(gather);
            maker.unpark();
        }
        if fruitless > 0 {
            thread::park_timeout(IDLE);
        }
    }
    let mut helper = HELPER.lock();
    (helper.begun, helper.thread) = (false, None);
    helper.rests = if beside::is_stopped() { 0 } else { RESTS };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beside::before_fork;
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
