//! A disk in memory that fails at a chosen call, and forgets what was not synced when its machine dies.

use parking_lot::Mutex;
use prebake_daemon::{
    Error, Result,
    vfs::{Vfs, VfsFile},
};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this `errno`, and does nothing. A sync that fails forgets what it should have kept, as Linux does.
    Error(i32),
    /// A write does half, then fails with this `errno`; other calls do nothing.
    Torn(i32),
    /// The machine dies before it.
    DiesBefore,
    /// The machine dies as soon as it is done.
    DiesAfter,
    /// One bit of what is read is another.
    FlipsBit,
}

/// What is left of unsynced writes and names after the machine died.
#[derive(Debug, Clone, Copy)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// All of it.
    All,
    /// Each write or a part of it, or not, in an order of its own: drawn with this seed.
    Some(u64),
}

/// A generator of numbers for tests (SplitMix64, Steele et al., 2014): a seed says all.
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number less than `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// What every call fails with once the machine died.
const EIO: i32 = 5;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

#[derive(Default)]
struct Inode {
    /// As processes see it.
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

enum NameChange {
    Set(PathBuf, u64),
    Remove(PathBuf),
}

#[derive(Default)]
struct State {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    unsynced_names: Vec<NameChange>,
    made: u64,
    calls: u64,
    fault: Option<(u64, Fault)>,
    /// At what the fault struck.
    struck: Option<&'static str>,
    is_dead: bool,
    /// Of which a file that was opened in an earlier one is closed.
    life: u64,
}

/// The disk, which outlives the daemons that use it.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

struct OpenFile {
    disk: Disk,
    inode: u64,
    life: u64,
}

fn error(what: &str, errno: i32) -> Error {
    Error::io(what, io::Error::from_raw_os_error(errno))
}

fn write(bytes: &mut Vec<u8>, at: usize, what: &[u8]) {
    if bytes.len() < at + what.len() {
        bytes.resize(at + what.len(), 0);
    }
    bytes[at..at + what.len()].copy_from_slice(what);
}

impl State {
    /// Counts a call; what is to happen to it. After the machine died every call fails.
    fn called(&mut self, what: &'static str) -> Result<Option<Fault>> {
        if self.is_dead {
            return Err(error(what, EIO));
        }
        let number = self.calls;
        self.calls += 1;
        let Some((_, fault)) = self.fault.filter(|(at, _)| *at == number) else {
            return Ok(None);
        };
        self.struck = Some(what);
        match fault {
            Fault::Error(errno) => Err(error(what, errno)),
            Fault::DiesBefore => {
                self.is_dead = true;
                Err(error(what, EIO))
            }
            fault => Ok(Some(fault)),
        }
    }

    /// What is left to do once a call is done.
    fn done(&mut self, fault: Option<Fault>, what: &str) -> Result<()> {
        match fault {
            Some(Fault::DiesAfter) => self.is_dead = true,
            Some(Fault::Torn(errno)) => return Err(error(what, errno)),
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.unsynced_names.push(change);
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, change: &NameChange) {
    match change {
        NameChange::Set(path, inode) => drop(names.insert(path.clone(), *inode)),
        NameChange::Remove(path) => drop(names.remove(path)),
    }
}

impl Disk {
    /// Has call number `at`, counted from now on, struck by a fault.
    pub fn strike(&self, at: u64, fault: Fault) {
        let mut state = self.0.lock();
        (state.calls, state.fault, state.struck) = (0, Some((at, fault)), None);
    }

    /// Whether it came to the call that was to be struck.
    pub fn was_struck(&self) -> bool {
        self.struck().is_some()
    }

    /// What it was doing then.
    pub fn struck(&self) -> Option<&'static str> {
        self.0.lock().struck
    }

    /// The machine dies, if it has not, and comes back: files that were open are closed, and of what was not synced only this
    /// is left.
    pub fn restart(&self, left: Left) {
        let mut state = self.0.lock();
        let mut draw = Draw(match left {
            Left::Some(seed) => seed,
            _ => 0,
        });
        let mut keeps = move |most: usize| match left {
            Left::Nothing => 0,
            Left::All => most,
            Left::Some(_) => match draw.below(3) {
                0 => 0,
                1 => most,
                _ => draw.below(most as u64 + 1) as usize,
            },
        };
        for inode in state.inodes.values_mut() {
            let mut unsynced = std::mem::take(&mut inode.unsynced);
            if let Left::Some(seed) = left {
                let mut draw = Draw(!seed);
                for i in (1..unsynced.len()).rev() {
                    unsynced.swap(i, draw.below(i as u64 + 1) as usize);
                }
            }
            for (at, bytes) in unsynced {
                let kept = match keeps(bytes.len()) {
                    kept if kept == bytes.len() => kept,
                    kept => kept - kept % SECTOR,
                };
                if kept > 0 {
                    write(&mut inode.durable, at, &bytes[..kept]);
                }
            }
            inode.now = inode.durable.clone();
        }
        for change in std::mem::take(&mut state.unsynced_names) {
            if keeps(1) == 1 {
                apply(&mut state.durable_names, &change);
            }
        }
        state.names = state.durable_names.clone();
        state.life += 1;
        (state.fault, state.is_dead) = (None, false);
    }

    /// Another disk with the same on it.
    pub fn copy(&self) -> Self {
        let state = self.0.lock();
        let inode = |(number, inode): (&u64, &Inode)| {
            let copy = Inode {
                now: inode.now.clone(),
                durable: inode.durable.clone(),
                unsynced: inode.unsynced.clone(),
            };
            (*number, copy)
        };
        Self(Arc::new(Mutex::new(State {
            inodes: state.inodes.iter().map(inode).collect(),
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            made: state.made,
            ..State::default()
        })))
    }

    /// Changes a file where it lies: `how` is given its bytes.
    pub fn damage(&self, path: &Path, how: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.lock();
        let inode = state.names[path];
        let inode = state.inodes.get_mut(&inode).unwrap();
        how(&mut inode.now);
        inode.durable = inode.now.clone();
    }

    /// The segments' files that there are now.
    pub fn segments(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> = self.0.lock().names.keys().cloned().collect();
        files.retain(|path| path.extension().is_some_and(|e| e == "arrow"));
        files
    }

    fn open_file(&self, inode: u64, life: u64) -> Arc<dyn VfsFile> {
        Arc::new(OpenFile {
            disk: self.clone(),
            inode,
            life,
        })
    }
}

impl Vfs for Disk {
    fn create(&self, path: &Path) -> Result<Arc<dyn VfsFile>> {
        let mut state = self.0.lock();
        let fault = state.called("creating")?;
        if state.names.contains_key(path) {
            return Err(error("creating", 17));
        }
        state.made += 1;
        let (inode, life) = (state.made, state.life);
        state.inodes.insert(inode, Inode::default());
        state.change(NameChange::Set(path.into(), inode));
        state.done(fault, "creating")?;
        Ok(self.open_file(inode, life))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn VfsFile>> {
        let mut state = self.0.lock();
        let fault = state.called("opening")?;
        let inode = *state.names.get(path).ok_or_else(|| error("opening", 2))?;
        let life = state.life;
        state.done(fault, "opening")?;
        Ok(self.open_file(inode, life))
    }

    fn publish(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.0.lock();
        let fault = state.called("renaming")?;
        let inode = *state.names.get(from).ok_or_else(|| error("renaming", 2))?;
        // Else a name may survive the machine that its content does not.
        assert!(
            state.inodes[&inode].unsynced.is_empty(),
            "{} is published before it is synced",
            to.display()
        );
        state.change(NameChange::Remove(from.into()));
        state.change(NameChange::Set(to.into(), inode));
        state.done(fault, "renaming")?;
        drop(state);
        self.sync_folder(to.parent().unwrap())
    }

    fn sync_folder(&self, folder: &Path) -> Result<()> {
        let mut state = self.0.lock();
        let fault = state.called("syncing the folder")?;
        let is_in = |change: &NameChange| match change {
            NameChange::Set(path, _) | NameChange::Remove(path) => path.parent() == Some(folder),
        };
        let unsynced = std::mem::take(&mut state.unsynced_names).into_iter();
        let (synced, left): (Vec<_>, Vec<_>) = unsynced.partition(is_in);
        state.unsynced_names = left;
        for change in synced {
            apply(&mut state.durable_names, &change);
        }
        state.done(fault, "syncing the folder")
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.0.lock();
        let fault = state.called("removing")?;
        if state.names.contains_key(path) {
            state.change(NameChange::Remove(path.into()));
        }
        state.done(fault, "removing")
    }

    fn list(&self, folder: &Path) -> Result<Vec<(String, u64)>> {
        let mut state = self.0.lock();
        let fault = state.called("listing")?;
        let found = state
            .names
            .iter()
            .filter(|(path, _)| path.parent() == Some(folder));
        let found = found
            .map(|(path, inode)| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, state.inodes[inode].now.len() as u64)
            })
            .collect();
        state.done(fault, "listing")?;
        Ok(found)
    }
}

impl OpenFile {
    fn on<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&mut Inode, Option<Fault>) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.disk.0.lock();
        if state.life != self.life {
            return Err(error(what, EIO));
        }
        let fault = state.called(what);
        let inode = state.inodes.get_mut(&self.inode).unwrap();
        if what == "syncing" && fault.is_err() {
            inode.unsynced.clear();
        }
        let fault = fault?;
        let result = work(inode, fault)?;
        state.done(fault, what)?;
        Ok(result)
    }
}

impl VfsFile for OpenFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.on("writing", |inode, fault| {
            let len = match fault {
                Some(Fault::Torn(_)) => bytes.len() / 2,
                _ => bytes.len(),
            };
            write(&mut inode.now, offset as usize, &bytes[..len]);
            inode.unsynced.push((offset as usize, bytes[..len].to_vec()));
            Ok(())
        })
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        self.on("reading", |inode, fault| {
            let end = offset as usize + into.len();
            let found = inode.now.get(offset as usize..end);
            into.copy_from_slice(
                found.ok_or_else(|| Error::io("reading", io::Error::from(io::ErrorKind::UnexpectedEof)))?,
            );
            if fault == Some(Fault::FlipsBit) && !into.is_empty() {
                into[offset as usize % into.len()] ^= 4;
            }
            Ok(())
        })
    }

    fn sync(&self) -> Result<()> {
        self.on("syncing", |inode, _| {
            for (at, bytes) in std::mem::take(&mut inode.unsynced) {
                write(&mut inode.durable, at, &bytes);
            }
            Ok(())
        })
    }

    fn len(&self) -> Result<u64> {
        self.on("asking for its size", |inode, _| Ok(inode.now.len() as u64))
    }
}
