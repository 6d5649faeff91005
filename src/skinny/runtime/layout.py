"""Where values lie in the arena. All numbers count positions; a position is n floats, one for each
of n interleaved images (native/runtime/view.h)."""

import math
from collections.abc import Iterable
from typing import NamedTuple

Shape = tuple[int, ...]


class View(NamedTuple):
    """A value in the arena. Fields in the order the native code takes them."""

    offset: int
    channels: int
    height: int
    width: int
    plane: int
    pitch: int
    origin: int

    @property
    def positions(self) -> int:
        return self.channels * self.plane

    def flat(self) -> "View":
        """The same compact value as one row per channel."""
        size = self.height * self.width
        return self._replace(height=1, width=size, pitch=size)


def compact(shape: Shape) -> View:
    """Channels, rows and columns without gaps; values of other ranks as far as they have them."""
    channels, *rest = shape if shape else (1,)
    height = rest[0] if len(rest) == 2 else 1
    width = math.prod(rest) // height
    return View(0, channels, height, width, height * width, width, 0)


def padded(shape: Shape, padding: tuple[int, int]) -> View:
    """With zeros around each plane. A row's right margin is the left margin of the next."""
    channels, height, width = shape
    top, left = padding
    pitch = width + left
    plane = (height + 2 * top) * pitch + left
    return View(0, channels, height, width, plane, pitch, top * pitch + left)


class Buffer:
    """A stretch of the arena, from the step that writes it to the last one that reads it."""

    def __init__(self, view: View, first: int) -> None:
        self.view = view
        self.first = self.last = first


def arrange(buffers: Iterable[Buffer]) -> int:
    """Gives each buffer an offset so that none shares positions with another at the same time.

    First fit, largest first; returns the positions needed. Offsets are multiples of 16 positions: a
    cache line, even for one image.
    """
    placed: list[Buffer] = []
    total = 0
    for buffer in sorted(buffers, key=lambda b: -b.view.positions):
        size, offset = -(-buffer.view.positions // 16) * 16, 0
        others = sorted(
            (b for b in placed if b.first <= buffer.last and buffer.first <= b.last),
            key=lambda b: b.view.offset,
        )
        for other in others:
            if offset + size <= other.view.offset:
                break
            offset = max(offset, other.view.offset + -(-other.view.positions // 16) * 16)
        buffer.view = buffer.view._replace(offset=offset)
        placed.append(buffer)
        total = max(total, offset + size)
    return total
