//! Elements on their way to the daemon.

use super::{ITEMS_MAX, OpenItems, Session};
use crate::error::{Code, Error, Result};
use crate::raw::SharedMemory;
use crate::session::report::Outcome;
use parking_lot::Mutex;
use prebake_fingerprint::Digest;
use prebake_proto::v1::{CommitRequest, Element};
use prost::Message;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Staging memory asked for at first: some tens of images, committed at once.
const STAGE_BYTES: usize = 4 << 20;

/// Longest element. A segment's address space is kept with this in mind; longer ones are better cut upstream.
pub(crate) const ELEMENT_BYTES_MAX: usize = 256 << 20;

/// Longest layout. It travels with every answer that names the element, so several must fit one; values with more are all
/// structure and hardly bytes.
const LAYOUT_BYTES_MAX: usize = 1 << 20;

/// What the elements of one commit may take on the wire: below the 4 MiB that gRPC servers accept by default, by more than
/// the framing of [`ITEMS_MAX`] elements.
const COMMIT_BYTES_MAX: usize = 3 << 20;

/// A commit may have to wait for the disk, when jobs produce faster than it writes. A slow disk is no dead daemon.
const COMMIT_DEADLINE: Duration = Duration::from_secs(30);

/// Elements start at multiples of this in staging, so that they are copied from aligned memory.
const ALIGNMENT: usize = 64;

/// Memory that the daemon copies elements from, and what lies in it since the last commit.
#[derive(Default)]
pub(crate) struct Staging(Mutex<State>);

#[derive(Default)]
struct State {
    memory: Option<SharedMemory>,
    used: usize,
    pending: Vec<(Arc<dyn OpenItems>, Staged)>,
}

/// An element to hand over, and what its items have to know of it then.
pub(crate) struct Staged {
    pub(crate) item: usize,
    pub(crate) fingerprint: Digest,
    pub(crate) outcome: Outcome,
    /// All but its place in staging memory.
    pub(crate) element: Element,
}

impl Staging {
    /// Copies an element's parts side by side.
    ///
    /// # Errors
    /// `too-large`; `exhausted` if the daemon has no memory to stage in.
    pub(crate) fn put(
        &self,
        session: &Session,
        items: Arc<dyn OpenItems>,
        mut staged: Staged,
        parts: &[&[u8]],
    ) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > ELEMENT_BYTES_MAX {
            return Err(Error::new(
                Code::TooLarge,
                format!("an element of {length} bytes, at most {ELEMENT_BYTES_MAX} can be cached"),
            ));
        }
        let layout = staged.element.layout.len();
        if layout > LAYOUT_BYTES_MAX {
            return Err(Error::new(
                Code::TooLarge,
                format!("a layout of {layout} bytes, at most {LAYOUT_BYTES_MAX} can be cached"),
            ));
        }
        let mut state = self.0.lock();
        let mut start = state.used.next_multiple_of(ALIGNMENT);
        let room = state.memory.as_ref().map_or(0, SharedMemory::len);
        if start + length > room {
            state.commit(session)?;
            start = 0;
        }
        if length > room || state.memory.is_none() {
            state.memory = None;
            state.memory = Some(session.stage(length.max(STAGE_BYTES))?);
        }
        let mut at = start;
        for part in parts {
            if !state.memory.as_mut().is_some_and(|m| m.write(at, part)) {
                return Err(Error::internal("an element that does not fit its staging memory"));
            }
            at += part.len();
        }
        state.used = at;
        staged.element.staging_offset = start as u64;
        staged.element.len = length as u64;
        state.pending.push((items, staged));
        Ok(())
    }

    /// Hands over what was put since the last commit, of all collections.
    pub(crate) fn commit(&self, session: &Session) -> Result<()> {
        self.0.lock().commit(session)
    }
}

impl State {
    /// Tries all of it, even if a part fails. A part that fails gives its leases back: others may compute it then.
    fn commit(&mut self, session: &Session) -> Result<()> {
        let mut collections: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for (items, staged) in self.pending.drain(..) {
            let of_one = collections.entry(items.collection()).or_default();
            of_one.push((items, staged));
        }
        self.used = 0;
        let mut result = Ok(());
        for pending in collections.values() {
            let mut rest = &pending[..];
            while let Some((items, _)) = rest.first() {
                let (some, after) = rest.split_at(fitting(rest));
                let sent = send(session, items.collection(), some);
                if sent.is_err() {
                    let leased = some.iter().map(|(_, staged)| staged.fingerprint);
                    // If this fails as well, the daemon is gone, and the leases with it.
                    let leased: Vec<_> = leased.collect();
                    let _ = session.give_back(items.collection(), &leased);
                }
                result = result.and(sent);
                rest = after;
            }
        }
        if result.is_err() {
            // The daemon may still be about to copy from it (a commit that took too long): nothing else may come to lie there.
            self.memory = None;
        }
        result
    }
}

/// How many elements fit the first request; one does in any case, since names and layouts are short enough.
fn fitting(pending: &[(Arc<dyn OpenItems>, Staged)]) -> usize {
    let mut bytes = 0;
    let fit = pending.iter().take(ITEMS_MAX).take_while(|(_, staged)| {
        bytes += staged.element.encoded_len();
        bytes <= COMMIT_BYTES_MAX
    });
    fit.count().max(1)
}

fn send(session: &Session, collection: u64, some: &[(Arc<dyn OpenItems>, Staged)]) -> Result<()> {
    let elements = some.iter().map(|(_, staged)| staged.element.clone());
    let request = CommitRequest {
        session: session.id,
        collection,
        elements: elements.collect(),
    };
    let answer = session.call(COMMIT_DEADLINE, |mut c| async move { c.commit(request).await })?;
    if answer.committed.len() != some.len() {
        return Err(Error::protocol("not an answer to Commit"));
    }
    for ((items, staged), committed) in some.iter().zip(answer.committed) {
        if let Some(location) = committed.location {
            items.committed(staged, &location)?;
        }
    }
    Ok(())
}
