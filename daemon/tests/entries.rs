//! Which entries a collection has: found by their whole fingerprint, among many, before and after a restart.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Tiers, append, collection, element, fingerprint, read, tiers};
use prebake_daemon::{
    collection::{Answer, Collection, Item, Reason, Request, lease::LEASES_MAX},
    segment::{Cost, Location, OpenSegment, Row, SegmentId, description},
    session::SessionId,
    tier::ssd::Why,
};
use prebake_fingerprint::Digest;
use std::time::Duration;

const RAM: u64 = 96 << 20;
const SSD: u64 = 1 << 30;
const ME: SessionId = SessionId(1);

fn item(seed: u64) -> Item {
    Item {
        fingerprint: fingerprint(seed),
        name: format!("item-{seed}"),
    }
}

fn answers(t: &Tiers, collection: &Collection, wanted: &[Item]) -> Vec<Answer> {
    let request = Request {
        session: ME,
        wanted,
        ahead: &[],
        leases_max: 0,
        lease: Duration::from_secs(1),
        items: 0,
    };
    collection.acquire(&request, &*t.clock).answers
}

fn found(t: &Tiers, collection: &Collection, item: Item) -> Option<Location> {
    match answers(t, collection, &[item]).remove(0) {
        Answer::Hit(at) => Some(at),
        Answer::Free => None,
        other => panic!("{other:?}"),
    }
}

fn enter(t: &Tiers, collection: &Collection, open: &OpenSegment, row: u32, item: &Item) -> Reason {
    collection
        .insert(item, (open.segment(), row), Cost::default(), false, &t.ssd)
        .reason
}

/// Appends elements and makes them entries; where they lie.
fn fill(
    t: &Tiers,
    collection: &Collection,
    open: &mut OpenSegment,
    seeds: std::ops::Range<u64>,
    len: impl Fn(u64) -> usize,
) -> Vec<(u64, Location)> {
    seeds
        .map(|seed| {
            let (row, at) = append(open, &t.ram, seed, len(seed), 1);
            enter(t, collection, open, row, &item(seed));
            (seed, at)
        })
        .collect()
}

fn close(t: &Tiers, collection: &Collection, open: OpenSegment) -> SegmentId {
    let metadata = description::metadata(&collection.owner(), collection.worlds.first());
    open.close(&*t.ram, &metadata, |s, b| t.ssd.reserve(s, b))
        .unwrap()
        .id
}

#[test]
fn items_whose_fingerprints_begin_alike_have_elements_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let collection = collection();
    let mut open = t.ssd.create(1, "aa").unwrap();
    let alike = |last: u8| {
        let mut fingerprint = fingerprint(1);
        fingerprint.0[31] = last;
        let name = last.to_string();
        Item { fingerprint, name }
    };
    let mut at = Vec::new();
    for last in 0..3 {
        assert_eq!(
            found(&t, &collection, alike(last)),
            None,
            "another's is not served for it"
        );
        let (row, place) = append(&mut open, &t.ram, last.into(), 100, 1);
        enter(&t, &collection, &open, row, &alike(last));
        at.push(place);
    }
    for (last, at) in at.into_iter().enumerate() {
        assert_eq!(found(&t, &collection, alike(last as u8)), Some(at));
    }
    assert_eq!(collection.entries(), 3);
}

#[test]
fn entries_of_many_segments_are_found_where_they_were_stored_last() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let collection = collection();
    let mut all = Vec::new();
    let mut segments = Vec::new();
    for first in [0, 700, 1400] {
        let mut open = t.ssd.create(1, "aa").unwrap();
        all.extend(fill(&t, &collection, &mut open, first..first + 700, |_| 10));
        segments.push(close(&t, &collection, open));
    }
    let mut last = t.ssd.create(1, "aa").unwrap();
    let again = fill(&t, &collection, &mut last, 300..900, |_| 10);
    all.splice(300..900, again);
    assert_eq!(collection.entries(), 2100, "in place of the earlier ones");
    for (seed, at) in &all {
        assert_eq!(found(&t, &collection, item(*seed)).as_ref(), Some(at), "{seed}");
    }
    // What lay in a segment that is gone is known to have been there.
    let held = t.ssd.get(segments[2]);
    t.ssd.remove(segments[2], Why::Asked);
    let (_, left) = (all.split_off(1400), all);
    assert_eq!(
        found(&t, &collection, item(1500)),
        None,
        "whoever still holds the segment"
    );
    drop(held);
    assert_eq!(found(&t, &collection, item(1500)), None);
    assert_eq!(enter(&t, &collection, &last, 700, &item(1500)), Reason::Evicted);
    for (seed, at) in &left {
        assert_eq!(found(&t, &collection, item(*seed)).as_ref(), Some(at), "{seed}");
    }
}

#[test]
fn a_segment_found_at_start_tells_the_same_of_its_rows_as_when_it_was_written() {
    for len in [|_| 64, |seed| [0, 1, 63, 70_000, 5][seed as usize % 5]] {
        let folder = tempfile::tempdir().unwrap();
        let t = tiers(folder.path(), RAM, SSD);
        let before = collection();
        let mut open = t.ssd.create(1, "aa").unwrap();
        let all = fill(&t, &before, &mut open, 0..600, len);
        let columns = |segment: SegmentId, t: &Tiers| {
            let rows = |table: &prebake_daemon::segment::Table| {
                let row = |r| {
                    (
                        *table.fingerprint(r),
                        table.name(r).to_owned(),
                        table.start(r),
                        table.cost(r),
                    )
                };
                (0..table.len()).map(row).collect::<Vec<_>>()
            };
            t.ssd.get(segment).unwrap().with_rows(rows).unwrap()
        };
        let open_rows = columns(open.segment().id, &t);
        let id = close(&t, &before, open);
        assert_eq!(columns(id, &t), open_rows, "from its file");
        for (seed, at) in &all {
            assert_eq!(
                found(&t, &before, item(*seed)).as_ref(),
                Some(at),
                "closed, {seed}"
            );
        }

        let summary = t.ssd.get(id).unwrap().summary();
        let name = t.ssd.get(id).unwrap().name;
        let path = t.ssd.get(id).unwrap().path().to_owned();
        let file_name = path.file_name().unwrap();
        let after = collection();
        let t = tiers(folder.path(), RAM, SSD);
        let segment = t.ssd.adopt(file_name.to_str().unwrap(), name, 1, 1, summary);
        after.find(segment);
        assert!(after.is_empty(), "nothing is read before it is asked for");
        after.load(&t.ssd);
        assert_eq!((after.entries(), after.cost()), (600, (600, 600)));
        for (seed, at) in &all {
            assert_eq!(
                found(&t, &after, item(*seed)).as_ref(),
                Some(at),
                "found at start, {seed}"
            );
        }
        let (seed, at) = &all[3];
        assert_eq!(read(&t, at), element(*seed, len(*seed)));

        // Why something is computed is known by the names in the file.
        let mut open = t.ssd.create(1, "aa").unwrap();
        let changed = Item {
            fingerprint: Digest([9; 32]),
            ..item(5)
        };
        let (row, _) = append(&mut open, &t.ram, 1000, 1, 1);
        assert_eq!(enter(&t, &after, &open, row, &changed), Reason::InputChanged);
        assert_eq!(enter(&t, &after, &open, row + 1, &item(1001)), Reason::NewInput);
        t.ssd.remove(id, Why::Budget);
        assert_eq!(enter(&t, &after, &open, row + 2, &item(7)), Reason::Evicted);
    }
}

#[test]
fn rows_without_memory_are_not_entries() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let mut open = t.ssd.create(1, "aa").unwrap();
    let name = "n".repeat(13 << 20);
    let row = Row {
        fingerprint: fingerprint(1),
        name: &name,
        layout: "{}",
        len: 0,
        cost: Cost::default(),
    };
    let error = open.append(&row, &*t.ram, |_, _, _| Ok(())).unwrap_err();
    assert_eq!(error.code(), "rows-full");
    assert_eq!(open.segment().locate(0), None);
}

#[test]
fn a_session_has_no_more_leases_than_it_can_use() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let collection = collection();
    let wanted: Vec<_> = (0..LEASES_MAX as u64 + 10).map(item).collect();
    let granted = |session| {
        let request = Request {
            session,
            wanted: &wanted,
            ahead: &[],
            leases_max: usize::MAX,
            lease: Duration::from_secs(60),
            items: 0,
        };
        let answers = collection.acquire(&request, &*t.clock).answers;
        answers
            .iter()
            .filter(|answer| matches!(answer, Answer::Granted(_)))
            .count()
    };
    assert_eq!(granted(ME), LEASES_MAX);
    assert_eq!(granted(ME), LEASES_MAX, "those are its own");
    assert_eq!(
        granted(SessionId(2)),
        2,
        "half of its part of the ten that are left"
    );
    collection.end_session(ME);
    assert!(granted(SessionId(2)) > 2);
}
