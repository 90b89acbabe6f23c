"""Tables and objects of the standard library that are changed in place, by one of many routes: by their own
name, by another, as an argument, through an object, by a method of their class, by a patch."""

from __future__ import annotations

from builder import Builder, construct

HELD = """
class Has{n}:
    pass
has_{n} = Has{n}()
has_{n}.of = {module}
has_{n}.of.{table} |= {given}
"""


def change(b: Builder, module: str, table: str, key: str, value: str) -> None:
    """Has an entry of a module's table be what an expression of `{k}` is."""
    n, given = b.n, f"{{{key}: {value}}}"
    name, route = b.rng.choice(
        [
            ("", f"{module}.{table}[{key}] = {value}"),
            (f"from {module} import {table} as t_{n}", f"t_{n}[{key}] = {value}"),
            ("", f"t_{n} = {module}.{table}\nt_{n}.update({given})"),
            ("", f"def into_{n}(of):\n    of.{table}[{key}] = {value}\ninto_{n}({module})"),
            ("", HELD.format(n=n, module=module, table=table, given=given)),
            ("", f"dict.update({module}.{table}, {given})"),
            ("import unittest.mock as mock", f"mock.patch.dict({module}.{table}, {given}).start()"),
            ("import unittest.mock as mock", f"mock.patch.dict('{module}.{table}', {given}).start()"),
        ]
    )
    b.setting(route, f"import {module}", *filter(None, [name]))


@construct
def named_entities(b: Builder) -> str:
    change(b, "html.entities", "html5", f"'fz{b.n};'", "str({k})")
    b.need(b.home, "import html")
    return f"html.unescape(f'{{i}}&fz{b.n};')"


@construct
def named_aliases(b: Builder) -> str:
    change(b, "encodings.aliases", "aliases", f"'fz_{b.n}'", "['latin_1', 'cp1251'][{k} % 2]")
    return f"b'\\xe9'.decode('fz_{b.n}') * i"


@construct
def named_states(b: Builder) -> str:
    change(b, "configparser", "ConfigParser.BOOLEAN_STATES", f"'fz{b.n}'", "{k} % 2 == 0")
    b.need(b.home, "import configparser")
    b.add(
        b.home,
        f"""
        def state_{b.n}(i):
            parser = configparser.ConfigParser()
            parser.read_string('[a]\\nb = fz{b.n}')
            return parser.getboolean('a', 'b') + i
    """,
    )
    return f"state_{b.n}(i)"


@construct
def named_colors(b: Builder) -> str:
    change(b, "PIL.ImageColor", "colormap", f"'fz{b.n}'", "f'#0000{{k}:02x}'")
    b.need(b.home, "from PIL import ImageColor")
    return f"[ImageColor.getrgb('fz{b.n}')[2], i]"


@construct
def named_object(b: Builder) -> str:
    setting, expression = b.rng.choice(
        [
            ("reprlib.aRepr.maxlist = 1 + {k} % 4", "reprlib.repr([i] * 6)"),
            ("json._default_encoder.ensure_ascii = {k} % 2 == 0", "json.dumps(f'\\u00e9{i}')"),
        ]
    )
    module = setting.partition(".")[0]
    if b.rng.random() < 0.5:
        whole, _, value = setting.partition(" = ")
        held, _, name = whole.rpartition(".")
        setting = f"o_{b.n} = {held}\nsetattr(o_{b.n}, '{name}', {value})"
    b.setting(setting, f"import {module}")
    b.need(b.home, f"import {module}")
    return expression


@construct
def named_level(b: Builder) -> str:
    b.setting(
        f"logging.addLevelName(20, 'L' + str({{k}}))\nlogging.getLogger('c{b.n}').setLevel(20)",
        "import logging",
    )
    b.need(b.home, "import io, logging")
    b.add(
        b.home,
        f"""
        def told_{b.n}(i):
            lines = io.StringIO()
            handler = logging.StreamHandler(lines)
            handler.setFormatter(logging.Formatter('%(levelname)s %(message)s'))
            log = logging.getLogger('c{b.n}')
            log.addHandler(handler)
            log.info('at %d', i)
            log.removeHandler(handler)
            return lines.getvalue()
    """,
    )
    return f"told_{b.n}(i)"


@construct
def named_kind(b: Builder) -> str:
    """A class of the user's that counts as one of the standard library's."""
    b.need("conf", "import collections.abc")
    b.add("conf", f"class Kind{b.n}:\n    pass")
    kinds = "[collections.abc.Sized, collections.abc.Hashable, collections.abc.Container]"
    b.setting(f"{kinds}[{{k}} % 3].register(conf.Kind{b.n})", "import collections.abc", "import conf")
    b.need(b.home, "import collections.abc", "import conf")
    return f"[isinstance(conf.Kind{b.n}(), each) for each in {kinds}] + [i]"
