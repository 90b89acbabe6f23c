"""`@prebake.cached`: a call is computed once for the same code, arguments and file content."""

import time
from pathlib import Path

import pytest
from conftest import Call, settle

FUNCTION = """
import sys, threading, prebake
from pathlib import Path
FACTOR = 1

@prebake.cached(inputs=["path", Path("words.txt")])
def count(path, *, scale=1, extra=None):
    sys.stderr.write("called\\n")
    return {"lengths": [len(open(path).read()) * scale * FACTOR], "words": Path("words.txt").read_text()}
"""

NAMED = """
import sys
from typing import NamedTuple
import prebake

class Box(NamedTuple):
    width: int
    height: int = 2

@prebake.cached
def count(text):
    sys.stderr.write("called\\n")
    return Box(len(text))
"""


def test_a_value_of_a_class_of_the_script_is_there_for_the_next_process(call: Call) -> None:
    assert call("'four'", NAMED) == ("Box(width=4, height=2)", 1, "")
    assert call("'four'", NAMED) == ("Box(width=4, height=2)", 0, "")


def test_a_second_call_is_not_made(call: Call) -> None:
    first = call("'data.txt'", FUNCTION)
    assert first == ("{'lengths': [4], 'words': 'a b'}", 1, "")
    assert call("'data.txt'", FUNCTION) == (first[0], 0, "")


@pytest.mark.parametrize("name", ["data.txt", "words.txt"])
def test_an_edited_input_is_read_again(call: Call, tmp_path: Path, name: str) -> None:
    call("'data.txt'", FUNCTION)
    (tmp_path / name).write_text("edited")
    settle(tmp_path / name)
    value, calls, _ = call("'data.txt'", FUNCTION)
    assert calls == 1 and ("edited" in value) == (name == "words.txt")
    assert call("'data.txt'", FUNCTION) == (value, 0, "")


def test_arguments_and_code_are_part_of_it(call: Call) -> None:
    call("'data.txt'", FUNCTION)
    assert call("'data.txt', scale=2", FUNCTION)[:2] == ("{'lengths': [8], 'words': 'a b'}", 1)
    # In a script that was edited what is there is computed again once, and compared.
    assert [call("'data.txt', scale=1", FUNCTION)[1] for _ in range(2)] == [1, 0]
    for old, new in (("FACTOR = 1", "FACTOR = 3"), ("* scale * FACTOR", "+ scale * FACTOR * 8")):
        assert call("'data.txt'", FUNCTION.replace(old, new))[:2] == ("{'lengths': [12], 'words': 'a b'}", 1)


def test_an_argument_that_cannot_be_known_is_no_reason_to_fail(call: Call) -> None:
    twice = FUNCTION + "\ncount('data.txt', extra=threading.local())\n"
    for _ in range(2):
        value, calls, said = call("'data.txt', extra=threading.local()", twice)
        assert value == "{'lengths': [4], 'words': 'a b'}" and calls == 2
        assert len(said.splitlines()) == 1 and "extra" in said


def test_a_missing_input_is_the_functions_own_error(call: Call) -> None:
    function = FUNCTION + "\ntry:\n    count('none.txt')\nexcept FileNotFoundError:\n    print('missing')\n"
    value, _, said = call("'data.txt'", function)
    assert value.splitlines()[0] == "missing" and not said


#: Reads what its arguments do not name: a file whose name another file tells.
UNDECLARED = """
import sys, os, prebake

@prebake.cached
def count(name, folder="."):
    sys.stderr.write("called\\n")
    listed = open(os.path.join(folder, name)).read().split()
    return [open(os.path.join(folder, each)).read() for each in listed]
"""


def write(path: Path, text: str) -> None:
    path.write_text(text)
    settle(path)
    # What is read before it is known what will be, is stored if a later write could not go unseen.
    time.sleep(RACY_SECONDS)


RACY_SECONDS = 2.1


def test_files_that_nobody_declared_are_found_out(call: Call, tmp_path: Path) -> None:
    def names(text: str) -> None:
        write(tmp_path / "names.txt", text)

    names("data.txt")
    assert call("'names.txt'", UNDECLARED) == ("['four']", 1, "")
    assert call("'names.txt'", UNDECLARED) == ("['four']", 0, "")
    write(tmp_path / "data.txt", "five")
    assert call("'names.txt'", UNDECLARED) == ("['five']", 1, "")
    assert call("'names.txt'", UNDECLARED) == ("['five']", 0, "")
    # A file that it then reads is named by one that it read before.
    names("data.txt words.txt")
    assert call("'names.txt'", UNDECLARED) == ("['five', 'a b']", 1, "")
    write(tmp_path / "words.txt", "c d")
    assert call("'names.txt'", UNDECLARED) == ("['five', 'c d']", 1, "")
    assert call("'names.txt'", UNDECLARED) == ("['five', 'c d']", 0, "")
    # Everything as it was at first.
    names("data.txt")
    write(tmp_path / "data.txt", "four")
    assert call("'names.txt'", UNDECLARED) == ("['four']", 0, "")


def test_a_name_is_another_file_in_another_folder(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "names.txt", "data.txt")
    other = tmp_path / "other"
    other.mkdir()
    write(other / "names.txt", "data.txt")
    write(other / "data.txt", "here")
    assert call("'names.txt'", UNDECLARED)[:2] == ("['four']", 1)
    moved = UNDECLARED.replace("import sys", "import os; os.chdir('other')\nimport sys")
    assert call("'names.txt'", moved)[:2] == ("['here']", 1)


def test_what_is_read_from_the_network_is_not_kept(call: Call) -> None:
    function = """
import sys, threading, prebake, socket
ours, theirs = socket.socketpair()

@prebake.pure
def ask(address):
    with socket.create_connection(address) as connection:
        return connection.recv(10)

@prebake.cached
def count(address):
    sys.stderr.write("called\\n")
    return ask(address)

server = socket.create_server(("127.0.0.1", 0))
def serve():
    for _ in range(2):
        with server.accept()[0] as connection:
            connection.sendall(b"said")
threading.Thread(target=serve, daemon=True).start()
address = ("127.0.0.1", server.getsockname()[1])
count(address)
"""
    value, calls, said = call("address", function)
    assert (value, calls) == ("b'said'", 2) and "R22" in said


def test_a_file_that_is_edited_while_it_is_read(call: Call, tmp_path: Path) -> None:
    """What was made of the file as it was is not stored as made of what it is now."""
    function = UNDECLARED.replace("return [", "found = [") + "    edit()\n    return found\n"
    function += """
@prebake.pure
def edit():
    name = "ed%s" % "it"
    text = "late" if os.path.exists(name) else "four"
    if text == "late":
        import threading
        other = threading.Thread(target=write, args=[name, text])
        other.start()
        other.join()

def write(name, text):
    os.remove(name)
    with open("data.txt", "w") as file:
        file.write(text)
    os.utime("data.txt", (1e9, 1e9))
"""
    write(tmp_path / "names.txt", "data.txt")
    (tmp_path / "edit").touch()
    assert call("'names.txt'", function)[:2] == ("['four']", 1)
    assert call("'names.txt'", function)[:2] == ("['late']", 1)
    assert call("'names.txt'", function)[:2] == ("['late']", 0)


def test_what_a_function_kept_of_a_file_is_no_value_of_its_arguments_alone(
    call: Call, tmp_path: Path
) -> None:
    function = """
import functools, sys, prebake

@functools.lru_cache
def table(name):
    return open(name).read().split()

@prebake.cached
def count(place, name):
    sys.stderr.write("called\\n")
    return table(name)[place]

count(0, "words.txt")
"""
    write(tmp_path / "words.txt", "a b")
    assert call("1, 'words.txt'", function)[:2] == ("b", 2)
    write(tmp_path / "words.txt", "c d")
    assert call("1, 'words.txt'", function)[:2] == ("d", 2)


KEEPS = """
import functools, os, sys, threading, prebake

class Words:
    def __init__(self, name):
        self.lock, self.again = threading.Lock(), threading.RLock()
        with open(name) as file:
            self.known = file.read().split()

    @functools.lru_cache(maxsize=8)
    def place(self, word):
        with self.lock, self.again:
            return self.known.index(word)

@functools.lru_cache
def text(name):
    return open(name).read()

words = Words("words.txt")

@prebake.cached
def count(*given):
    sys.stderr.write("called\\n")
    return [words.place(each) for each in given]

@prebake.cached
def joined(*names):
    return "".join(text(each) for each in names)
"""


def test_what_a_call_kept_and_gives_back_is_reused(call: Call) -> None:
    assert call("'a', 'b', 'a'", KEEPS) == ("[0, 1, 0]", 1, "")
    assert call("'a', 'b', 'a'", KEEPS) == ("[0, 1, 0]", 0, "")


def test_what_was_kept_of_a_file_is_not_stored_for_what_it_holds_now(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "one.txt", "1")
    program = (
        KEEPS
        + """
joined("one.txt", "one.txt")
with open("one.txt", "w") as file:
    file.write("2")
os.utime("one.txt", (1e9, 1e9))
kept = joined("one.txt", "one.txt")
text.cache_clear()
sys.stderr.write(kept + joined("one.txt", "one.txt") + "\\n")
"""
    )
    assert call("'a'", program)[2].splitlines()[-1] == "1122"
    # Another process has kept nothing.
    write(tmp_path / "one.txt", "2")
    assert call("'a'", KEEPS + "sys.stderr.write(joined('one.txt', 'one.txt') + chr(10))")[2] == "22"


OBJECTS = """
import collections, dataclasses, enum, sys
import numpy as np, pandas as pd, polars as pl, prebake, pyarrow as pa

class Kind(enum.Enum):
    A = 1

Pair = collections.namedtuple("Pair", "a b")

@dataclasses.dataclass
class Sample:
    pixels: np.ndarray
    kind: Kind

MAKE = {
    "sample": lambda n: Sample(np.arange(n), Kind.A),
    "pair": lambda n: Pair(n, [Kind.A]),
    "pandas": lambda n: pd.DataFrame({"n": range(n), "s": [f"row {i}" for i in range(n)]}),
    "polars": lambda n: pl.DataFrame({"n": range(n), "s": [f"row {i}" for i in range(n)]}),
    "arrow": lambda n: pa.table({"n": range(n), "s": [f"row {i}" for i in range(n)]}),
}

@prebake.cached
def make(name, n):
    sys.stderr.write("called\\n")
    return MAKE[name](n)

def show(name, n):
    value = make(name, n)
    assert type(value) is type(MAKE[name](n))
    return value

class count:
    def __init__(self, name): self.text = repr(show(name, 7))
    def __str__(self): return self.text
"""


@pytest.mark.parametrize("name", ["sample", "pair", "pandas", "polars", "arrow"])
def test_objects_and_tables_are_served(call: Call, name: str) -> None:
    first = call(repr(name), OBJECTS)
    assert first[1:] == (1, "")
    assert call(repr(name), OBJECTS) == (first[0], 0, "")


DEFAULTS = """
import sys, prebake

@prebake.cached
def made(x, y=2, *, z=3):
    sys.stderr.write("called\\n")
    return [x, y, z]

def count():
    first = made(1)
    made.__wrapped__.__defaults__ = (5,)
    made.__wrapped__.__kwdefaults__["z"] = 6
    return first, made(1)
"""


def test_defaults_that_are_replaced_count(call: Call) -> None:
    first = call("", DEFAULTS)
    assert first[0] == "([1, 2, 3], [1, 5, 6])"
    assert call("", DEFAULTS)[0] == first[0]


DISPATCH = """
import functools, sys, prebake

@functools.singledispatch
def show(x):
    return str(x)

@show.register
def _(x: int):
    return f"number {x}"

@prebake.cached
def count():
    sys.stderr.write("called\\n")
    return [show(3), show("a")]
"""


def test_what_dispatches_by_type_is_tried_beside_the_job(call: Call) -> None:
    first = call("", DISPATCH)
    assert first == ("['number 3', 'a']", 1, "") and call("", DISPATCH) == (first[0], 0, "")


VERSIONED = """
import sys, prebake
from importlib import metadata

def newest():
    return max((each.name for each in metadata.distributions() if each.name == "numpy"), default="")

@prebake.cached
def count():
    sys.stderr.write("called\\n")
    return newest()
"""


def test_asking_for_what_is_installed_lists_no_data(call: Call) -> None:
    first = call("", VERSIONED)
    assert first == ("numpy", 1, "") and call("", VERSIONED)[0] == first[0]
    assert call("", VERSIONED) == (first[0], 0, "")


LISTS = """
import os, sys, prebake
from pathlib import Path

@prebake.cached
def count(folder):
    sys.stderr.write("called\\n")
    return {each.stem: each.read_text() for each in sorted(Path(folder).glob("*.txt"))}
"""


def test_a_folder_that_is_listed_counts_by_the_names_in_it(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()

    def made() -> tuple[str, int]:
        value, calls, said = call("'texts'", LISTS)
        assert not said and call("'texts'", LISTS) == (value, 0, "")
        return value, calls

    write(folder / "a.txt", "1")
    assert made() == ("{'a': '1'}", 1)
    write(folder / "b.txt", "2")
    assert made() == ("{'a': '1', 'b': '2'}", 1)
    write(folder / "b.txt", "3")
    assert made() == ("{'a': '1', 'b': '3'}", 1)
    # What it read before and is gone, it does not read again.
    (folder / "a.txt").unlink()
    assert made() == ("{'b': '3'}", 1)
    (folder / "b.txt").rename(folder / "c.txt")
    assert made() == ("{'c': '3'}", 1)


PROCESSORS = """
import os, sys, prebake
from concurrent.futures import ThreadPoolExecutor

@prebake.cached
def count(n):
    sys.stderr.write("called\\n")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(abs, range(n)))
"""


def test_how_many_processors_there_are_counts(call: Call) -> None:
    assert call("3", PROCESSORS) == ("[0, 1, 2]", 1, "")
    assert call("3", PROCESSORS) == ("[0, 1, 2]", 0, "")
    fewer = "import os\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n" + PROCESSORS
    assert call("3", fewer)[:2] == ("[0, 1, 2]", 1)


DATES = """
import sys, pandas as pd, prebake

@prebake.cached
def count(frame):
    sys.stderr.write("called\\n")
    dates = pd.Series(pd.to_datetime(["2020-01-02", "2021-01-01"]), index=[1, 2]).reindex([1, 2, 3])
    return frame.assign(date=dates.dt.year.fillna(0)), dates

frame = pd.DataFrame({"name": ["a", "b", "c"], "n": [1, 2, 3]})
"""


def test_equal_tables_are_equal_in_another_process(call: Call) -> None:
    value, calls, said = call("frame", DATES)
    assert calls == 1 and not said
    assert call("frame", DATES) == (value, 0, "")


POLARS = """
import sys, polars as pl, prebake

@prebake.cached
def count(n):
    sys.stderr.write("called\\n")
    return pl.DataFrame({"a": list(range(n)), "b": ["x"] * n})

assert "numpy" not in sys.modules
"""


def test_a_table_is_stored_where_there_is_no_numpy(call: Call) -> None:
    value, calls, said = call("3", POLARS)
    assert calls == 1 and not said
    assert call("3", POLARS) == (value, 0, "")


def test_what_two_threads_kept_is_not_followed() -> None:
    import functools
    import threading

    from prebake.reads import memos
    from prebake.reads.recorder import Recorder

    @functools.lru_cache
    def kept(x: int) -> int:
        return x

    turns, other = threading.Barrier(2), threading.Event()

    def elsewhere() -> None:
        with Recorder() as record, memos.followed([kept], record):
            turns.wait()
            kept(2)
            other.set()

    thread = threading.Thread(target=elsewhere)
    with Recorder() as record, memos.followed([kept], record):
        thread.start()
        turns.wait()
        other.wait()
        kept(1)
    thread.join()
    with Recorder() as again, memos.followed([kept], again):
        kept(2)
    assert again.incomplete and "gives back what it kept" in again.incomplete


def test_what_entries_of_a_folder_tell_is_not_followed(call: Call, tmp_path: Path) -> None:
    program = """
import os, sys, prebake

@prebake.cached
def count(folder):
    sys.stderr.write("called\\n")
    return sorted((each.name, each.stat().st_size) for each in os.scandir(folder))
"""
    (tmp_path / "texts").mkdir()
    for text in ("one", "more"):
        write(tmp_path / "texts" / "a.txt", text)
        value, calls, said = call("'texts'", program)
        assert value == str([("a.txt", len(text))]) and calls == 1 and "R23" in said


IN_TURN = """
import os, subprocess, sys, time, prebake
from pathlib import Path
from prebake.runtime import programs
FACTOR = 1

@prebake.cached
def scaled(x):
    sys.stderr.write("called\\n")
    return x * FACTOR

def emptied():
    while [*Path(os.environ["PREBAKE_DIR"]).rglob("*.arrow*")]:
        subprocess.run([programs.path("prebake"), "gc", "--to", "0"], check=True, stdout=subprocess.DEVNULL)
        time.sleep(0.1)
    return "emptied"

def count(*factors):
    global FACTOR
    said = []
    for FACTOR in factors:
        said.append(scaled(3) if FACTOR else emptied())
    return said
"""


def test_a_collection_that_is_asked_for_in_turn_is_that_of_the_code_as_it_is(call: Call) -> None:
    said, calls, warnings = call("1, 2, 1, 0, 2, 1, 2", IN_TURN)
    assert (said, warnings) == ("[3, 6, 3, 'emptied', 6, 3, 6]", "")
    # Two before they were dropped, and two after at least.
    assert calls >= 4
