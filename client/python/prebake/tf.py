"""TensorFlow: `ds.apply(prebake.tf.cache())` shares everything above it with every job on the node.

Elements are kept in runs, each an entry, and are handed to `tf.data` a run at a time, which cuts them apart
in native code. Element specification, cardinality and options stay as they are.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from prebake.encoding.digests import digest
from prebake.frameworks.entries import Entries, Input, in_turn
from prebake.frameworks.tf_graph import Pipeline
from prebake.reads import open_records
from prebake.runtime import daemon
from prebake.runtime.errors import Code, Refused
from prebake.runtime.refusals import not_cached

CONTEXT = "prebake 2026 tf run v1"
#: Bytes in a run where elements have one size: some entries fit a lease, and few calls feed a training step.
RUN_BYTES = 1 << 20
#: Elements in a run, at most; and as many where their size is not known before.
RUN_MAX, RUN_UNSIZED = 1024, 64
#: Variables that choose between kernels whose results differ in the last bits.
ENVIRONMENT = ("TF_DETERMINISTIC_OPS", "TF_ENABLE_ONEDNN_OPTS")


Data = TypeVar("Data")


def cache() -> Callable[[Data], Data]:
    """A transformation for `tf.data.Dataset.apply`: shares all that stands above it.

    What cannot be shared runs unchanged, and a warning says why, once.

    Returns
    -------
    callable
        From a `tf.data.Dataset` to one with the same elements, specification, cardinality and options.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import prebake
    >>> ds = tf.data.Dataset.range(3).map(lambda x: x * x).apply(prebake.tf.cache())
    >>> [int(x) for x in ds]
    [0, 1, 4]
    """
    return _cached


def _cached(ds: Any) -> Any:
    if daemon.native() is None or daemon.connection() is None:
        return ds
    try:
        return _Runs(ds).dataset()
    except Exception as error:
        # Looking at an odd pipeline can raise anything; the job must not.
        not_cached(error)
        return ds


class _Runs:
    """A pipeline's elements in runs of equal length. Raises `Refused` if it cannot be known."""

    def __init__(self, ds: Any) -> None:
        import tensorflow as tf

        self.ds = ds
        self.specs = tf.nest.flatten(ds.element_spec)
        if not all(type(spec) is tf.TensorSpec for spec in self.specs):
            raise Refused(Code.VALUE, "only tensors can be shared; convert ragged and sparse ones")
        if ds.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise Refused(Code.DATASET, "the pipeline has no end; put repeat() after the cache")
        if ds.options().deterministic is False:
            raise Refused(Code.UNSTABLE, "elements come in any order; use deterministic=True")
        self.pipeline = Pipeline(_graph(ds))
        #: Python functions of the graph run in TensorFlow's threads.
        self._in_threads = bool(self.pipeline.functions)
        self.sized = [spec.shape.is_fully_defined() and _plain(spec.dtype) for spec in self.specs]
        self.length = self._length()
        self.step = functools.partial(
            _elements,
            length=self.length,
            version=tf.__version__,
            environment={name: os.environ.get(name) for name in ENVIRONMENT},
            functions=tuple(self.pipeline.functions),
        )

    def _length(self) -> int:
        if not all(self.sized):
            return RUN_UNSIZED
        size = sum(spec.dtype.size * (spec.shape.num_elements() or 0) for spec in self.specs)
        return max(1, min(RUN_MAX, RUN_BYTES // max(1, size)))

    def dataset(self) -> Any:
        """The same elements, from the cache where they are there."""
        import tensorflow as tf

        signature = tuple(
            tf.TensorSpec([None, *spec.shape], spec.dtype) if sized else tf.TensorSpec([None], tf.string)
            for spec, sized in zip(self.specs, self.sized, strict=True)
        )
        runs = tf.data.Dataset.from_generator(self._runs, output_signature=signature)
        elements = runs.unbatch().map(self._element)
        count = self.ds.cardinality()
        if count >= 0:
            elements = elements.apply(tf.data.experimental.assert_cardinality(count))
        return elements.with_options(self.ds.options())

    def _element(self, *parts: Any) -> Any:
        import tensorflow as tf

        flat = [
            part if sized else tf.ensure_shape(tf.io.parse_tensor(part, spec.dtype), spec.shape)
            for part, spec, sized in zip(parts, self.specs, self.sized, strict=True)
        ]
        return tf.nest.pack_sequence_as(self.ds.element_spec, flat)

    def _runs(self) -> Iterator[tuple[Any, ...]]:
        """An epoch. Files edited before it are seen: their content is looked at anew."""
        import numpy

        for run in self._of_rows() if self.pipeline.rows else self._in_turn():
            parts = [numpy.array(part, object) if type(part) is list else part for part in run["parts"]]
            if run["count"]:
                yield tuple(parts)

    def _of_rows(self) -> Iterator[Any]:
        """Runs that are each known by their rows, and made of them alone."""
        count = len(self.pipeline.rows[0])
        places = [(start, min(count, start + self.length)) for start in range(0, count, self.length)]
        inputs = [self._input(place, *self.pipeline.part(*place)) for place in places]
        entries = Entries(
            self.step,
            inputs,
            lambda i: self._run(iter(self._over(*places[i]))),
            background=self._in_threads,
        )
        return (entries.get(i) for i in range(len(inputs)))

    def _in_turn(self) -> Iterator[Any]:
        """Runs that are known by all that the pipeline is and reads. The first short one is the last."""

        def describe(i: int) -> Input:
            place = (i * self.length, (i + 1) * self.length)
            return self._input(place, i.to_bytes(8, "big"), self.pipeline.files)

        def begin(i: int) -> Iterator[Any]:
            return iter(self.ds.skip(i * self.length))

        for run in in_turn(self.step, describe, begin, self._run, self._in_threads):
            yield run
            if run["count"] < self.length:
                return

    def _input(self, place: tuple[int, int], content: bytes, files: list[str]) -> Input:
        known = digest(CONTEXT, self.pipeline.digest + content)
        return Input(known, f"elements {place[0]}..{place[1]}", sorted({*files, *self.pipeline.files}))

    def _over(self, start: int, end: int) -> Any:
        import tensorflow as tf

        variant = tf.raw_ops.DatasetFromGraph(graph_def=self.pipeline.of_rows(start, end))
        return tf.data.experimental.from_variant(variant, self.ds.element_spec)

    def _run(self, elements: Iterator[Any]) -> dict[str, Any]:
        """The next run of some elements."""
        # TensorFlow names resources by random numbers. What is drawn for elements the graph tells.
        open_records.draws_apart()
        columns: list[list[Any]] = [[] for _ in self.specs]
        for element in itertools.islice(elements, self.length):
            for column, part in zip(columns, _flat(element), strict=True):
                column.append(part)
        parts = [_joined(*each) for each in zip(columns, self.specs, self.sized, strict=True)]
        return {"count": len(columns[0]), "parts": parts}


def _elements(
    pipeline: Any,
    length: int,
    version: str,
    environment: dict[str, str | None],
    functions: tuple[Any, ...],
) -> None:
    """Stands for running a pipeline, in the description of its entries."""


def _flat(element: Any) -> list[Any]:
    import tensorflow as tf

    return tf.nest.flatten(element)


def _joined(column: list[Any], spec: Any, sized: bool) -> Any:
    """One component of a run: an array, or each element's tensor in TensorFlow's own serialization."""
    import numpy
    import tensorflow as tf

    if sized:
        return numpy.array([each.numpy() for each in column], spec.dtype.as_numpy_dtype)
    return [tf.io.serialize_tensor(each).numpy() for each in column]


def _plain(dtype: Any) -> bool:
    """Whether NumPy has the type itself."""
    import numpy

    return numpy.dtype(dtype.as_numpy_dtype).kind in "biufc"


def _graph(ds: Any) -> Any:
    import tensorflow as tf

    serialized = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(ds),
        # Ignored: what keeps state is refused by name, with a reason.
        external_state_policy=1,
        strip_device_assignment=True,
    )
    return tf.compat.v1.GraphDef.FromString(serialized.numpy())


__all__ = ["cache"]
