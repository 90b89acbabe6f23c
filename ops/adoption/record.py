"""What a training script takes note of: each batch that is trained on, the losses, and what the data cost.

Lines go to files of `ADOPTION_RECORD`: `batches-<rank>` and `cost-<process>`.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["ADOPTION_RECORD"])
#: Of all runs.
SEED = 7


def seed() -> None:
    """Seeds all generators that the process shares."""
    random.seed(SEED)
    try:
        import numpy

        numpy.random.seed(SEED)
        import torch
    except ImportError:
        return
    torch.manual_seed(SEED)
    torch.set_num_threads(1)


def batch(*parts: Any, loss: Any = None, rank: int = 0) -> None:
    """A batch that is trained on, and the loss of it. Equal digests are equal types, shapes and bytes."""
    digest = hashlib.sha256()
    for part in parts:
        _update(digest, part)
    noted = [
        digest.hexdigest(),
        None if loss is None else float(getattr(loss, "detach", lambda: loss)()).hex(),
        time.monotonic(),
    ]
    _note(f"batches-{rank}", noted)


def _update(digest: Any, value: Any) -> None:
    if isinstance(value, dict):
        for key in sorted(value):
            digest.update(f"{key}:".encode())
            _update(digest, value[key])
    elif isinstance(value, (list, tuple)):
        digest.update(f"{type(value).__name__}{len(value)}".encode())
        for each in value:
            _update(digest, each)
    elif isinstance(value, (str, bytes, int, float, type(None))):
        digest.update(repr(value).encode())
    else:
        array = _array(value)
        digest.update(f"{type(value).__name__} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())


def _array(value: Any) -> Any:
    import numpy

    # Tensors of torch and of TensorFlow, and arrays. Subclasses of tensors show their class in the digest.
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = getattr(value, "as_tensor", lambda: value)()
    array = numpy.asarray(value)
    if array.dtype == object:
        raise TypeError(f"a {type(value).__qualname__} cannot be told from others by its bytes")
    return array


@contextmanager
def preparing() -> Iterator[None]:
    """What happens within is preprocessing: its CPU counts, that of other threads too."""
    cpu, wall = time.process_time(), time.monotonic()
    try:
        yield
    finally:
        _note(f"cost-{os.getpid()}", [time.process_time() - cpu, wall, time.monotonic()])


def _note(name: str, what: list[Any]) -> None:
    with (FOLDER / name).open("a") as file:
        file.write(json.dumps(what) + "\n")


def _watch_loaders() -> None:
    """Counts what torch's loaders spend on fetching batches, in the job and in workers."""
    try:
        from torch.utils.data._utils import fetch
    except ImportError:
        return
    for cls in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):

        def counted(self: Any, index: Any, of: Any = cls.fetch) -> Any:
            with preparing():
                return of(self, index)

        cls.fetch = counted


_watch_loaders()
