"""Pieces of a value: slices, single indices, splits."""

from typing import Any

import numpy as np

from skinny.graph.attributes import axis, integers, size
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer, aten
from skinny.graph.graph import MOST_OPERANDS, Node
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Shape, Spec, axis_of

_LAST = 2**31 - 1  # an end beyond every axis


def _slice(a: Attributes, shape: Shape) -> tuple[int, slice]:
    at = axis_of(a.axis, len(shape))
    return at, slice(*slice(a.start, a.end, a.step).indices(shape[at]))


def _sliced(a: Attributes, x: Spec) -> Spec:
    require(a.step > 0, "has a step that is not positive")
    at, where = _slice(a, x.shape)
    length = len(range(where.start, where.stop, where.step))
    return Spec(x.dtype, (*x.shape[:at], length, *x.shape[at + 1 :]))


def _slice_reference(a: Attributes, x: Array) -> Array:
    at, where = _slice(a, x.shape)
    selected: Array = x[(slice(None),) * at + (where,)]
    return selected


def _slice_from_aten(g: Builder, call: Call) -> Any:
    start, end, step = (call.plain(n) for n in ("start", "end", "step"))
    x, start, end = call.value("self"), 0 if start is None else start, _LAST if end is None else end
    if isinstance(end, int):
        end = min(end, _LAST)
    if (start, step) == (0, 1) and end == _LAST:
        return x
    return g.emit("slice", x, axis=call.plain("dim"), start=start, end=end, step=step)


def _onnx_slice(g: Builder, call: Call) -> Any:
    x = call.value(0)
    if call.has(1):
        starts, ends = (list(call.plain(i)) for i in (1, 2))
        at = list(call.plain(3)) if call.has(3) else list(range(len(starts)))
        steps = list(call.plain(4)) if call.has(4) else [1] * len(starts)
    else:
        starts, ends = call.plain("starts"), call.plain("ends")
        at, steps = call.plain("axes", list(range(len(starts)))), [1] * len(starts)
    for start, end, i, step in zip(starts, ends, at, steps, strict=True):
        if isinstance(step, int) and step < 0:
            if step == -1 and start == -1:
                x = g.emit("flip", x, axes=[i])
                continue
            raise UnsupportedError("with a negative step")
        start, end = (max(-_LAST, min(s, _LAST)) if isinstance(s, int) else s for s in (start, end))
        x = g.emit("slice", x, axis=int(i), start=start, end=end, step=step)
    return x


def _write_slice(writer: Writer, node: Node) -> None:
    names = [writer.sizes((node[field],), node.inputs[0]) for field in ("start", "end")]
    at = writer.constant(np.array([node["axis"]], np.int64))
    step = writer.sizes((node["step"],), node.inputs[0])
    writer.add("Slice", [writer.operand(node.inputs[0]), *names, at, step], node.output)


register(
    "slice",
    computes="every step-th index from start to before end of an axis, as Python slices",
    attributes={
        "axis": axis,
        "start": size().with_default(0),
        "end": size().with_default(_LAST),
        "step": size(1).with_default(1),
    },
    infer=_sliced,
    reference=_slice_reference,
    workspace=0,
    aten={"slice": _slice_from_aten},
    onnx={"Slice": _onnx_slice},
    to_onnx=_write_slice,
    lowering="view",
)


def _selected(a: Attributes, x: Spec) -> Spec:
    at = axis_of(a.axis, x.ndim)
    require(-x.shape[at] <= a.index < x.shape[at], f"selects index {a.index} of {x.shape[at]}")
    return Spec(x.dtype, (*x.shape[:at], *x.shape[at + 1 :]))


def _write_select(writer: Writer, node: Node) -> None:
    index = node["index"]
    name = writer.operand(index) if isinstance(index, str) else writer.constant(np.array(index))
    writer.add("Gather", [writer.operand(node.inputs[0]), name], node.output, axis=node["axis"])


register(
    "select",
    computes="one index of an axis; the axis is gone",
    attributes={"axis": axis, "index": size()},
    infer=_selected,
    reference=lambda a, x: np.take(x, a.index, a.axis),
    workspace=0,
    aten={"select": aten("select", axis="dim", index="index")},
    to_onnx=_write_select,
    lowering="view",
)


def _split_specs(a: Attributes, x: Spec) -> tuple[Spec, ...]:
    at = axis_of(a.axis, x.ndim)
    require(sum(a.lengths) == x.shape[at], f"splits {x.shape[at]} into {list(a.lengths)}")
    return tuple(Spec(x.dtype, (*x.shape[:at], n, *x.shape[at + 1 :])) for n in a.lengths)


def static_side(g: Builder, x: Any, at: int) -> int:
    side = g.shape(x)[at]
    if side is None:
        raise UnsupportedError("into a number of pieces that depends on the input's size")
    return side


def split(g: Builder, x: Any, at: int, lengths: list[int]) -> tuple[Any, ...]:
    made = g.emit("split", x, outputs=len(lengths), axis=at, lengths=lengths)
    return made if isinstance(made, tuple) else (made,)


def _even(total: int, each: int) -> list[int]:
    return [min(each, total - start) for start in range(0, total, max(1, each))] or [0]


def _split_size(g: Builder, call: Call) -> Any:
    x, at = call.value("self"), call.plain("dim", 0)
    total, given = static_side(g, x, at), call.plain("split_size")
    lengths = _even(total, given) if isinstance(given, int) else list(given)
    return split(g, x, at, lengths)


def _chunk(g: Builder, call: Call) -> Any:
    x, at = call.value("self"), call.plain("dim", 0)
    total = static_side(g, x, at)
    return split(g, x, at, _even(total, -(-total // call.plain("chunks"))))


def _unbind(g: Builder, call: Call) -> Any:
    x, at = call.value("self"), call.plain("dim", 0)
    count = static_side(g, x, at)
    return tuple(g.emit("select", x, axis=at, index=i) for i in range(count))


def _onnx_split(g: Builder, call: Call) -> Any:
    x, at = call.value(0), call.plain("axis", 0)
    given = list(call.plain(1)) if call.has(1) else call.plain("split")
    if given is None:
        count = call.plain("num_outputs", call.plain("outputs"))
        total = static_side(g, x, at)
        given = _even(total, -(-total // count))
    return split(g, x, at, [int(length) for length in given])


def _write_split(writer: Writer, node: Node) -> None:
    lengths = writer.constant(np.array(node["lengths"], np.int64))
    inputs = [writer.operand(node.inputs[0]), lengths]
    writer.add_many("Split", inputs, list(node.outputs), axis=node["axis"])


register(
    "split",
    computes="x cut along an axis into several outputs of these lengths",
    outputs=(1, MOST_OPERANDS),
    attributes={"axis": axis, "lengths": integers(0, most=MOST_OPERANDS)},
    infer=_split_specs,
    reference=lambda a, x: tuple(np.split(x, np.cumsum(a.lengths)[:-1], a.axis)),
    workspace=0,
    aten={
        "split": _split_size,
        "chunk": _chunk,
        "split_with_sizes": lambda g, call: split(
            g, call.value("self"), call.plain("dim", 0), list(call.plain("split_sizes"))
        ),
        "unbind": _unbind,
    },
    onnx={"Split": _onnx_split},
    to_onnx=_write_split,
    lowering="split",
)
