//! Why a job computed, or was not cached: the last misses and refusals against what is there now.

mod causes;
pub(crate) mod diagnose;
pub(crate) mod status;
mod target;

use crate::{
    cache::Cache,
    codes,
    collection::{Collection, Reason},
    domain::Domain,
    explain::status::seconds_since,
    history::{misses::Miss, refusals::Refusal},
    quarantine::Quarantined,
    segment::Summary,
};
use prebake_fingerprint::{Step, compare};
use prebake_proto::v1;
use std::sync::Arc;
use target::Target;

/// Explanations in one answer: what a person reads.
const EXPLANATIONS_MAX: usize = 8;

/// Operators told of one by one, and differences of one of them: a generated graph has thousands.
const STEPS_MAX: usize = 256;
const DIFFERENCES_MAX: usize = 32;

/// What can be explained: of the caller's trust domain, newest first.
enum Subject {
    Miss(Miss, Arc<Collection>),
    Refusal(Refusal),
    Quarantined(Quarantined),
    /// Nothing of it was missed lately.
    Reused(Arc<Collection>),
}

/// The explanations of `target`, newest first; without one, that of the last miss or refusal.
pub fn explain(cache: &Cache, domain: &Domain, target: &str) -> Vec<v1::Explanation> {
    let target = Target::parse(target);
    let of = |miss: Miss| Some(Subject::Miss(miss.clone(), cache.catalog.find(miss.collection)?));
    let misses = cache.misses.of(domain).into_iter().filter_map(of);
    let refusals = cache.refusals.of(domain).into_iter().map(Subject::Refusal);
    let quarantined = cache.quarantine.of(domain).into_iter().map(Subject::Quarantined);
    let mut subjects: Vec<_> = misses.chain(refusals).chain(quarantined).collect();
    subjects.sort_by_key(|subject| std::cmp::Reverse(subject.at_ns()));
    let mut chosen = target.choose(subjects);
    if chosen.is_empty() {
        let all = cache.catalog.all().into_iter().rev();
        let known =
            all.filter(|c| c.domain == *domain && !c.is_bookkeeping() && (c.cost().1 > 0 || !c.is_empty()));
        chosen = target.choose(known.map(Subject::Reused).collect());
    }
    chosen.truncate(EXPLANATIONS_MAX);
    chosen.iter().map(|subject| subject.explained(cache)).collect()
}

impl Subject {
    fn at_ns(&self) -> i64 {
        match self {
            Self::Miss(miss, _) => miss.at_ns,
            Self::Refusal(refusal) => refusal.at_ns,
            Self::Quarantined(found) => found.at_ns,
            Self::Reused(collection) => collection.origin.made_ns,
        }
    }

    fn explained(&self, cache: &Cache) -> v1::Explanation {
        match self {
            Self::Miss(miss, collection) => missed(cache, miss, collection),
            Self::Refusal(refusal) => refused(cache, refusal),
            Self::Quarantined(found) => quarantined(cache, found),
            Self::Reused(collection) => reused(cache, collection),
        }
    }
}

fn refused(cache: &Cache, refusal: &Refusal) -> v1::Explanation {
    v1::Explanation {
        verdict: "refused".into(),
        code: refusal.code.into(),
        title: codes::title(refusal.code).into(),
        reason: refusal.reason.clone(),
        location: refusal.location.clone(),
        job: refusal.job.clone(),
        pid: refusal.pid,
        session: refusal.session,
        seconds_ago: seconds_since(cache, refusal.at_ns),
        ..Default::default()
    }
}

fn quarantined(cache: &Cache, found: &Quarantined) -> v1::Explanation {
    v1::Explanation {
        verdict: "refused".into(),
        code: codes::QUARANTINED.into(),
        title: codes::title(codes::QUARANTINED).into(),
        reason: found.told(),
        location: found.location.clone(),
        pipeline: found.pipeline.clone(),
        subgraph_digest: found.digest.clone(),
        job: found.job.clone(),
        pid: found.pid,
        seconds_ago: seconds_since(cache, found.at_ns),
        ..Default::default()
    }
}

fn reused(cache: &Cache, collection: &Collection) -> v1::Explanation {
    v1::Explanation {
        verdict: "reused".into(),
        title: "nothing of it was missed lately".into(),
        pipeline: collection.graph.pipeline(),
        subgraph_digest: collection.graph.digest().to_string(),
        job: collection.origin.job.clone(),
        pid: collection.origin.pid,
        seconds_ago: seconds_since(cache, collection.origin.made_ns),
        cpu_seconds_per_element: mean_s(collection),
        ..Default::default()
    }
}

fn missed(cache: &Cache, miss: &Miss, collection: &Collection) -> v1::Explanation {
    let near = collection
        .nearest
        .collection
        .and_then(|id| cache.catalog.find(id));
    // A change of the graph says nothing where the entries had been there.
    let is_new = miss.causes.contains_key(&Reason::NewGraph);
    let near = near.filter(|_| is_new);
    let steps = near
        .as_ref()
        .map_or_else(Vec::new, |near| compare(&near.graph, &collection.graph));
    let differences: Vec<_> = steps.iter().flat_map(|step| &step.differences).collect();
    let causes: Vec<_> = miss
        .ranked()
        .into_iter()
        .map(|(reason, cause)| causes::told(cache, reason, cause, differences.first().copied()))
        .collect();
    let (first, location) = causes.first().cloned().unwrap_or_default();
    let missing = miss.elements();
    let per_element = mean_s(collection);
    let others = differences.len().saturating_sub(1) + causes.len().saturating_sub(1);
    v1::Explanation {
        verdict: "miss".into(),
        code: first.code,
        title: first.title,
        reason: first.reason,
        location,
        pipeline: collection.graph.pipeline(),
        subgraph_digest: collection.graph.digest().to_string(),
        job: miss.job.clone(),
        pid: miss.pid,
        session: miss.session.0,
        seconds_ago: seconds_since(cache, miss.at_ns),
        causes: causes.into_iter().map(|(cause, _)| cause).collect(),
        nearest: near.as_ref().map(|near| nearest(cache, near, &steps)),
        steps: steps.iter().take(STEPS_MAX).map(step).collect(),
        reuse: reuse(cache, collection, near.as_deref()),
        cpu_seconds_per_element: per_element,
        elements_missing: missing,
        cpu_seconds_to_recompute: per_element * missing as f64,
        other_differences: others as u32,
    }
}

fn nearest(cache: &Cache, near: &Collection, steps: &[Step]) -> v1::Nearest {
    let held = held(cache, near);
    let state = match held.rows {
        0 if near.is_empty() => "empty",
        0 => "evicted",
        _ => "stored",
    };
    let operators = steps.iter().filter(|step| step.digest.is_some());
    v1::Nearest {
        subgraph_digest: near.graph.digest().to_string(),
        job: near.origin.job.clone(),
        pid: near.origin.pid,
        seconds_ago: seconds_since(cache, near.origin.made_ns),
        entries: held.rows,
        bytes: held.value_len,
        state: state.into(),
        operators_equal: operators
            .clone()
            .filter(|step| step.differences.is_empty())
            .count() as u32,
        operators: operators.count() as u32,
    }
}

fn step(step: &Step) -> v1::ExplainedStep {
    let state = match (step.digest, step.was) {
        (None, _) => "removed",
        (_, None) => "added",
        _ if step.equal => "equal",
        _ if step.differences.is_empty() => "downstream",
        _ => "changed",
    };
    let differences = step.differences.iter().take(DIFFERENCES_MAX);
    v1::ExplainedStep {
        operator: step.operator.clone(),
        location: step.location.clone(),
        state: state.into(),
        differences: differences.map(ToString::to_string).collect(),
    }
}

/// The longest part upstream of a collection's output whose elements are stored.
fn reuse(cache: &Cache, collection: &Collection, near: Option<&Collection>) -> Option<v1::Reuse> {
    let steps = compare(&collection.graph, &collection.graph);
    let upstream = steps
        .iter()
        .rev()
        .skip(1)
        .take(STEPS_MAX)
        .filter(|step| !step.source);
    let digests = upstream.filter_map(|step| step.digest);
    let found = digests.filter_map(|digest| cache.catalog.lookup(&collection.domain, digest));
    let (part, held) = found
        .map(|part| (Arc::clone(&part), held(cache, &part)))
        .find(|(_, held)| held.rows > 0)?;
    let whole = near
        .map_or(0.0, mean_s)
        .max(mean_s(collection))
        .max(mean_s(&part));
    Some(v1::Reuse {
        subgraph_digest: part.graph.digest().to_string(),
        pipeline: part.graph.pipeline(),
        entries: held.rows,
        cost_share: if whole > 0.0 { mean_s(&part) / whole } else { 0.0 },
    })
}

/// What a collection's segments hold now.
fn held(cache: &Cache, collection: &Collection) -> Summary {
    let own = cache
        .ssd
        .all()
        .into_iter()
        .filter(|s| s.collection == collection.id);
    own.map(|s| s.summary())
        .fold(Summary::default(), |sum, each| Summary {
            rows: sum.rows + each.rows,
            value_len: sum.value_len + each.value_len,
            cpu_ns: sum.cpu_ns + each.cpu_ns,
            ..sum
        })
}

/// Mean CPU time of one element, in seconds.
fn mean_s(collection: &Collection) -> f64 {
    let (cpu_ns, rows) = collection.cost();
    if rows == 0 {
        0.0
    } else {
        cpu_ns as f64 / rows as f64 / 1e9
    }
}
