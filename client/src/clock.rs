//! Where this crate reads the time, so that tests can set it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Nanoseconds since 1970, on the clock that stamps files.
    fn wall_ns(&self) -> i64;
    /// Time since some fixed moment; never goes back.
    fn elapsed(&self) -> Duration;
}

/// The clocks of the machine.
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn default() -> Self {
        SystemClock {
            start: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn wall_ns(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}
