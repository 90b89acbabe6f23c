"""What a `with` statement, or a decorator made of a context manager, sets while something is asked for: of
the user's own code or of a package, known to Prebake or not."""

from __future__ import annotations

import textwrap

from builder import Builder, construct
from constructs_switched import long_number

#: How a function that is given a call and its number has the call made inside `{manager}`.
_WAYS = (
    "with {manager}:\n    return call()",
    "with {manager} as _:\n    found = call()\nreturn found",
    "with open(__file__) as _, {manager}:\n    return call()",
    "def asked():\n    return call()\nwith {manager}:\n    return asked()",
    "held = {manager}\nwith held:\n    return call()",
)
_DECORATOR = "@{manager}\ndef asked():\n    return call()\nreturn asked()"


def within(b: Builder, manager: str, *imports: str, decorates: bool = False) -> None:
    """Has some calls made inside a manager, an expression of `{k}`: first, at last, or once between."""
    where = b.rng.choice(["main", "setup"])
    b.need(where, *imports)
    made = manager.format(k=b.knob(where))
    way = b.rng.choice([*_WAYS, _DECORATOR] if decorates else _WAYS).format(manager=made)
    outside = b.rng.choice(["j < 3", "j % 4 != 3", "j > 2"])
    b.add(where, f"def inside_{b.n}(j, call):\n    if {outside}:\n        return call()")
    b.add(where, textwrap.indent(way, "    "))
    b.between.append("0")
    b.inside.append(f"{b.use('main', where)}inside_{b.n}")


def for_a_while(b: Builder, get: str, put: str, imported: str) -> str:
    """The name of a manager of the user's that has a setting be what it is given: a generator or a class."""
    b.need("conf", "import contextlib", imported)
    if b.rng.random() < 0.5:
        b.add(
            "conf",
            f"""
            @contextlib.contextmanager
            def set_{b.n}(value):
                before = {get}
                {put.format(value="value")}
                try:
                    yield
                finally:
                    {put.format(value="before")}
        """,
        )
    else:
        b.add(
            "conf",
            f"""
            class set_{b.n}(contextlib.ContextDecorator):
                def __init__(self, value):
                    self.value = value
                def __enter__(self):
                    self.before = {get}
                    {put.format(value="self.value")}
                def __exit__(self, *failed):
                    {put.format(value="self.before")}
        """,
        )
    return f"conf.set_{b.n}"


@construct
def within_a_patch(b: Builder) -> str:
    within(
        b,
        "mock.patch('shlex.shlex.get_token', lambda self: None if self.lineno > 1 else "
        "(setattr(self, 'lineno', 2), str({k}))[1])",
        "from unittest import mock",
        "import shlex",
    )
    b.need(b.home, "import shlex")
    return "[*shlex.shlex(f'ab {i}', posix=True)]"


@construct
def within_an_interval(b: Builder) -> str:
    name = for_a_while(b, "sys.getswitchinterval()", "sys.setswitchinterval({value})", "import sys")
    within(b, f"{name}({{k}} / 100)", "import conf", decorates=True)
    b.need(b.home, "import sys")
    return "[i, round(sys.getswitchinterval(), 4)]"


@construct
def within_digits(b: Builder) -> str:
    name = for_a_while(b, "sys.get_int_max_str_digits()", "sys.set_int_max_str_digits({value})", "import sys")
    within(b, f"{name}(640 + {{k}})", "import conf", decorates=True)
    return long_number(b)


@construct
def within_a_timeout(b: Builder) -> str:
    name = for_a_while(b, "socket.getdefaulttimeout()", "socket.setdefaulttimeout({value})", "import socket")
    within(b, f"{name}({{k}})", "import conf", decorates=True)
    b.need(b.home, "import socket")
    return "[i, socket.getdefaulttimeout()]"


@construct
def within_a_folder(b: Builder) -> str:
    name = for_a_while(b, "tempfile.gettempdir()", "tempfile.tempdir = {value}", "import tempfile")
    within(b, f"{name}('/tmp/' + str({{k}}))", "import conf", decorates=True)
    b.need(b.home, "import tempfile")
    return "[i, tempfile.gettempdir()[-1:]]"


@construct
def within_a_context(b: Builder) -> str:
    within(b, "dc.localcontext(dc.Context(prec={k} + 2))", "import decimal as dc")
    b.need(b.home, "from decimal import Decimal as Dec")
    return "str(Dec(2) / Dec(i + 7))"


@construct
def within_print_options(b: Builder) -> str:
    within(b, "np.printoptions(precision={k})", "import numpy as np", decorates=True)
    b.need(b.home, "import numpy as np")
    return "repr(np.arange(2) / (i + 3.0))"


@construct
def within_pandas_options(b: Builder) -> str:
    within(b, "pd.option_context('display.precision', {k})", "import pandas as pd")
    b.need(b.home, "import pandas as pd")
    return "pd.DataFrame({'a': [(i + 1) / 7]}).to_string()"


@construct
def within_variables(b: Builder) -> str:
    within(b, f"mock.patch.dict('os.environ', {{{{'FZ_W{b.n}': str({{k}})}}}})", "from unittest import mock")
    b.need("lib", "import os.path")
    b.add("lib", f"def told_{b.n}(i):\n    return os.path.expandvars(f'$FZ_W{b.n} {{i}}')")
    return f"{b.use(b.home, 'lib')}told_{b.n}(i)"


@construct
def within_what_a_module_holds(b: Builder) -> str:
    b.add("conf", f"held_{b.n} = {{'k': 1}}\ndef hold_{b.n}():\n    return held_{b.n}['k']")
    way = b.rng.choice(
        [
            f"mock.patch.dict(conf.held_{b.n}, k={{k}})",
            f"mock.patch.object(conf, 'held_{b.n}', {{{{'k': {{k}}}}}})",
            f"mock.patch.object(conf, 'hold_{b.n}', lambda: {{k}})",
        ]
    )
    within(b, way, "from unittest import mock", "import conf", decorates=True)
    b.use(b.home, "conf")
    return f"conf.hold_{b.n}() * (i + 1)"
