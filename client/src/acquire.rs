//! Getting hold of elements: located, leased to this job, or waited for.

use crate::blocks::Which;
use crate::channel::DEADLINE;
use crate::data::PACKET_BYTES_MAX;
use crate::error::{Code, Error, Result};
use crate::items::{Found, Inner, Items, Lease, State};
use crate::location::Location;
use crate::report::Outcome;
use crate::session::ITEMS_MAX;
use prebake_fingerprint::Digest;
use prebake_proto::v1::{self, AcquireRequest, AcquireResponse, answer};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::thread;
use std::time::Duration;

/// One wait inside the daemon. Short, so that Ctrl-C is seen soon.
const WAIT: Duration = Duration::from_millis(100);

/// Items ahead that are looked at in any case. Where they are there already, as in a warm run, one call locates them all.
const WINDOW_MIN: usize = 32;

/// Most items located in one request while all is there. The first requests are for fewer, each for twice as many as the one
/// before, so that the first batch is not kept waiting.
const WARM_WINDOW: usize = 1024;

/// What the items of one request may take on the wire: below the 4 MiB that gRPC servers accept by default. A name is at most
/// 4 KiB long (PATH_MAX).
const REQUEST_BYTES_MAX: usize = 3 << 20;

/// Of an item besides its name: fingerprint, tags and lengths.
const ITEM_BYTES: usize = 48;

/// So often in a row may a located element turn out to be gone before it is computed without storing.
const LOST_MAX: usize = 3;

/// What a caller has to do to get on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Acquired {
    /// Items leased to it now: to be computed and put, or released, by this thread. Wanted ones first.
    pub compute: Vec<usize>,
    /// Wanted items to compute without storing, and why, by a stable code and in words.
    pub bypass: BTreeMap<usize, String>,
}

/// The state of one call of [`Items::acquire`].
struct Search<'a> {
    wanted: Vec<usize>,
    /// What the job will want later; empty until it is asked for.
    ahead: Vec<usize>,
    later: Option<&'a mut dyn FnMut() -> Result<Vec<usize>>>,
    /// How many unknown items of `ahead` are looked at; grows while there is nothing to do.
    window: usize,
    /// Nothing was asked before, and all of it may be there: the first batch does not wait for what comes after.
    first: bool,
    leases_max: usize,
    done: Acquired,
    /// Granted for inputs that changed meanwhile: to be given back.
    stale: Vec<Digest>,
    lost: HashMap<usize, usize>,
}

/// One request, and the items its answers belong to.
struct Question {
    wanted: Vec<usize>,
    ahead: Vec<usize>,
    /// Of all of them, in order, as they were when asked: another thread may look at the inputs anew meanwhile.
    fingerprints: Vec<Digest>,
    request: AcquireRequest,
    /// All of them may be there.
    warm: bool,
}

impl Items {
    /// Makes progress on `wanted`. When both lists of the answer are empty, every wanted item can be read (barring
    /// eviction in between: then call again). At most `leases_max` items are leased, of `ahead` (what the job will want
    /// later) only if no wanted item is free. Waits while other jobs compute wanted items and there is nothing to do
    /// ahead, asking `interrupted` every 100 ms whether to give up.
    ///
    /// # Errors
    /// `daemon-lost`, `interrupted`, `forked`.
    pub fn acquire(
        &self,
        wanted: &[usize],
        ahead: &[usize],
        leases_max: usize,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Acquired> {
        self.acquire_later(wanted, &mut || Ok(ahead.to_vec()), leases_max, interrupted)
    }

    /// The same where what comes after is asked for when it is needed, at most once: a first batch is not kept waiting for it.
    ///
    /// # Errors
    /// As above, and what `ahead` answers.
    pub fn acquire_later(
        &self,
        wanted: &[usize],
        ahead: &mut dyn FnMut() -> Result<Vec<usize>>,
        leases_max: usize,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Acquired> {
        let inner = &*self.0;
        inner.session.check()?;
        inner.check_numbers(wanted)?;
        let mut seen = HashSet::new();
        let (first, window) = inner.state.lock().next_window();
        let mut search = Search {
            wanted: wanted.iter().copied().filter(|i| seen.insert(*i)).collect(),
            ahead: Vec::new(),
            later: Some(ahead),
            window: window.max(leases_max),
            first,
            leases_max: leases_max.max(1),
            done: Acquired::default(),
            stale: Vec::new(),
            lost: HashMap::new(),
        };
        if inner.bypass.is_empty() {
            // Nobody can follow what lies in staging, this job no more than others.
            self.commit()?;
            inner.search(&mut search, interrupted)?;
        } else {
            let why = |i: &usize| (*i, inner.bypass.clone());
            search.done.bypass = search.wanted.iter().map(why).collect();
        }
        let mut state = inner.state.lock();
        state.tally.stats.bypassed += search.done.bypass.len() as u64;
        inner.tell(state, true);
        Ok(search.done)
    }

    /// Those of some items that are there, of inputs as they are now. Nothing is leased, and nothing waited for.
    ///
    /// # Errors
    /// `daemon-lost`, `forked`.
    pub fn locate(&self, items: &[usize]) -> Result<Vec<usize>> {
        let inner = &*self.0;
        inner.session.check()?;
        inner.check_numbers(items)?;
        if !inner.bypass.is_empty() {
            return Ok(Vec::new());
        }
        let mut search = Search::of(items);
        search.begin(&mut inner.state.lock(), inner);
        inner.locate(&mut search)?;
        let missing: HashSet<usize> = self.missing(items).into_iter().collect();
        Ok(items.iter().copied().filter(|i| !missing.contains(i)).collect())
    }
}

impl Inner {
    fn check_numbers(&self, items: &[usize]) -> Result<()> {
        let count = self.count;
        match items.iter().find(|i| **i >= count) {
            Some(i) => Err(Error::internal(format!("item {i} of {count}"))),
            None => Ok(()),
        }
    }

    fn search(&self, search: &mut Search<'_>, interrupted: &mut dyn FnMut() -> bool) -> Result<()> {
        self.session.listen()?;
        search.begin(&mut self.state.lock(), self);
        let (mut asked, mut refused, mut waiting) = (false, false, false);
        loop {
            self.reach(search)?;
            let idle = search.done.compute.is_empty() && search.done.bypass.is_empty();
            if asked && !idle {
                return Ok(());
            }
            if waiting && interrupted() {
                return Err(Error::new(Code::Interrupted, "interrupted while waiting"));
            }
            if !search.first && search.is_wanting(&self.state.lock()) {
                self.learn_later(search)?;
            }
            let Some(question) = self.question(search, &mut self.state.lock(), idle) else {
                return Ok(());
            };
            let wait = Duration::from_millis(question.request.wait_ms.into());
            let request = question.request.clone();
            let call = async |mut c: v1::cache_client::CacheClient<_>| c.acquire(request).await;
            // Whether there is something to wait for turns out when leases were asked for.
            let answer = match !refused || wait.is_zero() {
                true => self.session.acquire_at_once(&question.request, question.warm),
                false => Ok(None),
            };
            let answer = answer.and_then(|at_once| match at_once {
                Some(answer) => Ok(answer),
                None => self.session.call(wait + DEADLINE, call),
            });
            refused = !question.warm;
            search.first = false;
            let learned = answer.and_then(|a| search.learn(&question, a, &mut self.state.lock()));
            if learned.is_err() {
                // What was granted is not known: nobody may wait for it.
                let _ = self.give_back(&question.fingerprints);
            }
            waiting = learned?;
            self.give_back(&std::mem::take(&mut search.stale))?;
            asked = true;
            search.window = search.window.saturating_mul(2);
        }
    }

    /// Locates some of these items, those that are there, without asking for leases.
    pub(crate) fn locate_all(&self, items: &[usize]) -> Result<()> {
        let items = &items[..items.len().min(WARM_WINDOW)];
        if self.state.lock().warm {
            self.locate(&mut Search::of(items))?;
        }
        Ok(())
    }

    fn locate(&self, search: &mut Search<'_>) -> Result<()> {
        let fit = self
            .state
            .lock()
            .fitting(&search.wanted, &mut { PACKET_BYTES_MAX });
        search.wanted.truncate(fit);
        let question = self.question(search, &mut self.state.lock(), false);
        let Some(question) = question else {
            return Ok(());
        };
        if let Some(located) = self.session.acquire_at_once(&question.request, true)? {
            search.learn(&question, located, &mut self.state.lock())?;
        }
        Ok(())
    }

    /// Asks what the job will want later, the first time.
    fn learn_later(&self, search: &mut Search<'_>) -> Result<()> {
        if let Some(later) = search.later.take() {
            search.ahead = later()?;
            self.check_numbers(&search.ahead)?;
        }
        Ok(())
    }

    /// Maps what is located. A wanted element whose blocks are gone has to be asked for anew.
    fn reach(&self, search: &mut Search<'_>) -> Result<()> {
        let located = |items: &[usize], state: &State| -> Vec<(usize, Location)> {
            let found = items.iter().filter_map(|i| Some((*i, state.found[*i].as_ref()?)));
            found.map(|(i, found)| (i, found.location.clone())).collect()
        };
        let (wanted, ahead, access) = {
            let state = self.state.lock();
            let window = &search.ahead[..search.ahead.len().min(search.window)];
            let both = (located(&search.wanted, &state), located(window, &state));
            (both.0, both.1, state.access)
        };
        let all = wanted.iter().chain(&ahead).map(|(_, location)| location);
        // What is on SSD is read when it is its turn.
        let mapping = self.session.map(access, all, Which::Resident)?;
        for (i, location) in wanted {
            if !self.session.is_gone(&mapping, &location) {
                continue;
            }
            self.state.lock().found[i] = None;
            let lost = search.lost.entry(i).or_default();
            *lost += 1;
            if *lost == LOST_MAX {
                search.bypass(
                    i,
                    "R42 its element cannot be mapped: memory is short, or it is evicted again and again",
                );
            }
        }
        Ok(())
    }

    /// None if nothing that is wanted is left to be asked for: then later items are not looked at for it either.
    fn question(&self, search: &Search<'_>, state: &mut State, idle: bool) -> Option<Question> {
        let wanted = search.wanted.iter().copied();
        let mut wanted: Vec<usize> = wanted.filter(|i| search.wants(*i, state)).collect();
        // One that another thread found missing meanwhile has none; the next call will say why.
        wanted.retain(|i| state.inputs.fingerprint(*i).is_some());
        if wanted.is_empty() {
            return None;
        }
        let mut room = REQUEST_BYTES_MAX;
        wanted.truncate(state.fitting(&wanted, &mut room));
        let window = match search.first {
            true => 0,
            false => search.window.min(ITEMS_MAX),
        };
        let asked: HashSet<usize> = wanted.iter().copied().collect();
        let unknown = search
            .ahead
            .iter()
            .copied()
            .filter(|i| state.found[*i].is_none() && !state.leases.contains_key(i) && !asked.contains(i));
        let mut ahead: Vec<usize> = unknown.take(window).collect();
        ahead.truncate(state.fitting(&ahead, &mut room));
        let whole = !search.first && (ahead.len() < window || window == ITEMS_MAX);
        // Inputs of later items are looked at when their turn comes; here only the first time.
        let new = ahead.iter().copied();
        let new: Vec<usize> = new.filter(|i| state.inputs.fingerprint(*i).is_none()).collect();
        state.refresh(&new, &self.session);
        ahead.retain(|i| state.inputs.fingerprint(*i).is_some());
        let both = wanted.iter().chain(&ahead);
        let fingerprints: Vec<Digest> = both.filter_map(|i| state.inputs.fingerprint(*i)).collect();
        let item = |(i, fingerprint): (&usize, &Digest)| v1::Item {
            fingerprint: fingerprint.0.to_vec().into(),
            name: state.inputs.name(*i).into_owned(),
        };
        let (of_wanted, of_ahead) = fingerprints.split_at(wanted.len());
        let request = AcquireRequest {
            session: self.session.id,
            collection: self.collection,
            wanted: wanted.iter().zip(of_wanted).map(item).collect(),
            ahead: ahead.iter().zip(of_ahead).map(item).collect(),
            leases_max: u32::try_from(search.leases_max).unwrap_or(u32::MAX),
            // While more of `ahead` can be looked at there may be something to do, and no reason to wait.
            wait_ms: if idle && whole { WAIT.as_millis() as u32 } else { 0 },
            lease_ms: state.inputs.lease().as_millis() as u32,
            items: self.count as u64,
        };
        Some(Question {
            wanted,
            ahead,
            fingerprints,
            request,
            warm: state.warm,
        })
    }
}

impl Search<'_> {
    /// A search that only locates.
    fn of(items: &[usize]) -> Self {
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
    fn begin(&mut self, state: &mut State, inner: &Inner) {
        let answers = state.refresh_unsettled(&self.wanted, &inner.session);
        for (i, answer) in self.wanted.clone().into_iter().zip(answers) {
            if let Err(error) = answer {
                self.bypass(i, &format!("R30 {error}"));
            }
        }
    }

    /// Whether a wanted item is neither located nor to be computed without storing.
    fn wants(&self, i: usize, state: &State) -> bool {
        state.found[i].is_none() && !self.done.bypass.contains_key(&i)
    }

    fn is_wanting(&self, state: &State) -> bool {
        self.wanted.iter().any(|i| self.wants(*i, state))
    }

    fn bypass(&mut self, i: usize, why: &str) {
        self.done.bypass.insert(i, why.to_owned());
    }

    /// Takes note of the answers. True if a wanted item is neither located nor ours to compute.
    fn learn(&mut self, question: &Question, answer: AcquireResponse, state: &mut State) -> Result<bool> {
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
    fn next_window(&mut self) -> (bool, usize) {
        // A large data set is swept for longer than its job can ask for each batch by itself.
        let soon = self.sweeping && self.window < WARM_WINDOW && self.is_fault_known();
        let first = self.warm && (self.window == 0 || soon);
        self.window = if self.warm { 2 * self.window } else { 0 };
        self.window = self.window.clamp(WINDOW_MIN, WARM_WINDOW);
        (first, self.window)
    }

    /// How many of the items, from the first, fit a request that has `room` bytes left, which they take.
    fn fitting(&self, items: &[usize], room: &mut usize) -> usize {
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
