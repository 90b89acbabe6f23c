//! Counts that several processes add to, as Python sees them.

use crate::error::raise;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::borrow::Cow;

/// Counts of what was read.
#[pyclass(module = "prebake._native", frozen)]
pub(crate) struct Counters(pub(crate) prebake_client::Counters);

#[pymethods]
impl Counters {
    /// Those of this process alone; a child that is forked goes on from them by itself.
    #[new]
    fn new() -> Counters {
        Counters(prebake_client::Counters::default())
    }

    /// The counts of all processes so far, by name.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.0.read();
        let dict = PyDict::new(py);
        dict.set_item("computed", stats.computed)?;
        dict.set_item("reused", stats.reused)?;
        dict.set_item("followed", stats.followed)?;
        dict.set_item("bypassed", stats.bypassed)?;
        dict.set_item("verified", stats.verified)?;
        dict.set_item("bytes_ram", stats.bytes_ram)?;
        dict.set_item("bytes_ssd", stats.bytes_ssd)?;
        Ok(dict)
    }
}

/// Rows of counts in memory that processes share: one descriptor for all of them.
#[pyclass(module = "prebake._native", frozen, weakref)]
pub(crate) struct CounterTable(prebake_client::CounterTable);

#[pymethods]
impl CounterTable {
    #[new]
    fn new() -> PyResult<CounterTable> {
        prebake_client::CounterTable::new()
            .map(CounterTable)
            .map_err(raise)
    }

    /// The table of this tag that another process has under a descriptor; None if it cannot be reached.
    #[staticmethod]
    fn open(address: (u32, u32), tag: [u8; 16]) -> Option<CounterTable> {
        prebake_client::CounterTable::open(address, tag).map(CounterTable)
    }

    /// 16 bytes that tell it from every other table.
    #[getter]
    fn tag(&self) -> Cow<'static, [u8]> {
        self.0.tag().to_vec().into()
    }

    /// The process and descriptor by which others can open it; None if they cannot.
    #[getter]
    fn address(&self) -> Option<(u32, u32)> {
        self.0.address()
    }

    /// The number and counts of a row that no process has taken; None if there is none left.
    fn take(&self) -> Option<(usize, Counters)> {
        let (row, counters) = self.0.take()?;
        Some((row, Counters(counters)))
    }

    /// The counts of a row; None if there is no such row.
    fn row(&self, row: usize) -> Option<Counters> {
        self.0.row(row).map(Counters)
    }
}
