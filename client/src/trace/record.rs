//! What a command read, looked for and wrote: paths without links, each as it was first met.

use super::report::{LOADED, Name, Report, Stamp};
use super::scope::{Place, Scope};
use super::state::{self, ABSENT, BYTECODE};
use crate::clock::{Clock, SystemClock};
use crate::files::content::may_change_unseen;
use prebake_fingerprint::stat::is_racy;
use prebake_fingerprint::{Digest, FileStat, input};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Distinct names kept of one command, some 100 bytes each. A command that reads more is better told its inputs.
pub(super) const NAMES_MAX: usize = 300_000;

/// Of what is only told to a person, so many are kept.
const TOLD_MAX: usize = 20;

/// Ends of names of files by which processes share a database: SQLite's, LMDB's, Python's `filelock`. Nothing in them is
/// data.
const LOCKS: [&str; 3] = ["-shm", "lock.mdb", ".lock"];

/// Bytes of a cache of Python bytecode before the code: magic, flags, time and size of the source (PEP 552).
const BYTECODE_HEADER: usize = 16;

/// Device, inode and birth: an inode number alone is given again once its file is removed.
type Id = (u64, u64, u128);

/// What a name was found to stand for.
pub(super) struct Found {
    /// Without links, but for one at its end that was to be kept.
    pub(super) path: PathBuf,
    pub(super) meta: Option<Metadata>,
}

pub(super) struct Record {
    pub(super) scope: Scope,
    clock: SystemClock,
    reads: BTreeMap<PathBuf, Stamp>,
    loaded: Vec<PathBuf>,
    /// Whether its preparations are over.
    pub(super) is_prepared: bool,
    seen: BTreeMap<PathBuf, String>,
    listed: BTreeMap<PathBuf, Digest>,
    writes: BTreeSet<PathBuf>,
    refused: BTreeSet<PathBuf>,
    network: BTreeSet<String>,
    leftovers: BTreeSet<PathBuf>,
    made: HashSet<Id>,
    /// Files that it opened to be written to before its preparations were over, as logs are.
    held: HashSet<Id>,
    made_inodes: HashSet<u64>,
    /// Folders that are no links, where only others could change that.
    pub(super) folders: HashSet<PathBuf>,
    why: Option<String>,
}

impl Record {
    pub(super) fn new(scope: Scope) -> Record {
        Record {
            scope,
            clock: SystemClock::default(),
            reads: BTreeMap::new(),
            loaded: Vec::new(),
            is_prepared: false,
            seen: BTreeMap::new(),
            listed: BTreeMap::new(),
            writes: BTreeSet::new(),
            refused: BTreeSet::new(),
            network: BTreeSet::new(),
            leftovers: BTreeSet::new(),
            made: HashSet::new(),
            held: HashSet::new(),
            made_inodes: HashSet::new(),
            folders: HashSet::new(),
            why: None,
        }
    }

    /// From here on something may be missed. The first reason is told.
    pub(super) fn incomplete(&mut self, why: impl Into<String>) {
        self.why.get_or_insert_with(|| why.into());
    }

    pub(super) fn talked(&mut self, to: String) {
        if self.network.len() < TOLD_MAX {
            self.network.insert(to);
        }
    }

    pub(super) fn is_made(&self, meta: &Metadata) -> bool {
        self.made.contains(&id(meta))
    }

    /// The command made it, or wrote all that is in it.
    pub(super) fn made(&mut self, meta: &Metadata) {
        self.made.insert(id(meta));
        self.made_inodes.insert(meta.ino());
        self.check_room();
    }

    /// A name that was looked at.
    pub(super) fn look(&mut self, found: &Found) {
        let meta = found.meta.as_ref();
        if meta.is_none() && found.path == Path::new(LOADED) {
            self.loaded = self.reads.keys().cloned().collect();
            self.is_prepared = true;
            return;
        }
        if meta.is_some_and(|meta| self.is_made(meta)) || is_bytecode(&found.path) {
            return;
        }
        if meta.is_none() && self.scope.leads_to_output(&found.path) {
            return;
        }
        match self.scope.place(&found.path) {
            Place::Output if meta.is_some_and(|meta| !meta.is_dir()) => self.left_over(&found.path),
            Place::Temporary | Place::Elsewhere if !self.seen.contains_key(&found.path) => {
                let state = state::of(&found.path, meta);
                self.seen.insert(found.path.clone(), state);
                self.check_room();
            }
            _ => {}
        }
    }

    /// A file whose content was read. `open` is a way to the very file.
    pub(super) fn content(&mut self, path: &Path, meta: &Metadata, open: &Path) {
        if self.is_made(meta) {
            return;
        }
        match self.scope.place(path) {
            Place::Output => return self.left_over(path),
            Place::Input | Place::Machine => return,
            Place::Temporary | Place::Elsewhere => {}
        }
        if is_bytecode(path) && !self.counts_beside_source(path, meta, open) {
            return;
        }
        let stat = file_stat(meta);
        if let Some(known) = self.reads.get(path) {
            if known.stat != Stamp::of(&stat, None).stat {
                self.incomplete(format!("{} changed while it ran", path.display()));
            }
            return;
        }
        match self.unseen(&stat, open) {
            Ok(content) => {
                self.reads.insert(path.to_path_buf(), Stamp::of(&stat, content));
                self.check_room();
            }
            Err(e) => self.incomplete(format!("{}: {e}", path.display())),
        }
    }

    /// The content of a file whose times may not show a change that follows. It stands still: who opened it waits.
    fn unseen(&self, stat: &FileStat, open: &Path) -> io::Result<Option<Digest>> {
        let may_change = || File::open(open).is_ok_and(|file| may_change_unseen(&file));
        match is_racy(stat, self.clock.wall_ns()) || may_change() {
            true => File::open(open).and_then(input::content).map(Some),
            false => Ok(None),
        }
    }

    /// Python takes bytecode for its source while the source has the time and size the bytecode tells. The source counts in
    /// its place; both count if the source was changed in any way after the bytecode was written. Whether the bytecode counts.
    fn counts_beside_source(&mut self, path: &Path, meta: &Metadata, open: &Path) -> bool {
        if path.extension() != Some(OsStr::new("pyc")) {
            return true;
        }
        let stem = path
            .file_name()
            .and_then(OsStr::to_str)
            .and_then(|n| n.split('.').next());
        let folder = path.parent().and_then(Path::parent);
        let source = folder
            .zip(stem)
            .map(|(folder, stem)| folder.join(format!("{stem}.py")));
        let found = source.and_then(|source| Some((fs::metadata(&source).ok()?, source)));
        let mut header = [0; BYTECODE_HEADER];
        let read = File::open(open).and_then(|mut file| file.read_exact(&mut header));
        let (Some((source_meta, source)), Ok(())) = (found, read) else {
            return true;
        };
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let real = source.canonicalize().unwrap_or_else(|_| source.clone());
        self.content(&real, &source_meta, &source);
        let by_time = word(4) == 0;
        let same = word(8) == source_meta.mtime() as u32 && word(12) == source_meta.len() as u32;
        let settled = file_stat(&source_meta).ctime_ns < file_stat(meta).mtime_ns;
        !by_time || same && !settled
    }

    /// A folder whose names were read.
    pub(super) fn list(&mut self, path: &Path, meta: &Metadata) {
        if self.is_made(meta) || is_bytecode(path) {
            return;
        }
        match self.scope.place(path) {
            Place::Machine => {}
            Place::Output => {
                for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                    let meta = entry.metadata();
                    if meta.is_ok_and(|meta| !meta.is_dir() && !self.is_made(&meta)) {
                        self.left_over(&entry.path());
                    }
                }
            }
            // A declared input is its files; a folder without any shows in its parent's names alone.
            Place::Input | Place::Temporary | Place::Elsewhere => {
                if self.listed.contains_key(path) {
                    return;
                }
                match self.names(path) {
                    Ok(names) => {
                        self.listed.insert(path.to_path_buf(), names);
                        self.check_room();
                    }
                    Err(e) => self.incomplete(format!("{}: {e}", path.display())),
                }
            }
        }
    }

    fn names(&self, folder: &Path) -> std::io::Result<Digest> {
        let made = |path: &Path, inode: u64| {
            self.made_inodes.contains(&inode)
                && fs::symlink_metadata(path).is_ok_and(|meta| self.is_made(&meta))
        };
        state::names(folder, self.scope.outputs(), &made)
    }

    /// Something of that name was made, changed or removed.
    pub(super) fn write(&mut self, path: &Path) {
        let allowed = match self.scope.place(path) {
            Place::Output | Place::Temporary => true,
            // Of its own process it may set what it likes.
            Place::Machine => !["/sys", "/proc/sys"].iter().any(|root| path.starts_with(root)),
            Place::Input | Place::Elsewhere => is_bytecode(path) || self.scope.leads_to_output(path),
        };
        if !allowed && self.writes.len() < TOLD_MAX {
            self.writes.insert(path.to_path_buf());
        }
    }

    pub(super) fn hold(&mut self, meta: &Metadata) {
        if !self.is_prepared {
            self.held.insert(id(meta));
        }
    }

    /// Whether what is done to a file stays after a trial: it did not make it, and others may look at it.
    pub(super) fn lasts(&self, path: &Path, meta: Option<&Metadata>) -> bool {
        let made = meta.is_some_and(|meta| self.is_made(meta) || self.held.contains(&id(meta)));
        let placed = matches!(self.scope.place(path), Place::Input | Place::Elsewhere);
        let disposable = is_bytecode(path) || is_named(path, &LOCKS) || self.scope.is_cache(path);
        placed && !disposable && (!made || is_log(path))
    }

    pub(super) fn refuse(&mut self, path: &Path) {
        if self.refused.len() < TOLD_MAX {
            self.refused.insert(path.to_path_buf());
        }
    }

    pub(super) fn left_over(&mut self, path: &Path) {
        if self.leftovers.len() < TOLD_MAX {
            self.leftovers.insert(path.to_path_buf());
        }
    }

    fn check_room(&mut self) {
        if self.reads.len() + self.seen.len() + self.listed.len() + self.made.len() > NAMES_MAX {
            self.reads.clear();
            self.seen.clear();
            self.made.clear();
            self.incomplete(format!(
                "it reads, makes or looks for more than {NAMES_MAX} files: declare the folders it reads with -i"
            ));
        }
    }

    /// Looks at all names and folders once more, for one that others changed meanwhile.
    fn changed(&self) -> Option<&Path> {
        let seen = self.seen.iter().find(|(path, then)| {
            let meta = fs::symlink_metadata(path).ok();
            let made = meta.as_ref().is_some_and(|meta| self.is_made(meta));
            !made && state::of(path, meta.as_ref()) != **then
        });
        let listed = || {
            self.listed
                .iter()
                .find(|(path, then)| self.names(path).ok() != Some(**then))
        };
        seen.map(|(path, _)| path.as_path())
            .or_else(|| listed().map(|(path, _)| path.as_path()))
    }

    /// Nothing is told from here on.
    pub(super) fn forget(&mut self) {
        let directory = std::mem::take(&mut self.scope.directory);
        *self = Record::new(Scope::new(&[], &[]));
        self.scope.directory = directory;
    }

    pub(super) fn report(&mut self) -> Report {
        let name = |path: &PathBuf| Name::from(path.as_path());
        let (absent, seen): (Vec<_>, Vec<_>) = self.seen.iter().partition(|(_, state)| *state == ABSENT);
        Report {
            complete: self.why.is_none(),
            why: self.why.clone().unwrap_or_default(),
            changed: self.changed().map(Name::from),
            reads: self.reads.keys().map(name).collect(),
            loaded: self.loaded.iter().map(name).collect(),
            stamps: self.reads.values().cloned().collect(),
            absent: absent.into_iter().map(|(path, _)| name(path)).collect(),
            seen: seen
                .into_iter()
                .map(|(path, state)| (name(path), state.clone()))
                .collect(),
            listed: self.listed.keys().map(name).collect(),
            names: self.listed.values().copied().collect(),
            writes: self.writes.iter().map(name).collect(),
            refused: self.refused.iter().map(name).collect(),
            network: self.network.iter().cloned().collect(),
            leftovers: self.leftovers.iter().map(name).collect(),
            ..Report::default()
        }
    }
}

/// Of a database: what is written to it counts as written to the database. Who only reads makes it, too.
pub(super) fn is_log(path: &Path) -> bool {
    is_named(path, &["-wal"])
}

fn is_named(path: &Path, ends: &[&str]) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    ends.iter().any(|end| name.ends_with(end.as_bytes()))
}

/// The folder of bytecode, or something in it.
fn is_bytecode(path: &Path) -> bool {
    let name = |path: &Path| path.file_name() == Some(OsStr::new(BYTECODE));
    name(path) || path.parent().is_some_and(name)
}

fn id(meta: &Metadata) -> Id {
    let born = meta
        .created()
        .ok()
        .and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    (meta.dev(), meta.ino(), born.map_or(0, |born| born.as_nanos()))
}

pub(super) fn file_stat(meta: &Metadata) -> FileStat {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    FileStat {
        device: meta.dev(),
        inode: meta.ino(),
        size: meta.size(),
        mtime_ns: nanoseconds(meta.mtime(), meta.mtime_nsec()),
        ctime_ns: nanoseconds(meta.ctime(), meta.ctime_nsec()),
    }
}
