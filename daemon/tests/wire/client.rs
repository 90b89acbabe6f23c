//! A daemon on its real sockets, and a client that says to it whatever a test wants said.

use hyper_util::rt::TokioIo;
use prebake_daemon::{Config, cache::Cache, server::Server, system::task};
use prebake_proto::v1::{
    self, Failure, Hello, Stage, Welcome, cache_client::CacheClient, control_client::ControlClient,
    data_request::Kind as Ask, data_response::Kind as Say,
};
use prost::Message;
use std::{io::IoSliceMut, path::Path, path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{net::UnixStream, sync::oneshot, time::timeout};
use tokio_seqpacket::{UnixSeqpacket, ancillary::AncillaryMessageReader};
use tonic::transport::{Channel, Endpoint};

/// A test that waits longer than this for an answer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest answer a test looks at.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A served daemon; it ends with the test's runtime.
pub struct Daemon {
    parent: TempDir,
    pub cache: Arc<Cache>,
    _stop: oneshot::Sender<()>,
}

impl Daemon {
    /// In a folder that it makes itself.
    pub fn start() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let config = Config {
            dir: parent.path().join("cache"),
            ram_bytes: 64 << 20,
            ssd_bytes: 1 << 30,
            ..Config::default()
        };
        let server = Server::start(config).unwrap();
        let cache = Arc::clone(server.cache());
        let (stop, stopped) = oneshot::channel::<()>();
        task::spawn(server.run(async move { drop(stopped.await) }));
        Self {
            parent,
            cache,
            _stop: stop,
        }
    }

    pub fn parent(&self) -> &Path {
        self.parent.path()
    }

    pub fn folder(&self) -> PathBuf {
        self.parent.path().join("cache")
    }

    /// A connection that has said nothing yet.
    pub async fn data(&self) -> Data {
        let socket = UnixSeqpacket::connect(self.folder().join("data.sock")).await;
        Data(socket.unwrap())
    }

    /// A job: both its connections, and its session.
    pub async fn job(&self) -> Job {
        let data = self.data().await;
        let welcome = data.hello(4).await.unwrap();
        let stream = UnixStream::connect(self.folder().join("prebake.sock")).await;
        Job {
            data,
            channel: channel(stream.unwrap()).await,
            session: welcome.session,
        }
    }
}

/// gRPC over a connection that is made already.
pub async fn channel(stream: UnixStream) -> Channel {
    let mut once = Some(stream);
    let connector = tower::service_fn(move |_: tonic::transport::Uri| {
        let stream = once.take().ok_or(std::io::ErrorKind::NotConnected);
        async move { Ok::<_, std::io::Error>(TokioIo::new(stream?)) }
    });
    let endpoint = Endpoint::from_static("http://prebake");
    endpoint.connect_with_connector(connector).await.unwrap()
}

/// The data socket's client end.
pub struct Data(pub UnixSeqpacket);

impl Data {
    /// Sends a request; the answer and how many descriptors came beside it. None: the daemon closed the connection.
    pub async fn exchange(&self, ask: Ask) -> Option<(Say, usize)> {
        self.tell(ask).await;
        self.receive().await
    }

    pub async fn tell(&self, ask: Ask) {
        let request = v1::DataRequest { kind: Some(ask) }.encode_to_vec();
        self.0.send(&request).await.unwrap();
    }

    pub async fn receive(&self) -> Option<(Say, usize)> {
        let (mut answer, mut space) = (vec![0; ANSWER_BYTES_MAX], [0; 512]);
        let mut packet = [IoSliceMut::new(&mut answer)];
        let received = self.0.recv_vectored_with_ancillary(&mut packet, &mut space);
        let received = timeout(PATIENCE, received).await.expect("no answer");
        let (len, ancillary): (usize, AncillaryMessageReader<'_>) = match received {
            Ok((0, _)) => return None,
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return None,
            received => received.unwrap(),
        };
        let fds = ancillary.into_messages().map(|message| match message {
            tokio_seqpacket::ancillary::OwnedAncillaryMessage::FileDescriptors(fds) => fds.count(),
            _ => 0,
        });
        let fds = fds.sum();
        let say = v1::DataResponse::decode(&answer[..len]).unwrap().kind.unwrap();
        Some((say, fds))
    }

    pub async fn hello(&self, version: u32) -> Result<Welcome, Failure> {
        let job = "test".to_owned();
        match self.exchange(Ask::Hello(Hello { version, job })).await {
            Some((Say::Welcome(welcome), 1)) => Ok(welcome),
            Some((Say::Failure(failure), 0)) => Err(failure),
            other => panic!("{other:?}"),
        }
    }

    /// The code of the failure that a request is answered with.
    pub async fn refusal(&self, ask: Ask) -> String {
        match self.exchange(ask).await {
            Some((Say::Failure(failure), 0)) => failure.code,
            other => panic!("{other:?}"),
        }
    }
}

/// A connected job.
pub struct Job {
    pub data: Data,
    pub channel: Channel,
    pub session: u64,
}

impl Job {
    pub fn cache(&self) -> CacheClient<Channel> {
        CacheClient::new(self.channel.clone())
    }

    pub async fn alive(&self) -> bool {
        let mut control = ControlClient::new(self.channel.clone());
        control.status(v1::StatusRequest {}).await.is_ok()
    }

    pub async fn plan(&self, graph: v1::Graph) -> Result<u64, tonic::Status> {
        let request = v1::PlanRequest {
            session: self.session,
            graph: Some(graph),
        };
        let planned = timeout(PATIENCE, self.cache().plan(request)).await.unwrap();
        planned.map(|plan| plan.into_inner().collection)
    }

    /// Asks for one item and waits while another session holds it; the token it is then leased under.
    pub async fn lease(&self, collection: u64, n: u8) -> u64 {
        let request = self.wanting(collection, n, PATIENCE);
        let acquired = timeout(PATIENCE, self.cache().acquire(request)).await.unwrap();
        match acquired.unwrap().into_inner().answers[0].kind {
            Some(v1::answer::Kind::Granted(token)) => token,
            ref other => panic!("{other:?}"),
        }
    }

    pub fn wanting(&self, collection: u64, n: u8, wait: Duration) -> v1::AcquireRequest {
        let item = v1::Item {
            fingerprint: vec![n; 32].into(),
            name: n.to_string(),
        };
        v1::AcquireRequest {
            session: self.session,
            collection,
            wanted: vec![item],
            leases_max: 1,
            wait_ms: wait.as_millis() as u32,
            // Longer than any test waits: a lease that passes on did not run out.
            lease_ms: 600_000,
            ..Default::default()
        }
    }

    /// Staging memory of at least so many bytes; how many they are.
    pub async fn stage(&self, bytes: u64) -> u64 {
        match self.data.exchange(Ask::Stage(Stage { bytes })).await {
            Some((Say::Staged(staged), 1)) => staged.bytes,
            other => panic!("{other:?}"),
        }
    }

    /// Commits one element; where it lies, or why not.
    pub async fn commit(
        &self,
        collection: u64,
        leased: (u8, u64),
        place: (u64, u64),
    ) -> Result<v1::Location, String> {
        let request = self.committing(collection, leased, place);
        let committed = timeout(PATIENCE, self.cache().commit(request)).await.unwrap();
        let committed = committed.unwrap().into_inner().committed.remove(0);
        committed.location.ok_or(committed.refused)
    }

    pub fn committing(
        &self,
        collection: u64,
        (n, token): (u8, u64),
        (staging_offset, len): (u64, u64),
    ) -> v1::CommitRequest {
        let element = v1::Element {
            fingerprint: vec![n; 32].into(),
            token,
            layout: "{}".to_owned(),
            staging_offset,
            len,
            ..Default::default()
        };
        v1::CommitRequest {
            session: self.session,
            collection,
            elements: vec![element],
        }
    }
}

/// Files, then so many operators in a row.
pub fn graph(operators: usize) -> v1::Graph {
    let operator = |n: usize| v1::Operator {
        id: n.to_string(),
        name: "step".to_owned(),
        determinism: Some(v1::Determinism {
            class: Some(v1::determinism::Class::Deterministic(true)),
        }),
        inputs: (n > 0)
            .then(|| v1::Input {
                operator: (n - 1).to_string(),
                port: 0,
            })
            .into_iter()
            .collect(),
        source: (n == 0).then(|| v1::Source {
            kind: Some(v1::source::Kind::Files(v1::Files::default())),
        }),
        ..Default::default()
    };
    v1::Graph {
        version: 1,
        operators: (0..=operators).map(operator).collect(),
        output: operators.to_string(),
    }
}
