"""A graph with its tensors, on the way to a file."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from skinny.errors import SkinnyError
from skinny.graph import Graph, Spec, to_json
from skinny.graph.format1 import to_format1
from skinny.graph.registry import operation
from skinny.graph.specialize import specialize
from skinny.graph.values import Array
from skinny.packing.errors import GraphError
from skinny.packing.graph import check

T = TypeVar("T")
CONSTANT = "constant:"  # begins the names of tensors that the graph has and the state_dict has not


class Stored:
    """Tensors by name, as a graph asks for them."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def spec(self, name: str) -> Spec | None:
        array = self._arrays.get(name)
        return None if array is None else Spec(str(array.dtype), array.shape)

    def shape(self, name: str) -> tuple[int, ...] | None:
        array = self._arrays.get(name)
        return None if array is None else array.shape

    def array(self, name: str) -> Array:
        return self._arrays[name]


def graph_record(graph: Graph, tensors: Stored) -> tuple[dict[str, Any], int]:
    """The graph as a file stores it, and its format: 1 wherever that can express it."""
    simple = to_format1(graph, tensors.spec, tensors.array)
    if simple is not None:
        with contextlib.suppress(GraphError):  # format 1 has narrower limits of sizes
            return check(simple, tensors.shape), 1
    return to_json(graph), 2


class LabelsError(SkinnyError):
    """Not as many labels as classes that the network scores."""


def check_labels(labels: Sequence[str], graph: Graph, tensors: Stored) -> None:
    """Raises a `LabelsError` if the network scores another number of classes."""
    shapes = {
        value.name: tuple(2 if isinstance(side, str) else side for side in value.shape)
        for value in graph.inputs
    }
    try:
        specs = specialize(graph, shapes, tensors.spec, tensors.array).specs
    except SkinnyError:  # free sizes that cannot be two
        return
    output = specs[graph.outputs[0]]
    if len(graph.outputs) == 1 and output.ndim == 2 and output.shape[1] != len(labels):
        raise LabelsError(
            f"there are {len(labels)} labels, but the network scores {output.shape[1]} classes"
        )


def with_constants(graph: Graph, extra: Mapping[str, T]) -> tuple[Graph, dict[str, T]]:
    """Tensors that are not in the state_dict, renamed so that nobody takes them for its entries."""
    renamed = {name: f"{CONSTANT}{name}" for name in extra}
    nodes = []
    for node in graph.nodes:
        fields = {f: renamed[node[f]] for f in operation(node.op).stored if node[f] in renamed}
        nodes.append(replace(node, attributes={**node.attributes, **fields}) if fields else node)
    made = {renamed[name]: tensor for name, tensor in extra.items()}
    return replace(graph, nodes=tuple(nodes)), made
