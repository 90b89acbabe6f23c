//! What is left to tell the daemon when a process ends.

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict};

/// Has the last report sent at exit: Python's destructors may not run then. Worker processes of `multiprocessing` skip
/// `atexit`, but run its finalizers.
pub(crate) fn report_at_exit(py: Python<'_>, job: &prebake_client::Job) -> PyResult<()> {
    let report = job.reporter();
    let report = PyCFunction::new_closure(py, None, None, move |args, _| {
        args.py().detach(&report);
    })?;
    py.import("atexit")?.call_method1("register", (&report,))?;
    let modules = py.import("sys")?.getattr("modules")?;
    if let Ok(util) = modules.get_item("multiprocessing.util") {
        let priority = PyDict::new(py);
        priority.set_item("exitpriority", 0)?;
        util.call_method("Finalize", (py.None(), report), Some(&priority))?;
    }
    Ok(())
}
