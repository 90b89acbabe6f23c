"""What compiled code asks for by itself: the time, a database on disk, with and without a file looked for in
vain before it."""

from __future__ import annotations

from builder import Builder, construct

#: Each a number that is another at each run, out of compiled code alone.
_CLOCKS = [
    ("pd.Timestamp('now').value", "import pandas as pd"),
    ("pd.to_datetime(['now', '2020-01-01']).asi8[0] // 1", "import pandas as pd"),
    ("int(datetime.datetime.now().timestamp() * 1e6)", "import datetime"),
    ("int(datetime.datetime.now(datetime.timezone.utc).strftime('%Y%m%d%H%M%S%f'))", "import datetime"),
    (
        "int(sqlite3.connect(':memory:').execute(\"select julianday('now') * 864e5\").fetchone()[0])",
        "import sqlite3",
    ),
    (
        "int(sqlite3.connect(':memory:').execute('select abs(random() / 2)').fetchone()[0])",
        "import sqlite3",
    ),
]


@construct
def compiled_clock(b: Builder) -> str:
    asked, needed = b.rng.choice(_CLOCKS)
    where = b.rng.choice([b.home, "lib"])
    b.need(where, needed)
    b.add(
        where,
        f"def asked_{b.n}(i, k={b.knob(where)}):",
        f"    found = {asked}",
        "    return f'~{found}~' + str(i * k)",
    )
    return f"{b.use(b.home, where)}asked_{b.n}(i)"


@construct
def compiled_clock_of_text(b: Builder) -> str:
    b.data[f"when{b.n}.txt"] = "now\n"
    b.need("lib", "import pandas as pd")
    b.add(
        "lib",
        f"""
        def when_{b.n}(i):
            t = open('when{b.n}.txt').read().strip()
            return f'~{{pd.Timestamp(t).value}}~{{i}}' if t == 'now' else t + str(i)
    """,
    )
    return f"{b.use(b.home, 'lib')}when_{b.n}(i)"


def _database(b: Builder) -> None:
    """A database on disk that each run makes anew, with one number."""
    b.need("main", "import sqlite3")
    b.add(
        "main",
        f"""
        with sqlite3.connect('base{b.n}.db') as base_{b.n}:
            base_{b.n}.execute('drop table if exists t')
            base_{b.n}.execute('create table t (k)')
            base_{b.n}.execute('insert into t values (?)', [{b.knob("main")}])
    """,
    )


@construct
def database_on_disk(b: Builder) -> str:
    _database(b)
    b.need(b.home, "import sqlite3")
    return f"sqlite3.connect('base{b.n}.db').execute('select k * ? from t', [i]).fetchone()"


@construct
def database_after_absent(b: Builder) -> str:
    _database(b)
    b.need("lib", "import os, sqlite3")
    tried = b.rng.choice(
        [
            f"open('absent{b.n}.cfg')",
            f"os.stat('absent{b.n}.cfg')",
            f"os.listdir('absent{b.n}')",
            f"__import__('absent{b.n}')",
        ]
    )
    b.add(
        "lib",
        f"""
        def based_{b.n}(i):
            try:
                {tried}
            except (OSError, ImportError):
                pass
            return sqlite3.connect('base{b.n}.db').execute('select k * ? from t', [i]).fetchone()
    """,
    )
    return f"{b.use(b.home, 'lib')}based_{b.n}(i)"


@construct
def database_held_open(b: Builder) -> str:
    _database(b)
    b.need("main", "import lib")
    b.add("lib", f"HELD_{b.n} = {{}}")
    b.add("main", f"lib.HELD_{b.n}['c'] = sqlite3.connect('base{b.n}.db')")
    return f"{b.use(b.home, 'lib')}HELD_{b.n}['c'].execute('select k + ? from t', [i]).fetchone()"


@construct
def time_zone_variable(b: Builder) -> str:
    b.env["TZ"] = f"AAA-{b.rng.randrange(2, 9)}"
    b.need(b.home, "import datetime")
    return b.rng.choice(
        [
            "str(datetime.datetime.fromtimestamp(i * 3600))",
            "str(datetime.datetime(2020, 1, 1, i).timestamp())",
        ]
    )
