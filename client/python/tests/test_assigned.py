"""What a job's own modules assign in installed ones counts for all that uses these, named or not."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Run

from prebake.demo.daemon import PrivateDaemon
from prebake.memo import known_sources

USES = """
import io, prebake, sys
import numpy as np
from PIL import Image
{before}
def load(path):
    return np.asarray(Image.open(path))

def other(x):
    return x + 1

print(prebake.fingerprint(load), prebake.fingerprint(other))
"""


def fingerprints(folder: Path, before: str, text: str = USES, **modules: str) -> list[str]:
    for name, module in modules.items():
        (folder / f"{name}.py").write_text(module)
    (folder / "main.py").write_text(text.format(before=before))
    command = [sys.executable, "main.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


#: Each assigns ONE or TWO, where Pillow looks it up by itself.
WAYS = {
    "in the script": "from PIL import GifImagePlugin\nGifImagePlugin.LOADING_STRATEGY = VALUE",
    "by another name": "import PIL.GifImagePlugin as gif\ngif.LOADING_STRATEGY = VALUE",
    "by its whole name": "import PIL.GifImagePlugin\nPIL.GifImagePlugin.LOADING_STRATEGY = VALUE",
    "in a function": "def go():\n from PIL import GifImagePlugin as g\n g.LOADING_STRATEGY = VALUE\ngo()",
    "by setattr": "from PIL import GifImagePlugin\nsetattr(GifImagePlugin, 'LOADING_STRATEGY', VALUE)",
    "a method": "from PIL import ImageFile\nImageFile.ImageFile.verify = lambda self: VALUE",
    "in an object of its own": "from PIL import GifImagePlugin as g\nclass C: pass\nC.x = g\ng.A = VALUE",
}


STANDARD = """
import collections.abc, configparser, encodings.aliases, prebake, reprlib, warnings
class Own: pass
{before}
def shown(x):
    parser = configparser.ConfigParser()
    return reprlib.repr(x), x.decode("house"), warnings, isinstance(x, collections.abc.Sized), parser

def other(x):
    return x + 1

print(prebake.fingerprint(shown), prebake.fingerprint(other))
"""
#: Each sets A or B in the standard library.
OF_PYTHON = {
    "an object's attribute": ("reprlib.aRepr.maxlist = VALUE", "3", "4"),
    "a table's entry": ("encodings.aliases.aliases['house'] = VALUE", "'latin_1'", "'cp1251'"),
    "a table of a class that is given": (
        "def go(cls): cls.BOOLEAN_STATES['ja'] = VALUE\ngo(configparser.ConfigParser)",
        "True",
        "False",
    ),
    "a class that counts as another": ("collections.abc.VALUE.register(Own)", "Hashable", "Sized"),
    "warnings that are errors": ("warnings.simplefilter(VALUE)", "'ignore'", "'error'"),
}


@pytest.mark.parametrize("way", OF_PYTHON)
def test_what_is_set_in_the_standard_library_counts(tmp_path: Path, way: str) -> None:
    before, *values = OF_PYTHON[way]
    first, again, other = (
        fingerprints(tmp_path, before.replace("VALUE", each), text=STANDARD)
        for each in (values[0], values[0], values[1])
    )
    assert first == again and first[0] != other[0]


NAMES = """
import json, prebake
import unittest.mock as mock
import numpy as np
from PIL import Image, ImageColor
{before}
def color(name):
    return np.asarray(Image.new("RGB", (1, 1), name)), json.dumps(name)

def other(x):
    return x + 1

print(prebake.fingerprint(color), prebake.fingerprint(other))
"""
#: Each changes a table or an object in place, to A or B.
IN_PLACE = {
    "by its own name": "from PIL.ImageColor import colormap\ncolormap['x'] = VALUE",
    "by another name": "from PIL.ImageColor import colormap as c\nc.update(x=VALUE)",
    "by an alias": "c = ImageColor.colormap\nc['x'] = VALUE",
    "through a function": "def go(of): of.colormap['x'] = VALUE\ngo(ImageColor)",
    "through an object": "class C: pass\nc = C()\nc.of = ImageColor\nc.of.colormap['x'] = VALUE",
    "by another's method": "dict.update(ImageColor.colormap, x=VALUE)",
    "by a name in a text": "getattr(ImageColor, 'colormap')['x'] = VALUE",
    "by a patch": "mock.patch.dict('PIL.ImageColor.colormap', x=VALUE).start()",
    "an object's attribute": "json._default_encoder.ensure_ascii = VALUE",
    "beside what has no description": (
        "ImageColor.colormap.update(x=VALUE, y=(each for each in ()), z=VALUE)"
    ),
}


@pytest.mark.parametrize("way", IN_PLACE)
def test_what_is_changed_in_place_counts_however_it_is_named(tmp_path: Path, way: str) -> None:
    first, again, other = (
        fingerprints(tmp_path, IN_PLACE[way].replace("VALUE", value), text=NAMES)
        for value in ("'red'", "'red'", "'blue'")
    )
    assert first == again and first[0] != other[0] and first[1] == other[1]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_is_assigned_counts_by_its_value(tmp_path: Path, way: str) -> None:
    first, other = fingerprints(tmp_path, way.replace("VALUE", "1"))
    assert fingerprints(tmp_path, way.replace("VALUE", "1")) == [first, other]
    assert fingerprints(tmp_path, f"# moved\n{way}".replace("VALUE", "1")) == [first, other]
    edited, unrelated = fingerprints(tmp_path, way.replace("VALUE", "2"))
    assert edited != first and unrelated == other, "what uses nothing of Pillow is as it was"


def test_it_may_be_in_any_module_and_be_made_at_run_time(tmp_path: Path) -> None:
    library = "from PIL import GifImagePlugin\ndef use(k):\n    GifImagePlugin.LOADING_STRATEGY = k"
    found = [fingerprints(tmp_path, f"import library\nlibrary.use({k})", library=library) for k in (1, 2, 1)]
    assert found[0] == found[2] and found[0][0] != found[1][0]


@pytest.mark.parametrize(
    "assigned", ["table.flags.writeable = False", "table.nothing.more = 1", "made().x = 2"]
)
def test_attributes_of_odd_objects_are_left_alone(tmp_path: Path, assigned: str) -> None:
    library = (
        "import numpy as np\ntable = np.arange(3)\n"
        "class Odd:\n    def __bool__(self): raise ValueError\n    def __getattr__(self, name): return self\n"
        "odd = Odd()\ndef made(): return odd"
    )
    before = (
        f"from library import table, odd, made\nodd.more = 1\ntry:\n    {assigned}\nexcept Exception: pass"
    )
    assert len(fingerprints(tmp_path, before, library=library)) == 2


ODD = """
class Meta(type):
    __dict__ = property(lambda self: 1 / 0)
class Odd(metaclass=Meta):
    __dict__ = property(lambda self: 1 / 0)
    def __getattr__(self, name): return 1
    def set_it(self, k): pass
odd = Odd()
def set_it(k):
    odd.set_it(k)
set_it.__module__ = []
"""


def test_odd_objects_that_are_set_by_a_call_refuse_nothing(tmp_path: Path) -> None:
    before = "import odd, json\nodd.set_it(1)\njson.set_it = odd.set_it\njson.set_it(2)"
    assert len(fingerprints(tmp_path, before, odd=ODD)) == 2


@pytest.mark.parametrize("value", ["object()", "open('main.py')", "iter([])", "lambda: open(input())"])
def test_what_cannot_be_told_from_another_refuses_nothing(tmp_path: Path, value: str) -> None:
    way = f"from PIL import GifImagePlugin\nGifImagePlugin.NEW = {value}"
    assert fingerprints(tmp_path, way) == fingerprints(tmp_path, way)


TYPES = """
import mimetypes, prebake, sys
{before}
def guess(path):
    return mimetypes.guess_type(path)

def other(x):
    return x + 1

print(prebake.fingerprint(guess), prebake.fingerprint(other))
"""

#: Each has the standard library know type ONE or TWO.
CALLS = {
    "in the script": "mimetypes.add_type('a/VALUE', '.fz')",
    "by another name": "import mimetypes as m\nm.add_type('a/VALUE', '.fz')",
    "by its own name": "from mimetypes import add_type\nadd_type('a/VALUE', '.fz')",
    "in a function": "def go(k): mimetypes.add_type('a/%d' % k, '.fz')\ngo(VALUE)",
    "on a line with others": "x = 1; mimetypes.add_type('a/VALUE', '.fz')",
}


@pytest.mark.parametrize("way", CALLS.values(), ids=CALLS)
def test_what_a_function_keeps_that_is_called_for_its_effect_counts(tmp_path: Path, way: str) -> None:
    def found(value: int) -> list[str]:
        return fingerprints(tmp_path, way.replace("VALUE", str(value)), text=TYPES)

    first, other = found(1)
    assert found(1) == [first, other]
    edited, unrelated = found(2)
    assert edited != first and unrelated == other, "what takes nothing from that module is as it was"


@pytest.mark.parametrize(
    "called",
    [
        "np.random.seed(VALUE)",
        "print(VALUE, file=sys.stderr)",
        "io.StringIO().write('VALUE')",
        # What these keep is what they found.
        "try:\n    Image.open('VALUE.png')\nexcept OSError: pass",
        "if VALUE == 2: Image.init()",
        # What an object of one's own is called is no name of a module's.
        "import re\nclass Own:\n    def keep(self): self._cache = {}\nPATTERN = re.compile('VALUE')",
        # As compiled classes have them (`tokenizers.Tokenizer.from_file`).
        "from polars._plr import PySelector\nPySelector.by_dtype([])\nx = VALUE",
        # Which names `import *` takes is seen where they are taken.
        "getattr(io, '__all__').append('VALUE')",
    ],
)
def test_calls_that_set_nothing_change_nothing(tmp_path: Path, called: str) -> None:
    first, second = (fingerprints(tmp_path, called.replace("VALUE", str(k))) for k in (1, 2))
    assert first == second


PRINTS = """
import decimal, numpy as np, pandas as pd, pickle, prebake, sys, uuid
import copyreg
class Own: pass
{before}
def shown(x):
    return np.array2string(x)

def table(rows):
    return str(pd.DataFrame(rows))

def sent(x):
    return pickle.dumps(x)

print(prebake.fingerprint(shown), prebake.fingerprint(table), prebake.fingerprint(sent))
"""
#: A call that sets VALUE, and which of the functions come upon it.
SETTERS = {
    "through another function": ("np.set_printoptions(precision=VALUE)", 0),
    "in what another function finds": ("pd.set_option('display.precision', VALUE)", 1),
    "in a module that others go on to": ("copyreg.pickle(Own, lambda o: (Own, (VALUE,)))", 2),
}


@pytest.mark.parametrize("way", SETTERS, ids=SETTERS)
def test_what_is_set_by_a_call_counts_wherever_it_is_kept(tmp_path: Path, way: str) -> None:
    before, place = SETTERS[way]
    first, again, other = (
        fingerprints(tmp_path, before.replace("VALUE", k), text=PRINTS) for k in ("3", "3", "4")
    )
    assert first == again and first[place] != other[place]


def test_a_setting_that_draws_is_another_than_one_that_does_not(tmp_path: Path) -> None:
    def found(drawn: str) -> str:
        before = f"np.set_printoptions(formatter={{'int': lambda v: str({drawn})}})"
        return fingerprints(tmp_path, before, text=PRINTS)[0]

    assert found("uuid.uuid4()") == found("uuid.uuid4()") != found("v")


KEEPS = """
import sys
parsed = []
sys.addaudithook(lambda event, args: event == "compile" and args[1] == "<unknown>" and parsed.append(args))

import pathlib, prebake
from PIL import GifImagePlugin, Image
GifImagePlugin.LOADING_STRATEGY = {value}

def size(path):
    return Image.open(path).size

shared = prebake.wrap(sorted(map(str, pathlib.Path("../images").glob("*"))), [size])
shared[0]
print(len(parsed), prebake.fingerprint(size), shared.stats()["computed"])
"""


def test_sources_are_parsed_once_for_all_processes(
    script: Run, daemon: PrivateDaemon, images: list[str]
) -> None:
    environment = {"PREBAKE": "on", "PREBAKE_DIR": str(daemon.folder / "cache"), "PREBAKE_AUTOSTART": "0"}

    def run(value: int) -> tuple[bool, str]:
        text = KEEPS.format(value=value).ljust(known_sources.ASKED_FROM, "#")
        parsed, identity, _ = script(text, environment=environment).split()
        return parsed != "0", identity

    assert images
    before, first = run(1)
    assert before and run(1) == (False, first)
    edited, other = run(2)
    assert edited and other != first and run(2) == (False, other)
    assert run(1) == (False, first)


CHANCE = """
import numpy as np, uuid
from prebake.execution.scope import FIRST_ELEMENTS, Scope
from prebake.identity.code import identify
def shown(v):
    return f"{uuid.uuid4()}" if DRAWS else f"{v:3}"
np.set_printoptions(formatter={"int": lambda v: shown(int(v))})
def text(i):
    return str(i) if i < 1000 else np.array2string(np.arange(i))
scope = Scope()
scope.elements = FIRST_ELEMENTS + 1
scope.names(identify(text).reached)
print(scope.is_due())
"""


@pytest.mark.parametrize("draws", [True, False])
def test_each_element_is_watched_that_may_be_the_first_to_draw(tmp_path: Path, draws: bool) -> None:
    (tmp_path / "main.py").write_text(CHANCE.replace("DRAWS", str(draws)))
    command = [sys.executable, "main.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{draws}\n"
