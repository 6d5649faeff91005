"""Functions of two values, element by element, with broadcasting."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer, aten, from_onnx
from skinny.graph.graph import Node
from skinny.graph.ops.constants import literal
from skinny.graph.ops.elementwise import as_float
from skinny.graph.registry import Attributes, Export, Import, register
from skinny.graph.values import Array, Spec, broadcast, promoted


def _joined(a: Attributes, *x: Spec) -> Spec:
    return Spec(promoted(*x), broadcast(*x))


def _numbers(a: Attributes, *x: Spec) -> Spec:
    require(promoted(*x) != "bool", "takes no booleans")
    return _joined(a, *x)


def _compared(a: Attributes, *x: Spec) -> Spec:
    return Spec("bool", broadcast(*x))


# ONNX Runtime computes in these types; others go through one of them.
_WIDER = {"bool": "int32", "uint8": "int32", "int8": "int32"}


def common(writer: Writer, node: Node) -> tuple[list[str], str]:
    """A node's operands in the one type that ONNX wants them in, and that type."""
    dtype = promoted(*map(writer.spec, node.inputs))
    dtype = _WIDER.get(dtype, dtype)
    return [writer.operand(value, dtype) for value in node.inputs], dtype


def result(writer: Writer, node: Node, name: str, dtype: str) -> None:
    """The value `name` of type `dtype` as the node's output."""
    made = writer.spec(node.output).dtype
    if made == dtype:
        writer.add("Identity", [name], node.output)
    else:
        writer.cast(name, made, node.output)


def _write(op_type: str) -> Export:
    def write(writer: Writer, node: Node) -> None:
        names, dtype = common(writer, node)
        made = writer.spec(node.output).dtype
        if made in ("bool", dtype) and dtype not in _WIDER.values():
            writer.add(op_type, names, node.output)
        else:
            result(
                writer, node, writer.add(op_type, names), "bool" if op_type in _TRUTHS else dtype
            )

    return write


_TRUTHS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
Binary = Callable[[Array, Array], Any]


def _binary(
    name: str,
    computes: str,
    function: Binary,
    onnx: str | None,
    *,
    infer: Any = _joined,
    write: Export | None = None,
    aten_imports: dict[str, Import] | None = None,
    onnx_imports: dict[str, Import] | None = None,
    lowering: str = "",
    workspace: int = 12,
) -> None:
    register(
        name,
        computes=computes,
        inputs=(2, 2),
        promotes=True,
        workspace=workspace,
        infer=infer,
        reference=lambda a, x, y: function(x, y),
        aten=aten_imports or {name: aten(name, "self", "other")},
        onnx=onnx_imports or ({} if onnx is None else {onnx: from_onnx(name, 2)}),
        to_onnx=write or _write(onnx or ""),
        lowering=lowering,
    )


# ---- arithmetic


def _scaled(op: str, *, swapped: bool = False) -> Import:
    """add, sub and rsub of torch: x ± alpha y, and y − alpha x."""

    def emit(g: Builder, call: Call) -> Any:
        x, y = call.value("self"), call.value("other")
        if swapped:
            x, y = y, x
        alpha = call.plain("alpha", 1)
        if alpha != 1:
            y = y * alpha if not isinstance(y, str) else g.emit("mul", y, alpha)
        return g.emit(op, x, y)

    return emit


def _folded(op: str, *, mean: bool = False) -> Import:
    """ONNX takes any number of inputs for these."""

    def emit(g: Builder, call: Call) -> Any:
        first, *others = call.values(0)
        for other in others:
            first = g.emit(op, first, other)
        return g.emit("div", first, 1 + len(others)) if mean else first

    return emit


_binary("add", "x + y", np.add, "Add", aten_imports={"add": _scaled("add")}, lowering="map",
        onnx_imports={"Add": from_onnx("add", 2), "Sum": _folded("add"),
                      "Mean": _folded("add", mean=True)})  # fmt: skip


def _differences(g: Builder, call: Call) -> Any:
    """Of neighbours along an axis, n times."""
    x, at = call.value("self"), call.plain("dim", -1)
    around = [call.value(name) for name in ("prepend", "append") if call.has(name)]
    if around:
        last = [around.pop()] if call.has("append") else []
        x = g.emit("concat", *around, x, *last, axis=at)
    for _ in range(call.plain("n", 1)):
        later = g.emit("slice", x, axis=at, start=1)
        x = g.emit("sub", later, g.emit("slice", x, axis=at, start=0, end=-1))
    return x


_binary("sub", "x − y", np.subtract, "Sub", infer=_numbers, lowering="map",
        aten_imports={"sub": _scaled("sub"), "rsub": _scaled("sub", swapped=True),
                      "diff": _differences})  # fmt: skip
_binary("mul", "x y", np.multiply, "Mul", lowering="map")
_binary("minimum", "the smaller of x and y", np.minimum, "Min",
        onnx_imports={"Min": _folded("minimum")}, lowering="map")  # fmt: skip
_binary("maximum", "the larger of x and y", np.maximum, "Max",
        onnx_imports={"Max": _folded("maximum")}, lowering="map")  # fmt: skip


def _divide(g: Builder, call: Call) -> Any:
    op = {None: "div", "floor": "floor_divide", "trunc": "trunc_divide"}
    mode = call.plain("rounding_mode")
    return g.emit(op[mode], call.value("self"), call.value("other"))


def _divide_from_onnx(g: Builder, call: Call) -> Any:
    """Integers are rounded towards zero."""
    x, y = call.value(0), call.value(1)
    return g.emit("div" if g.spec(x).is_float else "trunc_divide", x, y)


def _write_div(writer: Writer, node: Node) -> None:
    """ONNX divides integers by rounding towards zero: they are made floats first."""
    names = [writer.operand(value, "float32") for value in node.inputs]
    writer.add("Div", names, node.output)


register(
    "div",
    computes="x / y, in floats",
    inputs=(2, 2),
    infer=lambda a, x, y: Spec("float32", broadcast(x, y)),
    reference=lambda a, x, y: np.divide(as_float(x), as_float(y)),
    aten={"div": _divide, "true_divide": aten("div", "self", "other")},
    onnx={"Div": _divide_from_onnx},
    to_onnx=_write_div,
    lowering="map",
)


def _trunc_divide(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.asarray(np.trunc(np.divide(x, y)))
    return np.asarray(np.floor_divide(x - np.fmod(x, y), y))


def _write_floor_divide(writer: Writer, node: Node) -> None:
    names, dtype = common(writer, node)
    if dtype == "float32":
        writer.add("Floor", [writer.add("Div", names)], node.output)
        return
    # ONNX rounds towards zero; x - mod(x, y), whose sign is y's, divides without a rest
    rest = writer.add("Mod", names)
    quotient = writer.add("Div", [writer.add("Sub", [names[0], rest]), names[1]])
    result(writer, node, quotient, dtype)


def _towards_zero(writer: Writer, quotient: str, output: str | None = None) -> str:
    whole = writer.add("Floor", [writer.add("Abs", [quotient])])
    return writer.add("Mul", [writer.add("Sign", [quotient]), whole], output)


def _write_trunc_divide(writer: Writer, node: Node) -> None:
    names, dtype = common(writer, node)
    quotient = writer.add("Div", names)
    if dtype == "float32":
        _towards_zero(writer, quotient, node.output)
    else:
        result(writer, node, quotient, dtype)


_binary("floor_divide", "x / y rounded down", np.floor_divide, None, infer=_numbers,
        write=_write_floor_divide)  # fmt: skip
_binary("trunc_divide", "x / y rounded towards zero", _trunc_divide, None, infer=_numbers,
        write=_write_trunc_divide,
        aten_imports={"trunc": lambda g, call: g.emit("trunc_divide", call.value("self"), 1)},
)  # fmt: skip


def _write_remainder(writer: Writer, node: Node) -> None:
    """Mod of ONNX takes floats only in C's way, whose sign is the dividend's."""
    (x, y), dtype = common(writer, node)
    if dtype != "float32":
        result(writer, node, writer.add("Mod", [x, y]), dtype)
        return
    whole = writer.add("Floor", [writer.add("Div", [x, y])])
    writer.add("Sub", [x, writer.add("Mul", [whole, y])], node.output)


def _remainder_from_onnx(g: Builder, call: Call) -> Any:
    x, y = call.value(0), call.value(1)
    if not call.plain("fmod", 0):
        return g.emit("remainder", x, y)
    return g.emit("sub", x, g.emit("mul", g.emit("trunc_divide", x, y), y))


def _fmod(g: Builder, call: Call) -> Any:
    x, y = call.value("self"), call.value("other")
    return g.emit("sub", x, g.emit("mul", g.emit("trunc_divide", x, y), y))


_binary("remainder", "x − y floor(x / y): the sign is y's", np.remainder, None, infer=_numbers,
        write=_write_remainder, onnx_imports={"Mod": _remainder_from_onnx},
        aten_imports={"remainder": aten("remainder", "self", "other"),
                      "fmod": _fmod})  # fmt: skip


def _power(x: Array, y: Array) -> Array:
    """An integer to a negative power is 0, but for 1 and −1."""
    if x.dtype.kind == "f":
        return np.asarray(np.power(x, y))
    ones = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y % 2), 0))
    return np.where(y < 0, ones, np.power(x, np.maximum(y, 0)))


def _power_from_onnx(g: Builder, call: Call) -> Any:
    """The result is of the base's type, whatever that of the exponent."""
    x, y = call.value(0), call.value(1)
    made = g.emit("pow", x, y)
    dtype = g.spec(x).dtype
    return made if g.spec(made).dtype == dtype else g.emit("cast", made, dtype=dtype)


_binary("pow", "x to the power y", _power, "Pow", infer=_numbers, lowering="map",
        aten_imports={"pow": aten("pow", "self", "exponent")},
        onnx_imports={"Pow": _power_from_onnx}, workspace=32)  # fmt: skip


# ---- comparisons and logic


def _write_ne(writer: Writer, node: Node) -> None:
    names, _ = common(writer, node)
    writer.add("Not", [writer.add("Equal", names)], node.output)


_binary("eq", "x = y", np.equal, "Equal", infer=_compared)
_binary("ne", "x ≠ y", np.not_equal, None, infer=_compared, write=_write_ne, onnx_imports={
    "IsNaN": lambda g, call: g.emit("ne", call.value(0), call.value(0))})  # fmt: skip
_binary("lt", "x < y", np.less, "Less", infer=_compared)
_binary("le", "x ≤ y", np.less_equal, "LessOrEqual", infer=_compared)
_binary("gt", "x > y", np.greater, "Greater", infer=_compared)
_binary("ge", "x ≥ y", np.greater_equal, "GreaterOrEqual", infer=_compared)


def _logic(op: str, function: Binary, op_type: str) -> None:
    def write(writer: Writer, node: Node) -> None:
        writer.add(op_type, [writer.operand(value, "bool") for value in node.inputs], node.output)

    def bitwise(g: Builder, call: Call) -> Any:
        x, y = call.value("self"), call.value("other")
        if any(g.spec(value).dtype != "bool" for value in (x, y)):
            raise UnsupportedError("of the bits of integers")
        return g.emit(f"logical_{op}", x, y)

    _binary(
        f"logical_{op}",
        f"x {op} y, of what is not zero",
        function,
        op_type,
        infer=_compared,
        write=write,
        aten_imports={
            f"logical_{op}": aten(f"logical_{op}", "self", "other"),
            **dict.fromkeys((f"bitwise_{op}", f"__{op}__"), bitwise),
        },
    )


_logic("and", np.logical_and, "And")
_logic("or", np.logical_or, "Or")
_logic("xor", np.logical_xor, "Xor")


# ---- a choice


def _write_where(writer: Writer, node: Node) -> None:
    condition, *values = node.inputs
    dtype = writer.spec(node.output).dtype
    wide = _WIDER.get(dtype, dtype)
    names = [writer.operand(condition, "bool"), *(writer.operand(v, wide) for v in values)]
    if wide == dtype:
        writer.add("Where", names, node.output)
    else:
        writer.cast(writer.add("Where", names), dtype, node.output)


def _masked_fill(g: Builder, call: Call) -> Any:
    return g.emit("where", call.value("mask"), call.value("value"), call.value("self"))


def _finite(g: Builder, call: Call) -> Any:
    x = call.value("self")
    if not g.spec(x).is_float:
        return x
    largest = float(np.finfo(np.float32).max)
    x = g.emit("where", g.emit("ne", x, x), call.plain("nan", 0.0), x)
    for name, infinite, default in (("posinf", math.inf, largest), ("neginf", -math.inf, -largest)):
        found = g.emit("eq", x, literal(g, infinite))
        x = g.emit("where", found, call.plain(name, default), x)
    return x


register(
    "where",
    computes="x where the condition holds, else y: inputs condition, x, y",
    inputs=(3, 3),
    infer=lambda a, c, x, y: Spec(promoted(x, y), broadcast(c, x, y)),
    reference=lambda a, c, x, y: np.where(c, x, y),
    aten={
        "where": aten("where", "condition", "self", "other"),
        "masked_fill": _masked_fill,
        "nan_to_num": _finite,
    },
    onnx={"Where": from_onnx("where", 3)},
    to_onnx=_write_where,
    lowering="map",
)
