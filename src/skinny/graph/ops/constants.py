"""Values that come from the file or from sizes, not from the input's elements."""

import math
from typing import Any

import numpy as np

from skinny.graph.attributes import axis, dtype, number, size, sizes, tensor
from skinny.graph.builder import Builder
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer
from skinny.graph.graph import Node, Operand
from skinny.graph.registry import register
from skinny.graph.values import Shape, Spec, as_array, axis_of, own_dtype

_LAST = 2**31 - 1

register(
    "constant",
    computes="a stored tensor",
    inputs=(0, 0),
    attributes={"tensor": tensor()},
    infer=lambda a: Spec(a.tensor.dtype, a.tensor.shape),
    reference=lambda a: a.tensor,
    workspace=0,
    to_onnx=lambda writer, node: writer.add(
        "Identity", [writer.tensor(node["tensor"])], node.output
    ),
    lowering="constant",
)


def _write_size(writer: Writer, node: Node) -> None:
    shape = writer.add("Shape", [writer.operand(node.inputs[0])])
    at = node["axis"] % writer.spec(node.inputs[0]).ndim
    writer.add("Gather", [shape, writer.constant(np.array(at, np.int64))], node.output, axis=0)


register(
    "size",
    computes="the size of an axis of x, an int64",
    attributes={"axis": axis},
    infer=lambda a, x: _single(x.shape, a.axis),
    reference=lambda a, x: np.array(x.shape[a.axis], np.int64),
    of_shape=True,
    aten={"sym_size": lambda g, call: g.emit("size", call.value("self"), axis=call.plain("dim"))},
    to_onnx=_write_size,
)


def _single(shape: Shape, axis: int) -> Spec:
    axis_of(axis, len(shape))
    return Spec("int64", ())


def _shape_from_onnx(g: Builder, call: Call) -> Any:
    shape = g.emit("shape", call.value(0))
    start, end = call.plain("start", 0), call.plain("end", _LAST)
    if (start, end) == (0, _LAST):
        return shape
    return g.emit("slice", shape, axis=0, start=start, end=end)


register(
    "shape",
    computes="the sizes of all axes of x, int64",
    infer=lambda a, x: Spec("int64", (x.ndim,)),
    reference=lambda a, x: np.array(x.shape, np.int64),
    onnx={
        "Shape": _shape_from_onnx,
        "Size": lambda g, call: g.emit("prod", g.emit("shape", call.value(0))),
    },
    of_shape=True,
    to_onnx=lambda writer, node: writer.add("Shape", [writer.operand(node.inputs[0])], node.output),
)


def _write_full(writer: Writer, node: Node) -> None:
    value = writer.constant(as_array(node["value"], node["dtype"]))
    writer.add("Expand", [value, writer.sizes(node["shape"], "")], node.output)


def literal(g: Builder, value: bool | int | float) -> Operand:
    """A number as an operand. JSON has no infinities: twice the largest float is one, and the
    difference of two is no number."""
    if math.isfinite(value):
        return value
    largest = float(np.finfo(np.float32).max)
    huge = g.emit("full", shape=[], value=largest, dtype="float32")
    made = g.emit("mul", huge, -2.0 if value < 0 else 2.0)
    return str(g.emit("sub", made, made) if math.isnan(value) else made)


def _of_one_value(g: Builder, filler: Operand, shape: Any, dtype: str) -> Any:
    if isinstance(filler, str):
        wide = g.emit("expand", filler, shape=shape)
        return wide if g.spec(wide).dtype == dtype else g.emit("cast", wide, dtype=dtype)
    return g.emit("full", shape=shape, value=filler, dtype=dtype)


def _filled(value: Any, *, like: bool = False) -> Any:
    """full, zeros and ones, with a shape or that of another tensor."""

    def emit(g: Builder, call: Call) -> Any:
        filler = call.value("fill_value") if value is None else value
        if like:
            x = call.value("self")
            shape: Any = [g.size(x, at) for at in range(g.rank(x))]
        else:
            shape = call.plain("size") if call.has("size") else []
        return _of_one_value(g, filler, shape, call.result_dtype)

    return emit


def _of_shape_from_onnx(g: Builder, call: Call) -> Any:
    value = call.plain("value", np.zeros(1, np.float32))
    filler = literal(g, value.ravel()[0].item())
    return _of_one_value(g, filler, call.plain(0), own_dtype(value.dtype))


register(
    "full",
    computes="a tensor of one value",
    inputs=(0, 0),
    attributes={"shape": sizes(), "value": number, "dtype": dtype},
    infer=lambda a: Spec(a.dtype, a.shape),
    reference=lambda a: np.full(a.shape, as_array(a.value, a.dtype)),
    workspace=0,
    aten={
        **{name: _filled(None) for name in ("full", "new_full")},
        "scalar_tensor": lambda g, call: _of_one_value(g, call.value("s"), [], call.result_dtype),
        **{name: _filled(0) for name in ("zeros", "new_zeros", "empty", "new_empty")},
        **{name: _filled(1) for name in ("ones", "new_ones")},
        "full_like": _filled(None, like=True),
        "zeros_like": _filled(0, like=True),
        "empty_like": _filled(0, like=True),
        "ones_like": _filled(1, like=True),
    },
    onnx={"ConstantOfShape": _of_shape_from_onnx},
    to_onnx=_write_full,
)


def _arange_length(start: int, end: int, step: int) -> int:
    require(step != 0, "has a step of 0")
    return max(0, -(-(end - start) // step))


def _write_arange(writer: Writer, node: Node) -> None:
    limits = [
        writer.constant(np.array(v, np.int64)) if not isinstance(v, str) else writer.operand(v)
        for v in (node["start"], node["end"], node["step"])
    ]
    whole = node["dtype"] == "int64"
    made = writer.add("Range", limits, node.output if whole else None)
    if not whole:
        writer.cast(made, node["dtype"], node.output)


def _arange_from_aten(g: Builder, call: Call) -> Any:
    given = {name: call.plain(name) for name in ("start", "end", "step") if call.has(name)}
    if all(isinstance(limit, int | str) for limit in given.values()):
        return g.emit("arange", dtype=call.result_dtype, **given)
    start, end, step = given.get("start", 0), given["end"], given.get("step", 1)
    count = int(np.ceil((end - start) / step))
    steps = g.emit("arange", end=count, dtype="float32")
    return g.emit("cast", g.emit("add", g.emit("mul", steps, step), start), dtype=call.result_dtype)


def _range_from_onnx(g: Builder, call: Call) -> Any:
    start, end, step = (call.size(i) for i in range(3))
    return g.emit("arange", start=start, end=end, step=step, dtype=g.spec(call.value(0)).dtype)


register(
    "arange",
    computes="start, start + step, ... before end",
    inputs=(0, 0),
    attributes={
        "start": size().with_default(0),
        "end": size(),
        "step": size().with_default(1),
        "dtype": dtype.with_default("int64"),
    },
    infer=lambda a: Spec(a.dtype, (_arange_length(a.start, a.end, a.step),)),
    reference=lambda a: np.arange(a.start, a.end, a.step).astype(a.dtype),
    aten={"arange": _arange_from_aten},
    onnx={"Range": _range_from_onnx},
    to_onnx=_write_arange,
)
