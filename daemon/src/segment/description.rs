//! What a segment says of itself, in its footer and in the index: whose elements it holds.

use super::{Segment, Summary, footer};
use crate::{
    collection::Collection,
    error::{Error, Result},
    vfs::Vfs,
};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, path::Path};

/// Footer metadata: version of this use of Arrow.
const FORMAT: &str = "prebake.format";
/// The one version this daemon reads and writes.
const FORMAT_VERSION: &str = "4";
/// Footer metadata: trust domain.
const DOMAIN: &str = "prebake.domain";
/// Footer metadata: subgraph digest.
const SUBGRAPH: &str = "prebake.subgraph";
/// Footer metadata: canonical graph, hex of DAG-CBOR.
const GRAPH: &str = "prebake.graph";
/// Footer metadata: the graph for people.
const PIPELINE: &str = "prebake.pipeline";
/// Footer metadata: who wrote it.
const WRITER: &str = "prebake.writer";
/// Footer metadata: rows, bytes and cost, as in the index.
const SUMMARY: &str = "prebake.summary";

/// What the index keeps of a segment.
#[derive(Serialize, Deserialize)]
pub struct Record {
    /// Trust domain.
    pub domain: String,
    /// Canonical graph, hex of DAG-CBOR.
    pub graph: String,
    /// Bytes on disk.
    pub file_bytes: u64,
    /// Rows, bytes and cost.
    pub summary: Summary,
}

impl Record {
    /// The record of a durable segment.
    pub fn of(collection: &Collection, segment: &Segment) -> Self {
        Self {
            domain: collection.domain.0.clone(),
            graph: hex(collection.graph.canonical()),
            file_bytes: segment.file_bytes(),
            summary: segment.summary(),
        }
    }

    /// Reads it from a segment's footer.
    ///
    /// # Errors
    /// `corrupt` if the file is not a whole segment of this version.
    pub fn read(vfs: &dyn Vfs, path: &Path) -> Result<Self> {
        let file = vfs.open(path)?;
        let metadata = footer(&*file)?.metadata;
        let get = |key: &str| {
            let value = metadata.get(key).cloned();
            value.ok_or_else(|| Error::corrupt(format!("a segment's footer lacks {key}")))
        };
        let version = get(FORMAT)?;
        if version != FORMAT_VERSION {
            return Err(Error::corrupt(format!(
                "segment format {version} is not {FORMAT_VERSION}"
            )));
        }
        Ok(Self {
            domain: get(DOMAIN)?,
            graph: get(GRAPH)?,
            file_bytes: file.len()?,
            summary: serde_json::from_str(&get(SUMMARY)?).map_err(|e| Error::corrupt(e.to_string()))?,
        })
    }
}

/// Footer metadata of a segment that is about to be closed.
pub fn metadata(collection: &Collection, segment: &Segment) -> Vec<(String, String)> {
    let summary = serde_json::to_string(&segment.summary()).unwrap_or_default();
    vec![
        (SUMMARY.into(), summary),
        (FORMAT.into(), FORMAT_VERSION.into()),
        (DOMAIN.into(), collection.domain.0.clone()),
        (SUBGRAPH.into(), collection.graph.digest().to_string()),
        (GRAPH.into(), hex(collection.graph.canonical())),
        (PIPELINE.into(), collection.graph.pipeline()),
        (
            WRITER.into(),
            concat!("prebaked ", env!("CARGO_PKG_VERSION")).into(),
        ),
    ]
}

/// Whether a footer says that its segment is of this collection.
pub fn belongs(metadata: &HashMap<String, String>, collection: &Collection) -> bool {
    let says = |key: &str, value: &str| metadata.get(key).is_some_and(|v| v == value);
    says(FORMAT, FORMAT_VERSION)
        && says(DOMAIN, &collection.domain.0)
        && says(GRAPH, &hex(collection.graph.canonical()))
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n)]);
    bytes
        .iter()
        .flat_map(|b| [digit(b >> 4), digit(b & 15)])
        .collect()
}

/// Bytes of hex, or None if it is not.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits?;
    (digits.len() % 2 == 0).then(|| digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect())
}
