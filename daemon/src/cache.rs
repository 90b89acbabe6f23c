//! The cache: plans, lookups, commits and reads over catalog, leases and tiers. Everything a request
//! does passes through one of these functions.

use crate::{
    catalog::Catalog,
    clock::Clock,
    collection::{Answers, Collection, Domain, Item, Request},
    config::Config,
    error::{Error, Kind, Result},
    index::{IndexStore, Space},
    lease::Token,
    memory::{BLOCK_BYTES, Block, Staging},
    metrics::Metrics,
    segment::{Cost, ELEMENT_BYTES_MAX, From, Location, OpenSegment, Row, Segment, SegmentId, WriteBehind},
    session::{Session, SessionId, Sessions},
    task,
    tier::{
        ram::{BlockId, RamTier},
        ssd::SsdTier,
    },
};
use prebake_fingerprint::{Digest, Graph};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Size at which a segment is closed: large enough that one sync serves hundreds of elements, small
/// enough to be a unit of eviction.
const SEGMENT_BYTES: u64 = 64 << 20;

/// Segments of a small SSD tier are smaller, so that evicting one is not evicting all.
const SEGMENTS_PER_TIER_MIN: u64 = 8;

/// After a segment found no room, its collection stores nothing for this long: room comes with
/// evictions, which take at least as long.
const REST: Duration = Duration::from_secs(10);

/// Longest a caller may hold a lease: an hour, for whole programs. Death ends it sooner.
pub const LEASE_MAX: Duration = Duration::from_secs(3600);

/// Longest wait inside one request; callers repeat it.
pub const WAIT_MAX: Duration = Duration::from_secs(10);

/// An element handed over.
pub struct Element {
    /// Which entry it is.
    pub item: Item,
    /// The lease it was computed under.
    pub token: Token,
    /// How its bytes make up the value.
    pub layout: String,
    /// Where it lies in staging memory.
    pub staging_offset: u64,
    /// Bytes.
    pub len: u64,
    /// What it cost.
    pub cost: Cost,
}

/// What came of one element of a commit.
pub enum Committed {
    /// Published there.
    At(Location),
    /// Not stored, and why.
    Refused(&'static str),
}

/// The cache of one daemon.
pub struct Cache {
    /// Settings.
    pub config: Config,
    /// Pipelines.
    pub catalog: Catalog,
    /// Jobs.
    pub sessions: Sessions,
    /// Blocks in shared memory.
    pub ram: Arc<RamTier>,
    /// Segment files.
    pub ssd: Arc<SsdTier>,
    /// What outlives the process besides segments.
    pub index: Arc<dyn IndexStore>,
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
        graph: Graph,
    ) -> Result<std::result::Result<Arc<Collection>, String>> {
        if let Some(reason) = not_cacheable(&graph) {
            return Ok(Err(reason));
        }
        if self.ssd.is_read_only() {
            return Ok(Err("the SSD tier is read-only since a write failed".into()));
        }
        let (collection, _) = self.catalog.plan(&domain(session), graph)?;
        collection.load(&self.ssd);
        // Jobs that start while the first ones fill it are as new to it as they.
        let filling = self.sessions.all().iter().any(|s| s.planned_empty(collection.id));
        session.planned(collection.id, collection.is_empty() || filling);
        Ok(Ok(collection))
    }

    /// Answers for each item; with nothing to give, waits until something changes or `wait` is over.
    pub async fn acquire(&self, collection: &Collection, request: &Request<'_>, wait: Duration) -> Answers {
        let until = self.clock.monotonic() + wait.min(WAIT_MAX);
        loop {
            let change = collection.next_change();
            tokio::pin!(change);
            // Enabled before looking: a commit in between is not missed.
            change.as_mut().enable();
            let answers = collection.acquire(request, &self.ssd, &*self.clock);
            self.metrics.takeovers.inc_by(answers.takeovers);
            let left = until.saturating_sub(self.clock.monotonic());
            if !answers.wait || left.is_zero() {
                return answers;
            }
            let _ = tokio::time::timeout(left, change).await;
        }
    }

    /// Copies elements out of staging into the collection's open segment and publishes them.
    /// Blocking.
    pub fn commit(
        self: &Arc<Self>,
        session: &Session,
        collection: &Arc<Collection>,
        staging: &Staging,
        elements: Vec<Element>,
    ) -> Vec<Committed> {
        let mut open = collection.open.lock();
        let committed = elements
            .into_iter()
            .map(|element| self.commit_one(session, collection, staging, &mut open, element))
            .collect();
        let full = open
            .as_ref()
            .is_some_and(|o| o.segment().summary().value_len >= self.segment_bytes());
        let closing = if full { open.take() } else { None };
        let behind = open.as_ref().and_then(OpenSegment::write_behind);
        let must_wait = open.as_ref().is_some_and(OpenSegment::is_behind);
        drop(open);
        if behind.is_some() || closing.is_some() {
            let (cache, owner) = (Arc::clone(self), Arc::clone(collection));
            let work = move || cache.write_out(&owner, behind, closing);
            if must_wait {
                work();
            } else {
                drop(task::spawn(async move { drop(task::blocking(work).await) }));
            }
        }
        committed
    }

    /// Disk work that a commit leaves behind. Blocking.
    fn write_out(&self, collection: &Collection, behind: Option<WriteBehind>, closing: Option<OpenSegment>) {
        if let Some(behind) = behind {
            let written = behind.run(&self.ram, &mut |s, bytes| self.ssd.reserve(s, bytes));
            self.settle(collection, behind.segment(), written);
        }
        if let Some(segment) = closing {
            self.close_segment(collection, segment);
        }
    }

    fn commit_one(
        &self,
        session: &Session,
        collection: &Collection,
        staging: &Staging,
        open: &mut Option<OpenSegment>,
        element: Element,
    ) -> Committed {
        let Element {
            item,
            token,
            layout,
            staging_offset,
            len,
            cost,
        } = element;
        let end = staging_offset.checked_add(len);
        if len > ELEMENT_BYTES_MAX || end.is_none_or(|end| end > staging.bytes()) {
            collection.release(&[item.fingerprint], session.id);
            return self.refused("too-large");
        }
        let row = Row {
            fingerprint: item.fingerprint,
            name: &item.name,
            layout: &layout,
            len,
            cost,
        };
        let appended = self.open_segment(collection, open).and_then(|open| {
            if !collection.may_commit(&item.fingerprint, session.id, token) {
                return Err(Error::new(
                    Kind::Invalid,
                    "stale-lease",
                    "the lease ended before the commit",
                ));
            }
            open.touched = self.clock.monotonic();
            open.append(&row, &self.ram, |at, into| {
                staging.read(staging_offset + at, into)
            })
        });
        match appended {
            Ok((number, location)) => {
                let planned_empty = session.planned_empty(collection.id);
                let reason =
                    collection.insert(session.id, &item, (location.segment, number), cost, planned_empty);
                let cpu_s = cost.cpu_ns as f64 / 1e9;
                self.metrics.elements.with_label_values(&["miss"]).inc();
                self.metrics.misses.with_label_values(&[reason.text()]).inc();
                self.metrics.cpu_spent.inc_by(cpu_s);
                session.counts.misses.fetch_add(1, Ordering::Relaxed);
                session.counts.spent_ns.fetch_add(cost.cpu_ns, Ordering::Relaxed);
                Committed::At(location)
            }
            Err(error) => {
                collection.release(&[item.fingerprint], session.id);
                self.refused(error.code())
            }
        }
    }

    /// Counts why an element was not stored; the lease goes back, so that nobody waits for it.
    fn refused(&self, code: &'static str) -> Committed {
        self.metrics.errors.with_label_values(&[code]).inc();
        Committed::Refused(code)
    }

    fn open_segment<'a>(
        &self,
        collection: &Collection,
        open: &'a mut Option<OpenSegment>,
    ) -> Result<&'a mut OpenSegment> {
        // One that was given up (disk full) is not appended to.
        if open
            .as_ref()
            .is_some_and(|o| self.ssd.get(o.segment().id).is_none())
        {
            *open = None;
        }
        if open.is_none() {
            *open = Some(
                self.ssd
                    .create(collection.id, &collection.graph.digest().short())?,
            );
        }
        open.as_mut().ok_or_else(|| Error::corrupt("no open segment"))
    }

    fn segment_bytes(&self) -> u64 {
        let share = self.config.ssd_bytes / SEGMENTS_PER_TIER_MIN;
        (share - share % BLOCK_BYTES).clamp(BLOCK_BYTES / 2, SEGMENT_BYTES)
    }

    /// Makes a segment durable, or gives it up. Blocking.
    pub fn close_segment(&self, collection: &Collection, open: OpenSegment) {
        let segment = Arc::clone(open.segment());
        let metadata = describe(collection, &segment);
        let closed = open.close(&self.ram, &metadata, |s, bytes| self.ssd.reserve(s, bytes));
        if closed.is_ok() {
            self.remember(collection, &segment);
        }
        self.settle(collection, &segment, closed.map(drop));
    }

    fn remember(&self, collection: &Collection, segment: &Segment) {
        let name = segment.path().file_name().unwrap_or_default();
        let record = crate::recovery::Record::of(collection, segment);
        if let Ok(value) = serde_json::to_vec(&record) {
            let _ = self
                .index
                .put(Space::Segments, &[(name.as_encoded_bytes().to_vec(), value)]);
        }
    }

    /// Gives a segment up whose writing failed; its entries are computed again when asked for.
    fn settle(&self, collection: &Collection, segment: &Segment, result: Result<()>) {
        let Err(error) = result else { return };
        if self.ssd.get(segment.id).is_none() {
            // Given up before: what failed now is writing to a file that was removed.
            let _ = segment.unlink();
            return;
        }
        self.metrics.errors.with_label_values(&[error.code()]).inc();
        match error.kind() {
            Kind::Io => self.ssd.poison(),
            _ => collection.rest_until(self.clock.monotonic() + REST),
        }
        tracing::warn!(%error, pipeline = collection.graph.pipeline(), "a segment is not kept");
        self.ssd.remove(segment.id);
    }

    /// A block to hand to a client; from SSD if need be. Blocking.
    ///
    /// # Errors
    /// `gone` if the segment was evicted or is another's; `ram-full`.
    pub fn block(&self, session: &Session, id: BlockId) -> Result<(Arc<Block>, From)> {
        let gone = || Error::new(Kind::NotFound, "gone", "the block is gone: acquire again");
        let segment = self.ssd.get(id.segment).ok_or_else(gone)?;
        self.catalog
            .get(segment.collection, &domain(session))
            .map_err(|_| gone())?;
        let block = segment.block(id.index, &self.ram);
        match &block {
            Ok((_, From::Ssd)) => self
                .metrics
                .bytes_read
                .with_label_values(&["ssd"])
                .inc_by(BLOCK_BYTES),
            Ok((_, From::Ram)) => {}
            Err(error) => {
                self.metrics.errors.with_label_values(&[error.code()]).inc();
                if error.kind() == Kind::Corrupt {
                    tracing::error!(%error, "a segment does not match its digest and is dropped");
                    self.ssd.remove(segment.id);
                }
            }
        }
        block
    }

    /// Whether a block waits for the disk: it is then in RAM whatever moka says.
    pub fn is_pinned(&self, id: BlockId) -> bool {
        self.ssd.get(id.segment).is_some_and(|s| s.is_pinned(id.index))
    }

    /// Counts what a client read through its own maps.
    pub fn served(&self, session: &Session, collection: &Collection, hits: u64, follows: u64, bypasses: u64) {
        let saved_ns = collection.served(hits, follows);
        let saved_s = saved_ns as f64 / 1e9;
        let elements = &self.metrics.elements;
        elements.with_label_values(&["hit"]).inc_by(hits);
        elements.with_label_values(&["follow"]).inc_by(follows);
        elements.with_label_values(&["bypass"]).inc_by(bypasses);
        self.metrics.cpu_saved.inc_by(saved_s);
        self.metrics
            .money_saved
            .inc_by(saved_s / 3600.0 * self.config.cpu_hour_price);
        let counts = &session.counts;
        counts.hits.fetch_add(hits, Ordering::Relaxed);
        counts.follows.fetch_add(follows, Ordering::Relaxed);
        counts.bypasses.fetch_add(bypasses, Ordering::Relaxed);
        counts.saved_ns.fetch_add(saved_ns, Ordering::Relaxed);
    }

    /// Counts reads of one block, for both tiers' policies.
    pub fn touched(&self, segment: SegmentId, block: u32, elements: u64, bytes: u64) {
        self.ram.touch(BlockId {
            segment,
            index: block,
        });
        self.metrics.bytes_read.with_label_values(&["ram"]).inc_by(bytes);
        if let Some(found) = self.ssd.get(segment) {
            let rows = found.summary().rows.max(1);
            self.ssd.touch(segment, elements as f64 / rows as f64);
        }
    }

    /// Ends a session: its leases pass on, its memory returns.
    pub fn end_session(&self, id: SessionId) {
        let Some(session) = self.sessions.close(id) else {
            return;
        };
        for collection in session.collections() {
            if let Some(collection) = self.catalog.find(collection) {
                collection.end_session(id);
            }
        }
    }

    /// Makes everything published durable. Blocking.
    pub fn sync(&self) {
        self.close_idle(Duration::ZERO);
        let _ = self.index.put(Space::Counters, &self.metrics.records());
        self.index.flush();
    }

    /// Closes segments that were not appended to for so long. Blocking.
    pub fn close_idle(&self, idle: Duration) {
        for collection in self.catalog.all() {
            let now = self.clock.monotonic();
            let mut open = collection.open.lock();
            if open
                .as_ref()
                .is_some_and(|o| now.saturating_sub(o.touched) >= idle)
            {
                let segment = open.take();
                drop(open);
                if let Some(segment) = segment {
                    self.close_segment(&collection, segment);
                }
            }
        }
    }

    /// Digests of files by trust domain and stat, where known.
    pub fn recall(&self, session: &Session, stat: &[u8]) -> Option<Digest> {
        let value = self.index.get(Space::Memo, &memo_key(session, stat)).ok()??;
        Digest::try_from(&value[..]).ok()
    }

    /// Remembers digests of files.
    pub fn memorize(&self, session: &Session, stats: Vec<(Vec<u8>, Digest)>) {
        let records: Vec<_> = stats
            .into_iter()
            .map(|(stat, digest)| (memo_key(session, &stat), digest.0.to_vec()))
            .collect();
        if let Err(error) = self.index.put(Space::Memo, &records) {
            self.metrics.errors.with_label_values(&[error.code()]).inc();
        }
    }
}

/// A user may name only his own files' digests: another's memo could poison his identity.
fn memo_key(session: &Session, stat: &[u8]) -> Vec<u8> {
    [&session.peer.uid.to_be_bytes()[..], stat].concat()
}

/// The trust domain of a session.
pub fn domain(session: &Session) -> Domain {
    Domain(format!("uid:{}", session.peer.uid))
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

/// Footer metadata that says whose elements a segment holds.
fn describe(collection: &Collection, segment: &Segment) -> Vec<(String, String)> {
    use crate::recovery::{DOMAIN, FORMAT, FORMAT_VERSION, GRAPH, PIPELINE, SUBGRAPH, SUMMARY, WRITER, hex};
    let summary = serde_json::to_string(&segment.summary()).unwrap_or_default();
    vec![
        (SUMMARY.into(), summary),
        (FORMAT.into(), FORMAT_VERSION.into()),
        (DOMAIN.into(), collection.domain.0.clone()),
        (SUBGRAPH.into(), collection.graph.digest().to_string()),
        (GRAPH.into(), hex(collection.graph.canonical())),
        (PIPELINE.into(), collection.graph.pipeline()),
        (
            WRITER.into(),
            concat!("prebaked ", env!("CARGO_PKG_VERSION")).into(),
        ),
    ]
}
