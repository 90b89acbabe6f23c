"""Functions that steps call in another module of the user's, where edits exchange them."""

from typing import Any

from PIL import ImageOps

BIAS = 0


def invert(x: Any) -> Any:
    return ImageOps.invert(x)


def mirror(x: Any) -> Any:
    return ImageOps.mirror(x)


shift = invert
