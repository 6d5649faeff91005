"""Products of matrices: fully connected layers, matmul."""

from typing import Any

import numpy as np

from skinny.graph.attributes import boolean, tensor
from skinny.graph.builder import Builder
from skinny.graph.errors import MisfitError, require
from skinny.graph.forms import Call, OnnxCall, Writer, aten, to_onnx
from skinny.graph.graph import Node, Operand
from skinny.graph.ops import einsum
from skinny.graph.ops.quantize import int8_layer
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec


def _linear_shape(a: Attributes, x: Spec) -> Spec:
    outputs, inputs = a.weight.shape[::-1] if a.transposed else a.weight.shape
    require(x.ndim >= 1 and x.shape[-1] == inputs, f"needs {inputs} features")
    require(a.bias is None or a.bias.shape == (outputs,), f"needs {outputs} biases")
    return Spec("float32", (*x.shape[:-1], outputs))


def _linear(a: Attributes, x: Array) -> Array:
    y: Array = x @ (a.weight if a.transposed else a.weight.T)
    return y if a.bias is None else y + a.bias


def linear(
    g: Builder, x: Operand, weight: str, bias: str | None, *, transposed: bool = False
) -> Any:
    return g.emit("linear", x, weight=weight, bias=bias, transposed=transposed)


def _name(stored: str | None) -> str:
    assert stored is not None
    return stored


def product(g: Builder, call: Call, first: Operand, second: int | str, bias: str | None) -> Any:
    """first times an argument, plus a bias: a fully connected layer where that is a stored matrix,
    or the transpose of one, which is then stored only once."""
    if not call.is_stored(second) or len(call.shape(second)) != 2:
        y = g.emit("matmul", first, call.value(second))
        return y if bias is None else g.emit("add", y, g.emit("constant", tensor=bias))
    turn = g.producers.get(str(call.value(second)))
    if turn is not None and turn.op == "permute" and turn["axes"] == (1, 0):
        source = g.stored_as(turn.inputs[0])
        if source is not None:
            return linear(g, first, source, bias)
    return linear(g, first, _name(call.stored(second)), bias, transposed=True)


def _linear_from_aten(g: Builder, call: Call) -> Any:
    x, bias = call.value("input"), None
    if call.is_stored("weight"):
        if call.has("bias") and call.is_stored("bias"):
            bias = call.stored("bias")
        y = linear(g, x, _name(call.stored("weight")), bias)
    else:  # the weight depends on the input
        y = g.emit("matmul", x, g.emit("permute", call.value("weight"), axes=[1, 0]))
    return y if bias or not call.has("bias") else g.emit("add", y, call.value("bias"))


def _addmm(g: Builder, call: Call) -> Any:
    """beta self + alpha mat1 mat2: a fully connected layer where mat2 is stored."""
    alpha, beta = call.plain("alpha", 1), call.plain("beta", 1)
    x = call.value("mat1") if alpha == 1 else g.emit("mul", call.value("mat1"), alpha)
    fits = beta == 1 and call.is_stored("self") and len(call.shape("self")) == 1
    if fits and call.is_stored("mat2") and call.shape("self") == call.shape("mat2")[1:]:
        return product(g, call, x, "mat2", call.stored("self"))
    y, c = product(g, call, x, "mat2", None), call.value("self")
    if beta == 0:
        return y
    return g.emit("add", y, c if beta == 1 else g.emit("mul", c, beta))


def _matmul_from_aten(second: str) -> Any:
    return lambda g, call: product(g, call, call.value("self"), second, None)


def _matmul_from_onnx(g: Builder, call: OnnxCall) -> Any:
    if (layer := int8_layer(g, call, call.value(0), axis=1)) is not None and _is_matrix(call):
        return g.emit("linear_int8", layer.pop("x"), **layer)
    return product(g, call, call.value(0), 1, None)


def _is_matrix(call: Call) -> bool:
    return len(call.shape(1)) == 2


def _gemm(g: Builder, call: OnnxCall) -> Any:
    """alpha A' B' + beta C."""
    alpha, beta = call.plain("alpha", 1.0), call.plain("beta", 1.0)
    x = call.value(0)
    if call.plain("transA", 0):
        x = g.emit("permute", x, axes=[1, 0])
    if alpha != 1:
        x = g.emit("mul", x, alpha)
    turned = bool(call.plain("transB", 0))
    fits = call.has(2) and call.is_stored(2) and len(call.shape(2)) == 1 and beta == 1
    if call.is_stored(1):
        outputs = call.shape(1)[0 if turned else 1]
        fits = fits and call.shape(2) == (outputs,)
        bias = call.stored(2) if fits else None
        layer = int8_layer(g, call, x, axis=0 if turned else 1)
        if layer is not None:
            y = g.emit("linear_int8", layer.pop("x"), bias=bias, **layer)
        else:
            y = linear(g, x, _name(call.stored(1)), bias, transposed=not turned)
    else:
        fits = False
        other = call.value(1)
        y = g.emit("matmul", x, g.emit("permute", other, axes=[1, 0]) if turned else other)
    if not call.has(2) or fits:
        return y
    c = call.value(2)
    return g.emit("add", y, c if beta == 1 else g.emit("mul", c, beta))


def _write_linear(writer: Writer, node: Node) -> None:
    """MatMul: Gemm would take matrices only."""
    weight = writer.tensor(node["weight"])
    if not node["transposed"]:
        weight = writer.add("Transpose", [weight], perm=[1, 0])
    output = node.output if node["bias"] is None else None
    product = writer.add("MatMul", [writer.operand(node.inputs[0], "float32"), weight], output)
    if node["bias"] is not None:
        writer.add("Add", [product, writer.tensor(node["bias"])], node.output)


register(
    "linear",
    computes="x Wᵀ + b over the last axis; x W + b if transposed",
    attributes={
        "weight": tensor(2),
        "bias": tensor(1).optional(),
        "transposed": boolean.with_default(False),
    },
    infer=_linear_shape,
    reference=_linear,
    aten={
        "linear": _linear_from_aten,
        "addmm": _addmm,
        "mm": _matmul_from_aten("mat2"),
        "matmul": _matmul_from_aten("other"),
    },
    onnx={"MatMul": _matmul_from_onnx, "Gemm": _gemm},
    to_onnx=_write_linear,
    lowering="linear",
)


def _matmul_shape(a: Attributes, x: Spec, y: Spec) -> Spec:
    require(x.ndim >= 1 and y.ndim >= 1, "needs vectors or matrices")
    left = x.shape if x.ndim > 1 else (1, *x.shape)
    right = y.shape if y.ndim > 1 else (*y.shape, 1)
    require(left[-1] == right[-2], f"cannot multiply {list(x.shape)} by {list(y.shape)}")
    try:
        outer = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise MisfitError(f"cannot multiply {list(x.shape)} by {list(y.shape)}") from None
    rows = left[-2:-1] if x.ndim > 1 else ()
    columns = right[-1:] if y.ndim > 1 else ()
    return Spec("float32", (*outer, *rows, *columns))


def _baddbmm(g: Builder, call: Call) -> Any:
    product = g.emit("matmul", call.value("batch1"), call.value("batch2"))
    alpha, beta = call.plain("alpha", 1), call.plain("beta", 1)
    if alpha != 1:
        product = g.emit("mul", product, alpha)
    if beta == 0:
        return product
    x = call.value("self")
    return g.emit("add", product, x if beta == 1 else g.emit("mul", x, beta))


register(
    "matmul",
    computes="the product of matrices in the last two axes, the others broadcast",
    inputs=(2, 2),
    infer=_matmul_shape,
    reference=lambda a, x, y: np.matmul(np.asarray(x, np.float32), np.asarray(y, np.float32)),
    aten={
        "bmm": aten("matmul", "self", "mat2"),
        "baddbmm": _baddbmm,
        "mv": aten("matmul", "self", "vec"),
        "dot": aten("matmul", "self", "tensor"),
    },
    onnx={"Einsum": einsum.from_onnx},
    to_onnx=to_onnx("MatMul", dtype="float32"),
    lowering="matmul",
)
