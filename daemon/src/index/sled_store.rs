//! The index on sled 0.34.7, held at arm's length. Measured: its `flush` is no fsync, a kill can
//! leave a half-written `snap.*.generating` that makes it unopenable, it can panic while opening,
//! and it keeps about three times its live data. So it is opened in a thread of its own with a
//! time-out, renamed away on any doubt, and detached at the first error while running.

use super::{Checked, IndexStore, MemoryStore, Record, Space};
use crate::{
    error::{Error, Kind, Result},
    vfs::folder,
};
use rustix::fs::lstat;
use sled::IVec;
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// sled's own cache: the index is read at start and by key later; more would only cost memory.
const CACHE_BYTES: u64 = 4 << 20;

/// An index that takes longer is rebuilt: reading every footer is quicker.
const OPEN_TIMEOUT: Duration = Duration::from_secs(20);

/// Who holds sled's lock while we hold the folder's is on its way out: the threads of an index that was
/// dropped, or a daemon that has let the folder go and not ended yet. A rebuilt index would lose counters.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// An index of more bytes is written anew at start: sled keeps about three times its live data, and
/// the memo of file digests only grows. 256 MiB remember about a million files.
const BYTES_MAX: u64 = 256 << 20;

/// Records read in passing before the next one is looked up: about a page of sled's.
const PASSED_MAX: usize = 16;

/// What one is renamed to that failed.
const BAD: &str = "index-bad";

/// Part of the folder name of the index; another version of the records gets another name.
const VERSION: &str = "index-v2";
/// What earlier ones were called.
const EARLIER: [&str; 1] = ["index-v1"];

struct SledStore {
    path: PathBuf,
    db: sled::Db,
    trees: Vec<sled::Tree>,
    /// After an error nothing more is asked of it: it is rebuilt at the next start.
    detached: AtomicBool,
}

/// Opens the index below `folder`; what cannot be opened is renamed away and begun anew, and if
/// that fails too the index is in memory. The second value says what was wrong.
pub fn open_or_rebuild(folder: &Path) -> (Arc<dyn IndexStore>, Option<Error>) {
    let path = folder.join(VERSION);
    for earlier in EARLIER {
        let _ = fs::remove_dir_all(folder.join(earlier));
    }
    let first = match open(&path).and_then(|store| compact(store, &path)) {
        Ok(store) => return (Arc::new(Checked(store)), None),
        Err(error) => error,
    };
    let _ = fs::remove_dir_all(folder.join(BAD));
    let _ = fs::rename(&path, folder.join(BAD));
    match open(&path) {
        Ok(store) => (Arc::new(Checked(store)), Some(first)),
        Err(error) => (Arc::new(MemoryStore::default()), Some(error)),
    }
}

fn open(path: &Path) -> Result<SledStore> {
    remove_half_written_snapshots(path).map_err(|e| Error::io("preparing the index", e))?;
    all_owned(path)?;
    let (send, receive) = mpsc::channel();
    let owned: PathBuf = path.to_owned();
    // sled may hang or panic on a damaged file: neither may take the daemon along.
    thread::spawn(move || {
        let opened = std::panic::catch_unwind(|| {
            let db = open_unlocked(
                &sled::Config::new()
                    .path(&owned)
                    .cache_capacity(CACHE_BYTES)
                    .flush_every_ms(Some(500)),
            )?;
            let trees = Space::ALL
                .iter()
                .map(|s| db.open_tree(s.name()))
                .collect::<sled::Result<_>>()?;
            Ok::<_, sled::Error>(SledStore {
                path: owned,
                db,
                trees,
                detached: AtomicBool::new(false),
            })
        });
        let _ = send.send(opened);
    });
    match receive.recv_timeout(OPEN_TIMEOUT) {
        Ok(Ok(Ok(store))) => Ok(store),
        Ok(Ok(Err(error))) => Err(failed(&error)),
        Ok(Err(_)) => Err(Error::new(
            Kind::Corrupt,
            "index",
            "the index panicked while it was opened",
        )),
        Err(_) => Err(Error::new(
            Kind::Corrupt,
            "index",
            "the index could not be opened in time",
        )),
    }
}

/// Opens it as soon as nobody holds its lock any more, in `LOCK_TIMEOUT` at most.
fn open_unlocked(config: &sled::Config) -> sled::Result<sled::Db> {
    // sled gives its lock no error of its own.
    let is_locked = |error: &sled::Error| error.to_string().contains("could not acquire lock");
    let mut looks = LOCK_TIMEOUT.as_millis() / LOCK_PAUSE.as_millis();
    loop {
        match config.open() {
            Err(error) if looks > 0 && is_locked(&error) => {
                looks -= 1;
                thread::sleep(LOCK_PAUSE);
            }
            opened => return opened,
        }
    }
}

/// Writes an overgrown index anew, without its memo and notes.
fn compact(store: SledStore, path: &Path) -> Result<SledStore> {
    if store.bytes_on_disk() <= BYTES_MAX {
        return Ok(store);
    }
    let kept = [Space::Segments, Space::Counters].map(|space| store.scan(space).map(|r| (space, r)));
    drop(store);
    fs::remove_dir_all(path).map_err(|e| Error::io("rewriting the index", e))?;
    let store = open(path)?;
    for records in kept {
        let (space, records) = records?;
        store.put(space, &records)?;
    }
    Ok(store)
}

/// Whether all files of an index are this user's: sled believes whatever they say. (Their modes are as its umask has them.)
fn all_owned(path: &Path) -> Result<()> {
    let failed = |e: io::Error| Error::io("looking through the index", e);
    let found = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed)?,
    };
    folder::owned(path, &lstat(path).map_err(|e| failed(e.into()))?)?;
    if found.is_symlink() {
        return Err(Error::new(Kind::Invalid, "index", "the index is a link"));
    }
    if found.is_file() && found.nlink() > 1 {
        // What is written to it would be written to a file of another name.
        let more = "a file of the index has other names too";
        return Err(Error::new(Kind::Invalid, "index", more));
    }
    if found.is_dir() {
        for entry in fs::read_dir(path).map_err(failed)? {
            all_owned(&entry.map_err(failed)?.path())?;
        }
    }
    Ok(())
}

fn remove_half_written_snapshots(path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn failed(error: &sled::Error) -> Error {
    Error::new(Kind::Io, "index", format!("the index failed: {error}"))
}

impl SledStore {
    fn on<T>(&self, space: Space, work: impl FnOnce(&sled::Tree) -> sled::Result<T>) -> Result<T> {
        if self.detached.load(Ordering::Relaxed) {
            return Err(Error::new(
                Kind::Io,
                "index",
                "the index failed before and is left alone",
            ));
        }
        let tree = &self.trees[space as usize];
        work(tree).map_err(|e| {
            let error = failed(&e);
            if !self.detached.swap(true, Ordering::Relaxed) {
                // What it still says may be of earlier than what was to be written: it must not be believed again.
                let _ = fs::rename(&self.path, self.path.with_file_name(BAD));
                tracing::warn!(%error, "the index is left alone until the next start, which reads the segments instead");
            }
            error
        })
    }
}

impl IndexStore for SledStore {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.on(space, |tree| Ok(tree.get(key)?.map(|v| v.to_vec())))
    }

    /// Neighbours are read in passing: sled walks down from its root for each key that is looked up by itself.
    fn get_all(&self, space: Space, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.on(space, |tree| {
            let mut values = vec![None; keys.len()];
            let mut sorted: Vec<_> = keys.iter().copied().enumerate().collect();
            sorted.sort_unstable_by_key(|(_, key)| *key);
            let Some((_, first)) = sorted.first() else {
                return Ok(values);
            };
            let mut records = tree.range(*first..);
            let mut record = records.next().transpose()?;
            for (place, key) in sorted {
                let is_before =
                    |record: &Option<(IVec, IVec)>| record.as_ref().is_some_and(|(k, _)| **k < *key);
                let mut passed = 0;
                while is_before(&record) {
                    if passed == PASSED_MAX {
                        records = tree.range(key..);
                    }
                    record = records.next().transpose()?;
                    passed += 1;
                }
                let found = record.as_ref().filter(|(k, _)| k == key);
                values[place] = found.map(|(_, value)| value.to_vec());
            }
            Ok(values)
        })
    }

    fn put(&self, space: Space, records: &[Record]) -> Result<()> {
        self.on(space, |tree| {
            let mut batch = sled::Batch::default();
            for (key, value) in records {
                batch.insert(key.as_slice(), value.as_slice());
            }
            tree.apply_batch(batch)
        })
    }

    fn remove(&self, space: Space, key: &[u8]) -> Result<()> {
        self.on(space, |tree| tree.remove(key).map(|_| ()))
    }

    fn scan(&self, space: Space) -> Result<Vec<Record>> {
        self.on(space, |tree| {
            tree.iter()
                .map(|r| r.map(|(k, v)| (k.to_vec(), v.to_vec())))
                .collect()
        })
    }

    fn bytes_on_disk(&self) -> u64 {
        self.db.size_on_disk().unwrap_or(0)
    }

    fn flush(&self) -> Result<()> {
        self.on(Space::Worlds, |_| self.db.flush())?;
        // sled's own is no fsync: the log has to be synced as a file.
        let log = File::open(self.path.join("db"));
        log.and_then(|log| log.sync_data())
            .map_err(|e| Error::io("syncing the index", e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_index_is_renamed_away_and_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (store, problem) = open_or_rebuild(folder.path());
        assert!(problem.is_none());
        store
            .put(Space::Counters, &[(b"hits".to_vec(), b"7".to_vec())])
            .unwrap();
        store.flush().unwrap();
        drop(store);

        // sled shrugs off garbage in its log (it starts empty); this it cannot open at all.
        let db = folder.path().join(VERSION).join("db");
        fs::remove_file(&db).unwrap();
        fs::create_dir(&db).unwrap();
        let (store, problem) = open_or_rebuild(folder.path());
        assert!(problem.is_some());
        assert_eq!(store.get(Space::Counters, b"hits").unwrap(), None);
        store
            .put(Space::Counters, &[(b"hits".to_vec(), b"8".to_vec())])
            .unwrap();
    }

    #[test]
    fn an_index_that_is_locked_by_who_is_ending_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open_or_rebuild(folder.path());
        store
            .put(Space::Counters, &[(b"hits".to_vec(), b"7".to_vec())])
            .unwrap();
        let ending = thread::spawn(move || {
            thread::sleep(20 * LOCK_PAUSE);
            drop(store);
        });
        let (store, problem) = open_or_rebuild(folder.path());
        assert!(problem.is_none());
        assert_eq!(store.get(Space::Counters, b"hits").unwrap(), Some(b"7".to_vec()));
        ending.join().unwrap();
    }

    #[test]
    fn values_are_those_of_their_keys_in_any_order_and_however_far_apart() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open_or_rebuild(folder.path());
        let key = |i: u16| i.to_be_bytes();
        let records: Vec<Record> = (0..1000).map(|i| (key(2 * i).to_vec(), vec![i as u8])).collect();
        store.put(Space::Memo, &records).unwrap();
        let near = (400..500).rev();
        let asked = near.chain([1999, 0, 7, 1998, 7, 0, 1, 1000, u16::MAX]).map(key);
        let asked: Vec<_> = asked.collect();
        let keys: Vec<&[u8]> = asked.iter().map(|key| key.as_slice()).collect();
        let alone: Vec<_> = keys
            .iter()
            .map(|key| store.get(Space::Memo, key).unwrap())
            .collect();
        assert!(alone.iter().any(Option::is_some) && alone.iter().any(Option::is_none));
        assert_eq!(store.get_all(Space::Memo, &keys).unwrap(), alone);
        assert_eq!(store.get_all(Space::Memo, &[]).unwrap(), []);
        assert_eq!(
            store.get_all(Space::Notes, &keys).unwrap(),
            vec![None; keys.len()]
        );
    }

    #[test]
    fn a_half_written_snapshot_is_removed_before_opening() {
        let folder = tempfile::tempdir().unwrap();
        drop(open_or_rebuild(folder.path()));
        let snapshot = folder.path().join(VERSION).join("snap.00000000.generating");
        fs::write(&snapshot, b"half").unwrap();
        let (_, problem) = open_or_rebuild(folder.path());
        assert!(problem.is_none());
        assert!(!snapshot.exists());
    }
}
