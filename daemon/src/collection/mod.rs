//! A collection: all entries of one subgraph in one trust domain, and who is computing the rest.

pub mod catalog;
pub mod entries;
pub(crate) mod fingerprint_tag;
pub mod graphs;
mod kind;
pub mod lease;
pub(crate) mod name_filter;
pub(crate) mod reason;
pub(crate) mod request;
pub(crate) mod row_load;
pub(crate) mod stats;
pub mod worlds;

pub use crate::collection::{
    reason::{Missed, Reason},
    request::{Answer, Answers, Item, Request},
    stats::Stats,
};
use crate::{
    collection::{
        entries::Entries,
        fingerprint_tag::{Tag, Tagger},
        lease::{Holder, LEASES_MAX, LeaseTable, Token},
        name_filter::NameFilter,
        worlds::Worlds,
    },
    domain::Domain,
    error::Result,
    segment::{Cost, OpenSegment, Owner, Segment, SegmentId},
    session::SessionId,
    system::{clock::Clock, random::Random},
    tier::ssd::{SsdTier, Why},
};
use parking_lot::Mutex;
use prebake_fingerprint::{Digest, Graph};
use std::{
    collections::HashSet,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::sync::Notify;

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

#[derive(Default)]
pub(crate) struct State {
    /// Segments found at start whose rows were not read yet.
    pub(crate) found: Vec<Arc<Segment>>,
    /// A segment that could not be read and was dropped: what lay in it is not known.
    pub(crate) unread: Option<SegmentId>,
    pub(crate) entries: Entries,
    leases: LeaseTable,
    /// Nothing is served nor stored, and why.
    quarantined: Option<Arc<str>>,
    /// Until then nothing more is stored: all that is stored already is worth as much.
    resting_until: Duration,
    /// Rows and CPU time seen, for the mean cost of one element.
    pub(crate) rows: u64,
    pub(crate) cpu_ns: u64,
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
    /// In which worlds its entries were made, or found to be the same.
    pub worlds: Worlds,
    pub(crate) tagger: Tagger,
    pub(crate) state: Mutex<State>,
    /// Held while segments found at start are read, so that each is read once. Taken before `state`.
    pub(crate) loading: Mutex<()>,
    changed: Notify,
    /// The segment that commits append to. Taken before `state`, never after.
    pub open: Mutex<Option<OpenSegment>>,
}

impl Collection {
    /// Whose elements its segments hold.
    pub fn owner(&self) -> Owner<'_> {
        Owner {
            domain: &self.domain,
            graph: &self.graph,
        }
    }

    /// A collection without entries.
    ///
    /// # Errors
    /// As [`Random::fill`].
    pub fn new(
        id: u64,
        domain: Domain,
        graph: Graph,
        origin: Origin,
        nearest: Nearest,
        random: &dyn Random,
    ) -> Result<Self> {
        Ok(Self {
            id,
            domain,
            graph,
            origin,
            nearest,
            noted: AtomicBool::new(false),
            worlds: Worlds::default(),
            tagger: Tagger::new(random)?,
            state: Mutex::default(),
            loading: Mutex::default(),
            changed: Notify::new(),
            open: Mutex::default(),
        })
    }

    /// Answers for each item, granting what is free. Never blocks.
    pub fn acquire(&self, request: &Request<'_>, clock: &dyn Clock) -> Answers {
        let now = clock.monotonic();
        let tagged = |items: &[Item]| {
            items
                .iter()
                .map(|item| self.tagger.tag(&item.fingerprint))
                .collect()
        };
        let tags: [Vec<Tag>; 2] = [tagged(request.wanted), tagged(request.ahead)];
        let [wanted, ahead] = [(request.wanted, &tags[0]), (request.ahead, &tags[1])]
            .map(|(items, tags)| items.iter().zip(tags.iter().copied()));
        let mut state = self.state.lock();
        state.entries.forget_ghosts();
        let mut grants = Grants {
            left: request
                .leases_max
                .min(state.fair_share(request, wanted.clone().chain(ahead.clone()), now)),
            made: 0,
            takeovers: 0,
        };
        let mut answers = Vec::with_capacity(request.wanted.len() + request.ahead.len());
        answers.extend(wanted.map(|asked| state.answer(asked, request, &mut grants, now)));
        let held = answers.contains(&Answer::Held);
        let mine = answers.iter().any(|a| matches!(a, Answer::Granted(_)));
        // Running ahead is for those who would else wait.
        if !held || mine {
            grants.left = 0;
        }
        answers.extend(ahead.map(|asked| state.answer(asked, request, &mut grants, now)));
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
    /// somebody in between would find neither and compute it again. While it was copied its session may have ended and
    /// another been granted the entry: that lease ends too, and nothing is stored twice.
    pub fn insert(
        &self,
        item: &Item,
        row: (&Arc<Segment>, u32),
        cost: Cost,
        planned_empty: bool,
        ssd: &SsdTier,
    ) -> Missed {
        let (tag, name) = (self.tagger.tag(&item.fingerprint), NameFilter::hash(&item.name));
        let mut state = self.state.lock();
        state.leases.end(item.fingerprint);
        let missed = state.missed(tag, name, planned_empty, ssd);
        let (segment, row) = row;
        state.entries.insert(segment, row, tag, name);
        state.rows += 1;
        state.cpu_ns += cost.cpu_ns;
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

    /// Gives a lease back whose element is not stored. Who was granted it since keeps it.
    pub fn give_back(&self, entry: Digest, session: SessionId, token: Token) {
        self.state.lock().leases.give_back(entry, session, token);
        self.changed.notify_waiters();
    }

    /// Sessions that hold leases now.
    pub fn holders(&self, now: Duration) -> HashSet<SessionId> {
        self.state.lock().leases.live(now)
    }

    /// Lets others have what a session holds and does not compute.
    pub fn expire(&self, session: SessionId, now: Duration) {
        self.state.lock().leases.expire(session, now);
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

    /// Leases of a session.
    pub fn leases_of(&self, session: SessionId) -> usize {
        self.state.lock().leases.held_by(session)
    }

    /// Entries made, ghosts included.
    pub fn entries(&self) -> u64 {
        self.state.lock().entries.len() as u64
    }

    /// CPU time and number of the elements computed or found, for the mean cost of one.
    pub fn cost(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.cpu_ns, state.rows)
    }

    /// Whether no entry was ever made.
    pub fn is_empty(&self) -> bool {
        self.state.lock().entries.is_empty()
    }
}

struct Grants {
    left: usize,
    made: usize,
    takeovers: u64,
}

impl State {
    /// Leases that a job may take at once if it is to be done when the others are: half of its part of what is left (guided
    /// self-scheduling, Polychronopoulos and Kuck, 1987). At least one, as long as it has fewer than it may.
    fn fair_share<'a>(
        &self,
        request: &Request<'_>,
        asked: impl Iterator<Item = (&'a Item, Tag)>,
        now: Duration,
    ) -> usize {
        let room = LEASES_MAX.saturating_sub(self.leases.held_by(request.session));
        let holders = self.leases.holders(request.session, now);
        if request.leases_max == 0 || holders < 2 {
            return room;
        }
        let leased = self.leases.count() as u64;
        let left = request.items.saturating_sub(self.rows + leased) as usize;
        // Other data sets may have entries here too: then what is asked for tells.
        let free = |(item, tag): &(&Item, Tag)| {
            let holder = self.leases.holder(&item.fingerprint, request.session, now);
            !self.entries.contains(*tag) && holder == Holder::Nobody
        };
        let asked = asked.filter(free).count();
        (left.max(asked) / (2 * holders)).max(1).min(room)
    }

    fn answer(
        &mut self,
        (item, tag): (&Item, Tag),
        request: &Request<'_>,
        grants: &mut Grants,
        now: Duration,
    ) -> Answer {
        if self.quarantined.is_some() {
            return Answer::Bypass;
        }
        if let Some(location) = self.entries.locate(tag) {
            return Answer::Hit(location);
        }
        let entry = &item.fingerprint;
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

    fn missed(&self, tag: Tag, name: u64, planned_empty: bool, ssd: &SsdTier) -> Missed {
        let lost = self.entries.segment_of(tag);
        let known = self.entries.knows(name);
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
