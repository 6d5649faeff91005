"""How a convolution is cut: tiles of output positions for the registers, blocks of input channels
for the first-level cache."""

import functools
import os
from typing import NamedTuple

TILE_VECTORS = 8  # native/runtime/tile.h
_TAPS_A_BLOCK = 10  # at least, of an output channel
_SMALL_BLOCK = 256  # taps whose numbers are bytes
LARGEST_BLOCK = 2**16 - 1  # native/runtime/conv_weights.cpp
_SHARE_OF_CACHE = 0.85  # of the first-level cache, for the input of a block


class Tile(NamedTuple):
    """rows x vectors; `flat` runs rows on into each other, margins included (one image only)."""

    rows: int
    vectors: int
    flat: bool
    tiles: int  # how many make a plane


def _split(vectors: int) -> int:
    """The width of near-equal tiles for a row of so many vectors."""
    return -(-vectors // -(-vectors // TILE_VECTORS))


def choose_tile(height: int, width: int, pitch: int, lanes: int, n: int) -> Tile:
    """The tile for an output plane that reads rows `pitch` positions apart.

    For n images interleaved every position is whole vectors. For one image, rows that are not whole
    vectors waste lanes, and running them together wastes the margins: take what wastes less.
    """
    if n > 1:
        row_vectors = width * n // lanes
        flat = False
    else:
        row_vectors = -(-width // lanes)
        length = (height - 1) * pitch + width
        flat = width <= pitch and -(-length // lanes) < row_vectors * height
        if flat:
            vectors = -(-length // lanes)
            each = _split(vectors)
            return Tile(1, each, True, -(-vectors // each))
    across = _split(row_vectors)
    rows = min(height, TILE_VECTORS // across)
    return Tile(rows, across, flat, -(-height // rows) * -(-row_vectors // across))


@functools.cache
def _first_level_cache() -> int:
    try:
        return os.sysconf("SC_LEVEL1_DCACHE_SIZE") or 32768
    except (ValueError, OSError, AttributeError):
        return 32768


def block_channels(
    channels: int, kernel: int, footprint: int, taps: float, dense: bool = False
) -> int:
    """Input channels of a block, when a tile reads `footprint` floats of each.

    kernel: taps of a channel, with and without weight. taps: non-zeros of an output channel. A
    block's input fits in the cache. Unless weights are dense, its taps can be numbered in a byte.
    But each block costs a trip of the sums to the second-level cache and back, so that very sparse
    layers get fewer, larger blocks, whose taps are numbered in two bytes.
    """
    fit = int(_SHARE_OF_CACHE * _first_level_cache()) // (4 * footprint)
    if not dense:
        fit = min(fit, _SMALL_BLOCK // kernel)
    blocks = max(1, min(-(-channels // max(1, fit)), round(taps / _TAPS_A_BLOCK)))
    block = -(-channels // blocks)
    return block if dense else max(1, min(block, LARGEST_BLOCK // kernel))
