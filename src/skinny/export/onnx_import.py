"""An ONNX model as a graph and its tensors. Needs the extra `onnx`, not torch.

Operator sets 11 to 21. A file may be hostile: its size is limited, its external data must lie in
its own folder, and every node goes through the checks of the graph.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from skinny.errors import SkinnyError
from skinny.export.onnx_call import Call, as_own
from skinny.export.onnx_writer import ONNX_DTYPES, onnx_module
from skinny.graph.builder import Builder, UnsupportedError, sample_sizes
from skinny.graph.errors import GraphError, MisfitError
from skinny.graph.graph import Graph, Input, Operand
from skinny.graph.registry import imports
from skinny.graph.values import Array, Spec

OLDEST, NEWEST = 11, 21
_LARGEST = 1 << 31  # bytes of a file, and of its external data
_IDENTITY = {"Identity", "Dropout"}
# ONNX's numbers of types; what is not ours is computed in float32 or int64.
_DTYPES = {number: name for name, number in ONNX_DTYPES.items()} | {
    10: "float32",  # float16
    11: "float32",  # double
    16: "float32",  # bfloat16
    4: "int64",  # uint16
    5: "int64",  # int16
    12: "int64",  # uint32
    13: "int64",  # uint64
}


def read(
    path: str | os.PathLike[str],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    free: Mapping[str, Mapping[int, str]] | None = None,
) -> tuple[Graph, dict[str, Array]]:
    """The graph of an ONNX file and the tensors it uses.

    shapes: of inputs, typical ones; importing may need a typical size. free: {input: {axis: name}}
    of the sizes that stay free beside that of axis 0; others are then fixed to those in `shapes`.
    By default all sizes stay free that the file leaves free.
    """
    model, opset = _load(Path(path))
    try:
        return _Import(model, opset, Path(path).parent, shapes or {}, free).run()
    except (GraphError, MisfitError) as problem:
        raise SkinnyError(f"{path} is not a network that can be packed: {problem}") from None


def _load(path: Path) -> tuple[Any, int]:
    onnx = onnx_module()
    try:
        if path.stat().st_size > _LARGEST:
            raise SkinnyError(f"{path} is larger than the 2 GB that ONNX allows")
        model = onnx.load_model(path, load_external_data=False)
    except OSError as problem:
        raise SkinnyError(f"cannot read {path}: {problem.strerror}") from None
    except SkinnyError:
        raise
    except Exception as problem:  # protobuf raises classes of its own
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise SkinnyError(f"{path} is not an ONNX file: {first}") from None
    versions = {entry.domain: entry.version for entry in model.opset_import}
    opset = int(versions.get("", versions.get("ai.onnx", 0)))
    if not OLDEST <= opset <= NEWEST:
        raise SkinnyError(
            f"{path} uses operator set {opset}; {OLDEST} to {NEWEST} can be read "
            "(onnx.version_converter converts others)"
        )
    return model, opset


class _Tensors:
    """Initializers by name, read when they are first used."""

    def __init__(self, protos: Mapping[str, Any], folder: Path) -> None:
        self._protos, self._folder = dict(protos), folder
        self._read: dict[str, Array] = {}
        self.used: dict[str, Array] = {}
        self._added: dict[str, str] = {}

    def array(self, name: str) -> Array | None:
        if name not in self._read:
            if name not in self._protos:
                return None
            self._read[name] = _array(self._protos[name], self._folder)
        return self._read[name]

    def has(self, name: str) -> bool:
        return name in self._protos or name in self._read

    def include(self, protos: Iterable[Any]) -> None:
        self._protos.update((proto.name, proto) for proto in protos)

    def put(self, name: str, array: Array) -> None:
        self._read[name] = array

    def stored(self, name: str) -> str:
        array = self.array(name)
        assert array is not None
        self.used[name] = array
        return name

    def add(self, array: Array, value: str | None = None) -> str:
        """value: the name of what was computed, so that it is stored once."""
        if value is not None and value in self._added:
            return self._added[value]
        name = f"imported.{len(self.used)}"
        while name in self._protos or name in self._read:
            name += "'"
        self._read[name] = np.asarray(array, order="C")
        if value is not None:
            self._added[value] = name
        return self.stored(name)


def _array(proto: Any, folder: Path) -> Array:
    onnx = onnx_module()
    try:
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            return as_own(_external(proto, folder))
        return as_own(onnx.numpy_helper.to_array(proto))
    except (SkinnyError, MisfitError):
        raise
    except Exception as problem:
        raise SkinnyError(f"the tensor {proto.name!r:.80} is damaged: {problem}") from None


def _external(proto: Any, folder: Path) -> Array:
    """Data beside the model, which may name no file outside its folder."""
    onnx = onnx_module()
    fields = {entry.key: entry.value for entry in proto.external_data}
    home = folder.resolve()
    place = (home / fields.get("location", "")).resolve()
    if not place.is_relative_to(home) or not place.is_file():
        raise SkinnyError(
            f"the tensor {proto.name!r:.80} lies in {fields.get('location')!r:.80}, which is not a "
            "file in the model's folder"
        )
    dtype = onnx.helper.tensor_dtype_to_np_dtype(proto.data_type)
    size = int(np.prod(proto.dims, dtype=object)) * dtype.itemsize
    numbers = [fields.get("offset", "0"), fields.get("length", str(size))]
    if not all(text.isascii() and text.isdigit() and len(text) < 20 for text in numbers):
        raise SkinnyError(f"the tensor {proto.name!r:.80} has an impossible offset or length")
    offset, length = map(int, numbers)
    if not 0 <= length == size <= _LARGEST or not 0 <= offset <= place.stat().st_size - size:
        raise SkinnyError(f"the tensor {proto.name!r:.80} does not fit its external data")
    flat = np.fromfile(place, dtype, count=size // dtype.itemsize, offset=offset)
    return flat.reshape(tuple(proto.dims))


class _Import:
    def __init__(
        self,
        model: Any,
        opset: int,
        folder: Path,
        shapes: Mapping[str, tuple[int, ...]],
        free: Mapping[str, Mapping[int, str]] | None,
    ) -> None:
        self.onnx, self.graph, self.opset = onnx_module(), model.graph, opset
        self.tensors = _Tensors({proto.name: proto for proto in self.graph.initializer}, folder)
        given = {proto.name for proto in self.graph.initializer}
        declared = [value for value in self.graph.input if value.name not in given]
        inputs = [_input(value) for value in declared]
        if free is not None:
            inputs = [_fixed(value, shapes, free) for value in inputs]
        self.values: dict[str, Operand] = {value.name: value.name for value in inputs}
        self.problems: dict[str, list[str]] = {}
        self.failed: set[str] = set()
        self.g = Builder(inputs, _samples(inputs, shapes), self._spec, self._values_of)

    def run(self) -> tuple[Graph, dict[str, Array]]:
        for node in self.graph.node:
            self._import(node)
        if self.problems:
            listed = "; ".join(
                f"{what} (node {', '.join(places[:3])})" for what, places in self.problems.items()
            )
            raise SkinnyError(
                f"a packed graph cannot express {listed}. Export the model without them, or cut "
                "them off (onnx.utils.extract_model); docs/format.md lists what a graph has"
            )
        try:
            names = [self._value(output.name) for output in self.graph.output]
        except UnsupportedError as how:
            raise SkinnyError(f"the model has an output {how}") from None
        returns = {output.name: at for at, output in enumerate(self.graph.output)}
        graph = self.g.graph(names, None if len(names) == 1 else returns)
        used = {tensor for node in graph.nodes for tensor in node.tensors}
        return graph, {name: array for name, array in self.tensors.used.items() if name in used}

    def _spec(self, name: str) -> Spec | None:
        array = self.tensors.array(name)
        return None if array is None else Spec(str(array.dtype), array.shape)

    def _values_of(self, name: str) -> Array:
        array = self.tensors.array(name)
        assert array is not None
        return array

    def _import(self, node: Any) -> None:
        outputs = list(node.output)
        if self.failed.intersection(node.input):
            self.failed.update(outputs)  # a consequence of what has been noted already
            return
        try:
            if any(name in self.values or self.tensors.has(name) for name in outputs):
                raise UnsupportedError("that computes a value a second time")
            made = self._operation(node, outputs)
        except (UnsupportedError, GraphError, MisfitError) as how:
            self._problem(node, f"{node.op_type:.60} {how}".strip())
            return
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            self._problem(node, f"{node.op_type:.60} with arguments that make no sense")
            return
        if made is not None:
            results = made if isinstance(made, tuple) else (made,)
            self.values.update(zip(outputs, results, strict=False))

    def _problem(self, node: Any, what: str) -> None:
        name = node.name or next(iter(node.output), "")
        self.problems.setdefault(what, []).append(f"{name!r:.80}")
        self.failed.update(node.output)

    def _operation(self, node: Any, outputs: list[str]) -> Any:
        """What a node's outputs become; None for a constant, which is kept with the tensors."""
        attributes = {
            a.name: _plain(self.onnx.helper.get_attribute_value(a), self.onnx)
            for a in node.attribute
        }
        if node.domain not in ("", "ai.onnx"):
            raise UnsupportedError(f"of the domain {node.domain!r:.60}")
        if node.op_type == "Constant":
            self._constant(outputs[0], attributes)
            return None
        call = Call(list(node.input), outputs, {**attributes, "opset": self.opset}, self.g,
                    self.values, self.tensors, _DTYPES)  # fmt: skip
        if node.op_type == "If":
            return self._branch(call, attributes)
        if node.op_type in _IDENTITY:
            return call.value(0)
        if node.op_type not in imports("onnx"):
            raise UnsupportedError("")
        return imports("onnx")[node.op_type](self.g, call)

    def _branch(self, call: Call, attributes: Mapping[str, Any]) -> tuple[Operand, ...]:
        """`If` of a condition that is known: the nodes of that branch, in place."""
        if not call.is_stored(0):
            raise UnsupportedError("of a condition that depends on the input")
        holds = bool(call.array(0).all())
        branch = attributes["then_branch" if holds else "else_branch"]
        self.tensors.include(branch.initializer)
        for inner in branch.node:
            self._import(inner)
        return tuple(self._value(output.name) for output in branch.output)

    def _value(self, name: str) -> Operand:
        """What a value of the ONNX graph has become; a stored tensor becomes a node."""
        if name not in self.values and self.tensors.has(name) and name not in self.failed:
            return str(self.g.emit("constant", tensor=self.tensors.stored(name)))
        if name not in self.values:
            raise UnsupportedError(f"of {name!r:.60}, which nothing computes")
        return self.values[name]

    def _constant(self, name: str, attributes: Mapping[str, Any]) -> None:
        for field, kind in (
            ("value", None), ("value_float", np.float32), ("value_floats", np.float32),
            ("value_int", np.int64), ("value_ints", np.int64),
        ):  # fmt: skip
            if field in attributes:
                array = (
                    np.asarray(attributes[field])
                    if kind is None
                    else np.asarray(attributes[field], kind)
                )
                self.tensors.put(name, as_own(array))
                return
        raise UnsupportedError("that is no tensor of numbers")


def _plain(value: Any, onnx: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if hasattr(value, "__iter__") and not isinstance(value, str | np.ndarray):
        return [_plain(item, onnx) for item in value]
    return value


def _input(value: Any) -> Input:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or kind.elem_type not in _DTYPES:
        raise SkinnyError(f"the model's input {value.name!r:.80} is not a tensor of numbers")
    if not kind.HasField("shape"):
        raise SkinnyError(f"the model's input {value.name!r:.80} does not say how many axes it has")
    sides: list[int | str] = []
    for axis, side in enumerate(kind.shape.dim):
        if side.dim_value > 0:
            sides.append(int(side.dim_value))
        else:
            word = side.dim_param if side.dim_param.isidentifier() else f"{value.name}_{axis}"
            sides.append("batch" if axis == 0 and not side.dim_param else word)
    return Input(value.name, _DTYPES[kind.elem_type], tuple(sides))


def _fixed(
    value: Input, shapes: Mapping[str, tuple[int, ...]], free: Mapping[str, Mapping[int, str]]
) -> Input:
    """An input whose free sizes are those of `free` and of axis 0."""
    given, names = shapes.get(value.name), free.get(value.name, {})
    if given is None or len(given) != len(value.shape):
        raise SkinnyError(
            f"the example has no input {value.name!r:.80} of {len(value.shape)} axes, which the "
            "network takes"
        )
    sides = [
        names.get(axis, side if axis == 0 else given[axis]) if isinstance(side, str) else side
        for axis, side in enumerate(value.shape)
    ]
    return Input(value.name, value.dtype, tuple(sides))


def _samples(inputs: list[Input], shapes: Mapping[str, tuple[int, ...]]) -> list[dict[str, int]]:
    """Sizes to import with: those given, else 2 for a first axis and 64 for others."""
    typical: dict[str, int] = {}
    for value in inputs:
        given = shapes.get(value.name)
        if given is not None and len(given) != len(value.shape):
            raise SkinnyError(f"the input {value.name!r} has {len(value.shape)} axes, not {given}")
        for axis, side in enumerate(value.shape):
            if isinstance(side, str) and side not in typical:
                usual = 2 if axis == 0 else 64
                typical[side] = usual if given is None else given[axis]
    return sample_sizes(typical)
