"""What a function does behind a setting of which its code says nothing: a formatter that numpy calls, a hook
of the encoder's. All that it reads, imports, draws and keeps is as well hidden."""

from __future__ import annotations

from builder import Builder, construct


def _behind(b: Builder, text: str, *imports: str) -> str:
    """An expression that calls `behind(v)`, which the lines define, by way of something installed."""
    where = b.rng.choice(["main", "setup"])
    way = b.rng.choice(["numpy", "json", "codec", "dispatch"])
    b.need(where, *imports)
    b.add(where, *text.replace("behind", f"behind_{b.n}").replace("{n}", str(b.n)).split("\n"))
    if way == "numpy":
        b.need(where, "import numpy as np")
        b.need(b.home, "import numpy as np")
        b.add(where, f"np.set_printoptions(formatter={{'int': lambda v: str(behind_{b.n}(int(v)))}})")
        return "np.array2string(np.arange(2) + i)"
    if way == "json":
        b.need(where, "import json")
        b.need(b.home, "import json")
        b.add(where, f"json.JSONEncoder.default = lambda self, o: behind_{b.n}(len(o))")
        return "json.dumps([i, set(range(i))])"
    if way == "codec":
        b.need(where, "import codecs")
        b.add(where, f"codecs.register_error('h{b.n}', lambda e: (str(behind_{b.n}(e.start)), e.end))")
        return f"f'{{i}}\\u00e9'.encode('ascii', 'h{b.n}').decode()"
    b.need("conf", "import functools")
    b.add("conf", f"@functools.singledispatch\ndef hid_{b.n}(x):\n    return 'any'")
    b.need(where, "import conf")
    b.add(where, f"conf.hid_{b.n}.register(int, behind_{b.n})")
    return f"{b.use(b.home, 'conf')}hid_{b.n}(i)"


@construct
def hidden_constant(b: Builder) -> str:
    return _behind(b, f"K_{b.n} = {b.rng.randrange(2, 9)}\ndef behind(v):\n    return v * K_{b.n}")


@construct
def hidden_file(b: Builder) -> str:
    b.data[f"hid{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n"
    return _behind(b, "def behind(v):\n    return v * int(open('hid{n}.txt').read())")


@construct
def hidden_file_once(b: Builder) -> str:
    b.data[f"hid{b.n}.txt"] = f"{b.rng.randrange(2, 9)}\n"
    lines = "@functools.cache\ndef table_{n}():\n    return int(open('hid{n}.txt').read())\n"
    return _behind(b, lines + "def behind(v):\n    return v * table_{n}()", "import functools")


@construct
def hidden_question(b: Builder) -> str:
    b.data[f"hid{b.n}.flag"] = "1\n"
    return _behind(b, "def behind(v):\n    return [v, os.path.exists('hid{n}.flag')]", "import os")


@construct
def hidden_import(b: Builder) -> str:
    b.data[f"late{b.n}.py"] = f"K = {b.rng.randrange(2, 9)}\n"
    return _behind(b, "def behind(v):\n    import late{n}\n    return v * late{n}.K")


@construct
def hidden_variable(b: Builder) -> str:
    b.env[f"FZ_HID{b.n}"] = str(b.rng.randrange(2, 9))
    return _behind(b, "def behind(v):\n    return v * int(os.environ.get('FZ_HID{n}', 1))", "import os")


@construct
def hidden_counter(b: Builder) -> str:
    lines = f"count_{{n}} = itertools.count({b.rng.randrange(2, 9)})\n"
    return _behind(b, lines + "def behind(v):\n    return [v, next(count_{n})]", "import itertools")


@construct
def hidden_chance(b: Builder) -> str:
    drawn = b.rng.choice(
        ["time.time_ns()", "random.getrandbits(60)", "uuid.uuid4().int", "time.monotonic_ns()"]
    )
    return _behind(b, f"def behind(v):\n    return f'~{{{drawn}}}~'", "import random, time, uuid")


@construct
def hidden_draw(b: Builder) -> str:
    lines = f"random.seed({b.rng.randrange(2, 9)})\n"
    return _behind(b, lines + "def behind(v):\n    return [v, random.random()]", "import random")


@construct
def hidden_writing(b: Builder) -> str:
    lines = (
        "def behind(v):\n    with open(f'out-{n}-{v}.txt', 'w') as f:\n        f.write(str(v))\n    return v"
    )
    return _behind(b, lines)
