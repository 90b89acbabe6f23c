//! What a pipeline computes, as a digest.
//!
//! Pure: no I/O but the reader handed to [`input::content`], no clock, no threads. Every pass over a
//! graph is linear and iterative, and every size is bounded by [`limits`].
//!
//! | question | answer |
//! | --- | --- |
//! | What does a job run? | [`Graph`] of [`Operator`]s with [`Value`] parameters and a [`Source`] |
//! | Do two jobs run the same? | [`Graph::digest`]; proof: [`Graph::canonical`] |
//! | What will it cost, roughly? | [`Graph::shape`] |
//! | May it be cached at all? | [`Graph::determinism`], and who is to blame: [`Graph::blame`] |
//! | What does it run on? | [`input`]: items, directories, partitions, call arguments |
//! | Is a file's `stat` to be trusted? | [`stat::is_racy`] |
//! | What differs? | [`diff`], and operator by operator [`compare`] |
//!
//! Equal digests mean that the same operators, with the same versions, code, parameters and seeds,
//! run in the same arrangement. They say nothing about what is not in the graph: whoever builds one
//! states everything its operators depend on, or declares them [`Determinism::Unknown`].
//!
//! From the inside: [`Graph::new`] checks ([`limits`], then `order`), tells determinism, applies `rules`
//! while it builds the canonical form, hashes it (`merkle`) and encodes it (`encode`).
#![forbid(unsafe_code)]

pub mod digest;
pub mod input;
pub mod limits;
pub mod rules;
pub mod stat;

mod canonical;
mod determinism;
mod diff;
mod difference;
mod edges;
mod encode;
mod error;
mod graph;
mod leaf;
mod merkle;
mod operator;
mod order;
mod pairing;
mod source;
mod step;
mod value;

pub use determinism::Determinism;
pub use diff::{compare, diff};
pub use difference::{Difference, Kind};
pub use digest::Digest;
pub use error::Error;
pub use graph::Graph;
pub use leaf::{Leaf, LeafKind, Note};
pub use operator::{Input, Operator};
pub use source::Source;
pub use stat::FileStat;
pub use step::Step;
pub use value::Value;
