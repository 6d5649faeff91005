"""The graph of a model: taken with torch.export, translated operation by operation."""

import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node

from skinny.errors import SkinnyError
from skinny.export.lrn import Lrn, match_lrn, name
from skinny.export.operations import TRANSLATE, UnsupportedError
from skinny.packing.graph import OPERATIONS


class UnsupportedOperationError(SkinnyError):
    """The model computes something that a packed graph cannot express."""


def take_graph(model: nn.Module, example: Tensor | Sequence[Tensor]) -> dict[str, Any]:
    """The model's graph in eval mode, its first dimension free.

    example: the input, or a tuple of inputs; only their shapes matter. The model is left as it was.
    Raises `UnsupportedOperationError` naming the operation and the module that uses it.
    """
    program = _export(model, _examples(model, example))
    signature = program.graph_signature
    tensors = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    stored = set(model.state_dict())
    return _Translation(program.graph, tensors, stored).graph(signature.user_inputs)


def _examples(model: nn.Module, example: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    inputs = (example,) if isinstance(example, Tensor) else tuple(example)
    for value in inputs:
        if not isinstance(value, Tensor) or value.dim() < 1 or not value.is_floating_point():
            raise SkinnyError(
                "the example must be a floating tensor with a batch dimension, or a tuple of such; "
                f"got {type(value).__name__}"
                + (f" of {value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else "")
            )
    weight = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(0))
    # torch.export takes a batch of one for a constant
    return tuple(
        torch.zeros(2, *value.shape[1:], device=weight.device, dtype=weight.dtype)
        for value in inputs
    )


def _export(model: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    training = {module: module.training for module in model.modules()}
    batch = torch.export.Dim("batch", min=1, max=1 << 16)
    try:
        model.eval()
        with warnings.catch_warnings():  # torch warns of its own internals
            warnings.simplefilter("ignore")
            program = torch.export.export(
                model, inputs, dynamic_shapes=tuple({0: batch} for _ in inputs)
            )
            return program.run_decompositions({})
    except SkinnyError:
        raise
    except Exception as problem:
        first = next((line for line in str(problem).splitlines() if line.strip()), "")
        raise UnsupportedOperationError(
            f"torch.export cannot take the graph of {type(model).__name__}: {first.strip()} "
            "(weights_only=True packs it without a graph)"
        ) from problem
    finally:
        for module, was in training.items():
            module.training = was


class _Translation:
    """Walks the exported operations in order; `values` says what each becomes in our graph."""

    def __init__(self, exported: Any, tensors: Mapping[str, str], stored: set[str]) -> None:
        self.exported = exported
        self.tensors = tensors  # placeholder -> name in the state_dict
        self.stored = stored
        self.values: dict[Node, str] = {}
        self.nodes: list[dict[str, Any]] = []
        self.lrns = self._find_lrns()
        self.absorbed = {inner for lrn in self.lrns.values() for inner in lrn.inner}

    def _find_lrns(self) -> dict[Node, Lrn]:
        found = {node: match_lrn(node) for node in self.exported.nodes if name(node) == "div"}
        return {node: lrn for node, lrn in found.items() if lrn is not None}

    def graph(self, user_inputs: Sequence[str]) -> dict[str, Any]:
        inputs = []
        outputs: list[str] = []
        for node in self.exported.nodes:
            if node.op == "placeholder" and node.name in user_inputs:
                self.values[node] = node.name
                shape = [None, *(int(side) for side in node.meta["val"].shape[1:])]
                inputs.append({"name": node.name, "shape": shape, "dtype": "float32"})
            elif node.op == "output":
                outputs = [self._value(value, node) for value in node.args[0]]
            elif node.op == "call_function" and node not in self.absorbed:
                self._translate(node)
        return {"inputs": inputs, "nodes": self._alive(outputs), "outputs": outputs}

    def _translate(self, node: Node) -> None:
        if node in self.lrns:
            lrn = self.lrns[node]
            self._emit(node, [lrn.attributes], [self._value(lrn.source, node)])
            return
        if not isinstance(node.meta.get("val"), Tensor | tuple | list):
            return  # arithmetic on sizes
        if node.target is operator.getitem and node.args[1] == 0:
            self.values[node] = self._value(node.args[0], node)
            return
        operation = name(node)
        if operation not in TRANSLATE:
            raise _unsupported(node)
        arguments = _arguments(node)
        try:
            made = TRANSLATE[operation]({**arguments, "result": node})
        except UnsupportedError as how:
            raise _unsupported(node, str(how)) from None
        self._emit(node, made, self._sources(operation, arguments, node))

    def _sources(self, operation: str, arguments: dict[str, Any], node: Node) -> list[str]:
        if operation == "cat":
            return [self._value(tensor, node) for tensor in arguments["tensors"]]
        first = arguments.get("self", arguments.get("input"))
        second = [arguments["other"]] if operation == "add" else []
        return [self._value(value, node) for value in (first, *second)]

    def _emit(self, node: Node, made: list[dict[str, Any]], sources: list[str]) -> None:
        value = sources[0]
        for step, attributes in enumerate(made):
            value = f"v{len(self.nodes)}"
            self.nodes.append(
                {
                    "op": attributes["op"],
                    "inputs": sources if step == 0 else [f"v{len(self.nodes) - 1}"],
                    "output": value,
                    **{
                        field: self._tensor(given, node) if isinstance(given, Node) else given
                        for field, given in attributes.items()
                        if field != "op"
                    },
                }
            )
        self.values[node] = value

    def _value(self, value: Any, user: Node) -> str:
        if value not in self.values:
            raise _unsupported(user, "of a stored tensor or a constant")
        return self.values[value]

    def _tensor(self, node: Node, user: Node) -> str:
        stored = self.tensors.get(node.name)
        if stored is None or stored not in self.stored:
            raise _unsupported(user, "with weights that are computed, not stored")
        return stored

    def _alive(self, outputs: list[str]) -> list[dict[str, Any]]:
        """The nodes that some output depends on, in order."""
        wanted = set(outputs)
        for node in reversed(self.nodes):
            if node["output"] in wanted:
                wanted.update(node["inputs"])
        return [node for node in self.nodes if node["output"] in wanted]


def _arguments(node: Node) -> dict[str, Any]:
    """A call's arguments by the names of the operation's schema, defaults filled in."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    bound = {argument.name: argument.default_value for argument in schema}
    bound.update(zip((argument.name for argument in schema), node.args, strict=False))
    bound.update(node.kwargs)
    return bound


def _unsupported(node: Node, how: str = "") -> UnsupportedOperationError:
    stack = [
        (path, kind)
        for path, kind in node.meta.get("nn_module_stack", {}).values()
        if not str(path).startswith("_empty")
    ]
    path, kind = stack[-1] if stack else ("", "")
    kind = (kind if isinstance(kind, str) else kind.__name__).split(".")[-1]
    place = f"module {path!r} ({kind})" if path else f"the forward of {kind or 'the model'}"
    operation = name(node) or str(node.target)
    return UnsupportedOperationError(
        f"a packed graph has no {operation}{f' {how}' if how else ''}, which {place} uses; "
        f"it has {', '.join(sorted(OPERATIONS))}. weights_only=True packs the model without a graph"
    )
