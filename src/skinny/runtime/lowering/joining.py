"""Values written into another one: concatenation and padding; and reversed axes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny._native import TensorProgram
from skinny.graph import Node
from skinny.graph.values import axis_of
from skinny.runtime import strided
from skinny.runtime.lowering.images import takes_padding
from skinny.runtime.step_info import StepInfo
from skinny.runtime.tensor_plan import Facts, Lowering, TensorPlan, Value

Indices = NDArray[np.int32]


def _floats(facts: Facts, node: Node) -> bool:
    return all(isinstance(x, str) and facts.spec(x).is_float for x in node.inputs)


def _concat(plan: TensorPlan, node: Node) -> None:
    """Inputs that were not written where they belong are copied there."""
    values = [plan.value(name) for name in node.inputs]
    whole = plan.joined(node.output)
    if whole is None:
        largest = max(values, key=lambda value: value.tensor.size)
        shape = plan.spec(node.output).shape
        whole = plan.make(node.output, strided.like(shape, largest.tensor, plan.lanes))
    axis, start = axis_of(node["axis"], len(whole.shape)), 0
    for value in values:
        target = strided.take(whole.tensor, axis, start, value.shape[axis])
        start += value.shape[axis]
        if value.home is not whole.home or value.tensor != target:
            plan.copy(value, whole.viewed(target), node.output)
    plan.values[node.output] = whole


def _can_pad(facts: Facts, node: Node) -> bool:
    return _floats(facts, node)


def _pad(plan: TensorPlan, node: Node) -> None:
    """Filled, and the input copied into it; negative widths crop. Reflected or with its edge
    replicated, every entry along an axis is one of the input's."""
    if node["mode"] != "constant":
        mode: Any = {"replicate": "edge"}.get(node["mode"], node["mode"])
        widths = list(zip(node["before"], node["after"], strict=True))
        _reindex(plan, node, lambda axis, entries: np.pad(entries, widths[axis], mode))
        return
    if takes_padding(plan, node):
        plan.taken_pads[node.output] = node
        return
    x = plan.value(node.inputs[0])
    source = x.tensor
    for axis, (before, after) in enumerate(zip(node["before"], node["after"], strict=True)):
        start = max(0, -before)
        source = strided.take(source, axis, start, source.shape[axis] - start - max(0, -after))
    shape = plan.spec(node.output).shape
    y = plan.make(node.output, strided.like(shape, x.tensor, plan.lanes))
    target = y.tensor
    for axis, before in enumerate(node["before"]):
        target = strided.take(target, axis, max(0, before), source.shape[axis])
    if target.shape != y.shape:
        fill(plan, y, float(node["value"]), node.output)
    plan.copy(x.viewed(source), y.viewed(target), node.output)


def _flip(plan: TensorPlan, node: Node) -> None:
    axes = {axis_of(axis, len(plan.spec(node.output).shape)) for axis in node["axes"]}
    _reindex(plan, node, lambda axis, entries: entries[::-1] if axis in axes else entries)


def _reindex(plan: TensorPlan, node: Node, entries: Callable[[int, Indices], Indices]) -> None:
    """A step that takes, along each axis, the entries of the input that `entries` names."""
    x = plan.value(node.inputs[0])
    y = plan.make(node.output, strided.like(plan.spec(node.output).shape, x.tensor, plan.lanes))

    def add(p: TensorProgram) -> None:
        sides = enumerate(x.shape)
        index = [entries(axis, np.arange(side, dtype=np.int32)) for axis, side in sides]
        contiguous = [np.ascontiguousarray(own, np.int32) for own in index]
        p.add_reindex(source=plan.at(x), target=plan.at(y), index=contiguous)

    plan.step(StepInfo(node.output, node.op, "reindex"), [x, y], add)


def fill(plan: TensorPlan, value: Value, number: float, name: str) -> None:
    plan.step(
        StepInfo(name, "fill", "fill"),
        [value],
        lambda p: p.add_fill(target=plan.at(value), value=number),
    )


def _tile(plan: TensorPlan, node: Node) -> None:
    """A repeated axis becomes two, repeats and entries; the input is broadcast over the first."""
    x = plan.value(node.inputs[0])
    missing = len(node["repeats"]) - len(x.shape)
    narrow: list[int] = []
    wide: list[int] = []
    for repeats, side in zip(node["repeats"], (*[1] * missing, *x.shape), strict=True):
        narrow += [1, side] if repeats > 1 else [side]
        wide += [repeats, side] if repeats > 1 else [side]
    source = strided.reshape(x.tensor, narrow)
    y = plan.make(node.output)
    target = strided.reshape(y.tensor, wide)
    assert source is not None
    assert target is not None
    plan.copy(x.viewed(strided.expand(source, wide)), y.viewed(target), node.output)


def _can_tile(facts: Facts, node: Node) -> bool:
    repeated = sum(repeats > 1 for repeats in node["repeats"])
    return _floats(facts, node) and len(node["repeats"]) + repeated <= 8


CONCAT = Lowering(_floats, _concat)
PAD = Lowering(_can_pad, _pad)
FLIP = Lowering(_floats, _flip)
TILE = Lowering(_can_tile, _tile)
