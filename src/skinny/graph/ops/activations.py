"""Activations with parameters: limits, slopes, and the smooth ones."""

import math
from typing import Any

import numpy as np

from skinny.graph.attributes import choice, number
from skinny.graph.builder import Builder
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer, aten, from_onnx, to_onnx
from skinny.graph.graph import Node
from skinny.graph.ops.elementwise import as_float, as_floats, erf
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec, broadcast, promoted, spec_of

register(
    "prelu",
    computes="x if x > 0 else slope x; inputs x, slope (one, or one for each channel)",
    inputs=(2, 2),
    infer=lambda a, x, slope: _prelu_shape(x, slope),
    reference=lambda a, x, slope: np.where(x > 0, x, as_float(x) * _per_channel(x, slope)),
    aten={
        "prelu": aten("prelu", "self", "weight"),
        "_prelu_kernel": aten("prelu", "self", "weight"),
    },
    onnx={"PRelu": lambda g, call: _prelu_from_onnx(g, call)},
    to_onnx=lambda writer, node: _write_prelu(writer, node),
    lowering="map",
)


def _per_channel(x: Array, slope: Array) -> Array:
    if slope.size == 1:
        return slope.reshape(())
    if slope.ndim > 1:
        return slope
    return slope.reshape(-1, *[1] * (x.ndim - 2))


def _prelu_shape(x: Spec, slope: Spec) -> Spec:
    channels = x.shape[1] if x.ndim > 1 else 1
    fits = slope.size == 1 or (slope.ndim == 1 and slope.shape[0] == channels)
    if not fits and slope.ndim > 1:
        fits = broadcast(x, slope) == x.shape
    require(fits, "has a slope that is neither one nor one for each channel")
    return Spec("float32", x.shape)


def _write_prelu(writer: Writer, node: Node) -> None:
    x, slope = node.inputs
    name, spec = writer.operand(slope, "float32"), writer.spec(slope)
    if spec.ndim == 1 and spec.size > 1:
        shape = writer.constant(np.array([-1, *[1] * (writer.spec(x).ndim - 2)], np.int64))
        name = writer.add("Reshape", [name, shape])
    elif spec.size == 1 and spec.ndim:
        name = writer.add("Reshape", [name, writer.constant(np.zeros(0, np.int64))])
    writer.add("PRelu", [writer.operand(x, "float32"), name], node.output)


def _prelu_from_onnx(g: Builder, call: Call) -> Any:
    """ONNX broadcasts the slope from the last axis on: a vector is not one for each channel."""
    x, slope = call.value(0), call.value(1)
    shape = g.shape(slope)
    if len(shape) == 1 and shape != (1,) and g.rank(x) != 2:
        slope = g.emit("reshape", slope, shape=[*[1] * (g.rank(x) - 1), -1])
    return g.emit("prelu", x, slope)


# ---- limits


def _clamped(a: Attributes, x: Spec) -> Spec:
    require(x.dtype != "bool", "takes no booleans")
    limits = [spec_of(limit) for limit in (a.min, a.max) if limit is not None]
    return Spec(promoted(x, *limits), x.shape)


def _clamp(a: Attributes, x: Array) -> Array:
    """In wide types, so that limits beyond the range of x's are what they say."""
    wide = x if x.dtype.kind == "f" else x.astype(np.int64)
    low, high = (None if limit is None else np.asarray(limit) for limit in (a.min, a.max))
    if low is not None:
        wide = np.maximum(wide, low)
    return wide if high is None else np.minimum(wide, high)


def _write_clamp(writer: Writer, node: Node) -> None:
    dtype = writer.spec(node.output).dtype
    range_ = None if dtype == "float32" else np.iinfo(dtype)
    limits = []
    for side in ("min", "max"):
        limit = node[side]
        if limit is not None and range_ is not None:
            limit = min(max(limit, int(range_.min)), int(range_.max))
        limits.append("" if limit is None else writer.constant(np.array(limit, dtype)))
    writer.add("Clip", [writer.operand(node.inputs[0], dtype), *limits], node.output)


def _clamp_from_onnx(g: Builder, call: Call) -> Any:
    low, high = (
        call.plain(at) if call.has(at) else call.plain(name)
        for at, name in ((1, "min"), (2, "max"))
    )
    return limited(g, call.value(0), low, high)


def limited(g: Builder, x: Any, low: Any, high: Any) -> Any:
    """x within limits, which are numbers, values, or None."""
    low, high = (
        limit[0] if isinstance(limit, list) and len(limit) == 1 else limit for limit in (low, high)
    )
    low = None if low in (-np.inf, float(-_LARGEST)) else low
    high = None if high in (np.inf, float(_LARGEST)) else high
    if isinstance(low, str):
        x, low = g.emit("maximum", x, low), None
    if isinstance(high, str):
        return limited(g, g.emit("minimum", limited(g, x, low, None), high), None, None)
    if low is None and high is None:
        return x
    if (low, high) == (0, 6) and g.spec(x).is_float:
        return g.emit("relu6", x)
    if low == 0 and high is None:
        return g.emit("relu", x)
    return g.emit("clamp", x, min=low, max=high)


def _limits_from_aten(low: str | None, high: str | None) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        limits = (None if name is None else call.plain(name) for name in (low, high))
        return limited(g, call.value("self"), *limits)

    return emit


def _hardtanh_from_aten(g: Builder, call: Call) -> Any:
    low, high = call.plain("min_val"), call.plain("max_val")
    if (low, high) == (0, 6):
        return g.emit("relu6", call.value("self"))
    return g.emit("hardtanh", call.value("self"), min=low, max=high)


_LARGEST = np.finfo(np.float32).max


register(
    "clamp",
    computes="x limited to [min, max]; a limit may be null",
    attributes={"min": number.optional(), "max": number.optional()},
    infer=_clamped,
    reference=_clamp,
    workspace=20,
    aten={
        "clamp": _limits_from_aten("min", "max"),
        "clamp_min": _limits_from_aten("min", None),
        "clamp_max": _limits_from_aten(None, "max"),
    },
    onnx={"Clip": _clamp_from_onnx},
    to_onnx=_write_clamp,
    lowering="map",
)
register(
    "hardtanh",
    computes="x limited to [min, max]",
    attributes={"min": number, "max": number},
    infer=_clamped,
    reference=_clamp,
    workspace=20,
    aten={"hardtanh": _hardtanh_from_aten},
    to_onnx=_write_clamp,
    lowering="map",
)
register(
    "leaky_relu",
    computes="x if x > 0 else slope x",
    attributes={"slope": number},
    infer=as_floats,
    reference=lambda a, x: np.where(x < 0, x * np.float32(a.slope), x),
    aten={"leaky_relu": aten("leaky_relu", slope="negative_slope")},
    onnx={"LeakyRelu": from_onnx("leaky_relu", slope=("alpha", 0.01))},
    to_onnx=to_onnx("LeakyRelu", dtype="float32", alpha="slope"),
    lowering="map",
)


def _elu_from_aten(g: Builder, call: Call) -> Any:
    """scale (elu(x input_scale)) with alpha: selu and celu are such."""
    x, inner = call.value("self"), call.plain("input_scale", 1)
    if inner != 1:
        x = g.emit("mul", x, inner)
    scale = call.plain("scale", 1)
    y = g.emit("elu", x, alpha=call.plain("alpha"))
    return y if scale == 1 else g.emit("mul", y, scale)


register(
    "elu",
    computes="x if x > 0 else alpha (eˣ − 1)",
    attributes={"alpha": number},
    infer=as_floats,
    reference=lambda a, x: np.where(x < 0, a.alpha * np.expm1(np.minimum(x, 0)), x),
    aten={"elu": _elu_from_aten},
    onnx={
        "Elu": from_onnx("elu", alpha=("alpha", 1.0)),
        "Selu": lambda g, call: g.emit(
            "mul",
            g.emit("elu", call.value(0), alpha=call.plain("alpha", 1.67326319217681884765625)),
            call.plain("gamma", 1.05070102214813232421875),
        ),
        "Celu": lambda g, call: _celu_from_onnx(g, call),
    },
    to_onnx=to_onnx("Elu", dtype="float32", alpha="alpha"),
    lowering="map",
)


def _celu_from_onnx(g: Builder, call: Call) -> Any:
    """alpha elu(x / alpha)"""
    alpha = call.plain("alpha", 1.0)
    inner = g.emit("elu", g.emit("div", call.value(0), alpha), alpha=1)
    return g.emit("mul", inner, alpha)


def gelu(x: Array, approximate: str) -> Array:
    if approximate == "tanh":
        grown = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    else:
        grown = erf(x / math.sqrt(2))
    return as_float(0.5 * x * (1 + grown))


register(
    "gelu",
    computes="x Φ(x), Φ being the normal distribution; or its approximation by tanh",
    attributes={"approximate": choice("none", "tanh")},
    infer=as_floats,
    reference=lambda a, x: gelu(x, a.approximate),
    workspace=36,
    aten={"gelu": aten("gelu", approximate="approximate")},
    onnx={"Gelu": from_onnx("gelu", approximate=("approximate", "none"))},
    to_onnx=to_onnx("Gelu", dtype="float32", approximate="approximate"),
    lowering="map",
)


def _softplus(a: Attributes, x: Array) -> Array:
    scaled = x * np.float32(a.beta)
    return as_float(np.where(scaled > a.threshold, x, np.logaddexp(0, scaled) / a.beta))


def _write_softplus(writer: Writer, node: Node) -> None:
    x = writer.operand(node.inputs[0], "float32")
    if node["beta"] == 1:
        writer.add("Softplus", [x], node.output)
        return
    beta = writer.constant(np.array(node["beta"], np.float32))
    writer.add("Div", [writer.add("Softplus", [writer.add("Mul", [x, beta])]), beta], node.output)


register(
    "softplus",
    computes="log(1 + e^(beta x)) / beta; x itself where beta x > threshold",
    attributes={"beta": number.with_default(1), "threshold": number.with_default(20)},
    infer=as_floats,
    reference=_softplus,
    workspace=20,
    aten={"softplus": aten("softplus", beta="beta", threshold="threshold")},
    onnx={"Softplus": from_onnx("softplus")},
    to_onnx=_write_softplus,
    lowering="map",
)
