"""The probe: real children judge real pipelines, each from a script of its own."""

import json
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prebake.identity.code import identify
from prebake.memo.probe_cache import verdict
from prebake.probe import probe
from prebake.probe.analysis import Verdict
from prebake.reads.startup_files import is_startup
from prebake.runtime.errors import Code

Run = Callable[..., str]

MAIN = """
import os, sys
{code}
from prebake.probe import probe
if __name__ == "__main__":
    source = globals().get("source", lambda i: i)
    verdict = probe.run(source, steps, [0, 1, 2, 3], **globals().get("options", {{}}))
    print(verdict.json())
    print(len(steps))
"""
#: Of a step: whether it runs in the child.
CHILD = 'os.environ.get("PREBAKE") == "off"'


def judged(script: Run, code: str, **how: Any) -> Verdict:
    """The verdict on `steps` of a script of its own; its `source` and `options` if it has them."""
    *_, said, count = script(MAIN.format(code=code), **how).splitlines()
    verdict = Verdict.from_json(said)
    # Whatever was found: a prefix without a reason why is all of it.
    assert (verdict.code is None) == (verdict.deterministic_until == int(count))
    return verdict


CLEAN = {
    "a lambda": "steps = [lambda x: x + 1]",
    "a closure": """
def scaled(by):
    return lambda x: [x * by]
steps = [scaled(3), scaled(2)]""",
    "a function and what it reaches": """
import numpy as np
TABLE = {"a": 1, "b": 2}
def helper(x):
    return TABLE["b"] * x
def step(x):
    return np.full((3, 2), helper(x))
steps = [step]""",
    "a class of the script": """
import dataclasses
@dataclasses.dataclass
class Crop:
    size: int
    def __call__(self, x):
        return bytes(self.size) + str(x).encode()
steps = [Crop(3), Crop(2).__call__]""",
    "a value that is no element": """
import dataclasses
@dataclasses.dataclass
class Sample:
    x: int
    names: frozenset
steps = [lambda x: Sample(x, frozenset("abcdefgh"))]""",
    "a value that cannot be compared, before one that can": "steps = [lambda x: (y for y in [x, x]), list]",
    "what a process is given": """
steps = [lambda x: [sys.argv, os.getcwd(), sys.path, os.environ.get("PYTHONSAFEPATH"), __name__]]""",
    "a generator seeded for each item": """
import random
import numpy as np
steps = [lambda x: np.random.default_rng(x).random(3), lambda x: (x, random.Random(1).random())]""",
    "a shared generator that is put back": """
import random
def step(x):
    before = random.getstate()
    random.seed(x)
    value = random.random()
    random.setstate(before)
    return value
steps = [step]""",
    "a memo": """
import functools
@functools.lru_cache
def table(x):
    return x * 2
steps = [lambda x: table(x)]""",
    "a decorated function": """
import prebake
@prebake.random
def step(x):
    return x
steps = [step.function, step]""",
    "what is prepared with the first item": """
class Lazy:
    table = None
    def __call__(self, x):
        if self.table is None:
            self.table = list(range(10))
        return self.table[x]
steps = [Lazy()]""",
    "much to say": f"""
def step(x):
    if {CHILD}:
        print("out" * 10_000_000, flush=True)
        print("err" * 10_000_000, file=sys.stderr, flush=True)
    return x
steps = [step]""",
    "a step that asks for input": f"""
steps = [lambda x: [x, sys.stdin.read() if {CHILD} else ""]]""",
    "code that was imported": """
import mine
steps = [mine.step, mine.Step()]""",
}
MINE = """
import collections
Pair = collections.namedtuple("Pair", "a b")
def step(x):
    return Pair(x, {"a", "b", x})
class Step:
    def __call__(self, x):
        return sorted(map(str, x.b))
"""


@pytest.mark.parametrize("code", CLEAN.values(), ids=CLEAN.keys())
def test_what_reproduces(script: Run, code: str) -> None:
    verdict = judged(script, code, mine=MINE)
    assert verdict.code is None, verdict
    assert verdict.cpu_seconds > 0


#: What, the code, the steps before it, and words of the reason.
FAULTS = {
    "hash order": (
        "steps = [str, lambda x: ''.join({f'{c}{x}' for c in 'abcdefghijklmnop'})]",
        (Code.UNSTABLE, 1, "another process"),
    ),
    "identifiers": ("import uuid\nsteps = [str, lambda x: uuid.uuid4().hex]", (Code.UNSTABLE, 1, "again")),
    "the clock": ("import time\nsteps = [lambda x: time.time_ns()]", (Code.UNSTABLE, 0, "again")),
    "memory that was never written": (
        # So much comes from the system, as zeros.
        "import numpy as np\nsteps = [lambda x: int(np.empty(1 << 26, np.uint8)[::4096].sum())]",
        (Code.UNSTABLE, 0, "another process"),
    ),
    "the process's number": ("steps = [lambda x: os.getpid()]", (Code.UNSTABLE, 0, "another process")),
    "a global counter": (
        "n = 0\ndef step(x):\n    global n\n    n += 1\n    return n\nsteps = [step]",
        (Code.CARRIES_STATE, 0, "step"),
    ),
    "a counter in a module": (
        "import counter\ndef step(x):\n    counter.n += 1\n    return x\nsteps = [str, step]",
        (Code.CARRIES_STATE, 1, "changes itself"),
    ),
    "a counter in itself": (
        "class Step:\n    n = 0\n    def __call__(self, x):\n        self.n += 1\n        return x\n"
        "steps = [str, Step()]",
        (Code.CARRIES_STATE, 1, "Step"),
    ),
    "an array of its own, edited": (
        "import numpy as np\nclass Mean:\n    def __init__(self):\n        self.sum = np.zeros(3)\n"
        "    def __call__(self, x):\n        self.sum += x\n        return x\nsteps = [Mean()]",
        (Code.CARRIES_STATE, 0, "Mean"),
    ),
    "the item before": (
        "class Delta:\n    last = 0\n    def __call__(self, x):\n        d, self.last = x - self.last, x\n"
        "        return d\nsteps = [Delta()]",
        (Code.CARRIES_STATE, 0, "Delta"),
    ),
    "the item before, kept out of sight": (
        "def step(x):\n    last, sys.last_item = getattr(sys, 'last_item', 0), x\n    return x - last\n"
        "steps = [step]",
        (Code.UNSTABLE, 0, "made again after other items"),
    ),
    "a cache of its own": (
        "class Step:\n    def __init__(self):\n        self.cache = {}\n    def __call__(self, x):\n"
        "        return self.cache.setdefault(x, str(x))\nsteps = [Step()]",
        (Code.CARRIES_STATE, 0, "changes itself"),
    ),
    "a memo of the items' files": (
        "import functools\n@functools.lru_cache\ndef read(x):\n    return open('main.py').read(x)\n"
        "steps = [str, lambda x: read(int(x))]",
        (Code.CARRIES_STATE, 1, "main.py"),
    ),
    "random": (
        "import random\nsteps = [str, lambda x: x + str(random.random())]",
        (Code.RANDOM, 1, "from random"),
    ),
    "numpy, to no effect": (
        "import numpy as np\ndef step(x):\n    np.random.rand()\n    return x\nsteps = [str, step]",
        (Code.RANDOM, 1, "numpy.random"),
    ),
    "numpy, for one item of four": (
        "import numpy as np\nsteps = [lambda x: x + (np.random.rand() if x == 3 else 0)]",
        (Code.RANDOM, 0, "numpy.random"),
    ),
    "seeding": ("import random\nsteps = [lambda x: random.seed(x) or x]", (Code.RANDOM, 0, "from random")),
    "a generator made by an import": (
        "import noise\nsteps = [str, noise.step]",
        (Code.RANDOM, 1, "Generator of its own"),
    ),
    "a generator it holds, to no effect": (
        "import random\nclass Step:\n    def __init__(self):\n        self.rng = random.Random(3)\n"
        "    def __call__(self, x):\n        self.rng.random()\n        return x\nsteps = [str, Step()]",
        (Code.RANDOM, 1, "Random of its own"),
    ),
    "the system's numbers": (
        "steps = [lambda x: open('/dev/urandom', 'rb', 0).read(1) and x]",
        (Code.RANDOM, 0, "/dev/urandom"),
    ),
    "its input": (
        "source = lambda i: [i]\ndef step(x):\n    x.append(1)\n    return len(x) * 0\nsteps = [step]",
        (Code.MUTATES, 0, "what it is given"),
    ),
    "an array it is given": (
        "import numpy as np\ndef step(x):\n    x += 1\n    return x\nsteps = [lambda i: np.full(3, i), step]",
        (Code.MUTATES, 1, "step"),
    ),
    "the network": (
        "import socket\ndef step(x):\n    with socket.socket() as link:\n"
        "        link.connect_ex(('127.0.0.1', 1))\n    return x\nsteps = [str, step]",
        (Code.NETWORK, 1, "127.0.0.1"),
    ),
    "a name looked up": (
        "import socket\nsteps = [lambda x: socket.getaddrinfo('localhost', 1) and x]",
        (Code.NETWORK, 0, "localhost"),
    ),
    "another program": (
        "import subprocess\nsteps = [str, lambda x: subprocess.run(['true']).returncode]",
        (Code.OPAQUE, 1, "another program"),
    ),
    "a failure there": (
        f"steps = [str, lambda x: 1 / (0 if {CHILD} else 1)]",
        (Code.OPAQUE, 1, "ZeroDivisionError"),
    ),
    "an exit there": (
        f"steps = [lambda x: sys.exit('no') if {CHILD} else x]",
        (Code.OPAQUE, 0, "SystemExit"),
    ),
    "a failure here": ("steps = [lambda x: 1 / 0]", (Code.OPAQUE, 0, "ZeroDivisionError")),
    "a crash": (
        f"import signal\nsteps = [lambda x: os.kill(os.getpid(), signal.SIGSEGV) if {CHILD} else x]",
        (Code.OPAQUE, 0, "signal 11"),
    ),
    "values that cannot be compared": (
        "steps = [str, lambda x: (y for y in x)]",
        (Code.VALUE, 1, "cannot be compared"),
    ),
    "an open socket": (
        "import socket\nclass Step:\n    def __init__(self):\n        self.links = {'a': socket.socket()}\n"
        "    def __call__(self, x):\n        return x\nsteps = [str, Step()]",
        (Code.OPAQUE, 0, "steps[1].links['a'] is a socket.socket"),
    ),
    "a thread's own in a closure": (
        "import threading\ndef made():\n    own = threading.local()\n    def step(x):\n"
        "        return own and x\n    return step\nsteps = [made()]",
        (Code.OPAQUE, 0, "steps[0].own is a _thread._local"),
    ),
    "a module nobody else can import": (
        "import types\nmodule = types.ModuleType('made_up')\nsys.modules['made_up'] = module\n"
        "exec('def step(x): return x', vars(module))\nsteps = [module.step]",
        (Code.OPAQUE, 0, "made_up"),
    ),
    "what contains itself": (
        "class Step:\n    def __reduce__(self):\n        return Step, (Step(),)\n    def __call__(self, x):\n"
        "        return x\nsteps = [Step()]",
        (Code.OPAQUE, 0, "cannot be sent"),
    ),
}
COUNTER = "n = 0\n"
NOISE = """
import numpy as np
rng = np.random.default_rng(0)
def step(x):
    return rng.random()
"""


@pytest.mark.parametrize(("code", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_what_does_not(script: Run, code: str, expected: tuple[Code, int, str]) -> None:
    verdict = judged(script, code, counter=COUNTER, noise=NOISE)
    assert (verdict.code, verdict.deterministic_until) == expected[:2], verdict
    assert expected[2] in verdict.reason


def test_the_script_is_not_run_again(script: Run, tmp_path: Path) -> None:
    ran = f"open({str(tmp_path / 'ran')!r}, 'a').write('.')\n"
    verdict = judged(script, f"{ran}def step(x):\n    return x\nsteps = [step]")
    assert verdict.code is None and (tmp_path / "ran").read_text() == "."


def test_a_spawned_worker_probes_what_it_was_sent(script: Run) -> None:
    main = """
import multiprocessing
from prebake.probe import probe
class Step:
    def __call__(self, x):
        return x + 1
def work(_):
    return probe.run(lambda i: i, [Step()], [0, 1]).json()
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [0])[0])
"""
    verdict = Verdict.from_json(script(main))
    assert verdict.code is None, verdict


def identity(i: int) -> int:
    return i


counted: list[int] = []


def test_nothing_runs_in_the_job() -> None:
    # A step may hold a generator that is the job's to move on.
    def step(x: int) -> float:
        counted.append(x)
        return random.random() + np.random.rand()

    before = random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()
    verdict = probe.run(identity, [step], [0, 1])
    assert verdict.code is Code.RANDOM and not counted
    assert before == (random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist())


def test_what_was_made_before_is_compared() -> None:
    steps = [lambda x: x + 1, lambda x: [x]]
    expected = {i: probe.digests(identity, steps, i) for i in (4, 5)}
    assert probe.run(identity, steps, [4, 5], expected).deterministic_until == 2
    expected[5][1] = expected[4][1]
    verdict = probe.run(identity, steps, [4, 5], expected)
    assert (verdict.code, verdict.deterministic_until) == (Code.UNSTABLE, 1) and "item 5" in verdict.reason


def test_what_was_made_before_must_be_all() -> None:
    assert probe.run(identity, [lambda x: x], [0, 1], {}).code is Code.OPAQUE
    assert probe.run(identity, [lambda x: x], [0, 1], {0: [], 1: []}).code is Code.OPAQUE


@pytest.mark.parametrize("traced", [True, False])
def test_a_child_that_hangs_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traced: bool
) -> None:
    note = str(tmp_path / "pids")
    if not traced:
        monkeypatch.setattr(probe.programs, "path", lambda name: tmp_path / "none")

    def step(x: int) -> int:
        child = os.fork()
        with open(note, "a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(600)
        return child

    began = time.monotonic()
    verdict = probe.run(identity, [step], [0], {0: [b"x"]}, seconds=2)
    assert verdict.code is Code.OPAQUE and "2 s" in verdict.reason
    assert time.monotonic() - began < 30
    pids = [int(line) for line in Path(note).read_text().split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 10
    while any(_runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(_runs(pid) for pid in pids)


@pytest.mark.usefixtures("connected")
def test_a_verdict_that_was_never_heard_is_not_kept(tmp_path: Path) -> None:
    low_on_memory = tmp_path / "low"
    low_on_memory.touch()

    def step(x: int) -> int:
        if low_on_memory.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return x + 1

    known = [identify(identity)]
    found, _ = verdict(known, identity, [step], (), 2)
    assert found.code is Code.OPAQUE and "killed by signal 9" in found.reason
    low_on_memory.unlink()
    assert verdict(known, identity, [step], (), 2)[0].code is None
    low_on_memory.touch()
    # That one is.
    assert verdict(known, identity, [step], (), 2)[0].code is None


@pytest.mark.parametrize(
    ("fault", "lasting"),
    [(signal.SIGKILL, False), (signal.SIGABRT, False), (signal.SIGSEGV, True), (None, False)],
)
def test_what_says_nothing_of_the_steps_is_not_kept(fault: signal.Signals | None, lasting: bool) -> None:
    def step(x: int) -> int:
        if fault is None:
            raise MemoryError("no room")
        os.kill(os.getpid(), fault)
        return x

    found = probe.run(identity, [step], [0, 1])
    assert found.code is Code.OPAQUE and found.lasting is lasting, found


def test_a_probe_that_cannot_begin_says_nothing_of_the_steps() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))
    try:
        found = probe.run(identity, [lambda x: x], [0, 1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found.code is Code.OPAQUE and not found.lasting


def test_a_job_that_is_interrupted_does_not_wait_for_its_probe(tmp_path: Path) -> None:
    note = str(tmp_path / "pids")

    def step(x: int) -> int:
        with open(note, "a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(600)
        return x

    def interrupt() -> None:
        while len(pids()) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        while not ended.wait(0.5):
            # One that comes while an object is taken apart is lost, as in all Python programs.
            os.kill(os.getpid(), signal.SIGINT)

    def pids() -> list[int]:
        return [int(line) for line in Path(note).read_text().split()] if os.path.exists(note) else []

    ended = threading.Event()
    thread = threading.Thread(target=interrupt)
    # A shell that puts tests in the background has them ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            probe.run(identity, [step], [0, 1])
    finally:
        ended.set()
        signal.signal(signal.SIGINT, before)
    thread.join()
    deadline = time.monotonic() + 10
    while any(_runs(pid) for pid in pids()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(_runs(pid) for pid in pids())


@pytest.mark.parametrize("make", ["gzip.compress(bytes(9))", "zipped()"])
def test_what_is_made_of_the_time_in_installed_code_does_not_reproduce(script: Run, make: str) -> None:
    code = f"""
import gzip, io, zipfile
def zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("a", b"a")
    return out.getvalue()
steps = [lambda i: {make}]
"""
    assert judged(script, code).code is Code.UNSTABLE


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


def test_the_child_inherits_nothing_but_its_pipes(tmp_path: Path) -> None:
    note = str(tmp_path / "fds")
    read, write = os.pipe()
    os.set_inheritable(read, True)

    def step(x: int) -> int:
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd") if fd not in "012"]
        # One was of the list itself.
        found = [os.readlink(link) for link in links if os.path.lexists(link)]
        with open(note, "w") as file:
            json.dump([os.environ["PREBAKE"], os.readlink("/proc/self/fd/0"), *found], file)
        return x

    try:
        probe.run(identity, [step], [0], {0: [b"x"]})
        off, stdin, *others = json.loads(Path(note).read_text())
        assert (off, stdin) == ("off", os.devnull)
        # The pipe for its answer.
        assert len(others) == 1 and os.readlink(f"/proc/self/fd/{read}") not in others
    finally:
        os.close(read)
        os.close(write)


def test_memory_is_bounded() -> None:
    # Never touched, so that it would be had but for the limit.
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    verdict = probe.run(identity, [lambda x: len(bytearray(free * 8 // 10))], [0], {0: [b"x"]})
    assert verdict.code is Code.OPAQUE and "MemoryError" in verdict.reason


def test_a_folder_that_shadows_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError\n")
    monkeypatch.chdir(tmp_path)
    verdict = probe.run(identity, [lambda x: x + 1], [0, 1])
    assert verdict.code is None, verdict


@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_a_hash_seed_that_the_job_has_fixed(script: Run, seed: str) -> None:
    code = FAULTS["hash order"][0]
    mine = "{'expected': {i: probe.digests(str, steps, i) for i in range(4)}}"
    for how in (code, f"{code}\nsource = str\nfrom prebake.probe import probe\noptions = {mine}"):
        assert judged(script, how, environment={"PYTHONHASHSEED": seed}).code is Code.UNSTABLE


def test_what_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PAYLOAD_BYTES_MAX", 1 << 20)
    table = np.zeros(1 << 20)
    verdict = probe.run(identity, [lambda x: table[x]], [0])
    assert verdict.code is Code.TOO_LARGE


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Four files, a table, and one whose name is not text."""
    folder = tmp_path / "data"
    folder.mkdir()
    for i in range(4):
        (folder / f"{i}.txt").write_text(str(i))
        (folder / f"{i}.label").write_text(str(i % 2))
    (folder / "table.txt").write_text("t")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text("x")
    return folder


READS = {
    "files": "steps = [lambda path: open(path).read()]",
    "more than the item": """
steps = [lambda path: open(path).read() + open(path.replace(".txt", ".label")).read()]""",
    "not there": """
def step(path):
    try:
        return open(path + ".gone").read()
    except OSError:
        return ""
steps = [step]""",
}


@pytest.mark.parametrize(
    ("code", "suffixes"),
    list(zip(READS.values(), ([".txt"], [".txt", ".label"], [".txt.gone"]), strict=True)),
    ids=READS.keys(),
)
def test_reads_are_told_by_item(script: Run, files: Path, code: str, suffixes: list[str]) -> None:
    verdict = judged(script, f"source = lambda i: f'{files}/{{i}}.txt'\n{code}")
    assert verdict.code is None, verdict
    assert verdict.reads == {i: [f"{files}/{i}{end}" for end in suffixes] for i in range(4)}
    assert not verdict.shared and not verdict.listed and not verdict.unhooked


KEPT = {
    "by a memo": """
import functools
@functools.lru_cache
def table():
    return open(TABLE).read()
steps = [lambda x: table() + str(x)]""",
    "by itself, from the first item on": """
class Lazy:
    file = None
    def __call__(self, x):
        if self.file is None:
            self.file = open(TABLE)
        self.file.seek(0)
        return self.file.read() + str(x)
steps = [Lazy()]""",
    "by a module": """
import mine
steps = [lambda x: mine.text + str(x)]""",
    "when it is made again": """
class Opened:
    def __init__(self):
        self.text = open(TABLE).read()
    def __reduce__(self):
        return Opened, ()
    def __call__(self, x):
        return self.text + str(x)
steps = [Opened()]""",
}


@pytest.mark.parametrize("code", KEPT.values(), ids=KEPT.keys())
def test_what_is_read_once_and_kept_is_every_item_s(script: Run, files: Path, code: str) -> None:
    # An edit of the table must reach the items that never open it.
    table = f"{files}/table.txt"
    verdict = judged(script, f"TABLE = {table!r}\n{code}", mine=f"text = open({table!r}).read()\n")
    assert verdict.code is None, verdict
    assert verdict.shared + verdict.loaded == [table]


def test_folders_and_odd_names(script: Run, files: Path) -> None:
    odd = os.fsdecode(os.fsencode(files) + b"/\xff.txt")
    verdict = judged(
        script, f"steps = [lambda x: [sorted(os.listdir({str(files)!r})), open({ascii(odd)}).read()]]"
    )
    assert verdict.listed == [str(files)]
    assert verdict.reads == {i: [odd] for i in range(4)}
    assert Verdict.from_json(verdict.json()) == verdict


def test_only_the_steps_that_count_are_told_of(script: Run, files: Path) -> None:
    random_step = f"lambda x: (open('{files}/table.txt').read(), os.urandom(8))"
    verdict = judged(script, f"steps = [lambda i: open(f'{files}/{{i}}.txt').read(), {random_step}]")
    assert (verdict.code, verdict.deterministic_until) == (Code.UNSTABLE, 1)
    assert verdict.reads == {i: [f"{files}/{i}.txt"] for i in range(4)} and not verdict.shared


def test_threads_are_not_proven(script: Run, files: Path) -> None:
    code = f"""
from concurrent.futures import ThreadPoolExecutor
def step(i):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: open(f"{files}/{{i}}.txt").read()).result()
steps = [step]"""
    verdict = judged(script, code)
    assert verdict.code is None and not verdict.reads_proven
    assert "in a thread of its own" in verdict.reason


#: Opens a file in compiled code, of which Python knows nothing.
IN_C = """
import ctypes
def in_c(path):
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.fclose.argtypes = [ctypes.c_void_p]
    file = libc.fopen(os.fsencode(path), b"rb")
    libc.fclose(file)
    return file is not None
"""


def test_reads_are_proven(script: Run, files: Path) -> None:
    verdict = judged(script, f"import numpy\nsteps = [lambda i: open(f'{files}/{{i}}.txt').read()]")
    assert (verdict.reads_proven, verdict.unhooked, verdict.reason) == (True, [], "")


def test_opens_in_compiled_code_are_seen(script: Run, files: Path) -> None:
    verdict = judged(script, f"{IN_C}\nsteps = [lambda i: in_c(f'{files}/{{i}}.txt')]")
    assert verdict.code is None and not verdict.reads_proven
    assert verdict.unhooked == [f"{files}/{i}.txt" for i in range(4)]
    assert "compiled code opens" in verdict.reason


def test_compiled_code_may_open_the_item_itself(script: Run, files: Path) -> None:
    (files / "link.txt").symlink_to("0.txt")
    verdict = judged(
        script,
        f"{IN_C}\nsource = lambda i: f'{files}/{{i}}.txt' if i else '{files}/link.txt'\n"
        "steps = [lambda path: in_c(path)]",
    )
    assert verdict.reads_proven, verdict
    assert verdict.reads == {i: [f"{files}/{i or 'link'}.txt"] for i in range(4)}


def test_what_compiled_code_opens_at_import_is_every_item_s(script: Run, files: Path) -> None:
    mine = f"import os\n{IN_C}\nfound = in_c('{files}/table.txt')\n"
    verdict = judged(script, "import mine\nsteps = [lambda i: mine.found]", mine=mine)
    assert verdict.reads_proven and verdict.loaded == [f"{files}/table.txt"], verdict


def test_compiled_code_that_talks_to_the_network(script: Run) -> None:
    code = """
import ctypes, socket
link = None
def step(i):
    libc = ctypes.CDLL(None)
    link = libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    address = socket.AF_INET.to_bytes(2, sys.byteorder) + (1).to_bytes(2) + bytes([127, 0, 0, 1]) + bytes(8)
    libc.connect(link, address, len(address))
    os.close(link)
    return i
steps = [step]"""
    for steps in ("step", "step, lambda x: os.urandom(8)"):
        verdict = judged(script, f"{code}\nsteps = [{steps}]")
        assert (verdict.code, verdict.deterministic_until) == (Code.NETWORK, 0), verdict


def test_data_may_look_like_code(script: Run, files: Path) -> None:
    for name in ("data.py", "weights.pth"):
        (files / name).write_text("x = 1")
        path = f"{files}/{name}"
        assert judged(script, f"{IN_C}\nsteps = [lambda i: in_c('{path}')]").unhooked == [path]
        verdict = judged(script, f"steps = [lambda i: open('{path}').read()]")
        assert verdict.reads == {i: [path] for i in range(4)}


def test_without_a_tracer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for program in (tmp_path / "none", Path("/bin/false")):
        monkeypatch.setattr(probe.programs, "path", lambda name, program=program: program)
        verdict = probe.run(identity, [lambda x: x + 1], [0, 1])
        assert (verdict.code, verdict.deterministic_until, verdict.reads_proven) == (None, 1, False)
        assert "opens unproven" in verdict.reason


@pytest.mark.torch
def test_tensors(script: Run) -> None:
    pytest.importorskip("torch")
    code = "import torch\nsteps = [lambda i: torch.full((3,), float(i)), lambda x: x * 2]"
    verdict = judged(script, code)
    assert verdict.code is None and verdict.reads_proven, verdict
    drop = "import torch\ndef drop(x):\n    torch.rand(1)\n    return x\nsteps = [float, drop]"
    verdict = judged(script, drop)
    assert (verdict.code, verdict.deterministic_until) == (Code.RANDOM, 1) and "torch" in verdict.reason


def test_what_finds_libraries_is_no_input() -> None:
    assert is_startup("/usr/sbin/ldconfig") and is_startup("/sbin/ldconfig.real")
    assert not is_startup("/usr/sbin/other") and not is_startup("/home/me/sbin/ldconfig.txt")
