//! A daemon on real sockets in this process, started by the first who wants it.

use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use prebake_daemon::{Config, server::Server};
use prebake_proto::v1::{self, data_request::Kind as Ask, data_response::Kind as Say};
use prost::Message;
use std::{io, os::fd::OwnedFd, path::PathBuf, sync::LazyLock, time::Duration};
use tokio::{net::UnixStream, runtime::Runtime};
use tonic::transport::{Channel, Endpoint};

/// Who waits longer for an answer has found a hang.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The protocol of the data socket.
const VERSION: u32 = 4;
/// Longest packet that is looked at.
const PACKET_BYTES_MAX: usize = 256 << 10;

/// The daemon, and a connection to it.
pub struct Daemon {
    folder: PathBuf,
    /// What all that is asked of it runs on.
    pub runtime: Runtime,
    channel: Channel,
    /// The session of those who speak gRPC, as long as it lives.
    job: Data,
    _parent: tempfile::TempDir,
}

static DAEMON: LazyLock<Mutex<Daemon>> = LazyLock::new(|| match Daemon::start() {
    Ok(daemon) => Mutex::new(daemon),
    Err(error) => panic!("the daemon does not start: {error}"),
});

/// The daemon of this process. One at a time speaks to it.
pub fn daemon() -> MutexGuard<'static, Daemon> {
    DAEMON.lock()
}

impl Daemon {
    fn start() -> Result<Self, Box<dyn std::error::Error>> {
        let parent = tempfile::tempdir()?;
        let folder = parent.path().join("cache");
        let config = Config {
            dir: folder.clone(),
            ram_bytes: 64 << 20,
            ssd_bytes: 64 << 20,
            huge_pages: false,
            ..Config::default()
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let within = runtime.enter();
        let server = Server::start(config)?;
        runtime.spawn(server.run(std::future::pending()));
        let socket = folder.join("prebake.sock");
        let channel = runtime.block_on(connect(socket))?;
        drop(within);
        let job = Data::connect(&folder)?;
        Ok(Self {
            folder,
            runtime,
            channel,
            job,
            _parent: parent,
        })
    }

    /// For gRPC.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// A session that lives as long as the daemon.
    pub fn session(&self) -> u64 {
        self.job.session
    }

    /// A descriptor of no use to anyone.
    pub fn anything(&self) -> &OwnedFd {
        &self.job.socket
    }

    /// A new connection to the data socket, which has said hello.
    pub fn data(&self) -> io::Result<Data> {
        Data::connect(&self.folder)
    }

    /// Panics if the daemon does not answer.
    pub fn must_answer(&self) {
        let mut control = v1::control_client::ControlClient::new(self.channel());
        let answer = self.runtime.block_on(async move {
            tokio::time::timeout(PATIENCE, control.status(v1::StatusRequest {})).await
        });
        assert!(
            matches!(answer, Ok(Ok(_))),
            "the daemon does not answer: {answer:?}"
        );
    }
}

async fn connect(socket: PathBuf) -> Result<Channel, tonic::transport::Error> {
    let connector = tower::service_fn(move |_: tonic::transport::Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://prebake")
        .connect_with_connector(connector)
        .await
}

/// The data socket's client end.
pub struct Data {
    socket: OwnedFd,
    session: u64,
}

impl Data {
    fn connect(folder: &std::path::Path) -> io::Result<Self> {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
        let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
        connect(&socket, &SocketAddrUnix::new(folder.join("data.sock"))?)?;
        let mut data = Self { socket, session: 0 };
        let hello = v1::Hello {
            version: VERSION,
            job: "fuzz".into(),
        };
        match data.exchange(&encoded(Ask::Hello(hello)), &[])? {
            Some(Say::Welcome(welcome)) => data.session = welcome.session,
            other => panic!("hello is answered with {other:?}"),
        }
        Ok(data)
    }

    /// Sends a packet, with descriptors beside it.
    pub fn send(&self, packet: &[u8], descriptors: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<()> {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        let mut space = [std::mem::MaybeUninit::uninit(); 256];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        sendmsg(
            &self.socket,
            &[io::IoSlice::new(packet)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// What is answered. None: the daemon ended the connection. The descriptors that come beside are closed.
    pub fn receive(&self) -> io::Result<Option<Say>> {
        use rustix::{
            event::{PollFd, PollFlags, Timespec, poll},
            net::{RecvAncillaryBuffer, RecvFlags, recvmsg},
        };
        let mut waited = [PollFd::new(&self.socket, PollFlags::IN)];
        let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        assert!(
            poll(&mut waited, Some(&patience))? > 0,
            "the daemon does not answer"
        );
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let mut space = [std::mem::MaybeUninit::uninit(); 1024];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [io::IoSliceMut::new(&mut packet)];
        let received = match recvmsg(&self.socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::CONNRESET) => 0,
            Err(e) => return Err(e.into()),
        };
        drop(ancillary);
        if received == 0 {
            return Ok(None);
        }
        let response = v1::DataResponse::decode(&packet[..received]).map_err(io::Error::other)?;
        Ok(response.kind)
    }

    /// Both.
    pub fn exchange(
        &self,
        packet: &[u8],
        descriptors: &[std::os::fd::BorrowedFd<'_>],
    ) -> io::Result<Option<Say>> {
        self.send(packet, descriptors)?;
        self.receive()
    }
}

/// A request as a packet.
pub fn encoded(ask: Ask) -> Vec<u8> {
    v1::DataRequest { kind: Some(ask) }.encode_to_vec()
}
