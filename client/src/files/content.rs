//! Content digests of files, read as seldom as can be.

use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::files::file_system::FileSystem;
use crate::raw::has_writer;
use prebake_fingerprint::stat::is_racy;
use prebake_fingerprint::{Digest, FileStat, input};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fdatasync, fstat, fstatfs, open, statat};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

/// A file that changes while it is read is read again so often before it is given up.
const ATTEMPTS: usize = 3;

/// Content digests by stat, shared with other jobs.
pub(crate) trait Memo {
    /// One answer for each stat.
    fn ask(&self, stats: &[FileStat]) -> Vec<Option<Digest>>;
    /// Only of files that were not racy when they were read.
    fn remember(&self, known: &[(FileStat, Digest)]);
}

/// A file's content as of a stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) stat: FileStat,
    pub(crate) digest: Digest,
    /// It was modified too recently to tell a later edit by its stat, or somebody may write to it unseen: not to be trusted
    /// again without reading.
    pub(crate) racy: bool,
}

/// What the kernel says of a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) stat: FileStat,
    /// Its folder's entry is the only way to it, so that who watches the folder sees every change.
    pub(crate) sole: bool,
}

/// Symbolic links are followed.
///
/// # Errors
/// `input-missing` if there is no regular file.
pub(crate) fn observe(path: &Path) -> Result<Observed> {
    look(path, CWD, path.as_os_str().as_bytes())
}

fn look(path: &Path, folder: BorrowedFd<'_>, name: &[u8]) -> Result<Observed> {
    let mut found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| missing(path, e))?;
    let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
    if is_link {
        found = statat(folder, name, AtFlags::empty()).map_err(|e| missing(path, e))?;
    }
    Ok(Observed {
        stat: regular(path, &found)?,
        sole: !is_link && found.st_nlink == 1,
    })
}

/// Neighbours in one folder from which on it pays to look them up from there.
const NEIGHBOURS_MIN: usize = 4;

/// Files looked at to tell how long a look takes, and from when on it is a wait for a disk or another machine, during which
/// others can be asked for: a look at what is at hand takes a microsecond or two.
const TIMED: usize = 4;
const SLOW: Duration = Duration::from_micros(100);

/// Threads that look where that is slow. Most of the time they wait.
const LOOKING: usize = 16;

/// What the kernel says of files, in order; of many at once where it takes its time.
pub(crate) fn observe_all<'a>(
    paths: impl Iterator<Item = &'a Path>,
    clock: &dyn Clock,
) -> Vec<Result<Observed>> {
    let paths: Vec<&Path> = paths.collect();
    let (timed, rest) = paths.split_at(if paths.len() > 2 * TIMED { TIMED } else { 0 });
    let mut fastest = Duration::MAX;
    let mut observed: Vec<_> = Vec::with_capacity(paths.len());
    for path in timed {
        let begun = clock.elapsed();
        observed.push(observe(path));
        fastest = fastest.min(clock.elapsed().saturating_sub(begun));
    }
    if timed.is_empty() || fastest < SLOW {
        observed.extend(observe_in_turn(rest));
        return observed;
    }
    thread::scope(|scope| {
        let parts = rest.chunks(rest.len().div_ceil(LOOKING));
        let parts = parts.map(|part| (part, scope_thread(scope, move || observe_in_turn(part))));
        let parts: Vec<_> = parts.collect();
        for (part, thread) in parts {
            // Without a thread, or if one panicked, here.
            let found = thread.and_then(|thread| thread.join().ok());
            observed.extend(found.unwrap_or_else(|| observe_in_turn(part)));
        }
    });
    observed
}

/// None if there is no thread to be had.
pub(crate) fn scope_thread<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    thread::Builder::new().spawn_scoped(scope, work).ok()
}

/// Neighbours are looked up from their folder, opened anew for each run of them: the way to it is then walked once and not
/// for each.
fn observe_in_turn(paths: &[&Path]) -> Vec<Result<Observed>> {
    let split: Vec<(&Path, Option<Split>)> = paths.iter().map(|path| (*path, split(path))).collect();
    let mut observed = Vec::with_capacity(split.len());
    for run in split.chunk_by(|(_, a), (_, b)| a.is_some() && a.map(|a| a.0) == b.map(|b| b.0)) {
        let folder = run[0].1.filter(|_| run.len() >= NEIGHBOURS_MIN);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = folder.and_then(|(folder, _)| open(folder, flags, Mode::empty()).ok());
        observed.extend(run.iter().map(|(path, split)| match (&folder, split) {
            (Some(folder), Some((_, name))) => look(path, folder.as_fd(), name),
            _ => observe(path),
        }));
    }
    observed
}

/// A file's folder and its name there.
pub(crate) type Split<'a> = (&'a [u8], &'a [u8]);

/// A path's two parts, if it is that simple.
pub(crate) fn split(path: &Path) -> Option<Split<'_>> {
    let bytes = path.as_os_str().as_bytes();
    let slash = bytes.iter().rposition(|byte| *byte == b'/')?;
    let (folder, name) = bytes.split_at(slash + 1);
    (!matches!(name, b"" | b"." | b"..")).then_some((folder, name))
}

/// Files read before the memo is asked again: jobs that start together then read each file once between them.
const READ_MAX: usize = 32;

/// Digests of the files, in order: from the memo where it knows them, else by reading. Each fails by itself.
pub(crate) fn contents<'a>(
    paths: impl Iterator<Item = &'a Path>,
    memo: &dyn Memo,
    clock: &dyn Clock,
) -> Vec<Result<Content>> {
    let paths: Vec<&Path> = paths.collect();
    let now = clock.wall_ns();
    let observed = observe_all(paths.iter().copied(), clock).into_iter();
    let observed: Vec<Result<FileStat>> = observed.map(|o| o.map(|o| o.stat)).collect();
    let failed = observed.iter().map(|o| o.as_ref().err());
    let mut contents: Vec<Option<Result<Content>>> = failed.map(|e| e.map(|e| Err(e.clone()))).collect();
    let mut devices = HashMap::new();
    let mut tells = |i: usize, stat: &FileStat| is_stamped(&mut devices, paths[i], stat);
    loop {
        recall(&observed, &mut contents, memo, now, &mut tells);
        let unknown: Vec<usize> = (0..paths.len()).filter(|i| contents[*i].is_none()).collect();
        let Some(next) = unknown.chunks(READ_MAX).next() else {
            break;
        };
        let mut learned = Vec::new();
        for &i in next {
            let content = read(paths[i], clock);
            if let Ok(content) = content.as_ref().map_err(|_| ())
                && !content.racy
                && tells(i, &content.stat)
            {
                learned.push((content.stat, content.digest));
            }
            contents[i] = Some(content);
        }
        if !learned.is_empty() {
            memo.remember(&learned);
        }
    }
    let missed = || Error::internal("an input was not looked at");
    contents
        .into_iter()
        .map(|content| content.unwrap_or_else(|| Err(missed())))
        .collect()
}

/// Takes from the memo what it knows of files that are not known yet and settled.
fn recall(
    observed: &[Result<FileStat>],
    contents: &mut [Option<Result<Content>>],
    memo: &dyn Memo,
    now: i64,
    mut tells: impl FnMut(usize, &FileStat) -> bool,
) {
    let unknown = observed.iter().zip(contents).enumerate();
    let unknown = unknown.filter(|(_, (_, content))| content.is_none());
    let settled = unknown.filter_map(|(i, (stat, content))| Some((i, *stat.as_ref().ok()?, content)));
    let settled = settled.filter(|(i, stat, _)| !is_racy(stat, now) && tells(*i, stat));
    let settled: Vec<_> = settled.map(|(_, stat, content)| (stat, content)).collect();
    let stats: Vec<FileStat> = settled.iter().map(|(stat, _)| *stat).collect();
    if stats.is_empty() {
        return;
    }
    for ((stat, content), digest) in settled.into_iter().zip(memo.ask(&stats)) {
        *content = digest.map(|digest| {
            Ok(Content {
                stat,
                digest,
                racy: false,
            })
        });
    }
}

/// Whether the memo may know a file that was looked at later than `now`.
pub(crate) fn may_be_recalled(
    devices: &mut HashMap<u64, bool>,
    path: &Path,
    stat: &FileStat,
    now: i64,
) -> bool {
    !is_racy(stat, now) && is_stamped(devices, path, stat)
}

/// Whether a file's stat tells it from every other, for other jobs too. Asked once for a device.
fn is_stamped(devices: &mut HashMap<u64, bool>, path: &Path, stat: &FileStat) -> bool {
    let asked = || FileSystem::at(path).stamps_changes();
    *devices.entry(stat.device).or_insert_with(asked)
}

/// Reads a file, and again while it changes underneath.
///
/// # Errors
/// `input-missing`, or `input-unstable` if it does not hold still.
pub(crate) fn read(path: &Path, clock: &dyn Clock) -> Result<Content> {
    read_by(path, clock, |file| input::content(file))
}

fn read_by(path: &Path, clock: &dyn Clock, digest: impl Fn(&File) -> io::Result<Digest>) -> Result<Content> {
    for _ in 0..ATTEMPTS {
        let file = File::open(path).map_err(|e| missing(path, e))?;
        let now = clock.wall_ns();
        let before = regular(path, &fstat(&file).map_err(|e| missing(path, e))?)?;
        // Before it is read: whoever begins to write later gives it another time.
        let racy = is_racy(&before, now) || may_change_unseen(&file);
        let digest = digest(&file).map_err(|e| missing(path, e))?;
        let after = regular(path, &fstat(&file).map_err(|e| missing(path, e))?)?;
        if before == after {
            return Ok(Content {
                stat: before,
                digest,
                racy,
            });
        }
    }
    Err(Error::new(
        Code::InputUnstable,
        format!(
            "{} changes while it is read: wait for its writer to finish",
            path.display()
        ),
    ))
}

/// Whether a file can be written to from now on without its stat telling: through a mapping, of pages that were written to
/// before. Once such pages are on the disk, the next write to each is told again, where the file system does so.
pub(crate) fn may_change_unseen(file: &File) -> bool {
    let is_told = || {
        fstatfs(file).is_ok_and(|on| FileSystem::stamps_mapped_writes(on.f_type)) && fdatasync(file).is_ok()
    };
    has_writer(file) && !is_told()
}

/// A pipe would block, a device never end.
fn regular(path: &Path, stat: &Stat) -> Result<FileStat> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(missing(path, "not a regular file"));
    }
    // Of another type where system calls go through C's library; below a thousand million in any case.
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    Ok(FileStat {
        device: stat.st_dev,
        inode: stat.st_ino,
        size: stat.st_size.unsigned_abs(),
        mtime_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64),
        ctime_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec as i64),
    })
}

pub(crate) fn missing(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(
        Code::InputMissing,
        format!("cannot read input {}: {why}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use std::cell::Cell;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Reads a file that gets longer during the first `edits` readings.
    fn read_under_edits(edits: usize) -> Result<Content> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let left = Cell::new(edits);
        read_by(file.path(), &SystemClock::default(), |open| {
            let digest = input::content(open);
            if left.get() > 0 {
                left.set(left.get() - 1);
                let mut writer = OpenOptions::new().append(true).open(file.path())?;
                writer.write_all(b"more")?;
            }
            digest
        })
    }

    #[test]
    fn a_file_edited_while_it_is_read_is_read_again() {
        let content = read_under_edits(ATTEMPTS - 1).unwrap();
        let whole = b"more".repeat(ATTEMPTS - 1);
        assert_eq!(content.digest, input::content(&whole[..]).unwrap());
        assert_eq!(content.stat.size, whole.len() as u64);
    }

    /// A clock that is later by so much each time it is read.
    struct Ticking(Duration, AtomicU32);

    impl Ticking {
        fn by(tick: Duration) -> Ticking {
            Ticking(tick, AtomicU32::new(0))
        }
    }

    impl Clock for Ticking {
        fn wall_ns(&self) -> i64 {
            0
        }

        fn elapsed(&self) -> Duration {
            self.0 * self.1.fetch_add(1, Ordering::Relaxed)
        }
    }

    #[test]
    fn neighbours_are_seen_as_each_alone() {
        let temp = tempfile::tempdir().unwrap();
        let other = temp.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let mut paths: Vec<_> = (0..6).map(|i| temp.path().join(format!("{i}"))).collect();
        paths.iter().enumerate().for_each(|(i, path)| {
            std::fs::write(path, "x".repeat(i)).unwrap();
        });
        std::os::unix::fs::symlink("../5", other.join("link")).unwrap();
        let odd = ["link", "absent", "..", ".", "", "../5"].map(|name| other.join(name));
        paths.extend(odd);
        paths.extend(["a", "b", "c", "d"].map(|name| temp.path().join("nowhere").join(name)));
        for look in [Duration::ZERO, SLOW] {
            let together = observe_all(paths.iter().map(|path| path.as_path()), &Ticking::by(look));
            assert_eq!(together.len(), paths.len());
            for (path, found) in paths.iter().zip(together) {
                let alone = observe(path).map_err(|e| e.to_string());
                assert_eq!(found.map_err(|e| e.to_string()), alone, "{}", path.display());
            }
        }
    }

    #[test]
    fn a_file_that_never_holds_still_is_refused() {
        let error = read_under_edits(ATTEMPTS).unwrap_err();
        assert_eq!(error.code(), Code::InputUnstable);
    }
}
