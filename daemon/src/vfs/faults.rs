//! Faults of the machine, told in the log: each kind at most once a minute, with how many there were since.

use crate::{error::Error, system::clock::Clock};
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// A disk that is gone fails each call: one line a minute says as much as a thousand.
const SILENCE: Duration = Duration::from_secs(60);

/// What failed, and with which code.
type Kind = (&'static str, &'static str);

#[derive(Default)]
struct Told {
    at: Option<Duration>,
    since: u64,
}

/// What was told, and when.
pub struct Faults {
    clock: Arc<dyn Clock>,
    told: Mutex<HashMap<Kind, Told>>,
    counter: OnceLock<IntCounterVec>,
}

impl Faults {
    /// None yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            told: Mutex::default(),
            counter: OnceLock::new(),
        }
    }

    /// Counts them by code there from now on.
    pub fn count_in(&self, counter: IntCounterVec) {
        let _ = self.counter.set(counter);
    }

    /// Counts a fault, and tells of it.
    pub fn note(&self, what: &'static str, error: &Error) {
        if let Some(counter) = self.counter.get() {
            counter.with_label_values(&[error.code()]).inc();
        }
        self.tell(what, error);
    }

    /// Tells of a fault that is counted already, if none of its kind was told of lately.
    pub fn tell(&self, what: &'static str, error: &Error) {
        if let Some(more) = self.is_due((what, error.code())) {
            tracing::warn!(%error, more, "{what}");
        }
    }

    /// How many were not told of before this one, if it is to be told.
    fn is_due(&self, kind: Kind) -> Option<u64> {
        let now = self.clock.monotonic();
        let mut all = self.told.lock();
        let told = all.entry(kind).or_default();
        if told.at.is_some_and(|at| now.saturating_sub(at) < SILENCE) {
            told.since += 1;
            return None;
        }
        told.at = Some(now);
        Some(std::mem::take(&mut told.since))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Seconds(AtomicU64);

    impl Clock for Seconds {
        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed))
        }

        fn wall_ns(&self) -> i64 {
            0
        }
    }

    #[test]
    fn each_kind_is_told_once_a_minute_with_how_many_there_were() {
        let clock = Arc::new(Seconds::default());
        let faults = Faults::new(Arc::clone(&clock) as _);
        assert_eq!(faults.is_due(("reading", "io")), Some(0));
        assert_eq!(faults.is_due(("reading", "io")), None);
        assert_eq!(faults.is_due(("reading", "disk-full")), Some(0));
        assert_eq!(faults.is_due(("writing", "io")), Some(0));
        clock.0.store(59, Ordering::Relaxed);
        assert_eq!(faults.is_due(("reading", "io")), None);
        clock.0.store(60, Ordering::Relaxed);
        assert_eq!(faults.is_due(("reading", "io")), Some(2));
    }
}
