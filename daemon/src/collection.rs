//! A collection: all entries of one subgraph in one trust domain, and who is computing the rest.

use crate::{
    clock::Clock,
    error::Kind,
    lease::{Holder, LeaseTable, Token},
    segment::{Cost, Location, OpenSegment, SegmentId, Table},
    session::SessionId,
    tier::ssd::{Gone, SsdTier, Why},
};
use parking_lot::Mutex;
use prebake_fingerprint::{Digest, Graph};
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::sync::Notify;

/// How many changed items `status` names.
const CHANGED_ITEMS_MAX: usize = 16;

/// Ghosts of a collection, which explain misses. Past so many, or a quarter of its entries, all are forgotten.
pub const GHOSTS_MAX: usize = 100_000;

/// Who may serve each other's entries. Today: one user, as the kernel names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Domain(pub String);

/// The first half of an input fingerprint: enough to find; the full one is compared in the segment.
type Tag = [u8; 16];

/// Where an entry's row is, or was: a slot whose segment is gone is the entry's ghost.
#[derive(Debug, Clone, Copy)]
struct Slot {
    segment: SegmentId,
    row: u32,
}

/// What the caller is told about one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is there.
    Hit(Location),
    /// The caller computes it under this token.
    Granted(Token),
    /// Another session computes it.
    Held,
    /// Nobody does, and the caller has leases enough.
    Free,
    /// Compute it and do not store it: there is no room for this collection now.
    Bypass,
}

/// An item asked for.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its input fingerprint.
    pub fingerprint: Digest,
    /// What a person calls it.
    pub name: String,
}

/// Why an entry had to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Its collection had no entries when the job planned.
    NewGraph,
    /// The collection has others, but none for an item of this name.
    NewInput,
    /// It has one for other content under this name.
    InputChanged,
    /// It had this one; its segment was dropped.
    Evicted,
    /// It had this one, or may have had; its segment did not match its digests.
    Corrupt,
    /// A job was computing it and failed.
    FillFailed,
}

impl Reason {
    /// As `status` and metrics spell it.
    pub fn text(self) -> &'static str {
        match self {
            Self::NewGraph => "new graph",
            Self::NewInput => "new input",
            Self::InputChanged => "input changed",
            Self::Evicted => "evicted",
            Self::Corrupt => "corrupt",
            Self::FillFailed => "fill failed",
        }
    }
}

/// Who made a collection, and when.
#[derive(Debug, Default, Clone)]
pub struct Origin {
    /// Nanoseconds since 1970; 0 if not known.
    pub made_ns: i64,
    /// The job's name.
    pub job: String,
    /// Its process.
    pub pid: u32,
}

/// The most similar collection there was when another was made.
#[derive(Debug, Default, Clone)]
pub struct Nearest {
    /// Its number.
    pub collection: Option<u64>,
    /// The first difference, in words.
    pub differs: String,
}

/// Why an entry had to be computed, and if it was lost, how.
#[derive(Debug, Clone)]
pub struct Missed {
    /// Why.
    pub reason: Reason,
    /// What became of its segment.
    pub gone: Option<Gone>,
}

/// Counted since the daemon started.
#[derive(Debug, Default, Clone)]
pub struct Stats {
    /// Elements found.
    pub hits: u64,
    /// Elements followed.
    pub follows: u64,
    /// Elements computed and stored.
    pub misses: u64,
    /// CPU time spent on misses.
    pub spent_ns: u64,
    /// CPU time saved by hits and follows.
    pub saved_ns: u64,
    /// Hits that were computed again and compared.
    pub verified: u64,
    /// Of these, not the same.
    pub mismatches: u64,
    /// CPU time spent on that.
    pub verify_ns: u64,
    /// Misses by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// The last items whose content changed.
    pub changed: VecDeque<String>,
}

#[derive(Default)]
struct State {
    loaded: bool,
    /// A segment that could not be read and was dropped: what lay in it is not known.
    unread: Option<SegmentId>,
    /// Segments whose rows are in `slots`.
    entered: HashSet<SegmentId>,
    slots: HashMap<Tag, Slot>,
    /// Slots that were no ghosts when they were last looked through.
    lived: usize,
    /// Hash of an item's name -> tag of its last fingerprint, to tell a change from a new item.
    names: HashMap<u64, Tag>,
    leases: LeaseTable,
    /// Nothing is served nor stored, and why.
    quarantined: Option<Arc<str>>,
    /// Until then nothing more is stored: all that is stored already is worth as much.
    resting_until: Duration,
    /// Rows and CPU time seen, for the mean cost of one element.
    rows: u64,
    cpu_ns: u64,
    stats: Stats,
}

/// All entries of one subgraph in one trust domain.
pub struct Collection {
    /// Its number until the daemon restarts.
    pub id: u64,
    /// Whose it is.
    pub domain: Domain,
    /// Its canonical graph.
    pub graph: Graph,
    /// Who made it.
    pub origin: Origin,
    /// Against which it was compared when it was made.
    pub nearest: Nearest,
    /// Whether what explains it is in the index.
    pub noted: AtomicBool,
    state: Mutex<State>,
    changed: Notify,
    /// The segment that commits append to. Taken before `state`, never after.
    pub open: Mutex<Option<OpenSegment>>,
}

/// What one session asks for.
pub struct Request<'a> {
    /// Who asks.
    pub session: SessionId,
    /// Cannot go on without.
    pub wanted: &'a [Item],
    /// Will need too.
    pub ahead: &'a [Item],
    /// Leases it takes at once.
    pub leases_max: usize,
    /// How long it may hold them.
    pub lease: Duration,
    /// All that it may ever want.
    pub items: u64,
}

/// Answers to a [`Request`]: wanted first, then ahead.
pub struct Answers {
    /// One for each item.
    pub answers: Vec<Answer>,
    /// Leases taken over from holders that let their deadline pass.
    pub takeovers: u64,
    /// The caller has nothing to do but wait.
    pub wait: bool,
    /// Why nothing of it is served nor stored, if that is so.
    pub quarantined: Option<Arc<str>>,
}

impl Collection {
    /// A collection without entries.
    pub fn new(id: u64, domain: Domain, graph: Graph, origin: Origin, nearest: Nearest) -> Self {
        Self {
            id,
            domain,
            graph,
            origin,
            nearest,
            noted: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Notify::new(),
            open: Mutex::default(),
        }
    }

    /// Whether [`Collection::load`] has nothing left to do.
    pub fn is_loaded(&self) -> bool {
        self.state.lock().loaded
    }

    /// Reads the rows of segments found at start, once.
    pub fn load(&self, ssd: &SsdTier) {
        if self.state.lock().loaded {
            return;
        }
        let mut whole = true;
        for segment in ssd.all().into_iter().filter(|s| s.collection == self.id) {
            match segment.load(self) {
                Err(error) if error.kind() == Kind::Corrupt => {
                    tracing::warn!(%error, file = %segment.path().display(), "dropping a segment");
                    ssd.remove(segment.id, Why::Corrupt);
                    self.state.lock().unread = Some(segment.id);
                }
                Err(error) => {
                    // Out of descriptors, say: the file is as good as before, and tried again.
                    tracing::warn!(%error, file = %segment.path().display(), "a segment is not read now");
                    whole = false;
                }
                Ok(()) => {
                    // Locks are taken in this order everywhere: collection, then segment.
                    let mut state = self.state.lock();
                    segment.with_rows(|table| state.enter(segment.id, table));
                }
            }
        }
        self.state.lock().loaded = whole;
    }

    /// Answers for each item, granting what is free. Never blocks.
    pub fn acquire(&self, request: &Request<'_>, ssd: &SsdTier, clock: &dyn Clock) -> Answers {
        let now = clock.monotonic();
        let mut state = self.state.lock();
        state.forget_ghosts(ssd);
        let mut grants = Grants {
            left: request.leases_max.min(state.fair_share(request, now)),
            made: 0,
            takeovers: 0,
        };
        let mut answers: Vec<_> = request
            .wanted
            .iter()
            .map(|item| state.answer(item, request, &mut grants, ssd, now))
            .collect();
        let held = answers.contains(&Answer::Held);
        let mine = answers.iter().any(|a| matches!(a, Answer::Granted(_)));
        // Running ahead is for those who would else wait.
        if !held || mine {
            grants.left = 0;
        }
        answers.extend(
            request
                .ahead
                .iter()
                .map(|item| state.answer(item, request, &mut grants, ssd, now)),
        );
        Answers {
            wait: held && !mine && grants.made == 0,
            takeovers: grants.takeovers,
            quarantined: state.quarantined.clone(),
            answers,
        }
    }

    /// A future that ends at the next commit, release or end of a session here. To be made before
    /// looking, so that nothing in between is missed.
    pub fn next_change(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Whether a session may commit an entry under this token.
    pub fn may_commit(&self, entry: &Digest, session: SessionId, token: Token) -> bool {
        self.state.lock().leases.is_held(entry, session, token)
    }

    /// Makes a committed element an entry, ends its lease and wakes its followers: in one step, or
    /// somebody in between would find neither and compute it again.
    pub fn insert(
        &self,
        session: SessionId,
        item: &Item,
        row: (SegmentId, u32),
        cost: Cost,
        planned_empty: bool,
        ssd: &SsdTier,
    ) -> Missed {
        let mut state = self.state.lock();
        state.leases.release(item.fingerprint, session);
        let missed = state.missed(item, planned_empty, ssd);
        let reason = missed.reason;
        let tag = tag(&item.fingerprint);
        let (segment, row) = row;
        state.slots.insert(tag, Slot { segment, row });
        state.entered.insert(segment);
        state.names.insert(name_hash(&item.name), tag);
        state.rows += 1;
        state.cpu_ns += cost.cpu_ns;
        let stats = &mut state.stats;
        stats.misses += 1;
        stats.spent_ns += cost.cpu_ns;
        *stats.reasons.entry(reason.text()).or_default() += 1;
        if reason == Reason::InputChanged {
            stats.changed.push_back(item.name.clone());
            if stats.changed.len() > CHANGED_ITEMS_MAX {
                stats.changed.pop_front();
            }
        }
        drop(state);
        self.changed.notify_waiters();
        missed
    }

    /// Gives leases back.
    pub fn release(&self, entries: &[Digest], session: SessionId) {
        let mut state = self.state.lock();
        for entry in entries {
            state.leases.release(*entry, session);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends the leases of a session that died.
    pub fn end_session(&self, session: SessionId) -> usize {
        let ended = self.state.lock().leases.end_session(session);
        self.changed.notify_waiters();
        ended
    }

    /// Stops granting leases for a while: what would be computed under them could not be kept, and
    /// running ahead for nothing costs more than no cache.
    pub fn rest_until(&self, until: Duration) {
        self.state.lock().resting_until = until;
        self.changed.notify_waiters();
    }

    /// Begins or ends its quarantine: why nothing of it is served nor stored.
    pub fn quarantine(&self, why: Option<Arc<str>>) {
        self.state.lock().quarantined = why;
        // Whoever waits for an entry computes it.
        self.changed.notify_waiters();
    }

    /// Why nothing of it is served nor stored, if that is so.
    pub fn quarantined(&self) -> Option<Arc<str>> {
        self.state.lock().quarantined.clone()
    }

    /// Counts hits computed again, those of them that were not the same, and what that cost.
    pub fn verified(&self, hits: u64, mismatches: u64, cpu_ns: u64) {
        let stats = &mut self.state.lock().stats;
        stats.verified += hits;
        stats.mismatches += mismatches;
        stats.verify_ns += cpu_ns;
    }

    /// Leases of a session.
    pub fn leases_of(&self, session: SessionId) -> usize {
        self.state.lock().leases.held_by(session)
    }

    /// Counts elements served; the CPU time that saved, in nanoseconds.
    pub fn served(&self, hits: u64, follows: u64) -> u64 {
        let mut state = self.state.lock();
        let mean = state.cpu_ns.checked_div(state.rows).unwrap_or(0);
        let saved = mean.saturating_mul(hits.saturating_add(follows));
        state.stats.hits += hits;
        state.stats.follows += follows;
        state.stats.saved_ns += saved;
        saved
    }

    /// Whether a shim keeps in it what it found out about a pipeline, rather than what that yields: nothing that a user
    /// wrote, and nothing to explain.
    pub fn is_bookkeeping(&self) -> bool {
        let output = self
            .graph
            .operators()
            .iter()
            .find(|o| o.id == self.graph.output());
        output.is_some_and(|o| o.name.starts_with("prebake."))
    }

    /// Entries made, ghosts included.
    pub fn entries(&self) -> u64 {
        self.state.lock().slots.len() as u64
    }

    /// CPU time and number of the elements computed or found, for the mean cost of one.
    pub fn cost(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.cpu_ns, state.rows)
    }

    /// Whether no entry was ever made.
    pub fn is_empty(&self) -> bool {
        self.state.lock().slots.is_empty()
    }

    /// Counts so far.
    pub fn stats(&self) -> Stats {
        self.state.lock().stats.clone()
    }
}

struct Grants {
    left: usize,
    made: usize,
    takeovers: u64,
}

impl State {
    fn enter(&mut self, segment: SegmentId, table: &Table) {
        if !self.entered.insert(segment) {
            return;
        }
        for row in 0..table.len() {
            let tag = tag(table.fingerprint(row));
            let slot = Slot {
                segment,
                row: row as u32,
            };
            self.slots.insert(tag, slot);
            self.names.insert(name_hash(table.name(row)), tag);
        }
        self.rows += table.len() as u64;
        self.cpu_ns += table.cpu_ns();
    }

    /// Forgets entries whose segments are gone, if there may be too many.
    fn forget_ghosts(&mut self, ssd: &SsdTier) {
        // Seldom enough that it costs little for each entry made.
        if self.slots.len() <= self.lived + GHOSTS_MAX.max(self.lived / 4) {
            return;
        }
        self.entered.retain(|segment| ssd.get(*segment).is_some());
        let (slots, names, entered) = (&mut self.slots, &mut self.names, &self.entered);
        slots.retain(|_, slot| entered.contains(&slot.segment));
        names.retain(|_, tag| slots.contains_key(tag));
        self.lived = self.slots.len();
    }

    fn locate(&self, entry: &Digest, ssd: &SsdTier) -> Option<Location> {
        let slot = self.slots.get(&tag(entry))?;
        ssd.get(slot.segment)?.locate(slot.row, entry)
    }

    /// Leases that a job may take at once if it is to be done when the others are: half of its part of what is left (guided
    /// self-scheduling, Polychronopoulos and Kuck, 1987). At least one.
    fn fair_share(&self, request: &Request<'_>, now: Duration) -> usize {
        let holders = self.leases.holders(request.session, now);
        if holders < 2 {
            return usize::MAX;
        }
        let leased = self.leases.count() as u64;
        let left = request.items.saturating_sub(self.rows + leased) as usize;
        // Other data sets may have entries here too: then what is asked for tells.
        let free = |item: &&Item| {
            let entry = &item.fingerprint;
            !self.slots.contains_key(&tag(entry))
                && self.leases.holder(entry, request.session, now) == Holder::Nobody
        };
        let asked = request.wanted.iter().chain(request.ahead).filter(free).count();
        (left.max(asked) / (2 * holders)).max(1)
    }

    fn answer(
        &mut self,
        item: &Item,
        request: &Request<'_>,
        grants: &mut Grants,
        ssd: &SsdTier,
        now: Duration,
    ) -> Answer {
        if self.quarantined.is_some() {
            return Answer::Bypass;
        }
        let entry = &item.fingerprint;
        if let Some(location) = self.locate(entry, ssd) {
            return Answer::Hit(location);
        }
        match self.leases.holder(entry, request.session, now) {
            Holder::Other => Answer::Held,
            Holder::Caller(token) => {
                grants.made += 1;
                Answer::Granted(token)
            }
            Holder::Nobody if now < self.resting_until => Answer::Bypass,
            Holder::Nobody if grants.left == 0 => Answer::Free,
            Holder::Nobody => {
                let until = now + request.lease;
                let (token, takeover) = self.leases.grant(*entry, request.session, until);
                grants.left -= 1;
                grants.made += 1;
                grants.takeovers += u64::from(takeover);
                Answer::Granted(token)
            }
        }
    }

    fn missed(&self, item: &Item, planned_empty: bool, ssd: &SsdTier) -> Missed {
        let lost = self.slots.get(&tag(&item.fingerprint)).map(|slot| slot.segment);
        let known = self.names.contains_key(&name_hash(&item.name));
        let gone = lost
            .or(self.unread.filter(|_| !known))
            .and_then(|id| ssd.gone(id));
        let corrupt = gone.as_ref().is_some_and(|gone| gone.why == Why::Corrupt);
        let reason = match known {
            _ if corrupt => Reason::Corrupt,
            _ if lost.is_some() => Reason::Evicted,
            true => Reason::InputChanged,
            false if planned_empty => Reason::NewGraph,
            false => Reason::NewInput,
        };
        Missed { reason, gone }
    }
}

fn tag(entry: &Digest) -> Tag {
    let mut tag = [0; 16];
    tag.copy_from_slice(&entry.0[..16]);
    tag
}

fn name_hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}
