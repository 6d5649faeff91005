"""CIFAR-10 and CIFAR-100 batches, in their binary and their python version.

Binary: records of label bytes (one for CIFAR-10; coarse, then fine for CIFAR-100) and 3,072 pixel
bytes, red plane first, each plane row by row. Python: a pickled dictionary with the same pixels as
`data` [n, 3072] and the labels as a list. CIFAR-100 is read with its 100 fine labels.
"""

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skinny.data.errors import DataError
from skinny.data.reading import read_bytes, read_members
from skinny.data.unpickle import unpickle_batch

Version = Literal["binary", "python"]
Split = tuple[NDArray[np.uint8], NDArray[np.int64]]

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE


def read_files(paths: tuple[Path, ...], version: Version, classes: int) -> Split:
    """Images [n, 3, 32, 32] and labels [n] of extracted batch files, in the order given."""
    return _join([_parse(read_bytes(path), path, version, classes) for path in paths])


def read_archive(
    archive: Path, splits: tuple[tuple[str, ...], ...], version: Version, classes: int
) -> list[Split]:
    """The same for each tuple of member names of a `.tar.gz`, which is read once."""
    contents = read_members(archive, {name for names in splits for name in names})
    return [
        _join([_parse(contents[name], f"{archive}: {name}", version, classes) for name in names])
        for names in splits
    ]


def _join(batches: list[Split]) -> Split:
    return (
        np.concatenate([images for images, _ in batches]),
        np.concatenate([labels for _, labels in batches]),
    )


def _parse(contents: bytes, name: Path | str, version: Version, classes: int) -> Split:
    parse = _parse_binary if version == "binary" else _parse_python
    pixels, labels = parse(contents, name, classes)
    if len(labels) == 0:
        raise DataError(f"{name}: holds no images")
    _check_range(labels, classes, name)
    return pixels.reshape(-1, 3, _SIDE, _SIDE), labels


def _parse_binary(contents: bytes, name: Path | str, classes: int) -> Split:
    label_bytes = 2 if classes == 100 else 1
    record = label_bytes + _PIXELS
    if len(contents) % record:
        raise DataError(
            f"{name}: truncated or not a CIFAR-{classes} batch, {len(contents):,} bytes are not a"
            f" whole number of {record}-byte records"
        )
    records = np.frombuffer(contents, np.uint8).reshape(-1, record)
    if label_bytes == 2:
        _check_range(records[:, 0], 20, name, "coarse label")
    return records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64)


def _parse_python(contents: bytes, name: Path | str, classes: int) -> Split:
    batch = unpickle_batch(contents, name)
    key = "fine_labels" if classes == 100 else "labels"
    for needed in ("data", key):
        if needed not in batch:
            raise DataError(
                f"{name}: not a CIFAR-{classes} batch, it has no {needed!r} among its keys"
                f" {', '.join(sorted(batch)) or '(none)'}"
            )
    pixels, labels = batch["data"], batch[key]
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
        raise DataError(
            f"{name}: 'data' is not an array of rows of {_PIXELS} bytes but {_shape(pixels)}"
        )
    # bool is an int to isinstance, and numbers beyond 64 bits would overflow the array
    if not isinstance(labels, list) or any(type(v) is not int or abs(v) > 255 for v in labels):
        raise DataError(f"{name}: {key!r} is not a list of class numbers")
    if len(labels) != len(pixels):
        raise DataError(f"{name}: {len(labels):,} labels for {len(pixels):,} images")
    return pixels, np.array(labels, dtype=np.int64)


def _check_range(
    labels: NDArray[np.integer], classes: int, name: Path | str, kind: str = "label"
) -> None:
    wrong = labels[(labels < 0) | (labels >= classes)]
    if len(wrong):
        raise DataError(f"{name}: {kind} {wrong[0]} is not one of 0 to {classes - 1}")


def _shape(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"a {type(value).__name__}"
