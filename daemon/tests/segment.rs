//! A segment: written, read back through Arrow and through blocks, torn, damaged.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use arrow_array::{Array, FixedSizeListArray, LargeBinaryArray, UInt8Array, cast::AsArray};
use arrow_ipc::reader::FileReader;
use common::{append, element, fingerprint, read, tiers};
use prebake_daemon::{
    Error,
    error::Kind,
    memory::BLOCK_BYTES,
    segment::{BlockId, Blocks, From, Segment},
};
use std::{fs, path::PathBuf};

const RAM: u64 = 96 << 20;
const SSD: u64 = 1 << 30;

fn file(folder: &std::path::Path) -> PathBuf {
    fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn elements_of_one_shape_are_a_tensor_that_any_arrow_reader_opens() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    // 100 elements of 150,528 bytes: 3.6 blocks, so elements cross block boundaries.
    for seed in 0..100 {
        append(&mut open, &t.ram, seed, 150_528, 5_000_000);
    }
    open.close(&*t.ram, &[("k".into(), "v".into())], |s, b| t.ssd.reserve(s, b))
        .unwrap();

    let reader = FileReader::try_new(fs::File::open(file(folder.path())).unwrap(), None).unwrap();
    assert_eq!(reader.custom_metadata()["k"], "v");
    let field = reader.schema().field_with_name("value").unwrap().clone();
    assert_eq!(
        field.metadata()["ARROW:extension:name"],
        "arrow.fixed_shape_tensor"
    );
    let batch = reader.into_iter().next().unwrap().unwrap();
    let values: &FixedSizeListArray = batch.column(0).as_fixed_size_list();
    let inputs = batch.column(1).as_fixed_size_binary();
    assert_eq!(values.len(), 100);
    for row in 0..100 {
        let value = values.value(row);
        let value: &UInt8Array = value.as_primitive();
        assert_eq!(value.values(), &element(row as u64, 150_528)[..]);
        assert_eq!(inputs.value(row), fingerprint(row as u64).0);
        assert_eq!(
            batch.column(2).as_string::<i64>().value(row),
            format!("item-{row}")
        );
    }
}

#[test]
fn elements_of_many_lengths_are_binary_and_keep_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    let len = |seed: u64| [0, 1, 63, 4096, 5_000_000, 700_001][seed as usize % 6];
    let at: Vec<_> = (0..24)
        .map(|s| append(&mut open, &t.ram, s, len(s), 1).1)
        .collect();
    for (seed, at) in at.iter().enumerate() {
        assert_eq!(read(&t, at), element(seed as u64, len(seed as u64)), "while open");
    }
    open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
    let reader = FileReader::try_new(fs::File::open(file(folder.path())).unwrap(), None).unwrap();
    let batch = reader.into_iter().next().unwrap().unwrap();
    let values: &LargeBinaryArray = batch.column(0).as_binary();
    for (seed, at) in at.iter().enumerate() {
        let expected = element(seed as u64, len(seed as u64));
        assert_eq!(values.value(seed), expected);
        assert_eq!(read(&t, at), expected, "when durable");
    }
}

#[test]
fn blocks_come_back_from_disk_when_ram_is_too_small_and_the_budgets_hold() {
    let folder = tempfile::tempdir().unwrap();
    // moka may keep two blocks; the segment has ten.
    let t = tiers(folder.path(), 10 * BLOCK_BYTES, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    let mut at = Vec::new();
    for seed in 0..40 {
        at.push(append(&mut open, &t.ram, seed, 1 << 20, 1).1);
        if let Some(behind) = open.write_behind(&*t.ram) {
            behind.run(&*t.ram, &mut |s, b| t.ssd.reserve(s, b)).unwrap();
        }
    }
    open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
    for (seed, at) in at.iter().enumerate().rev() {
        assert_eq!(read(&t, at), element(seed as u64, 1 << 20));
        assert!(t.ram.budget().used() <= 10 * BLOCK_BYTES);
    }
}

#[test]
fn a_segment_with_a_block_that_was_not_written_never_becomes_durable() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    for seed in 0..3 {
        append(&mut open, &t.ram, seed, BLOCK_BYTES as usize, 1);
    }
    let full = |_: &Segment, _| Err(Error::new(Kind::Exhausted, "ssd-full", "no room"));
    assert!(open.writer().run(&*t.ram, &mut { full }).is_err());
    // There is room again, and what failed was not heard of.
    assert!(open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).is_err());
}

#[test]
fn a_block_that_is_read_as_its_segment_is_removed_does_not_stay_in_ram() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    for seed in 0..2 {
        append(&mut open, &t.ram, seed, BLOCK_BYTES as usize, 1);
    }
    let segment = open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
    t.ram.forget(segment.id, segment.blocks());
    let id = |index| BlockId {
        segment: segment.id,
        index,
    };
    // Its file is open from now on, as it is for a read that has begun.
    segment.block(0, &*t.ram).unwrap();
    assert!(t.ram.holds(id(0)));
    segment.unlink().unwrap();
    assert_eq!(segment.block(1, &*t.ram).unwrap().1, From::Ssd);
    assert!(!t.ram.holds(id(1)));
}

#[test]
fn a_block_that_jobs_ask_for_at_once_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    append(&mut open, &t.ram, 1, BLOCK_BYTES as usize, 1);
    let segment = open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
    for _ in 0..10 {
        t.ram.forget(segment.id, segment.blocks());
        let start = std::sync::Barrier::new(4);
        let reads = std::thread::scope(|scope| {
            let ask = || {
                start.wait();
                segment.block(0, &*t.ram).unwrap().1 == From::Ssd
            };
            let jobs: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            jobs.into_iter()
                .map(|job| job.join().unwrap())
                .filter(|read| *read)
                .count()
        });
        assert_eq!(reads, 1);
    }
}

#[test]
fn an_element_that_finds_no_memory_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), 10 * BLOCK_BYTES, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    let (_, first) = append(&mut open, &t.ram, 1, 100, 1);
    let bytes = vec![7; 40 << 20];
    let row = prebake_daemon::segment::Row {
        fingerprint: fingerprint(9),
        name: "big",
        layout: "{}",
        len: bytes.len() as u64,
        cost: Default::default(),
    };
    let error = open.append(&row, &*t.ram, |at, len, to| {
        to.append(&bytes[at as usize..at as usize + len])
    });
    assert_eq!(error.unwrap_err().code(), "ram-full");
    let (_, second) = append(&mut open, &t.ram, 2, 100, 1);
    assert_eq!((first.offset, second.offset), (0, 100));
    assert_eq!(read(&t, &first), element(1, 100));
    assert_eq!(read(&t, &second), element(2, 100));
}

#[test]
fn a_flipped_bit_is_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), 10 * BLOCK_BYTES, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    let (_, at) = append(&mut open, &t.ram, 1, 6 << 20, 1);
    let segment = open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
    t.ram.forget(segment.id, segment.blocks());
    let path = file(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[8192 + (5 << 20)] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(segment.block(0, &*t.ram).is_ok());
    assert_eq!(segment.block(1, &*t.ram).unwrap_err().code(), "corrupt");
    assert_eq!(at.segment, segment.id);
}

#[test]
fn a_flipped_bit_before_the_values_moves_no_column() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    for seed in 0..3 {
        append(&mut open, &t.ram, seed, 1000, 1);
    }
    let segment = open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
    let whole = fs::read(file(folder.path())).unwrap();
    let fingerprints = |table: &prebake_daemon::segment::Table| -> Vec<_> {
        (0..table.len()).map(|row| *table.fingerprint(row)).collect()
    };
    let expected = segment.with_rows(fingerprints).unwrap();
    // Of the message before the values, which says where each column begins.
    let mut refused = 0;
    for at in (8192 - 700..8192).flat_map(|at| [(at, 1u8), (at, 32)]) {
        let mut bytes = whole.clone();
        bytes[at.0] ^= at.1;
        fs::write(file(folder.path()), bytes).unwrap();
        match segment.with_rows(fingerprints) {
            Ok(found) => assert_eq!(found, expected, "byte {} of it", at.0),
            Err(error) => {
                assert_eq!(error.code(), "corrupt");
                refused += 1;
            }
        }
    }
    assert!(refused > 100, "{refused} flips were seen");
}

#[test]
fn a_flipped_bit_in_the_head_or_the_footer_makes_no_segment() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    for seed in 0..3 {
        append(&mut open, &t.ram, seed, 1000, 1);
    }
    let whose = [("prebake.domain".to_owned(), "uid:1".to_owned())];
    let segment = open.close(&*t.ram, &whose, |s, b| t.ssd.reserve(s, b)).unwrap();
    let whole = fs::read(file(folder.path())).unwrap();
    let flipped = folder.path().join("flipped");
    let footer = |bytes: &[u8]| {
        fs::write(&flipped, bytes).unwrap();
        let opened = prebake_daemon::vfs::Vfs::open(&prebake_daemon::vfs::OsVfs, &flipped).unwrap();
        prebake_daemon::segment::footer(&*opened, segment.name)
    };
    let seal = footer(&whole).unwrap().seal().at as usize;
    // What is between is the values and their rows, which have digests of their own.
    for at in (0..8192).step_by(7).chain(seal..whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(footer(&bytes).is_err(), "byte {at} of {}", whole.len());
    }
}

#[test]
fn a_file_cut_anywhere_is_no_segment() {
    let folder = tempfile::tempdir().unwrap();
    let t = tiers(folder.path(), RAM, SSD);
    let mut open = t.ssd.create(0, "aa").unwrap();
    for seed in 0..3 {
        append(&mut open, &t.ram, seed, 1000, 1);
    }
    let segment = open.close(&*t.ram, &[], |s, b| t.ssd.reserve(s, b)).unwrap();
    let whole = fs::read(file(folder.path())).unwrap();
    let torn = folder.path().join("torn");
    let vfs = prebake_daemon::vfs::OsVfs;
    for len in (0..whole.len()).step_by(13).chain(whole.len() - 64..whole.len()) {
        fs::write(&torn, &whole[..len]).unwrap();
        let opened = prebake_daemon::vfs::Vfs::open(&vfs, &torn).unwrap();
        assert!(
            prebake_daemon::segment::footer(&*opened, segment.name).is_err(),
            "cut at {len} of {}",
            whole.len()
        );
    }
}
