"""Whatever changes an object's identity, a snapshot of it tells: each method and attribute is tried."""

from __future__ import annotations

import array
import collections
import contextlib
import copy
import dataclasses
import decimal
import functools
import io
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from prebake.identity import snapshot
from prebake.identity.code import identify
from prebake.runtime.errors import Refused


class Plain:
    def __init__(self) -> None:
        self.a, self.b = 1, [1]


class Slots:
    __slots__ = ("a", "b")

    def __init__(self) -> None:
        self.a, self.b = 1, [1]


@dataclasses.dataclass
class Data:
    a: int = 1
    b: list[int] = dataclasses.field(default_factory=lambda: [1])


def extended(base: type, *of: Any) -> Callable[[], Any]:
    """What makes instances of a class of ours that extends another, with a field."""
    cls = type(f"Extends_{base.__name__}", (base,), {"__module__": __name__})

    def make() -> Any:
        value = cls(*of)
        if base is np.ndarray:
            # NumPy leaves in it what the memory held before.
            value.fill(0)
        value.field = [1]
        return value

    return make


def function() -> Any:
    def f() -> None: ...

    vars(f).update(a=1, b=[1])
    return f


MAKES: list[Callable[[], Any]] = [
    *(Plain, Slots, Data, function, decimal.Context, lambda: functools.partial(int)),
    *(lambda: [1, 2], lambda: {1: 2}, lambda: {1, 2}, lambda: list(range(100))),
    *(lambda: dict.fromkeys(range(100), 0), lambda: [[i] for i in range(100)], lambda: bytearray(b"ab")),
    *(
        lambda: array.array("i", [1, 2]),
        lambda: collections.deque([1, 2], 3),
        lambda: collections.Counter("ab"),
    ),
    *(lambda: collections.OrderedDict(a=1, b=2), lambda: collections.defaultdict(list, a=[1])),
    *(
        lambda: collections.ChainMap({1: 2}),
        lambda: types.SimpleNamespace(a=1),
        lambda: collections.UserList([1]),
    ),
    *(lambda: types.CellType(1), lambda: functools.lru_cache(Plain)),
    *(extended(base, *of) for base, *of in ((int, 1), (str, "a"), (list, [1]), (dict, {1: 2}), (set, {1}))),
    *(extended(base, *of) for base, *of in ((bytearray, b"a"), (array.array, "i", [1]), (np.ndarray, 2))),
    *(
        lambda: np.arange(4),
        lambda: np.array(5),
        lambda: np.array(["a", "b"]),
        lambda: np.ma.masked_array([1, 2]),
    ),
    *(
        lambda: np.array([[1], 2], dtype=object),
        lambda: np.arange(2).view(np.matrix),
        lambda: np.poly1d([1, 2]),
    ),
    *(lambda: np.zeros(3, dtype=[("a", "i4")]), lambda: np.rec.array([(1,)], dtype=[("a", "i4")])),
    *(lambda: np.zeros(1, dtype=[("a", "i4")])[0], lambda: np.zeros(2, dtype=[("a", "O"), ("b", "i4")])),
    *(lambda: Image.new("L", (2, 2)), lambda: Image.new("P", (2, 2))),
]
ARGUMENTS: list[tuple[Any, ...]] = [
    *((), (0,), (1,), (5,), (-1,), ("a",), (b"ab",), ("a", 5), (0, 5), (1, 5), ([7],), ({"a": 9},), ({9},)),
    *(("zz", [1]), (0, "q"), ((0, 0), 7), (slice(0, 1), [5]), (slice(0, 1), b"x"), (array.array("i", [3]),)),
    *((1.5,), (np.arange(2),)),
]
VALUES = (5, "q", [3], (7,), {"z": 1})
#: NumPy does not survive some of these where objects are held, and says not to set `strides` and `dtype`.
LEFT_OUT = {"__class__", "dtype", "setfield", "strides", "tofile", "dump", "_dump", "show", "save"}


def known(value: Any) -> bytes | None:
    try:
        return identify(value).digest
    except Refused:
        return None


def changes(value: Any, step: int) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """What is tried of such a value: all, or one in so many."""
    names = [name for name in dir(value) if name not in LEFT_OUT]
    for name in names:
        for arguments in ARGUMENTS[::step]:
            yield f"{name}{arguments}", lambda v, n=name, a=arguments: getattr(v, n)(*copy.deepcopy(a))
        for new in VALUES[::step]:
            yield f"{name} = {new}", lambda v, n=name, to=new: setattr(v, n, copy.copy(to))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", MAKES, ids=lambda make: type(make()).__name__)
def test_what_changes_an_identity_is_told(
    make: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some of what is tried writes files.
    monkeypatch.chdir(tmp_path)
    check(make, 1)


def check(make: Callable[[], Any], step: int) -> None:
    told, missed = 0, []
    # To describe one takes most of the time. Hooks of torch's have numbers, another one each time.
    before = known(make())
    are_same = known(make()) == before
    for name, change in changes(make(), step):
        value = make()
        before = before if are_same else known(value)
        held = snapshot.Snapshot([value])
        assert held.holds([value])
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            change(value)
        if known(value) != before:
            told += 1
            if held.holds([value]):
                missed.append(name)
    assert missed == []
    assert told


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["tensor", "square", "parameter", "layer", "lazy", "sparse", "statistics", "image"]
)
def test_what_changes_a_tensor_is_told(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    import torch
    from torchvision import tv_tensors

    make = {
        "tensor": lambda: torch.zeros(2),
        "square": lambda: torch.arange(4.0).reshape(2, 2),
        "lazy": lambda: torch.nn.LazyLinear(1),
        "sparse": lambda: [torch.zeros(2).to_sparse(), [1]],
        "parameter": lambda: torch.nn.Parameter(torch.zeros(2), requires_grad=False),
        "layer": lambda: torch.nn.Linear(1, 1).requires_grad_(False),
        "statistics": lambda: torch.nn.BatchNorm1d(1),
        "image": lambda: tv_tensors.Image(torch.zeros(1, 2, 2)),
    }[name]

    def same() -> Any:
        torch.manual_seed(0)
        return make()

    # It has some hundred methods.
    check(same, 4)


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "bool", "int64", "complex64", "float8_e4m3fn"])
def test_what_torch_does_not_count_is_told(kind: str) -> None:
    import torch

    of = getattr(torch, kind)
    array = np.zeros((4, 3), dtype="u1")
    with torch.inference_mode():
        inferred = torch.zeros(4, 3).to(of)
    own, shared = torch.zeros(4, 3).to(of), torch.from_numpy(array).view(torch.uint8)
    layer = torch.nn.Linear(3, 1)
    made = [own, own.T, own[1], shared, inferred, layer]

    def in_place() -> None:
        with torch.inference_mode():
            inferred.fill_(1)

    changes: list[Callable[[], Any]] = [
        lambda: own.data.fill_(1),
        lambda: array.fill(1),
        in_place,
        lambda: layer.weight.data.mul_(2),
        lambda: layer.bias.detach().numpy().fill(7),
    ]
    for change in changes:
        held = snapshot.Snapshot(made)
        assert held.holds(made)
        change()
        assert not held.holds(made)


@pytest.mark.torch
def test_what_torch_counts_is_told_of_tensors_of_any_number() -> None:
    import torch

    # More than are compared by what they hold.
    many = [torch.zeros(1 << 16) for _ in range(8)]
    held = snapshot.Snapshot(many)
    assert held.holds(many)
    many[-1].add_(1)
    assert not held.holds(many)


def test_a_large_array_of_objects_hides_nothing_that_comes_after_it() -> None:
    other = [1]
    roots = [np.array([str(i) for i in range(2000)], dtype=object), [other]]
    held = snapshot.Snapshot(roots)
    assert held.holds(roots)
    other.append(2)
    assert not held.holds(roots)


@pytest.mark.parametrize("members", [60, 100])
def test_what_an_array_of_objects_holds_is_looked_into(members: int) -> None:
    array = np.array([[i] for i in range(members)] + [None], dtype=object)
    held = snapshot.Snapshot([array])
    assert held.holds([array])
    array[0].append(1)
    assert not held.holds([array])


def test_what_describing_makes_is_no_change() -> None:
    # Of what nothing has described before.
    space: dict[str, Any] = {"__name__": __name__}
    exec("class Other:\n    def __init__(self): self.a = 1\ndef step(x: int) -> int: return x", space)
    roots = [space["step"], space["Other"]()]
    held = snapshot.Snapshot(roots)
    assert all(map(known, roots))
    assert held.holds(roots)


class Odd(type):
    """What has a hash of its own has none, or none that can be asked for."""

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("asked")

    def __hash__(cls) -> int:
        raise RuntimeError("asked")


class OddBytes(bytearray, metaclass=Odd):
    def __bytes__(self) -> bytes:
        raise RuntimeError("asked")

    __len__ = copy = __bytes__  # type: ignore[assignment]


class OddNumbers(array.array):  # type: ignore[type-arg]
    @property
    def itemsize(self) -> int:
        raise RuntimeError("asked")

    tobytes = __len__ = itemsize  # type: ignore[assignment]


class OddArray(np.ndarray):
    def __array_finalize__(self, other: object) -> None:
        if type(self) is not OddArray:
            raise RuntimeError("asked")

    @property
    def nbytes(self) -> int:
        raise RuntimeError("asked")

    tobytes = dtype = flags = nbytes  # type: ignore[assignment]


class OddContext(decimal.Context):
    def __reduce__(self) -> Any:
        raise RuntimeError("asked")


class OddImage(Image.Image):
    @property
    def size(self) -> Any:
        raise RuntimeError("asked")

    tobytes = size


ODD: dict[str, Callable[[], Any]] = {
    "bytes": lambda: OddBytes(2),
    "numbers": lambda: OddNumbers("i", [1]),
    "array": lambda: OddArray(2),
    "context": OddContext,
    "image": OddImage,
}


@pytest.mark.parametrize("name", ODD)
def test_nothing_of_the_users_is_run(name: str) -> None:
    value = ODD[name]()
    assert snapshot.Snapshot([value]).holds([value])
