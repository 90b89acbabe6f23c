//! Packets of the data socket: one asks, one answers, with descriptors beside it.

use crate::{
    cache::Cache,
    error::{Error, Kind, Result},
    memory::unread,
};
use prebake_proto::v1::{self, data_request::Kind as Ask, data_response::Kind as Say};
use prost::Message;
use rustix::{io::Errno, net::RecvFlags};
use std::{
    io::IoSlice,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};
use tokio_seqpacket::{UnixSeqpacket, ancillary::AncillaryMessageWriter};

/// A client reads its answers within this time: it waits for nothing else. One that is stopped for longer connects again.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// What was sent is looked at so often while it is not read.
const READ_PAUSE: Duration = Duration::from_millis(1);

/// Requests come in runs: after one the next is looked for this long before the thread sleeps, since waking it takes twice as
/// long as most answers do. Other tasks get their turn meanwhile.
const POLL: Duration = Duration::from_micros(50);

/// What is asked next, perhaps `soon`, by a client whose last question was answered just now.
pub(super) async fn next(
    cache: &Cache,
    socket: &UnixSeqpacket,
    buffer: &mut [u8],
    soon: bool,
) -> Result<Option<Ask>> {
    let until = cache.clock.monotonic() + POLL;
    while soon && cache.clock.monotonic() < until {
        match rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((received, _)) => return decode(&buffer[..received]),
            Err(Errno::AGAIN) => tokio::task::yield_now().await,
            // The same comes of waiting.
            Err(_) => break,
        }
    }
    receive(socket, buffer).await
}

pub(super) async fn receive(socket: &UnixSeqpacket, buffer: &mut [u8]) -> Result<Option<Ask>> {
    let received = socket.recv(buffer).await.map_err(|e| Error::io("receiving", e))?;
    decode(&buffer[..received])
}

/// None at the end of the connection.
fn decode(packet: &[u8]) -> Result<Option<Ask>> {
    if packet.is_empty() {
        return Ok(None);
    }
    let request = v1::DataRequest::decode(packet);
    let request = request.map_err(|_| bad_request("not a DataRequest"))?;
    request
        .kind
        .map(Some)
        .ok_or_else(|| bad_request("an empty DataRequest"))
}

pub(super) async fn send(socket: &UnixSeqpacket, say: Say) -> Result<()> {
    send_with(socket, say, &[]).await
}

/// Sends an answer within a time limit: who never reads is not waited for.
///
/// Invariant: of one connection at most one answer's descriptors are under way. The kernel counts those of all processes of
/// a user together, up to his limit of open files: else two clients that never read would lock all others out.
pub(super) async fn send_with(socket: &UnixSeqpacket, say: Say, fds: &[BorrowedFd<'_>]) -> Result<()> {
    let sent = tokio::time::timeout(READ_TIMEOUT, async {
        while !fds.is_empty() && unread(socket.as_fd())? > 0 {
            tokio::time::sleep(READ_PAUSE).await;
        }
        send_now(socket, say, fds).await
    });
    let late = || Error::new(Kind::Invalid, "unread", "the client does not read its answers");
    sent.await.unwrap_or_else(|_| Err(late()))
}

async fn send_now(socket: &UnixSeqpacket, say: Say, fds: &[BorrowedFd<'_>]) -> Result<()> {
    let bytes = v1::DataResponse { kind: Some(say) }.encode_to_vec();
    let mut space = vec![0; 64 + 4 * fds.len()];
    let mut ancillary = AncillaryMessageWriter::new(&mut space);
    if !fds.is_empty() {
        ancillary
            .add_fds(fds)
            .map_err(|_| Error::corrupt("descriptors do not fit a message"))?;
    }
    let sent = socket
        .send_vectored_with_ancillary(&[IoSlice::new(&bytes)], &mut ancillary)
        .await;
    sent.map(drop).map_err(|e| Error::io("sending", e))
}

pub(super) fn bad_request(message: &str) -> Error {
    Error::new(Kind::Invalid, "bad-request", message)
}
