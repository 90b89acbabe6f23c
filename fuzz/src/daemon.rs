//! A daemon in this process: its cache over a disk in memory, and what answers behind its sockets.

use crate::memory_disk::MemoryDisk;
use parking_lot::{Mutex, MutexGuard};
use prebake_daemon::{
    Config,
    cache::{Cache, descriptors::Descriptors, open::Host},
    index::{Checked, MemoryStore},
    server::{self, data_socket},
    system::{clock::SystemClock, random::SystemRandom},
};
use prebake_proto::v1::{self, data_request::Kind as Ask, data_response::Kind as Say};
use prost::Message;
use std::{
    convert::Infallible,
    io::{self, IoSlice},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::{net::UnixStream, runtime::Runtime, task::JoinHandle};
use tokio_seqpacket::{UnixSeqpacket, ancillary::AncillaryMessageWriter};
use tonic::{
    body::Body,
    codegen::http::{Request, Response},
    transport::server::Connected,
};
use tower::util::{BoxCloneSyncService, MapRequest};

/// Who waits longer for an answer has found a hang, of what is waited for. What never comes back in this thread is the fuzzer's own
/// limit to find.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The protocol of the data socket.
const VERSION: u32 = 4;
/// Longest packet that is looked at.
const PACKET_BYTES_MAX: usize = 256 << 10;
/// After so many inputs the next daemon takes over: what the earlier ones left in it stays bounded, and few.
const INPUTS_MAX: u32 = 1024;

/// The methods of gRPC, asked by this process.
pub type Services = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// The daemon, and a connection to it.
pub struct Daemon {
    /// What all that is asked of it runs on: in this thread, so that no input waits for the machine's scheduler.
    pub runtime: Runtime,
    cache: Arc<Cache>,
    services: Services,
    /// The session of those who speak gRPC, as long as the daemon lives.
    job: Data,
    anything: OwnedFd,
    inputs: u32,
}

static DAEMON: LazyLock<Mutex<Daemon>> = LazyLock::new(|| Mutex::new(started()));

/// The daemon of this process. One at a time speaks to it.
pub fn daemon() -> MutexGuard<'static, Daemon> {
    let mut daemon = DAEMON.lock();
    daemon.inputs += 1;
    if daemon.inputs > INPUTS_MAX {
        *daemon = started();
    }
    daemon
}

fn started() -> Daemon {
    Daemon::start().unwrap_or_else(|error| panic!("the daemon does not start: {error}"))
}

impl Daemon {
    fn start() -> Result<Self, Box<dyn std::error::Error>> {
        let config = Config {
            dir: PathBuf::from("/cache"),
            ram_bytes: 64 << 20,
            ssd_bytes: 64 << 20,
            huge_pages: false,
            ..Config::default()
        };
        let host = |_: &Config| Host {
            vfs: Arc::new(MemoryDisk::default()),
            clock: Arc::new(SystemClock::default()),
            random: Arc::new(SystemRandom),
            index: Arc::new(Checked(MemoryStore::default())),
            problem: None,
        };
        let (cache, _) = Cache::open(config, host, Descriptors::raise())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (services, job) = runtime.block_on(async {
            let (here, _there) = UnixStream::pair()?;
            let me = here.connect_info();
            let named = move |mut request: Request<Body>| {
                request.extensions_mut().insert(me.clone());
                request
            };
            let services = MapRequest::new(server::services(&cache), named);
            Ok::<_, io::Error>((Services::new(services), Data::connect(&cache).await?))
        })?;
        Ok(Self {
            runtime,
            cache,
            services,
            job,
            anything: rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?,
            inputs: 0,
        })
    }

    /// What gRPC is asked by.
    pub fn services(&self) -> Services {
        self.services.clone()
    }

    /// A session that lives as long as the daemon.
    pub fn session(&self) -> u64 {
        self.job.session
    }

    /// A descriptor of no use to anyone.
    pub fn anything(&self) -> BorrowedFd<'_> {
        self.anything.as_fd()
    }

    /// A new connection to the data socket, which has said hello.
    pub async fn data(&self) -> io::Result<Data> {
        Data::connect(&self.cache).await
    }

    /// Panics if the daemon does not answer.
    pub fn must_answer(&self) {
        let mut control = v1::control_client::ControlClient::new(self.services());
        let answer = self.runtime.block_on(async move {
            tokio::time::timeout(PATIENCE, control.status(v1::StatusRequest {})).await
        });
        assert!(
            matches!(answer, Ok(Ok(_))),
            "the daemon does not answer: {answer:?}"
        );
    }
}

/// The client's end of a data socket.
pub struct Data {
    socket: UnixSeqpacket,
    session: u64,
    served: JoinHandle<()>,
}

impl Data {
    async fn connect(cache: &Arc<Cache>) -> io::Result<Self> {
        let (socket, theirs) = UnixSeqpacket::pair()?;
        let cache = Arc::clone(cache);
        let served = prebake_daemon::system::task::spawn(async move {
            // Whatever it ends with, the client sees an end.
            let _ = data_socket::client(&cache, &theirs, &data_socket::LongAnswers::default()).await;
        });
        let mut data = Self {
            socket,
            session: 0,
            served,
        };
        let hello = v1::Hello {
            version: VERSION,
            job: "fuzz".into(),
        };
        data.send(&encoded(Ask::Hello(hello)), &[]).await?;
        match data.receive().await? {
            Some(Say::Welcome(welcome)) => data.session = welcome.session,
            other => panic!("hello is answered with {other:?}"),
        }
        Ok(data)
    }

    /// Ends the connection once the daemon has taken all that was sent, and its session: the next input is not to find what
    /// this one left.
    pub async fn end(self) {
        let Self { socket, served, .. } = self;
        drop(socket);
        match tokio::time::timeout(PATIENCE, served).await {
            Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Ok(_) => {}
            Err(_) => panic!("the daemon does not see that its client is gone"),
        }
    }

    /// Sends a packet, with descriptors beside it.
    pub async fn send(&self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [0; 64];
        let mut ancillary = AncillaryMessageWriter::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.add_fds(descriptors).map_err(io::Error::other)?;
        }
        let packet = &[IoSlice::new(packet)];
        let sent = self.socket.send_vectored_with_ancillary(packet, &mut ancillary);
        sent.await.map(drop)
    }

    /// What is answered. None: the daemon ended the connection. The descriptors that come beside are closed.
    pub async fn receive(&self) -> io::Result<Option<Say>> {
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let received = tokio::time::timeout(PATIENCE, self.socket.recv(&mut packet)).await;
        let received = match received {
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            Ok(received) => received?,
            Err(_) => panic!("the daemon does not answer"),
        };
        if received == 0 {
            return Ok(None);
        }
        let response = v1::DataResponse::decode(&packet[..received]).map_err(io::Error::other)?;
        Ok(response.kind)
    }
}

/// A request as a packet.
fn encoded(ask: Ask) -> Vec<u8> {
    v1::DataRequest { kind: Some(ask) }.encode_to_vec()
}
