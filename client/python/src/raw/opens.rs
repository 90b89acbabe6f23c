//! Files that compiled code opens (`cv2.imread`, HDF5, Arrow) or looks at: Python has no event for them.
//!
//! The functions that each library in memory calls to open files, or to look at them, are exchanged for ones that take note first (see
//! [`super::object`]), as profilers of memory do. What is not called so (system calls of a program's own, functions that were looked up
//! by name) is not heard; the probe's tracer sees it, and then nothing is shared.

use super::file_functions as c;
use super::heard::{self, Head, Stat};
use super::linkage;
use super::object::Caller;
use libc::{AT_FDCWD, c_char, c_int, c_void, mode_t};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsString};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicIsize, Ordering};

/// A folder that was changed so shortly before may be changed again with the same stamp: a few ticks of the clock that stamps.
const SETTLED_NS: i64 = 20_000_000;

/// What a file was opened for.
#[derive(Clone, Copy)]
enum Purpose {
    Read = b'r' as isize,
    /// To read and to write, perhaps.
    Update = b'u' as isize,
    /// To write to what is there.
    Write = b'w' as isize,
    /// Made anew, or emptied.
    Make = b'm' as isize,
    /// Made if nothing is there.
    New = b'n' as isize,
    /// A folder is read by listing it.
    List = b'l' as isize,
    /// Looked at, and not opened.
    Look = b's' as isize,
}

/// One open: the thread as Python numbers it, the absolute path, its purpose, and what was there before.
type Open = (usize, OsString, char, Option<Stat>);

/// How many want to hear of opens.
static LISTENERS: AtomicIsize = AtomicIsize::new(0);

/// What is kept for a thread until it asks, and whether that is all that could be heard.
#[derive(Default)]
struct Owed {
    opens: Vec<Open>,
    is_short: bool,
}

/// By thread, of those that record. Touched with the interpreter's lock held only.
static OWED: Mutex<BTreeMap<usize, Owed>> = Mutex::new(BTreeMap::new());

/// What was opened since the last call, in order: by the thread that calls, and by those that do not record; what others of the
/// `recording` opened is kept for them. And whether that is all that could be heard. From now on so many more listen, in the
/// objects that are in memory now.
#[pyfunction]
pub(crate) fn take_opens(py: Python<'_>, more: isize, recording: Vec<usize>) -> (Vec<Open>, bool) {
    LISTENERS.fetch_add(more, Ordering::Relaxed);
    // Who loads a library may wait for the interpreter's lock.
    let is_new = linkage::is_due() && py.detach(|| linkage::attend(own, true));
    // SAFETY: the thread is the one that runs.
    let this = unsafe { libc::pthread_self() } as usize;
    let mut owed = OWED.lock();
    let mut own = owed.remove(&this).unwrap_or_default();
    let is_all = heard::take(|head, path| {
        let path = OsString::from_vec(path.to_vec());
        let open = (head.thread, path, char::from(head.purpose), head.stat);
        if head.thread != this && recording.contains(&head.thread) {
            owed.entry(head.thread).or_default().opens.push(open);
        } else {
            own.opens.push(open);
        }
    });
    if is_new || !is_all {
        for thread in recording.into_iter().filter(|each| *each != this) {
            owed.entry(thread).or_default().is_short = true;
        }
        own.is_short = true;
    }
    (own.opens, !own.is_short)
}

/// In a forked child: what its parent heard is none of its own.
#[pyfunction]
pub(crate) fn forget_opens() {
    linkage::after_fork();
    heard::forget();
    OWED.lock().clear();
}

/// What is put in the place of a function that an object calls by a name.
fn own(caller: Caller, name: &CStr) -> Option<usize> {
    if caller == Caller::Python {
        // Its own opens have events.
        return (name == c"dlopen").then_some(load as *const () as usize);
    }
    let function = match name.to_bytes() {
        b"open" => open as *const (),
        b"open64" => open64 as *const (),
        b"__open_2" => __open_2 as *const (),
        b"__open64_2" => __open64_2 as *const (),
        b"creat" => creat as *const (),
        b"creat64" => creat64 as *const (),
        b"openat" => openat as *const (),
        b"openat64" => openat64 as *const (),
        b"__openat_2" => __openat_2 as *const (),
        b"__openat64_2" => __openat64_2 as *const (),
        b"fopen" => fopen as *const (),
        b"fopen64" => fopen64 as *const (),
        b"freopen" => freopen as *const (),
        b"freopen64" => freopen64 as *const (),
        b"opendir" => opendir as *const (),
        b"scandir" => scandir as *const (),
        b"scandir64" => scandir64 as *const (),
        b"glob" => glob as *const (),
        b"glob64" => glob64 as *const (),
        b"ftw" => ftw as *const (),
        b"ftw64" => ftw64 as *const (),
        b"nftw" => nftw as *const (),
        b"nftw64" => nftw64 as *const (),
        b"fts_open" => fts_open as *const (),
        b"fts64_open" => fts64_open as *const (),
        b"stat" => stat as *const (),
        b"stat64" => stat64 as *const (),
        b"lstat" => lstat as *const (),
        b"lstat64" => lstat64 as *const (),
        b"__xstat" => __xstat as *const (),
        // One and the same on machines of 64 bits.
        b"__xstat64" => __xstat as *const (),
        b"__lxstat" => __lxstat as *const (),
        b"__lxstat64" => __lxstat as *const (),
        b"fstatat" => fstatat as *const (),
        b"fstatat64" => fstatat64 as *const (),
        b"__fxstatat" => __fxstatat as *const (),
        b"__fxstatat64" => __fxstatat as *const (),
        b"statx" => statx as *const (),
        b"access" => access as *const (),
        b"faccessat" => faccessat as *const (),
        _ => return None,
    };
    Some(function as usize)
}

/// Functions that open a file or look at it, each of which takes note and calls the one of its name: it may be another library's.
macro_rules! opening {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty, hears $folder:expr, $path:ident, $purpose:expr;)*) => {$(
        /// # Safety
        /// As the C library's function of this name. That `mode` is given to one that takes any number of arguments makes no
        /// difference to where it is passed on the machines that this is built for.
        unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            // SAFETY: the caller's promise.
            unsafe {
                hear($folder, $path, $purpose);
                c::$name($($arg),*)
            }
        }
    )*};
}

opening! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, hears AT_FDCWD, path, purpose(flags);
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, hears AT_FDCWD, path, purpose(flags);
    __open_2(path: *const c_char, flags: c_int) -> c_int, hears AT_FDCWD, path, purpose(flags);
    __open64_2(path: *const c_char, flags: c_int) -> c_int, hears AT_FDCWD, path, purpose(flags);
    creat(path: *const c_char, mode: mode_t) -> c_int, hears AT_FDCWD, path, Some(Purpose::Make);
    creat64(path: *const c_char, mode: mode_t) -> c_int, hears AT_FDCWD, path, Some(Purpose::Make);
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, hears folder, path, purpose(flags);
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, hears folder, path, purpose(flags);
    __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int, hears folder, path, purpose(flags);
    __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int, hears folder, path, purpose(flags);
    fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE, hears AT_FDCWD, path, purpose_of(mode);
    fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE, hears AT_FDCWD, path, purpose_of(mode);
    freopen(path: *const c_char, mode: *const c_char, file: *mut libc::FILE) -> *mut libc::FILE,
        hears AT_FDCWD, path, purpose_of(mode);
    freopen64(path: *const c_char, mode: *const c_char, file: *mut libc::FILE) -> *mut libc::FILE,
        hears AT_FDCWD, path, purpose_of(mode);
    opendir(path: *const c_char) -> *mut libc::DIR, hears AT_FDCWD, path, Some(Purpose::List);
    scandir(path: *const c_char, found: *mut c_void, filter: *const c_void, compare: *const c_void) -> c_int,
        hears AT_FDCWD, path, Some(Purpose::List);
    scandir64(path: *const c_char, found: *mut c_void, filter: *const c_void, compare: *const c_void) -> c_int,
        hears AT_FDCWD, path, Some(Purpose::List);
    stat(path: *const c_char, found: *mut libc::stat) -> c_int, hears AT_FDCWD, path, Some(Purpose::Look);
    stat64(path: *const c_char, found: *mut libc::stat64) -> c_int, hears AT_FDCWD, path, Some(Purpose::Look);
    lstat(path: *const c_char, found: *mut libc::stat) -> c_int, hears AT_FDCWD, path, Some(Purpose::Look);
    lstat64(path: *const c_char, found: *mut libc::stat64) -> c_int, hears AT_FDCWD, path, Some(Purpose::Look);
    __xstat(version: c_int, path: *const c_char, found: *mut libc::stat) -> c_int,
        hears AT_FDCWD, path, Some(Purpose::Look);
    __lxstat(version: c_int, path: *const c_char, found: *mut libc::stat) -> c_int,
        hears AT_FDCWD, path, Some(Purpose::Look);
    fstatat(folder: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int) -> c_int,
        hears folder, path, Some(Purpose::Look);
    fstatat64(folder: c_int, path: *const c_char, found: *mut libc::stat64, flags: c_int) -> c_int,
        hears folder, path, Some(Purpose::Look);
    __fxstatat(version: c_int, folder: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int) -> c_int,
        hears folder, path, Some(Purpose::Look);
    statx(folder: c_int, path: *const c_char, flags: c_int, mask: libc::c_uint, found: *mut libc::statx) -> c_int,
        hears folder, path, Some(Purpose::Look);
    access(path: *const c_char, mode: c_int) -> c_int, hears AT_FDCWD, path, Some(Purpose::Look);
    faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int,
        hears folder, path, Some(Purpose::Look);
}

/// Functions that go through folders by themselves: what they look at is not followed.
macro_rules! unfollowed {
    ($($name:ident)*) => {$(
        /// # Safety
        /// As the C library's function of this name.
        unsafe extern "C" fn $name(a: usize, b: usize, c: usize, d: usize) -> usize {
            if is_heard() {
                heard::lost();
            }
            // SAFETY: the caller's promise.
            unsafe { c::unfollowed::$name(a, b, c, d) }
        }
    )*};
}

unfollowed! { glob glob64 ftw ftw64 nftw nftw64 fts_open fts64_open }

/// Python loads a module that is a library: what it opens is heard from its first function on.
///
/// # Safety
/// As `dlopen`.
unsafe extern "C" fn load(path: *const c_char, flags: c_int) -> *mut c_void {
    // SAFETY: the caller's promise. Python names a file, for which it makes no difference who asks.
    let handle = unsafe { libc::dlopen(path, flags) };
    if is_heard() {
        linkage::attend(own, false);
    }
    handle
}

fn purpose(flags: c_int) -> Option<Purpose> {
    let access = flags & libc::O_ACCMODE;
    if flags & libc::O_PATH != 0 {
        None
    } else if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        // It has no name.
        None
    } else if flags & libc::O_DIRECTORY != 0 {
        Some(Purpose::List)
    } else if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
        Some(Purpose::New)
    } else if flags & libc::O_TRUNC != 0 {
        Some(Purpose::Make)
    } else if access == libc::O_RDONLY && flags & libc::O_CREAT == 0 {
        Some(Purpose::Read)
    } else if access == libc::O_WRONLY {
        Some(Purpose::Write)
    } else {
        Some(Purpose::Update)
    }
}

/// # Safety
/// `mode` is null or a C string, as `fopen` takes it.
unsafe fn purpose_of(mode: *const c_char) -> Option<Purpose> {
    if mode.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    let updates = mode.contains(&b'+');
    match mode.first() {
        Some(b'w') if mode.contains(&b'x') => Some(Purpose::New),
        Some(b'w') => Some(Purpose::Make),
        Some(b'a') if !updates => Some(Purpose::Write),
        _ if updates => Some(Purpose::Update),
        _ => Some(Purpose::Read),
    }
}

fn is_heard() -> bool {
    LISTENERS.load(Ordering::Relaxed) > 0
}

/// Takes note of what is about to be opened.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn hear(folder: c_int, path: *const c_char, purpose: Option<Purpose>) {
    let (true, false, Some(purpose)) = (is_heard(), path.is_null(), purpose) else {
        return;
    };
    // What is asked for here is no error of the call.
    // SAFETY: it is this thread's own.
    let error = unsafe { *libc::__errno_location() };
    // SAFETY: the caller's promise.
    let given = unsafe { CStr::from_ptr(path) };
    if given.is_empty() {
        // It names nothing, or an open file.
        return;
    }
    // SAFETY: the thread is the one that runs.
    let thread = unsafe { libc::pthread_self() } as usize;
    let (stat, purpose) = looked_at(folder, given, purpose);
    let head = Head::new(thread, purpose as u8, stat);
    if matches!(purpose, Purpose::New) && stat.is_some() {
        // It fails: something is there, and stays as it is.
    } else if given.to_bytes().starts_with(b"/") {
        heard::put(head, &[given.to_bytes()]);
    } else {
        hear_relative(head, folder, given);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}

/// Apart, for its buffer: handlers of signals have small stacks.
#[inline(never)]
fn hear_relative(head: Head, folder: c_int, path: &CStr) {
    let mut buffer = [0_u8; libc::PATH_MAX as usize];
    if let Some(begin) = begin(folder, &mut buffer) {
        let between: &[u8] = if begin.ends_with(b"/") { b"" } else { b"/" };
        heard::put(head, &[begin, between, path.to_bytes()]);
    } else {
        heard::lost();
    }
}

/// Where relative paths begin.
fn begin(folder: c_int, buffer: &mut [u8]) -> Option<&[u8]> {
    if folder == AT_FDCWD {
        // SAFETY: the buffer is as large as is said, and ends with a zero where the result is not null.
        return unsafe {
            let found = libc::getcwd(buffer.as_mut_ptr().cast(), buffer.len());
            (!found.is_null()).then(|| CStr::from_ptr(buffer.as_ptr().cast()).to_bytes())
        };
    }
    let mut name = [0_u8; 32];
    write!(&mut name[..31], "/proc/self/fd/{folder}").ok()?;
    // SAFETY: the name ends with a zero, and so many bytes are written.
    let length = unsafe { libc::readlink(name.as_ptr().cast(), buffer.as_mut_ptr().cast(), buffer.len()) };
    buffer.get(..usize::try_from(length).ok()?)
}

/// What is there before a file is opened, and what for it is: a folder is only ever listed.
fn looked_at(folder: c_int, path: &CStr, purpose: Purpose) -> (Option<Stat>, Purpose) {
    let mut found = MaybeUninit::<libc::stat64>::uninit();
    // SAFETY: `path` is a C string, and what is found is written if the result is 0.
    let found = unsafe {
        if libc::fstatat64(folder, path.as_ptr(), found.as_mut_ptr(), 0) != 0 {
            return (None, purpose);
        }
        found.assume_init()
    };
    let ns = |seconds: i64, rest: i64| seconds * 1_000_000_000 + rest;
    let mut stamps = (
        ns(found.st_mtime, found.st_mtime_nsec),
        ns(found.st_ctime, found.st_ctime_nsec),
    );
    let is_folder = found.st_mode & libc::S_IFMT == libc::S_IFDIR;
    if is_folder && stamps.0.max(stamps.1) > now_ns() - SETTLED_NS {
        // What it holds is asked for later, and told to be the same by its stamps: these equal no other.
        stamps = (-1, -1);
    }
    let stat = (
        found.st_dev,
        found.st_ino,
        found.st_size as u64,
        stamps.0,
        stamps.1,
    );
    let is_listed = is_folder && !matches!(purpose, Purpose::Look);
    (Some(stat), if is_listed { Purpose::List } else { purpose })
}

/// By the clock that stamps files.
fn now_ns() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock is there, and its time is written.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
