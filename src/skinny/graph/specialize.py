"""A graph for given sizes: the type and shape of every value, and what is constant.

Sizes are ordinary values of a graph (`size` of an axis, and arithmetic on it). For given input
shapes they are numbers, and so is everything computed from stored tensors, literals and sizes
alone: such values are computed here, once, by the references. What is left has integer attributes
and known shapes only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from skinny.graph.errors import GraphError, MisfitError
from skinny.graph.graph import Graph, Node, Operand, TensorSpec
from skinny.graph.registry import Operation, operation
from skinny.graph.values import (
    MOST_AXES,
    MOST_ELEMENTS,
    Array,
    Shape,
    Spec,
    as_array,
    promoted,
    spec_of,
)

Tensor = Callable[[str], Array]  # a stored tensor's values
# Layers on constants are left to run: their references may need far more memory than their result.
_NOT_FOLDED = {"conv", "conv_transpose", "attention", "lstm", "gru"}
MOST_FOLDED = 1 << 20  # elements of a constant that is computed ahead, and of what it is made of
SMALL = 1 << 10  # elements of both together that are always computed ahead
ROOM = 1 << 25  # elements of both together, of all constants that are larger


@dataclass(frozen=True)
class Specialized:
    """nodes: those that outputs depend on and that are not constant, sizes filled in."""

    nodes: tuple[Node, ...]
    specs: Mapping[str, Spec]  # of every value
    constants: Mapping[str, Array]  # that nodes read or that are outputs


def specialize(
    graph: Graph,
    shapes: Mapping[str, Shape],
    tensor_spec: TensorSpec,
    tensor: Tensor,
    *,
    room: int = ROOM,
    on_constants: Callable[[int], None] = lambda size: None,
) -> Specialized:
    """shapes: of each input. Raises a `GraphError` naming the input or the node for shapes that do
    not fit. room: elements that constants and what they are made of may have in all, but for small
    ones. on_constants: is told the bytes of all constants before each is computed, and may
    raise."""
    bind(graph, shapes)
    work = Specializer(
        {value.name: Spec(value.dtype, shapes[value.name]) for value in graph.inputs},
        tensor_spec,
        tensor,
        room=room,
        on_constants=on_constants,
    )
    kept = [node for node in map(work.add, graph.nodes) if node is not None]
    nodes = _alive(kept, graph.outputs)
    read = {*graph.outputs, *(value for node in nodes for value in node.inputs)}
    constants = {name: array for name, array in work.constants.items() if name in read}
    return Specialized(nodes, work.specs, constants)


def bind(graph: Graph, shapes: Mapping[str, Shape]) -> dict[str, int]:
    """The free sizes for input shapes; a `GraphError` if these are not what the graph declares."""
    if unknown := sorted(shapes.keys() - {value.name for value in graph.inputs}):
        raise GraphError(f"the graph has no input {unknown[0]!r:.80}")
    sizes: dict[str, int] = {}
    for value in graph.inputs:
        if value.name not in shapes:
            raise GraphError(f"the input {value.name!r:.80} is not given")
        shape = shapes[value.name]
        wanted = [sizes.get(s, s) if isinstance(s, str) else s for s in value.shape]
        fits = len(shape) == len(wanted) and all(
            isinstance(want, str) or want == side for want, side in zip(wanted, shape, strict=True)
        )
        for name, side in zip(value.shape, shape, strict=False):
            if isinstance(name, str) and sizes.setdefault(name, side) != side:
                fits = False
        if not fits:
            raise GraphError(
                f"the input {value.name!r:.80} is of shape {list(shape)}; it must be {wanted}"
            )
    return sizes


class Specializer:
    """The same node by node, for whoever is still building a graph."""

    def __init__(
        self,
        specs: dict[str, Spec],
        tensor_spec: TensorSpec,
        tensor: Tensor,
        most_folded: int = MOST_FOLDED,
        room: int = ROOM,
        on_constants: Callable[[int], None] = lambda size: None,
    ) -> None:
        self.specs = specs
        self.constants: dict[str, Array] = {}
        self._tensor_spec, self._tensor = tensor_spec, tensor
        self._count = self._bytes = 0
        self._most, self._room, self._on_constants = most_folded, room, on_constants

    def add(self, node: Node) -> Node | None:
        """The node with integers for sizes; None if its results are constants."""
        entry = operation(node.op)
        place = f"node {self._count} ({node.op})"
        self._count += 1
        if node.op == "concat":
            node = _without_empty(node, self.specs)
        inputs = [_spec(value, self.specs) for value in node.inputs]
        try:
            node = _with_integers(node, entry, self.constants, inputs)
            given = attributes_of(node, entry, self._tensor_spec)
            outputs = _as_tuple(entry.infer(given, *inputs))
        except MisfitError as misfit:
            texts = " and ".join(f"{spec.dtype} {list(spec.shape)}" for spec in inputs)
            raise GraphError(f"{place} {misfit}; it is given {texts or 'nothing'}") from None
        _check_outputs(place, node, outputs)
        self.specs.update(zip(node.outputs, outputs, strict=True))
        stored = [getattr(given, name) for name in entry.stored]
        if not self._is_constant(node, entry, [*inputs, *filter(None, stored)], outputs):
            return node
        self._bytes += sum(spec.bytes for spec in outputs)
        self._on_constants(self._bytes)
        arguments = inputs if entry.of_shape else [_array(v, self.constants) for v in node.inputs]
        try:
            made = evaluate(node, self._tensor, arguments, outputs)
        except GraphError as problem:
            raise GraphError(f"{place}: {problem}") from None
        self.constants.update(zip(node.outputs, map(_read_only, made), strict=True))
        return None

    def _is_constant(
        self, node: Node, entry: Operation, sources: list[Spec], outputs: tuple[Spec, ...]
    ) -> bool:
        known = all(value in self.constants for value in node.inputs if isinstance(value, str))
        if not (known or entry.of_shape) or node.op in _NOT_FOLDED:
            return False
        sizes = [spec.size for spec in (outputs if entry.of_shape else (*outputs, *sources))]
        if max(sizes) > self._most:
            return False
        if sum(sizes) > SMALL:
            self._room -= sum(sizes)
        return sum(sizes) <= SMALL or self._room >= 0


def evaluate(
    node: Node, tensor: Tensor, arguments: list[Any], outputs: tuple[Spec, ...]
) -> tuple[Array, ...]:
    """A node by its reference, the results in their inferred types. arguments: arrays and literals;
    specs for an operation that is `of_shape`."""
    entry = operation(node.op)
    if not entry.of_shape:
        dtype = promoted(*map(spec_of, arguments)) if entry.promotes else None
        arguments = [as_array(value, dtype) for value in arguments]
    with np.errstate(all="ignore"):  # NaN and infinity are results, as in torch
        made = _as_tuple(entry.reference(attributes_of(node, entry, tensor), *arguments))
    results = tuple(
        alone(np.asarray(array, spec.dtype, order="C"))
        for array, spec in zip(made, outputs, strict=True)
    )
    assert [array.shape for array in results] == [spec.shape for spec in outputs], node
    return results


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def alone(array: Array) -> Array:
    """The array, copied if it is a view that would keep a larger one in memory."""
    larger = isinstance(array.base, np.ndarray) and array.base.nbytes > array.nbytes
    return array.copy() if larger else array


def attributes_of(node: Node, entry: Operation, stored: Callable[[str], Any]) -> SimpleNamespace:
    """A node's attributes, names of stored tensors replaced by what `stored` has for them."""
    made = dict(node.attributes)
    for name in entry.stored:
        if made[name] is not None:
            made[name] = stored(made[name])
    return SimpleNamespace(**made)


def _spec(value: Operand, specs: Mapping[str, Spec]) -> Spec:
    return specs[value] if isinstance(value, str) else spec_of(value)


def _array(value: Operand, constants: Mapping[str, Array]) -> Any:
    return constants[value] if isinstance(value, str) else value


def _without_empty(node: Node, specs: Mapping[str, Spec]) -> Node:
    """A concatenation without its inputs that have no elements, if others have some and are of the
    same type: models concatenate what is left of a split, which may be nothing."""
    filled = tuple(value for value in node.inputs if _spec(value, specs).size)
    alike = len({_spec(value, specs)[0] for value in node.inputs}) == 1
    axes = {_without(_spec(value, specs).shape, node["axis"]) for value in node.inputs}
    return replace(node, inputs=filled) if filled and alike and len(axes) == 1 else node


def _without(shape: Shape, axis: int) -> Shape:
    return tuple(side for at, side in enumerate(shape) if at not in (axis, axis + len(shape)))


def _with_integers(
    node: Node, entry: Operation, constants: Mapping[str, Array], inputs: list[Spec]
) -> Node:
    """The node with sizes that are values, or null, replaced by integers."""
    changed: dict[str, Any] = {}
    for name in entry.sizes:
        given = node[name]
        if isinstance(given, tuple):
            changed[name] = tuple(
                _integer(item, at, constants, inputs) for at, item in enumerate(given)
            )
        elif given is not None:
            changed[name] = _integer(given, 0, constants, inputs)
    return replace(node, attributes={**node.attributes, **changed}) if changed else node


def _integer(
    item: int | str | None, at: int, constants: Mapping[str, Array], inputs: list[Spec]
) -> int:
    if item is None:
        if not inputs or at >= inputs[0].ndim:
            raise MisfitError(f"keeps the size of axis {at}, which its input does not have")
        return inputs[0].shape[at]
    if isinstance(item, str):
        if item not in constants:
            raise MisfitError(f"has a size that depends on the input's values ({item!r:.80})")
        if constants[item].size != 1 or constants[item].dtype.kind not in "iu":
            raise MisfitError(f"takes {item!r:.80} for a size, which is not a single integer")
        return int(constants[item].reshape(()))
    return item


def _as_tuple(value: Any) -> tuple[Any, ...]:
    # a Spec is itself a tuple
    return value if isinstance(value, tuple) and not isinstance(value, Spec) else (value,)


def _check_outputs(place: str, node: Node, outputs: tuple[Spec, ...]) -> None:
    if len(outputs) != len(node.outputs):
        raise GraphError(f"{place} has {len(outputs)} results but names {len(node.outputs)}")
    for spec in outputs:
        if (
            spec.ndim > MOST_AXES
            or not 0 <= spec.size <= MOST_ELEMENTS
            or min(spec.shape, default=0) < 0
        ):
            raise GraphError(f"{place} has a result of impossible size: {list(spec.shape)}")


def _alive(nodes: list[Node], outputs: tuple[str, ...]) -> tuple[Node, ...]:
    """The nodes that some output depends on, in order."""
    wanted = set(outputs)
    kept = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outputs):
            wanted.update(value for value in node.inputs if isinstance(value, str))
            kept.append(node)
    return tuple(reversed(kept))
