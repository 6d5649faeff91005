"""The geometry of a convolution: where its taps lie in the input, and how it is cut."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.runtime.layout import View, compact, padded
from skinny.runtime.tiles import TILE_VECTORS, Tile, block_channels

Node = Mapping[str, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Phases:
    """A strided convolution reads its input taken apart into phases: every stride-th row and
    column, from each offset a tap asks for. On those it is a convolution of stride one."""

    stride: tuple[int, int]
    rows: list[int]  # of each phase, the source row of its row 0
    columns: list[int]


@dataclass(frozen=True)
class Geometry:
    """view: the layout the input must have; taps[channel of the group, kernel row, kernel column]:
    positions from `first`, which is where output (0, 0) has its first tap."""

    view: View
    phases: Phases | None
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
        first = view.origin - py * view.pitch - px
        taps = _taps(per_group, view.plane, rows * view.pitch, columns)
        return Geometry(
            view, None, first, taps, per_group * view.plane, (int(rows[-1]), int(columns[-1]))
        )
    row_phase, row_shift, row_base = _phases(rows - py, sy)
    column_phase, column_shift, column_base = _phases(columns - px, sx)
    kinds = sorted({(r, c) for r in row_phase for c in column_phase})
    view = compact(
        (
            x[0] * len(kinds),
            out[1] + int(row_shift.max()),
            out[2] + int(column_shift.max()),
        )
    )
    index = np.array([[kinds.index((r, c)) for c in column_phase] for r in row_phase])
    taps = (
        np.arange(per_group)[:, None, None] * (len(kinds) * view.plane)
        + index * view.plane
        + row_shift[:, None] * view.pitch
        + column_shift
    )
    phases = Phases(
        (sy, sx),
        [row_base * sy + r for r, _ in kinds],
        [column_base * sx + c for _, c in kinds],
    )
    reach = (int(row_shift.max()) * len(kinds), int(column_shift.max()))
    return Geometry(view, phases, 0, taps, per_group * len(kinds) * view.plane, reach)


def _taps(
    channels: int, plane: int, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.int64]:
    taps: NDArray[np.int64] = (
        np.arange(channels)[:, None, None] * plane + rows[:, None] + columns[None, :]
    )
    return taps


def _phases(at: NDArray[np.int64], stride: int) -> tuple[list[int], NDArray[np.int64], int]:
    """Of each tap: its phase and its shift there; and the shift that was taken off all of them."""
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
        footprint = tile.vectors * lanes + down * geometry.view.pitch + right
    else:
        footprint = (tile.rows + down) * (tile.vectors * lanes + right * n)
    kernel = kh * kw
    taps = density * channels * kernel
    return block_channels(channels, kernel, footprint, taps, dense) * kernel


def pointwise_taps(
    channels: int, groups: int, lanes: int, density: float, dense: bool
) -> tuple[NDArray[np.int32], int, int]:
    """Offsets of a chained 1x1 convolution in the scratch buffer, in floats; the stride of its
    groups; the taps of a block."""
    stride = TILE_VECTORS * lanes
    each = channels // groups
    offsets = np.arange(each, dtype=np.int32) * stride
    return offsets, each * stride, block_channels(each, 1, stride, density * each, dense)
