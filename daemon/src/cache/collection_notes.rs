//! What explains a collection after a restart: where its operators were written, their leaves, who made it.
//!
//! Kept in the index, so it is disposable: without it differences are told by parameters and digests alone.

use crate::{
    cache::Cache,
    collection::{Collection, Origin},
    domain::Domain,
    index::Space,
};
use prebake_fingerprint::{Digest, Graph, Note};
use prebake_proto::{leaf::Room, v1};
use prost::Message;
use std::sync::atomic::Ordering;

/// What the index's share of the disk is claimed in: see `IndexSpace`.
const RECORD_BYTES: usize = 384;

/// Writes the notes of a collection that has become durable, once.
pub fn keep(cache: &Cache, collection: &Collection) {
    if collection.noted.swap(true, Ordering::Relaxed) {
        return;
    }
    let origin = &collection.origin;
    let notes = v1::Notes {
        made_ns: origin.made_ns,
        job: origin.job.clone(),
        pid: origin.pid,
        notes: collection.graph.notes().iter().map(v1::Note::from).collect(),
    };
    let record = (
        key(&collection.domain, collection.graph.digest()),
        notes.encode_to_vec(),
    );
    let room = cache.index_space.claim(records(&record.1), &cache.ssd);
    if let Err(error) = room.and_then(|()| cache.index.put(Space::Notes, &[record])) {
        cache.metrics.errors.with_label_values(&[error.code()]).inc();
    }
}

/// Puts the notes of a graph read from disk back, and says who made its collection.
pub fn recall(cache: &Cache, domain: &Domain, graph: &mut Graph) -> Origin {
    let value = cache.index.get(Space::Notes, &key(domain, graph.digest()));
    let notes = value.ok().flatten().and_then(|v| v1::Notes::decode(&v[..]).ok());
    let Some(notes) = notes else {
        return Origin::default();
    };
    let kept: Vec<Note> = Room::default().notes(notes.notes);
    graph.annotate(kept);
    Origin {
        made_ns: notes.made_ns,
        job: notes.job,
        pid: notes.pid,
    }
}

/// Forgets what is kept of collections of which nothing is left.
pub fn forget_unused(cache: &Cache, space: Space) {
    let all = cache.catalog.all();
    let used: std::collections::HashSet<_> = all
        .iter()
        .map(|collection| key(&collection.domain, collection.graph.digest()))
        .collect();
    for (key, _) in cache.index.scan(space).unwrap_or_default() {
        if !used.contains(&key) {
            let _ = cache.index.remove(space, &key);
        }
    }
}

/// Records that a value is claimed as.
pub fn records(value: &[u8]) -> usize {
    value.len() / RECORD_BYTES + 1
}

/// The key of what is kept of a collection.
pub fn key(domain: &Domain, digest: Digest) -> Vec<u8> {
    [&digest.0[..], domain.0.as_bytes()].concat()
}
