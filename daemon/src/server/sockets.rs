//! Names of the daemon's sockets, which go with it. Those of another daemon, over the folder that took this one's place, stay.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Names that this daemon made.
#[derive(Default)]
pub struct Sockets(Vec<(PathBuf, (u64, u64))>);

impl Sockets {
    /// Removes what an earlier daemon left under a name: the folder's lock says that none uses it.
    pub fn clear(path: PathBuf) -> PathBuf {
        let _ = fs::remove_file(&path);
        path
    }

    /// Takes note of names that were just bound.
    pub fn of(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let known = |path: PathBuf| inode(&path).map(|inode| (path, inode));
        Self(paths.into_iter().filter_map(known).collect())
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for (path, known) in &self.0 {
            if inode(path) == Some(*known) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
