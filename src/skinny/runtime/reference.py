"""Every operation in NumPy: short, slow, and what the kernels are measured against.

Values are float32 arrays with the batch first. `run` interprets a whole graph, and is what runs a
network where the compiled kernels are missing.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from skinny.runtime.fold import batch_norm_scale
from skinny.runtime.windows import Axis, axes

Array = NDArray[np.float32]
Node = Mapping[str, Any]
Tensor = Callable[[str], Array]


def run(graph: Mapping[str, Any], tensor: Tensor, x: Array) -> list[Array]:
    """The outputs of the graph for a batch. `tensor` gives a tensor of the file as float32."""
    values = {graph["inputs"][0]["name"]: x}
    for node in graph["nodes"]:
        inputs = [values[name] for name in node["inputs"]]
        values[node["output"]] = run_node(node, tensor, inputs)
    return [values[name] for name in graph["outputs"]]


def run_node(node: Node, tensor: Tensor, inputs: list[Array]) -> Array:
    """The result of one node."""
    result = _OPERATIONS[node["op"]](node, tensor, *inputs)
    return np.ascontiguousarray(result, dtype=np.float32)


def conv(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Array:
    """[n, c, h, w] with weight [out, c / groups, kh, kw]."""
    n, c, _, _ = x.shape
    out, _, kh, kw = weight.shape
    (sy, sx), (py, px), (dy, dx) = stride, padding, dilation
    x = np.pad(x, ((0, 0), (0, 0), (py, py), (px, px)))
    height = (x.shape[2] - dy * (kh - 1) - 1) // sy + 1
    width = (x.shape[3] - dx * (kw - 1) - 1) // sx + 1
    a, b, s, t = x.strides
    # [n, groups, c / groups, kh, kw, height, width]: the receptive field of each output.
    seen = as_strided(
        x,
        (n, groups, c // groups, kh, kw, height, width),
        (a, b * (c // groups), b, s * dy, t * dx, s * sy, t * sx),
        writeable=False,
    )
    seen = seen.reshape(n, groups, -1, height * width)
    result = np.matmul(weight.reshape(groups, out // groups, -1), seen)
    result = result.reshape(n, out, height, width)
    if bias is not None:
        result = result + bias[:, None, None]
    return np.asarray(result, np.float32)


def _pooled(x: Array, rows: Axis, columns: Axis, largest: bool) -> Array:
    result = np.empty((*x.shape[:2], len(rows.begin), len(columns.begin)), np.float32)
    for i in range(len(rows.begin)):
        for j in range(len(columns.begin)):
            window = x[
                :,
                :,
                rows.begin[i] : rows.end[i] : rows.dilation,
                columns.begin[j] : columns.end[j] : columns.dilation,
            ]
            if largest:
                result[:, :, i, j] = window.max((2, 3))
            else:
                result[:, :, i, j] = window.sum((2, 3)) * (rows.scale[i] * columns.scale[j])
    return result


def _pool(node: Node, _: Tensor, x: Array) -> Array:
    rows, columns = axes(node, x.shape[1:])
    return _pooled(x, rows, columns, node["op"] == "max_pool")


def _lrn(node: Node, _: Tensor, x: Array) -> Array:
    size, channels = node["size"], x.shape[1]
    squares = np.zeros_like(x)
    for shift in range(-(size // 2), (size - 1) // 2 + 1):
        low, high = max(0, -shift), min(channels, channels - shift)
        if low < high:
            squares[:, low:high] += x[:, low + shift : high + shift] ** 2
    result: Array = x / (node["k"] + node["alpha"] / size * squares) ** node["beta"]
    return result


def _batch_norm(node: Node, tensor: Tensor, x: Array) -> Array:
    sides = (-1, *[1] * (x.ndim - 2))
    scale, shift = batch_norm_scale(node, tensor)
    return x * scale.reshape(sides) + shift.reshape(sides)


def _linear(node: Node, tensor: Tensor, x: Array) -> Array:
    y: Array = x @ tensor(node["weight"]).T
    return y if node["bias"] is None else y + tensor(node["bias"])


def _conv(node: Node, tensor: Tensor, x: Array) -> Array:
    bias = None if node["bias"] is None else tensor(node["bias"])
    return conv(
        x, tensor(node["weight"]), bias, node["stride"], node["padding"], node["dilation"],
        node["groups"],
    )  # fmt: skip


def _softmax(node: Node, _: Tensor, x: Array) -> Array:
    shifted = x - x.max(node["axis"], keepdims=True)
    total = np.exp(shifted).sum(node["axis"], keepdims=True)
    result: Array = (
        shifted - np.log(total) if node["op"] == "log_softmax" else np.exp(shifted) / total
    )
    return result


def _flatten(node: Node, _: Tensor, x: Array) -> Array:
    start, end = node["start"] % x.ndim, node["end"] % x.ndim
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


def _reshape(node: Node, _: Tensor, x: Array) -> Array:
    return x.reshape(x.shape[0], *node["shape"][1:])


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)), np.float32)


_erf = np.vectorize(math.erf, otypes=[np.float64])  # 1 + erf(x) may be small


def _gelu(node: Node, _: Tensor, x: Array) -> Array:
    if node["approximate"] == "tanh":
        grown: NDArray[Any] = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    else:
        grown = _erf(x / math.sqrt(2))
    return np.asarray(0.5 * x * (1 + grown), np.float32)


_OPERATIONS: dict[str, Callable[..., Array]] = {
    "conv": _conv,
    "linear": _linear,
    "batch_norm": _batch_norm,
    "relu": lambda node, tensor, x: np.maximum(x, 0),
    "relu6": lambda node, tensor, x: np.clip(x, 0, 6),
    "leaky_relu": lambda node, tensor, x: np.where(x < 0, x * np.float32(node["slope"]), x),
    "elu": lambda node, tensor, x: np.where(x < 0, node["alpha"] * np.expm1(np.minimum(x, 0)), x),
    "sigmoid": lambda node, tensor, x: _sigmoid(x),
    "tanh": lambda node, tensor, x: np.tanh(x),
    "silu": lambda node, tensor, x: x * _sigmoid(x),
    "gelu": _gelu,
    "hardswish": lambda node, tensor, x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda node, tensor, x: np.clip(x + 3, 0, 6) / 6,
    "hardtanh": lambda node, tensor, x: np.clip(x, node["min"], node["max"]),
    "max_pool": _pool,
    "avg_pool": _pool,
    "adaptive_avg_pool": _pool,
    "lrn": _lrn,
    "flatten": _flatten,
    "reshape": _reshape,
    "add": lambda node, tensor, a, b: a + b,
    "concat": lambda node, tensor, *inputs: np.concatenate(inputs, node["axis"]),
    "softmax": _softmax,
    "log_softmax": _softmax,
}
