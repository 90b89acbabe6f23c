"""Small programs by the package that they use: what `it` is should have the same identity in every process.

Each is a script of its own, as people write them at the top of a training script.
"""

from __future__ import annotations

import sys
from typing import NamedTuple


class Program(NamedTuple):
    #: What has to be installed for it, or nothing.
    package: str
    source: str
    #: The code of the refusal that is right for it, if it has to be refused; "differs" where it is known to
    #: be another in each process, so that it is never shared.
    refused: str = ""


PROGRAMS: dict[str, Program] = {}


def _of(name: str, package: str, source: str, refused: str = "") -> None:
    PROGRAMS[name] = Program(package, source, refused)


# Python's own.
_of(
    "dataclass",
    "",
    """
import dataclasses
@dataclasses.dataclass(frozen=True)
class Size:
    width: int
    names: set = dataclasses.field(default_factory=set)
def it(x, size=Size(3, {"a", "b"})):
    return Size(x), dataclasses.asdict(size)
""",
)
_of(
    "dataclass_made",
    "",
    """
import dataclasses
Size = dataclasses.make_dataclass("Size", [("width", int), ("height", int, 3)])
def it(x):
    return Size(x)
""",
)
_of(
    "namedtuple",
    "",
    """
import collections, typing
P = collections.namedtuple("P", "x y")
class Q(typing.NamedTuple):
    x: int
    y: str = "a"
def it(x):
    return P(x, 2), Q(x)
""",
)
_of(
    "enums",
    "",
    """
import enum
class Color(enum.Enum):
    RED = 1
    BLUE = 2
class Bits(enum.Flag):
    A = 1
    B = 2
    C = A | B
def it(x):
    return Color.RED if x else Color.BLUE, Bits.A | Bits.B
""",
)
_of(
    "abc_and_protocol",
    "",
    """
import abc, typing
class Base(abc.ABC):
    @abc.abstractmethod
    def f(self, x): ...
class P(typing.Protocol):
    def f(self, x): ...
@typing.runtime_checkable
class R(typing.Protocol):
    def f(self, x): ...
class A(Base):
    def f(self, x): return x
a = A()
isinstance(a, R), isinstance(3, Base)
def it(x):
    return a.f(x), isinstance(a, R)
""",
)
_of(
    "generic",
    "",
    """
import typing
T = typing.TypeVar("T")
class Box(typing.Generic[T]):
    def __init__(self, v: T): self.v = v
Ints = Box[int]
def it(x: Ints):
    return Ints(x).v, typing.cast(typing.Optional[int], x)
""",
)
_of(
    "typed_dict",
    "",
    """
import typing
class Row(typing.TypedDict, total=False):
    a: int
    b: typing.Literal["x", "y"]
Alias = typing.Annotated[int, "meters"]
def it(x):
    return Row(a=x), typing.get_type_hints(Row), Alias
""",
)
_of(
    "lru_cache",
    "",
    """
import functools
@functools.lru_cache(maxsize=None)
def table(n):
    return {i: i * n for i in range(n)}
table(3)
def it(x):
    return table(x)
""",
)
_of(
    "functools_cache_method",
    "",
    """
import functools
class A:
    @functools.cached_property
    def names(self): return ["a", "b"]
    @functools.cache
    def f(self, x): return x
a = A()
a.names
def it(x):
    return a.f(x), a.names
""",
)
_of(
    "singledispatch",
    "",
    """
import functools
@functools.singledispatch
def show(x): return str(x)
@show.register
def _(x: int): return "int"
@show.register(list)
def _(x): return "list"
show(3)
class A:
    @functools.singledispatchmethod
    def f(self, x): return x
    @f.register
    def _(self, x: int): return -x
a = A()
def it(x):
    return show(x), a.f(x)
""",
)
_of(
    "logger",
    "",
    """
import logging
log = logging.getLogger(__name__)
log.setLevel(logging.INFO)
def it(x):
    log.info("x %s", x)
    return x
""",
)
_of(
    "logger_held",
    "",
    """
import logging
class T:
    def __init__(self):
        self.log = logging.getLogger("t")
    def __call__(self, x):
        self.log.debug("x")
        return x
it = T()
""",
)
_of(
    "lock",
    "",
    """
import threading
class T:
    def __init__(self):
        self.lock = threading.Lock()
        self.again = threading.RLock()
        self.n = 3
    def __call__(self, x):
        with self.lock:
            return x * self.n
it = T()
""",
    "R31",
)
_of(
    "lock_global",
    "",
    """
import threading
LOCK = threading.RLock()
def it(x):
    with LOCK:
        return x
""",
    "R31",
)
_of(
    "weakref",
    "",
    """
import weakref
class Owner: pass
owner = Owner()
class T:
    def __init__(self): self.owner = weakref.ref(owner)
    def __call__(self, x): return x
it = T()
""",
    "R31",
)
_of(
    "contextvar",
    "",
    """
import contextvars
mode = contextvars.ContextVar("mode", default="a")
def it(x):
    return x, mode.get()
""",
    "R31",
)
_of(
    "thread_local",
    "",
    """
import threading
local = threading.local()
def it(x):
    return getattr(local, "n", x)
""",
    "R31",
)
_of(
    "sets",
    "",
    """
WORDS = {"one", "two", "three", "four"}
FROZEN = frozenset(WORDS)
def it(x, drop={"a", "b", "c"}):
    return x in WORDS or x in FROZEN or x in {"p", "q", "r"} or x in drop
""",
)
_of(
    "set_of_objects",
    "",
    """
class K:
    def __init__(self, n): self.n = n
KEYS = {K(1), K(2), K(3)}
def it(x):
    return any(k.n == x for k in KEYS)
""",
)
_of(
    "dict_of_functions",
    "",
    """
def f(x): return x
def g(x): return -x
REGISTRY = {}
def register(function):
    REGISTRY[function.__name__] = function
    return function
for each in (f, g): register(each)
def it(x):
    return REGISTRY["f"](x)
""",
)
_of(
    "by_id",
    "",
    """
class K: pass
a = K()
NAMES = {id(a): "a"}
def it(x):
    return NAMES.get(x)
""",
    "differs",
)
_of(
    "argparse",
    "",
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=3)
ARGS = parser.parse_args([])
def it(x):
    return x * ARGS.size
""",
)
_of(
    "argparse_parser_held",
    "",
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=3)
def it(x):
    return parser.parse_args(["--size", str(x)]).size
""",
)
_of(
    "simple_namespace",
    "",
    """
import types
cfg = types.SimpleNamespace(a=1, b=types.SimpleNamespace(c={"x", "y"}))
def it(x):
    return x + cfg.a
""",
)
_of(
    "decimal_fraction_datetime",
    "",
    """
import decimal, fractions, datetime, uuid, pathlib, ipaddress, zoneinfo
D, F = decimal.Decimal("1.5"), fractions.Fraction(1, 3)
T = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
U, P = uuid.UUID(int=5), pathlib.Path("a/b")
def it(x):
    return x * D, x * F, T, U, P, datetime.timedelta(3)
""",
)
_of(
    "regexes",
    "",
    """
import re
WORD = re.compile(r"\\w+", re.I)
RULES = [(re.compile("a"), "b"), (re.compile("c"), "d")]
def it(x):
    for rule, new in RULES: x = rule.sub(new, x)
    return WORD.findall(x)
""",
)
_of(
    "struct_array_deque",
    "",
    """
import array, collections, struct
S = struct.Struct("<i")
A = array.array("d", [1, 2])
D = collections.deque([1, 2], maxlen=4)
C = collections.Counter("hello")
DD = collections.defaultdict(list, {"a": [1]})
O = collections.OrderedDict(a=1)
M = collections.ChainMap({"a": 1}, {"b": 2})
def it(x):
    return S.pack(x), A[0], D[0], C["l"], DD["a"], O["a"], M["b"]
""",
)
_of(
    "operators_and_partials",
    "",
    """
import functools, operator
get = operator.itemgetter(1)
attr = operator.attrgetter("real")
call = operator.methodcaller("strip")
add = functools.partial(operator.add, 3)
def it(x):
    return add(attr(get(x))), call("a ")
""",
)
_of(
    "string_template",
    "",
    """
import string
T = string.Template("$a and $b")
F = string.Formatter()
TABLE = str.maketrans("abc", "xyz")
def it(x):
    return T.substitute(a=x, b=2), F.format("{}", x), str(x).translate(TABLE)
""",
)
_of(
    "exec_made",
    "",
    """
namespace = {}
exec(compile("def it(x):\\n    return x + 1\\n", f"<made {id(namespace)}>", "exec"), namespace)
it = namespace["it"]
""",
)
_of(
    "property_descriptor_slots",
    "",
    """
class Field:
    def __set_name__(self, owner, name): self.name = name
    def __get__(self, instance, owner): return self if instance is None else instance._v.get(self.name, 0)
class A:
    __slots__ = ("_v",)
    a = Field()
    def __init__(self): self._v = {"a": 4}
    @property
    def twice(self): return 2 * self.a
it = A().__class__
""",
)
_of(
    "metaclass_registry",
    "",
    """
class Meta(type):
    known = {}
    def __new__(meta, name, bases, space):
        cls = super().__new__(meta, name, bases, space)
        Meta.known[name] = cls
        return cls
class A(metaclass=Meta):
    def f(self, x): return x
class B(A): pass
def it(x):
    return Meta.known["B"]().f(x)
""",
    "R25",
)
_of(
    "closures",
    "",
    """
def outer(scale):
    def inner(x):
        return x * scale
    return inner
fs = [outer(i) for i in range(3)]
def it(x):
    return [f(x) for f in fs]
""",
)
_of(
    "json_encoder",
    "",
    """
import json
ENC = json.JSONEncoder(sort_keys=True)
DEC = json.JSONDecoder()
def it(x):
    return DEC.decode(ENC.encode(x))
""",
    # Scanner tells all that it holds from Python 3.13 on.
    "R31" if sys.version_info < (3, 13) else "",
)
_of(
    "contextmanager",
    "",
    """
import contextlib
@contextlib.contextmanager
def nothing(): yield 3
class M(contextlib.ContextDecorator):
    def __enter__(self): return 1
    def __exit__(self, *a): return None
@M()
def f(x): return x
def it(x):
    with nothing() as n: return f(x) + n
""",
)
_of(
    "warnings_deprecated",
    "",
    """
import functools, warnings
def deprecated(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        warnings.warn("old")
        return function(*args, **kwargs)
    return call
@deprecated
def it(x): return x
""",
)
_of(
    "bound_methods",
    "",
    """
class A:
    def __init__(self, n): self.n = n
    def f(self, x): return x * self.n
a = A(3)
STEPS = [a.f, str.upper, "abc".find, [3, 1].index, {"a": 1}.get]
def it(x):
    return [s for s in STEPS], STEPS[0](x)
""",
)

# Arrays and tables.
_of(
    "numpy",
    "numpy",
    """
import numpy as np
MEAN = np.array([1.0, 2.0])
KIND = np.dtype([("a", "<f4"), ("b", "<i8")])
S = np.float32(3)
def it(x):
    return (np.asarray(x) - MEAN).astype(np.float32) * S, np.zeros(2, KIND), np.iinfo(np.int8), np.finfo("f4")
""",
)
_of(
    "numpy_vectorize",
    "numpy",
    """
import numpy as np
@np.vectorize
def f(x): return x + 1
g = np.frompyfunc(lambda x: x + 1, 1, 1)
def it(x):
    return f(x)
""",
)
_of(
    "numpy_frompyfunc",
    "numpy",
    """
import numpy as np
g = np.frompyfunc(lambda x: x + 1, 1, 1)
def it(x):
    return g(x)
""",
    "R31",
)
_of(
    "numpy_more",
    "numpy",
    """
import numpy as np
P = np.polynomial.Polynomial([1, 2, 3])
P1 = np.poly1d([1, 2])
M = np.ma.array([1, 2], mask=[0, 1])
D = np.datetime64("2020-01-01")
STR = np.array(["a", "b"], dtype=object)
def it(x):
    return P(x), P1(x), M, D, STR, np.linalg.norm(x), np.errstate(all="ignore")
""",
)
_of(
    "scipy",
    "scipy",
    """
import numpy as np
from scipy import interpolate, signal, sparse, spatial, stats
I = interpolate.interp1d([0, 1, 2], [0, 1, 4])
C = interpolate.CubicSpline([0, 1, 2], [0, 1, 4])
M = sparse.csr_matrix(np.eye(3))
B = signal.butter(3, 0.2)
R = spatial.transform.Rotation.from_euler("x", 90, degrees=True)
def it(x):
    return I(x), C(x), M @ np.ones(3), B, R.apply([0, 1, 0])
""",
)
_of(
    "scipy_stats",
    "scipy",
    """
from scipy import stats
N = stats.norm(0, 1)
def it(x):
    return N.pdf(x), stats.zscore([1, 2, x])
""",
    "R20",
)
_of(
    "scipy_kdtree",
    "scipy",
    """
import numpy as np
from scipy import spatial
T = spatial.cKDTree(np.arange(12.0).reshape(4, 3))
def it(x):
    return T.query([0, 0, x])
""",
)
_of(
    "pandas",
    "pandas",
    """
import pandas as pd
T = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}, index=pd.Index(["p", "q"], name="k"))
S = pd.Series([1.0, 2.0], name="s")
C = pd.Categorical(["a", "b"])
W = pd.Timestamp("2020-01-01")
def it(x):
    return T.assign(c=x), S + x, C, W
""",
)
_of(
    "polars",
    "polars",
    """
import polars as pl
T = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
E = pl.col("a") * 2
def it(x):
    return T.with_columns(E)
""",
)
_of(
    "polars_table",
    "polars",
    """
import polars as pl
T = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
def it(x):
    return T.with_columns((pl.col("a") * x).alias("c"))
""",
)
_of(
    "pyarrow",
    "pyarrow",
    """
import pyarrow as pa
import pyarrow.compute as pc
T = pa.table({"a": [1, 2], "b": ["x", "y"]})
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.string()))])
KIND = pa.dictionary(pa.int8(), pa.string())
S = pa.scalar(3)
def it(x):
    return pc.add(T["a"], x), SCHEMA, KIND, S
""",
)
_of(
    "sympy",
    "sympy",
    """
import sympy
x_, y_ = sympy.symbols("x y")
E = x_ ** 2 + sympy.sin(y_)
def it(x):
    return E.subs({x_: x, y_: 1})
""",
)
_of(
    "sympy_lambdify",
    "sympy",
    """
import sympy
x_, y_ = sympy.symbols("x y")
F = sympy.lambdify((x_, y_), x_ ** 2 + y_, "math")
def it(x):
    return F(x, 2)
""",
)
_of(
    "networkx",
    "networkx",
    """
import networkx as nx
G = nx.Graph()
G.add_edges_from([("a", "b"), ("b", "c")])
nx.shortest_path(G, "a", "c")
def it(x):
    return nx.shortest_path(G, "a", x)
""",
)
_of(
    "numba",
    "numba",
    """
import numba
@numba.njit
def f(x): return x + 1
def it(x):
    return f(x)
""",
    "differs",
)
_of(
    "numba_compiled",
    "numba",
    """
import numba
@numba.njit
def f(x): return x + 1
f(3)
def it(x):
    return f(x)
""",
    "differs",
)

# Records.
_of(
    "attrs",
    "attrs",
    """
import attrs
@attrs.define
class A:
    x: int
    y: list = attrs.field(factory=list)
    z: str = attrs.field(default="a", converter=str, validator=attrs.validators.instance_of(str))
@attrs.frozen
class B(A):
    w: float = 1.0
def it(x):
    return A(x), B(x), attrs.asdict(A(3))
""",
)
_of(
    "attrs_old",
    "attrs",
    """
import attr
@attr.s(auto_attribs=True, hash=True)
class A:
    x: int = attr.ib(default=3)
CFG = A(4)
def it(x):
    return x + CFG.x
""",
)
_of(
    "pydantic",
    "pydantic",
    """
import pydantic
class Row(pydantic.BaseModel):
    text: str
    n: int = 3
def it(x):
    return Row(text=x).model_dump()
""",
)
_of(
    "pydantic_held",
    "pydantic",
    """
import pydantic, typing
class Inner(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    names: set[str] = {"a", "b"}
    @pydantic.field_validator("names")
    @classmethod
    def check(cls, v): return v
class Config(pydantic.BaseModel):
    size: int = 3
    inner: Inner = Inner()
    kind: typing.Literal["a", "b"] = "a"
    maybe: typing.Optional[list[Inner]] = None
CONFIG = Config(size=4)
def it(x):
    return x * CONFIG.size, CONFIG.inner.names
""",
)
_of(
    "pydantic_made_inside",
    "pydantic",
    """
import pydantic
def it(x):
    Row = pydantic.create_model("Row", n=(int, 3))
    return Row(n=x).n
""",
)
_of(
    "pydantic_created",
    "pydantic",
    """
import pydantic
Row = pydantic.create_model("Row", n=(int, 3))
def it(x):
    return Row(n=x).n
""",
)
_of(
    "pydantic_adapter",
    "pydantic",
    """
import pydantic
A = pydantic.TypeAdapter(list[int])
def it(x):
    return A.validate_python(x)
""",
)
_of(
    "pydantic_dataclass",
    "pydantic",
    """
import pydantic.dataclasses
@pydantic.dataclasses.dataclass
class A:
    n: int = 3
def it(x):
    return A(n=x).n
""",
)
_of(
    "pydantic_call",
    "pydantic",
    """
import pydantic
@pydantic.validate_call
def it(x: int):
    return x + 1
""",
    "R20",
)
_of(
    "msgspec",
    "msgspec",
    """
import msgspec
class A(msgspec.Struct):
    x: int
    y: str = "a"
def it(x):
    return msgspec.to_builtins(A(x))
""",
)
_of(
    "msgspec_codec",
    "msgspec",
    """
import msgspec
class A(msgspec.Struct):
    x: int
ENC = msgspec.json.Encoder()
DEC = msgspec.json.Decoder(A)
def it(x):
    return DEC.decode(ENC.encode(A(x)))
""",
    "R31",
)
_of(
    "dataclasses_json",
    "dataclasses_json",
    """
import dataclasses
from dataclasses_json import dataclass_json
@dataclass_json
@dataclasses.dataclass
class A:
    x: int = 3
def it(x):
    return A(x).to_dict()
""",
)
_of(
    "marshmallow",
    "marshmallow",
    """
import marshmallow as m
class S(m.Schema):
    x = m.fields.Int(required=True)
    y = m.fields.List(m.fields.Str())
SCHEMA = S()
def it(x):
    return SCHEMA.load({"x": x})
""",
)
_of(
    "cattrs",
    "cattrs",
    """
import attrs, cattrs
@attrs.define
class A:
    x: int
def it(x):
    return cattrs.structure({"x": x}, A)
""",
)
_of(
    "cattrs_converter",
    "cattrs",
    """
import attrs, cattrs
@attrs.define
class A:
    x: int
C = cattrs.Converter()
def it(x):
    return C.structure({"x": x}, A)
""",
    "R21",
)
_of(
    "omegaconf",
    "omegaconf",
    """
from omegaconf import OmegaConf
CFG = OmegaConf.create({"size": 3, "names": ["a", "b"], "twice": "${size}"})
CFG.size
def it(x):
    return x * CFG.size
""",
)
_of(
    "omegaconf_structured",
    "omegaconf",
    """
import dataclasses
from omegaconf import OmegaConf
@dataclasses.dataclass
class C:
    size: int = 3
CFG = OmegaConf.structured(C)
def it(x):
    return x * CFG.size
""",
)
_of(
    "omegaconf_resolved",
    "omegaconf",
    """
import os
from omegaconf import OmegaConf
OmegaConf.register_new_resolver("process", os.getpid, use_cache=True)
CFG = OmegaConf.create({"size": 3, "log": "${process:}.txt"})
CFG.log
del CFG["log"]
def it(x):
    return x * CFG.size
""",
)
_of(
    "hydra",
    "hydra",
    """
from hydra.utils import instantiate
CFG = {"_target_": "collections.Counter", "a": 1}
def it(x):
    return instantiate(CFG)
""",
)

# Checks and decorators.
_of(
    "beartype",
    "beartype",
    """
from beartype import beartype
@beartype
def it(x: int) -> int:
    return x + 1
""",
)
_of(
    "beartype_called",
    "beartype",
    """
from beartype import beartype
@beartype
def f(x: list[int]) -> int:
    return x[0] + 1
f([3])
def it(x):
    return f([x])
""",
    "R20",
)
_of(
    "jaxtyping",
    "jaxtyping",
    """
import numpy as np
from beartype import beartype
from jaxtyping import Float, jaxtyped
@jaxtyped(typechecker=beartype)
def it(x: Float[np.ndarray, "b c"]) -> Float[np.ndarray, "c"]:
    return x.sum(0)
""",
    "R31",
)
_of(
    "jaxtyping_alone",
    "jaxtyping",
    """
import numpy as np
from jaxtyping import Float
Batch = Float[np.ndarray, "b c"]
def it(x: Batch):
    return x.sum(0)
""",
)
_of(
    "typeguard",
    "typeguard",
    """
from typeguard import typechecked
@typechecked
def it(x: int) -> int:
    return x + 1
""",
    "R34",
)
_of(
    "wrapt",
    "wrapt",
    """
import wrapt
@wrapt.decorator
def twice(wrapped, instance, args, kwargs):
    return 2 * wrapped(*args, **kwargs)
@twice
def it(x):
    return x
""",
    "R31",
)
_of(
    "decorator",
    "decorator",
    """
from decorator import decorator
@decorator
def twice(f, *args, **kwargs):
    return 2 * f(*args, **kwargs)
@twice
def it(x):
    return x
""",
)
_of(
    "toolz",
    "toolz",
    """
import toolz
from toolz import curried
add = toolz.curry(lambda a, b: a + b)
f = toolz.compose(add(1), add(2))
p = curried.map(add(3))
def it(x):
    return f(x), list(p([x])), toolz.pipe(x, f)
""",
)
_of(
    "tenacity",
    "tenacity",
    """
import tenacity
@tenacity.retry(stop=tenacity.stop_after_attempt(3))
def f(x): return x
def it(x):
    return f(x)
""",
)
_of(
    "cachetools",
    "cachetools",
    """
import cachetools
@cachetools.cached(cachetools.LRUCache(4))
def f(x): return x
def it(x):
    return f(x)
""",
    "R31",
)
_of(
    "cachetools_used",
    "cachetools",
    """
import cachetools
@cachetools.cached(cachetools.LRUCache(4))
def f(x): return x
f("a"), f("b")
def it(x):
    return f(x)
""",
    "R31",
)

# Logs, progress, commands, templates.
_of(
    "loguru",
    "loguru",
    """
from loguru import logger
def it(x):
    logger.debug("x {}", x)
    return x
""",
    "R31",
)
_of(
    "loguru_bound",
    "loguru",
    """
from loguru import logger
log = logger.bind(part="data")
def it(x):
    log.debug("x {}", x)
    return x
""",
    "R31",
)
_of(
    "structlog",
    "structlog",
    """
import structlog
log = structlog.get_logger()
def it(x):
    log.debug("x", x=x)
    return x
""",
)
_of(
    "tqdm",
    "tqdm",
    """
from tqdm import tqdm
def it(xs):
    return [x for x in tqdm(xs, disable=True)]
""",
)
_of(
    "rich",
    "rich",
    """
from rich.console import Console
console = Console()
def it(x):
    console.print(x)
    return x
""",
    "R31",
)
_of(
    "click",
    "click",
    """
import click
@click.command()
@click.option("--size", default=3)
def main(size): return size
def it(x):
    return click.style(x), main.callback(x)
""",
)
_of(
    "jinja2",
    "jinja2",
    """
import jinja2
T = jinja2.Template("{{ a }} and {{ b }}")
def it(x):
    return T.render(a=x, b=2)
""",
)
_of(
    "jinja2_environment",
    "jinja2",
    """
import jinja2
ENV = jinja2.Environment(trim_blocks=True)
T = ENV.from_string("{% for a in xs %}{{ a }}{% endfor %}")
def it(x):
    return T.render(xs=[x])
""",
)

# Text.
_of(
    "regex",
    "regex",
    """
import regex
WORD = regex.compile(r"\\p{L}+")
def it(x):
    return WORD.findall(x)
""",
)
_of(
    "nltk",
    "nltk",
    """
from nltk.stem import PorterStemmer, SnowballStemmer
from nltk.tokenize import RegexpTokenizer, TreebankWordTokenizer
P, T, R = PorterStemmer(), TreebankWordTokenizer(), RegexpTokenizer(r"\\w+")
S = SnowballStemmer("english")
def it(x):
    return [P.stem(w) for w in T.tokenize(x)], R.tokenize(x), S.stem(x)
""",
)
_of(
    "sklearn_scaler",
    "sklearn",
    """
import numpy as np
from sklearn.preprocessing import StandardScaler
S = StandardScaler().fit(np.arange(6.0).reshape(3, 2))
def it(x):
    return S.transform(x)
""",
)
_of(
    "sklearn_vectorizer",
    "sklearn",
    """
from sklearn.feature_extraction.text import CountVectorizer
V = CountVectorizer().fit(["one two", "two three"])
def it(x):
    return V.transform([x]).toarray()
""",
)
_of(
    "sklearn_tfidf",
    "sklearn",
    """
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
V = TfidfVectorizer(stop_words="english").fit(["cat dog", "dog bird"])
H = HashingVectorizer(n_features=16)
def it(x):
    return V.transform([x]), H.transform([x])
""",
)
_of(
    "sklearn_pipeline",
    "sklearn",
    """
import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder
X = np.arange(12.0).reshape(4, 3)
P = make_pipeline(FunctionTransformer(np.log1p), ColumnTransformer([("a", MinMaxScaler(), [0, 1]),
    ("b", OneHotEncoder(handle_unknown="ignore"), [2])]), PCA(2)).fit(X)
def it(x):
    return P.transform(x)
""",
)
_of(
    "sklearn_tree",
    "sklearn",
    """
import numpy as np
from sklearn.tree import DecisionTreeClassifier
T = DecisionTreeClassifier(random_state=0).fit(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1])
def it(x):
    return T.predict(x)
""",
)
_of(
    "spacy",
    "spacy",
    """
import spacy
NLP = spacy.blank("en")
def it(x):
    return [t.text for t in NLP(x)]
""",
    "differs",
)
_of(
    "tokenizers",
    "tokenizers",
    """
from tokenizers import Tokenizer, models, pre_tokenizers
T = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
T.pre_tokenizer = pre_tokenizers.Whitespace()
def it(x):
    return T.encode(x).ids
""",
)
_of(
    "transformers_tokenizer",
    "transformers",
    """
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
T = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
T.pre_tokenizer = pre_tokenizers.Whitespace()
TOK = PreTrainedTokenizerFast(tokenizer_object=T, unk_token="[UNK]", pad_token="[UNK]")
TOK(["a b"], padding=True)
def it(x):
    return TOK(x, truncation=True, max_length=4)["input_ids"]
""",
)
_of(
    "transformers_processor",
    "transformers",
    """
from transformers import CLIPImageProcessor
P = CLIPImageProcessor()
def it(x):
    return P(x, return_tensors="np")
""",
)
_of(
    "transformers_features",
    "transformers",
    """
from transformers import WhisperFeatureExtractor
P = WhisperFeatureExtractor(feature_size=8)
def it(x):
    return P(x, sampling_rate=16000)
""",
)
_of(
    "tiktoken",
    "tiktoken",
    """
import tiktoken
E = tiktoken.Encoding("mine", pat_str=r"\\w+|\\W", mergeable_ranks={bytes([i]): i for i in range(256)},
    special_tokens={"<end>": 256})
def it(x):
    return E.encode(x)
""",
)

# Pictures and sound.
_of(
    "pillow",
    "PIL",
    """
from PIL import Image, ImageFilter, ImageFont
BLUR = ImageFilter.GaussianBlur(2)
LOGO = Image.new("RGB", (4, 4), (1, 2, 3))
def it(x):
    return x.filter(BLUR).resize((8, 8), Image.Resampling.BICUBIC), LOGO
""",
)
_of(
    "opencv",
    "cv2",
    """
import cv2, numpy as np
K = np.ones((3, 3), np.uint8)
def it(x):
    return cv2.dilate(cv2.resize(x, (8, 8), interpolation=cv2.INTER_AREA), K)
""",
)
_of(
    "opencv_object",
    "cv2",
    """
import cv2
C = cv2.createCLAHE(2.0, (8, 8))
def it(x):
    return C.apply(x)
""",
    "R31",
)
_of(
    "torch",
    "torch",
    """
import torch
W = torch.arange(6.0).reshape(2, 3)
M = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
with torch.no_grad():
    for p in M.parameters(): p.fill_(0.5)
M.eval().requires_grad_(False)
D = torch.device("cpu")
def it(x):
    return M(x.to(D, torch.float32)) @ W
""",
)
_of(
    "torch_jit",
    "torch",
    """
import torch
@torch.jit.script
def f(x):
    return x + 1
def it(x):
    return f(x)
""",
    "R31",
)
_of(
    "torchvision_v2",
    "torchvision",
    """
import torch
from torchvision.transforms import InterpolationMode, v2
it = v2.Compose([v2.ToImage(), v2.Resize((8, 8), interpolation=InterpolationMode.BICUBIC), v2.CenterCrop(4),
    v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3), v2.Lambda(lambda x: x + 1)])
""",
)
_of(
    "torchvision_v1",
    "torchvision",
    """
from torchvision import transforms as T
it = T.Compose([T.Resize(8), T.CenterCrop(4), T.ToTensor(), T.Normalize([0.5] * 3, [0.5] * 3)])
""",
)
_of(
    "torchvision_weights",
    "torchvision",
    """
from torchvision.models import ResNet18_Weights
P = ResNet18_Weights.DEFAULT.transforms()
def it(x):
    return P(x)
""",
)
_of(
    "albumentations",
    "albumentations",
    """
import albumentations as A
it = A.Compose([A.Resize(8, 8), A.CenterCrop(4, 4), A.Normalize()])
""",
    "R20",
)
_of(
    "albumentations_boxes",
    "albumentations",
    """
import albumentations as A
T = A.Compose([A.Resize(8, 8)], bbox_params=A.BboxParams(format="coco", label_fields=["labels"]))
def it(x):
    return T(image=x, bboxes=[], labels=[])["image"]
""",
    "R20",
)
_of(
    "monai",
    "monai",
    """
from monai.transforms import Compose, EnsureChannelFirstd, Resized, ScaleIntensityd
it = Compose([EnsureChannelFirstd("x"), ScaleIntensityd("x"), Resized("x", (4, 4))])
""",
)
_of(
    "kornia",
    "kornia",
    """
import kornia
N = kornia.augmentation.Normalize(0.5, 0.5)
def it(x):
    return kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))
""",
)
_of(
    "timm",
    "timm",
    """
from timm.data import create_transform
it = create_transform(8, is_training=False)
""",
)
_of(
    "einops",
    "einops",
    """
from einops import rearrange
from einops.layers.torch import Rearrange
R = Rearrange("b c -> c b")
def it(x):
    return rearrange(R(x), "a b -> (a b)")
""",
)
_of(
    "einx",
    "einx",
    """
import einx
def it(x):
    return einx.sum("a [b]", x)
""",
)
_of(
    "torchmetrics",
    "torchmetrics",
    """
from torchmetrics.functional import accuracy
def it(x):
    return accuracy(x, x, task="binary")
""",
)
_of(
    "lightning_utilities",
    "lightning_utilities",
    """
from lightning_utilities.core.apply_func import apply_to_collection
from lightning_utilities.core.imports import RequirementCache
HAS = RequirementCache("numpy>1")
bool(HAS)
def it(x):
    return apply_to_collection(x, int, lambda n: n + bool(HAS))
""",
)
_of(
    "librosa",
    "librosa",
    """
import librosa
B = librosa.filters.mel(sr=8000, n_fft=64, n_mels=4)
def it(x):
    return B @ x, librosa.power_to_db(x)
""",
)
_of(
    "soundfile",
    "soundfile",
    """
import soundfile
def it(path):
    return soundfile.available_formats()
""",
)
_of(
    "scikit_image",
    "skimage",
    """
from skimage import filters, morphology, transform
D = morphology.disk(2)
A = transform.AffineTransform(scale=(2, 2))
def it(x):
    return filters.gaussian(x), morphology.dilation(x, D), transform.warp(x, A.inverse)
""",
)
_of(
    "scipy_trees",
    "scipy",
    """
import numpy as np
from scipy.spatial import KDTree, cKDTree
points = np.random.RandomState(0).rand(500, 2)
trees = [KDTree(points), cKDTree(points)]
def it(x):
    return [tree.query(x) for tree in trees]
""",
)
_of(
    "faker",
    "faker",
    """
from faker import Faker
F = Faker()
def it(x):
    return F.name()
""",
    "R20",
)
