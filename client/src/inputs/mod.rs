//! Input fingerprints of a collection's items: taken when first needed, checked again by `stat`.

mod call;
mod files;
mod part;
mod records;

use crate::clock::Clock;
use crate::error::Result;
use crate::files::content::Memo;
use crate::files::paths::Paths;
use call::Call;
use files::Files;
pub(crate) use part::Part;
use prebake_fingerprint::{Digest, FileStat};
pub(crate) use records::Own;
use records::Records;
use std::borrow::Cow;
use std::path::PathBuf;
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
    /// Items of a data set that are known by a digest of their own and the files they read.
    Records(Records),
}

impl Inputs {
    pub(crate) fn files(root: PathBuf, paths: Arc<Paths>, path_ignored: bool) -> Inputs {
        Inputs::Files(Files::new(root, paths, path_ignored))
    }

    pub(crate) fn records(root: PathBuf, own: Own, path_ignored: bool, unread: bool) -> Inputs {
        let files = Files::new(root, Arc::default(), path_ignored);
        Inputs::Records(Records::new(files, own, unread))
    }

    pub(crate) fn call(name: String, arguments: Digest, roots: Vec<PathBuf>) -> Inputs {
        Inputs::Call(Call {
            name,
            arguments,
            objects: None,
            roots,
            known: None,
        })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Inputs::Files(files) => files.len(),
            Inputs::Call(_) => 1,
            Inputs::Records(records) => records.len(),
        }
    }

    /// What a person calls item `i`.
    pub(crate) fn name(&self, i: usize) -> Cow<'_, str> {
        match self {
            Inputs::Files(files) => Cow::Owned(files.text(i)),
            Inputs::Call(call) => Cow::Borrowed(&call.name),
            Inputs::Records(records) => records.name(i),
        }
    }

    /// How long computing one may take before others do it too.
    pub(crate) fn lease(&self) -> Duration {
        match self {
            Inputs::Files(_) | Inputs::Records(_) => LEASE,
            Inputs::Call(_) => CALL_LEASE,
        }
    }

    /// Whether an epoch begins, in which no item [`Inputs::is_looked_at`] yet: not while a watch proves that nothing
    /// changed. Looking at all of them is [`Inputs::part`] after part.
    pub(crate) fn begin_epoch(&mut self, now: Duration) -> bool {
        match self {
            Inputs::Files(files) => files.begin_epoch(now),
            Inputs::Call(_) => true,
            Inputs::Records(records) => records.begin_epoch(now),
        }
    }

    /// Whether item `i` was found to be as its fingerprint says in this epoch; on file systems where that is enough, in this
    /// job.
    pub(crate) fn is_looked_at(&mut self, i: usize) -> bool {
        match self {
            Inputs::Files(files) => files.is_looked_at(i),
            // Its folders are one look.
            Inputs::Call(_) => false,
            Inputs::Records(records) => records.is_looked_at(i),
        }
    }

    /// Whether item `i` needs no other look in this job.
    pub(crate) fn is_settled(&mut self, i: usize) -> bool {
        match self {
            Inputs::Files(files) => files.is_settled(i),
            Inputs::Call(_) => false,
            Inputs::Records(records) => records.is_settled(i),
        }
    }

    /// Some files to look at, in turn from `next` on, the first time 0; None after the last. With `new` those too of which
    /// nothing is known yet.
    pub(crate) fn part(&self, next: usize, new: bool) -> Option<Part> {
        match self {
            Inputs::Files(files) => files.part(next, new),
            Inputs::Call(_) => None,
            Inputs::Records(records) => records.part(next),
        }
    }

    /// Takes note of what was seen of them.
    pub(crate) fn found(&mut self, part: Part) {
        match self {
            Inputs::Files(files) => files.found(part),
            Inputs::Call(_) => {}
            Inputs::Records(records) => records.found(part),
        }
    }

    /// Says how long some were looked at.
    pub(crate) fn looked(&mut self, took: Duration) {
        match self {
            Inputs::Files(files) => files.looked(took),
            Inputs::Call(_) => {}
            Inputs::Records(records) => records.looked(took),
        }
    }

    /// Says which files item `i` reads, in a fixed order. False if they are known by other means.
    pub(crate) fn set_reads(&mut self, i: usize, paths: Vec<PathBuf>) -> bool {
        match self {
            Inputs::Records(records) => {
                records.set_reads(i, paths);
                true
            }
            Inputs::Files(_) | Inputs::Call(_) => false,
        }
    }

    /// Says what item `i` reads that is no file, by a digest of it. False if it is a file.
    pub(crate) fn set_objects(&mut self, i: usize, objects: Digest) -> bool {
        match self {
            Inputs::Records(records) => records.set_objects(i, objects),
            Inputs::Call(call) => {
                if call.objects.replace(objects) != Some(objects) {
                    call.known = None;
                }
            }
            Inputs::Files(_) => return false,
        }
        true
    }

    /// What was said so last.
    pub(crate) fn objects(&self, i: usize) -> Option<Digest> {
        match self {
            Inputs::Records(records) => records.objects(i),
            Inputs::Call(call) => call.objects,
            Inputs::Files(_) => None,
        }
    }

    /// The fingerprint last taken.
    pub(crate) fn fingerprint(&self, i: usize) -> Option<Digest> {
        match self {
            Inputs::Files(files) => files.fingerprint(i),
            Inputs::Call(call) => call.known.as_ref().map(|k| k.fingerprint),
            Inputs::Records(records) => records.fingerprint(i),
        }
    }

    /// The stats under which that fingerprint was taken. Equal ones show that nothing was written in between, even the
    /// same bytes.
    pub(crate) fn stamp(&self, i: usize) -> Option<Stamp> {
        match self {
            Inputs::Files(files) => files.stat(i).map(|stat| Stamp::from([(Vec::new(), stat)])),
            Inputs::Call(call) => call.known.as_ref().map(|k| Arc::clone(&k.stamp)),
            Inputs::Records(records) => records.stamp(i),
        }
    }

    /// Whether item `i` has a file that was written too recently to tell a later write from.
    pub(crate) fn is_racy(&self, i: usize) -> bool {
        match self {
            Inputs::Files(files) => files.is_racy(i),
            Inputs::Call(call) => call.is_racy(),
            Inputs::Records(records) => records.is_racy(i),
        }
    }

    /// Whether the stat proves that the fingerprint still holds.
    pub(crate) fn holds(&mut self, i: usize) -> bool {
        match self {
            Inputs::Files(files) => files.holds(i),
            Inputs::Call(call) => call.holds(),
            Inputs::Records(records) => records.holds(i),
        }
    }

    /// Looks at items, and takes their fingerprints anew where a stat does not prove them. One answer for each: whether it changed. An
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
            Inputs::Records(records) => records.refresh(items, memo, clock),
        }
    }
}

#[cfg(test)]
mod mounted;
#[cfg(test)]
mod tests;
