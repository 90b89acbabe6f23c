//! Start: what earlier runs left on disk. Truth is the segments; the index only spares reading their
//! footers, and whatever it says that a file does not bear out is ignored.

use crate::{
    cache::Cache,
    collection::{Collection, Domain},
    error::{Error, Result},
    index::{IndexStore, Space},
    segment::{Segment, SegmentId, Summary, footer},
    vfs::Vfs,
};
use prebake_fingerprint::Graph;
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, path::Path};

/// Footer metadata: version of this use of Arrow.
pub const FORMAT: &str = "prebake.format";
/// The one version this daemon reads and writes.
pub const FORMAT_VERSION: &str = "1";
/// Footer metadata: trust domain.
pub const DOMAIN: &str = "prebake.domain";
/// Footer metadata: subgraph digest.
pub const SUBGRAPH: &str = "prebake.subgraph";
/// Footer metadata: canonical graph, hex of DAG-CBOR.
pub const GRAPH: &str = "prebake.graph";
/// Footer metadata: the graph for people.
pub const PIPELINE: &str = "prebake.pipeline";
/// Footer metadata: who wrote it.
pub const WRITER: &str = "prebake.writer";
/// Footer metadata: rows, bytes and cost, as in the index.
pub const SUMMARY: &str = "prebake.summary";

/// What the index keeps of a segment.
#[derive(Serialize, Deserialize)]
pub struct Record {
    domain: String,
    graph: String,
    file_bytes: u64,
    summary: Summary,
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

    fn read(vfs: &dyn Vfs, path: &Path) -> Result<Self> {
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

/// What was found.
#[derive(Debug, Default, Clone, Copy)]
pub struct Report {
    /// Segments taken in.
    pub segments: u64,
    /// Of these, read from their footers because the index did not know them.
    pub rebuilt: u64,
    /// Unfinished or damaged files removed.
    pub removed: u64,
}

/// Takes in the segments on disk, removes unfinished and damaged ones, and shrinks to the budget.
///
/// # Errors
/// If the folder cannot be read.
pub fn run(cache: &Cache, vfs: &dyn Vfs) -> Result<Report> {
    let folder = cache.ssd.folder();
    let known: HashMap<_, _> = cache
        .index
        .scan(Space::Segments)
        .unwrap_or_default()
        .into_iter()
        .collect();
    let mut report = Report::default();
    let mut graphs = HashMap::new();
    for (name, disk_bytes) in vfs.list(folder)? {
        let path = folder.join(&name);
        let Some(id) = segment_id(&name) else {
            vfs.remove(&path)?;
            report.removed += 1;
            continue;
        };
        let record = known
            .get(name.as_bytes())
            .and_then(|v| serde_json::from_slice::<Record>(v).ok());
        let record = match record {
            Some(record) => Ok(record),
            None => {
                report.rebuilt += 1;
                Record::read(vfs, &path)
            }
        };
        let adopted = record.and_then(|record| adopt(cache, &mut graphs, &name, id, disk_bytes, record));
        match adopted {
            Ok(()) => report.segments += 1,
            Err(error) => {
                tracing::warn!(%error, file = name, "removing a damaged segment");
                vfs.remove(&path)?;
                report.removed += 1;
            }
        }
    }
    forget_missing(cache, &*cache.index, known.into_keys());
    cache.ssd.shrink(cache.ssd.budget().bytes_max());
    Ok(report)
}

fn adopt(
    cache: &Cache,
    graphs: &mut HashMap<(String, String), u64>,
    name: &str,
    id: SegmentId,
    disk_bytes: u64,
    record: Record,
) -> Result<()> {
    let Record {
        domain,
        graph,
        file_bytes,
        summary,
    } = record;
    let key = (domain.clone(), graph.clone());
    let collection = match graphs.get(&key) {
        Some(collection) => *collection,
        None => {
            let bytes = unhex(&graph).ok_or_else(|| Error::corrupt("a graph is not hex"))?;
            let graph = Graph::from_canonical(&bytes).map_err(|e| Error::corrupt(e.to_string()))?;
            let (collection, _) = cache.catalog.plan(&Domain(domain), graph)?;
            graphs.insert(key, collection.id);
            collection.id
        }
    };
    cache
        .ssd
        .adopt(name, id, collection, disk_bytes.max(file_bytes), summary)
}

fn forget_missing(cache: &Cache, index: &dyn IndexStore, names: impl Iterator<Item = Vec<u8>>) {
    let present: std::collections::HashSet<_> = cache
        .ssd
        .all()
        .iter()
        .filter_map(|s| s.path().file_name().map(ToOwned::to_owned))
        .collect();
    for name in names {
        if !present.iter().any(|p| p.as_encoded_bytes() == name.as_slice()) {
            let _ = index.remove(Space::Segments, &name);
        }
    }
}

/// `<digest>-<id>.arrow`; anything else is unfinished or not ours.
fn segment_id(name: &str) -> Option<SegmentId> {
    let (_, id) = name.strip_suffix(".arrow")?.rsplit_once('-')?;
    u32::from_str_radix(id, 16).ok().map(SegmentId)
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

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits?;
    (digits.len() % 2 == 0).then(|| digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect())
}
