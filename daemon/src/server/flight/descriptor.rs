//! Which collection a descriptor names: a path of one subgraph digest in hexadecimal, or as command the encoded graph that
//! `Plan` takes.

use super::{Visit, invalid};
use crate::{
    collection::{Collection, graphs},
    error::{Error, Kind, Result},
    segment::description,
};
use arrow_flight::{FlightDescriptor, flight_descriptor::DescriptorType};
use prebake_fingerprint::{Digest, Graph};
use prebake_proto::v1;
use prost::Message;
use std::sync::Arc;

/// As large as a message of `Plan`.
const GRAPH_BYTES_MAX: usize = 4 << 20;

/// What a descriptor names.
pub enum Named {
    /// A collection that may be there.
    Digest(Digest),
    /// One that is there once it is planned.
    Graph(Box<Graph>),
}

impl Named {
    /// Understands a descriptor.
    ///
    /// # Errors
    /// `bad-descriptor`; those of [`Graph`].
    pub fn by(descriptor: &FlightDescriptor) -> Result<Self> {
        let bad = || {
            let message = "name a collection: a path of one subgraph digest (64 digits, as list_flights has them), or a graph \
                           as the command";
            invalid("bad-descriptor", message)
        };
        match (descriptor.r#type(), &*descriptor.path) {
            (DescriptorType::Path, [digest]) => {
                let digest = description::unhex(digest).and_then(|bytes| Digest::try_from(&*bytes).ok());
                digest.map(Self::Digest).ok_or_else(bad)
            }
            (DescriptorType::Cmd, []) if (1..=GRAPH_BYTES_MAX).contains(&descriptor.cmd.len()) => {
                let wire = v1::Graph::decode(&*descriptor.cmd).map_err(|_| bad())?;
                Ok(Self::Graph(Box::new(graphs::understood(wire)?)))
            }
            _ => Err(bad()),
        }
    }

    /// The caller's collection of this name.
    ///
    /// # Errors
    /// `no-collection`, the same whether it does not exist or is another's.
    pub fn found(&self, visit: &Visit) -> Result<Arc<Collection>> {
        let digest = match self {
            Self::Digest(digest) => *digest,
            Self::Graph(graph) => graph.digest(),
        };
        let found = visit.cache.catalog.lookup(&visit.domain(), digest);
        found.ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                "no-collection",
                "no such collection: list_flights names those there are, and a graph as the command makes one",
            )
        })
    }

    /// The caller's collection of this name to write to; made if it comes with its graph. Blocking.
    ///
    /// # Errors
    /// As [`Self::found`]; `not-stored` if nothing of it is; `digest-collision`, `too-many-collections`.
    pub fn planned(&self, visit: &Visit) -> Result<Arc<Collection>> {
        let planned = match self {
            Self::Digest(_) => visit.cache.plan(&visit.session, &self.found(visit)?.graph),
            Self::Graph(graph) => visit.cache.plan(&visit.session, graph),
        };
        planned?.map_err(|why| invalid("not-stored", why))
    }
}

/// The descriptor that names a collection.
pub fn of(collection: &Collection) -> FlightDescriptor {
    FlightDescriptor::new_path(vec![collection.graph.digest().to_string()])
}
