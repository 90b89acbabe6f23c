//! The paths of a list, taken in one walk over it: item by item, the walk takes longer than what is done with them.

use prebake_client::Paths;
use pyo3::ffi::{PyErr_Clear, PyList_GetItem, PyUnicode_AsUTF8AndSize, PyUnicode_CheckExact};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::slice;

/// The paths in a list; None unless each is a text of nothing but ASCII, and an absolute path that can be written in one
/// way: what else there is takes a way through the encoding of file names, the working folder or an object store.
pub(crate) fn paths(list: &Bound<'_, PyList>) -> PyResult<Option<Paths>> {
    let mut paths = Paths::with_capacity(list.len());
    for i in 0..list.len() {
        let place = isize::try_from(i)?;
        // SAFETY: the interpreter's lock is held, and nothing here runs code of Python's: the list stays as it is, and holds
        // each object for as long as its bytes are looked at. They lie in the object and do not change.
        let text = unsafe {
            let object = PyList_GetItem(list.as_ptr(), place);
            if object.is_null() || PyUnicode_CheckExact(object) == 0 {
                return Ok(None);
            }
            let mut length = 0;
            let bytes = PyUnicode_AsUTF8AndSize(object, &raw mut length);
            if bytes.is_null() {
                // Half of a surrogate pair.
                PyErr_Clear();
                return Ok(None);
            }
            slice::from_raw_parts(bytes.cast::<u8>(), usize::try_from(length)?)
        };
        if text.first() != Some(&b'/') || !text.is_ascii() || has_detour(text) {
            return Ok(None);
        }
        paths.push_absolute(text);
    }
    Ok(Some(paths))
}

/// Whether an absolute path has a part by which it may name the same as another text does.
fn has_detour(path: &[u8]) -> bool {
    // Without a way out, so that it takes many bytes at a time: hardly any path has either.
    let pairs = path.iter().zip(&path[1..]);
    let is_suspect = pairs.fold(path.ends_with(b"/"), |found, (&a, &b)| {
        found | ((a == b'/') & ((b == b'/') | (b == b'.')))
    });
    is_suspect
        && path[1..]
            .split(|&byte| byte == b'/')
            .any(|part| matches!(part, b"" | b"." | b".."))
}
