//! What a trial is not let do. It runs a user's function once more, on the files as they are: whoever called it once is not
//! to find that it was called again. What would change a file that lasts fails as on a disk that is mounted read-only
//! (`EROFS`), before anything is changed, and is told. Writing through mapped memory is not seen.

use super::calls::Call;
use super::record::{Found, is_log};
use super::tracee::{opened, word};
use super::tracer::{Begun, Tracer};
use crate::raw::ptrace;
use std::path::{Path, PathBuf};

impl Tracer {
    /// Whether a call that names files, or changes an open one, was refused.
    pub(super) fn refuses(&mut self, tid: i32, begun: &Begun) -> bool {
        if !self.is_trial || !self.record.is_prepared {
            return false;
        }
        let Begun {
            call,
            args,
            first,
            second,
        } = begun;
        let is_there = |found: &&Found| found.meta.is_some();
        let lasts = |found: &&Found| self.record.lasts(&found.path, found.meta.as_ref());
        let named = match call {
            Call::Change(_) => first.as_ref().filter(is_there).filter(lasts),
            Call::Make(_) => first.as_ref().filter(|found| !is_there(found)).filter(lasts),
            Call::Move(..) if first.as_ref().is_some_and(|from| is_there(&from)) => {
                [first, second].into_iter().flatten().find(lasts)
            }
            _ => None,
        };
        let changed = match call {
            Call::Open(_, flags) => self.opens_to_change(first.as_ref(), args[*flags]),
            Call::OpenHow(_, how) => {
                let flags = word(tid, args[*how]).unwrap_or(libc::O_RDONLY as u64);
                self.opens_to_change(first.as_ref(), flags)
            }
            Call::Create(_) => self.opens_to_change(first.as_ref(), (libc::O_CREAT | libc::O_TRUNC) as u64),
            Call::Change(_) if first.is_none() => self.lasting(tid, args[0]),
            Call::ChangeOpen => self.lasting(tid, args[0]),
            _ => named.map(|found| found.path.clone()),
        };
        changed.is_some_and(|path| self.refuse(tid, &path))
    }

    /// The same of a call that writes to an open file.
    pub(super) fn refuses_write(&mut self, tid: i32, fd: u64) -> bool {
        let is_at_work = self.is_trial && self.record.is_prepared;
        let file = is_at_work.then(|| self.lasting(tid, fd)).flatten();
        file.is_some_and(|path| self.refuse(tid, &path))
    }

    /// What is opened to be written to is let be: many do who only read. It is not made nor emptied.
    fn opens_to_change(&self, found: Option<&Found>, flags: u64) -> Option<PathBuf> {
        let Found { path, meta } = found?;
        let is = |flag: i32| flags & flag as u64 == flag as u64;
        let changes = match meta {
            None => is(libc::O_CREAT) && !is_log(path),
            Some(meta) => meta.is_file() && is(libc::O_TRUNC),
        };
        (changes && !is(libc::O_TMPFILE) && self.record.lasts(path, meta.as_ref())).then(|| path.clone())
    }

    /// An open file that lasts.
    fn lasting(&self, tid: i32, fd: u64) -> Option<PathBuf> {
        let (path, meta) = opened(tid, fd)?;
        let named = path.is_absolute() && !path.starts_with("/memfd:");
        (named && meta.is_file() && self.record.lasts(&path, Some(&meta))).then_some(path)
    }

    fn refuse(&mut self, tid: i32, path: &Path) -> bool {
        let refused = ptrace::refuse(tid, libc::EROFS);
        if refused {
            self.record.refuse(path);
        }
        refused
    }
}
