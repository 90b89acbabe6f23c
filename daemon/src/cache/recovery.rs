//! Start: what earlier runs left on disk. Truth is the segments; the index only spares reading their
//! footers, and whatever it says that a file does not bear out is ignored.

use crate::{
    cache::{Cache, collection_notes},
    collection::Collection,
    domain::Domain,
    error::{Error, Kind, Result},
    index::{IndexStore, Space},
    segment::{
        SegmentName, bears,
        description::{Record, unhex},
    },
    tier::ssd::Why,
    vfs::Vfs,
};
use prebake_fingerprint::Graph;
use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    thread,
};

/// Footers read at a time: they are small, and a disk answers several requests at once.
const READERS: usize = 8;

/// Files whose records are in memory at a time: each holds its collection's graph.
const FILES_AT_ONCE: usize = 1024;

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

/// A file that is called as a segment is.
struct Found {
    file_name: String,
    path: PathBuf,
    name: SegmentName,
    disk_bytes: u64,
}

/// Takes in the segments on disk, removes unfinished and damaged ones, and shrinks to the budget.
///
/// # Errors
/// If the folder cannot be read.
pub fn run(cache: &Cache, vfs: &dyn Vfs) -> Result<Report> {
    let folder = cache.ssd.folder();
    let known: HashMap<Vec<u8>, Vec<u8>> = cache
        .index
        .scan(Space::Segments)
        .unwrap_or_default()
        .into_iter()
        .collect();
    let mut report = Report::default();
    let mut graphs = HashMap::new();
    let mut files = Vec::new();
    for (file_name, disk_bytes) in vfs.list(folder)? {
        let path = folder.join(&file_name);
        let Some(name) = SegmentName::of_file(&file_name) else {
            vfs.remove(&path)?;
            report.removed += 1;
            continue;
        };
        files.push(Found {
            file_name,
            path,
            name,
            disk_bytes,
        });
    }
    for some in files.chunks(FILES_AT_ONCE) {
        let mut rebuilt = Vec::new();
        for (file, (record, is_known)) in some.iter().zip(records(vfs, &known, some)) {
            report.rebuilt += u64::from(!is_known);
            let kept = record
                .as_ref()
                .ok()
                .filter(|_| !is_known)
                .and_then(|r| serde_json::to_vec(r).ok());
            match record.and_then(|record| adopt(cache, &mut graphs, file, record)) {
                Ok(()) => {
                    report.segments += 1;
                    rebuilt.extend(kept.map(|value| (file.file_name.clone().into_bytes(), value)));
                }
                Err(error) if error.kind() != Kind::Corrupt => {
                    tracing::warn!(%error, file = file.file_name, "a segment is left alone until the next start");
                }
                Err(error) => {
                    tracing::warn!(%error, file = file.file_name, "removing a damaged segment");
                    vfs.remove(&file.path)?;
                    report.removed += 1;
                }
            }
        }
        let _ = cache.index.put(Space::Segments, &rebuilt);
    }
    for collection in cache.catalog.all() {
        cache.judge(&collection);
    }
    forget_missing(cache, &*cache.index, known.into_keys());
    collection_notes::forget_unused(cache, Space::Notes);
    collection_notes::forget_unused(cache, Space::Worlds);
    cache.ssd.shrink(cache.ssd.budget().bytes_max(), Why::Budget);
    Ok(report)
}

/// What is known of each file, and whether the index knew it; else it is read from the footer, several at a time.
fn records(vfs: &dyn Vfs, known: &HashMap<Vec<u8>, Vec<u8>>, files: &[Found]) -> Vec<(Result<Record>, bool)> {
    let read = |file: &Found| -> Result<(Record, bool)> {
        let opened = vfs.open(&file.path)?;
        let record = known.get(file.file_name.as_bytes());
        let record = record.and_then(|v| serde_json::from_slice::<Record>(v).ok());
        // Of an index that is older than the file, or not of this folder, nothing is believed.
        match record {
            Some(record) if bears(&*opened, &record.seal)? => Ok((record, true)),
            _ => Ok((Record::read(&*opened, file.name)?, false)),
        }
    };
    let one = |file: &Found| match read(file) {
        Ok((record, is_known)) => (Ok(record), is_known),
        Err(error) => (Err(error), false),
    };
    let parts = files.chunks(files.len().div_ceil(READERS).max(1));
    thread::scope(|scope| {
        let readers: Vec<_> = parts
            .map(|part| {
                (
                    part,
                    scope.spawn(move || part.iter().map(one).collect::<Vec<_>>()),
                )
            })
            .collect();
        let lost = || {
            (
                Err(Error::new(Kind::Io, "io", "a footer's reader panicked")),
                true,
            )
        };
        let read = readers.into_iter().map(|(part, reader)| {
            reader
                .join()
                .unwrap_or_else(|_| part.iter().map(|_| lost()).collect())
        });
        read.flatten().collect()
    })
}

fn adopt(
    cache: &Cache,
    graphs: &mut HashMap<(String, String), Arc<Collection>>,
    file: &Found,
    record: Record,
) -> Result<()> {
    let world = record.world();
    let Record {
        domain,
        graph,
        file_bytes,
        summary,
        ..
    } = record;
    let key = (domain.clone(), graph.clone());
    let collection = match graphs.get(&key) {
        Some(collection) => Arc::clone(collection),
        None => {
            let bytes = unhex(&graph).ok_or_else(|| Error::corrupt("a graph is not hex"))?;
            let mut graph = Graph::from_canonical(&bytes).map_err(|e| Error::corrupt(e.to_string()))?;
            let domain = Domain(domain);
            let origin = collection_notes::recall(cache, &domain, &mut graph);
            let known = origin.made_ns != 0;
            let (collection, _) = cache.catalog.plan(&domain, &graph, origin)?;
            collection.noted.store(known, Ordering::Relaxed);
            graphs.insert(key, Arc::clone(&collection));
            collection
        }
    };
    let bytes = file.disk_bytes.max(file_bytes);
    let segment = cache
        .ssd
        .adopt(&file.file_name, file.name, collection.id, bytes, summary);
    collection.worlds.found(world);
    collection.find(segment);
    Ok(())
}

fn forget_missing(cache: &Cache, index: &dyn IndexStore, names: impl Iterator<Item = Vec<u8>>) {
    let all = cache.ssd.all();
    let present = all.iter().filter_map(|s| s.path().file_name());
    let present: HashSet<_> = present.map(|name| name.as_encoded_bytes()).collect();
    for name in names.filter(|name| !present.contains(name.as_slice())) {
        let _ = index.remove(Space::Segments, &name);
    }
}
