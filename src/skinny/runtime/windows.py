"""Pooling as windows: max, average and adaptive pooling are lists of windows for each axis."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinny.packing import GraphError
from skinny.runtime.shapes import output_side


class Axis(NamedTuple):
    """Output i covers the inputs begin[i], begin[i] + dilation, ... before end[i].

    An average is the sum of a window times scale[i] of both axes: PyTorch's divisors are products
    of one number for the rows and one for the columns.
    """

    begin: NDArray[np.int32]
    end: NDArray[np.int32]
    scale: NDArray[np.float32]
    dilation: int


def axes(node: Mapping[str, Any], shape: Sequence[int]) -> tuple[Axis, Axis]:
    """The rows and the columns of a pooling node whose input is [channels, rows, columns]."""
    if node["op"] in ("adaptive_avg_pool", "adaptive_max_pool"):
        rows, columns = (
            _adaptive(side, n) for side, n in zip(shape[1:], node["size"], strict=True)
        )
        return rows, columns
    both = []
    for i in range(2):
        kernel, stride, padding = node["kernel"][i], node["stride"][i], node["padding"][i]
        dilation = node["dilation"][i] if "dilation" in node else 1
        extent = dilation * (kernel - 1) + 1
        outputs = output_side(shape[1 + i], extent, stride, padding, node["ceil"])
        axis = _windows(shape[1 + i], outputs, kernel, stride, padding, dilation)
        both.append(axis._replace(scale=_divide(node, i, axis, shape[1 + i])))
    return both[0], both[1]


def _windows(
    side: int, outputs: int, kernel: int, stride: int, padding: int, dilation: int
) -> Axis:
    start = np.arange(outputs) * stride - padding
    end = start + dilation * (kernel - 1) + 1
    # A window that begins in the padding begins at its first entry inside of the image.
    begin = np.where(start < 0, start + -(start // dilation) * dilation, start)
    if (begin >= np.minimum(end, side)).any():
        raise GraphError("a pooling window of the graph sees nothing of its image")
    return Axis(_ints(begin), _ints(np.minimum(end, side)), np.ones(outputs, np.float32), dilation)


def _divide(node: Mapping[str, Any], i: int, axis: Axis, side: int) -> NDArray[np.float32]:
    if node["op"] == "max_pool":
        return axis.scale
    if node["divisor"] is not None:
        return np.full(len(axis.begin), 1 / node["divisor"] if i == 0 else 1, np.float32)
    if not node["count_include_pad"]:
        return _floats(1 / (axis.end - axis.begin))
    # The padding counts, but what ceil mode adds beyond it does not.
    start = np.arange(len(axis.begin)) * node["stride"][i] - node["padding"][i]
    end = np.minimum(start + node["kernel"][i], side + node["padding"][i])
    return _floats(1 / (end - start))


def _adaptive(side: int, outputs: int) -> Axis:
    i = np.arange(outputs)
    begin, end = i * side // outputs, -(-(i + 1) * side // outputs)
    return Axis(_ints(begin), _ints(end), _floats(1 / (end - begin)), 1)


def _ints(array: NDArray[Any]) -> NDArray[np.int32]:
    return np.ascontiguousarray(array, dtype=np.int32)


def _floats(array: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(array, dtype=np.float32)
