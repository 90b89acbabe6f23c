//! Connections to the daemon's sockets.

use crate::error::{Code, Error, Result};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Uid, geteuid};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// A daemon that does not take a connection or a packet in this time is taken for dead: the job computes without it.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// The same for an answer, which may have to be read from a slow disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to a Unix socket.
///
/// # Errors
/// `daemon-absent` if nothing listens there or it is not ours to use; `daemon-lost` if it takes no connection; `no-resources` if
/// this process has no descriptors left.
pub(crate) fn open(path: &Path, kind: SocketType) -> Result<OwnedFd> {
    let absent = |e: Errno| {
        let (code, what, advice) = match e {
            Errno::ACCESS | Errno::PERM => (
                Code::DaemonAbsent,
                "no daemon",
                "the folder belongs to another user: set PREBAKE_DIR",
            ),
            Errno::AGAIN => (
                Code::DaemonLost,
                "a daemon that takes no connection now",
                "it has too many or is stuck, see its log",
            ),
            Errno::MFILE | Errno::NFILE => return Error::no_descriptors(),
            _ => (Code::DaemonAbsent, "no daemon", "start one with `prebake serve`"),
        };
        Error::new(code, format!("{what} at {} ({e}): {advice}", path.display()))
    };
    let address = SocketAddrUnix::new(path).map_err(absent)?;
    let fd = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).map_err(absent)?;
    for (which, timeout) in [(Timeout::Send, SEND_TIMEOUT), (Timeout::Recv, ANSWER_TIMEOUT)] {
        set_socket_timeout(&fd, which, Some(timeout)).map_err(absent)?;
    }
    rustix::io::retry_on_intr(|| connect(&fd, &address)).map_err(absent)?;
    let peer = socket_peercred(&fd).map_err(absent)?;
    if !is_trusted(peer.uid) {
        let (path, uid) = (path.display(), peer.uid.as_raw());
        let why =
            format!("the daemon at {path} is run by user {uid}, who could serve anything: set PREBAKE_DIR");
        return Err(Error::new(Code::DaemonAbsent, why));
    }
    Ok(fd)
}

/// Whether a daemon of this user may serve values to this process: its own user's, or root's, who may change them anyway.
fn is_trusted(uid: Uid) -> bool {
    uid == geteuid() || uid.is_root()
}
