"""Other engines, ready to run a packed model on a batch: those that are installed."""

import importlib
import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny import packing
from skinny.errors import SkinnyError
from skinny.export import to_onnx

Array = NDArray[Any]
Call = Callable[[], Any]
PEERS = ("torch", "onnxruntime", "openvino")


def installed() -> list[str]:
    return [name for name in PEERS if importlib.util.find_spec(name) is not None]


def prepare(name: str, model: Path, inputs: Mapping[str, Array], threads: int) -> Call:
    """A call that runs peer `name` once on arrays by input name, and returns its first output."""
    if name == "torch":
        (x,) = inputs.values()
        return _torch(model, x, threads)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        to_fixed_onnx(model, path, inputs)
        return (_onnxruntime if name == "onnxruntime" else _openvino)(path, inputs, threads)


def to_fixed_onnx(model: Path, path: Path, inputs: Mapping[str, Array]) -> None:
    """An ONNX file of a packed model for inputs of one shape: engines plan better when they know
    it."""
    onnx = importlib.import_module("onnx")

    to_onnx(model, path)
    exported = onnx.load(path)
    sizes: dict[str, int] = {}
    for value in exported.graph.input:
        sides = value.type.tensor_type.shape.dim
        for side, size in zip(sides, inputs[value.name].shape, strict=True):
            if side.dim_param:
                sizes[side.dim_param] = size
            side.dim_value = size
    for value in exported.graph.output:
        for side in value.type.tensor_type.shape.dim:
            if side.dim_param in sizes:
                side.dim_value = sizes[side.dim_param]
    del exported.graph.value_info[:]
    onnx.save(exported, path)


def _torch(model: Path, x: Array, threads: int) -> Call:
    import torch

    from skinny.peers.torch_graph import run

    torch.set_num_threads(threads)
    with packing.open(model) as file:
        graph = file.graph
        assert graph is not None
        if file.format > 1:
            raise SkinnyError("the runner in torch takes graphs of format 1 alone")
        weights = {name: torch.from_numpy(np.array(file.read_float32(name))) for name in file.names}
    batch = torch.from_numpy(x)
    if batch.ndim == 4:  # the faster layout
        batch = batch.contiguous(memory_format=torch.channels_last)
        for name, weight in weights.items():
            if weight.ndim == 4:
                weights[name] = weight.contiguous(memory_format=torch.channels_last)
    return lambda: run(graph, weights, batch)[0].numpy()


def _onnxruntime(path: Path, inputs: Mapping[str, Array], threads: int) -> Call:
    onnxruntime = importlib.import_module("onnxruntime")

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        path.read_bytes(), options, providers=["CPUExecutionProvider"]
    )
    given = dict(inputs)
    return lambda: session.run(None, given)[0]


def _openvino(path: Path, inputs: Mapping[str, Array], threads: int) -> Call:
    openvino = importlib.import_module("openvino")

    core = openvino.Core()
    # float32, as everybody here: newer processors would else get bfloat16 by default.
    config = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = core.compile_model(core.read_model(path.read_bytes()), "CPU", config)
    given = dict(inputs)
    return lambda: compiled(given)[0]
