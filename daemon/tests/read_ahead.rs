//! What jobs read from SSD: in the order that they declare, within their slots, and checked.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod common;

use common::{TestClock, append, element};
use parking_lot::{Condvar, Mutex};
use prebake_daemon::{
    Result,
    limits::budget::Budget,
    memory::{BLOCK_BYTES, SLOT_BYTES},
    segment::{Blocks, CHUNK_BYTES, From, Segment},
    system::random::SystemRandom,
    tier::{
        ram::RamTier,
        read_ahead::{Load, Piece, ReadAhead},
        ssd::SsdTier,
    },
    vfs::{OsVfs, Vfs, VfsFile},
};
use std::{
    fs,
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

/// Loads that are read at a time.
const READERS: usize = 4;
/// Values begin there in a file.
const VALUES_AT: u64 = 8192;
const POLL: Duration = Duration::from_millis(2);
const POLLS_MAX: usize = 5000;
const QUIET: Duration = Duration::from_millis(50);

/// Notes where values are read, each time before it is let through.
#[derive(Default)]
struct Gate {
    state: Mutex<(Vec<u64>, usize)>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self, offset: u64) {
        let mut state = self.state.lock();
        state.0.push(offset);
        while state.1 == 0 {
            self.opened.wait(&mut state);
        }
        state.1 -= 1;
    }

    fn open(&self, count: usize) {
        self.state.lock().1 += count;
        self.opened.notify_all();
    }

    /// What was read, once that many reads were begun, and no more follow.
    fn begun(&self, count: usize) -> Vec<u64> {
        for _ in 0..POLLS_MAX {
            if self.state.lock().0.len() >= count {
                break;
            }
            thread::sleep(POLL);
        }
        thread::sleep(QUIET);
        self.state.lock().0.clone()
    }
}

/// The real file system behind a gate.
struct Gated(Arc<Gate>);

struct GatedFile(Arc<dyn VfsFile>, Arc<Gate>);

impl VfsFile for GatedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        // The rest is the footer.
        if let Some(at) = offset
            .checked_sub(VALUES_AT)
            .filter(|at| *at <= ELEMENTS * SLOT_BYTES)
        {
            self.1.pass(at);
        }
        self.0.read_at(into, offset)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn len(&self) -> Result<u64> {
        self.0.len()
    }
}

impl Vfs for Gated {
    fn create(&self, path: &Path) -> Result<Arc<dyn VfsFile>> {
        OsVfs.create(path)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn VfsFile>> {
        Ok(Arc::new(GatedFile(OsVfs.open(path)?, Arc::clone(&self.0))))
    }

    fn publish(&self, from: &Path, to: &Path) -> Result<()> {
        OsVfs.publish(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        OsVfs.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> Result<()> {
        OsVfs.sync_folder(folder)
    }

    fn list(&self, folder: &Path) -> Result<Vec<(String, u64)>> {
        OsVfs.list(folder)
    }
}

/// A durable segment of 21 elements of a megabyte, the last one byte longer, in a RAM tier that has room for one block of it
/// and holds the last.
struct Disk {
    folder: tempfile::TempDir,
    ram: Arc<RamTier>,
    segment: Arc<Segment>,
    gate: Arc<Gate>,
}

const ELEMENTS: u64 = 21;

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (ram, gate) = (
            Arc::new(RamTier::new(prebake_daemon::config::RAM_BYTES_MIN, false).unwrap()),
            Arc::<Gate>::default(),
        );
        let ssd = SsdTier::new(
            folder.path().to_owned(),
            Budget::new(1 << 30, "ssd-full"),
            Arc::new(Gated(Arc::clone(&gate))),
            Arc::<TestClock>::default(),
            Arc::new(SystemRandom),
            Arc::clone(&ram),
            |_| {},
        );
        let mut open = ssd.create(0, "aa").unwrap();
        for seed in 0..ELEMENTS {
            append(&mut open, &ram, seed, len(seed), 1);
            if let Some(behind) = open.write_behind(&*ram) {
                behind.run(&*ram, &mut |s, b| ssd.reserve(s, b)).unwrap();
            }
        }
        let segment = open.close(&*ram, &[], |s, b| ssd.reserve(s, b)).unwrap();
        ram.forget(segment.id, segment.blocks());
        gate.open(1);
        assert_eq!(segment.block(5, &*ram).unwrap().1, From::Ssd);
        gate.state.lock().0.clear();
        Self {
            folder,
            ram,
            segment,
            gate,
        }
    }

    fn load(&self, seed: u64) -> Load {
        let at = seed * SLOT_BYTES;
        let piece = Piece {
            segment: self.segment.id,
            range: at..at + SLOT_BYTES,
        };
        Load::new(vec![piece]).unwrap()
    }

    fn loads(&self, seeds: &[u64]) -> Vec<Load> {
        seeds.iter().map(|seed| self.load(*seed)).collect()
    }

    fn wait(&self, ahead: &ReadAhead, number: u64) -> Result<Option<u64>> {
        ahead.wait(number, |piece, into| {
            self.segment.read(&piece.range, into, &*self.ram)
        })
    }

    fn readers(&self, ahead: &Arc<ReadAhead>) -> Vec<JoinHandle<()>> {
        let mut readers = Vec::new();
        while ahead.needs_reader() {
            let (ahead, segment, ram) = (
                Arc::clone(ahead),
                Arc::clone(&self.segment),
                Arc::clone(&self.ram),
            );
            readers.push(thread::spawn(move || {
                ahead.run(|piece, into| segment.read(&piece.range, into, &*ram));
            }));
        }
        readers
    }
}

fn len(seed: u64) -> usize {
    SLOT_BYTES as usize + usize::from(seed + 1 == ELEMENTS)
}

/// An order that is neither that of the file nor its reverse; of elements that are not in RAM.
const ORDER: [u64; 10] = [13, 2, 17, 5, 11, 0, 19, 7, 3, 15];

#[test]
fn loads_are_read_in_the_order_declared_and_never_more_than_there_are_slots() {
    let disk = Disk::new();
    let before = disk.ram.budget().used();
    let ahead = Arc::new(disk.ram.read_ahead().unwrap());
    let slots = ahead.ring().slots();
    assert_eq!(slots, 7);
    assert_eq!(disk.ram.budget().used(), before + slots * SLOT_BYTES);
    assert!(ahead.declare(None, disk.loads(&ORDER[..8])).is_err());
    // Forgotten at once, before any is read.
    ahead.declare(None, disk.loads(&ORDER[..7])).unwrap();
    let more = disk.loads(&ORDER[..1]);
    assert!(ahead.check_next(6, &more).is_err(), "another load is due");
    ahead.check_next(7, &more).unwrap();
    ahead.declare(None, more).unwrap();
    ahead.declare(None, disk.loads(&ORDER[..7])).unwrap();
    let readers = disk.readers(&ahead);
    assert_eq!(readers.len(), READERS);
    let offsets: Vec<u64> = ORDER.iter().map(|seed| seed * SLOT_BYTES).collect();
    let mut first = disk.gate.begun(READERS);
    first.sort_unstable();
    let mut expected = offsets[..READERS].to_vec();
    expected.sort_unstable();
    assert_eq!(first, expected);
    for begun in READERS..7 {
        disk.gate.open(1);
        let reads = disk.gate.begun(begun + 1);
        assert_eq!(reads[READERS..], offsets[READERS..=begun]);
    }
    disk.gate.open(4);
    // The numbers of the eight that were forgotten are used up.
    for (number, seed) in (8..).zip(&ORDER[..7]) {
        assert_eq!(disk.wait(&ahead, number).unwrap(), Some(SLOT_BYTES));
        assert!(ahead.ring().slot(number)[..] == element(*seed, len(*seed))[..]);
    }
    assert!(disk.wait(&ahead, 7).is_err() && disk.wait(&ahead, 15).is_err());
    assert_eq!(disk.gate.begun(7).len(), 7, "no slot is free");
    readers.into_iter().for_each(|reader| reader.join().unwrap());

    // Three are done with: three more, and those that are not are left alone.
    disk.gate.open(3);
    ahead.declare(Some(11), disk.loads(&ORDER[7..])).unwrap();
    disk.readers(&ahead)
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    for (number, seed) in (11..).zip(&ORDER[3..]) {
        assert_eq!(disk.wait(&ahead, number).unwrap(), Some(SLOT_BYTES));
        assert!(ahead.ring().slot(number)[..] == element(*seed, len(*seed))[..]);
    }
    drop(ahead);
    assert_eq!(disk.ram.budget().used(), before);
}

#[test]
fn what_is_wanted_no_more_is_not_read_and_never_lies_where_other_bytes_are_promised() {
    let disk = Disk::new();
    let ahead = Arc::new(disk.ram.read_ahead().unwrap());
    ahead.declare(None, disk.loads(&ORDER[..7])).unwrap();
    let readers = disk.readers(&ahead);
    disk.gate.begun(READERS);
    // Load 7 has the slot of load 0, which is being read.
    ahead.declare(None, disk.loads(&[1, 4])).unwrap();
    disk.gate.open(100);
    for (number, seed) in [(7, 1), (8, 4)] {
        assert_eq!(disk.wait(&ahead, number).unwrap(), Some(SLOT_BYTES));
        assert!(ahead.ring().slot(number)[..] == element(seed, len(seed))[..]);
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert_eq!(disk.gate.begun(READERS + 2).len(), READERS + 2);
}

#[test]
fn a_load_that_waits_for_its_slot_is_not_read_once_it_is_wanted_no_more() {
    let (disk, nothing) = (Disk::new(), vec![Load::new(Vec::new()).unwrap(); 6]);
    let ahead = Arc::new(disk.ram.read_ahead().unwrap());
    ahead.declare(None, disk.loads(&[13])).unwrap();
    let mut readers = disk.readers(&ahead);
    // Both wait for the slot of the first. Those between are of nothing, and there at once.
    for (number, seed) in [(7, 1), (14, 4)] {
        assert_eq!(disk.gate.begun(1), [13 * SLOT_BYTES]);
        let loads = [nothing.clone(), disk.loads(&[seed])].concat();
        ahead.declare(None, loads).unwrap();
        readers.extend(disk.readers(&ahead));
        disk.wait(&ahead, number - 1).unwrap();
    }
    disk.gate.open(100);
    assert_eq!(disk.wait(&ahead, 14).unwrap(), Some(SLOT_BYTES));
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert!(ahead.ring().slot(14)[..] == element(4, len(4))[..]);
    assert_eq!(disk.gate.begun(2), [13 * SLOT_BYTES, 4 * SLOT_BYTES]);
}

#[test]
fn who_waits_reads_what_nobody_reads() {
    let disk = Disk::new();
    disk.gate.open(100);
    let ahead = Arc::new(disk.ram.read_ahead().unwrap());
    ahead.declare(None, disk.loads(&ORDER[..7])).unwrap();
    for number in (0..7).rev() {
        let seed = &ORDER[number as usize];
        assert_eq!(disk.wait(&ahead, number).unwrap(), Some(SLOT_BYTES));
        assert!(ahead.ring().slot(number)[..] == element(*seed, len(*seed))[..]);
    }
}

#[test]
fn the_end_of_a_session_ends_its_reading() {
    let disk = Disk::new();
    let ahead = Arc::new(disk.ram.read_ahead().unwrap());
    ahead.declare(None, disk.loads(&ORDER[..7])).unwrap();
    let readers = disk.readers(&ahead);
    disk.gate.begun(READERS);
    let waiting = thread::spawn({
        let ahead = Arc::clone(&ahead);
        // One that is being read: what nobody reads yet is read by who waits.
        move || ahead.wait(0, |_, _| Ok(0)).is_err()
    });
    ahead.end();
    assert!(waiting.join().unwrap());
    disk.gate.open(100);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert_eq!(disk.gate.begun(READERS).len(), READERS);
    assert!(!ahead.needs_reader());
}

#[test]
fn rings_leave_memory_to_writers() {
    let ram = RamTier::new(prebake_daemon::config::RAM_BYTES_MIN, false).unwrap();
    let free = ram.budget().bytes_max() - ram.budget().used();
    let rings: Vec<_> = std::iter::from_fn(|| ram.read_ahead().ok()).collect();
    assert!(rings.len() > 1, "the first job does not take all");
    assert!(rings.iter().all(|ahead| ahead.ring().slots() >= 2));
    let left = ram.budget().bytes_max() - ram.budget().used();
    assert!(left >= free - 14 * SLOT_BYTES && left >= 4 * BLOCK_BYTES);
    assert_eq!(ram.read_ahead().err().unwrap().code(), "ram-full");
    drop(rings);
    assert!(ram.read_ahead().is_ok());
}

#[test]
fn pieces_of_any_length_lie_by_whole_chunks_and_a_flipped_bit_is_not_served() {
    let disk = Disk::new();
    disk.gate.open(100);
    let ahead = Arc::new(disk.ram.read_ahead().unwrap());
    let piece = |range| Piece {
        segment: disk.segment.id,
        range,
    };
    // Over the end of a block, a few bytes, one that is in RAM, and the last byte of all.
    let ranges = [
        4 * SLOT_BYTES - 10..4 * SLOT_BYTES + 10,
        SLOT_BYTES + 1..SLOT_BYTES + 2,
        20 * SLOT_BYTES + 5..20 * SLOT_BYTES + 6,
        21 * SLOT_BYTES..21 * SLOT_BYTES + 1,
    ];
    let all: Vec<u8> = (0..ELEMENTS).flat_map(|seed| element(seed, len(seed))).collect();
    let pieces = ranges.iter().cloned().map(piece).collect();
    ahead.declare(None, vec![Load::new(pieces).unwrap()]).unwrap();
    disk.readers(&ahead)
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    assert_eq!(disk.wait(&ahead, 0).unwrap(), Some(3 * CHUNK_BYTES));
    let mut at = 0;
    for range in ranges {
        let chunks = range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES);
        let place = at + range.start - chunks.start * CHUNK_BYTES;
        let found = ahead.ring().slot(0)[place as usize..(place + range.end - range.start) as usize].to_vec();
        assert!(found == all[range.start as usize..range.end as usize]);
        at += (chunks.end - chunks.start) * CHUNK_BYTES;
    }
    assert!(Load::new(vec![piece(0..SLOT_BYTES + 1)]).is_err());
    assert!(Load::new(vec![piece(CHUNK_BYTES - 1..SLOT_BYTES + 1)]).is_err());
    assert!(Load::new(vec![piece(5..5)]).is_err() && Load::new(vec![piece(0..u64::MAX)]).is_err());

    let path = fs::read_dir(disk.folder.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = fs::read(&path).unwrap();
    bytes[(VALUES_AT + 3 * SLOT_BYTES) as usize] ^= 1;
    fs::write(&path, bytes).unwrap();
    ahead.declare(None, disk.loads(&[3, 2])).unwrap();
    disk.readers(&ahead)
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    assert_eq!(disk.wait(&ahead, 1).unwrap(), None);
    assert_eq!(disk.wait(&ahead, 2).unwrap(), Some(SLOT_BYTES));
}

#[test]
fn a_block_is_kept_while_there_is_room() {
    let disk = Disk::new();
    disk.gate.open(100);
    disk.ram.forget(disk.segment.id, disk.segment.blocks());
    let mut into = vec![0; SLOT_BYTES as usize];
    let range = SLOT_BYTES..2 * SLOT_BYTES;
    assert_eq!(
        disk.segment.read(&range, &mut into, &*disk.ram).unwrap(),
        BLOCK_BYTES
    );
    assert!(into == element(1, len(1)));
    let range = 2 * SLOT_BYTES..3 * SLOT_BYTES;
    assert_eq!(disk.segment.read(&range, &mut into, &*disk.ram).unwrap(), 0);
    assert!(into == element(2, len(2)));
    let range = 4 * SLOT_BYTES..5 * SLOT_BYTES;
    assert_eq!(
        disk.segment.read(&range, &mut into, &*disk.ram).unwrap(),
        SLOT_BYTES
    );
    assert!(into == element(4, len(4)));
}
