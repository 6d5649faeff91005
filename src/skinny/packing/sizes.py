"""How small a packed file is, per tensor and in total, beside the bound and usual compressors."""

import lzma
import math
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from skinny.native import threads
from skinny.packing import bitmask
from skinny.packing.codec import densify
from skinny.packing.container import content
from skinny.packing.dtypes import CARRIER, FLOATS
from skinny.packing.reader import PackedFile

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Size:
    """Of one tensor, or of a whole file.

    dense, packed, gzip, xz: bytes, the latter two of the dense tensor (None if not asked for).
    bound: bytes for the kept values as they are plus n*H(density) bits for where they are, which
    only a code for the values themselves, or for clustered positions, can beat.
    error: largest |stored - original|.
    """

    name: str
    weights: int
    kept: int
    dense: int
    packed: int
    bound: int
    gzip: int | None
    xz: int | None
    form: str
    values: str
    error: float

    @property
    def ratio(self) -> float:
        """How many times smaller than dense."""
        return self.dense / self.packed if self.packed else 1.0


@dataclass(frozen=True)
class SizeReport:
    """`tensors` in the file's order; `total.packed` is the whole file, of which `overhead`
    bytes are header, graph, labels and the like."""

    tensors: list[Size]
    total: Size
    overhead: int


def size(path: str | os.PathLike[str], *, compare: bool = True) -> SizeReport:
    """Measure a packed file. `compare` runs gzip and xz over the dense tensors, which takes a while
    (xz, on large layers, minutes)."""
    with PackedFile(path) as file, ThreadPoolExecutor(threads()) as pool:
        names = [name for name in file.names if name not in file.tied]
        tensors = list(pool.map(lambda name: _measure(file, name, compare), names))
        stored = sum(tensor.packed for tensor in tensors)
        return SizeReport(tensors, _total(tensors, file.size), file.size - stored)


def mask_bound(count: int, ones: int) -> float:
    """n*H(ones / n) in bits: what it costs to say which `ones` of `count` entries are kept."""
    bits = 0.0
    for some in (ones, count - ones):
        if some:
            bits -= some * math.log2(some / count)
    return bits


def _measure(file: PackedFile, name: str, compare: bool) -> Size:
    entry, stored = file.entry(name), file.stored_parts(name)
    tensor = file.read_sparse(name)
    kept = tensor.values.size
    # a value that was rounded to zero is kept
    if tensor.mask is None or entry.values == "exact":
        floating = entry.dtype in FLOATS
        _, kept = bitmask.find(np.ascontiguousarray(tensor.values), ignore_sign=floating)
    width = CARRIER[entry.stored].itemsize
    extra = sum(
        stored[role].end - stored[role].begin for role in ("scales", "codebook") if role in stored
    )
    bound = min(math.ceil(mask_bound(entry.count, kept) / 8) + kept * width, entry.count * width)
    gzip = xz = None
    if compare:
        gzip, xz = _compressed(content(densify(tensor)))
    return Size(
        name=name,
        weights=entry.count,
        kept=kept,
        dense=entry.count * CARRIER[entry.dtype].itemsize,
        packed=sum(part.end - part.begin for part in stored.values()),
        bound=bound + extra,
        gzip=gzip,
        xz=xz,
        form=entry.form,
        values=entry.values,
        error=entry.error,
    )


def _compressed(dense: memoryview) -> tuple[int, int]:
    """What gzip -6 and xz -6 make of some bytes, without keeping the result."""
    gzip, xz = zlib.compressobj(6, wbits=31), lzma.LZMACompressor()
    sizes = [0, 0]
    for chunk in _chunks(dense):
        sizes[0] += len(gzip.compress(chunk))
        sizes[1] += len(xz.compress(chunk))
    return sizes[0] + len(gzip.flush()), sizes[1] + len(xz.flush())


def _chunks(dense: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(dense), _CHUNK):
        yield dense[at : at + _CHUNK]


def _total(tensors: list[Size], packed: int) -> Size:
    def both(field: str) -> int | None:
        values = [getattr(tensor, field) for tensor in tensors]
        return None if None in values else sum(values)

    return Size(
        name="total",
        weights=sum(tensor.weights for tensor in tensors),
        kept=sum(tensor.kept for tensor in tensors),
        dense=sum(tensor.dense for tensor in tensors),
        packed=packed,
        bound=sum(tensor.bound for tensor in tensors),
        gzip=both("gzip"),
        xz=both("xz"),
        form="",
        values="",
        error=max((tensor.error for tensor in tensors), default=0.0),
    )
