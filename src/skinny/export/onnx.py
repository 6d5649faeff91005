"""A packed file as an ONNX model, dense, the zeros in place. Needs the extra `onnx`, not torch.

The model takes what the graph takes: images already scaled and normalised.
"""

import importlib
import json
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny import packing
from skinny.errors import SkinnyError
from skinny.files import atomic_write

OPSET = 20  # the first with Gelu
_LARGEST = 2**31 - 1  # protobuf's limit


def to_onnx(packed: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write a packed file's network as an ONNX model, its batch size free."""
    onnx = _onnx()
    with packing.open(packed) as file:
        if file.graph is None:
            raise SkinnyError(f"{packed} holds weights without a graph, which ONNX needs")
        model = _Model(onnx, file).build(file.graph)
        if file.labels is not None:
            model.metadata_props.add(key="labels", value=json.dumps(file.labels))
        if file.preprocessing is not None:
            model.metadata_props.add(key="preprocessing", value=json.dumps(file.preprocessing))
    if model.ByteSize() > _LARGEST:
        raise SkinnyError(f"{packed} is larger than the 2 GB an ONNX file can hold")
    onnx.checker.check_model(model)
    try:
        with atomic_write(path) as out:
            out.write(model.SerializeToString())
    except OSError as problem:
        raise SkinnyError(f"cannot write {path}: {problem.strerror or problem}") from problem


def _onnx() -> Any:
    try:
        importlib.import_module("onnx.checker")
        importlib.import_module("onnx.shape_inference")
        return importlib.import_module("onnx")
    except ModuleNotFoundError as problem:
        raise SkinnyError(
            f"exporting ONNX needs the module {problem.name!r}: pip install 'skinny-nn[onnx]'"
        ) from None


class _Model:
    """Collects the nodes and initializers of one ONNX graph."""

    def __init__(self, onnx: Any, file: packing.PackedFile) -> None:
        self.onnx = onnx
        self.file = file
        self.inputs: list[dict[str, Any]] = []
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def build(self, graph: dict[str, Any]) -> Any:
        self.inputs = graph["inputs"]
        for node in graph["nodes"]:
            _CONVERT[node["op"]](self, node)
        return self.model(graph["outputs"])

    def model(self, outputs: list[str]) -> Any:
        """What has been collected so far, as a model with these outputs."""
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        inputs = [
            helper.make_tensor_value_info(
                value["name"], kind, [side or "batch" for side in value["shape"]]
            )
            for value in self.inputs
        ]
        ranks = {name: len(self.shape(name)) for name in outputs}
        infos = [
            helper.make_tensor_value_info(name, kind, ["batch", *[None] * (rank - 1)])
            for name, rank in ranks.items()
        ]
        constants = list(self.constants.values())
        made = helper.make_graph(self.nodes, "skinny", inputs, infos, constants)
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)

    def shape(self, name: str) -> list[int]:
        """The shape of a value collected so far; 0 for the batch."""
        inferred = self.onnx.shape_inference.infer_shapes(self.model([])).graph
        for info in (*inferred.input, *inferred.value_info):
            if info.name == name:
                return [side.dim_value for side in info.type.tensor_type.shape.dim]
        raise SkinnyError(f"ONNX cannot tell the shape of {name!r}")

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, array: NDArray[Any]) -> str:
        if name not in self.constants:
            self.constants[name] = self.onnx.numpy_helper.from_array(array, name)
        return name

    def tensor(self, name: str) -> str:
        stored = self.file.tied.get(name, name)
        return (
            stored
            if stored in self.constants
            else self.constant(stored, np.ascontiguousarray(self.file.read_float32(stored)))
        )

    def tensors(self, *names: str | None) -> list[str]:
        return [self.tensor(name) for name in names if name is not None]


Convert = Callable[[_Model, dict[str, Any]], None]


def _simple(kind: str, **renamed: str) -> Convert:
    """An operation with the same attributes under ONNX's names: theirs=ours."""

    def convert(model: _Model, node: dict[str, Any]) -> None:
        attributes = {theirs: node[ours] for theirs, ours in renamed.items()}
        model.add(kind, node["inputs"], node["output"], **attributes)

    return convert


def _conv(model: _Model, node: dict[str, Any]) -> None:
    model.add(
        "Conv",
        node["inputs"] + model.tensors(node["weight"], node["bias"]),
        node["output"],
        strides=node["stride"],
        pads=node["padding"] * 2,
        dilations=node["dilation"],
        group=node["groups"],
    )


def _linear(model: _Model, node: dict[str, Any]) -> None:
    """MatMul with the transposed weight: Gemm would take matrices only."""
    out = node["output"]
    turned = model.add("Transpose", model.tensors(node["weight"]), f"{out}/weight", perm=[1, 0])
    product = out if node["bias"] is None else f"{out}/product"
    model.add("MatMul", [node["inputs"][0], turned], product)
    if node["bias"] is not None:
        model.add("Add", [product, model.tensor(node["bias"])], out)


def _batch_norm(model: _Model, node: dict[str, Any]) -> None:
    channels = model.file.entry(node["mean"]).shape[0]
    out = node["output"]
    scale = (
        model.constant(f"{out}/ones", np.ones(channels, np.float32))
        if node["weight"] is None
        else model.tensor(node["weight"])
    )
    bias = (
        model.constant(f"{out}/zeros", np.zeros(channels, np.float32))
        if node["bias"] is None
        else model.tensor(node["bias"])
    )
    statistics = model.tensors(node["mean"], node["var"])
    model.add(
        "BatchNormalization",
        [*node["inputs"], scale, bias, *statistics],
        out,
        epsilon=node["eps"],
    )


def _clip(low: str | float, high: str | float) -> Convert:
    def convert(model: _Model, node: dict[str, Any]) -> None:
        limits = [node[limit] if isinstance(limit, str) else limit for limit in (low, high)]
        names = [
            model.constant(f"{node['output']}/{side}", np.array(limit, np.float32))
            for side, limit in zip(("low", "high"), limits, strict=True)
        ]
        model.add("Clip", [*node["inputs"], *names], node["output"])

    return convert


def _silu(model: _Model, node: dict[str, Any]) -> None:
    gate = model.add("Sigmoid", node["inputs"], f"{node['output']}/gate")
    model.add("Mul", [*node["inputs"], gate], node["output"])


def _hardsigmoid(model: _Model, node: dict[str, Any]) -> None:
    model.add("HardSigmoid", node["inputs"], node["output"], alpha=1 / 6, beta=0.5)


def _max_pool(model: _Model, node: dict[str, Any]) -> None:
    model.add(
        "MaxPool",
        node["inputs"],
        node["output"],
        kernel_shape=node["kernel"],
        strides=node["stride"],
        pads=node["padding"] * 2,
        dilations=node["dilation"],
        ceil_mode=int(node["ceil"]),
    )


def _avg_pool(model: _Model, node: dict[str, Any]) -> None:
    out, divisor = node["output"], node["divisor"]
    if divisor is not None and node["ceil"]:
        raise SkinnyError("ONNX has no average pooling with both a divisor and rounding up")
    pooled = model.add(
        "AveragePool",
        node["inputs"],
        out if divisor is None else f"{out}/mean",
        kernel_shape=node["kernel"],
        strides=node["stride"],
        pads=node["padding"] * 2,
        ceil_mode=int(node["ceil"]),
        # without padding both settings mean the same; onnxruntime then wants this one
        count_include_pad=int(
            (node["count_include_pad"] or divisor is not None) and any(node["padding"])
        ),
    )
    if divisor is not None:
        factor = np.array(math.prod(node["kernel"]) / divisor, np.float32)
        model.add("Mul", [pooled, model.constant(f"{out}/factor", factor)], out)


def _adaptive_avg_pool(model: _Model, node: dict[str, Any]) -> None:
    """ONNX has the global kind; others are plain pooling where the sides divide evenly."""
    if node["size"] == [1, 1]:
        model.add("GlobalAveragePool", node["inputs"], node["output"])
        return
    sides = model.shape(node["inputs"][0])[2:]
    if any(side % size for side, size in zip(sides, node["size"], strict=True)):
        raise SkinnyError(
            f"ONNX cannot average {sides} to {node['size']}, which does not divide it"
        )
    kernel = [side // size for side, size in zip(sides, node["size"], strict=True)]
    model.add("AveragePool", node["inputs"], node["output"], kernel_shape=kernel, strides=kernel)


def _lrn(model: _Model, node: dict[str, Any]) -> None:
    if node["size"] % 2 == 0:
        raise SkinnyError(
            "ONNX has no local response normalisation over an even number of channels"
        )
    model.add(
        "LRN",
        node["inputs"],
        node["output"],
        size=node["size"],
        alpha=node["alpha"],
        beta=node["beta"],
        bias=node["k"],
    )


def _reshape(model: _Model, node: dict[str, Any]) -> None:
    sides = [0 if side is None else side for side in node["shape"]]
    shape = model.constant(f"{node['output']}/shape", np.array(sides, np.int64))
    model.add("Reshape", [*node["inputs"], shape], node["output"])


def _flatten(model: _Model, node: dict[str, Any]) -> None:
    if (node["start"], node["end"]) != (1, -1):
        raise SkinnyError("ONNX flattens from dimension 1 to the last only")
    model.add("Flatten", node["inputs"], node["output"], axis=1)


_CONVERT: dict[str, Convert] = {
    "conv": _conv,
    "linear": _linear,
    "batch_norm": _batch_norm,
    "relu": _simple("Relu"),
    "relu6": _clip(0.0, 6.0),
    "leaky_relu": _simple("LeakyRelu", alpha="slope"),
    "elu": _simple("Elu", alpha="alpha"),
    "sigmoid": _simple("Sigmoid"),
    "tanh": _simple("Tanh"),
    "silu": _silu,
    "gelu": _simple("Gelu", approximate="approximate"),
    "hardswish": _simple("HardSwish"),
    "hardsigmoid": _hardsigmoid,
    "hardtanh": _clip("min", "max"),
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptive_avg_pool,
    "lrn": _lrn,
    "flatten": _flatten,
    "reshape": _reshape,
    "add": _simple("Add"),
    "concat": _simple("Concat", axis="axis"),
    "softmax": _simple("Softmax", axis="axis"),
    "log_softmax": _simple("LogSoftmax", axis="axis"),
}
