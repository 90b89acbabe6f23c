//! Arrow Flight: the same entries for whoever speaks Arrow and not Prebake. What descriptors, tickets and columns are is in
//! docs/explanation/architecture.md.

mod descriptor;
mod info;
mod put;
mod read;

use super::identity::peer;
use crate::{
    cache::{Cache, domain},
    collection::Collection,
    domain::Domain,
    error::{Error, Kind, Result},
    session::{Peer, Session},
    system::task,
};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
    flight_service_server::{FlightService, FlightServiceServer},
};
use futures_util::{Stream, StreamExt};
use std::{pin::Pin, sync::Arc};
use tonic::{Request, Response, Status, Streaming};

/// Longest message. An element must fit one, and what a stream may have on its way is taken off the RAM budget before it
/// begins: four blocks.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;

/// What `status` calls whoever comes this way.
const JOB: &str = "flight";

/// The service, with its limits.
pub fn service(cache: Arc<Cache>) -> FlightServiceServer<impl FlightService> {
    FlightServiceServer::new(Flight(cache)).max_decoding_message_size(MESSAGE_BYTES_MAX as usize)
}

struct Flight(Arc<Cache>);

/// A session as long as one call: its leases end with it, and the daemon does not fall idle before.
struct Visit {
    cache: Arc<Cache>,
    session: Arc<Session>,
}

impl Visit {
    fn begin(cache: &Arc<Cache>, peer: Peer) -> Result<Self> {
        let session = cache.sessions.open(peer, JOB.to_owned())?;
        cache.metrics.sessions.inc();
        let cache = Arc::clone(cache);
        Ok(Self { cache, session })
    }

    fn domain(&self) -> Domain {
        domain(&self.session)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.cache.end_session(self.session.id);
    }
}

/// Runs blocking work. What panics in it was a message that its library does not expect: the caller's fault.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = task::blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(invalid(
            "bad-message",
            "the message makes no sense: use an Arrow library",
        ))
    })
}

fn invalid(code: &'static str, message: impl Into<String>) -> Error {
    Error::new(Kind::Invalid, code, message)
}

/// Why nothing of a collection is served, if that is so.
fn served(collection: &Collection) -> Result<()> {
    let why = collection.quarantined();
    why.map_or(Ok(()), |why| {
        Err(Error::new(Kind::NotFound, "quarantined", &*why))
    })
}

type Reply<T> = std::result::Result<Response<T>, Status>;
type Messages<T> = Pin<Box<dyn Stream<Item = std::result::Result<T, Status>> + Send>>;

fn messages<T, S>(stream: S) -> Response<Messages<T>>
where
    S: Stream<Item = Result<T>> + Send + 'static,
{
    Response::new(Box::pin(stream.map(|message| Ok(message?))))
}

fn unsupported<T>(method: &str, instead: &str) -> std::result::Result<T, Status> {
    let message = format!("{method} is not there: {instead}");
    Err(Error::new(Kind::Unsupported, "unsupported", message).into())
}

#[tonic::async_trait]
impl FlightService for Flight {
    type HandshakeStream = Messages<HandshakeResponse>;
    type ListFlightsStream = Messages<FlightInfo>;
    type DoGetStream = Messages<FlightData>;
    type DoPutStream = Messages<PutResult>;
    type DoExchangeStream = Messages<FlightData>;
    type DoActionStream = Messages<arrow_flight::Result>;
    type ListActionsStream = Messages<ActionType>;

    async fn list_flights(&self, request: Request<Criteria>) -> Reply<Self::ListFlightsStream> {
        let visit = Visit::begin(&self.0, peer(&request)?)?;
        if !request.get_ref().expression.is_empty() {
            Err(invalid(
                "bad-criteria",
                "there are no criteria: list all and choose",
            ))?;
        }
        Ok(messages(info::list(visit)))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Reply<FlightInfo> {
        let visit = Visit::begin(&self.0, peer(&request)?)?;
        let info = blocking(move || info::of(&visit, request.get_ref())).await;
        Ok(Response::new(info?))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Reply<SchemaResult> {
        let schema = self.get_flight_info(request).await?.into_inner().schema;
        Ok(Response::new(SchemaResult { schema }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Reply<Self::DoGetStream> {
        let visit = Visit::begin(&self.0, peer(&request)?)?;
        let reader = blocking(move || read::Reader::open(visit, &request.get_ref().ticket)).await?;
        Ok(Response::new(Box::pin(reader.stream())))
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Reply<Self::DoPutStream> {
        let visit = Visit::begin(&self.0, peer(&request)?)?;
        Ok(messages(put::put(visit, request.into_inner())))
    }

    async fn handshake(&self, _: Request<Streaming<HandshakeRequest>>) -> Reply<Self::HandshakeStream> {
        unsupported(
            "Handshake",
            "who you are is what the kernel says of your connection",
        )
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Reply<PollInfo> {
        unsupported("PollFlightInfo", "GetFlightInfo answers at once")
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Reply<Self::DoExchangeStream> {
        unsupported("DoExchange", "use DoPut and DoGet")
    }

    async fn do_action(&self, _: Request<Action>) -> Reply<Self::DoActionStream> {
        unsupported(
            "DoAction",
            "prebake status, gc and verify are the commands there are",
        )
    }

    async fn list_actions(&self, _: Request<Empty>) -> Reply<Self::ListActionsStream> {
        unsupported("ListActions", "there are no actions")
    }
}
