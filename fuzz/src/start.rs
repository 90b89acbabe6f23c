//! What a daemon finds in its folder when it starts: a segment, the list of what did not reproduce, and an index.

use crate::{memory_disk::MemoryDisk, parts::Parts, segment};
use prebake_daemon::{
    Config,
    cache::{Cache, descriptors::Descriptors, domain_of, open::Host},
    collection::{Answer, Item, Request},
    index::{Checked, IndexStore, MemoryStore, Space},
    memory::BLOCK_BYTES,
    segment::BlockId,
    session::Peer,
    system::{clock::SystemClock, random::SystemRandom},
};
use prebake_fingerprint::Digest;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// More are not asked for: rows can be many.
const ITEMS_MAX: usize = 8;
/// What lists of the daemon's are called.
const LISTS: [&str; 2] = ["quarantine.json", "quarantine.copy.json"];

/// Parts: a segment's four, the daemon's lists, then a space, a key and a value of each index record.
pub fn run(bytes: &[u8]) {
    let mut parts = Parts(bytes);
    let (disk, index) = (MemoryDisk::default(), Checked(MemoryStore::default()));
    let file_name = format!("fuzzed-{}.arrow", segment::NAME);
    if let Some(file) = segment::assemble(&mut parts) {
        disk.put(&PathBuf::from("/cache/segments").join(&file_name), file);
    }
    for list in LISTS {
        if let Some(text) = parts.next().filter(|text| !text.is_empty()) {
            disk.put(&PathBuf::from("/cache").join(list), text.to_vec());
        }
    }
    while !parts.0.is_empty() {
        let space = Space::ALL[usize::from(parts.byte()) % Space::ALL.len()];
        let (Some(key), Some(value)) = (parts.next(), parts.next()) else {
            break;
        };
        let _ = index.put(space, &[(key.to_vec(), value.to_vec())]);
    }
    start(disk, index);
}

fn start(disk: MemoryDisk, index: Checked<MemoryStore>) {
    let config = Config {
        dir: PathBuf::from("/cache"),
        ram_bytes: prebake_daemon::config::RAM_BYTES_MIN,
        ssd_bytes: 1 << 30,
        huge_pages: false,
        ..Config::default()
    };
    let host = |_: &Config| Host {
        vfs: Arc::new(disk),
        clock: Arc::new(SystemClock::default()),
        random: Arc::new(SystemRandom),
        index: Arc::new(index),
        problem: None,
    };
    // A list that is damaged twice is an error, and the daemon does not start.
    let Ok((cache, _)) = Cache::open(config, host, Descriptors::raise()) else {
        return;
    };
    let peer = Peer { uid: 0, pid: 0 };
    let Ok(session) = cache.sessions.open(peer, "fuzz".into()) else {
        return;
    };
    for segment in cache.ssd.all() {
        let Ok(collection) = cache.catalog.get(segment.collection, &domain_of(peer)) else {
            continue;
        };
        let Ok(rows) = segment.load(&collection.owner()) else {
            continue;
        };
        let item = |(fingerprint, name): (Digest, &str)| Item {
            fingerprint,
            name: name.to_owned(),
        };
        let wanted: Vec<_> = rows.items().map(item).take(ITEMS_MAX).collect();
        let request = Request {
            session: session.id,
            wanted: &wanted,
            ahead: &[],
            leases_max: 0,
            lease: Duration::from_secs(1),
            items: 0,
        };
        for answer in collection.acquire(&request, &*cache.clock).answers {
            if let Answer::Hit(at) = answer {
                let index = u32::try_from(at.offset / BLOCK_BYTES).unwrap_or(u32::MAX);
                let _ = cache.block(
                    &domain_of(peer),
                    BlockId {
                        segment: at.segment,
                        index,
                    },
                );
            }
        }
    }
}
