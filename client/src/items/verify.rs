//! Hits that a job computes again, to compare them with what is stored.

use crate::connection::channel::DEADLINE;
use crate::error::Result;
use crate::items::Items;
use crate::mapped::view::View;
use crate::session::stats::Stats;
use prebake_fingerprint::{Digest, FileStat};
use prebake_proto::leaf::cut;
use prebake_proto::v1::MismatchRequest;
use std::sync::Arc;

/// Bytes of what differs that are sent: a line or two for a person.
const REASON_BYTES_MAX: usize = 1024;

impl Items {
    /// What item `i` is made from, looked at now: its fingerprint, and the stats of its files; None if that cannot be told.
    /// While both are equal nothing was written to it in between, even the same bytes.
    ///
    /// # Errors
    /// `forked`.
    pub fn input(&self, i: usize) -> Result<Option<(Digest, Vec<FileStat>)>> {
        let inner = &*self.0;
        inner.session.check()?;
        let mut state = inner.state.lock();
        if i >= state.found.len() || !matches!(state.refresh(&[i], &inner.session).pop(), Some(Ok(_))) {
            return Ok(None);
        }
        let stamp = state.inputs.stamp(i);
        let stats = stamp.map(|stamp| stamp.iter().map(|(_, stat)| *stat).collect());
        Ok(state.inputs.fingerprint(i).zip(stats))
    }

    /// The element of item `i` and its layout as [`Items::get`] has it, without counting it as served.
    ///
    /// # Errors
    /// `forked`.
    pub fn stored(&self, i: usize) -> Result<Option<(View, Arc<str>)>> {
        let inner = &*self.0;
        inner.enter()?;
        let mut state = inner.state.lock();
        if !inner.current(&mut state, i, false) {
            return Ok(None);
        }
        let found = state.found[i].as_ref();
        let view = found.map(|found| (inner.session.view(&found.location), found.layout));
        let Some((Ok(Some(view)), layout)) = view else {
            return Ok(None);
        };
        Ok(Some((view, Arc::clone(&state.layouts[layout]))))
    }

    /// Counts a hit that was computed again and is the same.
    pub fn verified(&self, cpu_ns: u64) {
        if !self.0.session.is_here() {
            return;
        }
        self.0.state.lock().tally.add(&Stats {
            verified: 1,
            verify_cpu_ns: cpu_ns,
            ..Stats::default()
        });
    }

    /// Tells the daemon that the element of item `i` is not what it was when it is computed again, and in words what differs:
    /// the subgraph is then quarantined. What `plan` says of it from now on.
    ///
    /// # Errors
    /// `daemon-lost`, `forked`.
    pub fn mismatch(&self, i: usize, reason: &str, cpu_ns: u64) -> Result<String> {
        let inner = &*self.0;
        inner.session.check()?;
        let request = {
            let state = inner.state.lock();
            let fingerprint = state.inputs.fingerprint(i).unwrap_or(Digest([0; Digest::BYTES]));
            MismatchRequest {
                session: inner.session.id,
                collection: inner.collection,
                fingerprint: fingerprint.0.to_vec().into(),
                name: state.inputs.name(i).into_owned(),
                reason: cut(reason.to_owned(), REASON_BYTES_MAX),
                cpu_ns,
            }
        };
        let told = inner
            .session
            .call(DEADLINE, |mut c| async move { c.mismatch(request).await })?;
        Ok(told.bypass)
    }
}
