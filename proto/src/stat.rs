//! What the file system says of a file: from the wire and back. Every value is one a file can have.

use crate::v1;
use prebake_fingerprint::FileStat;

impl From<v1::FileStat> for FileStat {
    fn from(
        v1::FileStat {
            device,
            inode,
            size,
            mtime_ns,
            ctime_ns,
        }: v1::FileStat,
    ) -> Self {
        Self {
            device,
            inode,
            size,
            mtime_ns,
            ctime_ns,
        }
    }
}

impl From<FileStat> for v1::FileStat {
    fn from(
        FileStat {
            device,
            inode,
            size,
            mtime_ns,
            ctime_ns,
        }: FileStat,
    ) -> Self {
        Self {
            device,
            inode,
            size,
            mtime_ns,
            ctime_ns,
        }
    }
}
