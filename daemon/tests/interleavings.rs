//! Threads that take turns in every order that is drawn (shuttle, after Burckhardt et al., "A randomized scheduler with
//! probabilistic guarantees of finding bugs", 2010): leases, accounts of memory, buffers and rings. `make interleavings`.
//!
//! A run that fails prints its schedule, with which `shuttle::replay` runs it again. A thread that waits for ever fails too.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{
    faulty::Disk,
    fingerprint,
    store::{Store, empty_index},
};
use prebake_daemon::{
    Result,
    cache::{
        Cache,
        commit::{Committed, Element, Source},
    },
    collection::{Answer, Collection, Item, Request},
    limits::budget::Budget,
    memory::{BLOCK_BYTES, BlockWriter, BufferPool, Ring, SLOT_BYTES},
    segment::{Cost, SegmentId},
    session::{Peer, Session},
    tier::read_ahead::{Load, Piece, ReadAhead},
};
use prebake_fingerprint::Graph;
use prebake_proto::v1;
use shuttle::{
    rand::{RngCore, thread_rng},
    thread,
};
use std::{env, sync::Arc, time::Duration};

const RUNS: usize = 2000;
/// Changes of the thread that runs which a defect needs, at most: most need two (Burckhardt et al.).
const DEPTH: usize = 3;

/// Half of the runs switch anywhere, half rarely and at worst places.
fn each_way(run: fn()) {
    let runs = env::var("PREBAKE_INTERLEAVINGS").map_or(RUNS, |runs| runs.parse().unwrap());
    shuttle::check_random(run, runs / 2);
    shuttle::check_pct(run, runs / 2, DEPTH);
}

fn below(n: u64) -> u64 {
    thread_rng().next_u64() % n
}

fn all<T: 'static>(threads: impl IntoIterator<Item = thread::JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn no_more_is_reserved_than_there_is_and_all_of_it_comes_back() {
    each_way(|| {
        let budget = Budget::new(10, "ram-full");
        let threads = (0..3).map(|_| {
            let budget = Arc::clone(&budget);
            thread::spawn(move || {
                let mut held = budget.nothing();
                for _ in 0..3 {
                    let grown = held.resize(below(9)).is_ok();
                    let more = budget.reserve(below(5));
                    assert!(budget.used() <= 10 && (!grown || budget.used() >= held.bytes()));
                    drop(more);
                }
            })
        });
        all(threads.collect::<Vec<_>>());
        assert_eq!(budget.used(), 0);
    });
}

#[test]
fn who_waits_for_a_buffer_gets_one_whatever_is_let_go_meanwhile() {
    each_way(|| {
        let budget = Budget::new(2 * BLOCK_BYTES, "ram-full");
        let pool = Arc::new(BufferPool::new(budget.reserve(BLOCK_BYTES).unwrap()));
        let threads = (0..4u8).map(|n| {
            let (pool, budget) = (Arc::clone(&pool), Arc::clone(&budget));
            thread::spawn(move || {
                for _ in 0..2 {
                    let mut buffer = pool.take(|bytes| budget.reserve(bytes)).unwrap();
                    buffer.bytes()[0] = n;
                    thread::yield_now();
                    assert_eq!(buffer.bytes()[0], n, "two have the same memory");
                    drop(buffer);
                    if below(2) == 0 {
                        pool.trim();
                    }
                }
            })
        });
        all(threads.collect::<Vec<_>>());
        pool.trim();
        assert_eq!(budget.used(), BLOCK_BYTES);
    });
}

fn load(mark: u64) -> Load {
    let range = mark..mark + 1;
    let segment = SegmentId(1);
    Load::new(vec![Piece { segment, range }]).unwrap()
}

/// What a job finds in the slot. It reads without a lock, through a map of its own.
fn slot(ahead: &ReadAhead) -> u64 {
    let mut bytes = [0; 8];
    rustix::io::pread(ahead.ring(), &mut bytes, 0).unwrap();
    u64::from_le_bytes(bytes)
}

fn read(piece: Piece, into: &mut [u8]) -> Result<u64> {
    // In two steps: whoever is given half of it sees.
    into[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    thread::yield_now();
    into[..8].copy_from_slice(&piece.range.start.to_le_bytes());
    Ok(1)
}

/// A job that declares a load at a time, and changes its mind about half of them. Whether it got the others.
fn job(ahead: &Arc<ReadAhead>) -> bool {
    let mut readers = Vec::new();
    let mut all_there = true;
    for number in 0..4 {
        // Another for each: what lies in the slot from earlier does not look right.
        let mark = 1 + 10 * number + below(5);
        ahead.declare(None, vec![load(mark)]).unwrap();
        // All threads for readers may be taken by others.
        if below(2) == 0 && ahead.needs_reader() {
            let ahead = Arc::clone(ahead);
            readers.push(thread::spawn(move || ahead.run(read)));
        }
        if below(2) == 0 {
            continue;
        }
        let Ok(Some(1)) = ahead.wait(number, read) else {
            all_there = false;
            break;
        };
        for _ in 0..4 {
            assert_eq!(
                slot(ahead),
                mark,
                "other bytes lie where load {number} was promised"
            );
            thread::yield_now();
        }
    }
    all(readers);
    all_there
}

#[test]
fn a_slot_holds_what_was_promised_until_the_job_is_done_with_it() {
    each_way(|| {
        let budget = Budget::new(SLOT_BYTES, "ram-full");
        let ring = Ring::create(budget.reserve(SLOT_BYTES).unwrap()).unwrap();
        let ahead = Arc::new(ReadAhead::new(ring, budget.nothing()));
        let reading = thread::spawn({
            let ahead = Arc::clone(&ahead);
            move || job(&ahead)
        });
        // Its session may end at any time; half of them do not.
        let ending = thread::spawn({
            let ahead = Arc::clone(&ahead);
            move || {
                let ends = below(2) == 0;
                if ends {
                    ahead.end();
                }
                ends
            }
        });
        let (all_there, ended) = (reading.join().unwrap(), ending.join().unwrap());
        assert!(all_there || ended, "a load was not to be had");
        drop(ahead);
        assert_eq!(budget.used(), 0);
    });
}

#[test]
fn what_is_quarantined_is_on_the_list() {
    each_way(|| {
        let store = Arc::new(Store::start(&Disk::default(), &empty_index(), 1).unwrap());
        let threads = (0..3).map(|n| {
            let store = Arc::clone(&store);
            thread::spawn(move || match n {
                0 => store.clear().unwrap(),
                _ => store.mismatch(0),
            })
        });
        all(threads.collect::<Vec<_>>());
        let collections = store.cache.catalog.all();
        let [collection] = &collections[..] else { panic!() };
        let listed = store
            .cache
            .quarantine
            .blame(&collection.domain, &collection.graph);
        assert_eq!(collection.quarantined().is_some(), listed.is_some());
    });
}

struct Bytes;

impl Source for Bytes {
    fn bytes(&self) -> u64 {
        8
    }

    fn append(&self, _: u64, len: usize, to: &mut BlockWriter) -> Result<()> {
        to.append(&vec![1; len])
    }
}

fn graph() -> Graph {
    let json = r#"{"version":1,"output":"a","operators":[
        {"id":"a","name":"files","source":{"files":{}},"determinism":{"deterministic":true}}]}"#;
    Graph::try_from(serde_json::from_str::<v1::Graph>(json).unwrap()).unwrap()
}

const ITEMS: u64 = 2;

fn item(n: u64) -> Item {
    Item {
        fingerprint: fingerprint(n),
        name: format!("f{n}"),
    }
}

fn ask(cache: &Cache, session: &Session, collection: &Collection) -> Vec<Answer> {
    let wanted: Vec<Item> = (0..ITEMS).map(item).collect();
    let request = Request {
        session: session.id,
        wanted: &wanted,
        ahead: &[],
        leases_max: wanted.len(),
        // As for whole programs: nobody lives to see its end.
        lease: Duration::from_secs(3600),
        items: 0,
    };
    cache.answer(collection, &request).answers
}

/// A job that asks, and stores, gives back or keeps what it is granted; how many it stored.
fn lessee(cache: &Arc<Cache>, session: &Session, collection: &Arc<Collection>) -> usize {
    let mut stored = 0;
    for (n, answer) in (0..).zip(ask(cache, session, collection)) {
        let Answer::Granted(token) = answer else { continue };
        match below(3) {
            0 => collection.release(&[item(n).fingerprint], session.id),
            1 => {
                let element = Element {
                    item: item(n),
                    token,
                    layout: r#"{"kind":"bytes","len":8}"#.into(),
                    offset: 0,
                    len: 8,
                    cost: Cost { cpu_ns: 1, io_ns: 0 },
                };
                let committed = cache.commit(session, collection, &Bytes, vec![element]);
                stored += usize::from(matches!(committed[0], Committed::At(_)));
            }
            _ => {}
        }
    }
    stored
}

#[test]
fn what_an_ended_session_held_is_free_and_nothing_is_stored_twice() {
    each_way(|| {
        let store = Store::start(&Disk::default(), &empty_index(), 1).unwrap();
        let cache = &store.cache;
        let open = || cache.sessions.open(Peer { uid: 1, pid: 0 }, "t".into()).unwrap();
        let jobs: Vec<_> = (0..3).map(|_| open()).collect();
        let threads = jobs.iter().map(|session| {
            let (cache, session) = (Arc::clone(cache), Arc::clone(session));
            let collection = cache.plan(&session, &graph()).unwrap().unwrap();
            thread::spawn(move || lessee(&cache, &session, &collection))
        });
        let threads: Vec<_> = threads.collect();
        // Whoever watches over processes finds them gone while what they asked last is still answered.
        let ending = thread::spawn({
            let (cache, ids) = (
                Arc::clone(cache),
                jobs.iter().map(|job| job.id).collect::<Vec<_>>(),
            );
            move || ids.into_iter().for_each(|id| cache.end_session(id))
        });
        let stored: usize = all(threads).into_iter().sum();
        ending.join().unwrap();
        let session = open();
        let collection = cache.plan(&session, &graph()).unwrap().unwrap();
        let answers = ask(cache, &session, &collection);
        assert!(!answers.contains(&Answer::Held), "a dead session holds a lease");
        let hits = answers.iter().filter(|answer| matches!(answer, Answer::Hit(_)));
        assert_eq!(hits.count(), stored);
    });
}
