//! `prebake.v1`: what Prebake's daemon and its clients say to each other.
//!
//! [`v1`] holds the generated messages; [`graph`] turns a wire graph into a checked
//! [`prebake_fingerprint::Graph`], and [`leaf`] what explains it.

pub mod graph;
pub mod leaf;
mod stat;

/// Messages and services generated from `proto/prebake/v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic, clippy::unwrap_used)]
pub mod v1 {
    tonic::include_proto!("prebake.v1");
    include!(concat!(env!("OUT_DIR"), "/prebake.v1.serde.rs"));
}
