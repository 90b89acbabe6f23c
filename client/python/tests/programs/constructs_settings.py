"""Settings by call: what is set in one place of a process changes what a function elsewhere yields, and
nothing in that function's code names it."""

from __future__ import annotations

from builder import Builder, construct


@construct
def csv_dialect(b: Builder) -> str:
    b.setting(f"csv.register_dialect('d{b.n}', delimiter=',;:|!+-_.'[{{k}} % 9])", "import csv")
    b.need(b.home, "import csv, io")
    return f"[list(r) for r in csv.reader(io.StringIO(f'a,b;c:d|e!f+g-h_{{i}}'), dialect='d{b.n}')]"


@construct
def decimal_precision(b: Builder) -> str:
    b.setting("getcontext().prec = {k} + 3", "from decimal import getcontext")
    b.need(b.home, "from decimal import Decimal as Dec")
    return "str(Dec(1) / Dec(i + 7))"


@construct
def decimal_around(b: Builder) -> str:
    b.need("main", "import decimal as dc")
    b.around.append(f"dc.localcontext(dc.Context(prec={b.knob('main')} + 2))")
    b.need(b.home, "from decimal import Decimal as Dec")
    return "str(Dec(2) / Dec(i + 7))"


@construct
def print_options(b: Builder) -> str:
    b.setting("np.set_printoptions(precision={k})", "import numpy as np")
    b.need(b.home, "import numpy as np")
    return "str(np.arange(3) / (i + 7.0))"


@construct
def print_function(b: Builder) -> str:
    b.setting("np.set_printoptions(formatter={'int': lambda v: str(v * {k})})", "import numpy as np")
    b.need(b.home, "import numpy as np")
    return "np.array2string(np.arange(3) + i)"


@construct
def print_around(b: Builder) -> str:
    b.need("main", "import numpy as np")
    b.around.append(f"np.printoptions(precision={b.knob('main')})")
    b.need(b.home, "import numpy as np")
    return "repr(np.arange(2) / (i + 3.0))"


@construct
def error_state(b: Builder) -> str:
    b.setting("np.seterr(divide=['ignore', 'raise'][{k} % 2])", "import numpy as np")
    b.add(
        b.home,
        f"""
        def divide_{b.n}(i):
            try:
                return str(np.ones(2) / np.zeros(2) + i)
            except FloatingPointError:
                return 'raised'
    """,
    )
    b.need(b.home, "import numpy as np")
    return f"divide_{b.n}(i)"


@construct
def error_state_around(b: Builder) -> str:
    b.need("main", "import numpy as np")
    b.around.append(f"np.errstate(over=['ignore', 'raise'][{b.knob('main')} % 2])")
    b.add(
        b.home,
        f"""
        def power_{b.n}(i):
            try:
                return float(np.float32(1e30) * np.float32(1e30) + i)
            except FloatingPointError:
                return 'raised'
    """,
    )
    b.need(b.home, "import numpy as np")
    return f"power_{b.n}(i)"


@construct
def json_default(b: Builder) -> str:
    b.setting("json.JSONEncoder.default = lambda self, o: [type(o).__name__, {k}]", "import json")
    b.need(b.home, "import json")
    return "json.dumps([i, {1, 2}])"


@construct
def pandas_option(b: Builder) -> str:
    b.setting("pd.set_option('display.precision', {k})", "import pandas as pd")
    b.need(b.home, "import pandas as pd")
    return "pd.DataFrame({'a': [(i + 1) / 7]}).to_string()"


@construct
def pandas_option_around(b: Builder) -> str:
    b.need("main", "import pandas as pd")
    b.around.append(f"pd.option_context('display.max_rows', {b.knob('main')})")
    b.need(b.home, "import pandas as pd")
    return "repr(pd.Series(range(i, i + 20)))"


@construct
def pandas_query(b: Builder) -> str:
    b.need(b.home, "import pandas as pd")
    b.add(b.home, f"LIMIT_{b.n} = {b.knob(b.home)}")
    return f"pd.DataFrame({{'a': range(i + 12)}}).query('a > @LIMIT_{b.n}')['a'].tolist()"


@construct
def truncated_images(b: Builder) -> str:
    b.setting("ImageFile.LOAD_TRUNCATED_IMAGES = bool({k} % 2)", "from PIL import ImageFile")
    b.need(b.home, "from PIL import Image", "import io")
    b.add(
        b.home,
        f"""
        def picture_{b.n}(i):
            whole = io.BytesIO()
            Image.effect_noise((40, 40), 0).save(whole, 'JPEG')
            try:
                return sum(Image.open(io.BytesIO(whole.getvalue()[:-(30 + i)])).tobytes()) > 0
            except OSError:
                return 'broken'
    """,
    )
    return f"picture_{b.n}(i)"


@construct
def largest_image(b: Builder) -> str:
    b.setting("Image.MAX_IMAGE_PIXELS = {k} * 40", "from PIL import Image")
    b.need(b.home, "from PIL import Image", "import io")
    b.add(
        b.home,
        f"""
        def bomb_{b.n}(i):
            whole = io.BytesIO()
            Image.new('L', (20, 20 + i)).save(whole, 'PNG')
            try:
                return Image.open(whole).size
            except Image.DecompressionBombError:
                return 'bomb'
    """,
    )
    return f"bomb_{b.n}(i)"


@construct
def image_opener(b: Builder) -> str:
    b.setting(
        f"""
        def open_{b.n}(fp, filename=None):
            return Image.new('L', (1, 1), fp.read(5)[4] * {{k}} % 256)
        Image.register_open('RAW{b.n}', open_{b.n}, lambda p: p[:4] == b'RAW{b.n}')
    """,
        "from PIL import Image",
    )
    b.need(b.home, "from PIL import Image", "import io")
    return f"list(Image.open(io.BytesIO(b'RAW{b.n}' + bytes([i + 1]))).tobytes())"


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
