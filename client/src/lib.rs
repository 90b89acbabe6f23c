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
//! | connect, or start a daemon first | [`Job`], `session`, `autostart` |
//! | name the graph's entries | [`Collection`] |
//! | is it known, unchanged and mapped? then no call is made | [`Items::get`], [`Items::batch`], [`Items::elements`] |
//! | its input fingerprint: `stat`, memo, content | `inputs`, `content`, `memo`, `walk`, `folder_watch`, `file_system`, `sweep` |
//! | where it lies, or who computes it | [`Items::acquire`] |
//! | hand over what was computed | [`Items::put`], `staging` |
//! | copy those that lie apart into one batch | `gather` |
//! | map its blocks, return them when evicted | `blocks`, `data` |
//! | hand out bytes that may be written and never remember it | `raw`, [`View`] |
//! | tell the daemon what was read | `report` |
//! | what a command reads, by watching it | [`trace`], [`reads`] |
//! | what it left, to be put back | [`archive`] |
//!
//! Locks are taken in this order: staging, state of items, blocks, data socket, one region. None is held while a call
//! waits for other jobs. A process has no threads of ours but some that save it time (`beside`), which end before a fork; every handle
//! answers `forked` in a forked child.

mod acquire;
pub mod archive;
mod autostart;
mod beneath;
mod beside;
mod blocks;
mod channel;
mod clock;
mod collection;
mod content;
mod control;
mod data;
mod elements;
mod error;
mod file_system;
mod folder;
mod folder_watch;
mod gather;
mod inputs;
mod items;
mod job;
mod location;
mod made_of;
mod memo;
mod paths;
mod produce;
#[allow(unsafe_code)]
mod raw;
pub mod reads;
mod report;
mod session;
mod socket;
mod sparse;
mod stream;
pub mod trace;
mod verify;
mod view;
mod walk;

pub use acquire::Acquired;
pub use beside::before_fork;
pub use clock::{Clock, SystemClock};
pub use collection::{Collection, Compared, Standing};
pub use control::Control;
pub use elements::{Elements, Place};
pub use error::{Code, Error, Result};
pub use folder::Folder;
pub use items::{Batch, Items};
pub use job::{Job, Options};
pub use location::Span;
pub use paths::Paths;
pub use prebake_fingerprint::FileStat;
pub use produce::Made;
pub use raw::after_fork;
pub use report::Stats;
pub use view::View;

/// Whether the kernel marks pages that are written, by userfaultfd; if not they are looked up, which costs more.
#[must_use]
pub fn marks_written_pages() -> bool {
    raw::Watch::open().is_some_and(|watch| watch.can_mark())
}
