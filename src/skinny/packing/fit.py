"""Which kind of values each tensor gets so that a file is no larger than wanted.

Every tensor is encoded in every kind: that gives bytes and the share of the weights' energy that
rounding loses. A price for a byte decides for each tensor by itself; the lowest price at which all
fit is found by halving. So all tensors lose about as much for the last byte they save.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skinny.errors import SkinnyError
from skinny.files import beside
from skinny.packing import codec
from skinny.packing.dtypes import CARRIER, name_of, to_float32
from skinny.packing.values import Values, storable
from skinny.packing.writer import Array, Bits, Tensors, Tied, write

WEIGHTS: tuple[Values, ...] = (
    *("exact", "fp16", "int8", "codebook6", "codebook5", "codebook4", "codebook3", "codebook2"),
)
VECTORS: tuple[Values, ...] = ("exact", "bf16")  # a variance may be too small for fp16
_PART = 20  # bytes of the header and the manifest, for a part
_HALVINGS = 60
_TRIALS = 6


class Option(NamedTuple):
    kind: Values
    size: int  # in bytes
    loss: float  # |stored - original|^2 / |original|^2


def options(name: str, array: Array) -> list[Option]:
    """What a tensor may be stored as; one that is not rounded has one option."""
    if isinstance(array, Tied):
        return [Option("exact", 0, 0.0)]
    bits = array if isinstance(array, Bits) else Bits(array, name_of(array))
    plain = np.asarray(bits.array, CARRIER[bits.dtype], order="C")
    found = []
    for kind in VECTORS if plain.ndim < 2 else WEIGHTS:
        if not storable(kind, bits.dtype, plain.shape):
            continue
        entry, parts = codec.encode(name, plain, bits.dtype, kind)
        size = sum(part.nbytes + _PART for part in parts.values())
        loss = 0.0
        if kind != "exact":
            flat = {role: part.reshape(-1) for role, part in parts.items()}
            back = codec.densify(codec.decode(entry, flat))
            exact, rounded = (to_float32(each, bits.dtype) for each in (plain, back))
            energy = float(np.square(exact, dtype=np.float64).sum())
            lost = float(np.square(exact - rounded, dtype=np.float64).sum())
            loss = lost / energy if energy else 0.0
        found.append(Option(kind, size, loss))
    return found


def write_within(
    size: int, path: str | os.PathLike[str], tensors: Tensors, **described: Any
) -> dict[str, Values]:
    """What `writer.write` does, in a file of at most `size` bytes, with the values it takes; the
    kind of each tensor. An error, and no file, if the fewest bits are too many."""
    if isinstance(size, bool) or not isinstance(size, int):
        raise SkinnyError(f"size is {size!r:.40}, but must be a whole number of bytes")
    arrays = dict(tensors)
    offered = {name: options(name, array) for name, array in arrays.items()}
    with beside(Path(path)) as trial:

        def taken(kinds: dict[str, Values]) -> int:
            write(trial, arrays, values=kinds, **described)
            return trial.stat().st_size

        last = best = choose(offered, 0)
        bytes_ = taken(best)
        if bytes_ > size:
            raise SkinnyError(
                f"no file can be {size:,} bytes small: with the fewest bits it has {bytes_:,}; "
                "allow more, or prune further"
            )
        # What header, graph and labels take is known of a file that is written, and differs with
        # what is chosen: files with more bits are tried until none fits better.
        left = size - bytes_ + estimate(offered, best)
        for _ in range(_TRIALS):
            last = choose(offered, left)
            bytes_ = taken(last)
            if bytes_ <= size:
                if last == best or size - bytes_ <= size // 1000:
                    return last
                best = last
            left += size - bytes_
        if last != best:
            taken(best)
    return best


def estimate(offered: Mapping[str, list[Option]], kinds: Mapping[str, Values]) -> int:
    """About how many bytes the tensors take."""
    return sum(
        option.size for name, own in offered.items() for option in own if option.kind == kinds[name]
    )


def choose(offered: Mapping[str, list[Option]], size: int) -> dict[str, Values]:
    """The kind of each tensor, all tensors together within `size` bytes, or as small as they can
    be."""
    low, high = -40.0, 10.0  # powers of ten of the price
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = sum(option.size for option in _best(offered, middle).values()) <= size
        low, high = (low, middle) if fits else (middle, high)
    return {name: option.kind for name, option in _best(offered, high).items()}


def _best(offered: Mapping[str, list[Option]], price: float) -> dict[str, Option]:
    """Of equals the one of fewest bits: a trained codebook is itself with any that are enough."""
    return {
        name: min(own[::-1], key=lambda option: option.loss + 10.0**price * option.size)
        for name, own in offered.items()
    }
