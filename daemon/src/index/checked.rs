//! Records under a digest each: a store may give back an old one, but never one that nobody wrote.

use super::{IndexStore, Record, Space};
use crate::error::Result;

/// Bytes of a record's digest: against chance and bit flips, not against who can write to the folder.
const CHECK_LEN: usize = 16;

const CONTEXT: &str = "prebake 2026 index record v1";

/// A store of which each record is checked as it is read; what does not match its digest is not there.
pub struct Checked<S>(pub S);

fn check(space: Space, key: &[u8], value: &[u8]) -> [u8; CHECK_LEN] {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(space.name().as_bytes()).update(&[0]);
    hasher
        .update(&(key.len() as u64).to_le_bytes())
        .update(key)
        .update(value);
    let mut check = [0; CHECK_LEN];
    hasher.finalize_xof().fill(&mut check);
    check
}

/// The value of a record as it lies in the store.
fn value(space: Space, key: &[u8], mut stored: Vec<u8>) -> Option<Vec<u8>> {
    let value_len = stored.len().checked_sub(CHECK_LEN)?;
    let is_whole = stored[value_len..] == check(space, key, &stored[..value_len]);
    stored.truncate(value_len);
    is_whole.then_some(stored)
}

impl<S: IndexStore> IndexStore for Checked<S> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.0.get(space, key)?;
        Ok(found.and_then(|stored| value(space, key, stored)))
    }

    fn get_all(&self, space: Space, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let found = self.0.get_all(space, keys)?.into_iter().zip(keys);
        Ok(found.map(|(stored, key)| value(space, key, stored?)).collect())
    }

    fn put(&self, space: Space, records: &[Record]) -> Result<()> {
        let stored: Vec<Record> = records
            .iter()
            .map(|(key, value)| {
                let stored = [&value[..], &check(space, key, value)].concat();
                (key.clone(), stored)
            })
            .collect();
        self.0.put(space, &stored)
    }

    fn remove(&self, space: Space, key: &[u8]) -> Result<()> {
        self.0.remove(space, key)
    }

    fn scan(&self, space: Space) -> Result<Vec<Record>> {
        let found = self.0.scan(space)?.into_iter();
        let whole = |(key, stored): Record| {
            let value = value(space, &key, stored)?;
            Some((key, value))
        };
        Ok(found.filter_map(whole).collect())
    }

    fn bytes_on_disk(&self) -> u64 {
        self.0.bytes_on_disk()
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::MemoryStore;
    use super::*;

    #[test]
    fn a_record_that_was_changed_or_moved_is_not_there() {
        let store = Checked(MemoryStore::default());
        let key = b"key".to_vec();
        store
            .put(Space::Memo, &[(key.clone(), b"value".to_vec())])
            .unwrap();
        assert_eq!(store.get(Space::Memo, &key).unwrap().unwrap(), b"value");
        let stored = store.0.get(Space::Memo, &key).unwrap().unwrap();
        for bit in 0..8 * stored.len() {
            let mut flipped = stored.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            store.0.put(Space::Memo, &[(key.clone(), flipped)]).unwrap();
            assert_eq!(store.get_all(Space::Memo, &[&key]).unwrap(), [None], "bit {bit}");
            assert_eq!(store.scan(Space::Memo).unwrap(), []);
        }
        for len in 0..stored.len() {
            store
                .0
                .put(Space::Memo, &[(key.clone(), stored[..len].to_vec())])
                .unwrap();
            assert_eq!(store.get(Space::Memo, &key).unwrap(), None, "cut at {len}");
        }
        store
            .0
            .put(Space::Memo, &[(b"other".to_vec(), stored.clone())])
            .unwrap();
        store.0.put(Space::Notes, &[(key.clone(), stored)]).unwrap();
        assert_eq!(store.get(Space::Memo, b"other").unwrap(), None);
        assert_eq!(store.get(Space::Notes, &key).unwrap(), None);
    }
}
