//! Files under a root, each looked at by `stat`, or proven unchanged by a watch on their folders.

use crate::clock::Clock;
use crate::content::{Content, Memo, contents, observe, observe_all, split};
use crate::error::Result;
use crate::folder_watch::{FolderWatch, trusted};
use prebake_fingerprint::{Digest, FileStat, input};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files under a root.
pub(crate) struct Files {
    root: PathBuf,
    paths: Vec<PathBuf>,
    /// Whether an item is its content alone.
    path_ignored: bool,
    known: Vec<Option<Known>>,
    /// On the folders of all known files, begun before they were last found as known.
    pub(super) watch: Option<FolderWatch>,
    /// When the last look at all of them began and ended.
    look: Option<(Duration, Duration)>,
}

#[derive(Clone, Copy)]
struct Known {
    stat: FileStat,
    fingerprint: Digest,
    racy: bool,
}

impl Files {
    pub(super) fn new(root: PathBuf, paths: Vec<PathBuf>, path_ignored: bool) -> Files {
        Files {
            root,
            known: vec![None; paths.len()],
            paths,
            path_ignored,
            watch: None,
            look: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Adds a file; its number.
    pub(super) fn push(&mut self, path: PathBuf) -> usize {
        self.paths.push(path);
        self.known.push(None);
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
    pub(super) fn name(&self, i: usize) -> &[u8] {
        let path: &Path = &self.paths[i];
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .as_os_str()
            .as_bytes()
    }

    /// Whether the stat proves that the fingerprint still holds.
    pub(super) fn holds(&self, i: usize) -> bool {
        self.known[i].is_some_and(|known| {
            !known.racy && observe(&self.paths[i]).is_ok_and(|seen| seen.stat == known.stat)
        })
    }

    /// See [`super::Inputs::refresh`].
    pub(super) fn refresh(
        &mut self,
        items: &[usize],
        memo: &dyn Memo,
        clock: &dyn Clock,
    ) -> Vec<Result<bool>> {
        let trusted = |i: &usize| self.known[*i].filter(|known| !known.racy);
        let settled: Vec<(usize, Known)> = items.iter().filter_map(|i| Some((*i, trusted(i)?))).collect();
        let seen = observe_all(settled.iter().map(|(i, _)| self.paths[*i].as_path()));
        if seen.iter().flatten().any(|seen| !seen.sole) {
            self.watch = None;
        }
        let same = settled.iter().zip(seen);
        let same = same.filter(|((_, known), seen)| seen.as_ref().is_ok_and(|s| s.stat == known.stat));
        let proven: HashSet<usize> = same.map(|((i, _), _)| *i).collect();
        let doubted: Vec<usize> = items.iter().copied().filter(|i| !proven.contains(i)).collect();
        let paths = doubted.iter().map(|i| self.paths[*i].as_path());
        let found = contents(paths, memo, clock);
        let mut answers = doubted.into_iter().zip(found).peekable();
        items
            .iter()
            .map(|i| match answers.next_if(|(doubted, _)| doubted == i) {
                Some((_, content)) => self.learn(*i, content),
                None => Ok(false),
            })
            .collect()
    }

    pub(super) fn begin_look(&mut self, now: Duration) -> bool {
        if self.watch.as_ref().is_some_and(|watch| watch.is_quiet(now)) {
            return false;
        }
        self.watch = None;
        // It pays if the next look is due before it is out of trust; how it was last time is the best guess.
        let last = self.look.replace((now, now));
        let pays = last
            .is_some_and(|(begun, ended)| now.saturating_sub(begun) <= trusted(ended.saturating_sub(begun)));
        if let Some(folders) = self.folders().filter(|folders| pays && !folders.is_empty()) {
            self.watch = FolderWatch::begin(folders.into_iter(), now);
        }
        true
    }

    pub(super) fn end_look(&mut self, now: Duration) {
        self.look = self.look.map(|(begun, _)| (begun, now));
        if let Some(watch) = &mut self.watch {
            watch.looked(now);
        }
    }

    /// Those that known files lie in; None if one's is not that simple.
    fn folders(&self) -> Option<HashSet<&Path>> {
        let known = self
            .paths
            .iter()
            .zip(&self.known)
            .filter(|(_, known)| known.is_some());
        let split = known.map(|(path, _)| split(path)).collect::<Option<Vec<_>>>()?;
        // Neighbours first: a set asks for more than a comparison.
        let folders = split.chunk_by(|a, b| a.0 == b.0).map(|run| run[0].0);
        Some(
            folders
                .map(|folder| Path::new(OsStr::from_bytes(folder)))
                .collect(),
        )
    }

    fn learn(&mut self, i: usize, content: Result<Content>) -> Result<bool> {
        self.watch = None;
        let before = self.known[i].take();
        let Content { stat, digest, racy } = content?;
        let name = (!self.path_ignored).then(|| self.name(i));
        let fingerprint = input::item(name, &digest);
        self.known[i] = Some(Known {
            stat,
            fingerprint,
            racy,
        });
        Ok(before.is_some_and(|known| known.fingerprint != fingerprint))
    }
}
