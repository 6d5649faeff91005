"""Images of another size: pixels moved between channels and positions, repeated, interpolated."""

from types import SimpleNamespace

import numpy as np

from skinny.graph import Node
from skinny.graph.ops.resample import taps
from skinny.graph.values import Array
from skinny.runtime import strided
from skinny.runtime.lowering.views import of_floats, reshaped
from skinny.runtime.step_info import StepInfo
from skinny.runtime.strided import Shape, Tensor
from skinny.runtime.tensor_plan import Lowering, TensorPlan, Value


def _shuffle(plan: TensorPlan, node: Node) -> None:
    """A view of the input with an axis for each factor of a channel and of a position, copied in
    the order that the result has them."""
    x, shape = plan.value(node.inputs[0]), plan.spec(node.output).shape
    *outer, channels, height, width = x.shape
    r, n = node["factor"], len(outer)
    split_shape: Shape
    if node.op == "pixel_shuffle":
        split_shape = (*outer, channels // (r * r), r, r, height, width)
        order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    else:
        split_shape = (*outer, channels, height // r, r, width // r, r)
        order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    split = reshaped(plan, x, split_shape)
    turned = split.viewed(strided.permute(split.tensor, order))
    y = plan.make(node.output)
    target = strided.reshape(Tensor(0, y.tensor.offset, shape, y.tensor.strides), turned.shape)
    assert target is not None
    plan.copy(turned, y.viewed(target), node.output)


def _resize(plan: TensorPlan, node: Node) -> None:
    x, size = plan.value(node.inputs[0]), plan.spec(node.output).shape[2:]
    sides = x.shape[2:]
    whole = all(made % side == 0 for made, side in zip(size, sides, strict=True))
    if node["mode"] == "nearest" and node["scales"] is None and whole and len(size) < 4:
        _repeat(plan, node, x, size)
        return
    for at in reversed(range(len(size))):
        if size[at] != sides[at] or node["scales"] is not None:
            x = _interpolate(plan, node, x, at, size[at])
    plan.values[node.output] = x


def _repeat(plan: TensorPlan, node: Node, x: Value, size: Shape) -> None:
    """Each pixel several times along each axis."""
    wide, narrow = list(x.shape[:2]), list(x.shape[:2])
    for side, made in zip(x.shape[2:], size, strict=True):
        wide += [side, made // side]
        narrow += [side, 1]
    source = strided.reshape(x.tensor, narrow)
    y = plan.make(node.output)
    target = strided.reshape(y.tensor, wide)
    assert source is not None
    assert target is not None
    plan.copy(x.viewed(strided.expand(source, wide)), y.viewed(target), node.output)


def _interpolate(plan: TensorPlan, node: Node, x: Value, at: int, made: int) -> Value:
    """A spatial axis multiplied by the matrix of its weights, [made, side]."""
    axis, side = 2 + at, x.shape[2 + at]

    def matrix() -> Array:
        dense = np.zeros((made, side), np.float32)
        for index, weight in taps(SimpleNamespace(**node.attributes), at, side, made):
            np.add.at(dense, (np.arange(made), index), weight.astype(np.float32))
        return dense

    key = ("resize", node["mode"], node["align_corners"], node["scales"], at, side, made)
    factor = plan.constant(key, (made, side), matrix)
    if not strided.is_row_major(x.tensor):
        x = plan.copied(x, strided.row_major(x.shape))
    last = axis == len(x.shape) - 1
    y = plan.new((*x.shape[:axis], made, *x.shape[axis + 1 :]))
    if last:  # x times the transposed matrix, which lies so that vectors run along the result
        factor = plan.constant((key, "turned"), (side, made), lambda: matrix().T)
        rows = x.tensor.size // side
        a, b, target = x.viewed(_as(x, (rows, side))), factor, y.viewed(_as(y, (rows, made)))
    else:
        outer = int(np.prod(x.shape[:axis]))
        inner = x.tensor.size // (outer * side)
        b, target = x.viewed(_as(x, (outer, side, inner))), y.viewed(_as(y, (outer, made, inner)))
        a = factor.viewed(strided.expand(factor.tensor, (outer, made, side)))
    plan.step(
        StepInfo(node.output, "resize", "matmul", 2 * target.tensor.size * side),
        [a, b, target],
        lambda p: p.add_matmul(a=plan.at(a), b=plan.at(b), target=plan.at(target)),
    )
    return y


def _as(value: Value, shape: Shape) -> Tensor:
    return value.tensor._replace(shape=shape, strides=strided.row_major(shape))


SHUFFLE = Lowering(of_floats, _shuffle)
RESIZE = Lowering(of_floats, _resize)
