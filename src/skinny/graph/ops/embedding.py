"""Rows of a table that integers name, single and in bags."""

from typing import Any

import numpy as np

from skinny.graph.attributes import boolean, choice, integer, tensor
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import GraphError, require
from skinny.graph.forms import Call, Writer
from skinny.graph.graph import Node
from skinny.graph.ops.indexing import checked
from skinny.graph.ops.int8 import integers
from skinny.graph.ops.quantize import checked_scales
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec

_LAST = 2**31 - 1  # an end beyond every axis


def _weight(call: Call) -> str:
    stored = call.stored("weight")
    assert stored is not None
    return stored


def _rows(a: Attributes, index: Array) -> Array:
    rows: Array = a.weight[checked(index, a.weight.shape[0])]
    return rows


def _looked_up(a: Attributes, index: Spec) -> Spec:
    require(index.dtype in ("int64", "int32"), "needs integers for indices")
    return Spec("float32", (*index.shape, a.weight.shape[1]))


def _embedding_from_aten(g: Builder, call: Call) -> Any:
    if call.is_stored("weight"):
        return g.emit("embedding", call.value("indices"), weight=_weight(call))
    return g.emit("gather_rows", call.value("weight"), call.value("indices"), axis=0)


register(
    "embedding",
    computes="the rows of W that an integer tensor names",
    attributes={"weight": tensor(2)},
    infer=_looked_up,
    reference=_rows,
    aten={"embedding": _embedding_from_aten},
    to_onnx=lambda writer, node: writer.add(
        "Gather", [writer.tensor(node["weight"]), writer.operand(node.inputs[0])], node.output
    ),
    lowering="embedding",
)


# ---- in int8


def _int8_shape(a: Attributes, index: Spec) -> Spec:
    rows = a.weight.shape[0]
    require(a.weight_scale.shape == (rows,), f"needs {rows} numbers as weight_scale")
    return _looked_up(a, index)


def _int8_rows(a: Attributes, index: Array) -> Array:
    checked_scales(a.weight_scale, "embedding_int8")
    at = checked(index, a.weight.shape[0])
    scales = a.weight_scale[at].astype(np.float32)
    width = a.weight.shape[1]
    wide = integers(a.weight[at].reshape(at.size, width), scales.reshape(-1))
    made: Array = wide.astype(np.float32).reshape(*at.shape, width) * scales[..., None]
    return made


def _write_int8(writer: Writer, node: Node) -> None:
    scales = writer.values(node["weight_scale"])
    names = [
        writer.constant(integers(writer.values(node["weight"]), scales)),
        writer.constant(scales.astype(np.float32)),
        writer.constant(np.zeros(len(scales), np.int8)),
    ]
    table = writer.add("DequantizeLinear", names, axis=0)
    writer.add("Gather", [table, writer.operand(node.inputs[0])], node.output)


register(
    "embedding_int8",
    computes="`embedding` of a table in 8 bits: see below",
    attributes={"weight": tensor(2), "weight_scale": tensor(1)},
    infer=_int8_shape,
    reference=_int8_rows,
    workspace=lambda a, index: 16 * index.size * (int(a.weight.shape[1]) + 1),
    to_onnx=_write_int8,
    lowering="embedding_int8",
)


# ---- bags


def _bag_shape(a: Attributes, index: Spec, offsets: Spec) -> Spec:
    require(index.ndim == 1 and offsets.ndim == 1, "needs vectors of indices and offsets")
    integers = all(spec.dtype in ("int64", "int32") for spec in (index, offsets))
    require(integers, "needs integers for indices and offsets")
    bags = offsets.shape[0] - (1 if a.include_last_offset else 0)
    return Spec("float32", (bags, a.weight.shape[1]))


def _bag(a: Attributes, index: Array, offsets: Array) -> Array:
    edges = offsets if a.include_last_offset else np.append(offsets, len(index))
    if np.any(np.diff(edges, prepend=0, append=len(index)) < 0):
        raise GraphError(f"the offsets must rise from 0 to {len(index)} at most")
    rows = _rows(a, index)
    if a.padding_index is not None:
        used = np.asarray(index) != a.padding_index % a.weight.shape[0]
        rows, edges = rows[used], np.append(0, np.cumsum(used))[edges]
    made = np.zeros((max(0, len(edges) - 1), a.weight.shape[1]), np.float32)
    counts = np.diff(edges)
    first = edges[:-1][counts > 0]
    if first.size:  # a bag ends where the next one begins that is not empty
        join = np.maximum if a.mode == "max" else np.add
        made[counts > 0] = join.reduceat(rows[: edges[-1]], first)
    if a.mode == "mean":
        made /= np.maximum(counts, 1)[:, None]
    return made


def _bag_workspace(a: Attributes, index: Spec, offsets: Spec) -> int:
    """The rows of all indices, twice where some are left out."""
    return 8 * index.size * int(a.weight.shape[1]) + 32 * index.size + 64 * offsets.size


def _bag_from_aten(g: Builder, call: Call) -> Any:
    if call.has("per_sample_weights"):
        raise UnsupportedError("with weights for each sample")
    padding = call.plain("padding_idx", -1)
    bag = g.emit(
        "embedding_bag",
        call.value("indices"),
        call.value("offsets"),
        weight=_weight(call),
        mode=("sum", "mean", "max")[call.plain("mode", 0)],
        include_last_offset=bool(call.plain("include_last_offset", False)),
        padding_index=None if padding is None or padding < 0 else padding,
    )
    return (bag,)


def _write_bag(writer: Writer, node: Node) -> None:
    """Which index is in which bag, as a matrix: its product with the rows sums the bags."""
    index, offsets = (writer.operand(value, "int64") for value in node.inputs)
    count = writer.add("Shape", [index])

    def integers(*values: int) -> str:
        return writer.constant(np.array(values, np.int64))

    def column(vector: str) -> str:
        return writer.add("Unsqueeze", [vector, integers(1)])

    later = writer.add("Slice", [offsets, integers(1), integers(_LAST)])
    if node["include_last_offset"]:
        begins, ends = writer.add("Slice", [offsets, integers(0), integers(-1)]), later
    else:
        begins, ends = offsets, writer.add("Concat", [later, count], axis=0)
    scalars = [writer.constant(np.array(n, np.int64)) for n in (0, 1)]
    places = writer.add("Range", [scalars[0], writer.add("Squeeze", [count]), scalars[1]])
    inside = writer.add("And", [writer.add("GreaterOrEqual", [places, column(begins)]),
                                writer.add("Less", [places, column(ends)])])  # fmt: skip
    if node["padding_index"] is not None:
        padding = writer.add("Equal", [index, integers(node["padding_index"])])
        inside = writer.add("And", [inside, writer.add("Not", [padding])])
    rows = writer.add("Gather", [writer.tensor(node["weight"]), index])
    members = writer.cast(inside, "float32")
    lengths = writer.add("ReduceSum", [members, integers(1)], keepdims=1)
    one, zero = (writer.constant(np.array(n, np.float32)) for n in (1, 0))
    if node["mode"] == "max":
        lowest = writer.constant(np.array(np.finfo(np.float32).min))
        each = writer.add("Unsqueeze", [inside, integers(2)])
        largest = writer.add("ReduceMax", [writer.add("Where", [each, rows, lowest]), integers(1)],
                             keepdims=0)  # fmt: skip
        empty = writer.add("Less", [lengths, one])
        writer.add("Where", [empty, zero, largest], node.output)
    elif node["mode"] == "mean":
        total = writer.add("MatMul", [members, rows])
        writer.add("Div", [total, writer.add("Max", [lengths, one])], node.output)
    else:
        writer.add("MatMul", [members, rows], node.output)


register(
    "embedding_bag",
    computes="sums, means or maxima of the rows of W between two offsets",
    inputs=(2, 2),
    attributes={
        "weight": tensor(2),
        "mode": choice("sum", "mean", "max"),
        "include_last_offset": boolean.with_default(False),
        "padding_index": integer(0).optional(),
    },
    infer=_bag_shape,
    reference=_bag,
    workspace=_bag_workspace,
    aten={"embedding_bag": _bag_from_aten, "_embedding_bag": _bag_from_aten,
          "_embedding_bag_forward_only": _bag_from_aten},
    to_onnx=_write_bag,
    lowering="embedding_bag",
)  # fmt: skip
