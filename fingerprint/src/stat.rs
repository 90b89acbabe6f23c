//! What the file system says of a file, and when not to believe it.

/// How long after a change a file may change again with the same time stamps, in nanoseconds. Two seconds is the coarsest
/// clock of file systems in use (FAT); it is also what covers the kernel's own tick.
pub const RACY_WINDOW_NS: i64 = 2_000_000_000;

/// What tells a file's state from its earlier ones, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileStat {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Last change of content or metadata, in nanoseconds since 1970.
    pub ctime_ns: i64,
}

/// Whether the file may yet change unseen: it was changed within [`RACY_WINDOW_NS`] before `now_ns`, or in the future. Then
/// its stat must not be remembered for its content (git's rule for "racy" index entries).
///
/// `now_ns` is the time in nanoseconds since 1970 when `stat` was taken, before the content was read.
#[must_use]
pub const fn is_racy(stat: &FileStat, now_ns: i64) -> bool {
    let oldest = now_ns.saturating_sub(RACY_WINDOW_NS);
    stat.mtime_ns >= oldest || stat.ctime_ns >= oldest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_racy_until_the_window_has_passed() {
        let stat = |mtime_ns, ctime_ns| FileStat {
            device: 1,
            inode: 2,
            size: 3,
            mtime_ns,
            ctime_ns,
        };
        let now = 100 * RACY_WINDOW_NS;
        let old = now - RACY_WINDOW_NS - 1;
        assert!(!is_racy(&stat(old, old), now));
        assert!(is_racy(&stat(old + 1, old), now));
        assert!(is_racy(&stat(old, old + 1), now));
        assert!(is_racy(&stat(now + 1, old), now));
        assert!(is_racy(&stat(old, i64::MAX), now));
        assert!(is_racy(&stat(i64::MIN, i64::MIN), i64::MIN));
    }
}
