//! The SSD tier drops what is cheapest to lose, and stays within its budget.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Tiers, append, collection, fingerprint, tiers};
use prebake_daemon::{
    collection::{Answer, Item, Request, entries::GHOSTS_MAX},
    segment::{Cost, SegmentId},
    session::SessionId,
    tier::{IndexSpace, ssd::Why},
};
use std::{fs, os::unix::fs::MetadataExt, path::Path, time::Duration};

const RAM: u64 = 96 << 20;
const MIB: u64 = 1 << 20;
const ELEMENT: usize = 4 << 20;

/// A durable segment of 4 MiB that took so much CPU.
fn segment(t: &Tiers, seed: u64, cpu_ms: u64) -> Option<SegmentId> {
    let mut open = t.ssd.create(0, "aa").unwrap();
    let id = open.segment().id;
    append(&mut open, &t.ram, seed, ELEMENT, cpu_ms * 1_000_000);
    let closed = open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b));
    if closed.is_err() {
        t.ssd.remove(id, Why::Unwritten);
    }
    closed.is_ok().then_some(id)
}

fn disk_bytes(folder: &Path) -> u64 {
    fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().metadata().unwrap().blocks() * 512)
        .sum()
}

#[test]
fn cheap_segments_make_room_for_dear_ones_and_not_the_other_way() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, 18 * MIB);
    let cheap = segment(&t, 1, 100).unwrap();
    let dear: Vec<_> = (2..5).map(|s| segment(&t, s, 1000).unwrap()).collect();
    assert!(segment(&t, 9, 10).is_none(), "it displaces nothing worth more");
    let newcomer = segment(&t, 10, 1000).unwrap();
    assert!(t.ssd.get(cheap).is_none());
    assert!(dear.iter().chain([&newcomer]).all(|id| t.ssd.get(*id).is_some()));
    assert!(disk_bytes(folder.path()) <= 18 * MIB);
}

#[test]
fn a_segment_that_somebody_still_reads_gives_its_room_back_when_it_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, 18 * MIB);
    let id = segment(&t, 1, 100).unwrap();
    let held = t.ssd.get(id).unwrap();
    assert!(t.ssd.budget().used() > 4 * MIB);
    t.ssd.shrink(0, Why::Asked);
    assert_eq!(t.ssd.budget().used(), 0);
    drop(held);
    assert_eq!(t.ssd.budget().used(), 0);
}

#[test]
fn a_file_that_cannot_be_removed_counts_until_it_can_and_costs_no_other_segment() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, 18 * MIB);
    let ids: Vec<_> = (0..4).map(|s| segment(&t, s, 100 * (s + 1)).unwrap()).collect();
    let used = t.ssd.budget().used();
    let path = t.ssd.get(ids[0]).unwrap().path().to_owned();
    let away = folder.path().join("away");
    fs::rename(&path, &away).unwrap();
    // A folder is not removed as a file is, by nobody.
    fs::create_dir(&path).unwrap();
    t.ssd.shrink(0, Why::Asked);
    assert!(t.ssd.get(ids[0]).is_none(), "it is served no more");
    assert_eq!(t.ssd.all().len(), 3, "dropping others would free nothing");
    assert_eq!(t.ssd.budget().used(), used);
    assert!(segment(&t, 9, 5000).is_none(), "there is no room for a newcomer");
    assert_eq!(t.ssd.all().len(), 3);
    assert!(t.ssd.sync_removed().is_err());

    t.clock.advance(Duration::from_secs(60));
    assert!(
        segment(&t, 9, 5000).is_some(),
        "after a while another makes room for it"
    );
    assert_eq!(t.ssd.all().len(), 3);

    fs::remove_dir(&path).unwrap();
    fs::rename(&away, &path).unwrap();
    assert!(
        segment(&t, 10, 5000).is_some(),
        "its room is had once it can be removed"
    );
    assert!(!path.exists());
    assert_eq!(t.ssd.all().len(), 4, "and no other is lost");
    assert!(disk_bytes(folder.path()) <= 18 * MIB);
    t.ssd.sync_removed().unwrap();
}

#[test]
fn equal_segments_keep_a_stable_subset_through_cyclic_epochs() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, 18 * MIB);
    let kept: Vec<_> = (0..4).map(|s| segment(&t, s, 500).unwrap()).collect();
    for epoch in 0..3 {
        for s in 4..8 {
            t.clock.advance(Duration::from_secs(1));
            assert!(segment(&t, 100 * epoch + s, 500).is_none());
        }
    }
    assert!(kept.iter().all(|id| t.ssd.get(*id).is_some()));
}

#[test]
fn what_nobody_reads_any_more_ages_out() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, 18 * MIB);
    let old: Vec<_> = (0..4).map(|s| segment(&t, s, 500).unwrap()).collect();
    t.clock.advance(Duration::from_secs(2 * 3600));
    t.ssd.touch(old[0], 1.0);
    for s in 4..7 {
        assert!(segment(&t, s, 500).is_some());
    }
    assert!(t.ssd.get(old[0]).is_some(), "it was read a moment ago");
    assert!(old[1..].iter().all(|id| t.ssd.get(*id).is_none()));
}

#[test]
fn gc_frees_what_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, 64 * MIB);
    for s in 0..8 {
        segment(&t, s, 500).unwrap();
    }
    t.ssd.shrink(10 * MIB, Why::Asked);
    assert!(t.ssd.budget().used() <= 10 * MIB);
    assert!(disk_bytes(folder.path()) <= 10 * MIB);
    assert_eq!(t.ssd.all().len(), 2);
}

#[test]
fn the_index_claims_its_room_before_it_grows() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, 18 * MIB);
    let space = IndexSpace::new(t.ssd.side_reservation().unwrap(), 0);
    let kept = (0..4).filter_map(|s| segment(&t, s, 500)).count();
    assert_eq!(kept, 4);
    space.claim(8000, &t.ssd).unwrap();
    assert_eq!(t.ssd.all().len(), 3, "a segment made room");
    let claimed = t.ssd.budget().used();
    assert!(claimed + MIB <= 18 * MIB);

    space.measured(0);
    assert_eq!(t.ssd.budget().used(), claimed, "it may not be written yet");
    space.measured(0);
    assert!(t.ssd.budget().used() < claimed - 8000 * 260);

    assert_eq!(space.claim(100_000, &t.ssd).unwrap_err().code(), "index-full");
    assert_eq!(t.ssd.all().len(), 3, "what cannot be had costs nothing");
}

/// Some pipeline.
#[test]
fn ghosts_are_forgotten_when_they_are_many_and_entries_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, 100 * MIB);
    let (collection, session) = (collection(), SessionId(1));
    let item = |seed: u64| Item {
        fingerprint: fingerprint(seed),
        name: seed.to_string(),
    };
    let mut open = t.ssd.create(1, "aa").unwrap();
    let (row, _) = append(&mut open, &t.ram, 0, 10, 1);
    collection.insert(&item(0), (open.segment(), row), Cost::default(), false, &t.ssd);
    let lost = t.ssd.create(1, "aa").unwrap();
    for seed in 1..=GHOSTS_MAX as u64 + 1 {
        collection.insert(
            &item(seed),
            (lost.segment(), seed as u32),
            Cost::default(),
            false,
            &t.ssd,
        );
    }
    assert_eq!(collection.entries(), GHOSTS_MAX as u64 + 2);
    t.ssd.remove(lost.segment().id, Why::Unwritten);
    let asked = [item(0), item(1)];
    let request = Request {
        session,
        wanted: &asked,
        ahead: &[],
        leases_max: 0,
        lease: Duration::from_secs(1),
        items: 0,
    };
    let answers = collection.acquire(&request, &*t.clock).answers;
    assert!(matches!(answers[..], [Answer::Hit(_), Answer::Free]));
    assert_eq!(collection.entries(), 1);
}

#[test]
fn rows_take_their_share_of_memory_and_give_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, 100 * MIB);
    let used = || t.ram.rows().used();
    let mut open = t.ssd.create(1, "aa").unwrap();
    let id = open.segment().id;
    drop(append(&mut open, &t.ram, 0, 0, 1));
    let first = used();
    (1..5_000).for_each(|seed| drop(append(&mut open, &t.ram, seed, 0, 1)));
    assert!((600_000..900_000).contains(&used()), "{}", used());
    let segment = open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
    t.ssd.remove(id, Why::Unwritten);
    drop(segment);
    assert_eq!(used(), 0);

    let mut small = t.ssd.create(1, "aa").unwrap();
    append(&mut small, &t.ram, 0, 0, 1);
    assert_eq!(used(), first);
    let _small = small.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
    assert!(used() < 1000, "what was reserved for more is given back");
}
