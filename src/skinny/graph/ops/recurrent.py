"""Recurrent layers, one direction and one layer a node: LSTM and GRU."""

import math
from typing import Any

import numpy as np

from skinny.graph.attributes import boolean, tensor
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, OnnxCall, Writer
from skinny.graph.graph import Node
from skinny.graph.ops.elementwise import sigmoid
from skinny.graph.ops.reshape import unsqueezed
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec

_LONGEST = 1 << 17  # a sequence takes a loop of Python, which would never end
_WEIGHTS = {
    "weight_input": tensor(2),
    "weight_hidden": tensor(2),
    "bias_input": tensor(1).optional(),
    "bias_hidden": tensor(1).optional(),
    "reverse": boolean.with_default(False),
}


def _specs(gates: int) -> Any:
    def infer(a: Attributes, x: Spec, *state: Spec) -> tuple[Spec, ...]:
        rows, features = a.weight_input.shape
        size = a.weight_hidden.shape[1]
        require(rows == gates * size == a.weight_hidden.shape[0], "has weights that do not fit")
        require(x.ndim == 3 and x.shape[2] == features, f"needs [length, batch, {features}]")
        require(x.shape[0] <= _LONGEST, f"is longer than {_LONGEST}")
        require((a.bias_input is None) == (a.bias_hidden is None), "has only one of two biases")
        for bias in (a.bias_input, a.bias_hidden):
            require(bias is None or bias.shape == (rows,), f"needs {rows} biases")
        for spec in state:
            require(spec.shape == (x.shape[1], size), f"needs a state [batch, {size}]")
        last = Spec("float32", (x.shape[1], size))
        whole = Spec("float32", (*x.shape[:2], size))
        return (whole, *([last] * len(state)))

    return infer


def _workspace(a: Attributes, x: Spec, *state: Spec) -> int:
    """The input's projections, with and without a bias, and the gates of one time step."""
    rows: int = a.weight_input.shape[0]
    return 8 * rows * math.prod(x.shape[:2]) + 32 * rows * x.shape[1]


def _projected(a: Attributes, x: Array) -> Array:
    y: Array = x @ a.weight_input.T
    return y if a.bias_input is None else y + a.bias_input


def _recurrent(a: Attributes, h: Array) -> Array:
    y: Array = h @ a.weight_hidden.T
    return y if a.bias_hidden is None else y + a.bias_hidden


def _over_time(a: Attributes, length: int) -> range:
    return range(length - 1, -1, -1) if a.reverse else range(length)


def _lstm(a: Attributes, x: Array, h: Array, c: Array) -> tuple[Array, Array, Array]:
    projected = _projected(a, x)
    outputs = np.zeros((*x.shape[:2], h.shape[1]), np.float32)
    for t in _over_time(a, len(x)):
        i, f, g, o = np.split(projected[t] + _recurrent(a, h), 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs[t] = h
    return outputs, h, c


def _gru(a: Attributes, x: Array, h: Array) -> tuple[Array, Array]:
    projected = _projected(a, x)
    outputs = np.zeros((*x.shape[:2], h.shape[1]), np.float32)
    for t in _over_time(a, len(x)):
        xr, xz, xn = np.split(projected[t], 3, axis=1)
        hr, hz, hn = np.split(_recurrent(a, h), 3, axis=1)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        h = (1 - z) * np.tanh(xn + r * hn) + z * h
        outputs[t] = h
    return outputs, h


# ---- from torch: a stack of layers and directions is a chain of nodes


def _stack(op: str) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        if not call.has("batch_first"):
            raise UnsupportedError("of packed sequences")
        x = call.value("input")
        states = call.values("hx") if op == "lstm" else [call.value("hx")]
        names, biased = call.stored_list("params"), bool(call.plain("has_biases"))
        layers, both = call.plain("num_layers"), bool(call.plain("bidirectional"))
        each = 4 if biased else 2
        if len(names) != layers * (1 + both) * each:
            raise UnsupportedError("with projections")
        if call.plain("batch_first"):
            x = g.emit("permute", x, axes=[1, 0, 2])
        finals: list[list[Any]] = [[] for _ in states]
        for layer in range(layers):
            made = []
            for direction in range(1 + both):
                at = layer * (1 + both) + direction
                weights = names[at * each : (at + 1) * each]
                start = [g.emit("select", s, axis=0, index=at) for s in states]
                results = g.emit(
                    op,
                    x,
                    *start,
                    outputs=1 + len(states),
                    weight_input=weights[0],
                    weight_hidden=weights[1],
                    bias_input=weights[2] if biased else None,
                    bias_hidden=weights[3] if biased else None,
                    reverse=bool(direction),
                )
                made.append(results[0])
                for final, value in zip(finals, results[1:], strict=True):
                    final.append(value)
            x = made[0] if len(made) == 1 else g.emit("concat", *made, axis=2)
        if call.plain("batch_first"):
            x = g.emit("permute", x, axes=[1, 0, 2])
        return (x, *(_stacked(g, final) for final in finals))

    return emit


def _stacked(g: Builder, values: list[Any]) -> Any:
    rows = [unsqueezed(g, value, (0,)) for value in values]
    return rows[0] if len(rows) == 1 else g.emit("concat", *rows, axis=0)


# ---- ONNX: [directions, ...] of everything, gates in another order

_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}  # ours -> i o f c, and r z n -> z r h


def _reordered(array: Array, order: tuple[int, ...]) -> Array:
    gates = np.split(array, len(order))
    return np.concatenate([gates[i] for i in order])


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(i) for i in range(len(order)))


def _write(op: str, op_type: str) -> Any:
    order = _ORDER[op]

    def write(writer: Writer, node: Node) -> None:
        x, *state = node.inputs

        def weights(field: str) -> Array:
            return _reordered(writer.values(node[field]), order)

        names = [writer.operand(x), *(writer.constant(weights(f)[None]) for f in
                                      ("weight_input", "weight_hidden"))]  # fmt: skip
        if node["bias_input"] is None:
            names.append("")
        else:
            both = [weights(field) for field in ("bias_input", "bias_hidden")]
            names.append(writer.constant(np.concatenate(both)[None]))
        zero = writer.constant(np.array([0], np.int64))
        names.append("")
        names += [writer.add("Unsqueeze", [writer.operand(s), zero]) for s in state]
        size = writer.spec(node.outputs[0]).shape[2]
        given: dict[str, Any] = {"hidden_size": size}
        if op == "gru":
            given["linear_before_reset"] = 1
        given["direction"] = "reverse" if node["reverse"] else "forward"
        wide = [f"{name}/wide" for name in node.outputs]
        writer.add_many(op_type, names, wide, **given)
        at = [1] + [0] * len(state)
        for name, made, axis in zip(wide, node.outputs, at, strict=True):
            writer.add("Squeeze", [name, writer.constant(np.array([axis], np.int64))], made)

    return write


def _from_onnx(op: str) -> Any:
    order = _inverse(_ORDER[op])

    def emit(g: Builder, call: OnnxCall) -> Any:
        if call.plain("activations") or call.plain("clip") or call.plain("layout", 0):
            raise UnsupportedError("with activations, clipping or a layout of its own")
        if call.has(4) or (op == "lstm" and call.has(7)):
            raise UnsupportedError("with lengths or peepholes")
        if op == "gru" and not call.plain("linear_before_reset", 0):
            raise UnsupportedError("that resets before the product")
        x, size = call.value(0), call.plain("hidden_size")
        weights = [call.array(i) for i in (1, 2)]
        biases = call.array(3) if call.has(3) else None
        directions = len(weights[0])
        reverse = call.plain("direction", "forward") == "reverse"
        count = 2 if op == "lstm" else 1
        results = []
        for d in range(directions):
            names = [call.store(_reordered(w[d], order)) for w in weights]
            bias: list[Any] = [None, None]
            if biases is not None:
                bias = [call.store(_reordered(b, order)) for b in np.split(biases[d], 2)]
            start = [
                g.emit("select", call.value(5 + i), axis=0, index=d)
                if call.has(5 + i)
                else g.emit("full", shape=[g.size(x, 1), size], value=0, dtype="float32")
                for i in range(count)
            ]
            results.append(
                g.emit(op, x, *start, outputs=1 + count, weight_input=names[0],
                       weight_hidden=names[1], bias_input=bias[0], bias_hidden=bias[1],
                       reverse=reverse or d == 1)
            )  # fmt: skip
        outputs = [unsqueezed(g, r[0], (1,)) for r in results]
        y = outputs[0] if directions == 1 else g.emit("concat", *outputs, axis=1)
        return (y, *(_stacked(g, [r[1 + i] for r in results]) for i in range(count)))

    return emit


for _op, _gates, _function, _op_type, _computes in (
    ("lstm", 4, _lstm, "LSTM", "i, f, g, o = W x + U h + b; c = σ(f) c + σ(i) tanh(g); "
     "h = σ(o) tanh(c). Inputs x [length up to 2¹⁷, batch, features], h and c [batch, size]; "
     "outputs all h, and the last h and c"),
    ("gru", 3, _gru, "GRU", "r, z, n of W x + b and U h + b'; "
     "h = (1 − z) tanh(xn + σ(r) hn) + z h, z = σ(xz + hz). "
     "Inputs x [length up to 2¹⁷, batch, features] and h [batch, size]; outputs all h, and "
     "the last"),
):  # fmt: skip
    _states = 2 if _op == "lstm" else 1
    register(
        _op,
        computes=_computes,
        inputs=(1 + _states, 1 + _states),
        outputs=(1 + _states, 1 + _states),
        attributes=_WEIGHTS,
        infer=_specs(_gates),
        reference=_function,
        workspace=_workspace,
        lowering="recurrent",
        aten={_op: _stack(_op)},
        onnx={_op_type: _from_onnx(_op)},
        to_onnx=_write(_op, _op_type),
    )
