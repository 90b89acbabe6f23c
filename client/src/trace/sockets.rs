//! Whom a command talks to.

use super::tracer::{Tracer, word};
use crate::raw::ptrace;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Messages of one sendmmsg (UIO_MAXIOV).
const MESSAGES_MAX: u64 = 1024;

/// A struct mmsghdr, and in it the address's place and length.
const MESSAGE_BYTES: u64 = 64;

/// Sockets of services that only say again what files say, which are looked at as well.
const HARMLESS_SOCKETS: [&str; 4] = [
    "/run/nscd/socket",
    "/var/run/nscd/socket",
    "/run/systemd/userdb",
    "/run/setrans/.setrans-unix",
];

impl Tracer {
    pub(super) fn connect(&mut self, tid: i32, address: u64, len: u64, connected: bool) {
        let Some((family, rest)) = address_of(tid, address, len) else {
            return self.record.talked("an unknown address".into());
        };
        if family != libc::AF_UNIX {
            return self.talk_to(family, &rest);
        }
        let Some(path) = unix_path(&rest) else {
            if connected && !self.sockets.contains(&rest) {
                self.record.talked(format!(
                    "unix:@{}",
                    String::from_utf8_lossy(&rest).trim_matches('\0')
                ));
            }
            return;
        };
        let base = fs::read_link(format!("/proc/{tid}/cwd")).unwrap_or_default();
        let found = self.record.resolve(tid, &base, &path, true);
        let harmless = HARMLESS_SOCKETS.iter().any(|known| found.path.starts_with(known));
        let own = found.meta.as_ref().is_some_and(|meta| self.record.is_made(meta));
        if connected && !harmless && !own {
            self.record.talked(format!("unix:{}", found.path.display()));
        } else if !harmless {
            self.record.look(&found);
        }
    }

    /// Sends to an address, if there is one.
    pub(super) fn talk(&mut self, tid: i32, address: u64, len: u64) {
        if address != 0 && len != 0 {
            self.connect(tid, address, len, true);
        }
    }

    pub(super) fn messages(&mut self, tid: i32, headers: u64, count: u64) {
        for i in 0..count.min(MESSAGES_MAX) {
            self.message(tid, headers + i * MESSAGE_BYTES);
        }
    }

    pub(super) fn message(&mut self, tid: i32, header: u64) {
        let address = word(tid, header);
        let len = word(tid, header + 8).map(|len| len & 0xffff_ffff);
        match address.zip(len) {
            Some((address, len)) => self.talk(tid, address, len),
            None => self.record.talked("an unknown address".into()),
        }
    }

    pub(super) fn talk_to(&mut self, family: i32, rest: &[u8]) {
        let port = rest.first_chunk().map_or(0, |port| u16::from_be_bytes(*port));
        let host = match family {
            // Not sent anywhere: it undoes a connection; asks the kernel; computes.
            libc::AF_UNSPEC | libc::AF_NETLINK | libc::AF_ALG => return,
            libc::AF_INET => rest
                .get(2..6)
                .and_then(|b| b.first_chunk::<4>())
                .map(|b| (*b).into()),
            libc::AF_INET6 => rest
                .get(6..22)
                .and_then(|b| b.first_chunk::<16>())
                .map(|b| (*b).into()),
            _ => None,
        };
        let to = host.map_or_else(
            || format!("address family {family}"),
            |host: std::net::IpAddr| std::net::SocketAddr::new(host, port).to_string(),
        );
        self.record.talked(to);
    }

    pub(super) fn bind(&mut self, tid: i32, fd: u64, address: u64, len: u64) {
        let Some((family, rest)) = address_of(tid, address, len) else {
            return self.record.talked("an unknown address".into());
        };
        if is_internet(family) {
            // A stream has to listen before anything comes in.
            if socket(tid, fd).is_none_or(|(_, stream)| !stream) {
                self.record.talked("receives".into());
            }
        } else if family == libc::AF_UNIX {
            let Some(path) = unix_path(&rest) else {
                self.sockets.insert(rest);
                return;
            };
            let base = fs::read_link(format!("/proc/{tid}/cwd")).unwrap_or_default();
            let found = self.record.resolve(tid, &base, &path, false);
            self.record.write(&found.path);
            if let Some(meta) = found.meta {
                self.record.made(&meta);
            }
        }
    }
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
fn address_of(tid: i32, address: u64, len: u64) -> Option<(i32, Vec<u8>)> {
    let mut bytes = [0; 128];
    let len = usize::try_from(len).ok()?.min(bytes.len());
    if ptrace::read_memory(tid, address, &mut bytes[..len]).ok()? != len {
        return None;
    }
    let (family, rest) = bytes[..len].split_first_chunk::<2>()?;
    Some((u16::from_ne_bytes(*family).into(), rest.to_vec()))
}

/// The file of a Unix socket, if it has one.
fn unix_path(rest: &[u8]) -> Option<PathBuf> {
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    (end > 0).then(|| OsStr::from_bytes(&rest[..end]).into())
}
