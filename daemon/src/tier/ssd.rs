//! The SSD tier: a folder of segment files within a budget, and which of them to drop.
//!
//! What is cheapest to lose goes first: GreedyDual-Size (Young, 1994; Cherkasova's GDSF, 1998) with
//! the measured cost of recomputing a segment in place of a miss: `H = L + demand * gain / bytes`,
//! where L rises to the H of each segment dropped. A newcomer displaces only what is clearly worth
//! less than itself: epochs are cyclic, and a policy that always takes the newest would keep
//! nothing long enough to be read again.

use crate::{
    error::{Error, Kind, Result},
    limits::budget::{Budget, Reservation},
    segment::{Blocks, OpenSegment, Segment, SegmentId, SegmentName, Space, Summary},
    system::{clock::Clock, random::Random},
    tier::ram::RamTier,
    vfs::{Vfs, faults::Faults},
};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

/// After this long without use a segment's demand counts half.
const DEMAND_HALF_LIFE: Duration = Duration::from_secs(3600);

/// A newcomer must be worth this much more than what it displaces. Costs are measured and noisy;
/// without a margin equal segments would displace each other in turn.
const DISPLACE_MARGIN: f64 = 1.25;

/// Dropped segments of which it is known how: 256 GiB of full ones.
const GONE_MAX: usize = 4096;

/// After a file that cannot be removed, so long nothing is evicted: a disk that removes nothing costs a segment a minute, and
/// one file that stays costs its own bytes.
const REMOVAL_PAUSE: Duration = Duration::from_secs(60);

/// Assumed until measured: reading back costs this much time per byte (2 GB/s).
const READ_NS_PER_BYTE: f64 = 0.5;

/// What was lost with an evicted segment.
pub struct Evicted {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Rows, bytes and cost.
    pub summary: Summary,
    /// Bytes it took on disk.
    pub file_bytes: u64,
}

/// Why a segment was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// To make room for a segment of this collection, which is worth more.
    Displaced(u64),
    /// To stay within the budget, with the index counted.
    Budget,
    /// Somebody asked for it (`prebake gc`).
    Asked,
    /// It does not match its digests.
    Corrupt,
    /// It could not be written.
    Unwritten,
    /// What it held did not reproduce.
    Quarantined,
}

/// How a segment was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// When, in nanoseconds since 1970.
    pub at_ns: i64,
    /// Why.
    pub why: Why,
}

struct Rank {
    demand: f64,
    touched: Duration,
    /// L when it was last used.
    floor: f64,
}

#[derive(Default)]
struct State {
    segments: HashMap<SegmentId, (Arc<Segment>, Rank)>,
    /// L of GreedyDual.
    floor: f64,
    /// Of the last segments dropped, to explain misses; in order, and how each was lost.
    dropped: VecDeque<SegmentId>,
    gone: HashMap<SegmentId, Gone>,
}

/// Segment files within a budget of bytes.
pub struct SsdTier {
    folder: PathBuf,
    vfs: Arc<dyn Vfs>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    ram: Arc<RamTier>,
    faults: Faults,
    budget: Arc<Budget>,
    state: Mutex<State>,
    next_id: AtomicU32,
    read_only: AtomicBool,
    on_evict: Box<dyn Fn(&Evicted) + Send + Sync>,
    /// Dropped, but their files could not be removed: those bytes count until they can.
    left_behind: Mutex<Vec<Arc<Segment>>>,
    /// When to try again whether another can.
    removes_again: Mutex<Duration>,
}

impl SsdTier {
    /// A tier over `folder`, which exists.
    pub fn new(
        folder: PathBuf,
        budget: Arc<Budget>,
        vfs: Arc<dyn Vfs>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        ram: Arc<RamTier>,
        on_evict: impl Fn(&Evicted) + Send + Sync + 'static,
    ) -> Self {
        Self {
            folder,
            vfs,
            faults: Faults::new(Arc::clone(&clock)),
            clock,
            random,
            ram,
            budget,
            state: Mutex::default(),
            next_id: AtomicU32::new(1),
            read_only: AtomicBool::new(false),
            on_evict: Box::new(on_evict),
            left_behind: Mutex::default(),
            removes_again: Mutex::default(),
        }
    }

    /// Starts a segment for a collection; `label` begins its file name.
    ///
    /// # Errors
    /// `ssd-read-only` after a failed sync; as the file system says.
    pub fn create(&self, collection: u64, label: &str) -> Result<OpenSegment> {
        if self.read_only.load(Ordering::Acquire) {
            return Err(Error::new(
                Kind::Io,
                "ssd-read-only",
                "a sync failed: nothing more is stored until the daemon is restarted",
            ));
        }
        let (id, name) = (self.next_id(), SegmentName::draw(&*self.random)?);
        let path = self.folder.join(name.file_name(label));
        let now = self.clock.monotonic();
        let vfs = Arc::clone(&self.vfs);
        let open = OpenSegment::create(id, name, collection, path, vfs, self.nothing(), now)?;
        self.add(Arc::clone(open.segment()));
        Ok(open)
    }

    /// Takes in a segment found at start. Its bytes count even beyond the budget.
    pub fn adopt(
        &self,
        file_name: &str,
        name: SegmentName,
        collection: u64,
        bytes: u64,
        summary: Summary,
    ) -> Arc<Segment> {
        let mut space = self.nothing();
        space.disk.set(bytes);
        let path = self.folder.join(file_name);
        let vfs = Arc::clone(&self.vfs);
        let segment = Segment::found(self.next_id(), name, collection, path, vfs, space, summary);
        let segment = Arc::new(segment);
        self.add(Arc::clone(&segment));
        segment
    }

    fn next_id(&self) -> SegmentId {
        SegmentId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    fn nothing(&self) -> Space {
        Space {
            disk: self.budget.nothing(),
            rows: self.ram.rows().nothing(),
        }
    }

    fn add(&self, segment: Arc<Segment>) {
        let mut state = self.state.lock();
        let rank = Rank {
            demand: 1.0,
            touched: self.clock.monotonic(),
            floor: state.floor,
        };
        state.segments.insert(segment.id, (segment, rank));
    }

    /// A segment, unless it was evicted.
    pub fn get(&self, id: SegmentId) -> Option<Arc<Segment>> {
        Some(Arc::clone(&self.state.lock().segments.get(&id)?.0))
    }

    /// All segments.
    pub fn all(&self) -> Vec<Arc<Segment>> {
        let state = self.state.lock();
        state.segments.values().map(|(s, _)| Arc::clone(s)).collect()
    }

    /// Counts reads: `share` is elements read over elements held.
    pub fn touch(&self, id: SegmentId, share: f64) {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        let floor = state.floor;
        if let Some((_, rank)) = state.segments.get_mut(&id) {
            rank.demand = rank.decayed(now) + share;
            rank.touched = now;
            rank.floor = floor;
        }
    }

    /// Makes room for `segment` to take `bytes` on disk, at the cost of segments worth less.
    ///
    /// # Errors
    /// `ssd-full` if all that is stored is worth as much; `gone` if the segment was given up.
    pub fn reserve(&self, segment: &Segment, bytes: u64) -> Result<()> {
        loop {
            if self.get(segment.id).is_none() {
                return Err(Error::new(Kind::NotFound, "gone", "the segment was given up"));
            }
            let result = segment.space().disk.resize(bytes);
            let why = Why::Displaced(segment.collection);
            if result.is_ok() || !self.evict_below(Some(segment.id), why) {
                return result;
            }
        }
    }

    /// Grows `space`, for what else lies under the same budget, to `bytes` at the cost of segments.
    ///
    /// # Errors
    /// `ssd-full` if evicting all of them is not enough.
    pub fn reserve_beside(&self, space: &mut Reservation, bytes: u64) -> Result<()> {
        loop {
            let result = space.resize(bytes);
            if result.is_ok() || !self.evict_below(None, Why::Budget) {
                return result;
            }
        }
    }

    /// Evicts until at most `bytes_max` are in use; what is being written stays.
    pub fn shrink(&self, bytes_max: u64, why: Why) {
        while self.budget.used() > bytes_max && self.evict_below(None, why) {}
    }

    /// Drops the least valuable durable segment, if it is worth clearly less than `newcomer`; whether that freed its bytes.
    fn evict_below(&self, newcomer: Option<SegmentId>, why: Why) -> bool {
        let now = self.clock.monotonic();
        let (has_freed, left) = self.free_left_behind();
        // Where no file can be removed, dropping more segments would lose them and free nothing.
        if has_freed || left.is_some() && now < *self.removes_again.lock() {
            return has_freed;
        }
        let mut state = self.state.lock();
        let bar = newcomer
            .and_then(|id| state.segments.get(&id))
            .map_or(f64::INFINITY, |(segment, rank)| {
                rank.value(segment, now) / DISPLACE_MARGIN
            });
        let least = state
            .segments
            .values()
            .filter(|(segment, _)| segment.is_durable() && Some(segment.id) != newcomer)
            .map(|(segment, rank)| (rank.value(segment, now), segment.id))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let Some((value, id)) = least.filter(|(value, _)| *value < bar) else {
            return false;
        };
        state.floor = state.floor.max(value);
        drop(state);
        self.remove(id, why)
    }

    /// Drops a segment: evicted, corrupt, or never finished. Whether it is in nobody's way any more.
    pub fn remove(&self, id: SegmentId, why: Why) -> bool {
        let mut state = self.state.lock();
        let Some((segment, _)) = state.segments.remove(&id) else {
            // Another was quicker.
            return true;
        };
        let at_ns = self.clock.wall_ns();
        state.gone.insert(id, Gone { at_ns, why });
        state.dropped.push_back(id);
        if state.dropped.len() > GONE_MAX {
            let oldest = state.dropped.pop_front();
            oldest.and_then(|oldest| state.gone.remove(&oldest));
        }
        drop(state);
        let unlinked = segment.unlink();
        self.ram.forget(id, segment.blocks());
        let evicted = Evicted {
            summary: segment.summary(),
            file_bytes: segment.file_bytes(),
            segment: Arc::clone(&segment),
        };
        if unlinked.is_ok() {
            // Its bytes are free from here on, whoever still holds the segment.
            let _ = segment.space().disk.resize(0);
        }
        if segment.is_durable() {
            (self.on_evict)(&evicted);
        }
        let Err(error) = unlinked else { return true };
        self.faults.tell(
            "a segment's file cannot be removed, and counts until it can",
            &error,
        );
        self.left_behind.lock().push(segment);
        *self.removes_again.lock() = self.clock.monotonic() + REMOVAL_PAUSE;
        false
    }

    /// Removes files that could not be removed before; whether any could, and why others cannot.
    fn free_left_behind(&self) -> (bool, Option<Error>) {
        let mut left = self.left_behind.lock();
        let (before, mut failed) = (left.len(), None);
        left.retain(|segment| match segment.unlink() {
            Ok(()) => segment.space().disk.resize(0).is_err(),
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        (left.len() < before, failed)
    }

    /// Makes it durable that segments were dropped: no crash brings them back from then on.
    ///
    /// # Errors
    /// As the file system says.
    pub fn sync_removed(&self) -> Result<()> {
        let (_, left) = self.free_left_behind();
        left.map_or_else(|| self.vfs.sync_folder(&self.folder), Err)
    }

    /// How a segment was lost, if that was lately.
    pub fn gone(&self, id: SegmentId) -> Option<Gone> {
        self.state.lock().gone.get(&id).copied()
    }

    /// Stops writing for good: after a failed sync the kernel may have dropped dirty pages and call
    /// them clean (Rebello et al., ATC'20), so a second sync would prove nothing.
    pub fn poison(&self) {
        self.read_only.store(true, Ordering::Release);
    }

    /// Whether a sync failed.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    /// What the disk fails with.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Bytes on disk and the limit.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The folder of segment files.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// Room for what else lies in the folder's file system under the same budget.
    ///
    /// # Errors
    /// None: zero bytes always fit.
    pub fn side_reservation(&self) -> Result<Reservation> {
        self.budget.reserve(0)
    }
}

impl Rank {
    fn decayed(&self, now: Duration) -> f64 {
        let age = now.saturating_sub(self.touched).as_secs_f64();
        self.demand * (-age / DEMAND_HALF_LIFE.as_secs_f64()).exp2()
    }

    /// H: CPU nanoseconds lost per byte freed, on top of the floor.
    fn value(&self, segment: &Segment, now: Duration) -> f64 {
        let summary = segment.summary();
        // Of what is not written yet it is not known what LZ4 makes of it.
        let unwritten = if segment.is_durable() {
            0
        } else {
            summary.value_len
        };
        let bytes = segment.file_bytes().max(unwritten).max(1) as f64;
        let gain = (summary.cpu_ns as f64 - summary.value_len as f64 * READ_NS_PER_BYTE).max(0.0);
        self.floor + self.decayed(now) * gain / bytes
    }
}
