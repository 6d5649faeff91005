"""The graph of a torch model: exported, then imported operation by operation."""

import contextlib
import functools
import io
import itertools
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from skinny.errors import SkinnyError
from skinny.export.aten import Call, name_of
from skinny.export.evaluation import evaluate
from skinny.export.examples import Examples
from skinny.export.lrn import match_lrn
from skinny.export.recurrent import WholeRecurrentLayers
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import GraphError, MisfitError
from skinny.graph.graph import Graph, Input
from skinny.graph.registry import imports
from skinny.graph.values import Array, Spec, own_dtype


class UnsupportedOperationError(SkinnyError):
    """The model has operations that a packed graph cannot express; the text names all of them."""


def take_graph(model: nn.Module, examples: Examples) -> tuple[Graph, dict[str, Tensor]]:
    """The model's graph in eval mode, and the tensors it uses that the state_dict does not have.

    The model is left as it was. Raises `UnsupportedOperationError` naming every operation that
    cannot be expressed and the modules that use it.
    """
    return import_program(export_program(model, examples), examples, set(model.state_dict()))


def export_program(model: nn.Module, examples: Examples) -> ExportedProgram:
    """The model as a program of operations that the registry imports, as far as there are any."""
    return _decomposed(_export(model, examples))


def import_program(
    program: ExportedProgram, examples: Examples, stored: set[str]
) -> tuple[Graph, dict[str, Tensor]]:
    """stored: the names of the tensors that will be stored anyway, those of the state_dict."""
    return _Import(program, examples, stored).run()


def _export(model: nn.Module, examples: Examples) -> ExportedProgram:
    training = {module: module.training for module in model.modules()}
    try:
        model.eval()
        # where gradients are off already, a forward that turns them off says nothing
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stderr(io.StringIO()),  # where torch prints what it got so far
            WholeRecurrentLayers(),
            torch.no_grad(),
        ):
            warnings.simplefilter("ignore")  # torch warns of its own internals
            return torch.export.export(
                model, examples.args, examples.kwargs, dynamic_shapes=examples.dynamic_shapes
            )
    except SkinnyError:
        raise
    except Exception as problem:
        raise UnsupportedOperationError(
            f"torch.export cannot take the graph of {type(model).__name__}: {_reason(problem)} "
            "(weights_only=True packs it without a graph)"
        ) from problem
    finally:
        for module, was in training.items():
            module.training = was


def _reason(problem: Exception) -> str:
    """What torch says, in the words of who wrote the model."""
    said = str(problem)
    if fixed := re.search(r"marked L(\S+)\.size\(\)\[(\d+)\] as dynamic but .* specialized", said):
        path, axis = re.findall(r"\w+", fixed[1]), fixed[2]  # ['ids'], or ['x'][0] of forward(*x)
        name = "_".join(path[-2:]) if path[-1].isdigit() else path[-1]
        return (
            f"the size x.shape[{axis}] of {name!r} must stay free, and the model makes a number "
            f"from it, as len(x) and int(x.shape[{axis}]) do (write x.shape[{axis}]), loops over "
            "it, or needs it to be that of another input (give both one name in dynamic)"
        )
    if "data-dependent" in said:
        return (
            "what it computes depends on the values of tensors, as in `if x.sum() > 0`, and a "
            "graph has no branches"
        )
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0] if lines else type(problem).__name__


def _decomposed(program: ExportedProgram) -> ExportedProgram:
    """The program in operations we have, as far as torch can decompose the others, and without
    operations in place. Most programs are that as they are, which saves tracing them again."""
    if all(_is_ours(node) for node in program.graph.nodes if node.op == "call_function"):
        return program
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            decomposed: ExportedProgram = program.run_decompositions(dict(_decompositions()))
            return decomposed
    except Exception as problem:
        raise UnsupportedOperationError(
            f"torch.export cannot decompose the operations of the model: {_reason(problem)} "
            "(weights_only=True packs it without a graph)"
        ) from problem


def _is_ours(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return node.target is operator.getitem or bool(name_of(node.target))
    name = name_of(node.target)
    if name == "batch_norm" and node.args[5]:  # with the statistics of the batch
        return False
    return not schema.is_mutable and name in _known()


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(imports("aten").keys() | _IDENTITY | _IGNORED)


@functools.cache
def _decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Torch's rules for the operations that we do not have, its own core ones first."""
    rules: dict[Any, Callable[..., Any]] = {
        **torch._decomp.decomposition_table,
        **torch.export.default_decompositions(),
    }
    return {op: rule for op, rule in rules.items() if name_of(op) not in _known()}


class _Import:
    """Walks the exported operations in order; `values` says what each becomes in our graph."""

    def __init__(self, program: ExportedProgram, examples: Examples, stored: set[str]) -> None:
        self.program, self.examples, self.stored = program, examples, stored
        self.values: dict[Node, Any] = {}
        self.tensors: dict[Node, str] = {}
        self.extra: dict[str, Tensor] = {}
        self.problems: dict[str, list[str]] = {}  # what is unsupported -> the modules that use it
        self.failed: set[Node] = set()
        self.evaluated: dict[Node, Any] = {}  # what torch computes from stored tensors
        self.computed: dict[str, str] = {}  # constant values -> the tensors stored for them
        self._find_tensors()
        self.g = Builder(self._inputs(), examples.samples, self._tensor_spec, self._tensor_values)

    def run(self) -> tuple[Graph, dict[str, Tensor]]:
        absorbed = self._absorb_lrns()
        for node in self.program.graph.nodes:
            if node.op == "call_function" and node not in absorbed:
                self._import(node)
        self._raise_problems()
        outputs = self._outputs()
        names = [name for name in outputs if name is not None]
        numbers = itertools.count()
        leaves = [None if name is None else next(numbers) for name in outputs]
        structure = self.program.call_spec.out_spec
        assert structure is not None
        returned = pytree.tree_unflatten(leaves, structure)
        graph = self.g.graph(names, _returns(returned))
        used = {tensor for node in graph.nodes for tensor in node.tensors}
        return graph, {name: tensor for name, tensor in self.extra.items() if name in used}

    # ---- what goes in and out

    def _inputs(self) -> list[Input]:
        made = []
        nodes = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        names = self.program.graph_signature.user_inputs
        for name, label in zip(names, self.examples.names, strict=True):
            node = nodes[str(name)]
            self.values[node] = label
            shape = self.examples.sizes(label)
            made.append(Input(label, own_dtype(node.meta["val"].dtype), shape))
        return made

    def _find_tensors(self) -> None:
        """Placeholders that are parameters, buffers or constants."""
        signature = self.program.graph_signature
        lifted: Mapping[str, str] = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        everything = {**self.program.state_dict, **self.program.constants}
        for node in self.program.graph.nodes:
            if node.op == "placeholder" and node.name in lifted:
                name = lifted[node.name]
                self.tensors[node] = name
                if name not in self.stored:
                    self.extra[name] = everything[name].detach()

    def _store(self, array: Array, value: str) -> str:
        """Weights of parametrised layers are stored as they are computed."""
        if value not in self.computed:
            self.computed[value] = self._new_tensor(torch.from_numpy(array.copy()))
        return self.computed[value]

    def _new_tensor(self, tensor: Tensor) -> str:
        name = next(
            name
            for number in itertools.count()
            if (name := f"computed.{number}") not in self.stored and name not in self.extra
        )
        self.extra[name] = tensor.detach().clone()
        return name

    def _tensor(self, name: str) -> Tensor | None:
        tensor = self.program.state_dict.get(name)
        if tensor is None:
            tensor = self.extra.get(name)
        return tensor if isinstance(tensor, Tensor) else None

    def _tensor_spec(self, name: str) -> Spec | None:
        tensor = self._tensor(name)
        return None if tensor is None else Spec(own_dtype(tensor.dtype), tuple(tensor.shape))

    def _tensor_values(self, name: str) -> Array:
        tensor = self._tensor(name)
        assert tensor is not None
        plain = tensor.detach().cpu()
        if plain.dtype == torch.bfloat16:
            plain = plain.float()
        return plain.numpy().astype(own_dtype(tensor.dtype))

    def _outputs(self) -> list[str | None]:
        """The values the model returns, None where it returns None."""
        (node,) = (node for node in self.program.graph.nodes if node.op == "output")
        made: list[str | None] = []
        kinds = [spec.kind for spec in self.program.graph_signature.output_specs]
        for value, kind in zip(node.args[0], kinds, strict=True):
            if kind is not OutputKind.USER_OUTPUT:  # a buffer or an input that forward changes
                continue
            if value is None:
                made.append(None)
            elif isinstance(value, Node) and value in self.tensors:
                made.append(str(self.g.emit("constant", tensor=self.tensors[value])))
            elif isinstance(value, Node) and isinstance(self.values.get(value), str):
                made.append(self.values[value])
            else:
                raise SkinnyError(
                    f"the model returns {value!r:.60}, which is not a tensor; return tensors only"
                )
        return made

    # ---- operations

    def _absorb_lrns(self) -> set[Node]:
        """Local response normalisation, which torch decomposes into ten operations."""
        found = {n: match_lrn(n) for n in self.program.graph.nodes if name_of(n.target) == "div"}
        self.lrns = {node: lrn for node, lrn in found.items() if lrn is not None}
        return {inner for lrn in self.lrns.values() for inner in lrn.inner}

    def _import(self, node: Node) -> None:
        if node.target is operator.getitem:
            self._result(node)
            return
        if node in self.lrns:
            lrn = self.lrns[node]
            self.values[node] = self.g.emit("lrn", self.values[lrn.source], **lrn.attributes)
            return
        name = name_of(node.target)
        if str(node.target) == "with_effects":  # an operation that may raise, in its order
            name = name_of(node.args[1])
        if name in _IGNORED:
            return
        call = Call(node, self.g, self.values, self.tensors, self._store)
        if name in _IDENTITY:
            self._take(node, lambda: call.first)
        elif name in imports("aten"):
            self._take(node, lambda: imports("aten")[name](self.g, call))
        elif not self._is_constant(node):
            self._problem(node, name or str(node.target))

    def _is_constant(self, node: Node) -> bool:
        """Whether torch can compute a node from stored tensors alone; then it is stored as well."""
        value = evaluate(node, self._stored_tensor, self.evaluated)
        if isinstance(value, Tensor):
            self.tensors[node] = self._new_tensor(value)
        return value is not None

    def _stored_tensor(self, node: Node) -> Tensor | None:
        return self._tensor(self.tensors[node]) if node in self.tensors else None

    def _result(self, node: Node) -> None:
        """One result of an operation that has several."""
        of, index = node.args
        assert isinstance(of, Node)
        source = self.values.get(of)
        if isinstance(source, tuple) and isinstance(index, int) and index < len(source):
            self.values[node] = source[index]
        elif source is None and self._is_constant(node):
            return
        elif source is not None and node.users:
            self._problem(node, f"result {index} of {name_of(of.target)}")
        else:
            self.failed.add(node)

    def _take(self, node: Node, emit: Callable[[], Any]) -> None:
        if any(source in self.failed for source in node.all_input_nodes):
            self.failed.add(node)  # a consequence of what has been noted already
            return
        try:
            self.values[node] = emit()
        except (UnsupportedError, MisfitError, GraphError) as how:
            self._problem(node, f"{name_of(node.target)} {how}")

    def _problem(self, node: Node, what: str) -> None:
        self.failed.add(node)
        places = self.problems.setdefault(what, [])
        if (place := _place(node)) not in places:
            places.append(place)

    def _raise_problems(self) -> None:
        if not self.problems:
            return
        lines = [
            f"{what} (used by {', '.join(places[:3])}{' and others' if len(places) > 3 else ''})"
            for what, places in self.problems.items()
        ]
        raise UnsupportedOperationError(
            f"a packed graph cannot express {'; '.join(lines)}. weights_only=True packs the model "
            "without a graph; skinny.check tells this before training"
        )


# Nothing in evaluation, or nothing to a tensor's values.
_IDENTITY = {
    *("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "clone"),
    *("contiguous", "detach", "detach_", "alias", "lift_fresh_copy", "prims::view_of"),
}
_IGNORED = {
    *("_assert_async", "_assert_scalar", "sym_constrain_range_for_size", "sym_constrain_range"),
    *("_assert_tensor_metadata", "_set_grad_enabled", "_linalg_check_errors"),
}


def _returns(structure: Any) -> Any:
    """The nesting as JSON; None where it is one value or a flat tuple, which needs no telling."""
    if isinstance(structure, int):
        return None
    if isinstance(structure, tuple) and all(isinstance(item, int) for item in structure):
        return None if len(structure) > 1 else list(structure)
    return _json(structure)


def _json(structure: Any) -> Any:
    if isinstance(structure, Mapping):
        return {str(key): _json(value) for key, value in structure.items()}
    if isinstance(structure, Sequence):
        return [_json(value) for value in structure]
    return structure


def _place(node: Node) -> str:
    stack = [
        (path, kind)
        for path, kind in node.meta.get("nn_module_stack", {}).values()
        if not str(path).startswith("_empty")
    ]
    path, kind = stack[-1] if stack else ("", "")
    kind = (kind if isinstance(kind, str) else kind.__name__).split(".")[-1]
    return f"module {path!r} ({kind})" if path else f"the forward of {kind or 'the model'}"
