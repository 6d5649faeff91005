"""How a convolution is cut: tiles of output positions for the registers, blocks of input channels
for the first-level cache."""

import functools
import os
from typing import NamedTuple

from skinny._native import MAX_BYTE_TAPS, MAX_TAPS, TILE_VECTORS

# Where each thread gets at least this many tiles, threads split a layer by tiles; in smaller
# layers, they split the output channels.
TILES_PER_THREAD = 2
_TAPS_PER_BLOCK = 10  # non-zeros of an output channel in a block, at least
_AVX2_LANES = 8
_CACHE_FRACTION = 0.85  # of the first-level cache, for the input of a block


class Tile(NamedTuple):
    """rows x vectors; `flat`: one image's rows as one long row, padding between them included."""

    rows: int
    vectors: int
    flat: bool
    tiles: int  # that cover an output channel


def _split(vectors: int, lanes: int) -> int:
    """The width of near-equal tiles that cover a row of `vectors` vectors: an even one with AVX2,
    where code computes two vectors at a time."""
    tiles = -(-vectors // TILE_VECTORS)
    width = -(-vectors // tiles)
    return width + width % 2 if lanes == _AVX2_LANES and tiles > 1 else width


def choose_tile(height: int, width: int, row_stride: int, lanes: int, n: int) -> Tile:
    """The tile for an output of height x width that reads rows `row_stride` positions apart.

    For n images interleaved every position is whole vectors. For one image, rows that are not whole
    vectors waste lanes, and a flat tile computes the padding between rows: take what wastes less.
    """
    if n > 1:
        row_vectors = width * n // lanes
        flat = False
    else:
        row_vectors = -(-width // lanes)
        length = (height - 1) * row_stride + width
        # With AVX2, rows of an odd number of vectors waste half of two. (A single row has the same
        # tiles either way; measured, ResNet-50 is 2 % faster if they go through scratch buffers.)
        odd = lanes == _AVX2_LANES and row_vectors > 1 and row_vectors % 2
        flat = width <= row_stride and -(-length // lanes) < (row_vectors + odd) * height
        if flat:
            vectors = -(-length // lanes)
            each = _split(vectors, lanes)
            return Tile(1, each, True, -(-vectors // each))
    across = _split(row_vectors, lanes)
    rows = -(-height // -(-height // min(height, TILE_VECTORS // across)))
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

    kernel: taps of an input channel, zeros included. taps: non-zeros of an output channel. A
    block's input fits in the cache, and unless weights are dense, the index of a tap fits in a
    byte. But each block moves the partial sums to the second-level cache and back, so that very
    sparse layers get fewer, larger blocks, with tap indices of two bytes.
    """
    fit = int(_CACHE_FRACTION * _first_level_cache()) // (4 * footprint)
    if not dense:
        fit = min(fit, MAX_BYTE_TAPS // kernel)
    blocks = max(1, min(-(-channels // max(1, fit)), round(taps / _TAPS_PER_BLOCK)))
    block = -(-channels // blocks)
    return block if dense else max(1, min(block, MAX_TAPS // kernel))
