//! What items are made of: as their user tells it, and as it was last looked at.

use crate::error::{Error, Result};
use crate::files::paths::resolve;
use crate::inputs::Inputs;
use crate::items::Items;
use crate::items::Sweep;
use prebake_fingerprint::{Digest, FileStat};
use std::path::PathBuf;
use std::thread;

impl Items {
    /// Says which files item `i` reads, in a fixed order; until then, none.
    ///
    /// # Errors
    /// `internal` if a path cannot be resolved, or what the items read is known by other means; `forked`.
    pub fn set_reads(&self, i: usize, paths: &[PathBuf]) -> Result<()> {
        self.0.session.check()?;
        let paths = paths.iter().map(|path| resolve(path)).collect::<Result<_>>()?;
        self.tell(i, |inputs| inputs.set_reads(i, paths))
    }

    /// Says what item `i` reads beside files, by a digest of it.
    ///
    /// # Errors
    /// `internal` if the items are files.
    pub fn set_objects(&self, i: usize, objects: Digest) -> Result<()> {
        self.tell(i, |inputs| inputs.set_objects(i, objects))
    }

    /// An element of what the item was told to be made of before is not its own any more.
    fn tell(&self, i: usize, tell: impl FnOnce(&mut Inputs) -> bool) -> Result<()> {
        let mut state = self.0.state.lock();
        if i >= state.found.len() || !tell(&mut state.inputs) {
            return Err(Error::internal(format!("item {i} cannot be told what it reads")));
        }
        if state.inputs.fingerprint(i).is_none() {
            state.found[i] = None;
        }
        Ok(())
    }

    /// What [`Items::set_objects`] said of item `i` last.
    #[must_use]
    pub fn objects(&self, i: usize) -> Option<Digest> {
        self.0.session.check().ok()?;
        self.0.state.lock().inputs.objects(i)
    }

    /// The stats of the files of item `i` under which its fingerprint was taken, in the order they were named; None if it
    /// has none, or if a file was written so recently that a later write may have the same stat.
    #[must_use]
    pub fn stats_of(&self, i: usize) -> Option<Vec<FileStat>> {
        self.0.session.check().ok()?;
        let state = self.0.state.lock();
        let stamp = state.inputs.stamp(i).filter(|_| !state.inputs.is_racy(i))?;
        Some(stamp.iter().map(|(_, stat)| *stat).collect())
    }

    /// The input of item `i` under the lease that this thread has on it: fingerprint, and stats of its files. What is made of
    /// the item may be stored wherever another lease is on the same.
    #[must_use]
    pub fn leased(&self, i: usize) -> Option<(Digest, Vec<FileStat>)> {
        self.0.session.check().ok()?;
        let state = self.0.state.lock();
        let lease = state.leases.get(&i)?.iter();
        let mine = lease.into_iter().find(|l| l.thread == thread::current().id())?;
        Some((
            mine.fingerprint,
            mine.stamp.iter().map(|(_, stat)| *stat).collect(),
        ))
    }

    /// Begins an epoch: what is read with `validated` from now on is as its input was at this moment, or later. On file
    /// systems that others change too, where a look is a question to another machine, it is as it was when this job first
    /// looked. Returns after some milliseconds, the first time at once; inputs that were not looked at by then are, in a
    /// thread of its own or when they are wanted, whichever is first.
    ///
    /// # Errors
    /// `forked`.
    pub fn validate(&self) -> Result<()> {
        let inner = &self.0;
        inner.session.check()?;
        let mut state = inner.state.lock();
        let begins = state.inputs.begin_epoch(inner.session.clock.elapsed());
        if !begins || state.sweeping {
            return Ok(());
        }
        state.sweeping = true;
        // What nobody stored yet will have to be read.
        let new = !std::mem::replace(&mut state.swept, true) && state.warm;
        let sweep = Sweep::new(inner, new);
        if new && state.window == 0 {
            state.first_sweep = Some(sweep);
        } else {
            drop(state);
            sweep.begin();
        }
        Ok(())
    }

    /// How many items were looked at in this epoch, and how many were ever.
    #[must_use]
    pub fn looked_at(&self) -> (usize, usize) {
        if !self.0.session.is_here() {
            return (0, 0);
        }
        let mut state = self.0.state.lock();
        let known: Vec<usize> = (0..self.0.count)
            .filter(|i| state.inputs.fingerprint(*i).is_some())
            .collect();
        let looked = known.iter().filter(|i| state.inputs.is_looked_at(**i));
        (looked.count(), known.len())
    }
}
