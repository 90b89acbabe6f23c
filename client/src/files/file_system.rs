//! What can be relied on, of the file system that a file is on.

use rustix::fs::statfs;
use std::path::Path;

/// Kinds of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// This kernel makes every change, and stamps the file with the time of it (ctime). (An overlay whose layers are
    /// edited would be another matter, which its documentation forbids.)
    Local,
    /// Changes are stamped, and others make them too.
    Network,
    /// Nothing changes, and files keep the stamps they had in the image: of two images, mounted one after the other, files of
    /// other content may have the same stat.
    Image,
    /// Others change it too, and nothing is known of stamps: FUSE, which anything may be behind, folders shared by a host.
    Shared,
    /// Nothing is known of it.
    Other,
}

/// `f_type` in statfs(2), and what it stands for.
const KINDS: [(u64, FileSystem); 27] = [
    (0xef53, FileSystem::Local),        // ext2, ext3, ext4
    (0x5846_5342, FileSystem::Local),   // xfs
    (0x9123_683e, FileSystem::Local),   // btrfs
    (0x0102_1994, FileSystem::Local),   // tmpfs
    (0x794c_7630, FileSystem::Local),   // overlayfs
    (0x2fc1_2fc1, FileSystem::Local),   // zfs
    (0xf2f5_2010, FileSystem::Local),   // f2fs
    (0xca45_1a4e, FileSystem::Local),   // bcachefs
    (0x8584_58f6, FileSystem::Local),   // ramfs
    (0x6969, FileSystem::Network),      // nfs
    (0xff53_4d42, FileSystem::Network), // cifs
    (0xfe53_4d42, FileSystem::Network), // smb2, smb3
    (0x00c3_6400, FileSystem::Network), // ceph
    (0x0bd0_0bd0, FileSystem::Network), // lustre
    (0x4750_4653, FileSystem::Network), // gpfs
    (0x1983_0326, FileSystem::Network), // beegfs
    (0x5346_414f, FileSystem::Network), // afs
    (0x6b41_4653, FileSystem::Network), // afs, the kernel's own
    (0x0116_1970, FileSystem::Network), // gfs2
    (0x7461_636f, FileSystem::Network), // ocfs2
    (0x2003_0528, FileSystem::Network), // orangefs
    (0x7375_7245, FileSystem::Network), // coda
    (0x6573_5546, FileSystem::Shared),  // fuse, virtiofs
    (0x0102_1997, FileSystem::Shared),  // 9p
    (0x786f_4256, FileSystem::Shared),  // vboxsf
    (0x7371_7368, FileSystem::Image),   // squashfs
    (0xe0f5_e1e2, FileSystem::Image),   // erofs
];

/// Where a write through a mapping to a page that is on the disk gives the file a new time: tried on ext4, xfs and btrfs. tmpfs
/// gives none, and behind an overlay may be a tmpfs.
const STAMP_MAPPED_WRITES: [u64; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

impl FileSystem {
    /// By `f_type`, whose upper half is the sign of the lower where that is a signed number.
    pub(crate) fn of(f_type: i64) -> FileSystem {
        let number = f_type as u64 & 0xffff_ffff;
        let known = KINDS.iter().find(|(known, _)| *known == number);
        known.map_or(FileSystem::Other, |(_, kind)| *kind)
    }

    /// Of the one that a path leads to.
    pub(crate) fn at(path: &Path) -> FileSystem {
        statfs(path).map_or(FileSystem::Other, |found| FileSystem::of(found.f_type))
    }

    /// Whether a job looks at each file but once: a look is a question to another machine, or to another program.
    pub(crate) fn is_looked_at_once(self) -> bool {
        matches!(self, FileSystem::Network | FileSystem::Shared)
    }

    /// Whether this kernel tells of every change.
    pub(crate) fn tells_changes(self) -> bool {
        matches!(self, FileSystem::Local | FileSystem::Image)
    }

    /// Whether one by this `f_type` tells of each first write to a page through a mapping.
    pub(crate) fn stamps_mapped_writes(f_type: i64) -> bool {
        STAMP_MAPPED_WRITES.contains(&(f_type as u64 & 0xffff_ffff))
    }

    /// Whether a file's stat tells its content from every other, for other jobs and later mounts too.
    pub(crate) fn stamps_changes(self) -> bool {
        matches!(self, FileSystem::Local | FileSystem::Network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_whatever_their_sign_and_unknown_ones_promise_nothing() {
        assert_eq!(FileSystem::of(0xef53), FileSystem::Local);
        assert_eq!(FileSystem::of(0x9123_683e_u32 as i32 as i64), FileSystem::Local);
        let proc = FileSystem::of(0x9fa0);
        assert!(!proc.tells_changes() && !proc.stamps_changes());
        assert!(!FileSystem::of(0x7371_7368).stamps_changes());
        assert!(!FileSystem::of(0x6969).tells_changes());
        let fuse = FileSystem::of(0x6573_5546);
        assert!(!fuse.tells_changes() && !fuse.stamps_changes() && fuse.is_looked_at_once());
        assert!(
            !proc.is_looked_at_once(),
            "what is not known is looked at in every epoch"
        );
    }
}
