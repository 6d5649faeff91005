"""Any images in one NumPy `.npz` file.

Keys, either both splits:

    x_train, y_train, x_test, y_test

or one, of which a fixed stratified fifth becomes the test split:

    images, labels

Images are uint8, [n, height, width] for grey, or with 1 or 3 channels [n, height, width, channels]
or [n, channels, height, width]. Where the shape allows both readings, a key `layout` with the value
"NHWC" or "NCHW" decides. Labels are integers [n] (or [n, 1]): 0 to classes - 1, none left out in
training. An optional key `classes` holds the names of the classes. Nothing is ever unpickled.
"""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from skinny.data.errors import DataError
from skinny.data.sets import ImageSet
from skinny.data.subset import stratified_split

LIMIT = 16 << 30
"""Bytes a file may unfold to; all are held in memory."""

_PARTS = ("x_train", "y_train", "x_test", "y_test")
_WHOLE = ("images", "labels")
_SPLIT_SEED = 0
_TEST_SHARE = 5


def load_npz(path: Path) -> tuple[ImageSet, ImageSet, tuple[str, ...]]:
    """Training split, test split and class names of an `.npz` file."""
    arrays = _read(path)
    layout = arrays.get("layout")
    if set(_PARTS) <= set(arrays):
        train = _part(path, arrays, "x_train", "y_train", layout)
        test = _part(path, arrays, "x_test", "y_test", layout)
        if train.images.shape[1:] != test.images.shape[1:]:
            raise DataError(
                f"{path}: the images of x_train are {_by(train.images.shape[1:])} and those of"
                f" x_test {_by(test.images.shape[1:])} (channels x height x width)"
            )
        return train, test, _class_names(path, arrays, train.labels, test.labels)
    if set(_WHOLE) <= set(arrays):
        whole = _part(path, arrays, "images", "labels", layout)
        classes = _class_names(path, arrays, whole.labels, whole.labels)
        test_size = len(whole) // _TEST_SHARE
        if test_size < 1:
            raise DataError(f"{path}: {len(whole)} images are too few to set a fifth apart to test")
        train_at, test_at = stratified_split(whole.labels, test_size, len(classes), _SPLIT_SEED)
        return whole.take(train_at), whole.take(test_at), classes
    raise DataError(
        f"{path}: needs the arrays {', '.join(_PARTS)}, or {' and '.join(_WHOLE)}; it has"
        f" {', '.join(sorted(arrays)) or 'none'}"
    )


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > LIMIT:
            raise DataError(f"{path}: unfolds to {size:,} bytes; at most {LIMIT:,} are read")
        with np.load(path, allow_pickle=False) as arrays:
            wanted = (*_PARTS, *_WHOLE, "classes", "layout")
            return {key: arrays[key] for key in arrays.files if key in wanted}
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DataError(f"{path}: truncated or not an .npz file ({error})") from error
    except (ValueError, MemoryError, OSError, KeyError, RuntimeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error


def _part(
    path: Path, arrays: dict[str, NDArray[Any]], x: str, y: str, layout: NDArray[Any] | None
) -> ImageSet:
    images, labels = arrays[x], arrays[y]
    if images.dtype != np.uint8:
        raise DataError(
            f"{path}: {x} is {images.dtype} and must be uint8, 0 to 255 (pixels in [0, 1] become"
            " that by (255 * x).round().astype('uint8'))"
        )
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"{path}: {y} must be integers of shape [n], not {labels.dtype} {list(labels.shape)}"
        )
    if len(images) != len(labels) or len(labels) == 0:
        raise DataError(f"{path}: {len(images)} images in {x} and {len(labels)} labels in {y}")
    if labels.min() < 0:
        raise DataError(f"{path}: {y} has the label {labels.min()}; labels count from 0")
    pixels = np.ascontiguousarray(_channels_first(path, x, images, layout))
    return ImageSet(torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64)))


def _channels_first(
    path: Path, x: str, images: NDArray[np.uint8], layout: NDArray[Any] | None
) -> NDArray[np.uint8]:
    if 0 in images.shape:
        raise DataError(f"{path}: {x} is empty, its shape is {list(images.shape)}")
    if images.ndim == 3:
        return images[:, None]
    if images.ndim != 4:
        raise DataError(f"{path}: {x} has the shape {list(images.shape)}; 3 or 4 axes are needed")
    readings = {name for name, axis in (("NCHW", 1), ("NHWC", 3)) if images.shape[axis] in (1, 3)}
    if layout is not None:
        readings &= {str(layout)}
    if len(readings) != 1:
        raise DataError(
            f"{path}: {x} of shape {list(images.shape)}"
            + (
                " can be read as NHWC and as NCHW"
                if readings
                else " has no axis of 1 or 3 channels"
            )
            + ("" if layout is None else f" in the layout {str(layout)!r}")
            + "; [n, h, w], NHWC and NCHW are understood, and a key 'layout' says which"
        )
    return images if readings == {"NCHW"} else images.transpose(0, 3, 1, 2)


def _class_names(
    path: Path, arrays: dict[str, NDArray[Any]], train: torch.Tensor, test: torch.Tensor
) -> tuple[str, ...]:
    present = train.unique()
    count = len(present)
    if present[-1] != count - 1:
        absent = next(c for c, label in enumerate(present.tolist()) if c != label)
        raise DataError(
            f"{path}: labels go up to {present[-1]} but no training image has label {absent};"
            " number the classes without gaps"
        )
    if test.max() >= count:
        raise DataError(f"{path}: test label {test.max()} does not occur in training")
    if "classes" not in arrays:
        return tuple(str(c) for c in range(count))
    names = arrays["classes"]
    if names.shape != (count,):
        raise DataError(
            f"{path}: 'classes' has the shape {list(names.shape)} and {count} classes are labelled"
        )
    return tuple(str(name) for name in names)


def _by(shape: torch.Size) -> str:
    return " x ".join(map(str, shape))
