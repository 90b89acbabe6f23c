//! Bytes compared where they lie. To have them copied out by `ctypes` costs several times as much, between two items whose making
//! has emptied the processor's caches.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Whether each of these addresses holds these bytes.
///
/// The caller answers for it that so many can be read there: `prebake.purity.tripwire` tests on generators of its own where a state lies,
/// and holds on to those that it asks for.
#[pyfunction]
pub(crate) fn lie_at(each: Vec<(usize, Bound<'_, PyBytes>)>) -> bool {
    each.iter().all(|(address, expected)| {
        let expected = expected.as_bytes();
        // SAFETY: the caller's promise; the other side is a slice of that length. No reference to the memory is made: a thread
        // without the interpreter's lock may draw meanwhile, which decides only what is found.
        let differ = unsafe {
            libc::memcmp(
                *address as *const libc::c_void,
                expected.as_ptr().cast(),
                expected.len(),
            )
        };
        differ == 0
    })
}
