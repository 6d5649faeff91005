"""Eight-bit activations: integers, and floats that are rounded to what these integers can be.

    q = rint(min(max(x · (1 / s), −z), 255 − z)) + z,    x' = (q − z) s

with the scale s and the zero point z, all in float32: 1 / s is rounded once, and NaN becomes the
smallest value. An int8 value is the uint8 one minus 128, and so is its zero point.
"""

import math
from typing import Any

import numpy as np

from skinny.graph.attributes import Attribute, axis, choice, integer, is_number, tensor
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import GraphError, require
from skinny.graph.forms import OnnxCall, Writer
from skinny.graph.graph import Node, Operand
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec, axis_of

SMALLEST, LARGEST = 1e-30, 1e30  # of a scale: far from what float32 cannot hold
MOST_TERMS = 1 << 16  # of a sum in int8, so that 32 bits hold it: 65536 * 255 * 127 < 2^31
_SHIFT = {"uint8": 0, "int8": 128}

scale = Attribute(
    f"a number from {SMALLEST} to {LARGEST}",
    lambda value: is_number(value) and SMALLEST <= value <= LARGEST,
)
zero = integer(0, 255)


def centred(x: Array, scale: float, zero: int) -> Array:
    """q − z as float32: the integers that a product is made of."""
    with np.errstate(all="ignore"):
        steps = np.asarray(x, np.float32) * (np.float32(1) / np.float32(scale))
        limited = np.fmin(np.fmax(steps, np.float32(-zero)), np.float32(255 - zero))
        return np.asarray(np.rint(limited), np.float32)


def checked_scales(scales: Array, what: str) -> Array:
    """The scales of a stored tensor, if they can be."""
    if not bool(np.all((scales >= SMALLEST) & (scales <= LARGEST))):
        raise GraphError(f"{what} has a scale that is not from {SMALLEST} to {LARGEST}")
    return scales


# ---- integers


def _quantize(a: Attributes, x: Array) -> Array:
    shift = _SHIFT[a.dtype]
    return np.asarray(centred(x, a.scale, a.zero + shift) + a.zero, a.dtype)


def _quantize_shape(a: Attributes, x: Spec) -> Spec:
    require(0 <= a.zero + _SHIFT[a.dtype] <= 255, f"has a zero point that is no {a.dtype}")
    return Spec(a.dtype, x.shape)


def _dequantize_shape(a: Attributes, x: Spec) -> Spec:
    require(not x.is_float, "needs integers")
    require(a.zero is None or a.zero.shape == a.scale.shape, "needs as many zeros as scales")
    count = a.scale.shape[0]
    require(count == 1 or x.shape[axis_of(a.axis, x.ndim)] == count, f"needs {count} channels")
    return Spec("float32", x.shape)


def _dequantize(a: Attributes, x: Array) -> Array:
    scales = checked_scales(a.scale, "dequantize")
    shape = [1] * x.ndim
    if scales.size > 1:
        shape[axis_of(a.axis, x.ndim)] = -1
    zeros = np.zeros_like(scales) if a.zero is None else a.zero
    centre = x.astype(np.float32) - zeros.astype(np.float32).reshape(shape if x.ndim else ())
    made: Array = centre * scales.astype(np.float32).reshape(shape if x.ndim else ())
    return made


# ---- ONNX


def _scale_and_zero(call: OnnxCall) -> tuple[Array, Array]:
    """Scales, and zero points in their own type, uint8 unless given."""
    scales = np.asarray(call.array(1), np.float32)
    if not call.has(2):
        return scales, np.zeros(scales.shape, np.uint8)
    return scales, call.array(2)


def _from_onnx(g: Builder, call: OnnxCall) -> Any:
    scales, zeros = _scale_and_zero(call)
    if scales.size != 1:
        raise UnsupportedError("of a value with a scale for each channel")
    dtype = str(zeros.dtype)
    if dtype not in _SHIFT:
        raise UnsupportedError(f"to {dtype}")
    given: dict[str, Any] = {"scale": float(scales.item()), "zero": int(zeros.item())}
    return g.emit("quantize", call.value(0), dtype=dtype, **given)


def _dequantized_from_onnx(g: Builder, call: OnnxCall) -> Any:
    """A quantised value is rounded to eight bits and stays float32."""
    scales, zeros = _scale_and_zero(call)
    x = call.value(0)
    node = g.producers.get(x) if isinstance(x, str) else None
    if node is not None and node.op == "quantize" and scales.size == 1:
        point = int(zeros.item()) + _SHIFT[node["dtype"]]
        same = np.float32(node["scale"]) == np.float32(scales.item())
        if same and point == node["zero"] + _SHIFT[node["dtype"]]:
            given = {"scale": node["scale"], "zero": point}
            return g.emit("fake_quantize", node.inputs[0], **given)
    return g.emit(
        "dequantize",
        x,
        scale=call.store(scales.reshape(-1)),
        zero=call.store(zeros.reshape(-1).astype(np.int32)) if zeros.any() else None,
        axis=int(call.plain("axis", 1)) if scales.size > 1 else 0,
    )


def int8_layer(g: Builder, call: OnnxCall, x: Operand, *, axis: int) -> dict[str, Any] | None:
    """What a layer of an ONNX file in int8 has beside its own attributes, and its input as `x`:
    where the input was quantised, and input 1 is a weight in int8 with a scale for each index of
    `axis`, the outputs, or one for all. None for any other layer."""
    source = g.producers.get(x) if isinstance(x, str) else None
    if source is None or source.op != "fake_quantize":
        return None
    weight = int8_weight(g, call, 1, axis=axis)
    if weight is None or math.prod(call.shape(1)) // call.shape(1)[axis] > MOST_TERMS:
        return None
    given = {"input_scale": source["scale"], "input_zero": source["zero"]}
    return {"x": source.inputs[0], **weight, **given}


def int8_weight(g: Builder, call: OnnxCall, at: int, *, axis: int) -> dict[str, Any] | None:
    """Input `at` of an ONNX node as `weight` and `weight_scale`, if it is one of those."""
    made = g.producers.get(str(call.value(at)))
    if not call.is_stored(at) or made is None or made.op != "dequantize":
        return None
    weight = call.array(at)
    scales = g.known(g.emit("constant", tensor=made["scale"]))
    if weight.ndim < 2 or scales is None:
        return None
    if scales.size > 1 and made["axis"] % weight.ndim != axis:
        return None
    if not (np.isfinite(scales) & (scales > 0)).all():
        return None
    outputs = weight.shape[axis]
    rows = np.ascontiguousarray(np.moveaxis(weight, axis, 0))
    scales = np.broadcast_to(scales.astype(np.float32), (outputs,))
    if np.abs(np.rint(rows.reshape(outputs, -1) / scales[:, None])).max() > 127:
        return None  # -128, or a zero point beside 0
    return {
        "weight": call.stored(at) if axis == 0 else call.store(rows),
        "weight_scale": call.store(np.ascontiguousarray(scales)),
    }


def write_scale(writer: Writer, scale: float, zero: int) -> tuple[str, str]:
    return (
        writer.constant(np.asarray(scale, np.float32)),
        writer.constant(np.asarray(zero, np.uint8)),
    )


def write_pair(
    writer: Writer, x: Operand, scale: float, zero: int, output: str | None = None
) -> str:
    """QuantizeLinear and DequantizeLinear of a float value."""
    scales = list(write_scale(writer, scale, zero))
    integers = writer.add("QuantizeLinear", [writer.operand(x, "float32"), *scales])
    return writer.add("DequantizeLinear", [integers, *scales], output)


def _write_quantize(writer: Writer, node: Node) -> None:
    x = writer.operand(node.inputs[0], "float32")
    scale = writer.constant(np.asarray(node["scale"], np.float32))
    point = writer.constant(np.asarray(node["zero"], node["dtype"]))
    writer.add("QuantizeLinear", [x, scale, point], node.output)


def _write_dequantize(writer: Writer, node: Node) -> None:
    """By Cast, Sub and Mul: DequantizeLinear does not take integers of every type."""
    scales, rank = writer.values(node["scale"]), writer.spec(node.inputs[0]).ndim
    shape = [1] * rank
    if scales.size > 1:
        shape[axis_of(node["axis"], rank)] = -1
    x = writer.cast(writer.operand(node.inputs[0]), "float32")
    if node["zero"] is not None:
        zeros = writer.values(node["zero"]).astype(np.float32).reshape(shape)
        x = writer.add("Sub", [x, writer.constant(zeros)])
    factor = writer.constant(scales.astype(np.float32).reshape(shape))
    writer.add("Mul", [x, factor], node.output)


register(
    "quantize",
    computes="x / scale rounded to integers of 8 bits, plus a zero point",
    attributes={
        "scale": scale,
        "zero": integer(-128, 255),
        "dtype": choice("uint8", "int8"),
    },
    infer=_quantize_shape,
    reference=_quantize,
    onnx={"QuantizeLinear": _from_onnx},
    to_onnx=_write_quantize,
)
register(
    "dequantize",
    computes="(x − zero) scale, of integers; one scale, or one for each index of an axis",
    attributes={
        "scale": tensor(1),
        "zero": tensor(1).optional(),
        "axis": axis.with_default(0),
    },
    infer=_dequantize_shape,
    reference=_dequantize,
    onnx={"DequantizeLinear": _dequantized_from_onnx},
    to_onnx=_write_dequantize,
)
register(
    "fake_quantize",
    computes="x rounded to one of 256 values: scale times the integers from −zero to 255 − zero",
    attributes={"scale": scale, "zero": zero},
    infer=lambda a, x: Spec("float32", x.shape),
    reference=lambda a, x: centred(x, a.scale, a.zero) * np.float32(a.scale),
    to_onnx=lambda writer, node: (
        write_pair(writer, node.inputs[0], node["scale"], node["zero"], node.output),
        None,
    )[1],
    lowering="fake_quantize",
)
