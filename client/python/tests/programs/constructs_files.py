"""Files that helpers open, folders that are asked, what is written; generators, clocks and counters."""

from __future__ import annotations

from builder import Builder, construct


@construct
def opened(b: Builder) -> str:
    b.data[f"in{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n"
    return f"int(open('in{b.n}.txt').read()) + i"


@construct
def opened_by_helper(b: Builder) -> str:
    b.need("lib", "import pathlib")
    b.data[f"in{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n"
    b.add("lib", f"def read_{b.n}(name):\n    return pathlib.Path(name).with_suffix('.txt').read_text()")
    return f"{b.use(b.home, 'lib')}read_{b.n}('in{b.n}') + str(i)"


@construct
def opened_by_json(b: Builder) -> str:
    b.need("lib", "import json")
    b.data[f"in{b.n}.json"] = f'{{"a": [{b.rng.randrange(2, 9)}, 1]}}\n'
    b.add("lib", f"def table_{b.n}():\n    with open('in{b.n}.json') as f:\n        return json.load(f)['a']")
    return f"{b.use(b.home, 'lib')}table_{b.n}()[0] + i"


@construct
def opened_by_numpy(b: Builder) -> str:
    b.need(b.home, "import numpy as np")
    b.data[f"in{b.n}.csv"] = f"{b.rng.randrange(2, 9)},2\n"
    return f"(np.loadtxt('in{b.n}.csv', delimiter=',') + i).tolist()"


@construct
def opened_by_pandas(b: Builder) -> str:
    b.need(b.home, "import pandas as pd")
    b.data[f"in{b.n}.csv"] = f"a,b\n{b.rng.randrange(2, 9)},2\n"
    return f"int(pd.read_csv('in{b.n}.csv')['a'].sum()) + i"


@construct
def opened_low(b: Builder) -> str:
    b.need(b.home, "import os")
    b.data[f"in{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n"
    b.add(
        b.home,
        f"""
        def low_{b.n}():
            fd = os.open('in{b.n}.txt', os.O_RDONLY)
            try:
                return os.read(fd, 99).decode()
            finally:
                os.close(fd)
    """,
    )
    return f"low_{b.n}() + str(i)"


@construct
def opened_once(b: Builder) -> str:
    b.need("lib", "import functools")
    b.data[f"in{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n"
    b.add("lib", f"@functools.cache\ndef once_{b.n}():\n    return int(open('in{b.n}.txt').read())")
    return f"{b.use(b.home, 'lib')}once_{b.n}() + i"


@construct
def opened_when_loaded(b: Builder) -> str:
    b.data[f"in{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n"
    b.add("lib", f"with open('in{b.n}.txt') as file_{b.n}:\n    READ_{b.n} = file_{b.n}.read()")
    return f"{b.use(b.home, 'lib')}READ_{b.n} + str(i)"


@construct
def held_open(b: Builder) -> str:
    b.data[f"in{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n"
    b.add(
        "lib",
        f"FILE_{b.n} = open('in{b.n}.txt')",
        f"def again_{b.n}():\n    FILE_{b.n}.seek(0)\n    return FILE_{b.n}.read()",
    )
    return f"{b.use(b.home, 'lib')}again_{b.n}() + str(i)"


@construct
def line_cache(b: Builder) -> str:
    b.need(b.home, "import linecache")
    b.data[f"in{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n2\n3\n"
    return f"linecache.getline('in{b.n}.txt', 1 + i % 2)"


@construct
def database(b: Builder) -> str:
    b.need("lib", "import sqlite3, os")
    b.data[f"in{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n"
    b.add(
        "lib",
        f"""
        def base_{b.n}():
            with sqlite3.connect('base{b.n}.db') as base:
                base.execute('create table if not exists t (x)')
                base.execute('delete from t')
                base.execute('insert into t values (?)', (int(open('in{b.n}.txt').read()),))
        base_{b.n}()
        def asked_{b.n}(i):
            with sqlite3.connect('base{b.n}.db') as base:
                return base.execute('select x + ? from t', (i,)).fetchone()
    """,
    )
    return f"{b.use(b.home, 'lib')}asked_{b.n}(i)"


@construct
def pickled_object(b: Builder) -> str:
    b.need("lib", "import os, pickle")
    b.add(
        "lib",
        f"""
        class Model{b.n}:
            k = {b.rng.randrange(2, 9)}
            def go(self, x):
                return x * self.k + {b.rng.randrange(2, 9)}
        if not os.path.exists('model{b.n}.pkl'):
            with open('model{b.n}.pkl', 'wb') as g:
                pickle.dump(Model{b.n}(), g)
    """,
    )
    b.use(b.home, "lib")
    b.use("main", "lib")
    b.need(b.home, "import pickle")
    return f"pickle.load(open('model{b.n}.pkl', 'rb')).go(i)"


@construct
def files_counted(b: Builder) -> str:
    b.need(b.home, "import glob")
    b.data |= {f"in{b.n}.{j}.item": f"{j}\n" for j in range(b.rng.randrange(1, 4))}
    return f"[len(glob.glob('in{b.n}.*.item')), i]"


@construct
def folder_listed(b: Builder) -> str:
    b.need("lib", "import os")
    b.data |= {f"dir{b.n}/{j}.item": f"{j}\n" for j in range(b.rng.randrange(1, 4))}
    b.add("lib", f"def listed_{b.n}():\n    return sorted(os.listdir('dir{b.n}'))")
    return f"{b.use(b.home, 'lib')}listed_{b.n}() + [i]"


@construct
def folder_walked(b: Builder) -> str:
    b.need("lib", "import os")
    b.data |= {f"tree{b.n}/{j}/{j}.item": f"{j}\n" for j in range(b.rng.randrange(1, 4))}
    return (
        f"[sorted(n for _, _, names in os.walk('tree{b.n}') for n in names), i]"
        if b.need(b.home, "import os") is None
        else ""
    )


@construct
def file_there(b: Builder) -> str:
    b.need(b.home, "import os")
    b.data[f"flag{b.n}.txt"] = "1\n"
    return f"[os.path.exists('flag{b.n}.txt'), os.path.exists('flag{b.n}.b.txt'), i]"


@construct
def file_tried(b: Builder) -> str:
    b.data[f"maybe{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n"
    b.add(
        b.home,
        f"""
        def tried_{b.n}():
            try:
                return open('maybe{b.n}.txt').read()
            except FileNotFoundError:
                return 'none'
    """,
    )
    return f"tried_{b.n}() + str(i)"


@construct
def file_size(b: Builder) -> str:
    b.need("lib", "import os")
    b.data[f"in{b.n}.txt"] = "x" * b.rng.randrange(2, 9) + "\n"
    b.add("lib", f"def size_{b.n}():\n    return os.stat('in{b.n}.txt').st_size")
    return f"{b.use(b.home, 'lib')}size_{b.n}() + i"


@construct
def folder_changed(b: Builder) -> str:
    b.data |= {f"{end}{b.n}/here.txt": f"{k}\n" for end, k in (("u", 3), ("v", 5))}
    b.need("lib", "import contextlib, os")
    b.add(
        "lib",
        f"""
        @contextlib.contextmanager
        def within_{b.n}(k):
            was = os.getcwd()
            os.chdir(['u{b.n}', 'v{b.n}'][k % 2])
            try:
                yield
            finally:
                os.chdir(was)
        def here_{b.n}(k):
            with within_{b.n}(k):
                return int(open('here.txt').read())
    """,
    )
    b.add(b.home, f"WHERE_{b.n} = {b.knob(b.home)}")
    return f"{b.use(b.home, 'lib')}here_{b.n}(WHERE_{b.n}) + i"


@construct
def resource_of_package(b: Builder) -> str:
    b.need(b.home, "import importlib.resources")
    b.data[f"pack{b.n}/__init__.py"] = "\n"
    b.data[f"pack{b.n}/table.txt"] = f"{b.rng.randrange(2, 9)}\n"
    return f"(importlib.resources.files('pack{b.n}') / 'table.txt').read_text() + str(i)"


@construct
def written(b: Builder) -> str:
    b.add(
        b.home,
        f"""
        def write_{b.n}(i):
            with open(f'out-{b.n}-{{i}}.txt', 'w') as f:
                f.write(str(i * {b.rng.randrange(2, 9)}))
            return i
    """,
    )
    return f"write_{b.n}(i)"


@construct
def appended(b: Builder) -> str:
    b.add("conf", f"SEEN_{b.n} = []")
    conf = b.use(b.home, "conf")
    b.add(b.home, f"def append_{b.n}(i):\n    {conf}SEEN_{b.n}.append(i)\n    return len({conf}SEEN_{b.n})")
    return f"append_{b.n}(i)"


@construct
def counted(b: Builder) -> str:
    b.need("lib", "import itertools")
    b.add("lib", f"COUNT_{b.n} = itertools.count({b.knob('lib')})")
    return f"[next({b.use(b.home, 'lib')}COUNT_{b.n}), i]"


@construct
def drawn(b: Builder) -> str:
    b.need("main", "import random")
    b.add("main", f"random.seed({b.knob('main')})")
    b.need(b.home, "import random")
    return "[random.random(), i]"


@construct
def drawn_by_numpy(b: Builder) -> str:
    b.need("main", "import numpy as np")
    b.add("main", f"np.random.seed({b.knob('main')})")
    b.need("lib", "import numpy as np")
    b.add("lib", f"def noise_{b.n}():\n    return float(np.random.rand())")
    return f"{b.use(b.home, 'lib')}noise_{b.n}() + i"


@construct
def drawn_from_own(b: Builder) -> str:
    b.need("lib", "import numpy as np, random")
    made = b.rng.choice(["random.Random", "np.random.default_rng"])
    b.add("lib", f"OWN_{b.n} = {made}({b.knob('lib')})")
    return f"[float({b.use(b.home, 'lib')}OWN_{b.n}.random()), i]"


@construct
def drawn_unseeded(b: Builder) -> str:
    b.need("lib", "import os, random, secrets, time, uuid")
    drawn = b.rng.choice(
        [
            "random.getrandbits(60)",
            "uuid.uuid4().int",
            "time.time_ns()",
            "secrets.randbits(60)",
            "int.from_bytes(os.urandom(8))",
            "time.perf_counter_ns()",
            "random.SystemRandom().getrandbits(60)",
        ]
    )
    b.add("lib", f"def chance_{b.n}():\n    return f'~{{{drawn}}}~'")
    return f"{b.use(b.home, 'lib')}chance_{b.n}() + str(i)"


@construct
def process_asked(b: Builder) -> str:
    b.need("lib", "import subprocess")
    b.data[f"in{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n"
    b.add(
        "lib",
        f"def cat_{b.n}():",
        f"    return subprocess.run(['cat', 'in{b.n}.txt'], capture_output=True).stdout.decode()",
    )
    return f"{b.use(b.home, 'lib')}cat_{b.n}() + str(i)"
