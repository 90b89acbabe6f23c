//! A look at what a job's transforms reach, cheap enough for every batch.

use crate::raw::locale::Locale;
use crate::raw::references::{Entries, Members, Names, References};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rustix::process::getcwd;

/// What was there when it was made (see `snapshot.py`). It keeps all of it, so that an address is not used again.
#[pyclass(module = "prebake._native", frozen)]
pub(crate) struct Look {
    roots: Members,
    references: References,
    names: Names,
    calls: Vec<(Py<PyAny>, Py<PyAny>)>,
    variables: Option<Entries>,
    dictionaries: Vec<Entries>,
    modules: (Py<PyDict>, usize),
    folder: Option<Vec<u8>>,
    locale: Locale,
}

#[pymethods]
impl Look {
    /// Of roots; of `objects`, which refer to `referents`; of `spaces`, dictionaries and names in them, under which `values`
    /// are, or `absent`; of `calls`, functions and what they yield, a list by which objects are in it; of `variables`, which
    /// may be given the values that they had; of all that is in dictionaries, of which copies are given; of how many `modules` there are; of the process's folder; and of its locale.
    #[new]
    #[expect(
        clippy::too_many_arguments,
        reason = "each is another kind of thing to look at"
    )]
    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are copied")]
    fn new(
        py: Python<'_>,
        roots: Vec<Bound<'_, PyAny>>,
        objects: Vec<Bound<'_, PyAny>>,
        referents: Vec<Bound<'_, PyAny>>,
        spaces: Vec<(Bound<'_, PyDict>, Vec<Bound<'_, PyString>>)>,
        values: Vec<Bound<'_, PyAny>>,
        absent: &Bound<'_, PyAny>,
        calls: Vec<(Py<PyAny>, Py<PyAny>)>,
        variables: Option<&Bound<'_, PyDict>>,
        dictionaries: Vec<(Bound<'_, PyDict>, Bound<'_, PyDict>)>,
        modules: &Bound<'_, PyDict>,
        folder: Option<Vec<u8>>,
    ) -> PyResult<Look> {
        Ok(Look {
            roots: Members::new(py, &roots)?,
            references: References::new(py, objects, &referents)?,
            names: Names::new(py, spaces, &values, absent)?,
            calls,
            variables: variables
                .map(|each| Ok::<_, PyErr>(Entries::of(each.clone(), each.copy()?)))
                .transpose()?,
            dictionaries: dictionaries
                .into_iter()
                .map(|(each, copy)| Entries::of(each, copy))
                .collect(),
            modules: (modules.clone().unbind(), modules.len()),
            folder,
            locale: Locale::new(py),
        })
    }

    /// Whether all of it is as it was, and these are the roots.
    fn holds(&self, py: Python<'_>, roots: &Bound<'_, PyList>) -> PyResult<bool> {
        Ok(self.roots.are_in(roots)
            && self.references.hold(py)
            && self.names.hold(py)
            && self.variables.as_ref().map_or(Ok(true), |each| each.hold(py))?
            && self.dictionaries.iter().all(|each| each.are_the_same(py))
            && self.modules.0.bind(py).len() == self.modules.1
            && self.locale.holds(py)
            && self.calls_yield(py)?
            && self.is_in_folder())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.roots.visit(&visit)?;
        self.references.visit(&visit)?;
        self.names.visit(&visit)?;
        for (function, value) in &self.calls {
            visit.call(function)?;
            visit.call(value)?;
        }
        visit.call(&self.modules.0)?;
        self.dictionaries.iter().try_for_each(|each| each.visit(&visit))?;
        self.variables.iter().try_for_each(|each| each.visit(&visit))
    }
}

impl Look {
    fn calls_yield(&self, py: Python<'_>) -> PyResult<bool> {
        for (function, value) in &self.calls {
            let now = function.bind(py).call0()?;
            let holds = match (now.cast::<PyList>(), value.bind(py).cast::<PyList>()) {
                (Ok(now), Ok(before)) => {
                    now.len() == before.len() && now.iter().zip(before).all(|(each, was)| each.is(&was))
                }
                _ => now.is(value) || now.eq(value)?,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_in_folder(&self) -> bool {
        // One that was removed has no name.
        let is_here = |folder: &Vec<u8>| getcwd(Vec::new()).unwrap_or_default().as_bytes() == folder;
        self.folder.as_ref().is_none_or(is_here)
    }
}
