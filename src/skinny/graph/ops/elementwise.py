"""Functions of single elements."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skinny.graph.attributes import dtype
from skinny.graph.builder import Builder
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer, aten, from_onnx, to_onnx
from skinny.graph.graph import Node
from skinny.graph.registry import Attributes, Export, Import, register
from skinny.graph.values import Array, Spec


def as_floats(a: Attributes, x: Spec) -> Spec:
    """Integers become floats, as in torch."""
    return Spec("float32", x.shape)


def numbers(a: Attributes, x: Spec) -> Spec:
    """Of the same type, which is not that of booleans."""
    require(x.dtype != "bool", "takes no booleans")
    return Spec(x.dtype, x.shape)


def as_float(x: Any) -> Array:
    return np.asarray(x, np.float32)


def sigmoid(x: Array) -> Array:
    return as_float(1 / (1 + np.exp(-as_float(x))))


_SLICE = 1 << 12  # elements: math.erf makes Python numbers of them, which take much memory


def erf(x: Array) -> Array:
    flat = np.ascontiguousarray(x, np.float32).reshape(-1)
    made = np.empty(flat.shape, np.float64)  # 1 + erf(x) may be small
    for begin in range(0, flat.size, _SLICE):
        made[begin : begin + _SLICE] = [math.erf(v) for v in flat[begin : begin + _SLICE].tolist()]
    return made.reshape(x.shape)


Unary = Callable[[Array], Any]


def _unary(
    name: str,
    computes: str,
    function: Unary,
    onnx: str | None,
    *,
    write: Export | None = None,
    imports: dict[str, Import] | None = None,
) -> None:
    """A function of floats."""
    register(
        name,
        computes=computes,
        infer=as_floats,
        reference=lambda a, x: function(as_float(x)),
        aten={name: aten(name)},
        onnx=imports or ({} if onnx is None else {onnx: from_onnx(name)}),
        to_onnx=write or to_onnx(onnx or "", dtype="float32"),
        lowering="map",
    )


def _chain(*op_types: str) -> Export:
    """One ONNX operation after the other."""

    def write(writer: Writer, node: Node) -> None:
        name = writer.operand(node.inputs[0], "float32")
        for op_type in op_types[:-1]:
            name = writer.add(op_type, [name])
        writer.add(op_types[-1], [name], node.output)

    return write


def _with_one(first: str, second: str, *, one_first: bool) -> Export:
    """log(1 + x) and exp(x) - 1."""

    def write(writer: Writer, node: Node) -> None:
        x = writer.operand(node.inputs[0], "float32")
        one = writer.constant(np.array(1, np.float32))
        if one_first:
            writer.add(second, [writer.add(first, [x, one])], node.output)
        else:
            writer.add(second, [writer.add(first, [x]), one], node.output)

    return write


def _write_silu(writer: Writer, node: Node) -> None:
    x = writer.operand(node.inputs[0], "float32")
    writer.add("Mul", [x, writer.add("Sigmoid", [x])], node.output)


def _write_hardsigmoid(writer: Writer, node: Node) -> None:
    x = writer.operand(node.inputs[0], "float32")
    writer.add("HardSigmoid", [x], node.output, alpha=1 / 6, beta=0.5)


def _hardsigmoid_from_onnx(g: Builder, call: Call) -> Any:
    """max(0, min(1, alpha x + beta)); ours is the one with alpha 1/6 and beta 1/2."""
    x, alpha, beta = call.value(0), call.plain("alpha", 0.2), call.plain("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return g.emit("hardsigmoid", x)
    return g.emit("clamp", g.emit("add", g.emit("mul", x, alpha), beta), min=0, max=1)


def _softsign_from_onnx(g: Builder, call: Call) -> Any:
    x = call.value(0)
    return g.emit("div", x, g.emit("add", g.emit("abs", x), 1))


_unary("sigmoid", "1 / (1 + e⁻ˣ)", sigmoid, "Sigmoid")
_unary("tanh", "tanh(x)", np.tanh, "Tanh")
_unary("sqrt", "√x", np.sqrt, "Sqrt")
_unary("rsqrt", "1 / √x", lambda x: 1 / np.sqrt(x), None, write=_chain("Sqrt", "Reciprocal"))
_unary("exp", "eˣ", np.exp, "Exp")
_unary("expm1", "eˣ − 1", np.expm1, None, write=_with_one("Exp", "Sub", one_first=False))
_unary("log", "log(x)", np.log, "Log")
_unary("log1p", "log(1 + x)", np.log1p, None, write=_with_one("Add", "Log", one_first=True))
_unary("erf", "erf(x)", erf, "Erf")
_unary("sin", "sin(x)", np.sin, "Sin")
_unary("cos", "cos(x)", np.cos, "Cos")
_unary("reciprocal", "1 / x", lambda x: 1 / x, "Reciprocal", imports={
    "Reciprocal": from_onnx("reciprocal"), "Softsign": _softsign_from_onnx})  # fmt: skip
_unary("silu", "x sigmoid(x)", lambda x: x * sigmoid(x), None, write=_write_silu)  # fmt: skip
_unary("mish", "x tanh(log(1 + eˣ))", lambda x: x * np.tanh(np.logaddexp(0, x)), "Mish")
_unary("hardswish", "x relu6(x + 3) / 6", lambda x: x * np.clip(x + 3, 0, 6) / 6, "HardSwish")
_unary("hardsigmoid", "relu6(x + 3) / 6", lambda x: np.clip(x + 3, 0, 6) / 6, None,
       write=_write_hardsigmoid, imports={"HardSigmoid": _hardsigmoid_from_onnx})  # fmt: skip


# ---- of the input's own type


def _of_any_type(
    name: str, computes: str, function: Unary, onnx: str | None, write: Export
) -> None:
    register(
        name,
        computes=computes,
        infer=numbers,
        reference=lambda a, x: function(x),
        aten={name: aten(name)},
        onnx={} if onnx is None else {onnx: from_onnx(name)},
        to_onnx=write,
        lowering="map",
    )


def _rounding(op_type: str) -> Export:
    """ONNX rounds floats only; integers stay as they are."""

    def write(writer: Writer, node: Node) -> None:
        is_float = writer.spec(node.inputs[0]).is_float
        to_onnx(op_type if is_float else "Identity")(writer, node)

    return write


def _limited(*limits: int) -> Export:
    def write(writer: Writer, node: Node) -> None:
        dtype = writer.spec(node.output).dtype
        names = [writer.constant(np.array(limit, dtype)) for limit in limits]
        writer.add("Clip", [writer.operand(node.inputs[0]), *names], node.output)

    return write


def _write_relu(writer: Writer, node: Node) -> None:
    write = to_onnx("Relu") if writer.spec(node.inputs[0]).is_float else _limited(0)
    write(writer, node)


_of_any_type("relu", "max(x, 0)", lambda x: np.maximum(x, 0), "Relu", _write_relu)
_of_any_type("relu6", "min(max(x, 0), 6)", lambda x: np.clip(x, 0, 6), None, _limited(0, 6))
_of_any_type("abs", "|x|", np.abs, "Abs", to_onnx("Abs"))
_of_any_type("neg", "−x", np.negative, "Neg", to_onnx("Neg"))
_of_any_type("sign", "1, 0 or −1: the sign of x", np.sign, "Sign", to_onnx("Sign"))
_of_any_type("floor", "the next integer below", np.floor, "Floor", _rounding("Floor"))
_of_any_type("ceil", "the next integer above", np.ceil, "Ceil", _rounding("Ceil"))
_of_any_type("round", "the nearest integer, ties to even", np.round, "Round", _rounding("Round"))


# ---- types


def _not(g: Builder, call: Call) -> Any:
    return g.emit("logical_not", call.value("self"))


def _bitwise_not(g: Builder, call: Call) -> Any:
    x = call.value("self")
    if g.spec(x).dtype == "bool":
        return g.emit("logical_not", x)
    return g.emit("sub", -1, x)


register(
    "logical_not",
    computes="not x",
    infer=lambda a, x: Spec("bool", x.shape),
    reference=lambda a, x: np.logical_not(x),
    aten={"logical_not": _not, "bitwise_not": _bitwise_not},
    onnx={"Not": from_onnx("logical_not")},
    to_onnx=to_onnx("Not", dtype="bool"),
)


def _cast(g: Builder, call: Call) -> Any:
    x, wanted = call.first, call.result_dtype
    return (
        x if g.spec(x).dtype == wanted and isinstance(x, str) else g.emit("cast", x, dtype=wanted)
    )


register(
    "cast",
    computes="x in another type; floats are rounded towards zero",
    attributes={"dtype": dtype},
    infer=lambda a, x: Spec(a.dtype, x.shape),
    reference=lambda a, x: x.astype(a.dtype),
    workspace=0,
    aten=dict.fromkeys(("_to_copy", "to", "type_as"), _cast),
    onnx={"Cast": _cast, "CastLike": _cast},
    to_onnx=lambda writer, node: writer.cast(
        writer.operand(node.inputs[0]), node["dtype"], node.output
    ),
    lowering="map",
)
