"""A graph for given input shapes: segments on the native engine, references between them.

A segment is a sequence of nodes that the planner can take and that read a single value from
outside. Whatever has no native form is computed by its NumPy reference, between segments.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from skinny import native
from skinny.graph import Graph, GraphError, Node, Spec, Specialized, operation
from skinny.graph.format1 import Record, node_to_format1
from skinny.graph.graph import TensorSpec
from skinny.graph.specialize import attributes_of, evaluate
from skinny.graph.values import Array, spec_of
from skinny.runtime.images import Images, InputError
from skinny.runtime.memory import MemoryLimit, MemoryLimitError
from skinny.runtime.step_info import StepInfo

if TYPE_CHECKING:
    from skinny.runtime.plan import Plan

# A segment without any of these is not worth a copy into the engine.
_WORTH_IT = {"conv", "linear", "max_pool", "avg_pool", "adaptive_avg_pool", "lrn", "softmax"}

MakePlan = Callable[["Segment"], "Plan"]
Times = list[tuple[StepInfo, float]]  # of each segment or node, and its seconds


@dataclass
class Segment:
    """Planner nodes from one value to some: `shapes` are those of one sample."""

    entry: str
    shapes: dict[str, tuple[int, ...]]
    nodes: list[Record] = field(default_factory=list)
    members: list[Node] = field(default_factory=list)  # the graph's nodes these come from
    outputs: list[str] = field(default_factory=list)

    @property
    def graph(self) -> dict[str, Any]:
        shape = [None, *self.shapes[self.entry]]
        entry = {"name": self.entry, "shape": shape, "dtype": "float32"}
        return {"inputs": [entry], "nodes": self.nodes, "outputs": self.outputs}

    @property
    def key(self) -> tuple[Any, ...]:
        """Segments of the same key share a plan."""
        return (self.entry, tuple(self.outputs), tuple(sorted(self.shapes.items())))


def segments(special: Specialized, outputs: tuple[str, ...]) -> list[Segment | Node]:
    """The nodes of a specialized graph in order, those with a native form in segments."""
    made: list[Segment | Node] = []
    current: Segment | None = None
    for node in special.nodes:
        form = node_to_format1(node, special.specs)
        if any(value in special.constants for value in node.inputs):
            form = None
        inputs = {str(value) for value in node.inputs}
        if form is not None and (current is None or not inputs <= current.shapes.keys()):
            current = None
            if len(inputs) == 1:
                (entry,) = inputs
                current = Segment(entry, {entry: special.specs[entry].shape[1:]})
                made.append(current)
        if form is None or current is None:
            made.append(node)
            current = None
            continue
        current.nodes += form
        current.members.append(node)
        for record in form:
            current.shapes[record["output"]] = _sample_shape(record, node, special, current)
    return _with_outputs(made, outputs)


def _sample_shape(
    record: Record, node: Node, special: Specialized, segment: Segment
) -> tuple[int, ...]:
    if record["output"] == node.output:
        return special.specs[node.output].shape[1:]
    channels = segment.shapes[record["inputs"][0]][0]  # global pooling on the way to a mean
    return (channels, 1, 1)


def _with_outputs(made: list[Segment | Node], outputs: tuple[str, ...]) -> list[Segment | Node]:
    """Segments with the values that are read outside; light ones as their nodes."""
    wanted = set(outputs)
    final: list[Segment | Node] = []
    for item in reversed(made):
        if isinstance(item, Node):
            wanted.update(str(value) for value in item.inputs)
            final.append(item)
        elif any(record["op"] in _WORTH_IT for record in item.nodes):
            item.outputs = [n["output"] for n in item.nodes if n["output"] in wanted]
            wanted.add(item.entry)
            final.append(item)
        else:
            wanted.update(str(value) for node in item.members for value in node.inputs)
            final += reversed(item.members)
    return final[::-1]


class Mixed:
    """Runs a specialized graph."""

    def __init__(
        self,
        graph: Graph,
        special: Specialized,
        tensor: Callable[[str], Array],
        tensor_spec: TensorSpec,
        make_plan: MakePlan,
        limit: MemoryLimit,
        *,
        keep_plans: bool = True,
    ) -> None:
        """keep_plans: make every segment's plan now; otherwise when it runs, and drop it."""
        self._graph, self._special, self._tensor = graph, special, tensor
        self._make_plan, self._limit = make_plan, limit
        self.items: list[Segment | Node] = list(special.nodes)
        if native.extension() is not None:
            self.items = segments(special, graph.outputs)
        limit.check(self._peak(tensor_spec), "an input of this size", "give it smaller inputs")
        self._plans: dict[int, Plan] = {}
        if keep_plans:
            for at, item in enumerate(self.items):
                if isinstance(item, Segment):
                    self._plans[at] = make_plan(item)

    @property
    def interpreted(self) -> list[str]:
        """The operations that run by their references, each once."""
        return sorted({item.op for item in self.items if isinstance(item, Node)})

    def run(
        self, inputs: Mapping[str, Array], threads: int, times: Times | None = None
    ) -> tuple[Array, ...]:
        """The graph's outputs. Values are dropped after their last use."""
        values: dict[str, Array] = {**self._special.constants, **inputs}
        uses = Counter(name for item in self.items for name in _reads(item))
        uses.update(self._graph.outputs)
        for at, item in enumerate(self.items):
            start = time.perf_counter()
            if isinstance(item, Segment):
                self._run_segment(at, item, values, threads)
            else:
                self._run_node(item, values)
            if times is not None:
                times.append((_described(item), time.perf_counter() - start))
            for name in _reads(item):
                uses[name] -= 1
                if not uses[name]:
                    del values[name]
        return self._own(inputs, tuple(values[name] for name in self._graph.outputs))

    def _own(self, inputs: Mapping[str, Array], outputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """The outputs in memory of their own: the caller may change them."""
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

    def _run_segment(
        self, at: int, segment: Segment, values: dict[str, Array], threads: int
    ) -> None:
        plan = self._plans.get(at) or self._make_plan(segment)
        x = np.ascontiguousarray(values[segment.entry], np.float32)
        rows = plan.run(x, Images(segment.shapes[segment.entry], None), threads)
        begin = 0
        for name in segment.outputs:
            shape = segment.shapes[name]
            size = math.prod(shape)
            values[name] = np.ascontiguousarray(
                rows[:, begin : begin + size].reshape(len(x), *shape)
            )
            begin += size

    def _peak(self, tensor_spec: TensorSpec) -> int:
        """Bytes of the values that are alive at once, at most, with what references need beside."""
        specs = self._special.specs
        uses = Counter(name for item in self.items for name in _reads(item))
        uses.update(self._graph.outputs)
        alive = sum(_bytes(specs[v.name]) for v in self._graph.inputs)
        alive += sum(array.nbytes for array in self._special.constants.values())
        alive += _dense_bytes(self.items, tensor_spec)
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
        return [item.entry]
    return [value for value in item.inputs if isinstance(value, str)]


def _described(item: Segment | Node) -> StepInfo:
    if isinstance(item, Node):
        return StepInfo(item.outputs[0], item.op, "NumPy reference")
    weights = [n["weight"].removesuffix(".weight") for n in item.nodes if n.get("weight")]
    operations = " + ".join(dict.fromkeys(str(n["op"]) for n in item.nodes))
    return StepInfo(" + ".join(weights) or item.entry, operations, "native")
