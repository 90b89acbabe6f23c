//! Segments: one self-describing Arrow file of one collection's elements, in the order they
//! arrived. The unit of storage and eviction.

pub mod description;
mod digest;
mod format;
mod id;
mod places;
mod read;
mod table;
mod writer;

pub use digest::BlockDigest;
pub use id::{BlockId, SegmentId};
pub use places::Places;
pub use read::{Footer, Rows, footer};
pub use table::{Cost, Table};
pub use writer::{OpenSegment, Row, WriteBehind};

use crate::{
    budget::Reservation,
    collection::Collection,
    entries::ENTRY_BYTES,
    error::{Error, Kind, Result},
    memory::{BLOCK_BYTES, Block},
    tier::ram::RamTier,
    vfs::{Vfs, VfsFile},
};
use format::{ROWS_DIGEST, VALUES_AT};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Footer metadata: comma-separated digests of each block's bytes.
const BLOCK_DIGESTS: &str = "prebake.blocks";

/// Bytes of values are kept under this; so an element must be smaller too.
pub const ELEMENT_BYTES_MAX: u64 = 256 << 20;

/// Blocks of one segment that are read at a time: an SSD is as fast with fewer requests of 4 MiB.
const READERS_MAX: usize = 4;

/// A segment, open or durable.
pub struct Segment {
    /// Its number.
    pub id: SegmentId,
    /// The collection whose elements it holds.
    pub collection: u64,
    path: PathBuf,
    vfs: Arc<dyn Vfs>,
    held: RwLock<Held>,
    digests: Mutex<BTreeMap<u32, BlockDigest>>,
    /// Held while a block is read from the file, so that jobs that ask for it at once have it read once.
    reading: [Mutex<()>; READERS_MAX],
    /// Blocks that are not in the file yet.
    pinned: Mutex<BTreeMap<u32, Arc<Block>>>,
    /// The temporary file, while it is written.
    file: RwLock<Option<Arc<dyn VfsFile>>>,
    space: Mutex<Space>,
    durable: AtomicBool,
    gone: AtomicBool,
    summary: Mutex<Summary>,
}

/// What is in memory of a segment's rows.
#[derive(Debug)]
enum Held {
    /// Nothing yet: it was found at start.
    Nothing,
    /// All columns, which are written when it is closed.
    All(Table),
    /// Where the elements lie.
    Places(Places),
}

/// What a segment takes of the budgets.
#[derive(Debug)]
pub struct Space {
    /// Bytes of its file.
    pub disk: Reservation,
    /// Memory of its rows.
    pub rows: Reservation,
}

/// What is known of a segment without its rows.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub struct Summary {
    /// Elements.
    pub rows: u64,
    /// Bytes of values.
    pub value_len: u64,
    /// CPU time to compute all of them.
    pub cpu_ns: u64,
}

/// Where an element lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// In which segment.
    pub segment: SegmentId,
    /// From which byte of its values.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// How the bytes make up the value.
    pub layout: Arc<str>,
}

impl Segment {
    /// A durable segment found at start; its rows are read when they are needed.
    pub fn found(
        id: SegmentId,
        collection: u64,
        path: PathBuf,
        vfs: Arc<dyn Vfs>,
        space: Space,
        summary: Summary,
    ) -> Self {
        Self {
            durable: AtomicBool::new(true),
            ..Self::new(id, collection, path, vfs, space, Held::Nothing, summary)
        }
    }

    fn new(
        id: SegmentId,
        collection: u64,
        path: PathBuf,
        vfs: Arc<dyn Vfs>,
        space: Space,
        held: Held,
        summary: Summary,
    ) -> Self {
        Self {
            id,
            collection,
            path,
            vfs,
            held: RwLock::new(held),
            digests: Mutex::default(),
            reading: std::array::from_fn(|_| Mutex::default()),
            pinned: Mutex::default(),
            file: RwLock::new(None),
            space: Mutex::new(space),
            durable: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            summary: Mutex::new(summary),
        }
    }

    /// Where a row's element lies; None if the segment is gone or has no such row.
    pub fn locate(&self, row: u32) -> Option<Location> {
        let held = self.held.read();
        let (offset, len, layout) = match &*held {
            _ if self.is_gone() => None,
            Held::Nothing => None,
            Held::All(table) => table.get(row as usize),
            Held::Places(places) => places.get(row as usize),
        }?;
        Some(Location {
            segment: self.id,
            offset,
            len,
            layout: Arc::clone(layout),
        })
    }

    /// Reads the rows of a segment found at start, and keeps where its elements lie. Blocking.
    ///
    /// # Errors
    /// `corrupt` if the file is not a whole segment, or not one of its collection: what the index said
    /// of it may be of an earlier file of this name. `rows-full` if there is no memory for its rows.
    pub fn load(&self, collection: &Collection) -> Result<Rows> {
        // Before they are read, so that rows for which there is no memory cost little each time they are asked for.
        let entries = self.summary().rows * ENTRY_BYTES;
        self.space.lock().rows.resize(entries)?;
        let (footer, rows) = self.read()?;
        if !description::belongs(&footer.metadata, collection) {
            return Err(Error::corrupt(
                "a segment is not of the collection it was taken for",
            ));
        }
        let places = rows.places();
        self.space.lock().rows.resize(entries + places.memory())?;
        *self.digests.lock() = block_digests(&footer)?;
        *self.held.write() = Held::Places(places);
        Ok(rows)
    }

    fn read(&self) -> Result<(Footer, Rows)> {
        let file = self.vfs.open(&self.path)?;
        let footer = footer(&*file)?;
        let digest = footer.metadata.get(ROWS_DIGEST).map_or("", String::as_str);
        let rows = footer.rows(&*file, digest)?;
        Ok((footer, rows))
    }

    /// Shows all columns of the rows: those in memory while the segment is open, else read from its file. Blocking.
    ///
    /// # Errors
    /// As the file system says; `corrupt`.
    pub fn with_rows<T>(&self, visit: impl FnOnce(&Table) -> T) -> Result<T> {
        if let Held::All(table) = &*self.held.read() {
            return Ok(visit(table));
        }
        Ok(visit(&self.read()?.1.table()))
    }

    /// Whether it was removed, and nothing of it is to be served.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// A block, from RAM or else read from SSD and checked. Blocking.
    ///
    /// # Errors
    /// `ram-full`, `corrupt`, or `not-found` if the segment was evicted.
    pub fn block(&self, index: u32, ram: &RamTier) -> Result<(Arc<Block>, From)> {
        let id = BlockId {
            segment: self.id,
            index,
        };
        if let Some(block) = self.resident(index, ram) {
            return Ok((block, From::Ram));
        }
        let _reading = self.reading[index as usize % READERS_MAX].lock();
        if let Some(block) = self.resident(index, ram) {
            return Ok((block, From::Ram));
        }
        let len = self.block_len(index)?;
        let digest = self.digests.lock().get(&index).copied();
        let digest = digest.ok_or_else(|| Error::corrupt("a block has no digest"))?;
        let mut writer = ram.allocate()?;
        let open = self.file.read().clone();
        let file = open.map_or_else(|| self.vfs.open(&self.path), Ok)?;
        let mut buffer = ram.buffer()?;
        let bytes = &mut buffer.bytes()[..len as usize];
        file.read_at(bytes, VALUES_AT + u64::from(index) * BLOCK_BYTES)?;
        if BlockDigest::of(bytes) != digest {
            return Err(Error::corrupt(format!(
                "block {index} of {} does not match its digest",
                self.path.display()
            )));
        }
        writer.append(bytes)?;
        drop(buffer);
        let block = writer.seal()?;
        ram.insert(id, Arc::clone(&block));
        Ok((block, From::Ssd))
    }

    /// Whether a block is not in the file yet.
    pub fn is_pinned(&self, index: u32) -> bool {
        self.pinned.lock().contains_key(&index)
    }

    /// A block that is in RAM now.
    pub fn resident(&self, index: u32, ram: &RamTier) -> Option<Arc<Block>> {
        let pinned = self.pinned.lock().get(&index).cloned();
        pinned.or_else(|| {
            ram.get(BlockId {
                segment: self.id,
                index,
            })
        })
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.summary().value_len.div_ceil(BLOCK_BYTES) as u32
    }

    /// Whether it survives a crash.
    pub fn is_durable(&self) -> bool {
        self.durable.load(Ordering::Acquire)
    }

    /// Bytes it takes on disk.
    pub fn file_bytes(&self) -> u64 {
        self.space.lock().disk.bytes()
    }

    /// Rows, bytes and cost.
    pub fn summary(&self) -> Summary {
        *self.summary.lock()
    }

    /// Its file, once durable.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    fn temporary_path(&self) -> PathBuf {
        self.path.with_extension("arrow.tmp")
    }

    /// Removes its files: from then on it is gone. Descriptors and maps of it stay valid.
    ///
    /// # Errors
    /// As the file system says.
    pub fn unlink(&self) -> Result<()> {
        self.gone.store(true, Ordering::Release);
        self.vfs.remove(&self.temporary_path())?;
        self.vfs.remove(&self.path)
    }

    fn block_len(&self, index: u32) -> Result<u64> {
        let at = u64::from(index) * BLOCK_BYTES;
        self.summary()
            .value_len
            .checked_sub(at)
            .filter(|rest| *rest > 0)
            .map(|rest| rest.min(BLOCK_BYTES))
            .ok_or_else(|| Error::new(Kind::Invalid, "no-such-block", "the segment has no such block"))
    }
}

/// Which tier a block came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// Shared memory.
    Ram,
    /// The segment's file.
    Ssd,
}

fn block_digests(footer: &Footer) -> Result<BTreeMap<u32, BlockDigest>> {
    let text = footer.metadata.get(BLOCK_DIGESTS).map_or("", String::as_str);
    let digests = text.split(',').filter(|t| !t.is_empty()).enumerate();
    digests
        .map(|(i, hex)| {
            let digest = hex.parse().map(|digest| (i as u32, digest));
            digest.map_err(|_| Error::corrupt("a block digest is not hex"))
        })
        .collect()
}
