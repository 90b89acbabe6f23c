//! A daemon's cache with pipelines of which every value is known: what is served can be told right from wrong.

use super::{
    TestClock, element,
    faulty::{Disk, Draw},
    tokens,
};
use parking_lot::Mutex;
use prebake_daemon::{
    Config, Result,
    cache::{
        Cache,
        commit::{Committed, Element, Source},
        descriptors::Descriptors,
        domain_of,
        mismatch::Mismatch,
        open::Host,
    },
    collection::{Answer, Collection, Item, Request},
    index::{Checked, IndexStore, MemoryStore, Space},
    memory::{BLOCK_BYTES, Block, BlockWriter},
    segment::{BlockId, Cost, Location},
    session::{Peer, Session},
    system::random::Random,
    tier::ssd::Why,
};
use prebake_fingerprint::{Digest, Graph};
use prebake_proto::v1;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::Duration,
};

const ME: Peer = Peer { uid: 1, pid: 0 };

/// A pipeline, and one of its items.
pub type Entry = (u64, u64);

/// A value's bytes: no two are alike. Those of odd pipelines can be compressed, and are many enough for that.
pub fn value(entry: Entry) -> Arc<[u8]> {
    static KNOWN: LazyLock<Mutex<BTreeMap<Entry, Arc<[u8]>>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock();
    Arc::clone(known.entry(entry).or_insert_with(|| made(entry).into()))
}

fn made((pipeline, item): Entry) -> Vec<u8> {
    let seed = pipeline << 32 | item;
    let len = Draw(seed).below(3000) as usize;
    match pipeline % 2 {
        0 => element(seed, 40 + len),
        _ => tokens(seed, 3000 + len),
    }
}

fn graph(pipeline: u64) -> Graph {
    let json = format!(
        r#"{{"version":1,"output":"b","operators":[
        {{"id":"a","name":"files","source":{{"files":{{}}}},"determinism":{{"deterministic":true}}}},
        {{"id":"b","name":"decode{pipeline}","inputs":[{{"operator":"a"}}],"determinism":{{"deterministic":true}}}}]}}"#
    );
    Graph::try_from(serde_json::from_str::<v1::Graph>(&json).unwrap()).unwrap()
}

fn item(n: u64) -> Item {
    // The same for all pipelines: only the collection tells their entries apart.
    Item {
        fingerprint: Digest(*blake3::hash(&n.to_le_bytes()).as_bytes()),
        name: format!("f{n}"),
    }
}

struct Bytes(Arc<[u8]>);

impl Source for Bytes {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn append(&self, offset: u64, len: usize, to: &mut BlockWriter) -> Result<()> {
        to.append(&self.0[offset as usize..offset as usize + len])
    }
}

struct Drawn(Mutex<Draw>);

impl Random for Drawn {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        let mut draw = self.0.lock();
        bytes.fill_with(|| draw.next() as u8);
        Ok(())
    }
}

/// An index that can be put back as it was.
pub fn copy_of(index: &dyn IndexStore) -> Arc<dyn IndexStore> {
    let copy = Checked(MemoryStore::default());
    for space in Space::ALL {
        copy.put(space, &index.scan(space).unwrap()).unwrap();
    }
    Arc::new(copy)
}

pub fn empty_index() -> Arc<dyn IndexStore> {
    Arc::new(Checked(MemoryStore::default()))
}

/// How long and how often to wait for room in RAM: ten seconds in all.
const ROOM_PAUSE: Duration = Duration::from_millis(5);
const ROOM_LOOKS: usize = 2000;

/// One life of a daemon.
pub struct Store {
    pub cache: Arc<Cache>,
    session: Arc<Session>,
}

impl Store {
    /// Starts over a disk and an index; `life` draws names and keys.
    pub fn start(disk: &Disk, index: &Arc<dyn IndexStore>, life: u64) -> Result<Self> {
        let config = Config {
            dir: PathBuf::from("/cache"),
            ram_bytes: prebake_daemon::config::RAM_BYTES_MIN,
            ssd_bytes: 1 << 30,
            ..Config::default()
        };
        let host = |_: &Config| Host {
            vfs: Arc::new(disk.clone()),
            clock: Arc::<TestClock>::default(),
            random: Arc::new(Drawn(Mutex::new(Draw(life)))),
            index: Arc::clone(index),
            problem: None,
        };
        let (cache, _) = Cache::open(config, host, Descriptors::raise())?;
        let session = cache.sessions.open(ME, "t".into())?;
        Ok(Self { cache, session })
    }

    fn collection(&self, pipeline: u64) -> Option<Arc<Collection>> {
        self.cache.plan(&self.session, &graph(pipeline)).unwrap().ok()
    }

    fn ask(&self, collection: &Collection, n: u64) -> Answer {
        let items = [item(n)];
        let request = Request {
            session: self.session.id,
            wanted: &items,
            ahead: &[],
            leases_max: 1,
            lease: Duration::from_secs(60),
            items: 0,
        };
        collection.acquire(&request, &*self.cache.clock).answers.remove(0)
    }

    /// Stores the values that are not there; whether all were taken.
    pub fn put(&self, pipeline: u64, items: impl IntoIterator<Item = u64>) -> bool {
        let Some(collection) = self.collection(pipeline) else {
            return false;
        };
        let mut all = true;
        for n in items {
            let Answer::Granted(token) = self.ask(&collection, n) else {
                continue;
            };
            let bytes = Bytes(value((pipeline, n)));
            let element = Element {
                item: item(n),
                token,
                layout: format!(r#"{{"kind":"bytes","len":{}}}"#, bytes.0.len()),
                offset: 0,
                len: bytes.0.len() as u64,
                cost: Cost {
                    cpu_ns: 1_000_000,
                    io_ns: 0,
                },
            };
            let committed = self
                .cache
                .commit(&self.session, &collection, &bytes, vec![element]);
            all &= matches!(committed[0], Committed::At(_));
        }
        all
    }

    fn locate(&self, (pipeline, n): Entry) -> Option<Location> {
        let collection = self.collection(pipeline)?;
        match self.ask(&collection, n) {
            Answer::Hit(location) => Some(location),
            Answer::Granted(_) => {
                collection.release(&[item(n).fingerprint], self.session.id);
                None
            }
            _ => None,
        }
    }

    /// What a job is served for an entry; None if it is to compute it. It asks again where what it was told is gone.
    pub fn served(&self, entry: Entry) -> Option<Vec<u8>> {
        (0..3).find_map(|_| self.read(self.locate(entry)?))
    }

    fn read(&self, at: Location) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < at.len {
            let offset = at.offset + bytes.len() as u64;
            let id = BlockId {
                segment: at.segment,
                index: (offset / BLOCK_BYTES) as u32,
            };
            let block = self.block(id)?;
            let within = offset % BLOCK_BYTES;
            let mut part = vec![0; (at.len - bytes.len() as u64).min(BLOCK_BYTES - within) as usize];
            block.read(within, &mut part).ok()?;
            bytes.extend(part);
        }
        Some(bytes)
    }

    /// A block. On a busy machine what was read before may take all room for a moment: then it is asked for again.
    fn block(&self, id: BlockId) -> Option<Arc<Block>> {
        let read = || self.cache.block(&domain_of(ME), id);
        let is_full = |found: &Result<_>| matches!(found, Err(full) if full.code() == "ram-full");
        let mut found = read();
        for _ in 0..ROOM_LOOKS {
            if !is_full(&found) {
                break;
            }
            std::thread::sleep(ROOM_PAUSE);
            found = read();
        }
        found.ok().map(|(block, _)| block)
    }

    /// Entries that are served; each as it was computed.
    pub fn check(&self, entries: impl IntoIterator<Item = Entry>) -> BTreeSet<Entry> {
        let found = entries.into_iter().filter(|entry| match self.served(*entry) {
            None => false,
            Some(bytes) => {
                assert!(*bytes == *value(*entry), "{entry:?}: wrong bytes were served");
                true
            }
        });
        found.collect()
    }

    /// Makes all that is published durable; what of these entries is then.
    pub fn sync(&self, entries: impl IntoIterator<Item = Entry>) -> BTreeSet<Entry> {
        // What of it is durable is looked for below.
        let _ = self.cache.sync();
        let is_durable = |entry: &Entry| {
            let at = self.locate(*entry);
            at.and_then(|at| self.cache.ssd.get(at.segment))
                .is_some_and(|s| s.is_durable())
        };
        entries.into_iter().filter(is_durable).collect()
    }

    /// Drops all that is durable.
    pub fn gc(&self) {
        self.cache.ssd.shrink(0, Why::Asked);
    }

    /// Finds that a pipeline does not reproduce.
    pub fn mismatch(&self, pipeline: u64) {
        if let Some(collection) = self.collection(pipeline) {
            let found = Mismatch {
                item: "f0".into(),
                reason: "other".into(),
                cpu_ns: 1,
            };
            self.cache.mismatched(&self.session, &collection, found);
        }
    }

    /// Ends the quarantines of two pipelines.
    pub fn clear(&self) -> Result<()> {
        (0..2).try_for_each(|pipeline| {
            let digest = graph(pipeline).digest().to_string();
            self.cache.clear(&domain_of(ME), &digest).map(drop)
        })
    }

    /// Whether nothing of a pipeline is served nor stored.
    pub fn is_quarantined(&self, pipeline: u64) -> bool {
        self.collection(pipeline).is_none()
    }
}
