//! How elements become durable: out of a client's memory into the open segment, behind that onto the SSD, and what
//! happens to a segment that cannot be written.

use crate::{
    cache::{Cache, collection_notes},
    collection::{Collection, Item, lease::Token},
    error::{Error, Kind, Result},
    index::Space,
    memory::{BLOCK_BYTES, BlockWriter, Staging, heap},
    segment::{Cost, ELEMENT_BYTES_MAX, Location, OpenSegment, Row, Segment, WriteBehind, description},
    session::Session,
    system::task,
    tier::ssd::Why,
};
use std::{sync::Arc, time::Duration};

/// Size at which a segment is closed: large enough that one sync serves hundreds of elements, small
/// enough to be a unit of eviction.
const SEGMENT_BYTES: u64 = 64 << 20;

/// Rows at which it is closed too: elements of a few bytes would else make a table of many times their size.
const SEGMENT_ROWS: u64 = 1 << 18;

/// Segments of a small SSD tier are smaller, so that evicting one is not evicting all.
const SEGMENTS_PER_TIER_MIN: u64 = 8;

/// After a segment found no room, its collection stores nothing for this long: room comes with
/// evictions, which take at least as long.
const REST: Duration = Duration::from_secs(10);

/// How long a sync waits for segments that are being closed, and how often it looks. A segment is 64 MiB.
const CLOSING_MAX: Duration = Duration::from_secs(30);
const CLOSING_PAUSE: Duration = Duration::from_millis(5);

/// An element handed over.
pub struct Element {
    /// Which entry it is.
    pub item: Item,
    /// The lease it was computed under.
    pub token: Token,
    /// How its bytes make up the value.
    pub layout: String,
    /// Where it lies in what it is copied from.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// What it cost.
    pub cost: Cost,
}

/// What elements are copied from.
pub trait Source {
    /// Bytes of it.
    fn bytes(&self) -> u64;

    /// Appends exactly these bytes to a block, which has room for them.
    ///
    /// # Errors
    /// If the range is not inside; as [`BlockWriter::append`]. Then nothing was appended.
    fn append(&self, offset: u64, len: usize, to: &mut BlockWriter) -> Result<()>;
}

impl Source for Staging {
    fn bytes(&self) -> u64 {
        Self::bytes(self)
    }

    fn append(&self, offset: u64, len: usize, to: &mut BlockWriter) -> Result<()> {
        Self::append(self, offset, len, to)
    }
}

/// What came of one element of a commit.
pub enum Committed {
    /// Published there.
    At(Location),
    /// Not stored, and why.
    Refused(&'static str),
}

impl Cache {
    /// Copies elements out of a client's memory into the collection's open segment and publishes them.
    /// Blocking.
    pub fn commit(
        self: &Arc<Self>,
        session: &Session,
        collection: &Arc<Collection>,
        source: &dyn Source,
        elements: Vec<Element>,
    ) -> Vec<Committed> {
        let mut open = collection.open.lock();
        let committed = elements
            .into_iter()
            .map(|element| self.commit_one(session, collection, source, &mut open, element))
            .collect();
        let full = open.as_ref().is_some_and(|o| {
            let held = o.segment().summary();
            held.value_len >= self.segment_bytes() || held.rows >= SEGMENT_ROWS
        });
        let closing = if full { open.take() } else { None };
        let behind = open.as_ref().and_then(|open| open.write_behind(&*self.ram));
        let must_wait = open.as_ref().is_some_and(|open| open.is_behind(&*self.ram));
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
            let written = behind.run(&*self.ram, &mut |s, bytes| self.ssd.reserve(s, bytes));
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
        source: &dyn Source,
        open: &mut Option<OpenSegment>,
        element: Element,
    ) -> Committed {
        let Element {
            item,
            token,
            layout,
            offset,
            len,
            cost,
        } = element;
        if collection.quarantined().is_some() {
            collection.give_back(item.fingerprint, session.id, token);
            return self.refused("quarantined");
        }
        let end = offset.checked_add(len);
        if len > ELEMENT_BYTES_MAX || end.is_none_or(|end| end > source.bytes()) {
            collection.give_back(item.fingerprint, session.id, token);
            return self.refused("too-large");
        }
        let appended = self.open_segment(collection, open).and_then(|open| {
            if !collection.may_commit(&item.fingerprint, session.id, token) {
                return Err(Error::new(
                    Kind::Invalid,
                    "stale-lease",
                    "the lease ended before the commit",
                ));
            }
            open.touched = self.clock.monotonic();
            let mut copy = |at: u64, len, to: &mut BlockWriter| source.append(offset + at, len, to);
            let row = Row {
                fingerprint: item.fingerprint,
                name: &item.name,
                layout: &layout,
                len,
                cost,
            };
            let appended = match open.append(&row, &*self.ram, &mut copy) {
                Err(full) if full.code() == "ram-full" => {
                    // Blocks that only wait for the disk may be all that is in the way: then wait for it.
                    self.write_now(collection, open)?;
                    self.with_room(|| open.append(&row, &*self.ram, &mut copy))
                }
                appended => appended,
            };
            Ok((Arc::clone(open.segment()), appended?))
        });
        match appended {
            Ok((segment, (number, location))) => {
                let planned_empty = session.planned_empty(collection.id);
                let row = (&segment, number);
                let missed = collection.insert(&item, row, cost, planned_empty, &self.ssd);
                self.computed(session, collection, &item.name, missed, cost.cpu_ns);
                Committed::At(location)
            }
            Err(error) => {
                collection.give_back(item.fingerprint, session.id, token);
                self.failed(&error)
            }
        }
    }

    /// Writes what waits for the disk. One that cannot be written is given up. Blocking.
    fn write_now(&self, collection: &Collection, open: &OpenSegment) -> Result<()> {
        let written = open
            .writer()
            .run(&*self.ram, &mut |s, bytes| self.ssd.reserve(s, bytes));
        // What the system said is told once, of the segment.
        let failed = written
            .as_ref()
            .map_err(|e| Error::new(e.kind(), e.code(), e.to_string()))
            .copied();
        self.settle(collection, open.segment(), written);
        failed
    }

    fn failed(&self, error: &Error) -> Committed {
        if error.is_of_system() {
            self.ssd.faults().tell("an element is not kept", error);
        }
        self.refused(error.code())
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
        let metadata = description::metadata(&collection.owner(), collection.worlds.first());
        let closed = open.close(&*self.ram, &metadata, |s, bytes| self.ssd.reserve(s, bytes));
        if closed.is_ok() {
            self.remember(&segment);
            collection_notes::keep(self, collection);
        }
        self.settle(collection, &segment, closed.map(drop));
    }

    /// Keeps what a segment's file says. Without it, the next start reads the footer.
    fn remember(&self, segment: &Segment) {
        let name = segment.path().file_name().unwrap_or_default();
        let Ok(record) = segment.record() else { return };
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
        self.ssd.faults().tell("a segment is not kept", &error);
        self.ssd.remove(segment.id, Why::Unwritten);
    }

    /// Makes everything published durable. Blocking.
    ///
    /// # Errors
    /// `not-durable` if the disk did not take all of it, or not in time.
    pub fn sync(&self) -> Result<()> {
        // Full ones among them are closed behind their commits: those were published before this call too.
        let mut closing = self.ssd.all();
        closing.retain(|s| !s.is_durable());
        let asked = closing.clone();
        self.close_idle(Duration::ZERO);
        let until = self.clock.monotonic() + CLOSING_MAX;
        while self.clock.monotonic() < until {
            closing.retain(|s| !s.is_durable() && self.ssd.get(s.id).is_some());
            if closing.is_empty() {
                break;
            }
            std::thread::sleep(CLOSING_PAUSE);
        }
        let _ = self.index.put(Space::Counters, &self.metrics.records());
        // Nothing relies on it: segments say all that it does.
        let _ = self.index.flush();
        let is_lost = |s: &&Arc<Segment>| self.ssd.gone(s.id).is_some_and(|gone| gone.why == Why::Unwritten);
        let lost = asked.iter().filter(is_lost).count();
        if closing.is_empty() && lost == 0 {
            return Ok(());
        }
        let (late, seconds) = (closing.len(), CLOSING_MAX.as_secs());
        Err(Error::new(
            Kind::Io,
            "not-durable",
            format!(
                "{lost} segments could not be written, and {late} not within {seconds} s: their elements are computed again \
                 after a restart (the daemon's log says what the disk said)"
            ),
        ))
    }

    /// Closes segments that were not appended to for so long. Blocking.
    pub fn close_idle(&self, idle: Duration) {
        let (mut filling, mut closed) = (false, false);
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
                    closed = true;
                }
            } else {
                filling |= open.is_some();
            }
        }
        if !filling {
            self.ram.trim();
        }
        if closed {
            // Columns of rows, and what calls took: several times what is kept.
            heap::trim();
        }
    }
}
