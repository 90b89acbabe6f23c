//! What jobs said they will not have cached: the last few of each trust domain.

use crate::{codes, domain::Domain, session::Session};
use parking_lot::Mutex;
use prebake_proto::leaf::cut;
use std::collections::{HashMap, VecDeque};

/// Kept of each trust domain.
const REFUSALS_MAX: usize = 64;

/// Trust domains of which any are kept: a node has fewer users than this.
pub const DOMAINS_MAX: usize = 256;

/// Bytes of a reason: a line or two for a person.
const REASON_BYTES_MAX: usize = 1024;

/// Bytes of a location.
const LOCATION_BYTES_MAX: usize = 256;

/// One refusal of one job, however often it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One of [`codes::refusals`].
    pub code: &'static str,
    /// In words.
    pub reason: String,
    /// Where the user wrote it.
    pub location: String,
    /// The job's name.
    pub job: String,
    /// Its process.
    pub pid: u32,
    /// Its session.
    pub session: u64,
    /// When it was last told, in nanoseconds since 1970.
    pub at_ns: i64,
    /// How often.
    pub times: u64,
}

/// The last refusals by trust domain, oldest first.
#[derive(Default)]
pub struct Refusals(Mutex<HashMap<Domain, VecDeque<Refusal>>>);

impl Refusal {
    /// What a session told.
    pub fn new(session: &Session, code: &str, reason: String, location: String, at_ns: i64) -> Self {
        Self {
            code: codes::refusal(code),
            reason: cut(reason, REASON_BYTES_MAX),
            location: cut(location, LOCATION_BYTES_MAX),
            job: session.job.clone(),
            pid: session.peer.pid,
            session: session.id.0,
            at_ns,
            times: 1,
        }
    }

    fn is_again(&self, other: &Self) -> bool {
        let key = |r: &Self| (r.session, r.code);
        key(self) == key(other) && self.reason == other.reason && self.location == other.location
    }
}

impl Refusals {
    /// Keeps a refusal.
    pub fn add(&self, domain: &Domain, mut refusal: Refusal) {
        let mut all = self.0.lock();
        if all.len() >= DOMAINS_MAX && !all.contains_key(domain) {
            return;
        }
        let own = all.entry(domain.clone()).or_default();
        if let Some(place) = own.iter().position(|known| known.is_again(&refusal)) {
            let known = own.remove(place);
            refusal.times += known.map_or(0, |known| known.times);
        }
        own.push_back(refusal);
        if own.len() > REFUSALS_MAX {
            own.pop_front();
        }
    }

    /// Those of a trust domain, newest first.
    pub fn of(&self, domain: &Domain) -> Vec<Refusal> {
        let all = self.0.lock();
        all.get(domain).into_iter().flatten().rev().cloned().collect()
    }
}
