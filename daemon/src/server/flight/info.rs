//! What there is to read: collections, and the segments that each is made of.

use super::{
    Visit, blocking,
    descriptor::{self, Named},
    read, served,
};
use crate::{
    collection::Collection,
    error::{Error, Kind, Result},
    segment::{Segment, Summary, Values, schema},
};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo};
use futures_util::{Stream, stream};
use std::{collections::HashMap, sync::Arc};

/// What is there of the collection that a descriptor names. Blocking.
///
/// # Errors
/// Those of [`Named`]; `quarantined`.
pub fn of(visit: &Visit, descriptor: &FlightDescriptor) -> Result<FlightInfo> {
    let collection = Named::by(descriptor)?.found(visit)?;
    served(&collection)?;
    let segments = visit.cache.ssd.all().into_iter();
    let segments = segments.filter(|s| s.collection == collection.id).collect();
    info(visit, &collection, segments)
}

/// The caller's collections, one after the other: no more of them is described than is taken. What shims only found out about
/// pipelines is left out.
pub fn list(visit: Visit) -> impl Stream<Item = Result<FlightInfo>> + Send + 'static {
    let domain = visit.domain();
    let mut segments: HashMap<u64, Vec<Arc<Segment>>> = HashMap::new();
    for segment in visit.cache.ssd.all() {
        segments.entry(segment.collection).or_default().push(segment);
    }
    let own = visit.cache.catalog.all().into_iter();
    let own = own.filter(move |c| c.domain == domain && !c.is_bookkeeping() && c.quarantined().is_none());
    let visit = Arc::new(visit);
    stream::try_unfold(own.into_iter(), move |mut left| {
        let next = left.next().map(|collection| {
            let held = segments.get(&collection.id).cloned().unwrap_or_default();
            (collection, held)
        });
        let visit = Arc::clone(&visit);
        async move {
            let Some((collection, held)) = next else {
                return Ok(None);
            };
            let info = blocking(move || info(&visit, &collection, held)).await?;
            Ok(Some((info, left)))
        }
    })
}

/// An endpoint a segment, in the order they were begun. Those that were dropped meanwhile are not there.
fn info(visit: &Visit, collection: &Collection, mut segments: Vec<Arc<Segment>>) -> Result<FlightInfo> {
    segments.sort_unstable_by_key(|segment| segment.id);
    let mut parts: Vec<(Arc<Segment>, Summary)> = Vec::new();
    // One schema holds for all of them: that of arrays only if all are alike.
    let mut values: Option<Values> = None;
    for segment in segments {
        let Ok((summary, own)) = segment.published() else {
            continue;
        };
        if summary.rows > 0 {
            values = Some(match values {
                Some(others) if others != own => Values::Binary,
                _ => own,
            });
            parts.push((segment, summary));
        }
    }
    let values = values.unwrap_or(Values::Binary);
    let (rows, bytes) = parts.iter().fold((0, 0), |(rows, bytes), (_, part)| {
        (rows + part.rows, bytes + part.value_len)
    });
    let endpoints = parts.iter().map(|(segment, part)| {
        let ticket = read::Claim::new(&visit.cache, segment.id, part.rows, &values).ticket();
        FlightEndpoint::new().with_ticket(ticket)
    });
    let metadata = HashMap::from([
        (
            "prebake.subgraph".to_owned(),
            collection.graph.digest().to_string(),
        ),
        ("prebake.pipeline".to_owned(), collection.graph.pipeline()),
        ("prebake.rows".to_owned(), rows.to_string()),
        ("prebake.bytes".to_owned(), bytes.to_string()),
    ]);
    FlightInfo::new()
        .with_endpoints(endpoints.collect())
        .with_descriptor(descriptor::of(collection))
        .with_total_records(rows as i64)
        .with_total_bytes(bytes as i64)
        .try_with_schema(&schema(&values).with_metadata(metadata))
        .map_err(|e| {
            Error::new(
                Kind::Corrupt,
                "bad-schema",
                format!("a schema is not encoded: {e}"),
            )
        })
}
