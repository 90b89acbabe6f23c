//! Whatever bit of whatever file is another, and wherever a file ends: nothing wrong is served, and no more is lost than
//! the segment that was damaged.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{
    faulty::{Disk, Draw, Left},
    store::{Entry, Store, copy_of, empty_index},
};
use std::{collections::BTreeSet, path::Path};

/// Damages that `make faults` has more of.
const DAMAGES: u64 = 500;
/// One of so many is a file that is cut short.
const CUTS: u64 = 8;

fn all() -> impl Iterator<Item = Entry> {
    (0..2).flat_map(|pipeline| (0..6).map(move |n| (pipeline, n)))
}

#[tokio::test]
async fn no_damage_makes_another_value_or_loses_another_segment() {
    let damages = std::env::var("PREBAKE_DAMAGES").map_or(DAMAGES, |n| n.parse().unwrap());
    let disk = Disk::default();
    let index = empty_index();
    let store = Store::start(&disk, &index, 1).unwrap();
    for pipeline in 0..2 {
        assert!(store.put(pipeline, 0..6));
    }
    assert_eq!(store.sync(all()), all().collect());
    let summaries: Vec<_> = store.cache.ssd.all().iter().map(|s| s.summary()).collect();
    assert!(
        summaries.iter().any(|s| s.lz4_len().is_some()),
        "one is compressed"
    );
    drop(store);

    let segments = disk.segments();
    assert_eq!(segments.len(), 2);
    let mut draw = Draw(0);
    let (mut seen, mut unseen) = (0, 0);
    for number in 0..damages {
        let disk = disk.copy();
        let damaged = &segments[draw.below(2) as usize];
        let what = damage(&disk, damaged, number, &mut draw);
        let index = if draw.below(2) == 0 {
            copy_of(&*index)
        } else {
            empty_index()
        };
        disk.restart(Left::Nothing);
        let ran = std::panic::AssertUnwindSafe(|| {
            let store = Store::start(&disk, &index, 2).unwrap();
            let served = store.check(all());
            // What was found damaged is computed again, and then all is there.
            for pipeline in 0..2 {
                store.put(pipeline, 0..6);
            }
            assert_eq!(store.check(all()), all().collect());
            served
        });
        let served: BTreeSet<Entry> =
            std::panic::catch_unwind(ran).unwrap_or_else(|_| panic!("damage {number}: {what}"));
        let whole: BTreeSet<u64> = (0..2)
            .filter(|p| (0..6).all(|n| served.contains(&(*p, n))))
            .collect();
        assert!(!whole.is_empty(), "{what}: more than one segment was lost");
        if whole.len() == 2 {
            unseen += 1;
        } else {
            seen += 1;
        }
    }
    println!("{damages} damages: {seen} were seen, {unseen} made no difference");
    assert!(seen > unseen);
}

/// Flips a bit of a file, or cuts it short; which.
fn damage(disk: &Disk, damaged: &Path, number: u64, draw: &mut Draw) -> String {
    let mut what = String::new();
    disk.damage(damaged, |bytes| {
        // Each part of a file is met, though values are most of it.
        let len = bytes.len() as u64;
        let at = match draw.below(3) {
            0 => draw.below(len),
            1 => draw.below(len.min(8400)),
            _ => len - 1 - draw.below(len.min(5000)),
        } as usize;
        if number.is_multiple_of(CUTS) {
            bytes.truncate(at);
            what = format!("cut at {at} of {len}");
        } else {
            let bit = draw.below(8);
            bytes[at] ^= 1 << bit;
            what = format!("bit {bit} of byte {at} of {len}");
        }
    });
    what
}
