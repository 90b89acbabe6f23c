//! The index: what saves the daemon from reading every footer at start, and remembers counters and
//! file digests. Disposable: all of it can be rebuilt or lost without a wrong answer.

mod checked;
mod memory;
mod sled_store;

pub use checked::Checked;
pub use memory::MemoryStore;
pub use sled_store::open_or_rebuild;

use crate::error::Result;

/// Kinds of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Segment file name -> what its footer says.
    Segments,
    /// Counter name -> value.
    Counters,
    /// Trust domain and stat of a file -> digest of its content.
    Memo,
    /// Subgraph digest and trust domain -> what explains the collection.
    Notes,
    /// Subgraph digest and trust domain -> in which worlds the collection was made or proven.
    Worlds,
}

impl Space {
    /// All spaces.
    pub const ALL: [Self; 5] = [
        Self::Segments,
        Self::Counters,
        Self::Memo,
        Self::Notes,
        Self::Worlds,
    ];

    /// Its name on disk.
    pub fn name(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Counters => "counters",
            Self::Memo => "memo",
            Self::Notes => "notes",
            Self::Worlds => "worlds",
        }
    }
}

/// A key and its value.
pub type Record = (Vec<u8>, Vec<u8>);

/// Records by space and key. Values stay small (1 KiB or so, notes up to 256 KiB); element bytes never come here.
pub trait IndexStore: Send + Sync + 'static {
    /// A record's value.
    ///
    /// # Errors
    /// As the store says; the caller goes on without.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// The values of several records, in the order of the keys.
    ///
    /// # Errors
    /// As the store says; the caller goes on without.
    fn get_all(&self, space: Space, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(space, key)).collect()
    }
    /// Writes records.
    ///
    /// # Errors
    /// As the store says; the caller goes on without.
    fn put(&self, space: Space, records: &[Record]) -> Result<()>;
    /// Removes a record.
    ///
    /// # Errors
    /// As the store says; the caller goes on without.
    fn remove(&self, space: Space, key: &[u8]) -> Result<()>;
    /// All records of a space.
    ///
    /// # Errors
    /// As the store says; the caller rebuilds.
    fn scan(&self, space: Space) -> Result<Vec<Record>>;
    /// Bytes it takes on disk.
    fn bytes_on_disk(&self) -> u64;
    /// Makes what was written durable.
    ///
    /// # Errors
    /// As the store says.
    fn flush(&self) -> Result<()>;
}
