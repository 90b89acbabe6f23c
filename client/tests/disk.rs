//! Elements that a daemon has on disk alone: its RAM tier is too small for them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "it is a test")]

mod support;

use prebake_client::{Items, Made};
use support::{Daemon, Data, ELEMENT_BYTES, all, data, ensure};

/// Room for 16 blocks of 4 MiB, of which most are kept for what is on its way; 90 MB of elements.
const RAM: [&str; 2] = ["--ram-bytes", "67108864"];
const COUNT: usize = 600;
/// What was just found may be evicted before it is read: so often in a row it is no chance.
const ATTEMPTS_MAX: usize = 10;

/// A daemon that has just started, all elements on its disk and none in memory.
fn stored(data: &Data) -> Daemon {
    let mut daemon = Daemon::start(&RAM);
    let items = data.items(&daemon.job("first"));
    for some in all(&items).chunks(50) {
        ensure(&items, data, some);
        daemon.control().sync().unwrap();
    }
    drop(items);
    daemon.restart();
    daemon
}

fn shuffled(count: usize) -> Vec<usize> {
    // 7919 is no divisor of any count here.
    (0..count).map(|i| i * 7919 % count).collect()
}

/// Reads batches in this order and compares every byte.
fn read(items: &Items, data: &Data, order: &[usize]) {
    for some in order.chunks(40) {
        ensure_located(items, some);
        let batch = items.batch(some, true, true).unwrap().expect("it is there");
        let expected: Vec<u8> = some.iter().flat_map(|i| data.element(*i)).collect();
        assert!(batch.bytes.as_slice() == expected);
    }
}

fn ensure_located(items: &Items, some: &[usize]) {
    let acquired = items.acquire(some, &[], 1, &mut support::patience()).unwrap();
    assert_eq!(acquired, prebake_client::Acquired::default());
}

#[test]
fn elements_are_read_from_disk_in_any_order_once_each_and_are_the_right_bytes() {
    let data = data(COUNT);
    let daemon = stored(&data);
    let items = data.items(&daemon.job("second"));
    let bytes = (COUNT * ELEMENT_BYTES) as u64;
    for (epoch, order) in [all(&items), shuffled(COUNT), shuffled(COUNT)]
        .into_iter()
        .enumerate()
    {
        let before = items.stats().bytes_ssd;
        items.expect(order.clone(), false);
        read(&items, &data, &order);
        let from_ssd = items.stats().bytes_ssd - before;
        // What surrounds elements and what is offered to the RAM tier takes a quarter at most; whole blocks for each of
        // them would take 27 times as much.
        assert!(
            from_ssd > bytes / 4 && from_ssd < bytes * 5 / 4,
            "epoch {epoch}: {from_ssd} of {bytes}"
        );
    }
    let totals = daemon.control().status().unwrap().totals.unwrap();
    assert!(totals.ram_bytes <= totals.ram_budget_bytes, "{totals:?}");
    let stats = items.stats();
    assert_eq!(
        (stats.computed, stats.bypassed, stats.reused),
        (0, 0, 3 * COUNT as u64)
    );
}

#[test]
fn an_order_that_is_not_kept_to_costs_no_wrong_bytes() {
    let data = data(COUNT);
    let daemon = stored(&data);
    let (items, other) = (
        data.items(&daemon.job("second")),
        data.items(&daemon.job("third")),
    );
    ensure_located(&items, &all(&items));
    ensure_located(&other, &all(&other));
    let order = shuffled(COUNT);
    items.expect(order.clone(), false);
    read(&items, &data, &order[..120]);
    // What comes next is left out, then comes in another order, by itself, twice, and by another job.
    read(&items, &data, &order[200..240]);
    let mut backwards = order[120..200].to_vec();
    backwards.reverse();
    read(&items, &data, &backwards);
    read(&other, &data, &order[300..380]);
    for i in [order[240], order[241], order[599]] {
        let (mut view, _) = items.get(i, false).unwrap().unwrap();
        assert!(view.as_slice() == data.element(i));
        view.as_mut_slice().unwrap().fill(0xee);
    }
    read(&items, &data, &[order[240], order[250], order[240], order[599]]);
    items.expect(all(&items), false);
    read(&items, &data, &all(&items)[..200]);
    read(&items, &data, &order[400..]);
}

#[test]
fn what_is_evicted_while_it_is_read_ahead_is_computed_again() {
    let data = data(COUNT);
    let daemon = stored(&data);
    let items = data.items(&daemon.job("second"));
    ensure_located(&items, &all(&items));
    let order = shuffled(COUNT);
    items.expect(order.clone(), false);
    read(&items, &data, &order[..80]);
    daemon.control().gc(0).unwrap();
    let mut computed = 0;
    for some in order[80..240].chunks(40) {
        let batch = (0..ATTEMPTS_MAX).find_map(|_| {
            let found = items.batch(some, true, true).unwrap();
            computed += if found.is_none() {
                ensure(&items, &data, some).len()
            } else {
                0
            };
            found
        });
        let expected: Vec<u8> = some.iter().flat_map(|i| data.element(*i)).collect();
        assert!(batch.unwrap().bytes.as_slice() == expected);
    }
    assert!(computed > 0);
}

#[test]
fn an_element_longer_than_the_ring_is_read_from_disk() {
    /// A ring has 7 MiB here.
    const LONG: usize = 24_000_001;
    let data = data(1);
    let mut daemon = Daemon::start(&["--ram-bytes", "268435456"]);
    let long: Vec<u8> = (0..LONG).map(|at| (at % 251) as u8).collect();
    let items = data.items(&daemon.job("first"));
    items.acquire(&[0], &[], 1, &mut support::patience()).unwrap();
    assert!(items.put(0, "long", &[&long], Made::default()).unwrap());
    items.commit().unwrap();
    daemon.control().sync().unwrap();
    drop(items);
    daemon.restart();
    let items = data.items(&daemon.job("second"));
    ensure_located(&items, &[0]);
    let (view, _) = items.get(0, true).unwrap().expect("it is there");
    assert!(view.as_slice() == long);
    assert_eq!(items.stats().reused, 1);
}
