//! NumPy's arrays, made by its own functions of C: through `numpy.ndarray(...)` one takes four times as long, which is as much
//! as to read a sentence's worth of numbers.

use super::buffer::View;
use numpy::npyffi::{NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, get_type_object, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use std::ffi::c_int;
use std::ops::Range;
use std::ptr;

/// Type and shape of a C-ordered array.
pub(crate) struct Form {
    dtype: Py<PyArrayDescr>,
    shape: Vec<npy_intp>,
    bytes: usize,
}

impl Form {
    /// Of NumPy's type and a tuple of lengths, or of None, which is none; nor is what has no size, for which NumPy would choose
    /// one.
    pub(crate) fn new(of: &Bound<'_, PyAny>) -> PyResult<Option<Form>> {
        let Some((dtype, lengths)) = of.extract::<Option<(Bound<'_, PyArrayDescr>, Vec<usize>)>>()? else {
            return Ok(None);
        };
        let item_bytes = dtype.itemsize();
        let bytes = lengths
            .iter()
            .try_fold(item_bytes, |bytes, length| bytes.checked_mul(*length));
        let shape = lengths.into_iter().map(npy_intp::try_from).collect();
        let (Some(bytes), Ok(shape), true) = (bytes, shape, item_bytes > 0) else {
            return Ok(None);
        };
        let dtype = dtype.unbind();
        Ok(Some(Form { dtype, shape, bytes }))
    }
}

/// An array over a part of a view, of `stacked` such ones if it is said, to be written to if the view may be; None if the part is
/// too short for it.
pub(crate) fn array<'py>(
    view: &Bound<'py, View>,
    part: Range<usize>,
    form: &Form,
    stacked: Option<usize>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = view.py();
    let (start, length, writable) = view.try_borrow_mut()?.memory();
    let bytes = form.bytes.checked_mul(stacked.unwrap_or(1));
    if part.start > part.end || part.end > length || bytes.is_none_or(|bytes| part.len() < bytes) {
        return Ok(None);
    }
    let flags = if writable { NPY_ARRAY_WRITEABLE } else { 0 };
    let before = stacked.map(npy_intp::try_from).transpose()?;
    let shape: Vec<npy_intp> = before.into_iter().chain(form.shape.iter().copied()).collect();
    let dimensions = c_int::try_from(shape.len())?;
    // SAFETY: the interpreter's lock is held. The type is the one of NumPy that the shape was given with, of which a reference is
    // passed on. The memory is of that many bytes (checked above) and stays where it is for as long as the view lives, to which
    // the array is given a reference before anyone else sees it. NumPy reads the shape alone, and finds out what is aligned.
    unsafe {
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            form.dtype.clone_ref(py).into_bound(py).into_dtype_ptr(),
            dimensions,
            shape.as_ptr().cast_mut(),
            ptr::null_mut(),
            start.add(part.start).cast(),
            flags,
            ptr::null_mut(),
        );
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        let base = view.clone().into_ptr();
        if PY_ARRAY_API.PyArray_SetBaseObject(py, made.as_ptr().cast(), base) != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(Some(made))
    }
}
