//! What looks wrong in how jobs use the cache, for `prebake doctor`.

use crate::{cache::Cache, collection::Collection, domain::Domain};
use prebake_fingerprint::{Digest, Operator, compare};
use prebake_proto::v1;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// One place in the code has so many identities within a day by being edited; more look like an identity that does not
/// hold still.
const DIGESTS_MAX: usize = 3;

/// That day, in nanoseconds.
const DAY_NS: i64 = 24 * 3_600_000_000_000;

/// Location and name of an operator.
type Place = (String, String);

/// What an operator was, and in which collection.
type Identity = (Digest, Arc<Collection>);

/// Places named.
const UNSTABLE_MAX: usize = 16;

/// What is to be seen of a trust domain's own collections.
pub fn diagnose(cache: &Cache, domain: &Domain) -> v1::DiagnoseResponse {
    let now = cache.clock.wall_ns();
    let recent = cache.catalog.all().into_iter();
    let recent = recent.filter(|c| c.domain == *domain && now.saturating_sub(c.origin.made_ns) < DAY_NS);
    let mut places: BTreeMap<Place, Vec<Identity>> = BTreeMap::new();
    for collection in recent {
        for operator in collection.graph.operators() {
            if let (Some(code), false) = (operator.code, operator.location.is_empty()) {
                let key = (operator.location.clone(), operator.short_name().to_owned());
                places
                    .entry(key)
                    .or_default()
                    .push((code, Arc::clone(&collection)));
            }
        }
    }
    let unstable = places.into_iter().filter_map(unstable).take(UNSTABLE_MAX);
    v1::DiagnoseResponse {
        version: env!("CARGO_PKG_VERSION").into(),
        wall_ns: now,
        unstable: unstable.collect(),
    }
}

/// A place of the code with too many identities, oldest first.
fn unstable(((location, name), seen): (Place, Vec<Identity>)) -> Option<v1::Unstable> {
    let digests = seen
        .iter()
        .map(|(digest, _)| digest)
        .collect::<HashSet<_>>()
        .len();
    if digests <= DIGESTS_MAX {
        return None;
    }
    let (last, newest) = seen.last()?;
    let (_, other) = seen.iter().rev().find(|(digest, _)| digest != last)?;
    let is_it = |o: &&Operator| o.location == location && o.short_name() == name;
    let at_it = newest.graph.operators().iter().find(is_it)?;
    let steps = compare(&other.graph, &newest.graph).into_iter();
    let steps = steps.filter(|step| step.digest == newest.graph.digest_of(&at_it.id));
    let first = steps.flat_map(|step| step.differences).next();
    Some(v1::Unstable {
        code: first
            .as_ref()
            .map(|d| d.kind.code().to_owned())
            .unwrap_or_default(),
        reason: first.map(|d| d.to_string()).unwrap_or_default(),
        location,
        operator: name,
        digests: digests as u32,
    })
}
