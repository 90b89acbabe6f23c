//! The daemon's folder: whose it must be, who may write to it, and which version's files it holds.

use crate::error::{Error, Kind, Result};
use rustix::{
    fs::{FileType, FlockOperation, Mode, OFlags, Stat, fchmod, flock, fstat, lstat, open},
    io::Errno,
    process::geteuid,
};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{Read, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::Path,
};

/// Of all that lies in the folder: raised when a file's meaning changes in a way that an earlier daemon would mistake.
pub const FORMAT: u32 = 2;

/// Where the format stands, as a number with its digest behind it.
const FORMAT_FILE: &str = "format";

/// Of the digest in that file: against chance. Later versions must keep this line, so that theirs is told from a damaged one.
const FORMAT_CONTEXT: &str = "prebake 2026 folder format v1";

/// Bits of a mode by which others may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Makes the folder, or takes the one that is there, and locks it. What is in it after that was put there by this user.
///
/// # Errors
/// `folder` if it cannot be used, `not-ours` if somebody else owns it or may write to it, `newer` if a later version of
/// the daemon wrote it, `locked` if another daemon uses it. Then nothing was changed but, at most, an empty folder made.
pub fn claim(dir: &Path) -> Result<File> {
    let failed = |e: std::io::Error| {
        Error::new(
            Kind::Io,
            "folder",
            format!("{} cannot be used: {e}", dir.display()),
        )
    };
    let make = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
    make(dir).map_err(failed)?;
    if is_link(dir) {
        // Whoever made the link decides where it leads; root does so anyway.
        let link = lstat(dir).map_err(|e| failed(e.into()))?;
        if link.st_uid != 0 {
            owned(dir, &link)?;
        }
    }
    take(dir, OFlags::empty())?;
    let lock = open(
        dir.join("lock"),
        OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    );
    let lock = lock.map_err(|e| failed(e.into()))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Error::new(
            Kind::Invalid,
            "locked",
            format!(
                "another daemon uses {}: stop it or choose another --dir",
                dir.display()
            ),
        )
    })?;
    know_format(dir)?;
    let segments = dir.join("segments");
    make(&segments).map_err(failed)?;
    take(&segments, OFlags::NOFOLLOW)?;
    // What is durable in them goes with them, if they are not.
    File::open(dir)
        .and_then(|folder| folder.sync_all())
        .map_err(failed)?;
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        // Somebody else's, perhaps, that may only be passed through.
        let _ = File::open(parent).and_then(|folder| folder.sync_all());
    }
    Ok(lock.into())
}

/// Whether a folder still is the one that was claimed with this lock.
pub fn has(dir: &Path, lock: &File) -> bool {
    let inode = |found: Stat| (found.st_dev, found.st_ino);
    let held = fstat(lock).map(inode);
    // What cannot be looked at now may be there.
    lstat(dir.join("lock")).map_or_else(|e| e != Errno::NOENT, |found| held == Ok(inode(found)))
}

fn absent(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// Opens a folder, checks that it is ours, and has nobody else read it.
fn take(dir: &Path, more: OFlags) -> Result<OwnedFd> {
    let failed = |e: Errno| {
        Error::new(
            Kind::Io,
            "folder",
            format!("{} cannot be used: {e}", dir.display()),
        )
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
    let fd = open(dir, flags, Mode::empty()).map_err(failed)?;
    let found = fstat(&fd).map_err(failed)?;
    let is_empty = || fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty() {
        // Made by somebody whose group may write to what he makes: nothing was put there yet.
        owned(dir, &found)?;
        fchmod(&fd, Mode::RWXU).map_err(failed)?;
        if is_empty() {
            return Ok(fd);
        }
    }
    ours(dir, &found)?;
    fchmod(&fd, Mode::RWXU).map_err(failed)?;
    Ok(fd)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_symlink())
}

/// Whether a file or folder is this user's, and nobody else may write to it.
///
/// # Errors
/// `not-ours`, with what to do.
pub fn ours(path: &Path, found: &Stat) -> Result<()> {
    owned(path, found)?;
    if found.st_mode & WRITABLE_BY_OTHERS != 0 {
        return Err(not_ours(
            path,
            "others may write to it, and may have",
            "remove it, or choose another --dir",
        ));
    }
    Ok(())
}

/// The same of what has to be a plain file: anything else may keep its reader waiting, or lead elsewhere.
///
/// # Errors
/// `not-ours`, with what to do.
pub fn our_file(path: &Path, found: &Stat) -> Result<()> {
    ours(path, found)?;
    if !FileType::from_raw_mode(found.st_mode).is_file() {
        return Err(not_ours(
            path,
            "it is no file",
            "remove it, or choose another --dir",
        ));
    }
    Ok(())
}

/// Opens a folder that files are made in, if it is this user's: it may have been replaced since it was claimed.
///
/// # Errors
/// `not-ours`; `io`.
pub fn open_ours(dir: &Path) -> Result<OwnedFd> {
    let failed = |e: Errno| Error::io(dir.display(), e.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = open(dir, flags, Mode::empty()).map_err(failed)?;
    ours(dir, &fstat(&fd).map_err(failed)?)?;
    Ok(fd)
}

/// Whether a file or folder is this user's.
///
/// # Errors
/// `not-ours`, with what to do.
pub fn owned(path: &Path, found: &Stat) -> Result<()> {
    if found.st_uid != geteuid().as_raw() {
        let whose = format!(
            "it belongs to user {}, and this is user {}",
            found.st_uid,
            geteuid().as_raw()
        );
        let advice = "choose another --dir (a user namespace, or NFS with root_squash, shows other users than there are)";
        return Err(not_ours(path, &whose, advice));
    }
    Ok(())
}

fn not_ours(path: &Path, why: &str, advice: &str) -> Error {
    Error::new(
        Kind::Invalid,
        "not-ours",
        format!("{} is not used: {why}; {advice}", path.display()),
    )
}

/// What the file of this format holds.
pub fn line(format: u32) -> String {
    let mut hasher = blake3::Hasher::new_derive_key(FORMAT_CONTEXT);
    hasher.update(&format.to_le_bytes());
    format!("{format} {}\n", hasher.finalize().to_hex())
}

/// The format that such a file says; None if it is not one that a daemon wrote.
fn said(text: &str) -> Option<u32> {
    let format = text.split(' ').next()?.parse().ok()?;
    (line(format) == text).then_some(format)
}

/// Refuses a folder that a later version wrote, and marks it as of this one.
fn know_format(dir: &Path) -> Result<()> {
    let path = dir.join(FORMAT_FILE);
    let failed = |e: std::io::Error| Error::io(path.display(), e);
    let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(|e| failed(e.into()))?;
    our_file(&path, &fstat(&file).map_err(|e| failed(e.into()))?)?;
    let mut file = File::from(file);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let known = said(&text);
    if known.is_some_and(|known| known > FORMAT) {
        return Err(Error::new(
            Kind::Invalid,
            "newer",
            format!(
                "{} is of format {:?}, and this daemon knows {FORMAT}: it was left as it is; update Prebake, or choose \
                 another --dir",
                dir.display(),
                text.trim()
            ),
        ));
    }
    if known.is_none() && !text.is_empty() {
        // Each file in the folder says for itself what it is.
        tracing::warn!(file = %path.display(), "the file is damaged, and written anew");
    }
    if known != Some(FORMAT) {
        // Whole at once: half of a number is another.
        let new = dir.join(format!("{FORMAT_FILE}.new"));
        fs::remove_file(&new).or_else(absent).map_err(failed)?;
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .map_err(failed)?;
        file.write_all(line(FORMAT).as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&new, &path).map_err(failed)?;
    }
    Ok(())
}
