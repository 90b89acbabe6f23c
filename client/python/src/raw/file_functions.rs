//! The C library's functions that open files or look at them, those that the `libc` crate leaves out among them.

pub(super) use libc::{access, faccessat, fstatat, fstatat64, lstat, lstat64, stat, stat64, statx};
use libc::{c_char, c_int, c_void};
pub(super) use libc::{creat, creat64, fopen, fopen64, freopen, freopen64};
pub(super) use libc::{open, open64, openat, openat64, opendir};

unsafe extern "C" {
    pub(super) fn __open_2(path: *const c_char, flags: c_int) -> c_int;
    pub(super) fn __open64_2(path: *const c_char, flags: c_int) -> c_int;
    pub(super) fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    pub(super) fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    pub(super) fn scandir(
        path: *const c_char,
        found: *mut c_void,
        filter: *const c_void,
        compare: *const c_void,
    ) -> c_int;
    pub(super) fn scandir64(
        path: *const c_char,
        found: *mut c_void,
        filter: *const c_void,
        compare: *const c_void,
    ) -> c_int;
}

/// Those of which only that they were called is told. What they take is in no more than four registers.
pub(super) mod unfollowed {
    unsafe extern "C" {
        pub(crate) fn glob(_: usize, _: usize, _: usize, _: usize) -> usize;
        pub(crate) fn glob64(_: usize, _: usize, _: usize, _: usize) -> usize;
        pub(crate) fn ftw(_: usize, _: usize, _: usize, _: usize) -> usize;
        pub(crate) fn ftw64(_: usize, _: usize, _: usize, _: usize) -> usize;
        pub(crate) fn nftw(_: usize, _: usize, _: usize, _: usize) -> usize;
        pub(crate) fn nftw64(_: usize, _: usize, _: usize, _: usize) -> usize;
        pub(crate) fn fts_open(_: usize, _: usize, _: usize, _: usize) -> usize;
        pub(crate) fn fts64_open(_: usize, _: usize, _: usize, _: usize) -> usize;
    }
}

/// `stat` as it was called up to glibc 2.32, which libraries that are built for that call.
///
/// # Safety
/// As the C library's: `found` holds what `stat` finds, in the one version of it that there is on machines of 64 bits.
pub(super) unsafe fn __xstat(_: c_int, path: *const c_char, found: *mut libc::stat) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { stat(path, found) }
}

/// The same of `lstat`.
///
/// # Safety
/// As above.
pub(super) unsafe fn __lxstat(_: c_int, path: *const c_char, found: *mut libc::stat) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { lstat(path, found) }
}

/// The same of `fstatat`.
///
/// # Safety
/// As above.
pub(super) unsafe fn __fxstatat(
    _: c_int,
    folder: c_int,
    path: *const c_char,
    found: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { fstatat(folder, path, found, flags) }
}
