"""Reductions over any axes, and what goes along one axis: cumulative sums, the largest k."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skinny.graph.attributes import axes, axis, boolean, number, size
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer
from skinny.graph.graph import Node
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Shape, Spec, axes_of, axis_of


def _shape(x: Spec, over: tuple[int, ...], keep: bool) -> Shape:
    return tuple(
        1 if at in over else side for at, side in enumerate(x.shape) if keep or at not in over
    )


def _reduced(dtype: Callable[[Spec], str], *, empty: bool = True) -> Any:
    def infer(a: Attributes, x: Spec) -> Spec:
        over = axes_of(a.axes, x.ndim)
        require(empty or all(x.shape[at] for at in over), "has nothing to choose from")
        return Spec(dtype(x), _shape(x, over, a.keep))

    return infer


def _from_aten(op: str, name: str = "dim") -> Any:
    """torch writes an empty list of axes for all of them."""

    def emit(g: Builder, call: Call) -> Any:
        x = call.value("self")
        given = call.plain(name) if call.has(name) else None
        over = [given] if isinstance(given, int) else given or None
        keep = bool(call.plain("keepdim")) if call.has("keepdim") else False
        return g.emit(op, x, axes=over, keep=keep)

    return emit


def _from_onnx(op: str) -> Any:
    """Axes are an attribute in older operator sets and an input in newer ones."""

    def emit(g: Builder, call: Call) -> Any:
        given = call.plain(1) if call.has(1) else call.plain("axes")
        over = None if given is None else [int(at) for at in np.ravel(given)]
        if not over:
            if call.plain("noop_with_empty_axes", 0):
                return call.value(0)
            over = None
        return g.emit(op, call.value(0), axes=over, keep=bool(call.plain("keepdims", 1)))

    return emit


def _write(op_type: str) -> Any:
    def write(writer: Writer, node: Node) -> None:
        made = writer.spec(node.output).dtype
        name = writer.operand(node.inputs[0], made)
        narrow = made in ("bool", "uint8", "int8")
        names = [writer.cast(name, "int32") if narrow else name]
        if node["axes"] is not None:
            names.append(writer.constant(np.array(node["axes"], np.int64)))
        given: dict[str, Any] = {
            "keepdims": int(node["keep"]),
            "noop_with_empty_axes": int(node["axes"] == ()),
        }
        if narrow:
            writer.cast(writer.add(op_type, names, **given), made, node.output)
        else:
            writer.add(op_type, names, node.output, **given)

    return write


def _whole(x: Spec) -> str:
    return x.dtype if x.dtype == "float32" else "int64"


def _register(
    op: str, computes: str, function: Any, op_type: str, infer: Any, *also: str, **more: Any
) -> None:
    register(
        op,
        computes=f"{computes} over some axes, all if null; they stay with size 1 if `keep`",
        attributes={"axes": axes.optional(), "keep": boolean.with_default(False)},
        infer=infer,
        reference=lambda a, x: function(x, axis=a.axes, keepdims=a.keep),
        aten={**{name: _from_aten(op) for name in (op, *also)}, **more.get("aten", {})},
        onnx={op_type: _from_onnx(op), **more.get("onnx", {})} if op_type else {},
        to_onnx=more.get("write") or _write(op_type),
        lowering=more.get("lowering", ""),
    )


def _float(x: Spec) -> str:
    return "float32"


def _norm_from_aten(g: Builder, call: Call) -> Any:
    """The vector norm of order p."""
    x = call.value("self")
    p = call.plain("p") if call.has("p") else call.plain("ord") if call.has("ord") else 2
    given = call.plain("dim") if call.has("dim") else None
    over = [given] if isinstance(given, int) else given or None
    keep = bool(call.plain("keepdim")) if call.has("keepdim") else False
    size_ = g.emit("abs", x)
    if p == float("inf"):
        return g.emit("max", size_, axes=over, keep=keep)
    if p == 1:
        return g.emit("sum", size_, axes=over, keep=keep)
    if p == 2:
        return g.emit("sqrt", g.emit("sum", g.emit("mul", x, x), axes=over, keep=keep))
    total = g.emit("sum", g.emit("pow", size_, float(p)), axes=over, keep=keep)
    return g.emit("pow", total, 1 / float(p))


def _onnx_norm(power: int) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        x = call.value(0)
        grown = g.emit("abs", x) if power == 1 else g.emit("mul", x, x)
        given = call.plain(1) if call.has(1) else call.plain("axes")
        over = None if given is None else [int(at) for at in np.ravel(given)]
        y = g.emit("sum", grown, axes=over, keep=bool(call.plain("keepdims", 1)))
        return y if power == 1 else g.emit("sqrt", y)

    return emit


def _count(x: Array, axis: tuple[int, ...] | None) -> int:
    return math.prod(x.shape[at] for at in axes_of(axis, x.ndim))


def _mean(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    total = np.sum(x, axis=axis, keepdims=keepdims, dtype=np.float64)
    return np.asarray(np.divide(total, _count(x, axis)))


_register("mean", "the mean", _mean, "ReduceMean", _reduced(_float), lowering="reduce")
_register(
    "sum", "the sum", np.sum, "ReduceSum", _reduced(_whole),
    aten=dict.fromkeys(("linalg_vector_norm", "norm"), _norm_from_aten),
    onnx={"ReduceL1": _onnx_norm(1), "ReduceL2": _onnx_norm(2)}, lowering="reduce",
)  # fmt: skip
_register("prod", "the product", np.prod, "ReduceProd", _reduced(_whole))


def _extreme_from_aten(op: str) -> Any:
    """max(x) and amax give values; max(x, dim) gives values and their indices."""

    def emit(g: Builder, call: Call) -> Any:
        if call.has("other"):
            name = "maximum" if op == "max" else "minimum"
            return g.emit(name, call.value("self"), call.value("other"))
        y = _from_aten(op)(g, call)
        if not call.has("dim"):
            return y
        at, keep = call.plain("dim"), bool(call.plain("keepdim"))
        return (y, g.emit(f"arg{op}", call.value("self"), axis=at, keep=keep))

    return emit


for _op, _fn, _op_type in (("max", np.max, "ReduceMax"), ("min", np.min, "ReduceMin")):
    _register(
        _op, f"the {'largest' if _op == 'max' else 'smallest'} element", _fn, _op_type,
        _reduced(lambda x: x.dtype, empty=False),
        aten={_op: _extreme_from_aten(_op), f"a{_op}": _from_aten(_op)}, lowering="reduce",
    )  # fmt: skip
_register("any", "whether any is true", np.any, "", _reduced(lambda x: "bool"),
          write=_write("ReduceMax"))  # fmt: skip
_register("all", "whether all are true", np.all, "", _reduced(lambda x: "bool"),
          write=_write("ReduceMin"))  # fmt: skip


def _var_shape(a: Attributes, x: Spec) -> Spec:
    return Spec("float32", _shape(x, axes_of(a.axes, x.ndim), a.keep))


def _var(a: Attributes, x: Array) -> Array:
    centred = x - _mean(x, a.axes, keepdims=True)
    total = np.sum(centred**2, axis=a.axes, keepdims=a.keep)
    return np.asarray(np.divide(total, max(0, _count(x, a.axes) - a.correction)))


def _var_from_aten(g: Builder, call: Call) -> Any:
    given = call.plain("dim") if call.has("dim") else None
    over = [given] if isinstance(given, int) else given or None
    if call.has("correction"):
        correction = call.plain("correction")
    else:
        correction = int(call.plain("unbiased")) if call.has("unbiased") else 1
    keep = bool(call.plain("keepdim")) if call.has("keepdim") else False
    return g.emit("var", call.value("self"), axes=over, keep=keep, correction=correction)


def _std_from_aten(g: Builder, call: Call) -> Any:
    return g.emit("sqrt", _var_from_aten(g, call))


def _var_mean_from_aten(g: Builder, call: Call) -> Any:
    return (_var_from_aten(g, call), _from_aten("mean")(g, call))


def _write_var(writer: Writer, node: Node) -> None:
    x = writer.operand(node.inputs[0], "float32")
    over = axes_of(node["axes"], writer.spec(node.inputs[0]).ndim)
    at = writer.constant(np.array(over, np.int64))
    centred = writer.add("Sub", [x, writer.add("ReduceMean", [x, at], keepdims=1)])
    square = writer.add("Mul", [centred, centred])
    total = writer.add("ReduceSum", [square, at], keepdims=int(node["keep"]))
    elements, results = (writer.cast(writer.add("Size", [v]), "float32") for v in (x, total))
    count = writer.add("Div", [elements, results])
    correction = writer.constant(np.array(node["correction"], np.float32))
    writer.add("Div", [total, writer.add("Sub", [count, correction])], node.output)


register(
    "var",
    computes="the variance over some axes; the sum of squares is divided by n − correction",
    attributes={
        "axes": axes.optional(),
        "keep": boolean.with_default(False),
        "correction": number.with_default(1),
    },
    infer=_var_shape,
    reference=_var,
    workspace=20,
    aten={"var": _var_from_aten, "std": _std_from_aten, "var_mean": _var_mean_from_aten},
    to_onnx=_write_var,
)


# ---- along one axis


def _arg_shape(a: Attributes, x: Spec) -> Spec:
    over = axis_of(a.axis, x.ndim)
    require(x.shape[over] > 0, "has nothing to choose from")
    return Spec("int64", _shape(x, (over,), a.keep))


def _arg_from_aten(op: str) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        x = call.value("self")
        if not call.has("dim"):
            return g.emit(op, g.emit("reshape", x, shape=[-1]), axis=0)
        return g.emit(op, x, axis=call.plain("dim"), keep=bool(call.plain("keepdim")))

    return emit


def _arg_from_onnx(op: str) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        if call.plain("select_last_index", 0):
            raise UnsupportedError("that selects the last index")
        keep = bool(call.plain("keepdims", 1))
        return g.emit(op, call.value(0), axis=call.plain("axis", 0), keep=keep)

    return emit


def _write_arg(op_type: str) -> Any:
    def write(writer: Writer, node: Node) -> None:
        name = writer.operand(node.inputs[0])
        writer.add(op_type, [name], node.output, axis=node["axis"], keepdims=int(node["keep"]))

    return write


for _op, _chosen, _op_type in (("argmax", np.argmax, "ArgMax"), ("argmin", np.argmin, "ArgMin")):
    register(
        _op,
        computes=f"the index of the {'largest' if _op == 'argmax' else 'smallest'} element, the "
        "first one of equals",
        attributes={"axis": axis, "keep": boolean.with_default(False)},
        infer=_arg_shape,
        reference=(lambda fn: lambda a, x: fn(x, axis=a.axis, keepdims=a.keep))(_chosen),
        aten={_op: _arg_from_aten(_op)},
        onnx={_op_type: _arg_from_onnx(_op)},
        to_onnx=_write_arg(_op_type),
    )


def _cumsum_shape(a: Attributes, x: Spec) -> Spec:
    axis_of(a.axis, x.ndim)
    return Spec(_whole(x), x.shape)


def _cumsum_from_onnx(g: Builder, call: Call) -> Any:
    if call.plain("exclusive", 0) or call.plain("reverse", 0):
        raise UnsupportedError("exclusive or reversed")
    return g.emit("cumsum", call.value(0), axis=int(call.plain(1)))


def _write_cumsum(writer: Writer, node: Node) -> None:
    x = writer.operand(node.inputs[0], writer.spec(node.output).dtype)
    writer.add("CumSum", [x, writer.constant(np.array(node["axis"], np.int64))], node.output)


register(
    "cumsum",
    computes="the sum of all elements of an axis up to and including each",
    attributes={"axis": axis},
    infer=_cumsum_shape,
    reference=lambda a, x: np.cumsum(x, a.axis),
    aten={"cumsum": lambda g, call: g.emit("cumsum", call.value("self"), axis=call.plain("dim"))},
    onnx={"CumSum": _cumsum_from_onnx},
    to_onnx=_write_cumsum,
)


def _topk_specs(a: Attributes, x: Spec) -> tuple[Spec, Spec]:
    at = axis_of(a.axis, x.ndim)
    require(0 <= a.k <= x.shape[at], f"cannot choose {a.k} of {x.shape[at]}")
    shape = (*x.shape[:at], a.k, *x.shape[at + 1 :])
    return Spec(x.dtype, shape), Spec("int64", shape)


def _topk(a: Attributes, x: Array) -> tuple[Array, Array]:
    """Equal ones in their order; NaN is larger than all numbers, as in torch."""
    if a.largest:
        rising = np.argsort(np.flip(x, a.axis), axis=a.axis, kind="stable")
        order = x.shape[a.axis] - 1 - np.flip(rising, a.axis)
    else:
        order = np.argsort(x, axis=a.axis, kind="stable")
    chosen = np.take(order, np.arange(a.k), a.axis)
    return np.take_along_axis(x, chosen, a.axis), chosen


def _topk_from_aten(g: Builder, call: Call) -> Any:
    given = {"k": call.plain("k"), "axis": call.plain("dim", -1), "largest": call.plain("largest")}
    return g.emit("topk", call.value("self"), outputs=2, **given)


def _sort_from_aten(g: Builder, call: Call) -> Any:
    x, at = call.value("self"), call.plain("dim", -1)
    falls = bool(call.plain("descending", False))
    return g.emit("topk", x, outputs=2, k=g.size(x, at), axis=at, largest=falls)


def _topk_from_onnx(g: Builder, call: Call) -> Any:
    (k,) = call.plain(1) if call.has(1) else [call.plain("k")]
    given = {"axis": call.plain("axis", -1), "largest": bool(call.plain("largest", 1))}
    return g.emit("topk", call.value(0), outputs=2, k=k, **given)


def _write_topk(writer: Writer, node: Node) -> None:
    k = writer.sizes((node["k"],), node.inputs[0])
    given = {"axis": node["axis"], "largest": int(node["largest"]), "sorted": 1}
    writer.add_many("TopK", [writer.operand(node.inputs[0]), k], list(node.outputs), **given)


register(
    "topk",
    computes="the k largest (or smallest) elements of an axis in order, and their indices",
    outputs=(2, 2),
    attributes={"k": size(0), "axis": axis, "largest": boolean.with_default(True)},
    infer=_topk_specs,
    reference=_topk,
    workspace=28,
    aten={"topk": _topk_from_aten, "sort": _sort_from_aten},
    onnx={"TopK": _topk_from_onnx},
    to_onnx=_write_topk,
)
