//! Python's audit hook. Every event of the process ends here (each `gc.get_referents` is one), so that what matters to nobody
//! must cost next to nothing: a hook written in Python takes 200 ns for each.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{PyInterpreterState, PyInterpreterState_Get, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Records that are open in the process.
static RECORDS: AtomicUsize = AtomicUsize::new(0);

/// Who is told of events.
struct Listener {
    handler: Py<PyAny>,
    events: Vec<CString>,
    /// Other interpreters of the process must not be lent this one's objects.
    interpreter: *mut PyInterpreterState,
}

// SAFETY: the pointer is compared and never followed.
unsafe impl Send for Listener {}
// SAFETY: as above.
unsafe impl Sync for Listener {}

/// Hooks cannot be removed: there is one for as long as the process lives.
static LISTENER: OnceLock<Listener> = OnceLock::new();

type Hook = unsafe extern "C" fn(*const c_char, *mut PyObject, *mut c_void) -> c_int;
type AddHook = unsafe extern "C" fn(Hook, *mut c_void) -> c_int;

/// From now on has `handler(event, arguments)` called for the named events while a record is open. False if Python has no
/// native hooks, or there is one already.
#[pyfunction]
pub(crate) fn listen(py: Python<'_>, handler: Py<PyAny>, events: Vec<String>) -> PyResult<bool> {
    // No part of the stable interface, so that it is looked up and not linked.
    // SAFETY: the name is a C string; the handle stands for all that is loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PySys_AddAuditHook".as_ptr()) };
    if found.is_null() {
        return Ok(false);
    }
    let events = events.into_iter().map(CString::new).collect::<Result<_, _>>()?;
    let listener = Listener {
        handler,
        events,
        // SAFETY: the interpreter's lock is held.
        interpreter: unsafe { PyInterpreterState_Get() },
    };
    if LISTENER.set(listener).is_err() {
        return Ok(false);
    }
    // SAFETY: a function of this name has had this type since it was made (CPython 3.8).
    let add: AddHook = unsafe { std::mem::transmute(found) };
    // SAFETY: the interpreter's lock is held; the hook needs nothing but statics.
    if unsafe { add(hear, ptr::null_mut()) } < 0 {
        return Err(PyErr::take(py).unwrap_or_else(|| PyRuntimeError::new_err("no hook was added")));
    }
    Ok(true)
}

/// A record is opened.
#[pyfunction]
pub(crate) fn record_begins() {
    RECORDS.fetch_add(1, Ordering::Relaxed);
}

/// A record is closed.
#[pyfunction]
pub(crate) fn record_ends() {
    RECORDS.fetch_sub(1, Ordering::Relaxed);
}

/// # Safety
/// Called by Python with the interpreter's lock held, an event's name as a C string, and a tuple.
unsafe extern "C" fn hear(event: *const c_char, arguments: *mut PyObject, _: *mut c_void) -> c_int {
    if !is_recording() {
        return 0;
    }
    let Some(listener) = LISTENER.get() else {
        return 0;
    };
    // SAFETY: Python's promise.
    let event = unsafe { CStr::from_ptr(event) };
    if !listener.events.iter().any(|each| each.as_c_str() == event) {
        return 0;
    }
    // SAFETY: the interpreter's lock is held for as long as this function runs.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: Python's promise; its caller keeps a reference.
    let arguments = unsafe { Bound::from_borrowed_ptr(py, arguments) };
    match handle(py, listener, event.to_str().unwrap_or_default(), arguments) {
        Ok(()) => 0,
        Err(error) => {
            // Of the user's own: Ctrl-C.
            error.restore(py);
            -1
        }
    }
}

/// Whether a record is open.
pub(super) fn is_recording() -> bool {
    RECORDS.load(Ordering::Relaxed) != 0
}

/// Has the handler called for something that is no audit event.
pub(super) fn tell(py: Python<'_>, event: &str, arguments: Bound<'_, PyTuple>) -> PyResult<()> {
    let listener = LISTENER.get();
    listener.map_or(Ok(()), |l| handle(py, l, event, arguments.into_any()))
}

fn handle(py: Python<'_>, listener: &Listener, event: &str, arguments: Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: the interpreter's lock is held.
    if unsafe { PyInterpreterState_Get() } == listener.interpreter {
        listener.handler.call1(py, (event, arguments))?;
    }
    Ok(())
}
