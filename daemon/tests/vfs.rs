//! The real file system, read and written past the page cache.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod common;

use common::element;
use prebake_daemon::vfs::{OsVfs, Vfs};
use std::{path::Path, process::Command};

/// Pages of a file that are in the page cache, by util-linux; None if that is not here.
fn cached_pages(path: &Path) -> Option<u64> {
    let told = Command::new("fincore")
        .args(["-n", "-o", "PAGES"])
        .arg(path)
        .output();
    String::from_utf8(told.ok()?.stdout).unwrap().trim().parse().ok()
}

#[test]
fn files_are_read_past_the_page_cache_at_any_length_and_from_any_memory() {
    for folder in [
        tempfile::tempdir().unwrap(),
        tempfile::tempdir_in("/dev/shm").unwrap(),
    ] {
        let path = folder.path().join("file");
        let bytes = element(1, (1 << 20) + 77);
        let file = OsVfs.create(&path).unwrap();
        let mut memory = Aligned::new(bytes.len());
        memory.bytes().copy_from_slice(&bytes);
        file.write_at(memory.bytes(), 0).unwrap();
        file.sync().unwrap();
        let file = OsVfs.open(&path).unwrap();
        memory.bytes().fill(0);
        file.read_at(memory.bytes(), 0).unwrap();
        assert!(memory.bytes() == bytes);
        // On a file system without a disk all is in memory.
        if !folder.path().starts_with("/dev/shm") {
            assert!(cached_pages(&path).is_none_or(|pages| pages <= 1));
        }
        // Memory that is not aligned, an offset that is not, and what is behind the end.
        for (start, length) in [(0, 5000), (4096, 4096), (77, 4096), (1 << 20, 77)] {
            let mut unaligned = vec![0; length + 1];
            file.read_at(&mut unaligned[1..], start as u64).unwrap();
            assert!(unaligned[1..] == bytes[start..start + length]);
            file.read_at(&mut memory.bytes()[..length], start as u64).unwrap();
            assert!(memory.bytes()[..length] == bytes[start..start + length]);
        }
        assert!(file.read_at(memory.bytes(), 4096).is_err());
    }
}

/// Page-aligned memory.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new(length: usize) -> Self {
        Self(vec![0; length + 4096], length)
    }

    fn bytes(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(4096);
        &mut self.0[start..start + self.1]
    }
}

#[test]
fn nothing_is_made_in_a_folder_that_others_may_write_to() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, theirs) = (folder.path().join("segments"), folder.path().join("theirs"));
    std::fs::create_dir(&theirs).unwrap();
    std::fs::set_permissions(&theirs, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink(&theirs, &dir).unwrap();
    let error = OsVfs.create(&dir.join("new")).err().unwrap();
    assert_eq!(error.code(), "not-ours");
    assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0);
}
