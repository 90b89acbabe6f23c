//! Getting hold of elements: located, leased to this job, or waited for.

use crate::connection::channel::DEADLINE;
use crate::connection::data_socket::PACKET_BYTES_MAX;
use crate::error::{Code, Error, Result};
use crate::items::search::{Acquired, Question, Search, WARM_WINDOW};
use crate::items::{Inner, Items, State};
use crate::location::Location;
use crate::mapped::blocks::Which;
use crate::session::ITEMS_MAX;
use crate::session::stats::Stats;
use prebake_fingerprint::Digest;
use prebake_proto::v1::{self, AcquireRequest};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// One wait inside the daemon. Short, so that Ctrl-C is seen soon.
const WAIT: Duration = Duration::from_millis(100);

/// What the items of one request may take on the wire: below the 4 MiB that gRPC servers accept by default. A name is at most
/// 4 KiB long (PATH_MAX).
const REQUEST_BYTES_MAX: usize = 3 << 20;

/// So often in a row may a located element turn out to be gone before it is computed without storing.
const LOST_MAX: usize = 3;

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
        state.tally.add(&Stats {
            bypassed: search.done.bypass.len() as u64,
            ..Stats::default()
        });
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
