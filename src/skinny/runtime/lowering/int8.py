"""Layers in int8: their input in cells, one step for the layer, what is added to it and its
activation, and the result in cells where its readers want these."""

import math
from typing import Any, NamedTuple

import numpy as np

from skinny._native import (
    MAX_INT8_TAPS,
    ActivationKind,
    Int8Matrix,
    Int8Weights,
    Pool,
    TensorProgram,
)
from skinny.graph import Node
from skinny.runtime import strided
from skinny.runtime.convolution import Geometry, geometry
from skinny.runtime.layout import View
from skinny.runtime.lowering import cells as C
from skinny.runtime.lowering.cells import Quantization
from skinny.runtime.lowering.stages import POINTWISE, activation
from skinny.runtime.shared_weights import Held
from skinny.runtime.step_info import StepInfo
from skinny.runtime.strided import Shape, Tensor
from skinny.runtime.tensor_plan import Cells, Facts, Lowering, TensorPlan, Value
from skinny.runtime.windows import axes

_MOST_QUADS = 1 << 26  # of a layer whose groups are expanded
_NONE = Quantization(1.0, 0)
_FLOAT32 = np.float32


class Epilogue(NamedTuple):
    """What is computed with a layer: the name of the result, a value that is added, limits."""

    output: str
    added: Value | Cells | None = None
    low: float = -math.inf
    high: float = math.inf


def windows(node: Node) -> dict[str, Any]:
    """A node's strides, paddings and dilations for two spatial axes."""
    ones = {"stride": 1, "padding": 0, "dilation": 1, "kernel": 1}
    given = {name: node[name] for name in ones if name in node.attributes}
    short = {n: (ones[n], *value) if len(value) == 1 else value for n, value in given.items()}
    return {**node.attributes, **short}


# ---- convolutions


def _accepts_conv(facts: Facts, node: Node) -> bool:
    weight = facts.tensor_spec(node["weight"])
    spec = facts.spec(node.inputs[0])
    if weight is None or spec.ndim not in (3, 4):
        return False
    taps = -(-spec.shape[1] // 4) * math.prod(weight.shape[2:])
    return taps <= MAX_INT8_TAPS and weight.shape[0] * taps <= _MOST_QUADS


def _geometry(plan: TensorPlan, node: Node, given: View | None = None) -> Geometry:
    x, y = (C.image(plan.spec(value).shape)[1:] for value in (node.inputs[0], node.output))
    weight = C.image(plan.weights.shape(node["weight"]))
    shape = (weight[0], -(-x[0] // 4), *weight[2:])
    return geometry(windows(node), C.cell_shape(x), shape, y, given)


def _conv(plan: TensorPlan, node: Node) -> None:
    q = Quantization(node["input_scale"], node["input_zero"])
    name = str(node.inputs[0])
    source, form = _source(plan, node, name, q)
    epilogue = _absorb(plan, node)
    shape = C.image(plan.spec(epilogue.output).shape)
    groups = node["groups"]

    def weights() -> Int8Weights:
        held = plan.weights.int8_convolution(node.attributes, groups)
        plan.held.append(held)
        assert isinstance(held.native, Int8Weights)
        return held.native

    _convolve(plan, node, source, form, shape, weights, epilogue)


def _source(plan: TensorPlan, node: Node, name: str, q: Quantization) -> tuple[Cells, Geometry]:
    """The input in cells, as the convolution reads them."""
    found = plan.values.get(name)
    if not isinstance(found, Cells) or Quantization(found.scale, found.zero) != q or found.tokens:
        found = plan.in_cells.get((name, q))
    if found is None:
        x = plan.value(name)
        tensor = strided.reshape(x.tensor, C.image(x.shape))
        assert tensor is not None
        form = _geometry(plan, node, C.compact_cells(tensor.shape))
        plain = form.space_to_depth is None
        view = form.view if plain else C.compact_cells(tensor.shape)
        found = C.quantized(plan, name, x.viewed(tensor), view, q)
        plan.in_cells[name, q] = found
    form = _geometry(plan, node, found.view)
    if form.space_to_depth is not None or form.view != found.view:
        key = (name, q, form.view, str(form.space_to_depth))
        if key not in plan.in_cells:
            plan.in_cells[key] = C.moved(plan, found, form, node["weight"].removesuffix(".weight"))
        found = plan.in_cells[key]
    return found, form


def _absorb(plan: TensorPlan, node: Node) -> Epilogue:
    """What follows a layer: a value computed before, which is added, then limits."""
    output, added = node.output, None
    user = plan.sole_user(output)
    if user is not None and user.op == "add" and user.inputs.count(output) == 1:
        (other,) = (value for value in user.inputs if value != output)
        ready = isinstance(other, str) and other in plan.values
        if ready and plan.spec(other).shape == plan.spec(output).shape:
            added = _addend(plan, str(other), C.image(plan.spec(output).shape))
            plan.claim(user)
            output = user.output
    user = plan.sole_user(output)
    following = None if user is None else activation(user)
    if user is not None and following is not None and following.kind == ActivationKind.clamp:
        plan.claim(user)
        return Epilogue(user.output, added, following.a, following.b)
    return Epilogue(output, added)


def _addend(plan: TensorPlan, name: str, shape: Shape) -> Value | Cells:
    found = plan.values[name]
    if isinstance(found, Cells) and not found.tokens:
        return found
    x = plan.in_arena(plan.value(name))
    tensor = strided.reshape(x.tensor, shape)
    if tensor is None or (shape[3] > 1 and tensor.strides[3] != 1):
        x = plan.copied(x, strided.row_major(x.shape))
        tensor = strided.reshape(x.tensor, shape)
        assert tensor is not None
    return x.viewed(tensor)


def _padded_view(plan: TensorPlan, name: str, shape: Shape) -> View:
    """The layout that all convolutions that read a value want; else without gaps."""
    users = plan.users(name)
    own = C.compact_cells(shape)
    forms = [_geometry(plan, user, own) for user in users if user.op == "conv_int8"]
    views = {form.view for form in forms}
    plain = all(form.space_to_depth is None for form in forms)
    return views.pop() if len(views) == 1 and plain else own


def _convolve(
    plan: TensorPlan,
    node: Node,
    source: Cells,
    form: Geometry,
    shape: Shape,
    weights: Any,
    epilogue: Epilogue,
) -> None:
    """shape: of the result as [samples, channels, height, width]"""
    is_conv = node.op == "conv_int8"
    q = C.wanted(plan, epilogue.output, node.op)
    cells: Cells | None = None
    floats: Value | None = None
    low, high = epilogue.low, epilogue.high
    if q is not None:
        view = _padded_view(plan, epilogue.output, shape) if is_conv else C.compact_cells(shape)
        cells = C.new_cells(plan, plan.spec(epilogue.output).shape, view, shape[0], q)
        cells.tokens = not is_conv
        plan.values[epilogue.output] = cells
        if is_conv:
            plan.in_cells[epilogue.output, q] = cells
        low, high = _limits(low, high, q)
    else:
        floats = _floats(plan, epilogue.output, shape, is_conv)
    offsets = form.taps.reshape(-1).astype(np.int32)
    added = epilogue.added
    added_q = _NONE if not isinstance(added, Cells) else Quantization(added.scale, added.zero)
    title = node["weight"].removesuffix(".weight") + (" + add" if added is not None else "")
    info = StepInfo(
        title,
        "conv" if is_conv else "linear",
        f"int8 to {'int8' if cells else 'fp32'}",
        2 * shape[0] * shape[2] * shape[3] * plan.weights.kept(node["weight"]),
    )

    def add(p: TensorProgram) -> None:
        p.add_conv_int8(
            samples=shape[0],
            source=C.placed(source),
            source_stride=source.stride,
            height=shape[2],
            width=shape[3],
            first=form.first,
            offsets=offsets,
            weights=weights(),
            cells=None if cells is None else C.placed(cells),
            cells_stride=0 if cells is None else cells.stride,
            floats=None if floats is None else plan.at(floats),
            scale=(q or _NONE).scale,
            zero=(q or _NONE).zero,
            low=low,
            high=high,
            added_cells=C.placed(added) if isinstance(added, Cells) else None,
            added_stride=added.stride if isinstance(added, Cells) else 0,
            added_floats=plan.at(added) if isinstance(added, Value) else None,
            added_scale=added_q.scale,
            added_zero=added_q.zero,
        )

    plan.step(info, [source, cells, floats, added], add)


def _limits(low: float, high: float, q: Quantization) -> tuple[float, float]:
    """The integers, less the zero point, that limits of floats become: rounding keeps the order."""
    inverse = _FLOAT32(1) / _FLOAT32(q.scale)
    with np.errstate(all="ignore"):
        bottom, top = (np.rint(_FLOAT32(limit) * inverse) for limit in (low, high))
    bottom, top = max(float(bottom), -q.zero), min(float(top), 255 - q.zero)
    return min(bottom, 255.0 - q.zero), max(top, float(-q.zero))


def _floats(plan: TensorPlan, name: str, shape: Shape, is_conv: bool) -> Value:
    own = plan.spec(name).shape
    if is_conv:
        made = plan.make(name)
        tensor = strided.reshape(made.tensor, shape)
        assert tensor is not None
        return made.viewed(tensor)
    samples, features, _, count = shape
    apart = -(-count // plan.lanes) * plan.lanes
    strides = (features * apart, 1, apart)  # of [samples, tokens, features]
    three = Tensor(0, 0, (samples, count, features), strides)
    whole = strided.reshape(three, own)
    assert whole is not None
    made = plan.make(name, whole.strides)
    return made.viewed(made.tensor._replace(shape=shape, strides=(features * apart, apart, 0, 1)))


# ---- linear layers


def _linear(plan: TensorPlan, node: Node) -> None:
    name = str(node.inputs[0])
    q = Quantization(node["input_scale"], node["input_zero"])
    shape = C.tokens(plan.spec(name).shape, plan.lanes)
    if shape is None:
        _rows(plan, node, q)
        return
    found = plan.values.get(name)
    if not isinstance(found, Cells) or not found.tokens:
        found = plan.in_cells.get((name, q, "tokens"))
    if found is None:
        x = C.as_tokens(plan, plan.value(name), shape)
        found = C.quantized(plan, name, x, C.compact_cells(shape), q)
        found.tokens = True
        plan.in_cells[name, q, "tokens"] = found
    outputs = plan.weights.shape(node["weight"])[0]
    out = (shape[0], outputs, *shape[2:])
    inner = C.cell_shape(shape[1:])
    form = geometry(POINTWISE, inner, (outputs, inner[0], 1, 1), out[1:], found.view)

    def weights() -> Int8Weights:
        held = plan.weights.int8_convolution(node.attributes, 1)
        plan.held.append(held)
        assert isinstance(held.native, Int8Weights)
        return held.native

    _convolve(plan, node, found, form, out, weights, _limited(plan, node))


def _limited(plan: TensorPlan, node: Node) -> Epilogue:
    user = plan.sole_user(node.output)
    following = None if user is None else activation(user)
    if user is not None and following is not None and following.kind == ActivationKind.clamp:
        plan.claim(user)
        return Epilogue(user.output, None, following.a, following.b)
    return Epilogue(node.output)


def _rows(plan: TensorPlan, node: Node, q: Quantization) -> None:
    """Fewer rows than a vector has lanes: weights are read once, as a mask and bytes."""
    x = plan.value(node.inputs[0])
    if not strided.is_row_major(x.tensor):
        x = plan.copied(x, strided.row_major(x.shape))
    outputs, columns = plan.weights.shape(node["weight"])
    rows = math.prod(x.shape[:-1])
    source = x.viewed(x.tensor._replace(shape=(rows, columns), strides=(columns, 1)))
    stride = -(-columns // 64) * 16
    made = plan.new((rows * stride,))
    plan.step(
        StepInfo(str(node.inputs[0]), "quantize", "rows"),
        [source, made],
        lambda p: p.add_quantize_rows(
            source=plan.at(source),
            target=plan.at(made).offset,
            stride=stride,
            scale=q.scale,
            zero=q.zero,
        ),
    )
    epilogue = _limited(plan, node)
    y = plan.make(epilogue.output)
    target = y.viewed(y.tensor._replace(shape=(rows, outputs), strides=(outputs, 1)))

    def add(p: TensorProgram) -> None:
        held: Held = plan.weights.int8_matrix(node.attributes)
        plan.held.append(held)
        assert isinstance(held.native, Int8Matrix)
        p.add_linear_int8(
            source=plan.at(made).offset,
            source_stride=stride,
            target=plan.at(target),
            weights=held.native,
            low=epilogue.low,
            high=epilogue.high,
        )

    operations = 2 * rows * plan.weights.kept(node["weight"])
    title = node["weight"].removesuffix(".weight")
    plan.step(StepInfo(title, "linear", "int8 rows", operations), [made, target], add)


# ---- what lies between


def _accepts_fake(facts: Facts, node: Node) -> bool:
    spec = facts.spec(node.inputs[0])
    return spec.is_float and spec.ndim in (2, 3, 4)


def _fake_quantize(plan: TensorPlan, node: Node) -> None:
    q = Quantization(node["scale"], node["zero"])
    name = str(node.inputs[0])
    found = plan.values.get(name)
    if isinstance(found, Cells) and Quantization(found.scale, found.zero) == q:
        plan.values[node.output] = found
        return
    x = plan.value(name)
    tensor = strided.reshape(x.tensor, C.image(x.shape))
    assert tensor is not None
    view = _padded_view(plan, node.output, tensor.shape)
    made = C.quantized(plan, node.output, x.viewed(tensor), view, q)
    plan.values[node.output] = plan.in_cells[node.output, q] = made


def pool(plan: TensorPlan, node: Node, source: Cells) -> None:
    """Max pooling of cells: rounding keeps the order."""
    shape = C.image(plan.spec(node.output).shape)
    height, width = source.view[2:4]
    rows, columns = axes({"op": node.op, **windows(node)}, (source.view.channels, height, width))
    native = Pool(max=True, rows=rows, columns=columns)
    q = Quantization(source.scale, source.zero)
    view = _padded_view(plan, node.output, shape)
    made = C.new_cells(plan, plan.spec(node.output).shape, view, shape[0], q)
    plan.values[node.output] = plan.in_cells[node.output, q] = made
    plan.step(
        StepInfo(node.output, node.op, "int8"),
        [source, made],
        lambda p: p.add_pool_cells(
            samples=shape[0],
            source=C.placed(source),
            source_stride=source.stride,
            target=C.placed(made),
            target_stride=made.stride,
            pool=native,
            zero=q.zero,
        ),
    )


CONV = Lowering(_accepts_conv, _conv)
LINEAR = Lowering(lambda facts, node: True, _linear)
FAKE_QUANTIZE = Lowering(_accepts_fake, _fake_quantize)
