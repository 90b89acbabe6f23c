//! Every metric, declared once with its meaning. Counters start from what the index remembers, so
//! that savings survive restarts.

use crate::{
    codes,
    index::{IndexStore, Record, Space},
};
use prometheus::{
    Counter, Encoder, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
    core::Collector,
};

/// Outcomes of an element asked for.
pub const OUTCOMES: [&str; 4] = ["hit", "follow", "miss", "bypass"];
const REASONS: [&str; 5] = ["new graph", "new input", "input changed", "evicted", "corrupt"];
const TIERS: [&str; 2] = ["ram", "ssd"];

/// The daemon's metrics.
pub struct Metrics {
    registry: Registry,
    /// Elements by outcome.
    pub elements: IntCounterVec,
    /// Misses by reason.
    pub misses: IntCounterVec,
    /// What jobs said they will not have cached, by code.
    pub refusals: IntCounterVec,
    /// CPU seconds others need not spend.
    pub cpu_saved: Counter,
    /// CPU seconds spent on misses.
    pub cpu_spent: Counter,
    /// Money that saved, at the configured price of a CPU hour.
    pub money_saved: Counter,
    /// Hits computed again.
    pub verify: VerifyMetrics,
    /// Bytes read by tier.
    pub bytes_read: IntCounterVec,
    /// Bytes held by tier.
    pub tier_bytes: IntGaugeVec,
    /// Limit by tier.
    pub tier_budget: IntGaugeVec,
    /// Values on SSD.
    pub values: ValueMetrics,
    /// Evictions by tier: blocks from RAM, segments from SSD.
    pub evictions: IntCounterVec,
    /// Bytes evicted by tier.
    pub evicted_bytes: IntCounterVec,
    /// CPU seconds it would take to compute again what SSD evictions lost.
    pub evicted_cost: Counter,
    /// Jobs connected.
    pub jobs: IntGauge,
    /// Jobs connected since start.
    pub sessions: IntCounter,
    /// Entries that can be served.
    pub entries: IntGauge,
    /// Segment files.
    pub segments: IntGauge,
    /// Pipelines known.
    pub collections: IntGauge,
    /// Leases taken over from a dead or late holder.
    pub takeovers: IntCounter,
    /// Errors by code.
    pub errors: IntCounterVec,
}

/// Hits computed again, to be compared.
pub struct VerifyMetrics {
    /// All of them.
    pub hits: Counter,
    /// Of these, not the same.
    pub mismatches: Counter,
    /// CPU seconds spent on that.
    pub cpu: Counter,
    /// Subgraphs in quarantine.
    pub quarantined: IntGauge,
}

impl VerifyMetrics {
    fn new(r: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            hits: counter(r, "prebake_verified_total", "Hits computed again and compared.")?,
            mismatches: counter(
                r,
                "prebake_mismatches_total",
                "Hits computed again that were not the same.",
            )?,
            cpu: counter(
                r,
                "prebake_verify_cpu_seconds_total",
                "CPU time spent on computing hits again.",
            )?,
            quarantined: gauge(
                r,
                "prebake_quarantined",
                "Subgraphs that did not reproduce and are not served.",
            )?,
        })
    }
}

/// Values of closed segments, by codec.
pub struct ValueMetrics {
    /// Bytes of them.
    pub bytes: IntGaugeVec,
    /// Bytes that they take in their files.
    pub disk_bytes: IntGaugeVec,
}

impl ValueMetrics {
    fn new(r: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            bytes: gauges(
                r,
                "prebake_value_bytes",
                "Bytes of values in closed segments, by codec.",
                "codec",
            )?,
            disk_bytes: gauges(
                r,
                "prebake_value_disk_bytes",
                "Bytes that values take in closed segments, by codec.",
                "codec",
            )?,
        })
    }
}

impl Metrics {
    /// All metrics, counters at what `index` remembers.
    ///
    /// # Errors
    /// If two metrics have one name: a mistake in this file.
    pub fn new(index: &dyn IndexStore) -> prometheus::Result<Self> {
        let r = Registry::new();
        let metrics = Self {
            elements: vec(
                &r,
                "prebake_elements_total",
                "Elements asked for, by outcome.",
                "outcome",
            )?,
            misses: vec(
                &r,
                "prebake_misses_total",
                "Elements computed, by reason.",
                "reason",
            )?,
            refusals: vec(&r, "prebake_refusals_total", "Not cached, by code.", "code")?,
            cpu_saved: counter(
                &r,
                "prebake_cpu_seconds_saved_total",
                "CPU time saved by hits and follows.",
            )?,
            cpu_spent: counter(
                &r,
                "prebake_cpu_seconds_spent_total",
                "CPU time spent computing entries.",
            )?,
            money_saved: counter(&r, "prebake_money_saved_total", "CPU time saved, in money.")?,
            verify: VerifyMetrics::new(&r)?,
            bytes_read: vec(&r, "prebake_read_bytes_total", "Bytes read, by tier.", "tier")?,
            tier_bytes: gauges(&r, "prebake_tier_bytes", "Bytes held, by tier.", "tier")?,
            tier_budget: gauges(&r, "prebake_tier_budget_bytes", "Bytes allowed, by tier.", "tier")?,
            values: ValueMetrics::new(&r)?,
            evictions: vec(
                &r,
                "prebake_evictions_total",
                "Blocks (ram) and segments (ssd) evicted.",
                "tier",
            )?,
            evicted_bytes: vec(
                &r,
                "prebake_evicted_bytes_total",
                "Bytes evicted, by tier.",
                "tier",
            )?,
            evicted_cost: counter(
                &r,
                "prebake_evicted_recompute_cpu_seconds_total",
                "CPU time to compute again what was evicted from SSD.",
            )?,
            jobs: gauge(&r, "prebake_jobs", "Jobs connected.")?,
            sessions: int(
                &r,
                "prebake_sessions_total",
                "Jobs connected since the daemon started.",
            )?,
            entries: gauge(&r, "prebake_entries", "Entries that can be served.")?,
            segments: gauge(&r, "prebake_segments", "Segment files.")?,
            collections: gauge(&r, "prebake_collections", "Pipelines known.")?,
            takeovers: int(
                &r,
                "prebake_lease_takeovers_total",
                "Leases taken over from late holders.",
            )?,
            errors: vec(&r, "prebake_errors_total", "Errors, by code.", "code")?,
            registry: r,
        };
        metrics.appear();
        metrics.restore(index);
        Ok(metrics)
    }

    /// Labels are there before their first count, so that rates have a beginning.
    fn appear(&self) {
        OUTCOMES
            .iter()
            .for_each(|l| drop(self.elements.with_label_values(&[*l])));
        REASONS
            .iter()
            .for_each(|l| drop(self.misses.with_label_values(&[*l])));
        codes::refusals().for_each(|l| drop(self.refusals.with_label_values(&[l])));
        for by_tier in [&self.bytes_read, &self.evictions, &self.evicted_bytes] {
            TIERS.iter().for_each(|l| drop(by_tier.with_label_values(&[*l])));
        }
    }

    fn lasting_counters(&self) -> [(&'static str, &Counter); 7] {
        [
            ("cpu_saved", &self.cpu_saved),
            ("cpu_spent", &self.cpu_spent),
            ("money_saved", &self.money_saved),
            ("evicted_cost", &self.evicted_cost),
            ("verified", &self.verify.hits),
            ("mismatches", &self.verify.mismatches),
            ("verify_cpu", &self.verify.cpu),
        ]
    }

    fn lasting_vectors(&self) -> [(&'static str, &IntCounterVec); 6] {
        [
            ("elements", &self.elements),
            ("misses", &self.misses),
            ("refusals", &self.refusals),
            ("bytes_read", &self.bytes_read),
            ("evictions", &self.evictions),
            ("evicted_bytes", &self.evicted_bytes),
        ]
    }

    fn restore(&self, index: &dyn IndexStore) {
        for (key, value) in index.scan(Space::Counters).unwrap_or_default() {
            let (Ok(key), Ok(value)) = (String::from_utf8(key), String::from_utf8(value)) else {
                continue;
            };
            let (name, label) = key.split_once('/').unwrap_or((&key, ""));
            let counter = self.lasting_counters().into_iter().find(|c| c.0 == name);
            if let (Some((_, counter)), Ok(v)) = (counter, value.parse::<f64>()) {
                counter.inc_by(v.max(0.0));
            }
            let vector = self.lasting_vectors().into_iter().find(|c| c.0 == name);
            if let (Some((_, vector)), Ok(v)) = (vector, value.parse::<u64>()) {
                vector.with_label_values(&[label]).inc_by(v);
            }
        }
    }

    /// What the next start begins from.
    pub fn records(&self) -> Vec<Record> {
        let record = |key: String, value: String| (key.into_bytes(), value.into_bytes());
        let counters = self.lasting_counters().into_iter();
        let mut records: Vec<_> = counters
            .map(|(name, counter)| record(name.into(), counter.get().to_string()))
            .collect();
        for (name, vector) in self.lasting_vectors() {
            for (label, value) in by_label(vector) {
                records.push(record(format!("{name}/{label}"), value.to_string()));
            }
        }
        records
    }

    /// Prometheus text format.
    ///
    /// # Errors
    /// If encoding fails: never for these metrics.
    pub fn text(&self) -> prometheus::Result<Vec<u8>> {
        let mut out = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut out)?;
        Ok(out)
    }
}

/// Values of a counter by its one label.
pub fn by_label(vector: &IntCounterVec) -> Vec<(String, u64)> {
    let families = vector.collect();
    let metrics = families
        .iter()
        .flat_map(prometheus::proto::MetricFamily::get_metric);
    metrics
        .filter_map(|m| {
            let label = m.get_label().first()?.value().to_owned();
            Some((label, m.get_counter().get_value() as u64))
        })
        .collect()
}

fn register<C: Collector + Clone + 'static>(r: &Registry, c: prometheus::Result<C>) -> prometheus::Result<C> {
    let c = c?;
    r.register(Box::new(c.clone()))?;
    Ok(c)
}

fn vec(r: &Registry, name: &str, help: &str, label: &str) -> prometheus::Result<IntCounterVec> {
    register(r, IntCounterVec::new(Opts::new(name, help), &[label]))
}

fn gauges(r: &Registry, name: &str, help: &str, label: &str) -> prometheus::Result<IntGaugeVec> {
    register(r, IntGaugeVec::new(Opts::new(name, help), &[label]))
}

fn counter(r: &Registry, name: &str, help: &str) -> prometheus::Result<Counter> {
    register(r, Counter::new(name, help))
}

fn int(r: &Registry, name: &str, help: &str) -> prometheus::Result<IntCounter> {
    register(r, IntCounter::new(name, help))
}

fn gauge(r: &Registry, name: &str, help: &str) -> prometheus::Result<IntGauge> {
    register(r, IntGauge::new(name, help))
}
