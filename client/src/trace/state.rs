//! What a look at a name shows, without its file's content: taken while a command runs, and compared before it is replayed.

use prebake_fingerprint::{Digest, digest::Context};
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Python's memo of sources that lie beside it. It comes and goes, and says what the sources say.
pub(super) const BYTECODE: &str = "__pycache__";

/// Nothing has that name.
pub const ABSENT: &str = "absent";

/// What a name stands for, in words: times are left out, so that touching changes nothing.
#[must_use]
pub fn state(path: &Path) -> String {
    of(path, fs::symlink_metadata(path).ok().as_ref())
}

pub(super) fn of(path: &Path, found: Option<&Metadata>) -> String {
    let Some(found) = found else {
        return ABSENT.into();
    };
    let mode = found.mode() & 0o7777;
    if found.is_symlink() {
        let target = fs::read_link(path).unwrap_or_default();
        format!("link to {:?}", target.as_os_str())
    } else if found.is_dir() {
        format!("folder {mode:o}")
    } else if found.is_file() {
        format!("file of {} bytes {mode:o}", found.len())
    } else {
        format!("special {mode:o}")
    }
}

/// Digest of the names in a folder and their kinds, without the outputs and what leads to them (a run from nothing finds none) and without
/// those that `made` says the command made itself, by path and inode.
///
/// # Errors
/// If it cannot be listed.
pub fn names(folder: &Path, outputs: &[PathBuf], made: &dyn Fn(&Path, u64) -> bool) -> io::Result<Digest> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if name == BYTECODE || outputs.iter().any(|o| o.starts_with(&path)) || made(&path, entry.ino()) {
            continue;
        }
        names.push((name, kind(entry.file_type()?)));
    }
    names.sort_unstable();
    let mut hasher = Context::Value.hasher();
    for (name, kind) in names {
        let name = name.as_bytes();
        hasher
            .update(&(name.len() as u64).to_le_bytes())
            .update(name)
            .update(&[kind]);
    }
    Ok(hasher.finalize().into())
}

fn kind(found: FileType) -> u8 {
    match found {
        f if f.is_file() => b'f',
        f if f.is_dir() => b'd',
        f if f.is_symlink() => b'l',
        f if f.is_fifo() => b'p',
        f if f.is_socket() => b's',
        _ => b'o',
    }
}
