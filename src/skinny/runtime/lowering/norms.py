"""What goes along axes: normalisation, softmax, reductions.

Kernels take [outer, axis, inner]. The axes of a tensor without gaps can always be joined to these,
around a single axis; where they cannot be, the tensor is copied.
"""

import math

from skinny._native import ReduceKind
from skinny.graph import Node
from skinny.graph.values import Array, axes_of, axis_of
from skinny.runtime import strided
from skinny.runtime.lowering.elementwise import affine, define
from skinny.runtime.lowering.views import reshaped
from skinny.runtime.step_info import StepInfo
from skinny.runtime.strided import Shape, Tensor
from skinny.runtime.tensor_plan import Facts, Lowering, TensorPlan, Value


def _floats(facts: Facts, node: Node) -> bool:
    return isinstance(node.inputs[0], str) and facts.spec(node.inputs[0]).is_float


def _joinable(
    plan: TensorPlan, x: Value, axes: tuple[int, ...], *, keep_order: bool = False
) -> tuple[Value, Shape]:
    """The value, copied where its axes cannot be joined to [outer, axis, inner], and the strides of
    a tensor without gaps whose axes join with it."""
    others = [axis for axis in range(len(x.shape)) if axis not in axes]
    strides = strided.like(x.shape, x.tensor, plan.lanes)
    dense = Tensor(0, 0, x.shape, strides)
    if strided.around([dense], axes, keep_order=keep_order) is None:
        strides = strided.ordered(x.shape, (*others, *axes))
        dense = dense._replace(strides=strides)
    if strided.around([x.tensor, dense], axes, keep_order=keep_order) is None:
        x = plan.copied(x, strides)
    return x, strides


def _same_shape(
    plan: TensorPlan, x: Value, axes: tuple[int, ...], name: str, *, keep_order: bool = False
) -> tuple[Value, Value]:
    """The input and a new value of its shape, both as [outer, axis, inner]."""
    x, strides = _joinable(plan, x, axes, keep_order=keep_order)
    y = plan.make(name, strides)
    both = strided.around([x.tensor, y.tensor], axes, keep_order=keep_order)
    if both is None:  # made inside another value, whose axes do not join
        y = plan.values[name] = plan.new(x.shape, strides)
        both = strided.around([x.tensor, y.tensor], axes, keep_order=keep_order)
    assert both is not None
    return x.viewed(both[0]), y.viewed(both[1])


def _softmax(plan: TensorPlan, node: Node) -> None:
    x = plan.value(node.inputs[0])
    source, target = _same_shape(plan, x, (axis_of(node["axis"], len(x.shape)),), node.output)
    plan.step(
        StepInfo(node.output, node.op, "softmax"),
        [source, target],
        lambda p: p.add_softmax(
            source=plan.at(source), target=plan.at(target), log=node.op == "log_softmax"
        ),
    )


def _norm(plan: TensorPlan, node: Node) -> None:
    """Layer and RMS norm, over the last axes."""
    x = plan.value(node.inputs[0])
    axes = tuple(range(len(x.shape) - node["axes"], len(x.shape)))
    source, target = _same_shape(plan, x, axes, node.output, keep_order=True)

    def stored(name: str) -> Array | None:
        tensor = node.attributes.get(name)
        return None if tensor is None else plan.weights.weights.dense(tensor).reshape(-1)

    plan.step(
        StepInfo(node.output, node.op, "norm"),
        [source, target],
        lambda p: p.add_norm(
            source=plan.at(source),
            target=plan.at(target),
            weight=stored("weight"),
            bias=stored("bias"),
            eps=float(node["eps"]),
            subtract_mean=node.op == "layer_norm",
        ),
    )


def _group_norm(plan: TensorPlan, node: Node) -> None:
    """A norm over the channels and positions of each group, then scale and shift per channel."""
    shape = plan.spec(node.output).shape
    count = shape[0] * node["groups"]
    x = reshaped(plan, plan.value(node.inputs[0]), (count, math.prod(shape) // count))
    x, strides = _joinable(plan, x, (1,))
    y = plan.new(x.shape, strides)
    both = strided.around([x.tensor, y.tensor], (1,))
    assert both is not None
    source, target = x.viewed(both[0]), y.viewed(both[1])
    plan.step(
        StepInfo(node.output, node.op, "norm"),
        [source, target],
        lambda p: p.add_norm(
            source=plan.at(source),
            target=plan.at(target),
            weight=None,
            bias=None,
            eps=float(node["eps"]),
            subtract_mean=True,
        ),
    )
    whole, sides = reshaped(plan, y, shape), (shape[1], *[1] * (len(shape) - 2))

    def vector(name: str) -> Value | None:
        tensor = node[name]
        if tensor is None:
            return None
        return plan.constant(tensor, sides, lambda: plan.weights.weights.dense(tensor))

    scale, shift = vector("weight"), vector("bias")
    define(plan, node.output, affine(whole, scale, shift, shape))


def _reduce(plan: TensorPlan, node: Node) -> None:
    x = plan.value(node.inputs[0])
    reduce(plan, x, axes_of(node["axes"], len(x.shape)), node.op, node.output)


def reduce(plan: TensorPlan, x: Value, axes: tuple[int, ...], kind: str, name: str) -> None:
    """Makes the value `name`, with or without the reduced axes."""
    x, strides = _joinable(plan, x, axes)
    kept = tuple(1 if axis in axes else side for axis, side in enumerate(x.shape))
    order = strided.order_of(Tensor(0, 0, x.shape, strides))
    result = Tensor(0, 0, kept, strided.ordered(kept, order))
    shaped = strided.reshape(result, plan.spec(name).shape)
    assert shaped is not None
    y = plan.values[name] = plan.new(shaped.shape, shaped.strides)
    both = strided.around([x.tensor, strided.expand(result, x.shape)], axes)
    assert both is not None
    source, whole = both
    target = Tensor(0, 0, (whole.shape[0], whole.shape[2]), (whole.strides[0], whole.strides[2]))
    into, out = x.viewed(source), y.viewed(target)
    plan.step(
        StepInfo(name, kind, "reduce"),
        [into, out],
        lambda p: p.add_reduce(kind=ReduceKind[kind], source=plan.at(into), target=plan.at(out)),
    )


SOFTMAX = Lowering(_floats, _softmax)
NORM = Lowering(_floats, _norm)
GROUP_NORM = Lowering(_floats, _group_norm)
REDUCE = Lowering(_floats, _reduce)
