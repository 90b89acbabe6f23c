"""How a value becomes an element's bytes, and back, exactly.

A value is its layout (JSON: types, shapes, lengths) and its leaves' bytes in order, each leaf on a 64-byte
boundary of the element. What would not come back as the same type with the same content is refused. Values of
NumPy, PyTorch and Pillow are known without importing them: whoever holds one has imported its package.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from prebake import lazy_image, meta_tensor, named, objects, tables
from prebake.errors import Code, Refused

#: Leaves start on multiples of this: a cache line, and what Arrow asks of buffers.
ALIGNMENT = 64
#: Containers inside containers. A sample is a few levels deep; the bound ends values that contain themselves.
DEPTH_MAX = 32
#: Decoders kept, by layout. A pipeline has few layouts unless its shapes vary.
DECODERS_MAX = 4096

#: Element types that are their bytes. Objects and variable strings are pointers.
_DTYPE_KINDS = frozenset("biufcmMSUV")
_TENSOR_DTYPES = frozenset(
    {"uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool"}
)
#: Pillow modes without a palette, and their bytes per pixel (mode 1 packs eight pixels in a byte).
_IMAGE_BYTES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4, "I": 4, "F": 4}

#: torchvision's tensors, and what they hold besides. Those of other fields (later versions) are not known.
_TV_FIELDS: dict[str, tuple[str, ...]] = {
    "Image": (),
    "Mask": (),
    "Video": (),
    "BoundingBoxes": ("format", "canvas_size", "clamping_mode"),
    "KeyPoints": ("canvas_size",),
}

Node = dict[str, Any]


class Encoded(NamedTuple):
    """A value as an element: layout, and buffers to be laid side by side."""

    layout: str
    parts: list[Any]


def encode(value: Any) -> Encoded:
    """A value's layout and bytes; the bytes are the value's own where possible. Raises `Refused`."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray and value.flags.c_contiguous:
        return Encoded(_array_layout(value.dtype, value.shape), [_bytes_of(value)])
    writer = _Writer()
    node = writer.node(value, 0)
    writer.refuse_shared()
    return Encoded(_text(node), writer.parts)


def decode(layout: str, view: Any) -> Any:
    """The value of an element. Arrays and tensors lie in the view's memory; all else is copied."""
    return _decoder(layout)(view)


def copied(value: Any) -> Any:
    """An equal value that shares nothing with it. Raises `Refused` if it cannot be an element."""
    layout, parts = encode(value)
    return decode(layout, bytearray(b"".join(parts)))


def decode_batch(view: Any, layout: str, count: int) -> Any:
    """Elements side by side as one array; None if they are not lone C-ordered arrays, or if stacking them
    would change their type (NumPy makes byte orders native, for one)."""
    plain = _plain_array(layout)
    if plain is None:
        return None
    dtype, shape = plain
    return sys.modules["numpy"].ndarray((count, *shape), dtype, view)


@functools.lru_cache(maxsize=DECODERS_MAX)
def _plain_array(layout: str) -> tuple[Any, tuple[int, ...]] | None:
    node = json.loads(layout)
    if node["kind"] != "ndarray" or "axes" in node:
        return None
    dtype = _dtype(node["dtype"])
    stacked = sys.modules["numpy"].promote_types(dtype, dtype)
    if stacked != dtype or stacked.isalignedstruct != dtype.isalignedstruct:
        return None
    return dtype, tuple(node["shape"])


def _text(node: Node) -> str:
    return json.dumps(node, sort_keys=True, separators=(",", ":"))


@functools.lru_cache(maxsize=DECODERS_MAX)
def _array_layout(dtype: Any, shape: tuple[int, ...]) -> str:
    return _text({"kind": "ndarray", "dtype": _descr(dtype), "shape": list(shape)})


def _descr(dtype: Any) -> Any:
    """A NumPy type as JSON, only if that says all there is to it."""
    descr = dtype.str if dtype.fields is None else [list(field) for field in dtype.descr]
    if dtype.kind not in _DTYPE_KINDS or dtype.hasobject or dtype.metadata or not _round_trips(dtype, descr):
        raise Refused(Code.VALUE, f"an array of type {dtype} cannot be stored exactly")
    return descr


def _round_trips(dtype: Any, descr: Any) -> bool:
    try:
        back = _dtype(descr)
    except (TypeError, ValueError):
        return False
    return back == dtype and back.isalignedstruct == dtype.isalignedstruct


def _dtype(descr: Any) -> Any:
    import numpy

    if isinstance(descr, str):
        return numpy.dtype(descr)
    return numpy.dtype([(name, form, *(tuple(shape) for shape in rest)) for name, form, *rest in descr])


def _bytes_of(array: Any) -> Any:
    """The bytes of a contiguous array, without a copy. Its own buffer would refuse dates, for one."""
    return array.reshape(-1).view(sys.modules["numpy"].uint8)


class _Writer:
    """Collects the leaves of a value."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self._at = 0
        #: Where arrays and tensors lie: address and bytes. All have no gaps.
        self._memory: list[tuple[int, int]] = []
        self._mutable: set[int] = set()

    def refuse_shared(self) -> None:
        """Parts of a value that are one memory would come back as two."""
        end = 0
        for start, length in sorted(self._memory):
            if start < end:
                raise Refused(
                    Code.VALUE, "a value that holds the same memory twice cannot be stored; copy it"
                )
            end = start + length

    def _once(self, value: Any) -> None:
        """Notes an object that can be edited in place."""
        if id(value) in self._mutable:
            raise Refused(
                Code.VALUE, f"a value that holds one {type(value).__name__} twice cannot be stored; copy it"
            )
        self._mutable.add(id(value))

    def leaf(self, part: Any, length: int) -> None:
        padding = -self._at % ALIGNMENT
        if padding:
            self.parts.append(bytes(padding))
        if length:
            self.parts.append(part)
        self._at += padding + length

    def node(self, value: Any, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise Refused(Code.TOO_LARGE, f"a value of more than {DEPTH_MAX} levels cannot be stored")
        kind = type(value)
        if kind is list or kind is dict:
            self._once(value)
        write = _WRITERS.get(kind)
        if write is not None:
            return write(self, value, depth)
        return self._of_package(value, depth)

    def _of_package(self, value: Any, depth: int) -> Node:
        kind = type(value)
        numpy, torch, image = (sys.modules.get(name) for name in ("numpy", "torch", "PIL.Image"))
        if numpy is not None and kind is numpy.ndarray:
            return self._array(value)
        if numpy is not None and isinstance(value, numpy.generic) and kind is value.dtype.type:
            if isinstance(value, (str, bytes)) and value[-1:] in ("\0", b"\0"):
                raise Refused(Code.VALUE, "NumPy loses the zero at the end of a string; use str or bytes")
            array = numpy.asarray(value)
            self.leaf(_bytes_of(array), array.nbytes)
            return {"kind": "scalar", "dtype": _descr(value.dtype)}
        if torch is not None and (kind is torch.Tensor or _tv_fields(kind) is not None):
            return self._tensor(value, torch)
        if torch is not None and kind is meta_tensor.cls():
            plain = self._tensor(value.as_tensor(), torch)
            return {"kind": "meta tensor", "of": plain, "held": self.node(meta_tensor.held(value), depth + 1)}
        if isinstance(value, enum.Enum):
            return _member(value)
        if objects.is_named_tuple(value):
            return {"kind": "named tuple", "class": named.reference(kind), "of": self._members(value, depth)}
        if dataclasses.is_dataclass(kind):
            return self._object(value, depth)
        if tables.is_one(value):
            return self._table(value)
        if image is not None and kind is image.Image:
            return self._image(value, depth)
        if lazy_image.is_one(value):
            return self._lazy_image(value, depth)
        raise Refused(
            Code.VALUE, f"a value of type {kind.__module__}.{kind.__qualname__} cannot be stored exactly"
        )

    def _members(self, of: Any, depth: int) -> list[Node]:
        return [self.node(member, depth + 1) for member in of]

    def _object(self, value: Any, depth: int) -> Node:
        self._once(value)
        held, slots = objects.fields(value)
        return {
            "kind": "object",
            "class": named.reference(type(value)),
            "fields": [*held],
            "slots": [*slots],
            "of": self._members([*held.values(), *slots.values()], depth),
        }

    def _table(self, table: Any) -> Node:
        stream, buffers, versions = tables.pickled(table)
        sizes = [len(stream), *(buffer.nbytes for buffer in buffers)]
        for part, size in zip([stream, *buffers], sizes, strict=True):
            self.leaf(part, size)
        return {"kind": "table", "sizes": sizes, "versions": versions}

    def _array(self, array: Any) -> Node:
        node: Node = {"kind": "ndarray", "dtype": _descr(array.dtype), "shape": list(array.shape)}
        if not array.flags.c_contiguous:
            # A transposed view: store it in the order of its memory, and how to look at that.
            axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
            array = array.transpose(axes)
            if not array.flags.c_contiguous:
                raise Refused(
                    Code.VALUE, "an array with gaps cannot be stored exactly; use numpy.ascontiguousarray"
                )
            node["axes"] = axes
        if array.nbytes:
            self._memory.append((array.ctypes.data, array.nbytes))
        self.leaf(_bytes_of(array), array.nbytes)
        return node

    def _tensor(self, value: Any, torch: Any) -> Node:
        said = _tv_said(value) if type(value) is not torch.Tensor else {}
        tensor = value.as_subclass(torch.Tensor)
        dtype = str(tensor.dtype).removeprefix("torch.")
        if (
            tensor.layout is not torch.strided
            or tensor.device.type != "cpu"
            or tensor.requires_grad
            or dtype not in _TENSOR_DTYPES
            or tensor.is_neg()
            or vars(value).keys() != said.get("fields", {}).keys()
        ):
            raise Refused(Code.VALUE, "only plain tensors on the CPU without gradient can be stored exactly")
        node = {"kind": "tensor", "dtype": dtype, "shape": list(tensor.shape), **said}
        strides = tensor.stride()
        if strides != torch.empty(tensor.shape, device="meta").stride():
            # A view with its axes in another order, as of an image with its channels last.
            node["strides"] = list(strides)
            tensor = tensor.permute(sorted(range(tensor.ndim), key=lambda axis: -strides[axis]))
            if not tensor.is_contiguous():
                raise Refused(Code.VALUE, "a tensor with gaps cannot be stored exactly; use contiguous()")
        if tensor.numel():
            self._memory.append((tensor.data_ptr(), tensor.numel() * tensor.element_size()))
        flat = tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else b""
        self.leaf(flat, tensor.numel() * tensor.element_size())
        return node

    def _image(self, image: Any, depth: int) -> Node:
        if image.mode != "1" and image.mode not in _IMAGE_BYTES:
            raise Refused(Code.VALUE, f"an image of mode {image.mode} cannot be stored exactly; convert it")
        self._once(image)
        pixels = image.tobytes()
        self.leaf(pixels, len(pixels))
        return {
            "kind": "image",
            "mode": image.mode,
            "size": list(image.size),
            "info": self.node(image.info, depth + 1),
        }

    def _lazy_image(self, image: Any, depth: int) -> Node:
        self._once(image)
        file, pixels = lazy_image.parts(image)
        return {
            "kind": "lazy image",
            "file": self.node(file, depth + 1),
            "name": self.node(image.filename, depth + 1),
            "pixels": self._image(pixels, depth + 1),
        }


def _tv_fields(kind: type) -> tuple[str, ...] | None:
    """What a tensor of a class of torchvision's holds besides; None if it is none of those."""
    known = sys.modules.get("torchvision.tv_tensors")
    fields = _TV_FIELDS.get(kind.__name__)
    return fields if known is not None and getattr(known, kind.__name__, None) is kind else None


def _tv_said(value: Any) -> Node:
    """The class of one of torchvision's tensors, and what it holds besides."""
    fields = {}
    for name in _tv_fields(type(value)) or ():
        field = getattr(value, name)
        if name == "format":
            field = field.name
        elif name == "canvas_size":
            if type(field) is not tuple or [type(each) for each in field] != [int, int]:
                raise Refused(Code.VALUE, f"a canvas_size of {field!r} cannot be stored exactly")
            field = list(field)
        fields[name] = field
    return {"class": type(value).__name__, "fields": fields}


def _packed(kind: str, form: str) -> Callable[[_Writer, Any, int], Node]:
    def write(writer: _Writer, value: Any, depth: int) -> Node:
        writer.leaf(struct.pack(form, value), struct.calcsize(form))
        return {"kind": kind}

    return write


def _write_int(writer: _Writer, value: int, depth: int) -> Node:
    if -(1 << 63) <= value < 1 << 63:
        return _packed("int", "<q")(writer, value, depth)
    length = value.bit_length() // 8 + 1
    writer.leaf(value.to_bytes(length, "little", signed=True), length)
    return {"kind": "int", "len": length}


def _write_bytes(writer: _Writer, value: bytes, depth: int) -> Node:
    writer.leaf(value, len(value))
    return {"kind": "bytes", "len": len(value)}


def _write_str(writer: _Writer, value: str, depth: int) -> Node:
    return _write_bytes(writer, value.encode("utf-8", "surrogatepass"), depth) | {"kind": "str"}


def _write_sequence(writer: _Writer, value: Any, depth: int) -> Node:
    return {"kind": type(value).__name__, "of": writer._members(value, depth)}


def _write_dict(writer: _Writer, value: dict[Any, Any], depth: int) -> Node:
    return {
        "kind": "dict",
        "of": [[_write_key(key), writer.node(member, depth + 1)] for key, member in value.items()],
    }


def _write_key(key: Any) -> Any:
    """A dictionary's key as JSON, which has strings, numbers, truth and null of its own."""
    if type(key) in (str, int, bool, type(None)):
        return key
    if isinstance(key, enum.Enum):
        return _member(key)
    raise Refused(
        Code.VALUE, f"a dictionary with a key of type {type(key).__qualname__} cannot be stored; use strings"
    )


def _read_key(key: Any) -> Any:
    return named.member(key["class"], key["name"]) if type(key) is dict else key


def _member(value: enum.Enum) -> Node:
    """A member of an enumeration; some flags are of several and have no name."""
    if type(value).__members__.get(value.name) is not value:
        raise Refused(Code.VALUE, f"{value!r} is no member of its class by name, and cannot be stored")
    return {"kind": "enum", "class": named.reference(type(value)), "name": value.name}


_WRITERS: dict[type, Callable[[_Writer, Any, int], Node]] = {
    type(None): lambda writer, value, depth: {"kind": "none"},
    bool: _packed("bool", "<?"),
    int: _write_int,
    float: _packed("float", "<d"),
    bytes: _write_bytes,
    str: _write_str,
    tuple: _write_sequence,
    list: _write_sequence,
    dict: _write_dict,
}

Reader = Callable[[Any], Any]


@functools.lru_cache(maxsize=DECODERS_MAX)
def _decoder(layout: str) -> Reader:
    return _Reading().reader(json.loads(layout))


class _Reading:
    """Turns a layout into a function from an element's memory to its value; offsets follow from it."""

    def __init__(self) -> None:
        self._at = 0

    def _leaf(self, length: int) -> int:
        start = self._at + -self._at % ALIGNMENT
        self._at = start + length
        return start

    def reader(self, node: Node) -> Reader:
        kind = node["kind"]
        if kind in ("ndarray", "scalar"):
            return self._array(node)
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
            return lambda view: tuple.__new__(named.found(node["class"]), [read(view) for read in parts])
        if kind == "object":
            return self._object(node)
        if kind == "table":
            return self._table(node)
        if kind == "lazy image":
            file, name, pixels = (self.reader(node[part]) for part in ("file", "name", "pixels"))
            return lambda view: lazy_image.made(file(view), name(view), pixels(view))
        if kind in ("tuple", "list"):
            members = self._members(node)
            make = tuple if kind == "tuple" else list
            return lambda view: make([read(view) for read in members])
        if kind == "dict":
            pairs = [(key, self.reader(member)) for key, member in node["of"]]
            return lambda view: {_read_key(key): read(view) for key, read in pairs}
        if kind == "none":
            return lambda view: None
        return self._scalar(node)

    def _members(self, node: Node) -> list[Reader]:
        return [self.reader(member) for member in node["of"]]

    def _object(self, node: Node) -> Reader:
        members, held, slots = self._members(node), node["fields"], node["slots"]

        def read(view: Any) -> Any:
            parts = [member(view) for member in members]
            return objects.made(named.found(node["class"]), held, slots, parts)

        return read

    def _table(self, node: Node) -> Reader:
        sizes = node["sizes"]
        starts = [self._leaf(size) for size in sizes]

        def read(view: Any) -> Any:
            whole = memoryview(view)
            stream, *buffers = [whole[at : at + size] for at, size in zip(starts, sizes, strict=True)]
            return tables.unpickled(stream, buffers, node["versions"])

        return read

    def _scalar(self, node: Node) -> Reader:
        kind = node["kind"]
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

        dtype = _dtype(node["dtype"])
        shape = tuple(node.get("shape", ()))
        start = self._leaf(dtype.itemsize * math.prod(shape))
        if node["kind"] == "scalar":
            return lambda view: ndarray((), dtype, view, start)[()]
        if "axes" in node:
            axes = node["axes"]
            stored, back = tuple(shape[axis] for axis in axes), argsort(axes)
            return lambda view: ndarray(stored, dtype, view, start).transpose(back)
        return lambda view: ndarray(shape, dtype, view, start)

    def _tensor(self, node: Node) -> Reader:
        import torch

        dtype, shape = getattr(torch, node["dtype"]), tuple(node["shape"])
        count = math.prod(shape)
        start = self._leaf(dtype.itemsize * count)
        strides, finish = node.get("strides"), _tv_reader(node)

        def read(view: Any) -> Any:
            if not count:
                tensor = torch.empty(shape, dtype=dtype)
                return finish(tensor.as_strided(shape, strides) if strides is not None else tensor)
            tensor = torch.frombuffer(view, dtype=dtype, count=count, offset=start)
            return finish(tensor.reshape(shape) if strides is None else tensor.as_strided(shape, strides))

        return read

    def _image(self, node: Node) -> Reader:
        from PIL import Image

        mode, size = node["mode"], tuple(node["size"])
        length = (size[0] + 7) // 8 * size[1] if mode == "1" else _IMAGE_BYTES[mode] * size[0] * size[1]
        start = self._leaf(length)
        end = start + length
        info = self.reader(node["info"])

        def read(view: Any) -> Any:
            image = Image.frombytes(mode, size, bytes(memoryview(view)[start:end]))
            image.info = info(view)
            return image

        return read


def _tv_reader(node: Node) -> Reader:
    """What makes a tensor one of the class it was."""
    if "class" not in node:
        return lambda tensor: tensor
    from torchvision import tv_tensors

    kind, fields = getattr(tv_tensors, node["class"]), dict(node["fields"])
    if "format" in fields:
        fields["format"] = tv_tensors.BoundingBoxFormat[fields["format"]]
    if "canvas_size" in fields:
        fields["canvas_size"] = tuple(fields["canvas_size"])

    def read(tensor: Any) -> Any:
        made = tensor.as_subclass(kind)
        vars(made).update(fields)
        return made

    return read
