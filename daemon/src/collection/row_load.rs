//! Rows of segments found at start: read when their collection is first planned, several segments at a time.

use crate::{
    collection::{Collection, entries::Keys, name_filter::NameFilter},
    error::{Kind, Result},
    memory::heap,
    segment::Segment,
    tier::ssd::{SsdTier, Why},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Segments read at a time. Rows of a full one take up to some 40 MB while they are looked through.
const READERS_MAX: usize = 4;

impl Collection {
    /// Takes in a segment found at start.
    pub fn find(&self, segment: Arc<Segment>) {
        self.state.lock().found.push(segment);
    }

    /// Has the rows of all durable segments looked through once more, after one of them was found to be damaged: another may
    /// hold what that one seemed to. (A file that was removed is back after a crash, beside the one that was written since.)
    pub fn find_again(&self, ssd: &SsdTier) {
        let mut others = ssd.all();
        others.retain(|segment| segment.collection == self.id && segment.is_durable() && segment.is_loaded());
        self.state.lock().found.extend(others);
    }

    /// Whether [`Collection::load`] has nothing left to do.
    pub fn is_loaded(&self) -> bool {
        self.state.lock().found.is_empty()
    }

    /// Reads the rows of segments found at start, once. Blocking.
    pub fn load(&self, ssd: &SsdTier) {
        if self.is_loaded() {
            return;
        }
        let _loading = self.loading.lock();
        let mut found = self.state.lock().found.clone();
        let taken = found.len();
        found.retain(|segment| !segment.is_gone());
        let rows: u64 = found.iter().map(|segment| segment.summary().rows).sum();
        self.state.lock().entries.reserve(rows as usize);
        let next = AtomicUsize::new(0);
        let read_some = || {
            let mut later = Vec::new();
            while let Some(segment) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
                if !self.load_one(segment, ssd) {
                    later.push(Arc::clone(segment));
                }
            }
            later
        };
        let readers = thread::available_parallelism().map_or(1, usize::from);
        let readers = readers.min(READERS_MAX).min(found.len());
        let later: Vec<_> = thread::scope(|scope| {
            let others: Vec<_> = (1..readers).map(|_| scope.spawn(read_some)).collect();
            let mut later = read_some();
            // One that panicked leaves its segments to be computed again.
            later.extend(others.into_iter().filter_map(|other| other.join().ok()).flatten());
            later
        });
        // What was added behind them meanwhile stays.
        let mut state = self.state.lock();
        state.found.drain(..taken);
        state.found.extend(later);
        drop(state);
        // The columns were several times what is kept of them.
        heap::trim();
    }

    /// Makes a segment's rows entries; false if that is to be tried again.
    fn load_one(&self, segment: &Arc<Segment>, ssd: &SsdTier) -> bool {
        match self.keys(segment) {
            Ok(keys) => {
                let summary = segment.summary();
                // Locks are taken in this order everywhere: collection, then segment.
                let mut state = self.state.lock();
                if state.entries.enter(segment, &keys) {
                    state.rows += summary.rows;
                    state.cpu_ns += summary.cpu_ns;
                }
            }
            Err(error) if error.kind() == Kind::Corrupt => {
                tracing::warn!(%error, file = %segment.path().display(), "dropping a segment");
                ssd.remove(segment.id, Why::Corrupt);
                self.state.lock().unread = Some(segment.id);
            }
            Err(error) => {
                // Out of descriptors, say: the file is as good as before, and tried again.
                ssd.faults().note("a segment is not read now", &error);
                return false;
            }
        }
        true
    }

    fn keys(&self, segment: &Segment) -> Result<Keys> {
        let rows = segment.load(&self.owner())?;
        let items = rows.items();
        let (tags, names) = items
            .map(|(input, name)| (self.tagger.tag(&input), NameFilter::hash(name)))
            .unzip();
        Ok(Keys { tags, names })
    }
}
