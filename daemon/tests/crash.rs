//! Whatever fails, and wherever the machine dies: nothing wrong is served, and nothing durable is lost.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{
    faulty::{Disk, Draw, Fault, Left},
    store::{Entry, Store, copy_of, empty_index},
};
use prebake_daemon::index::IndexStore;
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
};

const PIPELINES: u64 = 2;
const ITEMS: u64 = 6;

const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

/// What fails, in kinds: of a kind, all take the same way through the code, and differ in what is said.
const FAULTS: [&[Fault]; 5] = [
    &[Fault::Error(EIO), Fault::Error(EMFILE), Fault::Error(ENOSPC)],
    &[Fault::Torn(EIO), Fault::Torn(ENOSPC)],
    &[Fault::DiesBefore],
    &[Fault::DiesAfter],
    &[Fault::FlipsBit],
];

/// How the disk is left, and which index comes back.
fn ways(at: u64) -> [(Left, usize); 4] {
    [
        (Left::Nothing, usize::MAX),
        (Left::All, 0),
        (Left::Some(at), 1),
        (Left::Some(!at), usize::MAX),
    ]
}

fn all() -> impl Iterator<Item = Entry> {
    (0..PIPELINES).flat_map(|pipeline| (0..ITEMS).map(move |n| (pipeline, n)))
}

/// A machine with a daemon's folder, and what must be true of it.
struct Machine {
    disk: Disk,
    index: Arc<dyn IndexStore>,
    /// Indexes of earlier, each of which may come back.
    earlier: Vec<Arc<dyn IndexStore>>,
    lives: u64,
    /// Served whenever nothing fails.
    durable: BTreeSet<Entry>,
    quarantined: BTreeSet<u64>,
    /// Files that must not be there again.
    dropped: Vec<PathBuf>,
    /// Whether a file was damaged where it lies: that it is durable, is not known before it was read.
    is_damaged: bool,
}

impl Machine {
    fn new() -> Self {
        Self {
            disk: Disk::default(),
            index: empty_index(),
            earlier: vec![empty_index()],
            lives: 0,
            durable: BTreeSet::new(),
            quarantined: BTreeSet::new(),
            dropped: Vec::new(),
            is_damaged: false,
        }
    }

    fn start(&mut self) -> prebake_daemon::Result<Store> {
        self.lives += 1;
        Store::start(&self.disk, &self.index, self.lives)
    }

    fn put(&mut self, store: &Store) {
        for pipeline in 0..PIPELINES {
            store.put(pipeline, 0..ITEMS);
        }
    }

    fn sync(&mut self, store: &Store) {
        let mut synced = store.sync(all());
        if self.is_damaged {
            synced = store.check(synced);
        }
        self.durable.extend(synced);
        self.earlier.push(copy_of(&*self.index));
    }

    fn gc(&mut self, store: &Store) {
        self.durable.clear();
        store.gc();
    }

    fn quarantine(&mut self, store: &Store, pipeline: u64) {
        self.durable.retain(|entry| entry.0 != pipeline);
        store.mismatch(pipeline);
        assert!(store.is_quarantined(pipeline));
        if !self.disk.was_struck() {
            self.quarantined.insert(pipeline);
        }
    }

    /// Checks all that a job can see.
    fn check(&self, store: &Store) {
        let served = store.check(all());
        let lost: Vec<_> = self.durable.difference(&served).collect();
        assert!(lost.is_empty(), "durable, and not served: {lost:?}");
        for pipeline in &self.quarantined {
            assert!(store.is_quarantined(*pipeline), "{pipeline} is served again");
        }
    }

    /// The machine dies, comes back with one of its indexes, and has all it should; then it goes on as ever.
    fn recover(&mut self, left: Left, index: usize) {
        self.disk.restart(left);
        if let Some(earlier) = self.earlier.get(index) {
            self.index = copy_of(&**earlier);
        }
        let mut back = self.disk.segments();
        back.retain(|path| self.dropped.contains(path));
        assert!(back.is_empty(), "dropped, and there again: {back:?}");
        let store = self.start().unwrap();
        self.check(&store);
        self.put(&store);
        self.sync(&store);
        drop(store);
        self.disk.restart(Left::Nothing);
        let store = self.start().unwrap();
        self.check(&store);
        let wanted = all().filter(|entry| !store.is_quarantined(entry.0));
        assert_eq!(
            store.check(all()),
            wanted.collect(),
            "all was put, and made durable"
        );
    }
}

struct Scenario {
    name: &'static str,
    /// Without faults.
    before: fn(&mut Machine),
    /// With one.
    during: fn(&mut Machine, &Store),
    /// Whether the start itself is struck too.
    starting: bool,
}

fn filled(machine: &mut Machine) {
    let store = machine.start().unwrap();
    machine.put(&store);
    machine.sync(&store);
}

const SCENARIOS: [Scenario; 9] = [
    Scenario {
        name: "put",
        before: |_| {},
        during: |machine, store| machine.put(store),
        starting: false,
    },
    Scenario {
        name: "commit",
        before: |_| {},
        during: |machine, store| {
            machine.put(store);
            machine.sync(store);
        },
        starting: false,
    },
    Scenario {
        name: "evict",
        before: filled,
        during: |machine, store| {
            let before = store.cache.ssd.budget().used();
            store
                .cache
                .ssd
                .shrink(before / 2, prebake_daemon::tier::ssd::Why::Budget);
            machine.durable = store.check(machine.durable.clone());
            machine.put(store);
            machine.sync(store);
        },
        starting: false,
    },
    Scenario {
        name: "gc",
        before: filled,
        during: |machine, store| {
            machine.gc(store);
            machine.put(store);
            machine.sync(store);
        },
        starting: false,
    },
    Scenario {
        name: "quarantine",
        before: filled,
        during: |machine, store| {
            machine.quarantine(store, 0);
            machine.put(store);
            machine.sync(store);
        },
        starting: false,
    },
    Scenario {
        name: "clear",
        before: filled,
        during: |machine, store| {
            let dropped = machine.disk.segments();
            machine.durable.clear();
            store.mismatch(0);
            store.mismatch(1);
            // Once nothing keeps them from being served, no crash may bring them back.
            if store.clear().is_ok() {
                machine.dropped = dropped;
            }
        },
        starting: false,
    },
    Scenario {
        name: "start",
        before: filled,
        during: |_, store| drop(store.check(all())),
        starting: true,
    },
    Scenario {
        name: "rebuild",
        before: |machine| {
            filled(machine);
            machine.index = empty_index();
        },
        during: |_, store| drop(store.check(all())),
        starting: true,
    },
    Scenario {
        name: "old index",
        before: |machine| {
            filled(machine);
            let store = machine.start().unwrap();
            machine.gc(&store);
            store.put(1, 0..2);
            machine.sync(&store);
            store.put(0, 0..ITEMS);
            machine.sync(&store);
            machine.index = copy_of(&*machine.earlier[1]);
        },
        during: |_, store| drop(store.check(all())),
        starting: true,
    },
];

/// Runs a scenario with a fault at call `at`; false once it has fewer calls.
fn run(scenario: &Scenario, at: u64, fault: Fault, left: Left, index: usize) -> bool {
    let mut machine = Machine::new();
    (scenario.before)(&mut machine);
    machine.disk.restart(Left::Nothing);
    let store = if scenario.starting {
        machine.disk.strike(at, fault);
        machine.start()
    } else {
        let store = machine.start();
        machine.disk.strike(at, fault);
        store
    };
    // A daemon that does not start has served nothing.
    if let Ok(store) = store {
        (scenario.during)(&mut machine, &store);
    }
    let struck = machine.disk.was_struck();
    if fault == Fault::FlipsBit {
        // What was read wrong is taken for damaged, and computed again.
        machine.durable.clear();
    }
    machine.recover(left, index);
    struck
}

/// Has every call of a scenario fail in every way, and leaves the disk in four ways. Without
/// `PREBAKE_THOROUGH` every call fails in every kind of way, each time another of the kind and of the four.
fn exhaust(name: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _within = runtime.enter();
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    let mut points = 0;
    let is_thorough = std::env::var_os("PREBAKE_THOROUGH").is_some();
    for kind in FAULTS {
        for at in 0.. {
            let ways = ways(at);
            let all = kind.iter().flat_map(|fault| ways.map(|way| (*fault, way)));
            let all: Vec<_> = all.collect();
            let turn = at as usize % all.len();
            let tried = if is_thorough { &all[..] } else { &all[turn..=turn] };
            let struck = tried.iter().fold(false, |struck, (fault, (left, index))| {
                let ran = AssertUnwindSafe(|| run(scenario, at, *fault, *left, *index));
                let ran = catch_unwind(ran);
                struck | ran.unwrap_or_else(|_| panic!("{name} fails at call {at} by {fault:?}, {left:?}"))
            });
            if !struck {
                break;
            }
            points += 1;
        }
    }
    println!("{name}: {points} points");
    assert!(points > 0);
}

/// One test each, so that they run side by side.
macro_rules! nothing_wrong_is_served_whichever_call_fails_or_is_the_last {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            exhaust($name);
        })*

        #[test]
        fn every_scenario_is_run() {
            assert_eq!(SCENARIOS.map(|scenario| scenario.name), [$($name),*]);
        }
    };
}

nothing_wrong_is_served_whichever_call_fails_or_is_the_last! {
    of_put: "put",
    of_commit: "commit",
    of_evict: "evict",
    of_gc: "gc",
    of_quarantine: "quarantine",
    of_clear: "clear",
    of_start: "start",
    of_rebuild: "rebuild",
    of_a_start_with_an_old_index: "old index",
}

#[tokio::test]
async fn after_a_sync_that_failed_nothing_more_is_written() {
    let mut syncs = 0;
    for at in 0.. {
        let mut machine = Machine::new();
        let store = machine.start().unwrap();
        machine.disk.strike(at, Fault::Error(EIO));
        machine.put(&store);
        store.sync(all());
        match machine.disk.struck() {
            None => break,
            Some("syncing") => {
                syncs += 1;
                assert!(store.cache.ssd.is_read_only(), "call {at}");
            }
            Some(_) => {}
        }
    }
    assert!(syncs > 0);
}

/// Sequences that `make faults` has more of.
const SEQUENCES: u64 = 300;

#[tokio::test]
async fn nothing_wrong_is_served_after_any_sequence() {
    let sequences = std::env::var("PREBAKE_SEQUENCES").ok();
    let sequences = sequences.map_or(SEQUENCES, |n| n.parse().unwrap());
    let first = std::env::var("PREBAKE_SEED").map_or(0, |n| n.parse().unwrap());
    for seed in first..first + sequences {
        let ran = catch_unwind(|| sequence(seed));
        ran.unwrap_or_else(|_| panic!("sequence {seed}: PREBAKE_SEED={seed} PREBAKE_SEQUENCES=1 repeats it"));
    }
}

fn sequence(seed: u64) {
    let mut draw = Draw(seed);
    let mut machine = Machine::new();
    for _ in 0..2 + draw.below(6) {
        let mut flips = false;
        if draw.below(3) == 0 {
            let faults = FAULTS.concat();
            let fault = faults[draw.below(faults.len() as u64) as usize];
            flips = fault == Fault::FlipsBit;
            machine.disk.strike(draw.below(40), fault);
        }
        if draw.below(4) == 0 {
            damage(&mut machine, &mut draw);
        }
        if let Ok(store) = machine.start() {
            for _ in 0..1 + draw.below(5) {
                match draw.below(8) {
                    0..3 => drop(store.put(draw.below(PIPELINES), 0..draw.below(ITEMS))),
                    3..5 => machine.sync(&store),
                    5 => machine.gc(&store),
                    6 if draw.below(4) == 0 => machine.quarantine(&store, draw.below(PIPELINES)),
                    _ => drop(store.check(all())),
                }
            }
            drop(store.check(all()));
        }
        if flips {
            // What was read wrong is taken for damaged, and computed again.
            machine.durable.clear();
        }
        let left = [Left::Nothing, Left::All, Left::Some(draw.next())][draw.below(3) as usize];
        machine.disk.restart(left);
        if draw.below(3) == 0 {
            let earlier = &machine.earlier[draw.below(machine.earlier.len() as u64) as usize];
            machine.index = copy_of(&**earlier);
        }
    }
    machine.recover(Left::Some(seed), usize::MAX);
}

/// Flips a bit of a segment, or cuts it short: it may be lost, and no other.
fn damage(machine: &mut Machine, draw: &mut Draw) {
    let files = machine.disk.segments();
    if files.is_empty() {
        return;
    }
    // Which entries lie in it is not followed.
    machine.durable.clear();
    machine.is_damaged = true;
    let file = &files[draw.below(files.len() as u64) as usize];
    machine.disk.damage(file, |bytes| {
        if bytes.is_empty() {
        } else if draw.below(4) == 0 {
            bytes.truncate(draw.below(bytes.len() as u64) as usize);
        } else {
            let at = draw.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << draw.below(8);
        }
    });
}
