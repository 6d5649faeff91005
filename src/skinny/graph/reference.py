"""A graph computed node by node with the NumPy references: short, slow, and the yardstick."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from skinny.graph.graph import Graph, TensorSpec
from skinny.graph.specialize import Specialized, Tensor, evaluate, specialize
from skinny.graph.values import Array


def run(
    graph: Graph, inputs: Mapping[str, Array], tensor_spec: TensorSpec, tensor: Tensor
) -> tuple[Array, ...]:
    """The outputs for inputs by name, in the types that the graph declares."""
    shapes = {name: array.shape for name, array in inputs.items()}
    return run_specialized(specialize(graph, shapes, tensor_spec, tensor), graph, inputs, tensor)


def run_specialized(
    special: Specialized, graph: Graph, inputs: Mapping[str, Array], tensor: Tensor
) -> tuple[Array, ...]:
    """The same for a graph that is specialized already. A value is dropped after its last use."""
    values: dict[str, Array] = {**special.constants, **inputs}
    uses = Counter(name for node in special.nodes for name in node.inputs if isinstance(name, str))
    uses.update(graph.outputs)
    for node in special.nodes:
        arguments: list[Any] = [
            values[name] if isinstance(name, str) else name for name in node.inputs
        ]
        made = evaluate(node, tensor, arguments, tuple(special.specs[o] for o in node.outputs))
        values.update(zip(node.outputs, made, strict=True))
        for name in node.inputs:
            if isinstance(name, str):
                uses[name] -= 1
                if not uses[name]:
                    del values[name]
    return tuple(values[name] for name in graph.outputs)
