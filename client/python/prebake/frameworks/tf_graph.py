"""What a `tf.data` pipeline is: its GraphDef and function library as one digest, and the files it reads.

Node and function names, devices, degrees of parallelism and prefetching are no part of it. Only operations
known to make the same elements each time are let through; the registry's `is_stateful` is wrong both ways, so
the exceptions are listed here.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

from prebake.encoding.digests import digest
from prebake.identity.code import identify
from prebake.runtime.errors import Code, Refused

CONTEXT = "prebake 2026 tf graph v1"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Data set operations that yield the same elements in the same order each time.
DATASETS = _words("""
    AssertCardinalityDataset AssertNextDataset BatchDataset BatchDatasetV2 ConcatenateDataset
    FilterDataset FixedLengthRecordDatasetV2 FlatMapDataset GroupByWindowDataset InterleaveDataset
    MapDataset OptionsDataset PaddedBatchDatasetV2 ParallelBatchDataset ParallelInterleaveDatasetV4
    ParallelMapDatasetV2 ParseExampleDatasetV2 PrefetchDataset RangeDataset RebatchDatasetV2 RepeatDataset
    ScanDataset ShardDataset SkipDataset SlidingWindowDataset TFRecordDataset TFRecordDatasetV2
    TakeDataset TakeWhileDataset TensorDataset TensorSliceDataset TextLineDataset UnbatchDataset
    UniqueDataset WindowDataset WindowOp ZipDataset
""")
#: Other operations that count as stateful but keep nothing.
STATELESS = _words("""
    Assert If PartitionedCall StatefulPartitionedCall While _Retval
""")
#: Operations that read the files named by their first input.
READS = _words("""
    FixedLengthRecordDatasetV2 ReadFile TFRecordDataset TFRecordDatasetV2 TextLineDataset
""")
#: Python in the graph, by the token of a registered function.
PYTHON = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})
#: Stateless by the registry, but what they yield is not in the graph.
REFUSED = _words("""
    ChooseFastestBranchDataset ChooseFastestDataset DecodeProtoV2 EncodeProto IgnoreErrorsDataset
    IgnoreErrorsDatasetV2 MatchingFiles MatchingFilesDataset XlaHostCompute
""")
#: Words in the names of operations that draw random numbers or tell the time.
RANDOM_WORDS = (
    "Random",
    "Shuffle",
    "Multinomial",
    "Rng",
    "NonDeterministic",
    "SampleDistorted",
    "Seed",
    "Stateful",
)
#: What a value passes through unchanged.
PASSED = _words("""
    EnsureShape ExpandDims FileIdentity Identity OptionsDataset PrefetchDataset RepeatDataset Reshape
    ShardDataset SkipDataset Squeeze TakeDataset TensorDataset TensorSliceDataset ConcatenateDataset
    FilterDataset ZipDataset BatchDatasetV2 UnbatchDataset
""")
#: Attributes that name things, or say how the work is done.
ATTRIBUTES_IGNORED = _words("""
    _class _cardinality _xla_call_module_disabled_checks config config_proto deterministic executor_type
    force_synchronous is_files legacy_autotune metadata buffer_size_min parallel_copy replicate_on_split
    slack_period token use_inter_op_parallelism use_unbounded_threadpool
""")
#: Data set operations that make one element of one, without looking at others.
ONE_TO_ONE = _words("""
    MapDataset OptionsDataset ParallelMapDatasetV2 PrefetchDataset
""")
DT_STRING, DT_RESOURCE = 7, 20


class Pipeline:
    """A pipeline's `digest`, the Python `functions` it calls, and the `files` it reads. Raises `Refused`.

    Where element i is made of row i of constant tensors, those are `rows`, are no part of the digest, and the
    files they name are not among `files`.
    """

    def __init__(self, graph: Any) -> None:
        self._functions = {each.signature.name: each for each in graph.library.function}
        self._bodies: dict[str, bytes] = {}
        #: Where each function is called from: the scope, and the inputs of the call.
        self._calls: dict[str, list[tuple[_Scope, Any]]] = {}
        self.functions: list[Any] = []
        main = _Scope(graph.node, [])
        self._scopes = [main, *(self._scope(name) for name in self._functions)]
        #: Whether rows name files that are read.
        self.rows_are_files = False
        self._source = _source(main)
        if self._source is not None:
            main.digests[self._source.name] = b"rows"
        result = [self._node(main, node) for node in graph.node if node.op == "_Retval"]
        self.digest = digest(CONTEXT, b"".join(result))
        self.files = existing(self._files())
        self.rows = [] if self._source is None else [_array(main.nodes[name]) for name in self._source.input]
        if self._source is not None:
            # Copied for each run, so it holds no rows itself.
            for name in self._source.input:
                main.nodes[name].attr["value"].tensor.Clear()
        self._graph = graph

    def part(self, start: int, end: int) -> tuple[bytes, list[str]]:
        """The digest of some rows, and the files that these name."""
        parts, files = [], []
        for rows in self.rows:
            some = rows[start:end]
            if some.dtype == object:
                flat = some.ravel().tolist()
                parts.append(_join([repr(some.shape).encode(), *flat]))
                files += flat if self.rows_are_files else []
            else:
                parts.append(_join([f"{some.dtype.str} {some.shape}".encode(), some.tobytes()]))
        return _join(parts), existing(os.fsdecode(name) for name in files)

    def of_rows(self, start: int, end: int) -> bytes:
        """The pipeline over some of its rows, as a serialized graph."""
        import tensorflow as tf

        graph = type(self._graph)()
        graph.CopyFrom(self._graph)
        nodes = {node.name: node for node in graph.node}
        for name, rows in zip(self._source.input, self.rows, strict=True):
            dtype = tf.as_dtype(nodes[name].attr["dtype"].type)
            some = rows[start:end]
            nodes[name].attr["value"].tensor.CopyFrom(tf.make_tensor_proto(some, dtype, some.shape))
        return graph.SerializeToString()

    def _scope(self, name: str) -> _Scope:
        function = self._functions[name]
        arguments = [each.name for each in function.signature.input_arg]
        return _Scope(function.node_def, arguments, name)

    def _node(self, scope: _Scope, node: Any) -> bytes:
        """A node as what it computes, with all that it computes it from."""
        if node.name in scope.digests:
            return scope.digests[node.name]
        self._check(scope, node)
        inputs = [each for each in node.input if not each.startswith("^")]
        op = node.op
        if op in ("OptionsDataset", "PrefetchDataset") or _is_memory_cache(scope, node):
            made = self._input(scope, inputs[0])
        else:
            if op == "ParallelMapDatasetV2":
                op, inputs = "MapDataset", inputs[:-1]
            parts = [op.encode(), *(self._input(scope, each) for each in inputs)]
            for name in sorted(node.attr):
                if name not in ATTRIBUTES_IGNORED and not (
                    op == "MapDataset" and name == "preserve_cardinality"
                ):
                    parts += [name.encode(), self._attribute(scope, node, node.attr[name])]
            if node.op in PYTHON:
                function = _python(node)
                self.functions.append(function)
                parts.append(identify(function, f"{getattr(function, '__qualname__', 'function')}").digest)
            # Order of execution counts only for what fails: assertions.
            parts += sorted(self._input(scope, each[1:]) for each in node.input if each.startswith("^"))
            made = _join(parts)
        scope.digests[node.name] = made
        return made

    def _input(self, scope: _Scope, name: str) -> bytes:
        if name in scope.arguments:
            return b"argument %d" % scope.arguments.index(name)
        node, _, output = name.partition(":")
        return _join([self._node(scope, scope.nodes[node]), output.encode()])

    def _attribute(self, scope: _Scope, node: Any, value: Any) -> bytes:
        kind = value.WhichOneof("value")
        if kind == "func":
            return self._called(scope, node, value.func)
        if kind == "list" and value.list.func:
            return _join([self._called(scope, node, each) for each in value.list.func])
        return value.SerializeToString(deterministic=True)

    def _called(self, scope: _Scope, node: Any, reference: Any) -> bytes:
        name = reference.name
        if name not in self._functions:
            raise Refused(Code.OPAQUE, f"the pipeline calls {name}, which its graph does not hold")
        if name not in self._bodies:
            inner = next(each for each in self._scopes if each.name == name)
            function = self._functions[name]
            results = [self._input(inner, function.ret[each.name]) for each in function.signature.output_arg]
            results += sorted(self._input(inner, each) for each in function.control_ret.values())
            self._bodies[name] = _join(results)
        self._calls.setdefault(name, []).append((scope, node))
        return self._bodies[name]

    def _check(self, scope: _Scope, node: Any) -> None:
        op, where = node.op, f"operation {node.name} ({node.op}) of the pipeline"
        if op in PYTHON or _is_memory_cache(scope, node):
            return
        if op.endswith(("Dataset", "DatasetV2", "DatasetV3", "DatasetV4")) and op not in DATASETS:
            random = any(word in op for word in RANDOM_WORDS)
            raise Refused(
                Code.RANDOM if random else Code.OPAQUE, f"{where} cannot be shared; put it after the cache"
            )
        if op == "OptionsDataset" and scope.name and _attribute(node, "serialized_options", "s"):
            raise Refused(
                Code.UNSTABLE, f"{where} sets options inside a function, where they are not looked at"
            )
        if op in REFUSED:
            raise Refused(Code.UNDECLARED, f"{where} depends on more than the graph says")
        if _attribute(node, "deterministic", "s") == b"false" or _attribute(node, "sloppy", "b"):
            raise Refused(Code.UNSTABLE, f"{where} yields elements in any order; use deterministic=True")
        if op == "ParallelInterleaveDatasetV4" or op == "InterleaveDataset":
            _check_cycle(scope, node)
        if op not in DATASETS and op not in STATELESS and op not in self._functions and _stateful(op):
            random = any(word in op for word in RANDOM_WORDS) and not op.startswith("Stateless")
            code = Code.CLOCK if op == "Timestamp" else Code.RANDOM if random else Code.CARRIES_STATE
            raise Refused(code, f"{where} is random or keeps state; put it after the cache")
        if _attribute(node, "dtype", "type") == DT_RESOURCE:
            raise Refused(Code.CARRIES_STATE, f"{where} is a resource that keeps state")

    def _files(self) -> Iterator[str]:
        for scope in self._scopes:
            for node in scope.nodes.values():
                if node.op in READS and node.name in scope.digests:
                    yield from self._names(scope, node.input[0], set())

    def _names(self, scope: _Scope, name: str, seen: set[tuple[int, str]]) -> Iterator[str]:
        """The strings that a value can be, traced back through what hands them on unchanged."""
        if (id(scope), name) in seen:
            return
        seen.add((id(scope), name))
        if name in scope.arguments:
            # An argument of a function is an element of the data set, or something captured.
            for caller, node in self._calls.get(scope.name, []):
                for each in node.input:
                    if not each.startswith("^"):
                        yield from self._names(caller, each, seen)
            return
        node = scope.nodes[name.partition(":")[0]]
        if node is self._source:
            self.rows_are_files = True
        elif node.op == "Const":
            yield from _strings(node)
        elif node.op in PASSED:
            for each in node.input:
                if not each.startswith("^"):
                    yield from self._names(scope, each, seen)
        elif node.op != "RangeDataset":
            raise Refused(
                Code.UNDECLARED, f"the pipeline computes file names ({node.op}); give it whole ones"
            )


class _Scope:
    """The main graph, or a function's body."""

    def __init__(self, nodes: Any, arguments: list[str], name: str = "") -> None:
        self.nodes = {node.name: node for node in nodes}
        self.arguments = arguments
        self.name = name
        self.digests: dict[str, bytes] = {}


def _attribute(node: Any, name: str, kind: str) -> Any:
    """An attribute if the node has it: asking for one by its name alone would add it."""
    return getattr(node.attr[name], kind) if name in node.attr else None


def _join(parts: list[bytes]) -> bytes:
    return digest(CONTEXT, b"".join(len(part).to_bytes(8, "big") + part for part in parts))


def _source(main: _Scope) -> Any:
    """The node that takes constant tensors apart into rows, if each element is made of one row; else None."""
    node = next(each for each in main.nodes.values() if each.op == "_Retval")
    while node.op in ONE_TO_ONE or node.op == "_Retval":
        node = main.nodes[node.input[0].partition(":")[0]]
    constant = all(main.nodes.get(name) is not None and main.nodes[name].op == "Const" for name in node.input)
    return node if node.op == "TensorSliceDataset" and node.input and constant else None


def existing(names: Iterator[str]) -> list[str]:
    """Those of the strings that name files. Others are read by nothing, or reading them fails."""
    found = set()
    for name in names:
        if "://" in name:
            raise Refused(Code.NETWORK, f"the pipeline reads {name}")
        if os.path.isfile(name):
            found.add(name)
    return sorted(found)


def _array(node: Any) -> Any:
    import tensorflow as tf

    # TensorFlow packs the strings of a graph in a way that `make_ndarray` does not read.
    tensor = node.attr["value"].tensor
    return tf.io.parse_tensor(tensor.SerializeToString(), tf.as_dtype(tensor.dtype)).numpy()


def _strings(node: Any) -> Iterator[str]:
    import numpy

    if _attribute(node, "dtype", "type") == DT_STRING:
        # A lone string is no array.
        for each in numpy.array(_array(node), object).ravel():
            yield os.fsdecode(each)


def _stateful(op: str) -> bool:
    import tensorflow as tf

    op_def_registry = importlib.import_module("tensorflow.python.framework.op_def_registry")
    # What other packages add may do anything.
    if not hasattr(tf.raw_ops, op) and op != "FileIdentity":
        return True
    known = op_def_registry.get(op)
    return known is None or known.is_stateful


def _is_memory_cache(scope: _Scope, node: Any) -> bool:
    """Whether it is `cache()` without a file, which yields what it is given."""
    if node.op != "CacheDatasetV2":
        return False
    name = scope.nodes.get(node.input[1].partition(":")[0])
    return name is not None and name.op == "Const" and not any(_strings(name))


def _check_cycle(scope: _Scope, node: Any) -> None:
    """An automatic number of files read side by side depends on the machine."""
    arguments = len(node.attr["Targuments"].list.type)
    length = scope.nodes.get(node.input[1 + arguments].partition(":")[0])
    if length is None or length.op != "Const" or _array(length) < 1:
        raise Refused(
            Code.UNSTABLE,
            "interleave yields elements in an order that depends on the machine; give cycle_length",
        )


def _python(node: Any) -> Any:
    """The user's function behind an operation that calls Python."""
    from tensorflow.python.ops import script_ops

    function = script_ops._py_funcs._funcs.get(node.attr["token"].s.decode())
    function = getattr(function, "_func", function)
    if function is None:
        raise Refused(Code.OPAQUE, f"the Python function behind {node.name} cannot be found")
    module = getattr(function, "__module__", "")
    if module == "tensorflow.python.data.ops.from_generator_op":
        raise Refused(
            Code.OPAQUE, "elements come from a Python generator; make them with map() over an index or files"
        )
    return function
