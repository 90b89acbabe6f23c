//! What objects, names and dictionaries refer to, compared by address where it lies. Nothing that is compared is touched, not
//! even its reference count, and what it is compared with lies side by side: between two batches none of it is in the
//! processor's caches, and each object is another page.

use pyo3::ffi::{
    Py_TPFLAGS_HAVE_GC, Py_TYPE, Py_ssize_t, Py_tp_is_gc, Py_tp_traverse, PyDict_GetItemWithError,
    PyDict_Next, PyErr_Clear, PyList_GetItem, PyObject, PyType_GetFlags, PyType_GetSlot, inquiry,
    traverseproc,
};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use std::ffi::{c_int, c_void};
use std::ptr;

/// Addresses of objects, which are kept, so that none is used again.
struct Addresses {
    kept: Py<PyTuple>,
    addresses: Vec<usize>,
}

impl Addresses {
    fn of(py: Python<'_>, objects: &[Bound<'_, PyAny>]) -> PyResult<Addresses> {
        Ok(Addresses {
            kept: PyTuple::new(py, objects)?.unbind(),
            addresses: objects.iter().map(address).collect(),
        })
    }
}

fn address(object: &Bound<'_, PyAny>) -> usize {
    object.as_ptr() as usize
}

/// What a list holds.
pub(crate) struct Members(Addresses);

impl Members {
    pub(crate) fn new(py: Python<'_>, members: &[Bound<'_, PyAny>]) -> PyResult<Members> {
        Addresses::of(py, members).map(Members)
    }

    /// Whether this list holds the same now.
    pub(crate) fn are_in(&self, list: &Bound<'_, PyList>) -> bool {
        let known = &self.0.addresses;
        // SAFETY: the interpreter's lock is held, it is a list, and nothing runs that could change it; the place is in it.
        let at = |i: usize| unsafe { PyList_GetItem(list.as_ptr(), i as Py_ssize_t) } as usize;
        known.len() == list.len() && known.iter().enumerate().all(|(i, known)| *known == at(i))
    }

    pub(crate) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0.kept)
    }
}

/// An object that refers to others, and what visits them, which its type says.
struct Object {
    object: Py<PyAny>,
    kind: Py<PyType>,
    traverse: traverseproc,
    /// The place behind its last referent: what one object loses at its end, the next may have at its beginning.
    end: usize,
}

/// Objects, and all that they refer to, one after the other.
pub(crate) struct References {
    objects: Vec<Object>,
    referents: Addresses,
}

/// Referents, and how many of them were met.
struct Expected<'a> {
    referents: &'a [usize],
    at: usize,
}

impl References {
    /// With `referents` as `gc.get_referents(*objects)` tells them.
    pub(crate) fn new(
        py: Python<'_>,
        objects: Vec<Bound<'_, PyAny>>,
        referents: &[Bound<'_, PyAny>],
    ) -> PyResult<References> {
        let mut end = 0;
        let objects = objects.into_iter().filter_map(|object| {
            // SAFETY: the interpreter's lock is held, and the object is alive.
            let traverse = unsafe { traverse(object.as_ptr())? };
            // SAFETY: as above; it is the object's own function, and visiting counts.
            unsafe { traverse(object.as_ptr(), count, ptr::from_mut(&mut end).cast()) };
            Some(Object {
                kind: object.get_type().unbind(),
                traverse,
                end,
                object: object.unbind(),
            })
        });
        Ok(References {
            objects: objects.collect(),
            referents: Addresses::of(py, referents)?,
        })
    }

    /// Whether the objects refer to the same ones now.
    pub(crate) fn hold(&self, _: Python<'_>) -> bool {
        let mut expected = Expected {
            referents: &self.referents.addresses,
            at: 0,
        };
        for Object {
            object,
            kind,
            traverse,
            end,
        } in &self.objects
        {
            let object = object.as_ptr();
            // SAFETY: the interpreter's lock is held and the object is alive. It is of the type whose function this is. Visiting
            // compares addresses and calls nothing of Python's that could run code.
            let stopped = unsafe {
                Py_TYPE(object) as *mut PyObject != kind.as_ptr()
                    || traverse(object, visit, ptr::from_mut(&mut expected).cast()) != 0
            };
            if stopped || expected.at != *end {
                return false;
            }
        }
        expected.at == expected.referents.len()
    }

    pub(crate) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.referents.kept)?;
        self.objects.iter().try_for_each(|each| {
            visit.call(&each.kind)?;
            visit.call(&each.object)
        })
    }
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
    // SAFETY: it is what `hold` gave, which nobody else uses meanwhile.
    let expected = unsafe { &mut *expected.cast::<Expected<'_>>() };
    let same = expected.referents.get(expected.at) == Some(&(object as usize));
    expected.at += 1;
    c_int::from(!same)
}

/// # Safety
/// Called by `traverse` with what it was given, and the interpreter's lock held.
unsafe extern "C" fn count(_: *mut PyObject, met: *mut c_void) -> c_int {
    // SAFETY: it is what `new` gave, which nobody else uses meanwhile.
    unsafe { *met.cast::<usize>() += 1 };
    0
}

/// Names in dictionaries, and what is under each.
pub(crate) struct Names {
    places: Vec<(Py<PyDict>, Py<PyString>)>,
    values: Addresses,
    absent: usize,
}

impl Names {
    /// Of the names in each space one after the other; `absent` stands for what is not there.
    pub(crate) fn new(
        py: Python<'_>,
        spaces: Vec<(Bound<'_, PyDict>, Vec<Bound<'_, PyString>>)>,
        values: &[Bound<'_, PyAny>],
        absent: &Bound<'_, PyAny>,
    ) -> PyResult<Names> {
        let mut kept = values.to_vec();
        kept.push(absent.clone());
        let mut places = Vec::new();
        for (space, names) in spaces {
            places.extend(
                names
                    .into_iter()
                    .map(|name| (space.clone().unbind(), name.unbind())),
            );
        }
        let mut values = Addresses::of(py, &kept)?;
        let absent = values.addresses.pop().unwrap_or_default();
        Ok(Names {
            places,
            values,
            absent,
        })
    }

    /// Whether the same is under them now.
    pub(crate) fn hold(&self, _: Python<'_>) -> bool {
        let is = |(space, name): &(Py<PyDict>, Py<PyString>), known: usize| {
            // SAFETY: the interpreter's lock is held; a dictionary and a text, whose hash runs no code of a user's. A key that
            // compares by such might, and then its dictionary is still alive; what is found is compared by address alone.
            let found = unsafe { PyDict_GetItemWithError(space.as_ptr(), name.as_ptr()) };
            if found.is_null() {
                // SAFETY: as above.
                unsafe { PyErr_Clear() };
                return known == self.absent;
            }
            known == found as usize
        };
        let values = &self.values.addresses;
        self.places.len() == values.len()
            && self
                .places
                .iter()
                .zip(values)
                .all(|(place, known)| is(place, *known))
    }

    pub(crate) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.values.kept)?;
        self.places.iter().try_for_each(|(space, _)| visit.call(space))
    }
}

/// A dictionary, and all that is in it.
pub(crate) struct Entries {
    dict: Py<PyDict>,
    copy: Py<PyDict>,
    addresses: Vec<[usize; 2]>,
}

impl Entries {
    /// The objects of the copy, which is kept, are alive for as long as this is.
    pub(crate) fn of(dict: Bound<'_, PyDict>, copy: Bound<'_, PyDict>) -> Entries {
        let addresses = copy.iter().map(|(key, value)| [address(&key), address(&value)]);
        Entries {
            dict: dict.unbind(),
            addresses: addresses.collect(),
            copy: copy.unbind(),
        }
    }

    /// Whether equal texts and objects are in it now.
    pub(crate) fn hold(&self, py: Python<'_>) -> PyResult<bool> {
        // What is there in another order, or was given the value that it had, is not of the same addresses.
        Ok(self.are_the_same(py) || self.dict.bind(py).eq(&self.copy)?)
    }

    /// Whether the very same objects are in it now, in the same order.
    pub(crate) fn are_the_same(&self, _: Python<'_>) -> bool {
        let mut place: Py_ssize_t = 0;
        let mut next = || {
            let mut found = [ptr::null_mut::<PyObject>(); 2];
            let [key, value] = &mut found;
            // SAFETY: the interpreter's lock is held; it is a dictionary that nothing changes meanwhile. What is found is
            // compared by address alone.
            let more = unsafe { PyDict_Next(self.dict.as_ptr(), &raw mut place, key, value) } != 0;
            more.then(|| found.map(|each| each as usize))
        };
        self.addresses.iter().all(|known| next() == Some(*known)) && next().is_none()
    }

    pub(crate) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.dict)?;
        visit.call(&self.copy)
    }
}
