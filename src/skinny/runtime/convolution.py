"""The geometry of a convolution: where its taps lie in the input, and its blocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny._native import TILE_VECTORS
from skinny.runtime.layout import View, compact, padded
from skinny.runtime.tiles import Tile, block_channels

Node = Mapping[str, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class SpaceToDepth:
    """A strided convolution reads its input after space-to-depth: each channel becomes one channel
    for every (row, column) offset modulo the stride that a tap has, of every stride-th row and
    column from there. On those channels the convolution has stride one."""

    stride: tuple[int, int]
    rows: list[int]  # the source row of each new channel's row 0
    columns: list[int]


@dataclass(frozen=True)
class Geometry:
    """view: the layout the input must have; taps[channel of the group, kernel row, kernel column]:
    positions from `first`, which is where output (0, 0) has its first tap."""

    view: View
    space_to_depth: SpaceToDepth | None
    first: int
    taps: NDArray[np.int64]
    group_stride: int  # positions from one group's channels to the next
    reach: tuple[int, int]  # rows and columns a tap may lie after the first one


def geometry(node: Node, x: Shape, weight: Shape, out: Shape) -> Geometry:
    """x, out: [channels, height, width]; weight: [out, channels / groups, kh, kw]."""
    _, per_group, kh, kw = weight
    (sy, sx), (py, px), (dy, dx) = node["stride"], node["padding"], node["dilation"]
    rows, columns = np.arange(kh) * dy, np.arange(kw) * dx
    if sy == sx == 1:
        view = padded(x, (py, px)) if py or px else compact(x)
        first = view.origin - py * view.row_stride - px
        taps = _taps(per_group, view.channel_stride, rows * view.row_stride, columns)
        reach = (int(rows[-1]), int(columns[-1]))
        return Geometry(view, None, first, taps, per_group * view.channel_stride, reach)
    row_offset, row_shift, row_base = _modulo_stride(rows - py, sy)
    column_offset, column_shift, column_base = _modulo_stride(columns - px, sx)
    offsets = sorted({(r, c) for r in row_offset for c in column_offset})
    view = compact(
        (
            x[0] * len(offsets),
            out[1] + int(row_shift.max()),
            out[2] + int(column_shift.max()),
        )
    )
    index = np.array([[offsets.index((r, c)) for c in column_offset] for r in row_offset])
    taps = (
        np.arange(per_group)[:, None, None] * (len(offsets) * view.channel_stride)
        + index * view.channel_stride
        + row_shift[:, None] * view.row_stride
        + column_shift
    )
    space_to_depth = SpaceToDepth(
        (sy, sx),
        [row_base * sy + r for r, _ in offsets],
        [column_base * sx + c for _, c in offsets],
    )
    reach = (int(row_shift.max()) * len(offsets), int(column_shift.max()))
    group_stride = per_group * len(offsets) * view.channel_stride
    return Geometry(view, space_to_depth, 0, taps, group_stride, reach)


def _taps(
    channels: int, channel_stride: int, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.int64]:
    taps: NDArray[np.int64] = (
        np.arange(channels)[:, None, None] * channel_stride + rows[:, None] + columns[None, :]
    )
    return taps


def _modulo_stride(at: NDArray[np.int64], stride: int) -> tuple[list[int], NDArray[np.int64], int]:
    """Of each tap: its position modulo the stride, and its position divided by the stride, less the
    smallest such quotient; and that smallest quotient."""
    shift = at // stride
    base = int(shift.min())
    return [int(r) for r in at % stride], shift - base, base


def block_taps(
    geometry: Geometry, tile: Tile, lanes: int, n: int, density: float, dense: bool
) -> int:
    """Taps of a block whose input stays in the first-level cache while a tile is computed."""
    channels, kh, kw = (int(side) for side in geometry.taps.shape)
    down, right = geometry.reach
    if tile.flat:
        footprint = tile.vectors * lanes + down * geometry.view.row_stride + right
    else:
        footprint = (tile.rows + down) * (tile.vectors * lanes + right * n)
    kernel = kh * kw
    taps = density * channels * kernel
    return block_channels(channels, kernel, footprint, taps, dense) * kernel


def pointwise_taps(
    channels: int, groups: int, lanes: int, density: float, dense: bool
) -> tuple[NDArray[np.int32], int, int]:
    """The tap offsets of a chained 1x1 convolution in the scratch buffer and the stride of its
    groups, both in floats; and the taps of a block."""
    stride = TILE_VECTORS * lanes
    each = channels // groups
    offsets = np.arange(each, dtype=np.int32) * stride
    return offsets, each * stride, block_channels(each, 1, stride, density * each, dense)
