"""The shape of every value of a graph, and a clear error where the graph makes no sense.

Shapes leave out the batch, which comes first in every value and which no operation may touch.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from skinny.packing import GraphError

Shape = tuple[int, ...]
Node = Mapping[str, Any]
LARGEST_VALUE = 1 << 28  # floats of one image

_KEEPS = {
    "relu", "relu6", "leaky_relu", "elu", "sigmoid", "tanh", "silu", "gelu", "hardswish",
    "hardsigmoid", "hardtanh",
}  # fmt: skip


def infer(graph: Mapping[str, Any], tensor_shape: Callable[[str], Shape]) -> dict[str, Shape]:
    """Value name -> shape without the batch, for all inputs and nodes.

    `graph` has passed `skinny.packing`'s structural checks; `tensor_shape` gives the shape of a
    tensor of the file. Raises `GraphError`, naming the node, for shapes that do not fit, results
    that are empty or absurdly large, and operations that would mix images of a batch.
    """
    shapes: dict[str, Shape] = {}
    for value in graph["inputs"]:
        shapes[value["name"]] = tuple(value["shape"][1:])
        _check_size(f"input {value['name']!r}", shapes[value["name"]])
    for at, node in enumerate(graph["nodes"]):
        place = f"node {at} ({node['op']})"
        inputs = [shapes[name] for name in node["inputs"]]
        try:
            shape = _infer_node(node, inputs, tensor_shape)
        except _MisfitError as misfit:
            given = " and ".join(str(list(shape)) for shape in inputs)
            raise GraphError(f"{place} of the graph {misfit}; its input is {given}") from None
        _check_size(place, shape)
        shapes[node["output"]] = shape
    return shapes


class _MisfitError(Exception):
    pass


def _check_size(place: str, shape: Shape) -> None:
    if not 1 <= math.prod(shape) <= LARGEST_VALUE:
        raise GraphError(f"{place} of the graph has a result of impossible size: {list(shape)}")


def _infer_node(node: Node, inputs: list[Shape], tensor_shape: Callable[[str], Shape]) -> Shape:
    op, x = node["op"], inputs[0]
    if op in _KEEPS:
        return x
    if op == "conv":
        out, per_group, *kernel = tensor_shape(node["weight"])
        _require(len(x) == 3, "needs an image of channels, rows and columns")
        _require(x[0] == per_group * node["groups"], f"needs {per_group * node['groups']} channels")
        extents = [d * (k - 1) + 1 for k, d in zip(kernel, node["dilation"], strict=True)]
        sides = _sides(x, extents, node["stride"], node["padding"], ceil=False)
        return (out, *sides)
    if op == "linear":
        rows, columns = tensor_shape(node["weight"])
        _require(len(x) >= 1 and x[-1] == columns, f"needs {columns} features")
        return (*x[:-1], rows)
    if op == "batch_norm":
        channels = tensor_shape(node["mean"])[0]
        _require(len(x) >= 1 and x[0] == channels, f"needs {channels} channels")
        return x
    if op in ("max_pool", "avg_pool"):
        _require(len(x) == 3, "needs an image of channels, rows and columns")
        half = [k // 2 for k in node["kernel"]]
        _require(
            all(p <= h for p, h in zip(node["padding"], half, strict=True)),
            "has a padding of more than half its window",
        )
        dilation = node.get("dilation", [1, 1])
        extents = [d * (k - 1) + 1 for k, d in zip(node["kernel"], dilation, strict=True)]
        return (x[0], *_sides(x, extents, node["stride"], node["padding"], node["ceil"]))
    if op == "adaptive_avg_pool":
        _require(len(x) == 3, "needs an image of channels, rows and columns")
        return (x[0], *node["size"])
    if op == "lrn":
        _require(len(x) >= 2, "needs channels and positions")
        return x
    if op == "flatten":
        start, end = (_axis(node[side], len(x) + 1) for side in ("start", "end"))
        _require(1 <= start <= end, "would flatten the batch")
        return (*x[: start - 1], math.prod(x[start - 1 : end]), *x[end:])
    if op == "reshape":
        return _reshaped(node["shape"], x)
    if op == "add":
        return _broadcast(*inputs)
    if op == "concat":
        axis = _axis(node["axis"], len(x) + 1) - 1
        _require(axis >= 0, "would join batches")
        rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in inputs}
        _require(len(rest) == 1 and len({len(shape) for shape in inputs}) == 1, "joins misfits")
        return (*x[:axis], sum(shape[axis] for shape in inputs), *x[axis + 1 :])
    if op in ("softmax", "log_softmax"):
        _require(_axis(node["axis"], len(x) + 1) >= 1, "would mix the images of a batch")
        return x
    raise GraphError(f"the operation {op!r} is unknown to this runtime")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise _MisfitError(otherwise)


def _axis(axis: int, rank: int) -> int:
    _require(-rank <= axis < rank, f"names axis {axis}, which does not exist")
    return axis % rank


def _sides(x: Shape, extents: list[int], stride: Any, padding: Any, ceil: bool) -> list[int]:
    sides = []
    for side, extent, apart, pad in zip(x[1:], extents, stride, padding, strict=True):
        _require(side + 2 * pad >= extent, "has a window larger than its image")
        sides.append(output_side(side, extent, apart, pad, ceil))
    return sides


def output_side(side: int, extent: int, stride: int, padding: int, ceil: bool) -> int:
    """How many windows of `extent` fit, PyTorch's way: with `ceil` the last one may stick out, but
    it may not begin beyond the image and the padding before it."""
    room = side + 2 * padding - extent
    count = (-(-room // stride) if ceil else room // stride) + 1
    return count - 1 if ceil and (count - 1) * stride >= side + padding else count


def _reshaped(wish: list[int | None], x: Shape) -> Shape:
    _require(wish[0] in (None, -1), "would mix the images of a batch")
    rest = [side for side in wish[1:] if side is not None]
    total = math.prod(x)
    if -1 in rest:
        known = math.prod(side for side in rest if side != -1)
        _require(total % known == 0, f"cannot be reshaped to {wish}")
        rest = [total // known if side == -1 else side for side in rest]
    _require(math.prod(rest) == total, f"cannot be reshaped to {wish}")
    return tuple(rest)


def _broadcast(a: Shape, b: Shape) -> Shape:
    # The batch comes first in both: a rank less would put it beside another axis.
    _require(len(a) == len(b), "adds values of different rank")
    _require(
        all(i == j or 1 in (i, j) for i, j in zip(a, b, strict=True)), "adds values that do not fit"
    )
    return tuple(max(i, j) for i, j in zip(a, b, strict=True))
