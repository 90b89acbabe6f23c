//! Files of durable segments that are open to be read, and the digests of their values. Digests are not kept with each
//! segment: those of a terabyte take half a gigabyte.

use super::{SegmentId, footer, stored::Stored};
use crate::{
    error::Result,
    vfs::{Vfs, VfsFile},
};
use parking_lot::Mutex;
use std::{collections::VecDeque, path::Path, sync::Arc};

/// Files that stay open: two descriptors each, and 32 KiB of digests. Shuffled over so many full segments, 6 GiB, none is
/// opened twice.
const OPENED_MAX: usize = 96;

/// A file, and how its values lie in it and should be.
pub(super) struct Opened {
    pub(super) file: Arc<dyn VfsFile>,
    pub(super) stored: Arc<Stored>,
}

impl Opened {
    fn open(path: &Path, vfs: &dyn Vfs) -> Result<Self> {
        let file = vfs.open(path)?;
        let stored = Arc::new(Stored::of(&footer(&*file)?)?);
        Ok(Self { stored, file })
    }
}

/// The files opened last, most recent first.
#[derive(Default)]
pub struct OpenedFiles(Mutex<VecDeque<(SegmentId, Arc<Opened>)>>);

impl OpenedFiles {
    /// A segment's file, opened if it is not. Blocking.
    pub(super) fn get(&self, segment: SegmentId, path: &Path, vfs: &dyn Vfs) -> Result<Arc<Opened>> {
        if let Some(known) = self.known(segment) {
            return Ok(known);
        }
        let opened = Arc::new(Opened::open(path, vfs)?);
        let mut all = self.0.lock();
        all.push_front((segment, Arc::clone(&opened)));
        all.truncate(OPENED_MAX);
        Ok(opened)
    }

    fn known(&self, segment: SegmentId) -> Option<Arc<Opened>> {
        let mut all = self.0.lock();
        let place = all.iter().position(|(id, _)| *id == segment)?;
        let found = all.remove(place)?;
        let opened = Arc::clone(&found.1);
        all.push_front(found);
        Some(opened)
    }

    /// Closes the file of a segment that no longer exists.
    pub fn forget(&self, segment: SegmentId) {
        self.0.lock().retain(|(id, _)| *id != segment);
    }
}
