//! Files of durable segments that are open to be read, and the digests of their values. Digests are not kept with each
//! segment: those of a terabyte take half a gigabyte.

use super::{Segment, SegmentId, footer, stored::Stored};
use crate::{error::Result, vfs::VfsFile};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A file, and how its values lie in it and should be.
pub(super) struct Opened {
    pub(super) file: Arc<dyn VfsFile>,
    pub(super) stored: Arc<Stored>,
}

impl Opened {
    fn open(segment: &Segment) -> Result<Self> {
        let file = segment.vfs.open(&segment.path)?;
        let stored = Arc::new(Stored::of(&footer(&*file, segment.name)?)?);
        Ok(Self { stored, file })
    }
}

/// The files opened last, most recent first.
pub struct OpenedFiles {
    files: Mutex<VecDeque<(SegmentId, Arc<Opened>)>>,
    most: AtomicUsize,
}

impl Default for OpenedFiles {
    fn default() -> Self {
        Self {
            files: Mutex::default(),
            most: AtomicUsize::new(Self::MAX),
        }
    }
}

impl OpenedFiles {
    /// Files that stay open: two descriptors each, and 32 KiB of digests. Shuffled over so many full segments, 6 GiB, none is
    /// opened twice.
    pub const MAX: usize = 96;

    /// Keeps so many from now on, where there are few descriptors.
    pub fn keep(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// A segment's file, opened if it is not. Blocking.
    pub(super) fn get(&self, segment: &Segment) -> Result<Arc<Opened>> {
        if let Some(known) = self.known(segment.id) {
            return Ok(known);
        }
        let opened = Arc::new(Opened::open(segment)?);
        let mut all = self.files.lock();
        all.push_front((segment.id, Arc::clone(&opened)));
        all.truncate(self.most.load(Ordering::Relaxed));
        // Whoever removed it meanwhile closed nothing, and its space is free only once it is closed.
        all.retain(|(id, _)| *id != segment.id || !segment.is_gone());
        Ok(opened)
    }

    fn known(&self, segment: SegmentId) -> Option<Arc<Opened>> {
        let mut all = self.files.lock();
        let place = all.iter().position(|(id, _)| *id == segment)?;
        let found = all.remove(place)?;
        let opened = Arc::clone(&found.1);
        all.push_front(found);
        Some(opened)
    }

    /// Closes the file of a segment that no longer exists.
    pub fn forget(&self, segment: SegmentId) {
        self.files.lock().retain(|(id, _)| *id != segment);
    }
}
