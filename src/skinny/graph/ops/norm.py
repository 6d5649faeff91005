"""Normalisation: batch, layer, group, instance and RMS."""

import math
from typing import Any

import numpy as np

from skinny.graph.attributes import Attribute, integer, is_number, tensor
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer
from skinny.graph.graph import Node
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec

_EPS = Attribute("a number that is not negative", lambda v: is_number(v) and v >= 0)
_AFFINE = {"weight": tensor(1).optional(), "bias": tensor(1).optional()}


def _vectors(a: Attributes, names: tuple[str, ...], count: int) -> None:
    for name in names:
        vector = getattr(a, name)
        require(vector is None or vector.shape == (count,), f"needs {count} values of {name}")


def _batch_norm_shape(a: Attributes, x: Spec) -> Spec:
    require(x.ndim >= 2, "needs a batch and channels")
    _vectors(a, ("mean", "var", "weight", "bias"), x.shape[1])
    return Spec("float32", x.shape)


def batch_norm_scale(a: Attributes) -> tuple[Array, Array]:
    """Batch normalisation in evaluation is x * scale + shift, per channel."""
    scale = 1 / np.sqrt(np.asarray(a.var, np.float64) + a.eps)
    if a.weight is not None:
        scale = scale * a.weight
    shift = -np.asarray(a.mean, np.float64) * scale
    if a.bias is not None:
        shift = shift + a.bias
    return scale.astype(np.float32), shift.astype(np.float32)


def _batch_norm(a: Attributes, x: Array) -> Array:
    sides = (-1, *[1] * (x.ndim - 2))
    scale, shift = batch_norm_scale(a)
    return np.asarray(x * scale.reshape(sides) + shift.reshape(sides), np.float32)


def _batch_norm_from_aten(g: Builder, call: Call) -> Any:
    training = (call.has("training") and call.plain("training")) or not call.has("running_mean")
    if training:
        raise UnsupportedError("with the statistics of the batch instead of running ones")
    normalised = g.emit(
        "batch_norm",
        call.value("input"),
        weight=call.stored("weight") if call.has("weight") else None,
        bias=call.stored("bias") if call.has("bias") else None,
        mean=call.stored("running_mean"),
        var=call.stored("running_var"),
        eps=call.plain("eps"),
    )
    return normalised


def _batch_norm_from_onnx(g: Builder, call: Call) -> Any:
    return g.emit(
        "batch_norm",
        call.value(0),
        weight=call.stored(1),
        bias=call.stored(2),
        mean=call.stored(3),
        var=call.stored(4),
        eps=call.plain("epsilon", 1e-5),
    )


def _vector(writer: Writer, node: Node, field: str, count: int, default: float) -> str:
    if node[field] is not None:
        return writer.tensor(node[field])
    return writer.constant(np.full(count, default, np.float32))


def _write_batch_norm(writer: Writer, node: Node) -> None:
    count = writer.spec(node.inputs[0]).shape[1]
    writer.add(
        "BatchNormalization",
        [
            writer.operand(node.inputs[0], "float32"),
            _vector(writer, node, "weight", count, 1),
            _vector(writer, node, "bias", count, 0),
            writer.tensor(node["mean"]),
            writer.tensor(node["var"]),
        ],
        node.output,
        epsilon=node["eps"],
    )


register(
    "batch_norm",
    computes="weight (x − mean) / sqrt(var + eps) + bias, per channel",
    attributes={**_AFFINE, "mean": tensor(1), "var": tensor(1), "eps": _EPS},
    infer=_batch_norm_shape,
    reference=_batch_norm,
    aten={
        "batch_norm": _batch_norm_from_aten,
        "_native_batch_norm_legit_no_training": lambda g, call: (_batch_norm_from_aten(g, call),),
    },
    onnx={"BatchNormalization": _batch_norm_from_onnx},
    to_onnx=_write_batch_norm,
    lowering="batch_norm",
)


# ---- over the last axes


def _standardised(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    if x.size == 0:
        return x
    wide = np.asarray(x, np.float64)
    centred = wide - wide.mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps), np.float32)


def _last_axes(a: Attributes, x: Spec) -> Spec:
    require(1 <= a.axes <= x.ndim, f"normalises over {a.axes} axes")
    inner = x.shape[-a.axes :]
    for name in ("weight", "bias"):
        given = getattr(a, name, None)
        require(given is None or given.shape == inner, f"needs a {name} of shape {list(inner)}")
    return Spec("float32", x.shape)


def _affine(y: Array, a: Attributes) -> Array:
    if a.weight is not None:
        y = y * a.weight
    bias = getattr(a, "bias", None)
    return y if bias is None else y + bias


def _layer_norm(a: Attributes, x: Array) -> Array:
    return _affine(_standardised(x, tuple(range(-a.axes, 0)), a.eps), a)


def _optional(call: Call, which: int | str) -> str | None:
    return call.stored(which) if call.has(which) else None


def _layer_norm_from_aten(g: Builder, call: Call) -> Any:
    return g.emit(
        "layer_norm",
        call.value("input"),
        axes=len(call.plain("normalized_shape")),
        weight=_optional(call, "weight"),
        bias=_optional(call, "bias"),
        eps=call.plain("eps", 1e-5),
    )


def _layer_norm_from_onnx(g: Builder, call: Call) -> Any:
    x, axis = call.value(0), call.plain("axis", -1)
    count = -axis if axis < 0 else g.rank(x) - axis
    return g.emit(
        "layer_norm",
        x,
        axes=count,
        weight=_optional(call, 1),
        bias=_optional(call, 2),
        eps=call.plain("epsilon", 1e-5),
    )


def _write_layer_norm(writer: Writer, node: Node) -> None:
    inner = writer.spec(node.inputs[0]).shape[-node["axes"] :]
    names = [
        writer.operand(node.inputs[0], "float32"),
        writer.constant(np.ones(inner, np.float32))
        if node["weight"] is None
        else writer.tensor(node["weight"]),
    ]
    if node["bias"] is not None:
        names.append(writer.tensor(node["bias"]))
    writer.add("LayerNormalization", names, node.output, axis=-node["axes"], epsilon=node["eps"])


_WHOLE = {"weight": tensor().optional(), "bias": tensor().optional()}
register(
    "layer_norm",
    computes="weight (x − mean) / sqrt(variance + eps) + bias over the last `axes` axes",
    attributes={"axes": integer(1, 8), **_WHOLE, "eps": _EPS},
    infer=_last_axes,
    reference=_layer_norm,
    workspace=28,
    aten={
        "layer_norm": _layer_norm_from_aten,
        "native_layer_norm": lambda g, call: (_layer_norm_from_aten(g, call),),
    },
    onnx={"LayerNormalization": _layer_norm_from_onnx},
    to_onnx=_write_layer_norm,
    lowering="norm",
)


def _rms_norm(a: Attributes, x: Array) -> Array:
    if x.size == 0:
        return x
    wide = np.asarray(x, np.float64)
    square = (wide**2).mean(tuple(range(-a.axes, 0)), keepdims=True)
    return _affine(np.asarray(wide / np.sqrt(square + a.eps), np.float32), a)


def _rms_norm_from_aten(g: Builder, call: Call) -> Any:
    eps = call.plain("eps")
    return g.emit(
        "rms_norm",
        call.value("input"),
        axes=len(call.plain("normalized_shape")),
        weight=_optional(call, "weight"),
        eps=float(np.finfo(np.float32).eps) if eps is None else eps,
    )


def _write_rms_norm(writer: Writer, node: Node) -> None:
    """In small operations: RMSNormalization came with operator set 23."""
    x = writer.operand(node.inputs[0], "float32")
    last = writer.constant(np.arange(-node["axes"], 0))
    mean = writer.add("ReduceMean", [writer.add("Mul", [x, x]), last], keepdims=1)
    eps = writer.constant(np.array(node["eps"], np.float32))
    root = writer.add("Sqrt", [writer.add("Add", [mean, eps])])
    if node["weight"] is None:
        writer.add("Div", [x, root], node.output)
        return
    scaled = writer.add("Div", [x, root])
    writer.add("Mul", [scaled, writer.tensor(node["weight"])], node.output)


register(
    "rms_norm",
    computes="weight x / sqrt(mean of x² + eps) over the last `axes` axes",
    attributes={"axes": integer(1, 8), "weight": tensor().optional(), "eps": _EPS},
    infer=_last_axes,
    reference=_rms_norm,
    workspace=28,
    aten={
        "rms_norm": _rms_norm_from_aten,
        "_fused_rms_norm": lambda g, call: (_rms_norm_from_aten(g, call),),
    },
    to_onnx=_write_rms_norm,
    lowering="norm",
)


# ---- over groups of channels


def _group_shape(a: Attributes, x: Spec) -> Spec:
    require(x.ndim >= 2, "needs a batch and channels")
    require(x.shape[1] % a.groups == 0, f"cannot split {x.shape[1]} channels in {a.groups} groups")
    _vectors(a, ("weight", "bias"), x.shape[1])
    return Spec("float32", x.shape)


def _channels(y: Array, a: Attributes) -> Array:
    sides = (-1, *[1] * (y.ndim - 2))
    if a.weight is not None:
        y = y * a.weight.reshape(sides)
    return y if a.bias is None else y + a.bias.reshape(sides)


def _group_norm(a: Attributes, x: Array) -> Array:
    grouped = x.reshape(x.shape[0], a.groups, math.prod(x.shape[1:]) // a.groups)
    return _channels(_standardised(grouped, (2,), a.eps).reshape(x.shape), a)


def _group_norm_from_aten(g: Builder, call: Call) -> Any:
    groups = call.plain("num_groups") if call.has("num_groups") else call.plain("group")
    return g.emit(
        "group_norm",
        call.value("input"),
        groups=groups,
        weight=_optional(call, "weight"),
        bias=_optional(call, "bias"),
        eps=call.plain("eps", 1e-5),
    )


def _instance_norm_from_aten(g: Builder, call: Call) -> Any:
    """A group for each channel; with running statistics it is a batch norm."""
    if not call.plain("use_input_stats"):
        return g.emit(
            "batch_norm",
            call.value("input"),
            weight=_optional(call, "weight"),
            bias=_optional(call, "bias"),
            mean=call.stored("running_mean"),
            var=call.stored("running_var"),
            eps=call.plain("eps"),
        )
    x = call.value("input")
    return g.emit(
        "group_norm",
        x,
        groups=g.shape(x)[1],
        weight=_optional(call, "weight"),
        bias=_optional(call, "bias"),
        eps=call.plain("eps"),
    )


def _instance_norm_from_onnx(g: Builder, call: Call) -> Any:
    return g.emit(
        "group_norm",
        call.value(0),
        groups=g.shape(call.value(0))[1],
        weight=call.stored(1),
        bias=call.stored(2),
        eps=call.plain("epsilon", 1e-5),
    )


def _write_group_norm(writer: Writer, node: Node) -> None:
    """InstanceNormalization of the groups as channels, then scale and shift."""
    x, spec = writer.operand(node.inputs[0], "float32"), writer.spec(node.inputs[0])
    groups, sides = node["groups"], [-1, *[1] * (spec.ndim - 2)]
    wide = writer.add("Reshape", [x, writer.constant(np.array([0, groups, -1], np.int64))])
    ones, zeros = (writer.constant(np.full(groups, v, np.float32)) for v in (1, 0))
    normal = writer.add("InstanceNormalization", [wide, ones, zeros], epsilon=node["eps"])
    last = [node[field] for field in ("weight", "bias") if node[field] is not None]
    shape = writer.add("Shape", [x])
    y = writer.add("Reshape", [normal, shape], node.output if not last else None)
    for op_type, field in (("Mul", "weight"), ("Add", "bias")):
        if node[field] is not None:
            last.pop()
            column = writer.constant(np.array(sides, np.int64))
            vector = writer.add("Reshape", [writer.tensor(node[field]), column])
            y = writer.add(op_type, [y, vector], node.output if not last else None)


register(
    "group_norm",
    computes="channels in groups, each standardised with all its positions; then weight and bias",
    attributes={"groups": integer(1, 1 << 16), **_AFFINE, "eps": _EPS},
    infer=_group_shape,
    reference=_group_norm,
    workspace=28,
    aten={
        "group_norm": _group_norm_from_aten,
        "native_group_norm": lambda g, call: (_group_norm_from_aten(g, call),),
        "instance_norm": _instance_norm_from_aten,
    },
    onnx={"InstanceNormalization": _instance_norm_from_onnx},
    to_onnx=_write_group_norm,
    lowering="group_norm",
)
