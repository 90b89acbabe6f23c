//! Page tables of what a job reads next, filled in beside it.
//!
//! The kernel enters a shared page when it is first touched, a few neighbours with it: in a job's first pass over what is there
//! that takes longer than the bytes. What is expected (see [`crate::Items::expect`]) is located, mapped and entered by a thread,
//! from where the job is to the end of what it told. Nothing is copied and nothing is served by it.

use super::{Inner, State};
use crate::background_threads;
use crate::location::Location;
use crate::mapped::blocks::Which;
use std::sync::{Arc, Weak};

/// Bytes mapped and entered in one go: a look at whether to stop comes after a millisecond or two.
const PART_BYTES: usize = 16 << 20;

/// Items whose places are known that it goes on with: many times what a part holds.
const LOCATED_AHEAD: usize = 2048;

/// Begins it, unless it is at it or nothing is left to be done.
pub(crate) fn begin(inner: &Arc<Inner>) {
    {
        let mut state = inner.state.lock();
        state.prefault_again = state.prefaulting;
        if state.prefaulting || !state.warm || !state.is_fault_known() {
            return;
        }
        state.prefaulting = true;
    }
    let items = Arc::downgrade(inner);
    if !background_threads::run("prebake-prefault", move || run(&items)) {
        inner.state.lock().prefaulting = false;
    }
}

fn run(items: &Weak<Inner>) {
    while let Some(inner) = items.upgrade() {
        let went_on = !background_threads::is_stopped() && inner.prefault();
        let mut state = inner.state.lock();
        let again = std::mem::take(&mut state.prefault_again) && !background_threads::is_stopped();
        if !went_on && !again {
            state.prefaulting = false;
            return;
        }
    }
}

impl Inner {
    /// The next part; false if there is none, or it cannot be done.
    fn prefault(&self) -> bool {
        let (unknown, access) = {
            let mut state = self.state.lock();
            (state.unknown_next(), state.access)
        };
        // Those that were not looked at yet, or are not there, end it when it comes to them.
        if !unknown.is_empty() {
            let _ = self.locate_all(&unknown);
        }
        let runs = self.state.lock().faults_next();
        // What is on SSD is read when it is its turn.
        let mapped = self.session.map(access, runs.iter(), Which::Resident);
        !runs.is_empty() && mapped.is_ok() && runs.iter().all(|run| self.session.populate(access, run))
    }
}

impl State {
    /// Passes over what was touched; whether anything is left.
    fn is_fault_coming(&mut self) -> bool {
        let touched = |i: &usize| self.found[*i].as_ref().is_some_and(|found| found.touched);
        while self.read_order.next_fault().is_some_and(|i| touched(&i)) {
            self.read_order.pass_fault();
        }
        self.read_order.next_fault().is_some()
    }

    /// Whether the next of what is left can be located: its input was looked at.
    pub(crate) fn is_fault_known(&mut self) -> bool {
        self.is_fault_coming()
            && self
                .read_order
                .next_fault()
                .is_some_and(|i| self.found[i].is_some() || self.inputs.fingerprint(i).is_some())
    }

    /// Items a little further on of which it is not known where they lie: the job does not get there first.
    fn unknown_next(&mut self) -> Vec<usize> {
        if !self.is_fault_coming() {
            return Vec::new();
        }
        let order = self.read_order.faults().iter().take(LOCATED_AHEAD).copied();
        let unknown = order.skip_while(|i| self.found[*i].is_some());
        unknown.take_while(|i| self.found[*i].is_none()).collect()
    }

    /// Where those lie that come next and were not touched, which they are from now on; neighbours as one.
    fn faults_next(&mut self) -> Vec<Location> {
        let (mut runs, mut bytes) = (Vec::<Location>::new(), 0);
        while bytes < PART_BYTES
            && let Some(i) = self.read_order.next_fault()
            && let Some(found) = self.found.filled_mut(i)
        {
            self.read_order.pass_fault();
            if std::mem::replace(&mut found.touched, true) || found.location.bytes.is_empty() {
                continue;
            }
            bytes += found.location.bytes.len();
            match runs.last_mut() {
                Some(last) if last.touches(&found.location) => last.bytes.end = found.location.bytes.end,
                _ => runs.push(found.location.clone()),
            }
        }
        runs
    }
}
