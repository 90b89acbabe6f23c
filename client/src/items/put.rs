//! Handing over what this job computed.

use crate::error::{Code, Error, Result};
use crate::items::{Inner, Items};
use crate::session::Staged;
use crate::session::report::Outcome;
use crate::session::stats::Stats;
use prebake_fingerprint::Digest;
use prebake_proto::v1::Element;
use std::sync::Arc;

/// An element that was stored, and one that was not.
const NONE: Stats = Stats::of([0; Stats::COUNTS]);
const COMPUTED: Stats = Stats { computed: 1, ..NONE };
const BYPASSED: Stats = Stats { bypassed: 1, ..NONE };

/// How an element was made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Made {
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Time spent waiting for input, in nanoseconds.
    pub io_ns: u64,
    /// Its maker will read it from the cache, which is then no reuse.
    pub read_back: bool,
}

impl Items {
    /// Hands over the element of item `i`, under the lease that [`Items::acquire`] gave this thread: its parts are copied side by side
    /// into staging memory, so the caller may change its buffers afterwards. False if it is not stored: there is no
    /// lease, its input was written since it was fingerprinted, or it or its layout is too large. The lease is over in any case.
    ///
    /// # Errors
    /// `daemon-lost`, `forked`; `no-resources` if the system gives no memory or descriptors to hand it over in.
    pub fn put(&self, i: usize, layout: &str, parts: &[&[u8]], made: Made) -> Result<bool> {
        let inner = &self.0;
        inner.session.check()?;
        let mut state = inner.state.lock();
        let Some(lease) = state.take_lease(i) else {
            return Ok(false);
        };
        // The value may be of the file as it is now, or was in between: it must not be stored as of the file that was. The
        // same bytes written anew prove nothing, since the value may be of a file half written.
        let holds = state.refresh(&[i], &inner.session).iter().all(Result::is_ok)
            && state.inputs.fingerprint(i) == Some(lease.fingerprint)
            && state.inputs.stamp(i) == Some(lease.stamp);
        let name = state.inputs.name(i).into_owned();
        drop(state);
        if !holds {
            inner.give_back(&[lease.fingerprint])?;
            inner.state.lock().tally.add(&BYPASSED);
            return Ok(false);
        }
        let element = Element {
            fingerprint: lease.fingerprint.0.to_vec().into(),
            token: lease.token,
            name,
            layout: layout.to_owned(),
            cpu_ns: made.cpu_ns,
            io_ns: made.io_ns,
            ..Default::default()
        };
        // Whoever waited for it has it; an item computed ahead is read back later, and was counted here.
        let outcome = match lease.wanted && !made.read_back {
            true => Outcome::Hit,
            false => Outcome::Own,
        };
        let staged = Staged {
            item: i,
            fingerprint: lease.fingerprint,
            outcome,
            element,
        };
        let stored = inner
            .session
            .staging
            .put(&inner.session, Arc::clone(inner) as _, staged, parts);
        if stored.is_err() {
            inner.give_back(&[lease.fingerprint])?;
        }
        let counted = if stored.is_ok() { COMPUTED } else { BYPASSED };
        inner.state.lock().tally.add(&counted);
        if stored.is_ok() {
            return Ok(true);
        }
        // Of these there will be room again, or it is this element's own.
        let passes = |e: &Error| matches!(e.code(), Code::TooLarge | Code::Exhausted);
        stored.or_else(|e| if passes(&e) { Ok(()) } else { Err(e) })?;
        Ok(false)
    }

    /// Makes everything put so far available to other jobs.
    ///
    /// # Errors
    /// `daemon-lost`, `forked`.
    pub fn commit(&self) -> Result<()> {
        self.0.session.check()?;
        self.0.session.staging.commit(&self.0.session)?;
        self.0.tell(self.0.state.lock(), true);
        Ok(())
    }

    /// Gives leases back uncomputed; items without one are ignored.
    ///
    /// # Errors
    /// `daemon-lost`, `forked`.
    pub fn release(&self, items: &[usize]) -> Result<()> {
        self.0.session.check()?;
        let fingerprints = {
            let mut state = self.0.state.lock();
            let ended = items.iter().filter_map(|i| state.take_lease(*i));
            ended.map(|lease| lease.fingerprint).collect::<Vec<_>>()
        };
        self.0.give_back(&fingerprints)
    }
}

impl Inner {
    pub(crate) fn give_back(&self, fingerprints: &[Digest]) -> Result<()> {
        self.session.give_back(self.collection, fingerprints)
    }
}
