//! `/metrics` over HTTP: on a Unix socket, whose folder only the daemon's user can enter, and if
//! configured on a loopback port that wants a bearer token.

use crate::{
    cache::Cache,
    config::Config,
    error::{Error, Result},
    explain::status,
    system::{
        random::{Random, SystemRandom},
        task,
    },
    vfs::folder,
};
use http_body_util::Full;
use hyper::{Request, Response, StatusCode, body::Bytes, header, service::service_fn};
use hyper_util::rt::TokioIo;
use rustix::fs::{OFlags, fstat};
use std::{fs, io, os::unix::fs::OpenOptionsExt, path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::Semaphore,
};

/// Scrapes at once: a handful of Prometheus servers and a person.
const CONNECTIONS_MAX: usize = 32;

/// A scrape that takes longer is dropped.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes of randomness in the token.
const TOKEN_BYTES: usize = 32;

/// Bound listeners.
pub struct Endpoints {
    unix: UnixListener,
    tcp: Option<(TcpListener, Arc<str>)>,
}

impl Endpoints {
    /// Binds what the configuration asks for.
    ///
    /// # Errors
    /// `io` if an address is taken.
    pub fn bind(config: &Config) -> Result<Self> {
        let failed = |e: io::Error| Error::io("binding the metrics endpoint", e);
        let path = config.metrics_socket();
        let _ = fs::remove_file(&path);
        let unix = UnixListener::bind(path).map_err(failed)?;
        let tcp = match config.metrics_address {
            None => None,
            Some(address) => {
                let listener = std::net::TcpListener::bind(address).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                let listener = TcpListener::from_std(listener).map_err(failed)?;
                Some((listener, token(config)?))
            }
        };
        Ok(Self { unix, tcp })
    }

    /// Serves for as long as the daemon lives.
    pub fn serve(self, cache: &Arc<Cache>) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let (owner, limit) = (Arc::clone(cache), Arc::clone(&permits));
        task::spawn(async move {
            loop {
                let Ok(permit) = Arc::clone(&limit).acquire_owned().await else {
                    return;
                };
                match self.unix.accept().await {
                    Ok((stream, _)) => {
                        drop(task::spawn(connection(Arc::clone(&owner), stream, None, permit)))
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        let Some((listener, token)) = self.tcp else {
            return;
        };
        let owner = Arc::clone(cache);
        task::spawn(async move {
            loop {
                let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                    return;
                };
                let token = Some(Arc::clone(&token));
                match listener.accept().await {
                    Ok((stream, _)) => {
                        drop(task::spawn(connection(Arc::clone(&owner), stream, token, permit)))
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
    }
}

async fn connection(
    cache: Arc<Cache>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    token: Option<Arc<str>>,
    _permit: tokio::sync::OwnedSemaphorePermit,
) {
    let service = service_fn(move |request| {
        let response = respond(&cache, &request, token.as_deref());
        async move { Ok::<_, std::convert::Infallible>(response) }
    });
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, serving).await;
}

fn respond<B>(cache: &Cache, request: &Request<B>, token: Option<&str>) -> Response<Full<Bytes>> {
    let given = request.headers().get(header::AUTHORIZATION).map(|v| v.as_bytes());
    let allowed = token.is_none_or(|token| {
        let wanted = format!("Bearer {token}");
        // Compared as digests: in constant time, whatever was sent.
        given.is_some_and(|given| blake3::hash(given) == blake3::hash(wanted.as_bytes()))
    });
    let (status, body) = match (allowed, request.uri().path()) {
        (false, _) => (
            StatusCode::UNAUTHORIZED,
            b"send the token in metrics.token as a bearer token\n".to_vec(),
        ),
        (true, "/metrics") => {
            status::refresh(cache);
            match cache.metrics.text() {
                Ok(text) => (StatusCode::OK, text),
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string().into_bytes()),
            }
        }
        (true, _) => (StatusCode::NOT_FOUND, b"see /metrics\n".to_vec()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn known_token(path: &Path, mut file: fs::File) -> Result<Arc<str>> {
    let failed = |e| Error::io("reading the metrics token", e);
    folder::our_file(path, &fstat(&file).map_err(|e| failed(e.into()))?)?;
    let mut token = String::new();
    io::Read::read_to_string(&mut file, &mut token).map_err(failed)?;
    Ok(token.trim().into())
}

/// The token in `metrics.token`, made at the first start.
fn token(config: &Config) -> Result<Arc<str>> {
    let path = config.dir.join("metrics.token");
    match fs::OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(&path)
    {
        Ok(file) => return known_token(&path, file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(Error::io("reading the metrics token", e)),
    }
    let mut bytes = [0; TOKEN_BYTES];
    SystemRandom.fill(&mut bytes)?;
    let token = crate::segment::description::hex(&bytes);
    let mut file = fs::OpenOptions::new();
    let file = file.write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut f| io::Write::write_all(&mut f, token.as_bytes()))
        .map_err(|e| Error::io("writing the metrics token", e))?;
    Ok(token.into())
}
