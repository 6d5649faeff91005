"""One tensor to its stored parts and back: the smallest of dense, bitmask and entropy.

| form      | parts                                                             |
|-----------|-------------------------------------------------------------------|
| `dense`   | all entries                                                       |
| `bitmask` | the non-zero values, one bit per entry                            |
| `entropy` | the non-zero values, the same bits entropy-coded                  |

Lossy values add one part, the scales (int8 only).
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skinny.packing import bitmask, entropy, values
from skinny.packing.bitmask import Mask
from skinny.packing.dtypes import CARRIER
from skinny.packing.errors import MaskError
from skinny.packing.values import STORED, Values

Form = Literal["dense", "bitmask", "entropy"]
FORMS: tuple[Form, ...] = ("dense", "bitmask", "entropy")
# What a part more costs in the header; keeps small tensors dense.
_PART = 100


@dataclass(frozen=True)
class Entry:
    """What is known of a tensor before its parts are read."""

    dtype: str
    shape: tuple[int, ...]
    form: Form = "dense"
    values: Values = "exact"
    error: float = 0.0  # largest |stored - original|

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def parts(self) -> dict[str, str]:
        """The parts by role, in the order the checksum takes them: role -> dtype."""
        stored = self.dtype if self.values == "exact" else STORED[self.values]
        parts = {"values": stored}
        if self.form != "dense":
            parts["mask" if self.form == "bitmask" else "coded"] = "U8"
        if self.values == "int8":
            parts["scales"] = "F32"
        return parts


@dataclass(frozen=True)
class Parts:
    """A tensor without its zeros.

    mask: uint8 [ceil(n / 8)], bit i of the flat tensor least significant first, or None when the
    tensor is stored dense; values: flat, in the tensor's own type (bfloat16 as uint16 bits), one
    per one in the mask, or all n.
    """

    shape: tuple[int, ...]
    dtype: str
    mask: Mask | None
    values: NDArray[Any]


def encode(
    name: str, array: NDArray[Any], dtype: str, wish: Values = "exact"
) -> tuple[Entry, dict[str, NDArray[Any]]]:
    """The entry and its parts by role. `array` is C-contiguous, of `dtype`'s carrier."""
    shape = array.shape
    kind = values.applicable(wish, dtype, shape)
    width = CARRIER[dtype if kind == "exact" else STORED[kind]].itemsize
    mask, kept = bitmask.pack(array)
    forms: dict[Form, int] = {
        "dense": array.size * width,
        "bitmask": kept.size * width + mask.size + _PART,
    }
    coded = None
    if forms["dense"] > kept.size * width + _PART:
        coded = entropy.encode(mask, array.size, kept.size)
        forms["entropy"] = kept.size * width + coded.size + _PART
    form = min(forms, key=lambda name: forms[name])
    stored = array.reshape(-1) if form == "dense" else kept
    scales, error = None, 0.0
    if kind != "exact":
        counts = values.per_channel(None if form == "dense" else mask, shape)
        stored, scales, error = values.encode(stored, dtype, kind, counts, name)
    parts: dict[str, NDArray[Any]] = {"values": stored}
    if form == "bitmask":
        parts["mask"] = mask
    if form == "entropy" and coded is not None:
        parts["coded"] = coded
    if scales is not None:
        parts["scales"] = scales
    return Entry(dtype, shape, form, kind, error), parts


def check(name: str, entry: Entry, sizes: dict[str, int]) -> None:
    """Raises `MaskError` unless parts of these lengths can make the tensor; reads nothing."""
    stored = sizes["values"]
    if entry.form == "dense" and stored != entry.count:
        raise MaskError(f"{name} has {stored} values for {entry.count} entries")
    if stored > entry.count:
        raise MaskError(f"{name} has {stored} values, more than its {entry.count} entries")
    if entry.form == "bitmask" and sizes["mask"] != bitmask.mask_bytes(entry.count):
        raise MaskError(f"{name} has a mask of {sizes['mask']} bytes for {entry.count} entries")
    if entry.form == "entropy" and sizes["coded"] < entropy.shortest(entry.count):
        raise MaskError(f"{name}: {sizes['coded']} bytes cannot code {entry.count} mask bits")
    if "scales" in sizes and sizes["scales"] != entry.shape[0]:
        raise MaskError(f"{name} has {sizes['scales']} scales for {entry.shape[0]} channels")


def decode(entry: Entry, parts: dict[str, NDArray[Any]]) -> Parts:
    """The tensor's mask and values; `check` has passed. Raises a `FormatError` for bad contents."""
    mask = parts.get("mask")
    stored = parts["values"]
    if entry.dtype == "BOOL" and stored.view(np.uint8).max(initial=0) > 1:
        raise MaskError("a tensor of truth values holds a byte that is neither 0 nor 1")
    if "coded" in parts:
        mask = entropy.decode(parts["coded"], entry.count, stored.size)
    if mask is not None:
        bitmask.check(mask, entry.count, stored.size)
    if entry.values != "exact":
        counts = values.per_channel(mask, entry.shape)
        stored = values.decode(stored, parts.get("scales"), entry.dtype, entry.values, counts)
    return Parts(entry.shape, entry.dtype, mask, stored)


def densify(parts: Parts) -> NDArray[Any]:
    """The whole tensor."""
    if parts.mask is None:
        return parts.values.reshape(parts.shape)
    return bitmask.unpack(parts.mask, parts.values, math.prod(parts.shape)).reshape(parts.shape)
