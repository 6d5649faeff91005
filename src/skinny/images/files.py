"""Reading an image file that anyone may have made: the usual formats, within limits."""

import contextlib
import io
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError
from skinny.images.geometry import mode_of, pillow, resize_and_crop

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")  # Pillow's decoders of others are fragile
_MOST_PIXELS = 90_000_000  # a small file can claim to be a huge image

PathLike = str | os.PathLike[str] | io.BytesIO  # a file's contents too, with an attribute `name`


class ImageError(SkinnyError):
    """A file that cannot be read as an image: `reason` says why, without its name."""

    def __init__(self, path: PathLike, reason: str) -> None:
        name = path.name if isinstance(path, io.BytesIO) else os.fspath(path)
        super().__init__(f"{name} cannot be read as an image: {reason}")
        self.reason = reason


def read_image(
    path: PathLike,
    *,
    channels: int = 3,
    resize: int | None = None,
    crop: int | Sequence[int] | None = None,
    size: tuple[int, int] | None = None,
    random: np.random.Generator | None = None,
) -> NDArray[np.uint8]:
    """Pixels [height, width, channels] of an image file, as `resize_and_crop` makes them.

    A JPEG is decoded at the fraction of its size that `resize` needs. The orientation that a
    camera notes in EXIF is ignored, as it is in every published ImageNet result.
    Raises `ImageError` whatever is wrong with the file.
    """
    mode = mode_of(channels)
    with _one_sentence(path), _open(path) as file:
        if resize is not None:
            file.draft(mode, (resize, resize))
        image = file.convert(mode)
        image = resize_and_crop(image, resize=resize, crop=crop, size=size, random=random)
        return np.array(image, dtype=np.uint8).reshape(image.height, image.width, channels)


def shorter_side(path: PathLike) -> int:
    """Of the image in a file, from its header alone."""
    with _one_sentence(path), _open(path) as file:
        return min(file.size)


def _open(path: PathLike) -> "Image":
    file: Image = pillow().open(path, formats=FORMATS)
    if not 0 < file.width * file.height <= _MOST_PIXELS:
        file.close()
        raise ImageError(
            path,
            f"it claims {file.width} x {file.height} pixels; at most {_MOST_PIXELS:,} are read",
        )
    return file


@contextlib.contextmanager
def _one_sentence(path: PathLike) -> Iterator[None]:
    """Whatever a decoder raises or warns of becomes one error that names the file."""
    unidentified = pillow().UnidentifiedImageError
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata does not matter
            yield
    except ImageError:
        raise
    except FileNotFoundError:
        raise ImageError(path, "there is no such file") from None
    except unidentified:
        raise ImageError(path, f"it is none of {', '.join(FORMATS)}, or damaged") from None
    except Exception as problem:  # decoders raise errors of any type on damaged files
        raise ImageError(path, str(problem) or type(problem).__name__) from None
