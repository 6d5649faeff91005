"""Elements chosen by integer tensors."""

from typing import Any

import numpy as np

from skinny.graph.attributes import axes, axis, boolean, integer
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import GraphError, require
from skinny.graph.forms import Call, OnnxCall, Writer
from skinny.graph.graph import Node
from skinny.graph.ops.quantize import int8_weight
from skinny.graph.ops.reshape import unsqueezed
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec, axes_of, axis_of, broadcast


def checked(index: Array, count: int, *, negative: bool = False) -> Array:
    """Indices as integers, every one of them inside. negative: they may count from the end."""
    index = np.asarray(index, np.int64)
    lowest = -count if negative else 0
    if index.size and not (lowest <= index.min() and index.max() < count):
        raise GraphError(f"an index lies outside the {count} entries of an axis")
    return index


def _taken(a: Attributes, x: Spec, index: Spec) -> Spec:
    at = axis_of(a.axis, x.ndim)
    require(index.dtype in ("int64", "int32"), "needs integers for indices")
    return Spec(x.dtype, (*x.shape[:at], *index.shape, *x.shape[at + 1 :]))


def _gather_from_onnx(g: Builder, call: OnnxCall) -> Any:
    at = call.plain("axis", 0)
    if call.is_stored(0) and len(call.shape(0)) == 2 and at == 0 and not _few(call):
        if (table := int8_weight(g, call, 0, axis=0)) is not None:
            return g.emit("embedding_int8", call.value(1), **table)
        return g.emit("embedding", call.value(1), weight=call.stored(0))
    known = g.known(call.value(1))
    if known is not None and known.ndim == 0:
        return g.emit("select", call.value(0), axis=at, index=int(known))
    return g.emit("gather_rows", call.value(0), call.value(1), axis=at)


def _few(call: OnnxCall) -> bool:
    """A small stored tensor is a table of constants, not an embedding."""
    rows, columns = call.shape(0)
    return rows * columns < 1024


def _unfold_from_aten(g: Builder, call: Call) -> Any:
    """x.unfold(axis, size, step): windows along an axis, their entries last."""
    x, size = call.value("self"), call.plain("size")
    rank = g.rank(x)
    at = axis_of(call.plain("dimension"), rank)
    end = g.size(x, at)
    last = end - size + 1 if isinstance(end, int) else g.emit("sub", end, size - 1)
    starts = g.emit("arange", end=last, step=call.plain("step"))
    index = g.emit("add", unsqueezed(g, starts, (1,)), g.emit("arange", end=size))
    rows = g.emit("gather_rows", x, index, axis=at)  # [.., windows, size, ..]
    order = [axis for axis in range(rank + 1) if axis != at + 1]
    return g.emit("permute", rows, axes=[*order, at + 1])


register(
    "gather_rows",
    computes="the entries of an axis that an integer tensor names; its axes take that one's place",
    inputs=(2, 2),
    attributes={"axis": axis},
    infer=_taken,
    reference=lambda a, x, index: np.take(
        x, checked(index, x.shape[a.axis], negative=True), a.axis
    ),
    aten={
        "index_select": lambda g, call: g.emit(
            "gather_rows", call.value("self"), call.value("index"), axis=call.plain("dim")
        ),
        "unfold": _unfold_from_aten,
    },
    onnx={"Gather": _gather_from_onnx},
    to_onnx=lambda writer, node: writer.add(
        "Gather", [writer.operand(v) for v in node.inputs], node.output, axis=node["axis"]
    ),
    lowering="index",
)


def _gathered(a: Attributes, x: Spec, index: Spec) -> Spec:
    at = axis_of(a.axis, x.ndim)
    require(index.ndim == x.ndim, "needs an index for each axis")
    require(index.dtype in ("int64", "int32"), "needs integers for indices")
    fits = all(i <= s for n, (i, s) in enumerate(zip(index.shape, x.shape, strict=True)) if n != at)
    require(fits, "has an index larger than its input")
    return Spec(x.dtype, index.shape)


def _gather(a: Attributes, x: Array, index: Array) -> Array:
    at = a.axis % x.ndim
    corner = tuple(slice(None) if n == at else slice(0, side) for n, side in enumerate(index.shape))
    return np.take_along_axis(x[corner], checked(index, x.shape[at]), at)


register(
    "gather",
    computes="y[.., j, ..] = x[.., index[.., j, ..], ..] along an axis",
    inputs=(2, 2),
    attributes={"axis": axis},
    infer=_gathered,
    reference=_gather,
    aten={"gather": lambda g, call: g.emit(
        "gather", call.value("self"), call.value("index"), axis=call.plain("dim"))},
    onnx={"GatherElements": lambda g, call: g.emit(
        "gather", call.value(0), call.value(1), axis=call.plain("axis", 0))},
    to_onnx=lambda writer, node: writer.add(
        "GatherElements", [writer.operand(v) for v in node.inputs], node.output, axis=node["axis"]
    ),
)  # fmt: skip


def _indexed(a: Attributes, x: Spec, *index: Spec) -> Spec:
    over = axes_of(a.axes, x.ndim)
    require(len(over) == len(index), "needs an index for each of its axes")
    require(list(over) == sorted(over), "names its axes in another order than x has them")
    require(all(i.dtype in ("int64", "int32") for i in index), "needs integers for indices")
    chosen = broadcast(*index)
    rest = [side for at, side in enumerate(x.shape) if at not in over]
    first = over[0]
    adjacent = list(over) == list(range(first, first + len(over)))
    # NumPy's and torch's rule: indices of separated axes put theirs first
    before = first if adjacent else 0
    return Spec(x.dtype, (*rest[:before], *chosen, *rest[before:]))


def _index(a: Attributes, x: Array, *index: Array) -> Array:
    over = axes_of(a.axes, x.ndim)
    key: list[Any] = [slice(None)] * x.ndim
    for at, entries in zip(over, index, strict=True):
        key[at] = checked(entries, x.shape[at], negative=True)
    made: Array = x[tuple(key)]
    return made


def _index_from_aten(g: Builder, call: Call) -> Any:
    x, given = call.value("self"), call.plain("indices")
    over = [at for at, entry in enumerate(given) if entry is not None]
    index = [entry for entry in given if entry is not None]
    if any(g.spec(entry).dtype == "bool" for entry in index):
        raise UnsupportedError("by a mask, whose result has a size that depends on the values")
    if len(over) == 1:
        return g.emit("gather_rows", x, index[0], axis=over[0])
    return g.emit("index", x, *index, axes=over)


def _gather_nd(g: Builder, call: Call) -> Any:
    """Each vector of the last axis is an index into the first axes of x."""
    x, index = call.value(0), call.value(1)
    count = g.shape(index)[-1]
    if call.plain("batch_dims", 0) or count is None:
        raise UnsupportedError("with batches, or a number of axes that depends on the input")
    entries = [g.emit("select", index, axis=-1, index=at) for at in range(count)]
    return g.emit("index", x, *entries, axes=list(range(count)))


def _write_index(writer: Writer, node: Node) -> None:
    """GatherND over the broadcast indices; its axes must come first, so they are moved there."""
    x, *index = node.inputs
    rank = writer.spec(x).ndim
    over = list(axes_of(node["axes"], rank))
    rest = [at for at in range(rank) if at not in over]
    chosen = len(broadcast(*(writer.spec(i) for i in index)))
    whole = [writer.operand(entry, "int64") for entry in index]
    total = whole[0]
    for entry in whole[1:]:
        total = writer.add("Add", [total, entry])
    shape = writer.add("Shape", [total])  # what all of them are broadcast to
    last = writer.constant(np.array([chosen], np.int64))
    names = [
        writer.add("Unsqueeze", [writer.add("Expand", [entry, shape]), last]) for entry in whole
    ]
    stacked = writer.add("Concat", names, axis=-1)
    moved = writer.add("Transpose", [writer.operand(x)], perm=over + rest)
    first = over[0]
    adjacent = over == list(range(first, first + len(over)))
    if not adjacent or first == 0:
        writer.add("GatherND", [moved, stacked], node.output)
        return
    order = [*range(chosen, chosen + first), *range(chosen),
             *range(chosen + first, chosen + len(rest))]  # fmt: skip
    writer.add("Transpose", [writer.add("GatherND", [moved, stacked])], node.output, perm=order)


register(
    "index",
    computes="x[.., i, .., j, ..]: integer tensors, broadcast together, choose along their axes",
    inputs=(2, 9),
    attributes={"axes": axes},
    infer=_indexed,
    reference=_index,
    aten={"index": _index_from_aten},
    onnx={"GatherND": _gather_nd},
    to_onnx=_write_index,
    lowering="index",
)


# ---- triangles


def _triangle(a: Attributes, x: Array) -> Array:
    rows, columns = x.shape[-2:]
    lower = np.tri(rows, columns, a.diagonal if not a.upper else a.diagonal - 1, dtype=bool)
    return np.where(~lower if a.upper else lower, x, np.zeros((), x.dtype))


def _triangle_shape(a: Attributes, x: Spec) -> Spec:
    require(x.ndim >= 2, "needs a matrix")
    return Spec(x.dtype, x.shape)


def _trilu(g: Builder, call: Call) -> Any:
    diagonal = int(call.plain(1)) if call.has(1) else 0
    upper = bool(call.plain("upper", 1))
    return g.emit("triangle", call.value(0), upper=upper, diagonal=diagonal)


def _write_triangle(writer: Writer, node: Node) -> None:
    x, dtype = writer.operand(node.inputs[0]), writer.spec(node.inputs[0]).dtype
    diagonal = writer.constant(np.array(node["diagonal"], np.int64))
    upper = int(node["upper"])
    if dtype in ("float32", "int64"):
        writer.add("Trilu", [x, diagonal], node.output, upper=upper)
        return
    whole = writer.add("Trilu", [writer.cast(x, "int32"), diagonal], upper=upper)
    writer.cast(whole, dtype, node.output)


register(
    "triangle",
    computes="the upper or lower triangle of matrices, zero elsewhere; the diagonal counts up",
    attributes={"upper": boolean, "diagonal": integer(-(2**31)).with_default(0)},
    infer=_triangle_shape,
    reference=_triangle,
    aten={
        "tril": lambda g, call: g.emit(
            "triangle", call.value("self"), upper=False, diagonal=call.plain("diagonal")
        ),
        "triu": lambda g, call: g.emit(
            "triangle", call.value("self"), upper=True, diagonal=call.plain("diagonal")
        ),
    },
    onnx={"Trilu": _trilu},
    to_onnx=_write_triangle,
)
