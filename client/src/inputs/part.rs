//! Some files of a sweep, looked at while nothing is locked.

use crate::clock::Clock;
use crate::content::{Content, Memo, Observed, observe_all, recalled};
use prebake_fingerprint::FileStat;
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
    pub(super) epoch: u32,
    /// Where the next one begins.
    pub(crate) next: usize,
    due: Vec<Due>,
    pub(super) seen: Vec<(usize, Observed)>,
    pub(super) learned: Vec<(usize, Content)>,
    /// How many files the memo was asked for.
    pub(crate) asked: usize,
}

impl Part {
    pub(super) fn new(epoch: u32, next: usize, due: Vec<Due>) -> Part {
        Part {
            epoch,
            next,
            due,
            seen: Vec::new(),
            learned: Vec::new(),
            asked: 0,
        }
    }

    /// Looks at the files. None is read: one that changed, or that the memo does not know, is left to whoever wants it.
    pub(crate) fn look(&mut self, memo: &dyn Memo, clock: &dyn Clock) {
        let now = clock.wall_ns();
        let observed = observe_all(self.due.iter().map(|due| due.path.as_path()), clock);
        let (mut new, mut stats) = (Vec::new(), Vec::new());
        for (due, seen) in self.due.iter().zip(observed) {
            match (due.stat, seen) {
                (Some(_), Ok(seen)) => self.seen.push((due.i, seen)),
                (None, Ok(seen)) => {
                    new.push(due);
                    stats.push(Ok(seen.stat));
                }
                (_, Err(_)) => {}
            }
        }
        self.asked = new.len();
        let paths = new.iter().map(|due| due.path.as_path()).collect::<Vec<_>>();
        let contents = recalled(&paths, &stats, memo, now).into_iter();
        let known = new
            .iter()
            .zip(contents)
            .filter_map(|(due, found)| Some((due.i, found?.ok()?)));
        self.learned.extend(known);
    }

    /// How many of those that were asked for the memo knew.
    pub(crate) fn recalled(&self) -> usize {
        self.learned.len()
    }
}
