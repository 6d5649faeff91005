"""A graph for given input shapes: native programs, and what runs by its NumPy reference between."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from skinny.graph import Graph, GraphError, Node, Spec, Specialized, operation
from skinny.graph.graph import TensorSpec
from skinny.graph.ops.int8 import INT8_OPS
from skinny.graph.specialize import attributes_of, evaluate
from skinny.graph.values import Array, spec_of
from skinny.runtime.images import InputError
from skinny.runtime.memory import Account, MemoryLimitError
from skinny.runtime.segments import Segment, is_view, segments
from skinny.runtime.step_info import StepInfo

if TYPE_CHECKING:  # both need the native extension
    from skinny.runtime.native_segment import NativeSegment
    from skinny.runtime.shared_weights import SharedWeights

_LAYERS = ("conv", "linear", *INT8_OPS)  # whose weights have kernel forms
_CODE_SHARE = 16  # of the memory that is left, for the code of a segment

# Of each native step and each reference: its seconds, and the bytes of its generated code.
Times = list[tuple[StepInfo, float, int]]


class Mixed:
    """Runs a specialized graph, after `prepare`."""

    def __init__(
        self,
        graph: Graph,
        special: Specialized,
        tensor: Callable[[str], Array],
        tensor_spec: TensorSpec,
        weights: "SharedWeights | None",
        threads: int,
        *,
        low_memory: bool = False,
    ) -> None:
        """weights: None where there are no kernels. low_memory: weights are read when their layer
        runs, and dropped."""
        self._graph, self._special, self._tensor = graph, special, tensor
        self._threads, self._low_memory = threads, low_memory
        self.prepared = False
        self.items: list[Segment | Node] = list(special.nodes)
        self._natives: dict[int, NativeSegment] = {}
        if weights is not None:
            self._find_segments(weights, tensor_spec)
        self._last_reads = _last_reads(self.items, graph.outputs)
        self._all_fresh = _all_fresh(self.items, graph.outputs)
        self._dense = _dense_bytes(self.items, tensor_spec)
        self.values = self._peak(tensor_spec)  # bytes that a call needs beside what `hold` counts

    def _find_segments(self, weights: "SharedWeights", tensor_spec: TensorSpec) -> None:
        from skinny.runtime.lowering import native_nodes
        from skinny.runtime.native_segment import NativeSegment
        from skinny.runtime.samples import divided
        from skinny.runtime.tensor_plan import Facts

        special = self._special
        facts = Facts(special.specs, special.constants, tensor_spec)
        natives = native_nodes(facts, special.nodes, self._graph.outputs)
        found = segments(
            special,
            self._graph.outputs,
            lambda node: node.outputs[0] in natives,
            lambda node: self._low_memory and node.op in (*_LAYERS, "conv_transpose"),
        )
        self.items = []
        for item in found:
            if isinstance(item, Node):
                self.items.append(item)
                continue
            for part, samples in divided(item, facts):
                if all(map(is_view, part.nodes)):
                    self.items += part.nodes
                    continue
                self._natives[len(self.items)] = NativeSegment(
                    part, facts, weights, self._tensor, weights.threads, samples
                )
                self.items.append(part)

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

    @property
    def layers(self) -> dict[str, int]:
        """About how many bytes the weights of each native layer take, by the name of its result."""
        if self._low_memory:
            return {}
        return {k: v for segment in self._natives.values() for k, v in segment.layers().items()}

    def hold(self, account: Account) -> None:
        """Adds what is held between calls: constants, dense tensors, programs and their weights."""
        account.add(id(self), sum(array.nbytes for array in self._special.constants.values()))
        if not self._low_memory:
            for name, size in self._dense.items():
                account.add(("dense", name), size)
            for segment in self._natives.values():
                segment.hold(account, self._threads)

    def prepare(self, account: Account) -> None:
        """Reads the weights, unless they are read at every run. account: what is taken already,
        `values` and what `hold` counts among it."""
        if not self._low_memory:
            for segment in self._natives.values():
                segment.prepare(max_code=account.left // _CODE_SHARE)
                segment.hold(account, self._threads)
        self.prepared = True

    def run(self, inputs: Mapping[str, Array], times: Times | None = None) -> tuple[Array, ...]:
        """The graph's outputs. Values are dropped after their last use."""
        values: dict[str, Array] = {**self._special.constants, **inputs}
        for at, item in enumerate(self.items):
            if isinstance(item, Segment):
                self._run_segment(self._natives[at], values, times)
            else:
                start = time.perf_counter()
                self._run_node(item, values)
                if times is not None:
                    info = StepInfo(item.outputs[0], item.op, "NumPy reference")
                    times.append((info, time.perf_counter() - start, 0))
            for name in self._last_reads[at]:
                del values[name]
        return self._own(inputs, [values[name] for name in self._graph.outputs])

    def _run_segment(
        self,
        segment: "NativeSegment",
        values: dict[str, Array],
        times: Times | None,
    ) -> None:
        made, seconds = segment.run(values, self._threads, timed=times is not None)
        values.update(made)
        if times is not None:
            code = segment.code or [0] * len(seconds)
            times += zip(segment.steps, seconds, code, strict=True)

    def _own(self, inputs: Mapping[str, Array], outputs: list[Array]) -> tuple[Array, ...]:
        """The outputs in memory of their own: the caller may change them."""
        if self._all_fresh:
            return tuple(outputs)
        made: list[Array] = []
        for array in outputs:
            shared = any(np.may_share_memory(array, other) for other in (*inputs.values(), *made))
            made.append(array.copy() if shared or not array.flags.writeable else array)
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
        """Bytes of the values that are alive at once, at most, with what the item that runs needs
        beside; and of making weights, which is before that."""
        specs = self._special.specs
        stay = {*self._special.constants, *(value.name for value in self._graph.inputs)}
        alive = sum(specs[value.name].bytes for value in self._graph.inputs)
        decoding = max(self._dense.values(), default=0)
        peak = max([segment.making() for segment in self._natives.values()], default=0)
        for at, item in enumerate(self.items):
            alive += sum(specs[name].bytes for name in item.outputs)
            if isinstance(item, Segment):  # inputs may be copied, to be in order or of another type
                work = sum(specs[name].bytes for name in item.inputs)
                work += self._natives[at].estimate() if self._low_memory else 0
            else:
                dense = sum(self._dense.get(name, 0) for name in item.tensors)
                work = 2 * dense if self._low_memory else decoding
                work += _workspace(item, specs, tensor_spec)
            peak = max(peak, alive + work)
            alive -= sum(specs[name].bytes for name in self._last_reads[at] if name not in stay)
        copies = sum(specs[name].bytes for name in self._graph.outputs)
        return max(peak, alive + copies)


def largest_result(special: Specialized) -> int:
    """Bytes that some node needs whoever computes it: its results and, where each output of an axis
    is planned for itself, about a hundred for each of these."""
    found = 0
    for node in special.nodes:
        results = [special.specs[name] for name in node.outputs]
        planned = node.op == "resize" or node.op.endswith("_pool")
        sides = max(results[0].shape[2:]) if planned else 0
        found = max(found, sum(spec.bytes for spec in results) + 100 * sides)
    return found


def _last_reads(items: list[Segment | Node], outputs: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The values that no later item reads, and the caller neither, after each item."""
    later = set(outputs)
    found: list[tuple[str, ...]] = []
    for item in reversed(items):
        last = {name for name in (*_reads(item), *item.outputs) if name not in later}
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
    return entry.workspace_bytes(given, inputs, [specs[name] for name in node.outputs])


def _dense_bytes(items: Collection[Segment | Node], tensor_spec: TensorSpec) -> dict[str, int]:
    """Of the stored tensors that are held dense: all but the weights of native layers."""
    names: set[str] = set()
    for item in items:
        nodes = item.nodes if isinstance(item, Segment) else (item,)
        for node in nodes:
            layer = isinstance(item, Segment) and node.op in _LAYERS
            names.update(() if layer else node.tensors)
    specs = {name: tensor_spec(name) for name in names}
    return {name: spec.bytes for name, spec in specs.items() if spec is not None}


def _reads(item: Segment | Node) -> list[str]:
    if isinstance(item, Segment):
        return list(item.inputs)
    return [value for value in item.inputs if isinstance(value, str)]
