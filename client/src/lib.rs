//! Client library of Prebake. Synchronous; the Python module and the CLI are thin over it.
//!
//! ```text
//! Job::connect --> Job --plan(graph)--> Collection --files / call--> Items
//! ```
//!
//! The path of one element on this side, in the order to read it:
//!
//! | step | where |
//! | --- | --- |
//! | connect, or start a daemon first | [`Job`], `connection`, `session`, `session::autostart` |
//! | name the graph's entries | [`Collection`] |
//! | is it known, unchanged and mapped? then no call is made | [`Items::get`], [`Items::batch`], [`Items::elements`] |
//! | its input fingerprint: `stat`, memo, content | `inputs`, `files`, `session::content_memo`, `items::sweep` |
//! | where it lies, or who computes it | [`Items::acquire`] |
//! | hand over what was computed | [`Items::put`], `session::staging` |
//! | copy those that lie apart into one batch | `mapped::gather` |
//! | map its blocks, return them when evicted | `mapped::blocks`, `connection::data_socket` |
//! | hand out bytes that may be written and never remember it | `raw`, [`View`] |
//! | tell the daemon what was read | `session::report` |
//! | what a command reads, by watching it | [`trace`], [`trace::reads`] |
//! | what it left, to be put back | [`archive`] |
//!
//! Locks are taken in this order: staging, state of items, blocks, data socket, one region. None is held while a call
//! waits for other jobs. A process has no threads of ours but some that save it time (`background_threads`), which end before a fork; every handle
//! answers `forked` in a forked child.

pub mod archive;
mod background_threads;
mod clock;
mod collection;
mod connection;
mod error;
mod files;
mod inputs;
mod items;
mod job;
mod location;
mod mapped;
#[allow(unsafe_code)]
mod raw;
mod session;
mod sparse;
pub mod trace;

pub use background_threads::before_fork;
pub use clock::{Clock, SystemClock};
pub use collection::{Collection, Compared, Standing};
pub use connection::control::Control;
pub use connection::folder::Folder;
pub use error::{Code, Error, Result};
pub use files::paths::Paths;
pub use items::elements::{Elements, Place};
pub use items::put::Made;
pub use items::search::Acquired;
pub use items::{Batch, Items};
pub use job::{Job, Options};
pub use location::Span;
pub use mapped::view::View;
pub use prebake_fingerprint::FileStat;
pub use raw::after_fork;
pub use session::counters::{CounterTable, Counters};
pub use session::stats::Stats;

/// Whether the kernel marks pages that are written, by userfaultfd; if not they are looked up, which costs more.
#[must_use]
pub fn marks_written_pages() -> bool {
    raw::Watch::open().is_some_and(|watch| watch.can_mark())
}
