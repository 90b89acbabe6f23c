"""What a value's results depend on beside itself: versions, variables and files it names, flags of the
process.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prebake.encoding.encoder import Encoder
from prebake.encoding.leaves import Leaf
from prebake.known import calls, classes
from prebake.runtime import packages
from prebake.world import ambient, by_number, package_settings, world


def _cpus() -> str:
    """As many threads as Polars will start."""
    return os.environ.get("POLARS_MAX_THREADS") or str(len(os.sched_getaffinity(0)))


#: Flags of a process that change what installed code yields: distribution, module, attributes, value if
#: unloaded.
FLAGS: tuple[tuple[str, str, str, Any], ...] = (
    ("pillow", "PIL.ImageFile", "LOAD_TRUNCATED_IMAGES", False),
    ("torch", "torch", "get_default_dtype", "torch.float32"),
    # Its tables come in so many pieces, on which the last bit of a sum depends.
    ("polars", "polars", "thread_pool_size", _cpus),
)
#: Module and attribute of each.
FLAGS_OF = tuple((module, attribute) for _, module, attribute, _ in FLAGS)
#: What decimal arithmetic is done by; its flags only tell what happened.
CONTEXT = ("prec", "rounding", "Emin", "Emax", "clamp", "capitals")
#: Packages, and what tells how they are set. One item in a thousand may show it: to compute some again does
#: not.
_TOLD: tuple[tuple[str, Callable[[], Any]], ...] = (
    ("numpy", package_settings.numpy_errors),
    ("scikit-learn", package_settings.sklearn),
    ("mpmath", package_settings.mpmath),
    ("numpy", ambient.arithmetic),
    ("torch", ambient.arithmetic),
)
#: What asks a logger which messages it would write, or takes those that it writes.
ASKS_LEVEL = frozenset({"isEnabledFor", "getEffectiveLevel", "addHandler", "Handler", "LogRecord"})
#: Options of pandas that change what it yields, not only how it is shown.
OPTIONS = ("mode.string_storage",)
#: Those of versions before 3, which later ones only warn of.
OLD_OPTIONS = ("mode.copy_on_write", "mode.use_inf_as_na", "future.infer_string")
#: Versions and flags that are kept as they are written: a job has some tens.
PARTS_MAX = 1000
#: Words in the names of variables that hold secrets.
SECRETS = ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH")


def surround(encoder: Encoder, write_assigned: Callable[[Encoder], None]) -> None:
    """Writes them, and a leaf for each; what was assigned in them by `write_assigned`."""
    encoder.emit("tables", f"{calls.VERSION} {classes.VERSION}".encode())
    for owner in packages.required(frozenset(encoder.packages)):
        encoder.packages.setdefault(owner.name, owner.version)
    write_assigned(encoder)
    for name, version in sorted(encoder.packages.items()):
        encoder.again(*_part("version", f"package {name}", version))
    for name in _variables(frozenset(encoder.packages)):
        encoder.variable(name)
    for name, value in sorted(encoder.variables.items()):
        # The value counts, but what is a secret is shown to nobody.
        secret = any(word in name.upper() for word in SECRETS)
        _named(encoder, "environment", f"[env] {name}", value, shown=not secret)
    for path, content in sorted(encoder.files.items()):
        # Where the file lies does not count, only what it holds; its name is in the code.
        _named(encoder, "environment", f"[file] {path}", content)
    for module, _ in FLAGS_OF:
        encoder.watch.looked_up(sys.modules, module)
    for (distribution, module, attribute, _), value in zip(FLAGS, flags(), strict=True):
        if distribution in encoder.packages:
            encoder.again(*_part("environment", f"[process] {module}.{attribute}", value))
    for name, value in _settings(encoder):
        encoder.watch.is_loose = True
        encoder.again(*_part("environment", f"[process] {name}", value))


def _variables(distributions: frozenset[str]) -> list[str]:
    """Variables that are called after a distribution: compiled code of its may read them unseen."""
    variables: Mapping[bytes, bytes] = getattr(os.environ, "_data", None) or os.environb
    starts = _starts(distributions)
    found = (name for name in list(variables) if name.startswith(starts) and world.counts_variable(name))
    return sorted(map(os.fsdecode, found))


#: Its distributions all have one module.
_OPENCV = ("python", "python-headless", "contrib-python", "contrib-python-headless")


@functools.lru_cache(maxsize=PARTS_MAX)
def _starts(distributions: frozenset[str]) -> tuple[bytes, ...]:
    also = (_ALSO[name].split() for name in distributions & _ALSO.keys())
    names = {*distributions, *itertools.chain.from_iterable(also)}
    return tuple(sorted(name.upper().replace("-", "_").encode() + b"_" for name in names))


#: By what else variables are called that they read: their libraries', for the most part.
_ALSO = {
    **dict.fromkeys(("fiona", "pyogrio", "rasterio"), "gdal ogr proj"),
    **dict.fromkeys(("h5py", "netcdf4", "tables"), "hdf5"),
    **dict.fromkeys(("jax", "jaxlib"), "xla"),
    **dict.fromkeys((f"opencv-{each}" for each in _OPENCV), "opencv"),
    "numpy": "npy",
    "onnxruntime": "ort",
    "pyarrow": "arrow",
    "pyproj": "proj",
    "scikit-learn": "sklearn",
    "torch": "pytorch aten",
}


def _settings(encoder: Encoder) -> Iterable[tuple[str, str]]:
    """Settings of the process that are looked at only for code that may depend on them."""
    decimal, pandas = sys.modules.get("decimal"), sys.modules.get("pandas")
    if decimal is not None and encoder.names & {"Decimal", "decimal"}:
        context = decimal.getcontext()
        for name in CONTEXT:
            yield f"decimal.getcontext().{name}", str(getattr(context, name))
        yield (
            "decimal.getcontext().traps",
            ", ".join(each.__name__ for each in context.traps if context.traps[each]),
        )
    logging = sys.modules.get("logging")
    if logging is not None and encoder.names & ASKS_LEVEL:
        yield "levels of logging", str(_levels(logging))
        # By the numbers that are, and by names that stand for them.
        yield "names of levels", str((logging._levelToName, logging._nameToLevel))
    if encoder.names & by_number.NAMES:
        yield "files that are open", str(by_number.files())
    if "csv" in encoder.standard:
        yield "dialects of csv", str(ambient.dialects())
    if "logging" in encoder.standard and (names := ambient.level_names()):
        yield "what levels are called", str(names)
    # Code that catches them goes another way, perhaps for one item in a thousand.
    for tells in (package_settings.raising_warnings, package_settings.interpreter):
        if found := tells():
            yield tells.__name__, str(found)
    for distribution, tells in _TOLD:
        # What is as it is at first says nothing.
        if distribution in encoder.packages and (found := tells()):
            yield f"settings of {distribution}", str(found)
    if pandas is not None and "pandas" in encoder.packages:
        old = pandas.__version__.startswith(("1.", "2."))
        for name in (*OPTIONS, *(OLD_OPTIONS if old else ())):
            try:
                yield f"pandas {name}", str(pandas.get_option(name))
            except Exception:
                # This version has no such option.
                continue


def _levels(logging: Any) -> list[tuple[str, int]]:
    """Levels that are set, and what is disabled for all."""
    root, loggers = logging.root, dict(logging.root.manager.loggerDict)
    found = [(name, level) for name, each in loggers.items() if (level := getattr(each, "level", 0))]
    return [("", root.level), ("disabled", root.manager.disable), *sorted(found)]


def flags() -> tuple[str, ...]:
    """The flags' values now. Those of modules that are not loaded are as they will be."""
    found = []
    for _, module, attribute, unloaded in FLAGS:
        loaded = sys.modules.get(module)
        value = unloaded if loaded is None else getattr(loaded, attribute, unloaded)
        found.append(str(value() if callable(value) else value))
    return tuple(found)


@functools.lru_cache(maxsize=PARTS_MAX)
def _part(kind: str, name: str, value: str) -> tuple[bytes, Leaf]:
    """What is written of a text, and its leaf: the same for every value that it surrounds."""
    encoder = Encoder("")
    _named(encoder, kind, name, value)
    return bytes(encoder.out), encoder.leaves[0]


def _named(encoder: Encoder, kind: str, name: str, value: Any, shown: bool = True) -> None:
    start = len(encoder.out)
    encoder.text(kind, name)
    encoder.value(value)
    encoder.path.append(f" {name}")
    encoder.leaf(start, value if shown else object, kind)
    encoder.path.pop()
