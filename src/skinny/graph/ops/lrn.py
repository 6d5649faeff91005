"""Local response normalisation, over neighbouring channels."""

import math
from typing import Any

import numpy as np

from skinny.graph.attributes import integer, number
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer, to_onnx
from skinny.graph.graph import Node
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec


def _lrn(a: Attributes, x: Array) -> Array:
    x = np.asarray(x, np.float32)
    channels = x.shape[1]
    squares = np.zeros_like(x)
    for shift in range(-(a.size // 2), (a.size - 1) // 2 + 1):
        low, high = max(0, -shift), min(channels, channels - shift)
        if low < high:
            squares[:, low:high] += x[:, low + shift : high + shift] ** 2
    return np.asarray(x / (a.k + a.alpha / a.size * squares) ** a.beta, np.float32)


def _lrn_shape(a: Attributes, x: Spec) -> Spec:
    require(x.ndim >= 3, "needs a batch, channels and positions")
    return Spec("float32", x.shape)


def _lrn_from_onnx(g: Builder, call: Call) -> Any:
    size = call.plain("size")
    if size % 2 == 0:
        raise UnsupportedError("over an even number of channels")
    numbers = (("alpha", 1e-4), ("beta", 0.75))
    return g.emit("lrn", call.value(0), size=size, k=call.plain("bias", 1.0),
                  **{name: call.plain(name, default) for name, default in numbers})  # fmt: skip


def _write_lrn(writer: Writer, node: Node) -> None:
    if node["size"] % 2:
        to_onnx("LRN", size="size", alpha="alpha", beta="beta", bias="k")(writer, node)
        return
    # ONNX centres an even window otherwise: the mean of squares is an average pooling instead
    x, size = writer.operand(node.inputs[0], "float32"), node["size"]
    spec = writer.spec(node.inputs[0])
    positions = math.prod(spec.shape[2:])
    flat = writer.constant(np.array([0, 1, spec.shape[1], positions], np.int64))
    square = writer.add("Reshape", [writer.add("Mul", [x, x]), flat])
    mean = writer.add("AveragePool", [square], kernel_shape=[size, 1], strides=[1, 1],
                      pads=[size // 2, 0, (size - 1) // 2, 0], count_include_pad=1)  # fmt: skip
    back = writer.add("Reshape", [mean, writer.add("Shape", [x])])
    alpha, k, beta = (
        writer.constant(np.array(node[n], np.float32)) for n in ("alpha", "k", "beta")
    )
    power = writer.add("Pow", [writer.add("Add", [writer.add("Mul", [back, alpha]), k]), beta])
    writer.add("Div", [x, power], node.output)


register(
    "lrn",
    computes="x / (k + alpha/size · Σ x²)^beta over `size` neighbouring channels, "
    "size div 2 of them before",
    attributes={"size": integer(1, 1 << 12), "alpha": number, "beta": number, "k": number},
    infer=_lrn_shape,
    reference=_lrn,
    onnx={"LRN": _lrn_from_onnx},
    to_onnx=_write_lrn,
    lowering="lrn",
)
