//! What a segment says of itself, in its footer and in the index: whose elements it holds.

use super::{Codec, Compression, Footer, Seal, SegmentName, footer};
use crate::{
    domain::Domain,
    error::{Error, Result},
    vfs::VfsFile,
};
use prebake_fingerprint::{Digest, Graph};
use serde::{Deserialize, Serialize};

/// Footer metadata: version of this use of Arrow.
const FORMAT: &str = "prebake.format";
/// Versions that this daemon reads and writes: with values as they are, and with compressed ones. Before, 4 and 5 had no names
/// and no seals.
const FORMAT_PLAIN: &str = "6";
const FORMAT_LZ4: &str = "7";
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
/// Footer metadata: the world that the collection's elements are proven in, hex; absent if none is known.
const WORLD: &str = "prebake.world";
/// Footer metadata: rows, bytes and cost, as in the index.
const SUMMARY: &str = "prebake.summary";

/// What is known of a segment without its rows.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Elements.
    pub rows: u64,
    /// Bytes of values.
    pub value_len: u64,
    /// CPU time to compute all of them.
    pub cpu_ns: u64,
    /// Of the values; None if there are too few to compress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
}

impl Summary {
    /// Bytes that its values take on disk, if they are compressed there.
    pub fn lz4_len(&self) -> Option<u64> {
        let lz4 = self.compression.filter(|how| how.codec == Codec::Lz4);
        lz4.map(|how| how.stored_len)
    }
}

/// What the index keeps of a segment, so that its footer need not be read at start.
#[derive(Serialize, Deserialize)]
pub struct Record {
    /// Trust domain.
    pub domain: String,
    /// Canonical graph, hex of DAG-CBOR.
    pub graph: String,
    /// Against which world its elements were made or proven, hex; empty if that is not known.
    pub world: String,
    /// Bytes on disk.
    pub file_bytes: u64,
    /// Rows, bytes and cost.
    pub summary: Summary,
    /// Of the file that all of this is of: with another it says nothing.
    pub seal: Seal,
}

impl Record {
    /// Reads it from a segment's footer.
    ///
    /// # Errors
    /// `corrupt` if the file is not this segment, whole and of this version.
    pub fn read(file: &dyn VfsFile, name: SegmentName) -> Result<Self> {
        let footer = footer(file, name)?;
        let metadata = &footer.metadata;
        let get = |key: &str| {
            let value = metadata.get(key).cloned();
            value.ok_or_else(|| Error::corrupt(format!("a segment's footer lacks {key}")))
        };
        let (version, ours) = (get(FORMAT)?, format(footer.is_compressed()));
        if version != ours {
            return Err(Error::corrupt(format!("segment format {version} is not {ours}")));
        }
        let graph = get(GRAPH)?;
        if digest_of(&graph)?.to_string() != get(SUBGRAPH)? {
            return Err(Error::corrupt("a segment's graph does not match its digest"));
        }
        let summary: Summary =
            serde_json::from_str(&get(SUMMARY)?).map_err(|e| Error::corrupt(e.to_string()))?;
        if (summary.rows, summary.value_len) != (footer.rows_len(), footer.value_len()) {
            return Err(Error::corrupt("a segment has other rows than its footer says"));
        }
        Ok(Self {
            domain: get(DOMAIN)?,
            graph,
            world: metadata.get(WORLD).cloned().unwrap_or_default(),
            file_bytes: file.len()?,
            summary,
            seal: footer.seal(),
        })
    }

    /// The world of [`Record::world`].
    pub fn world(&self) -> Option<Digest> {
        Digest::try_from(&unhex(&self.world)?[..]).ok()
    }
}

fn digest_of(graph: &str) -> Result<Digest> {
    let bytes = unhex(graph).ok_or_else(|| Error::corrupt("a graph is not hex"))?;
    let graph = Graph::from_canonical(&bytes).map_err(|e| Error::corrupt(e.to_string()))?;
    Ok(graph.digest())
}

fn format(compressed: bool) -> &'static str {
    if compressed { FORMAT_LZ4 } else { FORMAT_PLAIN }
}

/// Footer metadata: what a segment that is about to be closed is.
pub(super) fn of(summary: &Summary) -> Vec<(String, String)> {
    vec![
        (SUMMARY.into(), serde_json::to_string(summary).unwrap_or_default()),
        (FORMAT.into(), format(summary.lz4_len().is_some()).into()),
    ]
}

/// Whose elements a segment holds.
pub struct Owner<'a> {
    /// Who may be served them.
    pub domain: &'a Domain,
    /// What they were made by.
    pub graph: &'a Graph,
}

/// Footer metadata: whose elements it holds, and the world that they are proven in, if one is known.
pub fn metadata(owner: &Owner<'_>, world: Option<Digest>) -> Vec<(String, String)> {
    let world = world.map(|world| (WORLD.into(), hex(&world.0)));
    let mut metadata = vec![
        (DOMAIN.into(), owner.domain.0.clone()),
        (SUBGRAPH.into(), owner.graph.digest().to_string()),
        (GRAPH.into(), hex(owner.graph.canonical())),
        (PIPELINE.into(), owner.graph.pipeline()),
        (
            WRITER.into(),
            concat!("prebaked ", env!("CARGO_PKG_VERSION")).into(),
        ),
    ];
    metadata.extend(world);
    metadata
}

/// Whether a footer says that its segment is of this collection.
pub fn belongs(footer: &Footer, owner: &Owner<'_>) -> bool {
    let says = |key: &str, value: &str| footer.metadata.get(key).is_some_and(|v| v == value);
    says(FORMAT, format(footer.is_compressed()))
        && says(DOMAIN, &owner.domain.0)
        && says(GRAPH, &hex(owner.graph.canonical()))
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
