"""A trial runs a user's function again, on the files as they are: whoever called it once is not to find that
it was called again, and a hit leaves nothing out."""

import sqlite3
from pathlib import Path

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon
from prebake.pipeline.findings import PROBES_MAX

WRITES = {
    "a row": """
import sqlite3
def f(i):
    with sqlite3.connect("log.db") as log:
        log.execute("insert into log values (?)", [i])
    return i * 10
""",
    "a row, by one who hides it": """
import importlib
def f(i):
    log = importlib.import_module("sqli" + "te3").connect("log.db")
    log.execute("insert into log values (?)", [i])
    log.commit()
    return i * 10
""",
}
FRONTS = {
    "function": "f = prebake.cached(f)\nprint([f(i) for i in range(4)])",
    "steps": "def load(path): return int(open(path).read())\n"
    "ds = prebake.wrap([f'{i}.txt' for i in range(4)], [load, f])\nprint([ds[i] for i in range(4)])",
    "stream": "@prebake.cached\ndef each():\n    for i in range(4):\n        yield f(i)\nprint(list(each()))",
    "data set": "class D:\n    def __len__(self): return 4\n    def __getitem__(self, i): return f(i)\n"
    "ds = prebake.wrap(D())\nprint([ds[i] for i in range(4)])",
}


def run(daemon: PrivateDaemon, folder: Path, files: int = 4) -> str:
    for i in range(files):
        (folder / f"{i}.txt").write_text(str(i))
    return run_main(daemon, folder)


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("writes", WRITES)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_each_call_writes_once(
    daemon: PrivateDaemon, tmp_path: Path, front: str, writes: str, journal: str
) -> None:
    log = sqlite3.connect(tmp_path / "log.db")
    log.execute(f"pragma journal_mode = {journal}")
    log.execute("create table log (i)")
    log.commit()
    (tmp_path / "main.py").write_text(f"import prebake\n{WRITES[writes]}\n{FRONTS[front]}\n")
    for job in (1, 2, 3):
        assert run(daemon, tmp_path) == "[0, 10, 20, 30]\n"
        rows = sorted(i for (i,) in log.execute("select i from log"))
        assert rows == sorted([0, 1, 2, 3] * job), f"job {job}"
        # No connection of this process lasts between two jobs, or who opens it last never tidies up.
        log.close()
        log = sqlite3.connect(tmp_path / "log.db")


READS = """
import sqlite3
def f(i):
    return sqlite3.connect("log.db").execute("select i * ? from log", [i]).fetchone()[0]
"""


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_reading_a_database_fails_in_no_trial(
    daemon: PrivateDaemon, tmp_path: Path, front: str, journal: str
) -> None:
    log = sqlite3.connect(tmp_path / "log.db")
    log.execute(f"pragma journal_mode = {journal}")
    log.execute("create table log (i)")
    log.execute("insert into log values (5)")
    log.commit()
    log.close()
    (tmp_path / "main.py").write_text(f"import prebake\n{READS}\n{FRONTS[front]}\n")
    for k in (5, 5, 7, 7):
        with sqlite3.connect(tmp_path / "log.db") as log:
            log.execute("update log set i = ?", [k])
        assert run(daemon, tmp_path) == f"{[i * k for i in range(4)]}\n"


RARELY = {
    "a random number of the system": 'getattr(uuid, "uuid" + "4")().hex',
    "a random number of compiled code": 'str(getattr(pl.Series(range(1000)), "sam" + "ple")(3).to_list())',
    "the time in compiled code": 'str(pd.to_datetime(["now"]).asi8[0])',
    "a file that compiled code opens": 'str(getattr(csv, "read" + "_csv")("a" + ".csv")["x"].to_pylist())',
}
RARE_FRONTS = {
    "function": "f = prebake.cached(f)\nprint([f(i) for i in range(12)][7])",
    "function of a file": "def load(path): return f(int(open(path).read()))\n"
    "load = prebake.cached(inputs=['path'])(load)\nprint([load(f'{i}.txt') for i in range(12)][7])",
    "steps": "def load(path): return int(open(path).read())\n"
    "ds = prebake.wrap([f'{i}.txt' for i in range(12)], [load, f])\nprint([ds[i] for i in range(12)][7])",
    "stream": "@prebake.cached\ndef each():\n    for i in range(12): yield f(i)\nprint(list(each())[7])",
    "data set": "class D:\n    def __len__(self): return 12\n    def __getitem__(self, i): return f(i)\n"
    "ds = prebake.wrap(D())\nprint([ds[i] for i in range(12)][7])",
}


@pytest.mark.parametrize("front", RARE_FRONTS)
@pytest.mark.parametrize("rarely", RARELY)
def test_what_a_later_one_does_shows_too(
    daemon: PrivateDaemon, tmp_path: Path, rarely: str, front: str
) -> None:
    """The first ones are made again in any case; this shows in another, which is cheap."""
    (tmp_path / "main.py").write_text(
        "import uuid\nimport pandas as pd, polars as pl, pyarrow.csv as csv\nimport prebake\ndef f(i):\n"
        f"    return {RARELY[rarely]} if i == 7 else str(i)\n{RARE_FRONTS[front]}\n"
    )
    found = set()
    for job in range(3):
        (tmp_path / "a.csv").write_text(f"x\n{job}\n")
        found.add(run(daemon, tmp_path, 12))
    assert len(found) == 3


@pytest.mark.parametrize("rarely", [each for each in RARELY if not each.startswith("a file")])
def test_what_a_later_one_draws_is_not_given_twice_in_its_own_process(
    daemon: PrivateDaemon, tmp_path: Path, rarely: str
) -> None:
    """Before a trial tells of that one."""
    (tmp_path / "main.py").write_text(
        "import time, uuid\nimport pandas as pd, polars as pl\nimport prebake\n@prebake.cached\ndef f(i):\n"
        f"    return {RARELY[rarely]} if i == 7 else str(i)\nfound = []\nfor _ in range(3):\n"
        "    found.append([f(i) for i in range(12)])\n    time.sleep(1)\n"
        "print([len(set(each)) for each in zip(*found)])\n"
    )
    for _ in range(2):
        assert run(daemon, tmp_path, 0) == f"{[1] * 7 + [3] + [1] * 4}\n"


def test_a_trial_that_takes_longer_than_it_is_waited_for_is_not_overtaken(
    daemon: PrivateDaemon, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(
        "import time\nimport pandas as pd, prebake\nimport prebake.trial.trial\n"
        "prebake.trial.trial.WAIT_SECONDS = 0.1\n"
        "@prebake.cached\ndef f(i):\n    time.sleep(0.2)\n"
        "    return pd.to_datetime(['now']).asi8[0] if i == 6 else i\n"
        "print([str(f(i)) for i in range(8)][6])\n"
    )
    # The trial of what the first job called makes each call twice: the others begin meanwhile.
    assert len({run_main(daemon, tmp_path) for _ in range(4)}) == 4


def test_what_is_made_once_more_is_served_from_then_on(daemon: PrivateDaemon, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        "import time\nimport prebake\n@prebake.cached\ndef f(i):\n    print(i, end=' ')\n    return i * 2\n"
        "for each in range(8):\n    assert [f(i) for i in range(3)] == [0, 2, 4]\n"
        "    print('.')\n    time.sleep(1)\n"
    )
    first, *then, last, _ = run(daemon, tmp_path, 0).split(".\n")
    assert (first, last) == ("0 1 2 ", "")
    # The trial makes another again; until it has, each is computed each time.
    assert any(each.endswith("1 2 ") for each in then)


def test_what_compiled_code_opens_for_any_item_may_be_declared(daemon: PrivateDaemon, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        "import prebake, pyarrow.csv\nclass D:\n    def __len__(self): return 12\n"
        "    def __getitem__(self, i):\n"
        "        print('made') if i == 7 else 0\n"
        "        return pyarrow.csv.read_csv(f'{i}.csv')['x'].to_pylist()\n"
        "ds = prebake.wrap(D(), inputs=lambda i: [f'{i}.csv'])\nprint([ds[i] for i in range(12)])\n"
    )
    for i in range(12):
        (tmp_path / f"{i}.csv").write_text(f"x\n{i}\n")
    expected = f"{[[i] for i in range(12)]}\n"
    assert run(daemon, tmp_path).endswith(expected)
    assert run(daemon, tmp_path) == expected


def test_a_probe_that_changes_what_it_is_of_is_not_run_for_each_item(
    daemon: PrivateDaemon, tmp_path: Path
) -> None:
    (tmp_path / "lib.py").write_text(
        "import sqlite3\ndef begin():\n    with sqlite3.connect('log.db') as log:\n"
        "        log.execute('create table if not exists log (i)')\n"
        "        log.execute('insert into log values (1)')\nbegin()\n"
        "def late(i):\n    with sqlite3.connect('log.db') as log:\n"
        "        return log.execute('select min(i) * ? from log', (i,)).fetchone()[0]\n"
    )
    (tmp_path / "main.py").write_text(
        "import prebake, lib\ndef load(path): return int(open(path).read())\n"
        "def f(i): return lib.late(i) if i == 2 else i\n"
        "ds = prebake.wrap([f'{i}.txt' for i in range(40)], [load, f])\n"
        "print([ds[i] for i in range(40)])\n"
    )
    assert run(daemon, tmp_path, 40) == f"{list(range(40))}\n"
    with sqlite3.connect(tmp_path / "log.db") as log:
        (imports,) = log.execute("select count(*) from log").fetchone()
    # The job, and two processes for each probe.
    assert 3 <= imports <= 1 + 2 * PROBES_MAX


def test_a_job_that_removes_its_folder_says_nothing_of_its_functions(
    daemon: PrivateDaemon, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(
        "import os\nimport numpy\nimport prebake\nos.mkdir('scratch')\nos.chdir('scratch')\n"
        "@prebake.cached\ndef f(i):\n    print('made')\n    return int(numpy.int64(i)) * 2\n"
        "assert f(4) == 8\nhere = os.getcwd()\nos.chdir('..')\nos.rmdir(here)\n"
    )
    # Its trial finds no folder to run in; the value is compared where it is wanted next.
    assert [run_main(daemon, tmp_path) for _ in range(4)][::3] == ["made\n", ""]
