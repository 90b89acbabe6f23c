//! The data socket: one connection a client process, over which descriptors of shared memory go. Its
//! end is the session's end; so is the end of the process, because forked children hold the socket
//! open.

use super::{
    cache_service,
    connection_limit::ConnectionLimit,
    packets::{bad_request, next, receive, send, send_with},
    planning,
};
use crate::{
    cache::{Cache, domain, standing},
    error::{Error, Kind, Result},
    memory::{BLOCK_BYTES, Block, SLOT_BYTES, watch},
    segment::{BlockId, ELEMENT_BYTES_MAX, From, SegmentId},
    session::{Peer, Session, SessionId},
    system::task,
    tier::read_ahead::{Load, Piece},
};
use bytes::Bytes;
use prebake_proto::{
    leaf::cut,
    v1::{self, data_request::Kind as Ask, data_response::Kind as Say},
};
use prost::Message;
use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Semaphore;
use tokio_seqpacket::{UnixSeqpacket, UnixSeqpacketListener};

/// Blocks of one request: Linux passes at most 253 descriptors a message (SCM_MAX_FD), and 64 are
/// 256 MiB.
const BLOCKS_MAX: usize = 64;

/// A request is a few numbers per block, or a graph of some kilobytes. Clients send larger ones by gRPC.
const PACKET_BYTES_MAX: usize = 64 << 10;

/// Longest answer to Locate or Acquire, in which each layout is up to 1 MiB: a packet has to fit the socket's buffer (208 KiB, unless
/// the machine is set up otherwise). Clients ask for more by gRPC.
const ANSWER_BYTES_MAX: usize = 128 << 10;

/// The one version of this protocol.
const VERSION: u32 = 4;

/// A client that connects says hello within this time.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a job's name: a person reads it, and each answer to `status` has those of all jobs.
const JOB_BYTES_MAX: usize = 256;

/// An answer about a thousand items takes a millisecond. Those about more than this are made one after the other beside the two
/// workers: while one is at such an answer, nobody may look for what others ask.
const SHORT_ITEMS_MAX: usize = 128;

/// What goes back: a message and the memory whose descriptors go beside it.
struct Reply {
    say: Say,
    memory: Vec<Arc<dyn Memory>>,
}

trait Memory: AsFd + Send + Sync {}
impl<T: AsFd + Send + Sync> Memory for T {}

impl Reply {
    fn plain(say: Say) -> Self {
        Self {
            say,
            memory: Vec::new(),
        }
    }
}

/// Answers about many items are made one after the other.
#[derive(Clone)]
pub struct LongAnswers(Arc<Semaphore>);

impl Default for LongAnswers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

/// Accepts clients for as long as the daemon lives.
pub async fn serve(cache: Arc<Cache>, mut listener: UnixSeqpacketListener, limit: ConnectionLimit) {
    let long = LongAnswers::default();
    loop {
        if let Some((socket, admitted)) = limit.admit(listener.accept().await).await {
            let (cache, long) = (Arc::clone(&cache), long.clone());
            task::spawn(async move {
                if let Err(error) = client(&cache, &socket, &long).await {
                    tracing::debug!(%error, "a client's data socket failed");
                }
                drop(admitted);
            });
        }
    }
}

/// Ends the session however the connection ends.
struct Ending<'a>(&'a Cache, SessionId);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end_session(self.1);
    }
}

/// Serves a client until its connection or its process ends.
///
/// # Errors
/// Of the socket, or because what the client sends is no request: the connection ends.
pub async fn client(cache: &Arc<Cache>, socket: &UnixSeqpacket, long: &LongAnswers) -> Result<()> {
    let cred = socket
        .peer_cred()
        .map_err(|e| Error::io("asking who connects", e))?;
    let pid = cred.pid().and_then(|p| u32::try_from(p).ok()).unwrap_or(0);
    let peer = Peer { uid: cred.uid(), pid };
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let hello = tokio::time::timeout(HELLO_TIMEOUT, receive(socket, &mut buffer)).await;
    let Ok(Some(Ask::Hello(hello))) = hello.unwrap_or(Ok(None)) else {
        return send(socket, failure(&bad_request("say hello first"))).await;
    };
    if hello.version != VERSION {
        let message = format!(
            "protocol {} is not {VERSION}: use the same Prebake release on both sides",
            hello.version
        );
        return send(
            socket,
            failure(&Error::new(Kind::Invalid, "protocol-version", message)),
        )
        .await;
    }
    let session = match cache.sessions.open(peer, cut(hello.job, JOB_BYTES_MAX)) {
        Ok(session) => session,
        Err(error) => return send(socket, failure(&error)).await,
    };
    let _ending = Ending(cache, session.id);
    cache.metrics.sessions.inc();
    let welcome = v1::Welcome {
        session: session.id.0,
        boot_id: cache.boot_id,
        block_bytes: BLOCK_BYTES,
    };
    send_with(socket, Say::Welcome(welcome), &[cache.ram.doorbell().as_fd()]).await?;
    tokio::select! {
        result = converse(cache, socket, &session, long, &mut buffer) => result,
        () = death(peer.pid) => Ok(()),
    }
}

async fn converse(
    cache: &Arc<Cache>,
    socket: &UnixSeqpacket,
    session: &Arc<Session>,
    long: &LongAnswers,
    buffer: &mut [u8],
) -> Result<()> {
    let mut soon = true;
    while let Some(ask) = next(cache, socket, buffer, soon).await? {
        // Who was given something to compute is at that for a while.
        soon = !matches!(ask, Ask::Acquire(_));
        let reply = match ask {
            Ask::Report(report) => {
                if let Err(error) = reported(cache, session, &report) {
                    tracing::debug!(%error, "a report of what a client read");
                }
                continue;
            }
            Ask::Plan(graph) => plan(cache, session, graph).await,
            Ask::Locate(ask) => {
                acquire(cache, session, long, v1::AcquireRequest { leases_max: 0, ..ask }).await
            }
            Ask::Acquire(ask) => acquire(cache, session, long, ask).await,
            ask => {
                let (cache, session) = (Arc::clone(cache), Arc::clone(session));
                let reply = task::blocking(move || answer(&cache, &session, ask)).await;
                reply.unwrap_or_else(|_| Err(Error::corrupt("a request failed")))
            }
        };
        match reply {
            Ok(reply) => {
                let fds: Vec<BorrowedFd<'_>> = reply.memory.iter().map(|m| m.as_fd()).collect();
                send_with(socket, reply.say, &fds).await?;
            }
            Err(error) => send(socket, failure(&error)).await?,
        }
    }
    Ok(())
}

async fn plan(cache: &Arc<Cache>, session: &Arc<Session>, graph: Bytes) -> Result<Reply> {
    let graph = cache.graphs.decode(session.peer.uid, graph)?;
    let planned = planning::plan(cache, session, graph).await?;
    Ok(Reply::plain(Say::Planned(planned)))
}

async fn acquire(
    cache: &Arc<Cache>,
    session: &Arc<Session>,
    long: &LongAnswers,
    ask: v1::AcquireRequest,
) -> Result<Reply> {
    if ask.wanted.len() + ask.ahead.len() <= SHORT_ITEMS_MAX {
        return acquired(cache, session, ask);
    }
    let _turn = long.0.acquire().await;
    let (cache, session) = (Arc::clone(cache), Arc::clone(session));
    let reply = task::blocking(move || acquired(&cache, &session, ask)).await;
    reply.unwrap_or_else(|_| Err(Error::corrupt("a request failed")))
}

fn acquired(cache: &Cache, session: &Session, ask: v1::AcquireRequest) -> Result<Reply> {
    let collection = ask.collection;
    let asked = ask.wanted.iter().chain(&ask.ahead);
    let asked: Vec<_> = asked.map(|item| item.fingerprint.clone()).collect();
    let located = cache_service::acquire_now(cache, session, ask)?;
    if located.encoded_len() > ANSWER_BYTES_MAX {
        cache_service::take_back(cache, session, collection, &asked, &located)?;
        let message = "the answer is too long for a packet: ask by gRPC";
        return Err(Error::new(Kind::Invalid, "too-large", message));
    }
    Ok(Reply::plain(Say::Located(located)))
}

fn answer(cache: &Arc<Cache>, session: &Arc<Session>, ask: Ask) -> Result<Reply> {
    match ask {
        Ask::Memo(ask) => Ok(Reply::plain(Say::Recalled(cache_service::recall(
            cache, session, ask,
        )?))),
        Ask::ReadAhead(ask) => read_ahead(cache, session, ask),
        Ask::Map(map) => map_blocks(cache, session, &map),
        Ask::Stage(stage) => {
            let bytes = stage
                .bytes
                .clamp(1, ELEMENT_BYTES_MAX + BLOCK_BYTES)
                .next_multiple_of(4096);
            let staging = cache.with_room(|| session.stage(bytes, &cache.ram))?;
            let say = Say::Staged(v1::Staged {
                bytes: staging.bytes(),
            });
            Ok(Reply {
                say,
                memory: vec![staging],
            })
        }
        Ask::Return(returned) => {
            let ids: Vec<_> = returned
                .blocks
                .iter()
                .map(|b| block_id(b.segment, b.block))
                .collect();
            let evicted = session.take_back(&ids, &cache.ram, |id| cache.is_pinned(id));
            let wire = |id: BlockId| v1::BlockId {
                segment: id.segment.0.into(),
                block: id.index,
            };
            let evicted = evicted.into_iter().map(wire).collect();
            Ok(Reply::plain(Say::Returned(v1::Returned { evicted })))
        }
        Ask::World(ask) => Ok(Reply::plain(Say::World(standing::stand(cache, session, ask)?))),
        Ask::Hello(_) | Ask::Plan(_) | Ask::Report(_) | Ask::Locate(_) | Ask::Acquire(_) => {
            Err(bad_request("hello was said already"))
        }
    }
}

fn reported(cache: &Cache, session: &Session, report: &v1::Report) -> Result<()> {
    let collection = cache.catalog.get(report.collection, &domain(session))?;
    cache.served(session, &collection, report.hits, report.follows, report.bypasses);
    cache.verified(&collection, report.verified, report.verify_cpu_ns);
    for read in &report.reads {
        let id = block_id(read.segment, read.block);
        cache.touched(id.segment, id.index, u64::from(read.elements), read.bytes);
    }
    Ok(())
}

fn map_blocks(cache: &Cache, session: &Session, map: &v1::MapBlocks) -> Result<Reply> {
    if map.blocks.len() > BLOCKS_MAX {
        return Err(bad_request(&format!("at most {BLOCKS_MAX} blocks a request")));
    }
    let domain = domain(session);
    let mut memory: Vec<Arc<dyn Memory>> = Vec::new();
    let mut mapped = v1::MappedBlocks::default();
    for index in &map.blocks {
        let id = block_id(map.segment, *index);
        let (found, exists): (Option<(Arc<Block>, From)>, bool) = match map.resident {
            true => {
                let (block, exists) = cache.resident(&domain, id);
                (block.map(|block| (block, From::Ram)), exists)
            }
            false => (cache.block(&domain, id).ok(), false),
        };
        mapped.blocks.push(found.is_some());
        mapped.on_ssd.push(exists && found.is_none());
        mapped.from_ssd.push(matches!(found, Some((_, From::Ssd))));
        if let Some((block, _)) = found {
            session.lend(id, Arc::clone(&block));
            memory.push(block);
        }
    }
    Ok(Reply {
        say: Say::Mapped(mapped),
        memory,
    })
}

fn read_ahead(cache: &Arc<Cache>, session: &Arc<Session>, ask: v1::ReadAhead) -> Result<Reply> {
    let piece = |piece: v1::Piece| Piece {
        segment: block_id(piece.segment, 0).segment,
        range: piece.start..piece.end,
    };
    let loads = ask.loads.into_iter();
    let loads = loads.map(|load| Load::new(load.pieces.into_iter().map(piece).collect()));
    let loads: Vec<_> = loads.collect::<Result<_>>()?;
    let ahead = session.read_ahead(&cache.ram)?;
    let done = if ask.anew { None } else { ask.take.or(Some(0)) };
    ahead.check_next(ask.number, &loads)?;
    ahead.declare(done, loads)?;
    cache.read_on(session, &ahead);
    let taken = ask.take.map(|number| cache.wait_for(session, &ahead, number));
    let taken = taken.transpose()?.flatten();
    let say = Say::ReadDone(v1::ReadDone {
        slots: ahead.ring().slots(),
        slot_bytes: SLOT_BYTES,
        there: taken.is_some(),
        bytes_ssd: taken.unwrap_or(0),
    });
    let memory: Vec<Arc<dyn Memory>> = match ask.ring {
        true => vec![ahead],
        false => Vec::new(),
    };
    Ok(Reply { say, memory })
}

/// Numbers beyond ours name no segment.
fn block_id(segment: u64, index: u32) -> BlockId {
    let segment = SegmentId(u32::try_from(segment).unwrap_or(u32::MAX));
    BlockId { segment, index }
}

/// Ends when the process does. Without a pidfd only the socket tells.
async fn death(pid: u32) {
    let pidfd = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::NONBLOCK).ok());
    let Some(Ok(pidfd)) = pidfd.map(watch) else {
        return std::future::pending().await;
    };
    let _ = pidfd.readable().await;
}

fn failure(error: &Error) -> Say {
    Say::Failure(v1::Failure {
        code: error.code().into(),
        message: error.to_string(),
    })
}
