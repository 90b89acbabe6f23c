//! What the daemon's tests share: tiers over a temporary folder, and elements to put there.
#![allow(dead_code, clippy::unwrap_used, missing_docs)]

pub mod faulty;
pub mod store;

use prebake_daemon::{
    collection::{Collection, Nearest, Origin},
    domain::Domain,
    limits::budget::Budget,
    memory::{BLOCK_BYTES, Block, BlockWriter},
    segment::{Cost, Location, OpenSegment, Row},
    system::{clock::Clock, random::SystemRandom},
    tier::{ram::RamTier, ssd::SsdTier},
    vfs::OsVfs,
};
use prebake_fingerprint::{Digest, Graph};
use prebake_proto::v1;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A clock that stands until it is moved.
#[derive(Default)]
pub struct TestClock(AtomicU64);

impl TestClock {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn wall_ns(&self) -> i64 {
        1_700_000_000_000_000_000
    }
}

pub struct Tiers {
    pub ram: Arc<RamTier>,
    pub ssd: Arc<SsdTier>,
    pub clock: Arc<TestClock>,
    pub evicted: Arc<AtomicU64>,
}

pub fn tiers(folder: &Path, ram_bytes: u64, ssd_bytes: u64) -> Tiers {
    let ram = Arc::new(RamTier::new(ram_bytes, false).unwrap());
    let clock = Arc::new(TestClock::default());
    let evicted = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&evicted);
    let ssd = SsdTier::new(
        folder.to_owned(),
        Budget::new(ssd_bytes, "ssd-full"),
        Arc::new(OsVfs),
        Arc::clone(&clock) as Arc<dyn Clock>,
        Arc::new(SystemRandom),
        Arc::clone(&ram),
        move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        },
    );
    Tiers {
        ram,
        ssd: Arc::new(ssd),
        clock,
        evicted,
    }
}

pub fn fingerprint(seed: u64) -> Digest {
    Digest(*blake3::hash(&seed.to_le_bytes()).as_bytes())
}

/// A collection of files that no catalog knows.
pub fn collection() -> Collection {
    let graph = v1::Graph {
        version: 1,
        operators: vec![v1::Operator {
            id: "files".into(),
            name: "files".into(),
            source: Some(v1::Source {
                kind: Some(v1::source::Kind::Files(v1::Files::default())),
            }),
            ..Default::default()
        }],
        output: "files".into(),
    };
    let graph = Graph::try_from(graph).unwrap();
    Collection::new(
        1,
        Domain("uid:1".into()),
        graph,
        Origin::default(),
        Nearest::default(),
        &SystemRandom,
    )
    .unwrap()
}

/// Bytes that differ for every seed and offset.
pub fn element(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new()
        .update(&seed.to_le_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

/// Ids of 15 bits as numbers of 64, which differ for every seed and place.
pub fn tokens(seed: u64, count: usize) -> Vec<u8> {
    let random = element(seed, 2 * count);
    let wide = random
        .chunks(2)
        .flat_map(|id| [id[0], id[1] & 0x7f, 0, 0, 0, 0, 0, 0]);
    wide.collect()
}

pub fn append(open: &mut OpenSegment, ram: &RamTier, seed: u64, len: usize, cpu_ns: u64) -> (u32, Location) {
    let layout = format!(r#"{{"dtype":"|u1","kind":"ndarray","shape":[{len}]}}"#);
    append_bytes(open, ram, seed, &element(seed, len), &layout, cpu_ns)
}

pub fn append_tokens(open: &mut OpenSegment, ram: &RamTier, seed: u64, count: usize) -> (u32, Location) {
    let layout = format!(r#"{{"dtype":"<i8","kind":"ndarray","shape":[{count}]}}"#);
    append_bytes(open, ram, seed, &tokens(seed, count), &layout, 1)
}

fn append_bytes(
    open: &mut OpenSegment,
    ram: &RamTier,
    seed: u64,
    bytes: &[u8],
    layout: &str,
    cpu_ns: u64,
) -> (u32, Location) {
    let name = format!("item-{seed}");
    let row = Row {
        fingerprint: fingerprint(seed),
        name: &name,
        layout,
        len: bytes.len() as u64,
        cost: Cost { cpu_ns, io_ns: 1 },
    };
    let copy = |at: u64, len, to: &mut BlockWriter| to.append(&bytes[at as usize..at as usize + len]);
    open.append(&row, ram, copy).unwrap()
}

/// An element's bytes as a client would read them: from the blocks it lies in.
pub fn read(tiers: &Tiers, at: &Location) -> Vec<u8> {
    let segment = tiers.ssd.get(at.segment).unwrap();
    let mut bytes = Vec::new();
    let mut offset = at.offset;
    while offset < at.offset + at.len {
        let index = (offset / BLOCK_BYTES) as u32;
        let (block, _) = segment.block(index, &*tiers.ram).unwrap();
        let end = (u64::from(index + 1) * BLOCK_BYTES).min(at.offset + at.len);
        bytes.extend(block_bytes(&block, offset % BLOCK_BYTES, end - offset));
        offset = end;
    }
    bytes
}

fn block_bytes(block: &Block, at: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    let mut done = 0;
    while done < bytes.len() {
        done += rustix::io::pread(block, &mut bytes[done..], at + done as u64).unwrap();
    }
    bytes
}
