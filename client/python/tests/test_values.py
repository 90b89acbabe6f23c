"""Values come back exactly as they were, or are refused."""

import io
import random
import string
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from prebake import Refused, fingerprint
from prebake.codec import values, writer


def round_trip(value: Any) -> Any:
    layout, parts = values.encode(value)
    element = bytearray(b"".join(bytes(memoryview(part).cast("B")) for part in parts))
    return values.decode(layout, element)


def same(a: Any, b: Any) -> bool:
    """Equal in type, content, order of keys, and memory order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        assert a.flags.writeable == b.flags.writeable
        strides = [s for s, n in zip(a.strides, a.shape, strict=True) if n > 1]
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and a.tobytes() == b.tobytes()
            and (not a.size or strides == [s for s, n in zip(b.strides, b.shape, strict=True) if n > 1])
        )
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return repr(list(a)) == repr(list(b)) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, Image.Image):
        return (a.mode, a.size, a.tobytes()) == (b.mode, b.size, b.tobytes()) and same(a.info, b.info)
    return a == b


DTYPES = [
    "|u1",
    "|i1",
    "|b1",
    "<i2",
    ">i4",
    "<u8",
    "<f2",
    "<f4",
    ">f8",
    "<c16",
    "<M8[ns]",
    "<m8[s]",
    "|S5",
    "<U3",
]


def some_array(numbers: random.Random) -> np.ndarray:
    dtype = np.dtype(numbers.choice(DTYPES))
    shape = tuple(numbers.randint(0, 5) for _ in range(numbers.randint(0, 4)))
    count = int(np.prod(shape))
    raw = numbers.randbytes(count * dtype.itemsize)
    if dtype.kind == "U":
        return np.array([numbers.choice(["", "a", "日本"]) for _ in range(count)], dtype).reshape(shape)
    if dtype.kind == "b":
        return np.array([numbers.random() < 0.5 for _ in range(count)], dtype).reshape(shape)
    array = np.frombuffer(raw, dtype).reshape(shape).copy()
    if numbers.random() < 0.3:
        array = array.transpose(numbers.sample(range(array.ndim), array.ndim))
    # At most every other element of two axes: what lies between is stored too.
    steps = [numbers.choice([1, 1, -1]) for _ in range(array.ndim)]
    steps[:2] = [numbers.choice([1, 1, 1, 2, -1, -2]) for _ in steps[:2]]
    return array[tuple(slice(None, None, step) for step in steps)]


def some_value(numbers: random.Random, depth: int) -> Any:
    kind = numbers.randint(0, 11 if depth < 4 else 8)
    leaves = [
        lambda: some_array(numbers),
        lambda: numbers.randint(-(10**6), 10**6),
        lambda: numbers.getrandbits(200) - (1 << 199),
        lambda: struct.unpack("d", numbers.randbytes(8))[0],
        lambda: numbers.random() < 0.5,
        lambda: None,
        lambda: "".join(numbers.choices(string.printable + "é日\ud800", k=numbers.randint(0, 9))),
        lambda: numbers.randbytes(numbers.randint(0, 200)),
        lambda: np.dtype(numbers.choice(["f4", "i8", "u1"])).type(numbers.randint(0, 100)),
        lambda: [some_value(numbers, depth + 1) for _ in range(numbers.randint(0, 4))],
        lambda: tuple(some_value(numbers, depth + 1) for _ in range(numbers.randint(0, 4))),
        lambda: {some_key(numbers, 0): some_value(numbers, depth + 1) for _ in range(numbers.randint(0, 4))},
    ]
    return leaves[kind]()


def some_key(numbers: random.Random, depth: int) -> Any:
    kinds = [
        lambda: f"k{numbers.randint(0, 99)}",
        lambda: numbers.randint(-(2**63), 2**63 - 1),
        lambda: numbers.choice([0.0, -0.0, 1.5, -1e300, 5e-324, numbers.random()]),
        lambda: numbers.choice([True, False, None]),
        lambda: tuple(some_key(numbers, depth + 1) for _ in range(numbers.randint(0, 3))),
    ]
    return numbers.choice(kinds if depth < 3 else kinds[:4])()


@pytest.mark.parametrize("seed", range(400))
def test_any_value_comes_back_exactly(seed: int) -> None:
    value = some_value(random.Random(seed), 0)
    assert same(round_trip(value), value)


@pytest.mark.parametrize(
    "value", [0, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64, 0.0, -0.0, float("nan")]
)
def test_numbers_at_the_edges(value: Any) -> None:
    assert same(round_trip(value), value)


def test_the_layout_of_a_plain_array_is_what_the_daemon_reads() -> None:
    layout, parts = values.encode(np.zeros((224, 224, 3), np.uint8))
    assert layout == '{"dtype":"|u1","kind":"ndarray","shape":[224,224,3]}'
    assert len(parts) == 1


def test_a_plain_array_is_neither_copied_in_nor_out() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    layout, [part] = values.encode(array)
    assert np.shares_memory(part, array)
    element = bytearray(array.tobytes())
    decoded = values.decode(layout, element)
    element[0] = 9
    assert decoded[0, 0] == 9


def test_leaves_are_aligned() -> None:
    value = {"a": b"x", "b": np.arange(5.0), "c": (np.arange(3), "y", np.arange(7, dtype=np.int16))}
    layout, parts = values.encode(value)
    memory = np.zeros(4096, np.uint8)
    start = -memory.ctypes.data % writer.ALIGNMENT
    element = b"".join(bytes(memoryview(part).cast("B")) for part in parts)
    view = memory[start : start + len(element)]
    view[:] = np.frombuffer(element, np.uint8)
    decoded = values.decode(layout, view)
    for array in (decoded["b"], decoded["c"][0], decoded["c"][2]):
        assert array.ctypes.data % writer.ALIGNMENT == 0


def test_elements_side_by_side_are_one_array() -> None:
    layout, _ = values.encode(np.zeros((2, 3), np.int16))
    together = np.arange(24, dtype=np.int16)
    batch = values.decode_batch(bytearray(together.tobytes()), layout, 4)
    assert np.array_equal(batch, together.reshape(4, 2, 3))
    assert values.decode_batch(b"", values.encode([1])[0], 0) is None


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGB", "RGBA", "CMYK", "I", "F"])
def test_images(mode: str) -> None:
    numbers = np.random.default_rng(1).integers(0, 256, (5, 13, 3), dtype=np.uint8)
    image = Image.fromarray(numbers).convert("RGB" if mode in ("1", "LA") else "L").convert(mode)
    image.info = {"dpi": (72, 72), "comment": b"made", "gamma": 0.5}
    assert same(round_trip(image), image)


def opened(path: Path, **saved: Any) -> Image.Image:
    """A JPEG as a data set opens it."""
    if not path.exists():
        numbers = np.random.default_rng(1).integers(0, 256, (60, 80, 3), dtype=np.uint8)
        Image.fromarray(numbers).save(path, **saved)
    return Image.open(path)


def exif() -> Image.Exif:
    made = Image.Exif()
    made[0x0112], made[0x011A], made[0x0128] = 6, 96.0, 2
    return made


@pytest.mark.parametrize("saved", [{}, {"exif": exif()}, {"dpi": (72, 72), "progressive": True}])
def test_images_that_are_not_decoded_yet(tmp_path: Path, saved: dict[str, Any]) -> None:
    path = tmp_path / "a.jpg"
    given, plain = opened(path, **saved), opened(path)
    back = round_trip([given])[0]
    for use in (
        lambda image: image.format + image.filename + str(image.info) + str(image.getexif()),
        lambda image: image.draft("L", (20, 20)),
        lambda image: (image.size, image.mode, np.asarray(image).tobytes()),
        lambda image: sorted(name for name, value in vars(image).items() if value is not None),
    ):
        assert use(given) == use(back) == use(plain)


def test_pixels_of_an_opened_image_are_known(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    given, plain = opened(path), opened(path)
    back = round_trip(given)
    # Neither has anything to be decoded from.
    given.fp, back.fp = io.BytesIO(), io.BytesIO()
    for image in (given, back):
        assert type(image) is type(plain) and image == plain and vars(image).keys() == vars(plain).keys()
        assert image.fp is None and image.tile == []


def test_an_opened_image_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    drafted, noted, read, decoded, shared = (opened(path) for _ in range(5))
    drafted.draft("L", (20, 20))
    noted.info["seen"] = True
    read.fp.read(1)
    decoded.load()
    for image in (drafted, noted, read, decoded, [shared, shared], Image.open(io.BytesIO(path.read_bytes()))):
        with pytest.raises(Refused):
            values.encode(image)


def test_dictionaries_keep_their_keys() -> None:
    value = {"1": "a", 1: {None: "b", False: [1 << 70], -3: 0}, 1.5: "c", (1, ("a", 2.0), ()): "d"}
    back = round_trip(value)
    assert same(back, value) and repr(list(back)) == repr(list(value))


class Subclass(np.ndarray):
    pass


class Named(dict):
    pass


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.zeros(3).view(Subclass),
        np.arange(100)[::9],
        np.broadcast_to(np.arange(3), (2, 3)),
        Named(a=1),
        {b"a": 2},
        {float("nan"): 2},
        {(1, (b"a",)): 3},
        object(),
        {1, 2},
        Image.new("P", (2, 2)),
    ],
)
def test_what_would_not_come_back_is_refused(value: Any) -> None:
    for refused in (value, [value]):
        with pytest.raises(Refused):
            values.encode(refused)


def test_a_value_inside_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(Refused):
        values.encode(loop)


def test_structured_arrays() -> None:
    array = np.zeros(3, [("a", "<i4"), ("b", "<f8", (2,))])
    array["a"] = [1, 2, 3]
    assert same(round_trip(array), array)


@pytest.mark.torch
def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64, torch.uint8):
        for shape in ((), (3, 4), (0, 2)):
            tensor = (torch.rand(shape) * 5).to(dtype)
            back = round_trip([tensor])[0]
            assert back.dtype is tensor.dtype and back.shape == tensor.shape and torch.equal(back, tensor)
    with pytest.raises(Refused):
        values.encode(torch.zeros(3, requires_grad=True))
    with pytest.raises(Refused):
        values.encode(torch.zeros(3, 4)[:, ::2])
    with pytest.raises(Refused):
        values.encode(torch.zeros(3, 1).expand(3, 4))


@pytest.mark.torch
def test_transposed_tensors_keep_their_strides() -> None:
    torch = pytest.importorskip("torch")
    for tensor in (torch.rand(3, 4).T, torch.rand(5, 4, 3).permute(2, 0, 1)):
        back = round_trip(tensor)
        assert torch.equal(back, tensor) and back.stride() == tensor.stride()


@pytest.mark.torch
def test_image_tensors_keep_their_class() -> None:
    torch = pytest.importorskip("torch")
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    for cls in (tv_tensors.Image, tv_tensors.Mask, tv_tensors.Video):
        value = cls(torch.arange(24, dtype=torch.uint8).reshape(1, 4, 2, 3).permute(0, 3, 1, 2))
        back = round_trip({"image": value})["image"]
        assert type(back) is cls and torch.equal(back, value) and back.stride() == value.stride()
        assert fingerprint(value) == fingerprint(cls(value.clone())) != fingerprint(cls(value + 1))


def test_parts_that_share_memory_are_refused() -> None:
    array, members = np.arange(6), [1]
    for value in ((array, array), [array[:4], array[2:]], {"a": array, "b": array.reshape(2, 3).T}):
        with pytest.raises(Refused):
            values.encode(value)
    with pytest.raises(Refused):
        values.encode((members, members))
    for fine in ((array[:3], array[3:]), (array, array.copy()), ("a", "a", (), ())):
        assert same(round_trip(fine), fine)


@pytest.mark.parametrize("value", [np.str_("a\0"), np.bytes_(b"a\0")])
def test_strings_that_numpy_shortens_are_refused(value: Any) -> None:
    with pytest.raises(Refused):
        values.encode(value)
    assert same(round_trip(value[:1] + value[:1]), value[:1] + value[:1])


def test_batches_keep_the_type_that_stacking_gives() -> None:
    for dtype in (">f4", [("a", ">i2"), ("b", "<f8")]):
        assert values.decode_batch(b"", values.encode(np.zeros(3, dtype))[0], 0) is None


@pytest.mark.parametrize(
    "members",
    [
        range(-4, 4),
        [0, 1, 2, 1 << 63],
        [-(1 << 63), (1 << 63) - 1, 0, 0],
        [0.0, -0.0, float("inf"), struct.unpack("<d", b"\1\0\0\0\0\0\xf8\xff")[0]],
        [1, 2, 3, True],
        [1, 2, 3, 4.0],
        ["a", "", "\udcff", "ä" * 300],
        [""] * 5,
        [True] * 5,
        [b"a"] * 5,
        [np.float64(1)] * 5,
        [1, 2, 3],
    ],
)
@pytest.mark.parametrize("kind", [list, tuple])
def test_members_of_one_type(members: Any, kind: type) -> None:
    value = {"before": "x", "it": kind(members), "after": [kind(members), "y"]}
    assert same(round_trip(value), value)


def test_many_numbers_take_their_room() -> None:
    layout, parts = values.encode([*range(1000)])
    assert len(layout) < 100 and sum(map(len, parts)) == 8000


def test_more_parts_than_can_be_walked_are_refused() -> None:
    value: Any = ()
    for _ in range(25):
        value = (value, value)
    with pytest.raises(Refused, match="parts") as refused:
        values.encode(value)
    assert refused.value.code == "R35"


def test_arrays_that_nobody_may_write_to_stay_so() -> None:
    for array in (np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3).T):
        assert round_trip(array).flags.writeable
        array.flags.writeable = False
        assert not round_trip(array).flags.writeable


def test_keys_that_are_no_text_are_refused() -> None:
    with pytest.raises(Refused):
        values.encode({"\ud83d\ude00": 1, "\U0001f600": 2})
    with pytest.raises(Refused):
        values.encode({10**5000: 1})
