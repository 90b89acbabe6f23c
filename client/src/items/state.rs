//! What is known of a job's items: where their elements lie, which are leased, and what was counted.

use super::read_order::ReadOrder;
use super::sweep::Sweep;
use crate::error::Result;
use crate::inputs::{Inputs, Stamp};
use crate::location::Location;
use crate::mapped::blocks::Access;
use crate::session::Session;
use crate::session::report::{Outcome, Tally};
use crate::sparse::Sparse;
use prebake_fingerprint::Digest;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

pub(crate) struct State {
    pub(crate) inputs: Inputs,
    pub(crate) found: Sparse<Found>,
    pub(crate) layouts: Vec<Arc<str>>,
    /// At most one for each thread that computes an item.
    pub(crate) leases: HashMap<usize, Vec<Lease>>,
    /// Items that another job was computing when last asked for.
    pub(crate) held: HashSet<usize>,
    /// All that was asked for lately was there: later items are located along with the wanted ones.
    pub(crate) warm: bool,
    /// Items ahead that the last call looked at; 0 before the first.
    pub(crate) window: usize,
    /// A sweep is at it.
    pub(crate) sweeping: bool,
    /// A thread enters what is expected into the page tables.
    pub(crate) prefaulting: bool,
    /// More became known meanwhile.
    pub(crate) prefault_again: bool,
    /// Until when none has a thread.
    pub(crate) rests_until: Duration,
    /// Whether the first sweep was made, which asks for all.
    pub(crate) swept: bool,
    /// That sweep, until something was served: the first batch does not wait for looks at other items.
    pub(crate) first_sweep: Option<Sweep>,
    pub(crate) tally: Tally,
    /// What the last read wanted elements mapped for, and so probably the next.
    pub(crate) access: Access,
    pub(crate) read_order: ReadOrder,
}

/// Where an item's element lies.
pub(crate) struct Found {
    pub(crate) location: Location,
    pub(crate) layout: usize,
    /// How the next read of it counts.
    pub(crate) outcome: Outcome,
    /// Its pages were read here, or will be beside the job.
    pub(crate) touched: bool,
}

/// The right to compute an item.
pub(crate) struct Lease {
    /// Whose value may be put under it: another thread may have asked for the item after its input changed, and what is
    /// computed here then is of the input as it was.
    pub(crate) thread: ThreadId,
    pub(crate) token: u64,
    pub(crate) fingerprint: Digest,
    /// The input as it was before the element was computed.
    pub(crate) stamp: Stamp,
    /// The caller waits for it, and so has the value without reading it back.
    pub(crate) wanted: bool,
}

impl State {
    /// As [`State::refresh`], but for inputs that this job need not look at again.
    pub(crate) fn refresh_unsettled(&mut self, items: &[usize], session: &Session) -> Vec<Result<bool>> {
        let due: Vec<usize> = items
            .iter()
            .copied()
            .filter(|i| !self.inputs.is_settled(*i))
            .collect();
        let mut answers = due.iter().copied().zip(self.refresh(&due, session)).peekable();
        let answer = |i: &usize| {
            answers
                .next_if(|(due, _)| due == i)
                .map_or(Ok(false), |(_, answer)| answer)
        };
        items.iter().map(answer).collect()
    }

    /// Looks at inputs, and takes their fingerprints anew where needed; forgets the elements of those that changed or cannot
    /// be read.
    pub(crate) fn refresh(&mut self, items: &[usize], session: &Session) -> Vec<Result<bool>> {
        let begun = session.clock.elapsed();
        let answers = self.inputs.refresh(items, session, &*session.clock);
        self.inputs.looked(session.clock.elapsed().saturating_sub(begun));
        for (i, answer) in items.iter().zip(&answers) {
            if !matches!(answer, Ok(false)) {
                self.found[*i] = None;
                self.held.remove(i);
            }
        }
        answers
    }

    /// Keeps a lease for this thread; the one it had on the item before, if that was on another input.
    pub(crate) fn keep(&mut self, i: usize, lease: Lease) -> Option<Digest> {
        let before = self
            .take_lease(i)
            .filter(|old| old.fingerprint != lease.fingerprint);
        self.leases.entry(i).or_default().push(lease);
        before.map(|old| old.fingerprint)
    }

    /// Ends this thread's lease on an item.
    pub(crate) fn take_lease(&mut self, i: usize) -> Option<Lease> {
        let held = self.leases.get_mut(&i)?;
        let place = held
            .iter()
            .position(|lease| lease.thread == thread::current().id())?;
        let lease = held.swap_remove(place);
        if held.is_empty() {
            self.leases.remove(&i);
        }
        Some(lease)
    }

    /// The place of a layout among those seen.
    pub(crate) fn layout(&mut self, text: &str) -> usize {
        let place = self.layouts.iter().position(|known| **known == *text);
        place.unwrap_or_else(|| {
            self.layouts.push(text.into());
            self.layouts.len() - 1
        })
    }
}
