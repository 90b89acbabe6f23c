"""What a process switches between two calls and which no name in the function's code leads to: traps, levels,
tables of the standard library, what is done in place to what a module holds."""

from __future__ import annotations

from builder import Builder, construct
from constructs_between import between


@construct
def switched_traps(b: Builder) -> str:
    between(
        b,
        "dc.getcontext().traps[dc.Inexact] = bool((j + {k}) % 2)",
        "import decimal as dc",
    )
    b.need(b.home, "import decimal as dc")
    b.add(
        b.home,
        f"""
        def third_{b.n}(i):
            try:
                return str(dc.Decimal(1) / (i + 3))
            except dc.Inexact:
                return 'inexact'
    """,
    )
    return f"third_{b.n}(i)"


@construct
def switched_level(b: Builder) -> str:
    name = b.rng.choice(["", f"fz{b.n}"])
    between(b, f"logging.getLogger('{name}').setLevel([10, 30, 50][(j + {{k}}) % 3])", "import logging")
    b.need(b.home, "import logging")
    return f"[logging.getLogger('fz{b.n}.of').isEnabledFor(20), i]"


@construct
def switched_media_type(b: Builder) -> str:
    between(b, f"mimetypes.add_type(f'a/t{{{{j + {{k}}}}}}', '.fz{b.n}')", "import mimetypes")
    b.need(b.home, "import mimetypes")
    return f"mimetypes.guess_type(f'{{i}}.fz{b.n}')[0]"


@construct
def switched_namespace(b: Builder) -> str:
    between(
        b, f"ET.register_namespace(f'p{{{{j + {{k}}}}}}', 'u:{b.n}')", "import xml.etree.ElementTree as ET"
    )
    b.need(b.home, "import xml.etree.ElementTree as ET")
    return f"ET.tostring(ET.fromstring(f'<a xmlns=\"u:{b.n}\">{{i}}</a>')).decode()"


def long_number(b: Builder) -> str:
    """A number of some 800 digits as text, which a setting may forbid."""
    b.add(
        b.home,
        f"""
        def long_{b.n}(i):
            try:
                return len(str(10 ** (800 + i)))
            except ValueError:
                return 'too long'
    """,
    )
    return f"long_{b.n}(i)"


@construct
def switched_digits(b: Builder) -> str:
    between(b, "sys.set_int_max_str_digits([0, 700, 900][(j + {k}) % 3])", "import sys")
    return long_number(b)


@construct
def switched_codec_errors(b: Builder) -> str:
    between(b, f"codecs.register_error('s{b.n}', lambda e: (str(j + {{k}}), e.end))", "import codecs")
    return f"f'{{i}}\\u00e9'.encode('ascii', 's{b.n}').decode()"


@construct
def switched_filters(b: Builder) -> str:
    between(b, "warnings.simplefilter(['ignore', 'error'][(j + {k}) % 2], RuntimeWarning)", "import warnings")
    b.need(b.home, "import warnings")
    b.add(
        b.home,
        f"""
        def warned_{b.n}(i):
            try:
                warnings.warn('fz', RuntimeWarning)
            except RuntimeWarning:
                return 'raised'
            return i
    """,
    )
    return f"warned_{b.n}(i)"


@construct
def switched_array(b: Builder) -> str:
    """In place: the name leads to the same object."""
    b.need("conf", "import numpy as np")
    b.add("conf", f"ARRAY_{b.n} = np.ones(8)\nVIEW_{b.n} = ARRAY_{b.n}[2:4]")
    at = b.rng.choice([f"conf.ARRAY_{b.n}[3]", f"conf.VIEW_{b.n}[1]", f"conf.ARRAY_{b.n}.flat[3]"])
    between(b, f"{at} = j * {{k}}", "import conf")
    return f"float({b.use(b.home, 'conf')}ARRAY_{b.n}.sum()) + i"


@construct
def switched_table(b: Builder) -> str:
    b.need("conf", "import pandas as pd")
    b.add("conf", f"TABLE_{b.n} = pd.DataFrame({{'a': [1, 2, 3]}})")
    between(b, f"conf.TABLE_{b.n}.loc[1, 'a'] = j * {{k}}", "import conf")
    return f"int({b.use(b.home, 'conf')}TABLE_{b.n}['a'].sum()) + i"


@construct
def switched_buffer(b: Builder) -> str:
    held = b.rng.choice(["bytearray(8)", "array.array('b', bytes(8))", "collections.deque([0] * 8)"])
    b.need("conf", "import array, collections")
    b.add("conf", f"BUFFER_{b.n} = {held}")
    between(b, f"conf.BUFFER_{b.n}[3] = (j * {{k}}) % 100", "import conf")
    return f"sum({b.use(b.home, 'conf')}BUFFER_{b.n}) + i"


@construct
def switched_method(b: Builder) -> str:
    b.add("conf", f"class Way{b.n}:\n    def go(self, x):\n        return x\nWAY_{b.n} = Way{b.n}()")
    at = b.rng.choice([f"conf.Way{b.n}.go = lambda self, x:", f"conf.WAY_{b.n}.go = lambda x:"])
    between(b, f"{at} x + j * {{k}}", "import conf")
    return f"{b.use(b.home, 'conf')}WAY_{b.n}.go(i)"


@construct
def switched_module(b: Builder) -> str:
    """Another module under the same name, between two calls."""
    b.need("setup", "import sys, types")
    b.add(
        "setup",
        f"""
        def module_{b.n}(k):
            made = types.ModuleType('swapped{b.n}')
            made.k = k
            sys.modules['swapped{b.n}'] = made
        module_{b.n}(1)
    """,
    )
    between(b, f"setup.module_{b.n}(j + {{k}})", "import setup")
    b.add(b.home, f"def swapped_{b.n}(i):\n    import swapped{b.n} as m\n    return m.k + i")
    return f"swapped_{b.n}(i)"
