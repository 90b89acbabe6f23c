//! Looks at files that are not opened: `os.stat`, `os.lstat`, `os.access`, `os.readlink`, `os.fstat`. Python has no audit event for them, and
//! `os.path.exists` and `pathlib` are made of them.
//!
//! The function behind each is exchanged for one that tells first and then calls it. The Python object stays the same, so
//! that whoever holds, compares or pickles it sees no difference, and no module is changed. Its hash is another, for which the
//! caller cares.

use super::audit;
use pyo3::ffi::{
    METH_FASTCALL, METH_KEYWORDS, Py_ssize_t, PyCFunction_CheckExact, PyCFunction_GetFlags,
    PyCFunction_GetFunction, PyCFunctionFastWithKeywords, PyMethodDef, PyMethodDefPointer, PyObject,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ptr;
use std::sync::OnceLock;

/// Names of the events, by the number of the function.
const EVENTS: [&str; 5] = ["os.stat", "os.lstat", "os.access", "os.readlink", "os.fstat"];

/// What tells, by the number of the function.
const TELLERS: [PyCFunctionFastWithKeywords; 5] = [tell::<0>, tell::<1>, tell::<2>, tell::<3>, tell::<4>];

/// What was there before.
static ORIGINALS: [OnceLock<PyCFunctionFastWithKeywords>; 5] = [const { OnceLock::new() }; 5];

/// The beginning of a `PyCFunctionObject`, as in every CPython since 3.0; [`definition`] checks it.
#[repr(C)]
struct FunctionObject {
    head: PyObject,
    definition: *mut PyMethodDef,
}

/// From now on has the handler of [`audit::listen`] called before each of the functions of `os`, which are given in the order
/// of the events. False if one of them is not what it is known to be.
#[pyfunction]
pub(crate) fn listen_looks(functions: Vec<Bound<'_, PyAny>>) -> bool {
    functions.len() == EVENTS.len()
        && functions
            .iter()
            .enumerate()
            .all(|(number, function)| exchange(number, function).is_some())
}

fn exchange(number: usize, function: &Bound<'_, PyAny>) -> Option<()> {
    let definition = definition(function)?;
    // SAFETY: `definition` proved what it points to; it is static, and the interpreter's lock is held.
    let original = unsafe { (*definition).ml_meth.PyCFunctionFastWithKeywords };
    // Before it is needed.
    ORIGINALS[number].set(original).ok()?;
    // SAFETY: as above. Callers read the pointer at every call, under the interpreter's lock; both functions have the type
    // that the flags say.
    unsafe {
        (*definition).ml_meth = PyMethodDefPointer {
            PyCFunctionFastWithKeywords: TELLERS[number],
        };
    }
    Some(())
}

/// The static definition of a builtin function that is called with positional and named arguments side by side.
fn definition(function: &Bound<'_, PyAny>) -> Option<*mut PyMethodDef> {
    let object = function.as_ptr();
    // SAFETY: it is an object; the others are called only on what the first says is a builtin function.
    let (known, is_of_kind) = unsafe {
        if PyCFunction_CheckExact(object) == 0 {
            return None;
        }
        let flags = PyCFunction_GetFlags(object);
        (
            PyCFunction_GetFunction(object),
            flags == METH_FASTCALL | METH_KEYWORDS,
        )
    };
    let known = known? as usize;
    if !is_of_kind {
        return None;
    }
    // SAFETY: builtin functions have begun so since Python 3.0, and the stable interface forbids nothing else of 3.11 on. What
    // is read is compared below with what the interface says, before anything is written.
    let definition = unsafe { (*object.cast::<FunctionObject>()).definition };
    if definition.is_null() {
        return None;
    }
    // SAFETY: as above.
    let found = unsafe { (*definition).ml_meth.PyCFunctionFastWithKeywords } as usize;
    (found == known).then_some(definition)
}

/// # Safety
/// Called by Python in place of function `N`, with its arguments and the interpreter's lock held.
unsafe extern "C" fn tell<const N: usize>(
    module: *mut PyObject,
    arguments: *const *mut PyObject,
    count: Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    if audit::is_recording() {
        // SAFETY: the interpreter's lock is held for as long as this function runs.
        let py = unsafe { Python::assume_attached() };
        // SAFETY: Python's promise: the positional arguments, and after them one for each of the names.
        let told = unsafe { as_given(py, arguments, count, names) }
            .and_then(|given| audit::tell(py, EVENTS[N], given));
        if let Err(error) = told {
            // Of the user's own: Ctrl-C.
            error.restore(py);
            return ptr::null_mut();
        }
    }
    let Some(original) = ORIGINALS[N].get() else {
        unreachable!("it is set before this function is put in its place");
    };
    // SAFETY: it is called as this one was.
    unsafe { original(module, arguments, count, names) }
}

/// The arguments in order, and the names of the last of them or None.
///
/// # Safety
/// `arguments` are `count` objects, and one more for each name in the tuple `names`, which may be null.
unsafe fn as_given<'py>(
    py: Python<'py>,
    arguments: *const *mut PyObject,
    count: Py_ssize_t,
    names: *mut PyObject,
) -> PyResult<Bound<'py, PyTuple>> {
    // SAFETY: the caller's promise; they are borrowed from the caller for as long as this runs.
    let names = unsafe { Bound::from_borrowed_ptr_or_opt(py, names) };
    let named = names.as_ref().map_or(Ok(0), |names| names.len())?;
    let total = usize::try_from(count)? + named;
    let given: Vec<Bound<'py, PyAny>> = (0..total)
        // SAFETY: as above.
        .map(|i| unsafe { Bound::from_borrowed_ptr(py, *arguments.add(i)) })
        .collect();
    let given = PyTuple::new(py, given)?;
    PyTuple::new(
        py,
        [
            given.into_any(),
            names.unwrap_or_else(|| py.None().into_bound(py)),
        ],
    )
}
