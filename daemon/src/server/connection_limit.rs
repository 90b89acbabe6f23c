//! Connections of one socket: as many at a time as there are descriptors for. One beyond the limit is closed at once: its client
//! then computes by itself instead of waiting.

use crate::system::clock::Clock;
use parking_lot::Mutex;
use std::{fmt::Display, io, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Waits this long before accepting again when descriptors have run out: what failed to be accepted stays in the queue, so
/// that the next try fails the same way.
const PAUSE: Duration = Duration::from_millis(50);

/// It is said that somebody was turned away, or could not be let in, at most this often.
const SILENCE: Duration = Duration::from_secs(60);

/// The limit of one socket.
pub struct ConnectionLimit {
    name: &'static str,
    connections_max: usize,
    free: Arc<Semaphore>,
    clock: Arc<dyn Clock>,
    complained: Mutex<Option<Duration>>,
}

/// Being inside; ends when dropped.
pub type Admitted = OwnedSemaphorePermit;

impl ConnectionLimit {
    /// Lets so many in. `name` is for the log.
    pub fn new(name: &'static str, connections_max: usize, clock: Arc<dyn Clock>) -> Self {
        Self {
            name,
            connections_max,
            free: Arc::new(Semaphore::new(connections_max)),
            clock,
            complained: Mutex::default(),
        }
    }

    /// What came of accepting a connection, if it may stay.
    pub async fn admit<T>(&self, accepted: io::Result<T>) -> Option<(T, Admitted)> {
        match accepted {
            Ok(connection) => match Arc::clone(&self.free).try_acquire_owned() {
                Ok(admitted) => Some((connection, admitted)),
                Err(_) => {
                    let most = self.connections_max;
                    self.complain(format_args!(
                        "a connection beyond {most} was closed: raise RLIMIT_NOFILE (ulimit -n, LimitNOFILE=) for more"
                    ));
                    None
                }
            },
            Err(error) => {
                self.complain(format_args!("accepting a connection: {error}"));
                tokio::time::sleep(PAUSE).await;
                None
            }
        }
    }

    fn complain(&self, what: impl Display) {
        let now = self.clock.monotonic();
        let mut complained = self.complained.lock();
        if complained.is_none_or(|before| now.saturating_sub(before) >= SILENCE) {
            *complained = Some(now);
            tracing::warn!(socket = self.name, "{what}");
        }
    }
}
