//! Input fingerprints of a collection's items: taken when first needed, checked again by `stat`.

use crate::clock::Clock;
use crate::content::{Content, Memo, contents, observe, observe_all, split};
use crate::error::Result;
use crate::folder_watch::{FolderWatch, trusted};
use crate::walk::{Named, walk};
use prebake_fingerprint::{Digest, FileStat, input};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a lease on an item of a data set is asked for. A holder that dies loses it at once; this is for one that
/// hangs.
const LEASE: Duration = Duration::from_secs(60);

/// The same for a call, which may be a whole program.
const CALL_LEASE: Duration = Duration::from_secs(3600);

/// The files under which a fingerprint was taken, named, and their stats: one for an item, any number for a call.
pub(crate) type Stamp = Arc<[(Vec<u8>, FileStat)]>;

/// What items are made from.
pub(crate) enum Inputs {
    /// Item i is file i.
    Files(Files),
    /// One item: a call with its arguments and the files it reads.
    Call(Call),
}

/// Files under a root.
pub(crate) struct Files {
    root: PathBuf,
    paths: Vec<PathBuf>,
    /// Whether an item is its content alone.
    path_ignored: bool,
    known: Vec<Option<Known>>,
    /// On the folders of all known files, begun before they were last found as known.
    watch: Option<FolderWatch>,
    /// When the last look at all of them began and ended.
    look: Option<(Duration, Duration)>,
}

#[derive(Clone, Copy)]
struct Known {
    stat: FileStat,
    fingerprint: Digest,
    racy: bool,
}

/// A call.
pub(crate) struct Call {
    name: String,
    arguments: Digest,
    roots: Vec<PathBuf>,
    known: Option<KnownCall>,
}

struct KnownCall {
    fingerprint: Digest,
    stamp: Stamp,
    racy: bool,
}

impl Inputs {
    pub(crate) fn files(root: PathBuf, paths: Vec<PathBuf>, path_ignored: bool) -> Inputs {
        let known = vec![None; paths.len()];
        Inputs::Files(Files {
            root,
            paths,
            path_ignored,
            known,
            watch: None,
            look: None,
        })
    }

    pub(crate) fn call(name: String, arguments: Digest, roots: Vec<PathBuf>) -> Inputs {
        Inputs::Call(Call {
            name,
            arguments,
            roots,
            known: None,
        })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Inputs::Files(files) => files.paths.len(),
            Inputs::Call(_) => 1,
        }
    }

    /// What a person calls item `i`.
    pub(crate) fn name(&self, i: usize) -> Cow<'_, str> {
        match self {
            Inputs::Files(files) => String::from_utf8_lossy(files.name(i)),
            Inputs::Call(call) => Cow::Borrowed(&call.name),
        }
    }

    /// How long computing one may take before others do it too.
    pub(crate) fn lease(&self) -> Duration {
        match self {
            Inputs::Files(_) => LEASE,
            Inputs::Call(_) => CALL_LEASE,
        }
    }

    /// Whether the known ones have to be looked at: not while a watch proves that nothing changed. To be followed by
    /// [`Inputs::refresh`] of all of them and [`Inputs::end_look`].
    pub(crate) fn begin_look(&mut self, now: Duration) -> bool {
        match self {
            Inputs::Files(files) => files.begin_look(now),
            Inputs::Call(_) => true,
        }
    }

    pub(crate) fn end_look(&mut self, now: Duration) {
        if let Inputs::Files(files) = self {
            files.look = files.look.map(|(begun, _)| (begun, now));
            if let Some(watch) = &mut files.watch {
                watch.looked(now);
            }
        }
    }

    /// The fingerprint last taken.
    pub(crate) fn fingerprint(&self, i: usize) -> Option<Digest> {
        match self {
            Inputs::Files(files) => files.known[i].map(|k| k.fingerprint),
            Inputs::Call(call) => call.known.as_ref().map(|k| k.fingerprint),
        }
    }

    /// The stats under which that fingerprint was taken. Equal ones show that nothing was written in between, even the
    /// same bytes.
    pub(crate) fn stamp(&self, i: usize) -> Option<Stamp> {
        match self {
            Inputs::Files(files) => files.known[i].map(|k| Stamp::from([(Vec::new(), k.stat)])),
            Inputs::Call(call) => call.known.as_ref().map(|k| Arc::clone(&k.stamp)),
        }
    }

    /// Whether the stat proves that the fingerprint still holds.
    pub(crate) fn holds(&self, i: usize) -> bool {
        match self {
            Inputs::Files(files) => files.holds(i),
            Inputs::Call(call) => call.holds(),
        }
    }

    /// Takes the fingerprints of items anew where a stat does not prove them. One answer for each: whether it changed. An
    /// item that fails has no fingerprint afterwards.
    pub(crate) fn refresh(
        &mut self,
        items: &[usize],
        memo: &dyn Memo,
        clock: &dyn Clock,
    ) -> Vec<Result<bool>> {
        match self {
            Inputs::Files(files) => files.refresh(items, memo, clock),
            Inputs::Call(call) => items.iter().map(|_| call.refresh(memo, clock)).collect(),
        }
    }
}

impl Files {
    fn name(&self, i: usize) -> &[u8] {
        let path: &Path = &self.paths[i];
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .as_os_str()
            .as_bytes()
    }

    fn holds(&self, i: usize) -> bool {
        self.known[i].is_some_and(|known| {
            !known.racy && observe(&self.paths[i]).is_ok_and(|seen| seen.stat == known.stat)
        })
    }

    fn refresh(&mut self, items: &[usize], memo: &dyn Memo, clock: &dyn Clock) -> Vec<Result<bool>> {
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

    fn begin_look(&mut self, now: Duration) -> bool {
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

impl Call {
    /// The files, named by which input they belong to and their path below it: moving an input changes nothing.
    fn walk(&self) -> Result<Vec<Named>> {
        let mut files = Vec::new();
        for (which, root) in self.roots.iter().enumerate() {
            for (name, path) in walk(root)? {
                let mut full = format!("{which}/").into_bytes();
                full.extend(name);
                files.push((full, path));
            }
        }
        Ok(files)
    }

    fn holds(&self) -> bool {
        let Some(known) = self.known.as_ref().filter(|known| !known.racy) else {
            return false;
        };
        let Ok(files) = self.walk() else {
            return false;
        };
        files.len() == known.stamp.len()
            && files
                .iter()
                .zip(&*known.stamp)
                .all(|((name, path), (known_name, known_stat))| {
                    name == known_name && observe(path).is_ok_and(|seen| seen.stat == *known_stat)
                })
    }

    fn refresh(&mut self, memo: &dyn Memo, clock: &dyn Clock) -> Result<bool> {
        if self.holds() {
            return Ok(false);
        }
        let before = self.known.take();
        let files = self.walk()?;
        let contents: Vec<Content> = contents(files.iter().map(|(_, path)| path.as_path()), memo, clock)
            .into_iter()
            .collect::<Result<_>>()?;
        let named = files.iter().map(|(name, _)| name);
        let root = input::directory(named.zip(contents.iter().map(|c| c.digest)));
        let fingerprint = input::arguments(&self.arguments, &root);
        self.known = Some(KnownCall {
            fingerprint,
            racy: contents.iter().any(|c| c.racy),
            stamp: files
                .into_iter()
                .zip(&contents)
                .map(|((name, _), content)| (name, content.stat))
                .collect(),
        });
        Ok(before.is_some_and(|known| known.fingerprint != fingerprint))
    }
}

#[cfg(test)]
#[path = "inputs_tests.rs"]
mod tests;
