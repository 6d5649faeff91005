"""Every operation a graph may have, each described once.

An entry states all that is known of an operation: its attributes, its shape rule, its NumPy
reference, which ATen and ONNX operations it comes from, how it is written to ONNX, and which
native lowering the runtime has for it. The entries are in `skinny.graph.ops`, a file per family;
adding an operation without a kernel is adding an entry there.
"""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from skinny.graph.attributes import Attribute, Sizes, Stored
from skinny.graph.errors import GraphError
from skinny.graph.values import Array, Spec

Specs = Spec | tuple[Spec, ...]
Arrays = Array | tuple[Array, ...]
# A node's attributes by name. Stored tensors are given as their Spec to shape rules and as arrays
# to references; sizes are integers to both.
Attributes = SimpleNamespace
Import = Callable[..., Any]  # (builder, call) -> what was emitted; see forms.py
Export = Callable[..., None]  # (writer, node) -> None; see forms.py


@dataclass(frozen=True)
class Operation:
    """An entry of the registry.

    infer:     (attributes, *input specs) -> output spec or specs; raises MisfitError
    reference: (attributes, *input arrays) -> output array or arrays, in the inferred types
    inputs:    fewest and most inputs
    promotes:  the inputs reach the reference in the type they are promoted to
    of_shape:  the result depends on the input's shape alone: the reference is given specs
    aten:      ATen name (without overload) -> import function
    onnx:      ONNX operator type -> import function
    to_onnx:   writes a node as ONNX
    workspace: what the reference needs beside its inputs, results and stored tensors: bytes for
               each element of the largest of them, or (attributes, *input specs) -> bytes
    lowering:  the runtime's native lowering of this operation; "" runs the reference
    """

    name: str
    computes: str
    infer: Callable[..., Specs]
    reference: Callable[..., Arrays]
    to_onnx: Export
    inputs: tuple[int, int] = (1, 1)
    outputs: tuple[int, int] = (1, 1)
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    aten: Mapping[str, Import] = field(default_factory=dict)
    onnx: Mapping[str, Import] = field(default_factory=dict)
    promotes: bool = False
    of_shape: bool = False
    workspace: int | Callable[..., int] = 12
    lowering: str = ""

    @functools.cached_property
    def stored(self) -> tuple[str, ...]:
        """The attributes that name stored tensors."""
        return tuple(n for n, kind in self.attributes.items() if isinstance(kind, Stored))

    def workspace_bytes(
        self, attributes: Attributes, inputs: Sequence[Spec], outputs: Sequence[Spec]
    ) -> int:
        if callable(self.workspace):
            return self.workspace(attributes, *inputs)
        return self.workspace * max(spec.size for spec in (*inputs, *outputs))

    @functools.cached_property
    def sizes(self) -> tuple[str, ...]:
        """The attributes that may depend on sizes of the input."""
        return tuple(n for n, kind in self.attributes.items() if isinstance(kind, Sizes))


_OPERATIONS: dict[str, Operation] = {}


def register(name: str, **entry: Any) -> Operation:
    if name in _OPERATIONS:
        raise ValueError(f"the operation {name!r} is registered twice")
    _OPERATIONS[name] = Operation(name, **entry)
    return _OPERATIONS[name]


@functools.cache
def operations() -> Mapping[str, Operation]:
    """All entries by name."""
    package = importlib.import_module("skinny.graph.ops")
    for module in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"skinny.graph.ops.{module}")
    return _OPERATIONS


def operation(name: str) -> Operation:
    try:
        return operations()[name]
    except (KeyError, TypeError):
        raise GraphError(f"the operation {name!r:.80} is unknown") from None


@functools.cache
def imports(source: str) -> Mapping[str, Import]:
    """Import functions of all operations by foreign name. source: "aten" or "onnx"."""
    found: dict[str, Import] = {}
    for entry in operations().values():
        for name, function in getattr(entry, source).items():
            if name in found:
                raise ValueError(f"two operations import {source} {name!r}")
            found[name] = function
    return found
