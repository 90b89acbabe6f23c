"""Where a number comes from: a literal, another module, a variable, an argument, a file, a name made up."""

from __future__ import annotations

from collections.abc import Callable

from builder import Builder

Source = Callable[[Builder, str, str, int], str]
SOURCES: dict[str, Source] = {}


def source(make: Source) -> Source:
    SOURCES[make.__name__.replace("_", " ").strip()] = make
    return make


def draw(b: Builder, module: str, name: str, value: int) -> tuple[str, str]:
    """The name of a source and an expression for a number in a module."""
    # A literal is what most programs have.
    chosen = b.rng.choice([*SOURCES, "literal", "constant"])
    return chosen, SOURCES[chosen](b, module, name, value)


@source
def literal(b: Builder, module: str, name: str, value: int) -> str:
    return str(value)


@source
def constant(b: Builder, module: str, name: str, value: int) -> str:
    b.add(module, f"{name} = {value}")
    return name


@source
def other_module(b: Builder, module: str, name: str, value: int) -> str:
    b.add("conf", f"{name} = {value}")
    return f"{b.use(module, 'conf')}{name}"


@source
def from_import(b: Builder, module: str, name: str, value: int) -> str:
    b.add("conf", f"{name} = {value}")
    if module != "conf":
        b.need(module, f"from conf import {name}")
    return name


@source
def class_attribute(b: Builder, module: str, name: str, value: int) -> str:
    b.add("conf", f"class C{name}:\n    value = {value}")
    return f"{b.use(module, 'conf')}C{name}.value"


@source
def returned(b: Builder, module: str, name: str, value: int) -> str:
    b.add("conf", f"def get_{name}(more=0):\n    return {value} + more")
    return f"{b.use(module, 'conf')}get_{name}()"


@source
def closed_over(b: Builder, module: str, name: str, value: int) -> str:
    b.add("conf", f"def make_{name}(v):\n    return lambda: v\ngot_{name} = make_{name}({value})")
    return f"{b.use(module, 'conf')}got_{name}()"


@source
def variable(b: Builder, module: str, name: str, value: int) -> str:
    b.need(module, "import os")
    b.env[f"FZ_{name.upper()}"] = str(value)
    return f"int(os.environ.get('FZ_{name.upper()}', '1'))"


@source
def variable_by_helper(b: Builder, module: str, name: str, value: int) -> str:
    b.need("conf", "import os")
    b.add("conf", f"def env_{name}(n, default=1):\n    return int(os.getenv('FZ_' + n, default))")
    b.env[f"FZ_{name.upper()}"] = str(value)
    return f"{b.use(module, 'conf')}env_{name}('{name}'.upper())"


@source
def argument(b: Builder, module: str, name: str, value: int) -> str:
    b.need(module, "import sys")
    b.argv.append(f"{name}={value}")
    return f"int(dict(a.split('=') for a in sys.argv[1:] if '=' in a).get('{name}', 1))"


@source
def text_file(b: Builder, module: str, name: str, value: int) -> str:
    b.data[f"{name}.txt"] = f"{value}\n"
    return f"int(open('{name}.txt').read())"


@source
def json_file(b: Builder, module: str, name: str, value: int) -> str:
    b.need("conf", "import json, pathlib")
    b.data[f"{name}.json"] = f'{{"value": {value}}}\n'
    b.add("conf", f"def json_{name}(p):\n    return json.loads(pathlib.Path(p).read_text())['value']")
    return f"{b.use(module, 'conf')}json_{name}('{name}.json')"


@source
def ini_file(b: Builder, module: str, name: str, value: int) -> str:
    b.need(module, "import configparser")
    b.data[f"{name}.ini"] = f"[a]\nvalue = {value}\n"
    b.add(module, f"ini_{name} = configparser.ConfigParser()\nini_{name}.read('{name}.ini')")
    return f"ini_{name}.getint('a', 'value')"


@source
def numpy_file(b: Builder, module: str, name: str, value: int) -> str:
    b.need(module, "import numpy as np")
    b.data[f"{name}.csv"] = f"{value}\n"
    return f"int(np.loadtxt('{name}.csv'))"


@source
def file_there(b: Builder, module: str, name: str, value: int) -> str:
    b.need(module, "import os")
    b.data[f"{name}.flag"] = "1\n"
    return f"(os.path.exists('{name}.flag') + {value})"


@source
def files_listed(b: Builder, module: str, name: str, value: int) -> str:
    b.need(module, "import glob")
    b.data |= {f"{name}.{j}.item": f"{j}\n" for j in range(2)}
    return f"(len(glob.glob('{name}.*.item')) + {value})"


@source
def file_size(b: Builder, module: str, name: str, value: int) -> str:
    b.need(module, "import os")
    b.data[f"{name}.bin"] = "x" * value
    return f"os.path.getsize('{name}.bin')"


@source
def evaluated(b: Builder, module: str, name: str, value: int) -> str:
    b.add("conf", f"text_{name} = '{value} + 1'")
    return f"eval({b.use(module, 'conf')}text_{name})"


@source
def executed_file(b: Builder, module: str, name: str, value: int) -> str:
    b.data[f"{name}.cfg"] = f"value = {value}\n"
    b.add(module, f"space_{name} = {{}}\nexec(open('{name}.cfg').read(), space_{name})")
    return f"space_{name}['value']"


@source
def imported_by_name(b: Builder, module: str, name: str, value: int) -> str:
    b.need(module, "import importlib")
    b.data[f"m{name}.py"] = f"value = {value}\n"
    return f"importlib.import_module('m' + '{name}').value"


@source
def attribute_by_name(b: Builder, module: str, name: str, value: int) -> str:
    b.add("conf", f"{name} = {value}")
    b.use(module, "conf")
    b.need(module, "import sys")
    return f"getattr(sys.modules['conf'], '{name[:1]}' + '{name[1:]}')"
