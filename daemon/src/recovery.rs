//! Start: what earlier runs left on disk. Truth is the segments; the index only spares reading their
//! footers, and whatever it says that a file does not bear out is ignored.

use crate::{
    cache::Cache,
    collection::Domain,
    error::{Error, Kind, Result},
    index::{IndexStore, Space},
    notes,
    segment::{
        SegmentId,
        description::{Record, unhex},
    },
    tier::ssd::Why,
    vfs::Vfs,
};
use prebake_fingerprint::Graph;
use std::{collections::HashMap, sync::atomic::Ordering};

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
            Err(error) if error.kind() != Kind::Corrupt => {
                tracing::warn!(%error, file = name, "a segment is left alone until the next start");
            }
            Err(error) => {
                tracing::warn!(%error, file = name, "removing a damaged segment");
                vfs.remove(&path)?;
                report.removed += 1;
            }
        }
    }
    for collection in cache.catalog.all() {
        cache.judge(&collection);
    }
    forget_missing(cache, &*cache.index, known.into_keys());
    notes::forget_unused(cache);
    cache.ssd.shrink(cache.ssd.budget().bytes_max(), Why::Budget);
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
            let mut graph = Graph::from_canonical(&bytes).map_err(|e| Error::corrupt(e.to_string()))?;
            let domain = Domain(domain);
            let origin = notes::recall(cache, &domain, &mut graph);
            let known = origin.made_ns != 0;
            let (collection, _) = cache.catalog.plan(&domain, &graph, origin)?;
            collection.noted.store(known, Ordering::Relaxed);
            graphs.insert(key, collection.id);
            collection.id
        }
    };
    cache
        .ssd
        .adopt(name, id, collection, disk_bytes.max(file_bytes), summary);
    Ok(())
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
