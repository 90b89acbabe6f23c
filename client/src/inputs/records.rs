//! Items that are known by a digest of their own and by the files they read.
//!
//! Each distinct file is looked at once, however many items read it: all of a data set may lie in one.

use super::Stamp;
use super::files::Files;
use super::part::Part;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::files::content::Memo;
use prebake_fingerprint::{Digest, input};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What items are besides the files they read.
pub(crate) enum Own {
    /// Item i is its number.
    Places(usize),
    /// Item i has this digest, and this name for people.
    Named(Vec<(Digest, String)>),
}

/// See the module.
pub(crate) struct Records {
    own: Own,
    files: Files,
    /// Number of each file among `files`.
    numbers: HashMap<PathBuf, usize>,
    /// Numbers of the files that each item reads; None until that is known.
    reads: Vec<Option<Box<[usize]>>>,
    /// What items read that is no file, as a digest of each: objects of a store, by what the store says of them.
    objects: HashMap<usize, Digest>,
    /// Each item's fingerprint as its caller was last told. A file's may be newer, learned for another item.
    taken: Vec<Option<Digest>>,
    /// How many edits had been seen when that was last compared with the files'.
    compared: Vec<u32>,
}

impl Records {
    /// With `unread`, items read no files unless they are said to.
    pub(super) fn new(files: Files, own: Own, unread: bool) -> Records {
        let count = match &own {
            Own::Places(count) => *count,
            Own::Named(named) => named.len(),
        };
        Records {
            own,
            files,
            numbers: HashMap::new(),
            reads: vec![unread.then(Box::default); count],
            objects: HashMap::new(),
            taken: vec![None; count],
            compared: vec![0; count],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }

    pub(super) fn name(&self, i: usize) -> Cow<'_, str> {
        match (&self.own, self.files_of(i)) {
            (Own::Named(named), _) => Cow::Borrowed(&named[i].1),
            (Own::Places(_), [file]) => Cow::Owned(format!("{i}: {}", self.files.text(*file))),
            (Own::Places(_), _) => Cow::Owned(i.to_string()),
        }
    }

    fn files_of(&self, i: usize) -> &[usize] {
        self.reads[i].as_deref().unwrap_or_default()
    }

    /// See [`super::Inputs::set_reads`].
    pub(super) fn set_reads(&mut self, i: usize, paths: Vec<PathBuf>) {
        let files = &mut self.files;
        let numbers = &mut self.numbers;
        let number = paths.into_iter().map(|path| match numbers.get(Path::new(&path)) {
            Some(number) => *number,
            None => {
                let number = files.push(&path);
                numbers.insert(path, number);
                number
            }
        });
        let reads = Some(number.collect());
        if reads != self.reads[i] {
            self.reads[i] = reads;
            // Of other files it was another input.
            self.taken[i] = None;
        }
    }

    /// See [`super::Inputs::set_objects`].
    pub(super) fn set_objects(&mut self, i: usize, objects: Digest) {
        if self.objects.insert(i, objects) != Some(objects) {
            self.taken[i] = None;
        }
    }

    pub(super) fn objects(&self, i: usize) -> Option<Digest> {
        self.objects.get(&i).copied()
    }

    pub(super) fn fingerprint(&self, i: usize) -> Option<Digest> {
        self.taken[i]
    }

    /// From the files as they were last seen; None if one could not be read, or they are not known.
    fn computed(&self, i: usize) -> Option<Digest> {
        let own = match &self.own {
            Own::Places(_) => input::place(i as u64),
            Own::Named(named) => named[i].0,
        };
        let own = match self.objects.get(&i) {
            Some(objects) => input::arguments(&own, objects),
            None => own,
        };
        let files = self.reads[i].as_ref()?.iter();
        let files: Option<Vec<Digest>> = files.map(|f| self.files.fingerprint(*f)).collect();
        Some(input::arguments(&own, &input::partition(files?)))
    }

    pub(super) fn stamp(&self, i: usize) -> Option<Stamp> {
        let files = self.reads[i].as_ref()?.iter();
        let stamps = files.map(|f| Some((self.files.name(*f), self.files.stat(*f)?)));
        stamps.collect::<Option<Vec<_>>>().map(Stamp::from)
    }

    pub(super) fn is_racy(&self, i: usize) -> bool {
        self.files_of(i).iter().any(|f| self.files.is_racy(*f))
    }

    pub(super) fn holds(&mut self, i: usize) -> bool {
        let files = self.reads[i].as_deref().unwrap_or_default();
        self.taken[i].is_some() && files.iter().all(|f| self.files.holds(*f)) && self.is_as_told(i)
    }

    /// Whether nothing else was learned of its files since its caller was told of the item.
    fn is_as_told(&mut self, i: usize) -> bool {
        let edits = self.files.edits();
        if self.compared[i] != edits && self.taken[i] == self.computed(i) {
            self.compared[i] = edits;
        }
        self.compared[i] == edits
    }

    pub(super) fn is_looked_at(&mut self, i: usize) -> bool {
        let looked = self.files_of(i).iter().all(|f| self.files.is_looked_at(*f));
        looked && self.taken[i].is_some() && self.is_as_told(i)
    }

    pub(super) fn is_settled(&mut self, i: usize) -> bool {
        let settled = self.files_of(i).iter().all(|f| self.files.is_settled(*f));
        settled && self.taken[i].is_some() && self.is_as_told(i)
    }

    pub(super) fn begin_epoch(&mut self, now: Duration) -> bool {
        // What reads no files cannot have changed.
        self.files.len() > 0 && self.files.begin_epoch(now)
    }

    pub(super) fn part(&self, next: usize) -> Option<Part> {
        // What a file is to be known for is only said when its item is wanted.
        self.files.part(next, false)
    }

    pub(super) fn found(&mut self, part: Part) {
        self.files.found(part);
    }

    pub(super) fn looked(&mut self, took: Duration) {
        self.files.looked(took);
    }

    /// See [`super::Inputs::refresh`].
    pub(super) fn refresh(
        &mut self,
        items: &[usize],
        memo: &dyn Memo,
        clock: &dyn Clock,
    ) -> Vec<Result<bool>> {
        let mut files: Vec<usize> = items
            .iter()
            .flat_map(|i| self.files_of(*i).iter().copied())
            .collect();
        files.sort_unstable();
        files.dedup();
        let answers = self.files.refresh(&files, memo, clock);
        let mut failed: HashMap<usize, _> = HashMap::new();
        for (file, answer) in files.into_iter().zip(answers) {
            if let Err(error) = answer {
                failed.insert(file, error);
            }
        }
        let mut answer = |i: usize| {
            let before = self.taken[i].take();
            let Some(files) = &self.reads[i] else {
                return Err(Error::internal(format!("it was not said what item {i} reads")));
            };
            if let Some(error) = files.iter().find_map(|f| failed.get(f)) {
                return Err(error.clone());
            }
            self.taken[i] = self.computed(i);
            self.compared[i] = self.files.edits();
            Ok(before.is_some() && before != self.taken[i])
        };
        items.iter().map(|i| answer(*i)).collect()
    }
}
