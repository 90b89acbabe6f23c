//! What did not reproduce: it is quarantined, and what is stored of it and downstream of it is dropped.

use crate::{
    cache::Cache, collection::Collection, domain::Domain, error::Result, quarantine::Quarantined,
    session::Session, tier::ssd::Why,
};
use prebake_fingerprint::{Digest, Graph};

/// A hit that was computed again and was not the same.
pub struct Mismatch {
    /// What a person calls the item.
    pub item: String,
    /// What differs, in words.
    pub reason: String,
    /// CPU time spent on finding out.
    pub cpu_ns: u64,
}

impl Cache {
    /// Quarantines a subgraph of which a client computed an entry again that was not the same, and all that is downstream of
    /// it; what jobs are told of it from now on. Blocking.
    pub fn mismatched(&self, session: &Session, collection: &Collection, found: Mismatch) -> String {
        let at_ns = self.clock.wall_ns();
        let record = Quarantined {
            job: session.job.clone(),
            pid: session.peer.pid,
            at_ns,
            ..Quarantined::new(&collection.domain, &collection.graph, found.item, found.reason)
        };
        collection.verified(1, 1, found.cpu_ns);
        self.metrics.verify.hits.inc();
        self.metrics.verify.mismatches.inc();
        self.metrics.verify.cpu.inc_by(found.cpu_ns as f64 / 1e9);
        tracing::warn!(
            pipeline = record.pipeline,
            item = record.item,
            reason = record.reason,
            "did not reproduce"
        );
        // First on the list, then out of the tiers: after a crash in between, the start drops what is left.
        let listed = self.quarantine.add(record.clone());
        if let Err(error) = &listed {
            self.metrics.errors.with_label_values(&[error.code()]).inc();
            tracing::error!(%error, "a quarantine ends with this daemon");
        }
        // As every plan will say it: another job may have been first.
        let known = self.quarantine.blame(&collection.domain, &collection.graph);
        let told = known.unwrap_or(record).told();
        let digest = collection.graph.digest();
        let mut downstream = self.catalog.all();
        downstream.retain(|c| c.domain == collection.domain && contains(&c.graph, digest));
        let judging = self.quarantine.judging();
        for collection in &downstream {
            // As the list has it by now: it may have been cleared meanwhile. What found no place on it is not on it.
            let blamed = self.quarantine.blame(&collection.domain, &collection.graph);
            let why = blamed.map(|q| q.told());
            let why = why.or_else(|| listed.is_err().then(|| told.clone()));
            collection.quarantine(why.map(Into::into));
        }
        drop(judging);
        for collection in &downstream {
            self.drop_entries(collection);
        }
        self.removed();
        told
    }

    /// Ends the quarantine of the caller's subgraphs whose digests begin so; which they were. Blocking.
    ///
    /// # Errors
    /// As [`Quarantine::clear`]; as the file system says.
    pub fn clear(&self, domain: &Domain, prefix: &str) -> Result<Vec<Quarantined>> {
        // What is wrong must not be back, once nothing keeps it from being served. Some may be dropped only now.
        for collection in self.catalog.all() {
            if collection.domain == *domain && collection.quarantined().is_some() {
                self.drop_entries(&collection);
            }
        }
        self.ssd.sync_removed()?;
        let cleared = self.quarantine.clear(domain, prefix)?;
        for collection in self.catalog.all().iter().filter(|c| c.domain == *domain) {
            self.judge(collection);
        }
        Ok(cleared)
    }

    /// Has a collection be quarantined exactly if something on the list is, or is upstream of, what it holds.
    pub fn judge(&self, collection: &Collection) {
        let judging = self.quarantine.judging();
        let blamed = self.quarantine.blame(&collection.domain, &collection.graph);
        let quarantined = blamed.is_some();
        collection.quarantine(blamed.map(|q| q.told().into()));
        drop(judging);
        if quarantined {
            self.drop_entries(collection);
        }
    }

    /// Has no crash bring back what was dropped, as far as the disk takes it.
    fn removed(&self) {
        if let Err(error) = self.ssd.sync_removed() {
            self.metrics.errors.with_label_values(&[error.code()]).inc();
            self.ssd
                .faults()
                .tell("what was dropped may be back after a crash", &error);
        }
    }

    /// Drops all that is stored of a collection, for its bytes may be wrong: no crash brings it back. Blocking.
    pub fn disown(&self, collection: &Collection) {
        self.drop_entries(collection);
        self.removed();
    }

    /// Drops all segments of a collection that is quarantined, or of which too little is known. Blocking.
    fn drop_entries(&self, collection: &Collection) {
        // A commit under way holds this lock, and each after it sees the quarantine.
        let open = collection.open.lock().take();
        drop(open);
        for segment in self.ssd.all().iter().filter(|s| s.collection == collection.id) {
            self.ssd.remove(segment.id, Why::Quarantined);
        }
    }
}

/// Whether a subgraph of a graph has this digest.
fn contains(graph: &Graph, digest: Digest) -> bool {
    graph
        .operators()
        .iter()
        .any(|o| graph.digest_of(&o.id) == Some(digest))
}
