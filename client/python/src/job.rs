//! Connecting, and naming what a graph yields.

use crate::error::raise;
use crate::exit::report_at_exit;
use crate::items::{Items, Span};
use crate::raw::buffer::View;
use crate::raw::texts;
use prebake_client::{Code, Compared, Error, Options, Paths, Standing};
use prebake_fingerprint::Digest;
use prebake_proto::v1::Graph;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Connects to the daemon of a folder (by default the user's), and starts one before if there is none and `autostart`.
#[pyfunction]
pub(crate) fn connect(
    py: Python<'_>,
    folder: Option<PathBuf>,
    name: String,
    autostart: bool,
) -> PyResult<Job> {
    let module = py.import("prebake._native")?.filename();
    let package = module.ok().and_then(|file| file.extract::<PathBuf>().ok());
    let options = Options {
        folder,
        name,
        autostart,
        daemon: package.and_then(|file| Some(file.parent()?.join("bin/prebaked"))),
        clock: None,
    };
    let job = py
        .detach(|| prebake_client::Job::connect(options))
        .map_err(raise)?;
    report_at_exit(py, &job)?;
    Ok(Job(job))
}

/// A connection. Belongs to the process that made it.
#[pyclass(module = "prebake._native", frozen)]
pub(crate) struct Job(prebake_client::Job);

#[pymethods]
impl Job {
    /// Changes with each start of the daemon.
    #[getter]
    fn boot_id(&self) -> u64 {
        self.0.boot_id()
    }

    /// Names the collection of a graph, given as protobuf JSON.
    fn plan(&self, py: Python<'_>, graph_json: &str) -> PyResult<Collection> {
        let planned = py.detach(|| {
            let graph: Graph = serde_json::from_str(graph_json)
                .map_err(|e| Error::new(Code::BadGraph, format!("not a graph: {e}")))?;
            self.0.plan(graph)
        });
        planned.map(Collection).map_err(raise)
    }

    /// The elements in spans that another process found in this start of the daemon, as one buffer; None if one was evicted
    /// since.
    fn gather(&self, py: Python<'_>, spans: Vec<Span>) -> PyResult<Option<View>> {
        let spans: Vec<_> = spans
            .into_iter()
            .map(|(segment, start, end)| prebake_client::Span(segment, start, end))
            .collect();
        let view = py.detach(|| self.0.gather(&spans)).map_err(raise)?;
        Ok(view.map(View::new))
    }

    /// Tells the daemon what is not cached and why, for `prebake explain`: a code (R20 to R42, or M18 for an item whose
    /// computation failed), the reason, and where the user wrote it. Best effort, once for each.
    #[pyo3(signature = (code, reason, location = ""))]
    fn refused(&self, py: Python<'_>, code: &str, reason: &str, location: &str) {
        py.detach(|| self.0.refused(code, reason, location));
    }
}

/// All entries of one subgraph.
#[pyclass(module = "prebake._native", frozen)]
pub(crate) struct Collection(prebake_client::Collection);

#[pymethods]
impl Collection {
    /// The subgraph digest in hexadecimal.
    #[getter]
    fn digest(&self) -> String {
        self.0.digest().to_string()
    }

    /// Why nothing of it is ever cached; empty if it is.
    #[getter]
    fn bypass(&self) -> &str {
        self.0.bypass()
    }

    /// Entries that were there when it was planned.
    #[getter]
    fn entries(&self) -> u64 {
        self.0.entries()
    }

    /// Where a world (32 bytes) stands: ("proven", whether it is the first, whether it is to be described), ("unproven",
    /// description of the first world, whether other live jobs use the collection, mean CPU time of an element in ns) or
    /// ("variant", key, why). `differs` says that elements computed again in it were others, as in all worlds of the
    /// variant of this key, and why; `agrees` that they were the same; `begins` that elements are about to be added;
    /// `part` that it is but a part of a world.
    #[pyo3(signature = (world, agrees = false, differs = None, description = Vec::new(), begins = false, part = false))]
    #[allow(clippy::too_many_arguments)]
    fn stand<'py>(
        &self,
        py: Python<'py>,
        world: &[u8],
        agrees: bool,
        differs: Option<(Vec<u8>, String)>,
        description: Vec<u8>,
        begins: bool,
        part: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let digest = |bytes: &[u8]| {
            let digest = Digest::try_from(bytes);
            digest.map_err(|e| raise(Error::new(Code::Invalid, e.to_string())))
        };
        let world = digest(world)?;
        let found = match differs {
            Some((key, why)) => Some(Compared::Variant(digest(&key)?, why)),
            None => agrees.then_some(Compared::Same),
        };
        let standing = py.detach(|| self.0.stand(world, found, &description, begins, part));
        match standing.map_err(raise)? {
            Standing::Proven { first, undescribed } => ("proven", first, undescribed).into_pyobject(py),
            Standing::Unproven {
                description,
                others,
                cost_ns,
            } => ("unproven", PyBytes::new(py, &description), others, cost_ns).into_pyobject(py),
            Standing::Variant { key, why } => ("variant", PyBytes::new(py, &key), why).into_pyobject(py),
        }
    }

    /// Ids of the graph's operators upstream of the output whose own elements have entries.
    #[getter]
    fn ancestors(&self) -> Vec<String> {
        self.0.ancestors().to_vec()
    }

    /// Ids of the graph's operators upstream of the output that other pipelines of the user's have too.
    #[getter]
    fn common(&self) -> Vec<String> {
        self.0.common().to_vec()
    }

    /// `count` items known by their number and the files that `set_reads` names, which are named below `root`. With `unread`
    /// they read none unless it is said; else nothing can be had of an item before.
    fn places(&self, py: Python<'_>, root: PathBuf, count: usize, unread: bool) -> PyResult<Items> {
        let items = py.detach(|| self.0.places(&root, count, unread));
        items.map(Items::new).map_err(raise)
    }

    /// Items known by a 32-byte digest each, with a name for people, and the files that `set_reads` names.
    fn named(
        &self,
        py: Python<'_>,
        root: PathBuf,
        named: Vec<(Vec<u8>, String)>,
        unread: bool,
    ) -> PyResult<Items> {
        let digest = |(bytes, name): (Vec<u8>, String)| Ok((Digest::try_from(bytes.as_slice())?, name));
        let named: Result<Vec<_>, prebake_fingerprint::Error> = named.into_iter().map(digest).collect();
        let named = named.map_err(|e| raise(Error::new(Code::Invalid, e.to_string())))?;
        let items = py.detach(|| self.0.named(&root, named, unread));
        items.map(Items::new).map_err(raise)
    }

    /// Items that are files: item i is `paths[i]`, named by its path below `root`, by default the folder that they have in
    /// common.
    fn files(&self, py: Python<'_>, root: Option<PathBuf>, paths: Taken<'_>) -> PyResult<Items> {
        let paths = match paths {
            Taken::Before(taken) => Arc::clone(&taken.0),
            Taken::Here(list) => Arc::new(paths_of(&list)?),
        };
        py.detach(|| self.0.files(root.as_deref(), paths))
            .map(Items::new)
            .map_err(raise)
    }

    /// One item: a call with a 32-byte digest of its arguments and the files and folders it reads.
    fn call(&self, py: Python<'_>, name: &str, arguments: &[u8], paths: Vec<PathBuf>) -> PyResult<Items> {
        let digest = Digest::try_from(arguments);
        let digest = digest.map_err(|e| raise(Error::new(Code::Invalid, e.to_string())))?;
        let items = py.detach(|| self.0.call(name, digest, &paths));
        items.map(Items::new).map_err(raise)
    }
}

/// Paths of files.
#[derive(FromPyObject)]
enum Taken<'py> {
    Before(PyRef<'py, Files>),
    Here(Bound<'py, PyList>),
}

/// Each without the detour through the file system's encoding where that changes nothing: of a million it is half a second.
fn paths_of(list: &Bound<'_, PyList>) -> PyResult<Paths> {
    let mut paths = Paths::with_capacity(list.len());
    for each in list {
        match each.cast_exact::<PyString>().map(|text| text.to_str()) {
            Ok(Ok(text)) if text.is_ascii() => paths.push(Path::new(text)),
            _ => paths.push(&each.extract::<PathBuf>()?),
        }
        .map_err(raise)?;
    }
    Ok(paths)
}

/// Absolute paths, as they were in a list when this was made.
#[pyclass(module = "prebake._native", frozen)]
pub(crate) struct Files(Arc<Paths>);

#[pymethods]
impl Files {
    /// The deepest folder that all are below.
    #[getter]
    fn folder(&self) -> String {
        self.0.folder().to_string_lossy().into_owned()
    }
}

/// The paths in a list, if each is a text of ASCII and absolute; None if not.
#[pyfunction]
pub(crate) fn files(list: &Bound<'_, PyList>) -> PyResult<Option<Files>> {
    Ok(texts::paths(list)?.map(|paths| Files(Arc::new(paths))))
}
