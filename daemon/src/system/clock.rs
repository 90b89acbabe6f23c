//! Time, injected: leases and ageing run on a monotonic clock, wall time is only ever displayed or
//! compared with file times.

use std::time::Duration;

/// Where the daemon gets its time from.
pub trait Clock: Send + Sync + 'static {
    /// Time since an arbitrary start; never goes back.
    fn monotonic(&self) -> Duration;
    /// Nanoseconds since 1970. May jump.
    fn wall_ns(&self) -> i64;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    fn default() -> Self {
        Self {
            start: std::time::Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    fn wall_ns(&self) -> i64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
    }
}
