//! The module's exception.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    prebake._native,
    Error,
    PyException,
    "A failure inside Prebake. `code` is stable (\"daemon-absent\", \"daemon-lost\", ...), the message says what to do."
);

pub(crate) fn raise(error: prebake_client::Error) -> PyErr {
    let raised = Error::new_err(error.to_string());
    Python::attach(
        |py| match raised.value(py).setattr("code", error.code().as_str()) {
            Ok(()) => raised,
            Err(failed) => failed,
        },
    )
}
