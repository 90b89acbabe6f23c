//! Who shares with whom.

/// Who may serve each other's entries. Today: one user, as the kernel names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Domain(pub String);
