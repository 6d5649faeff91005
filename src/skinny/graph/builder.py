"""Building a graph node by node, for whoever imports one from elsewhere.

Import functions of the registry take (builder, call) and emit nodes; they return the operand, or
the tuple of operands, that the foreign operation's results have become. `call` gives the foreign
operation's arguments (forms.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skinny.graph.errors import GraphError
from skinny.graph.graph import Graph, Input, Node, Operand, TensorSpec, check, complete
from skinny.graph.specialize import Specializer, Tensor
from skinny.graph.values import Array, Shape, Spec, spec_of

MOST_STORED = 1 << 25  # elements of a weight that is computed from stored tensors on import


class UnsupportedError(Exception):
    """Raised by import functions: a use of an operation that a graph cannot express."""


def sample_sizes(typical: Mapping[str, int]) -> list[dict[str, int]]:
    """Three choices of all free sizes: the typical ones, and others that are different for every
    name, so that neither a size that follows from a free one is taken for static, nor one free size
    for another. Sizes that layers divide stay divisible."""
    primes = (3, 5, 7, 11, 13, 17, 19, 23)
    other = {n: s // 2 if s % 2 == 0 and s > 2 else 2 * s for n, s in typical.items()}
    third = {n: s * primes[at % len(primes)] for at, (n, s) in enumerate(typical.items())}
    return [dict(typical), other, third]


class Builder:
    """samples: choices of all free sizes. A size that is the same for all is static, and so is a
    constant; this tells import functions ranks, types and static sizes as they go."""

    def __init__(
        self,
        inputs: Sequence[Input],
        samples: Sequence[Mapping[str, int]],
        tensor_spec: TensorSpec,
        tensor: Tensor,
    ) -> None:
        self.inputs = tuple(inputs)
        self.nodes: list[Node] = []
        self.producers: dict[str, Node] = {}  # of each value that is not an input
        self._tensor_spec = tensor_spec
        self.samples = [
            Specializer(
                {
                    value.name: Spec(
                        value.dtype,
                        tuple(sizes[s] if isinstance(s, str) else s for s in value.shape),
                    )
                    for value in inputs
                },
                tensor_spec,
                tensor,
                most_folded=MOST_STORED,
                room=32 * MOST_STORED,
            )
            for sizes in samples
        ]
        self._names = {value.name for value in inputs}
        self._count = 0

    def emit(self, op: str, *inputs: Operand, outputs: int = 1, **attributes: Any) -> Any:
        """Appends a node; returns the name of its output, or a tuple of names for several."""
        names = tuple(self._fresh() for _ in range(outputs))
        frozen = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in attributes.items()
        }
        node = Node(op, inputs, names, complete(op, frozen, f"node {len(self.nodes)} ({op})"))
        for sample in tuple(self.samples):
            try:
                sample.add(node)
            except GraphError:
                # a choice of sizes that the network does not take tells nothing
                if sample is self.samples[0] or len(self.samples) <= 2:
                    raise
                self.samples.remove(sample)
        self.nodes.append(node)
        self.producers.update(dict.fromkeys(names, node))
        return names[0] if outputs == 1 else names

    def spec(self, value: Operand) -> Spec:
        """Type and shape of an operand, for the first sample."""
        return self.samples[0].specs[value] if isinstance(value, str) else spec_of(value)

    def rank(self, value: Operand) -> int:
        return self.spec(value).ndim

    def shape(self, value: Operand) -> tuple[int | None, ...]:
        """The static sizes of an operand; None where a size is free."""
        shapes: list[Shape] = [
            sample.specs[value].shape if isinstance(value, str) else () for sample in self.samples
        ]
        return tuple(
            sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True)
        )

    def known(self, value: Operand) -> Array | None:
        """The value of an operand that is constant whatever the free sizes are; else None."""
        if not isinstance(value, str):
            return np.asarray(value, spec_of(value).dtype)
        found = [sample.constants.get(value) for sample in self.samples]
        first = found[0]
        if first is None or any(
            other is None or not np.array_equal(first, other) for other in found[1:]
        ):
            return None
        return first

    def stored_as(self, value: Operand) -> str | None:
        """The name of the stored tensor that a value is; None if it is not one unchanged."""
        node = self.producers.get(value) if isinstance(value, str) else None
        return str(node["tensor"]) if node is not None and node.op == "constant" else None

    def size(self, value: Operand, axis: int) -> int | str:
        """The size of an axis: static, or the name of a value that holds it."""
        static = self.shape(value)[axis]
        return self.emit("size", value, axis=axis) if static is None else static

    def graph(self, outputs: Sequence[Operand], returns: Any = None) -> Graph:
        """What was built, without nodes that no output depends on."""
        wanted = set(outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if not wanted.isdisjoint(node.outputs):
                wanted.update(node.values)
                kept.append(node)
        names = tuple(name for name in outputs if isinstance(name, str))
        if len(names) != len(outputs):
            raise GraphError("an output of the network is a plain number")
        graph = Graph(self.inputs, tuple(reversed(kept)), names, returns)
        check(graph, self._tensor_spec)
        return graph

    def _fresh(self) -> str:
        while f"v{self._count}" in self._names:
            self._count += 1
        self._count += 1
        return f"v{self._count - 1}"
