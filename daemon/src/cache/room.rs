//! Memory when it is short: every collection that is appended to holds a block that is not full, until it pauses. With many
//! small collections and little memory these are all there is, and a job would go without.

use crate::{cache::Cache, error::Result};
use std::{thread, time::Duration};

/// How often, and how many times, who finds no memory looks whether a segment that is being closed has given its own back:
/// for a second, in which a slow disk takes what such a segment may still hold.
const CLOSING_PAUSE: Duration = Duration::from_millis(5);
const CLOSING_LOOKS: usize = 200;

impl Cache {
    /// What `make` makes. As long as nothing but memory is missing for it, open segments are closed to get some, the one
    /// that was appended to longest ago first; those that are in use by another thread stay. What is being closed is waited
    /// for. Blocking.
    ///
    /// # Errors
    /// As `make`; `ram-full` when no segment is left to close.
    pub fn with_room<T>(&self, mut make: impl FnMut() -> Result<T>) -> Result<T> {
        let mut made = make();
        // Each is closed once: others may be opened meanwhile, and this must end.
        let closed = (0..self.catalog.all().len()).map_while(|_| self.close_quietest().then_some(()));
        let waited =
            (0..CLOSING_LOOKS).map_while(|_| self.is_closing().then(|| thread::sleep(CLOSING_PAUSE)));
        let mut freed = closed.chain(waited);
        while matches!(&made, Err(full) if full.code() == "ram-full") && freed.next().is_some() {
            made = make();
        }
        made
    }

    /// Whether a full segment is on its way to the disk, with blocks that nobody else can have yet.
    fn is_closing(&self) -> bool {
        let all = self.catalog.all();
        // One that is in use is appended to by somebody: by who asks, perhaps.
        let open = all
            .iter()
            .filter(|c| c.open.try_lock().is_none_or(|open| open.is_some()));
        let unwritten = self.ssd.all().into_iter().filter(|s| !s.is_durable());
        unwritten.count() > open.count()
    }

    /// Closes the open segment that was appended to longest ago; false if there is none to be had without waiting.
    fn close_quietest(&self) -> bool {
        let all = self.catalog.all();
        let open = all.iter().filter_map(|collection| {
            let touched = collection.open.try_lock()?.as_ref()?.touched;
            Some((touched, collection))
        });
        let Some((_, collection)) = open.min_by_key(|(touched, _)| *touched) else {
            return false;
        };
        let taken = collection.open.try_lock().and_then(|mut open| open.take());
        if let Some(segment) = taken {
            self.close_segment(collection, segment);
        }
        true
    }
}
