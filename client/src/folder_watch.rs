//! A watch on the folders of inputs: while it is quiet, nothing in them was changed.

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{CWD, Mode, OFlags, fstat, fstatfs, openat, stat};
use rustix::io::ioctl_fionread;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A quiet watch is trusted for so long; then files are looked at whatever it says. The kernel does not tell of writes
/// through a shared memory map before the map is gone, nor of those through a hard link made meanwhile in another folder.
/// A look costs 1.5 us a file, so that one a second is nothing to an epoch that takes longer.
const TRUSTED_MAX: Duration = Duration::from_secs(1);

/// Watches of one data set. The user's other programs need some of his (fs.inotify.max_user_watches, 8,192 on older
/// systems), and each costs a `stat` an epoch.
const FOLDERS_MAX: usize = 2048;

/// File systems of which this kernel knows every change: `f_type` in statfs(2). Network, FUSE and host-shared ones are
/// changed by others too.
const LOCAL: [u64; 11] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x794c_7630, // overlayfs
    0x2fc1_2fc1, // zfs
    0xf2f5_2010, // f2fs
    0xca45_1a4e, // bcachefs
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
    0x8584_58f6, // ramfs
];

/// Watched folders. An event is never read: after the first the watch is of no more use, and another takes its place.
pub(crate) struct FolderWatch {
    inotify: OwnedFd,
    folders: Vec<(PathBuf, Id)>,
    since: Duration,
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
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let folders = folders.map(|folder| Some((folder.to_owned(), watch(&inotify, folder)?)));
        Some(FolderWatch {
            folders: folders.collect::<Option<_>>()?,
            inotify,
            since: now,
        })
    }

    /// Whether all files of these folders are as when the watch began.
    pub(crate) fn is_quiet(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) < TRUSTED_MAX
            && ioctl_fionread(&self.inotify) == Ok(0)
            // The way to a folder may lead to another now: a link above it was changed, or a folder renamed.
            && self
                .folders
                .iter()
                .all(|(path, id)| stat(path).is_ok_and(|found| (found.st_dev, found.st_ino) == *id))
    }
}

fn watch(inotify: &OwnedFd, folder: &Path) -> Option<Id> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = openat(CWD, folder, flags, Mode::empty()).ok()?;
    let kind = fstatfs(&open).ok()?.f_type as u64;
    if !LOCAL.contains(&kind) {
        return None;
    }
    let changes = WatchFlags::MODIFY
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
    use std::fs::{self, File};
    use std::io::Write;
    use std::os::unix::fs::symlink;

    const NOW: Duration = Duration::from_secs(5);

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
        assert!(watch.is_quiet(NOW));
        change(root);
        watch.is_quiet(NOW)
    }

    #[test]
    fn reading_is_quiet_and_every_kind_of_change_is_not() {
        assert!(quiet_after(|root| drop(fs::read(root.join("way/to/file")))));
        assert!(quiet_after(|root| fs::write(root.join("elsewhere"), "x").unwrap()));
        let changes: [fn(&Path); 8] = [
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
    fn quiet_is_not_trusted_for_ever_nor_where_others_write() {
        let temp = tempfile::tempdir().unwrap();
        let watch = FolderWatch::begin([temp.path()].into_iter(), NOW).unwrap();
        assert!(!watch.is_quiet(NOW + TRUSTED_MAX));
        assert!(FolderWatch::begin([Path::new("/proc/self")].into_iter(), NOW).is_none());
        assert!(FolderWatch::begin([Path::new("/nowhere")].into_iter(), NOW).is_none());
    }
}
