//! An index in memory: where sled cannot be opened or has failed, and in tests.

use super::{IndexStore, Record, Space};
use crate::error::Result;
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// Name of the space, and key in it.
type Key = (&'static str, Vec<u8>);

/// Records in memory, gone with the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    records: RwLock<BTreeMap<Key, Vec<u8>>>,
}

impl IndexStore for MemoryStore {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.records.read().get(&(space.name(), key.to_vec())).cloned())
    }

    fn put(&self, space: Space, records: &[Record]) -> Result<()> {
        let mut all = self.records.write();
        for (key, value) in records {
            all.insert((space.name(), key.clone()), value.clone());
        }
        Ok(())
    }

    fn remove(&self, space: Space, key: &[u8]) -> Result<()> {
        self.records.write().remove(&(space.name(), key.to_vec()));
        Ok(())
    }

    fn scan(&self, space: Space) -> Result<Vec<Record>> {
        let all = self.records.read();
        let of_space = all.iter().filter(|((name, _), _)| *name == space.name());
        Ok(of_space
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect())
    }

    fn bytes_on_disk(&self) -> u64 {
        0
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}
