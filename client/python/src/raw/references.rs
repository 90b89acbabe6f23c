//! What objects refer to, compared where it lies. `gc.get_referents` makes a list of it each time, which costs ten times as
//! much: before every batch, as much as the batch.

use pyo3::ffi::{
    Py_TPFLAGS_HAVE_GC, Py_TYPE, Py_ssize_t, Py_tp_is_gc, Py_tp_traverse, PyDict_GetItemWithError,
    PyErr_Clear, PyList_GetItem, PyObject, PyType_GetFlags, PyType_GetSlot, inquiry, traverseproc,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::ffi::{c_int, c_void};
use std::ptr;

/// A list, and how much of it was met.
struct Expected {
    list: *mut PyObject,
    at: Py_ssize_t,
    length: Py_ssize_t,
}

impl Expected {
    /// Whether the next of the list is this object.
    ///
    /// # Safety
    /// The interpreter's lock is held, and the list is one.
    unsafe fn is_next(&mut self, object: *mut PyObject) -> bool {
        // SAFETY: the caller's promise; the place is within the list.
        let same = self.at < self.length && unsafe { PyList_GetItem(self.list, self.at) } == object;
        self.at += 1;
        same
    }
}

/// Whether `gc.get_referents(*objects)` is a list of the same objects as `referents`.
#[pyfunction]
pub(crate) fn refer_to(objects: &Bound<'_, PyList>, referents: &Bound<'_, PyList>) -> PyResult<bool> {
    let mut expected = Expected {
        list: referents.as_ptr(),
        at: 0,
        length: Py_ssize_t::try_from(referents.len())?,
    };
    for object in objects {
        let object = object.as_ptr();
        // SAFETY: the interpreter's lock is held and the object is alive. Visiting compares addresses and calls nothing of
        // Python's that could run code, so that neither list changes meanwhile.
        let stopped = unsafe {
            let Some(traverse) = traverse(object) else {
                continue;
            };
            traverse(object, visit, ptr::from_mut(&mut expected).cast())
        };
        if stopped != 0 {
            return Ok(false);
        }
    }
    Ok(expected.at == expected.length)
}

/// What visits all that an object refers to; None if it is of a kind that refers to nothing.
///
/// # Safety
/// The interpreter's lock is held, and the object is alive.
unsafe fn traverse(object: *mut PyObject) -> Option<traverseproc> {
    // SAFETY: the caller's promise. A type's slot of either number holds a function of the type that is named here, or null; the
    // first says of an object whether it takes part in the collection of garbage, and changes nothing.
    unsafe {
        let kind = Py_TYPE(object);
        if PyType_GetFlags(kind) & Py_TPFLAGS_HAVE_GC == 0 {
            return None;
        }
        let is_gc = PyType_GetSlot(kind, Py_tp_is_gc);
        if !is_gc.is_null() && std::mem::transmute::<*mut c_void, inquiry>(is_gc)(object) == 0 {
            return None;
        }
        let traverse = PyType_GetSlot(kind, Py_tp_traverse);
        (!traverse.is_null()).then(|| std::mem::transmute::<*mut c_void, traverseproc>(traverse))
    }
}

/// # Safety
/// Called by `traverse` with what it was given, and the interpreter's lock held.
unsafe extern "C" fn visit(object: *mut PyObject, expected: *mut c_void) -> c_int {
    // SAFETY: it is what `refer_to` gave, which nobody else uses meanwhile.
    let expected = unsafe { &mut *expected.cast::<Expected>() };
    // SAFETY: `traverse` was called with the lock held.
    c_int::from(!unsafe { expected.is_next(object) })
}

/// Whether, in each of these dictionaries in turn, what is under each of its names is the next object of `values`; `absent`
/// stands for what is not there.
#[pyfunction]
pub(crate) fn hold_under(
    spaces: Vec<(Bound<'_, PyDict>, Bound<'_, PyTuple>)>,
    values: &Bound<'_, PyList>,
    absent: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let mut expected = Expected {
        list: values.as_ptr(),
        at: 0,
        length: Py_ssize_t::try_from(values.len())?,
    };
    for (space, names) in spaces {
        for name in names.iter_borrowed() {
            if !name.is_exact_instance_of::<PyString>() {
                return Ok(false);
            }
            // SAFETY: the interpreter's lock is held; a dictionary and a text, whose hash runs no code of a user's. A key that
            // compares by such might, and then its dictionary is still alive; what is found is compared by address alone.
            let same = unsafe {
                let found = PyDict_GetItemWithError(space.as_ptr(), name.as_ptr());
                if found.is_null() {
                    PyErr_Clear();
                }
                expected.is_next(if found.is_null() { absent.as_ptr() } else { found })
            };
            if !same {
                return Ok(false);
            }
        }
    }
    Ok(expected.at == expected.length)
}
