//! Why jobs had to compute: the last jobs of each trust domain, by collection.

use crate::{
    collection::{Collection, Reason},
    domain::Domain,
    history::refusals::DOMAINS_MAX,
    session::{Session, SessionId},
    tier::ssd::Gone,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Pairs of job and collection kept of each trust domain.
const MISSES_MAX: usize = 64;

/// Items named of each reason; the rest is counted.
const ITEMS_MAX: usize = 5;

/// What one job missed in one collection.
#[derive(Debug, Clone)]
pub struct Miss {
    /// The collection's number.
    pub collection: u64,
    /// The job's session.
    pub session: SessionId,
    /// The job's name.
    pub job: String,
    /// Its process.
    pub pid: u32,
    /// The last one, in nanoseconds since 1970.
    pub at_ns: i64,
    /// By reason.
    pub causes: BTreeMap<Reason, Cause>,
}

/// What one reason made a job miss.
#[derive(Debug, Clone, Default)]
pub struct Cause {
    /// Elements.
    pub elements: u64,
    /// The first few items.
    pub items: Vec<String>,
    /// How the entry was lost, if it was there before.
    pub gone: Option<Gone>,
    /// Of a fill that failed: what the job said.
    pub told: String,
    /// Where the user wrote what failed.
    pub at: String,
}

impl Miss {
    /// Elements missed, of fills that failed too.
    pub fn elements(&self) -> u64 {
        self.causes.values().map(|cause| cause.elements).sum()
    }

    /// The reasons, the one to begin with first: a failure, else what made the most elements miss.
    pub fn ranked(&self) -> Vec<(Reason, &Cause)> {
        let mut causes: Vec<_> = self
            .causes
            .iter()
            .map(|(reason, cause)| (*reason, cause))
            .collect();
        causes.sort_by_key(|(reason, cause)| {
            (
                *reason != Reason::FillFailed,
                std::cmp::Reverse(cause.elements),
                *reason,
            )
        });
        causes
    }
}

/// The last misses by trust domain, the latest job last.
#[derive(Default)]
pub struct Misses(Mutex<HashMap<Domain, VecDeque<Miss>>>);

impl Misses {
    /// Counts an element that was missed.
    pub fn add(
        &self,
        session: &Session,
        collection: &Collection,
        reason: Reason,
        at_ns: i64,
        tell: impl FnOnce(&mut Cause),
    ) {
        let mut all = self.0.lock();
        if !all.contains_key(&collection.domain) {
            if all.len() >= DOMAINS_MAX {
                return;
            }
            all.insert(collection.domain.clone(), VecDeque::new());
        }
        let Some(own) = all.get_mut(&collection.domain) else {
            return;
        };
        let is_known = |miss: &Miss| miss.collection == collection.id && miss.session == session.id;
        // The latest is nearly always the one.
        let miss = match own.iter().rposition(is_known).and_then(|place| own.remove(place)) {
            Some(known) => known,
            None => Miss {
                collection: collection.id,
                session: session.id,
                job: session.job.clone(),
                pid: session.peer.pid,
                at_ns,
                causes: BTreeMap::new(),
            },
        };
        own.push_back(miss);
        if own.len() > MISSES_MAX {
            own.pop_front();
        }
        if let Some(miss) = own.back_mut() {
            miss.at_ns = at_ns;
            let cause = miss.causes.entry(reason).or_default();
            cause.elements += 1;
            tell(cause);
        }
    }

    /// Those of a trust domain, newest first.
    pub fn of(&self, domain: &Domain) -> Vec<Miss> {
        let all = self.0.lock();
        all.get(domain).into_iter().flatten().rev().cloned().collect()
    }
}

impl Cause {
    /// Names an item, if there is room for it.
    pub fn name(&mut self, item: &str) {
        if self.items.len() < ITEMS_MAX {
            self.items.push(item.to_owned());
        }
    }
}
