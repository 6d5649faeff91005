"""The idx format of MNIST and its relatives: big-endian magic number, sizes, then the bytes.

00 00 | 08 (unsigned byte) | number of dimensions | each size as a 32-bit integer | data
"""

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skinny.data.errors import DataError
from skinny.data.reading import read_bytes

_UNSIGNED_BYTE = 8


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes, plain or `.gz`, with this many dimensions."""
    contents = read_bytes(path)
    header = 4 + 4 * dimensions
    if len(contents) < header:
        raise DataError(f"{path}: truncated, {len(contents)} bytes do not hold an idx header")
    zeros, kind, count = struct.unpack(">HBB", contents[:4])
    if zeros != 0 or kind != _UNSIGNED_BYTE or count != dimensions:
        raise DataError(
            f"{path}: wrong magic number {contents[:4].hex()}; an idx file of unsigned bytes with"
            f" {dimensions} dimension{'s' * (dimensions > 1)} begins with 000008{dimensions:02x}"
        )
    shape = struct.unpack(f">{dimensions}I", contents[4:header])
    expected, actual = math.prod(shape), len(contents) - header
    if expected != actual:
        raise DataError(
            f"{path}: {'truncated' if actual < expected else 'too long'}, the header promises"
            f" {' x '.join(map(str, shape))} = {expected:,} bytes and {actual:,} follow"
        )
    if expected == 0:
        raise DataError(f"{path}: empty, its sizes are {' x '.join(map(str, shape))}")
    return np.frombuffer(contents, np.uint8, offset=header).reshape(shape)


def read_pair(
    images: Path, labels: Path, *, classes: int, size: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images [n, 1, size, size] and labels [n] of one split, checked against each other."""
    pixels = read_idx(images, 3)
    if pixels.shape[1:] != (size, size):
        height, width = pixels.shape[1:]
        raise DataError(f"{images}: images are {height} x {width} and should be {size} x {size}")
    numbers = read_idx(labels, 1)
    if len(numbers) != len(pixels):
        raise DataError(f"{labels}: {len(numbers):,} labels for {len(pixels):,} images in {images}")
    if numbers.max() >= classes:
        raise DataError(f"{labels}: label {numbers.max()} is not one of 0 to {classes - 1}")
    return pixels[:, None], numbers.astype(np.int64)
