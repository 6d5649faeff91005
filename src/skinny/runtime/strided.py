"""Tensors as strided views of a storage: what moves no element, and how axes are joined.

An element lies at offset + Σ index · stride, counted in elements. Functions here only compute
shapes and strides; nothing is read or written.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Shape = tuple[int, ...]

# In floats. Rows this far apart share few sets of the first-level cache and evict each other.
_CACHE_SETS = 128
_CACHE_LINE = 16


class Tensor(NamedTuple):
    """A tensor in a storage of a native program; native code reads the fields by name."""

    storage: int
    offset: int
    shape: Shape
    strides: Shape

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def extent(self) -> int:
        """Elements from the first to behind the last."""
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))


def row_major(shape: Sequence[int]) -> Shape:
    """The strides of a tensor without gaps, its last axis contiguous."""
    return ordered(shape, range(len(shape)))


def ordered(shape: Sequence[int], order: Iterable[int], row: int = 0, lanes: int = 1) -> Shape:
    """The strides of a tensor whose axes are `order`, slowest first. There are no gaps, but rows,
    which are the last `row` axes of `order`, begin at whole vectors if they are long, and not at
    multiples of large powers of two."""
    strides, stride = [0] * len(shape), 1
    for count, axis in enumerate(reversed(tuple(order)), start=1):
        strides[axis] = stride
        stride *= shape[axis]
        if count == row and stride >= 2 * lanes:
            stride = -(-stride // lanes) * lanes
            if stride % _CACHE_SETS == 0:
                stride += _CACHE_LINE
    return tuple(strides)


def order_of(tensor: Tensor) -> Shape:
    """The axes from slowest to fastest. Axes that do not tell, of one element or broadcast, come
    right after the axis before them."""
    keys: list[tuple[int, int]] = []
    before = max(tensor.strides, default=0)
    for axis, (side, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True)):
        before = stride if side > 1 and stride else before
        keys.append((-before, axis))
    return tuple(axis for _, axis in sorted(keys))


def like(shape: Sequence[int], tensor: Tensor, lanes: int) -> Shape:
    """Strides with the axes in the order in which `tensor` has them, and with rows at whole vectors
    if it has gaps between rows."""
    order = order_of(tensor)
    return ordered(shape, order, _row(tensor, order), lanes)


def _row(tensor: Tensor, order: Shape) -> int:
    """How many of the fastest axes lie beside each other, if there is a gap after them; else 0."""
    expected = 1
    for count, axis in enumerate(reversed(order)):
        if tensor.shape[axis] > 1 and tensor.strides[axis] != expected:
            return count
        expected *= tensor.shape[axis]
    return 0


def is_dense(tensor: Tensor) -> bool:
    """Whether the elements fill a range of the storage, in any order of axes."""
    real = sorted((s, n) for n, s in zip(tensor.shape, tensor.strides, strict=True) if n > 1)
    expected = 1
    for stride, side in real:
        if stride != expected:
            return False
        expected *= side
    return True


def is_row_major(tensor: Tensor) -> bool:
    whole = zip(tensor.shape, tensor.strides, row_major(tensor.shape), strict=True)
    return all(side == 1 or stride == wanted for side, stride, wanted in whole)


def permute(tensor: Tensor, axes: Sequence[int]) -> Tensor:
    return tensor._replace(
        shape=tuple(tensor.shape[axis] for axis in axes),
        strides=tuple(tensor.strides[axis] for axis in axes),
    )


def take(tensor: Tensor, axis: int, start: int, count: int, step: int = 1) -> Tensor:
    """`count` entries of an axis, from `start`, every step-th."""
    stride = tensor.strides[axis]
    return tensor._replace(
        offset=tensor.offset + start * stride,
        shape=(*tensor.shape[:axis], count, *tensor.shape[axis + 1 :]),
        strides=(*tensor.strides[:axis], stride * step, *tensor.strides[axis + 1 :]),
    )


def select(tensor: Tensor, axis: int, index: int) -> Tensor:
    one = take(tensor, axis, index, 1)
    return one._replace(
        shape=(*one.shape[:axis], *one.shape[axis + 1 :]),
        strides=(*one.strides[:axis], *one.strides[axis + 1 :]),
    )


def expand(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Broadcast to a shape, as NumPy does: strides of repeated axes are 0."""
    missing = len(shape) - len(tensor.shape)
    strides = [0] * missing + [
        stride if side == wanted else 0
        for side, stride, wanted in zip(tensor.shape, tensor.strides, shape[missing:], strict=True)
    ]
    return tensor._replace(shape=tuple(shape), strides=tuple(strides))


def reshape(tensor: Tensor, shape: Sequence[int]) -> Tensor | None:
    """The same elements in another shape; None if that needs a copy."""
    strides = [0] * len(shape)
    for old, new in reshape_groups(tensor.shape, shape):
        joined = merged([tensor], old, keep_order=True)
        sides = [side for side, _ in joined]
        for axis in reversed(new):
            side = shape[axis]
            if side == 1:
                continue
            if not sides or sides[-1] % side:
                return None
            strides[axis] = joined[len(sides) - 1][1][0] * (joined[len(sides) - 1][0] // sides[-1])
            sides[-1] //= side
            if sides[-1] == 1:
                sides.pop()
    return tensor._replace(shape=tuple(shape), strides=tuple(strides))


def reshape_groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of neighbouring axes that a reshape turns into each other. Axes of one
    element go with the group before them."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [], []
        a = b = 1
        if i < len(old):
            left, a, i = [i], old[i], i + 1
        if j < len(new):
            right, b, j = [j], new[j], j + 1
        while a != b or (not left or not right):
            if a < b and i < len(old):
                left, a, i = [*left, i], a * old[i], i + 1
            elif b < a and j < len(new):
                right, b, j = [*right, j], b * new[j], j + 1
            else:
                break
        groups.append((left, right))
    return groups


def reshaped_copy(tensor: Tensor, shape: Sequence[int]) -> Shape:
    """Strides for a copy of the tensor, in its own shape, that can then be reshaped. The axes keep
    their order in memory as far as that is possible."""
    position = {axis: at for at, axis in enumerate(order_of(tensor))}
    groups = [old for old, _ in reshape_groups(tensor.shape, shape) if old]
    groups.sort(key=lambda group: max(position[axis] for axis in group))
    return ordered(tensor.shape, [axis for group in groups for axis in group])


Joined = tuple[int, tuple[int, ...]]  # the size of an axis, and its stride in each tensor


def merged(
    tensors: Sequence[Tensor], axes: Iterable[int], *, keep_order: bool = False
) -> list[Joined]:
    """Some axes of tensors of one shape, neighbours joined where all tensors allow it, slowest
    first. Axes of one element are left out. keep_order: only as they follow each other."""
    real = [axis for axis in axes if tensors[0].shape[axis] > 1]
    if not keep_order:
        real.sort(key=lambda axis: [-tensor.strides[axis] for tensor in tensors])
    joined: list[Joined] = []
    for axis in real:
        side, strides = tensors[0].shape[axis], tuple(tensor.strides[axis] for tensor in tensors)
        if joined and joined[-1][1] == tuple(side * stride for stride in strides):
            joined[-1] = (joined[-1][0] * side, strides)
        else:
            joined.append((side, strides))
    return joined


def around(
    tensors: Sequence[Tensor], axes: Sequence[int], *, keep_order: bool = False
) -> list[Tensor] | None:
    """Tensors of one shape as [outer, axis, inner], `axes` being joined to one; None where axes
    cannot be joined. keep_order: entries of the joined axis come in the order of `axes`."""
    middle = merged(tensors, axes, keep_order=keep_order)
    others = merged(tensors, (a for a in range(len(tensors[0].shape)) if a not in axes))
    if len(middle) > 1 or len(others) > 2:
        return None
    none: Joined = (1, (0,) * len(tensors))
    axis = middle[0] if middle else none
    if len(others) == 1:
        outside = not middle or others[0][1][0] > axis[1][0]
        others = [others[0], none] if outside else [none, others[0]]
    outer, inner = others or [none, none]
    return [
        tensor._replace(
            shape=(outer[0], axis[0], inner[0]),
            strides=(outer[1][at], axis[1][at], inner[1][at]),
        )
        for at, tensor in enumerate(tensors)
    ]
