"""What a job switches between two calls, or by a call: what it is given then is what it would compute."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prebake.demo.daemon import PrivateDaemon

#: The first process computes, the second compares, the third is served.
RUNS = 3


def _link(first: str, second: str) -> tuple[str, list[str], list[str]]:
    script = """
import os
os.path.lexists("link") or os.symlink(FIRST, "link")
def point(to):
    os.remove("link")
    os.symlink(to, "link")
point(FIRST)
@prebake.cached
def f():
    return os.readlink("link")
"""
    return script.replace("FIRST", f'"{first}"'), [f'point("{second}")'], [first, second]


#: Files, the first of which is rare: a probe does not come upon it.
RARE = """
import pathlib
files = [f"{i}.txt" for i in range(20)]
for file in files:
    pathlib.Path(file).exists() or pathlib.Path(file).write_text(file)
ds = prebake.wrap(files, [load])
def f():
    return ds[0]
"""

#: A function or a pipeline `f`, how it is switched, and what `f()` is each time.
BETWEEN = {
    "decimal traps": (
        """
import decimal
@prebake.cached
def f():
    try:
        return str(decimal.Decimal(1) / decimal.Decimal(0))
    except decimal.DecimalException as error:
        return type(error).__name__
""",
        ["decimal.getcontext().traps[decimal.DivisionByZero] = False"],
        ["DivisionByZero", "Infinity"],
    ),
    "how a rare text becomes bytes": (
        """
import codecs
def set_to(k):
    codecs.register_error("fz", lambda e: (str(k), e.end))
def load(path):
    return "\u00e9".encode("ascii", "fz").decode() if path == "0.txt" else path
set_to(8)
"""
        + RARE,
        ["set_to(9)", "set_to(7)", "set_to(9)", "codecs.register_error('fz', codecs.replace_errors)"],
        ["8", "9", "7", "9", "?"],
    ),
    "who finds a rare codec": (
        """
import codecs
def finds(k):
    def find(name):
        def encode(text, errors="strict"):
            return bytes(ord(c) + k for c in text), len(text)
        return codecs.CodecInfo(encode, None, name=name) if name == "fz_by" else None
    return find
def load(path):
    return "abc".encode("fz_by").decode() if path == "0.txt" else path
now = finds(1)
codecs.register(now)
"""
        + RARE,
        ["codecs.unregister(now); now = finds(2); codecs.register(now)"],
        ["bcd", "cde"],
    ),
    "what a rare message calls its level": (
        """
import logging
def load(path):
    return logging.getLevelName(35) if path == "0.txt" else path
logging.addLevelName(35, "ZERO")
"""
        + RARE,
        [
            "logging.addLevelName(35, 'ONE')",
            "logging.addLevelName(36, 'TWO')",
            "logging.addLevelName(35, 'TWO')",
        ],
        ["ZERO", "ONE", "ONE", "TWO"],
    ),
    "where a rare time zone is looked for": (
        """
import zoneinfo
zoneinfo.reset_tzpath(["/zero"])
def load(path):
    return zoneinfo.TZPATH[0] if path == "0.txt" else path
"""
        + RARE,
        ["zoneinfo.reset_tzpath(['/one'])", "zoneinfo.reset_tzpath(['/two'])"],
        ["/zero", "/one", "/two"],
    ),
    "what a setter by another name sets": (
        """
import zoneinfo
zoneinfo.reset_tzpath(["/zero"])
def load(path):
    return zoneinfo.TZPATH[0] if path == "0.txt" else path
class Settings:
    zones = zoneinfo
settings, ways = Settings(), {"zones": getattr(zoneinfo, "reset_tzpath")}
"""
        + RARE,
        ["ways['zones'](['/one'])", "settings.zones.reset_tzpath(['/two'])"],
        ["/zero", "/one", "/two"],
    ),
    "how a rare object is put into a database": (
        """
import sqlite3
class Own: pass
def load(path):
    if path != "0.txt":
        return path
    with sqlite3.connect(":memory:") as base:
        return base.execute("select ?", (Own(),)).fetchone()[0]
sqlite3.register_adapter(Own, lambda own: 1)
"""
        + RARE,
        ["sqlite3.register_adapter(Own, lambda own: 2)", "sqlite3.register_adapter(Own, lambda own: 1)"],
        ["1", "2", "1"],
    ),
    "what a method of a class sets that rare items come upon": (
        """
import pathlib, sys
where = pathlib.Path("site-packages")
if not where.exists():
    (where / "fz_kept-1.0.dist-info").mkdir(parents=True)
    (where / "fz_kept.py").write_text(
        "class Base:\\n mode = 'a'\\n"
        "class Config(Base):\\n"
        " @classmethod\\n def use(cls, mode): cls.mode = str(mode)\\n"
        "def mode(): return Config.mode\\n"
    )
    (where / "fz_kept-1.0.dist-info" / "RECORD").write_text("fz_kept.py,,\\n")
sys.path.insert(0, str(where.resolve()))
import fz_kept
def load(path):
    return fz_kept.mode() if path == "0.txt" else path
"""
        + RARE,
        ["fz_kept.Config.use('b')", "fz_kept.Config.use(3)"],
        ["a", "b", "3"],
    ),
    "levels of loggers": (
        """
import logging
log = logging.getLogger("data.clean")
logging.getLogger("data").setLevel(logging.WARNING)
@prebake.cached
def f():
    return "debug" if log.isEnabledFor(logging.DEBUG) else "plain"
""",
        ['logging.getLogger("data").setLevel(logging.DEBUG)'],
        ["plain", "debug"],
    ),
    "levels of loggers that nothing holds": (
        """
import logging, pathlib
def load(path):
    return [logging.getLogger(name).isEnabledFor(20) for name in ("root of all", "data")]
files = [f"{i}.txt" for i in range(20)]
for file in files:
    pathlib.Path(file).write_text(file)
ds = prebake.wrap(files, [load])
def f():
    return ds[0]
""",
        [
            "logging.getLogger().setLevel(10)",
            "logging.getLogger('data').setLevel(50)",
            "logging.disable(30)",
            "logging.disable(0)",
        ],
        ["[False, False]", "[True, True]", "[True, False]", "[False, False]", "[True, False]"],
    ),
    "an array of the standard library, in place": (
        """
import array, pathlib
NUMBERS = array.array("h", [1, 2])
def load(path):
    return sum(NUMBERS)
files = [f"{i}.txt" for i in range(20)]
for file in files:
    pathlib.Path(file).write_text(file)
ds = prebake.wrap(files, [load])
def f():
    return ds[0]
""",
        ["NUMBERS[0] = 5", "NUMBERS.append(9)", "NUMBERS[0] = 1"],
        ["3", "7", "16", "12"],
    ),
    "a registry that is made when it is first used": (
        """
import mimetypes
@prebake.cached
def f():
    return str(mimetypes.guess_type("a.cr9")[0])
""",
        ['mimetypes.add_type("image/raw", ".cr9")', 'mimetypes.add_type("image/raw2", ".cr9")'],
        ["None", "image/raw", "image/raw2"],
    ),
    "an attribute of an installed module, and back": (
        """
from PIL import GifImagePlugin, Image
def load(path):
    image = Image.open(path)
    image.load()
    return image.mode
ds = prebake.wrap(["a.gif"], [load])
def f():
    return ds[0]
""",
        [
            "GifImagePlugin.LOADING_STRATEGY = GifImagePlugin.LoadingStrategy.RGB_ALWAYS",
            "GifImagePlugin.LOADING_STRATEGY = GifImagePlugin.LoadingStrategy.RGB_AFTER_FIRST",
        ],
        ["P", "RGB", "P"],
    ),
    "what a statement at the same place is given": (
        """
import calendar, contextlib
@contextlib.contextmanager
def beginning(day):
    hidden = vars(__import__("calendar"))["Text" + "Calendar"]
    before = hidden.formatweekheader
    setattr(hidden, "format" + "weekheader", lambda self, width: str(day))
    try:
        yield
    finally:
        setattr(hidden, "format" + "weekheader", before)
@prebake.cached
def month():
    return calendar.month(2024, 2).splitlines()[1]
day = 4
def f():
    with beginning(day):
        return month()
""",
        ["day = 5", "day = 4"],
        ["4", "5", "4"],
    ),
    "a table of many words, in place": (
        """
import pathlib
WORDS = {str(i): i for i in range(5000)}
ROWS = [[i, i] for i in range(300)]
def load(path):
    return WORDS["7"], ROWS[7][1]
pathlib.Path("a.txt").write_text("a")
ds = prebake.wrap(["a.txt", "a.gif"], [load])
def f():
    return ds[0]
""",
        ['WORDS["7"] = 9', "ROWS[7][1] = 9", 'WORDS["7"] = 7'],
        ["(7, 7)", "(9, 7)", "(9, 9)", "(7, 9)"],
    ),
    "a table of an installed module, in place": (
        """
import html, html.entities
@prebake.cached
def f():
    return html.unescape("&eacute;")
""",
        ['html.entities.html5.update({"eacute;": "1"})', 'html.entities.html5["eacute;"] = "2"'],
        ["\u00e9", "1", "2"],
    ),
    "a table that an installed class has from another": (
        """
import configparser
@prebake.cached
def f():
    parser = configparser.ConfigParser()
    parser.read_string("[a]\\nb = ja")
    try:
        return parser.getboolean("a", "b")
    except ValueError:
        return "neither"
""",
        ['configparser.ConfigParser.BOOLEAN_STATES["ja"] = True'],
        ["neither", "True"],
    ),
    "an attribute of an object of the standard library's": (
        """
import reprlib
@prebake.cached
def f():
    return reprlib.repr([1, 2, 3, 4])
""",
        ["reprlib.aRepr.maxlist = 3", "reprlib.aRepr.maxlist = 2"],
        ["[1, 2, 3, 4]", "[1, 2, 3, ...]", "[1, 2, ...]"],
    ),
    "whether warnings are errors": (
        """
import warnings
import numpy as np
@prebake.cached
def f():
    try:
        return float(np.log(np.float64(0)))
    except RuntimeWarning:
        return None
warnings.simplefilter("ignore")
""",
        ['warnings.simplefilter("error")', 'warnings.simplefilter("ignore")'],
        ["-inf", "None", "-inf"],
    ),
    "names of levels, in what a handler takes": (
        """
import io, logging
log = logging.getLogger("captured")
@prebake.cached
def f():
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(logging.Formatter("%(levelname)s"))
    log.addHandler(handler)
    log.info("a"), log.warning("b")
    log.removeHandler(handler)
    return " ".join(lines.getvalue().split())
""",
        ['logging.addLevelName(30, "W")', "log.setLevel(20)"],
        ["WARNING", "W", "INFO W"],
    ),
    "where a link leads to": _link("a.gif", "b.gif"),
    "where a link leads to, without anything there": _link("c.gif", "d.gif"),
    "whether there is a file of code, and in memory": (
        """
import os, pathlib
NAME = f"/dev/shm/prebake-tests-{os.getpid()}"
def clean():
    for each in ("plug.py", NAME):
        pathlib.Path(each).unlink(missing_ok=True)
clean()
import atexit
atexit.register(clean)
def make(name):
    pathlib.Path(name).write_text("x")
@prebake.cached
def f():
    return os.path.exists("plug.py"), os.path.exists(NAME)
""",
        ['make("plug.py")', "make(NAME)"],
        ["(False, False)", "(True, False)", "(True, True)"],
    ),
    "when an open file was changed": (
        """
import os
os.utime("a.gif", (1, 1))
held = os.open("a.gif", os.O_RDONLY)
@prebake.cached
def f():
    return os.fstat(held).st_mtime, os.stat(held).st_mtime
""",
        ['os.utime("a.gif", (2, 2))'],
        ["(1.0, 1.0)", "(2.0, 2.0)"],
    ),
    "an attribute of a file": (
        """
import os
os.setxattr("a.gif", "user.tests", b"1")
@prebake.cached
def f():
    return os.getxattr("a.gif", "user.tests").decode()
""",
        ['os.setxattr("a.gif", "user.tests", b"2")'],
        ["1", "2"],
    ),
}
#: The same of torch.
BETWEEN_OF_TORCH = {
    "a hook of all modules": (
        """
import torch
from torch.nn.modules.module import register_module_forward_hook
net = torch.nn.Linear(2, 2).eval()
with torch.no_grad():
    net.weight.fill_(1), net.bias.fill_(0)
@prebake.cached
def of_net():
    with torch.no_grad():
        return net(torch.ones(1, 2)).sum().item()
def f():
    return of_net()
""",
        ["h = register_module_forward_hook(lambda m, a, o: o + 1)", "h.remove()"],
        ["4.0", "6.0", "4.0"],
    ),
    "the device that is chosen for all": (
        """
import torch
@prebake.cached
def f():
    return torch.ones(2).device.type
torch.set_default_device("cpu")
""",
        ['torch.set_default_device("meta")', 'torch.set_default_device("cpu")'],
        ["cpu", "meta", "cpu"],
    ),
    "being made a graph": (
        """
import torch, warnings
warnings.simplefilter("ignore")
@prebake.cached
def times(x, k):
    return x * k
x = torch.arange(3.0)
class Net(torch.nn.Module):
    def forward(self, t):
        return times(t, 3)
def f():
    return times(x, 3).tolist() if plain else torch.jit.trace(Net(), x)(x + 1).tolist()
plain = True
""",
        ["plain = False"],
        ["[0.0, 3.0, 6.0]", "[3.0, 6.0, 9.0]"],
    ),
}

#: A function that is called once a process, and what tells that it was called.
BY_A_CALL = {
    "a limit of the interpreter": ("sys.setrecursionlimit(1777)", "sys.getrecursionlimit()", "1777"),
    "arithmetic": ("decimal.getcontext().prec = 5", "decimal.getcontext().prec", "5"),
    "the working folder": ('os.chdir("sub")', "os.path.basename(os.getcwd())", "sub"),
    "what new files may be": ("os.umask(0o027)", "os.umask(0)", "23"),
    "how errors of a codec are handled": (
        'codecs.register_error("tests", ignored)',
        '"\u00ef!".encode("ascii", "tests")',
        "b'!'",
    ),
    "a file that it removes": ('os.remove("a.tmp")', 'os.path.exists("a.tmp")', "False"),
    "a folder that it removes": ('os.rmdir("gone")', 'os.path.exists("gone")', "False"),
    "a file that it gives another name": ('os.rename("a.tmp", "b.tmp")', 'os.path.exists("b.tmp")', "True"),
}

ONCE = """
import codecs, decimal, os, sys
import prebake
def ignored(error):
    return "", error.end
@prebake.cached
def f(x):
    {does}
    return x
f(1)
print({shows})
"""

#: Where the time comes from that a value is made of.
CLOCKS = {
    "datetime": 'str(datetime.datetime.strptime(text, "%H").replace(day=datetime.datetime.now().day))',
    "NumPy": 'str(np.array([text], "M8[s]")[0])',
    "SQLite": 'sqlite3.connect(":memory:").execute("select date(?)", (text,)).fetchone()[0]',
}


def run(daemon: PrivateDaemon, folder: Path, program: str) -> tuple[str, str]:
    """A process of its own: what it prints, and what it says beside."""
    (folder / "main.py").write_text(program)
    environment = {**os.environ, "PREBAKE": "on", "PREBAKE_DIR": str(daemon.folder / "cache")}
    command = [sys.executable, "main.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    "name", [*BETWEEN, *(pytest.param(n, marks=pytest.mark.torch) for n in BETWEEN_OF_TORCH)]
)
def test_what_is_switched_between_two_calls_counts(daemon: PrivateDaemon, tmp_path: Path, name: str) -> None:
    from PIL import Image

    Image.new("P", (8, 8)).save(tmp_path / "a.gif")
    function, switches, expected = {**BETWEEN, **BETWEEN_OF_TORCH}[name]
    lines = "\n".join(f"{switch}\nprint(f())" for switch in switches)
    for _ in range(RUNS):
        # Twice: what a process made itself it is served too.
        text, said = run(daemon, tmp_path, f"import prebake\n{function}\nf()\nprint(f())\n{lines}\n")
        assert text.splitlines() == expected, said
        time.sleep(0.5)


@pytest.mark.parametrize("name", BY_A_CALL)
def test_what_a_function_sets_or_takes_away_is_not_left_out(
    daemon: PrivateDaemon, tmp_path: Path, name: str
) -> None:
    does, shows, expected = BY_A_CALL[name]
    (tmp_path / "sub").mkdir()
    for _ in range(RUNS):
        (tmp_path / "a.tmp").write_text("precious")
        (tmp_path / "b.tmp").unlink(missing_ok=True)
        (tmp_path / "gone").mkdir(exist_ok=True)
        text, said = run(daemon, tmp_path, ONCE.format(does=does, shows=shows))
        assert text == expected, said
        # It runs in no other process either.
        (tmp_path / "a.tmp").write_text("made after")
        time.sleep(1)
        assert (tmp_path / "a.tmp").exists()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiled code's clock is set ahead on x86-64")
@pytest.mark.parametrize("name", CLOCKS)
def test_the_time_is_not_kept_wherever_code_has_it_from(
    daemon: PrivateDaemon, tmp_path: Path, name: str
) -> None:
    text = {"datetime": "11"}.get(name, "now")
    program = f"""
import datetime, sqlite3, sys
import numpy as np
import prebake
@prebake.cached
def f(text):
    print("called", file=sys.stderr)
    return {CLOCKS[name]}
f({text!r})
"""
    for _ in range(RUNS):
        _, said = run(daemon, tmp_path, program)
        assert "called" in said
        time.sleep(1)
    assert "not cached" in said


def test_a_file_that_is_not_there_does_not_hide_one_that_compiled_code_reads(
    daemon: PrivateDaemon, tmp_path: Path
) -> None:
    program = """
import sqlite3
import prebake
@prebake.cached(inputs=["path"])
def f(path):
    connection = sqlite3.connect(path)
    connection.execute("attach 'other.db' as other")
    return connection.execute("select a.v, b.v from t a, other.t b").fetchone()
print(f("main.db"))
"""
    import sqlite3

    for name, value in (("main.db", 1), ("other.db", 2)):
        with sqlite3.connect(tmp_path / name) as connection:
            connection.execute("create table t(v)")
            connection.execute("insert into t values (?)", (value,))
    for _ in range(2):
        assert run(daemon, tmp_path, program)[0] == "(1, 2)"
        time.sleep(1)
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("update t set v = 9")
    assert run(daemon, tmp_path, program)[0] == "(1, 9)"


def test_what_makes_batches_as_a_whole_makes_no_items(daemon: PrivateDaemon, tmp_path: Path) -> None:
    program = """
import prebake
class Numbers:
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return i * 2
    def __getitems__(self, indices):
        return [self[i] + 100 * len(indices) for i in indices]
ds = prebake.wrap(Numbers())
print(ds[3], ds.__getitems__([1, 2]))
"""
    for _ in range(2):
        assert run(daemon, tmp_path, program)[0] == "6 [202, 204]"
    assert run(daemon, tmp_path, 'import os\nos.environ["PREBAKE"] = "off"\n' + program)[0] == "6 [202, 204]"
