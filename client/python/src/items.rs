//! Items as Python sees them.

use crate::array_layouts::ArrayLayouts;
use crate::counters::Counters;
use crate::error::raise;
use crate::raw::arrays::array;
use crate::raw::buffer::{Parts, View};
use prebake_client::{Code, Error, Made};
use prebake_fingerprint::Digest;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyRange, PyRangeMethods};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// device, inode, size, mtime_ns, ctime_ns
type Stat = (u64, u64, u64, i64, i64);

/// Segment, first byte, and the byte after the last.
pub(crate) type Span = (u64, u64, u64);

/// Fingerprint, and stats of the files.
type Input = (Cow<'static, [u8]>, Vec<Stat>);

fn tuple(stat: prebake_client::FileStat) -> Stat {
    (stat.device, stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns)
}

/// Numbers of items, as a range or any other sequence.
pub(crate) struct Indices(Vec<usize>);

impl<'py> FromPyObject<'_, 'py> for Indices {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Indices> {
        match given.cast::<PyRange>() {
            Ok(range) => of_range(&range, 0, range.len()?),
            Err(_) => given.extract().map(Indices),
        }
    }
}

impl Indices {
    /// Those of an order from `start` to `end`.
    fn part(order: &Bound<'_, PyAny>, start: usize, end: usize) -> PyResult<Indices> {
        if let Ok(range) = order.cast::<PyRange>() {
            return of_range(range, start, end);
        }
        let number = |i| order.get_item(i)?.extract();
        (start..end).map(number).collect::<PyResult<_>>().map(Indices)
    }
}

/// Most batches in order are of one, and to make an object of each number takes longer than to look it up.
fn of_range(range: &Bound<'_, PyRange>, start: usize, end: usize) -> PyResult<Indices> {
    let (first, step) = (range.start()?, range.step()?);
    // Each number is within the range, whatever the product is.
    let number = |i: isize| usize::try_from(first.wrapping_add(step.wrapping_mul(i)));
    let numbers = (isize::try_from(start)?..isize::try_from(end)?).map(number);
    Ok(Indices(numbers.collect::<Result<_, _>>()?))
}

/// What a job will want later, as a list or as what answers with one.
fn later(ahead: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    match ahead.is_callable() {
        true => ahead.call0()?.extract(),
        false => ahead.extract(),
    }
}

/// Items that a job reads, each the input of one element.
#[pyclass(module = "prebake._native", frozen)]
pub(crate) struct Items {
    items: prebake_client::Items,
    /// Of elements one by one, and of those that are stacked.
    forms: ArrayLayouts,
    stacked: ArrayLayouts,
}

impl Items {
    pub(crate) fn new(items: prebake_client::Items) -> Items {
        Items {
            items,
            forms: ArrayLayouts::default(),
            stacked: ArrayLayouts::default(),
        }
    }

    fn layout(&self, number: usize) -> String {
        let layout = self.items.layout(number);
        layout.map_or_else(String::new, |layout| layout.to_string())
    }

    /// What `fits` says of a layout; without it, each does.
    fn fits(&self, fits: Option<&Bound<'_, PyAny>>, number: usize) -> PyResult<bool> {
        fits.map_or(Ok(true), |fits| fits.call1((self.layout(number),))?.is_truthy())
    }

    /// Whether a batch may be made of elements; if not, they are all there and of layouts that make none. Asked before
    /// anything is copied, or counted as served: who gets no batch reads them one by one.
    fn may_fit(
        &self,
        py: Python<'_>,
        indices: &[usize],
        fits: impl Fn(usize) -> PyResult<bool>,
    ) -> PyResult<bool> {
        match py.detach(|| self.items.layouts(indices)).as_deref() {
            Some([first, others @ ..]) => Ok(others.iter().all(|number| number == first) && fits(*first)?),
            _ => Ok(true),
        }
    }
}

#[pymethods]
impl Items {
    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.items.len())
    }

    /// The element of item i and its layout, if it can be reached without a call.
    #[pyo3(signature = (i, validated = false))]
    fn get(&self, py: Python<'_>, i: usize, validated: bool) -> PyResult<Option<(View, String)>> {
        let found = py.detach(|| self.items.get(i, validated)).map_err(raise)?;
        Ok(found.map(|(view, layout)| (View::new(view), layout.to_string())))
    }

    /// Makes progress on `wanted`: items to compute under a lease, and items to compute without storing. At most `leases`
    /// items are leased (by default as many as are wanted). `ahead` is a list, or is called for one when it is needed.
    #[pyo3(signature = (wanted, ahead, leases = None))]
    fn acquire(
        &self,
        py: Python<'_>,
        wanted: Vec<usize>,
        ahead: &Bound<'_, PyAny>,
        leases: Option<usize>,
    ) -> PyResult<(Vec<usize>, BTreeMap<usize, String>)> {
        let leases = leases.unwrap_or(wanted.len());
        let ahead = ahead.clone().unbind();
        let (mut raised, mut signal) = (None, None);
        let acquired = py.detach(|| {
            let mut later = || {
                Python::attach(|py| later(ahead.bind(py))).map_err(|error| {
                    raised = Some(error);
                    Error::new(Code::Interrupted, "what comes later could not be told")
                })
            };
            self.items.acquire_later(&wanted, &mut later, leases, &mut || {
                signal = Python::attach(|py| py.check_signals()).err();
                signal.is_some()
            })
        });
        match (acquired, raised.or(signal)) {
            (Err(e), Some(raised)) if e.code() == Code::Interrupted => Err(raised),
            (acquired, _) => acquired.map(|a| (a.compute, a.bypass)).map_err(raise),
        }
    }

    /// Hands over the element of item i; false if it is not stored. The buffers may be changed afterwards.
    #[pyo3(signature = (i, layout, parts, cpu_ns, io_ns, read_back=false))]
    #[expect(clippy::too_many_arguments, reason = "Python has them as keywords")]
    fn put(
        &self,
        py: Python<'_>,
        i: usize,
        layout: &str,
        parts: Vec<Bound<'_, PyAny>>,
        cpu_ns: u64,
        io_ns: u64,
        read_back: bool,
    ) -> PyResult<bool> {
        let parts = Parts::new(&parts)?;
        let slices = parts.slices();
        let made = Made {
            cpu_ns,
            io_ns,
            read_back,
        };
        py.detach(|| self.items.put(i, layout, &slices, made))
            .map_err(raise)
    }

    /// Makes everything put so far available to other jobs.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.items.commit()).map_err(raise)
    }

    /// Gives leases back uncomputed.
    fn release(&self, py: Python<'_>, items: Vec<usize>) -> PyResult<()> {
        py.detach(|| self.items.release(&items)).map_err(raise)
    }

    /// The elements of `indices` as one buffer, their layout and number; None if one is unreachable, or if `fits` says no to
    /// the layout.
    #[pyo3(signature = (indices, validated = false, writable = true, fits = None))]
    fn batch(
        &self,
        py: Python<'_>,
        indices: Indices,
        validated: bool,
        writable: bool,
        fits: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<(View, String, usize)>> {
        if !self.may_fit(py, &indices.0, |number| self.fits(fits, number))? {
            return Ok(None);
        }
        let batch = py
            .detach(|| self.items.batch(&indices.0, validated, writable))
            .map_err(raise)?;
        Ok(batch.map(|b| (View::of(b.bytes, writable), b.layout.to_string(), b.count)))
    }

    /// The elements of an order from `start` to `end` as one array, of inputs as they were last looked at; None if one is
    /// unreachable, and the error `ragged` if they are there and make no array. `plain` tells a layout's type and shape, or None
    /// if it is not that of a lone C-ordered array that is the same when it is stacked; it is asked once for each layout.
    fn array<'py>(
        &self,
        py: Python<'py>,
        order: &Bound<'py, PyAny>,
        start: usize,
        end: usize,
        writable: bool,
        plain: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let indices = Indices::part(order, start, end)?;
        let ragged = || {
            let why = "elements that make no array side by side: read them one by one";
            raise(Error::new(Code::Ragged, why))
        };
        let form = |number| {
            let form = self
                .stacked
                .of(&[number], |number| plain.call1((self.layout(number),)));
            form.map(|form| form.and_then(|mut forms| forms.pop()))
        };
        if !self.may_fit(py, &indices.0, |number| Ok(form(number)?.is_some()))? {
            return Err(ragged());
        }
        let batch = py
            .detach(|| self.items.batch(&indices.0, true, writable))
            .map_err(raise)?;
        let Some(batch) = batch else {
            return Ok(None);
        };
        let form = form(batch.number)?.ok_or_else(ragged)?;
        let bytes = 0..batch.bytes.len();
        let view = Bound::new(py, View::of(batch.bytes, writable))?;
        array(&view, bytes, &form, Some(batch.count))
    }

    /// The elements of `indices`, each as an array that may be written to; None if one is unreachable or is none. `plain` tells a layout's type
    /// and shape, or None if it is not that of a lone C-ordered array; it is asked once for each layout.
    fn arrays<'py>(
        &self,
        py: Python<'py>,
        indices: Indices,
        validated: bool,
        plain: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let Indices(indices) = indices;
        let Some(layouts) = py.detach(|| self.items.layouts(&indices)) else {
            return Ok(None);
        };
        let ask = |number| plain.call1((self.layout(number),));
        let Some(forms) = self.forms.of(&layouts, ask)? else {
            return Ok(None);
        };
        let found = py
            .detach(|| self.items.elements(&indices, validated))
            .map_err(raise)?;
        let Some(found) = found else {
            return Ok(None);
        };
        let views = found.views.into_iter();
        let views = views.map(|view| Bound::new(py, View::new(view)));
        let views: Vec<_> = views.collect::<PyResult<_>>()?;
        let mut arrays = Vec::with_capacity(forms.len());
        for ((place, layout), form) in found.places.into_iter().zip(layouts).zip(forms) {
            // It may have been made anew since its layout was looked at.
            let made = match views.get(place.view).filter(|_| place.layout == layout) {
                Some(view) => array(view, place.bytes, &form, None)?,
                None => None,
            };
            match made {
                Some(made) => arrays.push(made),
                None => return Ok(None),
            }
        }
        PyList::new(py, arrays).map(Some)
    }

    /// Says in which order items will be read from now on, as far as that is known, and whether only by `reading` where
    /// they lie.
    fn expect(&self, py: Python<'_>, order: Indices, reading: bool) {
        py.detach(|| self.items.expect(order.0, reading));
    }

    /// Where the elements of `indices` lie (see `Job.gather`) and the layout of each; None if it is not known of one, or if
    /// `fits` says no to the layout.
    #[pyo3(signature = (indices, validated = false, fits = None))]
    fn spans(
        &self,
        py: Python<'_>,
        indices: Vec<usize>,
        validated: bool,
        fits: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<(Vec<Span>, String)>> {
        if !self.may_fit(py, &indices, |number| self.fits(fits, number))? {
            return Ok(None);
        }
        let placed = py
            .detach(|| self.items.spans(&indices, validated))
            .map_err(raise)?;
        Ok(placed.map(|(spans, layout)| {
            let spans = spans.iter().map(|span| (span.0, span.1, span.2)).collect();
            (spans, layout.to_string())
        }))
    }

    /// Those of the items of which it is not known where their elements lie.
    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are copied")]
    fn missing(&self, py: Python<'_>, indices: Vec<usize>) -> Vec<usize> {
        py.detach(|| self.items.missing(&indices))
    }

    /// Says which files item i reads, in a fixed order; until then, none.
    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are copied")]
    fn set_reads(&self, py: Python<'_>, i: usize, paths: Vec<PathBuf>) -> PyResult<()> {
        py.detach(|| self.items.set_reads(i, &paths)).map_err(raise)
    }

    /// Says what item i reads beside files, by a 32-byte digest of it.
    fn set_objects(&self, py: Python<'_>, i: usize, objects: &[u8]) -> PyResult<()> {
        let digest = Digest::try_from(objects);
        let digest = digest.map_err(|e| raise(Error::new(Code::Invalid, e.to_string())))?;
        py.detach(|| self.items.set_objects(i, digest)).map_err(raise)
    }

    /// What `set_objects` said of item i last; None if it was not called.
    fn objects(&self, i: usize) -> Option<Cow<'static, [u8]>> {
        self.items.objects(i).map(|digest| digest.0.to_vec().into())
    }

    /// (device, inode, size, mtime_ns, ctime_ns) of the files of item i when its fingerprint was taken; None if there is
    /// none, or if a file was written too recently to tell a later write from.
    fn stats_of(&self, i: usize) -> Option<Vec<Stat>> {
        Some(self.items.stats_of(i)?.into_iter().map(tuple).collect())
    }

    /// The input of item i under this thread's lease on it: fingerprint, and stats of its files.
    fn leased(&self, i: usize) -> Option<(Cow<'static, [u8]>, Vec<Stat>)> {
        let (fingerprint, stats) = self.items.leased(i)?;
        Some((
            fingerprint.0.to_vec().into(),
            stats.into_iter().map(tuple).collect(),
        ))
    }

    /// Begins an epoch: edits made before are seen.
    fn validate(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.items.validate()).map_err(raise)
    }

    /// How many items were looked at in this epoch, and how many ever.
    fn looked_at(&self, py: Python<'_>) -> (usize, usize) {
        py.detach(|| self.items.looked_at())
    }

    /// What item i is made from, looked at now: fingerprint, and stats of its files; None if that cannot be told.
    fn input(&self, py: Python<'_>, i: usize) -> PyResult<Option<Input>> {
        let input = py.detach(|| self.items.input(i)).map_err(raise)?;
        Ok(input.map(|(fingerprint, stats)| {
            let stats = stats.into_iter().map(tuple).collect();
            (fingerprint.0.to_vec().into(), stats)
        }))
    }

    /// The element of item i and its layout, without counting it as served.
    fn stored(&self, py: Python<'_>, i: usize) -> PyResult<Option<(View, String)>> {
        let found = py.detach(|| self.items.stored(i)).map_err(raise)?;
        Ok(found.map(|(view, layout)| (View::new(view), layout.to_string())))
    }

    /// The layouts of items that were located; None if it is not known where one of them lies.
    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are copied")]
    fn layouts(&self, py: Python<'_>, indices: Vec<usize>) -> Option<Vec<String>> {
        py.detach(|| {
            let numbers = self.items.layouts(&indices)?;
            let text = |number| Some(self.items.layout(number)?.to_string());
            numbers.into_iter().map(text).collect()
        })
    }

    /// Those of some items that are there, of inputs as they are now. Nothing is leased, and nothing waited for.
    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are copied")]
    fn locate(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<Vec<usize>> {
        py.detach(|| self.items.locate(&indices)).map_err(raise)
    }

    /// Those of the items that other jobs were computing when they were asked for last.
    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are copied")]
    fn held(&self, py: Python<'_>, indices: Vec<usize>) -> Vec<usize> {
        py.detach(|| self.items.held(&indices))
    }

    /// Counts a hit that was computed again and is the same.
    fn verified(&self, py: Python<'_>, cpu_ns: u64) {
        py.detach(|| self.items.verified(cpu_ns));
    }

    /// Has the subgraph quarantined, because item i is not the same when computed again; what `plan` says of it from now on.
    fn mismatch(&self, py: Python<'_>, i: usize, reason: &str, cpu_ns: u64) -> PyResult<String> {
        py.detach(|| self.items.mismatch(i, reason, cpu_ns))
            .map_err(raise)
    }

    /// Has all that was counted, and what will be, added to these counts. To be called once.
    fn count_into(&self, py: Python<'_>, counters: &Counters) {
        py.detach(|| self.items.count_into(counters.0.clone()));
    }
}
