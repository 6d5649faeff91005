"""Image files as a batch for a network. Needs Pillow."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_MOST_PIXELS = 1 << 28  # a small file can claim to be a huge image


def read_images(
    paths: Sequence[Path], shape: tuple[int, ...], preprocessing: Mapping[str, Any] | None
) -> NDArray[np.uint8]:
    """uint8 images for a network whose images are of `shape`, in the layout of its preprocessing.

    The preprocessing's resize (of the shorter side) and crop (of the centre) are applied; what then
    is not of the network's size is scaled to it.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise SkinnyError(
            "reading image files needs Pillow: pip install 'skinny-nn[images]'"
        ) from None
    if len(shape) != 3 or shape[0] not in _MODES:
        raise SkinnyError(f"this network takes {list(shape)}, which no image file holds")
    record = preprocessing or {"resize": None, "crop": None, "layout": "NCHW"}
    channels, height, width = shape
    batch = []
    for path in paths:
        try:
            with Image.open(path) as file:
                if file.width * file.height > _MOST_PIXELS:
                    raise SkinnyError(
                        f"{path} claims {file.width} x {file.height} pixels, too many"
                    )
                image = file.convert(_MODES[channels])
        except FileNotFoundError:
            raise SkinnyError(f"there is no file {path}") from None
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as problem:
            raise SkinnyError(f"{path} cannot be read as an image: {problem}") from None
        image = _fit(image, record["resize"], record["crop"])
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        pixels = np.asarray(image, dtype=np.uint8).reshape(height, width, channels)
        batch.append(pixels if record["layout"] == "NHWC" else pixels.transpose(2, 0, 1))
    return np.stack(batch)


def _fit(image: Any, resize: int | None, crop: int | list[int] | None) -> Any:
    if resize is not None:
        factor = resize / min(image.size)
        size = tuple(max(1, round(side * factor)) for side in image.size)
        image = image.resize(size, resample=2)  # bilinear
    if crop is not None:
        height, width = (crop, crop) if isinstance(crop, int) else crop
        left, top = (image.width - width) // 2, (image.height - height) // 2
        image = image.crop((left, top, left + width, top + height))
    return image
