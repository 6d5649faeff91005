"""Graphs in format 1 of the packed file, which is also the form the native planner takes.

Format 1 has one input of floats, images mostly, whose axis 0 is the batch: axis 0 of every value
is, and no node may mix samples. It has fewer operations than a graph; some others are rewritten.
"""

from collections.abc import Callable, Mapping
from typing import Any

from skinny.graph.graph import Graph, Node, TensorSpec
from skinny.graph.specialize import Tensor, specialize
from skinny.graph.values import Spec

Record = dict[str, Any]  # a node in format 1
Specs = Mapping[str, Spec]
Convert = Callable[[Node, Specs], list[Record] | None]


def to_format1(graph: Graph, tensor_spec: TensorSpec, tensor: Tensor) -> dict[str, Any] | None:
    """The whole graph in format 1; None if it cannot be expressed there."""
    if len(graph.inputs) != 1 or graph.returns is not None:
        return None
    (value,) = graph.inputs
    if value.dtype != "float32" or graph.free_sizes != ("batch",) or value.shape[0] != "batch":
        return None
    sides = [side for side in value.shape[1:] if isinstance(side, int)]
    made = []
    for batch in (2, 3):  # what depends on the batch in another way differs
        special = specialize(graph, {value.name: (batch, *sides)}, tensor_spec, tensor)
        records: list[Record] = []
        for node in special.nodes:
            form = _node_to_format1(node, special.specs)
            if form is None or any(name in special.constants for name in node.inputs):
                return None
            records += form
        if not set(graph.outputs) <= {value.name, *(record["output"] for record in records)}:
            return None
        made.append(records)
    if made[0] != made[1]:
        return None
    entry = {"name": value.name, "shape": [None, *sides], "dtype": "float32"}
    return {"inputs": [entry], "nodes": made[0], "outputs": list(graph.outputs)}


def _node_to_format1(node: Node, specs: Specs) -> list[Record] | None:
    """A node of a specialized graph in format 1; None if it cannot be expressed there."""
    if node.op not in _CONVERT or not _keeps_samples_apart(node, specs):
        return None
    return _CONVERT[node.op](node, specs)


def _keeps_samples_apart(node: Node, specs: Specs) -> bool:
    """Is axis 0 of every operand and result the batch? Conversions check what a node does to it."""
    values = [*node.inputs, *node.outputs]
    if not all(isinstance(value, str) for value in values) or len(node.outputs) != 1:
        return False
    found = [specs[str(value)] for value in values]
    batch = found[0].shape[:1]
    return all(
        spec.is_float and spec.ndim >= 1 and spec.size > 0 and spec.shape[:1] == batch
        for spec in found
    )


def _made(node: Node, op: str, **attributes: Any) -> Record:
    return {"op": op, "inputs": list(node.inputs), "output": node.output, **attributes}


def _same(node: Node, specs: Specs) -> list[Record]:
    return [_made(node, node.op)]


def _with(*fields: str) -> Convert:
    def convert(node: Node, specs: Specs) -> list[Record]:
        return [_made(node, node.op, **{field: _plain(node[field]) for field in fields})]

    return convert


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _images(*fields: str) -> Convert:
    """Of images with two spatial axes."""
    plain = _with(*fields)

    def convert(node: Node, specs: Specs) -> list[Record] | None:
        return plain(node, specs) if specs[str(node.inputs[0])].ndim == 4 else None

    return convert


def _linear(node: Node, specs: Specs) -> list[Record] | None:
    if node["transposed"] or specs[str(node.inputs[0])].ndim < 2:
        return None
    return [_made(node, "linear", weight=node["weight"], bias=node["bias"])]


def _clamp(node: Node, specs: Specs) -> list[Record] | None:
    if node["min"] is None or node["max"] is None:
        return None
    return [_made(node, "hardtanh", min=node["min"], max=node["max"])]


def _along_axis(node: Node, specs: Specs) -> list[Record] | None:
    rank = specs[node.output].ndim
    if node["axis"] % rank == 0:
        return None
    return [_made(node, node.op, axis=node["axis"])]


def _add(node: Node, specs: Specs) -> list[Record] | None:
    left, right = (specs[str(value)] for value in node.inputs)
    if left.ndim != right.ndim or not _broadcasts_simply(left.shape[1:], right.shape[1:]):
        return None
    return [_made(node, "add")]


def _broadcasts_simply(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    """In four axes or fewer, neighbours that are broadcast alike being one."""
    runs, before = 0, None
    for i, j in zip(left, right, strict=True):
        if i == j == 1:
            continue
        kind = (i == max(i, j), j == max(i, j))
        runs, before = runs + (kind != before), kind
    return runs <= 4


def _reshape(node: Node, specs: Specs) -> list[Record] | None:
    shape = specs[node.output].shape
    if specs[str(node.inputs[0])].ndim < 2 or len(shape) < 2:
        return None
    if len(shape) == 2:
        return [_made(node, "flatten", start=1, end=-1)]
    return [_made(node, "reshape", shape=[None, *shape[1:]])]


def _mean(node: Node, specs: Specs) -> list[Record] | None:
    """Over both spatial axes it is global average pooling."""
    rank = specs[str(node.inputs[0])].ndim
    axes = sorted(axis % rank for axis in node["axes"] or range(rank))
    if rank != 4 or axes != [2, 3] or f"{node.output} (pooled)" in specs:
        return None
    pooled = {**_made(node, "adaptive_avg_pool", size=[1, 1])}
    if node["keep"]:
        return [pooled]
    pooled["output"] = f"{node.output} (pooled)"
    flat = {"op": "flatten", "inputs": [pooled["output"]], "output": node.output}
    return [pooled, {**flat, "start": 1, "end": -1}]


_WINDOW = ("kernel", "stride", "padding")
_CONVERT: dict[str, Convert] = {
    "conv": _images("weight", "bias", "stride", "padding", "dilation", "groups"),
    "linear": _linear,
    "batch_norm": _with("weight", "bias", "mean", "var", "eps"),
    **dict.fromkeys(("relu", "relu6", "sigmoid", "tanh", "silu", "hardswish"), _same),
    "hardsigmoid": _same,
    "leaky_relu": _with("slope"),
    "elu": _with("alpha"),
    "gelu": _with("approximate"),
    "hardtanh": _with("min", "max"),
    "clamp": _clamp,
    "max_pool": _images(*_WINDOW, "dilation", "ceil"),
    "avg_pool": _images(*_WINDOW, "ceil", "count_include_pad", "divisor"),
    "adaptive_avg_pool": _images("size"),
    "mean": _mean,
    "lrn": _images("size", "alpha", "beta", "k"),
    "flatten": _reshape,
    "reshape": _reshape,
    "add": _add,
    "concat": _along_axis,
    "softmax": _along_axis,
    "log_softmax": _along_axis,
}
