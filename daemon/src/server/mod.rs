//! The daemon as a process: its folder, its sockets, its clockwork, its end.

mod cache_service;
mod connection_limit;
mod control_service;
pub mod data_socket;
mod flight;
mod h2_authority;
mod http;
mod identity;
mod packets;
mod planning;
mod sockets;
mod unfinished;

use crate::{
    cache::{Cache, descriptors::Descriptors, open::Host},
    config::Config,
    error::{Error, Kind, Result},
    index,
    system::task,
    tier::ssd::Why,
    vfs::folder,
};
use connection_limit::ConnectionLimit;
use prebake_proto::v1::{cache_server::CacheServer, control_server::ControlServer};
use sockets::Sockets;
use std::{fs::File, io, sync::Arc, time::Duration};
use tokio::{net::UnixListener, sync::watch};
use tokio_stream::StreamExt;
use tonic::service::Routes;
use tower::util::MapRequestLayer;
use unfinished::Unfinished;

/// How often idle segments, counters and the idle exit are looked at.
const TICK: Duration = Duration::from_millis(500);

/// HTTP/2 streams of one connection: a client has one request under way, a thread pool some.
const STREAMS_MAX: u32 = 64;

/// A call takes no longer than this, a table that is put on a busy machine included. What was sent of one that never comes
/// to its end is forgotten then.
const CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// A started daemon.
pub struct Server {
    cache: Arc<Cache>,
    descriptors: Descriptors,
    listener: UnixListener,
    data: tokio_seqpacket::UnixSeqpacketListener,
    http: http::Endpoints,
    sockets: Sockets,
    /// Held as long as the daemon lives: one daemon a folder.
    lock: File,
}

impl Server {
    /// Prepares everything and binds the sockets. After an error nothing has been changed but, at
    /// most, empty folders.
    ///
    /// # Errors
    /// `config`, `folder` (unwritable), `locked` (another daemon), `io`.
    pub fn start(config: Config) -> Result<Self> {
        config.check()?;
        let lock = folder::claim(&config.dir)?;
        let descriptors = Descriptors::raise();
        let (cache, report) = Cache::open(config, Host::system, descriptors)?;
        tracing::info!(?report, dir = %cache.config.dir.display(), "ready");
        let failed = |e: io::Error| Error::io("binding a socket", e);
        let listener = UnixListener::bind(Sockets::clear(cache.config.socket())).map_err(failed)?;
        let data = tokio_seqpacket::UnixSeqpacketListener::bind(Sockets::clear(cache.config.data_socket()))
            .map_err(failed)?;
        let http = http::Endpoints::bind(&cache.config)?;
        let config = &cache.config;
        let sockets = Sockets::of([config.socket(), config.data_socket(), config.metrics_socket()]);
        Ok(Self {
            cache,
            descriptors,
            listener,
            data,
            http,
            sockets,
            lock,
        })
    }

    /// The cache it serves.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Serves until `stop` ends or the daemon was idle for as long as configured; then makes all
    /// published entries durable.
    ///
    /// # Errors
    /// If a socket fails.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let Self {
            cache,
            descriptors,
            listener,
            data,
            http,
            sockets,
            lock,
        } = self;
        let lock = Arc::new(lock);
        let (stopping, stopped) = watch::channel(false);
        let limit = |name| ConnectionLimit::new(name, descriptors.connections(), Arc::clone(&cache.clock));
        task::spawn(data_socket::serve(Arc::clone(&cache), data, limit("data")));
        let limit = Arc::new(limit("control"));
        http.serve(&cache);
        let ticking = task::spawn(tick(Arc::clone(&cache), Arc::clone(&lock), stopping.clone()));
        task::spawn(async move {
            stop.await;
            let _ = stopping.send(true);
        });
        let mut until = stopped.clone();
        let incoming = tokio_stream::wrappers::UnixListenerStream::new(listener);
        // None of them is an error: tonic tries again at once after some, and ends after others.
        let incoming = incoming.then(move |accepted| {
            let limit = Arc::clone(&limit);
            async move { limit.admit(accepted).await }
        });
        let incoming = incoming.filter_map(|admitted| {
            admitted.map(|(stream, admitted)| Ok::<_, io::Error>(h2_authority::Named::new(stream, admitted)))
        });
        let unfinished = Arc::new(Unfinished::default());
        let served = tonic::transport::Server::builder()
            .max_concurrent_streams(STREAMS_MAX)
            .timeout(CALL_TIMEOUT)
            .layer(tonic::service::InterceptorLayer::new(identity::require_peer))
            .layer(MapRequestLayer::new(move |request| unfinished.counted(request)))
            .add_routes(services(&cache))
            .serve_with_incoming(incoming);
        let result = tokio::select! {
            result = served => result.map_err(|e| Error::new(Kind::Io, "io", format!("serving: {e}"))),
            _ = until.wait_for(|stop| *stop) => Ok(()),
        };
        ticking.abort();
        drop(sockets);
        let synced = task::blocking(move || cache.sync()).await;
        if let Ok(Err(error)) = synced {
            tracing::warn!(%error, "not all of what was stored outlives this daemon");
        }
        result
    }
}

/// The methods of gRPC, whatever their requests come by. Each wants to be told who asks (`identity`).
pub fn services(cache: &Arc<Cache>) -> Routes {
    Routes::new(CacheServer::new(cache_service::Service(Arc::clone(cache))))
        .add_service(ControlServer::new(control_service::Service(Arc::clone(cache))))
        .add_service(flight::service(Arc::clone(cache)))
}

/// Closes idle segments, keeps counters and the index's share of the disk, ends an idle daemon, and one whose folder is gone.
async fn tick(cache: Arc<Cache>, lock: Arc<File>, stopping: watch::Sender<bool>) {
    let idle_exit = Duration::from_secs(cache.config.idle_exit_seconds);
    let segment_idle = Duration::from_millis(cache.config.segment_idle_ms);
    let mut last_job = cache.clock.monotonic();
    let mut kept: Vec<index::Record> = Vec::new();
    loop {
        tokio::time::sleep(TICK).await;
        let now = cache.clock.monotonic();
        if !folder::has(&cache.config.dir, &lock) {
            // Nobody finds its sockets any more, and what it stores is lost: the next job starts another.
            tracing::warn!(dir = %cache.config.dir.display(), "the folder was removed or replaced: the daemon ends");
            let _ = stopping.send(true);
            return;
        }
        if !cache.sessions.all().is_empty() {
            last_job = now;
        }
        if !idle_exit.is_zero() && now.saturating_sub(last_job) >= idle_exit {
            let _ = stopping.send(true);
        }
        cache.index_space.measured(cache.index.bytes_on_disk());
        let counters = cache.metrics.records();
        // An idle daemon writes nothing.
        let changed = (counters != kept).then(|| counters.clone());
        kept = counters;
        let worker = Arc::clone(&cache);
        let _ = task::blocking(move || {
            worker.ssd.shrink(worker.ssd.budget().bytes_max(), Why::Budget);
            worker.close_idle(segment_idle);
            if let Some(counters) = changed {
                let _ = worker.index.put(index::Space::Counters, &counters);
            }
        })
        .await;
    }
}
