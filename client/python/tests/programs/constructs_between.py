"""What a process changes between two calls of one function with the same argument: settings that are
switched on for a while, variables, files."""

from __future__ import annotations

from builder import Builder, construct


def between(b: Builder, text: str, *imports: str) -> None:
    """Has lines run before each call, which is the `j`th."""
    where = b.rng.choice(["main", "setup"])
    b.need(where, *imports)
    k = b.knob(where)
    b.add(where, f"K_{b.n} = {k}")
    b.add(where, f"def between_{b.n}(j):")
    # Each time, or once something was reused.
    if b.rng.random() < 0.5:
        b.add(where, f"    j = (j > {b.rng.choice([1, 2, 3])}) * 2")
    b.add(where, *("    " + line for line in text.format(k=f"K_{b.n}").split("\n")))
    b.between.append(f"{b.use('main', where)}between_{b.n}(j)")


@construct
def between_print_options(b: Builder) -> str:
    between(b, "np.set_printoptions(precision=j + {k})", "import numpy as np")
    b.need(b.home, "import numpy as np")
    return "str(np.arange(3) / (i + 7.0))"


@construct
def between_precision(b: Builder) -> str:
    between(b, "dc.getcontext().prec = j + {k}", "import decimal as dc")
    b.need(b.home, "from decimal import Decimal as Dec")
    return "str(Dec(1) / Dec(i + 7))"


@construct
def between_dialects(b: Builder) -> str:
    between(b, f"csv.register_dialect('b{b.n}', delimiter=',;:|!+-_.'[(j + {{k}}) % 9])", "import csv")
    b.need(b.home, "import csv, io")
    return f"[list(r) for r in csv.reader(io.StringIO(f'a,b;c:d|e!f+g-h_{{i}}'), dialect='b{b.n}')]"


@construct
def between_pandas_options(b: Builder) -> str:
    between(b, "pd.set_option('display.precision', j + {k})", "import pandas as pd")
    b.need(b.home, "import pandas as pd")
    return "pd.DataFrame({'a': [(i + 1) / 7]}).to_string()"


@construct
def between_error_states(b: Builder) -> str:
    between(b, "np.seterr(divide=['ignore', 'raise'][(j + {k}) % 2])", "import numpy as np")
    b.need(b.home, "import numpy as np")
    b.add(
        b.home,
        f"""
        def by_zero_{b.n}(i):
            try:
                return str(np.ones(2) / np.zeros(2) + i)
            except FloatingPointError:
                return 'raised'
    """,
    )
    return f"by_zero_{b.n}(i)"


@construct
def between_variables(b: Builder) -> str:
    between(b, f"os.environ['FZ_B{b.n}'] = str(j + {{k}})", "import os")
    b.need("lib", "import os.path")
    b.add("lib", f"def shown_{b.n}(i):\n    return os.path.expandvars(f'$FZ_B{b.n} {{i}}')")
    return f"{b.use(b.home, 'lib')}shown_{b.n}(i)"


@construct
def between_context_variable(b: Builder) -> str:
    b.need("conf", "import contextvars")
    b.add("conf", f"CV_{b.n} = contextvars.ContextVar('cv{b.n}', default=1)")
    between(b, f"conf.CV_{b.n}.set(j + {{k}})", "import conf")
    return f"{b.use(b.home, 'conf')}CV_{b.n}.get() * (i + 1)"


@construct
def between_state(b: Builder) -> str:
    b.add("conf", f"_st_{b.n} = {{'k': 1}}\ndef get_{b.n}():\n    return _st_{b.n}['k']")
    between(b, f"conf._st_{b.n}.update(k=j + {{k}})", "import conf")
    return f"{b.use(b.home, 'conf')}get_{b.n}() * (i + 1)"


@construct
def between_views(b: Builder) -> str:
    """Memory that is written to through something else than what reads it."""
    b.need("conf", "import array, numpy as np")
    owner, view = b.rng.choice(
        [
            ("bytearray(24)", "np.frombuffer({0}, dtype='u1')"),
            ("array.array('i', range(6))", "np.frombuffer({0}, dtype='u1')"),
            ("np.arange(6)", "{0}.reshape(2, 3).T"),
            ("np.arange(6)", "memoryview({0})"),
        ]
    )
    held = f"BUF_{b.n}" if b.rng.random() < 0.5 else f"_buf_{b.n}"
    b.add("conf", f"{held} = {owner}", f"VIEW_{b.n} = {view.format(held)}")
    between(b, f"conf.{held}[0] = (j * {{k}}) % 120", "import conf")
    b.need(b.home, "import numpy as np")
    return f"int(np.asarray({b.use(b.home, 'conf')}VIEW_{b.n}).ravel()[0]) * (i + 1)"


@construct
def between_closure(b: Builder) -> str:
    b.add(
        "lib",
        f"""
        def cell_{b.n}(k):
            def set(v):
                nonlocal k
                k = v
            return set, lambda x: x + k
        put{b.n}, ask{b.n} = cell_{b.n}(1)
    """,
    )
    between(b, f"lib.put{b.n}(j * {{k}})", "import lib")
    return f"{b.use(b.home, 'lib')}ask{b.n}(i)"


@construct
def between_patches(b: Builder) -> str:
    between(
        b, "string.Formatter.format_field = lambda self, v, spec: str(v) * (j % 3 + {k})", "import string"
    )
    b.need(b.home, "import string")
    return "string.Formatter().format('{}-{}', i, 1)"


@construct
def between_registrations(b: Builder) -> str:
    b.need("conf", "import functools")
    b.add("conf", f"@functools.singledispatch\ndef disp_{b.n}(x):\n    return 'any'")
    between(b, f"conf.disp_{b.n}.register(int, lambda x: x * (j + {{k}}))", "import conf")
    return f"{b.use(b.home, 'conf')}disp_{b.n}(i)"


@construct
def between_folders(b: Builder) -> str:
    b.data |= {f"at{b.n}{end}/here.txt": f"{k}\n" for end, k in (("a", 3), ("b", 5))}
    b.data[f"at{b.n}c/unused.txt"] = "1\n"
    # What the fronts open is in each.
    b.data |= {f"at{b.n}{end}/{b.prefix}{i}.dat": f"{i}\n" for end in "ab" for i in range(3)}
    b.need("main", "import os")
    b.add("main", f"HOME_{b.n} = os.path.dirname(os.path.abspath(__file__))")
    b.add("main", f"def go_{b.n}(j):\n    os.chdir(os.path.join(HOME_{b.n}, 'at{b.n}' + 'ab'[j % 2]))")
    b.add("main", f"def home_{b.n}():\n    os.chdir(HOME_{b.n})")
    # Back again for what else is read.
    b.add(
        b.home,
        f"""
        def here_{b.n}():
            try:
                return open('../at{b.n}c/unused.txt').read() + open('here.txt').read()
            except FileNotFoundError:
                return 'elsewhere'
    """,
    )
    b.between.append(f"go_{b.n}(j)")
    b.after.append(f"home_{b.n}()")
    return f"here_{b.n}() + str(i)"


@construct
def between_files(b: Builder) -> str:
    b.need("lib", "import pathlib")
    b.add("lib", f"def from_file_{b.n}():\n    return pathlib.Path('work{b.n}.tmp').read_text()")
    between(b, f"pathlib.Path('work{b.n}.tmp').write_text(str(j * {{k}}))", "import pathlib")
    return f"{b.use(b.home, 'lib')}from_file_{b.n}() + str(i)"


@construct
def between_seeds(b: Builder) -> str:
    between(b, "random.seed(j % 2 + {k})", "import random")
    b.need(b.home, "import random")
    return "[random.random(), i]"


@construct
def between_image_settings(b: Builder) -> str:
    between(b, "Image.MAX_IMAGE_PIXELS = (j % 2) * 900 + {k}", "from PIL import Image")
    b.need(b.home, "from PIL import Image", "import io")
    b.add(
        b.home,
        f"""
        def opened_{b.n}(i):
            whole = io.BytesIO()
            Image.new('L', (20, 20 + i)).save(whole, 'PNG')
            try:
                return Image.open(whole).size
            except Image.DecompressionBombError:
                return 'bomb'
    """,
    )
    return f"opened_{b.n}(i)"
