//! Segments whose values are compressed: read back as they were, smaller on disk, and never other than they were.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Tiers, append, append_tokens, element, read, tiers, tokens};
use prebake_daemon::{
    error::Kind,
    memory::{BLOCK_BYTES, SLOT_BYTES},
    segment::{Blocks, CHUNK_BYTES, Codec, Location, Segment, Table, chunks, footer},
    tier::read_ahead::{Load, Piece},
    vfs::{OsVfs, Vfs},
};
use std::{fs, path::PathBuf, sync::Arc};

/// So little that moka keeps two blocks.
const RAM: u64 = 10 * BLOCK_BYTES;
const SSD: u64 = 1 << 30;

/// A segment of elements of so many tokens each, closed, and not in RAM.
struct Disk {
    folder: tempfile::TempDir,
    t: Tiers,
    segment: Arc<Segment>,
    at: Vec<Location>,
}

fn counts_even(_: u64) -> usize {
    100_003
}

fn counts_ragged(seed: u64) -> usize {
    [0, 1, 16, 1024, 625_000, 87_501][seed as usize % 6]
}

impl Disk {
    fn new(elements: u64, count: impl Fn(u64) -> usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let t = tiers(folder.path(), RAM, SSD);
        let mut open = t.ssd.create(0, "aa").unwrap();
        let mut at = Vec::new();
        for seed in 0..elements {
            at.push(append_tokens(&mut open, &t.ram, seed, count(seed)).1);
            if let Some(behind) = open.write_behind(&*t.ram) {
                behind.run(&*t.ram, &mut |s, b| t.ssd.reserve(s, b)).unwrap();
            }
            let early = &at[seed as usize / 2];
            assert!(
                read(&t, early) == tokens(seed / 2, count(seed / 2)),
                "while it is open"
            );
        }
        let segment = open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
        let this = Self {
            folder,
            t,
            segment,
            at,
        };
        this.forget();
        this
    }

    fn forget(&self) {
        self.t.ram.forget(self.segment.id, self.segment.blocks());
    }

    fn file(&self) -> PathBuf {
        fs::read_dir(self.folder.path())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
    }
}

#[test]
fn token_ids_are_smaller_on_disk_and_come_back_as_they_were() {
    for counts in [counts_even, counts_ragged] {
        let disk = Disk::new(36, counts);
        for (seed, at) in disk.at.iter().enumerate().rev() {
            assert!(read(&disk.t, at) == tokens(seed as u64, counts(seed as u64)));
            assert!(disk.t.ram.budget().used() <= RAM);
        }
        let summary = disk.segment.summary();
        let compression = summary.compression.unwrap();
        assert_eq!(compression.codec, Codec::Lz4);
        let ratio = compression.stored_len as f64 / summary.value_len as f64;
        assert!(
            ratio < 0.8 && (ratio - compression.sample.get()).abs() < 0.02,
            "{ratio}"
        );
        let on_disk = fs::metadata(disk.file()).unwrap().len();
        assert!(on_disk < compression.stored_len + (64 << 10));
        assert_eq!(disk.segment.file_bytes(), on_disk);
        assert_eq!(
            disk.t.ssd.budget().used(),
            on_disk,
            "what was reserved beyond is given back"
        );
    }
}

#[test]
fn what_does_not_become_smaller_lies_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    for seed in 0..10 {
        append(&mut open, &t.ram, seed, 150_528, 1);
    }
    let segment = open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
    let compression = segment.summary().compression.unwrap();
    assert_eq!(compression.codec, Codec::None);
    assert!(compression.sample.get() > 0.99);
    assert_eq!(compression.stored_len, 1_505_280);
    let file = fs::read(segment.path()).unwrap();
    assert!(file[8192..8192 + 150_528] == element(0, 150_528));

    // A few pages are read as fast either way.
    let mut open = t.ssd.create(0, "aa").unwrap();
    append_tokens(&mut open, &t.ram, 1, 1000);
    let segment = open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
    assert_eq!(segment.summary().compression, None);
    assert!(fs::read(segment.path()).unwrap()[8192..16192] == tokens(1, 1000));
}

#[test]
fn a_reader_is_given_the_chunks_that_it_wants() {
    let disk = Disk::new(20, counts_even);
    let all: Vec<u8> = (0..20).flat_map(|seed| tokens(seed, counts_even(seed))).collect();
    let end = all.len() as u64;
    let ranges = [
        5..9,
        CHUNK_BYTES * 7 - 1..CHUNK_BYTES * 8 + 1,
        BLOCK_BYTES - 70_000..BLOCK_BYTES + 70_000,
        2 * BLOCK_BYTES..2 * BLOCK_BYTES + SLOT_BYTES / 2,
        end - 1..end,
    ];
    let ahead = disk.t.ram.read_ahead().unwrap();
    let pieces = ranges.iter().cloned().map(|range| Piece {
        segment: disk.segment.id,
        range,
    });
    ahead
        .declare(None, vec![Load::new(pieces.collect()).unwrap()])
        .unwrap();
    let there = ahead.wait(0, |piece, into| {
        disk.segment.read(&piece.range, into, &*disk.t.ram)
    });
    assert!(there.unwrap().unwrap() > 0);
    let mut at = 0;
    for range in ranges {
        let whole = chunks(&range);
        let place = (at + range.start - whole.start) as usize;
        let len = (range.end - range.start) as usize;
        let found = ahead.ring().slot(0)[place..place + len].to_vec();
        assert!(found == all[range.start as usize..range.end as usize]);
        at += whole.end - whole.start;
    }
}

/// What was read, or None if it was refused as it should be.
fn seen<T>(result: prebake_daemon::Result<T>) -> Option<T> {
    if let Err(error) = &result {
        assert!(matches!(error.kind(), Kind::Corrupt | Kind::Io), "{error}");
    }
    result.ok()
}

/// Of what a small compressed segment holds, all that can be read: rows, and values where they match.
fn whole(disk: &Disk) -> Option<(Vec<[u8; 32]>, Vec<u8>)> {
    disk.forget();
    let rows = |table: &Table| {
        (0..table.len())
            .map(|row| table.fingerprint(row).0)
            .collect::<Vec<_>>()
    };
    let rows = seen(disk.segment.with_rows(rows))?;
    let mut values = vec![0; disk.segment.summary().value_len as usize];
    let (block, _) = seen(disk.segment.block(0, &*disk.t.ram))?;
    block.read(0, &mut values).unwrap();
    Some((rows, values))
}

#[test]
fn no_flipped_bit_makes_another_value() {
    let disk = Disk::new(30, |seed| 500 + seed as usize);
    let expected = whole(&disk).unwrap();
    let file = fs::read(disk.file()).unwrap();
    assert_eq!(disk.segment.summary().compression.unwrap().codec, Codec::Lz4);
    let stored_len = disk.segment.summary().compression.unwrap().stored_len as usize;
    // Much of what says where values lie, and some of the values.
    let head = (8192 - 800..8192 + 40).step_by(3);
    let values = (8192..8192 + stored_len).step_by(997);
    let tail = (8192 + stored_len - 8..file.len()).step_by(5);
    let (mut refused, mut tried) = (0, 0);
    for at in head.chain(values).chain(tail) {
        let mut torn = file.clone();
        torn[at] ^= 1 << (at % 8);
        fs::write(disk.file(), torn).unwrap();
        tried += 1;
        match whole(&disk) {
            Some(found) => assert!(found == expected, "byte {at}"),
            None => refused += 1,
        }
    }
    assert!(refused * 3 > tried, "{refused} of {tried} were seen");
}

#[test]
fn a_length_that_lies_is_refused_before_memory_is_taken_for_it() {
    let disk = Disk::new(30, |seed| 500 + seed as usize);
    let file = fs::read(disk.file()).unwrap();
    assert!(whole(&disk).is_some());
    for len in [0, 1, disk.segment.summary().value_len - 4, 1 << 40, u64::MAX] {
        let mut lying = file.clone();
        lying[8192..8200].copy_from_slice(&len.to_le_bytes());
        fs::write(disk.file(), lying).unwrap();
        assert!(whole(&disk).is_none(), "{len}");
    }
}

#[test]
fn a_compressed_file_cut_anywhere_is_no_segment() {
    let disk = Disk::new(30, |seed| 500 + seed as usize);
    let file = fs::read(disk.file()).unwrap();
    let torn = disk.folder.path().join("torn");
    for len in (0..file.len()).step_by(131).chain(file.len() - 64..file.len()) {
        fs::write(&torn, &file[..len]).unwrap();
        let opened = OsVfs.open(&torn).unwrap();
        assert!(
            footer(&*opened, disk.segment.name).is_err(),
            "cut at {len} of {}",
            file.len()
        );
    }
}
