//! Subgraphs that did not reproduce: nothing of them, or of what is downstream of them, is served or stored until their
//! user clears them.
//!
//! Unlike the index, which is disposable, the list must outlive any crash: it has files of its own, replaced whole and
//! synced before a mismatch is acknowledged. The entries themselves are dropped, so that even without the file no bytes
//! that were found wrong come back.

mod file;

use crate::{
    codes,
    domain::Domain,
    error::{Error, Kind, Result},
    vfs::Vfs,
};
use parking_lot::{Mutex, MutexGuard};
use prebake_fingerprint::{Digest, Graph};
use prebake_proto::leaf::cut;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, sync::Arc};

/// Subgraphs at once, of all users: each was found by running a user's code twice, and each costs some 2 KiB in a file
/// that is written whole.
pub const QUARANTINED_MAX: usize = 4096;

/// Digits of a digest that name one: fewer are likely to mean another.
const PREFIX_MIN: usize = 4;

/// Digits that a person is told of one: as good as unique, and short enough to copy.
const SHOWN_DIGITS: usize = 16;

/// Bytes of an item's name and of a reason: a line or two for a person.
const ITEM_BYTES_MAX: usize = 256;
const REASON_BYTES_MAX: usize = 1024;

/// A subgraph that did not reproduce, and how that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// Whose it is.
    pub domain: String,
    /// Subgraph digest, in hexadecimal.
    pub digest: String,
    /// Its operators, source first.
    pub pipeline: String,
    /// The operator that is not what it was: the last of the subgraph.
    pub operator: String,
    /// Where the user wrote it.
    pub location: String,
    /// The item that was computed again.
    pub item: String,
    /// What differs, in words.
    pub reason: String,
    /// The job's name.
    pub job: String,
    /// Its process.
    pub pid: u32,
    /// When, in nanoseconds since 1970.
    pub at_ns: i64,
}

impl Quarantined {
    /// Of a subgraph that a job found not to reproduce.
    pub fn new(domain: &Domain, graph: &Graph, item: String, reason: String) -> Self {
        let output = graph.operators().iter().find(|o| o.id == graph.output());
        Self {
            domain: domain.0.clone(),
            digest: graph.digest().to_string(),
            pipeline: graph.pipeline(),
            operator: output.map_or_else(String::new, |o| o.name.clone()),
            location: output.map_or_else(String::new, |o| o.location.clone()),
            item: cut(item, ITEM_BYTES_MAX),
            reason: cut(reason, REASON_BYTES_MAX),
            job: String::new(),
            pid: 0,
            at_ns: 0,
        }
    }

    /// What a job is told in place of a collection: what happened, and what to do.
    pub fn told(&self) -> String {
        let at = match self.location.is_empty() {
            true => String::new(),
            false => format!(" at {}", self.location),
        };
        format!(
            "{} quarantined: {}{at} did not reproduce for {} ({}); if it is random mark it prebake.random, if its last \
             bits vary prebake.pure(tolerance=...), else fix it; then run: prebake verify --clear {}",
            codes::QUARANTINED,
            self.operator,
            self.item,
            self.reason,
            self.digest.get(..SHOWN_DIGITS).unwrap_or(&self.digest),
        )
    }
}

/// The list.
pub struct Quarantine {
    folder: PathBuf,
    vfs: Arc<dyn Vfs>,
    state: Mutex<Vec<Quarantined>>,
    judging: Mutex<()>,
}

impl Quarantine {
    /// The list that earlier runs left in a folder.
    ///
    /// # Errors
    /// `io` if it cannot be read, `corrupt` if it is none: the daemon must not start as if nothing were on it.
    pub fn open(folder: PathBuf, vfs: Arc<dyn Vfs>) -> Result<Self> {
        let known = file::read(&folder, &*vfs)?;
        Ok(Self {
            folder,
            vfs,
            state: Mutex::new(known),
            judging: Mutex::default(),
        })
    }

    /// Puts a subgraph on the list, durably. It is on it until the restart even after an error.
    ///
    /// # Errors
    /// `too-many-quarantined`; as the file system says.
    pub fn add(&self, found: Quarantined) -> Result<()> {
        let mut state = self.state.lock();
        let is_known = |q: &Quarantined| q.domain == found.domain && q.digest == found.digest;
        if state.iter().any(is_known) {
            return Ok(());
        }
        if state.len() >= QUARANTINED_MAX {
            return Err(Error::new(
                Kind::Exhausted,
                "too-many-quarantined",
                format!(
                    "{QUARANTINED_MAX} subgraphs are quarantined already: clear some with prebake verify --clear"
                ),
            ));
        }
        state.push(found);
        self.write(&state)
    }

    /// The subgraph that keeps a graph from being cached: itself, or one upstream of it.
    pub fn blame(&self, domain: &Domain, graph: &Graph) -> Option<Quarantined> {
        let state = self.state.lock();
        if state.is_empty() {
            return None;
        }
        let upstream = graph.operators().iter().filter_map(|o| graph.digest_of(&o.id));
        let digests: Vec<String> = upstream.map(|digest| digest.to_string()).collect();
        let is_upstream = |q: &&Quarantined| q.domain == domain.0 && digests.contains(&q.digest);
        state.iter().find(is_upstream).cloned()
    }

    /// To be held from looking at the list until a collection is told: else one that is cleared and one that is added at the
    /// same time could leave a collection as neither has it. Taken before a collection's state.
    pub fn judging(&self) -> MutexGuard<'_, ()> {
        self.judging.lock()
    }

    /// Those of a trust domain, newest first.
    pub fn of(&self, domain: &Domain) -> Vec<Quarantined> {
        let state = self.state.lock();
        let own = state.iter().rev().filter(|q| q.domain == domain.0);
        own.cloned().collect()
    }

    /// How many there are, of all users.
    pub fn len(&self) -> usize {
        self.state.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes those off the list whose digests begin so; which they were.
    ///
    /// # Errors
    /// `bad-digest` if these are no first digits of one; as the file system says, and then nothing is cleared.
    pub fn clear(&self, domain: &Domain, prefix: &str) -> Result<Vec<Quarantined>> {
        let is_prefix = (PREFIX_MIN..=2 * size_of::<Digest>()).contains(&prefix.len())
            && prefix.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_prefix {
            return Err(Error::new(
                Kind::Invalid,
                "bad-digest",
                format!(
                    "{prefix:?} is no digest: write {PREFIX_MIN} or more of its first digits, as prebake status shows them"
                ),
            ));
        }
        let prefix = prefix.to_ascii_lowercase();
        let mut state = self.state.lock();
        let (cleared, kept): (Vec<_>, Vec<_>) = state
            .iter()
            .cloned()
            .partition(|q| q.domain == domain.0 && q.digest.starts_with(&prefix));
        if !cleared.is_empty() {
            self.write(&kept)?;
            *state = kept;
        }
        Ok(cleared)
    }

    fn write(&self, list: &[Quarantined]) -> Result<()> {
        file::write(&self.folder, &*self.vfs, list)
    }
}

#[cfg(test)]
mod tests;
