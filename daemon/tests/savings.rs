//! What counts as computed and as saved: elements of a user's pipeline, and nothing that a shim keeps on the way there.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use prebake_daemon::{
    Config,
    cache::{
        Cache,
        commit::{Committed, Element},
    },
    collection::{Answer, Collection, Item, Request},
    metrics::by_label,
    segment::Cost,
    server::Server,
    session::{Peer, Session},
};
use prebake_fingerprint::{Digest, Graph};
use prebake_proto::v1;
use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

const ME: Peer = Peer { uid: 1, pid: 0 };
const CPU_NS: u64 = 2_000_000_000;
const ELEMENTS: u64 = 3;

/// What a shim keeps beside elements: what items read, what a pipeline is made of, and what probes and trials saw.
const NOBODYS: [&str; 6] = [
    "prebake.reads",
    "prebake.manifest",
    "prebake.sources",
    "prebake.trial",
    "prebake.probe",
    "prebake.reading",
];

fn start(dir: &Path) -> Server {
    Server::start(Config {
        dir: dir.into(),
        ram_bytes: 256 << 20,
        ssd_bytes: 1 << 30,
        cpu_hour_price: 3600.0,
        ..Config::default()
    })
    .unwrap()
}

/// Items that a step of the user's makes elements of, and what one more operator makes of those.
fn graph(last: Option<&str>) -> Graph {
    let after = |id: &str, name: &str, before: &str| {
        format!(
            r#"{{"id":"{id}","name":"{name}","inputs":[{{"operator":"{before}"}}],"determinism":{{"deterministic":true}}}}"#
        )
    };
    let mut operators = vec![
        r#"{"id":"a","name":"files","source":{"files":{}},"determinism":{"deterministic":true}}"#.to_owned(),
        after("b", "decode", "a"),
    ];
    operators.extend(last.map(|name| after("c", name, "b")));
    let output = last.map_or("b", |_| "c");
    let json = format!(
        r#"{{"version":1,"output":"{output}","operators":[{}]}}"#,
        operators.join(",")
    );
    Graph::try_from(serde_json::from_str::<v1::Graph>(&json).unwrap()).unwrap()
}

/// Computes and commits elements, reads them, and goes around the cache with one more.
fn use_up(cache: &Arc<Cache>, session: &Session, collection: &Arc<Collection>) {
    let staging = session.stage(1 << 20, &cache.ram).unwrap();
    let items: Vec<_> = (0..ELEMENTS)
        .map(|n| Item {
            fingerprint: Digest(*blake3::hash(&n.to_le_bytes()).as_bytes()),
            name: format!("f{n}"),
        })
        .collect();
    let request = Request {
        session: session.id,
        wanted: &items,
        ahead: &[],
        leases_max: items.len(),
        lease: Duration::from_secs(60),
        items: 0,
    };
    let answers = collection.acquire(&request, &*cache.clock).answers;
    for (item, answer) in items.into_iter().zip(answers) {
        let Answer::Granted(token) = answer else {
            panic!("{answer:?}")
        };
        let element = Element {
            item,
            token,
            layout: "{}".into(),
            offset: 0,
            len: 100,
            cost: Cost {
                cpu_ns: CPU_NS,
                io_ns: 0,
            },
        };
        let committed = cache.commit(session, collection, &*staging, vec![element]);
        assert!(matches!(committed[0], Committed::At(_)));
    }
    cache.served(session, collection, 2 * ELEMENTS, 1, 1);
}

/// Hits, follows, misses, bypasses; seconds saved and spent; money.
type Counted = ([u64; 4], [f64; 3]);

const NONE: Counted = ([0; 4], [0.0; 3]);
/// The mean cost, for each that was served.
const OF_ELEMENTS: Counted = ([6, 1, 3, 1], [14.0, 6.0, 14.0]);

fn totals(cache: &Cache) -> Counted {
    let metrics = &cache.metrics;
    let outcome = |label: &str| metrics.elements.with_label_values(&[label]).get();
    (
        ["hit", "follow", "miss", "bypass"].map(outcome),
        [&metrics.cpu_saved, &metrics.cpu_spent, &metrics.money_saved].map(|counter| counter.get()),
    )
}

/// All that is counted anywhere after one collection was used.
fn counted(last: Option<&str>) -> Counted {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let cache = server.cache();
    let session = cache.sessions.open(ME, "t".into()).unwrap();
    let collection = cache.plan(&session, &graph(last)).unwrap().unwrap();
    use_up(cache, &session, &collection);
    assert_eq!(collection.entries(), ELEMENTS, "they are stored in any case");
    let found = totals(cache);
    let ([hits, follows, misses, bypasses], [saved, spent, _]) = found;
    let seconds = |ns: u64| ns as f64 / 1e9;

    let by_reason = by_label(&cache.metrics.misses);
    assert_eq!(by_reason.iter().map(|(_, count)| count).sum::<u64>(), misses);
    let stats = collection.stats();
    assert_eq!((stats.hits, stats.follows, stats.misses), (hits, follows, misses));
    assert_eq!((seconds(stats.saved_ns), seconds(stats.spent_ns)), (saved, spent));
    assert_eq!(stats.reasons.values().sum::<u64>(), misses);
    let counts = &session.counts;
    let of_job = [&counts.hits, &counts.follows, &counts.misses, &counts.bypasses];
    let of_job = of_job.map(|count| count.load(Ordering::Relaxed));
    assert_eq!(of_job, [hits, follows, misses, bypasses]);
    let of_job = [&counts.saved_ns, &counts.spent_ns].map(|count| seconds(count.load(Ordering::Relaxed)));
    assert_eq!(of_job, [saved, spent]);
    found
}

#[tokio::test]
async fn elements_are_counted_as_computed_and_as_saved() {
    assert_eq!(counted(None), OF_ELEMENTS);
    assert_eq!(
        counted(Some("shrink")),
        OF_ELEMENTS,
        "of a user's step after another"
    );
}

#[tokio::test]
async fn what_items_read_is_nobodys_element() {
    for name in NOBODYS {
        assert_eq!(counted(Some(name)), NONE, "{name}");
    }
}

#[tokio::test]
async fn what_steps_make_that_prebake_brings_is_a_users() {
    for name in ["prebake.reuse", "prebake.wds.Decoded", "prebake.readsomething"] {
        assert_eq!(counted(Some(name)), OF_ELEMENTS, "{name}");
    }
}

#[tokio::test]
async fn what_loading_an_item_costs_is_saved_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let cache = server.cache();
    let session = cache.sessions.open(ME, "t".into()).unwrap();
    // A shim loads each item to see what it reads, and hands the cost of that over with the element too.
    for last in [Some("prebake.reads"), None] {
        let collection = cache.plan(&session, &graph(last)).unwrap().unwrap();
        use_up(cache, &session, &collection);
    }
    assert_eq!(totals(cache), OF_ELEMENTS);
}
