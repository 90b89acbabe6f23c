//! Sessions: one client process each, alive as long as its data socket and its process.

pub(crate) mod stopped;

use crate::{
    error::{Error, Kind, Result},
    memory::{Block, Staging},
    segment::BlockId,
    tier::{ram::RamTier, read_ahead::ReadAhead},
};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A session's number. Knowing it gives nothing: the caller's uid must be the session's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub u64);

/// Sessions at once, where there are descriptors for them ([`crate::cache::descriptors`]); a node with more jobs than this has other
/// troubles.
pub const SESSIONS_MAX: usize = 4096;

/// Who is at the other end, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// User.
    pub uid: u32,
    /// Process; 0 if it cannot be known.
    pub pid: u32,
}

/// What a job did, for its row in `status`.
#[derive(Debug, Default)]
pub struct Counts {
    /// Elements found.
    pub hits: AtomicU64,
    /// Elements waited for while another job computed them.
    pub follows: AtomicU64,
    /// Elements computed and stored.
    pub misses: AtomicU64,
    /// Elements computed and not stored.
    pub bypasses: AtomicU64,
    /// CPU time others had spent on what this job found.
    pub saved_ns: AtomicU64,
    /// CPU time spent on misses.
    pub spent_ns: AtomicU64,
}

/// A live client process.
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// Who it is.
    pub peer: Peer,
    /// What a person calls it.
    pub job: String,
    /// What it did.
    pub counts: Counts,
    /// Blocks it may have mapped: they stay in the RAM budget until it returns them. Of a block that was evicted and
    /// read again it may have both.
    lent: Mutex<HashMap<BlockId, Vec<Arc<Block>>>>,
    staging: Mutex<Option<Arc<Staging>>>,
    read_ahead: Mutex<Option<Arc<ReadAhead>>>,
    /// Collections it planned, and whether they had no entries then.
    collections: Mutex<HashMap<u64, bool>>,
    /// The last of them, and one; 0 for none.
    planned_last: AtomicU64,
    /// When its process was last looked at, and since when it was seen stopped each time.
    stopped: Mutex<(Duration, Option<Duration>)>,
}

impl Session {
    /// Records that the client has a block's descriptor. Of several copies it can hold on to the first, which was evicted
    /// while it had arrays over it, and to the last.
    pub fn lend(&self, id: BlockId, block: Arc<Block>) {
        let mut lent = self.lent.lock();
        let copies = lent.entry(id).or_default();
        if !copies.iter().any(|copy| Arc::ptr_eq(copy, &block)) {
            copies.truncate(1);
            copies.push(block);
        }
    }

    /// Takes unmapped blocks back and names those evicted that it still holds.
    pub fn take_back(
        &self,
        ids: &[BlockId],
        ram: &RamTier,
        pinned: impl Fn(BlockId) -> bool,
    ) -> Vec<BlockId> {
        let mut lent = self.lent.lock();
        for id in ids {
            lent.remove(id);
        }
        // One with two copies was evicted before the last came.
        let gone = |(id, copies): &(&BlockId, &Vec<_>)| copies.len() > 1 || !ram.holds(**id) && !pinned(**id);
        lent.iter().filter(gone).map(|(id, _)| *id).collect()
    }

    /// Its staging memory.
    ///
    /// # Errors
    /// `no-staging` if it never asked for any.
    pub fn staging(&self) -> Result<Arc<Staging>> {
        let staging = self.staging.lock().clone();
        staging.ok_or_else(|| Error::new(Kind::Invalid, "no-staging", "ask for staging memory first"))
    }

    /// Replaces its staging memory, unless it has as much; the old is freed first. To clear new memory takes a
    /// processor, which a job that asks again and again would have to itself.
    ///
    /// # Errors
    /// `ram-full`; it then has none.
    pub fn stage(&self, bytes: u64, ram: &RamTier) -> Result<Arc<Staging>> {
        let mut slot = self.staging.lock();
        if let Some(known) = slot.as_ref().filter(|known| known.bytes() == bytes) {
            return Ok(Arc::clone(known));
        }
        *slot = None;
        let staging = Arc::new(ram.stage(bytes)?);
        *slot = Some(Arc::clone(&staging));
        Ok(staging)
    }

    /// What it reads ahead; it is kept from the first time on.
    ///
    /// # Errors
    /// `ram-full`.
    pub fn read_ahead(&self, ram: &RamTier) -> Result<Arc<ReadAhead>> {
        let mut slot = self.read_ahead.lock();
        let known = slot.clone();
        let ahead = known.map_or_else(|| ram.read_ahead().map(Arc::new), Ok)?;
        *slot = Some(Arc::clone(&ahead));
        Ok(ahead)
    }

    /// For how long its process has been stopped, as far as was seen; None if it runs.
    pub fn stopped_for(&self, now: Duration) -> Option<Duration> {
        let mut stopped = self.stopped.lock();
        let (looked_at, since) = *stopped;
        // Of those who wait for it, one looks.
        if now.saturating_sub(looked_at) >= stopped::LOOK {
            let is_stopped = stopped::is_stopped(self.peer.pid);
            *stopped = (now, is_stopped.then(|| since.unwrap_or(now)));
        }
        stopped.1.map(|since| now.saturating_sub(since))
    }

    /// Nobody will read any more.
    pub fn end(&self) {
        if let Some(ahead) = self.read_ahead.lock().take() {
            ahead.end();
        }
    }

    /// Remembers a collection it planned, and whether that had no entries then.
    pub fn planned(&self, collection: u64, empty: bool) {
        self.collections.lock().entry(collection).or_insert(empty);
        self.planned_last.store(collection + 1, Ordering::Relaxed);
    }

    /// The collection that it planned or used last.
    pub fn planned_last(&self) -> Option<u64> {
        self.planned_last.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Whether a collection had no entries when this session planned it.
    pub fn planned_empty(&self, collection: u64) -> bool {
        self.collections.lock().get(&collection).copied().unwrap_or(false)
    }

    /// Collections it may hold leases in.
    pub fn collections(&self) -> Vec<u64> {
        self.collections.lock().keys().copied().collect()
    }
}

/// All live sessions.
pub struct Sessions {
    live: RwLock<HashMap<SessionId, Arc<Session>>>,
    opened: AtomicU64,
    most: usize,
}

impl Sessions {
    /// Room for so many.
    pub fn at_most(most: usize) -> Self {
        Self {
            live: RwLock::default(),
            opened: AtomicU64::default(),
            most,
        }
    }

    /// Opens a session.
    ///
    /// # Errors
    /// `too-many-sessions`.
    pub fn open(&self, peer: Peer, job: String) -> Result<Arc<Session>> {
        let mut live = self.live.write();
        if live.len() >= self.most {
            return Err(Error::new(
                Kind::Exhausted,
                "too-many-sessions",
                format!(
                    "{} jobs are connected already: wait for one to end, or give the daemon more descriptors (ulimit -n)",
                    self.most
                ),
            ));
        }
        let id = SessionId(self.opened.fetch_add(1, Ordering::Relaxed) + 1);
        let session = Arc::new(Session {
            id,
            peer,
            job,
            counts: Counts::default(),
            lent: Mutex::default(),
            staging: Mutex::default(),
            read_ahead: Mutex::default(),
            collections: Mutex::default(),
            planned_last: AtomicU64::default(),
            stopped: Mutex::default(),
        });
        live.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// The session a request names, if it is the caller's own.
    ///
    /// # Errors
    /// `session-lost`, the same whether it ended, never was, or is another user's.
    pub fn get(&self, id: u64, peer: Peer) -> Result<Arc<Session>> {
        let session = self.live.read().get(&SessionId(id)).cloned();
        session.filter(|s| s.peer.uid == peer.uid).ok_or_else(|| {
            Error::new(
                Kind::SessionLost,
                "session-lost",
                "no such session: connect again",
            )
        })
    }

    /// Ends a session; its memory returns as the last users of it let go.
    pub fn close(&self, id: SessionId) -> Option<Arc<Session>> {
        self.live.write().remove(&id)
    }

    /// A live session.
    pub fn find(&self, id: SessionId) -> Option<Arc<Session>> {
        self.live.read().get(&id).cloned()
    }

    /// Live sessions.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.live.read().values().cloned().collect()
    }

    /// Sessions opened since start.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Blocks;
    use crate::{memory::BLOCK_BYTES, segment::SegmentId};

    #[test]
    fn what_a_job_may_have_mapped_is_counted_until_it_returns_it() {
        let ram = RamTier::new(crate::config::RAM_BYTES_MIN, false).unwrap();
        let before = ram.budget().used();
        let sessions = Sessions::at_most(2);
        let session = sessions.open(Peer { uid: 1, pid: 1 }, "job".into()).unwrap();
        let id = BlockId {
            segment: SegmentId(1),
            index: 0,
        };
        // The same block again and again, as when it was evicted and read again.
        for _ in 0..3 {
            let block = ram.allocate().unwrap().seal().unwrap();
            session.lend(id, Arc::clone(&block));
            session.lend(id, block);
        }
        assert_eq!(ram.budget().used(), before + 2 * BLOCK_BYTES);
        assert_eq!(session.take_back(&[], &ram, |_| false), [id]);
        assert!(session.take_back(&[id], &ram, |_| false).is_empty());
        assert_eq!(ram.budget().used(), before);
    }

    #[test]
    fn who_asks_for_as_much_staging_memory_again_has_it_already() {
        let ram = RamTier::new(crate::config::RAM_BYTES_MIN, false).unwrap();
        let before = ram.budget().used();
        let sessions = Sessions::at_most(2);
        let session = sessions.open(Peer { uid: 1, pid: 1 }, "job".into()).unwrap();
        let first = session.stage(BLOCK_BYTES, &ram).unwrap();
        let again = session.stage(BLOCK_BYTES, &ram).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        drop((first, again));
        session.stage(2 * BLOCK_BYTES, &ram).unwrap();
        assert_eq!(ram.budget().used(), before + 2 * BLOCK_BYTES);
    }
}
