//! The machine as the daemon sees it, injected: time, randomness, threads and locks.

pub mod clock;
pub mod random;
pub(crate) mod sync;
pub mod task;
