//! Whom a command talks to.

use super::record::Record;
use super::tracee::{address_of, is_internet, socket, unix_path, word};
use std::collections::HashSet;
use std::fs;

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

/// What a command does with sockets.
#[derive(Default)]
pub(super) struct Sockets {
    /// Unix sockets without a file that the command itself made.
    own: HashSet<Vec<u8>>,
}

impl Sockets {
    pub(super) fn connect(&mut self, record: &mut Record, tid: i32, address: u64, len: u64, connected: bool) {
        let Some((family, rest)) = address_of(tid, address, len) else {
            return record.talked("an unknown address".into());
        };
        if family != libc::AF_UNIX {
            return Self::talk_to(record, family, &rest);
        }
        let Some(path) = unix_path(&rest) else {
            if connected && !self.own.contains(&rest) {
                record.talked(format!(
                    "unix:@{}",
                    String::from_utf8_lossy(&rest).trim_matches('\0')
                ));
            }
            return;
        };
        let base = fs::read_link(format!("/proc/{tid}/cwd")).unwrap_or_default();
        let found = record.resolve(tid, &base, &path, true);
        let harmless = HARMLESS_SOCKETS.iter().any(|known| found.path.starts_with(known));
        let own = found.meta.as_ref().is_some_and(|meta| record.is_made(meta));
        if connected && !harmless && !own {
            record.talked(format!("unix:{}", found.path.display()));
        } else if !harmless {
            record.look(&found);
        }
    }

    /// Sends to an address, if there is one.
    pub(super) fn talk(&mut self, record: &mut Record, tid: i32, address: u64, len: u64) {
        if address != 0 && len != 0 {
            self.connect(record, tid, address, len, true);
        }
    }

    pub(super) fn messages(&mut self, record: &mut Record, tid: i32, headers: u64, count: u64) {
        for i in 0..count.min(MESSAGES_MAX) {
            self.message(record, tid, headers + i * MESSAGE_BYTES);
        }
    }

    pub(super) fn message(&mut self, record: &mut Record, tid: i32, header: u64) {
        let address = word(tid, header);
        let len = word(tid, header + 8).map(|len| len & 0xffff_ffff);
        match address.zip(len) {
            Some((address, len)) => self.talk(record, tid, address, len),
            None => record.talked("an unknown address".into()),
        }
    }

    pub(super) fn talk_to(record: &mut Record, family: i32, rest: &[u8]) {
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
        record.talked(to);
    }

    pub(super) fn bind(&mut self, record: &mut Record, tid: i32, fd: u64, address: u64, len: u64) {
        let Some((family, rest)) = address_of(tid, address, len) else {
            return record.talked("an unknown address".into());
        };
        if is_internet(family) {
            // A stream has to listen before anything comes in.
            if socket(tid, fd).is_none_or(|(_, stream)| !stream) {
                record.talked("receives".into());
            }
        } else if family == libc::AF_UNIX {
            let Some(path) = unix_path(&rest) else {
                self.own.insert(rest);
                return;
            };
            let base = fs::read_link(format!("/proc/{tid}/cwd")).unwrap_or_default();
            let found = record.resolve(tid, &base, &path, false);
            record.write(&found.path);
            if let Some(meta) = found.meta {
                record.made(&meta);
            }
        }
    }
}
