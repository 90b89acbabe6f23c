//! Which files a distribution came with, by the record that installers keep of them (PEP 376, PEP 627).

use pyo3::prelude::*;
use std::fs;
use std::path::PathBuf;

const CONTEXT: &str = "prebake 2026 record v1";

/// Hexadecimal digits: enough to tell two builds of one version apart.
const DIGITS: usize = 16;

/// Digest of the record's lines in any order, as digits; `None` if there is no record or nothing is left of it. Of files
/// that the build made: what an installer adds differs from one environment to the next (its `own` notes, compiled modules,
/// which have no digest, and scripts, which lie outside and name their interpreter).
#[pyfunction]
pub(crate) fn record_digest(path: PathBuf, own: &str) -> Option<String> {
    let record = fs::read(path).ok()?;
    let mut files: Vec<&[u8]> = record
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| {
            let is_own = line.starts_with(own.as_bytes()) || line.starts_with(b"..");
            !line.is_empty() && !line.ends_with(b",,") && !is_own
        })
        .collect();
    files.sort_unstable();
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    for file in &files {
        hasher.update(file).update(b"\n");
    }
    let digest = hasher.finalize().to_hex();
    (!files.is_empty()).then(|| digest[..DIGITS].to_owned())
}
