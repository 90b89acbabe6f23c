//! `prebake._native`: [`prebake_client`] for Python.
//!
//! Thin: arguments in, results out, errors with a code. Every call that may wait, copy or take a lock lets go of the
//! GIL first; none of the library's locks is held while the GIL is taken.

mod array_layouts;
mod counters;
mod error;
mod exit;
mod items;
mod job;
mod listed;
mod look;
mod plain;
#[allow(unsafe_code)]
mod raw;
mod record;

use crate::error::raise;
use crate::raw::buffer::Parts;
use prebake_client::{Code, Error, Folder};
use prebake_fingerprint::input;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::fs::File;
use std::path::PathBuf;

/// Bytes from which hashing lets go of the GIL: less is done sooner than another thread has started.
const DETACHED: usize = 1 << 20;

/// BLAKE3-256 of the data in derive-key mode. Any contiguous buffer is read where it lies. On one thread: a pool of
/// them would not survive a fork.
#[pyfunction]
fn digest(py: Python<'_>, context: &str, data: Bound<'_, PyAny>) -> PyResult<Cow<'static, [u8]>> {
    let parts = Parts::new(&[data])?;
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for slice in parts.slices() {
        if slice.len() < DETACHED {
            hasher.update(slice);
        } else {
            py.detach(|| hasher.update(slice));
        }
    }
    Ok(hasher.finalize().as_bytes().to_vec().into())
}

/// Content digest of a file.
#[pyfunction]
fn hash_file(py: Python<'_>, path: PathBuf) -> PyResult<Cow<'static, [u8]>> {
    let digest = py.detach(|| File::open(&path).and_then(input::content));
    let missing = |e| Error::new(Code::InputMissing, format!("cannot read {}: {e}", path.display()));
    Ok(digest.map_err(missing).map_err(raise)?.0.to_vec().into())
}

/// The folder that the daemon is met in.
#[pyfunction]
fn folder() -> PyResult<PathBuf> {
    Ok(Folder::resolve(None).map_err(raise)?.path().to_path_buf())
}

/// To be called before a fork: ends the threads of this module.
#[pyfunction]
fn before_fork(py: Python<'_>) {
    py.detach(prebake_client::before_fork);
}

/// To be called in a forked child: closes what it inherited, touching no lock.
#[pyfunction]
fn after_fork() {
    prebake_client::after_fork();
}

/// The native module: the Rust client under Python's buffer protocol. What it does without references to it rests on the
/// interpreter's lock.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use super::counters::{CounterTable, Counters};
    #[pymodule_export]
    use super::error::Error;
    #[pymodule_export]
    use super::items::Items;
    #[pymodule_export]
    use super::job::{Collection, Files, Job, connect, files};
    #[pymodule_export]
    use super::listed::listed;
    #[pymodule_export]
    use super::look::Look;
    #[pymodule_export]
    use super::plain::{digest_plain, identical, texts_without};
    #[pymodule_export]
    use super::raw::audit::{listen, record_begins, record_ends};
    #[pymodule_export]
    use super::raw::buffer::View;
    #[pymodule_export]
    use super::raw::looks::listen_looks;
    #[pymodule_export]
    use super::raw::memory::lie_at;
    #[pymodule_export]
    use super::raw::opens::{forget_opens, take_opens};
    #[pymodule_export]
    use super::record::{read_record, younger};
    #[pymodule_export]
    use super::{after_fork, before_fork, digest, folder, hash_file};
}
