//! What is counted of a job's items, and told to the daemon.

use super::{Inner, Items, State};
use crate::session::counters::Counters;
use crate::session::report::Outcome;
use crate::session::stats::Stats;

impl Items {
    /// What was counted in this process.
    #[must_use]
    pub fn stats(&self) -> Stats {
        match self.0.session.is_here() {
            true => self.0.state.lock().tally.stats(),
            false => Stats::default(),
        }
    }

    /// Has all that was counted, and what will be, counted elsewhere too: for longer than these items are open, and perhaps by
    /// other processes as well. To be called once.
    pub fn count_into(&self, counters: Counters) {
        if self.0.session.is_here() {
            self.0.state.lock().tally.count_into(counters);
        }
    }

    /// Tells the daemon what was read since the last report. Happens by itself some times a second and on drop.
    pub fn report(&self) {
        if self.0.session.is_here() {
            self.0.tell(self.0.state.lock(), false);
            self.0.session.flush_learned();
            self.0.session.wait_until_told();
        }
    }
}

impl Inner {
    /// Counts these, and reports if it is time to.
    pub(crate) fn served(&self, mut state: parking_lot::MutexGuard<'_, State>, indices: &[usize]) {
        let mut counted = Stats::default();
        for &i in indices {
            self.count(&mut state, i, &mut counted);
            state.read_order.read(i);
        }
        state.tally.add(&counted);
        self.tell_ahead(&mut state);
        let sweep = state.first_sweep.take();
        self.tell(state, true);
        if let Some(sweep) = sweep {
            sweep.begin_beside(self);
        }
    }

    fn count(&self, state: &mut State, i: usize, counted: &mut Stats) {
        if let Some(found) = state.found.filled_mut(i) {
            let block = self.session.block_of(&found.location);
            state.tally.served(block, &found.location, found.outcome, counted);
            found.outcome = Outcome::Hit;
            found.touched = true;
        }
    }

    /// Reports if it is time to, or in any case; lets go of the state first.
    pub(crate) fn tell(&self, mut state: parking_lot::MutexGuard<'_, State>, if_due: bool) {
        let now = if_due.then(|| self.session.clock.elapsed());
        let report = state.tally.report(now);
        drop(state);
        if let Some(report) = report {
            self.session.tell(self.collection, report);
        }
    }
}
