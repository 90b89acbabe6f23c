//! Files under a root, each looked at by `stat`, or proven unchanged by a watch on their folders.
//!
//! An epoch begins when [`Files::begin_epoch`] says so, and a file is *looked at* in it by a `stat` taken since. Nothing
//! ends an epoch but the next one, so who looks does not matter: the caller at the file it wants, or a sweep.

use super::part::{Due, Part};
use crate::clock::Clock;
use crate::error::Result;
use crate::files::content::{Content, Memo, Observed, contents, observe, observe_all, split};
use crate::files::file_system::FileSystem;
use crate::files::folder_watch::{FolderWatch, trusted};
use crate::files::paths::Paths;
use crate::sparse::Sparse;
use prebake_fingerprint::{Digest, FileStat, input};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Files of one part of a sweep. Their paths are copied under the lock that readers wait for: some 20 us.
const PART_MAX: usize = 256;

/// Files under a root.
pub(crate) struct Files {
    root: PathBuf,
    paths: Arc<Paths>,
    /// Whether an item is its content alone.
    path_ignored: bool,
    known: Sparse<Known>,
    /// Of each known one, the last epoch in which its stat was seen or its content read, or [`ONCE`]. Apart from the rest, and
    /// so side by side: it is asked for before each batch.
    looked: Sparse<NonZeroU64>,
    /// On the folders of all known files, begun with the epoch: while it is quiet the next one need not begin.
    pub(super) watch: Option<FolderWatch>,
    /// When the epoch began, and how long was looked in it, by whoever did. Not until when: a job that leaves no processor to
    /// its sweep looks in the course of its epoch.
    look: Option<(Duration, Duration)>,
    epoch: NonZeroU64,
    /// How many fingerprints were seen to change or to be lost.
    edits: u32,
}

#[derive(Clone, Copy)]
struct Known {
    stat: FileStat,
    fingerprint: Digest,
    racy: bool,
}

/// Of a file that lies where a job looks but once.
const ONCE: NonZeroU64 = NonZeroU64::MAX;

impl Files {
    pub(super) fn new(root: PathBuf, paths: Arc<Paths>, path_ignored: bool) -> Files {
        Files {
            root,
            known: Sparse::new(paths.len()),
            looked: Sparse::new(paths.len()),
            paths,
            path_ignored,
            watch: None,
            look: None,
            epoch: NonZeroU64::MIN,
            edits: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Adds a file, by its absolute path; its number.
    pub(super) fn push(&mut self, path: &Path) -> usize {
        Arc::make_mut(&mut self.paths).push_absolute(path.as_os_str().as_bytes());
        self.known.grow(self.paths.len());
        self.looked.grow(self.paths.len());
        self.paths.len() - 1
    }

    /// The fingerprint last taken.
    pub(super) fn fingerprint(&self, i: usize) -> Option<Digest> {
        self.known[i].map(|known| known.fingerprint)
    }

    /// The stat under which it was taken.
    pub(super) fn stat(&self, i: usize) -> Option<FileStat> {
        self.known[i].map(|known| known.stat)
    }

    /// Whether it was written too recently to tell a later write from.
    pub(super) fn is_racy(&self, i: usize) -> bool {
        self.known[i].is_none_or(|known| known.racy)
    }

    /// Its path below the root.
    pub(super) fn name(&self, i: usize) -> Vec<u8> {
        let path = self.paths.get(i);
        let name = path.strip_prefix(&self.root).unwrap_or(&path);
        name.as_os_str().as_bytes().to_vec()
    }

    /// The same for people.
    pub(super) fn text(&self, i: usize) -> String {
        String::from_utf8_lossy(&self.name(i)).into_owned()
    }

    pub(super) fn edits(&self) -> u32 {
        self.edits
    }

    /// Whether the fingerprint was found to hold in this epoch, or once where that is enough.
    pub(super) fn is_looked_at(&self, i: usize) -> bool {
        self.looked[i].is_some_and(|looked| looked == ONCE || looked == self.epoch)
    }

    /// Whether it lies where a job looks but once, and did.
    pub(super) fn is_settled(&self, i: usize) -> bool {
        self.looked[i] == Some(ONCE)
    }

    /// Whether the stat proves that the fingerprint still holds.
    pub(super) fn holds(&mut self, i: usize) -> bool {
        let Some(known) = self.known[i] else {
            return false;
        };
        self.is_settled(i)
            || !known.racy && observe(&self.paths.get(i)).is_ok_and(|seen| self.seen(i, self.epoch, &seen))
    }

    /// Takes note of what was seen of a file in an epoch; whether its fingerprint still holds.
    fn seen(&mut self, i: usize, epoch: NonZeroU64, seen: &Observed) -> bool {
        if !seen.sole {
            self.watch = None;
        }
        let holds = self.known[i].is_some_and(|known| !known.racy && known.stat == seen.stat);
        if holds {
            self.looked[i] = self.looked[i].max(Some(epoch));
        }
        holds
    }

    /// See [`super::Inputs::refresh`].
    pub(super) fn refresh(
        &mut self,
        items: &[usize],
        memo: &dyn Memo,
        clock: &dyn Clock,
    ) -> Vec<Result<bool>> {
        let settled = items.iter().copied();
        let settled: Vec<usize> = settled
            .filter(|i| self.known[*i].is_some() && !self.is_racy(*i))
            .collect();
        let paths: Vec<PathBuf> = settled.iter().map(|i| self.paths.get(*i)).collect();
        let seen = observe_all(paths.iter().map(PathBuf::as_path), clock);
        let seen = settled.into_iter().zip(seen);
        let proven: HashSet<usize> = seen
            .filter_map(|(i, seen)| self.seen(i, self.epoch, &seen.ok()?).then_some(i))
            .collect();
        let doubted: Vec<usize> = items.iter().copied().filter(|i| !proven.contains(i)).collect();
        let paths: Vec<PathBuf> = doubted.iter().map(|i| self.paths.get(*i)).collect();
        let found = contents(paths.iter().map(PathBuf::as_path), memo, clock);
        let mut answers = doubted.into_iter().zip(found).peekable();
        let mut devices = HashMap::new();
        items
            .iter()
            .map(|i| match answers.next_if(|(doubted, _)| doubted == i) {
                Some((_, content)) => self.learn(*i, self.epoch, content, &mut devices),
                None => Ok(false),
            })
            .collect()
    }

    /// Whether another epoch begins: not while a watch proves that nothing changed.
    pub(super) fn begin_epoch(&mut self, now: Duration) -> bool {
        let spent = self.look.map_or(Duration::ZERO, |(_, spent)| spent);
        if self
            .watch
            .as_ref()
            .is_some_and(|watch| watch.is_quiet(now, spent))
        {
            return false;
        }
        // No file is known that was not when it began.
        self.watch = self.watch.take().and_then(|watch| watch.renewed(now));
        self.epoch = self.epoch.saturating_add(1);
        // It pays if the next look is due before it is out of trust; how it was last time is the best guess.
        let last = self.look.replace((now, Duration::ZERO));
        let pays = last.is_some_and(|(begun, spent)| now.saturating_sub(begun) <= trusted(spent));
        if self.watch.is_none() && pays {
            self.watch = self.watched(now);
        }
        true
    }

    /// The next part of a sweep over known files, from `next` on; with `new` over others too.
    pub(super) fn part(&self, next: usize, new: bool) -> Option<Part> {
        let end = (next + PART_MAX).min(self.paths.len());
        let due = (next..end).filter_map(|i| {
            let stat = match self.known[i] {
                Some(known) if known.racy || self.is_looked_at(i) => return None,
                Some(known) => Some(known.stat),
                None if new => None,
                None => return None,
            };
            let path = self.paths.get(i);
            Some(Due { i, path, stat })
        });
        (next < end).then(|| Part::new(self.epoch, end, due.collect()))
    }

    /// Takes note of what was found.
    pub(super) fn found(&mut self, part: Part) {
        let mut devices = HashMap::new();
        for (i, seen) in part.seen {
            self.seen(i, part.epoch, &seen);
        }
        for (i, content) in part.learned {
            if self.known[i].is_none() {
                // What it is has just been said.
                let _ = self.learn(i, part.epoch, Ok(content), &mut devices);
            }
        }
    }

    pub(super) fn looked(&mut self, took: Duration) {
        if let Some((_, spent)) = &mut self.look {
            *spent += took;
        }
    }

    fn watched(&self, now: Duration) -> Option<FolderWatch> {
        let folders = self.folders().filter(|folders| !folders.is_empty())?;
        FolderWatch::begin(folders.iter().map(PathBuf::as_path), now)
    }

    /// Those that known files lie in; None if one's is not that simple.
    fn folders(&self) -> Option<HashSet<PathBuf>> {
        let mut folders = HashSet::new();
        let mut last = Vec::new();
        for (i, _) in self.known.filled() {
            let path = self.paths.get(i);
            let (folder, _) = split(&path)?;
            // Neighbours first: a set asks for more than a comparison.
            if folder != last {
                folder.clone_into(&mut last);
                folders.insert(PathBuf::from(OsStr::from_bytes(folder)));
            }
        }
        Some(folders)
    }

    fn learn(
        &mut self,
        i: usize,
        epoch: NonZeroU64,
        content: Result<Content>,
        devices: &mut HashMap<u64, bool>,
    ) -> Result<bool> {
        self.watch = None;
        let before = self.known.take(i);
        self.looked.take(i);
        self.edits += u32::from(before.is_some());
        let Content { stat, digest, racy } = content?;
        let name = (!self.path_ignored).then(|| self.name(i));
        let fingerprint = input::item(name.as_deref(), &digest);
        self.known[i] = Some(Known {
            stat,
            fingerprint,
            racy,
        });
        let asked = || FileSystem::at(&self.paths.get(i)).is_looked_at_once();
        let once = *devices.entry(stat.device).or_insert_with(asked);
        self.looked[i] = Some(if once { ONCE } else { epoch });
        Ok(before.is_some_and(|known| known.fingerprint != fingerprint))
    }
}
