//! Threads beside a job's own, which save it time and may stop anywhere.

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

/// To be waited for before a fork. Its lock is only ever tried (see [`running`]): a child may inherit it locked.
static RUNNING: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Many times what it takes to begin a thread, for which the lock is held: one that is done as soon as it was begun may
/// begin another before.
const LOCK_WAIT: Duration = Duration::from_millis(100);
const LOCK_TRIES: u32 = 1000;

/// Not by a wait for the lock, which takes part in others that a child may inherit locked. Whoever begins a thread gives up
/// where all are to end: who waits for that has the lock, and perhaps waits for the caller.
fn running(begins: bool) -> Option<MutexGuard<'static, Vec<JoinHandle<()>>>> {
    (0..LOCK_TRIES)
        .take_while(|_| !(begins && is_stopped()))
        .find_map(|_| {
            let running = RUNNING.try_lock();
            if running.is_none() {
                thread::sleep(LOCK_WAIT / LOCK_TRIES);
            }
            running
        })
}

/// False if there is no thread to be had.
pub(crate) fn run(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let started = running(true).and_then(|mut running| {
        running.retain(|thread| !thread.is_finished());
        let thread = Builder::new().name(name.to_owned()).spawn(work);
        thread.map(|thread| running.push(thread)).ok()
    });
    started.is_some()
}

/// Whether those that run should end: each asks some times in a millisecond.
pub(crate) fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// To be called before `fork`: they end, so that no child is born of a process with threads. What they did is done later.
pub fn before_fork() {
    let Some(mut running) = running(false) else {
        return;
    };
    if running.is_empty() {
        return;
    }
    STOPPED.store(true, Ordering::Relaxed);
    for thread in running.drain(..) {
        // It may sleep until somebody needs it.
        thread.thread().unpark();
        // One that panicked is over too.
        let _ = thread.join();
    }
    STOPPED.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_that_was_just_begun_begins_another() {
        for _ in 0..1000 {
            let (answer, answers) = channel();
            assert!(run("prebake-first", move || {
                let _ = answer.send(run("prebake-second", || {}));
            }));
            assert!(answers.recv().unwrap());
        }
    }
}
