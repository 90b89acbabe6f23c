"""Fingerprints of data by content: arrays, tensors, tables, tokenizers, files that objects stand for.

Handlers go by the full name of an object's class, or of one that it extends, so that no package is
imported here. Everything else of these packages is known by its fields or taken apart like any object
(`instances`).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

from prebake.encoding.digests import content
from prebake.encoding.encoder import Encoder
from prebake.runtime import packages
from prebake.runtime.errors import Code
from prebake.runtime.words import words


def encode(encoder: Encoder, value: Any) -> bool:
    """Writes a data value; whether it is one."""
    cls = type(value)
    handler = _EXACT.get(f"{cls.__module__}.{cls.__qualname__}")
    if handler is None and _is_arrow_array(cls):
        handler = _table
    if handler is None:
        handler = next(
            (_EXTENDED[name] for each in cls.__mro__ if (name := each.__qualname__) in _EXTENDED), None
        )
    if handler is None and "_modules" in getattr(value, "__dict__", ()) and _is_module(cls):
        handler = _module
    if handler is None:
        return False
    handler(encoder, value)
    return True


def _is_arrow_array(cls: type) -> bool:
    return cls.__module__ == "pyarrow.lib" and any(each.__qualname__ == "Array" for each in cls.__mro__)


def _is_module(cls: type) -> bool:
    return any(
        (each.__module__, each.__qualname__) == ("torch.nn.modules.module", "Module") for each in cls.__mro__
    )


def _order(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Axes from the slowest to the fastest: results take over the order of what they are computed from."""
    return tuple(sorted(range(len(strides)), key=lambda axis: -abs(strides[axis])))


def _array(encoder: Encoder, value: Any) -> None:
    numpy = sys.modules["numpy"]
    value = value.view(numpy.ndarray) if type(value) is not numpy.ndarray else value
    encoder.emit("ndarray")
    encoder.member(".shape", value.shape)
    encoder.member(".order", _order(value.strides))
    encoder.member(".dtype", value.dtype)
    if not value.flags.writeable:
        # Code that would work in place raises, or copies.
        encoder.emit("read-only")
    if value.dtype.hasobject:
        encoder.member("", value.tolist())
    elif value.size == 0:
        encoder.emit("bytes")
    else:
        # Read where they lie: memory in the other order is told apart by the order above.
        flat = value if value.flags.c_contiguous else value.T
        if not flat.flags.c_contiguous:
            # NumPy adds up in another order where there are gaps: the last bits differ.
            encoder.member(".strides", value.strides)
            flat = numpy.ascontiguousarray(value)
        encoder.emit("bytes", flat.reshape(-1).view(numpy.uint8))


def _mapped(encoder: Encoder, value: Any) -> None:
    """An array that is mapped from a file: it is of another class, and may not be written to."""
    encoder.text("memmap", str(value.mode))
    _array(encoder, value)


def _tensor(encoder: Encoder, value: Any) -> None:
    torch = sys.modules["torch"]
    if value.layout is not torch.strided or value.is_quantized:
        raise encoder.refuse(Code.OPAQUE, f"is a tensor of layout {value.layout}")
    if vars(value):
        raise encoder.refuse(Code.OPAQUE, "is a tensor with attributes of its own")
    cls = type(value)
    encoder.text("tensor", cls.__name__, str(value.dtype), value.device.type, str(value.requires_grad))
    if value.is_inference():
        encoder.emit("inference")
    encoder.member(".shape", tuple(value.shape))
    encoder.member(".order", _order(value.stride()))
    if not value.permute(_order(value.stride())).is_contiguous():
        encoder.member(".strides", tuple(value.stride()))
    flat = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    encoder.emit("bytes", flat.view(torch.uint8).numpy() if flat.numel() else b"")


def _module(encoder: Encoder, value: Any) -> None:
    """A torch module by its fields; hooks and tables that are empty are as good as none."""
    encoder.number(value)
    encoder.emit("module instance")
    encoder.member(".__class__", type(value))
    for name, each in sorted(vars(value).items()):
        if name in _MODULE_TABLES and not each:
            continue
        if name in ("_parameters", "_buffers", "_modules"):
            for part, held in each.items():
                encoder.text(name, part)
                encoder.member(f".{part}", held)
        else:
            encoder.text("field", name)
            encoder.member(f".{name}", each)


_MODULE_TABLES = words(
    "_parameters _buffers _modules _non_persistent_buffers_set _backward_pre_hooks _backward_hooks "
    "_is_full_backward_hook _forward_hooks _forward_hooks_with_kwargs _forward_hooks_always_called "
    "_forward_pre_hooks _forward_pre_hooks_with_kwargs _state_dict_hooks _state_dict_pre_hooks "
    "_load_state_dict_pre_hooks _load_state_dict_post_hooks"
)


def _table(encoder: Encoder, value: Any) -> None:
    """Arrow columns by what they hold, however they are cut into chunks."""
    pyarrow = sys.modules["pyarrow"]
    if hasattr(value, "schema"):
        encoder.emit("table", value.schema.serialize())
        columns = value.columns
    else:
        encoder.text("column", "chunked" if hasattr(value, "chunks") else "array", str(value.type))
        columns = [value]
    for column in columns:
        chunks = column.chunks if hasattr(column, "chunks") else [column]
        whole = pyarrow.concat_arrays(chunks) if chunks else pyarrow.array([], column.type)
        batch = pyarrow.RecordBatch.from_arrays([whole], ["value"])
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        encoder.emit("values", memoryview(sink.getvalue()))


def _tokenizer(encoder: Encoder, value: Any, dropped: tuple[str, ...] = ()) -> None:
    state = json.loads(value.to_str())
    if (state.get("model") or {}).get("dropout"):
        raise encoder.refuse(Code.RANDOM, "is a tokenizer with dropout, which draws random numbers")
    encoder.member(".__class__", type(value))
    # What is set after it was read is not in its text.
    state["encode_special_tokens"] = getattr(value, "encode_special_tokens", None)
    start = len(encoder.out)
    encoder.emit("tokenizer", json.dumps({k: v for k, v in state.items() if k not in dropped}).encode())
    encoder.leaf(start)


def _encoding(encoder: Encoder, value: Any) -> None:
    """One that is registered is known by its name alone: of what the user has registered, all that it is."""
    registry = sys.modules.get("tiktoken.registry")
    made_by = (getattr(registry, "ENCODING_CONSTRUCTORS", None) or {}).get(value.name)
    encoder.member(".__class__", type(value))
    encoder.text("encoding", value.name)
    if packages.owner(getattr(made_by, "__module__", "")) is None:
        ranks = hashlib.blake2b(repr(value._mergeable_ranks).encode(), digest_size=16)
        encoder.emit("ranks", ranks.digest())
        encoder.member("._pat_str", value._pat_str)
        encoder.member("._special_tokens", value._special_tokens)


#: Fields of a tokenizer that its calls change, or that only say where it is from.
_CALLED = words(
    "_tokenizer deprecation_warnings _in_target_context_manager init_inputs name_or_path _processor_class"
)


def _pretrained(encoder: Encoder, value: Any) -> None:
    """A fast tokenizer: each call sets padding and truncation anew, so that they are no part of what it
    is.
    """
    encoder.emit("pretrained tokenizer")
    encoder.number(value)
    encoder.member(".__class__", type(value))
    encoder.path.append("._tokenizer")
    _tokenizer(encoder, value._tokenizer, ("padding", "truncation"))
    encoder.path.pop()
    for name, each in sorted(vars(value).items()):
        if name not in _CALLED:
            encoder.text("field", name)
            encoder.member(f".{name}", each)


def _stored(encoder: Encoder, path: str, *within: str) -> None:
    found = content(path)
    if found is None:
        raise encoder.refuse(Code.UNDECLARED, f"stands for the file {path}, which cannot be read")
    encoder.text("file", *within)
    encoder.emit("content", found)


def _hdf5(encoder: Encoder, value: Any) -> None:
    file = value if hasattr(value, "filename") else value.file
    if file.mode != "r":
        raise encoder.refuse(Code.CARRIES_STATE, "is an HDF5 file that is open for writing")
    _stored(encoder, file.filename, value.name)


def _lmdb(encoder: Encoder, value: Any) -> None:
    if not value.flags().get("readonly"):
        raise encoder.refuse(Code.CARRIES_STATE, "is an LMDB environment that is open for writing")
    path = value.path()
    _stored(encoder, f"{path}/data.mdb" if value.flags().get("subdir", True) else path)


def _without_generator(encoder: Encoder, value: Any) -> None:
    """MONAI's containers hold a generator for the random transforms among theirs; without these it draws
    nothing.
    """
    encoder.number(value)
    encoder.emit("monai")
    encoder.member(".__class__", type(value))
    for name, each in sorted(vars(value).items()):
        if name != "R":
            encoder.text("field", name)
            encoder.member(f".{name}", each)


def _pattern(encoder: Encoder, value: Any) -> None:
    """A pattern of `regex`. Taken apart it is compiled code, where sets are in the order of their hashes."""
    encoder.number(value)
    encoder.emit("regex")
    encoder.member(".compile", sys.modules["regex"].compile)
    for name in ("pattern", "flags", "named_lists"):
        encoder.member(f".{name}", getattr(value, name))


#: Whole numbers of 8 bytes of a node of scipy's trees, and those that say where another one lies.
_NODE_WORDS, _NODE_ADDRESSES = 9, slice(5, 7)
#: What a node has that is not cut any further: the rest of it was never set.
_LEAF, _LEAF_WORDS = -1, [0, 1, 3, 4]


def _tree(encoder: Encoder, value: Any) -> None:
    """A tree over points. What it is pickled by has addresses, and memory that was never set."""
    numpy = sys.modules["numpy"]
    nodes, *others = value.__getstate__()[:10]
    encoder.member(".__class__", type(value))
    if nodes.nbytes % (_NODE_WORDS * 8):
        # Of a version that lays them out otherwise.
        encoder.member(".nodes", nodes)
    else:
        known = nodes.view(numpy.int64).reshape(-1, _NODE_WORDS).copy()
        known[:, _NODE_ADDRESSES] = 0
        leaves = known[:, 0] == _LEAF
        unset = numpy.ones(_NODE_WORDS, bool)
        unset[_LEAF_WORDS] = False
        known[numpy.ix_(leaves, unset)] = 0
        encoder.member(".nodes", known)
    encoder.member(".points", others)
    encoder.member(".__dict__", dict(getattr(value, "__dict__", {})))


Handler = Callable[[Encoder, Any], None]
_EXACT: dict[str, Handler] = {
    "numpy.ndarray": _array,
    "numpy.memmap": _mapped,
    "torch.Tensor": _tensor,
    "torch.nn.parameter.Parameter": _tensor,
    "torchvision.tv_tensors._image.Image": _tensor,
    "torchvision.tv_tensors._mask.Mask": _tensor,
    "torchvision.tv_tensors._video.Video": _tensor,
    "pyarrow.lib.Table": _table,
    "pyarrow.lib.RecordBatch": _table,
    "pyarrow.lib.ChunkedArray": _table,
    "tokenizers.Tokenizer": _tokenizer,
    "tiktoken.core.Encoding": _encoding,
    "_regex.Pattern": _pattern,
    "scipy.spatial._ckdtree.cKDTree": _tree,
    "scipy.spatial._kdtree.KDTree": _tree,
    "h5py._hl.files.File": _hdf5,
    "h5py._hl.group.Group": _hdf5,
    "h5py._hl.dataset.Dataset": _hdf5,
    "builtins.Environment": _lmdb,
    "lmdb.cpython.Environment": _lmdb,
    "lmdb.cffi.Environment": _lmdb,
}
#: By the bare name of a class among those that it extends.
_EXTENDED: dict[str, Handler] = {
    "PreTrainedTokenizerFast": _pretrained,
    "TokenizersBackend": _pretrained,
    "Randomizable": _without_generator,
}
