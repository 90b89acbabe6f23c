//! A watch on the folders of inputs: while it is quiet, nothing in them was changed.

use crate::files::file_system::FileSystem;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{CWD, Mode, OFlags, fstat, fstatfs, openat, stat};
use rustix::io::ioctl_fionread;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A quiet watch is trusted for this many times as long as the look took that it spares, which then costs 1 % of the time;
/// and no longer than a minute. The kernel does not tell of writes through a shared memory map before the map is gone, nor
/// of those through a hard link made meanwhile in another folder.
const TRUSTED_LOOKS: u32 = 100;
const TRUSTED_MAX: Duration = Duration::from_secs(60);

/// Watches of one data set. The user's other programs need some of his (fs.inotify.max_user_watches, 8,192 on older
/// systems), and each costs a `stat` an epoch.
const FOLDERS_MAX: usize = 2048;

/// Watched folders. An event is never read: after the first the watch is of no more use, and another takes its place. That
/// takes some milliseconds: the kernel ends one only when no processor may be at it any more.
pub(crate) struct FolderWatch {
    inotify: OwnedFd,
    folders: Vec<Folder>,
    since: Duration,
}

struct Folder {
    path: PathBuf,
    id: Id,
    /// Where the path leads.
    real: PathBuf,
}

/// Device and inode.
type Id = (u64, u64);

impl FolderWatch {
    /// None if the kernel cannot be relied on to tell of every change in all of them.
    pub(crate) fn begin<'a>(
        folders: impl ExactSizeIterator<Item = &'a Path>,
        now: Duration,
    ) -> Option<FolderWatch> {
        if folders.len() > FOLDERS_MAX {
            return None;
        }
        let mounted = mounted_in()?;
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let folders = folders.map(|path| {
            let id = watch(&inotify, path)?;
            let real = fs::canonicalize(path).ok()?;
            let path = path.to_owned();
            (!mounted.contains(&real)).then_some(Folder { path, id, real })
        });
        Some(FolderWatch {
            folders: folders.collect::<Option<_>>()?,
            inotify,
            since: now,
        })
    }

    /// Whether all files of these folders are as when the watch began, which spared looks that take so long.
    pub(crate) fn is_quiet(&self, now: Duration, look: Duration) -> bool {
        now < self.since + trusted(look) && self.is_untouched()
    }

    /// The same watch, for looks that begin now; None if it is of no more use.
    pub(crate) fn renewed(self, now: Duration) -> Option<FolderWatch> {
        let mounted = mounted_in()?;
        let relied_on = |folder: &Folder| !mounted.contains(&folder.real);
        let good = self.folders.iter().all(relied_on) && self.is_untouched();
        good.then_some(FolderWatch { since: now, ..self })
    }

    fn is_untouched(&self) -> bool {
        // The way to a folder may lead to another now: a link above it was changed, or a folder renamed.
        let is_there =
            |folder: &Folder| stat(&folder.path).is_ok_and(|found| (found.st_dev, found.st_ino) == folder.id);
        ioctl_fionread(&self.inotify) == Ok(0) && self.folders.iter().all(is_there)
    }
}

/// How long a watch is trusted that spares a look of this length.
pub(crate) fn trusted(look: Duration) -> Duration {
    (look * TRUSTED_LOOKS).min(TRUSTED_MAX)
}

/// Folders that something is mounted in: a file that is, changes elsewhere.
fn mounted_in() -> Option<HashSet<PathBuf>> {
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    // The fifth field of a line is the mount point.
    let points = mounts.split(|byte| *byte == b'\n');
    let points = points.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    Some(
        points
            .filter_map(|point| Some(unescaped(point).parent()?.to_owned()))
            .collect(),
    )
}

/// A path with spaces and the like written as a backslash and three octal digits.
fn unescaped(point: &[u8]) -> PathBuf {
    let mut path = Vec::new();
    let mut rest = point;
    while let [first, after @ ..] = rest {
        let code = after.get(..3).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        let escaped = code.filter(|_| *first == b'\\');
        path.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(path))
}

fn watch(inotify: &OwnedFd, folder: &Path) -> Option<Id> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = openat(CWD, folder, flags, Mode::empty()).ok()?;
    if !FileSystem::of(fstatfs(&open).ok()?.f_type).tells_changes() {
        return None;
    }
    // An open too: who opens a file may change it through a map.
    let changes = WatchFlags::OPEN
        | WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        | WatchFlags::MOVE
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF;
    // By its descriptor: what is watched is what is identified below.
    let by_descriptor = format!("/proc/self/fd/{}", open.as_raw_fd());
    inotify::add_watch(inotify, by_descriptor, changes | WatchFlags::ONLYDIR).ok()?;
    let found = fstat(&open).ok()?;
    Some((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    const NOW: Duration = Duration::from_secs(5);
    const LOOK: Duration = Duration::from_millis(3);

    /// Whether a watch on `root/way/to` is still quiet after a change.
    fn quiet_after(change: impl FnOnce(&Path)) -> bool {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        fs::create_dir_all(root.join("real/to")).unwrap();
        fs::create_dir_all(root.join("other/to")).unwrap();
        symlink("real", root.join("way")).unwrap();
        fs::write(root.join("real/to/file"), "one").unwrap();
        let folder = root.join("way/to");
        let watch = FolderWatch::begin([folder.as_path()].into_iter(), NOW).unwrap();
        assert!(watch.is_quiet(NOW + LOOK, LOOK));
        change(root);
        watch.is_quiet(NOW + LOOK, LOOK)
    }

    #[test]
    fn a_stat_is_quiet_and_every_kind_of_change_is_not() {
        assert!(quiet_after(|root| drop(fs::metadata(root.join("way/to/file")))));
        assert!(quiet_after(|root| fs::write(root.join("elsewhere"), "x").unwrap()));
        let changes: [fn(&Path); 9] = [
            |root| drop(File::open(root.join("way/to/file")).unwrap()),
            |root| fs::write(root.join("real/to/file"), "two").unwrap(),
            |root| {
                let mut file = File::options()
                    .append(true)
                    .open(root.join("way/to/file"))
                    .unwrap();
                file.write_all(b"more").unwrap();
                std::mem::forget(file);
            },
            |root| {
                fs::write(root.join("new"), "two").unwrap();
                fs::rename(root.join("new"), root.join("real/to/file")).unwrap();
            },
            |root| fs::remove_file(root.join("real/to/file")).unwrap(),
            |root| {
                let file = File::open(root.join("real/to/file")).unwrap();
                file.set_modified(std::time::UNIX_EPOCH).unwrap();
            },
            |root| fs::rename(root.join("real"), root.join("away")).unwrap(),
            |root| {
                fs::remove_file(root.join("way")).unwrap();
                symlink("other", root.join("way")).unwrap();
            },
            |root| fs::remove_dir_all(root.join("real/to")).unwrap(),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert!(!quiet_after(change), "change {number}");
        }
    }

    #[test]
    fn a_watch_is_renewed_until_something_changes() {
        let temp = tempfile::tempdir().unwrap();
        let watch = FolderWatch::begin([temp.path()].into_iter(), NOW).unwrap();
        let later = NOW + 1000 * LOOK;
        assert!(!watch.is_quiet(later, LOOK));
        let watch = watch.renewed(later).unwrap();
        assert!(watch.is_quiet(later + LOOK, LOOK));
        fs::write(temp.path().join("new"), "one").unwrap();
        assert!(!watch.is_quiet(later + LOOK, LOOK));
        assert!(watch.renewed(later + LOOK).is_none());
    }

    #[test]
    fn a_folder_with_something_mounted_in_it_is_not_watched() {
        assert_eq!(unescaped(b"/a\\040b\\134c/d\\"), Path::new("/a b\\c/d\\"));
        let mounted = mounted_in().unwrap();
        assert!(mounted.contains(Path::new("/")), "/proc is mounted there");
        assert!(FolderWatch::begin([Path::new("/")].into_iter(), NOW).is_none());
    }

    #[test]
    fn quiet_is_not_trusted_for_ever_nor_where_others_write() {
        let temp = tempfile::tempdir().unwrap();
        let watch = FolderWatch::begin([temp.path()].into_iter(), NOW).unwrap();
        assert!(
            !watch.is_quiet(NOW, Duration::ZERO),
            "before anything was looked at"
        );
        assert!(watch.is_quiet(NOW + 99 * LOOK, LOOK));
        assert!(!watch.is_quiet(NOW + 100 * LOOK, LOOK));
        assert!(!watch.is_quiet(NOW + TRUSTED_MAX, Duration::from_secs(10)));
        assert!(FolderWatch::begin([Path::new("/proc/self")].into_iter(), NOW).is_none());
        assert!(FolderWatch::begin([Path::new("/nowhere")].into_iter(), NOW).is_none());
    }
}
