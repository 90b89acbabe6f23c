//! A thread that is traced: what lies in its memory, and what its descriptors are.

use crate::raw::ptrace;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path's bytes with the null after it (PATH_MAX).
pub(super) const PATH_BYTES_MAX: usize = 4096;

/// Read at a time. Most paths are shorter.
pub(super) const PATH_BYTES: usize = 256;

/// Devices that hold no data: what they give is nothing, random or the user's terminal; and accelerators.
const HARMLESS_DEVICES: [&str; 11] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/dri",
    "/dev/kfd",
    "/dev/nvidia",
];

pub(super) fn is_harmless_device(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    HARMLESS_DEVICES
        .iter()
        .any(|known| path.starts_with(known.as_bytes()))
}

/// Where an open file lies and what it is, by way of the descriptor: no other thread can put another in between.
pub(super) fn opened(tid: i32, fd: u64) -> Option<(PathBuf, Metadata)> {
    let way = format!("/proc/{tid}/fd/{fd}");
    Some((fs::read_link(&way).ok()?, fs::metadata(&way).ok()?))
}

/// A text in a thread's memory, without the null at its end.
pub(super) fn text(tid: i32, address: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut buffer = [0; PATH_BYTES];
    while text.len() < PATH_BYTES_MAX {
        let at = address + text.len() as u64;
        // What lies beyond the page may not be there, and less is then read.
        let len = ptrace::read_memory(tid, at, &mut buffer)
            .ok()
            .filter(|len| *len > 0)?;
        let read = &buffer[..len];
        if let Some(end) = read.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&read[..end]);
            return Some(text);
        }
        text.extend_from_slice(read);
    }
    // The kernel refuses it as well.
    Some(Vec::new())
}

/// A word in its memory.
pub(super) fn word(tid: i32, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let len = ptrace::read_memory(tid, address, &mut bytes).ok()?;
    (len == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

pub(super) fn is_internet(family: i32) -> bool {
    matches!(family, libc::AF_INET | libc::AF_INET6)
}

/// Family of a socket, and whether it is a stream.
pub(super) fn socket(tid: i32, fd: u64) -> Option<(i32, bool)> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    let process = Pid::from_raw(group.trim().parse().ok()?)?;
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    let socket: OwnedFd = pidfd_getfd(process, i32::try_from(fd).ok()?, PidfdGetfdFlags::empty()).ok()?;
    let family = rustix::net::sockopt::socket_domain(&socket).ok()?;
    let kind = rustix::net::sockopt::socket_type(&socket).ok()?;
    Some((family.as_raw().into(), kind == rustix::net::SocketType::STREAM))
}

/// Family of an address and what follows it.
pub(super) fn address_of(tid: i32, address: u64, len: u64) -> Option<(i32, Vec<u8>)> {
    let mut bytes = [0; 128];
    let len = usize::try_from(len).ok()?.min(bytes.len());
    if ptrace::read_memory(tid, address, &mut bytes[..len]).ok()? != len {
        return None;
    }
    let (family, rest) = bytes[..len].split_first_chunk::<2>()?;
    Some((u16::from_ne_bytes(*family).into(), rest.to_vec()))
}

/// The file of a Unix socket, if it has one.
pub(super) fn unix_path(rest: &[u8]) -> Option<PathBuf> {
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    (end > 0).then(|| OsStr::from_bytes(&rest[..end]).into())
}
