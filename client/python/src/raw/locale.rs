//! The process's locale, asked for as often as an element is: by Python's function it costs half a microsecond.

use pyo3::prelude::*;
use std::ffi::CStr;
use std::ptr;

/// How texts and numbers are written and ordered.
pub(crate) struct Locale(Vec<u8>);

impl Locale {
    /// As it is now.
    pub(crate) fn new(py: Python<'_>) -> Locale {
        Locale(now(py).to_vec())
    }

    /// Whether it still is.
    pub(crate) fn holds(&self, py: Python<'_>) -> bool {
        now(py) == self.0
    }
}

/// Its name in all categories; empty where it has none.
fn now(_py: Python<'_>) -> &[u8] {
    // SAFETY: without a name nothing is set. What is returned ends with a zero and stays until the locale is set again, which
    // Python does under the interpreter's lock. That is held for as long as the name is. (Compiled code that sets it without
    // that lock breaks Python's own `locale.setlocale` in the same way.)
    unsafe {
        let name = libc::setlocale(libc::LC_ALL, ptr::null());
        if name.is_null() {
            &[]
        } else {
            CStr::from_ptr(name).to_bytes()
        }
    }
}
