//! Where threads meet: the machine's, or shuttle's in the build of `tests/interleavings.rs`. Locks are `parking_lot`'s in
//! both, which the workspace takes from a crate that knows shuttle.

#[cfg(not(feature = "shuttle"))]
pub use parking_lot::Condvar;
#[cfg(feature = "shuttle")]
pub use shuttle::sync::atomic::AtomicU64;
#[cfg(not(feature = "shuttle"))]
pub use std::sync::atomic::AtomicU64;

#[cfg(feature = "shuttle")]
use parking_lot::MutexGuard;
#[cfg(feature = "shuttle")]
use shuttle::sync;

/// `parking_lot`'s, which shuttle does not know.
#[cfg(feature = "shuttle")]
#[derive(Debug, Default)]
pub struct Condvar {
    /// Held from before a waiter lets go of what it holds until it waits: who tells takes it, so that none is missed.
    telling: sync::Mutex<()>,
    told: sync::Condvar,
}

#[cfg(feature = "shuttle")]
#[allow(clippy::unwrap_used, reason = "shuttle ends the run when a thread panics")]
impl Condvar {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let telling = self.telling.lock().unwrap();
        MutexGuard::unlocked(guard, || drop(self.told.wait(telling)));
    }

    pub fn notify_one(&self) {
        let _telling = self.telling.lock().unwrap();
        self.told.notify_one();
    }

    pub fn notify_all(&self) {
        let _telling = self.telling.lock().unwrap();
        self.told.notify_all();
    }
}
