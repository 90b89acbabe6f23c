//! The data socket: one packet asks, one answers, with descriptors beside it.

use crate::connection::socket;
use crate::error::{Code, Error, Result};
use crate::raw::ClosedInChild;
use prebake_proto::v1::{DataRequest, DataResponse, Failure, data_request, data_response};
use prost::Message;
use rustix::io::{Errno, IoSlice, IoSliceMut, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, RecvMsg, ReturnFlags, SendAncillaryBuffer,
    SendFlags, Shutdown, SocketType, recvmsg, sendmsg, shutdown,
};
use rustix::thread::sched_yield;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Blocks asked for in one packet: 64 MiB, which a slow disk too reads before the answer counts as late. The daemon takes
/// up to 64, the kernel passes up to 253 descriptors (SCM_MAX_FD).
pub(crate) const BLOCKS_MAX: usize = 16;

/// What the daemon takes in one packet, less what surrounds a request.
pub(crate) const PACKET_BYTES_MAX: usize = 60 << 10;

/// An answer is asked for so often, half a microsecond each, before the thread sleeps: most come sooner, and to wake it up
/// would take longer than all the rest. Others that want the processor get it meanwhile.
const SPINS: usize = 200;

/// Longer answers are refused. The longest is a list of evicted blocks, about 16 bytes each.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// The connection that is the session. Not shared: packets and answers alternate.
pub(crate) struct DataSocket {
    fd: OwnedFd,
    answer: Vec<u8>,
    /// Set when an exchange broke off: a late answer must not be taken for the next one.
    broken: bool,
    _inherited: ClosedInChild,
}

impl DataSocket {
    /// # Errors
    /// `daemon-absent` if nothing listens at the path.
    pub(crate) fn connect(path: &Path) -> Result<DataSocket> {
        let fd = socket::open(path, SocketType::SEQPACKET)?;
        let inherited = ClosedInChild::register(fd.as_fd());
        Ok(DataSocket {
            fd,
            answer: vec![0; ANSWER_BYTES_MAX],
            broken: false,
            _inherited: inherited,
        })
    }

    /// Sends a request and waits for its answer and the descriptors beside it.
    ///
    /// # Errors
    /// `daemon-lost` if the connection ended or did not answer in time; a failure the daemon reports keeps the session, and so
    /// does `no-resources`.
    pub(crate) fn exchange(
        &mut self,
        kind: data_request::Kind,
    ) -> Result<(data_response::Kind, Vec<OwnedFd>)> {
        if self.broken {
            return Err(Error::lost("the session ended"));
        }
        self.broken = true;
        self.send(kind)?;
        let (length, fds, cut) = self.receive()?;
        let answer = DataResponse::decode(&self.answer[..length])
            .map_err(Error::protocol)?
            .kind
            .ok_or_else(|| Error::protocol("an empty answer"))?;
        self.broken = false;
        match answer {
            data_response::Kind::Failure(failure) => Err(refused(failure)),
            _ if cut => Err(Error::no_descriptors()),
            answer => Ok((answer, fds)),
        }
    }

    /// Says something that has no answer.
    ///
    /// # Errors
    /// `daemon-lost` if the connection ended or took nothing in time.
    pub(crate) fn tell(&mut self, kind: data_request::Kind) -> Result<()> {
        match self.broken {
            true => Err(Error::lost("the session ended")),
            false => self.send(kind),
        }
    }

    fn send(&self, kind: data_request::Kind) -> Result<()> {
        let request = DataRequest { kind: Some(kind) }.encode_to_vec();
        let sent = retry_on_intr(|| {
            let packet = [IoSlice::new(&request)];
            sendmsg(
                &self.fd,
                &packet,
                &mut SendAncillaryBuffer::default(),
                SendFlags::NOSIGNAL,
            )
        });
        sent.map(drop).map_err(Error::lost)
    }

    /// Ends the session, for the daemon as well.
    pub(crate) fn close(&mut self) {
        self.broken = true;
        // It fails if the daemon went away before, which ended it.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    /// Bytes of an answer, the descriptors beside it, and whether this process had no room for all of them.
    fn receive(&mut self) -> Result<(usize, Vec<OwnedFd>, bool)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BLOCKS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut receive = |more: RecvFlags| {
            let mut packet = [IoSliceMut::new(&mut self.answer)];
            let flags = RecvFlags::CMSG_CLOEXEC | more;
            recvmsg(&self.fd, &mut packet, &mut control, flags)
        };
        let mut spins = 0..SPINS;
        let received = loop {
            match receive(RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) if spins.next().is_some() => sched_yield(),
                Err(Errno::AGAIN) => break retry_on_intr(|| receive(RecvFlags::empty())),
                received => break received,
            }
        };
        let RecvMsg { bytes, flags, .. } = received.map_err(Error::lost)?;
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                fds.extend(passed);
            }
        }
        if bytes == 0 {
            return Err(Error::lost("it closed the session"));
        }
        if flags.contains(ReturnFlags::TRUNC) {
            return Err(Error::protocol("an answer longer than its limit"));
        }
        Ok((bytes, fds, flags.contains(ReturnFlags::CTRUNC)))
    }
}

fn refused(failure: Failure) -> Error {
    let code = match failure.code.as_str() {
        "protocol-version" => Code::ProtocolVersion,
        "ram-full" | "too-many-sessions" | "too-many-collections" => Code::Exhausted,
        "no-memory" | "no-descriptors" => Code::NoResources,
        "digest-collision" => Code::Internal,
        "session-lost" => Code::DaemonLost,
        "too-large" => Code::TooLarge,
        _ => Code::Invalid,
    };
    Error::new(
        code,
        format!("the daemon refused: {} [{}]", failure.message, failure.code),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use prebake_proto::v1::Return;
    use rustix::net::{AddressFamily, SocketAddrUnix, accept, bind, listen, recv, send, socket};

    /// What a client makes of these answers, one exchange after the other, from a server that then closes.
    fn codes(answers: &[&[u8]]) -> Vec<Code> {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("socket");
        let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 1).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let client = accept(&listener).unwrap();
                for answer in answers {
                    let mut request = [0; 100];
                    let (received, _) = recv(&client, &mut request, RecvFlags::empty()).unwrap();
                    if received == 0 {
                        return;
                    }
                    send(&client, answer, SendFlags::empty()).unwrap();
                }
            });
            let mut data = DataSocket::connect(&path).unwrap();
            let exchanges = (0..=answers.len()).map(|_| {
                let request = data_request::Kind::Return(Return::default());
                data.exchange(request)
                    .map_or_else(|e| e.code(), |_| Code::Internal)
            });
            exchanges.collect()
        })
    }

    fn failure(code: &str) -> Vec<u8> {
        let failure = Failure {
            code: code.to_owned(),
            message: "why".to_owned(),
        };
        let kind = Some(data_response::Kind::Failure(failure));
        DataResponse { kind }.encode_to_vec()
    }

    #[test]
    fn a_reported_failure_keeps_the_session_and_a_closed_socket_ends_it() {
        let found = codes(&[&failure("ram-full"), &failure("protocol-version")]);
        assert_eq!(found, [Code::Exhausted, Code::ProtocolVersion, Code::DaemonLost]);
    }

    #[test]
    fn nothing_is_read_from_a_session_after_an_answer_that_makes_no_sense() {
        let found = codes(&[b"\xff\xff", &failure("ram-full")]);
        assert_eq!(found, [Code::Protocol, Code::DaemonLost, Code::DaemonLost]);
    }
}
