//! The list on disk: twice, each under its digest, so that no flipped bit and no half-written file lifts a quarantine.

use super::Quarantined;
use crate::{
    error::{Error, Kind, Result},
    segment::description::hex,
    vfs::Vfs,
};
use std::path::Path;

/// Its names in the daemon's folder. Written one after the other: after a crash in between, what either lists counts.
pub(super) const FILES: [&str; 2] = ["quarantine.json", "quarantine.copy.json"];

const CONTEXT: &str = "prebake 2026 quarantine list v1";

/// What earlier runs left; nothing if they left no file.
///
/// # Errors
/// `corrupt` if there are some and none is whole; `not-ours`.
pub(super) fn read(folder: &Path, vfs: &dyn Vfs) -> Result<Vec<Quarantined>> {
    let mut copies = Vec::new();
    for name in FILES {
        match read_one(&folder.join(name), vfs) {
            Ok(copy) => copies.push(Some(copy)),
            Err(error) if error.is_absent() => {}
            Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Io) => {
                tracing::warn!(%error, "the other copy of the list is used");
                copies.push(None);
            }
            Err(error) => return Err(error),
        }
    }
    let whole: Vec<_> = copies.iter().flatten().collect();
    if whole.is_empty() && !copies.is_empty() {
        return Err(Error::corrupt(format!(
            "{} and its copy list what did not reproduce, and neither can be read: remove both to clear all",
            folder.join(FILES[0]).display()
        )));
    }
    let mut all: Vec<Quarantined> = Vec::new();
    for quarantined in whole.into_iter().flatten() {
        if !all.contains(quarantined) {
            all.push(quarantined.clone());
        }
    }
    let agree = copies.len() == FILES.len() && copies.iter().all(|copy| copy.as_ref() == Some(&all));
    if !copies.is_empty() && !agree {
        // The next fault may be in the other.
        if let Err(error) = write(folder, vfs, &all) {
            tracing::warn!(%error, "the list of what did not reproduce has one copy only");
        }
    }
    Ok(all)
}

fn read_one(path: &Path, vfs: &dyn Vfs) -> Result<Vec<Quarantined>> {
    let file = vfs.open(path)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX)];
    file.read_at(&mut bytes, 0)?;
    let bad = |why: &str| Error::corrupt(format!("{}: {why}", path.display()));
    if bytes.first() == Some(&b'[') {
        // As format 1 had it: one file, without a digest.
        return serde_json::from_slice(&bytes).map_err(|e| bad(&e.to_string()));
    }
    let line = bytes.iter().position(|byte| *byte == b'\n');
    let (said, text) = line.map_or((&[][..], &[][..]), |end| (&bytes[..end], &bytes[end + 1..]));
    if said != digest(text).as_bytes() {
        return Err(bad("it does not match its digest"));
    }
    serde_json::from_slice(text).map_err(|e| bad(&e.to_string()))
}

/// Replaces both: each complete under a new name and synced before it has the old one's.
///
/// # Errors
/// As the file system says.
pub(super) fn write(folder: &Path, vfs: &dyn Vfs, list: &[Quarantined]) -> Result<()> {
    let text = serde_json::to_string(list).map_err(|e| Error::corrupt(e.to_string()))?;
    let bytes = format!("{}\n{text}", digest(text.as_bytes()));
    for name in FILES {
        let new = folder.join(format!("{name}.new"));
        vfs.remove(&new)?;
        let file = vfs.create(&new)?;
        file.write_at(bytes.as_bytes(), 0)?;
        file.sync()?;
        vfs.publish(&new, &folder.join(name))?;
    }
    Ok(())
}

fn digest(text: &[u8]) -> String {
    hex(&blake3::derive_key(CONTEXT, text))
}
