"""What a network computes: nodes in order of execution, checked before anyone trusts them.

    {"inputs": [{"name", "shape", "dtype"}], "nodes": [...], "outputs": [names]}

is the JSON form (docs/format.md). Every value is assigned once and used only afterwards. A name in
an input's shape is a size that is free, the same wherever the name comes again; null is "batch".
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skinny.graph.attributes import LARGEST_SIZE, REQUIRED, Stored, is_number
from skinny.graph.errors import GraphError
from skinny.graph.registry import Operation, operation
from skinny.graph.values import DTYPES, MOST_AXES, Spec

Operand = str | bool | int | float  # the name of a value, or a literal
Size = int | str
TensorSpec = Callable[[str], Spec | None]  # of a stored tensor; None if there is no such tensor

MOST_NODES = 1 << 16
MOST_OPERANDS = 1 << 10


@dataclass(frozen=True)
class Input:
    """A value given by the caller. Names in its shape are free sizes."""

    name: str
    dtype: str
    shape: tuple[Size, ...]


@dataclass(frozen=True)
class Node:
    """One operation. `node["stride"]` is an attribute."""

    op: str
    inputs: tuple[Operand, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, attribute: str) -> Any:
        return self.attributes[attribute]

    @property
    def output(self) -> str:
        (name,) = self.outputs
        return name

    @property
    def values(self) -> tuple[str, ...]:
        """The values this node reads: its inputs without literals, and sizes that are values."""
        named = [name for name in self.inputs if isinstance(name, str)]
        for attribute in operation(self.op).sizes:
            given = self.attributes[attribute]
            entries = given if isinstance(given, tuple) else (given,)
            named += [entry for entry in entries if isinstance(entry, str)]
        return tuple(named)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of the stored tensors this node uses."""
        given = (self.attributes[name] for name in operation(self.op).stored)
        return tuple(name for name in given if name is not None)


@dataclass(frozen=True)
class Graph:
    """returns: how the outputs were returned, null for one value or a tuple of all: a nesting of
    tables and lists whose leaves are indices into `outputs`."""

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    returns: Any = None

    @property
    def free_sizes(self) -> tuple[str, ...]:
        """The names of sizes that a caller chooses."""
        return tuple(
            dict.fromkeys(
                size for value in self.inputs for size in value.shape if isinstance(size, str)
            )
        )


def from_json(record: object, tensor: TensorSpec) -> Graph:
    """The graph, if it is one; else a `GraphError` that names the first thing wrong."""
    fields = {"inputs", "nodes", "outputs"}
    if not isinstance(record, dict) or not fields <= set(record) <= fields | {"returns"}:
        raise GraphError("the graph does not have exactly the fields inputs, nodes and outputs")
    inputs, nodes, outputs = (record[name] for name in ("inputs", "nodes", "outputs"))
    if not all(isinstance(items, list) for items in (inputs, nodes, outputs)):
        raise GraphError("the graph's inputs, nodes and outputs are not lists")
    graph = Graph(
        tuple(_input(value) for value in inputs),
        tuple(_node(at, value) for at, value in enumerate(nodes)),
        tuple(outputs),
        _returns(record.get("returns"), len(outputs)),
    )
    check(graph, tensor)
    return graph


def to_json(graph: Graph) -> dict[str, Any]:
    """The JSON form: attributes at their default are left out."""
    record: dict[str, Any] = {
        "inputs": [
            {"name": value.name, "shape": list(value.shape), "dtype": value.dtype}
            for value in graph.inputs
        ],
        "nodes": [
            {
                "op": node.op,
                "inputs": list(node.inputs),
                "output": node.outputs[0] if len(node.outputs) == 1 else list(node.outputs),
                **{
                    name: _listed(value)
                    for name, value in node.attributes.items()
                    if value != operation(node.op).attributes[name].default
                },
            }
            for node in graph.nodes
        ],
        "outputs": list(graph.outputs),
    }
    return record if graph.returns is None else {**record, "returns": graph.returns}


def check(graph: Graph, tensor: TensorSpec) -> None:
    """The structure: names, attributes, stored tensors. Shapes are `specialize`'s business."""
    if len(graph.nodes) > MOST_NODES:
        raise GraphError(f"the graph has {len(graph.nodes)} nodes, more than {MOST_NODES}")
    for what, count in (("inputs", len(graph.inputs)), ("outputs", len(graph.outputs))):
        if not 1 <= count <= MOST_OPERANDS:
            raise GraphError(f"the graph has {count} {what}; it may have 1 to {MOST_OPERANDS}")
    known: set[str] = set()
    for value in graph.inputs:
        _assign([value.name], known)
    for at, node in enumerate(graph.nodes):
        _check_node(f"node {at} ({node.op})", node, known, tensor)
        _assign(node.outputs, known)
    for name in graph.outputs:
        if not isinstance(name, str) or name not in known:
            raise GraphError(f"the graph's output {name!r:.80} is computed by no node")


def complete(op: str, attributes: Mapping[str, Any], place: str) -> dict[str, Any]:
    """All attributes of an operation, defaults filled in; a GraphError if one is not allowed."""
    rules = operation(op).attributes
    if unknown := sorted(attributes.keys() - rules.keys()):
        raise GraphError(f"{place} has the unknown attribute {unknown[0]!r:.80}")
    made = {name: attributes.get(name, rule.default) for name, rule in rules.items()}
    for name, rule in rules.items():
        if made[name] is REQUIRED:
            raise GraphError(f"{place} does not have its attribute {name!r}")
        if not rule.accepts(made[name]):
            raise GraphError(
                f"{place} has an impossible {name}: {made[name]!r:.80}; it must be {rule.says}"
            )
    return made


def _assign(names: Iterable[str], known: set[str]) -> None:
    for name in names:
        if name == "":
            raise GraphError("the graph has a value without a name")
        if name in known:
            raise GraphError(f"the graph assigns {name!r:.80} twice")
        known.add(name)


def _input(value: object) -> Input:
    if not isinstance(value, dict) or set(value) != {"name", "shape", "dtype"}:
        raise GraphError("an input of the graph does not have exactly name, shape and dtype")
    name, shape, dtype = value["name"], value["shape"], value["dtype"]
    sizes = isinstance(shape, list) and len(shape) <= MOST_AXES and all(map(_is_size, shape))
    if not isinstance(name, str) or not sizes or dtype not in DTYPES:
        raise GraphError(
            f"the graph's input {name!r:.80} has the shape {shape!r:.80} and the type "
            f"{value['dtype']!r:.20}; it may have at most {MOST_AXES} sizes of 1 to "
            f"{LARGEST_SIZE}, and the types {', '.join(DTYPES)}"
        )
    return Input(name, dtype, tuple("batch" if size is None else size for size in shape))


def _is_size(size: Any) -> bool:
    if size is None or isinstance(size, str):
        return size != ""
    return type(size) is int and 1 <= size <= LARGEST_SIZE


def _node(at: int, record: object) -> Node:
    if not isinstance(record, dict) or not isinstance(record.get("op"), str):
        raise GraphError(f"node {at} of the graph is not an operation")
    rest = {name: _frozen(value) for name, value in record.items()}
    op, inputs, output = rest.pop("op"), rest.pop("inputs", None), rest.pop("output", None)
    place = f"node {at} ({op:.80})"
    operation(op)
    outputs = output if isinstance(output, tuple) else (output,)
    if not all(isinstance(name, str) for name in outputs):
        raise GraphError(f"{place} has no name for an output")
    if not isinstance(inputs, tuple) or not all(_is_operand(value) for value in inputs):
        raise GraphError(f"{place} has inputs that are neither names nor numbers")
    return Node(op, inputs, outputs, complete(op, rest, place))


def _is_operand(value: Any) -> bool:
    return isinstance(value, str) or type(value) is bool or is_number(value)


def _check_node(place: str, node: Node, known: set[str], tensor: TensorSpec) -> None:
    entry = operation(node.op)
    for what, count, (fewest, most) in (
        ("inputs", len(node.inputs), entry.inputs),
        ("outputs", len(node.outputs), entry.outputs),
    ):
        if not fewest <= count <= most:
            raise GraphError(f"{place} has {count} {what}; it takes {fewest} to {most}")
    for name in node.values:
        if name not in known:
            raise GraphError(f"{place} uses {name!r:.80}, which nothing before it computes")
    for name in entry.stored:
        _check_stored(place, name, node, entry, tensor)


def _check_stored(place: str, name: str, node: Node, entry: Operation, tensor: TensorSpec) -> None:
    wanted, given = entry.attributes[name], node[name]
    assert isinstance(wanted, Stored)
    if given is None:
        return
    spec = tensor(given)
    if spec is None or (wanted.ranks and spec.ndim not in wanted.ranks):
        raise GraphError(f"{place} wants {wanted.says} as {name}, which {given!r:.80} is not")
    if spec.size == 0:
        raise GraphError(f"{place} has a tensor without elements as {name}")


def _returns(record: Any, outputs: int) -> Any:
    """Checks the nesting; it is as deep as JSON may be here, so recursion is bounded."""

    def visit(value: Any, depth: int) -> None:
        if depth > 16:
            raise GraphError("the graph's returns are nested too deeply")
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                visit(inner, depth + 1)
        elif value is not None and not (type(value) is int and 0 <= value < outputs):
            raise GraphError(f"the graph returns {value!r:.80}, which is no output's index")

    visit(record, 0)
    return record


def _frozen(value: Any) -> Any:
    """Lists as tuples, so that nodes cannot be changed; what is nested deeper is left alone."""
    return tuple(value) if isinstance(value, list) else value


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
