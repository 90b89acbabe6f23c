//! One segment as record batches, a few of its rows at a time.
//!
//! Bytes are copied out of blocks by system calls, into memory that is sent: gRPC copies them anyway, and through a map each page
//! would be a fault.

use super::{Visit, invalid, served};
use crate::{
    cache::Cache,
    collection::Collection,
    domain::Domain,
    error::{Error, Kind, Result},
    limits::budget::Reservation,
    memory::BLOCK_BYTES,
    segment::{BlockId, Columns, Segment, SegmentId, Table, Values, chunks, schema},
    tier::read_ahead::Piece,
};
use arrow_array::RecordBatch;
use arrow_flight::{FlightData, Ticket, encode::FlightDataEncoderBuilder, error::FlightError};
use futures_util::{Stream, StreamExt, stream};
use serde::{Deserialize, Serialize};
use std::{ops::Range, sync::Arc};
use tonic::Status;

/// Bytes and rows of a batch, if an element is not more by itself: below the 4 MiB that gRPC libraries take by default.
const BATCH_BYTES: u64 = 2 << 20;
const BATCH_ROWS_MAX: usize = 1 << 14;

/// How often a batch is in memory on its way: as arrays, as their encoding, as gRPC's frames.
const COPIES: u64 = 3;

/// What a ticket stands for: the first rows of a segment, in one form. They do not change, whatever is published after them.
/// It is no secret and gives no right: whose the segment is decides.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Segments are numbered anew by each run of the daemon.
    boot: u64,
    segment: u32,
    rows: u64,
    tensor: bool,
}

impl Claim {
    /// On the first rows of a segment.
    pub fn new(cache: &Cache, segment: SegmentId, rows: u64, values: &Values) -> Self {
        Self {
            boot: cache.boot_id,
            segment: segment.0,
            rows,
            tensor: *values != Values::Binary,
        }
    }

    /// As clients keep it.
    pub fn ticket(&self) -> Ticket {
        Ticket::new(serde_json::to_vec(self).unwrap_or_default())
    }
}

/// A segment that is read.
pub struct Reader {
    visit: Visit,
    domain: Domain,
    collection: Arc<Collection>,
    segment: SegmentId,
    /// Its rows, if it was closed when this began.
    table: Option<Table>,
    values: Values,
    next: usize,
    rows: usize,
    /// What is on its way.
    _memory: Reservation,
}

impl Reader {
    /// Finds what a ticket stands for. Blocking.
    ///
    /// # Errors
    /// `bad-ticket`; `gone`, the same whether the segment was dropped, never was or is another's; `ram-full`.
    pub fn open(visit: Visit, ticket: &[u8]) -> Result<Self> {
        let claim: Claim = serde_json::from_slice(ticket).map_err(|_| bad_ticket())?;
        let domain = visit.domain();
        let id = SegmentId(claim.segment);
        let (segment, collection) = found(&visit.cache, &domain, id)
            .filter(|_| claim.boot == visit.cache.boot_id)
            .ok_or_else(gone)?;
        served(&collection)?;
        // Which drops what is of another collection.
        collection.load(&visit.cache.ssd);
        if segment.is_gone() || !segment.is_loaded() {
            return Err(gone());
        }
        let table = segment.closed_rows()?;
        let rows = usize::try_from(claim.rows).unwrap_or(usize::MAX);
        let look = |table: &Table| {
            let values = (rows <= table.len()).then(|| Values::of(table, rows));
            let longest = (0..rows.min(table.len())).map(|row| row_bytes(table, row)).max();
            values.map(|values| (values, longest.unwrap_or(0)))
        };
        let looked = table
            .as_ref()
            .map_or_else(|| segment.with_rows(look), |table| Ok(look(table)))?;
        let (values, longest) = looked.ok_or_else(bad_ticket)?;
        let values = match claim.tensor {
            true if values == Values::Binary => return Err(bad_ticket()),
            true => values,
            false => Values::Binary,
        };
        let kept = table.as_ref().map_or(0, Table::memory);
        let memory = visit
            .cache
            .ram
            .reserve(COPIES * longest.max(BATCH_BYTES) + kept)?;
        Ok(Self {
            visit,
            domain,
            collection,
            segment: id,
            table,
            values,
            next: 0,
            rows,
            _memory: memory,
        })
    }

    /// Its rows. A batch is read when the one before it was taken.
    pub fn stream(self) -> impl Stream<Item = std::result::Result<FlightData, Status>> + Send + 'static {
        let schema = Arc::new(schema(&self.values));
        let batches = stream::try_unfold(self, |reader| async move {
            let read = super::blocking(move || reader.batch()).await;
            read.map_err(|e| FlightError::Tonic(Box::new(e.into())))
        });
        let encoded = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
        encoded.map(|data| data.map_err(Status::from))
    }

    /// The next batch, and the reader for the one after it; None at the end.
    fn batch(mut self) -> Result<Option<(RecordBatch, Self)>> {
        if self.next >= self.rows {
            return Ok(None);
        }
        let cache = &self.visit.cache;
        served(&self.collection)?;
        let segment = cache.ssd.get(self.segment).ok_or_else(gone)?;
        let some = |table: &Table| Columns::of(table, self.next..batch_end(table, self.next, self.rows));
        let columns = match &self.table {
            Some(table) => some(table),
            None => segment.with_rows(some)?,
        };
        let place = columns.bytes.clone();
        let mut bytes = vec![0; (place.end - place.start) as usize];
        let mut at = place.start;
        while at < place.end {
            let index = (at / BLOCK_BYTES) as u32;
            let end = ((u64::from(index) + 1) * BLOCK_BYTES).min(place.end);
            let part = (at - place.start) as usize..(end - place.start) as usize;
            self.read(at..end, &mut bytes[part])?;
            at = end;
        }
        let rows = columns.rows();
        let batch = columns.batch(&self.values, bytes)?;
        let first = (place.start / BLOCK_BYTES) as u32;
        cache.touched(self.segment, first, rows as u64, place.end - place.start);
        cache.served(&self.visit.session, &self.collection, rows as u64, 0, 0);
        self.next += rows;
        Ok(Some((batch, self)))
    }

    /// Copies a range of values within one block: out of the block, or without one where other jobs have all the memory there is.
    fn read(&self, range: Range<u64>, into: &mut [u8]) -> Result<()> {
        let (segment, cache) = (self.segment, &self.visit.cache);
        let index = (range.start / BLOCK_BYTES) as u32;
        match cache.block(&self.domain, BlockId { segment, index }) {
            Ok((block, _)) => block.read(range.start % BLOCK_BYTES, into),
            Err(error) if error.kind() == Kind::Exhausted => {
                let whole = chunks(&range);
                let mut read = vec![0; (whole.end - whole.start) as usize];
                let before = (range.start - whole.start) as usize;
                cache.read(&self.domain, &Piece { segment, range }, &mut read)?;
                into.copy_from_slice(&read[before..][..into.len()]);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// A segment of the caller's own domain.
fn found(cache: &Cache, domain: &Domain, id: SegmentId) -> Option<(Arc<Segment>, Arc<Collection>)> {
    let segment = cache.ssd.get(id)?;
    let collection = cache.catalog.get(segment.collection, domain).ok()?;
    Some((segment, collection))
}

/// Behind the last row of a batch that begins at `from`: at least one row.
fn batch_end(table: &Table, from: usize, rows: usize) -> usize {
    let mut left = BATCH_BYTES;
    let fits = |row: &usize| {
        let bytes = row_bytes(table, *row);
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    };
    let rows_max = rows.min(from + BATCH_ROWS_MAX);
    (from + (from..rows_max).take_while(fits).count()).max(from + 1)
}

/// Bytes of a row with all its columns.
fn row_bytes(table: &Table, row: usize) -> u64 {
    /// Fingerprint, costs and three offsets.
    const FIXED: u64 = 32 + 2 * 8 + 3 * 8;
    let text = table.name(row).len() + table.layout(row).len();
    table.element_len(row) + text as u64 + FIXED
}

fn gone() -> Error {
    Error::new(
        Kind::NotFound,
        "gone",
        "what the ticket stands for is not there: ask get_flight_info for new tickets",
    )
}

fn bad_ticket() -> Error {
    invalid(
        "bad-ticket",
        "not a ticket: use those of get_flight_info as they are",
    )
}
