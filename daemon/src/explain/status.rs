//! What `prebake status` and `/metrics` show: gathered when somebody looks.

use crate::{
    cache::{Cache, domain, domain_of},
    codes,
    collection::Collection,
    history::refusals::Refusal,
    memory::BLOCK_BYTES,
    metrics::by_label,
    quarantine::Quarantined,
    segment::{Segment, Summary},
    session::{Peer, Session},
};
use prebake_proto::v1;
use std::{collections::HashMap, sync::Arc, sync::atomic::Ordering};

/// Segments, bytes and recompute cost at one time, to say what a gc did.
pub struct Disk {
    segments: u64,
    bytes: u64,
    cost_s: f64,
}

impl Disk {
    /// As of now.
    pub fn of(cache: &Cache) -> Self {
        let all = cache.ssd.all();
        Self {
            segments: all.len() as u64,
            bytes: cache.ssd.budget().used(),
            cost_s: all.iter().map(|s| s.summary().cpu_ns as f64 / 1e9).sum(),
        }
    }

    /// What is gone since.
    pub fn since(&self, cache: &Cache) -> v1::GcResponse {
        let now = Self::of(cache);
        v1::GcResponse {
            segments_evicted: self.segments.saturating_sub(now.segments),
            bytes_freed: self.bytes.saturating_sub(now.bytes),
            recompute_cpu_seconds: (self.cost_s - now.cost_s).max(0.0),
        }
    }
}

/// Sets the gauges, which nobody keeps up to date in between.
pub fn refresh(cache: &Cache) {
    let metrics = &cache.metrics;
    let gauge = |vector: &prometheus::IntGaugeVec, tier: &str, bytes: u64| {
        vector
            .with_label_values(&[tier])
            .set(i64::try_from(bytes).unwrap_or(i64::MAX));
    };
    let ssd = cache.ssd.budget();
    for (tier, (used, max)) in [("ram", cache.ram.bytes()), ("ssd", (ssd.used(), ssd.bytes_max()))] {
        gauge(&metrics.tier_bytes, tier, used);
        gauge(&metrics.tier_budget, tier, max);
    }
    let evicted = cache.ram.take_evictions();
    metrics.evictions.with_label_values(&["ram"]).inc_by(evicted);
    let evicted_bytes = metrics.evicted_bytes.with_label_values(&["ram"]);
    evicted_bytes.inc_by(evicted * BLOCK_BYTES);
    let segments = cache.ssd.all();
    metrics.jobs.set(cache.sessions.all().len() as i64);
    metrics
        .entries
        .set(segments.iter().map(|s| s.summary().rows as i64).sum());
    metrics.segments.set(segments.len() as i64);
    for (codec, lz4) in [("none", false), ("lz4", true)] {
        let summaries = segments.iter().filter(|s| s.is_durable()).map(|s| s.summary());
        let alike = summaries.filter(|summary| summary.lz4_len().is_some() == lz4);
        let (bytes, disk) = alike.fold((0, 0), |(bytes, disk), summary| {
            let stored = summary.lz4_len().unwrap_or(summary.value_len);
            (bytes + summary.value_len, disk + stored)
        });
        gauge(&metrics.values.bytes, codec, bytes);
        gauge(&metrics.values.disk_bytes, codec, disk);
    }
    metrics.collections.set(cache.catalog.all().len() as i64);
    metrics.verify.quarantined.set(cache.quarantine.len() as i64);
}

/// The status as this peer may see it: collections and jobs of its own domain, totals of all.
pub fn of(cache: &Cache, peer: Peer) -> v1::StatusResponse {
    refresh(cache);
    let uptime = cache.clock.monotonic();
    let segments = cache.ssd.all();
    let own = format!("uid:{}", peer.uid);
    let mut by_collection: HashMap<u64, Vec<&Arc<Segment>>> = HashMap::new();
    for segment in &segments {
        by_collection.entry(segment.collection).or_default().push(segment);
    }
    let collections = cache.catalog.all().into_iter().filter(|c| c.domain.0 == own);
    let jobs = cache.sessions.all();
    let jobs = jobs.iter().filter(|s| domain(s).0 == own);
    let mut warnings = cache.warnings.clone();
    if cache.ssd.is_read_only() {
        warnings.push(
            "a write to the SSD tier failed: nothing more is stored until the daemon is restarted".into(),
        );
    }
    v1::StatusResponse {
        version: env!("CARGO_PKG_VERSION").into(),
        boot_id: cache.boot_id,
        uptime_seconds: uptime.as_secs_f64(),
        totals: Some(totals(cache)),
        collections: collections
            .map(|c| collection(&c, by_collection.get(&c.id).map_or(&[][..], Vec::as_slice)))
            .collect(),
        jobs: jobs.map(|s| job(cache, s)).collect(),
        warnings,
        refusals: cache
            .refusals
            .of(&domain_of(peer))
            .into_iter()
            .map(|r| refusal(cache, r))
            .collect(),
        quarantined: cache
            .quarantine
            .of(&domain_of(peer))
            .into_iter()
            .map(|q| quarantined(cache, q))
            .collect(),
    }
}

fn totals(cache: &Cache) -> v1::Totals {
    let metrics = &cache.metrics;
    let outcome = |label: &str| metrics.elements.with_label_values(&[label]).get();
    let read = |tier: &str| metrics.bytes_read.with_label_values(&[tier]).get();
    let ((ram_bytes, ram_budget_bytes), ssd) = (cache.ram.bytes(), cache.ssd.budget());
    v1::Totals {
        hits: outcome("hit"),
        follows: outcome("follow"),
        misses: outcome("miss"),
        bypasses: outcome("bypass"),
        cpu_seconds_saved: metrics.cpu_saved.get(),
        cpu_seconds_spent: metrics.cpu_spent.get(),
        money_saved: metrics.money_saved.get(),
        bytes_from_ram: read("ram"),
        bytes_from_ssd: read("ssd"),
        ram_bytes,
        ram_budget_bytes,
        ssd_bytes: ssd.used(),
        ssd_budget_bytes: ssd.bytes_max(),
        entries: metrics.entries.get().unsigned_abs(),
        segments: metrics.segments.get().unsigned_abs(),
        evictions: metrics.evictions.with_label_values(&["ssd"]).get(),
        evicted_recompute_cpu_seconds: metrics.evicted_cost.get(),
        verified: metrics.verify.hits.get() as u64,
        mismatches: metrics.verify.mismatches.get() as u64,
        verify_cpu_seconds: metrics.verify.cpu.get(),
        miss_reasons: by_label(&metrics.misses)
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .collect(),
        refusals: by_label(&metrics.refusals)
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .collect(),
    }
}

fn collection(collection: &Collection, segments: &[&Arc<Segment>]) -> v1::CollectionStatus {
    let stats = collection.stats();
    let summaries: Vec<_> = segments.iter().map(|s| s.summary()).collect();
    let lz4 = || summaries.iter().filter(|summary| summary.lz4_len().is_some());
    let samples: Vec<_> = summaries
        .iter()
        .filter_map(|s| s.compression)
        .map(|c| c.sample.get())
        .collect();
    let worlds = collection.worlds.summary();
    v1::CollectionStatus {
        subgraph_digest: collection.graph.digest().to_string(),
        pipeline: collection.graph.pipeline(),
        entries: summaries.iter().map(|s| s.rows).sum(),
        bytes: summaries.iter().map(|s| s.value_len).sum(),
        hits: stats.hits,
        follows: stats.follows,
        misses: stats.misses,
        cpu_seconds_saved: stats.saved_ns as f64 / 1e9,
        cpu_seconds_spent: stats.spent_ns as f64 / 1e9,
        miss_reasons: stats.reasons.into_iter().map(|(k, v)| (k.into(), v)).collect(),
        differs: collection.nearest.differs.clone(),
        changed_items: stats.changed.into(),
        verified: stats.verified,
        mismatches: stats.mismatches,
        verify_cpu_seconds: stats.verify_ns as f64 / 1e9,
        quarantined: collection.quarantined().is_some(),
        bytes_on_disk: segments.iter().map(|s| s.file_bytes()).sum(),
        lz4_bytes: lz4().map(|s| s.value_len).sum(),
        lz4_bytes_on_disk: lz4().filter_map(Summary::lz4_len).sum(),
        lz4_sample_ratio: samples.iter().sum::<f64>() / samples.len().max(1) as f64,
        worlds_proven: worlds.proven,
        worlds_variant: worlds.variant,
        variant: worlds.last_variant,
        worlds_unproven: worlds.unproven,
    }
}

/// A subgraph that did not reproduce, as its user sees it.
pub fn quarantined(cache: &Cache, found: Quarantined) -> v1::Quarantined {
    v1::Quarantined {
        subgraph_digest: found.digest,
        pipeline: found.pipeline,
        operator: found.operator,
        location: found.location,
        item: found.item,
        reason: found.reason,
        job: found.job,
        pid: found.pid,
        seconds_ago: seconds_since(cache, found.at_ns),
    }
}

fn refusal(cache: &Cache, refusal: Refusal) -> v1::Refusal {
    v1::Refusal {
        code: refusal.code.into(),
        title: codes::title(refusal.code).into(),
        reason: refusal.reason,
        location: refusal.location,
        job: refusal.job,
        pid: refusal.pid,
        session: refusal.session,
        seconds_ago: seconds_since(cache, refusal.at_ns),
        times: refusal.times,
    }
}

/// Seconds since a wall time; 0 if the clock was set back meanwhile.
pub fn seconds_since(cache: &Cache, wall_ns: i64) -> f64 {
    cache.clock.wall_ns().saturating_sub(wall_ns).max(0) as f64 / 1e9
}

fn job(cache: &Cache, session: &Session) -> v1::JobStatus {
    let count = |c: &std::sync::atomic::AtomicU64| c.load(Ordering::Relaxed);
    let counts = &session.counts;
    let collections = session.collections();
    let leases = collections
        .iter()
        .filter_map(|id| cache.catalog.find(*id))
        .map(|c| c.leases_of(session.id) as u64);
    v1::JobStatus {
        pid: session.peer.pid,
        uid: session.peer.uid,
        name: session.job.clone(),
        hits: count(&counts.hits),
        follows: count(&counts.follows),
        misses: count(&counts.misses),
        bypasses: count(&counts.bypasses),
        cpu_seconds_saved: count(&counts.saved_ns) as f64 / 1e9,
        cpu_seconds_spent: count(&counts.spent_ns) as f64 / 1e9,
        leases: leases.sum(),
    }
}
