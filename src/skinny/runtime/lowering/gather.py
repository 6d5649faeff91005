"""Stored tensors as values, and entries chosen by integers: embeddings, and indices known ahead."""

import math

import numpy as np
from numpy.typing import NDArray

from skinny._native import Int8Table, TensorProgram
from skinny.graph import Node
from skinny.graph.values import Array, axes_of
from skinny.runtime import strided
from skinny.runtime.lowering.linear import feature_major
from skinny.runtime.lowering.norms import reduce
from skinny.runtime.lowering.views import reshaped
from skinny.runtime.step_info import StepInfo
from skinny.runtime.tensor_plan import Facts, Lowering, TensorPlan, Value


def _accepts(facts: Facts, node: Node) -> bool:
    index = node.inputs[0]
    return isinstance(index, str) and index not in facts.constants


def _embedding(plan: TensorPlan, node: Node) -> None:
    y = plan.make(node.output, _row_strides(plan, node))
    _gather(plan, node, plan.value(node.inputs[0]), y)


def _row_strides(plan: TensorPlan, node: Node) -> strided.Shape:
    """Of the rows that an embedding writes: feature-major, as linear layers read them."""
    shape = plan.spec(node.output).shape
    many = len(shape) > 1 and shape[-2] >= plan.lanes
    return feature_major(shape, plan.lanes) if many else strided.row_major(shape)


def _embedding_int8(plan: TensorPlan, node: Node) -> None:
    index, y = plan.value(node.inputs[0]), plan.make(node.output, _row_strides(plan, node))

    def add(p: TensorProgram) -> None:
        held = plan.weights.int8_table(node.attributes)
        plan.held.append(held)
        assert isinstance(held.native, Int8Table)
        p.add_gather_int8(table=held.native, index=plan.at(index), target=plan.at(y))

    title = node["weight"].removesuffix(".weight")
    plan.step(StepInfo(title, node.op, "gather int8"), [index, y], add)


def _gather(plan: TensorPlan, node: Node, index: Value, y: Value) -> None:
    weight = node["weight"]
    table = plan.constant(weight, plan.weights.shape(weight), lambda: plan.tensor(weight))
    plan.step(
        StepInfo(weight.removesuffix(".weight"), node.op, "gather"),
        [index, table, y],
        lambda p: p.add_gather(table=plan.at(table), index=plan.at(index), target=plan.at(y)),
    )


def _bag_size(facts: Facts, node: Node) -> int | None:
    """How many indices each bag has, if that is known and the same for all."""
    index, offsets = node.inputs
    if not (isinstance(offsets, str) and offsets in facts.constants):
        return None
    edges, count = facts.constants[offsets], facts.spec(index).size
    if not node["include_last_offset"]:
        edges = np.append(edges, count)
    size = count // max(1, len(edges) - 1)
    whole = np.array_equal(edges, np.arange(len(edges)) * size)
    return size if whole and size > 0 and edges[-1] == count else None


def _bags(plan: TensorPlan, node: Node) -> None:
    """The rows of all bags, reduced bag by bag."""
    size = _bag_size(plan.facts, node)
    assert size is not None
    bags, features = plan.spec(node.output).shape
    index = reshaped(plan, plan.value(node.inputs[0]), (bags, size))
    rows = plan.new((bags, size, features))
    _gather(plan, node, index, rows)
    reduce(plan, rows, (1,), node["mode"], node.output)


def _indexed_axes(node: Node, rank: int) -> tuple[int, ...]:
    return axes_of((node["axis"],) if node.op == "gather_rows" else node["axes"], rank)


def _indexes_constantly(facts: Facts, node: Node) -> bool:
    """By indices known ahead, along neighbouring axes. References refuse what is out of range."""
    x, *index = node.inputs
    if not isinstance(x, str) or not facts.spec(x).is_float:
        return False
    axes = _indexed_axes(node, facts.spec(x).ndim)
    if axes != tuple(range(axes[0], axes[0] + len(axes))):
        return False
    for name, axis in zip(index, axes, strict=True):
        side = facts.spec(x).shape[axis]
        entries = facts.constants.get(name) if isinstance(name, str) else None
        if entries is None or entries.min() < -side or entries.max() >= side:
            return False
    return True


def _index(plan: TensorPlan, node: Node) -> None:
    """The axes joined to one, of which entries are taken."""
    x = plan.value(node.inputs[0])
    axes = _indexed_axes(node, len(x.shape))
    sides = x.shape[axes[0] : axes[-1] + 1]
    before, after = x.shape[: axes[0]], x.shape[axes[-1] + 1 :]
    joined = reshaped(plan, x, (*before, math.prod(sides), *after))
    entries = _flat_index([plan.facts.constants[str(i)] for i in node.inputs[1:]], sides)
    y = plan.new((*before, entries.size, *after))
    plan.values[node.output] = reshaped(plan, y, plan.spec(node.output).shape)

    def add(p: TensorProgram) -> None:
        index = [np.arange(side, dtype=np.int32) for side in joined.shape]
        index[axes[0]] = entries
        p.add_reindex(source=plan.at(joined), target=plan.at(y), index=index)

    plan.step(StepInfo(node.output, node.op, "reindex"), [joined, y], add)


def _flat_index(index: list[Array], sides: tuple[int, ...]) -> NDArray[np.int32]:
    """Indices of several axes as those of the joined one; negative ones count from the end."""
    whole = np.broadcast_arrays(*(i % side for i, side in zip(index, sides, strict=True)))
    return np.ravel_multi_index([i.reshape(-1) for i in whole], sides).astype(np.int32)


def _constant(plan: TensorPlan, node: Node) -> None:
    name = node["tensor"]
    shape = plan.spec(node.output).shape
    plan.values[node.output] = plan.constant(name, shape, lambda: plan.tensor(name))


CONSTANT = Lowering(lambda facts, node: facts.spec(node.output).is_float, _constant)
EMBEDDING = Lowering(_accepts, _embedding)
EMBEDDING_INT8 = Lowering(_accepts, _embedding_int8)
EMBEDDING_BAG = Lowering(
    lambda facts, node: (
        _accepts(facts, node)
        and node["padding_index"] is None
        and _bag_size(facts, node) is not None
    ),
    _bags,
)
INDEX = Lowering(_indexes_constantly, _index)
