"""A graph for given input shapes: native programs, and what runs by its NumPy reference between."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from skinny.graph import Graph, GraphError, Node, Spec, Specialized, operation
from skinny.graph.graph import TensorSpec
from skinny.graph.specialize import attributes_of, evaluate
from skinny.graph.values import Array, spec_of
from skinny.runtime.images import InputError
from skinny.runtime.memory import MemoryLimit, MemoryLimitError
from skinny.runtime.segments import Segment, is_view, segments
from skinny.runtime.step_info import StepInfo

if TYPE_CHECKING:  # both need the native extension
    from skinny.runtime.native_segment import NativeSegment
    from skinny.runtime.shared_weights import SharedWeights

Times = list[tuple[StepInfo, float]]  # of each native step and each reference, and its seconds


class Mixed:
    """Runs a specialized graph."""

    def __init__(
        self,
        graph: Graph,
        special: Specialized,
        tensor: Callable[[str], Array],
        tensor_spec: TensorSpec,
        weights: "SharedWeights | None",
        limit: MemoryLimit,
        *,
        low_memory: bool = False,
    ) -> None:
        """weights: None where there are no kernels. low_memory: weights are read when their layer
        runs, and dropped."""
        self._graph, self._special, self._tensor = graph, special, tensor
        self._limit, self._low_memory = limit, low_memory
        self.items: list[Segment | Node] = list(special.nodes)
        self._natives: dict[int, NativeSegment] = {}
        if weights is not None:
            self._find_segments(weights, tensor_spec)
        self._last_reads = _last_reads(self.items, graph.outputs)
        self._all_fresh = _all_fresh(self.items, graph.outputs)
        limit.check(self._peak(tensor_spec), "an input of this size", "give it smaller inputs")
        if not low_memory:
            for segment in self._natives.values():
                segment.prepare()

    def _find_segments(self, weights: "SharedWeights", tensor_spec: TensorSpec) -> None:
        from skinny.runtime.lowering import is_native
        from skinny.runtime.native_segment import NativeSegment
        from skinny.runtime.tensor_plan import Facts

        special = self._special
        facts = Facts(special.specs, special.constants, tensor_spec)
        self.items = segments(
            special,
            self._graph.outputs,
            lambda node: is_native(facts, node),
            lambda node: self._low_memory and node.op in ("conv", "linear"),
        )
        for at, item in enumerate(self.items):
            if isinstance(item, Segment):
                self._natives[at] = NativeSegment(
                    item, facts, weights, self._tensor, weights.threads
                )

    @property
    def interpreted(self) -> list[str]:
        """The operations on floats that run by their references, each once. Views cost nothing,
        and what is computed with integers and booleans alone is small."""
        specs = self._special.specs
        return sorted(
            {
                item.op
                for item in self.items
                if isinstance(item, Node)
                and not is_view(item)
                and any(specs[x].is_float for x in (*item.values, *item.outputs))
            }
        )

    def run(
        self, inputs: Mapping[str, Array], threads: int, times: Times | None = None
    ) -> tuple[Array, ...]:
        """The graph's outputs. Values are dropped after their last use."""
        values: dict[str, Array] = {**self._special.constants, **inputs}
        for at, item in enumerate(self.items):
            if isinstance(item, Segment):
                self._run_segment(self._natives[at], values, threads, times)
            else:
                start = time.perf_counter()
                self._run_node(item, values)
                if times is not None:
                    info = StepInfo(item.outputs[0], item.op, "NumPy reference")
                    times.append((info, time.perf_counter() - start))
            for name in self._last_reads[at]:
                del values[name]
        return self._own(inputs, [values[name] for name in self._graph.outputs])

    def _run_segment(
        self,
        segment: "NativeSegment",
        values: dict[str, Array],
        threads: int,
        times: Times | None,
    ) -> None:
        made, seconds = segment.run(values, threads, timed=times is not None)
        values.update(made)
        if times is not None:
            times += zip(segment.steps, seconds, strict=True)

    def _own(self, inputs: Mapping[str, Array], outputs: list[Array]) -> tuple[Array, ...]:
        """The outputs in memory of their own: the caller may change them."""
        if self._all_fresh:
            return tuple(outputs)
        others = [*inputs.values(), *self._special.constants.values()]
        made: list[Array] = []
        for array in outputs:
            shared = any(np.may_share_memory(array, other) for other in (*others, *made))
            made.append(array.copy() if shared else array)
        return tuple(made)

    def _run_node(self, node: Node, values: dict[str, Array]) -> None:
        arguments = [values[v] if isinstance(v, str) else v for v in node.inputs]
        specs = tuple(self._special.specs[name] for name in node.outputs)
        try:
            made = evaluate(node, self._tensor, arguments, specs)
        except GraphError as problem:
            raise InputError(f"{node.op} cannot take this input: {problem}") from None
        except MemoryError:
            raise MemoryLimitError(
                f"{node.op} needs more memory than there is; give the network smaller inputs"
            ) from None
        values.update(zip(node.outputs, made, strict=True))

    def _peak(self, tensor_spec: TensorSpec) -> int:
        """Bytes of the values that are alive at once, at most, with what references need beside."""
        specs = self._special.specs
        uses = Counter(name for item in self.items for name in _reads(item))
        uses.update(self._graph.outputs)
        alive = sum(_bytes(specs[v.name]) for v in self._graph.inputs)
        alive += sum(array.nbytes for array in self._special.constants.values())
        alive += _dense_bytes(self.items, tensor_spec)
        alive += self._native_bytes()
        peak = alive
        for item in self.items:
            fresh = sum(_bytes(specs[name]) for name in item.outputs)
            alive += fresh
            work = _workspace(item, specs, tensor_spec) if isinstance(item, Node) else 0
            peak = max(peak, alive + fresh + work)
            for name in _reads(item):
                uses[name] -= 1
                if not uses[name] and name in specs:
                    alive -= _bytes(specs[name])
        return peak

    def _native_bytes(self) -> int:
        """Of the native programs: arenas, constants and weights; one program's at a time where
        they are dropped after use."""
        sizes = [segment.estimate() for segment in self._natives.values()]
        return max(sizes, default=0) if self._low_memory else sum(sizes)


def _last_reads(items: list[Segment | Node], outputs: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The values that no later item reads, and the caller neither, after each item."""
    later = set(outputs)
    found: list[tuple[str, ...]] = []
    for item in reversed(items):
        last = {name for name in _reads(item) if name not in later}
        later |= last
        found.append(tuple(last))
    return found[::-1]


def _all_fresh(items: list[Segment | Node], outputs: tuple[str, ...]) -> bool:
    """Whether all outputs are different arrays that native programs have made."""
    made = {name for item in items if isinstance(item, Segment) for name in item.outputs}
    return len(set(outputs)) == len(outputs) and made.issuperset(outputs)


def _workspace(node: Node, specs: Mapping[str, Spec], tensor_spec: TensorSpec) -> int:
    """What a reference needs beside its inputs, results and stored tensors."""
    entry = operation(node.op)
    given = attributes_of(node, entry, tensor_spec)
    inputs = [specs[value] if isinstance(value, str) else spec_of(value) for value in node.inputs]
    return entry.workspace(given, *inputs)


def _dense_bytes(items: list[Segment | Node], tensor_spec: TensorSpec) -> int:
    """Of the stored tensors that references read, which are held dense; the largest twice, while it
    is decoded."""
    nodes = [item for item in items if isinstance(item, Node)]
    names = {node[field] for node in nodes for field in operation(node.op).stored if node[field]}
    sizes = [_bytes(spec) for name in names if (spec := tensor_spec(name)) is not None]
    return sum(sizes) + max(sizes, default=0)


def _bytes(spec: Spec) -> int:
    return int(spec.size * np.dtype(spec.dtype).itemsize)


def _reads(item: Segment | Node) -> list[str]:
    if isinstance(item, Segment):
        return list(item.inputs)
    return [value for value in item.inputs if isinstance(value, str)]
