"""What a value is made of: its layout, and its leaves."""

from __future__ import annotations

import array
import dataclasses
import enum
import math
import struct
import sys
from collections.abc import Callable
from typing import Any

from prebake.codec import columns, dtypes, lazy_image, meta_tensor, named, objects, tables, tv_tensors
from prebake.runtime.errors import Code, Refused

#: Leaves start on multiples of this: a cache line, and what Arrow asks of buffers.
ALIGNMENT = 64
#: Containers inside containers. A sample is a few levels deep; the bound ends values that contain themselves.
DEPTH_MAX = 32
#: Parts of a value, each some microseconds: a tuple of twice the same, and so on, doubles with each level.
NODES_MAX = 1 << 18
#: So many members of one type are one leaf: tokens, words, coordinates.
PACKED_MIN = 4
#: Of `array`, and one for texts: their lengths, and all of them joined.
LENGTHS, TEXTS = "q", "texts"
_FORMS = {int: "q", float: "d", str: TEXTS}
TENSOR_DTYPES = frozenset(
    {"uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool"}
)
#: Pillow modes without a palette, and their bytes per pixel (mode 1 packs eight pixels in a byte).
IMAGE_BYTES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4, "I": 4, "F": 4}


Node = dict[str, Any]


class Writer:
    """Collects the leaves of a value."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self._at = 0
        #: Where arrays and tensors lie: address and bytes. All have no gaps.
        self._memory: list[tuple[int, int]] = []
        self._mutable: set[int] = set()
        self._tables: list[Any] = []
        self._nodes = 0

    def _refuse_shared(self) -> None:
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
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise Refused(
                Code.TOO_LARGE, f"a value of more than {NODES_MAX} parts cannot be stored; use arrays"
            )
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
            if issubclass(kind, (str, bytes)) and value[-1:] in ("\0", b"\0"):
                raise Refused(Code.VALUE, "NumPy loses the zero at the end of a string; use str or bytes")
            array = numpy.asarray(value)
            self.leaf(dtypes.bytes_of(array), array.nbytes)
            return {"kind": "scalar", "dtype": dtypes.described(value.dtype)}
        if torch is not None and (kind is torch.Tensor or tv_tensors.fields(kind) is not None):
            return self._tensor(value, torch)
        if torch is not None and kind is meta_tensor.cls():
            plain = self._tensor(value.as_tensor(), torch)
            return {"kind": "meta tensor", "of": plain, "held": self.node(meta_tensor.held(value), depth + 1)}
        if isinstance(value, enum.Enum):
            return _member(value)
        if objects.is_named_tuple(value):
            of = self.members(tuple.__iter__(value), depth)
            return {"kind": "named tuple", "class": named.reference(kind), "of": of}
        if dataclasses.is_dataclass(kind):
            return self._object(value, depth)
        if tables.is_one(value):
            return self._table(value)
        if image is not None and kind is image.Image:
            return self._image(value, depth)
        if lazy_image.is_one(value):
            return self._lazy_image(value, depth)
        name = f"{kind.__module__}.{kind.__qualname__}"
        to_do = "return arrays, tables, images or plain values"
        raise Refused(Code.VALUE, f"a value of type {name} cannot be stored exactly; {to_do}")

    def members(self, of: Any, depth: int) -> list[Node]:
        return [self.node(member, depth + 1) for member in of]

    def _object(self, value: Any, depth: int) -> Node:
        self._once(value)
        held, slots = objects.fields(value)
        return {
            "kind": "object",
            "class": named.reference(type(value)),
            "names": [*held],
            "slots": [*slots],
            "of": self.members([*held.values(), *slots.values()], depth),
        }

    def _table(self, table: Any) -> Node:
        self._tables.append(table)
        return {"kind": "table", "at": len(self._tables) - 1}

    def whole(self, value: Any) -> Node:
        """The layout of a value. What its tables hold comes last."""
        node = self.node(value, 0)
        if self._tables:
            stream, buffers, versions, memory = tables.pickled(self._tables, self._mutable)
            sizes = [len(stream), *(buffer.nbytes for buffer in buffers)]
            for part, size in zip([stream, *buffers], sizes, strict=True):
                self.leaf(part, size)
            self._memory += memory
            node = {"kind": "with tables", "of": node, "sizes": sizes, "versions": versions}
        self._refuse_shared()
        return node

    def _array(self, array: Any) -> Node:
        node: Node = {"kind": "ndarray", "dtype": dtypes.described(array.dtype), "shape": list(array.shape)}
        if not array.flags.writeable:
            node["fixed"] = True
        if not array.flags.c_contiguous:
            # A transposed view: store it in the order of its memory, and how to look at that.
            axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
            if not array.transpose(axes).flags.c_contiguous:
                return self._gapped(array, node)
            array = array.transpose(axes)
            node["axes"] = axes
        if array.nbytes:
            self._memory.append((array.ctypes.data, array.nbytes))
        self.leaf(dtypes.bytes_of(array), array.nbytes)
        return node

    def _gapped(self, array: Any, node: Node) -> Node:
        """A view of every so many elements, or backwards, with what lies between."""
        memory, _, _, at, strides, _ = columns.packed(array)
        length = len(memory.raw())
        self._memory += columns.spans(array)
        self.leaf(memory.raw(), length)
        return {**node, "kind": "gapped", "at": at, "strides": list(strides), "len": length}

    def _tensor(self, value: Any, torch: Any) -> Node:
        said = tv_tensors.said(value) if type(value) is not torch.Tensor else {}
        tensor = value.as_subclass(torch.Tensor)
        dtype = str(tensor.dtype).removeprefix("torch.")
        if (
            tensor.layout is not torch.strided
            or tensor.device.type != "cpu"
            or tensor.requires_grad
            or dtype not in TENSOR_DTYPES
            or tensor.is_neg()
            or vars(value).keys() != said.get("fields", {}).keys()
        ):
            raise Refused(Code.VALUE, "only plain tensors on the CPU without gradient can be stored exactly")
        node = {"kind": "tensor", "dtype": dtype, "shape": list(tensor.shape), **said}
        if tensor.is_inference():
            # It can be used in no computation of which gradients are taken, and says so.
            node["inference"] = True
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
        if image.mode != "1" and image.mode not in IMAGE_BYTES:
            raise Refused(Code.VALUE, f"an image of mode {image.mode} cannot be stored exactly; convert it")
        self._once(image)
        pixels = image.tobytes()
        self.leaf(pixels, len(pixels))
        return {
            "kind": "image",
            "mode": image.mode,
            "size": list(image.size),
            "info": self.node(image.info, depth + 1),
            # One over an array's memory, which Pillow copies before it is drawn on.
            **({"readonly": image.readonly} if image.readonly else {}),
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


def _packed(kind: str, form: str) -> Callable[[Writer, Any, int], Node]:
    def write(writer: Writer, value: Any, depth: int) -> Node:
        writer.leaf(struct.pack(form, value), struct.calcsize(form))
        return {"kind": kind}

    return write


def _write_int(writer: Writer, value: int, depth: int) -> Node:
    if -(1 << 63) <= value < 1 << 63:
        return _packed("int", "<q")(writer, value, depth)
    length = value.bit_length() // 8 + 1
    writer.leaf(value.to_bytes(length, "little", signed=True), length)
    return {"kind": "int", "len": length}


def _write_float(writer: Writer, value: float, depth: int) -> Node:
    if value != value:
        # Sets and lists know them by what they are.
        numpy = sys.modules.get("numpy")
        for module in ("math", "numpy"):
            if value is getattr(math if module == "math" else numpy, "nan", None):
                return {"kind": "nan", "of": module}
    return _packed("float", "<d")(writer, value, depth)


def _write_bytes(writer: Writer, value: bytes, depth: int) -> Node:
    writer.leaf(value, len(value))
    return {"kind": "bytes", "len": len(value)}


def _write_str(writer: Writer, value: str, depth: int) -> Node:
    return _write_bytes(writer, value.encode("utf-8", "surrogatepass"), depth) | {"kind": "str"}


def _write_sequence(writer: Writer, value: Any, depth: int) -> Node:
    kind = type(value).__name__
    form = _one_form(value) if len(value) >= PACKED_MIN else None
    if form is None:
        return {"kind": kind, "of": writer.members(value, depth)}
    if form == TEXTS:
        texts = [text.encode("utf-8", "surrogatepass") for text in value]
        lengths, joined = array.array(LENGTHS, map(len, texts)), b"".join(texts)
        writer.leaf(lengths.tobytes(), len(lengths) * lengths.itemsize)
        writer.leaf(joined, len(joined))
        return {"kind": kind, "packed": form, "len": len(texts), "bytes": len(joined)}
    try:
        numbers = array.array(form, value)
    except OverflowError:
        return {"kind": kind, "of": writer.members(value, depth)}
    writer.leaf(numbers.tobytes(), len(numbers) * numbers.itemsize)
    return {"kind": kind, "packed": form, "len": len(numbers)}


def _one_form(members: Any) -> str | None:
    """How members are packed that are all of one type."""
    kinds = set(map(type, members))
    if len(kinds) > 1 or kinds == {float} and math.isnan(sum(members)):
        return None
    return _FORMS.get(kinds.pop())


def _write_dict(writer: Writer, value: dict[Any, Any], depth: int) -> Node:
    return {
        "kind": "dict",
        "of": [[_write_key(key), writer.node(member, depth + 1)] for key, member in value.items()],
    }


def _write_key(key: Any) -> Any:
    """A dictionary's key as JSON, which has text, numbers, truth and null of its own; a tuple is a list."""
    if type(key) in (int, bool, type(None)) and -(1 << 63) <= (key or 0) < 1 << 63:
        return key
    if type(key) is str and _is_text(key):
        return key
    if type(key) is float and math.isfinite(key):
        return key
    if type(key) is tuple:
        return list(map(_write_key, key))
    if isinstance(key, enum.Enum):
        return _member(key)
    raise Refused(
        Code.VALUE, f"a dictionary with a key of type {type(key).__qualname__} cannot be stored; use strings"
    )


def _is_text(key: str) -> bool:
    """Halves of letters, which may be in names of files, JSON puts together."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _member(value: enum.Enum) -> Node:
    """A member of an enumeration; some flags are of several and have no name."""
    if named.members(type(value)).get(value._name_) is not value:
        raise Refused(Code.VALUE, f"{value!r} is no member of its class by name, and cannot be stored")
    return {"kind": "enum", "class": named.reference(type(value)), "name": value._name_}


_WRITERS: dict[type, Callable[[Writer, Any, int], Node]] = {
    type(None): lambda writer, value, depth: {"kind": "none"},
    bool: _packed("bool", "<?"),
    int: _write_int,
    float: _write_float,
    bytes: _write_bytes,
    str: _write_str,
    tuple: _write_sequence,
    list: _write_sequence,
    dict: _write_dict,
}
