//! What is counted of a collection.

use crate::collection::reason::Reason;
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
    /// Counts an element that was computed and stored.
    pub fn missed(&mut self, reason: Reason, name: &str, cpu_ns: u64) {
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
