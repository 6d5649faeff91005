"""A graph whose layers compute in int8, and what that costs each of them.

A convolution or linear layer becomes `conv_int8` or `linear_int8`, with the batch norm after it; a
value that such a layer reads and a sum reads too is rounded to eight bits for both. An embedding
becomes `embedding_int8`, with a scale for each row of its table. A layer stays in float32 where
there is no int8 kernel, and where it loses too much: the signal-to-noise ratio of its output on the
first calibration batch, with its exact input rounded, is below LEAST_RATIO.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from skinny.errors import SkinnyError
from skinny.export.calibration import Range, batches_of, ranges, step, walk
from skinny.export.stored import CONSTANT
from skinny.graph import Graph, Node
from skinny.graph.graph import complete
from skinny.graph.ops.quantize import LARGEST, MOST_TERMS, SMALLEST
from skinny.graph.registry import operation
from skinny.graph.specialize import attributes_of, evaluate
from skinny.graph.values import Array, spec_of

LEAST_RATIO = 20.0  # decibels: a hundredth of the output's power
Calibration = Iterable[Any] | Mapping[str, Range]
_OPS = {"conv": "conv_int8", "linear": "linear_int8", "embedding": "embedding_int8"}
_Step = tuple[float, int]  # scale and zero point


class LayerReport(NamedTuple):
    """ratio: 10 log10(Σ y² / Σ (y - y_int8)²), None where it was not measured."""

    layer: str
    compute: str  # int8 or fp32
    ratio: float | None
    why: str


@dataclass(frozen=True)
class Report:
    """What each layer computes in; printed as a table."""

    layers: tuple[LayerReport, ...]

    def __str__(self) -> str:
        width = max([5, *(len(row.layer) for row in self.layers)])
        lines = [f"{'layer':{width}}  compute  signal to noise  why"]
        for row in self.layers:
            ratio = "-" if row.ratio is None else f"{row.ratio:.1f} dB"
            lines.append(f"{row.layer:{width}}  {row.compute:7}  {ratio:>15}  {row.why}".rstrip())
        return "\n".join(lines)


def to_int8(
    graph: Graph, tensors: Mapping[str, Array], calibration: Calibration
) -> tuple[Graph, dict[str, Array], Report]:
    """The graph in int8, the tensors it has in addition, and the report. calibration: batches, or
    the range of each layer's input by the name of its weight."""
    layers = [node for node in graph.nodes if node.op in _OPS]
    names = [str(node["weight"]) for node in layers]
    why = {node.output: _obstacle(node, tensors) for node in layers}
    ratios: dict[str, float] = {}
    if isinstance(calibration, Mapping):
        if unknown := sorted(set(calibration) - set(names)):
            raise SkinnyError(f"the calibration names {unknown[0]!r}, which is no layer's weight")
        given = {
            node.output: calibration[node["weight"]]
            for node in layers
            if node["weight"] in calibration and node.op != "embedding"
        }
        for node in layers:
            if node.output not in given:
                why[node.output] = why[node.output] or "no range was given"
        tables: set[str] = set()  # what embeddings lose is known from batches alone
    else:
        batches = batches_of(graph, calibration)
        tables = {n.output for n in layers if n.op == "embedding" and not why[n.output]}
        able = {node.output for node in layers if not why[node.output]} - tables
        found = ranges(graph, tensors, batches, lambda node: node.outputs[0] in able)
        given = {
            node.output: found[str(node.inputs[0])]
            for node in layers
            if node.output in able and node.inputs[0] in found
        }
        for node in layers:
            if node.output not in given and node.output not in tables:
                why[node.output] = why[node.output] or "its input is constant"
    steps: dict[str, _Step | None] = {
        name: step(*range_) for name, range_ in given.items() if not why[name]
    }
    rewrite = _Rewrite(graph, tensors, steps | dict.fromkeys(tables))
    if not isinstance(calibration, Mapping):
        ratios = _ratios(graph, tensors, rewrite, batches[0])
        for name in list(rewrite.steps):
            if name not in ratios:  # an embedding of constants
                why[name] = "its input is constant"
            elif ratios[name] < LEAST_RATIO:
                why[name] = f"below {LEAST_RATIO:.0f} dB"
            if why[name]:
                del rewrite.steps[name]
        for name in tables.intersection(rewrite.steps):
            if _read_elsewhere(graph, tensors, rewrite.steps, name):
                why[name] = "another layer reads its table in fp32"
                del rewrite.steps[name]
    rows = tuple(
        LayerReport(
            str(node["weight"]).removesuffix(".weight"),
            "int8" if node.output in rewrite.steps else "fp32",
            ratios.get(node.output),
            why[node.output],
        )
        for node in layers
    )
    made = rewrite.graph()
    return made, rewrite.tensors, Report(rows)


def _obstacle(node: Node, tensors: Mapping[str, Array]) -> str:
    """Why a layer has no int8 kernel, or nothing."""
    weight = tensors[node["weight"]]
    if not np.isfinite(weight).all():
        return "its weights are not finite"
    if weight.size // weight.shape[0] > MOST_TERMS:
        return f"it sums more than {MOST_TERMS} products"
    if node.op == "embedding":
        return ""
    if node.op == "linear":
        return "its weight is stored transposed" if node["transposed"] else ""
    if weight.ndim > 4:
        return "three spatial axes"
    if node["groups"] > 1 and weight.shape[1] < 4:
        return "groups of fewer than four channels"
    return ""


def _read_elsewhere(
    graph: Graph, tensors: Mapping[str, Array], steps: Mapping[str, Any], name: str
) -> bool:
    """Whether a node that stays fp32 reads the table of an embedding, maybe by another name."""
    (node,) = (node for node in graph.nodes if name in node.outputs)
    table = tensors[node["weight"]]
    others = {own for other in graph.nodes if other.outputs[0] not in steps
              for own in other.tensors}  # fmt: skip
    return any(np.may_share_memory(tensors[own], table) for own in others)


class _Rewrite:
    """steps: scale and zero point of the input of each layer that becomes int8, by its output; None
    of embeddings."""

    def __init__(
        self, graph: Graph, tensors: Mapping[str, Array], steps: dict[str, _Step | None]
    ) -> None:
        self._graph, self._stored, self.steps = graph, tensors, steps
        self.tensors: dict[str, Array] = {}
        self._users: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in node.values:
                self._users.setdefault(name, []).append(node)

    def layer(self, node: Node, norm: Node | None = None) -> Node:
        """A layer in int8, with the batch norm after it."""
        weight = self._stored[node["weight"]].astype(np.float32)
        largest = np.abs(weight.reshape(len(weight), -1)).max(axis=1)
        scales = np.where(largest == 0, 1, largest / np.float32(127)).astype(np.float32)
        scales = np.clip(scales, SMALLEST, LARGEST).astype(np.float32)
        given = {name: value for name, value in node.attributes.items() if name != "transposed"}
        given["weight_scale"] = self._keep(f"{node['weight']}:scale", scales)
        if (own := self.steps[node.output]) is not None:
            given |= {"input_scale": own[0], "input_zero": own[1]}
        if norm is not None:
            factor, shift = self._norm(norm, node["bias"])
            given["factor"] = self._keep(f"{norm.output}:factor", factor)
            given["bias"] = self._keep(f"{norm.output}:bias", shift)
        op = _OPS[node.op]
        output = node.outputs if norm is None else norm.outputs
        return Node(op, node.inputs, output, complete(op, given, op))

    def _keep(self, name: str, array: Array) -> str:
        self.tensors[CONSTANT + name] = array
        return CONSTANT + name

    def _norm(self, norm: Node, bias: str | None) -> tuple[Array, Array]:
        """y = factor x + shift, of x + bias."""
        read = {n: norm[n] and self._stored[norm[n]].astype(np.float64)
                for n in ("mean", "var", "weight", "bias")}  # fmt: skip
        factor = 1 / np.sqrt(read["var"] + norm["eps"])
        if read["weight"] is not None:
            factor = factor * read["weight"]
        moved = -read["mean"] if bias is None else self._stored[bias] - read["mean"]
        shift = moved * factor + (0 if read["bias"] is None else read["bias"])
        return factor.astype(np.float32), shift.astype(np.float32)

    def _norm_after(self, node: Node) -> Node | None:
        users = self._users.get(node.output, [])
        alone = len(users) == 1 and node.output not in self._graph.outputs
        return users[0] if alone and node.op == "conv" and users[0].op == "batch_norm" else None

    def graph(self) -> Graph:
        made: list[Node] = []
        folded: set[str] = set()
        for node in self._graph.nodes:
            if node.outputs[0] in folded:
                continue
            if node.outputs[0] in self.steps:
                norm = self._norm_after(node)
                folded.update(() if norm is None else norm.outputs)
                made.append(self.layer(node, norm))
            else:
                made.append(node)
        return replace(self._graph, nodes=tuple(_with_sums(made)))


def _with_sums(nodes: list[Node]) -> list[Node]:
    """Values that a layer in int8 reads and a sum adds to another's result are rounded for both."""
    layers = [node for node in nodes if node.op == "conv_int8"]
    read: dict[Any, set[tuple[float, int]]] = {}
    for node in layers:
        read.setdefault(node.inputs[0], set()).add((node["input_scale"], node["input_zero"]))
    results = {node.output for node in layers}
    sums = [n for n in nodes if n.op == "add" and results.intersection(map(str, n.inputs))]
    rounded = {name: f"{name}:int8" for node in sums for name in node.inputs
               if len(read.get(name, ())) == 1}  # fmt: skip
    made: list[Node] = []
    done: set[Any] = set()
    for node in nodes:
        for name in node.inputs:  # before the first that reads it, so that it is there for the sum
            if name in rounded and name not in done:
                done.add(name)
                ((scale, zero),) = read[name]
                given = complete("fake_quantize", {"scale": scale, "zero": zero}, "")
                made.append(Node("fake_quantize", (name,), (rounded[name],), given))
        if node in sums:
            node = replace(node, inputs=tuple(rounded.get(name, name) for name in node.inputs))
        made.append(node)
    return made


def _ratios(
    graph: Graph, tensors: Mapping[str, Array], rewrite: _Rewrite, batch: Mapping[str, Array]
) -> dict[str, float]:
    """Signal by noise of each layer's output, in decibels."""
    found = {}
    for node, arguments, (exact, *_) in walk(graph, tensors, batch):
        if node.outputs[0] not in rewrite.steps:
            continue
        layer = rewrite.layer(node)
        both = {**tensors, **rewrite.tensors}
        noise = np.square(_run(layer, both, arguments) - exact, dtype=np.float64).sum()
        signal = np.square(exact, dtype=np.float64).sum()
        found[node.output] = math.inf if noise == 0 else 10 * math.log10(max(signal / noise, 1e-30))
    return found


def _run(node: Node, tensors: Mapping[str, Array], arguments: list[Any]) -> Array:
    entry = operation(node.op)
    given = attributes_of(node, entry, lambda name: spec_of(tensors[name]))
    spec: Any = entry.infer(given, *map(spec_of, arguments))
    (made,) = evaluate(node, tensors.__getitem__, arguments, (spec,))
    return made
