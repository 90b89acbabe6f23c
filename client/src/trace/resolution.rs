//! Where a path leads: followed as the kernel does, so that every link on the way counts.

use super::record::{Found, NAMES_MAX, Record};
use super::scope::Place;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

impl Record {
    /// Follows a path as the kernel does for thread `tid`; every link on the way counts. What is below /proc is left to the
    /// kernel, which alone knows where it leads.
    pub(super) fn resolve(&mut self, tid: i32, base: &Path, path: &Path, follow: bool) -> Found {
        let mut pending: Vec<PathBuf> = parts(path);
        let mut at = if path.is_absolute() {
            PathBuf::from("/")
        } else {
            base.to_path_buf()
        };
        let follow = follow || path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let mut links = 0;
        let mut meta = None;
        while let Some(part) = pending.pop() {
            if part == Path::new("..") {
                at.pop();
                meta = None;
                continue;
            }
            let next = at.join(&part);
            let last = pending.is_empty();
            if next.starts_with("/proc") && !last {
                return in_proc(tid, next, pending, follow);
            }
            if !last && self.folders.contains(&next) {
                at = next;
                continue;
            }
            let found = match fs::symlink_metadata(&next) {
                Ok(found) => found,
                Err(e) => {
                    let rest = pending.iter().rev();
                    let path = rest.fold(next, |path, part| path.join(part));
                    if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
                        self.deny(&path);
                    }
                    return Found { path, meta: None };
                }
            };
            if found.is_symlink() && (follow || !last) {
                let target = fs::read_link(&next).unwrap_or_default();
                self.look(&Found {
                    path: next,
                    meta: Some(found),
                });
                links += 1;
                if links > 40 {
                    return Found {
                        path: at.join(part),
                        meta: None,
                    };
                }
                if target.is_absolute() {
                    at = "/".into();
                }
                pending.extend(parts(&target));
                meta = None;
                continue;
            }
            if found.is_dir() && matches!(self.scope.place(&next), Place::Elsewhere | Place::Input) {
                if self.folders.len() >= NAMES_MAX {
                    self.folders.clear();
                }
                self.folders.insert(next.clone());
            }
            at = next;
            meta = Some(found);
        }
        let meta = meta.or_else(|| fs::symlink_metadata(&at).ok());
        Found { path: at, meta }
    }

    /// What may not be looked at depends on the folders above it.
    fn deny(&mut self, path: &Path) {
        for above in path.ancestors().skip(1) {
            let meta = fs::symlink_metadata(above).ok();
            self.look(&Found {
                path: above.to_path_buf(),
                meta,
            });
        }
    }
}

fn in_proc(tid: i32, next: PathBuf, pending: Vec<PathBuf>, follow: bool) -> Found {
    let own = ["/proc/self", "/proc/thread-self"]
        .iter()
        .any(|own| next == Path::new(own));
    let start = if own { format!("/proc/{tid}").into() } else { next };
    let path = pending.iter().rev().fold(start, |path, part| path.join(part));
    // Beyond a process's root and working directory lie files like any other.
    let beyond = path
        .components()
        .nth(3)
        .is_some_and(|c| ["cwd", "root"].iter().any(|l| c.as_os_str() == *l))
        && path.components().nth(4).is_some();
    let folder = path
        .parent()
        .filter(|_| beyond)
        .and_then(|parent| parent.canonicalize().ok());
    let path = match folder.zip(path.file_name()) {
        Some((folder, name)) => folder.join(name),
        None => path,
    };
    let meta = if follow {
        fs::metadata(&path)
    } else {
        fs::symlink_metadata(&path)
    };
    Found {
        meta: meta.ok(),
        path,
    }
}

/// Last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    use std::path::Component::{CurDir, RootDir};
    let parts = path.components().filter(|c| !matches!(c, CurDir | RootDir));
    let mut parts: Vec<_> = parts.map(|c| PathBuf::from(c.as_os_str())).collect();
    parts.reverse();
    parts
}
