"""One operation of an exported torch program, as the registry's import functions see it."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node

from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.graph import Operand
from skinny.graph.ops.constants import literal
from skinny.graph.values import Array, own_dtype

_RENAMED = {  # arguments that ATen names differently from one overload to the next
    "self": ("self", "input", "x"),
    "input": ("input", "self"),
}


class Call:
    """A call of an ATen operation. `which` is an argument's name in the operation's schema.

    values: what each node of the program has become: an operand, or a tuple of operands.
    tensors: node -> the name of the stored tensor it stands for.
    store: adds a tensor, computed as the value of the given name, to those that will be stored.
    """

    def __init__(
        self,
        node: Node,
        builder: Builder,
        values: Mapping[Node, Any],
        tensors: Mapping[Node, str],
        store: Callable[[Array, str], str],
    ) -> None:
        self.node, self._g, self._values, self._tensors = node, builder, values, tensors
        self._store = store
        self._arguments = _arguments(node)

    @property
    def result_dtype(self) -> str:
        result = self.node.meta["val"]
        return own_dtype((result[0] if isinstance(result, tuple | list) else result).dtype)

    @property
    def first(self) -> Operand:
        return self.value(next(iter(self._arguments)))

    def has(self, which: int | str) -> bool:
        return self._find(which) is not None

    def value(self, which: int | str) -> Operand:
        return self._operand(self._find(which))

    def values(self, which: int | str) -> list[Operand]:
        return [self._operand(item) for item in self._find(which) or ()]

    def is_stored(self, which: int | str) -> bool:
        given = self._find(which)
        return isinstance(given, Node) and (
            given in self._tensors or self._known(given) is not None
        )

    def stored(self, which: int | str) -> str | None:
        given = self._find(which)
        return None if given is None else self._stored(given, which)

    def stored_list(self, which: int | str) -> list[str]:
        return [self._stored(item, which) for item in self._find(which) or ()]

    def _stored(self, given: Any, which: int | str) -> str:
        if isinstance(given, Node) and given in self._tensors:
            return self._tensors[given]
        array = self._known(given)
        if array is not None and (name := self._g.stored_as(self._values[given])) is not None:
            return name
        if array is None:
            raise UnsupportedError(f"with a {which} that depends on the input")
        return self._store(array, self._values[given])

    def _known(self, given: Any) -> Array | None:
        """What is computed from stored tensors alone, as by a parametrisation."""
        value = self._values.get(given) if isinstance(given, Node) else None
        return self._g.known(value) if isinstance(value, str) else None

    def shape(self, which: int | str) -> tuple[int, ...]:
        given = self._find(which)
        shape = given.meta["val"].shape
        if not all(isinstance(side, int) for side in shape):
            raise UnsupportedError("with sizes that depend on the input's")
        return tuple(shape)

    def plain(self, which: int | str, default: Any = None) -> Any:
        given = self._find(which)
        return default if given is None else self._plain(given)

    def size(self, which: int | str) -> int | str:
        size: int | str = self._plain(self._find(which))
        return size

    def _find(self, which: int | str) -> Any:
        for name in _RENAMED.get(str(which), (str(which),)):
            if self._arguments.get(name) is not None:
                return self._arguments[name]
        return None

    def _operand(self, given: Any) -> Operand:
        if isinstance(given, Node):
            if given in self._tensors:
                return str(self._g.emit("constant", tensor=self._tensors[given]))
            if given not in self._values:
                raise UnsupportedError("of a value that is not a tensor")
            value: Operand = self._values[given]
            return value
        if isinstance(given, bool | int | float):
            return literal(self._g, given)
        raise UnsupportedError(f"of {type(given).__name__}")

    def _plain(self, given: Any) -> Any:
        if isinstance(given, Node):
            return self._operand(given)
        if isinstance(given, torch.dtype):
            return own_dtype(given)
        if isinstance(given, list | tuple):
            return [self._plain(item) for item in given]
        return given


def name_of(target: Any) -> str:
    """The name of an operation without its overload: "add" for aten.add.Tensor and for
    operator.add, which is arithmetic on sizes; with its library if that is neither ATen nor ours
    (skinny.export.recurrent)."""
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return str(schema.name).removeprefix("aten::").removeprefix("skinny::")
    return _PYTHON.get(getattr(target, "__name__", ""), "")


# Arithmetic on sizes.
_PYTHON = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "neg": "neg",
    "sym_max": "maximum",
    "sym_min": "minimum",
}


def _arguments(node: Node) -> dict[str, Any]:
    """A call's arguments by the names of the operation's schema, defaults filled in."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return dict(zip(("self", "other"), node.args, strict=False))
    bound = {argument.name: argument.default_value for argument in schema.arguments}
    bound.update(zip((argument.name for argument in schema.arguments), node.args, strict=False))
    bound.update(node.kwargs)
    return bound
