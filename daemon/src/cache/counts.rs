//! What is counted of elements: in all, of a job, and of a collection. Nothing else counts them.

use crate::{
    cache::Cache,
    collection::{Collection, Missed},
    history::misses::Cause,
    session::Session,
};
use std::sync::atomic::Ordering;

impl Cache {
    /// Counts an element that was computed and stored.
    pub(crate) fn computed(
        &self,
        session: &Session,
        collection: &Collection,
        name: &str,
        missed: Missed,
        cpu_ns: u64,
    ) {
        if collection.is_bookkeeping() {
            return;
        }
        let Missed { reason, gone } = missed;
        let tell = |cause: &mut Cause| {
            cause.name(name);
            cause.gone = gone.or(cause.gone);
        };
        self.misses
            .add(session, collection, reason, self.clock.wall_ns(), tell);
        collection.computed(reason, name, cpu_ns);
        self.metrics.elements.with_label_values(&["miss"]).inc();
        self.metrics.misses.with_label_values(&[reason.text()]).inc();
        self.metrics.cpu_spent.inc_by(cpu_ns as f64 / 1e9);
        session.counts.misses.fetch_add(1, Ordering::Relaxed);
        session.counts.spent_ns.fetch_add(cpu_ns, Ordering::Relaxed);
    }

    /// Counts what a client read through its own maps.
    pub fn served(&self, session: &Session, collection: &Collection, hits: u64, follows: u64, bypasses: u64) {
        if collection.is_bookkeeping() {
            return;
        }
        let saved_ns = collection.served(hits, follows);
        let saved_s = saved_ns as f64 / 1e9;
        let elements = &self.metrics.elements;
        elements.with_label_values(&["hit"]).inc_by(hits);
        elements.with_label_values(&["follow"]).inc_by(follows);
        elements.with_label_values(&["bypass"]).inc_by(bypasses);
        self.metrics.cpu_saved.inc_by(saved_s);
        self.metrics
            .money_saved
            .inc_by(saved_s / 3600.0 * self.config.cpu_hour_price);
        let counts = &session.counts;
        counts.hits.fetch_add(hits, Ordering::Relaxed);
        counts.follows.fetch_add(follows, Ordering::Relaxed);
        counts.bypasses.fetch_add(bypasses, Ordering::Relaxed);
        counts.saved_ns.fetch_add(saved_ns, Ordering::Relaxed);
    }

    /// Counts hits that a client computed again, and found to be the same.
    pub fn verified(&self, collection: &Collection, hits: u64, cpu_ns: u64) {
        if hits > 0 {
            collection.verified(hits, 0, cpu_ns);
            self.metrics.verify.hits.inc_by(hits as f64);
            self.metrics.verify.cpu.inc_by(cpu_ns as f64 / 1e9);
        }
    }
}
