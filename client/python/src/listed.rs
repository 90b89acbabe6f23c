//! What a folder holds, by the names in it.

use pyo3::prelude::*;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

const CONTEXT: &str = "prebake 2026 listed folder v1";

/// Hexadecimal digits: enough to tell two states of one folder apart.
const DIGITS: usize = 16;

/// Digest of the names in a folder in any order, as digits; `None` if there are more than `most`. Raises `OSError`.
#[pyfunction]
pub(crate) fn listed(py: Python<'_>, folder: PathBuf, most: usize) -> PyResult<Option<String>> {
    Ok(py.detach(|| digest(folder, most))?)
}

fn digest(folder: PathBuf, most: usize) -> io::Result<Option<String>> {
    let found = fs::read_dir(folder)?.take(most + 1);
    let mut names: Vec<OsString> = found
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<_>>()?;
    if names.len() > most {
        return Ok(None);
    }
    names.sort_unstable();
    // No name has this byte, so that no two lists read alike.
    let mut all = Vec::new();
    for name in &names {
        all.extend_from_slice(name.as_bytes());
        all.push(0);
    }
    let digest = blake3::Hasher::new_derive_key(CONTEXT).update(&all).finalize();
    Ok(Some(digest.to_hex()[..DIGITS].to_owned()))
}
