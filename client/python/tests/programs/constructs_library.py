"""Settings of the standard library: by call, by what is registered by name, by variables that it reads."""

from __future__ import annotations

from builder import Builder, construct


@construct
def warnings_as_errors(b: Builder) -> str:
    b.setting("warnings.simplefilter(['ignore', 'error'][{k} % 2], SyntaxWarning)", "import warnings")
    b.need(b.home, "import warnings")
    b.add(
        b.home,
        f"""
        def warned_{b.n}(i):
            try:
                warnings.warn('odd', SyntaxWarning)
                return i
            except SyntaxWarning:
                return 'raised'
    """,
    )
    return f"warned_{b.n}(i)"


@construct
def template_delimiter(b: Builder) -> str:
    b.setting("string.Template.idpattern = ['[a-z]+', '[a-z][a-z]', 'a'][{k} % 3]", "import string")
    b.need(b.home, "import string")
    return "type('T', (string.Template,), {})('$ab $a-$abc').safe_substitute(ab=i, a=2, abc=3)"


@construct
def week_begins(b: Builder) -> str:
    b.setting("calendar.setfirstweekday({k} % 7)", "import calendar")
    b.need(b.home, "import calendar")
    return "calendar.monthcalendar(2024, 1 + i)"


@construct
def shortened(b: Builder) -> str:
    b.setting("reprlib.aRepr.maxlist = {k}", "import reprlib")
    b.need(b.home, "import reprlib")
    return "reprlib.repr(list(range(i, i + 20)))"


@construct
def media_type(b: Builder) -> str:
    b.setting(f"mimetypes.add_type('a/' + str({{k}}), '.fz{b.n}')", "import mimetypes")
    b.need(b.home, "import mimetypes")
    return f"mimetypes.guess_type(f'{{i}}.fz{b.n}')"


@construct
def codec_errors(b: Builder) -> str:
    b.setting(f"codecs.register_error('e{b.n}', lambda e: ('?' * {{k}}, e.end))", "import codecs")
    return f"f'{{i}}\\u00e9'.encode('ascii', 'e{b.n}').decode()"


@construct
def codec(b: Builder) -> str:
    b.setting(
        f"""
        def find_{b.n}(name, by={{k}}):
            def encode(text, errors='strict'):
                return bytes((ord(c) + by) % 256 for c in text), len(text)
            return codecs.CodecInfo(encode, None, name=name) if name == 'shift{b.n}' else None
        codecs.register(find_{b.n})
    """,
        "import codecs",
    )
    return f"f'abc{{i}}'.encode('shift{b.n}').hex()"


@construct
def level_name(b: Builder) -> str:
    b.setting("logging.addLevelName(35, 'L' * {k})", "import logging")
    b.need(b.home, "import logging")
    return "logging.getLevelName(35) + str(i)"


@construct
def logger_level(b: Builder) -> str:
    b.setting(f"logging.getLogger('fz{b.n}').setLevel({{k}} * 5)", "import logging")
    b.need(b.home, "import logging")
    return f"logging.getLogger('fz{b.n}').isEnabledFor(17 + i)"


@construct
def integer_digits(b: Builder) -> str:
    b.setting("sys.set_int_max_str_digits(700 + {k})", "import sys")
    b.need(b.home, "import sys")
    return "sys.get_int_max_str_digits() + i"


@construct
def recursion_limit(b: Builder) -> str:
    b.setting("sys.setrecursionlimit(3000 + {k})", "import sys")
    b.need(b.home, "import sys")
    return "sys.getrecursionlimit() + i"


@construct
def url_schemes(b: Builder) -> str:
    b.setting(
        "urllib.parse.uses_relative += ['fz'] * ({k} % 2)\nurllib.parse.uses_netloc.append('fz')",
        "import urllib.parse",
    )
    b.need(b.home, "import urllib.parse")
    return "urllib.parse.urljoin('fz://a/b', f'c{i}')"


@construct
def xml_namespace(b: Builder) -> str:
    b.setting("ET.register_namespace('p' * {k}, 'urn:fz')", "import xml.etree.ElementTree as ET")
    b.need(b.home, "import xml.etree.ElementTree as ET")
    return "ET.tostring(ET.Element('{urn:fz}a', n=str(i))).decode()"


@construct
def sqlite_adapter(b: Builder) -> str:
    b.add("lib", f"class Point{b.n}:\n    def __init__(self, x):\n        self.x = x")
    b.need("setup", "import sqlite3, lib")
    b.need("main", "import setup")
    b.add("setup", f"def adapt_{b.n}(k):\n    sqlite3.register_adapter(lib.Point{b.n}, lambda p: p.x * k)")
    b.add("main", f"setup.adapt_{b.n}({b.knob('main')})")
    b.need(b.home, "import sqlite3")
    point = f"{b.use(b.home, 'lib')}Point{b.n}"
    return f"sqlite3.connect(':memory:').execute('select ?', ({point}(i + 1),)).fetchone()"


@construct
def time_zone(b: Builder) -> str:
    b.setting("os.environ['TZ'] = 'XYZ' + str({k})\ntime.tzset()", "import os, time")
    b.need(b.home, "import datetime")
    return "datetime.datetime.fromtimestamp(86400 * i).hour"


@construct
def builtin_name(b: Builder) -> str:
    b.setting(f"builtins.fz_scale_{b.n} = {{k}}", "import builtins")
    return f"fz_scale_{b.n} * (i + 1)"


@construct
def context_variable(b: Builder) -> str:
    b.need("conf", "import contextvars")
    b.add("conf", f"VAR_{b.n} = contextvars.ContextVar('v{b.n}', default=1)")
    b.need("main", "import conf")
    b.add("main", f"conf.VAR_{b.n}.set({b.knob('main')})")
    return f"{b.use(b.home, 'conf')}VAR_{b.n}.get() * (i + 1)"


@construct
def thread_local(b: Builder) -> str:
    b.need("conf", "import threading")
    b.add("conf", f"LOCAL_{b.n} = threading.local()")
    b.need("main", "import conf")
    b.add("main", f"conf.LOCAL_{b.n}.k = {b.knob('main')}")
    return f"getattr({b.use(b.home, 'conf')}LOCAL_{b.n}, 'k', 1) * (i + 1)"


@construct
def configured_module(b: Builder) -> str:
    b.add(
        "conf",
        f"""
        _state_{b.n} = {{'k': 1}}
        def configure_{b.n}(**given):
            _state_{b.n}.update(given)
        def state_{b.n}():
            return _state_{b.n}['k']
    """,
    )
    b.need("main", "import conf")
    b.add("main", f"conf.configure_{b.n}(k={b.knob('main')})")
    return f"{b.use(b.home, 'conf')}state_{b.n}() + i"


@construct
def own_context_manager(b: Builder) -> str:
    b.need("conf", "import contextlib")
    b.add(
        "conf",
        f"""
        STACK_{b.n} = [1]
        @contextlib.contextmanager
        def scaled_{b.n}(k):
            STACK_{b.n}.append(k)
            try:
                yield
            finally:
                STACK_{b.n}.pop()
    """,
    )
    b.need("main", "import conf")
    b.around.append(f"conf.scaled_{b.n}({b.knob('main')})")
    return f"{b.use(b.home, 'conf')}STACK_{b.n}[-1] * (i + 2)"


@construct
def terminal_width(b: Builder) -> str:
    b.env["COLUMNS"] = str(20 + 5 * b.rng.randrange(2, 9))
    b.need(b.home, "import argparse")
    return "argparse.ArgumentParser(prog='p' * (i + 1), usage=None, description='word ' * 9).format_help()"


@construct
def home_folder(b: Builder) -> str:
    b.env["HOME"] = "/nowhere/" + "x" * b.rng.randrange(2, 9)
    b.need(b.home, "import os.path")
    return "os.path.expanduser(f'~/{i}')"
