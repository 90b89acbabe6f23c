"""A case's pipeline graph as the JSON of `prebake.v1.Graph`.

A case says what files hold and what surrounds the run; here each operator takes up what of that it
depends on, as the shims do: files by relative path and content, libraries by version, variables only
where they are named.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import json
import os
import re
from typing import Any

from prebake.known import calls, classes
from prebake.runtime import packages
from prebake.runtime.errors import Code

Json = dict[str, Any]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Operators that read a source: their files are items by path and content, in order.
READERS = (
    "read",
    "list_files",
    "glob",
    "files",
    "source",
    "image_folder",
    "text_line",
    "tfrecord",
    "record_io",
)
#: Operators that hold code, which only a digest of it tells of.
OPAQUE = (
    "py_func", "pyfunc", "numpy_function", "lambda", "generator", "udf", "python", "external", "callable",
)  # fmt: skip
#: Parameters that tell what such code is, or what something outside holds.
TELLING = words(
    "code source fn digest body sha sha256 checksum etag version snapshot commit revision code_digest"
)
#: Parameters of a source that say where its files lie.
WHERE = words("files file path paths root dir folder glob pattern filenames file_pattern")
#: What the calls table says of clocks, by bare name: `now`, `timestamp`, `uuid4`.
CLOCK = frozenset(
    name.rpartition(".")[2].rstrip("0123456789")
    for name, verdict in calls.CALLS.items()
    if verdict is Code.CLOCK
)
#: Operators that only choose items or their order: an item's own result is the same without them.
CHOOSING = ("shard", "shuffle", "take", "skip", "repeat", "subset", "sample")
#: Operators that keep something from one item to the next: they have no result for one file.
GATHERING = ("batch", "pack", "window", "zip", "group", "interleave", "concat", "cache", "fold", "scan")
#: Operators whose arithmetic is exact on every processor.
EXACT = (
    *READERS, *CHOOSING, *GATHERING, "tokenize", "const", "filter", "parse", "identity", "prefetch",
)  # fmt: skip
#: Libraries that only look after the work; no operator's result depends on them.
BYSTANDERS = packages.BYSTANDERS | words(
    "black ruff flake8 mypy pytest pylint isort tqdm rich wandb mlflow tensorboard matplotlib seaborn "
    "ipython "
    "jupyter notebook pre-commit sphinx coverage tox nox"
)
#: What the libraries of the field do; a library in neither list counts for every operator.
LIBRARIES = {
    "image": (words("pillow pillow-simd opencv-python libjpeg libjpeg-turbo torchvision libpng simplejpeg")),
    "text": (words("tokenizers transformers sentencepiece tiktoken spacy nltk regex")),
    "audio": (words("torchaudio librosa soundfile ffmpeg sox")),
}
IMAGE = (
    "decode",
    "resize",
    "crop",
    "normalize",
    "flip",
    "rotate",
    "blur",
    "pad",
    "jitter",
    "color",
    "jpeg",
    "png",
)
TEXT = ("tokenize", "token", "text", "bpe", "lower", "vocab")
AUDIO = ("resample", "mel", "mfcc", "spectrogram", "audio", "wav", "flac")
#: Of the surroundings themselves, what every operator's result may depend on.
RUNTIME = frozenset({"python", "platform", "os", "cuda", "driver", "libc"})

#: Other words for what `fingerprint/src/rules.rs` leaves out, and what is only told while an operator runs.
#: No parameter that may mean something else: a `label` or `desc` counts.
KNOBS = words(
    "num_proc num_threads threads workers max_workers n_jobs writer_batch_size name description verbose "
    "progress log_level"
)
PREFETCHED = words("buffer size count depth n")


class Refused(Exception):
    """The case's graph has no answer; says why."""


def translate(side: Json, at: str | None = None) -> Json:
    """The graph up to `at` (`node` or `node[file]`), or the output.

    Raises `Refused` if it must not be cached.
    """
    nodes, output, only = side["nodes"], at or side["output"], None
    if output not in nodes and output.endswith("]"):
        output, _, only = output[:-1].partition("[")
        nodes = _of_one_item(nodes, output)
    if output not in nodes:
        raise Refused(f"there is no {output}")
    needed = _upstream(nodes, output)
    operators = []
    for name, node in nodes.items():
        operators.append(_operator(name, node, side, only))
        determinism = operators[-1]["determinism"]
        if name in needed and ("random" in determinism or "unknown" in determinism):
            raise Refused(f"{name} is {determinism}")
    return {"version": 1, "operators": operators, "output": output}


def _of_one_item(nodes: Json, output: str) -> Json:
    """The graph as one item sees it: what chooses items or orders them is passed through."""
    if any(word in nodes.get(output, {"op": ""})["op"] for word in GATHERING):
        raise Refused(f"{output} gathers several files")

    def through(edge: list[Any]) -> list[Any]:
        seen: set[str] = set()
        while (
            edge[0] not in seen
            and edge[0] in nodes
            and nodes[edge[0]]["in"]
            and _is(nodes[edge[0]], CHOOSING)
        ):
            seen.add(edge[0])
            edge = nodes[edge[0]]["in"][0]
        return edge

    return {name: {**node, "in": [through(edge) for edge in node["in"]]} for name, node in nodes.items()}


def _upstream(nodes: Json, output: str) -> set[str]:
    found, pending = set(), [output]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        if name not in nodes:
            raise Refused(f"there is no {name}")
        found.add(name)
        pending += [source for source, _ in nodes[name]["in"]] + nodes[name].get("ctl", [])
    return found


def _parts(name: str) -> list[str]:
    """The words of an operator's name, however it is written: `random_crop`, `RandomCrop`."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def _is(node: Json, words: tuple[str, ...] | frozenset[str]) -> bool:
    """Whether an operator's name is made of one of some words: `resample` does not sample."""
    parts = _parts(node["op"])
    whole = "_".join(parts)
    return any(
        f"_{whole}".find(f"_{word}") >= 0 or any(part.startswith(word) for part in parts) for word in words
    )


def _draws(node: Json) -> bool:
    """Whether an operator draws random numbers, as the shim judges classes, and methods, by their names."""
    parts = _parts(node["op"])
    if "stateless" in parts:
        return False
    camel = "".join(part.capitalize() for part in parts)
    return any(word in camel for word in classes.WORDS) or bool(calls.SEEDABLE_METHODS & set(parts))


def _operator(name: str, node: Json, side: Json, only: str | None) -> Json:
    attributes, environment, files = dict(node["attrs"]), side.get("env", {}), side.get("files", {})
    # Where an operator holds code or draws, even a worker count decides what it yields.
    if "." not in node["op"] and not _is(node, OPAQUE) and not _draws(node):
        for word in KNOBS & attributes.keys():
            del attributes[word]
        for word in PREFETCHED & attributes.keys() if node["op"] == "prefetch" else ():
            attributes["buffer_size"] = attributes.pop(word)
    version = attributes.pop("version", "")
    if not isinstance(version, str):
        attributes["version"], version = version, ""
    determinism = _determinism(node, attributes, environment)
    if attributes.get("reshuffle_each_iteration") is True or attributes.get("per_epoch") is True:
        attributes["epoch"] = environment.get("epoch")
    surroundings = _surroundings(node, attributes, environment)
    operator: Json = {"id": name, "name": node["op"], "version": version, "determinism": determinism}
    if not node["in"]:
        content = [attributes, surroundings, _items(node, attributes, files, only)]
        operator["source"] = {"snapshot": hashlib.sha256(_canonical(content)).hexdigest()}
    else:
        known = {key: _resolved(value, environment, files) for key, value in attributes.items()}
        params = known | ({"surroundings": surroundings} if surroundings else {})
        operator["params"] = {key: _value(value) for key, value in params.items()}
        operator["inputs"] = [{"operator": source, "port": port} for source, port in node["in"]]
    return operator | {"after": list(node.get("ctl", []))}


def _determinism(node: Json, attributes: Json, environment: Json) -> Json:
    if _is(node, OPAQUE) and not TELLING & attributes.keys():
        return {"unknown": "code that nothing tells of"}
    bare = "_".join(part for part in _parts(node["op"]) if part not in ("get", "current", "read"))
    if bare.rstrip("0123456789") in CLOCK:
        return {"unknown": "reads the clock"}
    if attributes.get("deterministic") is False or attributes.get("ordered") is False:
        return {"unknown": "in no fixed order"}
    if _draws(node):
        seeds = [_seed(attributes[key], environment) for key in sorted(calls.SEEDS & attributes.keys())]
        known = [seed for seed in seeds if seed is not None]
        return {"seeded": str(known[0])} if known else {"random": True}
    return {"deterministic": True}


def _seed(value: Any, environment: Json) -> int | None:
    """A seed that is certain; one of several numbers, as stateless generators take, counts as one."""
    if isinstance(value, str):
        value = environment.get(value.removeprefix("env."))
    if isinstance(value, list) and value:
        digest = hashlib.sha256(_canonical(value)).digest()
        return (
            int.from_bytes(digest[:7])
            if all(_seed(each, environment) is not None for each in value)
            else None
        )
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _surroundings(node: Json, attributes: Json, environment: Json) -> Json:
    """What of the run's surroundings the operator depends on."""
    found = {}
    declared = [attributes.get(key) for key in ("env", "environment", "declared_env", "env_vars")]
    names = {name for each in declared for name in (each if isinstance(each, list) else [each])}
    for key, value in environment.items():
        kind, _, rest = key.partition(":")
        if kind == "lock" or kind == "lib":
            counts = _depends(node, rest.lower().replace("_", "-"))
        elif kind in ("version", "op"):
            counts = rest == node["op"]
        elif key in ("arch", "cpu", "isa"):
            counts = not _is(node, EXACT)
        else:
            counts = key in names or key in RUNTIME or kind in ("declared", "env")
        if counts:
            found[key] = value
    return found


def _depends(node: Json, library: str) -> bool:
    if library in BYSTANDERS:
        return False
    for kind, words in (("image", IMAGE), ("text", TEXT), ("audio", AUDIO)):
        if library in LIBRARIES[kind]:
            return _is(node, words)
    return True


def _items(node: Json, attributes: Json, files: Json, only: str | None) -> list[list[str]]:
    """A source's files in order: path below their common folder, and content."""
    named: list[str] = []
    told = TELLING & node["attrs"].keys()
    for value in attributes.values():
        for text in value if isinstance(value, list) else [value]:
            if not isinstance(text, str):
                continue
            below = text.rstrip("/") + "/"
            if text in files:
                named.append(text)
            elif any(c in text for c in "*?["):
                named += sorted(file for file in files if fnmatch.fnmatch(file, text))
            elif any(file.startswith(below) for file in files):
                named += sorted(file for file in files if file.startswith(below))
            elif not told and ("://" in text or text in _paths(attributes)):
                raise Refused(f"nothing tells what {text} holds")
    folder = os.path.commonpath([os.path.dirname(name) for name in named]) if named else ""
    items = []
    for name in named:
        sha = files[name].get("sha")
        if not isinstance(sha, str) or not sha:
            raise Refused(f"nothing tells what {name} holds")
        if only in (None, name, os.path.relpath(name, folder or ".")):
            items.append([os.path.relpath(name, folder or "."), sha])
    for key in WHERE & attributes.keys():
        # Where the files lie is no part of what they are.
        if items:
            attributes.pop(key)
    if only is not None and not items:
        raise Refused(f"{only} is no file of this source")
    return items


def _paths(attributes: Json) -> list[Any]:
    """What a source says that it reads."""
    named = [attributes[key] for key in WHERE & attributes.keys()]
    return [text for each in named for text in (each if isinstance(each, list) else [each])]


def _resolved(value: Any, environment: Json, files: Json) -> Any:
    """An attribute by what it stands for: a variable's value, a file's content."""
    if isinstance(value, list):
        return [_resolved(each, environment, files) for each in value]
    if isinstance(value, dict):
        return {key: _resolved(each, environment, files) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    if value.startswith("env."):
        return {"variable": environment.get(value[len("env.") :])}
    if value in files:
        # Of its name only the ending can matter, which says how it is read.
        return {"file": files[value].get("sha"), "kind": os.path.splitext(value)[1]}
    if value == "epoch":
        return {"epoch": environment.get("epoch")}
    return value


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=str).encode()


def _value(value: Any) -> Json:
    if value is None:
        return {"null": True}
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return {"integer": str(value)}
    if isinstance(value, int):
        # What no integer of a graph holds; no case has bytes otherwise.
        return {"bytes": base64.b64encode(str(value).encode()).decode()}
    if isinstance(value, float):
        return {
            "real": value
            if value - value == 0
            else "NaN"
            if value != value
            else "Infinity"
            if value > 0
            else "-Infinity"
        }
    if isinstance(value, list):
        return {"list": {"values": [_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"map": {"entries": {str(key): _value(each) for key, each in value.items()}}}
    return {"text": str(value)}
