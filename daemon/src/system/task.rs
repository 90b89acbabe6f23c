//! The one place that starts work, so that tests and limits have one seam to hold.

use std::future::Future;
use tokio::task::{JoinError, JoinHandle};

/// Starts a future on the runtime.
#[expect(clippy::disallowed_methods, reason = "this is the seam")]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future)
}

/// Runs blocking work (disk, large copies) away from the async threads.
///
/// # Errors
/// If the work panicked or the runtime is going down.
#[expect(clippy::disallowed_methods, reason = "this is the seam")]
pub async fn blocking<T, F>(work: F) -> Result<T, JoinError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    tokio::task::spawn_blocking(work).await
}

/// The same, for work that tells of its end by itself.
#[expect(clippy::disallowed_methods, reason = "this is the seam")]
pub fn detached(work: impl FnOnce() + Send + 'static) {
    drop(tokio::task::spawn_blocking(work));
}
