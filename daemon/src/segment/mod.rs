//! Segments: one self-describing Arrow file of one collection's elements, in the order they
//! arrived. The unit of storage and eviction.

mod blocks;
mod columns;
mod compression;
pub mod description;
mod digest;
mod encoding;
mod format;
mod frame;
mod id;
mod opened;
mod places;
mod read;
mod stored;
mod table;
mod tail;
mod writer;

pub use blocks::Blocks;
pub use columns::Columns;
pub use compression::Ratio;
pub use description::{Owner, Summary};
pub use digest::{CHUNK_BYTES, ChunkDigests, chunks};
pub use encoding::{Codec, Compression};
pub use format::{SEAL_LEN, VALUES_AT, Values, schema, seal};
pub use frame::Frame;
pub use id::{BlockId, SegmentId, SegmentName};
pub use opened::OpenedFiles;
pub use places::Places;
pub use read::{Footer, Rows, Seal, bears, footer};
pub use table::{Cost, Table};
pub use writer::{OpenSegment, Row, WriteBehind};

use crate::{
    error::{Error, Kind, Result},
    limits::budget::Reservation,
    memory::{BLOCK_BYTES, Block},
    vfs::{Vfs, VfsFile},
};
use format::ROWS_DIGEST;
use parking_lot::{Mutex, RwLock};
use std::{
    collections::BTreeMap,
    ops::Range,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use stored::Stored;

/// Footer metadata: digests of the values' chunks, in order.
const CHUNK_DIGESTS: &str = "prebake.chunks";

/// Footer metadata: bytes of each LZ4 block of the values, if they are compressed; the digests are of these.
const LZ4_BLOCKS: &str = "prebake.lz4";

/// Bytes of values are kept under this; so an element must be smaller too.
pub const ELEMENT_BYTES_MAX: u64 = 256 << 20;

/// What a collection keeps of a row: its tag, its place in the tables at their emptiest, its name, and its part of a run.
const ENTRY_BYTES: u64 = 32;

/// Blocks of one segment that are read at a time: an SSD is as fast with fewer requests of 4 MiB.
const READERS_MAX: usize = 4;

/// A segment, open or durable.
pub struct Segment {
    /// Its number.
    pub id: SegmentId,
    /// What it is called for good.
    pub name: SegmentName,
    /// The collection whose elements it holds.
    pub collection: u64,
    path: PathBuf,
    vfs: Arc<dyn Vfs>,
    held: RwLock<Held>,
    /// Of the blocks that are in the file, until it has a footer.
    stored: Mutex<BTreeMap<u32, Arc<Stored>>>,
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
        name: SegmentName,
        collection: u64,
        path: PathBuf,
        vfs: Arc<dyn Vfs>,
        space: Space,
        summary: Summary,
    ) -> Self {
        Self {
            durable: AtomicBool::new(true),
            ..Self::new(id, name, collection, path, vfs, space, Held::Nothing, summary)
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one for each field that differs")]
    fn new(
        id: SegmentId,
        name: SegmentName,
        collection: u64,
        path: PathBuf,
        vfs: Arc<dyn Vfs>,
        space: Space,
        held: Held,
        summary: Summary,
    ) -> Self {
        Self {
            id,
            name,
            collection,
            path,
            vfs,
            held: RwLock::new(held),
            stored: Mutex::default(),
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
    pub fn load(&self, owner: &Owner<'_>) -> Result<Rows> {
        // Before they are read, so that rows for which there is no memory cost little each time they are asked for.
        let entries = self.summary().rows * ENTRY_BYTES;
        self.space.lock().rows.resize(entries)?;
        let (footer, rows) = self.read_rows()?;
        if !description::belongs(&footer, owner) {
            return Err(Error::corrupt(
                "a segment is not of the collection it was taken for",
            ));
        }
        let places = rows.places();
        self.space.lock().rows.resize(entries + places.memory())?;
        *self.held.write() = Held::Places(places);
        Ok(rows)
    }

    /// What its file says of it. Blocking.
    ///
    /// # Errors
    /// As [`description::Record::read`]; as the file system says.
    pub fn record(&self) -> Result<description::Record> {
        description::Record::read(&*self.vfs.open(&self.path)?, self.name)
    }

    fn read_rows(&self) -> Result<(Footer, Rows)> {
        let file = self.vfs.open(&self.path)?;
        let footer = footer(&*file, self.name)?;
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
        Ok(visit(&self.read_rows()?.1.table()))
    }

    /// All columns of the rows once it is closed, for whoever looks at them more than once. Blocking.
    ///
    /// # Errors
    /// As [`Segment::with_rows`].
    pub fn closed_rows(&self) -> Result<Option<Table>> {
        if let Held::All(_) = &*self.held.read() {
            return Ok(None);
        }
        Ok(Some(self.read_rows()?.1.table()))
    }

    /// What is published of it by now, and the form of those values. Blocking.
    ///
    /// # Errors
    /// `corrupt`, or as the file system says.
    pub fn published(&self) -> Result<(Summary, Values)> {
        if let Held::All(table) = &*self.held.read() {
            return Ok((self.summary(), Values::of(table, table.len())));
        }
        let file = self.vfs.open(&self.path)?;
        Ok((self.summary(), columns::form(&footer(&*file, self.name)?)?))
    }

    /// Whether its rows were read, and are of its collection.
    pub fn is_loaded(&self) -> bool {
        !matches!(*self.held.read(), Held::Nothing)
    }

    /// Whether it was removed, and nothing of it is to be served.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// A block, from RAM or else read from SSD and checked. Blocking.
    ///
    /// # Errors
    /// `ram-full`, `corrupt`, or `not-found` if the segment was evicted.
    pub fn block(&self, index: u32, ram: &dyn Blocks) -> Result<(Arc<Block>, From)> {
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
        let mut writer = ram.allocate()?;
        let mut buffer = ram.buffer()?;
        let at = u64::from(index) * BLOCK_BYTES;
        self.read_parts(at..at + len, buffer.bytes(), ram, &mut |values| {
            writer.append(values)
        })?;
        drop(buffer);
        let block = writer.seal()?;
        ram.insert(id, Arc::clone(&block));
        // Whoever removed it meanwhile has told RAM to forget it, perhaps too early.
        if self.is_gone() {
            ram.forget(self.id, self.blocks());
        }
        Ok((block, From::Ssd))
    }

    /// Reads the whole chunks that a range of values lies in, as far as they are within one block: from RAM if the block is
    /// there, or if there is room for it to stay there from now on, else those chunks alone. `into` has room for whole chunks;
    /// what is behind the end of the values stays as it is. Blocking. The bytes that were read from SSD.
    ///
    /// # Errors
    /// As [`Segment::block`].
    pub fn read(&self, range: &Range<u64>, into: &mut [u8], ram: &dyn Blocks) -> Result<u64> {
        let index = (range.start / BLOCK_BYTES) as u32;
        let block_at = u64::from(index) * BLOCK_BYTES;
        let block_len = self.block_len(index)?;
        let wanted = chunks(range);
        let wanted = wanted.start..wanted.end.min(block_at + block_len);
        let len = wanted
            .end
            .checked_sub(wanted.start)
            .filter(|_| range.end <= wanted.end);
        let into = len.and_then(|len| into.get_mut(..len as usize));
        let into = into.ok_or_else(|| Error::new(Kind::Invalid, "bad-range", "no part of one block"))?;
        let kept = match self.resident(index, ram) {
            Some(block) => Some((block, From::Ram)),
            None if ram.has_room() => match self.block(index, ram) {
                // Others were quicker to take what room there was.
                Err(error) if error.kind() == Kind::Exhausted => None,
                kept => Some(kept?),
            },
            None => None,
        };
        let Some((block, from)) = kept else {
            self.read_chunks(wanted.start, into, ram)?;
            return Ok(into.len() as u64);
        };
        block.read(wanted.start - block_at, into)?;
        Ok(if from == From::Ssd { block_len } else { 0 })
    }

    /// Whether a block is not in the file yet.
    pub fn is_pinned(&self, index: u32) -> bool {
        self.pinned.lock().contains_key(&index)
    }

    /// A block that is in RAM now.
    pub fn resident(&self, index: u32, ram: &dyn Blocks) -> Option<Arc<Block>> {
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
