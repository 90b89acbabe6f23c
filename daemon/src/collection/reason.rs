//! Why an entry had to be computed.

use crate::tier::ssd::Gone;

/// Why an entry had to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Its collection had no entries when the job planned.
    NewGraph,
    /// The collection has others, but none for an item of this name.
    NewInput,
    /// It has one for other content under this name.
    InputChanged,
    /// It had this one; its segment was dropped.
    Evicted,
    /// It had this one, or may have had; its segment did not match its digests.
    Corrupt,
    /// A job was computing it and failed.
    FillFailed,
}

impl Reason {
    /// As `status` and metrics spell it.
    pub fn text(self) -> &'static str {
        match self {
            Self::NewGraph => "new graph",
            Self::NewInput => "new input",
            Self::InputChanged => "input changed",
            Self::Evicted => "evicted",
            Self::Corrupt => "corrupt",
            Self::FillFailed => "fill failed",
        }
    }
}

/// Why an entry had to be computed, and if it was lost, how.
#[derive(Debug, Clone)]
pub struct Missed {
    /// Why.
    pub reason: Reason,
    /// What became of its segment.
    pub gone: Option<Gone>,
}
