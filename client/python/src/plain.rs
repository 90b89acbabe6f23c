//! Digests of plain values (numbers, text, and lists, tuples and dictionaries of them), at the speed of a walk over memory;
//! and lists compared by identity.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::borrow::Cow;

const CONTEXT: &str = "prebake 2026 plain value v1";

/// Containers in containers. Deeper ones, and such as hold themselves, are left to the general description.
const DEPTH_MAX: usize = 32;

/// Values met on the way, over and over where containers share parts: half a second. Data sets of some ten million samples
/// are below.
const VALUES_MAX: usize = 1 << 26;

/// Bytes gathered before they are hashed: small parts one by one would cost more than their bytes.
const GATHERED: usize = 64 << 10;

/// Digest of a value of exact builtin types; `None` for what holds anything else. It depends on the values alone, not
/// on which of them are one object.
///
/// # Errors
/// `OverflowError` if it has more values than can be walked over.
#[pyfunction]
pub(crate) fn digest_plain(value: &Bound<'_, PyAny>) -> PyResult<Option<Cow<'static, [u8]>>> {
    let mut walk = Walk {
        hasher: blake3::Hasher::new_derive_key(CONTEXT),
        gathered: Vec::with_capacity(GATHERED),
        left: VALUES_MAX,
    };
    if !walk.value(value, 0)? {
        return Ok(None);
    }
    walk.hasher.update(&walk.gathered);
    Ok(Some(walk.hasher.finalize().as_bytes().to_vec().into()))
}

/// Whether two lists are of the same objects, as `all(map(operator.is_, a, b))` says ten times as slowly.
#[pyfunction]
pub(crate) fn identical(a: &Bound<'_, PyList>, b: &Bound<'_, PyList>) -> bool {
    a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.is(&b))
}

/// Whether a list is of nothing but texts, none of which begins so. Of a million, asking each in Python is half a
/// second, which a first batch waits for.
#[pyfunction]
pub(crate) fn texts_without(texts: &Bound<'_, PyList>, start: &str) -> bool {
    texts.iter().all(|each| {
        let text = each.cast_exact::<PyString>().map(|text| text.to_str());
        matches!(text, Ok(Ok(text)) if !text.starts_with(start))
    })
}

struct Walk {
    hasher: blake3::Hasher,
    gathered: Vec<u8>,
    left: usize,
}

impl Walk {
    /// Whether it is plain. Parts are tagged and length-prefixed.
    fn value(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<bool> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or_else(|| PyOverflowError::new_err("too many values"))?;
        if let Ok(text) = value.cast_exact::<PyString>() {
            // Lone surrogates have no UTF-8.
            return Ok(text.to_str().map(|text| self.part(b's', text.as_bytes())).is_ok());
        }
        if value.is_exact_instance_of::<PyInt>() {
            // Larger ones are rare.
            return Ok(value
                .extract::<i64>()
                .map(|number| self.fixed(b'i', number.to_be_bytes()))
                .is_ok());
        }
        if depth == DEPTH_MAX {
            return Ok(false);
        }
        if let Ok(members) = value.cast_exact::<PyTuple>() {
            self.fixed(b't', (members.len() as u64).to_be_bytes());
            for member in members.iter_borrowed() {
                if !self.value(&member, depth + 1)? {
                    return Ok(false);
                }
            }
        } else if let Ok(members) = value.cast_exact::<PyList>() {
            self.fixed(b'l', (members.len() as u64).to_be_bytes());
            for member in members {
                if !self.value(&member, depth + 1)? {
                    return Ok(false);
                }
            }
        } else if let Ok(members) = value.cast_exact::<PyDict>() {
            self.fixed(b'd', (members.len() as u64).to_be_bytes());
            for (key, member) in members {
                if !self.value(&key, depth + 1)? || !self.value(&member, depth + 1)? {
                    return Ok(false);
                }
            }
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            self.fixed(b'f', number.value().to_bits().to_be_bytes());
        } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            self.part(b'b', bytes.as_bytes());
        } else if let Ok(flag) = value.cast_exact::<PyBool>() {
            self.fixed(b'o', [u8::from(flag.is_true())]);
        } else if value.is_none() {
            self.fixed(b'n', []);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn fixed<const N: usize>(&mut self, tag: u8, bytes: [u8; N]) {
        self.gathered.push(tag);
        self.gathered.extend_from_slice(&bytes);
        self.settle();
    }

    fn part(&mut self, tag: u8, bytes: &[u8]) {
        self.fixed(tag, (bytes.len() as u64).to_be_bytes());
        if bytes.len() < GATHERED {
            self.gathered.extend_from_slice(bytes);
            self.settle();
        } else {
            self.hasher.update(&self.gathered);
            self.gathered.clear();
            self.hasher.update(bytes);
        }
    }

    fn settle(&mut self) {
        if self.gathered.len() >= GATHERED {
            self.hasher.update(&self.gathered);
            self.gathered.clear();
        }
    }
}
