"""Fingerprints of code: what must change them, and what must not."""

import base64
import functools
import hashlib
import os
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Optional

import numpy as np
import pytest

import prebake

Run = Callable[..., str]

PRINT = "\nimport prebake\nprint(prebake.fingerprint(TARGET))\n"

HELPER = """
SIZE = 4
WORDS = {"alpha", "beta", "gamma", "delta"}
def helper(x):
    '''Helps.'''
    return x[:SIZE] if x not in WORDS else x
def transform(x, scale=2):
    '''Transforms.'''
    # A comment.
    return helper(x) * scale
TARGET = transform
"""

PROTOCOL = """
import typing
class Shape(typing.Protocol):
    def area(self): ...
class Square(Shape):
    def area(self): return 1
"""


def test_the_same_in_every_process_folder_and_layout(script: Run) -> None:
    first = script(HELPER + PRINT)
    assert len(first) == 64
    moved = "# moved\n\n\n" + HELPER.replace("# A comment.", "# Another, longer comment.")
    assert first == script(moved + PRINT, folder="elsewhere")
    redocumented = HELPER.replace("Transforms.", "Does something else.").replace("Helps.", "Serves.")
    assert first == script(redocumented + PRINT, folder="third")


def test_where_a_class_inside_a_function_begins_is_no_part_of_it(script: Run) -> None:
    local = "def transform(x):\n    class Local:\n        value = x * SIZE\n    return Local.value\n"
    made = HELPER + local + "TARGET = transform" + PRINT
    assert script(made) == script("# moved\n\n" + made, folder="elsewhere")
    assert script(made) != script(made.replace("x * SIZE", "x + SIZE"), folder="edited")


def test_a_docstring_counts_where_a_constant_names_it(script: Run) -> None:
    asking = HELPER.replace(
        "TARGET = transform", "ASKED = '__doc__'\nTARGET = lambda x: getattr(helper, ASKED)"
    )
    edited = asking.replace("Helps.", "Serves.")
    assert script(asking + PRINT) != script(edited + PRINT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("helper(x) * scale", "helper(x) + scale"),
        ("x[:SIZE]", "x[-SIZE:]"),
        ("SIZE = 4", "SIZE = 5"),
        ('"delta"', '"omega"'),
        ("scale=2", "scale=3"),
    ],
    ids=["body", "helper", "global", "set", "default"],
)
def test_an_edit_of_what_it_does_changes_it(script: Run, old: str, new: str) -> None:
    assert old in HELPER
    assert script(HELPER + PRINT) != script(HELPER.replace(old, new) + PRINT)


def test_a_helper_in_another_module_counts(script: Run) -> None:
    main = "import prep\ndef transform(x):\n    return prep.cut(x)\nTARGET = transform" + PRINT
    prep = "def cut(x):\n    return x[:WIDTH]\nWIDTH = 3\ndef unused():\n    return {}\n"
    first = script(main, prep=prep.format(1))
    assert first == script(main, prep=prep.format(2))
    assert first != script(main, prep=prep.format(1).replace("WIDTH = 3", "WIDTH = 4"))


def make(value: object) -> object:
    def inner(x: object) -> tuple[object, object]:
        return x, value

    return inner


def test_closures_partials_and_methods_are_known_by_what_they_hold() -> None:
    same = prebake.fingerprint(make([1, "a"]))
    assert same == prebake.fingerprint(make([1, "a"]))
    assert same != prebake.fingerprint(make((1, "a")))
    assert prebake.fingerprint(functools.partial(make, 1)) != prebake.fingerprint(functools.partial(make, 2))
    assert prebake.fingerprint(Resize(3).apply) != prebake.fingerprint(Resize(4).apply)
    assert prebake.fingerprint(Resize(3).apply) == prebake.fingerprint(Resize(3).apply)


@dataclass
class Resize:
    size: int

    def apply(self, x: int) -> int:
        return x * self.size


class Slotted:
    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(
    "values",
    [
        (0, 0.0, False, None, "0", b"0", bytearray(b"0")),
        ([1, 2], (1, 2), {1, 2}, frozenset({1, 2}), {1: 2}),
        (("ab", "c"), ("a", "bc"), ("abc",), (("ab", "c"),)),
        ([[1], [2]], [[1, 2]], [1, [2]]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}),
        (np.arange(6), np.arange(6, dtype=np.int32), np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2)),
        (re.compile("a"), re.compile("a", re.I), re.compile("b")),
        (Resize(1), Resize(2), Slotted(1), Slotted(2)),
        (range(3), range(4), slice(3), slice(4)),
        (10**30, -(10**30), 10**30 + 1, float(10**30)),
        (0.0, -0.0, float("nan"), float("inf"), 0j),
        (np.sin, np.cos, np.float32, np.dtype("f4")),
        ("a".join, "b".join, str.join, str.lower),
    ],
)
def test_values_that_differ_have_different_fingerprints(values: tuple[object, ...]) -> None:
    assert len({prebake.fingerprint(value) for value in values}) == len(values)


def test_cycles_and_shared_parts_end() -> None:
    loop: list[object] = [1]
    loop.append(loop)
    other: list[object] = [2]
    other.append(other)
    assert prebake.fingerprint(loop) != prebake.fingerprint(other)
    shared = [1]
    assert prebake.fingerprint([shared, shared]) == prebake.fingerprint([[1], [1]])


def writes_global(x: int) -> int:
    global _last
    _last = x
    return x


_last = 0


def counter() -> object:
    count = 0

    def count_up(x: int) -> int:
        nonlocal count
        count += 1
        return x + count

    return count_up


def reads_dynamically(x: int) -> int:
    return globals()["_last"] + x


def draws(x: float) -> float:
    import random

    return x + random.random()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (writes_global, "R25"),
        (counter(), "R25"),
        (reads_dynamically, "R34"),
        (draws, "R20"),
        (np.random.default_rng(0), "R20"),
        (prebake.random(abs), "R20"),
        (threading.local(), "R31"),
        (object(), "R31"),
        ((i for i in range(3)), "R31"),
    ],
)
def test_what_cannot_be_known_is_refused(value: object, code: str) -> None:
    with pytest.raises(prebake.Refused) as refused:
        prebake.fingerprint({"table": [value]})
    assert refused.value.code == code
    assert "it['table'][0]" in str(refused.value)


def test_nesting_without_end_is_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(prebake.Refused) as refused:
        prebake.fingerprint(deep)
    assert refused.value.code == "R35"


def test_installed_code_is_known_by_the_files_of_its_build(script: Run, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    info = site / "pack-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "pack.py").write_text("def f(x):\n    return x + 1\n")
    path = {"PYTHONPATH": f"{site}:{':'.join(p for p in sys.path if p)}"}
    main = "import pack\ndef g(x):\n    return pack.f(x)\nTARGET = g" + PRINT

    def found(*lines: str, end: str = "\n") -> str:
        (info / "RECORD").write_text("".join(f"{line}{end}" for line in lines), newline="")
        return script(main, environment=path)

    first = found("pack.py,sha256=one,9", "pack/data.txt,sha256=two,9")
    assert first == found(
        "../../../bin/pack,sha256=another,9",
        "__pycache__/pack.cpython-311.pyc,,",
        "pack-1.0.dist-info/INSTALLER,sha256=uv,2",
        "pack-1.0.dist-info/RECORD,,",
        "pack/data.txt,sha256=two,9",
        "pack.py,sha256=one,9",
        end="\r\n",
    )
    assert first != found("pack.py,sha256=one,9", "pack/data.txt,sha256=other,9")
    assert first != found("pack.py,sha256=one,9")


def test_installed_code_that_is_edited_where_it_lies_is_known_by_what_it_says(
    script: Run, tmp_path: Path
) -> None:
    site = tmp_path / "site-packages"
    info = site / "pack-1.0.dist-info"
    (site / "pack").mkdir(parents=True)
    info.mkdir()
    core = site / "pack" / "core.py"
    (site / "pack" / "__init__.py").write_text("from .core import f\n")
    path = {"PYTHONPATH": f"{site}:{':'.join(p for p in sys.path if p)}"}
    main = "import pack\ndef g(x):\n    return pack.f(x)\nTARGET = g" + PRINT
    plain, edited = "def f(x):\n    return x + 1\n", "def f(x):\n    return x + 2\n"
    digest = base64.urlsafe_b64encode(hashlib.sha256(plain.encode()).digest()).rstrip(b"=").decode()

    def found(text: str, record: str, written: int = 0) -> str:
        core.write_text(text)
        (info / "RECORD").write_text(record)
        os.utime(core, (written, written))
        os.utime(info / "RECORD", (1000, 1000))
        return script(main, environment=path)

    for record in ("pack/__init__.py,,\npack/core.py,,\n", f"pack/core.py,sha256={digest},9\n"):
        first = found(plain, record)
        assert found(edited, record, written=1001) != first
        assert found(edited + "\n", record, written=1001) != found(edited, record, written=1001)
        assert found(plain, record) == first
    # It was unpacked again, or is as it was before.
    assert found(plain, record, written=1001) == first


def test_installed_code_is_known_by_version_and_shadowing_code_by_content(
    script: Run, tmp_path: Path
) -> None:
    site = tmp_path / "site-packages"
    info = site / "pack-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "pack.py").write_text("def f(x):\n    return x + 1\n")
    (info / "RECORD").write_text("pack.py,,\n")
    path = {"PYTHONPATH": f"{site}:{':'.join(p for p in sys.path if p)}"}
    main = "import pack\ndef g(x):\n    return pack.f(x)\nTARGET = g" + PRINT
    first = script(main, environment=path)
    info.rename(site / "pack-1.1.dist-info")
    second = script(main, environment=path)
    assert first != second
    (site / "stray.py").write_text("def f(x):\n    return x + 1\n")
    stray = script(main.replace("pack", "stray"), environment=path)
    (site / "stray.py").write_text("def f(x):\n    return x + 2\n")
    assert stray != script(main.replace("pack", "stray"), environment=path)
    own = script(main, environment=path, pack="def f(x):\n    return x + 2\n")
    assert own not in (first, second)
    assert own != script(main, environment=path, pack="def f(x):\n    return x + 3\n")


BPE = """
class Tokenizer:
    def __init__(self, merges):
        self.bpe_ranks = dict(zip(merges, range(len(merges))))
        self.cache = {}
    def __call__(self, word):
        return self.cache.setdefault(word, word + '</w>')
"""


def test_what_a_byte_pair_encoder_keeps_of_words_is_no_part_of_it(script: Run, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "pack-1.0.dist-info").mkdir(parents=True)
    (site / "pack.py").write_text(BPE)
    (site / "pack-1.0.dist-info" / "RECORD").write_text("pack.py,,\n")
    path = {"PYTHONPATH": f"{site}:{':'.join(p for p in sys.path if p)}"}
    main = "import pack\nTARGET = pack.Tokenizer({merges})\n{then}" + PRINT

    def tokenizer(merges: str, then: str = "", **code: str) -> str:
        return script(main.format(merges=merges, then=then), environment=path, **code)

    first = tokenizer("'ab'")
    assert first == tokenizer("'ab'", "TARGET('word')\n")
    assert first != tokenizer("'ba'")
    # One's own class may mean anything by those names.
    assert tokenizer("'ab'", pack=BPE) != tokenizer("'ab'", "TARGET('word')\n", pack=BPE)


def test_what_a_class_says_about_its_fields_counts() -> None:
    def annotated(size: object) -> object:
        class Transform:
            __annotations__ = {"size": size}

        return Transform()

    def described(scale: int) -> object:
        @dataclass
        class Transform:
            size: int | None = field(default=1, metadata={"scale": scale})
            names: "list[str]" = field(default_factory=list)

        return Transform()

    for make in (annotated, described):
        assert prebake.fingerprint(make(2)) == prebake.fingerprint(make(2))
        assert prebake.fingerprint(make(2)) != prebake.fingerprint(make(3))


def test_ordinary_annotations_are_known() -> None:
    @dataclass
    class Transform:
        a: int | None
        b: Optional[list[str]]  # noqa: UP045
        c: Callable[[Any], int]
        d: dict[str, tuple[int, ...]]
        e: ClassVar[Literal["x", 3]]
        f: np.ndarray
        g: Path

    assert prebake.fingerprint(Transform) == prebake.fingerprint(Transform)


def test_the_order_in_memory_counts() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    assert prebake.fingerprint(rows) == prebake.fingerprint(rows.copy())
    assert prebake.fingerprint(rows) != prebake.fingerprint(np.asfortranarray(rows))


ENUM = """
import enum
class Kind(enum.Enum):
    def __new__(cls, value, label, *others):
        made = object.__new__(cls)
        made._value_, made.label = value, label
        for each in others:
            cls._value2member_map_[each] = made
        return made
    A = 1, "one", "x"
    B = 2, "two", "y"
class Bits(enum.Flag):
    P = 1
    Q = 2
def use(): return Kind, Bits
"""


def test_all_that_a_member_of_an_enumeration_goes_by() -> None:
    def digest(text: str, then: str = "") -> str:
        space: dict[str, Any] = {"__name__": "kinds"}
        exec(f"{text}\n{then}", space)
        return prebake.fingerprint(space["use"])

    assert digest(ENUM) == digest(ENUM, "Kind(1), Kind('x'), Bits.P | Bits.Q, ~Bits.P")
    assert digest(ENUM) != digest(ENUM.replace('"one"', '"uno"'))
    assert digest(ENUM) != digest(ENUM.replace('"x"', '"z"').replace('"y"', '"x"').replace('"z"', '"y"'))


def test_that_annotations_are_read_later_is_no_part_of_a_function() -> None:
    def digest(text: str) -> str:
        space: dict[str, Any] = {"__name__": "some"}
        exec(text, space)
        return prebake.fingerprint(space["use"])

    plain = "def use(a: int) -> int: return a + 1"
    assert digest(plain) == digest(f"from __future__ import annotations\n{plain}") != digest(plain + "0")


class Labelled(np.ndarray):
    label: int


def test_fields_of_a_class_that_extends_one_in_c() -> None:
    one, other = (np.arange(3).view(Labelled) for _ in range(2))
    one.label, other.label = 1, 2
    assert prebake.fingerprint(one) != prebake.fingerprint(other)


def test_one_installed_function_in_the_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def mean(x: Any) -> Any:
        return np.mean(x)

    before = prebake.fingerprint(mean)
    monkeypatch.setattr(np, "mean", np.sum)
    assert prebake.fingerprint(mean) != before


@pytest.mark.parametrize(
    ("top", "body"),
    [
        ("import numpy as np", "return np.random.default_rng(7)"),
        ("import numpy as np", "return np.polynomial.polynomial.polyval(2, (1, 3))"),
        ("", "import colorsys; return colorsys.ONE_THIRD"),
        ("", "from colorsys import ONE_THIRD; return ONE_THIRD"),
        ("", "from PIL import Image; return Image.BILINEAR"),
        ("", "import xml.etree.ElementTree as ET; return ET.fromstring('<a/>').tag"),
        ("", "from xml.etree import ElementTree; return ElementTree.VERSION"),
        ("", "from pack import part; return part.SIZE"),
        ("", "import pack.part; return pack.part.SIZE"),
        (PROTOCOL, "return Square().area()"),
    ],
)
def test_the_same_before_and_after_the_first_call(script: Run, tmp_path: Path, top: str, body: str) -> None:
    """Packages load some of their modules at first use, and so do functions that import."""
    (tmp_path / "job" / "pack").mkdir(parents=True)
    (tmp_path / "job" / "pack" / "__init__.py").touch()
    (tmp_path / "job" / "pack" / "part.py").write_text("SIZE = 3")
    main = f"import prebake\n{top}\ndef load(x):\n    {body}\n"
    main += "before = prebake.fingerprint(load)\nload(0)\nprint(before == prebake.fingerprint(load))"
    assert script(main) == "True"


WRITTEN = ("1111", "2222")


@pytest.mark.parametrize(
    "reads",
    [
        "np.fromfile('w.txt', 'float32')",
        "np.loadtxt('w.txt', 'float')",
        "np.memmap('w.txt')",
        "pathlib.Path('w.txt').read_text('latin-1')",
        "pathlib.Path('w.txt').resolve().open().read()",
        "open('w.txt', 'r+').read()",
        "open(file='w.txt').read()",
        "pd.read_csv(filepath_or_buffer='w.txt')",
        "ET.parse('w.txt')",
        "configparser.ConfigParser().read('w.txt')",
        "os.open('w.txt', 0)",
        "os.path.getsize('w.txt')",
        "given()",
        "load_text('w.txt')",
    ],
)
def test_a_file_that_code_names_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: str) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {"__name__": "__main__"}
    code = f"""
import configparser, os, pathlib, xml.etree.ElementTree as ET
import numpy as np, pandas as pd
def load_text(path):
    return open(path).read()
def given(path="w.txt"):
    return open(path).read()
def load(x):
    return {reads}
"""
    exec(code, space)
    found = []
    for text in WRITTEN:
        Path("w.txt").write_text(text)
        found.append(prebake.fingerprint(space["load"]))
    assert found[0] != found[1]


def test_a_file_that_code_only_writes_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def log(x: Any) -> Any:
        with open("w.txt", "w") as file:
            file.write("x")
        with open("w.txt", "a") as file:
            file.write("y")

    monkeypatch.chdir(tmp_path)
    found = []
    for text in WRITTEN:
        Path("w.txt").write_text(text)
        found.append(prebake.fingerprint(log))
    assert found[0] == found[1]


def test_whether_a_file_is_there_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(x: Any) -> Any:
        return os.path.exists("flag") or Path("other").is_dir()

    monkeypatch.chdir(tmp_path)
    found = {prebake.fingerprint(asks)}
    Path("flag").touch()
    found.add(prebake.fingerprint(asks))
    Path("other").mkdir()
    found.add(prebake.fingerprint(asks))
    assert len(found) == 3


@pytest.mark.parametrize(
    "tells", ["datetime.datetime.fromtimestamp(x).hour", "time.localtime(x).tm_hour", "x.timestamp()"]
)
def test_what_tells_local_time_depends_on_the_zone(monkeypatch: pytest.MonkeyPatch, tells: str) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(f"import datetime, time\ndef tell(x):\n    return {tells}", space)
    found = set()
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        found.add(prebake.fingerprint(space["tell"]))
    assert len(found) == 2


MISSING = object()


def test_what_code_only_compares_with_is_known() -> None:
    def first(x: Any, default: Any = MISSING) -> Any:
        return x if default is MISSING else default

    assert len(prebake.fingerprint(first)) == 64
    with pytest.raises(prebake.Refused, match="bare object"):
        prebake.fingerprint(MISSING)


ACCESSOR = """
import pandas as pd
@pd.api.extensions.register_dataframe_accessor("clean")
class Clean:
    def __init__(self, frame): self.frame = frame
    def run(self): return self.frame * BY
"""
METHOD = "import pandas as pd\npd.DataFrame.clean = lambda frame: frame * BY\n"
OF_IMAGES = "from PIL import Image\nImage.Image.clean = lambda image: image.rotate(BY)\n"


@pytest.mark.parametrize("added", [ACCESSOR, METHOD, OF_IMAGES])
def test_what_was_added_to_an_installed_class_counts_where_it_is_asked_for(script: Run, added: str) -> None:
    def made(by: int, asked: str) -> str:
        return script(f"{added.replace('BY', str(by))}\ndef TARGET(x):\n    return x.{asked}\n{PRINT}")

    assert made(2, "clean") != made(3, "clean")
    assert made(2, "other") == made(3, "other")


@pytest.mark.parametrize(
    ("code", "setting"),
    [
        ("import decimal", "decimal.getcontext().prec = 5"),
        ("import pandas as pd", "pd.set_option('mode.string_storage', 'python')"),
    ],
)
def test_settings_that_change_results_count(script: Run, code: str, setting: str) -> None:
    uses = "return decimal.Decimal(x) / 3" if "decimal" in code else "return pd.Series(x)"
    main = f"{code}\ndef TARGET(x):\n    {uses}\n"
    assert script(main + PRINT) != script(f"{main}{setting}\n{PRINT}")
