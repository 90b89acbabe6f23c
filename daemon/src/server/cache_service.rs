//! The `Cache` service: wire to domain and back; the work is in [`crate::cache`].

use super::{identity::peer, planning};
use crate::{
    cache::{
        Cache, LEASE_MAX, StatKey,
        commit::{Committed, Element},
        mismatch::Mismatch,
    },
    collection::{Answer, Answers, Collection, Item, Request as Wanted, graphs, lease::Token},
    error::{Error, Kind, Result},
    segment::{Cost, Location},
    session::Session,
    system::task,
};
use bytes::Bytes;
use prebake_fingerprint::Digest;
use prebake_proto::v1;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tonic::{Request, Response, Status};

/// Items of one request: what a 4 MiB message holds of them.
const ITEMS_MAX: usize = 65_536;

/// Least time a lease is worth: less would pass leases on while they are computed.
const LEASE_MIN: Duration = Duration::from_secs(1);

/// Serves the cache.
pub struct Service(pub Arc<Cache>);

type Reply<T> = std::result::Result<Response<T>, Status>;

impl Service {
    fn session<T>(&self, request: &Request<T>, id: u64) -> Result<Arc<Session>> {
        self.0.sessions.get(id, peer(request)?)
    }

    fn open<T>(
        &self,
        request: &Request<T>,
        session: u64,
        collection: u64,
    ) -> Result<(Arc<Session>, Arc<Collection>)> {
        let session = self.session(request, session)?;
        let collection = used(&self.0, &session, collection)?;
        Ok((session, collection))
    }
}

#[tonic::async_trait]
impl v1::cache_server::Cache for Service {
    async fn plan(&self, request: Request<v1::PlanRequest>) -> Reply<v1::PlanResponse> {
        let session = self.session(&request, request.get_ref().session)?;
        let graph = graphs::understood(request.into_inner().graph.unwrap_or_default())?;
        let planned = planning::plan(&self.0, &session, Arc::new(graph)).await?;
        Ok(Response::new(planned))
    }

    async fn acquire(&self, request: Request<v1::AcquireRequest>) -> Reply<v1::AcquireResponse> {
        let session = self.session(&request, request.get_ref().session)?;
        Ok(Response::new(
            acquire(&self.0, &session, request.into_inner()).await?,
        ))
    }

    async fn commit(&self, request: Request<v1::CommitRequest>) -> Reply<v1::CommitResponse> {
        let session = self.session(&request, request.get_ref().session)?;
        let cache = Arc::clone(&self.0);
        let committed = task::blocking(move || commit(&cache, &session, request.into_inner())).await;
        Ok(Response::new(
            committed.map_err(|_| Error::corrupt("a commit failed"))??,
        ))
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Reply<v1::ReleaseResponse> {
        let body = request.get_ref();
        let (session, collection) = self.open(&request, body.session, body.collection)?;
        let entries: Vec<_> = body
            .fingerprints
            .iter()
            .map(|f| digest(f))
            .collect::<Result<_>>()?;
        collection.release(&entries, session.id);
        Ok(Response::new(v1::ReleaseResponse {}))
    }

    async fn mismatch(&self, request: Request<v1::MismatchRequest>) -> Reply<v1::MismatchResponse> {
        let body = request.get_ref();
        let (session, collection) = self.open(&request, body.session, body.collection)?;
        digest(&body.fingerprint)?;
        let body = request.into_inner();
        let found = Mismatch {
            item: body.name,
            reason: body.reason,
            cpu_ns: body.cpu_ns,
        };
        let cache = Arc::clone(&self.0);
        let told = task::blocking(move || cache.mismatched(&session, &collection, found)).await;
        let bypass = told.map_err(|_| Error::corrupt("the quarantine failed"))?;
        Ok(Response::new(v1::MismatchResponse { bypass }))
    }

    async fn memo(&self, request: Request<v1::MemoRequest>) -> Reply<v1::MemoResponse> {
        let session = self.session(&request, request.get_ref().session)?;
        let (cache, body) = (Arc::clone(&self.0), request.into_inner());
        let known = task::blocking(move || recall(&cache, &session, body)).await;
        let known = known.map_err(|_| Error::corrupt("the memo failed"))?;
        Ok(Response::new(known?))
    }

    async fn refused(&self, request: Request<v1::RefusedRequest>) -> Reply<v1::RefusedResponse> {
        let session = self.session(&request, request.get_ref().session)?;
        let v1::RefusedRequest {
            code,
            reason,
            location,
            ..
        } = request.into_inner();
        self.0.keep_refusal(&session, &code, reason, location);
        Ok(Response::new(v1::RefusedResponse {}))
    }
}

/// A collection that a session uses.
fn used(cache: &Cache, session: &Session, collection: u64) -> Result<Arc<Collection>> {
    let collection = cache.catalog.get(collection, &crate::cache::domain(session))?;
    // So that its leases here end with it, planned or not.
    session.planned(collection.id, false);
    Ok(collection)
}

/// `Acquire`, waiting if that is asked for.
async fn acquire(cache: &Cache, session: &Session, body: v1::AcquireRequest) -> Result<v1::AcquireResponse> {
    let asked = Asked::of(cache, session, body)?;
    let request = asked.request(session);
    Ok(told(cache.acquire(&asked.collection, &request, asked.wait).await))
}

/// `Acquire` without waiting. Some thousand items take milliseconds.
pub(super) fn acquire_now(
    cache: &Cache,
    session: &Session,
    body: v1::AcquireRequest,
) -> Result<v1::AcquireResponse> {
    let asked = Asked::of(cache, session, body)?;
    Ok(told(cache.answer(&asked.collection, &asked.request(session))))
}

/// What a session asks of a collection.
struct Asked {
    collection: Arc<Collection>,
    wanted: Vec<Item>,
    ahead: Vec<Item>,
    leases_max: usize,
    lease: Duration,
    items: u64,
    wait: Duration,
}

impl Asked {
    fn of(cache: &Cache, session: &Session, body: v1::AcquireRequest) -> Result<Self> {
        let collection = used(cache, session, body.collection)?;
        if body.wanted.len() + body.ahead.len() > ITEMS_MAX {
            let message = format!("at most {ITEMS_MAX} items a request");
            return Err(Error::new(Kind::Invalid, "too-many-items", message));
        }
        Ok(Self {
            collection,
            wanted: items(body.wanted)?,
            ahead: items(body.ahead)?,
            leases_max: body.leases_max as usize,
            lease: Duration::from_millis(body.lease_ms.into()).clamp(LEASE_MIN, LEASE_MAX),
            items: body.items,
            wait: Duration::from_millis(body.wait_ms.into()),
        })
    }

    fn request(&self, session: &Session) -> Wanted<'_> {
        Wanted {
            session: session.id,
            wanted: &self.wanted,
            ahead: &self.ahead,
            leases_max: self.leases_max,
            lease: self.lease,
            items: self.items,
        }
    }
}

fn told(answers: Answers) -> v1::AcquireResponse {
    v1::AcquireResponse {
        bypass: answers
            .quarantined
            .map_or_else(String::new, |why| why.to_string()),
        ..answered(answers.answers)
    }
}

/// Blocking.
fn commit(cache: &Arc<Cache>, session: &Session, body: v1::CommitRequest) -> Result<v1::CommitResponse> {
    let collection = used(cache, session, body.collection)?;
    let staging = session.staging()?;
    let elements = body.elements.into_iter().map(element).collect::<Result<_>>()?;
    let committed = cache.commit(session, &collection, &*staging, elements);
    let committed = committed.into_iter().map(|c| match c {
        // The committer knows its own layouts.
        Committed::At(at) => v1::Committed {
            location: Some(location(&at, 0)),
            refused: String::new(),
        },
        Committed::Refused(code) => v1::Committed {
            location: None,
            refused: code.into(),
        },
    });
    Ok(v1::CommitResponse {
        committed: committed.collect(),
    })
}

/// Ends what an answer granted that cannot be given.
pub(super) fn take_back(
    cache: &Cache,
    session: &Session,
    collection: u64,
    asked: &[Bytes],
    answer: &v1::AcquireResponse,
) -> Result<()> {
    let granted = asked.iter().zip(&answer.answers);
    let granted = granted.filter(|(_, one)| matches!(one.kind, Some(v1::answer::Kind::Granted(_))));
    let granted: Vec<_> = granted.map(|(f, _)| digest(f)).collect::<Result<_>>()?;
    used(cache, session, collection)?.release(&granted, session.id);
    Ok(())
}

/// `Memo`, whichever socket it is asked on. Blocking.
pub(super) fn recall(cache: &Cache, session: &Session, body: v1::MemoRequest) -> Result<v1::MemoResponse> {
    let remember = body.remember.into_iter();
    let remember = remember
        .map(|r| Ok((stat_key(&r.stat.unwrap_or_default()), digest(&r.content_digest)?)))
        .collect::<Result<Vec<_>>>()?;
    if !remember.is_empty() {
        cache.memorize(session, remember);
    }
    let asked: Vec<_> = body.ask.iter().map(stat_key).collect();
    let recalled = cache.recall(session, &asked).into_iter();
    let bytes = |d: Digest| d.0.to_vec().into();
    Ok(v1::MemoResponse {
        content_digests: recalled.map(|d| d.map(bytes).unwrap_or_default()).collect(),
    })
}

fn digest(bytes: &[u8]) -> Result<Digest> {
    Digest::try_from(bytes).map_err(|e| Error::new(Kind::Invalid, e.code(), e.to_string()))
}

fn items(items: Vec<v1::Item>) -> Result<Vec<Item>> {
    let item = |i: v1::Item| {
        Ok(Item {
            fingerprint: digest(&i.fingerprint)?,
            name: i.name,
        })
    };
    items.into_iter().map(item).collect()
}

fn element(e: v1::Element) -> Result<Element> {
    Ok(Element {
        item: Item {
            fingerprint: digest(&e.fingerprint)?,
            name: e.name,
        },
        token: Token(e.token),
        layout: e.layout,
        offset: e.staging_offset,
        len: e.len,
        cost: Cost {
            cpu_ns: e.cpu_ns,
            io_ns: e.io_ns,
        },
    })
}

fn location(at: &Location, layout: u32) -> v1::Location {
    v1::Location {
        segment: at.segment.0.into(),
        offset: at.offset,
        len: at.len,
        layout,
    }
}

/// Each layout is named once a response.
fn answered(answers: Vec<Answer>) -> v1::AcquireResponse {
    use v1::answer::Kind as Wire;
    let mut layouts: Vec<String> = Vec::new();
    let mut places: HashMap<Arc<str>, u32> = HashMap::new();
    let answers = answers.into_iter().map(|answer| match answer {
        Answer::Hit(at) => {
            let place = *places.entry(Arc::clone(&at.layout)).or_insert_with(|| {
                layouts.push(at.layout.to_string());
                layouts.len() as u32 - 1
            });
            Wire::Hit(location(&at, place))
        }
        Answer::Granted(token) => Wire::Granted(token.0),
        Answer::Held => Wire::Held(true),
        Answer::Free => Wire::Free(true),
        Answer::Bypass => Wire::Bypass(true),
    });
    let answers = answers.map(|kind| v1::Answer { kind: Some(kind) }).collect();
    v1::AcquireResponse {
        answers,
        layouts,
        ..Default::default()
    }
}

/// Fixed length, so that no two stats share a key; files of one folder are mostly neighbours.
fn stat_key(stat: &v1::FileStat) -> StatKey {
    let numbers = [stat.device, stat.inode, stat.size].map(u64::to_be_bytes);
    let times = [stat.mtime_ns, stat.ctime_ns].map(i64::to_be_bytes);
    let mut key = [0; 40];
    let (fields, _) = key.as_chunks_mut();
    for (field, value) in fields.iter_mut().zip(numbers.into_iter().chain(times)) {
        *field = value;
    }
    key
}
