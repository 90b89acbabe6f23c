//! Python's buffer protocol.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::slice;

/// Bytes of elements: a buffer of unsigned bytes. Where it is writable, writes stay in the process and are never served to
/// anyone.
#[pyclass(module = "prebake._native")]
pub(crate) struct View {
    view: prebake_client::View,
    writable: bool,
}

impl View {
    pub(crate) fn new(view: prebake_client::View) -> View {
        View::of(view, true)
    }

    /// With `writable` false nobody may write to it, whether it is a copy or not.
    pub(crate) fn of(view: prebake_client::View, writable: bool) -> View {
        View { view, writable }
    }

    /// The first byte, how many there are, and whether they may be written. They stay where they are for as long as this lives.
    pub(super) fn memory(&mut self) -> (*mut u8, usize, bool) {
        let length = self.view.len();
        let start = match self.writable {
            true => self.view.as_mut_slice().map(<[u8]>::as_mut_ptr),
            false => None,
        };
        let writable = start.is_some();
        let start = start.unwrap_or_else(|| self.view.as_slice().as_ptr().cast_mut());
        (start, length, writable)
    }
}

#[pymethods]
impl View {
    fn __len__(&self) -> usize {
        self.view.len()
    }

    /// # Safety
    /// Called by Python with a buffer structure to fill.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        buffer: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (start, length, writable) = slf.try_borrow_mut()?.memory();
        let readonly = c_int::from(!writable);
        let length = ffi::Py_ssize_t::try_from(length)?;
        let start = start.cast();
        // SAFETY: the bytes stay where they are for as long as the object lives, and the filled buffer holds a reference to
        // it. Python's arrays may alias each other; nothing in Rust looks at the bytes again. Those that are not to be written
        // are not written.
        let failed = unsafe { ffi::PyBuffer_FillInfo(buffer, slf.as_ptr(), start, length, readonly, flags) };
        if failed != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}

/// The parts of an element, held by their buffers.
pub(crate) struct Parts(Vec<PyUntypedBuffer>);

impl Parts {
    /// # Errors
    /// `BufferError` for memory in pieces, which has no bytes side by side to copy.
    pub(crate) fn new(parts: &[Bound<'_, PyAny>]) -> PyResult<Parts> {
        let parts = parts.iter().map(|part| {
            let buffer = PyUntypedBuffer::get(part)?;
            if buffer.is_c_contiguous() || buffer.is_fortran_contiguous() {
                return Ok(buffer);
            }
            Err(PyBufferError::new_err(
                "a part of an element is not contiguous: copy it first",
            ))
        });
        parts.collect::<PyResult<_>>().map(Parts)
    }

    pub(crate) fn slices(&self) -> Vec<&[u8]> {
        let slice = |buffer: &PyUntypedBuffer| match buffer.len_bytes() {
            0 => &[][..],
            // SAFETY: contiguous memory of that length (new), kept by the buffer. Another thread that writes to it during
            // the copy races with its own data, as with any reader of a buffer.
            length => unsafe { slice::from_raw_parts(buffer.buf_ptr().cast(), length) },
        };
        self.0.iter().map(slice).collect()
    }
}
