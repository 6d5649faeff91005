"""Layers that compute in int8: float32 in, integers multiplied and summed exactly, float32 out.

    y = m_o Σ w_q (q − z) + b_o,    m_o = input_scale · weight_scale_o · factor_o

with q the input in 8 bits (quantize.py), w_q = rint(weight / weight_scale) from −127 to 127, sums
of 32 bits, and m and y in float32, one rounding after the other. A batch norm after the layer is
its `factor` and part of its bias, so that it does not change the integers.
"""

import numpy as np

from skinny.graph.attributes import integer, tensor, window
from skinny.graph.errors import GraphError, require
from skinny.graph.forms import Writer
from skinny.graph.graph import Node
from skinny.graph.ops.conv import conv_shape, convolve, windows_bytes
from skinny.graph.ops.quantize import (
    MOST_TERMS,
    centred,
    checked_scales,
    scale,
    write_pair,
    zero,
)
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec

INT8_OPS = ("conv_int8", "linear_int8", "embedding_int8")  # whose weights are integers
_LAYER = {
    "weight": tensor(2, 3, 4, 5),
    "weight_scale": tensor(1),
    "factor": tensor(1).optional(),
    "bias": tensor(1).optional(),
    "input_scale": scale,
    "input_zero": zero,
}


def integers(weight: Array, scales: Array) -> Array:
    """The weights as integers, [outputs, ...] with a scale for each output."""
    checked_scales(scales, "a layer in int8")
    if not np.isfinite(weight).all():
        raise GraphError("a layer in int8 has a weight that is not finite")
    column = scales.astype(np.float32).reshape(-1, *[1] * (weight.ndim - 1))
    steps = np.rint(weight.astype(np.float32) / column)
    return np.asarray(np.clip(steps, -127, 127), np.int8)


def multipliers(input_scale: float, scales: Array, factor: Array | None) -> Array:
    """m of each output."""
    made = np.float32(input_scale) * scales.astype(np.float32)
    if factor is None:
        return made
    if not np.isfinite(factor).all():
        raise GraphError("a layer in int8 has a factor that is not finite")
    return made * factor.astype(np.float32)


def _scaled(a: Attributes, sums: Array, axis: int) -> Array:
    shape = [1] * sums.ndim
    shape[axis] = -1
    with np.errstate(all="ignore"):
        scales = multipliers(a.input_scale, a.weight_scale, a.factor)
        made = sums.astype(np.int32).astype(np.float32) * scales.reshape(shape)
        return made if a.bias is None else made + a.bias.astype(np.float32).reshape(shape)


def _check(a: Attributes, x: Spec) -> None:
    outputs = a.weight.shape[0]
    for name in ("weight_scale", "factor", "bias"):
        given = getattr(a, name)
        require(given is None or given.shape == (outputs,), f"needs {outputs} numbers as {name}")
    require(a.weight.size // outputs <= MOST_TERMS, f"sums more than {MOST_TERMS} products")
    require(x.is_float, "needs floats")


def _conv_shape(a: Attributes, x: Spec) -> Spec:
    _check(a, x)
    require(a.weight.ndim >= 3, "needs a weight with spatial axes")
    return conv_shape(a, x)


def _conv(a: Attributes, x: Array) -> Array:
    q = centred(x, a.input_scale, a.input_zero).astype(np.float64)  # exact, and fast
    weight = integers(a.weight, a.weight_scale).astype(np.float64)
    return _scaled(a, convolve(q, weight, a.stride, a.padding, a.dilation, a.groups), 1)


def _conv_bytes(a: Attributes, x: Spec) -> int:
    return int(2 * windows_bytes(a, x) + 12 * a.weight.size + 12 * x.size)


def _linear_shape(a: Attributes, x: Spec) -> Spec:
    _check(a, x)
    require(a.weight.ndim == 2, "needs a matrix as weight")
    outputs, inputs = a.weight.shape
    require(x.ndim >= 1 and x.shape[-1] == inputs, f"needs {inputs} features")
    return Spec("float32", (*x.shape[:-1], outputs))


def _linear(a: Attributes, x: Array) -> Array:
    q = centred(x, a.input_scale, a.input_zero).astype(np.float64)
    weight = integers(a.weight, a.weight_scale).astype(np.float64)
    return _scaled(a, q @ weight.T, x.ndim - 1)


def _linear_bytes(a: Attributes, x: Spec) -> int:
    rows = x.size // max(1, x.shape[-1])
    return int(12 * a.weight.size + 28 * x.size + 20 * rows * a.weight.shape[0])


# ---- ONNX


def _write_weight(writer: Writer, node: Node, *, turned: bool) -> str:
    """The integers and DequantizeLinear; the factor is part of the scale, which is positive."""
    scales = writer.values(node["weight_scale"])
    whole = integers(writer.values(node["weight"]), scales)
    factor = multipliers(1.0, scales, node["factor"] and writer.values(node["factor"]))
    sign = np.where(factor == 0, 0, np.where(factor < 0, -1, 1)).astype(np.int8)
    whole = whole * sign.reshape(-1, *[1] * (whole.ndim - 1))
    names = [
        writer.constant(np.ascontiguousarray(whole.T) if turned else whole),
        writer.constant(np.where(factor == 0, 1, np.abs(factor)).astype(np.float32)),
        writer.constant(np.zeros(len(scales), np.int8)),
    ]
    return writer.add("DequantizeLinear", names, axis=1 if turned else 0)


def _write_conv(writer: Writer, node: Node) -> None:
    x = write_pair(writer, node.inputs[0], node["input_scale"], node["input_zero"])
    names = [x, _write_weight(writer, node, turned=False)]
    if node["bias"] is not None:
        names.append(writer.tensor(node["bias"]))
    given = {"strides": node["stride"], "dilations": node["dilation"], "pads": node["padding"] * 2}
    lists = {name: list(value) for name, value in given.items()}
    writer.add("Conv", names, node.output, group=node["groups"], **lists)


def _write_linear(writer: Writer, node: Node) -> None:
    x = write_pair(writer, node.inputs[0], node["input_scale"], node["input_zero"])
    weight = _write_weight(writer, node, turned=True)
    product = writer.add("MatMul", [x, weight], node.output if node["bias"] is None else None)
    if node["bias"] is not None:
        writer.add("Add", [product, writer.tensor(node["bias"])], node.output)


register(
    "conv_int8",
    computes="`conv` on 8-bit integers: see below",
    attributes={
        **_LAYER,
        "stride": window(1),
        "padding": window(0),
        "dilation": window(1),
        "groups": integer(1, 1 << 16),
    },
    infer=_conv_shape,
    reference=_conv,
    workspace=_conv_bytes,
    to_onnx=_write_conv,
    lowering="conv_int8",
)
register(
    "linear_int8",
    computes="`linear` on 8-bit integers: see below",
    attributes=_LAYER,
    infer=_linear_shape,
    reference=_linear,
    workspace=_linear_bytes,
    to_onnx=_write_linear,
    lowering="linear_int8",
)
