//! The cache: plans, lookups and reads over catalog, leases and tiers. Everything a request does passes
//! through one of these functions or, if it writes, those of [`crate::cache::commit`].

pub(crate) mod block_service;
pub(crate) mod collection_notes;
pub mod commit;
pub(crate) mod counts;
pub mod descriptors;
pub mod mismatch;
pub mod open;
pub mod recovery;
pub(crate) mod room;
pub mod standing;

use crate::{
    codes,
    collection::{Answers, Collection, Origin, Reason, Request, catalog::Catalog, graphs::Graphs},
    config::Config,
    domain::Domain,
    error::Result,
    history::{
        misses::{Cause, Misses},
        refusals::{Refusal, Refusals},
    },
    index::{IndexStore, Space},
    metrics::Metrics,
    quarantine::Quarantine,
    segment::{BlockId, SegmentId},
    session::{Peer, Session, SessionId, Sessions, stopped},
    system::clock::Clock,
    tier::{IndexSpace, ram::RamTier, ssd::SsdTier},
};
use prebake_fingerprint::{Digest, Graph};
use std::{sync::Arc, time::Duration};

/// Longest a caller may hold a lease: an hour, for whole programs. Death ends it sooner.
pub const LEASE_MAX: Duration = Duration::from_secs(3600);

/// Longest wait inside one request; callers repeat it.
pub const WAIT_MAX: Duration = Duration::from_secs(10);

/// A holder that is stopped for so long loses its leases: long enough for a debugger's step, short for those who wait.
const STOPPED_GRACE: Duration = Duration::from_secs(1);

/// A file's stat as part of a key of the index.
pub type StatKey = [u8; 40];

/// The cache of one daemon.
pub struct Cache {
    /// Settings.
    pub config: Config,
    /// Pipelines.
    pub catalog: Catalog,
    /// As they were sent.
    pub graphs: Graphs,
    /// Jobs.
    pub sessions: Sessions,
    /// Why jobs computed.
    pub misses: Misses,
    /// What jobs will not have cached.
    pub refusals: Refusals,
    /// What did not reproduce.
    pub quarantine: Quarantine,
    /// Blocks in shared memory.
    pub ram: Arc<RamTier>,
    /// Segment files.
    pub ssd: Arc<SsdTier>,
    /// What outlives the process besides segments.
    pub index: Arc<dyn IndexStore>,
    /// Its share of the SSD budget.
    pub index_space: IndexSpace,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Distinguishes this run of the daemon from others.
    pub boot_id: u64,
    /// What was wrong at start.
    pub warnings: Vec<String>,
}

impl Cache {
    /// The collection of a graph, or why its elements are not cached.
    ///
    /// # Errors
    /// As [`Catalog::plan`].
    pub fn plan(
        &self,
        session: &Session,
        graph: &Graph,
    ) -> Result<std::result::Result<Arc<Collection>, String>> {
        if let Some(reason) = not_cacheable(graph) {
            return Ok(Err(reason));
        }
        if self.ssd.is_read_only() {
            return Ok(Err("the SSD tier is read-only since a write failed".into()));
        }
        let origin = Origin {
            made_ns: self.clock.wall_ns(),
            job: session.job.clone(),
            pid: session.peer.pid,
        };
        let (collection, new) = self.catalog.plan(&domain(session), graph, origin)?;
        // After it is in the catalog: a quarantine of something upstream begun meanwhile is seen here or sees it there.
        if new {
            self.judge(&collection);
        }
        if let Some(why) = collection.quarantined() {
            return Ok(Err(why.to_string()));
        }
        collection.load(&self.ssd);
        // Jobs that start while the first ones fill it are as new to it as they.
        let filling = self.sessions.all().iter().any(|s| s.planned_empty(collection.id));
        session.planned(collection.id, collection.is_empty() || filling);
        Ok(Ok(collection))
    }

    /// Whether nothing has to be read from disk to plan a graph.
    pub fn is_loaded(&self, session: &Session, graph: &Graph) -> bool {
        let domain = domain(session);
        graph.operators().iter().all(|operator| {
            let digest = graph.digest_of(&operator.id);
            let collection = digest.and_then(|digest| self.catalog.of(&domain, digest));
            // Only that of the output is made if there is none, which asks the list of what is quarantined.
            let absent = operator.id != graph.output();
            collection.map_or(absent, |collection| collection.is_loaded())
        })
    }

    /// Ids of the operators upstream of the output whose own elements have entries.
    pub fn ancestors(&self, session: &Session, graph: &Graph) -> Vec<String> {
        let domain = domain(session);
        let upstream = graph.operators().iter().filter(|o| o.id != graph.output());
        let known = upstream.filter(|operator| {
            let digest = graph.digest_of(&operator.id);
            let collection = digest.and_then(|digest| self.catalog.of(&domain, digest));
            collection.is_some_and(|collection| {
                collection.load(&self.ssd);
                !collection.is_empty() && collection.quarantined().is_none()
            })
        });
        known.map(|operator| operator.id.clone()).collect()
    }

    /// Ids of the operators upstream of the output that other collections are computed with too.
    pub fn common(&self, session: &Session, graph: &Graph) -> Vec<String> {
        self.catalog.common(&domain(session), graph)
    }

    /// Answers for each item; with nothing to give, waits until something changes or `wait` is over.
    pub async fn acquire(&self, collection: &Collection, request: &Request<'_>, wait: Duration) -> Answers {
        let until = self.clock.monotonic() + wait.min(WAIT_MAX);
        loop {
            let change = collection.next_change();
            tokio::pin!(change);
            // Enabled before looking: a commit in between is not missed.
            change.as_mut().enable();
            let answers = self.answer(collection, request);
            let left = until.saturating_sub(self.clock.monotonic());
            if !answers.wait || left.is_zero() {
                return answers;
            }
            let changed = tokio::time::timeout(left.min(stopped::LOOK), change).await;
            if changed.is_err() {
                self.pass_on_from_stopped(collection);
            }
        }
    }

    /// Answers for each item now. The session may have ended before it was granted something, and its end have passed: that
    /// must not wait for a deadline.
    pub fn answer(&self, collection: &Collection, request: &Request<'_>) -> Answers {
        let answers = collection.acquire(request, &*self.clock);
        self.metrics.takeovers.inc_by(answers.takeovers);
        if self.sessions.find(request.session).is_none() {
            collection.end_session(request.session);
        }
        answers
    }

    /// Ends the leases of those who have been stopped for long enough: others are waiting for them.
    fn pass_on_from_stopped(&self, collection: &Collection) {
        let now = self.clock.monotonic();
        for id in collection.holders(now) {
            let session = self.sessions.find(id);
            let stopped = session.and_then(|session| session.stopped_for(now));
            if stopped.is_some_and(|stopped| stopped >= STOPPED_GRACE) {
                tracing::info!(?id, "what a stopped process was to compute is left to others");
                collection.expire(id, now);
            }
        }
    }

    /// Whether a block waits for the disk: it is then in RAM whatever moka says.
    pub fn is_pinned(&self, id: BlockId) -> bool {
        self.ssd.get(id.segment).is_some_and(|s| s.is_pinned(id.index))
    }

    /// Counts reads of one block, for both tiers' policies.
    pub fn touched(&self, segment: SegmentId, block: u32, elements: u64, bytes: u64) {
        let id = BlockId {
            segment,
            index: block,
        };
        self.ram.touch(id);
        self.metrics.bytes_read.with_label_values(&["ram"]).inc_by(bytes);
        if let Some(found) = self.ssd.get(segment) {
            let rows = found.summary().rows.max(1);
            self.ssd.touch(segment, elements as f64 / rows as f64);
        }
    }

    /// Keeps what a job tells that it will not have cached. A fill that failed is a miss of what it planned last.
    pub fn keep_refusal(&self, session: &Session, code: &str, reason: String, location: String) {
        let at_ns = self.clock.wall_ns();
        let refusal = Refusal::new(session, code, reason, location, at_ns);
        self.metrics.refusals.with_label_values(&[refusal.code]).inc();
        let planned = session.planned_last().and_then(|id| self.catalog.find(id));
        match planned {
            Some(collection) if refusal.code == codes::FILL_FAILED => {
                let tell = |cause: &mut Cause| {
                    cause.told = refusal.reason;
                    cause.at = refusal.location;
                };
                self.misses
                    .add(session, &collection, Reason::FillFailed, at_ns, tell);
            }
            _ => self.refusals.add(&domain(session), refusal),
        }
    }

    /// Ends a session: its leases pass on, its memory returns.
    pub fn end_session(&self, id: SessionId) {
        let Some(session) = self.sessions.close(id) else {
            return;
        };
        session.end();
        for collection in session.collections() {
            if let Some(collection) = self.catalog.find(collection) {
                collection.end_session(id);
            }
        }
    }

    /// Digests of files by trust domain and stat, where known. One answer for each.
    pub fn recall(&self, session: &Session, stats: &[StatKey]) -> Vec<Option<Digest>> {
        let keys: Vec<_> = stats.iter().map(|stat| memo_key(session, stat)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_slice()).collect();
        let known = self.index.get_all(Space::Memo, &keys);
        let known = known.unwrap_or_else(|_| vec![None; keys.len()]).into_iter();
        known.map(|value| Digest::try_from(&value?[..]).ok()).collect()
    }

    /// Remembers digests of files.
    pub fn memorize(&self, session: &Session, stats: Vec<(StatKey, Digest)>) {
        let records: Vec<_> = stats
            .into_iter()
            .map(|(stat, digest)| (memo_key(session, &stat).to_vec(), digest.0.to_vec()))
            .collect();
        let room = self.index_space.claim(records.len(), &self.ssd);
        if let Err(error) = room.and_then(|()| self.index.put(Space::Memo, &records)) {
            self.metrics.errors.with_label_values(&[error.code()]).inc();
        }
    }
}

/// A user may name only his own files' digests: another's memo could poison his identity.
fn memo_key(session: &Session, stat: &StatKey) -> [u8; 44] {
    let mut key = [0; 44];
    let (uid, rest) = key.split_at_mut(4);
    uid.copy_from_slice(&session.peer.uid.to_be_bytes());
    rest.copy_from_slice(stat);
    key
}

/// The trust domain of a session.
pub fn domain(session: &Session) -> Domain {
    domain_of(session.peer)
}

/// The trust domain of whoever is at the other end of a connection.
pub fn domain_of(peer: Peer) -> Domain {
    Domain(format!("uid:{}", peer.uid))
}

fn not_cacheable(graph: &Graph) -> Option<String> {
    let determinism = graph.determinism();
    if determinism.is_cacheable() {
        return None;
    }
    let name = graph
        .blame()
        .map_or_else(|| "an operator".to_owned(), |o| o.name.clone());
    Some(format!("{name}: {determinism}"))
}
