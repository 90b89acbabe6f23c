//! One call's search for elements: what it asks, and what it learns from the answers.

use crate::error::{Error, Result};
use crate::items::{Found, Inner, Lease, State};
use crate::location::Location;
use crate::session::ITEMS_MAX;
use crate::session::report::Outcome;
use prebake_fingerprint::Digest;
use prebake_proto::v1::{self, AcquireRequest, AcquireResponse, answer};
use std::collections::{BTreeMap, HashMap};
use std::thread;

/// Items ahead that are looked at in any case. Where they are there already, as in a warm run, one call locates them all.
const WINDOW_MIN: usize = 32;

/// Most items located in one request while all is there. The first requests are for fewer, each for twice as many as the one
/// before, so that the first batch is not kept waiting.
pub(super) const WARM_WINDOW: usize = 1024;

/// Of an item besides its name: fingerprint, tags and lengths.
const ITEM_BYTES: usize = 48;

/// What a caller has to do to get on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Acquired {
    /// Items leased to it now: to be computed and put, or released, by this thread. Wanted ones first.
    pub compute: Vec<usize>,
    /// Wanted items to compute without storing, and why, by a stable code and in words.
    pub bypass: BTreeMap<usize, String>,
}

/// The state of one call of [`crate::Items::acquire`].
pub(super) struct Search<'a> {
    pub(super) wanted: Vec<usize>,
    /// What the job will want later; empty until it is asked for.
    pub(super) ahead: Vec<usize>,
    pub(super) later: Option<&'a mut dyn FnMut() -> Result<Vec<usize>>>,
    /// How many unknown items of `ahead` are looked at; grows while there is nothing to do.
    pub(super) window: usize,
    /// Nothing was asked before, and all of it may be there: the first batch does not wait for what comes after.
    pub(super) first: bool,
    pub(super) leases_max: usize,
    pub(super) done: Acquired,
    /// Granted for inputs that changed meanwhile: to be given back.
    pub(super) stale: Vec<Digest>,
    pub(super) lost: HashMap<usize, usize>,
}

/// One request, and the items its answers belong to.
pub(super) struct Question {
    pub(super) wanted: Vec<usize>,
    pub(super) ahead: Vec<usize>,
    /// Of all of them, in order, as they were when asked: another thread may look at the inputs anew meanwhile.
    pub(super) fingerprints: Vec<Digest>,
    pub(super) request: AcquireRequest,
    /// All of them may be there.
    pub(super) warm: bool,
}

impl Search<'_> {
    /// A search that only locates.
    pub(super) fn of(items: &[usize]) -> Self {
        Self {
            wanted: items.to_vec(),
            ahead: Vec::new(),
            later: None,
            window: 0,
            first: false,
            leases_max: 1,
            done: Acquired::default(),
            stale: Vec::new(),
            lost: HashMap::new(),
        }
    }

    /// Takes the fingerprints of what is wanted.
    pub(super) fn begin(&mut self, state: &mut State, inner: &Inner) {
        let answers = state.refresh_unsettled(&self.wanted, &inner.session);
        for (i, answer) in self.wanted.clone().into_iter().zip(answers) {
            if let Err(error) = answer {
                self.bypass(i, &format!("R30 {error}"));
            }
        }
    }

    /// Whether a wanted item is neither located nor to be computed without storing.
    pub(super) fn wants(&self, i: usize, state: &State) -> bool {
        state.found[i].is_none() && !self.done.bypass.contains_key(&i)
    }

    pub(super) fn is_wanting(&self, state: &State) -> bool {
        self.wanted.iter().any(|i| self.wants(*i, state))
    }

    pub(super) fn bypass(&mut self, i: usize, why: &str) {
        self.done.bypass.insert(i, why.to_owned());
    }

    /// Takes note of the answers. True if a wanted item is neither located nor ours to compute.
    pub(super) fn learn(
        &mut self,
        question: &Question,
        answer: AcquireResponse,
        state: &mut State,
    ) -> Result<bool> {
        if answer.answers.len() != question.wanted.len() + question.ahead.len() {
            return Err(Error::protocol("not an answer to Acquire"));
        }
        let items = question.wanted.iter().chain(&question.ahead);
        let items = items.copied().zip(question.fingerprints.iter().copied());
        let is_hit = |one: &v1::Answer| matches!(one.kind, Some(answer::Kind::Hit(_)));
        state.warm = answer.answers.iter().all(is_hit);
        let mut waiting = false;
        for (place, ((i, fingerprint), one)) in items.zip(&answer.answers).enumerate() {
            let wanted = place < question.wanted.len();
            let stamp = state.inputs.stamp(i);
            let Some(stamp) = stamp.filter(|_| state.inputs.fingerprint(i) == Some(fingerprint)) else {
                if let Some(answer::Kind::Granted(_)) = one.kind {
                    self.stale.push(fingerprint);
                }
                waiting |= wanted;
                continue;
            };
            match &one.kind {
                Some(answer::Kind::Hit(hit)) => state.locate(i, hit, &answer.layouts)?,
                Some(answer::Kind::Granted(token)) => {
                    state.held.remove(&i);
                    let lease = Lease {
                        thread: thread::current().id(),
                        token: *token,
                        fingerprint,
                        stamp,
                        wanted,
                    };
                    self.stale.extend(state.keep(i, lease));
                    self.done.compute.push(i);
                }
                Some(answer::Kind::Held(_)) => {
                    state.held.insert(i);
                    waiting |= wanted;
                }
                Some(answer::Kind::Bypass(_)) if wanted => {
                    let why = match answer.bypass.as_str() {
                        "" => "R42 the daemon has no room for it now: its memory or disk budget is spent",
                        why => why,
                    };
                    self.bypass(i, why);
                }
                Some(answer::Kind::Bypass(_)) => {}
                Some(answer::Kind::Free(_)) => {
                    // Whoever computed it left it.
                    state.held.remove(&i);
                    waiting |= wanted;
                }
                None => waiting |= wanted,
            }
        }
        Ok(waiting)
    }
}

impl State {
    /// Unknown items ahead that the next call looks at, and whether it asks for none: the first of a warm run, and those while a
    /// sweep has what is expected located beside the job (see `items::prefault`).
    pub(super) fn next_window(&mut self) -> (bool, usize) {
        // A large data set is swept for longer than its job can ask for each batch by itself.
        let soon = self.sweeping && self.window < WARM_WINDOW && self.is_fault_known();
        let first = self.warm && (self.window == 0 || soon);
        self.window = if self.warm { 2 * self.window } else { 0 };
        self.window = self.window.clamp(WINDOW_MIN, WARM_WINDOW);
        (first, self.window)
    }

    /// How many of the items, from the first, fit a request that has `room` bytes left, which they take.
    pub(super) fn fitting(&self, items: &[usize], room: &mut usize) -> usize {
        let fit = items.iter().take(ITEMS_MAX).take_while(|i| {
            let bytes = self.inputs.name(**i).len() + ITEM_BYTES;
            let fits = bytes <= *room;
            *room -= if fits { bytes } else { 0 };
            fits
        });
        fit.count()
    }

    fn locate(&mut self, i: usize, hit: &v1::Location, layouts: &[String]) -> Result<()> {
        let text = layouts.get(hit.layout as usize);
        let text = text.ok_or_else(|| Error::protocol("an element without a layout"))?;
        let outcome = match self.held.remove(&i) {
            true => Outcome::Follow,
            false => Outcome::Hit,
        };
        let found = Found {
            location: Location::try_from(hit)?,
            layout: self.layout(text),
            outcome,
            touched: false,
        };
        self.found[i] = Some(found);
        Ok(())
    }
}
