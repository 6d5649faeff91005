"""One image file to pixels: decode, scale the shorter side, cut a square, perhaps mirror it."""

import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png")

_FORMATS = ("JPEG", "PNG")


def decode(
    path: Path, *, resize: int, crop: int, random: np.random.Generator | None, mirror: bool
) -> NDArray[np.uint8]:
    """Pixels [3, crop, crop] of a JPEG or PNG file.

    The shorter side is scaled to `resize`; the square is cut at random, or at the centre if
    `random` is None. Every image becomes RGB. The orientation that a camera notes in EXIF is
    ignored, as it is in every published ImageNet result.
    Raises OSError, ValueError or another exception of Pillow's if the file is damaged.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd metadata is no reason to speak
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(path, formats=_FORMATS) as file:
            file.draft("RGB", (resize, resize))  # a JPEG is decoded at a fraction of its size
            image = file.convert("RGB")
    scale = resize / min(image.size)
    width, height = (max(resize, round(side * scale)) for side in image.size)
    if (width, height) != image.size:
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    if random is None:
        left, top = (width - crop) // 2, (height - crop) // 2
    else:
        left = int(random.integers(width - crop + 1))
        top = int(random.integers(height - crop + 1))
    pixels = np.asarray(image.crop((left, top, left + crop, top + crop)))
    if mirror:
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def shorter_side(path: Path) -> int:
    """Of the image in a file, from its header alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(path, formats=_FORMATS) as file:
            return min(file.size)
