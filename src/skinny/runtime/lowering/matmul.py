"""Products of values, and attention. Vectors run along a contiguous axis of the result."""

import math

import numpy as np

from skinny.graph import Node
from skinny.runtime import strided
from skinny.runtime.step_info import StepInfo
from skinny.runtime.strided import Shape, Tensor
from skinny.runtime.tensor_plan import Facts, Lowering, TensorPlan, Value


def _floats(facts: Facts, node: Node) -> bool:
    return all(facts.spec(x).is_float for x in node.inputs[:3])


def _expanded(value: Value, outer: Shape) -> Value:
    """The value with its leading axes broadcast."""
    return value.viewed(strided.expand(value.tensor, (*outer, *value.shape[-2:])))


def _transposed(value: Value) -> Value:
    """The transposed matrices."""
    last = len(value.shape) - 1
    return value.viewed(strided.permute(value.tensor, [*range(last - 1), last, last - 1]))


def _made(plan: TensorPlan, name: str, shape: Shape, *, transposed: bool) -> Value:
    """A new value as matrices of this shape; columns are contiguous, of transposed ones rows."""
    last = len(shape) - 1
    order = (*range(last - 1), last, last - 1) if transposed else range(last + 1)
    whole = Tensor(0, 0, shape, strided.ordered(shape, order, 1 if transposed else 0, plan.lanes))
    named = strided.reshape(whole, plan.spec(name).shape)
    assert named is not None  # a vector is a matrix of one row or column
    y = plan.values[name] = plan.new(named.shape, named.strides)
    return y.viewed(whole)


def _matrices(value: Value, *, column: bool) -> Value:
    """A vector as a matrix of one column or one row."""
    if len(value.shape) > 1:
        return value
    (side,) = value.shape
    tensor = strided.reshape(value.tensor, (side, 1) if column else (1, side))
    assert tensor is not None
    return value.viewed(tensor)


def _matmul(plan: TensorPlan, node: Node) -> None:
    a, b = (plan.value(x) for x in node.inputs)
    a, b = _matrices(a, column=False), _matrices(b, column=True)
    outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = _expanded(a, outer), _expanded(b, outer)
    # Where rows of `a` lie beside each other, as those of feature-major tokens do, the transposed
    # product is computed: its result lies like `a`.
    transposed = a.shape[-2] > 1 and a.tensor.strides[-2] == 1
    y = _made(plan, node.output, (*outer, a.shape[-2], b.shape[-1]), transposed=transposed)
    if transposed:
        a, b, y = _transposed(b), _transposed(a), _transposed(y)
    if b.shape[-1] > 1 and b.tensor.strides[-1] != 1:
        b = plan.copied(b, strided.row_major(b.shape))
    plan.step(
        StepInfo(node.output, "matmul", "dense", 2 * y.tensor.size * a.shape[-1]),
        [a, b, y],
        lambda p: p.add_matmul(a=plan.at(a), b=plan.at(b), target=plan.at(y)),
    )


def _attention(plan: TensorPlan, node: Node) -> None:
    """The queries lie beside each other in the result, [.., features][queries]."""
    q, k, v = (plan.value(x) for x in node.inputs[:3])
    outer = np.broadcast_shapes(*(x.shape[:-2] for x in (q, k, v)))
    q, k, v = (_expanded(x, outer) for x in (q, k, v))
    queries, size, keys = q.shape[-2], q.shape[-1], k.shape[-2]
    mask = None
    if len(node.inputs) > 3:
        mask = plan.value(node.inputs[3])
        mask = mask.viewed(strided.expand(mask.tensor, (*outer, queries, keys)))
    y = _made(plan, node.output, (*outer, queries, v.shape[-1]), transposed=True)
    scale = 1 / math.sqrt(size) if node["scale"] is None else float(node["scale"])
    work = 2 * math.prod(outer) * queries * keys * (size + v.shape[-1])
    plan.step(
        StepInfo(node.output, "attention", "dense", work),
        [q, k, v, mask, y],
        lambda p: p.add_attention(
            q=plan.at(q),
            k=plan.at(k),
            v=plan.at(v),
            mask=None if mask is None else plan.at(mask),
            mask_is_bool=mask is not None and not plan.spec(node.inputs[3]).is_float,
            causal=node["causal"],
            scale=scale,
            target=plan.at(y),
        ),
    )


MATMUL = Lowering(_floats, _matmul)
ATTENTION = Lowering(_floats, _attention)
