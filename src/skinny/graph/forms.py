"""Import and export functions for operations whose foreign forms are simple.

`call` is a foreign operation: `call.value(which)` is an operand, `call.plain(which, default)` an
attribute; `which` is an argument's name for ATen; for ONNX, an input's index or an attribute's
name. `writer` collects ONNX nodes.
"""

from typing import Any, Protocol

from skinny.graph.builder import Builder
from skinny.graph.graph import Node, Operand
from skinny.graph.registry import Export, Import
from skinny.graph.values import Array, Spec, promoted


class Call(Protocol):
    """A foreign operation that is being imported."""

    @property
    def result_dtype(self) -> str:
        """The type of the (first) result."""
        ...

    @property
    def first(self) -> Operand:
        """The first argument."""
        ...

    def has(self, which: int | str) -> bool:
        """Is the argument given, and not None?"""
        ...

    def value(self, which: int | str) -> Operand:
        """A tensor or number as an operand; a stored tensor becomes a `constant` node."""
        ...

    def values(self, which: int | str) -> list[Operand]:
        """A list of tensors; for ONNX all inputs from an index on."""
        ...

    def is_stored(self, which: int | str) -> bool:
        """Is the argument a stored tensor, or computed from such alone?"""
        ...

    def stored(self, which: int | str) -> str | None:
        """The name of a stored tensor; None if the argument is not given. What is computed from
        stored tensors alone is stored; what depends on the input is an UnsupportedError."""
        ...

    def shape(self, which: int | str) -> tuple[int, ...]:
        """The static shape of a tensor; an UnsupportedError if a size is free."""
        ...

    def size(self, which: int | str) -> int | str:
        """A single integer: known, or the name of the value that holds it."""
        ...

    def stored_list(self, which: int | str) -> list[str]:
        """The names of a list of stored tensors."""
        ...

    def plain(self, which: int | str, default: Any = None) -> Any:
        """A number, text, truth or list of them; sizes that depend on the input's are the names
        of values. For an ONNX input, its value must be known."""
        ...


class OnnxCall(Call, Protocol):
    """What only a node of an ONNX graph has."""

    def array(self, which: int | str) -> Array:
        """The values of a stored tensor."""
        ...

    def store(self, array: Array) -> str:
        """Adds a tensor to those that will be stored, and returns its name."""
        ...


class Writer(Protocol):
    """An ONNX model that is being written."""

    def add(self, op_type: str, inputs: list[str], output: str | None = None, **given: Any) -> str:
        """Appends a node with one output and returns its name."""
        ...

    def add_many(
        self, op_type: str, inputs: list[str], outputs: list[str], **attributes: Any
    ) -> None: ...

    def operand(self, value: Operand, like: str | None = None) -> str:
        """The ONNX name of an operand; a literal becomes a constant of the type `like`."""
        ...

    def tensor(self, name: str) -> str:
        """The ONNX name of a stored tensor."""
        ...

    def constant(self, array: Array) -> str: ...

    def cast(self, name: str, dtype: str, output: str | None = None) -> str:
        """An ONNX value in another of our types."""
        ...

    def sizes(self, given: tuple[Any, ...], source: Operand) -> str:
        """A vector of sizes, some of them values; null is the size of that axis of `source`."""
        ...

    def axis(self, value: Operand, axis: int) -> str:
        """The size of an axis as an ONNX value, a vector of one element."""
        ...

    def values(self, name: str) -> Array:
        """The values of a stored tensor."""
        ...

    def spec(self, value: Operand) -> Spec: ...


def aten(op: str, *inputs: str, **attributes: str) -> Import:
    """Arguments by name: `inputs` are tensors, attributes are ours="theirs"."""

    def emit(g: Builder, call: Call) -> Any:
        given = {ours: call.plain(theirs) for ours, theirs in attributes.items()}
        return g.emit(op, *(call.value(name) for name in inputs or ("self",)), **given)

    return emit


def from_onnx(op: str, inputs: int = 1, **attributes: tuple[str, Any]) -> Import:
    """attributes: ours=("theirs", the default of ONNX)."""

    def emit(g: Builder, call: Call) -> Any:
        given = {name: call.plain(*theirs) for name, theirs in attributes.items()}
        return g.emit(op, *(call.value(i) for i in range(inputs)), **given)

    return emit


def to_onnx(op_type: str, *, dtype: str | None = None, **attributes: str) -> Export:
    """theirs="ours". The operands, which ONNX wants to be of one type, are cast to `dtype`, or to
    the one they are promoted to."""

    def write(writer: Writer, node: Node) -> None:
        common = dtype or promoted(*map(writer.spec, node.inputs))
        names = [writer.operand(value, common) for value in node.inputs]
        given = {theirs: _plain(node[ours]) for theirs, ours in attributes.items()}
        writer.add(op_type, names, node.output, **given)

    return write


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return list(value) if isinstance(value, tuple) else value
