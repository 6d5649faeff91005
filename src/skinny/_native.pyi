"""The compiled kernels (sources in native/). Import them through `skinny.native`, which tells what
to do when they were not built."""

from typing import Any

from numpy.typing import NDArray

Bytes = NDArray[Any]  # one-dimensional contiguous uint8

def isa() -> str: ...
def bitmask_find(
    dense: Bytes, width: int, signed_zeros: bool, mask: Bytes, threads: int
) -> int: ...
def bitmask_ones(mask: Bytes, count: int, threads: int) -> int: ...
def bitmask_gather(dense: Bytes, width: int, mask: Bytes, values: Bytes, threads: int) -> None: ...
def bitmask_scatter(values: Bytes, width: int, mask: Bytes, dense: Bytes, threads: int) -> None: ...
def entropy_histogram(mask: Bytes, out: NDArray[Any], threads: int) -> None: ...
def entropy_encode(
    mask: Bytes,
    frequencies: NDArray[Any],
    states: NDArray[Any],
    word_counts: NDArray[Any],
    threads: int,
) -> bytes: ...
def entropy_decode(
    words: NDArray[Any],
    states: NDArray[Any],
    word_counts: NDArray[Any],
    frequencies: NDArray[Any],
    mask: Bytes,
    threads: int,
) -> bool: ...
