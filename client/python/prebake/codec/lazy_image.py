"""Images that Pillow has opened and not decoded yet, as `Image.open(path)` returns them.

Many data sets hand such an image on, and its first use decodes it. It is stored as its file and its pixels.
What is made of these is opened from the file as before, so that its class, its metadata and what `draft` does
(it decodes a smaller image) are those of the original; only when it would be decoded, it takes the pixels.
"""

from __future__ import annotations

import io
import sys
import weakref
from typing import Any

from prebake.runtime.errors import Code, Refused

#: Fields that say where the file is open, and metadata that is compared by its content.
_OPEN = frozenset({"fp", "_exif"})
#: What decoding depends on besides the file.
_HOW = ("tile", "_mode", "_size", "decoderconfig", "_im")


def _jpeg() -> Any:
    """The class of JPEG images; None if nobody has imported it. Other formats read more of the file once they
    are decoded."""
    return getattr(sys.modules.get("PIL.JpegImagePlugin"), "JpegImageFile", None)


def is_one(value: Any) -> bool:
    """Whether a value is an image of this kind, opened by its path."""
    return (
        type(value) is _jpeg()
        and bool(value.tile)
        and value.fp is not None
        and value._exclusive_fp
        and type(value.filename) is str
    )


def parts(image: Any) -> tuple[bytes, Any]:
    """The file of an image, and the image decoded. The image stays as it is but that its pixels are known.
    Raises `Refused` if it was changed since it was opened."""
    from PIL import Image, ImageFile

    at = image.fp.tell()
    image.fp.seek(0)
    file = image.fp.read()
    image.fp.seek(at)
    again = _opened(file, image.filename)
    if _state(image) != _state(again) or at != again.fp.tell() or ImageFile.LOAD_TRUNCATED_IMAGES:
        raise Refused(Code.VALUE, "an opened image that was changed cannot be stored exactly; convert it")
    again.load()
    pixels = Image.Image()._new(again.im)
    _know(image, pixels)
    return file, pixels


def made(file: bytes, name: str, pixels: Any) -> Any:
    """The opened image of a file with known pixels."""
    image = _opened(file, name)
    _know(image, pixels)
    return image


def _opened(file: bytes, name: str) -> Any:
    image = _jpeg_imported()(io.BytesIO(file), name)
    # As of a file that was opened by its path: it is closed when the image is decoded.
    image._exclusive_fp = True
    return image


def _jpeg_imported() -> Any:
    from PIL import JpegImagePlugin

    return JpegImagePlugin.JpegImageFile


def _state(image: Any) -> dict[str, Any]:
    """All that an image holds, but the file."""
    state = {name: value for name, value in vars(image).items() if name not in _OPEN and name != "load"}
    exif = image._exif
    return state | {"_exif": None if exif is None else exif.tobytes()}


def _know(image: Any, pixels: Any) -> None:
    """Has an image take pixels for decoded ones, unless it is to be decoded in another way by then."""
    how, of = _how(image), weakref.ref(image)

    def load() -> Any:
        image = of()
        assert image is not None, "whoever asks holds it"
        del image.load
        if image.fp is not None and _how(image) == how:
            # As Pillow leaves an image that it has decoded.
            image.im, image.tile, image.readonly, image.map = pixels.im, [], 0, None
            image.fp.close()
            image.fp = None
        return image.load()

    image.load = load


def _how(image: Any) -> list[Any]:
    return [getattr(image, name) for name in _HOW]
