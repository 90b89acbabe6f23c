//! Which files a distribution came with, by the record that installers keep of them (PEP 376, PEP 627).

use pyo3::prelude::*;
use rustix::fs::{AtFlags, statat};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const CONTEXT: &str = "prebake 2026 record v1";

/// Hexadecimal digits: enough to tell two builds of one version apart.
const DIGITS: usize = 16;

/// Digest of the record's lines in any order, as digits, and the first parts of the names in it; `None` for the digest if there
/// is no record or nothing is left of it. Of files that the build made: what an installer adds differs from one environment to
/// the next (its `own` notes, compiled modules, which have no digest, and scripts, which lie outside and name their
/// interpreter).
#[pyfunction]
pub(crate) fn read_record(path: PathBuf, own: &str) -> (Option<String>, BTreeSet<String>) {
    let Ok(record) = fs::read(path) else {
        return (None, BTreeSet::new());
    };
    let lines = record
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty() && !line.starts_with(own.as_bytes()) && !line.starts_with(b".."));
    let mut lines: Vec<&[u8]> = lines.collect();
    // Installers sort them, so that this mostly passes them once.
    lines.sort_unstable();
    let mut files = Vec::with_capacity(record.len());
    for line in lines.iter().filter(|line| !line.ends_with(b",,")) {
        files.extend_from_slice(line);
        files.push(b'\n');
    }
    let digest = blake3::Hasher::new_derive_key(CONTEXT)
        .update(&files)
        .finalize()
        .to_hex();
    let mut tops: Vec<&[u8]> = lines
        .iter()
        .filter_map(|line| line.split(|&byte| b"/,".contains(&byte)).next())
        .collect();
    // Equal ones lie beside each other; a set would be asked for each line.
    tops.dedup();
    let tops = BTreeSet::from_iter(tops);
    let tops = tops
        .into_iter()
        .map(|top| String::from_utf8_lossy(top).into_owned());
    (
        (!files.is_empty()).then(|| digest[..DIGITS].to_owned()),
        tops.collect(),
    )
}

/// Those of some files below a folder that were written to later than another one there, or are gone; none if that one is not
/// there. By names below it: the way to the folder, most of each path, is gone once.
#[pyfunction]
pub(crate) fn younger(py: Python<'_>, folder: PathBuf, than: PathBuf, files: Vec<String>) -> Vec<String> {
    py.detach(|| {
        let Ok(folder) = File::open(folder) else {
            return Vec::new();
        };
        let written = |path: &Path| {
            let found = statat(&folder, path, AtFlags::empty()).ok();
            found.map(|found| (found.st_mtime, found.st_mtime_nsec))
        };
        let Some(then) = written(&than) else {
            return Vec::new();
        };
        files
            .into_iter()
            .filter(|file| written(Path::new(file)).is_none_or(|time| time > then))
            .collect()
    })
}
