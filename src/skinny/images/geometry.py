"""Bringing an image to a network's size: scale the shorter side, cut out a window."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError

if TYPE_CHECKING:
    from PIL.Image import Image

MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # Pillow's, by channels
_MOST_ENLARGED = 1 << 24  # pixels of an image that scaling makes larger


def pillow() -> Any:
    """The module `PIL.Image`, which is loaded when it is first needed."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise SkinnyError(
            "reading and resizing images needs Pillow: pip install 'skinny-nn[images]'"
        ) from None
    return Image


def mode_of(channels: int) -> str:
    if channels not in MODES:
        raise SkinnyError(f"an image of {channels} channels is not possible; it has 1, 3 or 4")
    return MODES[channels]


def resize_and_crop(
    image: "Image",
    *,
    resize: int | None,
    crop: int | Sequence[int] | None,
    size: tuple[int, int] | None = None,
    random: np.random.Generator | None = None,
) -> "Image":
    """The image with its shorter side scaled to `resize`, of which a window of `crop` is cut out.

    crop: the window's side, or its height and width. It is cut at the centre, or at random if
    `random` is given. size: height and width to which the result is then scaled, whatever its
    proportions. None leaves resizing or cropping out.
    """
    if resize is not None:
        image = _scale(image, _scaled_size(image.width, image.height, resize))
    if crop is not None:
        height, width = (crop, crop) if isinstance(crop, int) else crop
        if height > image.height or width > image.width:
            raise SkinnyError(
                f"an image of {image.width} x {image.height} pixels is too small "
                f"for a crop of {width} x {height}"
            )
        if random is None:
            left, top = (image.width - width) // 2, (image.height - height) // 2
        else:
            left = int(random.integers(image.width - width + 1))
            top = int(random.integers(image.height - height + 1))
        image = image.crop((left, top, left + width, top + height))
    return image if size is None else _scale(image, (size[1], size[0]))


def fit_batch(
    batch: NDArray[np.uint8],
    *,
    resize: int | None,
    crop: int | Sequence[int] | None,
    size: tuple[int, int],
) -> NDArray[np.uint8]:
    """`resize_and_crop` of a batch [n, channels, h, w] in memory."""
    channels = batch.shape[1]
    mode_of(channels)
    fitted = np.empty((len(batch), channels, *size), np.uint8)
    for pixels, target in zip(batch.transpose(0, 2, 3, 1), fitted, strict=True):
        image = pillow().fromarray(
            np.ascontiguousarray(pixels[..., 0] if channels == 1 else pixels)
        )
        image = resize_and_crop(image, resize=resize, crop=crop, size=size)
        target[:] = np.asarray(image).reshape(*size, channels).transpose(2, 0, 1)
    return fitted


def _scaled_size(width: int, height: int, resize: int) -> tuple[int, int]:
    """Width and height when the shorter side becomes `resize`.

    An image that is many times longer than wide would become enormous, however small its file is.
    """
    factor = resize / min(width, height)
    wide, high = (max(resize, round(side * factor)) for side in (width, height))
    if wide * high > max(_MOST_ENLARGED, width * height):
        raise SkinnyError(
            f"an image of {width} x {height} pixels would become {wide} x {high} when its shorter "
            f"side is scaled to {resize}, which is too large; crop it first"
        )
    return wide, high


def _scale(image: "Image", size: tuple[int, int]) -> "Image":
    return image if image.size == size else image.resize(size, pillow().Resampling.BILINEAR)
