"""How the leaves of a layout become a value again."""

from __future__ import annotations

import array
import itertools
import math
import struct
import threading
from collections.abc import Callable
from typing import Any

from prebake.codec import dtypes, lazy_image, meta_tensor, named, objects, table_makers, tables, tv_tensors
from prebake.codec.writer import ALIGNMENT, IMAGE_BYTES, LENGTHS, TENSOR_DTYPES, TEXTS, Node
from prebake.runtime.errors import Code, Refused

Reader = Callable[[Any], Any]


class Reading:
    """Turns a layout into a function from an element's memory to its value; offsets follow from it."""

    def __init__(self) -> None:
        self._at = 0
        #: The tables of the value that this thread is reading.
        self._now = threading.local()

    @property
    def length(self) -> int:
        """Bytes of the whole element, once its reader is made."""
        return self._at

    def _leaf(self, length: int) -> int:
        if length < 0:
            raise Refused(Code.VALUE, f"a leaf of {length} bytes cannot be read")
        start = self._at + -self._at % ALIGNMENT
        self._at = start + length
        return start

    def reader(self, node: Node) -> Reader:
        kind = node["kind"]
        if kind in ("ndarray", "scalar"):
            return self._array(node)
        if kind == "gapped":
            return self._gapped(node)
        if kind == "tensor":
            return self._tensor(node)
        if kind == "image":
            return self._image(node)
        if kind == "meta tensor":
            plain, held = self.reader(node["of"]), self.reader(node["held"])
            return lambda view: meta_tensor.made(plain(view), held(view))
        if kind == "enum":
            return lambda view: named.member(node["class"], node["name"])
        if kind == "named tuple":
            parts = self._members(node)
            find, make = named.found, objects.named_tuple
            return lambda view: make(find(node["class"]), [read(view) for read in parts])
        if kind == "object":
            return self._object(node)
        if kind == "table":
            return lambda view: self._now.tables[node["at"]]
        if kind == "with tables":
            return self._with_tables(node)
        if kind == "lazy image":
            file, name, pixels = (self.reader(node[part]) for part in ("file", "name", "pixels"))
            return lambda view: lazy_image.made(file(view), name(view), pixels(view))
        if "packed" in node:
            return self._packed(node)
        if kind in ("tuple", "list"):
            members = self._members(node)
            make = tuple if kind == "tuple" else list
            return lambda view: make([read(view) for read in members])
        if kind == "dict":
            pairs = [(key, self.reader(member)) for key, member in node["of"]]
            return lambda view: {_read_key(key): read(view) for key, read in pairs}
        if kind == "nan":
            return lambda view: table_makers.nan_of(node["of"])
        if kind == "none":
            return lambda view: None
        return self._scalar(node)

    def _packed(self, node: Node) -> Reader:
        texts, count = node["packed"] == TEXTS, node["len"]
        form = LENGTHS if texts else node["packed"]
        start = self._leaf(count * array.array(form).itemsize)
        end = self._at
        at = self._leaf(node["bytes"]) if texts else 0
        make = tuple if node["kind"] == "tuple" else list

        def read(view: Any) -> Any:
            numbers = array.array(form, bytes(memoryview(view)[start:end]))
            if not texts:
                return make(numbers)
            joined, ends = bytes(memoryview(view)[at : at + node["bytes"]]), [*itertools.accumulate(numbers)]
            if min(numbers, default=0) < 0 or ends[-1:] != [len(joined)]:
                raise Refused(Code.VALUE, "the lengths of texts are not theirs")
            pairs = itertools.pairwise(itertools.chain((0,), ends))
            return make([str(joined[a:b], "utf-8", "surrogatepass") for a, b in pairs])

        return read

    def _members(self, node: Node) -> list[Reader]:
        return [self.reader(member) for member in node["of"]]

    def _object(self, node: Node) -> Reader:
        members, names, slots = self._members(node), node["names"], node["slots"]

        def read(view: Any) -> Any:
            parts = [member(view) for member in members]
            return objects.made(named.found(node["class"]), names, slots, parts)

        return read

    def _with_tables(self, node: Node) -> Reader:
        inner, sizes = self.reader(node["of"]), node["sizes"]
        starts = [self._leaf(size) for size in sizes]

        def read(view: Any) -> Any:
            whole = memoryview(view)
            stream, *buffers = [whole[at : at + size] for at, size in zip(starts, sizes, strict=True)]
            self._now.tables = tables.unpickled(stream, buffers, node["versions"])
            try:
                return inner(view)
            finally:
                del self._now.tables

        return read

    def _scalar(self, node: Node) -> Reader:
        kind = node["kind"]
        if kind not in ("bool", "float", "int", "str", "bytes"):
            raise Refused(Code.VALUE, f"a value of the kind {kind} cannot be read by this version")
        length = node.get("len", {"bool": 1}.get(kind, 8))
        start = self._leaf(length)
        end = start + length
        form = {"bool": "<?", "float": "<d", "int": "<q"}.get(kind)
        if form is not None and "len" not in node:
            return lambda view: struct.unpack_from(form, view, start)[0]
        if kind == "int":
            return lambda view: int.from_bytes(memoryview(view)[start:end], "little", signed=True)
        if kind == "str":
            return lambda view: str(memoryview(view)[start:end], "utf-8", "surrogatepass")
        return lambda view: bytes(memoryview(view)[start:end])

    def _array(self, node: Node) -> Reader:
        from numpy import argsort, ndarray

        dtype = dtypes.dtype_of(node["dtype"])
        shape = tuple(node.get("shape", ()))
        start = self._leaf(dtype.itemsize * math.prod(shape))
        if node["kind"] == "scalar":
            return lambda view: ndarray((), dtype, view, start)[()]
        if "axes" in node:
            axes = node["axes"]
            stored, back = tuple(shape[axis] for axis in axes), argsort(axes)
            finish = _fixed if "fixed" in node else _same
            return lambda view: finish(ndarray(stored, dtype, view, start).transpose(back))
        if "fixed" in node:
            return lambda view: _fixed(ndarray(shape, dtype, view, start))
        return lambda view: ndarray(shape, dtype, view, start)

    def _gapped(self, node: Node) -> Reader:
        from numpy import ndarray

        dtype, shape, strides = dtypes.dtype_of(node["dtype"]), tuple(node["shape"]), tuple(node["strides"])
        at = self._leaf(node["len"]) + node["at"]
        finish = _fixed if "fixed" in node else _same
        return lambda view: finish(ndarray(shape, dtype, view, at, strides))

    def _tensor(self, node: Node) -> Reader:
        import torch

        if node["dtype"] not in TENSOR_DTYPES:
            raise Refused(Code.VALUE, f"a tensor of the type {node['dtype']} is never stored")
        dtype, shape = getattr(torch, node["dtype"]), tuple(node["shape"])
        count = math.prod(shape)
        start = self._leaf(dtype.itemsize * count)
        strides, finish = node.get("strides"), tv_tensors.reader(node)
        is_inference = "inference" in node

        def read(view: Any) -> Any:
            if torch.is_inference_mode_enabled() is not is_inference:
                # It is of the mode in which it was made, whichever it is read in.
                with torch.inference_mode(is_inference):
                    return read(view)
            if not count:
                tensor = torch.empty(shape, dtype=dtype)
                return finish(tensor.as_strided(shape, strides) if strides is not None else tensor)
            tensor = torch.frombuffer(view, dtype=dtype, count=count, offset=start)
            return finish(tensor.reshape(shape) if strides is None else tensor.as_strided(shape, strides))

        return read

    def _image(self, node: Node) -> Reader:
        from PIL import Image

        mode, size = node["mode"], tuple(node["size"])
        length = (size[0] + 7) // 8 * size[1] if mode == "1" else IMAGE_BYTES[mode] * size[0] * size[1]
        start = self._leaf(length)
        end = start + length
        info, readonly = self.reader(node["info"]), node.get("readonly", 0)

        def read(view: Any) -> Any:
            image = Image.frombytes(mode, size, bytes(memoryview(view)[start:end]))
            image.info = info(view)
            image.readonly = readonly
            return image

        return read


def _read_key(key: Any) -> Any:
    if type(key) is list:
        return tuple(map(_read_key, key))
    return named.member(key["class"], key["name"]) if type(key) is dict else key


def _same(array: Any) -> Any:
    return array


def _fixed(array: Any) -> Any:
    """One that nobody may write to, as it was."""
    array.flags.writeable = False
    return array
