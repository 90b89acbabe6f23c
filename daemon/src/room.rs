//! Memory when it is short: every collection that is appended to holds a block that is not full, until it pauses. With many
//! small collections and little memory these are all there is, and a job would go without.

use crate::{cache::Cache, error::Result};

impl Cache {
    /// What `make` makes. As long as nothing but memory is missing for it, open segments are closed to get some, the one
    /// that was appended to longest ago first; those that are in use by another thread stay. Blocking.
    ///
    /// # Errors
    /// As `make`; `ram-full` when no segment is left to close.
    pub fn with_room<T>(&self, mut make: impl FnMut() -> Result<T>) -> Result<T> {
        let mut made = make();
        // Each is closed once: others may be opened meanwhile, and this must end.
        for _ in 0..self.catalog.all().len() {
            match &made {
                Err(full) if full.code() == "ram-full" && self.close_quietest() => made = make(),
                _ => break,
            }
        }
        made
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
