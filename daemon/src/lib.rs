//! Prebake's daemon: computes a preprocessing step once and serves it to every job on the node.
//!
//! # The data path
//!
//! 1. [`server`] accepts a job's two connections and asks the kernel who it is;
//! 2. [`cache::Cache::plan`] finds the [`collection`] of the job's graph in the [`collection::catalog`];
//! 3. [`cache::Cache::acquire`] answers for each item: there, [leased](collection::lease) to the caller, or held by another;
//! 4. the job computes, writes into its [`session`]'s staging [`memory`], and
//!    [`cache::commit`] appends that to the collection's open [`segment`];
//! 5. readers get descriptors of the segment's blocks from [`tier::ram`], and map them; what is on disk alone is brought in
//!    the order that they declare by [`tier::read_ahead`], and copied;
//! 6. full blocks go to the segment's file behind the writer; closed, it is durable in [`tier::ssd`],
//!    which drops what is cheapest to compute again when its budget is spent;
//! 7. at start [`cache::recovery`] takes in the files that have a valid footer. The [`index`] only makes
//!    that quicker.
//!
//! # What is not here
//!
//! Fingerprints of user code and of files: clients take them, under the user's own permissions.
//! Element bytes on gRPC: they are in shared memory only. Graph canonicalization: that is the
//! `prebake-fingerprint` crate.

pub mod cache;
pub mod codes;
pub mod collection;
pub mod config;
pub mod domain;
pub mod error;
mod explain;
pub mod history;
pub mod index;
pub mod limits;
pub mod memory;
pub mod metrics;
pub mod quarantine;
pub mod segment;
pub mod server;
pub mod session;
pub mod system;
pub mod tier;
pub mod vfs;

pub use config::Config;
pub use error::{Error, Result};
