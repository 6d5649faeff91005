"""Bitmask packing: which entries of a tensor are not zero, one bit each, and their values.

Entry i of the flat tensor is bit i % 8 (least significant first) of mask byte i // 8; padding bits
are zero. An entry is zero when all its bits are; with `ignore_sign` (for floats) also when only its
sign bit is set, so that -0.0 is a zero.

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


def find(dense: NDArray[Any], *, ignore_sign: bool = False) -> tuple[Mask, int]:
    """The mask of a contiguous array, and how many ones it has."""
    flat = dense.reshape(-1)
    native = extension()
    if native is None:
        return find_reference(flat, ignore_sign)
    mask = np.empty(mask_bytes(flat.size), np.uint8)
    raw = flat.view(np.uint8)
    ones: int = native.bitmask_find(raw, flat.itemsize, ignore_sign, mask, threads())
    return mask, ones


def find_reference(flat: NDArray[Any], ignore_sign: bool = False) -> tuple[Mask, int]:
    bits = flat.view(f"u{flat.itemsize}")
    kept = (bits << 1 if ignore_sign else bits) != 0
    return np.packbits(kept, bitorder="little"), int(kept.sum())


def gather(dense: NDArray[Any], mask: Mask, ones: int) -> NDArray[Any]:
    """The entries of a contiguous array that its mask names, flat: [ones]."""
    flat = dense.reshape(-1)
    native = extension()
    if native is None:
        return gather_reference(flat, mask)
    values = np.empty(ones, flat.dtype)
    native.bitmask_gather(
        flat.view(np.uint8), flat.itemsize, mask, values.view(np.uint8), threads()
    )
    return values


def gather_reference(flat: NDArray[Any], mask: Mask) -> NDArray[Any]:
    values: NDArray[Any] = flat[np.unpackbits(mask, count=flat.size, bitorder="little").view(bool)]
    return values


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
    if native is None:
        return int(np.unpackbits(mask, count=count, bitorder="little").sum(dtype=np.int64))
    return int(native.bitmask_ones(mask, count, threads()))


def check(mask: Mask, count: int, values: int) -> None:
    """Raises `MaskError` unless `mask` covers `count` entries, of which `values` are not zero."""
    if mask.size != mask_bytes(count):
        raise MaskError(f"a mask of {mask.size} bytes cannot cover {count} entries")
    if count % 8 and mask[-1] >> (count % 8):
        raise MaskError(f"a mask of {count} entries has ones beyond its last entry")
    ones = count_ones(mask, count)
    if ones != values:
        raise MaskError(f"a mask with {ones} ones does not fit {values} values")
