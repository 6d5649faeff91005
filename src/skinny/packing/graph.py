"""The graph of a network: a list of operations, checked before anyone trusts it.

{"inputs": [{"name", "shape" (null is the batch), "dtype"}], "nodes": [...], "outputs": [names]}

Each node has "op", "inputs", "output" and the attributes of its operation, all of them, as
`OPERATIONS` lists them. Nodes are in order of execution, every value is assigned once. What an
operation means is docs/format.md's business; activation shapes are the runtime's.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from skinny.packing.errors import GraphError
from skinny.packing.header import is_number

LARGEST_SIDE = 1 << 16  # of an input
LARGEST_STEP = 1 << 12  # kernels, strides, paddings, dilations, pooled sizes
MOST_NODES = 1 << 16


class Tensor(NamedTuple):
    """An attribute that names a tensor of the file with `rank` dimensions."""

    rank: int
    optional: bool = False


Rule = Tensor | Callable[[Any], bool]


def _whole(low: int, high: int = LARGEST_STEP) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _pair(low: int) -> Callable[[Any], bool]:
    each = _whole(low)
    return lambda value: isinstance(value, list) and len(value) == 2 and all(map(each, value))


def _truth(value: Any) -> bool:
    return type(value) is bool


def _new_shape(value: Any) -> bool:
    """Sizes, one of which may be -1 (what is left) and the first null (the batch, kept)."""
    return (
        isinstance(value, list)
        and 1 <= len(value) <= 8
        and all(_whole(1, 1 << 24)(side) or side == -1 for side in value[1:])
        and (value[0] is None or value[0] == -1 or _whole(1)(value[0]))
        and value.count(-1) <= 1
        and not any(type(side) is bool for side in value)
    )


_axis = _whole(-8, 7)
_pool = {"kernel": _pair(1), "stride": _pair(1), "padding": _pair(0)}
OPERATIONS: dict[str, dict[str, Rule]] = {
    "conv": {
        "weight": Tensor(4),
        "bias": Tensor(1, optional=True),
        "stride": _pair(1),
        "padding": _pair(0),
        "dilation": _pair(1),
        "groups": _whole(1, 1 << 16),
    },
    "linear": {"weight": Tensor(2), "bias": Tensor(1, optional=True)},
    "batch_norm": {
        "weight": Tensor(1, optional=True),
        "bias": Tensor(1, optional=True),
        "mean": Tensor(1),
        "var": Tensor(1),
        "eps": lambda value: is_number(value) and value >= 0,
    },
    "relu": {},
    "relu6": {},
    "leaky_relu": {"slope": is_number},
    "elu": {"alpha": is_number},
    "sigmoid": {},
    "tanh": {},
    "silu": {},
    "gelu": {"approximate": lambda value: value in ("none", "tanh")},
    "hardswish": {},
    "hardsigmoid": {},
    "hardtanh": {"min": is_number, "max": is_number},
    "max_pool": {**_pool, "dilation": _pair(1), "ceil": _truth},
    "avg_pool": {
        **_pool,
        "ceil": _truth,
        "count_include_pad": _truth,
        "divisor": lambda value: value is None or _whole(1, 1 << 24)(value),
    },
    "adaptive_avg_pool": {"size": _pair(1)},
    "lrn": {"size": _whole(1), "alpha": is_number, "beta": is_number, "k": is_number},
    "flatten": {"start": _axis, "end": _axis},
    "reshape": {"shape": _new_shape},
    "add": {},
    "concat": {"axis": _axis},
    "softmax": {"axis": _axis},
    "log_softmax": {"axis": _axis},
}
_INPUTS = {"add": (2, 2), "concat": (1, 256)}  # least and most; one for every other operation

Shapes = Callable[[str], tuple[int, ...] | None]


def check(graph: object, shape_of: Shapes) -> dict[str, Any]:
    """The graph, if it is one; else a `GraphError` that names the first thing wrong.

    `shape_of` gives the shape of a tensor of the file, None if there is no such tensor.
    """
    if not isinstance(graph, dict) or set(graph) != {"inputs", "nodes", "outputs"}:
        raise GraphError("the graph does not have exactly the fields inputs, nodes and outputs")
    inputs, nodes, outputs = graph["inputs"], graph["nodes"], graph["outputs"]
    if not all(isinstance(part, list) for part in (inputs, nodes, outputs)):
        raise GraphError("the graph's inputs, nodes and outputs are not lists")
    if len(nodes) > MOST_NODES:
        raise GraphError(f"the graph has {len(nodes)} nodes, more than {MOST_NODES}")
    known: set[str] = set()
    for value in inputs:
        _assign(_check_input(value), known)
    for at, node in enumerate(nodes):
        _assign(_check_node(f"node {at}", node, known, shape_of), known)
    if not inputs or not outputs:
        raise GraphError("the graph has no inputs or no outputs")
    for name in outputs:
        if not isinstance(name, str) or name not in known:
            raise GraphError(f"the graph's output {name!r:.80} is computed by no node")
    return graph


def _assign(name: str, known: set[str]) -> None:
    if name in known:
        raise GraphError(f"the graph assigns {name!r:.80} twice")
    known.add(name)


def _check_input(value: object) -> str:
    if not isinstance(value, dict) or set(value) != {"name", "shape", "dtype"}:
        raise GraphError("an input of the graph does not have exactly name, shape and dtype")
    name, shape = value["name"], value["shape"]
    sides = (
        isinstance(shape, list)
        and 1 <= len(shape) <= 8
        and all(_whole(1, LARGEST_SIDE)(side) for side in shape[1:])
        and (shape[0] is None or _whole(1, LARGEST_SIDE)(shape[0]))
    )
    if not isinstance(name, str) or not sides or value["dtype"] != "float32":
        raise GraphError(
            f"the graph's input {name!r:.80} has the shape {shape!r:.80} and the type "
            f"{value['dtype']!r:.20}; it may have at most 8 sizes of 1 to {LARGEST_SIDE}, "
            "and the type float32"
        )
    return name


def _check_node(place: str, node: object, known: set[str], shape_of: Shapes) -> str:
    if not isinstance(node, dict) or not isinstance(node.get("op"), str):
        raise GraphError(f"{place} of the graph is not an operation")
    op, inputs, output = node["op"], node.get("inputs"), node.get("output")
    if op not in OPERATIONS:
        raise GraphError(f"{place} is the unknown operation {op!r:.80}")
    place = f"{place} ({op})"
    rules = OPERATIONS[op]
    if set(node) != {"op", "inputs", "output", *rules} or not isinstance(output, str):
        raise GraphError(f"{place} does not have exactly its attributes: {', '.join(rules)}")
    least, most = _INPUTS.get(op, (1, 1))
    if not isinstance(inputs, list) or not least <= len(inputs) <= most:
        raise GraphError(f"{place} has the wrong number of inputs")
    for name in inputs:
        if not isinstance(name, str) or name not in known:
            raise GraphError(f"{place} uses {name!r:.80}, which nothing before it computes")
    shapes: dict[str, tuple[int, ...]] = {}
    for attribute, rule in rules.items():
        value = node[attribute]
        if isinstance(rule, Tensor):
            if value is None and rule.optional:
                continue
            shape = shape_of(value) if isinstance(value, str) else None
            if shape is None or len(shape) != rule.rank:
                raise GraphError(
                    f"{place} wants a tensor of rank {rule.rank} as {attribute}, "
                    f"which {value!r:.80} is not"
                )
            shapes[attribute] = shape
        elif not rule(value):
            raise GraphError(f"{place} has an impossible {attribute}: {value!r:.80}")
    _check_channels(place, node, shapes)
    return output


def _check_channels(place: str, node: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> None:
    """The first dimensions of a node's tensors agree, and none is empty or absurd."""
    channels = {shape[0] for shape in shapes.values()}
    if len(channels) > 1:
        raise GraphError(f"{place} has tensors of different numbers of channels")
    if any(side == 0 for shape in shapes.values() for side in shape):
        raise GraphError(f"{place} has a tensor without elements")
    if node["op"] != "conv":
        return
    out, _, *kernel = shapes["weight"]
    if out % node["groups"]:
        raise GraphError(f"{place} cannot split {out} channels into {node['groups']} groups")
    if max(kernel) > LARGEST_STEP:
        raise GraphError(f"{place} has a kernel of {kernel}")
