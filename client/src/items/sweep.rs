//! A look at all known inputs beside the job, so that it need not look at each when it wants it.
//!
//! What is served was looked at in its epoch, whoever did it: a sweep only saves time, and may stop anywhere.

use super::Inner;
use super::prefault;
use crate::background_threads;
use crate::files::content::{Memo, scope_thread};
use crate::inputs::Part;
use prebake_fingerprint::{Digest, FileStat};
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// How long a caller looks itself: as long as it takes to begin a thread, some times over. Some hundred files are looked at by
/// then, and the first batch is not kept waiting.
const AT_ONCE: Duration = Duration::from_micros(500);

/// How long none is begun after one, in its own time: epochs may be much shorter than a sweep.
const REST: u32 = 4;

/// Of the thread. Jobs go first; yet not the least, since it holds their lock for some microseconds now and then.
const NICENESS: i32 = 10;

/// Parts that the memo is asked for at once: a question takes most of a millisecond, however little is asked.
const PARTS: usize = 4;

/// New files that are asked for in vain, one after the other, before no more are: nobody read them yet, and they are read
/// when they are wanted.
const UNKNOWN_MAX: usize = 1024;

/// See the module.
pub(crate) struct Sweep {
    /// Ends with them.
    items: Weak<Inner>,
    begun: Duration,
    next: usize,
    /// Whether to ask the memo for files that this job has not used yet.
    new: bool,
    /// In a row.
    unknown: usize,
}

impl Sweep {
    pub(crate) fn new(items: &Arc<Inner>, new: bool) -> Sweep {
        Sweep {
            items: Arc::downgrade(items),
            begun: items.session.clock.elapsed(),
            next: 0,
            new,
            unknown: 0,
        }
    }

    /// Looks for a moment in this thread, and then in one of its own.
    pub(crate) fn begin(mut self) {
        while let Some(inner) = self.items.upgrade() {
            let parts = self.look(&inner, 1);
            if parts.is_empty() {
                return self.end(&inner);
            }
            let answers = inner.session.ask(&self.asks(&parts));
            self.note(&inner, parts, answers);
            if inner.session.clock.elapsed() < self.begun + AT_ONCE {
                continue;
            }
            let rested = self.begun >= inner.state.lock().rests_until;
            if !rested || !self.detach() {
                inner.state.lock().sweeping = false;
            }
            return;
        }
    }

    /// Looks in a thread of its own alone.
    pub(crate) fn begin_beside(mut self, inner: &Inner) {
        self.begun = inner.session.clock.elapsed();
        if !self.detach() {
            inner.state.lock().sweeping = false;
        }
    }

    /// Goes on in a thread; false if there is none to be had.
    fn detach(self) -> bool {
        background_threads::run("prebake-sweep", move || {
            let _ = setpriority_process(Some(gettid()), NICENESS);
            self.go_on();
        })
    }

    /// Looks at the rest, at some files while the memo answers for those before: both take about as long.
    fn go_on(mut self) {
        let mut parts = Vec::new();
        while let Some(inner) = self.items.upgrade() {
            let asks = self.asks(&parts);
            let (next, answers) = thread::scope(|scope| {
                let ask = || inner.session.ask(&asks);
                let asking = if asks.is_empty() {
                    None
                } else {
                    scope_thread(scope, ask)
                };
                // Little at first: what is expected waits for it.
                let next = self.look(&inner, (2 * parts.len()).clamp(1, PARTS));
                // Without a thread, or if it panicked, here.
                let answers = asking.and_then(|asking| asking.join().ok());
                (next, answers.unwrap_or_else(ask))
            });
            self.note(&inner, parts, answers);
            if next.is_empty() || background_threads::is_stopped() {
                return self.end(&inner);
            }
            parts = next;
        }
    }

    /// Looks at some files; none if there are no more.
    fn look(&mut self, inner: &Inner, parts: usize) -> Vec<Part> {
        let mut looked = Vec::with_capacity(parts);
        while looked.len() < parts {
            let part = inner.state.lock().inputs.part(self.next, self.new);
            let Some(mut part) = part else {
                break;
            };
            let clock = &*inner.session.clock;
            let begun = clock.elapsed();
            part.look(clock);
            let took = clock.elapsed().saturating_sub(begun);
            inner.state.lock().inputs.looked(took);
            self.next = part.next;
            looked.push(part);
        }
        looked
    }

    /// What to ask the memo for; nothing once it is not asked any more.
    fn asks(&self, parts: &[Part]) -> Vec<FileStat> {
        let parts = if self.new { parts } else { &[] };
        parts.iter().flat_map(Part::asks).collect()
    }

    fn note(&mut self, inner: &Arc<Inner>, parts: Vec<Part>, answers: Vec<Option<Digest>>) {
        let mut answers = answers.into_iter();
        for mut part in parts {
            self.unknown = match part.recall(&mut answers) {
                0 => self.unknown + part.new,
                _ => 0,
            };
            inner.state.lock().inputs.found(part);
        }
        self.new &= self.unknown < UNKNOWN_MAX;
        // What is expected of them can be located now.
        prefault::begin(inner);
    }

    fn end(&self, inner: &Arc<Inner>) {
        let now = inner.session.clock.elapsed();
        let mut state = inner.state.lock();
        state.sweeping = false;
        state.rests_until = now + REST * now.saturating_sub(self.begun);
    }
}
