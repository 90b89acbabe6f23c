//! Who is at the other end: what the kernel says of the connection, never what a message says.

use crate::{
    error::{Error, Kind, Result},
    session::Peer,
};
use tonic::{Request, Status, transport::server::UdsConnectInfo};

/// The peer of a request.
///
/// # Errors
/// `no-peer` if the kernel does not say.
pub fn peer<T>(request: &Request<T>) -> Result<Peer> {
    let info = request.extensions().get::<UdsConnectInfo>();
    let cred = info.and_then(|i| i.peer_cred);
    cred.map(|c| Peer {
        uid: c.uid(),
        pid: c.pid().and_then(|p| u32::try_from(p).ok()).unwrap_or(0),
    })
    .ok_or_else(|| Error::new(Kind::NotFound, "no-peer", "the kernel does not say who you are"))
}

/// Refuses what changes something for all users, unless this user or root asks for it.
///
/// # Errors
/// `no-peer`, `not-allowed`.
pub fn require_owner<T>(request: &Request<T>) -> Result<()> {
    let me = rustix::process::geteuid().as_raw();
    match peer(request)?.uid {
        uid if uid == 0 || uid == me => Ok(()),
        uid => Err(Error::new(
            Kind::Invalid,
            "not-allowed",
            format!("the daemon is user {me}'s, and you are user {uid}: ask that user, or root"),
        )),
    }
}

/// Refuses requests whose sender is not known. Who may connect at all is the folder's permissions.
pub fn require_peer(request: Request<()>) -> std::result::Result<Request<()>, Status> {
    peer(&request)?;
    Ok(request)
}
