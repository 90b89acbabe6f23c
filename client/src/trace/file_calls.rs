//! What calls on files say of the files: which were read, written or made.

use super::record::{Found, Record};
use super::tracee::{is_harmless_device, opened};
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

impl Record {
    /// A file was opened as a descriptor; `before` is what was there by its name.
    pub(super) fn opened(&mut self, tid: i32, fd: u64, flags: u64, before: Option<Found>) {
        let Some((path, meta)) = opened(tid, fd) else {
            return self.incomplete("an open file could not be looked at");
        };
        let way = PathBuf::from(format!("/proc/{tid}/fd/{fd}"));
        let is = |flag: i32| flags & flag as u64 == flag as u64;
        let access = flags & libc::O_ACCMODE as u64;
        let writes = access != libc::O_RDONLY as u64 || is(libc::O_TRUNC);
        let reads = access != libc::O_WRONLY as u64 && !is(libc::O_TRUNC);
        let found = Found {
            path: path.clone(),
            meta: Some(meta.clone()),
        };
        if is(libc::O_PATH) || meta.is_dir() {
            return self.look(&found);
        }
        if !path.is_absolute() || path.starts_with("/memfd:") {
            // A pipe, socket or memory of its own, opened once more.
            return;
        }
        if !meta.is_file() {
            return self.open_device(&path, &meta);
        }
        let made =
            is(libc::O_TMPFILE) || is(libc::O_CREAT) && before.is_some_and(|before| before.meta.is_none());
        if made || is(libc::O_TRUNC) {
            self.made(&meta);
        }
        if meta.nlink() == 0 && !self.is_made(&meta) {
            self.incomplete(format!("{} was removed when it was opened", path.display()));
        }
        if writes || made {
            self.write(&path);
            self.hold(&meta);
        }
        if reads {
            self.content(&path, &meta, &way);
        }
    }

    fn open_device(&mut self, path: &Path, meta: &Metadata) {
        let harmless = meta.file_type().is_char_device() && is_harmless_device(path);
        if !harmless && !self.is_made(meta) {
            self.incomplete(format!("it opens {}, which is no file", path.display()));
        }
    }

    /// What it removes or changes was there.
    pub(super) fn changes(&mut self, found: &Found) {
        if found.meta.is_none() {
            self.look(found);
        }
    }

    pub(super) fn changed_open(&mut self, tid: i32, fd: u64) {
        if let Some((path, meta)) = opened(tid, fd)
            && path.is_absolute()
            && !self.is_made(&meta)
        {
            self.write(&path);
        }
    }

    /// A file that it did not make may hold anything, and nothing would tell after it was moved.
    pub(super) fn moved(&mut self, from: &Found, to: &Found) {
        self.write(&from.path);
        self.write(&to.path);
        if !from.meta.as_ref().is_some_and(|meta| self.is_made(meta)) {
            self.look(from);
            self.incomplete(format!(
                "it moves or links {}, which it did not make",
                from.path.display()
            ));
        }
    }
}
