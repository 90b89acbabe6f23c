//! What is counted of a collection.

use crate::collection::{Collection, reason::Reason};
use std::collections::{BTreeMap, VecDeque};

/// How many changed items `status` names.
const CHANGED_ITEMS_MAX: usize = 16;

/// Counted since the daemon started.
#[derive(Debug, Default, Clone)]
pub struct Stats {
    /// Elements found.
    pub hits: u64,
    /// Elements followed.
    pub follows: u64,
    /// Elements computed and stored.
    pub misses: u64,
    /// CPU time spent on misses.
    pub spent_ns: u64,
    /// CPU time saved by hits and follows.
    pub saved_ns: u64,
    /// Hits that were computed again and compared.
    pub verified: u64,
    /// Of these, not the same.
    pub mismatches: u64,
    /// CPU time spent on that.
    pub verify_ns: u64,
    /// Misses by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// The last items whose content changed.
    pub changed: VecDeque<String>,
}

impl Stats {
    fn missed(&mut self, reason: Reason, name: &str, cpu_ns: u64) {
        self.misses += 1;
        self.spent_ns += cpu_ns;
        *self.reasons.entry(reason.text()).or_default() += 1;
        if reason == Reason::InputChanged {
            self.changed.push_back(name.to_owned());
            if self.changed.len() > CHANGED_ITEMS_MAX {
                self.changed.pop_front();
            }
        }
    }
}

impl Collection {
    /// Counts an element that was computed and stored.
    pub fn computed(&self, reason: Reason, name: &str, cpu_ns: u64) {
        self.state.lock().stats.missed(reason, name, cpu_ns);
    }

    /// Counts elements served; the CPU time that saved, in nanoseconds.
    pub fn served(&self, hits: u64, follows: u64) -> u64 {
        let mut state = self.state.lock();
        let mean = state.cpu_ns.checked_div(state.rows).unwrap_or(0);
        let saved = mean.saturating_mul(hits.saturating_add(follows));
        state.stats.hits += hits;
        state.stats.follows += follows;
        state.stats.saved_ns += saved;
        saved
    }

    /// Counts hits computed again, those of them that were not the same, and what that cost.
    pub fn verified(&self, hits: u64, mismatches: u64, cpu_ns: u64) {
        let stats = &mut self.state.lock().stats;
        stats.verified += hits;
        stats.mismatches += mismatches;
        stats.verify_ns += cpu_ns;
    }

    /// Counts so far.
    pub fn stats(&self) -> Stats {
        self.state.lock().stats.clone()
    }
}
