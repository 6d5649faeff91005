"""Where values lie in the arena. Sizes and offsets count positions; a position is n floats, one for
each of n interleaved images (native/runtime/view.h)."""

import heapq
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]
_LINE = 16  # floats of a cache line
_LARGE = 1 << 14  # floats of results that take long enough to compute for their place to matter


class View(NamedTuple):
    """A value in the arena. The native code reads the fields by name."""

    offset: int
    channels: int
    height: int
    width: int
    channel_stride: int
    row_stride: int
    origin: int  # of row 0, column 0 within a channel; the padding around the rows is zero

    @property
    def positions(self) -> int:
        return self.channels * self.channel_stride

    @property
    def contiguous(self) -> bool:
        """Whether the rows of a channel follow each other without padding."""
        return self.origin == 0 and self.row_stride == self.width

    def flat(self, width: int, origin: int = 0) -> "View":
        """A channel as one row of all that lies in it, from a position on: padding, and some of
        the gap after it too."""
        return self._replace(height=1, width=width, row_stride=width, origin=origin)


def empty(shape: Shape) -> NDArray[np.float32]:
    """An array for results; a large one begins at a cache line, so that vectors stored there do not
    cross lines."""
    size = math.prod(shape)
    if size < _LARGE:
        return np.empty(shape, np.float32)
    memory = np.empty(size + _LINE, np.float32)
    begin = -memory.ctypes.data // 4 % _LINE
    return memory[begin : begin + size].reshape(shape)


def compact(shape: Shape) -> View:
    """Channels, rows and columns without gaps. A value of another rank has one row per channel."""
    channels, *rest = shape if shape else (1,)
    height = rest[0] if len(rest) == 2 else 1
    width = math.prod(rest) // height
    return View(0, channels, height, width, height * width, width, 0)


def loose(shape: Shape, row_stride: int) -> View:
    """Rows that lie apart, with anything between them."""
    view = compact(shape)
    return view._replace(row_stride=row_stride, channel_stride=view.height * row_stride)


def spaced(view: View) -> View:
    """With gaps between channels, of a vector at least: those of one image begin at cache lines, as
    their first rows do, so that vectors of a channel that is one long row cross none. They lie an
    odd number of lines apart: were it even, the same position of all channels would lie in a part
    of the sets of the first-level cache, were it a power of two, in a few of them."""
    origin = -(-view.origin // _LINE) * _LINE
    lines = -(-(view.channel_stride + origin - view.origin + _LINE - 1) // _LINE)
    return view._replace(channel_stride=(lines | 1) * _LINE, origin=origin)


def padded(shape: Shape, padding: tuple[int, int]) -> View:
    """With zeros around each channel's rows; padding right of a row is padding left of the next."""
    channels, height, width = shape
    top, left = padding
    row_stride = width + left
    channel_stride = (height + 2 * top) * row_stride + left
    origin = top * row_stride + left
    return View(0, channels, height, width, channel_stride, row_stride, origin)


class Buffer:
    """A range of the arena, live from the step that writes it to the last one that reads it."""

    def __init__(self, view: View, first: int) -> None:
        self.view = view
        self.first = self.last = first


# Values beyond the largest ones are few bytes, or the graph is absurd: a simpler plan does.
_MAX_FITTED = 1000


def plan_memory(buffers: Iterable[Buffer]) -> int:
    """Gives each buffer an offset so that no two buffers live at the same time overlap.

    First fit, largest first, which takes the square of the number of buffers: the smaller ones, if
    there are more than a thousand, are planned in the order of time, above the others. Returns the
    positions needed. Offsets are multiples of 16 positions: a cache line, even for one image.
    """
    largest_first = sorted(buffers, key=lambda b: -b.view.positions)
    placed: list[Buffer] = []
    total = 0
    for buffer in largest_first[:_MAX_FITTED]:
        size, offset = _size(buffer), 0
        others = sorted(
            (b for b in placed if b.first <= buffer.last and buffer.first <= b.last),
            key=lambda b: b.view.offset,
        )
        for other in others:
            if offset + size <= other.view.offset:
                break
            offset = max(offset, other.view.offset + _size(other))
        buffer.view = buffer.view._replace(offset=offset)
        placed.append(buffer)
        total = max(total, offset + size)
    return _plan_in_order(largest_first[_MAX_FITTED:], total)


def _plan_in_order(buffers: list[Buffer], bottom: int) -> int:
    """As `plan_memory`, from offset `bottom` on: a buffer takes the place of one of its size that
    is no longer live, or a new one. Sizes are rounded up to powers of two, so that they recur."""
    total = bottom
    free: dict[int, list[int]] = {}  # size -> offsets
    live: list[tuple[int, int, int]] = []  # a heap of (last, size, offset)
    for buffer in sorted(buffers, key=lambda b: b.first):
        while live and live[0][0] < buffer.first:
            _, size, offset = heapq.heappop(live)
            free.setdefault(size, []).append(offset)
        size = 1 << (_size(buffer) - 1).bit_length()
        if places := free.get(size):
            offset = places.pop()
        else:
            offset, total = total, total + size
        buffer.view = buffer.view._replace(offset=offset)
        heapq.heappush(live, (buffer.last, size, offset))
    return total


def _size(buffer: Buffer) -> int:
    return -(-buffer.view.positions // 16) * 16
