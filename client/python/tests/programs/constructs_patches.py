"""What is put in place of something else: functions and methods of modules, hooks by which objects are
copied, pickled and added."""

from __future__ import annotations

from builder import Builder, construct


@construct
def patched_own(b: Builder) -> str:
    b.add("lib", f"def plain_{b.n}(x):\n    return x\ndef through_{b.n}(x):\n    return plain_{b.n}(x)")
    b.need("main", "import lib")
    b.add("main", f"K_{b.n} = {b.knob('main')}\nlib.plain_{b.n} = lambda x: x * K_{b.n}")
    return f"{b.use(b.home, 'lib')}through_{b.n}(i)"


@construct
def patched_method(b: Builder) -> str:
    b.add("lib", f"class Patch{b.n}:\n    def go(self, x):\n        return x\nONE_{b.n} = Patch{b.n}()")
    b.setting(f"lib.ONE_{b.n}.go = lambda x: x - {{k}}", "import lib")
    return f"{b.use(b.home, 'lib')}ONE_{b.n}.go(i)"


@construct
def patched_installed(b: Builder) -> str:
    b.setting(
        f"""
        plain_wrap_{b.n} = textwrap.TextWrapper.wrap
        textwrap.TextWrapper.wrap = lambda self, text: plain_wrap_{b.n}(self, text)[:{{k}}]
    """,
        "import textwrap",
    )
    b.need(b.home, "import textwrap")
    return "textwrap.fill('word ' * (20 + i), 9)"


@construct
def patched_formatter(b: Builder) -> str:
    b.setting("string.Formatter.format_field = lambda self, value, spec: str(value) * {k}", "import string")
    b.need(b.home, "import string")
    return "string.Formatter().format('{}-{}', i, 1)"


@construct
def patched_image(b: Builder) -> str:
    b.setting(
        f"""
        plain_resize_{b.n} = Image.Image.resize
        Image.Image.resize = lambda self, size, *_, **more: plain_resize_{b.n}(self, ({{k}}, 2))
    """,
        "from PIL import Image",
    )
    b.need(b.home, "from PIL import Image, ImageOps")
    return "ImageOps.fit(Image.new('L', (8, 8 + i)), (4, 4)).size"


@construct
def patched_numpy(b: Builder) -> str:
    b.setting(
        "np.random.mtrand.fz_extra = np.linalg.norm; np.linalg.norm = lambda x: float(len(x) * {k})",
        "import numpy as np",
    )
    b.need("lib", "import numpy as np")
    b.add("lib", f"def length_{b.n}(x):\n    return np.linalg.norm(np.ones(x))")
    return f"float({b.use(b.home, 'lib')}length_{b.n}(i + 2))"


@construct
def patched_statistics(b: Builder) -> str:
    b.setting(
        "statistics._sum_fz = statistics.mean; statistics.mean = lambda v: list(v)[0] * {k}",
        "import statistics",
    )
    b.need("lib", "import statistics")
    b.add("lib", f"def middle_{b.n}(x):\n    return statistics.mean([x + 1, x])")
    return f"{b.use(b.home, 'lib')}middle_{b.n}(i)"


@construct
def reducer(b: Builder) -> str:
    b.add(
        "lib",
        f"class Red{b.n}:\n    def __init__(self, x):\n        self.x = x",
        f"def red_{b.n}(x):\n    return Red{b.n}(x)",
    )
    b.need("setup", "import copyreg, lib")
    b.need("main", "import setup")
    b.add(
        "setup",
        f"def reduce_{b.n}(k):\n    copyreg.pickle(lib.Red{b.n}, lambda o: (lib.red_{b.n}, (o.x * k,)))",
    )
    b.add("main", f"setup.reduce_{b.n}({b.knob('main')})")
    b.need(b.home, "import pickle")
    return f"pickle.loads(pickle.dumps({b.use(b.home, 'lib')}Red{b.n}(i + 1))).x"


@construct
def copied_by_hook(b: Builder) -> str:
    b.need(b.home, "import copy")
    b.add(
        "lib",
        f"class Cop{b.n}:\n    x = 1\n    def __deepcopy__(self, memo):\n        return [{b.knob('lib')}]",
    )
    return f"copy.deepcopy({b.use(b.home, 'lib')}Cop{b.n}()) + [i]"


@construct
def operator_overloaded(b: Builder) -> str:
    b.add(
        "lib",
        f"class Num{b.n}(int):\n    def __add__(self, other):",
        f"        return int(self) * other + {b.knob('lib')}",
    )
    b.add(b.home, f"NUM_{b.n} = {b.use(b.home, 'lib')}Num{b.n}(3)")
    return f"NUM_{b.n} + i"


@construct
def list_of_functions(b: Builder) -> str:
    b.add("conf", f"STEPS_{b.n} = []")
    b.need("main", "import conf")
    b.add("main", f"conf.STEPS_{b.n}.append(lambda x: x * {b.knob('main')})\nconf.STEPS_{b.n} += [abs, str]")
    b.need(b.home, "import functools")
    return f"functools.reduce(lambda x, f: f(x), {b.use(b.home, 'conf')}STEPS_{b.n}, i)"


@construct
def weak_registry(b: Builder) -> str:
    b.need("conf", "import weakref")
    b.add("conf", f"class Held{b.n}:\n    k = 1\nWEAK_{b.n} = weakref.WeakValueDictionary()")
    b.need("main", "import conf")
    b.add(
        "main",
        f"held_{b.n} = conf.Held{b.n}()\nheld_{b.n}.k = {b.knob('main')}\nconf.WEAK_{b.n}['a'] = held_{b.n}",
    )
    return f"{b.use(b.home, 'conf')}WEAK_{b.n}['a'].k + i"


@construct
def sorted_by_key(b: Builder) -> str:
    b.need(b.home, "import functools")
    b.add("lib", f"def before_{b.n}(a, b):\n    return (a * {b.knob('lib')}) % 7 - (b * 3) % 7")
    return f"sorted(range(i + 6), key=functools.cmp_to_key({b.use(b.home, 'lib')}before_{b.n}))"
