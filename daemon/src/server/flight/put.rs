//! Entries from record batches. They go the way of any commit: a lease for each, then a copy into the open segment.
//!
//! Trust: whoever may put here is the user whose trust domain it is, by the kernel's word, and could commit the same bytes through a
//! session of the other protocol. Nobody else is ever served them. So they are believed as those are: no more than that they are what
//! the subgraph makes of the input.

use super::{super::CALL_TIMEOUT, MESSAGE_BYTES_MAX, Visit, blocking, descriptor::Named, invalid};
use crate::{
    cache::commit::{Committed, Element, Source},
    collection::{Answer, Collection, Item, Request, lease::Token},
    error::{Error, Kind, Result},
    memory::BlockWriter,
};
use arrow_flight::{FlightData, PutResult};
use futures_util::{Stream, stream};
use prebake_fingerprint::Digest;
use rows::{Columns, Row, Rows};
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};

mod rows;

/// What came in is there already: a lease lasts as long as copying it.
const LEASE: Duration = Duration::from_secs(10);

/// A message, and what of it has to be aligned anew.
const PUT_BYTES: u64 = 2 * MESSAGE_BYTES_MAX;

/// What came of the rows put, as JSON.
#[derive(Default, Serialize)]
struct Tally {
    /// Entries now.
    stored: u64,
    /// Entries before, or twice in a message: left as they are.
    there: u64,
    /// Computed by a job just now: left to it.
    held: u64,
    /// Not stored, by the reason's code.
    refused: BTreeMap<&'static str, u64>,
}

impl Source for arrow_buffer::Buffer {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn append(&self, offset: u64, len: usize, to: &mut BlockWriter) -> Result<()> {
        let part = usize::try_from(offset)
            .ok()
            .and_then(|at| self.get(at..)?.get(..len));
        to.append(part.ok_or_else(|| Error::corrupt("an element ends outside its memory"))?)
    }
}

/// Takes entries; one result when all are taken. One a message would fill the connection of a client that reads none before it has
/// written all, and then neither side goes on.
pub fn put(
    visit: Visit,
    messages: Streaming<FlightData>,
) -> impl Stream<Item = Result<PutResult>> + Send + 'static {
    stream::once(async move {
        let tally = take(visit, messages).await?;
        let told = serde_json::to_vec(&tally).map_err(|e| Error::corrupt(e.to_string()))?;
        let app_metadata = told.into();
        Ok(PutResult { app_metadata })
    })
}

async fn take(visit: Visit, mut messages: Streaming<FlightData>) -> Result<Tally> {
    let visit = Arc::new(visit);
    // Before anything is read, let alone changed.
    let _memory = visit.cache.ram.reserve(PUT_BYTES)?;
    let first = next(&mut messages).await?;
    let first = first.ok_or_else(|| invalid("bad-message", "a descriptor and a schema come first"))?;
    let user = Arc::clone(&visit);
    let (columns, collection) = blocking(move || {
        let columns = Columns::of(&first)?;
        let named = Named::by(&first.flight_descriptor.unwrap_or_default())?;
        Ok((Arc::new(columns), named.planned(&user)?))
    })
    .await?;
    let mut tally = Tally::default();
    while let Some(message) = next(&mut messages).await? {
        // Metadata of the client's own, which nobody here reads.
        if message.data_header.is_empty() {
            continue;
        }
        let columns = Arc::clone(&columns);
        let rows = blocking(move || columns.rows(message)).await?;
        store(&visit, &collection, rows, &mut tally).await?;
    }
    Ok(tally)
}

async fn next(messages: &mut Streaming<FlightData>) -> Result<Option<FlightData>> {
    // What it may have on its way is taken off the RAM budget for as long as this lasts.
    let message = timeout(CALL_TIMEOUT, messages.message()).await;
    let late = |_| {
        invalid(
            "unwritten",
            format!("no message came for {} s", CALL_TIMEOUT.as_secs()),
        )
    };
    message.map_err(late)?.map_err(|status| match status.code() {
        Code::OutOfRange => invalid(
            "too-large",
            format!(
                "a message may have {MESSAGE_BYTES_MAX} bytes: write fewer rows at a time ({})",
                status.message()
            ),
        ),
        _ => lost(&status),
    })
}

fn lost(status: &Status) -> Error {
    Error::new(
        Kind::Io,
        "io",
        format!("the stream ended early: {}", status.message()),
    )
}

/// Leases and commits rows until none is left that nobody has. While jobs hold leases too, each pass gets a part of them.
async fn store(
    visit: &Arc<Visit>,
    collection: &Arc<Collection>,
    rows: Rows,
    tally: &mut Tally,
) -> Result<()> {
    let Rows { mut rows, bytes } = rows;
    let mut seen: HashSet<Digest> = HashSet::new();
    let all = rows.len();
    rows.retain(|row| seen.insert(row.item.fingerprint));
    tally.there += (all - rows.len()) as u64;
    while !rows.is_empty() {
        let items: Vec<Item> = rows.iter().map(|row| row.item.clone()).collect();
        let request = Request {
            session: visit.session.id,
            wanted: &items,
            ahead: &[],
            leases_max: items.len(),
            lease: LEASE,
            items: items.len() as u64,
        };
        let answers = visit.cache.acquire(collection, &request, Duration::ZERO).await;
        if let Some(why) = answers.quarantined {
            return Err(invalid("quarantined", &*why));
        }
        let mut granted = Vec::new();
        let mut free = Vec::new();
        for (row, answer) in rows.into_iter().zip(answers.answers) {
            match answer {
                Answer::Hit(_) => tally.there += 1,
                Answer::Held => tally.held += 1,
                Answer::Bypass => *tally.refused.entry("no-room").or_default() += 1,
                Answer::Free => free.push(row),
                Answer::Granted(token) => granted.push(element(row, token)),
            }
        }
        let (visit, collection, bytes) = (Arc::clone(visit), Arc::clone(collection), bytes.clone());
        let committed = blocking(move || {
            let cache = &visit.cache;
            Ok(cache.commit(&visit.session, &collection, &bytes, granted))
        });
        for each in committed.await? {
            match each {
                Committed::At(_) => tally.stored += 1,
                Committed::Refused(code) => *tally.refused.entry(code).or_default() += 1,
            }
        }
        rows = free;
    }
    Ok(())
}

fn element(row: Row, token: Token) -> Element {
    Element {
        item: row.item,
        token,
        layout: row.layout,
        offset: row.place.start,
        len: row.place.end - row.place.start,
        cost: row.cost,
    }
}
