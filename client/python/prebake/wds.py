"""webdataset: `wds.WebDataset(urls).decode(...).map(...).compose(prebake.wds.cached())`.

Everything above the cache that works shard by shard is shared: a shard's samples are known by the stages and
the content of its file, which is not even opened when they are there. Shuffling and batching belong below.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, overload
from urllib.parse import urlparse

from prebake.encoding.digests import digest
from prebake.frameworks.entries import Entries, Input, in_turn
from prebake.runtime import daemon
from prebake.runtime.errors import Code, Refused, warn_once
from prebake.runtime.refusals import not_cached

CONTEXT = "prebake 2026 wds shard v1"
#: Samples in an entry: few enough that decoded photographs fit the largest element.
SAMPLES = 16
#: Stages of webdataset that look at one shard, mostly at one sample, at a time.
SHARD_BY_SHARD = (
    "_decode",
    "_extract_keys",
    "_map",
    "_map_dict",
    "_map_tuple",
    "_rename",
    "_rename_keys",
    "_select",
    "_to_tuple",
    "_xdecode",
    "group_by_keys",
    "tar_file_expander",
)


Sample = TypeVar("Sample")
#: What is made of the samples that it is given.
Stage = Callable[[Iterable[Any]], Iterator[Sample]]


@overload
def cached() -> Callable[[Iterable[Sample]], Iterator[Sample]]: ...
@overload
def cached(*stages: *tuple[*tuple[Stage[Any], ...], Stage[Sample]]) -> Stage[Sample]: ...
def cached(*stages: Any) -> Any:
    """A stage for `compose`: shares what the stages above it and those given make of each shard.

    Of shards that are not local files, and where a stage cannot be shared, everything runs unchanged, and a
    warning says why, once.

    Parameters
    ----------
    *stages
        Further stages, each from an iterable of samples to an iterator.

    Returns
    -------
    callable
        A stage: from an iterable of samples to an iterator of what the last of `stages` makes of them.

    Examples
    --------
    >>> import prebake
    >>> import webdataset as wds
    >>> ds = wds.WebDataset("shard.tar", shardshuffle=False).decode().compose(prebake.wds.cached())
    >>> [sample["txt"] for sample in ds]
    ['Bake once', 'serve every job']
    """
    return functools.partial(_cached, stages)


def _cached(stages: tuple[Any, ...], source: Iterable[Any]) -> Iterator[Any]:
    for stage in stages:
        source = stage(source)
    if daemon.native() is None or daemon.connection() is None:
        return iter(source)
    try:
        return _shared(_Shards(source))
    except Exception as error:
        # Looking at an odd pipeline can raise anything; the job must not.
        not_cached(error)
        return iter(source)


class _Stage(NamedTuple):
    """A stage that was called but has not begun: its function and what it was given beside its source."""

    function: Any
    arguments: dict[str, Any]

    def over(self, source: Any) -> Iterator[Any]:
        signature = inspect.signature(self.function)
        bound = signature.bind_partial()
        bound.arguments.update({next(iter(signature.parameters)): source, **self.arguments})
        return self.function(*bound.args, **bound.kwargs)


class _Shards:
    """A pipeline taken apart: where its shards come from, and what is made of each. Raises `Refused`."""

    def __init__(self, source: Any) -> None:
        from webdataset import cache, compat, filters, handlers, tariterators

        known = {
            function.__code__: function
            for module in (compat, filters, tariterators)
            for function in vars(module).values()
            if isinstance(function, types.FunctionType)
        }
        opening = cache.StreamingOpen.__call__.__code__
        self.stages: list[_Stage] = []
        #: Whether no samples at all are an error, as `WebDataset` has it.
        self.checked = False
        while True:
            if not _is_unstarted(source):
                raise Refused(
                    Code.DATASET, "the cache must stand below stages of webdataset that read local shards"
                )
            given = inspect.getgeneratorlocals(source)
            if source.gi_code is opening:
                self.open, self.urls = given["self"], given["urls"]
                handling = [self.open.handler]
                break
            function: Any = known.get(source.gi_code)
            if function is tariterators.url_opener:
                self.open, self.urls = _Stage(function, _others(function, given)).over, given["data"]
                handling = [given["handler"]]
                break
            if function is compat.check_empty:
                self.checked = True
            elif function is None or function.__name__ not in SHARD_BY_SHARD:
                raise Refused(
                    Code.CARRIES_STATE,
                    f"the stage {source.gi_code.co_name} is not known to work shard by shard; "
                    "put it below the cache",
                )
            else:
                self.stages.insert(0, _Stage(function, _others(function, given)))
            source = given[next(iter(inspect.signature(function).parameters))]
        handling += [stage.arguments.get("handler") for stage in self.stages]
        raising = (None, filters.reraise_exception, handlers.reraise_exception)
        if any(each not in raising for each in handling):
            raise Refused(
                Code.UNSTABLE,
                "with a handler of errors, what is left of a shard may differ; use reraise_exception",
            )
        self.step = functools.partial(_samples, stages=[tuple(stage) for stage in self.stages])
        # Refused now, before anything is read.
        Entries(self.step, [], lambda i: None)

    def samples(self, url: Any) -> Iterator[Any]:
        """What the pipeline makes of one shard."""
        source = self.open([url])
        for stage in self.stages:
            source = stage.over(source)
        return source


def _is_unstarted(source: Any) -> bool:
    return isinstance(source, types.GeneratorType) and inspect.getgeneratorstate(source) == "GEN_CREATED"


def _others(function: Any, given: dict[str, Any]) -> dict[str, Any]:
    """A stage's arguments beside its source, by name."""
    names = list(inspect.signature(function).parameters)
    return {name: given[name] for name in names[1:]}


def _shared(shards: _Shards) -> Iterator[Any]:
    found = False
    for url in shards.urls:
        found = True
        yield from _shard(shards, url)
    if shards.checked and not found:
        from webdataset.compat import check_empty

        yield from check_empty(iter(()))


def _shard(shards: _Shards, url: Any) -> Iterator[Any]:
    """One shard's samples, in entries of a fixed number; the first short one is the last."""
    name = url["url"] if isinstance(url, dict) else url
    parsed = urlparse(name)
    if parsed.scheme not in ("", "file"):
        warn_once("remote shard", f"not cached: {Code.NETWORK} the shard {name} is no local file")
        yield from shards.samples(url)
        return

    def describe(part: int) -> Input:
        # The name too: samples hold it.
        known = digest(CONTEXT, f"{part} {name}".encode("utf-8", "surrogatepass"))
        return Input(known, f"{name} {part}", [parsed.path])

    def begin(part: int) -> Iterator[Any]:
        return itertools.islice(shards.samples(url), part * SAMPLES, None)

    def take(samples: Iterator[Any]) -> list[Any]:
        return list(itertools.islice(samples, SAMPLES))

    for samples in in_turn(shards.step, describe, begin, take):
        yield from samples
        if len(samples) < SAMPLES:
            return


def _samples(shard: Any, stages: list[Any]) -> None:
    """Stands for running the stages over a shard, in the description of its entries."""


__all__ = ["cached"]
