"""What a call does beside its value: a hit must not leave it out. What is left is printed after all calls."""

from __future__ import annotations

from builder import Builder, construct


def _effect(b: Builder, body: str, left: str, *imports: str) -> str:
    """Has each call run lines, in a function of another module or beside it; `left` shows what they did."""
    where = b.rng.choice([b.home, "lib"])
    b.need(where, *imports)
    b.need("main", *imports)
    b.add(where, f"def effect_{b.n}(i, k={b.knob(where)}):", *("    " + line for line in body.split("\n")))
    b.add(where, "    return i * k")
    b.left.append(left)
    return f"{b.use(b.home, where)}effect_{b.n}(i)"


@construct
def removed(b: Builder) -> str:
    b.need("main", "import pathlib")
    b.add("main", f"for j in range({b.count}):", f"    pathlib.Path(f'gone{b.n}.{{j}}.tmp').write_text('1')")
    gone = b.rng.choice(["os.remove({})", "os.rename({}, {} + 'x')", "pathlib.Path({}).unlink(True)"])
    name = f"f'gone{b.n}.{{i}}.tmp'"
    body = f"if os.path.exists({name}):\n    {gone.replace('{}', name)}"
    return _effect(b, body, f"sorted(glob.glob('gone{b.n}.*.tmp*'))", "import glob, os, pathlib")


@construct
def variable_set(b: Builder) -> str:
    b.env[f"FZ_LEFT{b.n}"] = "1"
    body = f"os.environ['FZ_LEFT{b.n}'] = str(i + k)"
    return _effect(b, body, f"os.environ.get('FZ_LEFT{b.n}')", "import os")


@construct
def precision_set(b: Builder) -> str:
    return _effect(b, "dc.getcontext().prec = i + k + 20", "dc.getcontext().prec", "import decimal as dc")


@construct
def error_state_set(b: Builder) -> str:
    body = "np.seterr(over=['ignore', 'raise', 'warn'][(i + k) % 3])"
    return _effect(b, body, "np.geterr()['over']", "import numpy as np")


@construct
def print_options_set(b: Builder) -> str:
    return _effect(b, "np.set_printoptions(precision=i + k)", "str(np.ones(1) / 3)", "import numpy as np")


@construct
def pandas_option_set(b: Builder) -> str:
    body = "pd.set_option('display.precision', i + k)"
    return _effect(b, body, "pd.get_option('display.precision')", "import pandas as pd")


@construct
def generator_advanced(b: Builder) -> str:
    b.need("main", "import random")
    b.add("main", f"random.seed({b.knob('main')})")
    body = b.rng.choice(
        ["random.random()", "for _ in range(k):\n    random.getrandbits(9)", "random.seed(i + k)"]
    )
    return _effect(b, body, "random.random()", "import random")


@construct
def list_grown(b: Builder) -> str:
    b.add("conf", f"GROWN_{b.n} = {{}}")
    b.need("lib", "import conf")
    body = b.rng.choice(["conf.GROWN_{n}[i] = k", "conf.GROWN_{n}.setdefault(k, []).append(i)"])
    return _effect(b, body.format(n=b.n), f"conf.GROWN_{b.n}", "import conf")


@construct
def attribute_left(b: Builder) -> str:
    b.add("conf", f"class Left{b.n}:\n    last = None\nLEFT_{b.n} = Left{b.n}()")
    at = b.rng.choice([f"conf.LEFT_{b.n}", f"conf.Left{b.n}"])
    body = b.rng.choice([f"{at}.last = i + k", f"setattr({at}, 'la' + 'st', i + k)"])
    return _effect(b, body, f"conf.LEFT_{b.n}.last", "import conf")


@construct
def handler_told(b: Builder) -> str:
    b.add(
        "conf",
        f"""
        class Told{b.n}(logging.Handler):
            def emit(self, record):
                with open('out-told{b.n}.txt', 'a') as f:
                    f.write(record.getMessage() + ' ')
        logging.getLogger('fz{b.n}').addHandler(Told{b.n}())
    """,
    )
    b.need("conf", "import logging")
    return _effect(b, f"logging.getLogger('fz{b.n}').error('%s of %s', i, k)", "0", "import logging, conf")


@construct
def folder_left(b: Builder) -> str:
    b.data[f"into{b.n}/unused.txt"] = "1\n"
    b.need("main", "import os")
    b.add("main", f"HOME_{b.n} = os.getcwd()")
    b.between.append("0")
    b.after.append(f"(os.path.basename(os.getcwd()), os.chdir(HOME_{b.n}))")
    return _effect(b, f"os.chdir('into{b.n}')", "0", "import os")


@construct
def file_by_numpy(b: Builder) -> str:
    return _effect(b, f"np.savetxt(f'out-np{b.n}-{{i}}.txt', [k])", "0", "import numpy as np")


@construct
def file_by_database(b: Builder) -> str:
    b.need("main", "import sqlite3")
    b.add(
        "main",
        f"""
        with sqlite3.connect('log{b.n}.db') as log_{b.n}:
            log_{b.n}.execute('drop table if exists log')
            log_{b.n}.execute('create table log (i, k)')
    """,
    )
    body = (
        f"with sqlite3.connect('log{b.n}.db') as c:\n    c.execute('insert into log values (?, ?)', (i, k))"
    )
    left = f"log_{b.n}.execute('select * from log').fetchall()"
    return _effect(b, body, left, "import sqlite3")
