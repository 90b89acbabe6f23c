//! gRPC to the daemon, blocking.

use crate::connection::folder::Folder;
use crate::connection::socket;
use crate::error::{Code, Error, Result};
use crate::raw::ClosedInChild;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustix::net::SocketType;
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel as Transport, Endpoint, Uri};
use tonic::{Response, Status};

/// How long the daemon may take to answer, beyond the time it was asked to wait. Then the job computes without it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// One gRPC connection and the runtime that drives it. The runtime has no threads of its own: nothing runs between
/// calls, so nothing is lost by a `fork` between them. The connection is made once; a lost one stays lost, since the
/// session behind it is gone too.
pub(crate) struct Channel {
    /// Until the first call.
    stream: Mutex<Option<UnixStream>>,
    driver: OnceLock<Driver>,
    _inherited: ClosedInChild,
}

/// Made for the first call: a job whose elements are all there makes none before its first batch.
struct Driver {
    runtime: Runtime,
    transport: Transport,
}

impl Channel {
    /// # Errors
    /// `daemon-absent` if nothing listens in the folder.
    pub(crate) fn open(folder: &Folder) -> Result<Channel> {
        let fd = socket::open(&folder.control_socket(), SocketType::STREAM)?;
        let inherited = ClosedInChild::register(fd.as_fd());
        Ok(Channel {
            stream: Mutex::new(Some(UnixStream::from(fd))),
            driver: OnceLock::new(),
            _inherited: inherited,
        })
    }

    fn driver(&self) -> Result<&Driver> {
        if let Some(driver) = self.driver.get() {
            return Ok(driver);
        }
        let mut stream = self.stream.lock();
        if let Some(driver) = self.driver.get() {
            return Ok(driver);
        }
        let stream = stream.take().ok_or_else(|| Error::lost("it was lost before"))?;
        let driver = Driver::new(stream)?;
        Ok(self.driver.get_or_init(|| driver))
    }

    /// What the generated clients talk through.
    ///
    /// # Errors
    /// `no-resources` if there are no descriptors for it.
    pub(crate) fn transport(&self) -> Result<Transport> {
        Ok(self.driver()?.transport.clone())
    }

    /// Waits for a call, at most `deadline`.
    pub(crate) fn wait<T>(
        &self,
        deadline: Duration,
        call: impl Future<Output = std::result::Result<Response<T>, Status>>,
    ) -> Result<T> {
        self.driver()?
            .runtime
            .block_on(async { tokio::time::timeout(deadline, call).await })
            .map_err(|_| Error::lost("no answer in time"))?
            .map(Response::into_inner)
            .map_err(|status| error(&status))
    }
}

impl Driver {
    fn new(stream: UnixStream) -> Result<Driver> {
        stream.set_nonblocking(true).map_err(Error::internal)?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::open(&e))?;
        let once = Arc::new(Mutex::new(Some(stream)));
        let connector = tower::service_fn(move |_: Uri| {
            let stream = once.lock().take();
            async move {
                let stream = stream.ok_or(io::ErrorKind::NotConnected)?;
                tokio::net::UnixStream::from_std(stream).map(TokioIo::new)
            }
        });
        let transport = {
            let _context = runtime.enter();
            Endpoint::from_static("http://prebake").connect_with_connector_lazy(connector)
        };
        Ok(Driver { runtime, transport })
    }
}

fn error(status: &Status) -> Error {
    use tonic::Code as Grpc;
    let code = match status.code() {
        Grpc::InvalidArgument => Code::Invalid,
        Grpc::ResourceExhausted => Code::Exhausted,
        // tonic's own answer to a message past its size limit.
        Grpc::OutOfRange => Code::TooLarge,
        Grpc::Internal | Grpc::DataLoss | Grpc::PermissionDenied => Code::Internal,
        Grpc::Unimplemented => Code::ProtocolVersion,
        // Among the rest: a session that the daemon does not know, which is one from before its restart.
        _ => return Error::lost(status.message()),
    };
    Error::new(code, status.message())
}
