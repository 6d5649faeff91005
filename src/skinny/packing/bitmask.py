"""Bitmask packing: which entries of a tensor are not zero, one bit each, and their values.

Entry i of the flat tensor is bit i % 8 (least significant first) of mask byte i // 8; padding bits
are zero. An entry is zero when all its bits are, so -0.0 is a value and comes back as one.

Native code where it was built, else the NumPy reference, which says the same in a line each.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.native import extension, threads
from skinny.packing.errors import MaskError

Mask = NDArray[np.uint8]


def mask_bytes(count: int) -> int:
    """The length of the mask of `count` entries."""
    return -(-count // 8)


def pack(dense: NDArray[Any]) -> tuple[Mask, NDArray[Any]]:
    """The mask and the non-zero values of a contiguous array, flat: mask [n/8], values [ones]."""
    flat = dense.reshape(-1)
    native = extension()
    if native is None:
        return pack_reference(flat)
    mask = np.empty(mask_bytes(flat.size), np.uint8)
    raw = flat.view(np.uint8)
    ones = native.bitmask_find(raw, flat.itemsize, mask, threads())
    values = np.empty(ones, flat.dtype)
    native.bitmask_gather(raw, flat.itemsize, mask, values.view(np.uint8), threads())
    return mask, values


def pack_reference(flat: NDArray[Any]) -> tuple[Mask, NDArray[Any]]:
    kept = flat.view(f"u{flat.itemsize}") != 0
    return np.packbits(kept, bitorder="little"), flat[kept]


def unpack(mask: Mask, values: NDArray[Any], count: int) -> NDArray[Any]:
    """The `count` entries, flat: the next value where the mask has a one, zero elsewhere.

    Raises `MaskError` unless the mask has `count` bits, zero padding and one one per value.
    """
    check(mask, count, values.size)
    native = extension()
    if native is None:
        return unpack_reference(mask, values, count)
    dense = np.empty(count, values.dtype)
    native.bitmask_scatter(
        np.ascontiguousarray(values).view(np.uint8),
        values.itemsize,
        mask,
        dense.view(np.uint8),
        threads(),
    )
    return dense


def unpack_reference(mask: Mask, values: NDArray[Any], count: int) -> NDArray[Any]:
    dense = np.zeros(count, values.dtype)
    dense[np.unpackbits(mask, count=count, bitorder="little").view(bool)] = values
    return dense


def count_ones(mask: Mask, count: int) -> int:
    """How many of the first `count` bits are set."""
    native = extension()
    if native is not None:
        return int(native.bitmask_ones(mask, count, threads()))
    return int(np.bitwise_count(mask).sum()) if hasattr(np, "bitwise_count") else _ones(mask)


def _ones(mask: Mask) -> int:  # NumPy 1 cannot count bits
    return int(np.unpackbits(mask).sum(dtype=np.int64))


def check(mask: Mask, count: int, values: int) -> None:
    """Raises `MaskError` unless `mask` is the mask of `count` entries, `values` of them non-zero."""
    if mask.size != mask_bytes(count):
        raise MaskError(f"a mask of {mask.size} bytes cannot cover {count} entries")
    if count % 8 and mask[-1] >> (count % 8):
        raise MaskError(f"a mask of {count} entries has ones beyond its last entry")
    ones = count_ones(mask, count)
    if ones != values:
        raise MaskError(f"a mask with {ones} ones does not fit {values} values")
