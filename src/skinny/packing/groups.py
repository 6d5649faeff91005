"""Masks of whole groups: one bit for several neighbours along an axis, which stay or go together.

Networks pruned in groups (`IHT(..., pattern="1x4")`) need one bit a group. Nobody says so when a
tensor is packed: it is seen in the mask.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinny.packing.bitmask import Mask

LARGEST = 16
_SAMPLE = 1 << 14  # entries that show whether a search is worth it


class Groups(NamedTuple):
    """`size` neighbours along `axis` are one group; groups are in the flat order of the tensor
    whose axis is `size` times shorter."""

    axis: int
    size: int

    def fit(self, shape: tuple[int, ...]) -> bool:
        inside = 0 <= self.axis < len(shape) and 2 <= self.size <= LARGEST
        return inside and shape[self.axis] % self.size == 0

    def shorter(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[: self.axis], shape[self.axis] // self.size, *shape[self.axis + 1 :])


class Grouped(NamedTuple):
    """A mask by its groups: a group is kept if any of its entries is, and then all are stored."""

    groups: Groups
    bits: Mask
    kept: int  # groups


def find(mask: Mask, shape: tuple[int, ...], ones: int, width: int) -> Grouped | None:
    """The groups by which a tensor takes the fewest bits, its values being `width` bytes each;
    None if it takes fewer without. Only the first two axes can be the input channels of a layer."""
    count = math.prod(shape)
    if len(shape) < 2 or not 0 < ones < count:
        return None
    kept = np.unpackbits(mask, count=count, bitorder="little").reshape(shape)
    best, fewest = None, _bits(ones, count, 8 * width)
    for axis in (1, 0):
        for size in range(2, LARGEST + 1):
            groups = Groups(axis, size)
            if not groups.fit(shape) or not _look_whole(kept, groups):
                continue
            own = np.logical_or.reduce(_split(kept, groups), axis=axis + 1)
            found = int(own.sum())
            bits = _bits(found, count // size, 8 * width * size)
            if bits < fewest:
                fewest, best = bits, Grouped(groups, np.packbits(own, bitorder="little"), found)
    return best


def expand(mask: Mask, groups: Groups, shape: tuple[int, ...]) -> Mask:
    """The mask of all entries from that of the groups."""
    shorter = groups.shorter(shape)
    kept = np.unpackbits(mask, count=math.prod(shorter), bitorder="little").reshape(shorter)
    return np.packbits(np.repeat(kept, groups.size, axis=groups.axis), bitorder="little")


def _bits(ones: int, count: int, each: int) -> float:
    """The bits of a perfectly coded mask, `ones` of `count`, and of the values that it keeps."""
    p = ones / count
    entropy = -p * math.log2(p) - (1 - p) * math.log2(1 - p) if 0 < p < 1 else 0.0
    return count * entropy + ones * each


def _look_whole(kept: NDArray[np.uint8], groups: Groups) -> bool:
    """Are most groups of a sample kept or dropped as one? Most masks have none, seen at once."""
    other = kept.shape[1 - groups.axis]
    lines = max(1, _SAMPLE * other // kept.size)
    sample = _split(kept[:lines] if groups.axis else kept[:, :lines], groups)
    every, some = (
        fold.reduce(sample, axis=groups.axis + 1) for fold in (np.logical_and, np.logical_or)
    )
    return int(every.sum()) * 2 >= int(some.sum())


def _split(kept: NDArray[np.uint8], groups: Groups) -> NDArray[np.uint8]:
    head = groups.shorter(kept.shape)[: groups.axis + 1]
    return kept.reshape(*head, groups.size, *kept.shape[groups.axis + 1 :])
