//! What lay in a command's outputs before it ran.

use std::{
    collections::HashSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Everything below the outputs that is no folder, to tell what a command made anew.
pub struct Before(HashSet<Inode>);

/// Device, inode and birth: an inode number alone is given again once its file is removed.
type Inode = (u64, u64, Option<SystemTime>);

impl Before {
    /// Looks at the outputs before the command runs.
    ///
    /// # Errors
    /// If they cannot be read whole.
    pub fn look(outputs: &[PathBuf]) -> Result<Self, String> {
        let mut seen = HashSet::new();
        for output in outputs {
            walk(output, &mut |_, meta| {
                if !meta.is_dir() {
                    seen.insert(inode(meta));
                }
                Ok(())
            })?;
        }
        Ok(Self(seen))
    }

    /// Whether it was there.
    pub(super) fn holds(&self, meta: &fs::Metadata) -> bool {
        self.0.contains(&inode(meta))
    }
}

fn inode(meta: &fs::Metadata) -> Inode {
    (meta.dev(), meta.ino(), meta.created().ok())
}

type Visit<'a> = &'a mut dyn FnMut(&Path, &fs::Metadata) -> Result<(), String>;

/// Visits a path and all below it, parents first, by name. A path that is not there is nothing to visit.
pub(super) fn walk(root: &Path, visit: Visit<'_>) -> Result<(), String> {
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let failed = |e: io::Error| format!("{}: {e}", path.display());
        let meta = match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && path == root => return Ok(()),
            meta => meta.map_err(failed)?,
        };
        visit(&path, &meta)?;
        if meta.is_dir() {
            let mut below = Vec::new();
            for entry in fs::read_dir(&path).map_err(failed)? {
                below.push(entry.map_err(failed)?.path());
            }
            below.sort_unstable_by(|a, b| b.cmp(a));
            pending.append(&mut below);
        }
    }
    Ok(())
}
