"""A graph as an ONNX model, dense, the zeros in place. Needs the extra `onnx`, not torch."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError
from skinny.graph.builder import UnsupportedError
from skinny.graph.graph import Graph, Operand
from skinny.graph.registry import operation
from skinny.graph.specialize import Specializer
from skinny.graph.values import Array, Spec, as_array, spec_of

OPSET = 20  # the first with Gelu
# The numbers of ONNX's TensorProto.DataType.
ONNX_DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}


def onnx_module() -> Any:
    """The onnx package with the submodules used here."""
    try:
        for name in ("checker", "helper", "numpy_helper", "version_converter"):
            importlib.import_module(f"onnx.{name}")
        return importlib.import_module("onnx")
    except ModuleNotFoundError as problem:
        raise SkinnyError(
            f"ONNX files need the module {problem.name!r}: pip install 'skinny-nn[onnx]'"
        ) from None


class Writer:
    """Collects the nodes and initializers of one ONNX graph (`skinny.graph.forms.Writer`).

    sample: a choice of all free sizes, for ranks, types and static sizes.
    """

    def __init__(
        self,
        graph: Graph,
        sample: Mapping[str, int],
        tensor_spec: Callable[[str], Spec | None],
        tensor: Callable[[str], Array],
    ) -> None:
        self._onnx = onnx_module()
        self._graph, self._tensor = graph, tensor
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._count = 0
        self._taken = {v.name for v in graph.inputs} | {n for x in graph.nodes for n in x.outputs}
        self._special = Specializer(
            {
                value.name: Spec(
                    value.dtype, tuple(sample[s] if isinstance(s, str) else s for s in value.shape)
                )
                for value in graph.inputs
            },
            tensor_spec,
            tensor,
        )

    def model(self) -> Any:
        for node in self._graph.nodes:
            self._special.add(node)
            try:
                operation(node.op).to_onnx(self, node)
            except UnsupportedError as how:
                raise SkinnyError(f"cannot write {node.op} as ONNX: {how}") from None
        helper = self._onnx.helper
        inputs = [
            helper.make_tensor_value_info(v.name, ONNX_DTYPES[v.dtype], list(v.shape))
            for v in self._graph.inputs
        ]
        outputs = []
        for name in dict.fromkeys(self._graph.outputs):
            spec = self.spec(name)
            outputs.append(
                helper.make_tensor_value_info(name, ONNX_DTYPES[spec.dtype], [None] * spec.ndim)
            )
        made = helper.make_graph(
            self._nodes, "skinny", inputs, outputs, list(self._constants.values())
        )
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)

    def add(self, op_type: str, inputs: list[str], output: str | None = None, **given: Any) -> str:
        name = output or self._fresh()
        self.add_many(op_type, inputs, [name], **given)
        return name

    def add_many(self, op_type: str, inputs: list[str], outputs: list[str], **given: Any) -> None:
        self._nodes.append(self._onnx.helper.make_node(op_type, inputs, outputs, **given))

    def operand(self, value: Operand, like: str | None = None) -> str:
        if isinstance(value, str):
            actual = self.spec(value).dtype
            if like is not None and actual != like:
                return self.cast(value, like)
            return value
        return self.constant(as_array(value, like))

    def cast(self, name: str, dtype: str, output: str | None = None) -> str:
        return self.add("Cast", [name], output, to=ONNX_DTYPES[dtype])

    def tensor(self, name: str) -> str:
        label = f"tensor:{name}" if name in self._taken else name
        if label not in self._constants:
            array = np.asarray(self._tensor(name), order="C")
            self._constants[label] = self._onnx.numpy_helper.from_array(array, label)
        return label

    def values(self, name: str) -> Array:
        return self._tensor(name)

    def constant(self, array: NDArray[Any]) -> str:
        name = self._fresh()
        self._constants[name] = self._onnx.numpy_helper.from_array(np.asarray(array), name)
        return name

    def sizes(self, given: tuple[Any, ...], source: Operand) -> str:
        if all(isinstance(size, int) for size in given):
            return self.constant(np.array(given, np.int64).reshape(-1))
        parts = []
        for at, size in enumerate(given):
            if size is None:
                parts.append(self.axis(source, at))
            elif isinstance(size, str):
                flat = self.constant(np.array([1], np.int64))
                parts.append(self.add("Reshape", [self.operand(size, "int64"), flat]))
            else:
                parts.append(self.constant(np.array([size], np.int64)))
        return parts[0] if len(parts) == 1 else self.add("Concat", parts, axis=0)

    def axis(self, value: Operand, axis: int) -> str:
        at = axis % self.spec(value).ndim
        return self.add("Shape", [self.operand(value)], start=at, end=at + 1)

    def spec(self, value: Operand) -> Spec:
        return self._special.specs[value] if isinstance(value, str) else spec_of(value)

    def _fresh(self) -> str:
        while f"n{self._count}" in self._taken:
            self._count += 1
        self._count += 1
        return f"n{self._count - 1}"
