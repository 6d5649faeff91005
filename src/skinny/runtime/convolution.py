"""The geometry of a convolution: where its taps lie in the input, and its blocks."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinny._native import TILE_VECTORS, Engine
from skinny.runtime.layout import View, compact, padded, spaced
from skinny.runtime.tiles import block_channels, choose_tile

Node = Mapping[str, Any]
Shape = tuple[int, ...]

# Of layers that read the image where it lies: input channels and columns, at most; rows, which
# threads divide, the share of lanes that output channels fill and the taps of each, at least.
IMAGE_CHANNELS = 4
_LONGEST_ROW = 2048
_FEWEST_ROWS = 8
_FILLED = 0.8
_MANY_TAPS = 64
_AVX512_LANES = 16


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


def geometry(
    node: Node,
    x: Shape,
    weight: Shape,
    out: Shape,
    given: View | None = None,
    row_stride: int | None = None,
) -> Geometry:
    """x, out: [channels, height, width]; weight: [out, channels / groups, kh, kw]. given: the
    layout that x has; a convolution without stride and padding can read any. row_stride: at least,
    of the result of space-to-depth; it and padded values have gaps between channels then."""
    _, per_group, kh, kw = weight
    (sy, sx), (py, px), (dy, dx) = node["stride"], node["padding"], node["dilation"]
    rows, columns = np.arange(kh) * dy, np.arange(kw) * dx
    if sy == sx == 1:
        view = given or compact(x)
        if py or px:
            view = padded(x, (py, px))
            view = spaced(view) if row_stride else view
        first = view.origin - py * view.row_stride - px
        taps = _taps(per_group, view.channel_stride, rows * view.row_stride, columns)
        reach = (int(rows[-1]), int(columns[-1]))
        return Geometry(view, None, first, taps, per_group * view.channel_stride, reach)
    down, right = _modulo_stride(rows - py, sy), _modulo_stride(columns - px, sx)
    copies = len(down.first) * len(right.first)  # that space-to-depth makes of a channel
    width = max(out[2] + int(right.shift.max()), row_stride or 0)
    view = compact((x[0] * copies, out[1] + int(down.shift.max()), width))
    view = spaced(view) if row_stride else view
    taps = _taps(
        per_group,
        copies * view.channel_stride,
        down.which * len(right.first) * view.channel_stride + down.shift * view.row_stride,
        right.which * view.channel_stride + right.shift,
    )
    space_to_depth = SpaceToDepth(
        (sy, sx),
        np.repeat(down.first, len(right.first)).tolist(),
        np.tile(right.first, len(down.first)).tolist(),
    )
    reach = (int(down.shift.max()) * copies, int(right.shift.max()))
    group_stride = per_group * copies * view.channel_stride
    return Geometry(view, space_to_depth, 0, taps, group_stride, reach)


def _taps(
    channels: int, channel_stride: int, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.int64]:
    taps: NDArray[np.int64] = (
        np.arange(channels)[:, None, None] * channel_stride + rows[:, None] + columns[None, :]
    )
    return taps


class _AxisTaps(NamedTuple):
    """The taps of one axis, by their position modulo the stride."""

    first: NDArray[np.int64]  # of each remainder that occurs: the source position of entry 0
    which: NDArray[np.int64]  # of each tap: the index of its remainder in `first`
    shift: NDArray[np.int64]  # of each tap: its entry among those of its remainder


def _modulo_stride(at: NDArray[np.int64], stride: int) -> _AxisTaps:
    shift = at // stride
    base = shift.min()
    remainders, index = np.unique(at % stride, return_inverse=True)
    return _AxisTaps(base * stride + remainders, index.reshape(-1), shift - base)


def is_direct(node: Node, weight: Shape, out: Shape, lanes: int) -> bool:
    """Whether a dense convolution of one image, by itself, reads it where it lies, with output
    channels as the lanes of vectors (native/runtime/direct_conv.h): a first layer whose channels
    fill these. Its result must be transposed, which costs more than it gains with AVX-512, unless
    the layer has many taps or would need space-to-depth. weight: [out, channels / groups, ...];
    out: [channels, height, width]."""
    outputs, channels, *kernel = weight
    if node["groups"] > 1 or max(node["dilation"]) > 1 or channels > IMAGE_CHANNELS:
        return False
    if out[1] < _FEWEST_ROWS or out[2] > _LONGEST_ROW:
        return False
    whole = -(-outputs // lanes) * lanes
    gains = max(node["stride"]) > 1 or channels * math.prod(kernel) >= _MANY_TAPS
    return outputs >= _FILLED * whole and (gains or lanes < _AVX512_LANES)


def block_taps(
    form: Geometry, out: Shape, lanes: int, density: float, dense: bool, interleaved: bool = True
) -> int:
    """Taps of a block whose input stays in the first-level cache while a tile is computed.

    One number for all batch modes, which share the weights: what fits in the mode that reads most;
    interleaved: whether that is one of them. out: [channels, height, width]. density: non-zeros by
    weights.
    """
    channels, kh, kw = (int(side) for side in form.taps.shape)
    _, height, width = out
    down, right = form.reach
    footprint = TILE_VECTORS * lanes if kh == kw == 1 else 0  # in a chain
    for n in (1, lanes) if interleaved else (1,):
        tile = choose_tile(height, width, form.view.row_stride, lanes, n)
        if tile.flat:
            floats = tile.vectors * lanes + down * form.view.row_stride + right
        else:
            floats = (tile.rows + down) * (tile.vectors * lanes + right * n)
        footprint = max(footprint, floats)
    taps = density * channels * kh * kw
    return block_channels(channels, kh * kw, footprint, taps, dense) * kh * kw


def pointwise_taps(channels: int) -> tuple[NDArray[np.int32], int]:
    """The tap offsets of a chained 1x1 convolution in the scratch buffer, and the stride of its
    groups, both in floats. channels: of a group's input."""
    stride = Engine.scratch_stride()
    return np.arange(channels, dtype=np.int32) * stride, channels * stride
