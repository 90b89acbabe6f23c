//! The items of a collection as one job sees them: which are known, where their elements lie.

pub(crate) mod acquire;
mod counted;
pub(crate) mod elements;
pub(crate) mod item_inputs;
mod prefault;
pub(crate) mod put;
mod read_order;
pub(crate) mod search;
mod state;
mod sweep;
pub(crate) mod verify;

pub(crate) use state::{Found, Lease, State};
pub(crate) use sweep::Sweep;

use crate::error::{Code, Error, Result};
use crate::inputs::Inputs;
use crate::location::{Location, Span};
use crate::mapped::blocks::Access;
use crate::mapped::view::View;
use crate::session::report::Tally;
use crate::session::{OpenItems, Session, Staged};
use crate::sparse::Sparse;
use parking_lot::Mutex;
use prebake_proto::v1;
use read_order::ReadOrder;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Items that a job reads, each the input of one element. See [`Items::get`] for the warm path, [`Items::acquire`] for
/// the rest. Handles may be shared between threads.
pub struct Items(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) session: Arc<Session>,
    pub(crate) collection: u64,
    /// Not empty: nothing of the collection is cached, and why.
    pub(crate) bypass: String,
    pub(crate) count: usize,
    /// Never held while a call waits for other jobs. Taken after the staging lock where both are.
    pub(crate) state: Mutex<State>,
}

/// Several elements of one layout, side by side.
pub struct Batch {
    /// Their bytes.
    pub bytes: View,
    /// Layout of each.
    pub layout: Arc<str>,
    /// Its number (see [`Items::layout`]).
    pub number: usize,
    /// How many.
    pub count: usize,
}

impl Items {
    pub(crate) fn new(
        session: Arc<Session>,
        collection: u64,
        bypass: String,
        inputs: Inputs,
        warm: bool,
    ) -> Items {
        let found = Sparse::new(inputs.len());
        let inner = Arc::new(Inner {
            session,
            collection,
            bypass,
            count: inputs.len(),
            state: Mutex::new(State {
                inputs,
                found,
                layouts: Vec::new(),
                leases: HashMap::new(),
                held: HashSet::new(),
                warm,
                window: 0,
                sweeping: false,
                prefaulting: false,
                prefault_again: false,
                rests_until: Duration::ZERO,
                swept: false,
                first_sweep: None,
                tally: Tally::default(),
                access: Access::Private,
                read_order: ReadOrder::default(),
            }),
        });
        let adopted: Weak<Inner> = Arc::downgrade(&inner);
        inner.session.adopt(adopted);
        Items(inner)
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element of item `i` and its layout, if this process can reach it without a call: its location is known, its
    /// input unchanged, its blocks mapped. With `validated` an input is unchanged if it was looked at since the epoch began
    /// (see [`Items::validate`]); else it is looked at now.
    ///
    /// # Errors
    /// `forked`. A lost daemon is no error here: what is mapped stays readable.
    pub fn get(&self, i: usize, validated: bool) -> Result<Option<(View, Arc<str>)>> {
        let inner = &*self.0;
        inner.enter()?;
        let mut state = inner.state.lock();
        if !inner.current(&mut state, i, validated) {
            return Ok(None);
        }
        state.access = Access::Private;
        let Some(found) = &state.found[i] else {
            return Ok(None);
        };
        let view = inner.session.view(&found.location);
        let Some(view) = view.ok().flatten() else {
            state.found[i] = None;
            return Ok(None);
        };
        let layout = Arc::clone(&state.layouts[found.layout]);
        inner.served(state, &[i]);
        Ok(Some((view, layout)))
    }

    /// The elements of `indices` in order, as one buffer: a slice of cache memory if they lie side by side, else copied
    /// together. Where it need not be `writable`, a slice costs no look at what the holder of an earlier one wrote. None if
    /// one is unreachable: acquire and try again.
    ///
    /// # Errors
    /// `ragged` if layouts differ, `forked`.
    pub fn batch(&self, indices: &[usize], validated: bool, writable: bool) -> Result<Option<Batch>> {
        let inner = &*self.0;
        inner.enter()?;
        let mut state = inner.state.lock();
        let Some((runs, number)) = inner.runs(&mut state, indices, validated)? else {
            return Ok(None);
        };
        let layout = Arc::clone(&state.layouts[number]);
        state.access = match (writable, runs.len()) {
            (true, 1) => Access::Private,
            // Of a batch that lies in two segments it says nothing of the next.
            (true, some) if 2 * some <= indices.len() => state.access,
            _ => Access::Reading,
        };
        let bytes = match (runs.as_slice(), writable) {
            ([run], true) => inner.session.view(run).ok().flatten(),
            ([run], false) => inner.session.reading(run).ok().flatten(),
            (runs, _) => inner.session.gather(runs).ok().flatten(),
        };
        let Some(bytes) = bytes else {
            for &i in indices {
                state.found[i] = None;
            }
            return Ok(None);
        };
        inner.served(state, indices);
        Ok(Some(Batch {
            bytes,
            layout,
            number,
            count: indices.len(),
        }))
    }

    /// Says in which order items will be read from now on, as far as that is known: what of it is not in memory is then read
    /// ahead, in that order. Numbers of no items count for nothing. With `reading` all that is reached will be copied, or only
    /// read: blocks are mapped for that from the first on.
    pub fn expect(&self, mut order: Vec<usize>, reading: bool) {
        if self.0.session.is_here() {
            order.retain(|i| *i < self.0.count);
            let mut state = self.0.state.lock();
            // Once something was read, that tells better.
            if reading && state.window == 0 {
                state.access = Access::Reading;
            }
            if state.read_order.set(order) {
                self.0.session.expect_anew();
            }
            self.0.tell_ahead(&mut state);
            drop(state);
            prefault::begin(&self.0);
        }
    }

    /// Where the elements of `indices` lie, for another process of this user to read (see [`crate::Job::gather`]), and the
    /// layout of each. They count as served. None if it is not known of one (acquire and try again), or if one is not in memory:
    /// it is better read by whoever finds it.
    ///
    /// # Errors
    /// `ragged` if layouts differ, `forked`.
    pub fn spans(&self, indices: &[usize], validated: bool) -> Result<Option<(Vec<Span>, Arc<str>)>> {
        let inner = &*self.0;
        inner.enter()?;
        let mut state = inner.state.lock();
        let Some((runs, number)) = inner.runs(&mut state, indices, validated)? else {
            return Ok(None);
        };
        let layout = Arc::clone(&state.layouts[number]);
        if runs.iter().any(|run| inner.session.is_on_ssd(run)) {
            return Ok(None);
        }
        inner.served(state, indices);
        Ok(Some((runs.iter().map(Span::from).collect(), layout)))
    }

    /// Those of the items of which it is not known where their elements lie.
    #[must_use]
    pub fn missing(&self, indices: &[usize]) -> Vec<usize> {
        if !self.0.session.is_here() {
            return indices.to_vec();
        }
        let state = self.0.state.lock();
        let unknown = |i: &usize| state.found.get(*i).is_none_or(Option::is_none);
        indices.iter().copied().filter(unknown).collect()
    }

    /// Those of the items that other jobs were computing when they were asked for last.
    #[must_use]
    pub fn held(&self, indices: &[usize]) -> Vec<usize> {
        if !self.0.session.is_here() {
            return Vec::new();
        }
        let state = self.0.state.lock();
        indices
            .iter()
            .copied()
            .filter(|i| state.held.contains(i))
            .collect()
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        if self.0.session.is_here() {
            let _ = self.commit();
            let leases = std::mem::take(&mut self.0.state.lock().leases);
            let fingerprints = leases.into_values().flatten().map(|lease| lease.fingerprint);
            let _ = self.0.give_back(&fingerprints.collect::<Vec<_>>());
            self.report();
        }
    }
}

impl Inner {
    /// Every read begins here. A daemon that is gone evicts nothing.
    pub(crate) fn enter(&self) -> Result<()> {
        self.session.check()?;
        let _ = self.session.listen();
        Ok(())
    }

    /// Whether item `i` has a location that its input still stands for.
    pub(crate) fn current(&self, state: &mut State, i: usize, validated: bool) -> bool {
        if state.found.get(i).is_none_or(Option::is_none) {
            return false;
        }
        validated && state.inputs.is_looked_at(i)
            || state.inputs.holds(i)
            || matches!(state.refresh(&[i], &self.session).pop(), Some(Ok(false)))
    }

    /// The same for several.
    pub(crate) fn all_current(&self, state: &mut State, items: &[usize], validated: bool) -> bool {
        if items
            .iter()
            .any(|i| state.found.get(*i).is_none_or(Option::is_none))
        {
            return false;
        }
        let due = items.iter().copied();
        let due: Vec<usize> = due
            .filter(|i| !(validated && state.inputs.is_looked_at(*i)))
            .collect();
        let answers = state.refresh_unsettled(&due, &self.session);
        answers.iter().all(|answer| matches!(answer, Ok(false)))
    }

    /// Where these elements lie, those side by side as one, and their one layout; None if one has no place that its input
    /// still stands for.
    fn runs(
        &self,
        state: &mut State,
        indices: &[usize],
        validated: bool,
    ) -> Result<Option<(Vec<Location>, usize)>> {
        if !self.all_current(state, indices, validated) {
            return Ok(None);
        }
        let mut runs: Vec<Location> = Vec::new();
        let mut layout = None;
        for &i in indices {
            let Some(found) = &state.found[i] else {
                return Ok(None);
            };
            if *layout.get_or_insert(found.layout) != found.layout {
                return Err(Error::new(
                    Code::Ragged,
                    "elements of one batch differ in layout: read them one by one",
                ));
            }
            match runs.last_mut() {
                Some(last) if last.touches(&found.location) => {
                    last.bytes.end = found.location.bytes.end;
                }
                _ => runs.push(found.location.clone()),
            }
        }
        Ok(layout.map(|layout| (runs, layout)))
    }
}

impl OpenItems for Inner {
    fn collection(&self) -> u64 {
        self.collection
    }

    fn tell_all(&self) {
        self.tell(self.state.lock(), false);
    }

    fn committed(&self, staged: &Staged, location: &v1::Location) -> Result<()> {
        let location = Location::try_from(location)?;
        let mut state = self.state.lock();
        if state.inputs.fingerprint(staged.item) == Some(staged.fingerprint) {
            let layout = state.layout(&staged.element.layout);
            state.found[staged.item] = Some(Found {
                location,
                layout,
                outcome: staged.outcome,
                touched: false,
            });
        }
        Ok(())
    }
}
