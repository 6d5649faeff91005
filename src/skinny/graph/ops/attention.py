"""Softmax, and attention built on it."""

import math
from typing import Any

import numpy as np

from skinny.graph.attributes import axis, boolean, number
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer, aten
from skinny.graph.graph import Node
from skinny.graph.ops.reshape import flattened, unsqueezed
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec, axis_of, broadcast


def _along(a: Attributes, x: Spec) -> Spec:
    axis_of(a.axis, x.ndim)
    return Spec("float32", x.shape)


def softmax(x: Array, at: int) -> Array:
    if x.size == 0:
        return x
    grown = np.exp(x - x.max(at, keepdims=True))
    return np.asarray(grown / grown.sum(at, keepdims=True), np.float32)


def _log_softmax(x: Array, at: int) -> Array:
    if x.size == 0:
        return x
    shifted = x - x.max(at, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(at, keepdims=True)), np.float32)


def _from_onnx(op: str) -> Any:
    """Before operator set 13 all axes from `axis` on are one."""

    def emit(g: Builder, call: Call) -> Any:
        x = call.value(0)
        if call.plain("opset") >= 13:
            return g.emit(op, x, axis=call.plain("axis", -1))
        at = axis_of(call.plain("axis", 1), g.rank(x))
        if at == g.rank(x) - 1:
            return g.emit(op, x, axis=-1)
        sides = [g.size(x, i) for i in range(g.rank(x))]
        flat = g.emit(op, g.emit("reshape", x, shape=[*sides[:at], -1]), axis=-1)
        return g.emit("reshape", flat, shape=sides)

    return emit


def _softmax(op: str, computes: str, function: Any, op_type: str) -> None:
    def write(writer: Writer, node: Node) -> None:
        name = writer.operand(node.inputs[0], "float32")
        writer.add(op_type, [name], node.output, axis=node["axis"])

    register(
        op,
        computes=computes,
        attributes={"axis": axis},
        infer=_along,
        reference=lambda a, x: function(np.asarray(x, np.float32), a.axis),
        aten={name: aten(op, axis="dim") for name in (op, f"_{op}")},
        onnx={op_type: _from_onnx(op)},
        to_onnx=write,
        lowering="softmax",
    )


_softmax("softmax", "eˣ / Σ eˣ along an axis", softmax, "Softmax")
_softmax("log_softmax", "the logarithm of softmax", _log_softmax, "LogSoftmax")


# ---- scaled dot-product attention


def _attention_shape(a: Attributes, q: Spec, k: Spec, v: Spec, *mask: Spec) -> Spec:
    require(min(q.ndim, k.ndim, v.ndim) >= 2, "needs queries, keys and values")
    require(q.shape[-1] == k.shape[-1] > 0, "needs queries and keys of one size")
    require(k.shape[-2] == v.shape[-2], "needs a value for each key")
    outer = broadcast(Spec("", q.shape[:-2]), Spec("", k.shape[:-2]), Spec("", v.shape[:-2]))
    scores = (*outer, q.shape[-2], k.shape[-2])
    if mask:
        require(mask[0].dtype in ("bool", "float32"), "needs a mask of booleans or floats")
        fits = broadcast(mask[0], Spec("", scores)) == scores
        require(fits, "has a mask that does not fit its scores")
    return Spec("float32", (*outer, q.shape[-2], v.shape[-1]))


def _attention_workspace(a: Attributes, q: Spec, k: Spec, *others: Spec) -> int:
    """Scores and the arrays of their softmax, four at once; copies of q, k and v."""
    outer = broadcast(*(Spec("", spec.shape[:-2]) for spec in (q, k, others[0])))
    copies = q.size + k.size + others[0].size
    return 16 * math.prod((*outer, q.shape[-2], k.shape[-2])) + 4 * copies


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float | None
) -> Array:
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = np.matmul(q * np.float32(scale), k.swapaxes(-1, -2))
    if causal:
        allowed = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
        scores = np.where(allowed, scores, np.float32(-np.inf))
    if mask is not None and mask.dtype == bool:  # added, as in torch: NaN stays NaN
        mask = np.where(mask, np.float32(0), np.float32(-np.inf))
    if mask is not None:
        scores = scores + mask
    weights = softmax(scores, -1)
    if mask is not None:  # a query that may look at nothing gets zeros, as in torch
        blind = (scores == -np.inf).all(-1, keepdims=True)
        weights = np.where(blind, np.float32(0), weights)
    return np.asarray(np.matmul(weights, v))


def _attention(a: Attributes, q: Array, k: Array, v: Array, *mask: Array) -> Array:
    return attention(q, k, v, mask[0] if mask else None, a.causal, a.scale)


def _attention_from_aten(g: Builder, call: Call) -> Any:
    q, k, v = (call.value(name) for name in ("query", "key", "value"))
    mask = [call.value("attn_mask")] if call.has("attn_mask") else []
    if call.has("enable_gqa") and call.plain("enable_gqa"):
        heads, shared = g.shape(q)[-3], g.shape(k)[-3]
        if heads is None or shared is None:
            raise UnsupportedError("with numbers of heads that depend on the input")
        k, v = (_repeat_heads(g, x, heads // shared) for x in (k, v))
    causal = bool(call.plain("is_causal")) if call.has("is_causal") else False
    scale = call.plain("scale") if call.has("scale") else None
    return g.emit("attention", q, k, v, *mask, causal=causal, scale=scale)


def _repeat_heads(g: Builder, x: Any, times: int) -> Any:
    if times == 1:
        return x
    rank = g.rank(x)
    wide = unsqueezed(g, x, (rank - 2,))
    repeats = [1] * (rank + 1)
    repeats[rank - 2] = times
    return flattened(g, g.emit("tile", wide, repeats=repeats), rank - 3, rank - 2)


def _write_attention(writer: Writer, node: Node) -> None:
    q, k, v, *mask = node.inputs
    names = [writer.operand(value, "float32") for value in (q, k, v)]
    size, rank = writer.spec(q).shape[-1], writer.spec(k).ndim
    scale = 1 / math.sqrt(size) if node["scale"] is None else node["scale"]
    scaled = writer.add("Mul", [names[0], writer.constant(np.array(scale, np.float32))])
    order = [*range(rank - 2), rank - 1, rank - 2]
    turned = writer.add("Transpose", [names[1]], perm=order)
    scores = writer.add("MatMul", [scaled, turned])
    never, zero = (writer.constant(np.array(value, np.float32)) for value in (-np.inf, 0))
    if node["causal"]:
        rows, columns = writer.axis(q, -2), writer.axis(k, -2)
        ones = writer.add("Expand", [writer.constant(np.array([[True]])),
                                     writer.add("Concat", [rows, columns], axis=0)])  # fmt: skip
        lower = writer.add("Trilu", [writer.cast(ones, "int32")], upper=0)
        allowed = writer.cast(lower, "bool")
        scores = writer.add("Where", [allowed, scores, never])
    if mask:
        added = writer.operand(mask[0])
        if writer.spec(mask[0]).dtype == "bool":
            added = writer.add("Where", [added, zero, never])
        scores = writer.add("Add", [scores, added])
    weights = writer.add("Softmax", [scores], axis=-1)
    if mask:  # a query that may look at nothing
        largest = writer.add("ReduceMax", [scores, writer.constant(np.array([-1]))], keepdims=1)
        blind = writer.add("Equal", [largest, never])
        weights = writer.add("Where", [blind, zero, weights])
    writer.add("MatMul", [weights, names[2]], node.output)


register(
    "attention",
    computes="softmax(scale q kᵀ + mask) v; inputs q, k, v and optionally a mask, of booleans "
    "(true: looked at) or added; scale is 1/sqrt(size of q) if null; causal: query i sees the "
    "keys 0 to i",
    inputs=(3, 4),
    attributes={"causal": boolean.with_default(False), "scale": number.optional()},
    infer=_attention_shape,
    workspace=_attention_workspace,
    reference=_attention,
    aten={
        "scaled_dot_product_attention": _attention_from_aten,
        "_scaled_dot_product_flash_attention_for_cpu": lambda g, call: (
            _attention_from_aten(g, call),
        ),
    },
    to_onnx=_write_attention,
    lowering="attention",
)
