"""Elements of a batch as one array."""

from __future__ import annotations

from typing import Any


def stacked(found: list[Any]) -> Any:
    """One array of equal arrays; else the list."""
    first = found[0]
    if not hasattr(first, "dtype") or type(first).__module__ != "numpy":
        return found
    import numpy

    if all(
        type(each) is numpy.ndarray and each.dtype == first.dtype and each.shape == first.shape
        for each in found
    ):
        return numpy.stack(found)
    return found
