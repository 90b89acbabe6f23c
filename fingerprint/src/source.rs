//! Where a graph reads.

use crate::{digest::Context, value::shorten};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a graph reads. What is read there is not in the graph: see [`crate::input`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Items are files.
    Files {
        /// Whether an item is its content alone, not its relative path too.
        path_ignored: bool,
    },
    /// The arguments of a call, and the files it declares.
    Arguments,
    /// The bytes themselves.
    Literal(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A version string of the user or of a table format.
    Snapshot(String),
}

impl Source {
    /// The kind, without what it holds.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Files { .. } => "files",
            Self::Arguments => "arguments",
            Self::Literal(_) => "literal",
            Self::Snapshot(_) => "snapshot",
        }
    }

    /// Bytes of payload.
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Files { .. } | Self::Arguments => 0,
            Self::Literal(bytes) => bytes.len(),
            Self::Snapshot(text) => text.len(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files { path_ignored: false } => f.write_str("files"),
            Self::Files { path_ignored: true } => f.write_str("files (path ignored)"),
            Self::Arguments => f.write_str("arguments"),
            Self::Literal(bytes) => {
                let digest = Context::Value.digest(bytes).short();
                write!(f, "literal {} bytes (digest {digest})", bytes.len())
            }
            Self::Snapshot(version) => f.write_str(&shorten(format!("snapshot {version:?}"))),
        }
    }
}
