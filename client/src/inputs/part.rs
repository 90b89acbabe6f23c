//! Some files of a sweep, looked at while nothing is locked.

use crate::clock::Clock;
use crate::files::content::{Content, Observed, may_be_recalled, observe_all};
use prebake_fingerprint::{Digest, FileStat};
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// A file that was not looked at yet in an epoch.
pub(super) struct Due {
    pub(super) i: usize,
    pub(super) path: PathBuf,
    /// As it was when its fingerprint was taken; None if it never was.
    pub(super) stat: Option<FileStat>,
}

/// See the module. What was seen counts for the epoch in which it was begun, whichever it is when that is noted.
pub(crate) struct Part {
    pub(super) epoch: NonZeroU64,
    /// Where the next one begins.
    pub(crate) next: usize,
    due: Vec<Due>,
    pub(super) seen: Vec<(usize, Observed)>,
    /// What the memo is to be asked for.
    unknown: Vec<(usize, FileStat)>,
    pub(super) learned: Vec<(usize, Content)>,
    /// How many files were seen of which nothing was known.
    pub(crate) new: usize,
}

impl Part {
    pub(super) fn new(epoch: NonZeroU64, next: usize, due: Vec<Due>) -> Part {
        Part {
            epoch,
            next,
            due,
            seen: Vec::new(),
            unknown: Vec::new(),
            learned: Vec::new(),
            new: 0,
        }
    }

    /// Looks at the files. None is read: one that changed, or that the memo does not know, is left to whoever wants it.
    pub(crate) fn look(&mut self, clock: &dyn Clock) {
        let now = clock.wall_ns();
        let observed = observe_all(self.due.iter().map(|due| due.path.as_path()), clock);
        let mut devices = HashMap::new();
        for (due, seen) in self.due.iter().zip(observed) {
            let Ok(seen) = seen else {
                continue;
            };
            if due.stat.is_some() {
                self.seen.push((due.i, seen));
                continue;
            }
            self.new += 1;
            if may_be_recalled(&mut devices, &due.path, &seen.stat, now) {
                self.unknown.push((due.i, seen.stat));
            }
        }
    }

    /// The stats to ask the memo for.
    pub(crate) fn asks(&self) -> impl Iterator<Item = FileStat> {
        self.unknown.iter().map(|(_, stat)| *stat)
    }

    /// Takes the memo's answers, as many as there were questions; how many files it knew.
    pub(crate) fn recall(&mut self, answers: &mut impl Iterator<Item = Option<Digest>>) -> usize {
        let answered = self.unknown.drain(..).zip(answers);
        self.learned.extend(answered.filter_map(|((i, stat), digest)| {
            let content = Content {
                stat,
                digest: digest?,
                racy: false,
            };
            Some((i, content))
        }));
        self.learned.len()
    }
}
