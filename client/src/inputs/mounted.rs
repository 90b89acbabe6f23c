//! Inputs on a file system in user space, as a network's often are: each look is a question that is counted.

use super::Inputs;
use super::tests::{Remembered, SECOND, files, later, sweep};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyEntry, Request,
};
use parking_lot::Mutex;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// A folder with one file.
#[derive(Default)]
struct Remote {
    content: Mutex<String>,
    questions: AtomicUsize,
}

struct Mounted(Arc<Remote>);

impl Mounted {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        self.0.questions.fetch_add(1, Ordering::Relaxed);
        let folder = ino == INodeNo::ROOT;
        FileAttr {
            ino,
            size: self.0.content.lock().len() as u64,
            blocks: 1,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if folder {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 512,
            flags: 0,
        }
    }
}

const FILE: INodeNo = INodeNo(2);

/// Nothing is kept by the kernel.
const FOR: Duration = Duration::ZERO;

impl Filesystem for Mounted {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("file") => reply.entry(&FOR, &self.attributes(FILE), Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR, &self.attributes(ino));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        _: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let content = self.0.content.lock();
        reply.data(content.as_bytes().get(offset as usize..).unwrap_or_default());
    }
}

fn known(inputs: &mut Inputs, memo: &Remembered) -> bool {
    inputs.refresh(&[0], memo, &later())[0].as_ref().copied().unwrap()
}

#[test]
fn a_file_in_user_space_is_looked_at_once_in_a_job_and_before_anything_is_stored() {
    let temp = tempfile::tempdir().unwrap();
    let remote = Arc::new(Remote::default());
    *remote.content.lock() = "one".to_owned();
    let Ok(_mount) = fuser::spawn_mount(Mounted(Arc::clone(&remote)), temp.path(), &Config::default()) else {
        eprintln!("not tested: nothing can be mounted here");
        return;
    };
    let memo = Remembered::default();
    let mut inputs = files(temp.path(), &["file"]);
    known(&mut inputs, &memo);
    let first = inputs.fingerprint(0).unwrap();
    *remote.content.lock() = "another".to_owned();
    let asked = remote.questions.load(Ordering::Relaxed);
    for epoch in 1..3 {
        assert!(inputs.begin_epoch(epoch * SECOND));
        sweep(&mut inputs, true, &memo, |_| {});
        assert!(inputs.is_looked_at(0) && inputs.is_settled(0) && inputs.holds(0));
    }
    assert_eq!(remote.questions.load(Ordering::Relaxed), asked);
    assert!(
        known(&mut inputs, &memo),
        "who stores what was made of it asks again"
    );
    let mut other = files(temp.path(), &["file"]);
    known(&mut other, &memo);
    assert_ne!(
        other.fingerprint(0),
        Some(first),
        "another job sees what there is then"
    );
}
